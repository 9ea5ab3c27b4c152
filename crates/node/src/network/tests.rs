//! A network thread without its node, one turn at a time.

use super::*;
use crate::testing::handles;
use ferrite_base::limits;
use ferrite_wire::{HashScheme, LoginRequest, RequestWriter, Service};
use mio::Waker;
use std::io::{Read, Write};

/// A thread with one connection, that has logged in, and the client's end of it.
fn connected() -> (NetworkThread, std::net::TcpStream) {
    let poll = Poll::new().expect("a poll");
    let waker = Waker::new(poll.registry(), WAKER).expect("a waker");
    let (mailbox, mail) = NetworkMailbox::new(waker);
    let mut thread = NetworkThread::new(poll, None, mail, mailbox, handles(1)).expect("a thread");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let client = std::net::TcpStream::connect(address).expect("a listening port takes connections");
    let (stream, _) = listener.accept().expect("somebody connects");
    stream.set_nonblocking(true).expect("sockets can be so");
    assert!(thread.node.connections.opened(false));
    thread.open(TcpStream::from_std(stream), false);
    thread.ready.clear();
    thread.connections[0].as_mut().expect("it is open").logged_in = true;
    (thread, client)
}

/// One client library waits for ever where its connection ends just after its login.
#[test]
fn a_node_that_ends_refuses_logins() {
    let (mut thread, mut client) = connected();
    thread.node.connections.end();
    let mut login = Vec::new();
    let (scheme, service) = (HashScheme::Sha256, Service::Database);
    LoginRequest { version: 1, scheme, service, user: "", digest: &[0; 32] }.write(&mut login);
    client.write_all(&login).expect("it is open");
    let connection = thread.connections[0].as_mut().expect("it is open");
    (connection.logged_in, connection.readable) = (false, true);
    thread.ready.push(0);
    thread.turn(&Events::with_capacity(1));
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("it was closed in good order");
    assert_eq!(answer.get(5).map(|code| *code as i8), Some(LoginFailure::Rejoining.code()), "{answer:?}");
    assert!(thread.node.connections.takes_logins(true), "of administrators");
}

/// Calls that were read and had to wait, because answers before them were not read: when the socket
/// takes some of these, no event and no answer will come that would tell of the calls.
#[test]
fn calls_that_waited_for_room_are_taken_when_a_flush_makes_it() {
    let (mut thread, mut client) = connected();
    let mut ping = Vec::new();
    RequestWriter::begin(&mut ping, "@Ping", 77).finish().expect("a small call");
    let connection = thread.connections[0].as_mut().expect("it is open");
    connection.partial = ping;
    connection.has_frames = true;
    connection.readable = false;
    connection.out().resize(limits::CONNECTION_UNREAD_BYTES_MAX, 0);
    thread.ready.push(0);
    let nothing = Events::with_capacity(1);
    thread.turn(&nothing);
    assert!(thread.ready.is_empty(), "there is no room");
    thread.settle(0);
    assert_eq!(thread.ready, [0], "the socket took something");
    thread.turn(&nothing);
    // All answers, the last of them that of the call.
    let mut pong = Vec::new();
    ferrite_wire::response::write_pong(&mut pong, 77);
    let all = limits::CONNECTION_UNREAD_BYTES_MAX + pong.len();
    let (mut received, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    while received.len() < all {
        // What is not in the socket's buffers is what they have no room for, so there is something
        // to read.
        thread.settle(0);
        let count = client.read(&mut buffer).expect("the connection is open");
        assert!(count > 0, "the connection is open");
        received.extend_from_slice(&buffer[..count]);
    }
    assert_eq!(received[limits::CONNECTION_UNREAD_BYTES_MAX..], pong);
}
