//! One node, whose partitions, metadata and other nodes are the test.

use crossbeam_channel::{Receiver, unbounded};
use ferrite_base::{Epoch, GroupId, GroupMap, Incarnation, NodeId};
use ferrite_cluster::{Cause, Groups, Host, Lease, Node, NodeEffects, NotHandedOver, Parties, Start, Transport};
use ferrite_group::{FIRST_GROUP, FromLog, Identity, IdentityError, Urgency, message};
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::LogOptions;
use ferrite_meta::{Ask, Command, Group, Kind, Node as Registration, Phase, Presence, Settings, State};
use ferrite_notice::Notice;
use ferrite_partition::applier::{Applier, CopyStart};
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::coordinator::Job;
use ferrite_partition::recovery::{self, AsMember, Options, RecoveredMember};
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
    applier: Arc<Mutex<Option<Applier>>>,
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
        self.applier.lock().unwrap().as_ref().is_some_and(|applier| !applier.intake().has_ended())
    }

    /// As where its copy cannot be used.
    pub fn end_applier(&self) {
        let mut applier = self.applier.lock().unwrap();
        let applier = applier.as_mut().expect("there is one");
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

    fn run(&mut self, _: GroupId, applier: Applier) {
        *self.applier.lock().unwrap() = Some(applier);
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

    fn make_anew(&mut self, _: GroupId, reason: &str) {
        self.push(Wish::MakeAnew(reason.to_owned()));
    }

    fn end(&mut self, reason: &str) {
        self.push(Wish::End(reason.to_owned()));
    }

    fn notice(&mut self, notice: Notice) {
        self.push(Wish::Notice(notice.to_string()));
    }
}

pub struct World {
    pub node: Node,
    pub groups: Groups,
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

impl World {
    /// The process of this incarnation.
    pub fn new(incarnation: u64) -> World {
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
        let as_member = AsMember { host, timing: Timing::DEFAULT, intact: true, snapshots: true };
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
        };
        let groups = Groups::new([replication]);
        let start = Start {
            identity,
            registration: registration(incarnation),
            parties: BTreeMap::from([(FIRST_GROUP, (parties, copy()))]),
            groups: groups.clone(),
            lease: lease.clone(),
        };
        let node = Node::new(start, &causes, inbox_of_node, Box::new(outside.clone()));
        let start = Some(copy());
        World { node, groups, log, outside, causes, inbox, jobs, lease, clock: time, start }
    }

    pub fn told(&mut self, index: u64, state: &State) {
        self.causes.send(Cause::Metadata { index, state: Arc::new(state.clone()) }).unwrap();
        self.settle();
    }

    pub fn settle(&mut self) {
        loop {
            let mut moved = self.node.step(self.clock.boottime_nanos()) | self.log.step();
            if let Some(applier) = &mut *self.outside.applier.lock().unwrap() {
                moved |= applier.step();
            }
            if !moved {
                return;
            }
        }
    }
}
