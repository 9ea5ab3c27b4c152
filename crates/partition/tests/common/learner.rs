//! A node that follows a group and gets another node's snapshot, moved on step by step, on a disk
//! that may lose its power at every step.

use super::stepped::rows;
use crossbeam_channel::{Sender, unbounded};
use ferrite_base::{GroupId, GroupMap, Incarnation, NodeId, Position};
use ferrite_group::{GroupEvent, GroupHost, Identity, Replication, SharedEntry, Urgency};
use ferrite_io::simulated::{CrashPoint, PowerLost, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::{DatabaseId, LogOptions};
use ferrite_partition::applier::{Applier, CopyEvents, CopyStart, Intake};
use ferrite_partition::assemble::{Assembly, assemble, partition_ends};
use ferrite_partition::commit::{Completion, DatabaseLog};
use ferrite_partition::copy_cut::{CopyCut, CutStep};
use ferrite_partition::gate::Failure;
use ferrite_partition::install::{Install, InstallError, InstallStep, Learner as Party};
use ferrite_partition::long_read::{Home, LongReads};
use ferrite_partition::recovery::{self, AsMember, Options, Recovered, RecoveredMember, StartError};
use ferrite_partition::snapshots::Snapshots;
use ferrite_partition::thread::Partition;
use ferrite_partition::{Event, GroupInboxes, RecoveryProgress, RowCounts};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::{GroupConfiguration, Timing};
use ferrite_snapshot::Files;
use ferrite_snapshot::transfer::{Sink, SinkProgress};
use ferrite_table::Store;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const NODE: NodeId = NodeId(2);
pub const DIR: &str = "/node";
const INCOMING: &str = "/node/incoming";

enum Out {
    Sent(Vec<u8>),
    Committed(Vec<u8>),
    Event(GroupEvent),
}

#[derive(Clone, Default)]
struct Outs(Arc<Mutex<VecDeque<Out>>>);

impl Outs {
    fn push(&self, out: Out) {
        self.0.lock().expect("no panic").push_back(out);
    }

    fn pop(&self) -> Option<Out> {
        self.0.lock().expect("no panic").pop_front()
    }
}

impl GroupHost for Outs {
    fn send(&self, _: NodeId, _: Urgency, message: Vec<u8>) {
        self.push(Out::Sent(message));
    }

    fn committed(&self, _: GroupId, entries: Vec<SharedEntry>) {
        self.push(Out::Committed(entries.iter().flat_map(|entry| entry.bytes.iter().copied()).collect()));
    }

    fn event(&self, _: GroupId, event: GroupEvent) {
        self.push(Out::Event(event));
    }
}

pub struct Running {
    log: DatabaseLog,
    pub replication: Arc<Replication<Completion>>,
    partitions: Vec<Partition>,
    inboxes: Vec<Sender<Event>>,
    applier: Option<Applier>,
    intake: Option<Intake>,
    snapshots: Snapshots,
    pub sink: Sink,
    install: Option<Install>,
    cut: Option<CopyCut>,
    clock: SimulatedClock,
    /// It is to take a snapshot of its own.
    pub due: bool,
    pub cuts: u64,
    /// What it ended with, until all that the group said before it is taken.
    replaced: Option<CopyStart>,
    replacing: bool,
    outs: Outs,
    todo: VecDeque<Vec<u8>>,
    /// For the leader.
    pub group_messages: Vec<Vec<u8>>,
    pub transfer_messages: Vec<Vec<u8>>,
    /// Its stream is not the leader's.
    pub diverged: bool,
    pub installs: u64,
    /// Snapshots that were given up, since the node is needed as it is.
    pub needed: u64,
}

pub struct Learner {
    pub disk: SimulatedDisk,
    clock: SimulatedClock,
    database: [u8; 16],
    partitions: u32,
    pub running: Option<Running>,
    pub installs: u64,
    /// Snapshots of its own.
    pub cuts: u64,
}

impl Learner {
    pub fn new(seed: u64, clock: &SimulatedClock, database: [u8; 16], partitions: u32) -> Learner {
        let disk = SimulatedDisk::new(seed, clock.clone());
        disk.unwind_at_power_loss();
        Learner { disk, clock: clock.clone(), database, partitions, running: None, installs: 0, cuts: 0 }
    }

    /// The same node on another disk.
    pub fn on(&self, disk: SimulatedDisk) -> Learner {
        Learner { disk, ..Learner::new(0, &self.clock, self.database, self.partitions) }
    }

    /// Files of a directory, of this node from here on.
    pub fn import(&self, from: &Path) {
        for sub in ["", "snapshots"] {
            let Ok(entries) = std::fs::read_dir(from.join(sub)) else { continue };
            for path in entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()) {
                let to = Path::new(DIR).join(sub).join(path.file_name().expect("a name"));
                self.disk.put_file(&to, &std::fs::read(&path).expect("a file"));
            }
        }
    }

    /// Writes who it is, at the first start.
    pub fn make(&self) {
        use ferrite_io::Disk;
        let dir = Path::new(DIR);
        self.disk.create_dir(dir).expect("a healthy disk");
        let identity = Identity::new([1; 16], NODE, Incarnation(0));
        identity.write(&self.disk, dir).expect("a healthy disk");
    }

    pub fn start(&mut self) {
        self.try_start().unwrap_or_else(|error| panic!("{error}"));
    }

    pub fn try_start(&mut self) -> Result<(), StartError> {
        let (disk, clock) = (self.disk.clone(), self.clock.clone());
        let (database, partitions) = (self.database, self.partitions);
        match catch_unwind(AssertUnwindSafe(|| Running::start(&disk, &clock, database, partitions))) {
            Ok(running) => self.running = Some(running?),
            Err(panic) if panic.is::<PowerLost>() => self.disk.restart(Restart::Power),
            Err(panic) => resume_unwind(panic),
        }
        Ok(())
    }

    pub fn crash(&mut self, restart: Restart) {
        self.disk.halt();
        if let Some(running) = self.running.take() {
            self.installs += running.installs;
            self.cuts += running.cuts;
        }
        self.disk.restart(restart);
    }

    /// Loses its power at one of the next steps of its disk.
    pub fn crash_soon(&self, random: &mut SimulatedRandom) {
        let boundary = self.disk.boundaries() + 1 + random.below(60);
        self.disk.crash_at(Some(CrashPoint { boundary, after: random.below(2) == 0 }));
    }

    /// None where it does not run, or lost its power at this.
    pub fn with<T>(&mut self, work: impl FnOnce(&mut Running) -> T) -> Option<T> {
        let running = self.running.as_mut()?;
        match catch_unwind(AssertUnwindSafe(|| work(running))) {
            Ok(done) => Some(done),
            Err(panic) if panic.is::<PowerLost>() => {
                self.crash(Restart::Power);
                None
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Running {
    fn start(
        disk: &SimulatedDisk,
        clock: &SimulatedClock,
        database: [u8; 16],
        partitions: u32,
    ) -> Result<Running, StartError> {
        let outs = Outs::default();
        let log = LogOptions {
            database: Some(DatabaseId(database)),
            segment_bytes: 1 << 20,
            block_bytes_max: 256 << 10,
            own_threads: false,
            prepare_ahead: false,
            ..LogOptions::default()
        };
        let options = Options {
            log,
            groups: Some(GroupMap::single(partitions)),
            partitions_default: 1,
            threads: 0,
            report: &|_| {},
            progress: &RecoveryProgress::default(),
            runtime: &RuntimeHandle::default(),
        };
        let as_member =
            AsMember { host: Arc::new(outs.clone()), timing: Timing::DEFAULT, intact: true, snapshots: true };
        let (shared, time) = (Arc::new(disk.clone()), Arc::new(clock.clone()));
        let mut random = SimulatedRandom::new(7);
        let opened =
            recovery::open_member(shared.clone(), time.clone(), &mut random, Path::new(DIR), options, as_member);
        let RecoveredMember { recovered, place, replication } = opened?.only_group();
        let Recovered {
            partitions: of, stores, sequences, compiled, history, lots: ledger, log, group, snapshots, ..
        } = recovered;
        let (coordinator, jobs) = unbounded();
        let failure = Failure::new(|_| {});
        let (long_reads, _) = LongReads::new(1, Home::Coordinator(coordinator));
        let counts = Arc::new(RowCounts::new(stores.len()));
        let ends = partition_ends(stores.len());
        let inboxes = ends.iter().map(|(sender, _)| sender.clone()).collect();
        // Its coordinator is not run.
        let executors = assemble(Assembly {
            of,
            partitions: ends,
            jobs,
            long_reads,
            stores,
            sequences: sequences.clone(),
            compiled: Arc::clone(&compiled),
            history: history.clone(),
            group,
            failure,
            clock: time,
            limits: Duration::from_secs(3_600).into(),
            counts,
            publish: Box::new(|_| {}),
            is_copy: true,
            without_log: None,
            lots: None,
        });
        let newest = snapshots.files().find().expect("a healthy disk").snapshots.last().copied();
        let files = Files::new(shared, Path::new(INCOMING));
        let opened = Sink::open(files, database).and_then(|sink| sink.above(newest.unwrap_or(0)));
        let sink = opened.expect("a healthy disk");
        let mut running = Running {
            log,
            replication,
            partitions: executors.partitions,
            inboxes,
            applier: None,
            intake: None,
            snapshots,
            sink,
            install: None,
            cut: None,
            clock: clock.clone(),
            due: false,
            cuts: 0,
            replaced: None,
            replacing: false,
            outs,
            todo: VecDeque::new(),
            group_messages: Vec::new(),
            transfer_messages: Vec::new(),
            diverged: false,
            installs: 0,
            needed: 0,
        };
        running.copy_from(CopyStart { here: NODE, place, sequences, compiled, history, lots: ledger });
        Ok(running)
    }

    fn copy_from(&mut self, start: CopyStart) {
        let fault: Box<dyn Fn(&ferrite_partition::CopyFault) + Send> = Box::new(|fault| panic!("{fault}"));
        let events = CopyEvents { publish: Box::new(|_| {}), contents: Box::new(|_| {}), fault };
        let (applier, intake) = Applier::new(start, GroupInboxes::single(self.inboxes.clone()), events);
        (self.applier, self.intake) = (Some(applier), Some(intake));
    }

    fn begin_if_replaced(&mut self) {
        if self.replacing
            && let Some(start) = self.replaced.take()
        {
            self.replacing = false;
            self.copy_from(start);
        }
    }

    pub fn configured(&mut self, configuration: GroupConfiguration) {
        self.replication.configured(configuration);
    }

    /// Somebody moves on; false if nobody can do anything.
    pub fn step(&mut self, random: &mut SimulatedRandom) -> bool {
        let moved = match random.below(7) {
            0 => self.log.step(),
            1 => {
                let number = random.below(self.partitions.len() as u64) as usize;
                self.partitions[number].step()
            }
            2 => self.applier.as_mut().is_some_and(Applier::step),
            3 => self.handle_next(),
            4 => self.cut(),
            5 => self.sink.progress() == SinkProgress::Working && self.step_sink(),
            _ => self.install(),
        };
        moved || self.settle_one()
    }

    /// Whoever can.
    fn settle_one(&mut self) -> bool {
        self.cut()
            || self.log.step()
            || self.partitions.iter_mut().any(Partition::step)
            || self.applier.as_mut().is_some_and(Applier::step)
            || self.handle_next()
            || self.sink.progress() == SinkProgress::Working && self.step_sink()
            || self.install()
    }

    /// A snapshot of its own; whether anybody is to move on for it.
    fn cut(&mut self) -> bool {
        let changes = self.replacing || self.install.is_some() || self.sink.progress() != SinkProgress::Idle;
        let Some(intake) = self.intake.as_ref().filter(|intake| !changes && !intake.has_ended()) else {
            self.cut = None;
            return false;
        };
        let Some(mut cut) = self.cut.take() else {
            if !std::mem::take(&mut self.due) {
                return false;
            }
            self.cut = CopyCut::begin(self.snapshots.next_number(), &self.replication, intake);
            return true;
        };
        let before = cut.waits_for();
        match cut.step(&self.clock) {
            CutStep::Waiting => {
                let moved = cut.waits_for() != before;
                self.cut = Some(cut);
                moved
            }
            CutStep::Ended => true,
            CutStep::Done(taken) => {
                self.snapshots.save(*taken, 0, &|_| Ok(())).unwrap_or_else(|error| panic!("{error}"));
                self.cuts += 1;
                true
            }
        }
    }

    fn step_sink(&mut self) -> bool {
        let mut out = Vec::new();
        self.sink.step(&mut out).expect("a healthy disk");
        self.transfer_messages.extend((!out.is_empty()).then_some(out));
        true
    }

    fn handle_next(&mut self) -> bool {
        if let (Some(intake), Some(bytes)) = (&self.intake, self.todo.pop_front()) {
            intake.entries(bytes).expect("there is room for the test's few");
            return true;
        }
        let Some(out) = self.outs.pop() else { return false };
        match out {
            Out::Sent(message) => {
                let waits = self.replacing && self.replaced.is_none();
                assert!(!waits, "it says something before the snapshot is durable");
                self.group_messages.push(message);
            }
            Out::Committed(bytes) => self.todo.push_back(bytes),
            Out::Event(GroupEvent::Replaced) => {
                self.todo.clear();
                self.intake = None;
                self.replacing = true;
                self.begin_if_replaced();
            }
            Out::Event(GroupEvent::Diverged(_)) => self.diverged = true,
            Out::Event(GroupEvent::LogFailed(failure)) => panic!("{failure}"),
            Out::Event(_) => {}
        }
        true
    }

    /// A snapshot that has come takes its place.
    fn install(&mut self) -> bool {
        let Some(install) = &mut self.install else {
            let SinkProgress::Installed(id) = self.sink.progress() else { return false };
            let party = Party {
                here: NODE,
                group: Arc::clone(&self.replication),
                partitions: GroupInboxes::single(self.inboxes.clone()),
                intake: self.intake.clone(),
                runtime: RuntimeHandle::default(),
                transaction_bytes_max: None,
            };
            match Install::begin(self.sink.files().clone(), id.snapshot, party) {
                Ok(install) => {
                    self.sink.taking_in();
                    self.install = Some(install);
                }
                Err(InstallError::Files(_)) => self.sink.abandon().expect("a healthy disk"),
                Err(error) => panic!("{error}"),
            }
            return true;
        };
        match install.step(&mut self.snapshots) {
            Ok(InstallStep::Working) => true,
            Ok(InstallStep::Waiting) => false,
            Ok(InstallStep::Done(start)) => {
                self.install = None;
                self.installs += 1;
                self.diverged = false;
                self.replaced = Some(*start);
                self.begin_if_replaced();
                self.sink.taken_in().expect("a healthy disk");
                true
            }
            Err(InstallError::Needed) => {
                self.install = None;
                self.needed += 1;
                self.sink.abandon().expect("a healthy disk");
                true
            }
            Err(InstallError::Number(highest)) => {
                self.install = None;
                self.sink.raise(highest);
                self.sink.abandon().expect("a healthy disk");
                true
            }
            Err(InstallError::Files(_)) => {
                self.install = None;
                self.sink.abandon().expect("a healthy disk");
                true
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// For a test that fails.
    pub fn state(&self) -> String {
        let (place, commit) = (self.replication.place(), self.replication.commit());
        let sink = self.sink.progress();
        format!("{place:?}, committed {commit}, applied {}, {sink:?}, {}", self.applied(), self.install.is_some())
    }

    pub fn applied(&self) -> Position {
        self.intake.as_ref().map_or(Position(0), Intake::applied)
    }

    /// What can be seen at rest.
    pub fn contents(&self) -> Vec<String> {
        let stores: Vec<&Store> =
            self.partitions.iter().map(|partition| partition.store().expect("nobody has it")).collect();
        for store in &stores {
            store.verify().unwrap_or_else(|problem| panic!("partition {}: {problem}", store.partition()));
        }
        rows(&stores)
    }
}
