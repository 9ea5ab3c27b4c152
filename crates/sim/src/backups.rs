//! Backups and restores: begun in the middle of life, by [`BackupTasks`]; and judged after it, by
//! [`check`], which restores every backup that says it is whole into a database with another number
//! of partitions, once in peace and once with a crash or a fault of the disk in the middle.

use crate::clients::Clients;
use crate::history::{BegunBackup, History};
use crate::internal_client::InternalClient;
use crate::invariants::{self, Violation};
use crate::node::{self, Node};
use crate::operation::{Action, Answer, Told};
use crate::plan::Plan;
use crate::restore_fixture;
use crate::restore_history::{BAD, Change, GOOD};
use crate::state::State;
use crate::trace::Trace;
use crate::witness::{Finding, Witness};
use ferrite_backup::request::{Choice, Restore};
use ferrite_backup::{STAGING, restore, save};
use ferrite_base::{ErrorKind, UserResult};
use ferrite_io::Clock;
use ferrite_io::simulated::{
    CrashPoint, Fault, FaultKind, PowerLost, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom,
};
use ferrite_log::DatabaseId;
use ferrite_partition::recovery::Recovered;
use ferrite_snapshot::Files;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Where the simulated database's backups go.
pub const DIRECTORY: &str = "/backups";

/// What is to happen in the middle of a life's first restore.
#[derive(Clone, Copy, Debug)]
pub enum InRestore {
    /// The power goes this many operations of the disk after it has begun; before the last, or
    /// after it.
    Crash { within: u64, after: bool },
    /// The disk fails in its last step. What became of that, nobody knows, and nobody may say
    /// otherwise.
    Fault(Fault),
}

/// Backups and restores of one life.
pub struct BackupTasks {
    disk: SimulatedDisk,
    random: SimulatedRandom,
    /// Of this many steps, one begins something.
    one_in: u64,
    trouble: Option<InRestore>,
    /// What a loss of power would have made of a backup.
    pub finding: Finding,
    backups: u64,
    pub restores_begun: u64,
    pub restored: u64,
    pub restores_failed: u64,
    /// Restores of which nobody knows whether they took place.
    pub restores_unknown: u64,
}

impl BackupTasks {
    pub fn new(disk: SimulatedDisk, mut random: SimulatedRandom, trouble: Option<InRestore>) -> BackupTasks {
        let one_in = if trouble.is_some() { 30 } else { *random.pick(&[60, 300]) };
        let finding = Finding::default();
        let backups = 0;
        let restores_begun = 0;
        let restored = 0;
        let restores_failed = 0;
        let restores_unknown = 0;
        BackupTasks {
            disk,
            random,
            one_in,
            trouble,
            finding,
            backups,
            restores_begun,
            restored,
            restores_failed,
            restores_unknown,
        }
    }

    /// Now and then, the whole of a backup or restore. Others go on meanwhile.
    pub fn step(&mut self, node: &Node) {
        if self.random.below(self.one_in) > 0 {
            return;
        }
        match self.random.below(4) {
            0 if self.backups == 0 => self.save(node),
            _ => self.restore(node),
        }
    }

    fn save(&mut self, node: &Node) {
        self.backups += 1;
        let nonce = node.with_clients(|_, clients| {
            let nonce = format!("b{}", clients.history.operations.len());
            let mut at_least = BTreeMap::new();
            for operation in &clients.history.operations {
                if let Told::Done(Answer::Steps(steps)) = &operation.told {
                    for (home, step) in steps {
                        let known: &mut i64 = at_least.entry(*home).or_default();
                        *known = (*known).max(*step);
                    }
                }
            }
            clients.history.backups.insert(nonce.clone(), BegunBackup { at_least, whole: false });
            nonce
        });
        node.trace(&format!("backup {nonce}"));
        let client = InternalClient::new(node, 0);
        let dir = Path::new(DIRECTORY);
        // Its numbers are its own, so that looking changes nothing of what happens.
        let seed = self.disk.boundaries();
        let witness = Witness::new(self.disk.clone(), dir, &nonce, seed, self.finding.clone());
        let begun = save::begin(&client, Arc::new(witness), restore_fixture::native(dir, &nonce));
        let written = begun.and_then(|begun| {
            // What is changed from now on is not in it.
            for _ in 0..self.random.below(30) {
                node.step();
            }
            begun.write(&mut self.random)
        });
        match written {
            Ok(_) => node.with_clients(|_, clients| {
                clients.history.backups.get_mut(&nonce).expect("noted above").whole = true;
            }),
            Err(error) => node.trace(&format!("no backup {error}")),
        }
    }

    fn restore(&mut self, node: &Node) {
        let backup = if self.random.percent(20) { BAD } else { GOOD };
        // Where there are rows it is refused, which need not be tried often.
        let anyway = self.random.percent(10);
        let begun = node.with_clients(|doors, clients| {
            let restored = &clients.history.restored;
            let busy = backup == GOOD && restored.outstanding.is_some();
            if busy || (restored.is_full() && !anyway) {
                return None;
            }
            let number = clients.begin(Action::Restore { backup }, doors.clock.wall_micros());
            if backup == GOOD {
                clients.history.restored.outstanding = Some(Change { number, full: true, seen: false });
            }
            Some(number)
        });
        let Some(number) = begun else { return };
        let fault = match self.trouble {
            Some(InRestore::Crash { within, after }) => {
                self.trouble = None;
                self.disk.crash_at(Some(CrashPoint { boundary: self.disk.boundaries() + within, after }));
                None
            }
            // Until one has come that far.
            Some(InRestore::Fault(fault)) if backup == GOOD => Some(fault),
            _ => None,
        };
        let rotten = self.random.percent(10).then(|| Rotten::new(&self.disk, &mut self.random, backup));
        let batch_bytes = 1 + self.random.below(8_000) as usize;
        self.restores_begun += 1;
        let client = InternalClient::new(node, batch_bytes);
        let client = match fault {
            Some(fault) => client.failing_at_the_last_step(&self.disk, fault),
            None => client,
        };
        let result = run(&client, &self.disk, Path::new(restore_fixture::DIRECTORY), backup);
        drop(rotten);
        let told = match result {
            Ok(()) => {
                self.restored += 1;
                Told::Done(Answer::Other)
            }
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                self.restores_unknown += 1;
                Told::Unknown
            }
            Err(error) => {
                self.restores_failed += 1;
                Told::Failed(error.to_string())
            }
        };
        node.with_clients(|_, clients| clients.answered(number, told));
    }
}

/// What the server does with a request to restore.
fn run(client: &InternalClient<'_>, disk: &SimulatedDisk, dir: &Path, nonce: &str) -> UserResult<()> {
    let request = Restore { dir: dir.to_path_buf(), nonce: nonce.to_owned(), tables: Choice::default() };
    let files = Files::new(Arc::new(disk.clone()), dir);
    restore::restore(client, &files, &request).map(drop)
}

/// What the server does at its start.
pub fn tidy(node: &Node) {
    if let Err(error) = restore::drop_leftovers(&InternalClient::new(node, 0)) {
        node.trace(&format!("staging tables stay {error}"));
    }
}

/// A bit of a backup's file is wrong as long as this lives.
struct Rotten {
    disk: SimulatedDisk,
    path: PathBuf,
    position: u64,
    bit: u8,
}

impl Rotten {
    fn new(disk: &SimulatedDisk, random: &mut SimulatedRandom, nonce: &str) -> Rotten {
        let files = files_of(disk, restore_fixture::DIRECTORY, nonce);
        let (path, bytes) = random.pick(&files);
        let position = random.below(bytes.len().max(1) as u64);
        let bit = random.below(8) as u8;
        disk.rot(path, position, bit);
        Rotten { disk: disk.clone(), path: path.clone(), position, bit }
    }
}

impl Drop for Rotten {
    fn drop(&mut self) {
        self.disk.rot(&self.path, self.position, self.bit);
    }
}

/// The files of one backup.
fn files_of(disk: &SimulatedDisk, dir: &str, nonce: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let of_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.starts_with(dir) && name.strip_prefix(nonce).is_some_and(|rest| rest.starts_with(['-', '.']))
    };
    let files = disk.files().into_iter().filter(of_it);
    files.map(|path| (path.clone(), disk.bytes_of(&path).unwrap_or_default())).collect()
}

/// What [`check`] has tried.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tried {
    /// Backups that were restored.
    pub restored: u64,
    /// Restores that ended by a crash.
    pub crashed: u64,
}

/// Judges all backups that were begun since the last recovery. `now` is what this one has found.
pub fn check(
    disk: &SimulatedDisk,
    plan: &Plan,
    mut random: SimulatedRandom,
    trace: &Trace,
    history: &History,
    now: &State,
) -> Result<Tried, Violation> {
    let mut tried = Tried::default();
    for (nonce, made) in &history.backups {
        let files = files_of(&disk.copy(random.number()), DIRECTORY, nonce);
        let manifest = Path::new(DIRECTORY).join(format!("{nonce}.manifest"));
        if !files.iter().any(|(path, _)| *path == manifest) {
            if made.whole {
                return Err(wrong(nonce, "its caller was told that it is whole, and it has no manifest"));
            }
            continue;
        }
        trace.line(&format!("restore backup {nonce} elsewhere"));
        let mut peaceful = Other::new(plan, &mut random, trace, &files);
        let ended = peaceful.restore(nonce, Trouble::None)?;
        let Some(reference) = peaceful.state()? else {
            return Err(wrong(nonce, &format!("it cannot be restored: {ended:?}")));
        };
        judge(made, history, &reference, now).map_err(|detail| wrong(nonce, &detail))?;
        tried.restored += 1;

        let mut troubled = Other::new(plan, &mut random, trace, &files);
        let trouble = Trouble::new(plan, &mut random);
        let ended = troubled.restore(nonce, trouble)?;
        tried.crashed += u64::from(matches!(ended, Ended::Crashed));
        let said = |what: &str| wrong(nonce, &format!("{what} after {trouble:?}, {ended:?}"));
        match (&ended, troubled.state()?) {
            (Ended::Done, None) => return Err(said("a restore that was acknowledged is not there")),
            (Ended::Failed, Some(_)) => return Err(said("a restore that failed is there")),
            (_, Some(state)) if content(&state) != content(&reference) => {
                return Err(said("a restore is there in part"));
            }
            (_, Some(_)) => {}
            // What it was before, so that it goes as well as the first time.
            (_, None) => {
                let again = troubled.restore(nonce, Trouble::None)?;
                let state = troubled.state()?;
                if state.is_none_or(|state| content(&state) != content(&reference)) {
                    return Err(said(&format!("the second attempt ended with {again:?}")));
                }
            }
        }
    }
    Ok(tried)
}

fn wrong(nonce: &str, detail: &str) -> Violation {
    let invariant = "a backup that is whole can be restored, wholly or not at all";
    Violation { invariant, detail: format!("{nonce}: {detail}") }
}

/// The backup shows one moment, no earlier than its beginning, of what has lasted: with durability
/// memory it may outlast what it shows.
fn judge(made: &BegunBackup, history: &History, backup: &State, now: &State) -> Result<(), String> {
    invariants::check_whole(history, backup).map_err(|violation| violation.to_string())?;
    for (home, step) in &made.at_least {
        let there = backup.heads.get(home).copied().unwrap_or_default();
        if there < *step {
            return Err(format!("step {step} of home {home} was acknowledged before it began, and it has {there}"));
        }
    }
    if history.lost_unsaved {
        return Ok(());
    }
    for (home, marks) in &backup.marks {
        let lasting = now.marks.get(home);
        if let Some((step, number)) =
            marks.iter().find(|(step, _)| lasting.and_then(|now| now.get(step)) != marks.get(step))
        {
            return Err(format!("it has operation {number} as step {step} of home {home}, which was lost"));
        }
    }
    Ok(())
}

/// Without what differs between databases: versions and row ids.
fn content(state: &State) -> State {
    State { version: 0, rows_hash: 0, ..state.clone() }
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    Crash { within: u64, after: bool },
    Fault(FaultKind, u64, i32),
}

impl Trouble {
    fn new(plan: &Plan, random: &mut SimulatedRandom) -> Trouble {
        if random.percent(60) {
            return Trouble::Crash { within: 1 + random.below(60), after: random.percent(50) };
        }
        let kind = plan.fault_kind(random, &[FaultKind::Read, FaultKind::Name, FaultKind::Preallocate]);
        let error = if kind == FaultKind::Write && random.percent(50) { Fault::ENOSPC } else { Fault::EIO };
        Trouble::Fault(kind, 1 + random.below(40), error)
    }
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    Done,
    Failed,
    Unknown,
    Crashed,
}

/// A database of its own, at first without tables, on a disk where the backup's files are.
struct Other {
    plan: Plan,
    clock: SimulatedClock,
    disk: SimulatedDisk,
    random: SimulatedRandom,
    trace: Trace,
}

impl Other {
    fn new(plan: &Plan, random: &mut SimulatedRandom, trace: &Trace, files: &[(PathBuf, Vec<u8>)]) -> Other {
        let mut plan = plan.clone();
        plan.partitions = 1 + random.below(5) as u32;
        plan.log.database = Some(DatabaseId::random(random));
        let clock = SimulatedClock::default();
        let disk = SimulatedDisk::new(random.number(), clock.clone());
        disk.unwind_at_power_loss();
        let told = trace.clone();
        disk.trace(move |line| told.line(line));
        files.iter().for_each(|(path, bytes)| disk.put_file(path, bytes));
        Other { plan, clock, disk, random: random.fork(), trace: trace.clone() }
    }

    fn open(&mut self) -> Result<Recovered, Violation> {
        let Other { plan, clock, disk, random, .. } = self;
        node::recover(disk, clock, random, &plan.log, plan.partitions, "").map_err(|error| Violation {
            invariant: "a healthy disk can be opened",
            detail: format!("after a restore: {error}"),
        })
    }

    /// Starts, restores, and ends its process.
    fn restore(&mut self, nonce: &str, trouble: Trouble) -> Result<Ended, Violation> {
        let recovered = self.open()?;
        let catalog = Arc::clone(&recovered.compiled.catalog);
        let clients = Clients::quiet(self.random.fork(), &self.plan, catalog, Trace::new(false));
        let clients = Arc::new(Mutex::new(clients));
        let node = Node::new(recovered, &self.disk, &self.clock, clients, self.random.fork(), self.plan.turns);
        match trouble {
            Trouble::None => {}
            Trouble::Crash { within, after } => {
                self.disk.crash_at(Some(CrashPoint { boundary: self.disk.boundaries() + within, after }));
            }
            Trouble::Fault(kind, within, error) => {
                let at = self.disk.count(kind) + within;
                let short = self.random.below(5_000) as usize;
                self.disk.fail(Fault { kind, at, times: 1, error, short });
            }
        }
        let batch_bytes = 1 + self.random.below(50_000) as usize;
        let result = catch_unwind(AssertUnwindSafe(|| {
            tidy(&node);
            run(&InternalClient::new(&node, batch_bytes), &self.disk, Path::new(DIRECTORY), nonce)
        }));
        self.disk.crash_at(None);
        self.disk.heal();
        self.disk.halt();
        drop(node);
        let power = self.plan.power_loss && self.random.percent(60);
        self.disk.restart(if power { Restart::Power } else { Restart::Process });
        match result {
            Ok(Ok(())) => Ok(Ended::Done),
            Ok(Err(error)) if error.kind() == ErrorKind::OutcomeUnknown => Ok(Ended::Unknown),
            Ok(Err(error)) => {
                self.trace.line(&format!("not restored {error}"));
                Ok(Ended::Failed)
            }
            Err(panic) if panic.is::<PowerLost>() => Ok(Ended::Crashed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// What it holds; None where it has no tables but those that a start drops.
    fn state(&mut self) -> Result<Option<State>, Violation> {
        let recovered = self.open()?;
        let mut names = recovered.compiled.catalog.tables.keys();
        if names.all(|name| name.starts_with(STAGING)) {
            return Ok(None);
        }
        Ok(Some(State::read(&recovered.stores.iter().collect::<Vec<_>>())))
    }
}
