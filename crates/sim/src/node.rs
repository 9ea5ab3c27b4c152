//! A whole node on one thread: recovery, then partitions, coordinator and log, moved on one step at
//! a time in an order that the seed decides.
//!
//! The parties are the server's own. What is missing is what stands in front of them (sockets,
//! sessions, compiling of ad hoc texts).

use crate::clients::{Clients, Doors, Letterbox};
use crate::plan::Turns;
use crossbeam_channel::{Receiver, unbounded};
use ferrite_base::SqlLimits;
use ferrite_io::DiskResult;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::LogOptions;
use ferrite_node::groups_calls::GroupsCalls;
use ferrite_partition::assemble::{self, Assembly, Executors, assemble, partition_ends};
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::coordinator::{BACKUP, Coordinator, Job, SaveTold, TakenSnapshot};
use ferrite_partition::execute::Executor;
use ferrite_partition::gate::{Failure, SharedFailure};
use ferrite_partition::long_read::{Home, LongRead, LongReads};
use ferrite_partition::recovery::{self, Recovered, StartError};
use ferrite_partition::snapshots::Snapshots;
use ferrite_partition::thread::Partition;
use ferrite_partition::{RowCounts, Unlogged, first_start, unlogged};
use ferrite_value::ring::Ring;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub const DIRECTORY: &str = "/data";

/// Nothing is interrupted: how long something takes in real time must not decide what happens.
const QUERY_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Of this many steps without a snapshot on the way, one asks for the next.
const SNAPSHOT_ONE_IN: u64 = 300;

/// Somebody waits for another party, and nobody can do anything.
pub const STANDSTILL: &str = "standstill: somebody waits, and no party has anything to do";

/// What a node unwinds with whose steps are used up in the middle of something.
#[derive(Clone, Copy, Debug)]
pub struct Stopped;

/// All but the coordinator, which moves them on while it waits.
struct Others {
    partitions: Vec<Partition>,
    log: DatabaseLog,
    reads: Receiver<LongRead>,
    executor: Executor,
    doors: Doors,
    clients: Arc<Mutex<Clients>>,
    random: SimulatedRandom,
    turns: Turns,
}

pub struct Node {
    // First, as it ends before the others do.
    coordinator: Mutex<Coordinator>,
    others: Arc<Mutex<Others>>,
    random: Mutex<SimulatedRandom>,
    snapshots: Mutex<Snapshots>,
    checkpoint: Mutex<Checkpoint>,
    without_log: Option<Unsaved>,
    saved: AtomicU64,
    saving: AtomicBool,
    steps_left: AtomicU64,
}

/// Durability memory.
struct Unsaved {
    unlogged: Arc<Unlogged>,
    /// Schema changes that wait for a snapshot.
    asking: Arc<Mutex<Vec<SaveTold>>>,
    /// Those that the next snapshot shows, and what was acknowledged when it was asked for.
    next: Mutex<(Vec<SaveTold>, Vec<usize>)>,
}

/// How far the next snapshot on disk is.
enum Checkpoint {
    None,
    Asked(Receiver<TakenSnapshot>),
    /// It waits for the log.
    Taken(Box<TakenSnapshot>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Party {
    Clients,
    Partition(usize),
    Log,
    LogAhead,
    Read,
    Clock,
}

/// Opens the database, and runs the first schema, if there is to be one, where it has none.
pub fn recover(
    disk: &SimulatedDisk,
    clock: &SimulatedClock,
    random: &mut SimulatedRandom,
    log: &LogOptions,
    partitions: u32,
    first: &str,
) -> Result<Recovered, StartError> {
    let disk = Arc::new(disk.clone());
    let time = Arc::new(clock.clone());
    let mut recovered = recovery::open(disk, time, random, Path::new(DIRECTORY), log.clone(), Some(partitions), 1)?;
    if recovered.compiled.catalog.version.0 == 0 && !first.is_empty() {
        first_start::at_first_start(&mut recovered, &[], first, &SqlLimits::CEILING, clock)
            .map_err(StartError::Compile)?;
    }
    Ok(recovered)
}

/// Where the log's first failure is seen.
fn latch_failure(log: &DatabaseLog) -> SharedFailure {
    let failure = Failure::new(|_| {});
    let latched = Arc::clone(&failure);
    log.on_failure(move |reason| latched.set(reason.clone()));
    failure
}

impl Node {
    pub fn new(
        recovered: Recovered,
        disk: &SimulatedDisk,
        clock: &SimulatedClock,
        clients: Arc<Mutex<Clients>>,
        mut random: SimulatedRandom,
        turns: Turns,
    ) -> Node {
        let Recovered { partitions: of, stores, sequences, compiled, history, log, group, snapshots, unlogged, .. } =
            recovered;
        let current = Arc::new(Mutex::new(Arc::clone(&compiled)));
        let (coordinator, jobs) = unbounded();
        let (long_reads, reads) = LongReads::new(1, Home::Coordinator(coordinator.clone()));
        let ends = partition_ends(stores.len());
        let inboxes: Vec<_> = ends.iter().map(|(sender, _)| sender.clone()).collect();
        let published = Arc::clone(&current);
        let (without_log, unsaved) = unlogged.map(in_memory).unzip();
        let executors = assemble(Assembly {
            of: of.clone(),
            partitions: ends,
            jobs,
            long_reads,
            counts: Arc::new(RowCounts::new(stores.len())),
            stores,
            sequences,
            compiled,
            history,
            group: group.clone(),
            failure: latch_failure(&log),
            clock: Arc::new(clock.clone()),
            limits: QUERY_TIME_MAX.into(),
            publish: Box::new(move |compiled| *published.lock().unwrap_or_else(PoisonError::into_inner) = compiled),
            is_copy: false,
            without_log,
            lots: None,
        });
        let Executors { partitions, coordinator: mut multi, .. } = executors;
        let doors = Doors {
            ring: Arc::new(Ring::new_default(of.len() as u32)),
            of,
            partitions: inboxes,
            coordinator,
            compiled: current,
            letterbox: Letterbox::new(disk.clone()),
            mode: Arc::default(),
            clock: clock.clone(),
            groups: GroupsCalls::new(None),
        };
        let own = random.fork();
        let executor = Executor::new(QUERY_TIME_MAX);
        let others = Others { partitions, log, reads, executor, doors, clients, random, turns };
        let others = Arc::new(Mutex::new(others));
        // Not a strong one, or the two would keep each other alive.
        let moved = Arc::downgrade(&others);
        multi.on_one_thread(move || {
            let others = moved.upgrade().expect("the others live as long as the coordinator");
            assert!(lock(&others).step(), "{STANDSTILL}");
        });
        Node {
            coordinator: Mutex::new(multi),
            others,
            random: Mutex::new(own),
            snapshots: Mutex::new(snapshots),
            checkpoint: Mutex::new(Checkpoint::None),
            without_log: unsaved,
            saved: AtomicU64::new(0),
            saving: AtomicBool::new(false),
            steps_left: AtomicU64::new(u64::MAX),
        }
    }

    /// After this many steps it unwinds with [`Stopped`], whatever it is about.
    pub fn stop_after(&self, steps: u64) {
        self.steps_left.store(steps, Ordering::Relaxed);
    }

    /// Snapshots that it has made.
    pub fn saved(&self) -> u64 {
        self.saved.load(Ordering::Relaxed)
    }

    /// It is writing one, or its life has ended in the middle of that.
    pub fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Relaxed)
    }

    pub(crate) fn with_clients<T>(&self, body: impl FnOnce(&Doors, &mut Clients) -> T) -> T {
        let others = self.others();
        let mut clients = others.clients();
        body(&others.doors, &mut clients)
    }

    /// A step for somebody who waits.
    pub(crate) fn move_on(&self) {
        assert!(self.step(), "{STANDSTILL}");
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn below(&self, end: u64) -> u64 {
        lock(&self.random).below(end)
    }

    /// Moves one party on, or the snapshot. False if none has anything to do.
    pub fn step(&self) -> bool {
        count_step(&self.steps_left);
        let checkpoint = std::mem::replace(&mut *lock(&self.checkpoint), Checkpoint::None);
        let next = match checkpoint {
            Checkpoint::None if self.is_asked() => self.ask_for_snapshot(),
            Checkpoint::None if self.is_quiet() || self.below(SNAPSHOT_ONE_IN) > 0 => Checkpoint::None,
            Checkpoint::None => {
                *lock(&self.checkpoint) = self.ask_for_snapshot();
                return true;
            }
            Checkpoint::Asked(taken) => match taken.try_recv() {
                Ok(taken) => Checkpoint::Taken(Box::new(taken)),
                Err(_) => Checkpoint::Asked(taken),
            },
            Checkpoint::Taken(taken) if taken.logged.is_empty() => Checkpoint::Taken(taken),
            Checkpoint::Taken(taken) => {
                self.save(*taken);
                return true;
            }
        };
        let waits = self.without_log.is_some() && !matches!(next, Checkpoint::None);
        *lock(&self.checkpoint) = next;
        self.step_party() || waits
    }

    /// A schema change waits for a snapshot.
    fn is_asked(&self) -> bool {
        self.without_log.as_ref().is_some_and(|without| !lock(&without.asking).is_empty())
    }

    /// What a server with durability memory does at its end: everything is in a snapshot. Nothing
    /// is submitted any more.
    pub fn save_the_last(&self, disk: &SimulatedDisk) -> DiskResult<()> {
        let Some(without) = &self.without_log else { return Ok(()) };
        while without.unlogged.has_changed() || !matches!(*lock(&self.checkpoint), Checkpoint::None) {
            if matches!(*lock(&self.checkpoint), Checkpoint::None) {
                *lock(&self.checkpoint) = self.ask_for_snapshot();
            }
            self.step();
        }
        unlogged::end_run(disk, Path::new(DIRECTORY))
    }

    /// What a backup does first: it takes all stores. That saves nothing of them here.
    pub fn take_for_a_backup(&self) {
        let (to, taken) = unbounded();
        let job = Job::Checkpoint { snapshot: BACKUP, to };
        self.others().doors.coordinator.send(job).expect("the coordinator is there");
        while taken.is_empty() {
            self.move_on();
        }
    }

    fn is_quiet(&self) -> bool {
        self.others().clients().quiet
    }

    fn ask_for_snapshot(&self) -> Checkpoint {
        let (to, taken) = unbounded();
        let snapshot = lock(&self.snapshots).next_number();
        self.trace(&format!("checkpoint {snapshot}"));
        if let Some(without) = &self.without_log {
            let asking = std::mem::take(&mut *lock(&without.asking));
            let mut next = lock(&without.next);
            next.0.extend(asking);
            next.1 = self.others().clients().history.acknowledged();
        }
        self.others().doors.coordinator.send(Job::Checkpoint { snapshot, to }).expect("the coordinator is there");
        Checkpoint::Asked(taken)
    }

    /// Writes a snapshot; between its blocks the parties go on.
    fn save(&self, taken: TakenSnapshot) {
        let Node { coordinator, others, random, steps_left, .. } = self;
        // Without a log nearly every turn is a transaction: uncounted, they would make each
        // snapshot longer than the one before, and the life endless.
        let counts = self.without_log.is_some();
        let pace = |_| {
            let turns = lock(random).below(4);
            for _ in 0..turns {
                if counts {
                    count_step(steps_left);
                }
                step_party(coordinator, others, random);
            }
            Ok(())
        };
        self.saving.store(true, Ordering::Relaxed);
        let saved = lock(&self.snapshots).save(taken, 0, &pace);
        self.saving.store(false, Ordering::Relaxed);
        self.saved.fetch_add(u64::from(saved.is_ok()), Ordering::Relaxed);
        if let Some(without) = &self.without_log {
            self.tell_saved(without, saved.is_ok());
        }
        let outcome = match saved {
            Ok(saved) => format!("saved {} cut {} {:?}", saved.snapshot, saved.segments_cut, saved.not_cut),
            Err(error) => format!("not saved {error}"),
        };
        self.trace(&outcome);
    }

    /// Answers the schema changes that waited for the snapshot. Without one they wait for the next.
    fn tell_saved(&self, without: &Unsaved, complete: bool) {
        let (asking, acknowledged) = std::mem::take(&mut *lock(&without.next));
        if !complete {
            without.unlogged.note();
            return lock(&without.asking).extend(asking);
        }
        self.others().clients().history.saved.extend(acknowledged);
        asking.into_iter().for_each(|told| told(Ok(())));
        self.read_letters();
    }

    pub(crate) fn trace(&self, line: &str) {
        self.others().trace(line);
    }

    fn step_party(&self) -> bool {
        step_party(&self.coordinator, &self.others, &self.random)
    }

    /// Reads answers that were given before the process ended.
    pub fn read_letters(&self) {
        self.others().read_letters();
    }

    pub fn log_has_failed(&self) -> bool {
        self.others().log.failure().is_some()
    }

    /// All stores are at home, and nothing is on the way.
    pub fn stores(&self, look: &mut dyn FnMut(&[&ferrite_table::Store])) {
        let others = self.others();
        let stores: Vec<_> = others.partitions.iter().filter_map(Partition::store).collect();
        look(&stores);
    }

    /// The orderly end.
    pub fn close(self) -> Result<(), ferrite_log::LogFailed> {
        let Node { coordinator, others, .. } = self;
        drop(coordinator);
        let others = Arc::into_inner(others).expect("nobody else has them");
        let Others { log, .. } = others.into_inner().unwrap_or_else(PoisonError::into_inner);
        log.close()
    }
}

/// Durability memory: what takes the log's place, and what waits for snapshots.
fn in_memory(unlogged: Arc<Unlogged>) -> (assemble::WithoutLog, Unsaved) {
    let asking = Arc::<Mutex<Vec<SaveTold>>>::default();
    let asked = Arc::clone(&asking);
    let save = Box::new(move |told| lock(&asked).push(told));
    let without_log = assemble::WithoutLog { unlogged: Arc::clone(&unlogged), save };
    (without_log, Unsaved { unlogged, asking, next: Mutex::default() })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count_step(steps_left: &AtomicU64) {
    if steps_left.fetch_sub(1, Ordering::Relaxed) == 0 {
        std::panic::resume_unwind(Box::new(Stopped));
    }
}

/// Moves one party on, the coordinator among them. False if none has anything to do.
fn step_party(coordinator: &Mutex<Coordinator>, others: &Mutex<Others>, random: &Mutex<SimulatedRandom>) -> bool {
    let can = lock(coordinator).can_step();
    let (mine, all) = {
        let others = lock(others);
        let mine = if can { others.turns.coordinator } else { 0 };
        (mine, mine + others.ready().iter().map(|(weight, _)| weight).sum::<u64>())
    };
    if all == 0 {
        return false;
    }
    let point = lock(random).below(all);
    if point < mine {
        lock(coordinator).step();
        lock(others).read_letters();
        true
    } else {
        lock(others).step()
    }
}

impl Others {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who can do something now, and how much each wants its turn.
    fn ready(&self) -> Vec<(u64, Party)> {
        let turns = &self.turns;
        let mut ready = Vec::new();
        if self.clients().can_submit() {
            ready.push((turns.submit, Party::Clients));
        }
        for (number, partition) in self.partitions.iter().enumerate() {
            if partition.can_step() {
                ready.push((turns.partition, Party::Partition(number)));
            }
        }
        if self.log.has_work() {
            ready.push((turns.log, Party::Log));
        }
        if !self.reads.is_empty() {
            ready.push((turns.log, Party::Read));
        }
        if !ready.is_empty() {
            ready.push((turns.ahead, Party::LogAhead));
            ready.push((turns.clock, Party::Clock));
        }
        ready
    }

    fn step(&mut self) -> bool {
        let ready = self.ready();
        let all: u64 = ready.iter().map(|(weight, _)| weight).sum();
        if all == 0 {
            return false;
        }
        let mut point = self.random.below(all);
        let chosen = ready.iter().find(|(weight, _)| {
            let here = point < *weight;
            point = point.saturating_sub(*weight);
            here
        });
        let (_, party) = *chosen.expect("the point lies within the weights");
        match party {
            Party::Clients => {
                let clients = Arc::clone(&self.clients);
                clients.lock().unwrap_or_else(PoisonError::into_inner).submit(&self.doors);
            }
            Party::Partition(number) => {
                self.trace(&format!("partition {number}"));
                self.partitions[number].step();
            }
            Party::Log => {
                self.trace("log");
                self.log.step();
            }
            Party::LogAhead => {
                self.log.step_ahead();
            }
            Party::Read => {
                if let Ok(read) = self.reads.try_recv() {
                    read.answer(&mut self.executor);
                }
            }
            Party::Clock => {
                let micros = 1 << self.random.below(17);
                self.doors.clock.advance(Duration::from_micros(micros));
                // With an interval, an fsync may be due.
                self.log.step();
            }
        }
        self.read_letters();
        true
    }

    fn read_letters(&self) {
        let failed = self.log.failure().is_some();
        let mut clients = self.clients();
        clients.read_letters(&self.doors.letterbox);
        clients.history.failed |= failed;
    }

    fn trace(&self, line: &str) {
        self.clients().trace.line(line);
    }
}
