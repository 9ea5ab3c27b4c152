//! The connection against golden bytes: what it sends, and what it makes of what real servers send,
//! in one piece and byte by byte.

use crate::support::bytes_of_hex;
use ferrite_client::Prepared;
use ferrite_client::event_loop::ConnectionError;
use ferrite_client::event_loop::{Connection, Event};
use ferrite_value::{SqlType, Value};
use ferrite_wire::{LoginFailure, handles, login};
use serde_json::Value as Json;

const SECRET_DIGEST: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn vectors() -> Json {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/data/vectors.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn frames(vectors: &Json, member: &str) -> Vec<(String, Vec<u8>)> {
    let items = vectors[member].as_array().unwrap();
    let frame = |item: &Json| (item["id"].as_str().unwrap().to_string(), bytes_of_hex(item["hex"].as_str().unwrap()));
    items.iter().map(frame).collect()
}

/// Gives the connection these bytes, so many at a time, and returns what its events were.
fn feed(connection: &mut Connection<u32>, bytes: &[u8], step: usize) -> Result<Vec<String>, ConnectionError> {
    let mut seen = Vec::new();
    for chunk in bytes.chunks(step) {
        connection.room()[..chunk.len()].copy_from_slice(chunk);
        connection.mark_received(chunk.len());
        while let Some(event) = connection.next_event()? {
            seen.push(match event {
                Event::LoggedIn(info) => format!("login {} {}", info.connection_id, info.build),
                Event::Response(context, response) => format!("{context} {}", response.status_code),
                Event::Pushed(response) => format!("push {:x}", response.handle),
                Event::Unmatched => "unmatched".to_string(),
            });
        }
    }
    Ok(seen)
}

fn logged_in() -> Connection<u32> {
    let mut connection = Connection::new("", &[0; 32]);
    let mut login = Vec::new();
    ferrite_wire::LoginAccepted {
        host_id: 0,
        connection_id: 1,
        cluster_start_ms: 0,
        leader_address: [0; 4],
        build: "",
    }
    .write(&mut login);
    feed(&mut connection, &login, login.len()).unwrap();
    let sent = connection.unsent().len();
    connection.mark_sent(sent);
    connection
}

#[test]
fn the_login_is_version_1_with_sha_256() {
    let digest: [u8; 32] = bytes_of_hex(SECRET_DIGEST).try_into().unwrap();
    let connection = Connection::<u32>::new("alice", &digest);
    let expected = format!("00000037 01 01 00000008 6461746162617365 00000005 616c696365 {SECRET_DIGEST}");
    assert_eq!(connection.unsent(), bytes_of_hex(&expected));
}

#[test]
fn a_call_is_a_plain_invocation() {
    let mut connection = logged_in();
    let vote = Prepared::new("Vote").unwrap();
    let handle = connection.call(&vote, &(5_551_234_567i64, 3i32, 2i32), 7).unwrap();
    let expected =
        format!("00000026 00 00000004 566f7465 {handle:016x} 0003 06 000000014ae11e07 05 00000003 05 00000002");
    assert_eq!(connection.unsent(), bytes_of_hex(&expected));
}

#[test]
fn logins_accepted_and_refused() {
    let vectors = vectors();
    for (id, frame) in frames(&vectors, "login_responses") {
        for step in [1, frame.len()] {
            let mut connection = Connection::<u32>::new("", &[0; 32]);
            let events = feed(&mut connection, &frame, step).unwrap_or_else(|error| panic!("{id}: {error:?}"));
            assert!(events.len() == 1 && events[0].starts_with("login 1"), "{id}: {events:?}");
            assert!(connection.is_logged_in());
        }
    }
    for (item, (id, frame)) in
        vectors["login_failures"].as_array().unwrap().iter().zip(frames(&vectors, "login_failures"))
    {
        let mut connection = Connection::<u32>::new("", &[0; 32]);
        let code = item["code"].as_i64().unwrap() as i8;
        let refused = ConnectionError::LoginRefused { code, reason: None };
        assert_eq!(feed(&mut connection, &frame, 1), Err(refused), "{id}");
    }
}

#[test]
fn a_refusal_may_say_its_reason() {
    let refused = |frame: &[u8]| feed(&mut Connection::<u32>::new("", &[0; 32]), frame, 1).unwrap_err();
    let mut frame = Vec::new();
    login::write_failure_because(&mut frame, LoginFailure::Rejoining, "this node waits");
    assert_eq!(frame[..10], [0, 0, 0, 21, 0, 4, 0, 0, 0, 15]);
    assert_eq!(refused(&frame), ConnectionError::LoginRefused { code: 4, reason: Some("this node waits".to_owned()) });
    let other = [0, 0, 0, 5, 0, 4, 255, 255, 0];
    assert_eq!(refused(&other), ConnectionError::LoginRefused { code: 4, reason: None });
}

#[test]
fn every_response_of_the_vectors_finds_its_call() {
    for (id, frame) in frames(&vectors(), "responses") {
        for step in [1, 7, frame.len()] {
            let mut connection = logged_in();
            let handle = connection.call(&Prepared::new("p").unwrap(), &(), 7).unwrap();
            let mut frame = frame.clone();
            frame[5..13].copy_from_slice(&handle.to_be_bytes());
            let parsed = ferrite_wire::Response::parse(&frame[4..]).unwrap();
            let events = feed(&mut connection, &frame, step).unwrap();
            assert_eq!(events, [format!("7 {}", parsed.status_code)], "{id} in steps of {step}");
            assert_eq!(connection.outstanding(), 0);
        }
    }
}

#[test]
fn answers_come_in_any_order_and_only_once() {
    let mut connection = logged_in();
    let p = Prepared::new("p").unwrap();
    let calls: Vec<i64> = (0..3).map(|context| connection.call(&p, &(), context).unwrap()).collect();
    let mut bytes = Vec::new();
    for handle in [calls[2], calls[0], calls[2], handles::PING, handles::TOPOLOGY_PUSH, 12_345, -1, calls[1]] {
        ferrite_wire::response::write_scalar(&mut bytes, handle, 0);
    }
    for step in [1, 5, 64, bytes.len()] {
        let mut connection = logged_in();
        let again: Vec<i64> = (0..3).map(|context| connection.call(&p, &(), context).unwrap()).collect();
        assert_eq!(again, calls);
        let events = feed(&mut connection, &bytes, step).unwrap();
        let (ping, topology) = ("push 7fffffffffffffff", "push 7ffffffffffffffe");
        assert_eq!(events, ["2 1", "0 1", "unmatched", ping, topology, "unmatched", "unmatched", "1 1"]);
    }
}

#[test]
fn a_call_given_up_is_unmatched_later() {
    let mut connection = logged_in();
    let handle = connection.call(&Prepared::new("p").unwrap(), &(), 7).unwrap();
    assert_eq!(connection.give_up(handle), Some(7));
    assert_eq!(connection.give_up(handle), None);
    let mut bytes = Vec::new();
    ferrite_wire::response::write_scalar(&mut bytes, handle, 0);
    assert_eq!(feed(&mut connection, &bytes, 9).unwrap(), ["unmatched"]);
}

#[test]
fn hostile_bytes_are_errors() {
    for hex in [
        "00000000",                                                        // an empty frame
        "ffffffff",                                                        // a negative length
        "7fffffff",                                                        // more than a frame may hold
        "00000001 00",                                                     // ends after the version
        "00000012 01 0000000100000000 00 01 80 00000000 0000",             // unknown version
        "00000012 00 0000000100000000 00 01 80 00000000 7fff",             // tables that are not there
        "00000012 00 0000000100000000 00 01 80 00000000 ffff",             // fewer than no tables
        "00000013 00 0000000100000000 00 01 80 00000000 0000 00",          // bytes left over
        "00000016 00 0000000100000000 00 01 80 00000000 0001 7fffffff",    // a table longer than the frame
        "00000016 00 0000000100000000 20 01 7fffffff 80 00000000 0000",    // a text longer than the frame
        "00000017 00 0000000100000000 20 01 00000001 ff 80 00000000 0000", // a text that is not UTF-8
    ] {
        let mut connection = logged_in();
        connection.call(&Prepared::new("p").unwrap(), &(), 7).unwrap();
        let bytes = bytes_of_hex(hex);
        for step in [1, bytes.len()] {
            let mut connection = logged_in();
            let result = feed(&mut connection, &bytes, step);
            assert!(matches!(result, Err(ConnectionError::Malformed(_))), "{hex}: {result:?}");
        }
        // The calls in flight are still there to be told.
        assert_eq!(connection.give_up_all(), [7]);
    }
}

#[test]
fn random_damage_never_panics() {
    let frames = frames(&vectors(), "responses");
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for round in 0..20_000 {
        let mut bytes = frames[round % frames.len()].1.clone();
        for _ in 0..1 + next() % 4 {
            let at = next() % bytes.len();
            bytes[at] = next() as u8;
        }
        bytes.truncate(1 + next() % bytes.len());
        let mut connection = logged_in();
        connection.call(&Prepared::new("p").unwrap(), &(), 7).unwrap();
        let _ = feed(&mut connection, &bytes, 1 + next() % bytes.len());
    }
}

#[test]
fn a_length_alone_takes_no_memory() {
    let mut connection = logged_in();
    let length = (ferrite_base::limits::FRAME_BYTES_MAX as u32).to_be_bytes();
    assert_eq!(feed(&mut connection, &length, 4).unwrap(), [""; 0]);
    // A peer that names a large frame gets no more room than what it fills.
    assert!(connection.room().len() <= 2 * ferrite_client::event_loop::RECEIVE_BYTES);
}

#[test]
fn a_response_larger_than_the_buffer_arrives() {
    let mut connection = logged_in();
    let handle = connection.call(&Prepared::new("p").unwrap(), &(), 7).unwrap();
    let header = ferrite_wire::TableHeader::new([("V", SqlType::Varbinary)]);
    let mut bytes = Vec::new();
    let mut writer = ferrite_wire::ResponseWriter::begin(&mut bytes, handle);
    let mut table = writer.table(&header);
    let value = vec![5u8; 1_000_000];
    for _ in 0..3 {
        table.row(&[Value::Bytes(&value)]).unwrap();
    }
    table.finish();
    writer.finish();
    ferrite_wire::response::write_scalar(&mut bytes, handles::PING, 0);
    assert_eq!(feed(&mut connection, &bytes, 10_000).unwrap(), ["7 1", "push 7fffffffffffffff"]);
}

#[test]
fn what_was_not_sent_comes_back_whole_and_nothing_else_does() {
    let procedure = Prepared::new("Vote").unwrap();
    // Short calls, and some that are longer than what is kept of those sent.
    let lengths = [0, 3, 200_000, 0, 90_000, 1, 130_000, 0];
    let mut frames = Vec::new();
    for length in lengths {
        let mut frame = Vec::new();
        procedure.write(&mut frame, 0, &(vec![7u8; length],)).unwrap();
        frames.push(frame);
    }
    let ends: Vec<usize> =
        frames.iter().scan(0, |end, frame| Some(std::mem::replace(end, *end + frame.len()))).collect();
    let total = ends.last().unwrap() + frames.last().unwrap().len();
    for step in [1_000, 70_001, 131_072, total] {
        for sent in (0..=total).step_by(997).chain(ends.iter().flat_map(|at| [at.saturating_sub(1), *at, at + 1])) {
            let mut connection = logged_in();
            for (context, length) in lengths.iter().enumerate() {
                connection.call(&procedure, &(vec![7u8; *length],), context as u32).unwrap();
            }
            let mut left = sent;
            while left > 0 {
                connection.mark_sent(step.min(left));
                left -= step.min(left);
            }
            let unsent = connection.give_up_unsent();
            let expected: Vec<u32> =
                (0u32..).zip(&ends).filter(|(_, at)| **at >= sent).map(|(index, _)| index).collect();
            assert_eq!(unsent.iter().map(|call| call.0).collect::<Vec<_>>(), expected, "{sent} by {step}");
            for (context, request, handle_at) in unsent {
                let mut request = request;
                request[handle_at..handle_at + 8].fill(0);
                assert!(request == frames[context as usize]);
            }
            assert_eq!(connection.outstanding(), lengths.len() - expected.len());
        }
    }
    // The login is not a call.
    let mut connection: Connection<u32> = Connection::new("", &[0; 32]);
    connection.call(&procedure, &(), 5).unwrap();
    assert_eq!(connection.give_up_unsent().len(), 1);
}
