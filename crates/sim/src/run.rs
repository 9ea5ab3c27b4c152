//! One seed from beginning to end: a database that lives several times, each life ended in another
//! way, and is checked after each.

use crate::backups::{self, BackupTasks, InRestore};
use crate::clients::Clients;
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
use ferrite_base::fault::{self, Planted, Point};
use ferrite_io::Disk;
use ferrite_io::simulated::{
    CrashPoint, Fault, FaultKind, PowerLost, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom,
};
use ferrite_partition::recovery::{Recovered, StartError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a seed came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeedReport {
    pub seed: u64,
    pub trace: u64,
    pub counts: Counts,
    pub violation: Option<Violation>,
}

/// How much a seed has tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub operations: u64,
    pub acknowledged: u64,
    pub unknown: u64,
    pub recoveries: u64,
    pub power_losses: u64,
    pub crashes_in_recovery: u64,
    pub failures: u64,
    pub rot: u64,
    pub rot_refused: u64,
    /// Segments of the log removed, and noticed to be missing.
    pub removed: u64,
    pub missed: u64,
    /// Logs cut short, overwritten at their end, or brought from elsewhere; and refused.
    pub shortened: u64,
    pub shortened_refused: u64,
    /// Logs that somebody removed while they were written.
    pub swept_away: u64,
    pub schema_changes: u64,
    pub snapshots: u64,
    pub restored: u64,
    pub restores_failed: u64,
    /// Restores whose last step has an outcome that nobody knew when they ended.
    pub restores_unknown: u64,
    /// Restores in whose middle the node ended.
    pub restores_cut_short: u64,
    /// Backups of the simulated database that were restored into another.
    pub backups_restored: u64,
    /// Planted panics after which a call was rolled back, and those that ended the process.
    pub faults_undone: u64,
    pub faults_final: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.operations += other.operations;
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.recoveries += other.recoveries;
        self.power_losses += other.power_losses;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.failures += other.failures;
        self.rot += other.rot;
        self.rot_refused += other.rot_refused;
        self.removed += other.removed;
        self.missed += other.missed;
        self.shortened += other.shortened;
        self.shortened_refused += other.shortened_refused;
        self.swept_away += other.swept_away;
        self.schema_changes += other.schema_changes;
        self.snapshots += other.snapshots;
        self.restored += other.restored;
        self.restores_failed += other.restores_failed;
        self.restores_unknown += other.restores_unknown;
        self.restores_cut_short += other.restores_cut_short;
        self.backups_restored += other.backups_restored;
        self.faults_undone += other.faults_undone;
        self.faults_final += other.faults_final;
    }
}

/// Runs one seed. Whatever goes wrong, a panic included, is in the report.
pub fn run(seed: u64, show: bool) -> SeedReport {
    let trace = Trace::new(show);
    let mut world = World::new(seed, trace.clone());
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
        World { random, plan, clock, disk, clients: Arc::new(Mutex::new(clients)), trace, counts: Counts::default() }
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
        drop(self.recover(true)?);
        Ok(())
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
                steps = 100_000;
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
        drop(node);
        self.trace.line(&format!("restart {restart:?}"));
        self.clients().server_ended();
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
        let waiting = self.clients().waiting();
        self.clients().quiet = false;
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
                let kind = self.plan.fault_kind(&mut self.random, &[FaultKind::Read, FaultKind::Name]);
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
                Ok(Ok(recovered)) => return self.check(recovered),
                Ok(Err(error)) if fault => self.trace.line(&format!("recovery failed {error}")),
                Ok(Err(error)) => {
                    let detail = error.to_string();
                    return Err(Violation { invariant: "a healthy disk can be opened", detail });
                }
                Err(panic) if panic.is::<PowerLost>() => self.counts.crashes_in_recovery += 1,
                Err(panic) => std::panic::resume_unwind(panic),
            }
            let power = self.plan.power_loss && self.random.percent(70);
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
        Ok(recovered)
    }

    /// All that was recovered is proven to be durable. A bit of it that changes is noticed, or
    /// changes nothing.
    fn check_rot(&mut self, state: &State) -> Result<(), Violation> {
        let copy = self.disk.copy(self.random.number());
        let own = |path: &PathBuf| {
            path.starts_with(node::DIRECTORY) && (path.extension().is_some() || path.ends_with("redo-begun"))
        };
        let files: Vec<_> = copy.files().into_iter().filter(own).collect();
        if files.is_empty() {
            return Ok(());
        }
        let path = self.random.pick(&files).clone();
        let bytes = copy.bytes_of(&path).unwrap_or_default();
        // Where there is something, mostly.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1).max(1) as u64;
        let position = self.random.below(used);
        let bit = self.random.below(8) as u8;
        copy.rot(&path, position, bit);
        self.counts.rot += 1;
        self.trace.line(&format!("rot {} byte {position} bit {bit}", path.display()));
        match self.open_other(&copy) {
            Err(error) => {
                self.counts.rot_refused += 1;
                let named = error.to_string();
                self.trace.line(&format!("refused {named}"));
                if !named.contains("redo-") && !named.contains("snapshot") {
                    let detail = format!("{named:?} does not name the file");
                    return Err(Violation { invariant: "rot is an error with a name", detail });
                }
                Ok(())
            }
            Ok(found) if found == *state => Ok(()),
            Ok(found) => {
                let what = difference(&found, state);
                let detail = format!("bit {bit} of byte {position} of {} changed: {what}", path.display());
                Err(Violation { invariant: "rot is never passed over in silence", detail })
            }
        }
    }

    /// All that was recovered is known to be there. The log's last segment goes, or all of them:
    /// that is noticed, or changes nothing.
    fn check_missing(&mut self, state: &State) -> Result<(), Violation> {
        let copy = self.disk.copy(self.random.number());
        let own =
            |path: &PathBuf| path.starts_with(node::DIRECTORY) && path.extension().is_some_and(|end| end == "log");
        let mut gone: Vec<_> = copy.files().into_iter().filter(own).collect();
        if !self.random.percent(25) {
            // Behind the last one that was written to there may be one that was prepared.
            let used = |path: &&PathBuf| copy.bytes_of(path).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0));
            let from = gone.iter().rposition(|path| used(&path)).unwrap_or_default();
            gone = gone.split_off(from);
        }
        for path in &gone {
            self.trace.line(&format!("remove {}", path.display()));
            copy.remove(path).expect("the copy is a healthy disk");
        }
        self.counts.removed += 1;
        match self.open_other(&copy) {
            Err(error) => {
                self.counts.missed += 1;
                let named = error.to_string();
                self.trace.line(&format!("refused {named}"));
                if gone.iter().any(|path| named.contains(&path.display().to_string())) {
                    return Ok(());
                }
                let detail = format!("{named:?} does not name the segment");
                Err(Violation { invariant: "a missing segment is named", detail })
            }
            Ok(found) if found == *state => Ok(()),
            Ok(found) => {
                let what = difference(&found, state);
                let detail = format!("without {}: {what}", gone[0].display());
                Err(Violation { invariant: "a missing segment is never passed over in silence", detail })
            }
        }
    }

    /// All that is there is known to be. The log becomes shorter, or another one: that is noticed,
    /// or changes nothing.
    fn check_shortened(&mut self, state: &State) -> Result<(), Violation> {
        let copy = self.disk.copy(self.random.number());
        let mut random = self.random.fork();
        // Whoever does not say which database it is takes the one that is there.
        let log = ferrite_log::LogOptions { database: None, ..self.plan.log.clone() };
        let Some(what) = shortened::shorten(&copy, &mut random, &log, self.plan.partitions) else { return Ok(()) };
        self.counts.shortened += 1;
        self.trace.line(&what);
        let clock = SimulatedClock::default();
        let opened = node::recover(&copy, &clock, &mut random, &log, self.plan.partitions, &schema::first());
        match opened.map(|recovered| State::read(&recovered.stores.iter().collect::<Vec<_>>())) {
            Err(error) => {
                self.counts.shortened_refused += 1;
                let named = error.to_string();
                self.trace.line(&format!("refused {named}"));
                if named.contains("redo-") {
                    return Ok(());
                }
                let detail = format!("{named:?} does not name the file: {what}");
                Err(Violation { invariant: "a shortened log is named", detail })
            }
            Ok(found) if found == *state => Ok(()),
            Ok(found) => {
                let detail = format!("{what}: {}", difference(&found, state));
                Err(Violation { invariant: "a shortened log is never passed over in silence", detail })
            }
        }
    }

    fn open_copy(&mut self, copy: &SimulatedDisk) -> Result<State, Violation> {
        self.open_other(copy).map_err(|error| {
            let detail = error.to_string();
            Violation { invariant: "a healthy disk can be opened", detail }
        })
    }

    fn open_other(&mut self, disk: &SimulatedDisk) -> Result<State, StartError> {
        let clock = SimulatedClock::default();
        let mut random = self.random.fork();
        let recovered =
            node::recover(disk, &clock, &mut random, &self.plan.log, self.plan.partitions, &schema::first())?;
        Ok(State::read(&recovered.stores.iter().collect::<Vec<_>>()))
    }
}

fn difference(is: &State, should: &State) -> String {
    let is = format!("{is:#?}");
    let should = format!("{should:#?}");
    let line = is.lines().zip(should.lines()).position(|(is, should)| is != should).unwrap_or_default();
    let part = |text: &str| {
        text.lines()
            .skip(line.saturating_sub(2))
            .take(5)
            .map(|line| line.chars().take(150).collect::<String>())
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!("{} instead of {}", part(&is), part(&should))
}
