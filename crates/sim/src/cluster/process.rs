//! A node's process: the server's parties, moved on one step at a time. Nothing of it waits for
//! another node.

use crate::clients::{Doors, Letterbox};
use crate::cluster::copying::{Copying, Parts, Wanted};
use crate::cluster::invariants::promises;
use crate::cluster::ledger::Ledger;
use crate::cluster::metadata::{Asks, Seat, registration};
use crate::cluster::noting::Noting;
use crate::cluster::plan::TIMING;
use crate::cluster::wishes::{Wish, Wishes};
use crate::node::{DIRECTORY, STANDSTILL};
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_cluster::{
    Cause, Groups, Host, Lease, Node, NodeEffects, NotHandedOver, Parties, Start as NodeStart, Transport,
};
use ferrite_group::{
    FIRST_GROUP, FromLog, Identity, IdentityError, IdentityFile, Replication, Supplied, Supplier, Urgency,
};
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::LogOptions;
use ferrite_meta::{Ask, Kind, State};
use ferrite_node::{Mode, Pauses, Unsynced};
use ferrite_notice::Notice;
use ferrite_partition::applier::{Applier, CopyStart};
use ferrite_partition::assemble::{Assembly, Executors, assemble, partition_ends};
use ferrite_partition::commit::{Completion, DatabaseLog};
use ferrite_partition::contents::ContentCut;
use ferrite_partition::coordinator::Coordinator;
use ferrite_partition::execute::Executor;
use ferrite_partition::gate::Failure;
use ferrite_partition::long_read::{Home, LongRead, LongReads};
use ferrite_partition::recovery::{self, AsMember, Options, RecoveredMember, StartError};
use ferrite_partition::thread::Partition;
use ferrite_partition::waker::{WakingSender, waking_channel};
use ferrite_partition::{Compiled, OwnLog, RecoveryProgress, RowCounts};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::Member;
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Nothing is interrupted: how long something takes in real time must not decide what happens.
const QUERY_TIME_MAX: Duration = Duration::from_secs(3_600);

/// What a copy reads from its log: runs of positions, and how many there are to one of them.
const FROM_LOG: [(u64, u64); 3] = [(8, 4), (8, 2), (3, 2)];
/// How long it takes to send everything to a node that has nothing, as a leader is told.
const TRANSFER_NANOS: u64 = 300_000_000;

/// What stands around the node.
struct Outside {
    disk: SimulatedDisk,
    file: IdentityFile,
    wishes: Wishes,
    asks: Asks,
    wanted: Wanted,
    cuts: Sender<ContentCut>,
    current: Arc<Mutex<Arc<Compiled>>>,
    held: Arc<Held>,
    mode: Arc<Mode>,
    ledger: Ledger,
}

/// Calls while a leader hands over.
#[derive(Default)]
pub struct Held {
    /// Those that come wait.
    pub holds: AtomicBool,
    /// Those that were taken and have no answer.
    pub waiting: AtomicUsize,
}

impl NodeEffects for Outside {
    fn keep(&mut self, identity: &Identity) -> Result<(), IdentityError> {
        self.file.write(identity, &self.disk, Path::new(DIRECTORY))?;
        self.ledger.with(|book| promises::note(book, identity));
        Ok(())
    }

    fn ask(&mut self, ask: Ask) {
        self.asks.push(ask);
    }

    fn run(&mut self, _: GroupId, applier: Applier) {
        self.wishes.push(Wish::Run(Box::new(applier)));
    }

    fn publisher(&mut self, _: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send> {
        let current = Arc::clone(&self.current);
        Box::new(move |compiled| *current.lock().unwrap_or_else(PoisonError::into_inner) = compiled)
    }

    fn needs_snapshot(&mut self, _: GroupId, node: NodeId) {
        self.wanted.push(node);
    }

    fn needs_no_snapshot(&mut self, _: GroupId, node: NodeId) {
        self.wanted.forget(node);
    }

    fn transfer_nanos(&self, _: GroupId) -> u64 {
        TRANSFER_NANOS
    }

    fn hasher(&mut self, _: GroupId) -> Box<dyn Fn(ContentCut) + Send> {
        let cuts = self.cuts.clone();
        Box::new(move |cut| drop(cuts.send(cut)))
    }

    fn send_from_log(&mut self, _: GroupId, wanted: FromLog) {
        self.wishes.push(Wish::FromLog(wanted));
    }

    fn serves(&mut self, _: GroupId, epoch: Option<Epoch>) {
        self.wishes.push(Wish::Leads(epoch));
    }

    fn paused(&mut self, paused: bool) {
        self.mode.pause(paused);
    }

    fn gave_up(&mut self, _: GroupId, _: Epoch) {}

    fn hold(&mut self, _: GroupId, holds: bool) {
        self.held.holds.store(holds, Ordering::Relaxed);
    }

    fn is_drained(&mut self, _: GroupId) -> bool {
        self.held.waiting.load(Ordering::Relaxed) == 0
    }

    fn handed_over(&mut self, _: GroupId, outcome: Result<NodeId, NotHandedOver>) {
        self.wishes.push(Wish::HandedOver(outcome));
    }

    fn make_anew(&mut self, _: GroupId, reason: &str) {
        self.wishes.push(Wish::MakeAnew(reason.to_owned()));
    }

    fn end(&mut self, reason: &str) {
        self.wishes.push(Wish::End(reason.to_owned()));
    }

    fn notice(&mut self, notice: Notice) {
        self.wishes.push(Wish::Notice(notice));
    }
}

/// Who moves on while the coordinator waits: it waits for partitions of its own node only.
struct Partitions {
    all: Vec<Partition>,
    random: SimulatedRandom,
}

impl Partitions {
    fn ready(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|number| self.all[*number].can_step()).collect()
    }

    fn step(&mut self) -> bool {
        let ready = self.ready();
        if ready.is_empty() {
            return false;
        }
        let number = *self.random.pick(&ready);
        self.all[number].step()
    }
}

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

pub struct Process {
    pub member: Member,
    // First, as it ends before the others do.
    coordinator: Coordinator,
    partitions: Arc<Mutex<Partitions>>,
    applier: Option<Applier>,
    pub node: Node,
    pub seat: Seat,
    pub copying: Copying,
    pub lease: Lease,
    pub groups: Groups,
    pub replication: Arc<Replication<Completion>>,
    supplier: Supplier<Completion>,
    log: DatabaseLog,
    reads: Receiver<LongRead>,
    executor: Executor,
    pub doors: Doors,
    wishes: Wishes,
    causes: WakingSender<Cause>,
    random: SimulatedRandom,
    sync_micros: u64,
    /// The log's next turn is not before this.
    next_sync: u64,
    /// Whether the log has all that this node has acknowledged, and what says so to the next start.
    pub whole: bool,
    unsynced: Arc<Unsynced>,
    /// Its partitions run something long, by its clock.
    busy_until: u64,
    /// Its copy applies nothing before that, by its clock.
    pub applies_from: u64,
    pub held: Arc<Held>,
    /// What administrators have asked of it.
    pub pauses: Pauses,
    /// Some procedures cannot run here, as without a JDK.
    pub unable: Arc<AtomicBool>,
    /// The epoch in which its partitions take calls.
    pub serves: Option<Epoch>,
    /// Its log has failed, and that was so when its answers were last read.
    pub failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Party {
    Partition,
    Coordinator,
    Applier,
    Node,
    Supplier,
    Copying,
    Log,
    LogAhead,
    Read,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Starts where the disk's files end.
    pub fn start(
        on: &Means<'_>,
        mut random: SimulatedRandom,
        known: &State,
        ledger: &Ledger,
    ) -> Result<Process, StartError> {
        let Means { disk, clock, log, partitions, sync_micros, place: at, .. } = *on;
        let wishes = Wishes::default();
        let (causes, inbox) = waking_channel();
        let time: Arc<dyn Clock> = Arc::new(clock.clone());
        let own = Identity::read(disk, Path::new(DIRECTORY)).map_err(StartError::Identity)?;
        let own = own.ok_or(StartError::NoIdentity)?;
        let next = ferrite_base::Incarnation(own.incarnation.0 + 1);
        let here = Member { node: own.node, incarnation: next };
        let lease = Lease::new(Arc::clone(&time));
        let inner = Arc::new(Host::new(causes.clone(), Arc::new(wishes.clone()), lease.clone()));
        let from_log = *random.pick(&FROM_LOG);
        let shared = Arc::clone(&inner);
        let noted = ledger.clone();
        let host = Arc::new(Noting { host: shared, here, ledger: noted, causes: causes.clone(), from_log });
        let options = Options {
            log: log.clone(),
            partitions: Some(partitions),
            partitions_default: 1,
            threads: 0,
            report: &|_: Notice| {},
            progress: &RecoveryProgress::default(),
            runtime: &RuntimeHandle::default(),
        };
        let (unsynced, intact) = unsynced(on);
        let as_member = AsMember { host, timing: TIMING, intact, snapshots: on.snapshots };
        let opened = recovery::open_member(
            Arc::new(disk.clone()),
            Arc::clone(&time),
            &mut random,
            Path::new(DIRECTORY),
            options,
            as_member,
        )?;
        let RecoveredMember { recovered, place, replication } = opened;
        assert_eq!(recovered.identity.incarnation, next, "each start is another incarnation");
        let whole = intact && unsynced.is_whole().is_ok();
        assert!(whole || !intact, "a healthy disk takes a word");
        let unsynced = Arc::new(unsynced);
        ledger.with(|book| promises::note(book, &recovered.identity));
        let recovery::Recovered { stores, sequences, compiled, history, log, group, identity, snapshots, .. } =
            recovered;
        let current = Arc::new(Mutex::new(Arc::clone(&compiled)));
        let (coordinator, jobs) = unbounded();
        let failure = Failure::new(|_| {});
        let latched = Arc::clone(&failure);
        let failing = Arc::clone(&unsynced);
        let below = disk.clone();
        log.on_failure(move |reason| {
            // The end of a process is no failure.
            if !below.has_halted() {
                failing.log_failed();
            }
            latched.set(reason.clone());
        });
        let (long_reads, reads) = LongReads::new(1, Home::Coordinator(coordinator.clone()));
        let counts = Arc::new(RowCounts::new(stores.len()));
        let ring = Arc::new(Ring::new_default(stores.len() as u32));
        let ends = partition_ends(stores.len());
        let inboxes: Vec<_> = ends.iter().map(|(sender, _)| sender.clone()).collect();
        let published = Arc::clone(&current);
        let executors = assemble(Assembly {
            partitions: ends,
            jobs,
            long_reads,
            stores,
            sequences: sequences.clone(),
            compiled: Arc::clone(&compiled),
            history: history.clone(),
            group,
            failure,
            clock: Arc::clone(&time),
            limits: QUERY_TIME_MAX.into(),
            counts,
            publish: Box::new(move |compiled| *lock(&published) = compiled),
            is_copy: true,
            without_log: None,
        });
        let Executors { partitions: all, coordinator: mut multi, gates } = executors;
        inner.set_gates(BTreeMap::from([(FIRST_GROUP, gates)]));
        let partitions = Arc::new(Mutex::new(Partitions { all, random: random.fork() }));
        let moved = Arc::downgrade(&partitions);
        multi.on_one_thread(move || {
            let partitions = moved.upgrade().expect("the partitions live as long as the coordinator");
            assert!(lock(&partitions).step(), "{STANDSTILL}");
        });
        let groups = Groups::new([Arc::clone(&replication)]);
        let own_log = OwnLog::new(Arc::clone(&replication), Arc::clone(log.index()));
        let parties = Parties { partitions: inboxes.clone(), coordinator: coordinator.clone(), log: own_log };
        let copy = CopyStart { here: here.node, place, sequences, compiled, history };
        let seat = Seat::open(here, disk, clock, random.fork(), known, causes.clone(), ledger);
        let seat = seat.unwrap_or_else(|error| panic!("a healthy disk keeps a vote: {error}"));
        let parts = Parts {
            here: here.node,
            database: log.index().database().0,
            snapshots,
            group: Arc::clone(&replication),
            partitions: inboxes.clone(),
            coordinator: coordinator.clone(),
        };
        let copying = Copying::open(disk, parts);
        let copying = copying.unwrap_or_else(|error| panic!("a healthy disk keeps what has come: {error}"));
        let start = NodeStart {
            registration: registration(at, here.incarnation, Kind::Data, Some(seat.vote())),
            identity,
            parties: BTreeMap::from([(FIRST_GROUP, (parties, copy))]),
            groups: groups.clone(),
            lease: lease.clone(),
        };
        let held = Arc::new(Held::default());
        let mode = Arc::<Mode>::default();
        let unable = Arc::<AtomicBool>::default();
        replication.is_limited_by(Arc::clone(&unable));
        let outside = Outside {
            disk: disk.clone(),
            file: IdentityFile::default(),
            wishes: wishes.clone(),
            asks: seat.asks().clone(),
            wanted: copying.wanted.clone(),
            cuts: copying.hasher(),
            current: Arc::clone(&current),
            held: Arc::clone(&held),
            mode: Arc::clone(&mode),
            ledger: ledger.clone(),
        };
        let node = Node::new(start, &causes, inbox, Box::new(outside));
        let letterbox = Letterbox::new(disk.clone());
        let doors =
            Doors { partitions: inboxes, coordinator, ring, compiled: current, letterbox, mode, clock: clock.clone() };
        Ok(Process {
            member: here,
            coordinator: multi,
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
            sync_micros,
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

    fn ready(&self) -> Vec<Party> {
        let mut ready = Vec::new();
        let now = self.doors.clock.monotonic_nanos();
        if now >= self.busy_until {
            let partitions = lock(&self.partitions).ready().len();
            ready.extend(std::iter::repeat_n(Party::Partition, partitions));
            if self.coordinator.can_step() {
                ready.push(Party::Coordinator);
            }
        }
        if now >= self.applies_from && self.applier.as_ref().is_some_and(Applier::can_step) {
            ready.push(Party::Applier);
        }
        if self.node.can_step() {
            ready.push(Party::Node);
        }
        if self.supplier.has_work() {
            ready.push(Party::Supplier);
        }
        if self.copying.can_step() {
            ready.push(Party::Copying);
        }
        if self.log.has_work() && now >= self.next_sync {
            ready.push(Party::Log);
        }
        if !self.reads.is_empty() {
            ready.push(Party::Read);
        }
        ready
    }

    /// What is to be done, for a report.
    pub fn work(&self) -> String {
        let ready = self.ready();
        let waits = self.node.waits();
        format!("ready {ready:?}, waits {waits}, {}", self.copying.work())
    }

    /// Nothing is to be done, now or when time has passed.
    pub fn is_at_rest(&self) -> bool {
        let is_busy = self.doors.clock.monotonic_nanos() < self.busy_until.max(self.applies_from);
        !is_busy && !self.can_step() && !self.log.has_work() && !self.node.waits() && self.copying.is_idle()
    }

    pub fn can_step(&self) -> bool {
        !self.ready().is_empty()
    }

    /// Moves one party on; a line that says which.
    pub fn step(&mut self) -> Option<String> {
        let mut ready = self.ready();
        if ready.is_empty() {
            return None;
        }
        if self.node.waits() {
            ready.push(Party::Node);
        }
        ready.push(Party::LogAhead);
        let party = *self.random.pick(&ready);
        match party {
            Party::Partition => {
                lock(&self.partitions).step();
            }
            Party::Coordinator => {
                self.coordinator.step();
            }
            Party::Applier => {
                if let Some(applier) = &mut self.applier {
                    applier.step();
                }
            }
            Party::Node => {
                self.node.step(self.doors.clock.boottime_nanos());
            }
            Party::Supplier => self.supply(),
            Party::Copying => {
                let wishes = &self.wishes;
                self.copying.step(&mut self.node, &mut |to, bytes| wishes.push_message(to, bytes));
            }
            Party::Log => {
                // Others append while an fsync runs.
                let micros = self.random.below(1 + self.sync_micros / 2);
                self.next_sync = self.doors.clock.monotonic_nanos() + 1_000 * micros;
                self.log.half_step();
            }
            Party::LogAhead => {
                self.log.step_ahead();
            }
            Party::Read => {
                if let Ok(read) = self.reads.try_recv() {
                    read.answer(&mut self.executor);
                }
            }
        }
        Some(format!("{party:?}"))
    }

    /// All that was appended becomes durable.
    pub fn write_log(&mut self) {
        while self.log.half_step() && self.log.has_work() {}
    }

    /// The log is written, or what was written is made durable; its next turn is not before that.
    pub fn half_step_log(&mut self, nanos: u64) {
        self.log.half_step();
        self.next_sync = self.doors.clock.monotonic_nanos() + nanos;
    }

    /// Its copy shows what its log does not have yet.
    pub fn is_ahead_of_log(&self) -> bool {
        let copy = self.node.intake(FIRST_GROUP);
        copy.is_some_and(|copy| copy.applied() > self.replication.durable())
    }

    /// The disk is busy for so long.
    pub fn delay_log(&mut self, nanos: u64) {
        if nanos > 0 {
            self.next_sync = self.next_sync.max(self.doors.clock.monotonic_nanos()) + nanos;
        }
    }

    /// Its partitions do nothing else for so long: what they execute takes its time.
    pub fn keep_busy(&mut self, nanos: u64) {
        self.busy_until = self.busy_until.max(self.doors.clock.monotonic_nanos() + nanos);
    }

    /// A log that may lack what was acknowledged has all again, as the server finds it
    /// (`look_whether_whole`).
    fn look_whether_whole(&mut self) {
        if self.whole {
            return;
        }
        let Some(known) = self.node.state().groups().get(&FIRST_GROUP) else { return };
        let configuration = &known.configuration;
        if configuration.has(self.member) && self.replication.has_committed_start_of(configuration.epoch) {
            self.whole = self.unsynced.is_whole().is_ok();
        }
    }

    /// Sends what is to be sent about the metadata and about snapshots.
    pub fn work_around(&mut self) {
        let now = self.doors.clock.boottime_nanos();
        let asks = self.seat.asks();
        self.pauses.look(self.node.state(), self.member, now, &mut |ask| asks.push(ask));
        let wishes = &self.wishes;
        self.seat.work(|to, message| wishes.push(Wish::Send(to, Urgency::Control, message)));
        if self.serves.is_some() {
            let now = self.doors.clock.monotonic_nanos();
            self.copying.lead(&self.node, now, &mut |to, bytes| wishes.push_message(to, bytes));
        } else {
            self.copying.follow(&self.node, &self.doors.clock);
        }
    }

    /// A message about a snapshot.
    pub fn received_transfer(&mut self, from: NodeId, body: &[u8]) -> Result<(), String> {
        let now = self.doors.clock.monotonic_nanos();
        let wishes = &self.wishes;
        self.copying.received(from, body, now, &mut |to, bytes| wishes.push_message(to, bytes))
    }

    /// Time has passed: whoever has something to do now says so, as its thread would be told.
    pub fn tick(&mut self, now: u64) {
        if now >= self.node.next_tick(now) {
            self.node.tick(now);
        }
        self.seat.tick();
        self.look_whether_whole();
        if !self.log.has_work() {
            // With an interval, an fsync may be due.
            self.log.step();
        }
    }

    /// What it wants done outside.
    pub fn take_wishes(&mut self) -> Vec<Wish> {
        let mut others = Vec::new();
        for wish in self.wishes.take() {
            match wish {
                Wish::Run(applier) => self.applier = Some(*applier),
                other => others.push(other),
            }
        }
        others
    }

    /// Entries are to be read from the log, and sent.
    pub fn request(&mut self, wanted: FromLog) {
        self.supplier.request(wanted, self.doors.clock.monotonic_nanos());
    }

    fn supply(&mut self) {
        let wishes = &self.wishes;
        let mut send = |to, urgency, message| wishes.send(to, urgency, message);
        match self.supplier.step(self.doors.clock.monotonic_nanos(), &mut |_| true, &mut send) {
            Supplied::Working | Supplied::Idle | Supplied::Held => {}
            Supplied::Gone(node) | Supplied::TooLarge(node, _) => self.copying.wanted.push(node),
            Supplied::Failed(node, error) => wishes.push(Wish::NotSupplied(node, error.to_string())),
        }
    }

    /// What was sent to a node may be lost.
    pub fn lost(&mut self, node: NodeId) {
        self.supplier.forget(node);
        self.seat.lost(node);
        self.cause(Cause::Lost(node));
    }

    fn cause(&self, cause: Cause) {
        self.causes.send(cause).expect("the node lives as long as its process");
    }

    pub fn log_has_failed(&self) -> bool {
        self.log.failure().is_some()
    }

    pub fn version(&self) -> u64 {
        lock(&self.doors.compiled).catalog.version.0
    }

    /// All stores are at home.
    pub fn with_stores<T>(&self, look: impl FnOnce(&[&Store]) -> T) -> Option<T> {
        let partitions = lock(&self.partitions);
        let stores: Vec<&Store> = partitions.all.iter().filter_map(Partition::store).collect();
        (stores.len() == partitions.all.len()).then(|| look(&stores))
    }

    /// Ends as a process that is killed does. The disk has halted before.
    pub fn kill(self) {
        let Process { coordinator, partitions, applier, node, log, .. } = self;
        drop(coordinator);
        drop((node, applier, partitions));
        drop(log);
    }
}
