//! Two nodes and strangers, on real sockets.

mod recordings;
mod strangers;

use ferrite_base::{Incarnation, NodeId};
use ferrite_io::SystemRandom;
use ferrite_notice::Notice;
use ferrite_peer::{
    ANSWER_BYTES, Answer, HELLO_BYTES, Handler, Hello, INQUIRY_BYTES_MAX, Lane, Limits, NO_CLUSTER, NONCE_BYTES,
    Nonces, NotSent, Peers, Refusal, Room, VERSION, inquire, start, write_message,
};
use mio::net::TcpListener;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Heard {
    Connected(NodeId, Incarnation, Lane),
    Received(NodeId, Lane, Vec<u8>),
    Lost(NodeId, Lane),
    Notice(String),
}

#[derive(Default)]
struct Ears {
    heard: Mutex<Vec<Heard>>,
    more: Condvar,
    /// Whether the lane of calls has no room.
    full: Mutex<bool>,
}

impl Ears {
    fn hear(&self, heard: Heard) {
        self.heard.lock().unwrap().push(heard);
        self.more.notify_all();
    }

    fn wait(&self, what: &str, is: impl Fn(&Heard) -> bool) {
        self.wait_for(what, |heard| heard.iter().any(&is));
    }

    fn wait_for(&self, what: &str, enough: impl Fn(&[Heard]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut heard = self.heard.lock().unwrap();
        while !enough(&heard) {
            let left = deadline.checked_duration_since(Instant::now());
            let Some(left) = left else { panic!("waited in vain for {what}: {heard:?}") };
            heard = self.more.wait_timeout(heard, left).unwrap().0;
        }
    }

    fn received(&self) -> Vec<Vec<u8>> {
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .filter_map(|heard| if let Heard::Received(_, _, message) = heard { Some(message.clone()) } else { None })
            .collect()
    }
}

impl Handler for Ears {
    fn connected(&self, node: NodeId, incarnation: Incarnation, lane: Lane) {
        self.hear(Heard::Connected(node, incarnation, lane));
    }

    fn deliver(&self, node: NodeId, _: Incarnation, lane: Lane, message: Vec<u8>) -> Room {
        self.hear(Heard::Received(node, lane, message));
        if lane == Lane::Calls && *self.full.lock().unwrap() { Room::Wait } else { Room::More }
    }

    fn lost(&self, node: NodeId, lane: Lane) {
        self.hear(Heard::Lost(node, lane));
    }

    fn inquired(&self, question: Vec<u8>) -> Option<Vec<u8>> {
        (!question.is_empty()).then(|| [b"re: ", &question[..]].concat())
    }

    fn notice(&self, notice: Notice) {
        self.hear(Heard::Notice(notice.to_string()));
    }
}

fn hello(node: u32, incarnation: u64) -> Hello {
    Hello {
        versions: (VERSION, VERSION),
        lane: Lane::Control,
        cluster: [5; 16],
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        start: incarnation * 1_000 + u64::from(node),
    }
}

struct Node {
    peers: Peers,
    ears: Arc<Ears>,
    address: SocketAddr,
}

fn node_with(hello: Hello, limits: Limits) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let ears = Arc::new(Ears::default());
    let peers = start(hello, listener, limits, Box::new(SystemRandom), Arc::clone(&ears) as Arc<dyn Handler>).unwrap();
    peers.open_lane(Lane::Lots);
    Node { peers, ears, address }
}

fn node(number: u32) -> Node {
    node_with(hello(number, 1), Limits::default())
}

/// Each expects the other, and all lanes are open.
fn join(one: &Node, two: &Node) {
    one.peers.expect(&[(NodeId(2), vec![two.address])]);
    two.peers.expect(&[(NodeId(1), vec![one.address])]);
    for lane in Lane::ALL {
        one.ears.wait("a lane", |heard| matches!(heard, Heard::Connected(NodeId(2), _, on) if *on == lane));
        two.ears.wait("a lane", |heard| matches!(heard, Heard::Connected(NodeId(1), _, on) if *on == lane));
    }
}

#[test]
fn messages_go_both_ways_on_all_lanes_in_their_order() {
    let (one, two) = (node(1), node(2));
    assert_eq!(one.peers.send(NodeId(2), Lane::Control, vec![1].into()), Err(NotSent::NotConnected));
    join(&one, &two);
    for lane in Lane::ALL {
        for number in 0..50u8 {
            // Up to some that are several frames, where the lane takes those.
            let length = if lane == Lane::Control { 900_000 } else { 2_000_000 };
            let length = if number % 25 == 24 { length } else { number as usize };
            let message = vec![number; length];
            let deadline = Instant::now() + PATIENCE;
            for (from, to) in [(&one, 2), (&two, 1)] {
                while let Err(error) = from.peers.send(NodeId(to), lane, message.clone().into()) {
                    assert_eq!(error, NotSent::Full);
                    assert!(Instant::now() < deadline, "the other side reads");
                    std::thread::yield_now();
                }
            }
        }
    }
    for (ears, from) in [(&one.ears, 2), (&two.ears, 1)] {
        for lane in Lane::ALL {
            let of_lane = |heard: &[Heard]| -> Vec<u8> {
                let of = |heard: &Heard| match heard {
                    Heard::Received(NodeId(node), on, message) if *node == from && *on == lane => {
                        Some(message.first().copied().unwrap_or(0))
                    }
                    _ => None,
                };
                heard.iter().filter_map(of).collect()
            };
            ears.wait_for("all messages", |heard| of_lane(heard).len() == 50);
            assert_eq!(of_lane(&ears.heard.lock().unwrap()), (0..50).collect::<Vec<_>>());
        }
    }
    two.peers.stop();
    one.ears.wait("the loss", |heard| matches!(heard, Heard::Lost(NodeId(2), Lane::Control)));
    one.peers.stop();
}

#[test]
fn a_lane_without_room_holds_its_sender_and_no_other_lane() {
    let (one, two) =
        (node(1), node_with(hello(2, 1), Limits { outbox_bytes_max: [1 << 20; Lane::ALL.len()], ..Limits::default() }));
    join(&one, &two);
    *one.ears.full.lock().unwrap() = true;
    let message = vec![9; 100_000];
    let deadline = Instant::now() + PATIENCE;
    let mut sent = 0;
    // Sockets take some; then it is full.
    while two.peers.send(NodeId(1), Lane::Calls, message.clone().into()).is_ok()
        || two.peers.waiting(NodeId(1), Lane::Calls) < Some(500_000)
    {
        sent += 1;
        assert!(Instant::now() < deadline, "it never became full");
    }
    assert!(sent > 5);
    let before = one.ears.received().len();
    two.peers.send(NodeId(1), Lane::Control, vec![1, 2, 3].into()).unwrap();
    one.ears.wait("a heartbeat", |heard| matches!(heard, Heard::Received(_, Lane::Control, _)));
    assert!(one.ears.received().len() <= before + 2, "one that was read already at most");
    *one.ears.full.lock().unwrap() = false;
    one.peers.resume(NodeId(2), Lane::Calls);
    while two.peers.waiting(NodeId(1), Lane::Calls) > Some(0) {
        assert!(Instant::now() < deadline, "it goes on");
        std::thread::yield_now();
    }
    one.peers.stop();
    two.peers.stop();
}

#[test]
fn the_lane_of_lots_is_dialed_when_it_is_opened_and_anew_when_it_is_broken() {
    let start = |hello: Hello| {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let ears = Arc::new(Ears::default());
        let handler = Arc::clone(&ears) as Arc<dyn Handler>;
        let peers = start(hello, listener, Limits::default(), Box::new(SystemRandom), handler).unwrap();
        Node { peers, ears, address }
    };
    let (one, two) = (start(hello(1, 1)), start(hello(2, 1)));
    one.peers.expect(&[(NodeId(2), Vec::new())]);
    two.peers.expect(&[(NodeId(1), vec![one.address])]);
    for lane in Lane::ALL.into_iter().filter(|lane| *lane != Lane::Lots) {
        one.ears.wait("a lane", |heard| matches!(heard, Heard::Connected(NodeId(2), _, on) if *on == lane));
    }
    assert_eq!(one.peers.waiting(NodeId(2), Lane::Lots), None, "nothing asks for it");
    two.peers.open_lane(Lane::Lots);
    let is_open = |heard: &Heard| matches!(heard, Heard::Connected(_, _, Lane::Lots));
    for ears in [&one.ears, &two.ears] {
        ears.wait("the lane", is_open);
    }
    one.peers.break_lane(NodeId(2), Lane::Lots);
    for ears in [&one.ears, &two.ears] {
        ears.wait("the loss", |heard| matches!(heard, Heard::Lost(_, Lane::Lots)));
        ears.wait_for("another connection", |heard| heard.iter().filter(|heard| is_open(heard)).count() == 2);
    }
    let heard = one.ears.heard.lock().unwrap();
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::Lost(_, lane) if *lane != Lane::Lots)), "{heard:?}");
    drop(heard);
    one.peers.stop();
    two.peers.stop();
}

/// Says hello as that: the connection, and what is answered.
fn dial(address: SocketAddr, hello: &Hello) -> std::io::Result<(TcpStream, Answer)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let nonce = [9; NONCE_BYTES];
    stream.write_all(&[&hello.encode()[..], &nonce].concat())?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer)?;
    let answer = Answer::decode(&answer).expect("it is an answer");
    if answer.outcome.is_ok() {
        let mut nonces = [0; 2 * NONCE_BYTES];
        stream.read_exact(&mut nonces)?;
        let nonces = Nonces::decode(&nonces);
        assert_eq!(nonces.dialer, nonce);
        stream.write_all(&nonces.acceptor)?;
    }
    Ok((stream, answer))
}

fn greet(address: SocketAddr, hello: &Hello) -> Option<Answer> {
    dial(address, hello).ok().map(|(_, answer)| answer)
}

#[test]
fn a_node_that_is_not_heard_of_is_dialed_anew() {
    let limits = Limits { silence_time_max: Duration::from_secs(1), ..Limits::default() };
    let (one, two) = (node_with(hello(1, 1), limits), node(2));
    join(&one, &two);
    // It is heard, and then never again: a connection that is cut looks the same.
    two.peers.send(NodeId(1), Lane::Control, vec![1].into()).unwrap();
    one.ears.wait("the message", |heard| matches!(heard, Heard::Received(..)));
    for lane in Lane::ALL {
        let is = |heard: &Heard| *heard == Heard::Lost(NodeId(2), lane);
        one.ears.wait("the loss of all lanes", is);
        two.ears.wait("the other side", |heard| *heard == Heard::Lost(NodeId(1), lane));
        let opened = |heard: &Heard| matches!(heard, Heard::Connected(NodeId(2), _, on) if *on == lane);
        one.ears.wait_for("another connection", |heard| heard.iter().filter(|heard| opened(heard)).count() >= 2);
    }
    one.peers.stop();
    two.peers.stop();
}

#[test]
fn a_node_that_starts_again_takes_the_place_of_its_earlier_start() {
    let (one, two) = (node(1), node(2));
    join(&one, &two);
    two.peers.stop();
    let again = node_with(hello(2, 2), Limits::default());
    one.peers.expect(&[(NodeId(2), vec![again.address])]);
    again.peers.expect(&[(NodeId(1), vec![one.address])]);
    one.ears.wait("the new start", |heard| *heard == Heard::Connected(NodeId(2), Incarnation(2), Lane::Entries));
    // A node that is not expected any more loses its connections.
    one.peers.expect(&[]);
    one.ears.wait_for("the loss", |heard| {
        heard
            .iter()
            .rev()
            .find(|heard| matches!(heard, Heard::Connected(_, _, Lane::Calls) | Heard::Lost(_, Lane::Calls)))
            .is_some_and(|last| matches!(last, Heard::Lost(..)))
    });
    one.peers.stop();
    again.peers.stop();
}

#[test]
fn a_node_that_is_introduced_takes_connections() {
    let (one, two) = (node_with(Hello { cluster: NO_CLUSTER, ..hello(1, 1) }, Limits::default()), node(2));
    two.peers.expect(&[(NodeId(1), vec![one.address])]);
    assert_eq!(greet(one.address, &hello(3, 1)).unwrap().outcome, Err(Refusal::NoCluster));
    // Who is admitted is known first: the other one may ask in between.
    one.peers.expect(&[(NodeId(2), Vec::new())]);
    one.peers.introduce(hello(1, 1));
    join(&one, &two);
    let heard = one.ears.heard.lock().unwrap();
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::Notice(_))), "all starts are so: {heard:?}");
    drop(heard);
    // What every first start meets is not worth a line.
    two.ears.wait_for("no notice", |heard| !heard.iter().any(|heard| matches!(heard, Heard::Notice(_))));
    one.peers.stop();
    two.peers.stop();
}

#[test]
fn of_several_addresses_the_one_that_answers_is_found() {
    let (one, two) = (node(1), node(2));
    // Nobody listens at the first, and what listens at the second says nothing.
    let silent = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = "127.0.0.1:1".parse().unwrap();
    let limits = Limits { handshake_time_max: Duration::from_millis(200), ..Limits::default() };
    let three = node_with(hello(3, 1), limits);
    for (from, addresses) in
        [(&two, vec![nobody, one.address]), (&three, vec![silent.local_addr().unwrap(), one.address])]
    {
        from.peers.expect(&[(NodeId(1), addresses)]);
    }
    one.peers.expect(&[(NodeId(2), Vec::new()), (NodeId(3), Vec::new())]);
    for from in [2, 3] {
        for lane in Lane::ALL {
            let is_open =
                |heard: &Heard| matches!(heard, Heard::Connected(NodeId(node), _, on) if *node == from && *on == lane);
            one.ears.wait("a lane", is_open);
        }
    }
    for node in [one, two, three] {
        node.peers.stop();
    }
}

#[test]
fn what_is_open_to_an_earlier_start_of_a_node_is_closed() {
    let one = node(1);
    one.peers.expect(&[(NodeId(2), vec!["127.0.0.1:1".parse().unwrap()])]);
    let open = |incarnation, lane| {
        let (stream, answer) = dial(one.address, &Hello { lane, ..hello(2, incarnation) }).unwrap();
        assert!(answer.outcome.is_ok());
        stream
    };
    let mut earlier = [Lane::Control, Lane::Calls, Lane::Transfer].map(|lane| open(1, lane));
    for lane in [Lane::Control, Lane::Calls, Lane::Transfer] {
        one.ears.wait("a lane", |heard| *heard == Heard::Connected(NodeId(2), Incarnation(1), lane));
    }
    // On one lane only: the others are as dead, and say nothing.
    let mut later = open(2, Lane::Entries);
    for stream in &mut earlier {
        assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)), "it is closed");
    }
    for lane in [Lane::Control, Lane::Calls, Lane::Transfer] {
        one.ears.wait("the loss", |heard| matches!(heard, Heard::Lost(NodeId(2), on) if *on == lane));
    }
    let is_open = |heard: &Heard| *heard == Heard::Connected(NodeId(2), Incarnation(2), Lane::Entries);
    one.ears.wait("the later one", is_open);
    one.peers.send(NodeId(2), Lane::Entries, vec![1].into()).unwrap();
    assert!(later.read(&mut [0; 8]).unwrap() > 0, "the later one is open");
    one.peers.stop();
}

/// What hears of a lane may take the newest word for the state: the end of an older connection does
/// not come after the beginning of the one that replaces it.
#[test]
fn the_loss_of_a_connection_is_heard_before_the_one_that_takes_its_place() {
    let one = node(1);
    one.peers.expect(&[(NodeId(2), vec!["127.0.0.1:1".parse().unwrap()])]);
    let of_lane = |heard: &[Heard]| -> Vec<bool> {
        let connected = |heard: &Heard| match heard {
            Heard::Connected(NodeId(2), _, Lane::Lots) => Some(true),
            Heard::Lost(NodeId(2), Lane::Lots) => Some(false),
            _ => None,
        };
        heard.iter().filter_map(connected).collect()
    };
    let mut streams = Vec::new();
    for count in 1..=20 {
        let (stream, answer) = dial(one.address, &Hello { lane: Lane::Lots, ..hello(2, 1) }).unwrap();
        assert!(answer.outcome.is_ok());
        streams.push(stream);
        one.ears.wait_for("the lane", |heard| of_lane(heard).iter().filter(|connected| **connected).count() == count);
        // The one before ends by itself at about the same time.
        streams.drain(..streams.len() - 1).for_each(drop);
    }
    let expected: Vec<bool> = (0..39).map(|place| place % 2 == 0).collect();
    assert_eq!(of_lane(&one.ears.heard.lock().unwrap()), expected);
    one.peers.send(NodeId(2), Lane::Lots, vec![1].into()).unwrap();
    assert!(streams[0].read(&mut [0; 8]).unwrap() > 0, "the newest is open");
    one.peers.stop();
}

#[test]
fn a_copy_of_a_node_that_runs_is_refused_and_the_node_stays() {
    let (one, two) = (node(1), node(2));
    join(&one, &two);
    two.peers.send(NodeId(1), Lane::Control, vec![1].into()).unwrap();
    one.ears.wait("a message", |heard| *heard == Heard::Received(NodeId(2), Lane::Control, vec![1]));
    // Its directory says that the next start is the second.
    assert_eq!(greet(one.address, &hello(2, 2)).expect("an answer").outcome, Err(Refusal::Runs));
    one.ears.wait("a line", |heard| matches!(heard, Heard::Notice(line) if line.contains("was copied")));
    two.peers.send(NodeId(1), Lane::Control, vec![2].into()).unwrap();
    one.ears.wait("another message", |heard| *heard == Heard::Received(NodeId(2), Lane::Control, vec![2]));
    // When the process has ended, the next start is not kept waiting.
    two.peers.stop();
    one.ears.wait("the loss", |heard| *heard == Heard::Lost(NodeId(2), Lane::Control));
    assert!(greet(one.address, &hello(2, 2)).expect("an answer").outcome.is_ok());
    one.peers.stop();
}

/// Version 1 says 56 bytes each way, and knows no nonces.
#[test]
fn a_node_of_the_version_before_is_refused_by_name_on_both_sides() {
    let before = |node| Hello { versions: (1, 1), ..hello(node, 1) };
    let one = node(1);
    one.peers.expect(&[(NodeId(2), Vec::new())]);
    let mut stream = TcpStream::connect(one.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&before(2).encode()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = Answer::decode(answer[..].try_into().expect("as long as ever")).expect("an answer");
    assert_eq!((answer.outcome, answer.from.versions), (Err(Refusal::Version), (VERSION, VERSION)));
    one.ears.wait("a line", |heard| matches!(heard, Heard::Notice(line) if line.contains("claims to be node 2 was refused: it speaks version 1") && line.contains("the earlier one")));
    one.peers.stop();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // It closes without having read what follows.
            let _ = stream.read_exact(&mut [0; HELLO_BYTES]);
            let _ = stream.write_all(&Answer { outcome: Err(Refusal::Version), from: before(1) }.encode());
        }
    });
    let two = node(2);
    two.peers.expect(&[(NodeId(1), vec![address])]);
    two.ears.wait("a line", |heard| matches!(heard, Heard::Notice(line) if line.contains("node 1 (127.0.0.1") && line.contains("does not connect: it speaks version 1 of the cluster protocol, and this node speaks version")));
    two.peers.stop();
}
