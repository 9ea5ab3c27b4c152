//! What was recorded on one connection and is said again on another is not believed.

use super::*;

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
        matches!(heard, Heard::Notice(line) if line.contains("the answer from there was recorded on another connection"))
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
    let says_both = |line: &str| line.contains("that claims to be node 1") && line.contains("were replayed");
    one.ears.wait("a line", |heard| matches!(heard, Heard::Notice(line) if says_both(line)));
    one.peers.stop();
    two.peers.stop();
}
