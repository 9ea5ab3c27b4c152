//! A node that leads three groups of one database, with all its parties on one thread, a sequencer,
//! and the messages between them in memory.

use crate::common::log_options;
use crate::hosting::{Groups, map, open_members};
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{CatalogVersion, Epoch, GroupId, GroupMap, Incarnation, NodeId, PartitionId, SqlLimits, limits};
use ferrite_group::{GroupAppender, GroupEvent, GroupHost, GroupPlace, Identity, Replication, SharedEntry, Urgency};
use ferrite_io::Disk;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_multi::{LotId, LotPart, Outcome, Sequencer, SequencerEffect, ToAgent, ToSequencer};
use ferrite_partition::applier::{Applier, CopyEvents, CopyStart, Intake};
use ferrite_partition::assemble::{Assembly, Executors, assemble, partition_ends};
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::commit::{Completion, DatabaseLog};
use ferrite_partition::coordinator::Coordinator;
use ferrite_partition::copy_cut::CopyCut;
use ferrite_partition::event::Job;
use ferrite_partition::gate::{Failure, Gate};
use ferrite_partition::long_read::{Home, LongReads};
use ferrite_partition::lots::{LotCall, LotLinks, LotProgram, LotResult, LotWork};
use ferrite_partition::recovery::{AsMember, MemberStream, Options, RecoveredGroup};
use ferrite_partition::snapshots::Snapshots;
use ferrite_partition::thread::Partition;
use ferrite_partition::{
    AnswerBatch, Delivery, Event, GroupInboxes, Mailbox, Promoted, RecoveryProgress, Reply, RowCounts, SteppedBack,
    SteppingBack, recovery,
};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::{GroupConfiguration, Member, Timing};
use ferrite_value::Value;
use ferrite_value::ring::Ring;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const DIR: &str = "/node";
pub const GROUPS: u32 = 3;

/// What groups say.
enum Told {
    Committed(GroupId, Vec<SharedEntry>),
    Event(GroupId, GroupEvent),
}

#[derive(Default)]
struct Host(Mutex<VecDeque<Told>>);

impl GroupHost for Host {
    fn send(&self, to: NodeId, _: Urgency, _: Vec<u8>) {
        panic!("there is no node {to}");
    }

    fn committed(&self, group: GroupId, entries: Vec<SharedEntry>) {
        self.0.lock().unwrap().push_back(Told::Committed(group, entries));
    }

    fn event(&self, group: GroupId, event: GroupEvent) {
        self.0.lock().unwrap().push_back(Told::Event(group, event));
    }

    fn has_lease(&self) -> bool {
        true
    }
}

enum Message {
    ToSequencer(GroupId, Epoch, ToSequencer),
    ToAgent(GroupId, ToAgent),
}

/// Counts answers.
#[derive(Default)]
pub struct Heard(pub AtomicUsize);

impl Mailbox for Heard {
    fn deliver(&self, _: AnswerBatch) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Of answers that are not looked at.
struct Unheard;

impl Mailbox for Unheard {
    fn deliver(&self, _: AnswerBatch) {}
}

#[derive(Default)]
struct Links(Mutex<VecDeque<Message>>);

impl LotLinks for Links {
    fn to_sequencer(&self, from: GroupId, epoch: Epoch, message: ToSequencer) {
        self.0.lock().unwrap().push_back(Message::ToSequencer(from, epoch, message));
    }

    fn to_agent(&self, _: GroupId, to: GroupId, message: ToAgent) {
        self.0.lock().unwrap().push_back(Message::ToAgent(to, message));
    }
}

enum Role {
    Copy(Box<Applier>, Intake),
    Rising(Box<Applier>, Receiver<Promoted>),
    Leader,
    Falling(Box<GroupPlace>, SteppingBack),
}

/// A group that is led here.
pub struct Led {
    pub coordinator: Coordinator,
    pub partitions: Arc<Mutex<Vec<Partition>>>,
    pub gates: Vec<Arc<Gate>>,
    pub stream: Arc<Replication<Completion>>,
    pub snapshots: Snapshots,
    pub cancellations: Arc<Cancellations>,
    jobs: Sender<Job>,
    inboxes: GroupInboxes,
    role: Role,
    pub epoch: Option<Epoch>,
    pub member: Member,
}

pub struct World {
    pub clock: SimulatedClock,
    pub random: SimulatedRandom,
    log: Arc<Mutex<DatabaseLog>>,
    host: Arc<Host>,
    links: Arc<Links>,
    member: Member,
    pub groups: BTreeMap<GroupId, Led>,
    pub sequencer: Sequencer,
    /// Messages to these groups are lost.
    pub deaf: Vec<GroupId>,
    pub results: BTreeMap<(LotId, GroupId), (bool, LotResult)>,
    pub outcomes: BTreeMap<LotId, Outcome>,
    pub reads: BTreeMap<LotId, bool>,
    /// Lots that were awaited.
    pub settled: Vec<LotId>,
}

/// A database of three groups with this schema in each.
pub fn found(disk: &SimulatedDisk, schema: &str) {
    disk.create_dir(Path::new(DIR)).expect("a healthy disk");
    let mut node = Groups::open(disk, DIR).unwrap_or_else(|error| panic!("{error}"));
    for group in 0..GROUPS {
        node.ddl(group, schema, &mut |_, _| {}).expect("a healthy disk");
    }
    node.close();
    let mut identity = Identity::new([1; 16], NodeId(2), Incarnation(0));
    identity.hosted = (0..GROUPS).map(GroupId).collect();
    identity.write(disk, Path::new(DIR)).expect("a healthy disk");
}

impl World {
    /// Opens the database, and has this node lead all groups.
    pub fn open(disk: &SimulatedDisk, seed: u64) -> World {
        World::open_with(disk, seed, limits::TRANSACTION_BYTES_MAX)
    }

    /// The same where a transaction may change so much.
    pub fn open_with(disk: &SimulatedDisk, seed: u64, transaction_bytes_max: usize) -> World {
        let host = Arc::new(Host::default());
        let clock = SimulatedClock::default();
        let progress = RecoveryProgress::default();
        let runtime = RuntimeHandle::default();
        let options = Options {
            log: log_options(),
            groups: Some(map()),
            partitions_default: 1,
            threads: 0,
            report: &|_| {},
            progress: &progress,
            runtime: &runtime,
        };
        let as_host: Arc<dyn GroupHost> = Arc::<Host>::clone(&host);
        let as_member = AsMember { host: as_host, timing: Timing::DEFAULT, intact: true, snapshots: true };
        let time = Arc::new(clock.clone());
        let random = &mut SimulatedRandom::new(seed);
        let opened = recovery::open_member(Arc::new(disk.clone()), time, random, Path::new(DIR), options, as_member)
            .unwrap_or_else(|error| panic!("{error}"));
        let node = opened.node;
        let member = Member { node: node.identity.node, incarnation: node.identity.incarnation };
        let log = Arc::new(Mutex::new(node.log));
        let links = Arc::new(Links::default());
        let mut groups = BTreeMap::new();
        for (mut recovered, stream) in node.groups.into_iter().zip(opened.streams) {
            recovered.stores.iter_mut().for_each(|store| store.set_transaction_bytes_max(transaction_bytes_max));
            let id = recovered.partitions.group();
            groups.insert(id, Led::new(recovered, stream, member, &clock, &links, &log));
        }
        let mut world = World {
            clock,
            random: SimulatedRandom::new(seed),
            log,
            host,
            links,
            member,
            groups,
            sequencer: Sequencer::new(Epoch(1), (0..GROUPS).map(GroupId)),
            deaf: Vec::new(),
            results: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            reads: BTreeMap::new(),
            settled: Vec::new(),
        };
        world.groups.keys().copied().collect::<Vec<_>>().into_iter().for_each(|group| world.lead(group));
        world
    }

    /// It is decided that this node leads the group.
    pub fn lead(&mut self, group: GroupId) {
        let led = &self.groups[&group];
        let epoch = Epoch(led.stream.end().epoch.0 + 1);
        led.stream.configured(GroupConfiguration::alone(epoch, self.member));
    }

    /// Another sequencer, which all groups obey.
    pub fn order(&mut self, epoch: u64) {
        self.sequencer = Sequencer::new(Epoch(epoch), (0..GROUPS).map(GroupId));
        for (group, led) in &self.groups {
            self.sequencer.led(*group, led.epoch.expect("it leads"));
        }
        self.settle();
        assert!(self.sequencer.can_begin(), "all groups obey");
    }

    /// Does something; false: there is nothing to do but to wait.
    pub fn step(&mut self) -> bool {
        let first = self.random.below(4);
        for turn in 0..4 {
            let moved = match (first + turn) % 4 {
                0 => self.log.lock().unwrap().step(),
                1 => self.hear(),
                2 => self.deliver(),
                _ => self.step_groups(),
            };
            if moved {
                return true;
            }
        }
        false
    }

    /// Some seconds pass, and all that happens in them.
    pub fn settle(&mut self) {
        for _ in 0..60 {
            let mut steps = 0;
            while self.step() {
                steps += 1;
                assert!(steps < 100_000, "it does not come to rest");
            }
            self.clock.advance(Duration::from_millis(60));
            self.groups.values().for_each(|led| led.stream.tick());
            let now = ferrite_io::Clock::monotonic_nanos(&self.clock);
            self.sequencer.tick(now);
            self.carry_out();
        }
    }

    /// Until that holds, or nothing happens any more.
    pub fn until(&mut self, holds: impl Fn(&World) -> bool) -> bool {
        while !holds(self) {
            if !self.step() {
                return false;
            }
        }
        true
    }

    /// Takes note of what a group has said.
    fn hear(&mut self) -> bool {
        let Some(told) = self.host.0.lock().unwrap().pop_front() else { return false };
        match told {
            Told::Committed(group, entries) => {
                let Role::Copy(_, intake) = &self.groups[&group].role else { panic!("only copies apply") };
                for entry in entries {
                    intake.entries(entry.bytes.to_vec()).expect("there is room");
                }
            }
            Told::Event(group, GroupEvent::Opened) => {
                let led = self.groups.get_mut(&group).expect("it is here");
                let Role::Copy(applier, intake) = std::mem::replace(&mut led.role, Role::Leader) else { panic!() };
                let (to, promoted) = unbounded();
                intake.send(Delivery::Promote(to));
                led.role = Role::Rising(applier, promoted);
            }
            Told::Event(group, GroupEvent::Deposed(place)) => {
                let led = self.groups.get_mut(&group).expect("it is here");
                let stepping = SteppingBack::begin(&led.jobs, led.inboxes.of().len());
                led.role = Role::Falling(place, stepping);
                led.epoch = None;
                self.sequencer.lost(group);
                self.carry_out();
            }
            Told::Event(group, GroupEvent::Confirmed(round)) => {
                self.groups[&group].gates.iter().for_each(|gate| gate.confirmed(round));
            }
            Told::Event(group, GroupEvent::Promise(epoch)) => self.groups[&group].stream.promised(epoch),
            Told::Event(..) => {}
        }
        true
    }

    fn deliver(&mut self) -> bool {
        let Some(message) = self.links.0.lock().unwrap().pop_front() else { return false };
        match message {
            Message::ToSequencer(from, epoch, message) => {
                if !self.deaf.contains(&from) {
                    self.sequencer.receive(from, epoch, message);
                    self.carry_out();
                }
            }
            Message::ToAgent(to, message) => {
                if !self.deaf.contains(&to) {
                    let _ = self.groups[&to].jobs.send(Job::Lot(message));
                }
            }
        }
        true
    }

    pub fn carry_out(&mut self) {
        for effect in self.sequencer.effects() {
            match effect {
                SequencerEffect::Send { group, message } => {
                    self.links.0.lock().unwrap().push_back(Message::ToAgent(group, message));
                }
                SequencerEffect::Ran { lot, group, ok, result } => {
                    let result = LotResult::decode(&result).expect("a group writes it");
                    assert_eq!(ok, result.is_success());
                    self.results.insert((lot, group), (ok, result));
                }
                SequencerEffect::Decided { lot, outcome } => drop(self.outcomes.insert(lot, outcome)),
                SequencerEffect::Settled { lot } => self.settled.push(lot),
                SequencerEffect::Read { lot, is_fresh } => drop(self.reads.insert(lot, is_fresh)),
            }
        }
    }

    fn step_groups(&mut self) -> bool {
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        let first = self.random.below(ids.len() as u64) as usize;
        for turn in 0..ids.len() {
            let led = self.groups.get_mut(&ids[(first + turn) % ids.len()]).expect("it is here");
            if led.step() {
                return true;
            }
        }
        false
    }

    /// Begins a lot of these calls; each group gets those that have partitions in it. `all`: the
    /// lot holds all partitions.
    pub fn begin(&mut self, texts: &[(&str, &[i64])], rides: bool) -> LotId {
        let ring = Ring::new_default(map().partitions());
        let mut parts: BTreeMap<GroupId, (Vec<PartitionId>, Vec<LotCall>)> = BTreeMap::new();
        for (text, keys) in texts {
            let mut partitions: Vec<PartitionId> = keys.iter().map(|key| partition_of(*key, &ring)).collect();
            if keys.is_empty() {
                partitions = (0..map().partitions()).map(PartitionId).collect();
            }
            partitions.sort_unstable();
            partitions.dedup();
            let mut concerned: Vec<GroupId> = Vec::new();
            for partition in partitions {
                let group = map().group_of(partition).expect("it is there");
                let part = parts.entry(group).or_default();
                if !part.0.contains(&partition) {
                    part.0.push(partition);
                }
                if !concerned.contains(&group) {
                    concerned.push(group);
                }
            }
            let first = concerned.iter().min().copied();
            for group in concerned {
                let call = LotCall {
                    program: LotProgram::Text((*text).to_owned()),
                    catalog_version: CatalogVersion(1),
                    parameters: vec![0, 0],
                    is_first: Some(group) == first,
                    time_max_millis: 0,
                };
                parts.get_mut(&group).expect("made above").1.push(call);
            }
        }
        let part = |(group, (mut partitions, calls)): (GroupId, (Vec<PartitionId>, Vec<LotCall>))| {
            partitions.sort_unstable();
            let work = LotWork { time_micros: 5_000, answers_max: 1_000, calls }.encode();
            LotPart { group, partitions, work }
        };
        let lot = self.sequencer.begin(parts.into_iter().map(part).collect(), rides).expect("all are led");
        self.carry_out();
        lot
    }

    /// Rows of table `t` on all partitions, once nothing is under way: key and number.
    pub fn rows(&mut self) -> BTreeMap<i64, i64> {
        self.settle();
        let mut rows = BTreeMap::new();
        for led in self.groups.values() {
            for partition in led.partitions.lock().unwrap().iter() {
                let store = partition.store().expect("nothing is held");
                store.verify().unwrap_or_else(|problem| panic!("{problem}"));
                let table = store.tables().find(|table| table.definition().name == "T").expect("it was made");
                for id in table.scan() {
                    let number = |column| match table.row(id).column(column) {
                        Value::Integer(number) => number,
                        other => panic!("{other:?} is no number"),
                    };
                    assert!(rows.insert(number(0), number(1)).is_none(), "a key is on one partition");
                }
            }
        }
        rows
    }
}

pub fn partition_of(key: i64, ring: &Ring) -> PartitionId {
    ring.partition_of(ferrite_value::hash::partition_token_i64(key))
}

/// Keys, the first of each group.
pub fn keys_of_groups(map: &GroupMap) -> Vec<i64> {
    let ring = Ring::new_default(map.partitions());
    let first = |group| (1..).find(|key| map.group_of(partition_of(*key, &ring)) == Some(GroupId(group)));
    (0..map.groups()).map(|group| first(group).expect("each has some")).collect()
}

impl Led {
    fn new(
        recovered: RecoveredGroup,
        stream: MemberStream,
        member: Member,
        clock: &SimulatedClock,
        links: &Arc<Links>,
        log: &Arc<Mutex<DatabaseLog>>,
    ) -> Led {
        let RecoveredGroup { partitions: of, stores, sequences, compiled, history, lots, group, snapshots } = recovered;
        let (jobs, arriving) = unbounded();
        let (long_reads, _) = LongReads::new(1, Home::Coordinator(jobs.clone()));
        let cancellations = Arc::clone(long_reads.cancellations().all());
        let ends = partition_ends(stores.len());
        let senders: Vec<Sender<Event>> = ends.iter().map(|(sender, _)| sender.clone()).collect();
        let inboxes = GroupInboxes::new(of.clone(), senders);
        let start = CopyStart {
            here: member.node,
            place: stream.place,
            sequences: sequences.clone(),
            compiled: Arc::clone(&compiled),
            history: history.clone(),
            lots,
        };
        let as_links: Arc<dyn LotLinks> = Arc::<Links>::clone(links);
        let executors = assemble(Assembly {
            of,
            partitions: ends,
            jobs: arriving,
            long_reads,
            counts: Arc::new(RowCounts::new(map().partitions() as usize)),
            stores,
            sequences,
            compiled,
            history,
            group,
            failure: Failure::new(|_| {}),
            clock: Arc::new(clock.clone()),
            limits: Duration::from_secs(3_600).into(),
            publish: Box::new(|_| {}),
            is_copy: true,
            without_log: None,
            lots: Some(as_links),
        });
        let Executors { partitions, mut coordinator, gates } = executors;
        let partitions = Arc::new(Mutex::new(partitions));
        let moved = Arc::clone(&partitions);
        let log = Arc::clone(log);
        coordinator.on_one_thread(move || {
            let moved = moved.lock().unwrap().iter_mut().any(Partition::step);
            assert!(moved || log.lock().unwrap().step(), "the coordinator waits for ever");
        });
        let role = begin_to_copy(start, inboxes.clone());
        Led {
            coordinator,
            partitions,
            gates,
            stream: stream.replication,
            snapshots,
            cancellations,
            jobs,
            inboxes,
            role,
            epoch: None,
            member,
        }
    }

    /// The copy takes a snapshot, up to where its files can be written.
    pub fn begin_cut(&mut self) -> CopyCut {
        let number = self.snapshots.next_number();
        let Role::Copy(_, intake) = &self.role else { panic!("it leads") };
        CopyCut::begin(number, &self.stream, intake).expect("it is a copy")
    }

    /// Has the coordinator answer when it comes to it: after all that was sent before.
    pub fn quiesce(&self, mailbox: Arc<dyn Mailbox>) {
        let reply = Reply { mailbox, connection: 1, handle: 2, sent_micros: 0 };
        self.jobs.send(Job::Quiesce(reply)).expect("it is there");
    }

    /// The node stops: the coordinator is told to end.
    pub fn stop(&self) {
        self.jobs.send(Job::Stop).expect("it is there");
    }

    /// Whether a partition has lent its store.
    pub fn has_lent_some(&self) -> bool {
        self.partitions.lock().unwrap().iter().any(|partition| partition.store().is_none())
    }

    /// Has the coordinator do something.
    pub fn send(&self, job: Job) {
        self.jobs.send(job).expect("it is there");
    }

    /// Whether no partition has its store.
    pub fn has_lent_all(&self) -> bool {
        self.partitions.lock().unwrap().iter().all(|partition| partition.store().is_none())
    }

    /// Begins to change the group's schema.
    pub fn change_schema(&self, text: &str) {
        let reply = Reply { mailbox: Arc::new(Unheard), connection: 1, handle: 1, sent_micros: 0 };
        let limits = SqlLimits::CEILING;
        self.jobs.send(Job::Schema { text: text.to_owned(), limits, time_max: None, reply }).expect("it is there");
    }

    fn step(&mut self) -> bool {
        if self.coordinator.can_step() {
            return self.coordinator.step();
        }
        if self.partitions.lock().unwrap().iter_mut().any(Partition::step) {
            return true;
        }
        match &mut self.role {
            Role::Copy(applier, _) => applier.step(),
            Role::Rising(applier, promoted) => {
                let Ok(promoted) = promoted.try_recv() else { return applier.step() };
                self.epoch = Some(promoted.place.end.epoch);
                let log = GroupAppender::new(Arc::clone(&self.stream));
                promoted.lead(&log, self.inboxes.senders(), &self.jobs);
                self.role = Role::Leader;
                true
            }
            Role::Leader => false,
            Role::Falling(place, stepping) => {
                let Some(SteppedBack { sequences, compiled, history, lots }) = stepping.try_end() else { return false };
                let place = (**place).clone();
                let start = CopyStart { here: NodeId(2), place, sequences, compiled, history, lots };
                self.role = begin_to_copy(start, self.inboxes.clone());
                true
            }
        }
    }
}

fn begin_to_copy(start: CopyStart, inboxes: GroupInboxes) -> Role {
    let events = CopyEvents {
        publish: Box::new(|_| {}),
        contents: Box::new(|_| {}),
        fault: Box::new(|fault| panic!("{fault}")),
    };
    let (applier, intake) = Applier::new(start, inboxes, events);
    Role::Copy(Box::new(applier), intake)
}

/// What a start finds of the streams.
pub fn reopened(disk: &SimulatedDisk) -> Vec<ferrite_partition::lots::LotLedger> {
    let members = open_members(disk, DIR, log_options()).unwrap_or_else(|error| panic!("{error}"));
    members.node.groups.iter().map(|group| group.lots.clone()).collect()
}
