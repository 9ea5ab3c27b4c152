//! One node, whose partitions and metadata are the test: what it asks for, what it does before
//! what, and that its roles follow each other whatever the group says meanwhile.

use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, PartitionId, Sequence};
use ferrite_cluster::{Around, Cause, Groups, Host, Lease, Node, NotHandedOver, Parties, Post, Start};
use ferrite_group::{CannotHandOver, FIRST_GROUP, FromLog, GroupEvent, Identity, IdentityError, Urgency};
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::LogOptions;
use ferrite_meta::{Ask, Command, Group, Kind, Node as Registration, Phase, Presence, Settings, State};
use ferrite_partition::applier::{Applier, CopyStart};
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::coordinator::Job;
use ferrite_partition::recovery::{self, AsMember, Options, RecoveredMember};
use ferrite_partition::{Compiled, Event, OwnLog, RecoveryProgress};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::{GroupConfiguration, Mark, Member, Timing};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DIR: &str = "/node";
const START: [u8; 16] = [7; 16];
const MILLI: u64 = 1_000_000;

#[derive(Debug)]
enum Wish {
    Kept(Identity),
    Ask(Ask),
    Leads(Option<Epoch>),
    Notice(String),
    HandedOver(Result<NodeId, NotHandedOver>),
    End(String),
}

#[derive(Clone, Default)]
struct Outside {
    wishes: Arc<Mutex<Vec<Wish>>>,
    applier: Arc<Mutex<Option<Applier>>>,
}

impl Outside {
    fn push(&self, wish: Wish) {
        self.wishes.lock().unwrap().push(wish);
    }

    fn take(&self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes.lock().unwrap())
    }
}

impl Post for Outside {
    fn send(&self, to: NodeId, _: Urgency, _: Vec<u8>) {
        panic!("there is no node {to}");
    }
}

impl Around for Outside {
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
        Box::new(|_| panic!("nobody changes the schema"))
    }

    fn hasher(&mut self, _: GroupId) -> Box<dyn Fn(ContentCut) + Send> {
        Box::new(|_| panic!("nobody takes a snapshot"))
    }

    fn needs_snapshot(&mut self, _: GroupId, _: NodeId) {}

    fn send_from_log(&mut self, _: GroupId, wanted: FromLog) {
        panic!("nobody missed {wanted:?}");
    }

    fn leads(&mut self, _: GroupId, epoch: Option<Epoch>) {
        self.push(Wish::Leads(epoch));
    }

    fn hold(&mut self, _: GroupId, _: bool) {}

    fn is_drained(&mut self, _: GroupId) -> bool {
        panic!("nobody can take over");
    }

    fn handed_over(&mut self, _: GroupId, outcome: Result<NodeId, NotHandedOver>) {
        self.push(Wish::HandedOver(outcome));
    }

    fn make_anew(&mut self, _: GroupId, reason: &str) {
        panic!("{reason}");
    }

    fn end(&mut self, reason: &str) {
        self.push(Wish::End(reason.to_owned()));
    }

    fn notice(&mut self, line: &str) {
        self.push(Wish::Notice(line.to_owned()));
    }
}

struct World {
    node: Node,
    groups: Groups,
    log: DatabaseLog,
    outside: Outside,
    causes: Sender<Cause>,
    inbox: Receiver<Event>,
    jobs: Receiver<Job>,
    lease: Lease,
    clock: SimulatedClock,
}

fn registration(incarnation: u64) -> Registration {
    Registration {
        incarnation: Incarnation(incarnation),
        start: START,
        kind: Kind::Data,
        presence: Presence::Running,
        release: "test".to_owned(),
        addresses: vec!["here:1".to_owned()],
    }
}

fn member(incarnation: u64) -> Member {
    Member { node: NodeId(1), incarnation: Incarnation(incarnation) }
}

/// A cluster of node 1 alone, as of its first start.
fn founded(registration: Registration) -> State {
    let configuration = GroupConfiguration::alone(Epoch(1), member(registration.incarnation.0));
    let group = Group {
        configuration,
        parent: Mark::ORIGIN,
        burnt: Epoch(1),
        phase: Phase::Active,
        accepted: None,
        loss: None,
    };
    let mut state = State::default();
    let command = Command::Found {
        settings: Settings { cluster: [1; 16], revision: 1, kfactor: 0, partitions: 1 },
        nodes: vec![(NodeId(1), registration)],
        groups: vec![(FIRST_GROUP, group)],
        voters: vec![NodeId(1)],
    };
    state.apply(&command).unwrap();
    state
}

impl World {
    /// The process of this incarnation.
    fn new(incarnation: u64) -> World {
        let clock = SimulatedClock::default();
        let (disk, dir) = (SimulatedDisk::new(1, clock.clone()), Path::new(DIR));
        ferrite_io::Disk::create_dir(&disk, dir).unwrap();
        let before = Incarnation(incarnation - 1);
        let identity = Identity { cluster: [1; 16], node: NodeId(1), incarnation: before, promised: BTreeMap::new() };
        identity.write(&disk, dir).unwrap();
        let outside = Outside::default();
        let (causes, inbox_of_node) = unbounded();
        let options = Options {
            log: LogOptions { own_threads: false, prepare_ahead: false, ..LogOptions::default() },
            partitions: Some(1),
            partitions_default: 1,
            threads: 0,
            report: &|_: &str| {},
            progress: &RecoveryProgress::default(),
            runtime: &RuntimeHandle::default(),
        };
        let time = clock.clone();
        let lease = Lease::new(Arc::new(clock.clone()));
        let host = Arc::new(Host::new(causes.clone(), Arc::new(outside.clone()), lease.clone()));
        let as_member = AsMember { host, timing: Timing::DEFAULT, intact: true, snapshots: true };
        let (disk, clock, random) = (Arc::new(disk), Arc::new(clock), &mut SimulatedRandom::new(1));
        let opened = recovery::open_member(disk, clock, random, dir, options, as_member).unwrap();
        let RecoveredMember { recovered, place, replication } = opened;
        let ((to_partition, inbox), (coordinator, jobs)) = (unbounded(), unbounded());
        let recovery::Recovered { sequences, compiled, history, identity, log, .. } = recovered;
        let own_log = OwnLog::new(Arc::clone(&replication), Arc::clone(log.index()));
        let parties = Parties { partitions: vec![to_partition], coordinator, log: own_log };
        assert_eq!(identity.incarnation, Incarnation(incarnation), "a start is another incarnation");
        let copy = CopyStart { here: NodeId(1), place, sequences, compiled, history };
        let groups = Groups::new([replication]);
        let start = Start {
            identity,
            registration: registration(incarnation),
            parties: BTreeMap::from([(FIRST_GROUP, (parties, copy))]),
            groups: groups.clone(),
            lease: lease.clone(),
        };
        let node = Node::new(start, &causes, inbox_of_node, Box::new(outside.clone()));
        World { node, groups, log, outside, causes, inbox, jobs, lease, clock: time }
    }

    fn told(&mut self, index: u64, state: &State) {
        self.causes.send(Cause::Metadata { index, state: Arc::new(state.clone()) }).unwrap();
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            let mut moved = self.node.step() | self.log.step();
            if let Some(applier) = &mut *self.outside.applier.lock().unwrap() {
                moved |= applier.step();
            }
            if !moved {
                return;
            }
        }
    }
}

#[test]
fn a_node_takes_no_part_before_it_is_registered_and_leads_afterwards() {
    let mut world = World::new(2);
    world.node.tick(0);
    let asked = world.outside.take();
    assert!(matches!(&asked[..], [Wish::Ask(Ask::Register { id: NodeId(1), .. })]), "{asked:?}");
    // The metadata knows an earlier start, which led.
    let earlier = founded(registration(1));
    world.told(1, &earlier);
    assert!(!world.node.is_registered() && !world.groups.get(FIRST_GROUP).unwrap().is_open());
    world.node.tick(10 * MILLI);
    assert!(world.outside.take().is_empty(), "it asks again, though not at once");
    world.node.tick(60 * MILLI);
    assert!(matches!(&world.outside.take()[..], [Wish::Ask(Ask::Register { .. })]));
    world.told(2, &founded(registration(2)));
    assert!(matches!(&world.outside.take()[..], [Wish::Leads(Some(Epoch(1)))]));
    assert!(
        matches!(world.inbox.try_recv(), Ok(Event::Lead { .. }))
            && matches!(world.jobs.try_recv(), Ok(Job::Lead { .. }))
    );
    // From here on it only looks now and then.
    world.node.tick(2_000 * MILLI);
    assert!(matches!(&world.outside.take()[..], [Wish::Ask(Ask::Look { index: 2, .. })]));
}

#[test]
fn a_promise_is_durable_before_the_seal_is_answered_and_a_leader_steps_back() {
    let mut world = World::new(1);
    let mut state = founded(registration(1));
    world.told(1, &state);
    world.outside.take();
    assert!(world.inbox.try_recv().is_ok() && world.jobs.try_recv().is_ok());
    state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).unwrap();
    world.told(2, &state);
    let wishes = world.outside.take();
    let [Wish::Leads(None), rest @ ..] = &wishes[..] else { panic!("{wishes:?}") };
    let [Wish::Kept(identity), Wish::Ask(Ask::Sealed { sealed, .. })] = rest else { panic!("{wishes:?}") };
    assert_eq!((identity.promised[&FIRST_GROUP], sealed.epoch), (Epoch(2), Epoch(2)));
    // The partitions have not stepped back yet: no snapshot is taken in, though the group follows.
    assert!(!world.node.is_copy(FIRST_GROUP) && world.node.intake(FIRST_GROUP).is_none());
    // It is decided that the node leads again.
    let next = GroupConfiguration::alone(Epoch(2), member(1));
    state.apply(&Command::Activate { group: FIRST_GROUP, configuration: next, parent: sealed.end }).unwrap();
    world.told(3, &state);
    assert!(world.groups.get(FIRST_GROUP).unwrap().is_open() && world.outside.take().is_empty());
    let Ok(Job::Follow { to, partitions }) = world.jobs.try_recv() else { panic!("it steps back") };
    let compiled = Arc::new(Compiled::recovered(Arc::default(), &RuntimeHandle::default()).unwrap());
    to.send((compiled, Default::default())).unwrap();
    world.settle();
    assert!(world.inbox.is_empty(), "the partition has not stepped back");
    partitions.send((PartitionId(0), Sequence(0))).unwrap();
    world.settle();
    assert!(matches!(&world.outside.take()[..], [Wish::Leads(Some(Epoch(2)))]));
    assert!(matches!(world.inbox.try_recv(), Ok(Event::Lead { .. })));
}

#[test]
fn a_lease_counts_once_the_groups_know_what_it_was_granted_for() {
    let mut world = World::new(1);
    let state = founded(registration(1));
    let granted = |world: &mut World, index, millis| {
        let until = world.clock.boottime_nanos() + millis * MILLI;
        world.causes.send(Cause::Lease { index, until }).unwrap();
        world.settle();
    };
    granted(&mut world, 1, 60_000);
    assert!(!world.lease.holds(), "the node is not registered");
    world.told(1, &state);
    granted(&mut world, 2, 60_000);
    assert!(!world.lease.holds(), "it was granted for a later state");
    granted(&mut world, 1, 2_000);
    granted(&mut world, 1, 1_000);
    world.clock.advance(Duration::from_nanos(2_000 * MILLI - 1));
    assert!(world.lease.holds(), "an answer that came late takes nothing away");
    world.clock.advance(Duration::from_nanos(1));
    assert!(!world.lease.holds(), "it has ended");
    granted(&mut world, 1, 60_000);
    assert!(world.lease.holds());
    world.node.goodbye();
    assert!(!world.lease.holds(), "others may lead from here on");
    granted(&mut world, 1, 60_000);
    assert!(!world.lease.holds(), "and again, an answer was on its way");
}

#[test]
fn a_process_whose_place_another_has_ends() {
    let copied = founded(Registration { start: [8; 16], ..registration(1) });
    let later = founded(registration(2));
    for (state, why) in [(copied, "a copy of the directory"), (later, "started again")] {
        let mut world = World::new(1);
        world.told(1, &state);
        let wishes = world.outside.take();
        assert!(matches!(&wishes[..], [Wish::End(reason)] if reason.contains(why)), "{wishes:?}");
        world.node.tick(1_000 * MILLI);
        world.causes.send(Cause::Event(FIRST_GROUP, GroupEvent::Promise(Epoch(9)))).unwrap();
        world.settle();
        assert!(world.outside.take().is_empty() && !world.groups.get(FIRST_GROUP).unwrap().is_open());
    }
}

#[test]
fn a_leader_whose_log_stands_still_lets_its_lease_end_and_asks_again_when_it_moves() {
    let mut world = World::new(1);
    let mut state = founded(registration(1));
    world.told(1, &state);
    world.outside.take();
    let looks = |world: &mut World, seconds: u64| {
        world.node.tick(seconds * 1_000 * MILLI);
        let asked = world.outside.take();
        asked.iter().filter(|wish| matches!(wish, Wish::Ask(Ask::Look { .. }))).count()
    };
    let says = |world: &mut World, stands_still| {
        world.causes.send(Cause::Event(FIRST_GROUP, GroupEvent::StandsStill(stands_still))).unwrap();
        world.settle();
    };
    assert_eq!(looks(&mut world, 10), 1);
    says(&mut world, true);
    assert!(matches!(&world.outside.take()[..], [Wish::Notice(line)] if line.contains("gives up leading group 0")));
    assert_eq!((looks(&mut world, 11), looks(&mut world, 20)), (0, 0));
    says(&mut world, false);
    world.outside.take();
    assert_eq!(looks(&mut world, 21), 1, "it moves again");
    says(&mut world, true);
    world.outside.take();
    assert_eq!(looks(&mut world, 30), 0);
    // Its lease has ended, and the voters seal the group.
    state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).unwrap();
    world.told(2, &state);
    world.outside.take();
    assert_eq!(looks(&mut world, 31), 1, "it leads no more");
}

#[test]
fn a_node_that_nobody_can_follow_says_so_and_holds_nothing() {
    let mut world = World::new(1);
    let refused = |world: &mut World, to, reason| {
        world.node.hand_over(FIRST_GROUP, to);
        let wishes = world.outside.take();
        assert!(
            matches!(&wishes[..], [Wish::HandedOver(Err(NotHandedOver::Cannot(why)))] if *why == reason),
            "{wishes:?}"
        );
    };
    refused(&mut world, None, CannotHandOver::NotLeading);
    world.told(1, &founded(registration(1)));
    world.outside.take();
    refused(&mut world, None, CannotHandOver::Alone);
    refused(&mut world, Some(NodeId(1)), CannotHandOver::Leads(NodeId(1)));
    refused(&mut world, Some(NodeId(9)), CannotHandOver::NotMember(NodeId(9)));
    // It leaves as well, and at once.
    world.node.leave();
    world.node.tick(1);
    let wishes = world.outside.take();
    assert!(matches!(&wishes[..], [Wish::Ask(Ask::Goodbye(_))]), "{wishes:?}");
}
