//! A machine of the cluster: a disk, a clock that goes at its own rate, and the node's process
//! while it runs.

use crate::cluster::ledger::Ledger;
use crate::cluster::network::Packet;
use crate::cluster::plan::{Plan, TICK_NANOS};
use crate::cluster::process::{Means, Process, throw_away};
use crate::node::DIRECTORY;
use crate::trace::Trace;
use ferrite_base::{GroupId, GroupMap, Incarnation, NodeId, planted};
use ferrite_cluster::NotHandedOver;
use ferrite_group::{CannotHandOver, Identity};
use ferrite_io::simulated::{PowerLost, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_io::{Clock, Disk};
use ferrite_log::{DatabaseId, Durability, LogOptions};
use ferrite_member::{MemberError, accept_loss, damage};
use ferrite_meta::State;
use ferrite_partition::recovery::StartError;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Parts of a million by which two clocks' rates may differ from the true one.
const DRIFT: u64 = 5_000;

pub struct Machine {
    /// Where other nodes reach it: one machine after another has the place.
    pub place: u32,
    /// The metadata as this node has heard last.
    pub known: Arc<State>,
    pub disk: SimulatedDisk,
    clock: SimulatedClock,
    /// What the disk's work has taken. The machine's clock does not jump for it.
    disk_time: SimulatedClock,
    /// Of that, what its process has waited for.
    disk_spent: u64,
    /// Parts of a million.
    rate: u64,
    log: LogOptions,
    /// Which partitions share a group.
    groups: GroupMap,
    snapshots: bool,
    sync_micros: u64,
    /// How often it was switched on.
    boot: u64,
    random: SimulatedRandom,
    pub process: Option<Process>,
    /// Nothing of its log can be read: it starts only when its copy is put aside.
    pub is_beyond_reading: bool,
    /// A bit of its log has, perhaps where no start reads it any more.
    pub has_rotted: bool,
    /// When it starts again, by the true time.
    pub down_until: u64,
    /// Until then it stands still, with what comes meanwhile.
    pub still_until: u64,
    pub inbox: VecDeque<Packet>,
    /// When a process whose log has failed is ended.
    pub ends: Option<u64>,
    /// The process ends in good order.
    pub stopping: Option<Stopping>,
    /// Groups that it hands over before that, and has not heard of.
    pub hands_over: BTreeSet<GroupId>,
    /// Whoever calls this node changes nothing for now.
    pub only_looks: bool,
    /// Until then for sure: what is not committed would hold up reads behind it.
    pub looks_until: u64,
    next_tick: u64,
    /// How far its wall clock is off, in microseconds.
    off: i64,
    /// When it takes a snapshot, if it leads then.
    pub next_snapshot: u64,
    /// It was seen to take another node's snapshot in.
    pub installs: bool,
    /// Of the processes of other nodes, by what reached this one.
    pub highest: BTreeMap<NodeId, Incarnation>,
}

/// How far a process is that ends in good order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopping {
    /// Somebody else is to lead, until then.
    HandingOver(u64),
    /// That is over, however it went.
    HandedOver,
    Leaving,
    /// It says goodbye, until then.
    Goodbye(u64),
}

/// Whether the node goes and leaves nobody who could lead.
pub fn leaves_alone(outcome: Result<NodeId, NotHandedOver>) -> bool {
    matches!(outcome, Err(NotHandedOver::NoSuccessor | NotHandedOver::Cannot(CannotHandOver::Alone)))
}

/// What a start came to.
pub enum Started {
    Yes,
    /// The power went meanwhile.
    PowerLost,
    /// What is there cannot be used, and nobody takes its word: fsyncs were not waited for.
    Unusable,
}

impl Machine {
    /// The others have run for so many microseconds when this one is switched on.
    pub fn begins_at(&mut self, micros: i64) {
        self.clock.jump(micros);
    }

    /// Its wall clock is set.
    pub fn is_off_by(&mut self, off: i64) {
        let before = std::mem::replace(&mut self.off, off);
        self.clock.jump(off - before);
    }

    /// `joins`: the cluster was not founded with it.
    pub fn new(
        (id, place, joins): (u32, u32, bool),
        known: &Arc<State>,
        plan: &Plan,
        random: &mut SimulatedRandom,
        trace: &Trace,
    ) -> Machine {
        let cluster = known.settings().expect("it is founded").cluster;
        let clock = SimulatedClock::default();
        // No two machines were switched on together.
        let on_for = 1 + random.below(100_000);
        clock.advance(Duration::from_millis(on_for));
        // What the clock on the wall says has nothing to do with that.
        clock.jump(-1_000 * on_for as i64);
        let disk_time = SimulatedClock::default();
        let disk = SimulatedDisk::new(random.number(), disk_time.clone());
        let dir = Path::new(DIRECTORY);
        disk.create_dir(dir).expect("a healthy disk");
        let incarnation = Incarnation(u64::from(joins));
        let hosted = known.kept_by(NodeId(id)).into_iter().collect();
        let identity = Identity { hosted, ..Identity::new(cluster, NodeId(id), incarnation) };
        identity.write(&disk, dir).expect("a healthy disk");
        disk.unwind_at_power_loss();
        let told = trace.clone();
        disk.trace(move |line| told.line(&format!("{id} {line}")));
        let log = LogOptions { database: Some(DatabaseId(cluster)), ..plan.database.log.clone() };
        Machine {
            place,
            known: Arc::clone(known),
            disk,
            clock,
            disk_time,
            disk_spent: 0,
            rate: match planted!(ClockDrift) {
                true => [800_000, 1_200_000][random.below(2) as usize],
                false => 1_000_000 + random.below(2 * DRIFT) - DRIFT,
            },
            log,
            groups: known.group_map(),
            snapshots: plan.snapshots,
            sync_micros: plan.sync_micros,
            boot: 0,
            random: random.fork(),
            process: None,
            is_beyond_reading: false,
            has_rotted: false,
            down_until: 0,
            still_until: 0,
            inbox: VecDeque::new(),
            ends: None,
            stopping: None,
            hands_over: BTreeSet::new(),
            only_looks: false,
            looks_until: 0,
            next_tick: 0,
            off: 0,
            next_snapshot: 0,
            installs: false,
            highest: BTreeMap::new(),
        }
    }

    /// How fast its clock goes, in parts of a million of the true time.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    pub fn pass(&mut self, nanos: u64) {
        self.clock.advance(Duration::from_nanos(nanos * self.rate / 1_000_000));
    }

    /// What the disk has done took its time: the log goes on later. To be called behind each step.
    pub fn wait_for_disk(&mut self) {
        let spent = self.disk_time.monotonic_nanos();
        let before = std::mem::replace(&mut self.disk_spent, spent);
        if let Some(process) = &mut self.process {
            process.delay_log(spent - before);
        }
    }

    /// Whether a tick is due, which is taken.
    pub fn tick_is_due(&mut self) -> Option<u64> {
        let now = self.clock.monotonic_nanos();
        let due = now >= self.next_tick;
        if due {
            self.next_tick = now + TICK_NANOS;
        }
        due.then_some(now)
    }

    /// That is how a hand-over has ended.
    pub fn handed_over(&mut self, group: GroupId, outcome: Result<NodeId, NotHandedOver>) {
        // What was under way before its end is given up for it.
        if let Some(Stopping::HandingOver(_)) = self.stopping
            && outcome != Err(NotHandedOver::UnderWay)
        {
            self.hands_over.remove(&group);
            if self.hands_over.is_empty() {
                self.stopping = Some(Stopping::HandedOver);
            }
        }
    }

    pub fn start(&mut self, ledger: &Ledger) -> Result<Started, StartError> {
        assert!(self.process.is_none(), "one process at a time");
        let random = self.random.fork();
        self.highest.clear();
        let start = || Process::start(&self.means(), random, &self.known, ledger);
        match catch_unwind(AssertUnwindSafe(start)) {
            Ok(Err(error)) if self.log.durability != Durability::Sync && damage(&error).is_some() => {
                return Ok(Started::Unusable);
            }
            Ok(process) => self.process = Some(process?),
            Err(panic) if panic.is::<PowerLost>() => return Ok(Started::PowerLost),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        self.is_beyond_reading = false;
        Ok(Started::Yes)
    }

    fn means(&self) -> Means<'_> {
        Means {
            disk: &self.disk,
            clock: &self.clock,
            log: &self.log,
            groups: &self.groups,
            place: self.place,
            snapshots: self.snapshots,
            sync_micros: self.sync_micros,
            boot: self.boot,
        }
    }

    /// The next start throws away what is here.
    pub fn throw_away(&self) {
        throw_away(&self.means());
    }

    /// Cuts the log where it cannot be read, as `ferrite admin recover --dir` does; false: nothing
    /// of it can be read.
    pub fn accept_loss(&self) -> bool {
        let disk = Arc::new(self.disk.clone());
        let clock = Arc::new(self.clock.clone());
        let outcome = accept_loss(disk, clock, Path::new(DIRECTORY), &|_| {});
        match outcome {
            Ok(_) => true,
            Err(MemberError::Cluster(reason)) if reason.contains("Nothing here can be used") => false,
            Err(error) => panic!("a loss can be accepted: {error}"),
        }
    }

    /// The process ends, or the whole machine.
    pub fn crash(&mut self, restart: Restart) {
        self.disk.halt();
        if let Some(process) = self.process.take() {
            process.kill();
        }
        self.disk.restart(restart);
        self.disk.heal();
        self.boot += u64::from(restart == Restart::Power);
        (self.ends, self.stopping) = (None, None);
        self.hands_over.clear();
        self.installs = false;
        self.still_until = 0;
        self.inbox.clear();
    }
}
