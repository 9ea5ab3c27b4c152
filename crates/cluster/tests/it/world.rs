//! One node, whose partitions, metadata and other nodes are the test.

use crossbeam_channel::{Receiver, unbounded};
use ferrite_base::{Epoch, GroupId, GroupMap, Incarnation, NodeId, PartitionId, Position, Sequence, limits};
use ferrite_cluster::{
    Cause, GroupHandle, Groups, Host, Lease, Node, NodeEffects, NotHandedOver, Parties, Start, Transport,
};
use ferrite_group::{
    Begin, FIRST_GROUP, Found, FromLog, GroupHost, GroupPlace, Identity, IdentityError, Replication, Urgency, message,
};
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::{LogOptions, SegmentIndex};
use ferrite_meta::{Ask, Assignment, Command, Group, Kind, Node as Registration, Phase, Presence, Settings, State};
use ferrite_notice::Notice;
use ferrite_partition::applier::{Applier, CopyStart};
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::coordinator::Job;
use ferrite_partition::lots::LotLedger;
use ferrite_partition::recovery::{self, AsMember, Options, RecoveredMember};
use ferrite_partition::schema::SchemaHistory;
use ferrite_partition::waker::{WakingSender, waking_channel};
use ferrite_partition::{Compiled, Delivery, Event, GroupInboxes, OwnLog, RecoveryProgress};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::{GroupConfiguration, Mark, Member, Message, Timing};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const DIR: &str = "/node";
const START: [u8; 16] = [7; 16];
pub const MILLI: u64 = 1_000_000;

#[derive(Debug)]
pub enum Wish {
    Kept(Identity),
    Ask(Ask),
    Serves(Option<Epoch>),
    Paused(bool),
    Unequal(GroupId, bool),
    GaveUp(Epoch),
    Holds(bool),
    Notice(String),
    HandedOver(Result<NodeId, NotHandedOver>),
    MakeAnew(String),
    End(String),
}

#[derive(Clone, Default)]
pub struct Outside {
    wishes: Arc<Mutex<Vec<Wish>>>,
    appliers: Arc<Mutex<BTreeMap<GroupId, Applier>>>,
    asked: Arc<AtomicU64>,
}

impl Outside {
    /// The round of what it sent last, as a leader.
    pub fn round(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn push(&self, wish: Wish) {
        self.wishes.lock().unwrap().push(wish);
    }

    pub fn take(&self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes.lock().unwrap())
    }

    /// Whether the last applier goes on.
    pub fn applies(&self) -> bool {
        self.appliers.lock().unwrap().get(&FIRST_GROUP).is_some_and(|applier| !applier.intake().has_ended())
    }

    /// As where its copy cannot be used.
    pub fn end_applier(&self) {
        let mut appliers = self.appliers.lock().unwrap();
        let applier = appliers.get_mut(&FIRST_GROUP).expect("there is one");
        applier.intake().send(Delivery::Stop);
        while applier.step() {}
    }
}

impl Transport for Outside {
    fn send(&self, _: NodeId, _: Urgency, bytes: Vec<u8>) {
        let (_, envelope, _) = message::decode(&bytes).expect("a node says what can be read");
        if let Message::Append { round, .. } = envelope.message {
            self.asked.store(round, Ordering::Relaxed);
        }
    }
}

impl NodeEffects for Outside {
    fn keep(&mut self, identity: &Identity) -> Result<(), IdentityError> {
        self.push(Wish::Kept(identity.clone()));
        Ok(())
    }

    fn ask(&mut self, ask: Ask) {
        self.push(Wish::Ask(ask));
    }

    fn run(&mut self, group: GroupId, applier: Applier) {
        self.appliers.lock().unwrap().insert(group, applier);
    }

    fn publisher(&mut self, _: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send> {
        Box::new(|_| {})
    }

    fn hasher(&mut self, _: GroupId) -> Box<dyn Fn(ContentCut) + Send> {
        Box::new(|_| panic!("nobody takes a snapshot"))
    }

    fn needs_snapshot(&mut self, _: GroupId, _: NodeId) {}

    fn needs_no_snapshot(&mut self, _: GroupId, _: NodeId) {}

    fn transfer_nanos(&self, _: GroupId) -> u64 {
        0
    }

    fn send_from_log(&mut self, _: GroupId, wanted: FromLog) {
        panic!("nobody missed {wanted:?}");
    }

    fn serves(&mut self, _: GroupId, epoch: Option<Epoch>) {
        self.push(Wish::Serves(epoch));
    }

    fn paused(&mut self, paused: bool) {
        self.push(Wish::Paused(paused));
    }

    fn unequal(&mut self, group: GroupId, unequal: bool) {
        self.push(Wish::Unequal(group, unequal));
    }

    fn gave_up(&mut self, _: GroupId, epoch: Epoch) {
        self.push(Wish::GaveUp(epoch));
    }

    fn hold(&mut self, _: GroupId, holds: bool) {
        self.push(Wish::Holds(holds));
    }

    fn is_drained(&mut self, _: GroupId) -> bool {
        true
    }

    fn handed_over(&mut self, _: GroupId, outcome: Result<NodeId, NotHandedOver>) {
        self.push(Wish::HandedOver(outcome));
    }

    fn make_anew(&mut self, _: GroupId, reason: &str, _: Option<GroupId>) {
        self.push(Wish::MakeAnew(reason.to_owned()));
    }

    fn end(&mut self, reason: &str) {
        self.push(Wish::End(reason.to_owned()));
    }

    fn notice(&mut self, notice: Notice) {
        self.push(Wish::Notice(notice.to_string()));
    }
}

/// Where a group's partition and its coordinator would be.
type Receivers = (Receiver<Event>, Receiver<Job>);

fn parties_of(group: &GroupHandle, index: &Arc<SegmentIndex>) -> (Parties, Receivers) {
    let (to_partition, inbox) = unbounded();
    let (coordinator, jobs) = unbounded();
    let log = OwnLog::new(Arc::clone(group), Arc::clone(index));
    // A group of one partition, as all before it.
    let map = GroupMap::new((0..=group.id().0).map(GroupId).collect()).expect("they are numbered without a gap");
    let own = map.partitions_of(group.id()).expect("it is one of them");
    let partitions = GroupInboxes::new(own, vec![to_partition]);
    (Parties { partitions, coordinator, log }, (inbox, jobs))
}

fn empty_copy(here: Member, compiled: &Arc<Compiled>, history: &SchemaHistory) -> CopyStart {
    CopyStart {
        here: here.node,
        place: GroupPlace::before_the_first(Epoch(0), here),
        sequences: vec![Sequence(0)],
        compiled: Arc::clone(compiled),
        history: history.clone(),
        lots: LotLedger::default(),
    }
}

pub struct World {
    pub node: Node,
    pub groups: Groups,
    pub handles: Vec<GroupHandle>,
    /// Of the groups after the first.
    of_later: Vec<Receivers>,
    log: DatabaseLog,
    pub outside: Outside,
    pub causes: WakingSender<Cause>,
    pub inbox: Receiver<Event>,
    pub jobs: Receiver<Job>,
    pub lease: Lease,
    pub clock: SimulatedClock,
    /// Where its copy stood at the start.
    pub start: Option<CopyStart>,
}

pub fn registration(incarnation: u64) -> Registration {
    Registration {
        incarnation: Incarnation(incarnation),
        start: START,
        kind: Kind::Data,
        presence: Presence::Running,
        vote: None,
        release: "test".to_owned(),
        addresses: vec!["here:1".to_owned()],
        rack: None,
    }
}

fn at(registration: &Registration, id: u32) -> Registration {
    let addresses = if id == 1 { registration.addresses.clone() } else { vec![format!("there:{id}")] };
    Registration { addresses, ..registration.clone() }
}

pub fn member(incarnation: u64) -> Member {
    Member { node: NodeId(1), incarnation: Incarnation(incarnation) }
}

/// A cluster of node 1 alone, as of its first start.
pub fn founded(registration: Registration) -> State {
    founded_with(registration, 0)
}

pub fn founded_with(registration: Registration, kfactor: u32) -> State {
    founded_by(registration, kfactor, 1)
}

/// Nodes 1 and so on vote; node 1 alone has anything.
pub fn founded_by(registration: Registration, kfactor: u32, nodes: u32) -> State {
    let configuration = GroupConfiguration::alone(Epoch(1), member(registration.incarnation.0));
    let group = Group {
        configuration,
        parent: Mark::ORIGIN,
        burnt: Epoch(1),
        phase: Phase::Active,
        accepted: None,
        loss: None,
        unequal: false,
        assignment: None,
    };
    let mut state = State::default();
    let command = Command::Found {
        settings: Settings { cluster: [1; 16], revision: 1, kfactor, partitions: 1, paused: false },
        nodes: (1..=nodes).map(|id| (NodeId(id), at(&registration, id))).collect(),
        groups: vec![(FIRST_GROUP, group)],
        voters: (1..=nodes).map(NodeId).collect(),
    };
    state.apply(&command).unwrap();
    state
}

/// This many groups, each of one partition, which node 2 leads and node 1 copies.
pub fn founded_with_groups(registration: Registration, groups: u32) -> State {
    founded_with_members(registration, groups, &[2, 1])
}

/// The first group's first configuration is given up for that member's copy, which continues alone.
pub fn accept_loss(state: &mut State, member: Member) {
    let parent = Mark { epoch: Epoch(1), position: Position(1), chain: 0 };
    for command in [
        Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) },
        Command::AcceptLoss { group: FIRST_GROUP, expected: Epoch(1), sealed: Epoch(2), member },
        Command::Activate { group: FIRST_GROUP, configuration: GroupConfiguration::alone(Epoch(2), member), parent },
    ] {
        state.apply(&command).unwrap();
    }
}

/// The same with these members, the leader first.
pub fn founded_with_members(registration: Registration, groups: u32, members: &[u32]) -> State {
    let group = |id: u32| {
        let member = |node: &u32| Member { node: NodeId(*node), incarnation: registration.incarnation };
        let members: Vec<Member> = members.iter().map(member).collect();
        let configuration = GroupConfiguration::new(Epoch(1), members[0], members, Vec::new());
        let assignment = Assignment { partitions: vec![PartitionId(id)], place: vec![NodeId(2), NodeId(1)] };
        let (parent, burnt, phase) = (Mark::ORIGIN, Epoch(1), Phase::Active);
        let assignment = Some(assignment);
        Group { configuration, parent, burnt, phase, accepted: None, loss: None, unequal: false, assignment }
    };
    let mut state = State::default();
    let command = Command::Found {
        settings: Settings { cluster: [1; 16], revision: 1, kfactor: 1, partitions: groups, paused: false },
        nodes: (1..=2).map(|id| (NodeId(id), at(&registration, id))).collect(),
        groups: (0..groups).map(|id| (GroupId(id), group(id))).collect(),
        voters: vec![NodeId(1)],
    };
    state.apply(&command).unwrap();
    state
}

/// A group of which nothing is there yet.
fn new_group(id: u32, log: &DatabaseLog, clock: &SimulatedClock, host: &Arc<Host>, here: Member) -> GroupHandle {
    let begin = Begin {
        id: GroupId(id),
        here,
        promised: Epoch(0),
        intact: true,
        timing: Timing::DEFAULT,
        snapshots: true,
        message_bytes_max: message::MESSAGE_BYTES_MAX,
        window_bytes_max: limits::UNCOMMITTED_BYTES_MAX,
    };
    let applied = GroupPlace::before_the_first(Epoch(0), here);
    let history = applied.history.clone();
    let end = applied.end;
    let found = Found { applied, history, end, uncommitted: Vec::new() };
    let clock = Arc::new(clock.clone());
    Replication::of_cluster(begin, found, log.appender(), clock, Arc::clone(host) as Arc<dyn GroupHost>)
}

impl World {
    /// The process of this incarnation.
    pub fn new(incarnation: u64) -> World {
        World::with_groups(incarnation, 1)
    }

    /// The same with several groups, of which the later ones are empty.
    pub fn with_groups(incarnation: u64, count: u32) -> World {
        let clock = SimulatedClock::default();
        let (disk, dir) = (SimulatedDisk::new(1, clock.clone()), Path::new(DIR));
        ferrite_io::Disk::create_dir(&disk, dir).unwrap();
        let before = Incarnation(incarnation - 1);
        let identity = Identity::new([1; 16], NodeId(1), before);
        identity.write(&disk, dir).unwrap();
        let outside = Outside::default();
        let (causes, inbox_of_node) = waking_channel();
        let options = Options {
            log: LogOptions { own_threads: false, prepare_ahead: false, ..LogOptions::default() },
            groups: Some(GroupMap::single(1)),
            partitions_default: 1,
            threads: 0,
            report: &|_| {},
            progress: &RecoveryProgress::default(),
            runtime: &RuntimeHandle::default(),
        };
        let time = clock.clone();
        let lease = Lease::new(Arc::new(clock.clone()));
        let host = Arc::new(Host::new(causes.clone(), Arc::new(outside.clone()), lease.clone()));
        let as_member = AsMember {
            host: Arc::clone(&host) as Arc<dyn GroupHost>,
            timing: Timing::DEFAULT,
            intact: true,
            snapshots: true,
        };
        let (disk, clock, random) = (Arc::new(disk), Arc::new(clock), &mut SimulatedRandom::new(1));
        let opened = recovery::open_member(disk, clock, random, dir, options, as_member).unwrap();
        let RecoveredMember { recovered, place, replication } = opened.only_group();
        let ((to_partition, inbox), (coordinator, jobs)) = (unbounded(), unbounded());
        let recovery::Recovered { sequences, compiled, history, identity, log, .. } = recovered;
        let own_log = OwnLog::new(Arc::clone(&replication), Arc::clone(log.index()));
        let parties = Parties { partitions: GroupInboxes::single(vec![to_partition]), coordinator, log: own_log };
        assert_eq!(identity.incarnation, Incarnation(incarnation), "a start is another incarnation");
        let copy = || CopyStart {
            here: NodeId(1),
            place: place.clone(),
            sequences: sequences.clone(),
            compiled: Arc::clone(&compiled),
            history: history.clone(),
            lots: LotLedger::default(),
        };
        let here = member(incarnation);
        let mut handles = vec![replication];
        handles.extend((1..count).map(|id| new_group(id, &log, &time, &host, here)));
        let groups = Groups::new(handles.clone());
        let mut world_parties = BTreeMap::from([(FIRST_GROUP, (parties, copy()))]);
        let mut of_later = Vec::new();
        for group in &handles[1..] {
            let (parties, receivers) = parties_of(group, log.index());
            world_parties.insert(group.id(), (parties, empty_copy(here, &compiled, &history)));
            of_later.push(receivers);
        }
        let start = Start {
            identity,
            registration: registration(incarnation),
            parties: world_parties,
            groups: groups.clone(),
            lease: lease.clone(),
        };
        let node = Node::new(start, &causes, inbox_of_node, Box::new(outside.clone()));
        let start = Some(copy());
        World { node, groups, handles, of_later, log, outside, causes, inbox, jobs, lease, clock: time, start }
    }

    /// A group that has left comes back, as empty as it was.
    pub fn host(&mut self, id: u32) {
        let group = Arc::clone(&self.handles[id as usize]);
        let start = self.start.as_ref().expect("it has not been used");
        let (parties, receivers) = parties_of(&group, self.log.index());
        let start = empty_copy(self.node.here(), &start.compiled, &start.history);
        self.of_later.push(receivers);
        self.node.host(group, parties, start);
        self.settle();
    }

    pub fn told(&mut self, index: u64, state: &State) {
        self.told_with_leader(index, state, None);
    }

    /// And who leads the voters.
    pub fn told_with_leader(&mut self, index: u64, state: &State, leader: Option<NodeId>) {
        self.causes.send(Cause::Metadata { index, state: Arc::new(state.clone()), leader }).unwrap();
        self.settle();
    }

    pub fn settle(&mut self) {
        loop {
            let mut moved = self.node.step(self.clock.boottime_nanos()) | self.log.step();
            for applier in self.outside.appliers.lock().unwrap().values_mut() {
                moved |= applier.step();
            }
            if !moved {
                return;
            }
        }
    }
}
