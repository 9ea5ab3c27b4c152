//! The order of a connection's calls, through a real dispatcher and the real threads that forward,
//! while who leads changes: step by step, without threads.

mod groups;

use super::*;
use crate::connection::Connection;
use crate::dispatch::Dispatcher;
use crate::testing::handles_and_calls;
use crossbeam_channel::Receiver;
use ferrite_base::limits::FORWARD_SETTLE;
use ferrite_base::{Epoch, Incarnation, NodeId};
use ferrite_group::FIRST_GROUP;
use ferrite_member::forward::{Destination, Forward, ForwardThread, Kind, Leadership, Link, connect};
use ferrite_partition::cancel::cancelled;
use ferrite_partition::{AnswerBatch, Mailbox};
use ferrite_wire::RequestWriter;
use ferrite_wire::response::ResponseWriter;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Instant;

const SECOND_GROUP: GroupId = GroupId(1);
const HERE: Destination = Destination { node: NodeId(1), incarnation: Incarnation(5) };
const OTHER: Destination = Destination { node: NodeId(2), incarnation: Incarnation(1) };

/// Messages on their way from one node to the other.
#[derive(Default)]
struct Queue(Mutex<VecDeque<(Kind, Vec<u8>)>>);

impl Queue {
    fn next(&self) -> Option<(Kind, Vec<u8>)> {
        self.0.lock().expect("no panic with the queue").pop_front()
    }
}

impl Link for Queue {
    fn waiting(&self, _: NodeId) -> Option<usize> {
        Some(0)
    }

    fn send(&self, _: NodeId, kind: Kind, message: Vec<u8>) -> bool {
        self.0.lock().expect("no panic with the queue").push_back((kind, message));
        true
    }

    fn resume(&self, _: NodeId) {}
}

/// Clients are not what these tests are about.
struct NoClients;

impl Mailbox for NoClients {
    fn deliver(&self, _: AnswerBatch) {}
}

/// A call that the other node executes.
struct Executed {
    group: GroupId,
    /// Its connection's number there.
    number: u64,
    /// And here.
    connection: u64,
    handle: i64,
}

/// What the other node executes calls with: the test answers them.
#[derive(Default)]
struct Executing {
    /// By their numbers there, from 1.
    connections: Vec<u64>,
    executed: Arc<Mutex<Vec<Executed>>>,
}

impl Execute for Executing {
    fn admit(&mut self, connection: u64, _: bool) -> u64 {
        self.connections.push(connection);
        self.connections.len() as u64
    }

    fn call(&mut self, group: GroupId, number: u64, body: &[u8]) {
        let handle = Invocation::parse(body).expect("it was written here").handle;
        let connection = self.connections[number as usize - 1];
        self.executed.lock().expect("no panic with the calls").push(Executed { group, number, connection, handle });
    }

    fn cancel(&mut self, _: u64, _: Cancel) {}
    fn forget(&mut self, _: u64) {}
    fn begun(&mut self, _: Outstanding) {}
    fn answered(&mut self, _: Outstanding) {}
}

impl Executor for Executing {
    fn refresh_catalog(&mut self) {}
    fn send_batches(&mut self) {}
    fn wake_network(&self) {}

    fn own(&mut self, _: GroupId, _: &forward::Batch) {
        panic!("it has no clients");
    }

    fn outstanding(&self) -> usize {
        0
    }

    fn cancelled(&self) -> UserError {
        cancelled()
    }
}

/// A node without clients.
struct Other {
    forward: Forward,
    thread: ForwardThread<Executing>,
    executed: Arc<Mutex<Vec<Executed>>>,
}

impl Other {
    fn new(link: Arc<dyn Link>) -> Other {
        let (forward, inbox) = connect();
        let executing = Executing::default();
        let executed = Arc::clone(&executing.executed);
        let thread = ForwardThread::new(inbox, link, executing, Arc::default(), [FIRST_GROUP, SECOND_GROUP]);
        Other { forward, thread, executed }
    }

    /// What it executes in this turn, and answers.
    fn turn(&mut self, now: Instant) -> Vec<Executed> {
        self.thread.turn_at(now);
        let executed = std::mem::take(&mut *self.executed.lock().expect("no panic with the calls"));
        for call in &executed {
            let mut answers = AnswerBatch::default();
            ResponseWriter::begin(&mut answers.bytes, call.handle).finish();
            answers.finish_answer(call.number);
            self.forward.mailbox(call.group).deliver(answers);
        }
        self.thread.turn_at(now);
        executed
    }
}

/// A node with clients, and another node. System procedures are what is called, so what is executed
/// here comes to the system thread, whichever way it took.
struct Nodes {
    dispatcher: Dispatcher,
    connections: Vec<(Connection, std::net::TcpStream)>,
    forward: Forward,
    thread: ForwardThread<ForwardExecutor>,
    /// To the other node.
    link: Arc<Queue>,
    /// Whether the network thread may read in this turn.
    reads: bool,
    executed_here: Receiver<SystemJob>,
    other: Other,
    /// What that has answered, on the way here.
    back: Arc<Queue>,
    epoch: u64,
    now: Instant,
    next_handle: i64,
    /// Connection and handle, in the order of execution.
    executed: Vec<(u64, i64)>,
}

fn connection(number: u64) -> (Connection, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let client = std::net::TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (stream, _) = listener.accept().expect("one connects");
    stream.set_nonblocking(true).expect("sockets can be so");
    let room = Outstanding { calls: usize::MAX, bytes: usize::MAX };
    let mut connection =
        Connection::new(mio::net::TcpStream::from_std(stream), connection::id(number, number as usize, false), room);
    connection.logged_in = true;
    connection.room = usize::MAX;
    (connection, client)
}

impl Nodes {
    fn new() -> Nodes {
        let (mut handles, executed_here) = handles_and_calls(1);
        let (forward, inbox) = connect();
        handles.forward = Some(forward.clone());
        let uses = Uses {
            submit: Arc::clone(&handles.submit),
            work: Arc::clone(&handles.work),
            connections: Arc::clone(&handles.connections),
            cancelling: Arc::clone(&handles.cancelling),
            mailboxes: Arc::clone(&handles.mailboxes),
        };
        let link = Arc::new(Queue::default());
        let back = Arc::new(Queue::default());
        let executor = ForwardExecutor::new(uses, forward.clone());
        let way = Arc::clone(&link) as Arc<dyn Link>;
        let thread = ForwardThread::new(inbox, way, executor, Arc::default(), [FIRST_GROUP]);
        Nodes {
            dispatcher: Dispatcher::new(handles, Arc::new(NoClients)),
            connections: (1..3).map(connection).collect(),
            forward,
            thread,
            link,
            reads: true,
            executed_here,
            other: Other::new(Arc::clone(&back) as Arc<dyn Link>),
            back,
            epoch: 0,
            now: Instant::now(),
            next_handle: 0,
            executed: Vec::new(),
        }
    }

    /// One read of a connection that has sent this many calls.
    fn read(&mut self, place: usize, calls: usize) {
        if !self.reads {
            return;
        }
        let mut frames = Vec::new();
        for _ in 0..calls {
            self.next_handle += 1;
            RequestWriter::begin(&mut frames, "@Quiesce", self.next_handle).finish().expect("a small call");
        }
        // What there is no room for is not sent.
        self.dispatcher.frames(&mut self.connections[place].0, &frames);
    }

    /// The network thread's turn ends, and another begins.
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
        while let Ok(job) = self.executed_here.try_recv() {
            let SystemJob::Call { body, reply } = job else { panic!("only calls come") };
            let handle = Invocation::parse(&body).expect("it was written here").handle;
            self.note(reply.connection, handle);
        }
    }

    fn note(&mut self, connection: u64, handle: i64) {
        self.executed.push((connection, handle));
        let mut all = self.connections.iter_mut().map(|(open, _)| open);
        all.find(|open| open.id == connection).expect("it is open").answered(1, 100);
    }

    /// Both nodes hear of it at once, in the next epoch.
    fn lead(&mut self, leadership: Leadership) {
        self.epoch += 1;
        self.forward.lead(FIRST_GROUP, leadership, Epoch(self.epoch));
        let there = match leadership {
            Leadership::At(_) => Leadership::Here,
            Leadership::Unknown => Leadership::Unknown,
            Leadership::Here | Leadership::HandingOver | Leadership::Coming => Leadership::At(HERE),
        };
        self.other.forward.lead(FIRST_GROUP, there, Epoch(self.epoch));
    }

    /// One message arrives at the other node, which executes it where it leads, and gives it back
    /// where it does not, or did not since it was sent.
    fn arrive(&mut self) {
        match self.link.next() {
            Some((Kind::Calls, message)) => {
                self.other.forward.calls(HERE.node, HERE.incarnation, &message);
            }
            Some((Kind::Answers, _)) => panic!("the other node has no clients"),
            None => {}
        }
        for call in self.other.turn(self.now) {
            self.note(call.connection, call.handle);
        }
    }

    /// One of its messages arrives here.
    fn arrive_back(&mut self) {
        if let Some((_, message)) = self.back.next() {
            self.forward.answers(OTHER.node, &message);
        }
    }

    fn check(&self) {
        let mut last = BTreeMap::new();
        for (connection, handle) in &self.executed {
            let before = last.insert(*connection, *handle).unwrap_or(0);
            assert!(before < *handle, "{handle} of a connection came behind {before}: {:?}", self.executed);
        }
    }

    /// Whatever is under way completes, while this node leads.
    fn rest(&mut self) {
        self.lead(Leadership::Here);
        for _ in 0..200 {
            self.next_turn();
            self.forward_turn();
            self.arrive();
            self.arrive_back();
            self.now += FORWARD_SETTLE / 10;
        }
        assert!(self.reads && !self.forward.is_away(FIRST_GROUP), "calls go to partitions at once");
    }
}

#[test]
fn what_waits_when_this_node_begins_to_lead_is_executed_before_what_comes() {
    let mut nodes = Nodes::new();
    nodes.next_turn();
    nodes.read(0, 1);
    nodes.next_turn();
    nodes.lead(Leadership::Here);
    // In the inbox of the thread that forwards, and after it.
    nodes.read(0, 1);
    nodes.next_turn();
    nodes.read(0, 1);
    nodes.next_turn();
    nodes.forward_turn();
    assert_eq!(nodes.executed.iter().map(|(_, handle)| *handle).collect::<Vec<_>>(), [1, 2, 3]);
    nodes.next_turn();
    nodes.read(0, 1);
    nodes.next_turn();
    assert_eq!(nodes.executed.len(), 4, "the way is open");
    // A hand-over that is taken back.
    nodes.lead(Leadership::HandingOver);
    nodes.next_turn();
    nodes.read(0, 1);
    nodes.next_turn();
    nodes.forward_turn();
    nodes.lead(Leadership::Here);
    nodes.read(0, 1);
    nodes.next_turn();
    nodes.read(0, 1);
    nodes.next_turn();
    nodes.forward_turn();
    nodes.check();
    assert_eq!(nodes.executed.len(), 7);
}

#[test]
fn a_client_that_never_pauses_does_not_keep_calls_on_the_long_way() {
    let mut nodes = Nodes::new();
    nodes.lead(Leadership::Here);
    for _ in 0..20 {
        nodes.next_turn();
        nodes.read(0, 5);
        nodes.forward_turn();
    }
    assert!(!nodes.forward.is_away(FIRST_GROUP));
    nodes.next_turn();
    nodes.forward_turn();
    nodes.next_turn();
    nodes.read(0, 5);
    let before = nodes.executed.len();
    nodes.next_turn();
    assert_eq!(nodes.executed.len(), before + 5, "without the thread that forwards");
    nodes.check();
}

#[derive(Clone, Debug)]
enum Step {
    Read(usize, usize),
    Turn,
    Forward,
    Arrive,
    ArriveBack,
    Lead(u8),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..2, 1usize..4).prop_map(|(place, calls)| Step::Read(place, calls)),
        8 => Just(Step::Turn),
        6 => Just(Step::Forward),
        4 => Just(Step::Arrive),
        4 => Just(Step::ArriveBack),
        3 => (0u8..5).prop_map(Step::Lead),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A node begins to lead, or changes its mind, between any two steps.
    #[test]
    fn calls_of_a_connection_are_executed_in_their_order(steps in proptest::collection::vec(step(), 1..150)) {
        let mut nodes = Nodes::new();
        for step in steps {
            match step {
                Step::Read(place, calls) => nodes.read(place, calls),
                Step::Turn => nodes.next_turn(),
                Step::Forward => nodes.forward_turn(),
                Step::Arrive => nodes.arrive(),
                Step::ArriveBack => nodes.arrive_back(),
                Step::Lead(which) => nodes.lead(match which {
                    0 => Leadership::Unknown,
                    1 => Leadership::Coming,
                    2 => Leadership::HandingOver,
                    3 => Leadership::At(OTHER),
                    _ => Leadership::Here,
                }),
                Step::Wait => nodes.now += FORWARD_SETTLE / 3,
            }
            nodes.check();
        }
        nodes.rest();
        nodes.check();
    }
}
