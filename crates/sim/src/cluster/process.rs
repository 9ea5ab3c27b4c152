//! A node's process: the server's parties, moved on one step at a time. Nothing of it waits for
//! another node.

mod equalizing;
mod hosted;
mod lots;
mod outside;
mod start;

use crate::clients::Letterbox;
use crate::cluster::copying::{Done, group_of};
use crate::cluster::metadata::Seat;
use crate::cluster::wishes::{Wish, Wishes};
use ferrite_base::{GroupId, NodeId};
use ferrite_cluster::{Cause, Groups, Lease, Node, Transport};
use ferrite_group::{FromLog, Supplied, Urgency};
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedRandom};
use ferrite_member::{Pauses, Unsynced};
use ferrite_partition::applier::Applier;
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::execute::Executor;
use ferrite_partition::thread::Partition;
use ferrite_partition::waker::WakingSender;
use ferrite_replica::group::Member;
pub use hosted::{HeldStores, HostedGroup};
pub use lots::LotParty;
pub use start::{Means, throw_away};
use std::collections::BTreeMap;
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
    // First, as their coordinators end before the others do.
    hosted: BTreeMap<GroupId, HostedGroup>,
    pub node: Node,
    pub seat: Seat,
    pub lease: Lease,
    pub groups: Groups,
    /// None: there is one group.
    pub lots: Option<LotParty>,
    /// How many the cluster has.
    pub all_groups: u32,
    log: DatabaseLog,
    executor: Executor,
    pub clock: SimulatedClock,
    pub letterbox: Arc<Letterbox>,
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
    /// What administrators have asked of it.
    pub pauses: Pauses,
    /// Some procedures cannot run here, as without a JDK.
    pub unable: Arc<AtomicBool>,
    /// Its log has failed, and that was so when its answers were last read.
    pub failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Party {
    Partition(GroupId),
    Coordinator(GroupId),
    Applier(GroupId),
    Node,
    Supplier(GroupId),
    Copying(GroupId),
    Log,
    LogAhead,
    Read(GroupId),
    Sequencer,
    Equalizing,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// What it has of that group, if it hosts it.
    pub fn hosted(&self, group: GroupId) -> Option<&HostedGroup> {
        self.hosted.get(&group)
    }

    /// # Panics
    /// If it does not host the group.
    pub fn of(&self, group: GroupId) -> &HostedGroup {
        self.hosted.get(&group).unwrap_or_else(|| panic!("node {} hosts group {group}", self.member.node))
    }

    pub fn of_mut(&mut self, group: GroupId) -> &mut HostedGroup {
        self.hosted.get_mut(&group).expect("the node hosts the group")
    }

    pub fn all_hosted(&self) -> impl Iterator<Item = &HostedGroup> {
        self.hosted.values()
    }

    /// Groups whose partitions take calls here.
    pub fn served(&self) -> Vec<GroupId> {
        self.hosted.iter().filter(|(_, of)| of.serves.is_some()).map(|(id, _)| *id).collect()
    }

    fn ready(&self) -> Vec<Party> {
        let mut ready = Vec::new();
        let now = self.clock.monotonic_nanos();
        for (id, of) in &self.hosted {
            if now >= self.busy_until {
                let partitions = lock(&of.partitions).ready().len();
                ready.extend(std::iter::repeat_n(Party::Partition(*id), partitions));
                if of.coordinator.can_step() {
                    ready.push(Party::Coordinator(*id));
                }
            }
            if now >= of.applies_from && of.applier.as_ref().is_some_and(Applier::can_step) {
                ready.push(Party::Applier(*id));
            }
        }
        if self.node.can_step() {
            ready.push(Party::Node);
        }
        for (id, of) in &self.hosted {
            if of.supplier.has_work() {
                ready.push(Party::Supplier(*id));
            }
            if of.copying.can_step() {
                ready.push(Party::Copying(*id));
            }
        }
        if self.log.has_work() && now >= self.next_sync {
            ready.push(Party::Log);
        }
        ready.extend(self.hosted.iter().filter(|(_, of)| !of.reads.is_empty()).map(|(id, _)| Party::Read(*id)));
        ready.extend(self.lots.iter().filter(|lots| lots.can_step()).map(|_| Party::Sequencer));
        ready.extend(self.can_equalize().then_some(Party::Equalizing));
        ready
    }

    /// What is to be done, for a report.
    pub fn work(&self) -> String {
        let ready = self.ready();
        let waits = self.node.waits();
        let copying: Vec<String> = self.hosted.values().map(|of| of.copying.work()).collect();
        format!("ready {ready:?}, waits {waits}, {}", copying.join("; "))
    }

    /// Nothing is to be done, now or when time has passed.
    pub fn is_at_rest(&self) -> bool {
        let applies_from = self.hosted.values().map(|of| of.applies_from).max().unwrap_or_default();
        let is_busy = self.clock.monotonic_nanos() < self.busy_until.max(applies_from);
        let is_idle = self.hosted.values().all(|of| of.copying.is_idle());
        let has_lots = self.lots.as_ref().is_some_and(|lots| !lots.rests());
        let is_settled = is_idle && !has_lots && !self.is_equalizing();
        !is_busy && !self.can_step() && !self.log.has_work() && !self.node.waits() && is_settled
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
            Party::Partition(group) => {
                lock(&self.of(group).partitions).step();
            }
            Party::Coordinator(group) => {
                self.of_mut(group).coordinator.step();
            }
            Party::Applier(group) => {
                if let Some(applier) = &mut self.of_mut(group).applier {
                    applier.step();
                }
            }
            Party::Node => {
                self.node.step(self.clock.boottime_nanos());
            }
            Party::Supplier(group) => self.supply(group),
            Party::Copying(group) => {
                let wishes = &self.wishes;
                let of = self.hosted.get_mut(&group).expect("it is one of them");
                of.copying.step(&mut self.node, &mut |to, bytes| wishes.push_message(to, bytes));
            }
            Party::Log => {
                // Others append while an fsync runs.
                let micros = self.random.below(1 + self.sync_micros / 2);
                self.next_sync = self.clock.monotonic_nanos() + 1_000 * micros;
                self.log.half_step();
            }
            Party::Sequencer => self.lots.iter_mut().for_each(LotParty::step),
            Party::Equalizing => self.equalize(),
            Party::LogAhead => {
                self.log.step_ahead();
            }
            Party::Read(group) => {
                let read = self.of(group).reads.try_recv();
                if let Ok(read) = read {
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
        self.next_sync = self.clock.monotonic_nanos() + nanos;
    }

    /// Its copy shows what its log does not have yet.
    pub fn is_ahead_of_log(&self, group: GroupId) -> bool {
        self.of(group).is_ahead_of_log(&self.node)
    }

    /// The disk is busy for so long.
    pub fn delay_log(&mut self, nanos: u64) {
        if nanos > 0 {
            self.next_sync = self.next_sync.max(self.clock.monotonic_nanos()) + nanos;
        }
    }

    /// Its partitions do nothing else for so long: what they execute takes its time.
    pub fn keep_busy(&mut self, nanos: u64) {
        self.busy_until = self.busy_until.max(self.clock.monotonic_nanos() + nanos);
    }

    /// A log that may lack what was acknowledged has all again, as the server finds it
    /// (`look_whether_whole`).
    fn look_whether_whole(&mut self) {
        if self.whole {
            return;
        }
        let known = self.node.state().groups();
        let has_all = |(id, of): (&GroupId, &HostedGroup)| {
            let configuration = known.get(id).map(|group| &group.configuration);
            configuration.is_some_and(|configuration| {
                configuration.has(self.member) && of.replication.has_committed_start_of(configuration.epoch)
            })
        };
        if self.hosted.iter().all(has_all) {
            self.whole = self.unsynced.is_whole().is_ok();
        }
    }

    /// Sends what is to be sent about the metadata and about snapshots.
    pub fn work_around(&mut self) {
        let now = self.clock.boottime_nanos();
        let asks = self.seat.asks();
        self.pauses.advance(self.node.state(), self.member, now, &mut |ask| asks.push(ask));
        self.lots.iter().for_each(|lots| lots.learn(&self.hosted, self.node.state()));
        let wishes = &self.wishes;
        self.seat.work(|to, message| wishes.push(Wish::Send(to, Urgency::Control, message)));
        for of in self.hosted.values_mut() {
            if of.serves.is_some() {
                let now = self.clock.monotonic_nanos();
                of.copying.lead(&self.node, now, &mut |to, bytes| wishes.push_message(to, bytes));
            } else {
                of.copying.follow(&self.node, &self.clock);
            }
        }
    }

    /// A message about a snapshot.
    pub fn received_transfer(&mut self, from: NodeId, body: &[u8]) -> Result<(), String> {
        let now = self.clock.monotonic_nanos();
        let wishes = &self.wishes;
        let (group, message) = group_of(body)?;
        let of = self.hosted.get_mut(&group).ok_or("a snapshot of a group that is not hosted")?;
        of.copying.handle_message(from, message, now, &mut |to, bytes| wishes.push_message(to, bytes))
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
                Wish::Run(group, applier) => self.of_mut(group).applier = Some(*applier),
                other => others.push(other),
            }
        }
        others
    }

    /// Entries are to be read from the log, and sent.
    pub fn request(&mut self, group: GroupId, wanted: FromLog) {
        let now = self.clock.monotonic_nanos();
        self.of_mut(group).supplier.request(wanted, now);
    }

    fn supply(&mut self, group: GroupId) {
        let wishes = &self.wishes;
        let mut send = |to, urgency, message| wishes.send(to, urgency, message);
        let of = self.hosted.get_mut(&group).expect("it is one of them");
        match of.supplier.step(self.clock.monotonic_nanos(), &mut |_| true, &mut send) {
            Supplied::Working | Supplied::Idle | Supplied::Held => {}
            Supplied::Gone(node) | Supplied::TooLarge(node, _) => of.copying.wanted.push(node),
            Supplied::Failed(node, error) => wishes.push(Wish::NotSupplied(group, node, error.to_string())),
        }
    }

    /// What was sent to a node may be lost.
    pub fn lost(&mut self, node: NodeId) {
        self.hosted.values_mut().for_each(|of| of.supplier.forget(node));
        self.seat.lost(node);
        self.cause(Cause::Lost(node));
    }

    /// The disk or the log has failed in the middle of a step that cannot be tried again.
    pub fn ends(&self) -> bool {
        self.hosted.values().any(|of| of.copying.ends)
    }

    /// Of each group that it hosts, for itself.
    pub fn takes_snapshot(&mut self) {
        self.hosted.values_mut().for_each(|of| of.copying.due = true);
    }

    /// What its groups have done about snapshots since this was asked last.
    pub fn take_done(&mut self) -> Done {
        let all = self.hosted.values_mut().map(|of| std::mem::take(&mut of.copying.done));
        all.reduce(|sum, done| Done {
            taken: sum.taken + done.taken,
            copied: sum.copied + done.copied,
            hashed: sum.hashed + done.hashed,
            installed: sum.installed + done.installed,
            needed: sum.needed + done.needed,
        })
        .unwrap_or_default()
    }

    fn cause(&self, cause: Cause) {
        self.causes.send(cause).expect("the node lives as long as its process");
    }

    pub fn log_has_failed(&self) -> bool {
        self.log.failure().is_some()
    }

    /// All its groups know that. Until then one may acknowledge what was durable before on all
    /// members, and another member says so now.
    pub fn all_groups_have_failed(&self) -> bool {
        self.log_has_failed() && (self.hosted.len() == 1 || self.hosted.values().all(|of| of.replication.has_failed()))
    }

    /// Ends as a process that is killed does. The disk has halted before.
    pub fn kill(self) {
        let Process { hosted, node, log, .. } = self;
        let mut copies = Vec::new();
        for HostedGroup { coordinator, partitions, applier, .. } in hosted.into_values() {
            drop(coordinator);
            copies.push((applier, partitions));
        }
        drop((node, copies));
        drop(log);
    }
}
