//! The order of a connection's calls, through a real dispatcher and the real thread that forwards,
//! while who leads changes: step by step, without threads.

use super::*;
use crate::connection::{self, Connection};
use crate::dispatch::Dispatcher;
use crate::forward::batch::AnswerItem;
use crate::forward::execute::{Executor, Uses};
use crate::forward::inbox::{Forward, connect};
use crate::forward::link::Leadership;
use crate::forward::thread::ForwardThread;
use crate::message::SystemJob;
use crate::testing::handles_and_calls;
use crossbeam_channel::Receiver;
use ferrite_wire::RequestWriter;
use proptest::prelude::*;

/// A node with clients, and another node. System procedures are what is called, so what is executed
/// here comes to the system thread, whichever way it took.
struct Nodes {
    dispatcher: Dispatcher,
    connections: Vec<(Connection, std::net::TcpStream)>,
    forward: Forward,
    thread: ForwardThread,
    link: Arc<Queues>,
    /// Whether the network thread may read in this turn.
    reads: bool,
    executed_here: Receiver<SystemJob>,
    other: Leader,
    /// What it has answered, on the way here.
    back: Queues,
    leadership: Leadership,
    epoch: u64,
    /// The epoch since which the other one leads, if it does.
    since: u64,
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
        let link = Arc::new(Queues::default());
        let executor = Executor::new(uses, Arc::new(forward.clone()));
        let thread = ForwardThread::new(inbox, Arc::clone(&link) as Arc<dyn Link>, executor, Arc::default());
        Nodes {
            dispatcher: Dispatcher::new(handles, Arc::new(Answers::default())),
            connections: (1..3).map(connection).collect(),
            forward,
            thread,
            link,
            reads: true,
            executed_here,
            other: Leader::default(),
            back: Queues::default(),
            leadership: Leadership::Unknown,
            epoch: 0,
            since: 0,
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
        self.reads = self.dispatcher.look_at_leadership();
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

    fn lead(&mut self, leadership: Leadership) {
        self.epoch += 1;
        if !matches!(self.leadership, Leadership::At(_)) {
            self.since = self.epoch;
        }
        self.leadership = leadership;
        self.forward.lead(leadership, Epoch(self.epoch));
    }

    /// One message arrives at the other node, which executes it where it leads, and gives it back
    /// where it does not, or did not since it was sent.
    fn arrive(&mut self) {
        let Some((_, message)) = self.link.next(NodeId(2)) else { return };
        match self.leadership {
            Leadership::At(_) if batch::epoch_of_calls(&message) >= Epoch(self.since) => self.other.take(&message),
            Leadership::At(_) => self.other.give_back(&message, self.epoch),
            _ => self.other.give_back(&message, self.epoch + 1),
        }
        while let Some((connection, handle)) = self.other.answer() {
            self.note(connection, handle);
        }
    }

    /// One of its messages arrives here.
    fn arrive_back(&mut self) {
        self.other.received.send(&self.back);
        if let Some((_, message)) = self.back.next(HERE) {
            self.forward.answers(NodeId(2), &message);
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
        assert!(self.reads && !self.forward.is_away(), "calls go to partitions at once");
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
    assert!(!nodes.forward.is_away());
    nodes.next_turn();
    nodes.forward_turn();
    nodes.next_turn();
    nodes.read(0, 5);
    let before = nodes.executed.len();
    nodes.next_turn();
    assert_eq!(nodes.executed.len(), before + 5, "without the thread that forwards");
    nodes.check();
}

#[test]
fn what_was_sent_for_an_earlier_leadership_is_not_executed_in_a_later_one() {
    let mut nodes = Nodes::new();
    let message = |epoch: u64, number: u32| {
        let (mut message, mut call) = (Vec::new(), Vec::new());
        batch::begin_calls(&mut message, Header { session: 0, number }, Epoch(epoch));
        RequestWriter::begin(&mut call, "@Quiesce", i64::from(number)).finish().expect("a small call");
        batch::put_call(&mut message, 7, false, &call[4..]);
        message
    };
    let handles = |nodes: &Nodes| -> Vec<i64> {
        let calls = nodes.executed_here.try_iter();
        let handle = |job| match job {
            SystemJob::Call { body, .. } => Invocation::parse(&body).expect("it was written here").handle,
            _ => panic!("only calls come"),
        };
        calls.map(handle).collect()
    };
    nodes.lead(Leadership::Here);
    nodes.forward.calls(NodeId(2), Incarnation(1), &message(1, 0));
    nodes.thread.turn_at(nodes.now);
    assert_eq!(handles(&nodes), [0]);
    nodes.lead(Leadership::At(leader(3)));
    nodes.lead(Leadership::Coming);
    nodes.lead(Leadership::Here);
    nodes.forward.calls(NodeId(2), Incarnation(1), &message(1, 1));
    nodes.thread.turn_at(nodes.now);
    assert!(handles(&nodes).is_empty());
    let (_, answers) = nodes.link.next(NodeId(2)).expect("it went back");
    let (_, mut items) = batch::answers(&answers).expect("well-formed");
    assert!(matches!(items.next(), Some(AnswerItem::Returned { epoch: Epoch(4), .. })));
}

#[test]
fn a_process_that_ends_gives_calls_of_others_back_at_once_where_it_does_not_lead() {
    for leadership in [Leadership::Unknown, Leadership::Coming] {
        let mut nodes = Nodes::new();
        nodes.lead(leadership);
        let (mut message, mut call) = (Vec::new(), Vec::new());
        batch::begin_calls(&mut message, Header { session: 0, number: 0 }, Epoch(1));
        RequestWriter::begin(&mut call, "@Quiesce", 5).finish().expect("a small call");
        batch::put_call(&mut message, 7, false, &call[4..]);
        nodes.forward.calls(NodeId(2), Incarnation(1), &message);
        nodes.thread.turn_at(nodes.now);
        assert!(nodes.link.next(NodeId(2)).is_none(), "it is not known whose they are");
        nodes.forward.ends();
        nodes.thread.turn_at(nodes.now);
        let (_, answers) = nodes.link.next(NodeId(2)).expect("it went back");
        let (_, mut items) = batch::answers(&answers).expect("well-formed");
        assert!(matches!(items.next(), Some(AnswerItem::Returned { epoch: Epoch(2), .. })));
    }
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
                    3 => Leadership::At(leader(2)),
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
