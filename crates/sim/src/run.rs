//! One seed from beginning to end: a database that lives several times, each life ended in another
//! way, and is checked after each.

mod damaged;
mod life;

use crate::backups;
use crate::clients::Clients;
pub use crate::counts::{Counts, SeedReport};
use crate::history::History;
use crate::invariants::{self, Violation};
use crate::node::{self, Node};
use crate::operation::Told;
use crate::plan::Plan;
use crate::restore_fixture;
use crate::restore_history::Rows;
use crate::schema;
use crate::state::State;
use crate::trace::Trace;
use ferrite_io::simulated::{
    CrashPoint, Fault, FaultKind, PowerLost, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom,
};
use ferrite_log::Durability;
use ferrite_partition::recovery::Recovered;
use life::End;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Runs one seed. Whatever goes wrong, a panic included, is in the report.
pub fn run(seed: u64, show: bool) -> SeedReport {
    report(seed, show, |_| {})
}

/// The same with a database that is run with durability memory in some of its lives, and with
/// another in others.
pub fn run_switching(seed: u64, show: bool) -> SeedReport {
    report(seed, show, |world| {
        world.plan.power_loss = true;
        world.plan.lives += 3;
        world.switches = Some(SimulatedRandom::new(seed));
    })
}

/// `plan`: changes to what the seed plans.
fn report(seed: u64, show: bool, plan: impl FnOnce(&mut World)) -> SeedReport {
    let trace = Trace::new(show);
    let mut world = None;
    // A world begins with the server's own code, too: it writes the backups to restore.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let world = world.insert(World::new(seed, trace.clone()));
        plan(world);
        world.run()
    }));
    let violation = match outcome {
        Ok(result) => result.err(),
        Err(panic) => Some(Violation { invariant: "nothing panics", detail: text_of(&*panic) }),
    };
    if let Some(violation) = &violation {
        trace.line(&format!("violated {violation}"));
    }
    let counts = world.as_mut().map(World::count).unwrap_or_default();
    // A party may have been torn in the middle of something.
    if violation.is_some() {
        std::mem::forget(world);
    }
    SeedReport { seed, trace: trace.hash(), counts, violation }
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

    fn count(&mut self) -> Counts {
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
        self.counts
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
        invariants::check_order(&self.clients().history, &state)?;
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
