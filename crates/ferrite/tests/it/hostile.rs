//! Bytes and calls that no honest client sends: each gets the protocol's error, and the server goes
//! on.

use crate::common::voter;
use ferrite_client::Status;
use ferrite_wire::{Extensions, LoginRequest, Response, frame, invocation};
use std::io::{Read, Write};
use std::net::TcpStream;

fn login() -> Vec<u8> {
    let mut bytes = Vec::new();
    let request = LoginRequest {
        version: 1,
        scheme: ferrite_wire::HashScheme::Sha256,
        service: ferrite_wire::Service::Database,
        user: "",
        digest: &[0; 32],
    };
    request.write(&mut bytes);
    bytes
}

pub fn connect(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server takes connections");
    stream.write_all(&login()).expect("the login can be sent");
    let answer = frame_of(&mut stream).expect("a login is answered");
    assert_eq!(answer[1], 0, "the login is accepted");
    stream
}

/// The next frame's body; None when the server has closed the connection.
pub fn frame_of(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; frame::LENGTH_BYTES];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn status_of(body: &[u8]) -> (i8, String) {
    let response = Response::parse(body).expect("the answer is well-formed");
    (response.status_code, response.status_text.unwrap_or_default().to_owned())
}

#[test]
fn frames_that_cannot_be_read_end_the_connection_only() {
    let (_dir, server, db) = voter(&[]);
    for bytes in [&[0u8, 0, 0, 0][..], &[0xff; 4], &[0x7f, 0xff, 0xff, 0xff], &[0x03, 0x20, 0, 1]] {
        let mut stream = connect(&server.address);
        stream.write_all(bytes).expect("bytes can be sent");
        assert_eq!(frame_of(&mut stream), None, "{bytes:?}");
    }
    // An announced but never completed frame takes nothing from others.
    let mut lazy = connect(&server.address);
    lazy.write_all(&[0x03, 0x1f, 0xff, 0xff, 2]).expect("bytes can be sent");
    assert_eq!(db.call("@Ping", ()).scalar(), Some(0));
}

#[test]
fn logins_that_make_no_sense_are_refused() {
    let (_dir, server, _db) = voter(&[]);
    for (change, code) in [(5usize, 3i8), (10, 5)] {
        let mut bytes = login();
        bytes[change] = 77;
        let mut stream = TcpStream::connect(&server.address).expect("the server takes connections");
        stream.write_all(&bytes).expect("bytes can be sent");
        let answer = frame_of(&mut stream).expect("a refusal is answered");
        assert_eq!(answer[1] as i8, code);
        assert_eq!(frame_of(&mut stream), None, "and then closed");
    }
}

#[test]
fn truncated_and_garbled_calls_are_answered_or_the_connection_is_closed() {
    let (_dir, server, db) = voter(&[]);
    let mut whole = Vec::new();
    invocation::write_call(&mut whole, "Vote", 7, &(5_551_234_567i64, 1i32, 2i64)).expect("a small call");
    let body = &whole[4..];
    for end in 1..body.len() {
        let mut stream = connect(&server.address);
        stream.write_all(&(end as u32).to_be_bytes()).expect("bytes can be sent");
        stream.write_all(&body[..end]).expect("bytes can be sent");
        if let Some(answer) = frame_of(&mut stream) {
            let (status, text) = status_of(&answer);
            assert!(status == -2 || status == -3, "cut at {end}: {status} {text}");
            assert!(!text.is_empty());
        }
    }
    // Every single byte changed, all on one connection where it stays open.
    for position in 0..body.len() {
        let mut stream = connect(&server.address);
        let mut garbled = whole.clone();
        garbled[4 + position] ^= 0x5a;
        stream.write_all(&garbled).expect("bytes can be sent");
        if let Some(answer) = frame_of(&mut stream) {
            status_of(&answer);
        }
    }
    assert_eq!(db.call("@Ping", ()).scalar(), Some(0));
}

#[test]
fn calls_that_are_wrong_say_why() {
    let (_dir, _server, db) = voter(&["--partitions", "2"]);
    let said = |procedure: &str, response: ferrite_client::OwnedResponse, status: Status, words: &str| {
        let text = response.status_text.clone().unwrap_or_default();
        assert_eq!(response.status(), Some(status), "{procedure}: {text}");
        assert!(text.contains(words), "{procedure}: expected {words:?} in {text:?}");
    };
    said("none", db.fail("NoSuch", ()), Status::UnexpectedFailure, "Procedure NoSuch was not found");
    said("count", db.fail("Vote", (1i64, 2i32)), Status::GracefulFailure, "EXPECTS 3 PARAMS, BUT RECEIVED 2");
    said("count", db.fail("Vote", ()), Status::GracefulFailure, "EXPECTS 3 PARAMS, BUT RECEIVED 0");
    said("type", db.fail("Vote", (1i64, "two", 3i64)), Status::GracefulFailure, "PARAMETER 1");
    said("range", db.fail("Vote", (1i64, 1i64 << 40, 3i64)), Status::GracefulFailure, "PARAMETER 1");
    said("key", db.fail("Vote", ("x", 1i32, 3i64)), Status::GracefulFailure, "parameter");
    said("null", db.fail("VOTES.insert", (1i64, None::<&str>, 1i32)), Status::GracefulFailure, "CONSTRAINT VIOLATION");
    said("size", db.fail("VOTES.insert", (1i64, "CAL", 1i32)), Status::GracefulFailure, "exceeds the size");
    said("nothing", db.fail("@AdHoc", ("",)), Status::GracefulFailure, "no SQL statement provided");
    said("system", db.fail("@NoSuch", ()), Status::UnexpectedFailure, "was not found");
    let g = Status::GracefulFailure;
    db.sql("INSERT INTO account VALUES (1, 5)");
    db.sql_fails("INSERT INTO account VALUES (1, 6)", g, "CONSTRAINT VIOLATION");
    db.sql_fails("SELECT balance / 0 FROM account WHERE id = 1", g, "division by zero");
    db.sql_fails("SELECT balance / (id - id) FROM account WHERE id = 1", g, "division by zero");
    db.sql_fails("UPDATE account SET balance = balance + 9223372036854775807 WHERE id = 1", g, "overflow");
    db.sql_fails("SELECT nosuch FROM account", g, "NOSUCH");
    db.sql_fails("SELEC 1", g, "SELEC");
    db.sql_fails("CREATE TABLE account (id INTEGER)", g, "already exists");
    db.sql_fails("CREATE TABLE x (a INTEGER); SELECT 1 FROM account", g, "DDL mixed");
    let deep = format!("SELECT {}1{} FROM account", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(db.fail("@AdHoc", (deep.as_str(),)).status(), Some(g));
    assert_eq!(db.scalar("SELECT SUM(balance) FROM account"), 5, "nothing was left behind");
}

#[test]
fn a_procedure_that_aborts_leaves_no_trace() {
    let (_dir, _server, db) = voter(&["--partitions", "3"]);
    for id in 0..6i64 {
        db.call("ACCOUNT.insert", (id, 100i64));
    }
    let response = db.fail("Transfer", (1i64, 2i64, 101i64));
    assert_eq!(response.status(), Some(Status::UserAbort));
    assert!(response.status_text.as_deref().unwrap_or_default().contains("not enough"), "{response:?}");
    assert_eq!(db.call("Transfer", (1i64, 2i64, 100i64)).scalar(), Some(0));
    assert_eq!(db.scalar("SELECT balance FROM account WHERE id = 2"), 200);
    assert_eq!(db.scalar("SELECT SUM(balance) FROM total"), 600);
}

#[test]
fn a_call_may_name_its_partition() {
    let (_dir, server, db) = voter(&["--partitions", "2"]);
    let mut stream = connect(&server.address);
    for (destination, status) in [(0, 1), (1, 1), (2, -2), (-1, -2), (16_383, -2)] {
        let mut bytes = Vec::new();
        let extensions = Extensions { all_partition: true, destination: Some(destination), ..Extensions::default() };
        invocation::write_call_with(&mut bytes, "ACCOUNT.select", 1, &extensions, &(5i64,)).expect("a small call");
        stream.write_all(&bytes).expect("bytes can be sent");
        let (got, text) = status_of(&frame_of(&mut stream).expect("an answer"));
        assert_eq!(got, status, "destination {destination}: {text}");
    }
    assert_eq!(db.call("@Ping", ()).scalar(), Some(0));
}

#[test]
fn large_values_pass_and_larger_ones_are_refused() {
    let (_dir, _server, db) = voter(&[]);
    db.sql("CREATE TABLE store (key VARCHAR(250) NOT NULL PRIMARY KEY, value VARBINARY(1048576) NOT NULL)");
    db.sql("PARTITION TABLE store ON COLUMN key");
    for size in [0, 1, 63, 64, 1_000, 16_384, 100_000, 1_048_576] {
        let value: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
        let key = format!("k{size}");
        db.call("STORE.upsert", (key.as_str(), &value[..]));
        db.call("STORE.upsert", (key.as_str(), &value[..]));
        let got = db.call("STORE.select", (key.as_str(),));
        assert_eq!(got.tables[0].rows[0][1], ferrite_value::OwnedValue::Bytes(value.into()));
    }
    let response = db.fail("STORE.upsert", ("big", &vec![1u8; 1_048_577][..]));
    assert_eq!(response.status(), Some(Status::GracefulFailure), "{response:?}");
    let response = db.fail("STORE.upsert", ("k".repeat(251).as_str(), &[1u8][..]));
    assert_eq!(response.status(), Some(Status::GracefulFailure), "{response:?}");
    assert_eq!(db.scalar("SELECT COUNT(*) FROM store"), 8);
}
