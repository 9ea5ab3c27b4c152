//! A database with all its parties on one thread, moved on in an order that follows from a seed:
//! partitions, coordinator, log and, where it is a copy, the applier.
#![allow(dead_code, reason = "each user of this room uses its part")]

#[path = "stepped/calls.rs"]
mod calls;
#[path = "stepped/roles.rs"]
mod roles;
#[path = "rows.rs"]
mod rows;

pub use rows::rows;

use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{GroupMap, PartitionId, Position};
use ferrite_group::{EntryBuffer, GroupAppender, GroupPlace, KIND_ENTRY, KIND_EPOCH_START};
use ferrite_io::simulated::SimulatedRandom;
use ferrite_io::{Clock, RealDisk, SystemClock, SystemRandom};
use ferrite_log::{BlockPlace, Durability, LogOptions, SegmentIndex};
use ferrite_partition::applier::{Applier, Intake};
use ferrite_partition::assemble::{Assembly, Executors, assemble, partition_ends};
use ferrite_partition::commit::{Completion, DatabaseLog, Parties};
use ferrite_partition::contents::ContentCut;
use ferrite_partition::coordinator::Coordinator;
use ferrite_partition::event::{CommittedState, Job, TakenSnapshot};
use ferrite_partition::gate::{Failure, Gate};
use ferrite_partition::long_read::{Home, LongReads};
use ferrite_partition::recovery::{self, Recovered, RecoveredNode};
use ferrite_partition::snapshots::Snapshots;
use ferrite_partition::thread::Partition;
use ferrite_partition::{AnswerBatch, Compiled, CopyFault, Event, Mailbox, MailboxHandle, RecoveryProgress, RowCounts};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::Mark;
use ferrite_table::Store;
use ferrite_value::Value;
use ferrite_value::ring::Ring;
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub fn log_options() -> LogOptions {
    LogOptions {
        durability: Durability::None,
        segment_bytes: 4 << 20,
        block_bytes_max: 1 << 20,
        own_threads: false,
        prepare_ahead: false,
        ..LogOptions::default()
    }
}

/// What a database needs from outside.
#[derive(Clone)]
pub struct Outside {
    pub clock: Arc<dyn Clock>,
    pub runtime: RuntimeHandle,
    /// Of the log.
    pub segment_bytes: u64,
}

impl Default for Outside {
    fn default() -> Outside {
        Outside { clock: Arc::new(SystemClock), runtime: RuntimeHandle::default(), segment_bytes: 4 << 20 }
    }
}

fn recover(dir: &Path, partitions: u32, outside: &Outside) -> Recovered {
    let options = recovery::Options {
        log: LogOptions {
            segment_bytes: outside.segment_bytes,
            block_bytes_max: log_options().block_bytes_max.min(outside.segment_bytes as usize / 4),
            ..log_options()
        },
        groups: Some(GroupMap::single(partitions)),
        partitions_default: partitions,
        threads: 0,
        report: &|_| {},
        progress: &RecoveryProgress::default(),
        runtime: &outside.runtime,
    };
    let clock = Arc::clone(&outside.clock);
    recovery::open_with(Arc::new(RealDisk), clock, &mut SystemRandom, dir, options)
        .map(RecoveredNode::only_group)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// All files of a database whose log is at rest.
pub fn copy_files(from: &Path, to: &Path) {
    for sub in ["", "snapshots"] {
        fs::create_dir_all(to.join(sub)).expect("a directory");
        for entry in fs::read_dir(from.join(sub)).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                fs::copy(&path, to.join(sub).join(path.file_name().expect("a name"))).expect("a copy");
            }
        }
    }
}

/// An entry as it stands in the log.
pub type Bytes = Vec<u8>;

/// The entries in the log of a database that is at rest, with their positions.
pub fn entries(dir: &Path) -> Vec<(Position, Bytes)> {
    let files = tempfile::tempdir().expect("a temporary directory");
    copy_files(dir, files.path());
    let mut found = Vec::new();
    let visit = |_: BlockPlace<'_>, payload: &[u8]| {
        let mut rest = payload;
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[1..5].try_into().expect("4 bytes")) as usize;
            let (one, behind) = rest.split_at(5 + length);
            rest = behind;
            if matches!(one[0], KIND_ENTRY | KIND_EPOCH_START) {
                let position = u64::from_le_bytes(one[17..25].try_into().expect("8 bytes"));
                found.push((Position(position), one.to_vec()));
            }
        }
        Ok::<(), Infallible>(())
    };
    let (disk, clock) = (Arc::new(RealDisk), Arc::new(SystemClock));
    drop(DatabaseLog::open(disk, clock, files.path(), log_options(), visit).expect("a log at rest"));
    found
}

struct Told(Sender<AnswerBatch>);

impl Mailbox for Told {
    fn deliver(&self, answers: AnswerBatch) {
        let _ = self.0.send(answers);
    }
}

pub struct Database {
    pub dir: PathBuf,
    partitions: u32,
    clock: Arc<dyn Clock>,
    parties: Arc<Mutex<Parts>>,
    coordinator: Coordinator,
    jobs: Sender<Job>,
    pub inboxes: Vec<Sender<Event>>,
    /// The partitions', then the coordinator's.
    pub gates: Vec<Arc<Gate>>,
    current: Arc<Mutex<Arc<Compiled>>>,
    ring: Arc<Ring>,
    told: Arc<Told>,
    answers: Receiver<AnswerBatch>,
    snapshots: Snapshots,
    copying: Option<(Applier, Intake)>,
    pub fault: Arc<Mutex<Option<CopyFault>>>,
    /// What its applier wants hashed.
    pub contents_cut: (Sender<ContentCut>, Receiver<ContentCut>),
    random: SimulatedRandom,
}

/// Who moves on while the coordinator waits.
struct Parts {
    partitions: Vec<Partition>,
    log: DatabaseLog,
    group: GroupAppender<Completion>,
    random: SimulatedRandom,
}

impl Parts {
    fn step(&mut self) -> bool {
        let ready: Vec<usize> =
            (0..self.partitions.len()).filter(|number| self.partitions[*number].can_step()).collect();
        let all = ready.len() as u64 + u64::from(self.log.has_work());
        if all == 0 {
            return false;
        }
        match ready.get(self.random.below(all) as usize) {
            Some(number) => self.partitions[*number].step(),
            None => self.log.step(),
        };
        true
    }
}

impl Database {
    pub fn leader(dir: &Path, partitions: u32, seed: u64) -> Database {
        Database::leader_with(dir, partitions, seed, Outside::default())
    }

    pub fn leader_with(dir: &Path, partitions: u32, seed: u64, outside: Outside) -> Database {
        Database::new(recover(dir, partitions, &outside), dir, seed, false, outside.clock)
    }

    /// A copy that begins where the directory's log ends.
    pub fn copy(dir: &Path, partitions: u32, seed: u64) -> Database {
        Database::copy_with(dir, partitions, seed, Outside::default())
    }

    pub fn copy_with(dir: &Path, partitions: u32, seed: u64, outside: Outside) -> Database {
        let recovered = recover(dir, partitions, &outside);
        let (place, sequences) = (recovered.group.place(), recovered.sequences.clone());
        let state = CommittedState {
            compiled: Arc::clone(&recovered.compiled),
            history: recovered.history.clone(),
            lots: recovered.lots.clone(),
        };
        let mut copy = Database::new(recovered, dir, seed, true, outside.clock);
        let inboxes = copy.inboxes.clone();
        copy.follow_from(place, sequences, state, inboxes);
        copy
    }

    /// A copy that has nothing yet; the log in its directory is not used.
    pub fn empty_copy(dir: &Path, partitions: u32, seed: u64) -> Database {
        let outside = Outside::default();
        let mut copy = Database::new(recover(dir, partitions, &outside), dir, seed, true, outside.clock);
        let inboxes = copy.inboxes.clone();
        copy.follow_empty(inboxes);
        copy
    }

    fn new(recovered: Recovered, dir: &Path, seed: u64, copy: bool, clock: Arc<dyn Clock>) -> Database {
        let Recovered { partitions: of, stores, sequences, compiled, history, log, group, snapshots, .. } = recovered;
        let current = Arc::new(Mutex::new(Arc::clone(&compiled)));
        let (jobs, arriving) = unbounded();
        let failure = Failure::new(|reason| panic!("{reason}"));
        let (long_reads, _) = LongReads::new(1, Home::Coordinator(jobs.clone()));
        let counts = Arc::new(RowCounts::new(stores.len()));
        let ring = Arc::new(Ring::new_default(stores.len() as u32));
        let mut stores = stores;
        stores.iter_mut().for_each(|store| store.set_compaction_waste_min(4_096));
        let ends = partition_ends(stores.len());
        let inboxes = ends.iter().map(|(sender, _)| sender.clone()).collect();
        let published = Arc::clone(&current);
        let executors = assemble(Assembly {
            of,
            partitions: ends,
            jobs: arriving,
            long_reads,
            stores,
            sequences,
            compiled,
            history,
            group: group.clone(),
            failure,
            clock: Arc::clone(&clock),
            limits: Duration::from_secs(3_600).into(),
            counts,
            publish: Box::new(move |compiled| *published.lock().expect("no panic") = compiled),
            is_copy: copy,
            without_log: None,
            lots: None,
        });
        let Executors { partitions, mut coordinator, gates } = executors;
        let mut random = SimulatedRandom::new(seed);
        let fork = random.fork();
        let number = partitions.len() as u32;
        let parties = Arc::new(Mutex::new(Parts { partitions, log, group, random: fork }));
        let moved = Arc::downgrade(&parties);
        coordinator.on_one_thread(move || {
            let parties = moved.upgrade().expect("they live as long");
            assert!(parties.lock().expect("no panic").step(), "the coordinator waits for ever");
        });
        let (told, answers) = unbounded();
        Database {
            dir: dir.to_path_buf(),
            partitions: number,
            clock,
            parties,
            coordinator,
            jobs,
            inboxes,
            gates,
            current,
            ring,
            told: Arc::new(Told(told)),
            answers,
            snapshots,
            copying: None,
            fault: Arc::default(),
            contents_cut: unbounded(),
            random,
        }
    }

    /// Moves somebody on; false if nobody can do anything.
    pub fn step(&mut self) -> bool {
        for first in [self.random.below(3), 0, 1, 2] {
            let moved = match first {
                0 => self.coordinator.step(),
                1 => self.parties.lock().expect("no panic").step(),
                _ => self.copying.as_mut().is_some_and(|(applier, _)| {
                    let could = applier.can_step();
                    assert_eq!(applier.step(), could);
                    could
                }),
            };
            if moved {
                return true;
            }
        }
        false
    }

    /// Moves each partition on once.
    pub fn step_partitions(&mut self) {
        self.parties.lock().expect("no panic").partitions.iter_mut().for_each(|partition| {
            partition.step();
        });
    }

    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// Moves only the log on, until all that it was given is committed here.
    pub fn step_log(&mut self) {
        let parties = self.parties.lock().expect("no panic");
        while parties.log.has_work() {
            parties.log.step();
        }
    }

    pub fn compiled(&self) -> Arc<Compiled> {
        self.current.lock().expect("no panic").clone()
    }

    /// Where [`Database::answered`] looks.
    pub fn mailbox(&self) -> MailboxHandle {
        Arc::clone(&self.told) as _
    }

    pub fn send(&self, partition: PartitionId, event: Event) {
        self.inboxes[partition.index()].send(event).expect("it is there");
    }

    /// A snapshot on disk, as the leader makes it.
    pub fn save(&mut self) {
        self.save_above(0);
    }

    /// The same with a higher number than this one: its number.
    pub fn save_above(&mut self, above: u64) -> u64 {
        self.settle();
        let (to, taken) = unbounded();
        let snapshot = self.snapshots.next_number_above(above);
        self.jobs.send(Job::Checkpoint { snapshot, to }).expect("it is there");
        self.settle();
        let taken: TakenSnapshot = taken.try_recv().expect("it was taken");
        self.snapshots.save(taken, 0, &|_| Ok(())).expect("a healthy disk");
        snapshot
    }

    /// These snapshots stay while they are sent.
    pub fn hold(&mut self, snapshots: Vec<u64>) {
        self.snapshots.hold(snapshots);
    }

    pub fn log_index(&self) -> Arc<SegmentIndex> {
        Arc::clone(self.parties.lock().expect("no panic").log.index())
    }

    pub fn database(&self) -> [u8; 16] {
        self.log_index().database().0
    }

    /// What a leader at rest has come to.
    pub fn place(&self) -> GroupPlace {
        self.parties.lock().expect("no panic").group.place()
    }

    /// What a leader at rest has come to.
    pub fn end(&self) -> Position {
        self.parties.lock().expect("no panic").group.end().position
    }

    /// Everything that can be seen of it at rest: the schema with ids, each row with its id. Rows
    /// of views lie where each copy has put them.
    pub fn contents(&mut self) -> Vec<String> {
        self.settle();
        let parties = self.parties.lock().expect("no panic");
        let stores: Vec<&Store> =
            parties.partitions.iter().map(|partition| partition.store().expect("nobody has it")).collect();
        for store in &stores {
            store.verify().unwrap_or_else(|problem| panic!("partition {}: {problem}", store.partition()));
        }
        rows(&stores)
    }

    /// All numbers in the first column of a table.
    pub fn numbers(&mut self, table: &str) -> Vec<i64> {
        self.settle();
        let parties = self.parties.lock().expect("no panic");
        let mut all = Vec::new();
        for store in parties.partitions.iter().map(|partition| partition.store().expect("nobody has it")) {
            let table = store.tables().find(|data| data.definition().name == table).expect("it is there");
            let number = |id| match table.row(id).column(0) {
                Value::Integer(number) => number,
                other => panic!("{other:?} is not a number"),
            };
            all.extend(table.scan().map(number));
        }
        all
    }

    /// An entry of the leader's that changes nothing.
    pub fn append(&mut self, records: EntryBuffer) -> Option<Mark> {
        let completion = Completion { parties: Parties::Several(Vec::new()), buffers: None };
        self.parties.lock().expect("no panic").group.append(records, completion)
    }

    /// All stores, which are at home.
    pub fn with_stores<T>(&self, look: impl FnOnce(&[&Store]) -> T) -> T {
        let parties = self.parties.lock().expect("no panic");
        let stores: Vec<&Store> =
            parties.partitions.iter().map(|partition| partition.store().expect("nobody has it")).collect();
        look(&stores)
    }

    /// How much undo is kept.
    pub fn retained_bytes(&self) -> usize {
        let parties = self.parties.lock().expect("no panic");
        parties.partitions.iter().filter_map(Partition::store).map(Store::retained_bytes).sum()
    }

    pub fn close(self) -> PathBuf {
        let Database { coordinator, parties, dir, .. } = self;
        drop(coordinator);
        let parties = Arc::into_inner(parties).expect("nobody else has them").into_inner().expect("no panic");
        parties.log.close().expect("a healthy log closes");
        dir
    }
}
