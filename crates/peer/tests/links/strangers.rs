//! Connections that no node of the cluster has made: refused, asked, or held up by nothing else.

use super::*;

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
    let is_told = |heard: &Heard| matches!(heard, Heard::Notice(line) if line.contains("make no sense"));
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
