//! Snapshots of a running server: asked for while transactions and schema changes go on, and what a
//! restart makes of them.

use crate::common::{CONTESTANTS, VOTER, connect, options, start};
use ferrite_node::{Durability, ServerOptions, SnapshotSettings};
use ferrite_value::OwnedValue;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn count(db: &crate::common::Db, sql: &str) -> i64 {
    db.call("@AdHoc", (sql,)).scalar().unwrap_or_else(|| panic!("{sql} answers a number"))
}

/// What the first row of a table of figures says in a column.
fn figure(db: &crate::common::Db, selector: &str, table: usize, column: &str) -> OwnedValue {
    let response = db.call("@Statistics", (selector, 0i32));
    let table = &response.tables[table];
    let position = table.column_index(column).unwrap_or_else(|| panic!("{selector} has a column {column}"));
    table.rows[0][position].clone()
}

fn number(db: &crate::common::Db, selector: &str, table: usize, column: &str) -> i64 {
    match figure(db, selector, table, column) {
        OwnedValue::Integer(number) => number,
        other => panic!("{selector} {column} is {other:?}"),
    }
}

#[test]
fn snapshots_are_taken_under_load_and_a_restart_has_everything() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let schema = Some(VOTER.to_owned());
    let server = start(ServerOptions { schema, durability: Durability::Sync, ..options(dir.path(), 3) });
    let db = connect(&server);
    db.call("@AdHoc", (CONTESTANTS,));
    let (stop, votes) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        let load = connect(&server);
        scope.spawn({
            let (stop, votes) = (&stop, &votes);
            move || {
                let mut phone = 5_550_000_000i64;
                while !stop.load(SeqCst) {
                    let outcome = load.call("Vote", (phone, 1i32, 1_000_000i64)).scalar();
                    assert_eq!(outcome, Some(0));
                    votes.fetch_add(1, SeqCst);
                    phone += 1;
                }
            }
        });
        for round in 0..4 {
            let response = db.call("@SnapshotSave", ());
            assert_eq!(response.tables[0].rows.len(), 3, "a row per partition: {response:?}");
            let text = response.status_text.expect("it says what was written");
            assert!(text.starts_with(&format!("snapshot {}: ", round + 1)), "{text}");
            db.call("@AdHoc", (format!("CREATE TABLE t{round} (a INTEGER NOT NULL)"),));
            db.call("@AdHoc", (format!("INSERT INTO t{round} VALUES ({round})"),));
        }
        stop.store(true, SeqCst);
    });
    let votes = votes.load(SeqCst);
    assert_eq!(count(&db, "SELECT COUNT(*) FROM votes"), votes);
    let summary = db.call("@Statistics", ("SNAPSHOTSUMMARY", 0i32));
    assert_eq!(summary.tables[0].rows.len(), 4);
    assert_eq!(db.call("@Statistics", ("SNAPSHOTSTATUS", 0i32)).tables[0].rows.len(), 4);
    let newest = OwnedValue::Text("snapshot-0000000004".into());
    assert_eq!(figure(&db, "COMMANDLOG", 1, "SNAPSHOT"), newest);
    // All of one answer: figures of different moments have nothing to do with each other.
    let said = db.call("@Statistics", ("COMMANDLOG", 0i32)).tables.swap_remove(1);
    let number_of = |column: &str| match said.rows[0][said.column_index(column).expect("the column is there")] {
        OwnedValue::Integer(number) => number,
        ref other => panic!("{column} is {other:?}"),
    };
    for column in ["FSYNCS", "BYTES_ON_DISK", "BYTES_WRITTEN", "SNAPSHOT_BYTES"] {
        assert!(number_of(column) > 0, "{column}");
    }
    let times = ["FSYNC_MEDIAN", "FSYNC_99_PERCENT", "FSYNC_MAX"].map(number_of);
    assert!(times.is_sorted() && times[2] > 0, "{times:?}");
    // The age counts from the moment that the snapshot shows, the duration from when it was asked
    // for: neither is the longer one.
    assert!(number_of("SNAPSHOT_AGE") >= 0 && number_of("SNAPSHOT_DURATION") >= 0);
    db.call("@AdHoc", ("INSERT INTO t0 VALUES (77)",));
    db.call("@AdHoc", ("DELETE FROM t0 WHERE a = 77",));
    drop(db);
    server.stop().expect("a healthy log closes");
    let server = start(options(dir.path(), 3));
    let loaded = server.recovery().snapshot.expect("a snapshot was loaded");
    assert_eq!((loaded.snapshot, server.recovery().damaged.len()), (4, 0));
    let db = connect(&server);
    // What it found, for whoever asks later.
    assert_eq!(figure(&db, "RECOVERY", 0, "STATE"), OwnedValue::Text("DONE".into()));
    assert_eq!(
        (figure(&db, "RECOVERY", 1, "SNAPSHOT"), figure(&db, "COMMANDLOG", 1, "SNAPSHOT")),
        (newest.clone(), newest)
    );
    assert_eq!(number(&db, "RECOVERY", 1, "SNAPSHOT_ROWS") as u64, loaded.rows);
    assert!(number(&db, "RECOVERY", 1, "TRANSACTIONS") >= 2 && number(&db, "RECOVERY", 1, "ROW_CHANGES") >= 2);
    assert!(number(&db, "RECOVERY", 1, "ROW_CHANGES_PER_SECOND") > 0);
    assert_eq!(figure(&db, "RECOVERY", 1, "DAMAGED_SNAPSHOTS"), OwnedValue::Text("".into()));
    assert_eq!(
        figure(&db, "COMMANDLOG", 1, "SNAPSHOT_DURATION"),
        OwnedValue::Null,
        "nobody wrote down how long it took"
    );
    assert_eq!(count(&db, "SELECT COUNT(*) FROM votes"), votes);
    assert_eq!(count(&db, "SELECT SUM(num_votes) FROM v_votes_by_contestant_number_state"), votes);
    for round in 0..4 {
        assert_eq!(count(&db, &format!("SELECT a FROM t{round}")), round);
    }
    drop(db);
    server.stop().expect("a healthy log closes");
}

#[test]
fn the_log_is_cut_as_it_grows() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let snapshots = SnapshotSettings { interval: Some(Duration::from_millis(1)), ..SnapshotSettings::default() };
    let server = start(ServerOptions { snapshots, ..options(dir.path(), 2) });
    let db = connect(&server);
    db.call(
        "@AdHoc",
        ("CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(60000)); PARTITION TABLE t ON COLUMN k",),
    );
    let first = dir.path().join("data/redo-0000000001.log");
    let begun = Instant::now();
    let mut key = 0i64;
    while first.exists() {
        assert!(begun.elapsed() < Duration::from_secs(600), "the first segment goes some day");
        // Another value each time: what changes nothing is not logged.
        db.call("T.upsert", (key % 100, format!("{key:060000}").as_str()));
        key += 1;
    }
    drop(db);
    server.stop().expect("a healthy log closes");
    let server = start(options(dir.path(), 2));
    assert_eq!(count(&connect(&server), "SELECT COUNT(*) FROM t"), key.min(100));
    server.stop().expect("a healthy log closes");
}
