//! A process starts: its database is opened, and the server's parties are put together around it.

use super::hosted::HostedGroup;
use super::lots::{Agents, LotParty};
use super::outside::{OfGroup, Outside};
use super::{Partitions, Process, lock};
use crate::clients::{Doors, Letterbox};
use crate::cluster::copying::{Copying, Parts};
use crate::cluster::invariants::promises;
use crate::cluster::ledger::Ledger;
use crate::cluster::metadata::{Seat, registration};
use crate::cluster::noting::Noting;
use crate::cluster::plan::TIMING;
use crate::cluster::wishes::Wishes;
use crate::node::{DIRECTORY, STANDSTILL};
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{GroupId, GroupMap, GroupPartitions, Incarnation};
use ferrite_cluster::{Cause, Groups, Host, Lease, Node, Parties, Start as NodeStart};
use ferrite_group::{Identity, Replication, Supplier};
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::LogOptions;
use ferrite_member::{Pauses, Unsynced};
use ferrite_meta::{Kind, State};
use ferrite_node::Mode;
use ferrite_node::groups_calls::GroupsCalls;
use ferrite_notice::Notice;
use ferrite_partition::applier::CopyStart;
use ferrite_partition::assemble::{Assembly, Executors, assemble, partition_ends};
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::commit::{Completion, DatabaseLog};
use ferrite_partition::coordinator::{Coordinator, Job};
use ferrite_partition::execute::Executor;
use ferrite_partition::gate::{Failure, Gate, SharedFailure};
use ferrite_partition::long_read::{Home, LongRead, LongReads};
use ferrite_partition::lots::LotLinks;
use ferrite_partition::recovery::{
    self, AsMember, MemberStream, Options, RecoveredGroup, RecoveredMembers, RecoveredNode, StartError,
};
use ferrite_partition::snapshots::Snapshots;
use ferrite_partition::waker::{WakingSender, waking_channel};
use ferrite_partition::{Compiled, Event, GroupInboxes, OwnLog, RecoveryProgress, RowCounts};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::Member;
use ferrite_value::ring::Ring;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nothing is interrupted: how long something takes in real time must not decide what happens.
const QUERY_TIME_MAX: Duration = Duration::from_secs(3_600);

/// What a copy reads from its log: runs of positions, and how many there are to one of them.
const FROM_LOG: [(u64, u64); 3] = [(8, 4), (8, 2), (3, 2)];

/// What a process has of its machine.
pub struct Means<'a> {
    pub disk: &'a SimulatedDisk,
    pub clock: &'a SimulatedClock,
    pub log: &'a LogOptions,
    pub groups: &'a GroupMap,
    /// Where other nodes reach it.
    pub place: u32,
    /// Nodes that have nothing get snapshots.
    pub snapshots: bool,
    /// Between two turns of the log, at most.
    pub sync_micros: u64,
    /// How often the machine was switched on.
    pub boot: u64,
}

/// Whether the log has all that this node has acknowledged, as the files on its disk say.
fn unsynced(on: &Means<'_>) -> (Unsynced, bool) {
    let disk = Arc::new(on.disk.clone());
    let boot = format!("boot {}", on.boot);
    let unsynced = Unsynced::begin(disk, Path::new(DIRECTORY), boot, on.log.durability);
    unsynced.unwrap_or_else(|error| panic!("a healthy disk says what was written: {error}"))
}

/// The next start throws away what the node has.
pub fn throw_away(on: &Means<'_>) {
    unsynced(on).0.throw_away().expect("a healthy disk takes a word");
}

impl Process {
    /// Starts where the disk's files end.
    pub fn start(
        on: &Means<'_>,
        mut random: SimulatedRandom,
        known: &State,
        ledger: &Ledger,
    ) -> Result<Process, StartError> {
        let Means { disk, clock, place: at, .. } = *on;
        let wishes = Wishes::default();
        let (causes, inbox) = waking_channel();
        let opened = Opened::open(on, &mut random, ledger, &causes, &wishes)?;
        let Opened { here, lease, host, members, unsynced, whole } = opened;
        let RecoveredMembers { node: RecoveredNode { log, identity, groups: recovered, .. }, streams } = members;
        let failure = latch_failure(&log, &unsynced, disk);
        let shared =
            Together { on, log: &log, here, failure, letterbox: Letterbox::new(disk.clone()), mode: Arc::default() };
        let agents = Agents::default();
        let lots = LotParty::new(here.node, on.groups, &agents, &wishes, clock, &streams);
        let found = recovered.into_iter().zip(streams);
        let assembled: Vec<_> = found
            .map(|(group, stream)| execute_on_one_thread(&shared, lots.as_ref(), group, stream, &mut random))
            .collect();
        let groups = Groups::new(assembled.iter().map(|of| Arc::clone(&of.replication)));
        let seat = Seat::open(here, disk, clock, random.fork(), known, causes.clone(), ledger);
        let seat = seat.unwrap_or_else(|error| panic!("a healthy disk keeps a vote: {error}"));
        let unable = Arc::<AtomicBool>::default();
        agents.are(assembled.iter().map(|of| (of.replication.id(), of.jobs.clone())).collect());
        let AllHosted { around, parties, hosted } = AllHosted::of(assembled, &shared, &host, &unable, lots.as_ref());
        let start = NodeStart {
            registration: registration(at, here.incarnation, Kind::Data, Some(seat.vote())),
            identity,
            parties,
            groups: groups.clone(),
            lease: lease.clone(),
        };
        let outside = Outside::new(disk, &wishes, &seat, around, &shared.mode, ledger);
        let node = Node::new(start, &causes, inbox, Box::new(outside));
        let Together { letterbox, .. } = shared;
        Ok(Process {
            member: here,
            hosted,
            node,
            seat,
            lease,
            groups,
            lots,
            all_groups: on.groups.groups(),
            log,
            executor: Executor::new(QUERY_TIME_MAX),
            clock: clock.clone(),
            letterbox,
            wishes,
            causes,
            random,
            sync_micros: on.sync_micros,
            next_sync: 0,
            whole,
            unsynced,
            busy_until: 0,
            pauses: Pauses::default(),
            unable,
            failed: false,
        })
    }
}

/// What the process, its node, and what stands around that have of each group.
struct AllHosted {
    around: BTreeMap<GroupId, OfGroup>,
    parties: BTreeMap<GroupId, (Parties, CopyStart)>,
    hosted: BTreeMap<GroupId, HostedGroup>,
}

impl AllHosted {
    fn of(
        assembled: Vec<Executing>,
        shared: &Together<'_>,
        host: &Host,
        unable: &Arc<AtomicBool>,
        lots: Option<&LotParty>,
    ) -> AllHosted {
        let mut all = AllHosted { around: BTreeMap::new(), parties: BTreeMap::new(), hosted: BTreeMap::new() };
        for of in assembled {
            let id = of.replication.id();
            host.set_gates(BTreeMap::from([(id, of.gates.clone())]));
            of.replication.is_limited_by(Arc::clone(unable));
            let of_node = of.parties(shared.log);
            let cancellations = Arc::clone(&of.cancellations);
            let (of, copy) = of.hosted(shared, lots);
            all.parties.insert(id, (of_node, copy));
            all.around.insert(id, OfGroup::new(&of.copying, &of.doors, &of.held, &cancellations));
            all.hosted.insert(id, of);
        }
        all
    }
}

/// What all groups of a process have together.
struct Together<'a> {
    on: &'a Means<'a>,
    log: &'a DatabaseLog,
    here: Member,
    failure: SharedFailure,
    letterbox: Arc<Letterbox>,
    mode: Arc<Mode>,
}

/// A database that was opened, and the process that has it.
struct Opened {
    here: Member,
    lease: Lease,
    host: Arc<Host>,
    members: RecoveredMembers,
    unsynced: Arc<Unsynced>,
    /// The log has all that this node has acknowledged.
    whole: bool,
}

impl Opened {
    fn open(
        on: &Means<'_>,
        random: &mut SimulatedRandom,
        ledger: &Ledger,
        causes: &WakingSender<Cause>,
        wishes: &Wishes,
    ) -> Result<Opened, StartError> {
        let own = Identity::read(on.disk, Path::new(DIRECTORY)).map_err(StartError::Identity)?;
        let own = own.ok_or(StartError::NoIdentity)?;
        let next = Incarnation(own.incarnation.0 + 1);
        let here = Member { node: own.node, incarnation: next };
        let clock: Arc<dyn Clock> = Arc::new(on.clock.clone());
        let lease = Lease::new(Arc::clone(&clock));
        let host = Arc::new(Host::new(causes.clone(), Arc::new(wishes.clone()), lease.clone()));
        let from_log = *random.pick(&FROM_LOG);
        let noting = Noting { host: Arc::clone(&host), here, ledger: ledger.clone(), causes: causes.clone(), from_log };
        let options = Options {
            log: on.log.clone(),
            groups: Some(on.groups.clone()),
            partitions_default: 1,
            threads: 0,
            report: &|_: Notice| {},
            progress: &RecoveryProgress::default(),
            runtime: &RuntimeHandle::default(),
        };
        let (unsynced, intact) = unsynced(on);
        let as_member = AsMember { host: Arc::new(noting), timing: TIMING, intact, snapshots: on.snapshots };
        let disk = Arc::new(on.disk.clone());
        let members = recovery::open_member(disk, clock, random, Path::new(DIRECTORY), options, as_member)?;
        assert_eq!(members.node.identity.incarnation, next, "each start is another incarnation");
        let whole = intact && unsynced.is_whole().is_ok();
        assert!(whole || !intact, "a healthy disk takes a word");
        ledger.with(|book| promises::note(book, &members.node.identity));
        Ok(Opened { here, lease, host, members, unsynced: Arc::new(unsynced), whole })
    }
}

/// The log's first failure reaches the gates, and the next start.
fn latch_failure(log: &DatabaseLog, unsynced: &Arc<Unsynced>, disk: &SimulatedDisk) -> SharedFailure {
    let failure = Failure::new(|_| {});
    let latched = Arc::clone(&failure);
    let failing = Arc::clone(unsynced);
    let below = disk.clone();
    log.on_failure(move |reason| {
        // The end of a process is no failure.
        if !below.has_halted() {
            failing.log_failed();
        }
        latched.set(reason.clone());
    });
    failure
}

/// What executes a group's calls, and the ways to it.
struct Executing {
    of: GroupPartitions,
    partitions: Arc<Mutex<Partitions>>,
    coordinator: Coordinator,
    gates: Vec<Arc<Gate>>,
    inboxes: Vec<Sender<Event>>,
    jobs: Sender<Job>,
    current: Arc<Mutex<Arc<Compiled>>>,
    reads: Receiver<LongRead>,
    cancellations: Arc<Cancellations>,
    copy: CopyStart,
    replication: Arc<Replication<Completion>>,
    snapshots: Snapshots,
}

impl Executing {
    fn parties(&self, log: &DatabaseLog) -> Parties {
        Parties {
            partitions: GroupInboxes::new(self.of.clone(), self.inboxes.clone()),
            coordinator: self.jobs.clone(),
            log: OwnLog::new(Arc::clone(&self.replication), Arc::clone(log.index())),
        }
    }

    fn hosted(self, shared: &Together<'_>, lots: Option<&LotParty>) -> (HostedGroup, CopyStart) {
        let Together { on, log, here, letterbox, mode, .. } = shared;
        let inboxes = GroupInboxes::new(self.of.clone(), self.inboxes.clone());
        let doors = Doors {
            of: self.of,
            partitions: self.inboxes,
            coordinator: self.jobs.clone(),
            ring: Arc::new(Ring::new_default(on.groups.partitions())),
            compiled: self.current,
            letterbox: Arc::clone(letterbox),
            mode: Arc::clone(mode),
            clock: on.clock.clone(),
            groups: GroupsCalls::new(lots.map(|lots| lots.sequencer.clone())),
        };
        let parts = Parts {
            here: here.node,
            database: log.index().database().0,
            snapshots: self.snapshots,
            group: Arc::clone(&self.replication),
            partitions: inboxes,
            coordinator: self.jobs,
        };
        let copying = Copying::open(on.disk, parts);
        let hosted = HostedGroup {
            coordinator: self.coordinator,
            partitions: self.partitions,
            applier: None,
            copying: copying.unwrap_or_else(|error| panic!("a healthy disk keeps what has come: {error}")),
            supplier: Supplier::new(Arc::clone(&self.replication), Arc::clone(log.index())),
            replication: self.replication,
            reads: self.reads,
            doors,
            applies_from: 0,
            held: Arc::default(),
            serves: None,
        };
        (hosted, self.copy)
    }
}

/// Partitions and coordinator as the server assembles them. While the coordinator waits for a
/// partition, it steps one.
fn execute_on_one_thread(
    shared: &Together<'_>,
    party: Option<&LotParty>,
    recovered: RecoveredGroup,
    stream: MemberStream,
    random: &mut SimulatedRandom,
) -> Executing {
    let RecoveredGroup { partitions: of, stores, sequences, compiled, history, lots, group, snapshots } = recovered;
    let MemberStream { place, replication } = stream;
    let copy = CopyStart { here: shared.here.node, place, sequences, compiled, history, lots };
    let current = Arc::new(Mutex::new(Arc::clone(&copy.compiled)));
    let published = Arc::clone(&current);
    let (jobs, from_jobs) = unbounded();
    let (long_reads, reads) = LongReads::new(1, Home::Coordinator(jobs.clone()));
    let cancellations = Arc::clone(long_reads.cancellations().all());
    let ends = partition_ends(stores.len());
    let inboxes: Vec<Sender<Event>> = ends.iter().map(|(sender, _)| sender.clone()).collect();
    let executors = assemble(Assembly {
        of: of.clone(),
        partitions: ends,
        jobs: from_jobs,
        long_reads,
        counts: Arc::new(RowCounts::new(shared.on.groups.partitions() as usize)),
        stores,
        sequences: copy.sequences.clone(),
        compiled: Arc::clone(&copy.compiled),
        history: copy.history.clone(),
        group,
        failure: Arc::clone(&shared.failure),
        clock: Arc::new(shared.on.clock.clone()),
        limits: QUERY_TIME_MAX.into(),
        publish: Box::new(move |compiled| *lock(&published) = compiled),
        is_copy: true,
        without_log: None,
        lots: party.map(|party| Arc::clone(&party.hub) as Arc<dyn LotLinks>),
    });
    let Executors { partitions: all, mut coordinator, gates } = executors;
    let partitions = Arc::new(Mutex::new(Partitions { all, random: random.fork() }));
    let moved = Arc::downgrade(&partitions);
    coordinator.on_one_thread(move || {
        let partitions = moved.upgrade().expect("the partitions live as long as the coordinator");
        assert!(lock(&partitions).step(), "{STANDSTILL}");
    });
    Executing {
        of,
        partitions,
        coordinator,
        gates,
        inboxes,
        jobs,
        current,
        reads,
        cancellations,
        copy,
        replication,
        snapshots,
    }
}
