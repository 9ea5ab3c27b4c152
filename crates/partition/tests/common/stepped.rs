//! A database with all its parties on one thread, moved on in an order that follows from a seed:
//! partitions, coordinator, log and, where it is a copy, the applier.
#![allow(dead_code, reason = "each user of this room uses its part")]

#[path = "rows.rs"]
mod rows;

pub use rows::rows;

use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{ErrorKind, NodeId, PartitionId, Position, Sequence, SqlLimits, UserError};
use ferrite_group::{
    Begin, EntryBuffer, FIRST_GROUP, Found, GroupAppender, GroupHost, GroupPlace, KIND_ENTRY, KIND_EPOCH_START,
    Replication,
};
use ferrite_io::simulated::SimulatedRandom;
use ferrite_io::{Clock, RealDisk, SystemClock, SystemRandom};
use ferrite_log::{BlockPlace, Durability, LogOptions, SegmentIndex};
use ferrite_partition::applier::{Applier, CopyEvents, CopyStart, Intake};
use ferrite_partition::assemble::{Assembly, Executors, assemble, partition_ends};
use ferrite_partition::commit::{Completion, DatabaseLog, Parties};
use ferrite_partition::contents::ContentCut;
use ferrite_partition::coordinator::Coordinator;
use ferrite_partition::event::{Job, Taken};
use ferrite_partition::gate::{Failure, Gate};
use ferrite_partition::long_read::{Home, LongReads};
use ferrite_partition::recovery::{self, Recovered};
use ferrite_partition::schema::SchemaHistory;
use ferrite_partition::snapshots::Snapshots;
use ferrite_partition::thread::Partition;
use ferrite_partition::{
    AnswerBatch, Compiled, CopyFault, Delivery, Event, Mailbox, MailboxHandle, OwnLog, ProgramCall, Promoted,
    RecoveryProgress, Reply, Retry, RowCounts, SteppedBack, SteppingBack, StoreSet,
};
use ferrite_plan::external::RuntimeHandle;
use ferrite_plan::{Owners, Program};
use ferrite_replica::group::{GroupConfiguration, Mark, Member, Timing};
use ferrite_table::Store;
use ferrite_value::Value;
use ferrite_value::ring::Ring;
use ferrite_wire::parameters::ParameterSet;
use ferrite_wire::{Response, frame};
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
        partitions: Some(partitions),
        partitions_default: partitions,
        threads: 0,
        report: &|_| {},
        progress: &RecoveryProgress::default(),
        runtime: &outside.runtime,
    };
    let clock = Arc::clone(&outside.clock);
    recovery::open_with(Arc::new(RealDisk), clock, &mut SystemRandom, dir, options)
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
        let (compiled, history) = (Arc::clone(&recovered.compiled), recovered.history.clone());
        let mut copy = Database::new(recovered, dir, seed, true, outside.clock);
        let inboxes = copy.inboxes.clone();
        copy.follow_from(place, sequences, compiled, history, inboxes);
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

    pub fn follow_empty(&mut self, inboxes: Vec<Sender<Event>>) {
        let leader = Member { node: NodeId(1), incarnation: ferrite_base::Incarnation(1) };
        let place = GroupPlace::before_the_first(ferrite_base::Epoch(0), leader);
        let sequences = vec![Sequence(0); self.partitions as usize];
        let compiled = self.current.lock().expect("no panic").clone();
        self.follow_from(place, sequences, compiled, SchemaHistory::default(), inboxes);
    }

    pub fn follow_from(
        &mut self,
        place: GroupPlace,
        sequences: Vec<Sequence>,
        compiled: Arc<Compiled>,
        history: SchemaHistory,
        inboxes: Vec<Sender<Event>>,
    ) {
        let (current, fault) = (Arc::clone(&self.current), Arc::clone(&self.fault));
        let contents = self.contents_cut.0.clone();
        let events = CopyEvents {
            publish: Box::new(move |compiled| *current.lock().expect("no panic") = compiled),
            contents: Box::new(move |cut| contents.send(cut).expect("the test keeps it")),
            fault: Box::new(move |seen| {
                let before = fault.lock().expect("no panic").replace(seen.clone());
                assert!(before.is_none(), "a copy ends once");
            }),
        };
        let start = CopyStart { here: NodeId(1), place, sequences, compiled, history };
        self.copying = Some(Applier::new(start, inboxes, events));
    }

    fn new(recovered: Recovered, dir: &Path, seed: u64, copy: bool, clock: Arc<dyn Clock>) -> Database {
        let Recovered { stores, sequences, compiled, history, log, group, snapshots, .. } = recovered;
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

    fn reply(&self) -> Reply {
        let mailbox = self.mailbox();
        Reply { mailbox, connection: 1, handle: 1, sent_micros: 0 }
    }

    fn answer(&mut self) -> (i8, String) {
        loop {
            if let Ok(batch) = self.answers.try_recv()
                && !batch.bytes.is_empty()
            {
                let (_, body) = frame::split(&batch.bytes).expect("a whole frame").expect("one answer");
                let response = Response::parse(body).expect("well-formed");
                return (response.status_code, response.status_text.unwrap_or_default().to_owned());
            }
            assert!(self.step(), "a call is answered");
        }
    }

    /// Runs statements as one transaction, where its keys say; status and text.
    pub fn call(&mut self, text: &str) -> (i8, String) {
        let compiled = self.compiled();
        let statements = ferrite_sql::parse_batch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let program = ferrite_sql::compile_adhoc(&compiled.catalog, &statements, 0)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        self.call_program(Arc::new(program), compiled, 0)
    }

    /// Asks for the statements as one transaction and does not wait; the answer has the handle.
    /// None: they mean nothing in the schema as it is.
    pub fn submit(&mut self, handle: i64, text: &str) -> Option<()> {
        let compiled = self.compiled();
        let statements = ferrite_sql::parse_batch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let program = ferrite_sql::compile_adhoc(&compiled.catalog, &statements, 0).ok()?;
        let reply = Reply { handle, ..self.reply() };
        let refused = reply.clone();
        let retry =
            Box::new(move |_| refused.refuse(&UserError::new(ErrorKind::Unavailable, "40001", "another schema")));
        self.send_program(Arc::new(program), compiled, 0, reply, Some(retry));
        Some(())
    }

    /// The same of a change of the schema.
    pub fn submit_change(&mut self, handle: i64, text: &str) {
        let reply = Reply { handle, ..self.reply() };
        let job = Job::Schema { text: text.to_owned(), limits: SqlLimits::CEILING, time_max: None, reply };
        self.jobs.send(job).expect("it is there");
    }

    /// Answers that have left: handle, status, and the number in the first table.
    pub fn answered(&mut self) -> Vec<(i64, i8, Option<i64>)> {
        let mut all = Vec::new();
        for batch in self.answers.try_iter() {
            let mut rest = &batch.bytes[..];
            while let Some((size, body)) = frame::split(rest).expect("whole frames") {
                let response = Response::parse(body).expect("well-formed");
                all.push((response.handle, response.status_code, response.scalar()));
                rest = &rest[size..];
            }
        }
        all
    }

    /// Calls a procedure whose only parameter is its key.
    pub fn call_procedure(&mut self, name: &str, key: i64) -> (i8, String) {
        let compiled = self.compiled();
        let program = Arc::clone(compiled.program(compiled.find(name).expect("it was made")));
        self.call_program(program, compiled, key)
    }

    fn call_program(&mut self, program: Arc<Program>, compiled: Arc<Compiled>, key: i64) -> (i8, String) {
        let reply = self.reply();
        self.send_program(program, compiled, key, reply, None);
        self.answer()
    }

    fn send_program(
        &self,
        program: Arc<Program>,
        compiled: Arc<Compiled>,
        key: i64,
        reply: Reply,
        retry: Option<Retry>,
    ) {
        let mut parameters = vec![0, 0];
        if !program.parameters.is_empty() {
            parameters.clear();
            (key,).write_set(&mut parameters).expect("a number");
        }
        let owners = program.owners(|_| Ok(Value::Integer(key)), &self.ring).expect("a number routes");
        let (stores, one) = match owners {
            Owners::One(partition) => (StoreSet::All, Some(partition)),
            Owners::Any => (StoreSet::All, Some(PartitionId(0))),
            Owners::Several(list) => (StoreSet::Only(list.into()), None),
            _ => (StoreSet::All, None),
        };
        let call = ProgramCall {
            program,
            compiled,
            parameters,
            reply,
            stores,
            load: false,
            retry,
            recompile: None,
            turn: None,
            time_max: None,
        };
        match one {
            Some(partition) => self.send(partition, Event::Program(Box::new(call))),
            None => self.jobs.send(Job::Calls(vec![call])).expect("it is there"),
        }
    }

    pub fn send(&self, partition: PartitionId, event: Event) {
        self.inboxes[partition.index()].send(event).expect("it is there");
    }

    pub fn change_schema(&mut self, text: &str) -> (i8, String) {
        let (limits, reply) = (SqlLimits::CEILING, self.reply());
        let job = Job::Schema { text: text.to_owned(), limits, time_max: None, reply };
        self.jobs.send(job).expect("it is there");
        self.answer()
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
        let taken: Taken = taken.try_recv().expect("it was taken");
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

    /// The copy reads there what it is not given, as if it were its own log.
    pub fn reads_log_of(&mut self, leader: &Database) {
        let (applier, intake) = self.copying.take().expect("it is a copy");
        let group = Arc::clone(leader.parties.lock().expect("no panic").group.group());
        self.copying = Some((applier.with_log(OwnLog::new(group, leader.log_index())), intake));
    }

    pub fn intake(&self) -> Intake {
        self.copying.as_ref().expect("it is a copy").1.clone()
    }

    pub fn applied(&self) -> Position {
        self.intake().applied()
    }

    /// Gives a copy entries, in arrivals of some, and lets the parties do some of their work in
    /// between. They go to its own log, too.
    pub fn feed(&mut self, entries: &[(Position, Bytes)]) {
        let mut rest = entries;
        while !rest.is_empty() {
            let count = (1 + self.random.below(8) as usize).min(rest.len());
            let (some, behind) = rest.split_at(count);
            rest = behind;
            let mut arrival = Vec::new();
            for (_, bytes) in some {
                let (tell, _) = unbounded();
                let completion = Completion { parties: Parties::Asking(tell), buffers: None };
                self.parties.lock().expect("no panic").group.append_own(bytes.clone(), completion);
                arrival.extend_from_slice(bytes);
            }
            self.intake().entries(arrival).expect("there is room for the test's few");
            for _ in 0..self.random.below(40) {
                self.step();
            }
        }
    }

    /// An applier that was asked to has ended with this; `group` has opened.
    pub fn lead(&mut self, promoted: Promoted, group: &GroupAppender<Completion>) {
        self.copying = None;
        promoted.lead(group, &self.inboxes, &self.jobs);
        self.parties.lock().expect("no panic").group = group.clone();
    }

    /// The leader was deposed.
    pub fn begin_to_step_back(&mut self) -> SteppingBack {
        SteppingBack::begin(&self.jobs, self.inboxes.len())
    }

    /// This node's member of a cluster's group, which goes on where the copy stands.
    pub fn in_a_cluster(
        &self,
        here: Member,
        clock: Arc<dyn Clock>,
        host: Arc<dyn GroupHost>,
    ) -> Arc<Replication<Completion>> {
        let parties = self.parties.lock().expect("no panic");
        let applied = parties.group.place();
        let (history, end) = (applied.history.clone(), applied.end);
        let found = Found { applied, history, end, uncommitted: Vec::new() };
        let begin = Begin {
            id: FIRST_GROUP,
            here,
            promised: end.epoch,
            intact: true,
            timing: Timing::DEFAULT,
            snapshots: false,
            message_bytes_max: usize::MAX,
            window_bytes_max: usize::MAX,
        };
        Replication::of_cluster(begin, found, parties.log.appender(), clock, host)
    }

    /// Makes a copy the leader, of an epoch of its own, when everything it was given is applied.
    pub fn promote(&mut self) {
        let (to, promoted) = unbounded();
        self.intake().send(Delivery::Promote(to));
        self.settle();
        let promoted: Promoted = promoted.try_recv().expect("nothing is in the way");
        self.copying = None;
        let (group, told) = {
            let parties = self.parties.lock().expect("no panic");
            let place = promoted.place.clone();
            let epoch = ferrite_base::Epoch(place.end.epoch.0 + 1);
            let leader = place.configuration.leader;
            let group =
                GroupAppender::alone(FIRST_GROUP, leader, place, parties.log.appender(), Arc::clone(&self.clock));
            let (tell, told) = unbounded();
            let completion = Completion { parties: Parties::Asking(tell), buffers: None };
            group.start_epoch(GroupConfiguration::alone(epoch, leader), completion);
            (group, told)
        };
        self.settle();
        told.try_recv().expect("the log completes it").expect("a healthy log");
        promoted.lead(&group, &self.inboxes, &self.jobs);
        self.parties.lock().expect("no panic").group = group;
        self.settle();
    }

    /// Makes a leader at rest a copy.
    pub fn step_down(&mut self) {
        self.settle();
        let mut stepping = SteppingBack::begin(&self.jobs, self.inboxes.len());
        self.settle();
        let SteppedBack { sequences, compiled, history } = stepping.try_end().expect("nothing is in the way");
        let place = self.parties.lock().expect("no panic").group.place();
        let inboxes = self.inboxes.clone();
        self.follow_from(place, sequences, compiled, history, inboxes);
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
