//! A node's process: the server's parties, moved on one step at a time. Nothing of it waits for
//! another node.

mod outside;
mod start;

use crate::clients::Doors;
use crate::cluster::copying::Copying;
use crate::cluster::metadata::Seat;
use crate::cluster::wishes::{Wish, Wishes};
use crossbeam_channel::Receiver;
use ferrite_base::{Epoch, NodeId};
use ferrite_cluster::{Cause, Groups, Lease, Node, Transport};
use ferrite_group::{FIRST_GROUP, FromLog, Replication, Supplied, Supplier, Urgency};
use ferrite_io::Clock;
use ferrite_io::simulated::SimulatedRandom;
use ferrite_member::{Pauses, Unsynced};
use ferrite_partition::applier::Applier;
use ferrite_partition::commit::{Completion, DatabaseLog};
use ferrite_partition::coordinator::Coordinator;
use ferrite_partition::execute::Executor;
use ferrite_partition::long_read::LongRead;
use ferrite_partition::thread::Partition;
use ferrite_partition::waker::WakingSender;
use ferrite_replica::group::Member;
use ferrite_table::Store;
use outside::Held;
pub use start::{Means, throw_away};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
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
        self.pauses.advance(self.node.state(), self.member, now, &mut |ask| asks.push(ask));
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
        self.copying.handle_message(from, body, now, &mut |to, bytes| wishes.push_message(to, bytes))
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
        for wish in self.wishes.drain() {
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
