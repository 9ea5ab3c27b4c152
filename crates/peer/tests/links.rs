//! Two nodes and strangers, on real sockets.

use ferrite_base::{Incarnation, NodeId};
use ferrite_io::SystemRandom;
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

    fn received(&self, node: NodeId, _: Incarnation, lane: Lane, message: Vec<u8>) -> Room {
        self.hear(Heard::Received(node, lane, message));
        if lane == Lane::Calls && *self.full.lock().unwrap() { Room::Wait } else { Room::More }
    }

    fn lost(&self, node: NodeId, lane: Lane) {
        self.hear(Heard::Lost(node, lane));
    }

    fn inquired(&self, question: Vec<u8>) -> Option<Vec<u8>> {
        (!question.is_empty()).then(|| [b"re: ", &question[..]].concat())
    }

    fn notice(&self, line: &str) {
        self.hear(Heard::Notice(line.to_owned()));
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
    let (one, two) = (node(1), node_with(hello(2, 1), Limits { outbox_bytes_max: [1 << 20; 4], ..Limits::default() }));
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
fn whoever_is_not_of_the_cluster_hears_why_and_so_does_the_operator() {
    let one = node(1);
    one.peers.expect(&[(NodeId(2), vec!["127.0.0.1:1".parse().unwrap()])]);
    let refused = |hello: &Hello| greet(one.address, hello).expect("an answer").outcome.expect_err("it is refused");
    assert_eq!(refused(&Hello { cluster: [6; 16], ..hello(2, 1) }), Refusal::Cluster);
    assert_eq!(refused(&Hello { versions: (7, 9), ..hello(2, 1) }), Refusal::Version);
    assert_eq!(refused(&hello(3, 1)), Refusal::Unknown);
    assert_eq!(refused(&hello(1, 1)), Refusal::Copied);
    // One that looks for an earlier node at this address, which this node has taken.
    let later = node(3);
    later.peers.expect(&[(NodeId(2), vec!["127.0.0.1:1".parse().unwrap()])]);
    let answer = greet(later.address, &hello(2, 1)).expect("an answer");
    assert_eq!(answer.outcome, Err(Refusal::Replaced));
    let heard = later.ears.heard.lock().unwrap();
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::Notice(_))), "nobody is alarmed: {heard:?}");
    drop(heard);
    assert!(greet(one.address, &hello(2, 4)).expect("an answer").outcome.is_ok());
    one.ears.wait("a lane", |heard| matches!(heard, Heard::Connected(NodeId(2), Incarnation(4), _)));
    assert_eq!(refused(&hello(2, 3)), Refusal::Incarnation);
    assert_eq!(refused(&Hello { start: 1, ..hello(2, 4) }), Refusal::Copied);
    for part in ["another cluster", "speaks version 9", "not a node of this cluster", "was copied", "an old one"] {
        one.ears.wait(part, |heard| matches!(heard, Heard::Notice(line) if line.contains(part)));
    }
    one.peers.stop();
}

#[test]
fn a_flood_of_strangers_and_garbage_holds_nobody_up() {
    let limits = Limits { strangers_max: 16, ..Limits::default() };
    let (one, two) = (node_with(hello(1, 1), limits), node(2));
    let mut silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(one.address).unwrap()).collect();
    for stream in &mut silent[..100] {
        // Some are closed already.
        let _ = stream
            .write_all(b"GET / HTTP/1.1\r\nHost: there is no such thing here, and this is longer than a hello\r\n\r\n");
    }
    join(&one, &two);
    // Garbage behind a hello that was right, until it is read before the node itself is back.
    let deadline = Instant::now() + PATIENCE;
    let is_told = |heard: &Heard| matches!(heard, Heard::Notice(line) if line.contains("makes no sense"));
    while !one.ears.heard.lock().unwrap().iter().any(is_told) {
        assert!(Instant::now() < deadline, "garbage is noticed");
        let Ok((mut stream, _)) = dial(one.address, &Hello { lane: Lane::Transfer, ..hello(2, 1) }) else { continue };
        let _ = stream.write_all(&[0xee; 4_000]);
        // Until it is closed.
        while matches!(stream.read(&mut [0; 64]), Ok(count) if count > 0) {}
    }
    // The lane that it took from the node is the node's again.
    while two.peers.waiting(NodeId(1), Lane::Transfer).is_none() {
        assert!(Instant::now() < deadline, "the lane comes back");
        std::thread::yield_now();
    }
    two.peers.send(NodeId(1), Lane::Control, vec![1].into()).unwrap();
    one.ears.wait("a message", |heard| matches!(heard, Heard::Received(..)));
    one.peers.stop();
    two.peers.stop();
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
fn a_stranger_that_says_nothing_is_closed() {
    let limits = Limits { handshake_time_max: Duration::from_millis(200), ..Limits::default() };
    let one = node_with(hello(1, 1), limits);
    let mut streams = [TcpStream::connect(one.address).unwrap(), TcpStream::connect(one.address).unwrap()];
    // A part of a hello is not one.
    streams[1].write_all(&hello(2, 1).encode()[..55]).unwrap();
    for mut stream in streams {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)));
    }
    one.peers.stop();
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
fn whoever_is_of_no_cluster_may_ask() {
    let one = node_with(Hello { cluster: NO_CLUSTER, ..hello(0, 1) }, Limits::default());
    assert_eq!(inquire(one.address, b"who is there?", PATIENCE).unwrap(), b"re: who is there?");
    // Two frames each way.
    let long = vec![7; INQUIRY_BYTES_MAX - 4];
    assert_eq!(inquire(one.address, &long, PATIENCE).unwrap().len(), INQUIRY_BYTES_MAX);
    let unanswered = inquire(one.address, b"", PATIENCE).unwrap_err();
    assert_eq!(unanswered.to_string(), "it closed the connection without an answer");
    one.peers.stop();
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
fn a_question_that_does_not_end_is_closed_and_one_too_long_too() {
    let limits = Limits { handshake_time_max: Duration::from_millis(200), ..Limits::default() };
    let one = node_with(hello(1, 1), limits);
    let silent = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let late = inquire(silent.local_addr().unwrap(), b"?", Duration::from_millis(100)).unwrap_err();
    assert_eq!(late.kind(), std::io::ErrorKind::TimedOut);
    let mut stream = TcpStream::connect(one.address).unwrap();
    let mut greeting = [0; 56];
    greeting[..10].copy_from_slice(b"FERRASKS\x01\0");
    let checksum = ferrite_base::checksum::crc32c(&greeting[..52]);
    greeting[52..].copy_from_slice(&checksum.to_le_bytes());
    stream.write_all(&greeting).unwrap();
    let mut frame = Vec::new();
    write_message(&mut frame, &mut 0, Lane::Control, b"the beginning of a question");
    stream.write_all(&frame[..20]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)));
    let mut stream = TcpStream::connect(one.address).unwrap();
    let mut long = Vec::new();
    write_message(&mut long, &mut 0, Lane::Control, &vec![7; INQUIRY_BYTES_MAX + 1]);
    let _ = stream.write_all(&greeting);
    let _ = stream.write_all(&long);
    one.ears.wait("a notice", |heard| matches!(heard, Heard::Notice(line) if line.contains("more than 1048576 bytes")));
    one.peers.stop();
}

#[test]
fn nobody_is_mistaken_for_a_node_however_often_it_is_asked() {
    // The kernel gives a connection a port of its own, on Linux an even one. Sooner or later it is
    // that which is asked, and the connection is one to itself.
    let free = |port: u16| TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).is_ok();
    let port = (40_000..50_000).step_by(2).find(|port| free(*port)).unwrap();
    let port = SocketAddr::from(([127, 0, 0, 1], port));
    for _ in 0..40_000 {
        let nobody = inquire(port, b"?", PATIENCE).unwrap_err();
        assert_eq!(nobody.kind(), std::io::ErrorKind::ConnectionRefused, "{nobody}");
    }
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

/// Half of a hello, garbage, another version, another cluster: as fast as they come.
#[test]
fn a_flood_holds_up_no_heartbeat_and_takes_no_descriptors() {
    let (one, two) = (node(1), node(2));
    join(&one, &two);
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let attackers: Vec<_> = (0..4u8)
        .map(|kind| {
            let (address, over) = (one.address, Arc::clone(&over));
            std::thread::spawn(move || {
                let (mut held, mut count) = (std::collections::VecDeque::new(), 0);
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    // Whoever attacks has descriptors, too.
                    if held.len() >= 100 {
                        held.pop_front();
                    }
                    let Ok(mut stream) = TcpStream::connect(address) else { continue };
                    count += 1;
                    let said = match kind {
                        0 => hello(2, 1).encode()[..40].to_vec(),
                        1 => vec![0xee; 2_000],
                        2 => Hello { versions: (7, 9), ..hello(2, 1) }.encode().to_vec(),
                        _ => Hello { cluster: [6; 16], ..hello(2, 1) }.encode().to_vec(),
                    };
                    let _ = stream.write_all(&said);
                    held.push_back(stream);
                }
                count
            })
        })
        .collect();
    // Heartbeats go both ways, and none waits as long as would cost a node its membership.
    for number in 0..200u32 {
        let began = Instant::now();
        for (from, to, to_node) in [(&one, 2, &two), (&two, 1, &one)] {
            let message = number.to_le_bytes().to_vec();
            from.peers.send(NodeId(to), Lane::Control, message.clone().into()).unwrap();
            to_node.ears.wait(
                "a heartbeat",
                |heard| matches!(heard, Heard::Received(_, Lane::Control, got) if *got == message),
            );
            let heard = std::mem::take(&mut *to_node.ears.heard.lock().unwrap());
            assert!(!heard.iter().any(|heard| matches!(heard, Heard::Lost(..))), "what was open stays open");
        }
        assert!(began.elapsed() < Duration::from_secs(2), "heartbeat {number} took {:?}", began.elapsed());
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        assert!(descriptors < 4 * 101 + 2 * 64 + 200, "{descriptors} descriptors");
    }
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    let count: usize = attackers.into_iter().map(|attacker| attacker.join().unwrap()).sum();
    assert!(count > 100, "{count} connections");
    one.peers.stop();
    two.peers.stop();
}

/// Between two nodes: what either says on each connection is written down.
struct Recorder {
    address: SocketAddr,
    /// By connection: what whoever dialed said, and what was answered.
    connections: Arc<Mutex<Vec<[Vec<u8>; 2]>>>,
}

impl Recorder {
    fn before(to: SocketAddr) -> Recorder {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let recorded: Arc<Mutex<Vec<[Vec<u8>; 2]>>> = Arc::clone(&connections);
        std::thread::spawn(move || {
            for (number, dialed) in listener.incoming().enumerate() {
                let (dialed, taken) = (dialed.unwrap(), TcpStream::connect(to).unwrap());
                recorded.lock().unwrap().push([Vec::new(), Vec::new()]);
                for (side, mut from, mut into) in
                    [(0, dialed.try_clone().unwrap(), taken.try_clone().unwrap()), (1, taken, dialed)]
                {
                    let recorded = Arc::clone(&recorded);
                    std::thread::spawn(move || {
                        let mut buffer = [0; 4_096];
                        while let Ok(count @ 1..) = from.read(&mut buffer) {
                            recorded.lock().unwrap()[number][side].extend_from_slice(&buffer[..count]);
                            if into.write_all(&buffer[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = into.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        Recorder { address, connections }
    }
}

#[test]
fn a_recording_of_whoever_dialed_executes_nothing_again_and_displaces_nobody() {
    let (one, two) = (node(1), node(2));
    let recorder = Recorder::before(one.address);
    one.peers.expect(&[(NodeId(2), Vec::new())]);
    two.peers.expect(&[(NodeId(1), vec![recorder.address])]);
    for lane in Lane::ALL {
        two.ears.wait("a lane", |heard| matches!(heard, Heard::Connected(NodeId(1), _, on) if *on == lane));
        one.ears.wait("a lane", |heard| matches!(heard, Heard::Connected(NodeId(2), _, on) if *on == lane));
    }
    two.peers.send(NodeId(1), Lane::Calls, b"take 100 from the account".to_vec().into()).unwrap();
    one.ears.wait("a call", |heard| matches!(heard, Heard::Received(_, Lane::Calls, _)));
    let recordings = recorder.connections.lock().unwrap().clone();
    assert_eq!(recordings.len(), Lane::ALL.len());
    for [said, _] in recordings {
        let mut stream = TcpStream::connect(one.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&said).unwrap();
        // Until it is closed.
        while matches!(stream.read(&mut [0; 64]), Ok(count) if count > 0) {}
    }
    one.ears.wait_for("a line for each", |heard| {
        let is_refused = |heard: &&Heard| matches!(heard, Heard::Notice(line) if line.contains("was recorded"));
        heard.iter().filter(is_refused).count() == Lane::ALL.len()
    });
    // All lanes are as they were.
    two.peers.send(NodeId(1), Lane::Calls, b"another".to_vec().into()).unwrap();
    one.ears.wait("a call", |heard| *heard == Heard::Received(NodeId(2), Lane::Calls, b"another".to_vec()));
    assert_eq!(one.ears.received(), [b"take 100 from the account".to_vec(), b"another".to_vec()]);
    let heard = one.ears.heard.lock().unwrap();
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::Lost(..))), "{heard:?}");
    drop(heard);
    one.peers.stop();
    two.peers.stop();
}

#[test]
fn a_recording_of_whoever_was_dialed_is_not_believed() {
    let (one, two) = (node(1), node(2));
    let recorder = Recorder::before(one.address);
    one.peers.expect(&[(NodeId(2), Vec::new())]);
    two.peers.expect(&[(NodeId(1), vec![recorder.address])]);
    two.ears.wait("a lane", |heard| *heard == Heard::Connected(NodeId(1), Incarnation(1), Lane::Calls));
    one.ears.wait("a lane", |heard| *heard == Heard::Connected(NodeId(2), Incarnation(1), Lane::Calls));
    one.peers.send(NodeId(2), Lane::Calls, b"it was taken".to_vec().into()).unwrap();
    two.ears.wait("an answer", |heard| matches!(heard, Heard::Received(_, Lane::Calls, _)));
    one.peers.stop();
    two.peers.stop();
    let connections = recorder.connections.lock().unwrap().clone();
    let is_calls = |said: &[u8]| said.get(12) == Some(&(Lane::Calls as u8));
    let recorded = connections.into_iter().find(|[said, _]| is_calls(said)).expect("the lane was recorded")[1].clone();
    // Whoever recorded it listens where the node did, and says the same to whatever it is told.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut hello = [0; HELLO_BYTES];
            if stream.read_exact(&mut hello).is_ok() && is_calls(&hello) {
                stream.write_all(&recorded).unwrap();
                open.push(stream);
            }
        }
    });
    let again = node(2);
    again.peers.expect(&[(NodeId(1), vec![address])]);
    again.ears.wait("a line", |heard| {
        matches!(heard, Heard::Notice(line) if line.contains("what answers there was recorded on another connection"))
    });
    let heard = again.ears.heard.lock().unwrap();
    assert!(heard.iter().all(|heard| matches!(heard, Heard::Notice(_))), "{heard:?}");
    drop(heard);
    again.peers.stop();
}

/// A hello alone, which anybody may have recorded before the node's latest start.
#[test]
fn a_hello_alone_closes_nothing_and_is_not_remembered() {
    let (one, two) = (node(1), node(2));
    join(&one, &two);
    one.peers.expect(&[(NodeId(2), vec![two.address]), (NodeId(3), Vec::new())]);
    let alone = |hello: &Hello| {
        let mut stream = TcpStream::connect(one.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[&hello.encode()[..], &[9; NONCE_BYTES]].concat()).unwrap();
        let mut answer = [0; ANSWER_BYTES + 2 * NONCE_BYTES];
        stream.read_exact(&mut answer).unwrap();
        stream
    };
    let held = [alone(&hello(2, 1)), alone(&Hello { lane: Lane::Calls, ..hello(2, 1) }), alone(&hello(3, 9))];
    assert!(greet(one.address, &hello(3, 4)).expect("an answer").outcome.is_ok(), "start 9 has not shown itself");
    one.ears.wait("a lane", |heard| *heard == Heard::Connected(NodeId(3), Incarnation(4), Lane::Control));
    two.peers.send(NodeId(1), Lane::Control, vec![1].into()).unwrap();
    one.ears.wait("a message", |heard| *heard == Heard::Received(NodeId(2), Lane::Control, vec![1]));
    assert!(!one.ears.heard.lock().unwrap().iter().any(|heard| matches!(heard, Heard::Lost(NodeId(2), _))));
    drop(held);
    // What this node once said to others, which anybody may have recorded, too.
    assert_eq!(greet(one.address, &hello(1, 1)).expect("an answer").outcome, Err(Refusal::Copied));
    let says_both = |line: &str| line.contains("that says it is node 1") && line.contains("is sent again");
    one.ears.wait("a line", |heard| matches!(heard, Heard::Notice(line) if says_both(line)));
    one.peers.stop();
    two.peers.stop();
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
    one.ears.wait("a line", |heard| matches!(heard, Heard::Notice(line) if line.contains("says it is node 2 was refused: it speaks version 1") && line.contains("the earlier one")));
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
    two.ears.wait("a line", |heard| matches!(heard, Heard::Notice(line) if line.contains("node 1 (127.0.0.1") && line.contains("does not connect: it speaks version 1 of the cluster protocol, and this node version")));
    two.peers.stop();
}
