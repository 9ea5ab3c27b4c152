//! One seed from beginning to end: a database that lives several times, each life ended in another
//! way, and is checked after each.

mod damaged;

use crate::backups::{self, BackupTasks, InRestore};
use crate::clients::Clients;
pub use crate::counts::{Counts, SeedReport};
use crate::history::History;
use crate::invariants::{self, Violation};
use crate::node::{self, Node, Stopped};
use crate::operation::Told;
use crate::plan::Plan;
use crate::restore_fixture;
use crate::restore_history::Rows;
use crate::schema;
use crate::shortened;
use crate::state::State;
use crate::trace::Trace;
use damaged::difference;
use ferrite_base::fault::{self, Planted, Point};
use ferrite_io::Disk;
use ferrite_io::simulated::{
    CrashPoint, Fault, FaultKind, PowerLost, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom,
};
use ferrite_log::Durability;
use ferrite_partition::recovery::Recovered;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Runs one seed. Whatever goes wrong, a panic included, is in the report.
pub fn run(seed: u64, show: bool) -> SeedReport {
    let trace = Trace::new(show);
    report(seed, World::new(seed, trace.clone()), &trace)
}

/// The same with a database that is run with durability memory in some of its lives, and with
/// another in others.
pub fn run_switching(seed: u64, show: bool) -> SeedReport {
    let trace = Trace::new(show);
    let mut world = World::new(seed, trace.clone());
    world.plan.power_loss = true;
    world.plan.lives += 3;
    world.switches = Some(SimulatedRandom::new(seed));
    report(seed, world, &trace)
}

fn report(seed: u64, mut world: World, trace: &Trace) -> SeedReport {
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match outcome {
        Ok(result) => result.err(),
        Err(panic) => Some(Violation { invariant: "nothing panics", detail: text_of(&*panic) }),
    };
    if let Some(violation) = &violation {
        trace.line(&format!("violated {violation}"));
    }
    world.count();
    SeedReport { seed, trace: trace.hash(), counts: world.counts, violation }
}

pub(crate) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "a panic".to_owned())
}

pub(crate) struct World {
    random: SimulatedRandom,
    plan: Plan,
    clock: SimulatedClock,
    disk: SimulatedDisk,
    clients: Arc<Mutex<Clients>>,
    trace: Trace,
    counts: Counts,
    /// Each life has its own durability.
    switches: Option<SimulatedRandom>,
    /// The last life has acknowledged what it had only written, and no recovery has made it durable
    /// since: a loss of power may take it.
    only_written: bool,
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// At a change of the disk.
    PowerAtBoundary {
        within: u64,
        /// Counted from the beginning of a restore.
        in_restore: bool,
    },
    /// Between two steps.
    Stop,
    /// A fault of the disk, and some time after it.
    Fault {
        kind: FaultKind,
        within: u64,
        error: i32,
        short: u64,
        /// Counted from the last step of a restore.
        in_restore: bool,
    },
    FullDisk {
        room: u64,
        freed: bool,
    },
    /// Somebody removes the log's files while it goes on, and puts them back when it has ended.
    SweptAway,
    Close,
}

/// Enough for a restore to come to its last step, mostly.
const STEPS_TO_A_RESTORE: u64 = 3_000;

impl World {
    pub(crate) fn new(seed: u64, trace: Trace) -> World {
        let mut random = SimulatedRandom::new(seed);
        let mut plan = Plan::new(&mut random);
        plan.log.database = Some(ferrite_log::DatabaseId::random(&mut random));
        let clock = SimulatedClock::default();
        let disk = SimulatedDisk::new(random.number(), clock.clone());
        disk.unwind_at_power_loss();
        let told = trace.clone();
        disk.trace(move |line| told.line(line));
        trace.line(&format!("seed {seed} {plan:?}"));
        let mut clients = Clients::new(random.fork(), &plan, &schema::first(), trace.clone());
        let rows = Rows::new(&mut random);
        for (path, bytes) in restore_fixture::backups(&plan, &rows, &mut random.fork()) {
            disk.put_file(&path, &bytes);
        }
        clients.history.restored.rows = rows;
        let clients = Arc::new(Mutex::new(clients));
        let counts = Counts::default();
        World { random, plan, clock, disk, clients, trace, counts, switches: None, only_written: false }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&mut self) {
        let clients = self.clients();
        let operations = &clients.history.operations;
        let told =
            |wanted: fn(&Told) -> bool| operations.iter().filter(|operation| wanted(&operation.told)).count() as u64;
        let acknowledged = told(|told| matches!(told, Told::Done(_)));
        let unknown = told(|told| *told == Told::Unknown);
        let all = operations.len() as u64;
        let changes = clients.history.schema.catalog.version.0;
        drop(clients);
        self.counts.operations = all;
        self.counts.acknowledged = acknowledged;
        self.counts.unknown = unknown;
        self.counts.schema_changes = changes;
    }

    fn run(&mut self) -> Result<(), Violation> {
        for life in 1..=self.plan.lives {
            let last = life == self.plan.lives;
            self.switch();
            let recovered = self.recover(last)?;
            let mut turns = self.plan.turns;
            if self.random.percent(30) {
                // A log that seldom gets its turn gathers large batches.
                turns.log = 1;
            }
            let random = self.random.fork();
            let node = Node::new(recovered, &self.disk, &self.clock, Arc::clone(&self.clients), random, turns);
            let end = if last { End::Close } else { self.choose_end() };
            self.trace.line(&format!("life {life} ends by {end:?}"));
            self.live(node, end)?;
        }
        // And once more, to see what is left.
        self.switch();
        drop(self.recover(true)?);
        Ok(())
    }

    /// Which durability the next life has.
    fn switch(&mut self) {
        let before = self.is_in_memory();
        let Some(random) = &mut self.switches else { return };
        self.plan.log.durability = match random.below(10) {
            0..6 => Durability::Memory,
            6 => Durability::None,
            7 => Durability::Interval(Duration::from_millis(random.below(20))),
            _ => Durability::Sync,
        };
        self.plan.power_loss = matches!(self.plan.log.durability, Durability::Memory | Durability::Sync);
        self.trace.line(&format!("durability {}", self.plan.log.durability));
        match (before, self.is_in_memory()) {
            _ if self.counts.recoveries == 0 => {}
            (false, true) => self.counts.to_memory += 1,
            (true, false) => self.counts.from_memory += 1,
            _ => {}
        }
    }

    fn is_in_memory(&self) -> bool {
        self.plan.log.durability == Durability::Memory
    }

    fn choose_end(&mut self) -> End {
        let random = &mut self.random;
        match random.below(10) {
            0..4 if self.plan.power_loss => {
                let in_restore = random.percent(40);
                let within = 1 + random.below(if in_restore { 40 } else { 120 });
                End::PowerAtBoundary { within, in_restore }
            }
            0..5 => End::Stop,
            5..7 => {
                let others = [FaultKind::Preallocate, FaultKind::Name, FaultKind::Read];
                let kind = self.plan.fault_kind(random, &others);
                let error = if kind == FaultKind::Sync || random.percent(60) { Fault::EIO } else { Fault::ENOSPC };
                let within = 1 + random.below(60);
                let short = random.below(20_000);
                let in_restore = matches!(kind, FaultKind::Write | FaultKind::Sync) && within.is_multiple_of(2);
                End::Fault { kind, within, error, short, in_restore }
            }
            7 => {
                let room = random.below(4 * self.plan.log.segment_bytes);
                End::FullDisk { room, freed: random.percent(30) }
            }
            8 if self.plan.log.look_interval.is_zero() && random.percent(60) => End::SweptAway,
            _ => End::Close,
        }
    }

    /// Without a log the disk has little to do: the life would be a long one.
    fn steps_to_a_power_loss(&self) -> u64 {
        if self.is_in_memory() { 3_000 } else { 100_000 }
    }

    /// Runs the node until the end that was chosen for it.
    fn live(&mut self, node: Node, end: End) -> Result<(), Violation> {
        let mut steps = 100 + self.random.below(900);
        let mut trouble = None;
        match end {
            End::PowerAtBoundary { within, in_restore } => {
                let after = self.random.percent(50);
                if in_restore {
                    trouble = Some(InRestore::Crash { within, after });
                } else {
                    self.disk.crash_at(Some(CrashPoint { boundary: self.disk.boundaries() + within, after }));
                }
                steps = self.steps_to_a_power_loss();
            }
            End::Fault { kind, within, error, short, in_restore } => {
                let times = if self.random.percent(50) { 1 } else { u64::MAX };
                let fault = Fault { kind, at: within, times, error, short: short as usize };
                if in_restore {
                    // The log writes and fsyncs what else there is in the same moment, so it is one
                    // of the next.
                    trouble = Some(InRestore::Fault(Fault { at: 1 + within / 2 % 3, ..fault }));
                    steps = STEPS_TO_A_RESTORE;
                } else {
                    self.disk.fail(Fault { at: self.disk.count(kind) + within, ..fault });
                }
            }
            End::FullDisk { room, .. } => self.disk.set_capacity(self.disk.used_bytes() + room),
            End::Stop | End::Close | End::SweptAway => {}
        }
        let mut swept = Vec::new();
        if end != End::Close {
            // In the middle of something, too.
            node.stop_after(steps);
        }
        let plants = self.random.percent(30);
        let contained = fault::contained_here();
        let fired = fault::fired_here();
        let mut backup_tasks = BackupTasks::new(self.disk.clone(), self.random.fork(), trouble);
        let mut planted = None;
        let lived = catch_unwind(AssertUnwindSafe(|| {
            backups::tidy(&node);
            for step in 0..steps {
                backup_tasks.step(&node);
                if plants && planted.is_none() && self.random.percent(1) {
                    planted = Some(self.fault());
                }
                if let Some((point, times)) = planted {
                    fault::plant(point, times);
                }
                node.step();
                planted = fault::uproot();
                if let End::FullDisk { freed: true, .. } = end
                    && step == steps / 2
                {
                    self.disk.set_capacity(u64::MAX);
                }
                if end == End::SweptAway && step == steps / 2 {
                    swept = self.sweep_away();
                }
                if backup_tasks.restores_unknown > 0 {
                    // What was to be tried has been, and nothing is taken any more.
                    break;
                }
            }
        }));
        fault::uproot();
        let ended_by_fault = matches!(&lived, Err(panic) if panic.is::<Planted>());
        let contained = fault::contained_here() - contained;
        if contained + u64::from(ended_by_fault) != fault::fired_here() - fired {
            let detail = "a call was rolled back after a panic that nobody had planted".to_owned();
            return Err(Violation { invariant: "nothing panics", detail });
        }
        self.counts.faults_undone += contained;
        self.counts.snapshots += node.saved();
        let ended = backup_tasks.restored + backup_tasks.restores_failed + backup_tasks.restores_unknown;
        self.counts.restored += backup_tasks.restored;
        self.counts.restores_failed += backup_tasks.restores_failed;
        self.counts.restores_unknown += backup_tasks.restores_unknown;
        if let Some(detail) = backup_tasks.finding.take() {
            return Err(Violation {
                invariant: "a backup that has a manifest is whole, whenever the power goes",
                detail,
            });
        }
        match lived {
            Ok(()) => {}
            Err(panic) if panic.is::<Stopped>() => {
                self.counts.restores_cut_short += backup_tasks.restores_begun - ended
            }
            Err(_) if ended_by_fault => {
                self.counts.faults_final += 1;
                self.counts.restores_cut_short += backup_tasks.restores_begun - ended;
                node.read_letters();
                return self.end_process(node, Restart::Process);
            }
            Err(panic) if panic.is::<PowerLost>() => {
                self.counts.restores_cut_short += backup_tasks.restores_begun - ended;
                // What was delivered before the power went has reached the clients.
                node.read_letters();
                return self.end_process(node, Restart::Power);
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
        self.counts.failures += u64::from(node.log_has_failed());
        if end == End::Close && !node.log_has_failed() {
            return self.close(node);
        }
        let power = self.plan.power_loss && self.random.percent(60) && swept.is_empty();
        self.end_process(node, if power { Restart::Power } else { Restart::Process })?;
        self.put_back(swept);
        Ok(())
    }

    /// Removes the log's files under the node that writes them: from then on it must not
    /// acknowledge anything.
    fn sweep_away(&mut self) -> Vec<(PathBuf, Vec<u8>)> {
        let own = |path: &PathBuf| path.parent() == Some(std::path::Path::new(node::DIRECTORY));
        let files: Vec<PathBuf> = self.disk.files().into_iter().filter(own).collect();
        let swept = files.into_iter().map(|path| {
            let bytes = self.disk.bytes_of(&path).unwrap_or_default();
            self.disk.remove(&path).expect("nothing is wrong with the disk");
            (path, bytes)
        });
        self.counts.swept_away += 1;
        swept.collect()
    }

    fn put_back(&mut self, swept: Vec<(PathBuf, Vec<u8>)>) {
        if swept.is_empty() {
            return;
        }
        // What was made meanwhile belongs to nothing.
        for path in shortened::segments(&self.disk) {
            self.disk.remove(&path).expect("nothing is wrong with the disk");
        }
        swept.into_iter().for_each(|(path, bytes)| self.disk.put_file(&path, &bytes));
    }

    /// Where a panic is to come, and at which time that it is reached. In the midst of a row's
    /// change it ends the process.
    fn fault(&mut self) -> (Point, u32) {
        let point = match self.random.below(10) {
            0 => Point::Structure,
            1..4 => Point::View,
            4..6 => Point::Answer,
            _ => Point::Statement,
        };
        let times = 1 + self.random.below(6) as u32;
        self.trace.line(&format!("plant {point:?} {times}"));
        (point, times)
    }

    fn end_process(&mut self, node: Node, restart: Restart) -> Result<(), Violation> {
        self.disk.halt();
        self.only_written = !self.plan.power_loss;
        let saving = node.is_saving();
        drop(node);
        self.trace.line(&format!("restart {restart:?}"));
        self.clients().server_ended();
        if self.is_in_memory() {
            self.clients().history.lose_unsaved();
            self.counts.ended_unsaved += 1;
            self.counts.ended_saving += u64::from(saving);
        }
        self.disk.heal();
        self.disk.set_capacity(u64::MAX);
        self.disk.restart(restart);
        self.counts.power_losses += u64::from(restart == Restart::Power);
        Ok(())
    }

    /// Answers everything, and closes the log. Afterwards nothing may be lost, whatever the
    /// durability.
    fn close(&mut self, node: Node) -> Result<(), Violation> {
        self.clients().quiet = true;
        while node.step() {}
        if self.switches.as_mut().is_some_and(|random| random.percent(50)) {
            node.take_for_a_backup();
            while node.step() {}
        }
        let waiting = self.clients().waiting();
        let saved = node.save_the_last(&self.disk);
        self.clients().quiet = false;
        if let Err(error) = saved {
            return Err(Violation { invariant: "an orderly end loses nothing", detail: error.to_string() });
        }
        if waiting > 0 {
            let detail = format!("{waiting} calls got no answer, and nobody has anything to do");
            return Err(Violation { invariant: "every call is answered", detail });
        }
        let mut live = None;
        node.stores(&mut |stores| live = Some(State::read(stores)));
        let closed = node.close();
        self.clients().server_ended();
        if let Err(failure) = closed {
            return Err(Violation { invariant: "a healthy log closes", detail: failure.to_string() });
        }
        let copy = self.disk.copy(self.random.number());
        let live = live.expect("the stores were read");
        if live.schema_text.contains(ferrite_backup::restore::STAGING) {
            let detail = "staging tables are left, though the node was well".to_owned();
            return Err(Violation { invariant: "nothing is left of a restore", detail });
        }
        let again = self.open_copy(&copy)?;
        if again != live {
            let detail = difference(&again, &live);
            return Err(Violation { invariant: "after an orderly end all is as it was, row ids too", detail });
        }
        for _ in 0..self.random.below(3) {
            self.check_shortened(&live)?;
        }
        let restart = if self.random.percent(50) { Restart::Power } else { Restart::Process };
        self.disk.restart(restart);
        Ok(())
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One life without faults: the files that it leaves, and what clients know.
    pub(crate) fn live_once(&mut self, closed: bool) -> (Vec<(PathBuf, Vec<u8>)>, History) {
        let fine = "nothing is wrong in a life without faults";
        let recovered = self.recover(true).expect(fine);
        let random = self.random.fork();
        let node = Node::new(recovered, &self.disk, &self.clock, Arc::clone(&self.clients), random, self.plan.turns);
        self.live(node, if closed { End::Close } else { End::Stop }).expect(fine);
        let own = self.disk.files().into_iter().filter(|path| path.starts_with(node::DIRECTORY));
        let files = own.map(|path| {
            let bytes = self.disk.bytes_of(&path).unwrap_or_default();
            (path, bytes)
        });
        (files.collect(), std::mem::take(&mut self.clients().history))
    }

    /// Opens the database, through crashes and faults if the seed wants so, and checks what it
    /// holds.
    fn recover(&mut self, healthy: bool) -> Result<Recovered, Violation> {
        let mut trouble = if healthy { 0 } else { self.random.below(4) };
        loop {
            self.counts.recoveries += 1;
            let crash = trouble > 0 && self.random.percent(60);
            let fault = trouble > 0 && !crash;
            trouble = trouble.saturating_sub(1);
            if crash {
                let within = 1 + self.random.below(12);
                let after = self.random.percent(50);
                self.disk.crash_at(Some(CrashPoint { boundary: self.disk.boundaries() + within, after }));
            }
            if fault {
                // A failed fsync loses what was only written.
                let power_loss = self.plan.power_loss && !self.only_written;
                let plan = Plan { power_loss, ..self.plan.clone() };
                let kind = plan.fault_kind(&mut self.random, &[FaultKind::Read, FaultKind::Name]);
                let at = self.disk.count(kind) + 1 + self.random.below(6);
                let error = Fault::EIO;
                self.disk.fail(Fault { kind, at, times: 1, error, short: self.random.below(5_000) as usize });
            }
            self.trace.line("recover");
            let disk = &self.disk;
            let clock = &self.clock;
            let log = &self.plan.log;
            let partitions = self.plan.partitions;
            let mut random = self.random.fork();
            let opened = catch_unwind(AssertUnwindSafe(|| {
                node::recover(disk, clock, &mut random, log, partitions, &schema::first())
            }));
            self.disk.crash_at(None);
            self.disk.heal();
            match opened {
                Ok(Ok(recovered)) => {
                    let recovered = self.check(recovered)?;
                    // All of it is on the disk.
                    let acknowledged = self.clients().history.acknowledged();
                    self.clients().history.saved.extend(acknowledged);
                    self.only_written = false;
                    return Ok(recovered);
                }
                Ok(Err(error)) if fault => self.trace.line(&format!("recovery failed {error}")),
                Ok(Err(error)) => {
                    let detail = error.to_string();
                    return Err(Violation { invariant: "a healthy disk can be opened", detail });
                }
                Err(panic) if panic.is::<PowerLost>() => self.counts.crashes_in_recovery += 1,
                Err(panic) => std::panic::resume_unwind(panic),
            }
            let power = self.plan.power_loss && self.random.percent(70) && !self.only_written;
            self.disk.restart(if power { Restart::Power } else { Restart::Process });
        }
    }

    fn check(&mut self, recovered: Recovered) -> Result<Recovered, Violation> {
        let state = State::read(&recovered.stores.iter().collect::<Vec<_>>());
        self.trace.line(&format!("recovered {:?} version {} rows {:x}", state.heads, state.version, state.rows_hash));
        invariants::check(&self.clients().history, &state)?;
        let random = self.random.fork();
        let tried = backups::check(&self.disk, &self.plan, random, &self.trace, &self.clients().history, &state)?;
        self.counts.backups_restored += tried.restored;
        self.counts.restores_cut_short += tried.crashed;
        invariants::adopt(&mut self.clients().history, &state);
        for _ in 0..self.random.below(3) {
            self.check_rot(&state)?;
        }
        if self.random.percent(40) {
            self.check_missing(&state)?;
        }
        for _ in 0..self.random.below(3) {
            self.check_shortened(&state)?;
        }
        if self.switches.is_some() {
            self.check_without_newest(&state)?;
        }
        Ok(recovered)
    }
}
