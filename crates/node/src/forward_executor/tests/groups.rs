//! Two groups and two other nodes: calls of one connection go three ways at once, and the groups'
//! leads change apart.

use super::*;
use crate::routes::not_here;
use crate::testing::{Inboxes, handles_of_groups};
use ferrite_partition::Event;

const THIRD: Destination = Destination { node: NodeId(3), incarnation: Incarnation(1) };
const OTHERS: [Destination; 2] = [OTHER, THIRD];

/// Partitions 0 and 2 are the first group's, 1 and 3 the second's.
const GROUPS: [GroupId; 4] = [FIRST_GROUP, SECOND_GROUP, FIRST_GROUP, SECOND_GROUP];

const TABLE: &str = "CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id;
    CREATE TABLE everywhere (id BIGINT NOT NULL);
    CREATE PROCEDURE any AS SELECT COUNT(*) FROM everywhere;
    CREATE PROCEDURE every AS SELECT COUNT(*) FROM t;";

/// To each of the nodes.
#[derive(Default)]
struct Ways(BTreeMap<NodeId, Arc<Queue>>);

impl Link for Ways {
    fn waiting(&self, to: NodeId) -> Option<usize> {
        self.0[&to].waiting(to)
    }

    fn send(&self, to: NodeId, kind: Kind, message: Vec<u8>) -> bool {
        self.0[&to].send(to, kind, message)
    }

    fn resume(&self, _: NodeId) {}
}

/// Who leads a group, or is about to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lead {
    Nobody,
    Here,
    HandingOver,
    Coming,
    At(usize),
}

struct World {
    dispatcher: Dispatcher,
    connections: Vec<(Connection, std::net::TcpStream)>,
    forward: Forward,
    thread: ForwardThread<ForwardExecutor>,
    ways: Arc<Ways>,
    reads: bool,
    inboxes: Inboxes,
    /// A key of each partition.
    keys: [i64; 4],
    others: Vec<Other>,
    back: Vec<Arc<Queue>>,
    epochs: [u64; 2],
    now: Instant,
    next_handle: i64,
    /// The partition that each call was for, by handle.
    partitions: Vec<usize>,
    /// Connection and handle, in the order of execution.
    executed: Vec<(u64, i64)>,
}

impl World {
    fn new() -> World {
        let (mut handles, inboxes) = handles_of_groups(&GROUPS, TABLE);
        let (forward, inbox) = connect();
        handles.forward = Some(forward.clone());
        let uses = Uses {
            submit: Arc::clone(&handles.submit),
            work: Arc::clone(&handles.work),
            connections: Arc::clone(&handles.connections),
            cancelling: Arc::clone(&handles.cancelling),
            mailboxes: Arc::clone(&handles.mailboxes),
        };
        let ring = &handles.submit.routes.ring;
        let key_of = |partition| {
            let is_of_it = |key: &i64| {
                let found = crate::route::partition_of_value(&ferrite_value::Value::Integer(*key), ring);
                found.expect("an integer is a key") == PartitionId(partition)
            };
            (0..).find(is_of_it).expect("each partition has keys")
        };
        let keys = [0, 1, 2, 3].map(key_of);
        let ways = Ways(OTHERS.iter().map(|other| (other.node, Arc::default())).collect());
        let ways = Arc::new(ways);
        let back: Vec<Arc<Queue>> = OTHERS.iter().map(|_| Arc::default()).collect();
        let executor = ForwardExecutor::new(uses, forward.clone());
        let link = Arc::clone(&ways) as Arc<dyn Link>;
        let thread = ForwardThread::new(inbox, link, executor, Arc::default(), [FIRST_GROUP, SECOND_GROUP]);
        World {
            dispatcher: Dispatcher::new(handles, Arc::new(NoClients)),
            connections: (1..3).map(connection).collect(),
            forward,
            thread,
            ways,
            reads: true,
            inboxes,
            keys,
            others: back.iter().map(|back| Other::new(Arc::clone(back) as Arc<dyn Link>)).collect(),
            back,
            epochs: [0; 2],
            now: Instant::now(),
            next_handle: 0,
            partitions: vec![0],
            executed: Vec::new(),
        }
    }

    /// One read of a connection that has sent a call for each of these partitions.
    fn read(&mut self, place: usize, partitions: &[usize]) {
        if !self.reads {
            return;
        }
        let mut frames = Vec::new();
        for partition in partitions {
            self.next_handle += 1;
            self.partitions.push(*partition);
            let mut call = RequestWriter::begin(&mut frames, "T.insert", self.next_handle);
            call.parameter(&self.keys[*partition]);
            call.finish().expect("a small call");
        }
        self.dispatcher.frames(&mut self.connections[place].0, &frames);
    }

    fn next_turn(&mut self) {
        self.dispatcher.send_batches();
        self.note_executed_here();
        self.reads = self.dispatcher.refresh_way();
    }

    fn forward_turn(&mut self) {
        self.thread.turn_at(self.now);
        self.note_executed_here();
    }

    fn note_executed_here(&mut self) {
        for partition in 0..GROUPS.len() {
            while let Ok(event) = self.inboxes.partitions[partition].try_recv() {
                match event {
                    Event::Calls(batch) => {
                        batch.calls.iter().for_each(|call| self.note(partition, call.connection, call.handle));
                    }
                    Event::Program(call) => self.note(partition, call.reply.connection, call.reply.handle),
                    _ => panic!("only calls come"),
                }
            }
        }
    }

    fn note(&mut self, partition: usize, connection: u64, handle: i64) {
        assert_eq!(self.partitions[handle as usize], partition, "a call goes to the partition of its key");
        self.executed.push((connection, handle));
        let mut all = self.connections.iter_mut().map(|(open, _)| open);
        all.find(|open| open.id == connection).expect("it is open").answered(1, 100);
    }

    /// All nodes hear of it at once, in the group's next epoch.
    fn lead(&mut self, group: usize, lead: Lead) {
        self.epochs[group] += 1;
        let epoch = Epoch(self.epochs[group]);
        let group = [FIRST_GROUP, SECOND_GROUP][group];
        let here = match lead {
            Lead::Nobody => Leadership::Unknown,
            Lead::Here => Leadership::Here,
            Lead::HandingOver => Leadership::HandingOver,
            Lead::Coming => Leadership::Coming,
            Lead::At(other) => Leadership::At(OTHERS[other]),
        };
        self.forward.lead(group, here, epoch);
        for (place, other) in self.others.iter().enumerate() {
            let there = match lead {
                Lead::Nobody => Leadership::Unknown,
                Lead::At(leader) if leader == place => Leadership::Here,
                Lead::At(leader) => Leadership::At(OTHERS[leader]),
                Lead::Here | Lead::HandingOver | Lead::Coming => Leadership::At(HERE),
            };
            other.forward.lead(group, there, epoch);
        }
    }

    /// One message arrives at another node, which executes it where it leads the group.
    fn arrive(&mut self, other: usize) {
        if let Some((kind, message)) = self.ways.0[&OTHERS[other].node].next() {
            assert_eq!(kind, Kind::Calls, "the others have no clients");
            self.others[other].forward.calls(HERE.node, HERE.incarnation, &message);
        }
        for call in self.others[other].turn(self.now) {
            let partition = self.partitions[call.handle as usize];
            assert_eq!(GROUPS[partition], call.group, "a message is of one group");
            self.note(partition, call.connection, call.handle);
        }
    }

    fn arrive_back(&mut self, other: usize) {
        if let Some((_, message)) = self.back[other].next() {
            self.forward.answers(OTHERS[other].node, &message);
        }
    }

    fn check(&self) {
        let mut last = BTreeMap::new();
        for (connection, handle) in &self.executed {
            let partition = self.partitions[*handle as usize];
            let before = last.insert((*connection, partition), *handle).unwrap_or(0);
            assert!(before < *handle, "{handle} came behind {before}: {:?}", self.executed);
        }
    }

    /// Whatever is under way completes, while this node leads both groups.
    fn rest(&mut self) {
        self.lead(0, Lead::Here);
        self.lead(1, Lead::Here);
        for _ in 0..200 {
            self.next_turn();
            self.forward_turn();
            for other in 0..OTHERS.len() {
                self.arrive(other);
                self.arrive_back(other);
            }
            self.now += FORWARD_SETTLE / 10;
        }
        let is_away = [FIRST_GROUP, SECOND_GROUP].map(|group| self.forward.is_away(group));
        assert!(self.reads && is_away == [false; 2], "calls go to partitions at once");
    }
}

#[test]
fn calls_of_one_turn_go_to_their_groups_leaders() {
    let mut world = World::new();
    world.lead(0, Lead::Here);
    world.lead(1, Lead::At(1));
    world.forward_turn();
    world.next_turn();
    world.read(0, &[0, 1, 2, 3, 1]);
    world.next_turn();
    assert_eq!(world.executed.iter().map(|(_, handle)| *handle).collect::<Vec<_>>(), [1, 3], "those of this node");
    world.forward_turn();
    assert!(world.ways.0[&OTHER.node].next().is_none(), "it leads nothing");
    world.arrive(1);
    assert_eq!(world.executed.iter().map(|(_, handle)| *handle).collect::<Vec<_>>(), [1, 3, 2, 4, 5]);
}

#[test]
fn what_any_partition_can_answer_is_answered_here_and_what_needs_several_groups_goes_to_the_first_ones_leader() {
    let mut world = World::new();
    world.lead(0, Lead::At(0));
    world.lead(1, Lead::Here);
    world.forward_turn();
    world.next_turn();
    let mut frames = Vec::new();
    for handle in 1..=8 {
        RequestWriter::begin(&mut frames, "any", handle).finish().expect("a small call");
    }
    world.dispatcher.frames(&mut world.connections[0].0, &frames);
    world.dispatcher.send_batches();
    let calls = |event| match event {
        Event::Calls(batch) => batch.calls.len(),
        _ => panic!("only batches come"),
    };
    let executed: Vec<usize> = world.inboxes.partitions.iter().map(|inbox| inbox.try_iter().map(calls).sum()).collect();
    assert_eq!(executed, [0, 4, 0, 4], "the second group's partitions in turn");
    frames.clear();
    RequestWriter::begin(&mut frames, "every", 9).finish().expect("a small call");
    world.dispatcher.frames(&mut world.connections[0].0, &frames);
    world.dispatcher.send_batches();
    assert!(world.inboxes.coordinators.iter().all(Receiver::is_empty), "no coordinator has both groups");
    let passed = |world: &World| world.ways.0[&OTHERS[0].node].next().is_some();
    assert!(!passed(&world), "the thread that forwards has not had a turn");
    world.forward_turn();
    assert!(passed(&world), "it goes to the node that orders such transactions");
}

#[test]
fn a_group_without_a_leader_holds_up_only_its_own_calls() {
    let mut world = World::new();
    world.lead(0, Lead::Here);
    world.lead(1, Lead::At(0));
    world.forward_turn();
    world.next_turn();
    world.lead(1, Lead::Nobody);
    world.next_turn();
    world.read(0, &[0, 1, 2]);
    world.next_turn();
    world.forward_turn();
    world.arrive(0);
    assert_eq!(world.executed.iter().map(|(_, handle)| *handle).collect::<Vec<_>>(), [1, 3]);
    world.lead(1, Lead::At(1));
    world.forward_turn();
    world.arrive(1);
    assert_eq!(world.executed.len(), 3);
    world.check();
}

#[test]
fn a_call_for_another_group_than_its_partitions_is_refused() {
    let mut world = World::new();
    world.lead(0, Lead::Here);
    world.lead(1, Lead::Here);
    world.rest();
    let mut frame = Vec::new();
    let mut call = RequestWriter::begin(&mut frame, "T.insert", 1);
    call.parameter(&world.keys[0]);
    call.finish().expect("a small call");
    let mut message = Vec::new();
    // The second group's, in its epoch: the sender's catalog says so.
    message.push(3);
    message.extend_from_slice(&SECOND_GROUP.0.to_le_bytes());
    message.extend_from_slice(&[0; 12]);
    message.extend_from_slice(&world.epochs[1].to_le_bytes());
    message.push(1);
    message.extend_from_slice(&7_u64.to_le_bytes());
    message.extend_from_slice(&(frame.len() as u32 - 4).to_le_bytes());
    message.extend_from_slice(&frame[4..]);
    world.forward.calls(OTHER.node, OTHER.incarnation, &message);
    world.forward_turn();
    assert!(world.inboxes.partitions.iter().all(Receiver::is_empty), "it was not executed");
    world.forward_turn();
    let (kind, answer) = world.ways.0[&OTHER.node].next().expect("it was answered");
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(kind == Kind::Answers && text.contains("the schema was changed"), "{text}");
    assert_ne!(of_another_group(), not_here());
}

#[derive(Clone, Debug)]
enum Step {
    Read(usize, Vec<usize>),
    Turn,
    Forward,
    Arrive(usize),
    ArriveBack(usize),
    Lead(usize, Lead),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let lead = prop_oneof![
        Just(Lead::Nobody),
        Just(Lead::Here),
        Just(Lead::HandingOver),
        Just(Lead::Coming),
        Just(Lead::At(0)),
        Just(Lead::At(1)),
    ];
    prop_oneof![
        8 => (0usize..2, proptest::collection::vec(0usize..4, 1..5)).prop_map(|(place, calls)| Step::Read(place, calls)),
        8 => Just(Step::Turn),
        6 => Just(Step::Forward),
        4 => (0usize..2).prop_map(Step::Arrive),
        4 => (0usize..2).prop_map(Step::ArriveBack),
        3 => (0usize..2, lead).prop_map(|(group, lead)| Step::Lead(group, lead)),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Either group's lead changes between any two steps.
    #[test]
    fn calls_of_a_connection_to_a_partition_stay_in_their_order(steps in proptest::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Read(place, partitions) => world.read(place, &partitions),
                Step::Turn => world.next_turn(),
                Step::Forward => world.forward_turn(),
                Step::Arrive(other) => world.arrive(other),
                Step::ArriveBack(other) => world.arrive_back(other),
                Step::Lead(group, lead) => world.lead(group, lead),
                Step::Wait => world.now += FORWARD_SETTLE / 3,
            }
            world.check();
        }
        world.rest();
        world.check();
    }
}
