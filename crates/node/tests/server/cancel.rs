//! Calls that are cancelled: while they run, while they wait, and by the end of their connection.
//! What they would have taken is free at once, and nothing that was executed is taken back.

use crate::common::raw::{Raw, call};
use crate::common::{Db, integers, wait_for};
use crate::endless::{self, ACCOUNTS, ENDLESS, RECURSION};
use ferrite_client::Status;
use ferrite_node::Server;
use ferrite_value::OwnedValue;
use std::time::Duration;

/// None of them ends, and no query timeout ends them either.
const QUERY_TIME_MAX: Duration = Duration::from_secs(3_600);

fn accounts(partitions: u32) -> (tempfile::TempDir, Server, Db) {
    endless::accounts(partitions, |options| {
        options.query_time_max = QUERY_TIME_MAX;
        options.long_query_threads = 1;
    })
}

/// Running and waiting long reads.
fn long_reads(db: &Db) -> (i64, i64) {
    let row = &db.call("@Statistics", ("LONGREADS", 0i32)).tables[0].rows[0];
    match (&row[4], &row[5]) {
        (OwnedValue::Integer(running), OwnedValue::Integer(waiting)) => (*running, *waiting),
        other => panic!("{other:?}"),
    }
}

/// The next two answers: that of `@Cancel`, and that of the cancelled call, in whichever order.
fn cancelled(raw: &mut Raw, call: i64, cancel: i64) {
    let mut answers = [raw.answer().expect("an answer"), raw.answer().expect("an answer")];
    answers.sort_by_key(|(handle, ..)| *handle != cancel);
    assert_eq!((answers[0].0, answers[0].1), (cancel, Status::Success.code()));
    assert_cancelled(&answers[1], call);
}

fn assert_cancelled((handle, status, text): &(i64, i8, String), call: i64) {
    assert_eq!((*handle, *status), (call, Status::GracefulFailure.code()), "{text}");
    assert!(text.contains("it was cancelled"), "{text}");
}

fn balances(db: &Db) -> i64 {
    db.scalar("SELECT SUM(balance) FROM account")
}

#[test]
fn a_long_read_ends_at_once_and_its_thread_is_free() {
    let (_dir, server, db) = accounts(3);
    let mut raw = Raw::connect(server.address());
    for round in 0..3 {
        raw.call("@AdHoc", 7, &(ENDLESS,));
        wait_for("the query to run", || long_reads(&db) == (1, 0));
        raw.call("@Cancel", 8, &());
        cancelled(&mut raw, 7, 8);
        wait_for("the thread to be free", || long_reads(&db) == (0, 0));
        // The same handle again is another call; and one thread serves all.
        raw.call("@AdHoc", 7, &("SELECT COUNT(*) FROM account a, account b",));
        let (handle, status, text) = raw.answer().expect("an answer");
        assert_eq!((handle, status), (7, Status::Success.code()), "round {round}: {text}");
    }
    server.stop().expect("the log is closed");
}

#[test]
fn one_that_waits_for_its_turn_need_not_wait_to_hear_of_it() {
    let (_dir, server, db) = accounts(2);
    let mut first = Raw::connect(server.address());
    first.call("@AdHoc", 1, &(ENDLESS,));
    wait_for("the first to run", || long_reads(&db) == (1, 0));
    let (mut second, number) = Raw::connect_numbered(server.address());
    second.call("@AdHoc", 5, &(ENDLESS,));
    second.call("@AdHoc", 6, &(ENDLESS,));
    wait_for("two that wait", || long_reads(&db) == (1, 2));
    // By another connection, one of them by its handle; then what is left of the connection.
    db.call("@Cancel", (number, 6i64));
    assert_cancelled(&second.answer().expect("an answer"), 6);
    assert_eq!(long_reads(&db), (1, 1));
    db.call("@Cancel", (number, 6i64));
    db.call("@Cancel", (number + 1_000, None::<i64>));
    db.call("@Cancel", (number, None::<i64>));
    assert_cancelled(&second.answer().expect("an answer"), 5);
    assert_eq!(long_reads(&db), (1, 0));
    first.call("@Cancel", 2, &(1i64,));
    cancelled(&mut first, 1, 2);
    for wrong in [db.fail("@Cancel", ("x",)), db.fail("@Cancel", (1i64, 2i64, 3i64))] {
        assert_eq!(wrong.status(), Some(Status::GracefulFailure));
    }
    server.stop().expect("the log is closed");
}

#[test]
fn what_changes_rows_is_rolled_back() {
    let (_dir, server, db) = accounts(3);
    let before = balances(&db);
    let mut raw = Raw::connect(server.address());
    let update = format!("UPDATE account SET balance = balance + 1 WHERE ({ENDLESS}) >= 0");
    for (round, statement) in [update.as_str(), RECURSION].iter().enumerate() {
        raw.call("@AdHoc", 1, &(*statement,));
        raw.call("@Cancel", 2, &());
        // It may not have begun, or it may run: the answer is the same.
        cancelled(&mut raw, 1, 2);
        assert_eq!(balances(&db), before, "round {round}");
    }
    raw.call("SpinEverywhere", 3, &());
    // Once the coordinator has all stores a call of another connection waits.
    raw.call("@Cancel", 4, &());
    cancelled(&mut raw, 3, 4);
    raw.call("Spin", 5, &(1i64,));
    raw.call("@Cancel", 6, &(5i64,));
    cancelled(&mut raw, 5, 6);
    assert_eq!(balances(&db), before);
    server.stop().expect("the log is closed");
}

#[test]
fn calls_behind_an_endless_one_are_dropped_with_it_and_those_of_others_are_not() {
    const BEHIND: i64 = 200;
    let (_dir, server, db) = accounts(1);
    let mut raw = Raw::connect(server.address());
    // More are taken at once when the answers are known to be small.
    for handle in 0..60 {
        raw.call("ACCOUNT.select", handle, &(1i64,));
        assert_eq!(raw.answer().expect("an answer").0, handle);
    }
    let mut bytes = call("Spin", 0, &(1i64,));
    for handle in 1..=BEHIND {
        bytes.extend(call("ACCOUNT.insert", handle, &(10_000 + handle, 1i64)));
        bytes.extend(call(
            "@AdHoc",
            1_000 + handle,
            &(format!("INSERT INTO account VALUES ({}, 1)", 20_000 + handle),),
        ));
    }
    raw.send(&bytes);
    let others: Vec<_> = (1..=BEHIND).map(|id| db.0.call("ACCOUNT.insert", (30_000 + id, 1i64))).collect();
    raw.call("@Cancel", 5_000, &());
    let mut refused = 0;
    for _ in 0..2 * BEHIND + 2 {
        let answer = raw.answer().expect("an answer");
        match answer.0 {
            5_000 => assert_eq!(answer.1, Status::Success.code()),
            handle => {
                assert_cancelled(&answer, handle);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 2 * BEHIND + 1);
    others.into_iter().for_each(|other| drop(other.wait().expect("an insert")));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM account WHERE id >= 10000"), BEHIND);
    // And it goes on as if nothing had been.
    raw.call("ACCOUNT.insert", 1, &(10_001i64, 1i64));
    assert_eq!(raw.answer().map(|(handle, status, _)| (handle, status)), Some((1, Status::Success.code())));
    server.stop().expect("the log is closed");
}

#[test]
fn a_connection_that_is_gone_stops_what_it_has_begun() {
    let (_dir, server, db) = accounts(2);
    // With unread bytes, which makes it a reset; and without, which may be one that still reads: it
    // has a second.
    for unread in [true, false] {
        let mut raw = Raw::connect(server.address());
        raw.call("@AdHoc", 7, &(ENDLESS,));
        wait_for("the query to run", || long_reads(&db) == (1, 0));
        if unread {
            raw.call("@Ping", 8, &());
            let mut first = [0];
            raw.0.peek(&mut first).expect("the ping is answered");
        }
        drop(raw);
        wait_for("the query to be stopped", || long_reads(&db) == (0, 0));
    }
    // A call over all partitions, which everybody waits for.
    let mut raw = Raw::connect(server.address());
    raw.call("SpinEverywhere", 1, &());
    drop(raw);
    assert_eq!(balances(&db), ACCOUNTS * 1_000);
    server.stop().expect("the log is closed");
}

/// A transaction over several partitions that takes long holds up those behind it, but not the
/// answers of those before it.
#[test]
fn answers_do_not_wait_for_a_slow_call_of_their_group() {
    let (_dir, server, db) = accounts(3);
    let mut raw = Raw::connect(server.address());
    let mut bytes = Vec::new();
    for handle in 0..20 {
        bytes.extend(call("Transfer", handle, &(handle, handle + 100, 1i64)));
    }
    bytes.extend(call("SpinEverywhere", 100, &()));
    bytes.extend(call("Transfer", 101, &(1i64, 2i64, 1i64)));
    raw.send(&bytes);
    let mut handles: Vec<i64> = (0..20)
        .map(|_| {
            let (handle, status, text) = raw.answer().expect("an answer");
            assert_eq!(status, Status::Success.code(), "{text}");
            handle
        })
        .collect();
    handles.sort_unstable();
    assert_eq!(handles, (0..20).collect::<Vec<_>>());
    raw.call("@Cancel", 102, &(100i64,));
    let mut last: Vec<(i64, i8)> =
        (0..3).map(|_| raw.answer().map(|(handle, status, _)| (handle, status)).expect("an answer")).collect();
    last.sort_unstable();
    let (done, failed) = (Status::Success.code(), Status::GracefulFailure.code());
    assert_eq!(last, [(100, failed), (101, done), (102, done)]);
    assert_eq!(balances(&db), ACCOUNTS * 1_000);
    assert_eq!(integers(&db.sql("SELECT balance FROM account WHERE id IN (0, 1, 100) ORDER BY id")), [999, 998, 1_001]);
    server.stop().expect("the log is closed");
}
