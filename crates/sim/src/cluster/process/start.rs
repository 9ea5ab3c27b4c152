//! A process starts: its database is opened, and the server's parties are put together around it.

use super::outside::Outside;
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
use ferrite_base::{GroupMap, Incarnation};
use ferrite_cluster::{Cause, Groups, Host, Lease, Node, Parties, Start as NodeStart};
use ferrite_group::{FIRST_GROUP, GroupAppender, Identity, Replication, Supplier};
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::{DatabaseId, LogOptions};
use ferrite_member::{Pauses, Unsynced};
use ferrite_meta::{Kind, State};
use ferrite_notice::Notice;
use ferrite_partition::applier::CopyStart;
use ferrite_partition::assemble::{Assembly, Executors, assemble, partition_ends};
use ferrite_partition::commit::{Completion, DatabaseLog};
use ferrite_partition::coordinator::{Coordinator, Job};
use ferrite_partition::execute::Executor;
use ferrite_partition::gate::{Failure, Gate, SharedFailure};
use ferrite_partition::long_read::{Home, LongRead, LongReads};
use ferrite_partition::recovery::{self, AsMember, Options, Recovered, RecoveredMember, StartError};
use ferrite_partition::snapshots::Snapshots;
use ferrite_partition::waker::{WakingSender, waking_channel};
use ferrite_partition::{Compiled, Event, GroupInboxes, OwnLog, RecoveryProgress, RowCounts};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::Member;
use ferrite_table::Store;
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
    pub partitions: u32,
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
        let Opened { here, lease, host, member, unsynced, whole } = opened;
        let RecoveredMember { recovered, place, replication } = member;
        let Recovered { stores, sequences, compiled, history, log, group, identity, snapshots, .. } = recovered;
        let failure = latch_failure(&log, &unsynced, disk);
        let copy = CopyStart { here: here.node, place, sequences, compiled, history };
        let executing = execute_on_one_thread(on, stores, &copy, group, failure, &mut random);
        let doors = executing.doors(on);
        let Executing { partitions, coordinator, gates, reads, .. } = executing;
        host.set_gates(BTreeMap::from([(FIRST_GROUP, gates)]));
        let groups = Groups::new([Arc::clone(&replication)]);
        let parties = parties(&replication, &log, &doors);
        let seat = Seat::open(here, disk, clock, random.fork(), known, causes.clone(), ledger);
        let seat = seat.unwrap_or_else(|error| panic!("a healthy disk keeps a vote: {error}"));
        let copying = open_copying(disk, snapshots, here, log.index().database(), &replication, &doors);
        let start = NodeStart {
            registration: registration(at, here.incarnation, Kind::Data, Some(seat.vote())),
            identity,
            parties: BTreeMap::from([(FIRST_GROUP, (parties, copy))]),
            groups: groups.clone(),
            lease: lease.clone(),
        };
        let outside = Outside::new(disk, &wishes, &seat, &copying, &doors, ledger);
        let held = outside.held();
        let unable = Arc::<AtomicBool>::default();
        replication.is_limited_by(Arc::clone(&unable));
        let node = Node::new(start, &causes, inbox, Box::new(outside));
        Ok(Process {
            member: here,
            coordinator,
            partitions,
            applier: None,
            node,
            seat,
            copying,
            lease,
            groups,
            supplier: Supplier::new(Arc::clone(&replication), Arc::clone(log.index())),
            replication,
            log,
            reads,
            executor: Executor::new(QUERY_TIME_MAX),
            doors,
            wishes,
            causes,
            random,
            sync_micros: on.sync_micros,
            next_sync: 0,
            whole,
            unsynced,
            busy_until: 0,
            applies_from: 0,
            held,
            pauses: Pauses::default(),
            unable,
            serves: None,
            failed: false,
        })
    }
}

fn parties(replication: &Arc<Replication<Completion>>, log: &DatabaseLog, doors: &Doors) -> Parties {
    Parties {
        partitions: GroupInboxes::single(doors.partitions.clone()),
        coordinator: doors.coordinator.clone(),
        log: OwnLog::new(Arc::clone(replication), Arc::clone(log.index())),
    }
}

fn open_copying(
    disk: &SimulatedDisk,
    snapshots: Snapshots,
    here: Member,
    database: DatabaseId,
    replication: &Arc<Replication<Completion>>,
    doors: &Doors,
) -> Copying {
    let parts = Parts {
        here: here.node,
        database: database.0,
        snapshots,
        group: Arc::clone(replication),
        partitions: doors.partitions.clone(),
        coordinator: doors.coordinator.clone(),
    };
    Copying::open(disk, parts).unwrap_or_else(|error| panic!("a healthy disk keeps what has come: {error}"))
}

/// A database that was opened, and the process that has it.
struct Opened {
    here: Member,
    lease: Lease,
    host: Arc<Host>,
    member: RecoveredMember,
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
            groups: Some(GroupMap::single(on.partitions)),
            partitions_default: 1,
            threads: 0,
            report: &|_: Notice| {},
            progress: &RecoveryProgress::default(),
            runtime: &RuntimeHandle::default(),
        };
        let (unsynced, intact) = unsynced(on);
        let as_member = AsMember { host: Arc::new(noting), timing: TIMING, intact, snapshots: on.snapshots };
        let disk = Arc::new(on.disk.clone());
        let opened = recovery::open_member(disk, clock, random, Path::new(DIRECTORY), options, as_member)?;
        let member = opened.only_group();
        assert_eq!(member.recovered.identity.incarnation, next, "each start is another incarnation");
        let whole = intact && unsynced.is_whole().is_ok();
        assert!(whole || !intact, "a healthy disk takes a word");
        ledger.with(|book| promises::note(book, &member.recovered.identity));
        Ok(Opened { here, lease, host, member, unsynced: Arc::new(unsynced), whole })
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

/// What executes calls, and the ways to it.
struct Executing {
    partitions: Arc<Mutex<Partitions>>,
    coordinator: Coordinator,
    gates: Vec<Arc<Gate>>,
    inboxes: Vec<Sender<Event>>,
    jobs: Sender<Job>,
    current: Arc<Mutex<Arc<Compiled>>>,
    reads: Receiver<LongRead>,
}

impl Executing {
    /// The ways for clients.
    fn doors(&self, on: &Means<'_>) -> Doors {
        Doors {
            partitions: self.inboxes.clone(),
            coordinator: self.jobs.clone(),
            ring: Arc::new(Ring::new_default(self.inboxes.len() as u32)),
            compiled: Arc::clone(&self.current),
            letterbox: Letterbox::new(on.disk.clone()),
            mode: Arc::default(),
            clock: on.clock.clone(),
        }
    }
}

/// Partitions and coordinator as the server assembles them. While the coordinator waits for a
/// partition, it steps one.
fn execute_on_one_thread(
    on: &Means<'_>,
    stores: Vec<Store>,
    copy: &CopyStart,
    group: GroupAppender<Completion>,
    failure: SharedFailure,
    random: &mut SimulatedRandom,
) -> Executing {
    let current = Arc::new(Mutex::new(Arc::clone(&copy.compiled)));
    let published = Arc::clone(&current);
    let (jobs, from_jobs) = unbounded();
    let (long_reads, reads) = LongReads::new(1, Home::Coordinator(jobs.clone()));
    let ends = partition_ends(stores.len());
    let inboxes: Vec<Sender<Event>> = ends.iter().map(|(sender, _)| sender.clone()).collect();
    let executors = assemble(Assembly {
        of: GroupInboxes::single(inboxes.clone()).of().clone(),
        partitions: ends,
        jobs: from_jobs,
        long_reads,
        counts: Arc::new(RowCounts::new(stores.len())),
        stores,
        sequences: copy.sequences.clone(),
        compiled: Arc::clone(&copy.compiled),
        history: copy.history.clone(),
        group,
        failure,
        clock: Arc::new(on.clock.clone()),
        limits: QUERY_TIME_MAX.into(),
        publish: Box::new(move |compiled| *lock(&published) = compiled),
        is_copy: true,
        without_log: None,
        lots: None,
    });
    let Executors { partitions: all, mut coordinator, gates } = executors;
    let partitions = Arc::new(Mutex::new(Partitions { all, random: random.fork() }));
    let moved = Arc::downgrade(&partitions);
    coordinator.on_one_thread(move || {
        let partitions = moved.upgrade().expect("the partitions live as long as the coordinator");
        assert!(lock(&partitions).step(), "{STANDSTILL}");
    });
    Executing { partitions, coordinator, gates, inboxes, jobs, current, reads }
}
