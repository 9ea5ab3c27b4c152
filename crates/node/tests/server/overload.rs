//! Clients that ask for more than there is: unread answers, too many calls, frames and results at
//! their limits and past them, calls that do not end, connections that go away. Each is held up or
//! refused at the door, and harms nobody else.

use crate::common::raw::{Raw, call};
use crate::common::{CONTESTANTS, Db, VOTER, connect, integers, options, start, synced_on, text_of, votes};
use ferrite_base::limits;
use ferrite_client::{ClientError, Status};
use ferrite_io::simulated::SimulatedDisk;
use ferrite_node::{Server, ServerOptions};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const MEGABYTE: usize = 1 << 20;

/// A server with blobs to ask for: number n has n bytes, times a thousand.
fn blobs(change: impl FnOnce(&mut ServerOptions)) -> (TempDir, Server, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(dir.path(), 1);
    change(&mut options);
    let server = start(options);
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(CONTESTANTS);
    db.sql(
        "CREATE TABLE blob (id BIGINT NOT NULL, bytes VARBINARY(1048576) NOT NULL, PRIMARY KEY (id));
            PARTITION TABLE blob ON COLUMN id;
            CREATE PROCEDURE Other PARTITION ON TABLE blob COLUMN id AS SELECT bytes FROM blob WHERE id = ? AND bytes <> ?;
            CREATE PROCEDURE FirstBlobs AS SELECT bytes FROM blob ORDER BY id LIMIT ?;",
    );
    (dir, server, db)
}

/// Hangs up when dropped, so that a failed test does not leave a thread waiting for its socket.
struct HangUp(TcpStream);

impl Drop for HangUp {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[test]
fn a_client_that_does_not_read_is_stopped_from_sending_and_slows_nobody() {
    const CALLS: usize = 60_000;
    const CALL_BYTES: usize = 4_096;
    // However busy the machine is: it is not closed for that.
    let (_dir, server, db) = blobs(|options| options.connection_limits.unread_time_max = Duration::from_secs(3_600));
    db.call("BLOB.insert", (1i64, &[7u8; CALL_BYTES][..]));
    let mut lazy = Raw::connect(server.address());
    let _hang_up = HangUp(lazy.0.try_clone().expect("a socket has a second handle"));
    let mut sending = lazy.0.try_clone().expect("a socket has a second handle");
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for handle in 0..CALLS {
                let bytes = call("Other", handle as i64, &(1i64, &[8u8; CALL_BYTES][..]));
                if sending.write_all(&bytes).is_err() {
                    return;
                }
                sent.fetch_add(1, Ordering::SeqCst);
            }
        });
        // Others go on; and when the sender has not moved for a thousand of their calls, it stands.
        let mut seen = 0;
        loop {
            for phone in 0..1_000i64 {
                db.call("Vote", (5_550_000_000 + phone, 1i32, i64::MAX));
            }
            let now = sent.load(Ordering::SeqCst);
            if now > 0 && now == seen {
                break;
            }
            seen = now;
        }
        // What the server may hold, and as much again for the kernel's buffers on both ways.
        let most = 2 * (limits::CONNECTION_OUTSTANDING_BYTES_MAX + limits::CONNECTION_UNREAD_BYTES_MAX);
        assert!(most < CALLS * CALL_BYTES);
        assert!(seen * CALL_BYTES < most, "{seen} calls were taken without an answer being read");
        // When it reads, everything is answered, once.
        let mut handles = BTreeSet::new();
        for _ in 0..CALLS {
            let (handle, status, text) = lazy.answer().expect("an answer");
            assert_eq!(status, Status::Success.code(), "{text}");
            assert!(handles.insert(handle));
        }
    });
    lazy.call("@Ping", 77, &());
    assert_eq!(lazy.answer().expect("an answer").0, 77, "nothing else was on the way");
    server.stop().expect("the log is closed");
}

#[test]
fn more_calls_than_may_be_outstanding_are_all_answered() {
    let disk = SimulatedDisk::healthy();
    let (_dir, server, db) = blobs(|options| synced_on(&disk, options));
    let mut raw = Raw::connect(server.address());
    let _hang_up = HangUp(raw.0.try_clone().expect("a socket has a second handle"));
    let mut sending = raw.0.try_clone().expect("a socket has a second handle");
    let held_syncs = disk.hold_syncs();
    let calls = 2 * limits::CONNECTION_OUTSTANDING_CALLS_MAX as i64 + 1;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut bytes = Vec::new();
            for handle in 0..calls {
                bytes.extend_from_slice(&call("Vote", handle, &(5_550_000_000 + handle, 1i32, 2i64)));
            }
            let _ = sending.write_all(&bytes);
        });
        disk.wait_for_held_sync();
        assert_eq!(db.call("@Ping", ()).scalar(), Some(0));
        drop(held_syncs);
        let mut handles = BTreeSet::new();
        for _ in 0..calls {
            let (handle, status, text) = raw.answer().expect("an answer");
            assert_eq!(status, Status::Success.code(), "{text}");
            assert!(handles.insert(handle));
        }
    });
    assert_eq!(votes(&db), [calls; 3]);
}

#[test]
fn a_connection_closed_with_calls_in_flight_takes_nothing_with_it() {
    let disk = SimulatedDisk::healthy();
    let (_dir, server, db) = blobs(|options| {
        synced_on(&disk, options);
        options.network_threads = 1;
    });
    let held_syncs = disk.hold_syncs();
    let mut going: Vec<Raw> = (0..10).map(|_| Raw::connect(server.address())).collect();
    for (number, raw) in going.iter_mut().enumerate() {
        for call in 0..10 {
            raw.call("Vote", call, &(5_550_000_000 + number as i64, 1i32, 100i64));
        }
        raw.call("@AdHoc", 99, &("UPDATE contestants SET contestant_name = 'gone'",));
    }
    disk.wait_for_held_sync();
    // Some half, as after an exit; some with unread bytes in their socket, which resets the
    // connection.
    for (number, raw) in going.drain(..).enumerate() {
        if number % 2 == 0 {
            raw.0.shutdown(Shutdown::Write).expect("an open socket");
        }
    }
    // New connections take the places of old ones; what comes for those must not reach these.
    let mut fresh: Vec<Raw> = (0..10).map(|_| Raw::connect(server.address())).collect();
    for raw in &mut fresh {
        raw.call("@Ping", 1_234, &());
    }
    drop(held_syncs);
    for raw in &mut fresh {
        assert_eq!(raw.answer().expect("an answer").0, 1_234);
    }
    // Bytes sent before a close arrive, unless the close was a reset: there is no vote in part.
    let cast = votes(&db);
    assert_eq!([cast[0]; 3], cast);
    assert!(cast[0] <= 100);
    server.stop().expect("the log is closed");
}

#[test]
fn a_client_that_has_ended_its_side_gets_all_its_answers() {
    let (_dir, server, db) = blobs(|_| {});
    for id in 0..16i64 {
        db.call("BLOB.insert", (id, &vec![id as u8; MEGABYTE][..]));
    }
    let mut raw = Raw::connect(server.address());
    for handle in 0..4 {
        raw.call("FirstBlobs", handle, &(16i32,));
    }
    raw.0.shutdown(Shutdown::Write).expect("an open socket");
    let mut handles: Vec<i64> = (0..4).map(|_| raw.answer().expect("an answer").0).collect();
    handles.sort_unstable();
    assert_eq!(handles, [0, 1, 2, 3]);
    assert_eq!(raw.frame(), None, "and then the connection is closed");
}

#[test]
fn a_server_that_stops_writes_its_answers_first() {
    let (_dir, server, db) = blobs(|options| options.network_threads = 1);
    for id in 0..16i64 {
        db.call("BLOB.insert", (id, &vec![id as u8; MEGABYTE][..]));
    }
    let mut late = Raw::connect(server.address());
    let mut other = Raw::connect(server.address());
    let calls: Vec<u8> = (0..4).flat_map(|handle| call("FirstBlobs", handle, &(16i32,))).collect();
    late.send(&calls);
    // In one piece they were taken together.
    let first = late.answer().expect("an answer").0;
    assert_eq!(db.call("@Ping", ()).scalar(), Some(0));
    let stopping = thread::spawn(move || server.stop());
    assert_eq!(other.frame(), None, "idle connections are closed at once");
    let mut handles = vec![first];
    while let Some((handle, status, text)) = late.answer() {
        assert_eq!(status, Status::Success.code(), "{text}");
        handles.push(handle);
    }
    assert_eq!(handles, [0, 1, 2, 3]);
    stopping.join().expect("no panic").expect("the log is closed");
}

#[test]
fn a_frame_at_the_limit_and_one_past_it() {
    let (_dir, server, db) = blobs(|_| {});
    let mut raw = Raw::connect(server.address());
    let overhead = call("BLOB.upsert", 1, &(1i64, &[0u8; 0][..])).len() - 4;
    let mut at_limit = call("BLOB.upsert", 1, &(1i64, &[0u8; 8][..]));
    let body = limits::FRAME_BYTES_MAX;
    at_limit.resize(body + 4, 0);
    at_limit[..4].copy_from_slice(&(body as u32).to_be_bytes());
    let value = (body - overhead) as u32;
    at_limit[overhead..overhead + 4].copy_from_slice(&value.to_be_bytes());
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            raw.send(&at_limit);
            raw.answer().expect("an answer")
        });
        while !sender.is_finished() {
            db.call("Vote", (5_550_000_000i64, 1i32, i64::MAX));
        }
        let (handle, status, text) = sender.join().expect("the sender ended well");
        assert_eq!((handle, status), (1, Status::GracefulFailure.code()), "a value may not be that long: {text}");
    });
    raw.call("@Ping", 2, &());
    assert_eq!(raw.answer().expect("the connection is as good as before").0, 2);
    raw.send(&(body as u32 + 1).to_be_bytes());
    assert_eq!(raw.frame(), None, "and one past the limit it is closed");
}

#[test]
fn results_larger_than_a_frame_are_refused() {
    let (_dir, _server, db) = blobs(|_| {});
    let value = vec![3u8; MEGABYTE];
    for id in 0..51i64 {
        db.call("BLOB.insert", (id, &value[..]));
    }
    let fit = (limits::RESULT_BYTES_MAX / (MEGABYTE + 8)) as i32;
    let calls: Vec<_> = [fit, fit + 1, 1, 51, fit].map(|rows| (rows, db.0.call("FirstBlobs", (rows,)))).into();
    for (rows, call) in calls {
        match call.wait() {
            Ok(response) => {
                assert!(rows <= fit);
                assert_eq!(response.tables[0].rows.len() as i32, rows);
            }
            Err(ClientError::Failed(response)) => {
                assert!(rows > fit, "{rows} rows: {response:?}");
                assert_eq!(response.status(), Some(Status::GracefulFailure));
                assert!(text_of(&response).contains(&format!("larger than {} bytes", limits::RESULT_BYTES_MAX)));
                assert!(text_of(&response).contains("LIMIT"), "it says what to do");
            }
            Err(error) => panic!("{error}"),
        }
    }
    db.fails("@AdHoc", ("SELECT id, bytes FROM blob",), Status::GracefulFailure, "larger than");
    assert_eq!(db.scalar("SELECT COUNT(*) FROM blob"), 51);
}

#[test]
fn a_call_that_does_not_end_is_interrupted_and_rolled_back() {
    let (_dir, _server, db) = blobs(|options| {
        options.partitions = Some(2);
        // Compiling is timed too, on a machine that may be busy.
        options.query_time_max = Duration::from_millis(500);
    });
    db.sql(
        "CREATE PROCEDURE Spin (key BIGINT, rounds BIGINT) PARTITION ON TABLE account COLUMN id AS BEGIN
            DECLARE done BIGINT DEFAULT 0;
            INSERT INTO account VALUES (key, 1);
            WHILE done < rounds DO SET done = done + 1; END WHILE;
            RETURN done;
        END;
        CREATE PROCEDURE SpinEverywhere (key BIGINT, rounds BIGINT) AS BEGIN
            DECLARE done BIGINT DEFAULT 0;
            INSERT INTO account VALUES (key, 1);
            UPDATE account SET balance = balance + 1;
            WHILE done < rounds DO SET done = done + 1; END WHILE;
            RETURN done;
        END;",
    );
    for procedure in ["Spin", "SpinEverywhere"] {
        db.fails(procedure, (1i64, i64::MAX), Status::GracefulFailure, "Transaction Interrupted");
        db.fails(procedure, (2i64, i64::MAX), Status::GracefulFailure, "narrow the query");
        assert_eq!(db.scalar("SELECT COUNT(*) FROM account"), 0);
    }
    assert_eq!(db.call("Spin", (1i64, 10i64)).scalar(), Some(10));
    assert_eq!(db.call("SpinEverywhere", (2i64, 10i64)).scalar(), Some(10));
    assert_eq!(integers(&db.sql("SELECT balance FROM account ORDER BY id")), [2, 2]);
}
