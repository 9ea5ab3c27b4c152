//! The end of a node that has much to do: what waits is not executed and says so, what runs is
//! interrupted, nobody is waited for that does not read, and a body in another language that does
//! not end is left behind. What was acknowledged is there afterwards, and nothing else.

use crate::common::raw::{Raw, call};
use crate::common::{Db, connect, options, start};
use ferrite_base::limits::CONNECTION_FIRST_CALLS_MAX;
use ferrite_base::{Settings, UserResult};
use ferrite_catalog::base64;
use ferrite_client::Status;
use ferrite_node::{Server, Stopped};
use ferrite_plan::external::{Body, Description, Host, RoutineBody};
use ferrite_value::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Nothing here takes so long, however slow the machine.
const AGES: Duration = Duration::from_secs(3_600);
const SCHEMA: &str = "CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id;
    CREATE PROCEDURE Put PARTITION ON TABLE t COLUMN id AS INSERT INTO t VALUES (?);
    CREATE PROCEDURE Spin (key BIGINT) PARTITION ON TABLE t COLUMN id AS BEGIN
        DECLARE done BIGINT DEFAULT 0;
        INSERT INTO t VALUES (key);
        WHILE done >= 0 DO SET done = done + 1; END WHILE;
    END;
    CREATE PROCEDURE SpinEverywhere AS BEGIN
        DECLARE done BIGINT DEFAULT 0;
        DELETE FROM t;
        WHILE done >= 0 DO SET done = done + 1; END WHILE;
    END;";
/// Calls of each of 20 connections: as many as are taken of one without an answer yet, one of them
/// that only one makes.
const CALLS: i64 = CONNECTION_FIRST_CALLS_MAX as i64 - 1;
const UNAVAILABLE: i8 = Status::ServerUnavailable as i8;

fn opened(dir: &Path, stop_seconds: u64, stop_grace: Duration) -> (Server, Db) {
    let settings = Settings { stop_seconds, stop_grace, ..Settings::default() };
    let runtime = crate::in_rust::runtime(describe);
    let server = start(ferrite_node::ServerOptions { settings, query_time_max: AGES, runtime, ..options(dir, 2) });
    let db = connect(&server);
    (server, db)
}

fn filled(dir: &Path, stop_seconds: u64, stop_grace: Duration) -> (Server, Db) {
    let (server, db) = opened(dir, stop_seconds, stop_grace);
    db.sql(SCHEMA);
    (0..50i64).for_each(|id| drop(db.call("Put", (id,))));
    (server, db)
}

/// How many rows, and the sum of their keys.
fn rows(db: &Db) -> (i64, i64) {
    let of = |text: &str| db.sql(text).scalar().expect("a number");
    (of("SELECT COUNT(*) FROM t"), of("SELECT SUM(id) FROM t"))
}

/// Of those that [`filled`] has put.
const FILLED: (i64, i64) = (50, 49 * 50 / 2);

/// A connection that has sent its calls, and the keys that were put so far.
struct Sent(Raw, Vec<i64>);

/// Numbers of the connection and its calls, as one.
fn key(connection: i64, call: i64) -> i64 {
    2_000 + connection * 100 + call
}

/// On each of 20 connections a loop that does not end, once everywhere, and behind it calls that
/// wait for the partitions that loop.
fn busy(server: &Server) -> Vec<Sent> {
    let one = |connection| {
        let mut calls = call("Spin", 0, &(key(connection, 0),));
        if connection == 3 {
            calls.extend(call("SpinEverywhere", 1, &()));
        }
        (2..CALLS).for_each(|number| calls.extend(call("Put", number, &(key(connection, number),))));
        calls.extend(call("@Ping", -1, &()));
        let (mut raw, mut put) = (Raw::connect(server.address()), Vec::new());
        raw.send(&calls);
        // The server has taken all of it when it answers what came last. What does not wait for a
        // loop is answered before.
        loop {
            match raw.answer().expect("it is answered") {
                (-1, 1, _) => return Sent(raw, put),
                (number, 1, _) => put.push(key(connection, number)),
                other => panic!("{other:?}"),
            }
        }
    };
    (0..20).map(one).collect()
}

/// Reads to the end: each call has its answer, and those that have not put their key were refused.
/// The keys that were put.
fn answered(connections: Vec<Sent>) -> Vec<i64> {
    let mut all = Vec::new();
    for (connection, Sent(mut raw, mut put)) in (0..).zip(connections) {
        let (before, mut answers) = (put.len(), 0usize);
        while let Some((number, status, text)) = raw.answer() {
            answers += 1;
            if status == 1 && number > 1 {
                put.push(key(connection, number));
                continue;
            }
            assert_eq!(status, UNAVAILABLE, "{number}: {text}");
            assert!(text.contains("the server is stopping, and the call was not executed"), "{text}");
        }
        assert_eq!(
            (before + answers) as i64,
            if connection == 3 { CALLS } else { CALLS - 1 },
            "each call has its answer"
        );
        all.append(&mut put);
    }
    assert!((all.len() as i64) < 20 * (CALLS - 2), "most of them have waited");
    all
}

#[test]
fn when_the_time_is_up_what_runs_is_interrupted_and_what_waits_is_not_executed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = filled(dir.path(), 1, AGES);
    drop(db);
    let busy = busy(&server);
    let readers = thread::spawn(move || answered(busy));
    assert_eq!(server.stop().expect("the log is closed"), Stopped::Wholly);
    let put = readers.join().expect("all are answered");
    let (server, db) = opened(dir.path(), 1, AGES);
    assert!(server.recovery().clean);
    let expected = (FILLED.0 + put.len() as i64, FILLED.1 + put.iter().sum::<i64>());
    assert_eq!(rows(&db), expected, "what was acknowledged, and nothing of the rest");
    server.stop().expect("the log is closed");
}

#[test]
fn whoever_insists_does_not_wait_for_the_time() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = filled(dir.path(), AGES.as_secs(), AGES);
    drop(db);
    let busy = busy(&server);
    let insist = server.insist();
    let ending = thread::spawn(move || server.stop());
    insist.insist();
    answered(busy);
    assert_eq!(ending.join().expect("it ends").expect("the log is closed"), Stopped::Wholly);
}

#[test]
fn what_can_be_done_in_time_is_done() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = filled(dir.path(), AGES.as_secs(), AGES);
    drop(db);
    let calls: Vec<u8> = (0..100).flat_map(|number| call("Put", number, &(5_000 + number,))).collect();
    let mut raw = Raw::connect(server.address());
    raw.send(&calls);
    // The first answer says that they were taken.
    let first = raw.answer().expect("it is answered");
    let ending = thread::spawn(move || server.stop());
    let mut answers = vec![first];
    answers.extend(std::iter::from_fn(|| raw.answer()));
    assert!(answers.iter().all(|(_, status, _)| *status == 1), "{answers:?}");
    assert_eq!(ending.join().expect("it ends").expect("the log is closed"), Stopped::Wholly);
    let (server, db) = opened(dir.path(), 1, AGES);
    assert_eq!(rows(&db).0, 50 + answers.len() as i64);
    server.stop().expect("the log is closed");
}

#[test]
fn nobody_is_waited_for_that_does_not_read() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = filled(dir.path(), 1, AGES);
    drop(db);
    let large = call("@AdHoc", 7, &("SELECT REPEAT('x', 1000000) FROM t WHERE id < 15",));
    let silent: Vec<Raw> = (0..20)
        .map(|_| {
            let mut raw = Raw::connect(server.address());
            raw.send(&large);
            // It is under way, and far more than what a socket holds.
            let mut some = [0; 100];
            std::io::Read::read_exact(&mut raw.0, &mut some).expect("it begins");
            raw
        })
        .collect();
    assert_eq!(server.stop().expect("the log is closed"), Stopped::Wholly);
    drop(silent);
}

static GO_ON: AtomicBool = AtomicBool::new(false);
static BEGUN: AtomicBool = AtomicBool::new(false);

/// A body that asks for nothing and does not end.
#[derive(Debug)]
struct Endless;

impl Body for Endless {
    fn call(&self, _: &mut dyn Host, _: &[Value<'_>]) -> UserResult<()> {
        BEGUN.store(true, Ordering::SeqCst);
        while !GO_ON.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn describe(_: &str) -> UserResult<Description> {
    let body = RoutineBody::Transaction(Arc::new(Endless));
    Ok(Description { parameters: Vec::new(), statements: Vec::new(), partition_info: None, texts: false, body })
}

#[test]
fn a_body_that_does_not_end_is_left_behind_and_the_log_is_closed_all_the_same() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = filled(dir.path(), 1, Duration::from_millis(100));
    db.sql(&format!("LOAD CLASSES '{}'", base64::encode(&crate::jar::jar(&["a/Endless.class"]))));
    db.sql("CREATE PROCEDURE FROM CLASS a.Endless");
    let mut raw = Raw::connect(server.address());
    raw.call("Endless", 1, &());
    while !BEGUN.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    (0..10).for_each(|number| raw.call("Put", number, &(7_000 + number,)));
    assert_eq!(server.stop().expect("the log is closed"), Stopped::LeavingThreads);
    let (server, db) = opened(dir.path(), 1, AGES);
    assert!(server.recovery().clean);
    assert_eq!(rows(&db), FILLED);
    server.stop().expect("the log is closed");
    // In a test the process goes on.
    GO_ON.store(true, Ordering::SeqCst);
}
