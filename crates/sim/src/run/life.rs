//! A life of the database: it is run until the end that was chosen for it, which may come in the
//! midst of anything.

use super::World;
use super::damaged::difference;
use crate::backups::{BackupTasks, InRestore};
use crate::invariants::Violation;
use crate::node::{Node, Stopped};
use crate::state::State;
use crate::{backups, node, shortened};
use ferrite_base::fault::{self, Planted, Point};
use ferrite_io::Disk;
use ferrite_io::simulated::{CrashPoint, Fault, FaultKind, PowerLost, Restart};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
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
    pub(super) fn choose_end(&mut self) -> End {
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

    /// Prepares the disk for the end that was chosen; how many steps until then, and what goes
    /// wrong in a restore.
    fn prepare(&mut self, end: End) -> (u64, Option<InRestore>) {
        let steps = 100 + self.random.below(900);
        match end {
            End::PowerAtBoundary { within, in_restore } => {
                let after = self.random.percent(50);
                let steps = self.steps_to_a_power_loss();
                if in_restore {
                    return (steps, Some(InRestore::Crash { within, after }));
                }
                self.disk.crash_at(Some(CrashPoint { boundary: self.disk.boundaries() + within, after }));
                return (steps, None);
            }
            End::Fault { kind, within, error, short, in_restore } => {
                let times = if self.random.percent(50) { 1 } else { u64::MAX };
                let fault = Fault { kind, at: within, times, error, short: short as usize };
                if in_restore {
                    // The log writes and fsyncs what else there is in the same moment, so it is one
                    // of the next.
                    let next = if kind == FaultKind::Sync { 2 } else { 3 };
                    let at = 1 + within / 2 % next;
                    return (STEPS_TO_A_RESTORE, Some(InRestore::Fault(Fault { at, ..fault })));
                }
                self.disk.fail(Fault { at: self.disk.count(kind) + within, ..fault });
            }
            End::FullDisk { room, .. } => self.disk.set_capacity(self.disk.used_bytes() + room),
            End::Stop | End::Close | End::SweptAway => {}
        }
        (steps, None)
    }

    /// Runs the node until the end that was chosen for it.
    pub(super) fn live(&mut self, node: Node, end: End) -> Result<(), Violation> {
        let (steps, trouble) = self.prepare(end);
        if end != End::Close {
            // In the middle of something, too.
            node.stop_after(steps);
        }
        let plants = self.random.percent(30);
        let contained = fault::contained_here();
        let fired = fault::fired_here();
        let mut backup_tasks = BackupTasks::new(self.disk.clone(), self.random.fork(), trouble);
        let mut swept = Vec::new();
        let lived = catch_unwind(AssertUnwindSafe(|| {
            backups::tidy(&node);
            let mut planted = None;
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
                if step == steps / 2 {
                    swept = self.half_way(end);
                }
                if backup_tasks.restores_unknown > 0 {
                    // What was to be tried has been, and nothing is taken any more.
                    break;
                }
            }
        }));
        fault::uproot();
        let ended_by_fault = matches!(&lived, Err(panic) if panic.is::<Planted>());
        self.only_planted_panics(contained, fired, ended_by_fault)?;
        self.counts.snapshots += node.saved();
        self.note_restores(&mut backup_tasks, lived.is_ok())?;
        match lived {
            Ok(()) => {}
            Err(panic) if panic.is::<Stopped>() => {}
            Err(_) if ended_by_fault => {
                self.counts.faults_final += 1;
                node.read_letters();
                return self.end_process(node, Restart::Process);
            }
            Err(panic) if panic.is::<PowerLost>() => {
                // What was delivered before the power went has reached the clients.
                node.read_letters();
                return self.end_process(node, Restart::Power);
            }
            Err(panic) => {
                // It was torn in the middle of something.
                std::mem::forget(node);
                std::panic::resume_unwind(panic);
            }
        }
        self.counts.failures += u64::from(node.log_has_failed());
        if end == End::Close && !node.log_has_failed() {
            return self.close(node);
        }
        // What was written of a restore's last step, and not fsynced, mostly stays.
        let of_hundred = if matches!(end, End::Fault { in_restore: true, .. }) { 20 } else { 60 };
        let power = self.plan.power_loss && self.random.percent(of_hundred) && swept.is_empty();
        self.end_process(node, if power { Restart::Power } else { Restart::Process })?;
        self.put_back(swept);
        Ok(())
    }

    /// Each panic of this life was planted: those that were contained, and the one that ended it.
    /// `contained`, `fired`: how many there were before.
    fn only_planted_panics(&mut self, contained: u64, fired: u64, ended: bool) -> Result<(), Violation> {
        let contained = fault::contained_here() - contained;
        if contained + u64::from(ended) != fault::fired_here() - fired {
            let detail = "a call was rolled back after a panic that nobody had planted".to_owned();
            return Err(Violation { invariant: "nothing panics", detail });
        }
        self.counts.faults_undone += contained;
        Ok(())
    }

    /// What happens to the disk in the middle of a life; the files that were taken away.
    fn half_way(&mut self, end: End) -> Vec<(PathBuf, Vec<u8>)> {
        if let End::FullDisk { freed: true, .. } = end {
            self.disk.set_capacity(u64::MAX);
        }
        if end == End::SweptAway { self.sweep_away() } else { Vec::new() }
    }

    /// `whole`: the life did not end in the midst of something.
    fn note_restores(&mut self, tasks: &mut BackupTasks, whole: bool) -> Result<(), Violation> {
        let ended = tasks.restored + tasks.restores_failed + tasks.restores_unknown;
        self.counts.restored += tasks.restored;
        self.counts.restores_failed += tasks.restores_failed;
        self.counts.restores_unknown += tasks.restores_unknown;
        if !whole {
            self.counts.restores_cut_short += tasks.restores_begun - ended;
        }
        let invariant = "a backup that has a manifest is whole, whenever the power goes";
        tasks.finding.first_problem().map_or(Ok(()), |detail| Err(Violation { invariant, detail }))
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
        if live.schema_text.contains(ferrite_backup::STAGING) {
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
}
