//! ALTER TABLE on a running server: under load, over restarts, and over logs that end anywhere.

use crate::common::{Db, connect, integers, options, start};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

const PARTITIONS: u32 = 3;
const SCHEMA: &str =
    "CREATE TABLE t (id BIGINT NOT NULL, v VARCHAR(80), PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id;
    CREATE VIEW by_v AS SELECT v, COUNT(*) AS n FROM t GROUP BY v;
    CREATE PROCEDURE put PARTITION ON TABLE t COLUMN id AS INSERT INTO t (id, v) VALUES (?, ?);";

fn rows(db: &Db) -> i64 {
    let counted = db.scalar("SELECT SUM(n) FROM by_v");
    assert_eq!(counted, db.scalar("SELECT COUNT(*) FROM t"), "the view counts the rows");
    counted
}

#[test]
fn calls_go_on_while_their_table_is_altered() {
    const CHANGES: [&str; 7] = [
        "ALTER TABLE t ADD COLUMN extra INTEGER DEFAULT 3 NOT NULL BEFORE id",
        "CREATE INDEX by_extra ON t (extra, v)",
        "REPLICATE TABLE other; ALTER TABLE t ALTER COLUMN extra TYPE VARCHAR(9), ADD later TIMESTAMP DEFAULT NOW",
        "PARTITION TABLE other ON COLUMN id",
        "ALTER TABLE t ADD CHECK (extra = '3')",
        "ALTER TABLE t DROP later",
        "ALTER TABLE t DROP COLUMN extra CASCADE",
    ];
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(SCHEMA);
    db.sql("CREATE TABLE other (id INTEGER NOT NULL, x INTEGER); PARTITION TABLE other ON COLUMN id");
    (0..20).for_each(|id| drop(db.sql(&format!("INSERT INTO other VALUES ({id}, {id})"))));
    let (done, put) = (AtomicBool::new(false), AtomicI64::new(0));
    thread::scope(|scope| {
        for client in 0..2i64 {
            let (db, done, put) = (connect(&server), &done, &put);
            scope.spawn(move || {
                let mut id = client;
                while !done.load(Ordering::SeqCst) {
                    let calls: Vec<_> =
                        (0..50).map(|n| db.0.call("put", (id + n * 2, format!("v{}", n % 5)))).collect();
                    id += 100;
                    for call in calls {
                        call.wait().unwrap_or_else(|error| panic!("a call met a schema change: {error}"));
                        put.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        for _ in 0..3 {
            for change in CHANGES {
                let before = put.load(Ordering::SeqCst);
                db.sql(change);
                while put.load(Ordering::SeqCst) < before + 50 {
                    thread::yield_now();
                }
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(rows(&db), put.load(Ordering::SeqCst));
    assert_eq!(db.scalar("SELECT SUM(x) FROM other"), 190);
    server.stop().expect("the log closes");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    assert_eq!(rows(&db), put.load(Ordering::SeqCst));
    assert_eq!(db.scalar("SELECT SUM(x) FROM other WHERE id = x"), 190);
    server.stop().expect("the log closes");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), target).map(|_| ()).expect("a copy")
        }
    }
}

/// Leaves `length` bytes of the log's last file, and zeros behind them, as a kill at that moment
/// does. How far the log reached was said later.
fn cut(dir: &Path, length: u64) {
    let segment = last_segment(dir);
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes[length as usize..].fill(0);
    fs::write(&segment, bytes).expect("it is cut");
    fs::remove_file(segment.with_file_name("redo-begun")).expect("it is there after an orderly end");
}

fn last_segment(dir: &Path) -> std::path::PathBuf {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.retain(|path| fs::metadata(path).expect("a file").len() > 0);
    found.into_iter().max_by_key(|path| fs::metadata(path).expect("a file").len()).expect("a segment")
}

#[test]
fn a_log_that_ends_anywhere_has_the_old_schema_or_the_new_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(SCHEMA);
    (0..100i64).for_each(|id| drop(db.call("put", (id, "x"))));
    let written = |dir: &Path| {
        let bytes = fs::read(last_segment(dir)).expect("the log");
        bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
    };
    let before = written(dir.path());
    db.sql("ALTER TABLE t ADD w INTEGER DEFAULT 7 NOT NULL BEFORE v, ALTER id TYPE VARCHAR(20)");
    let after = written(dir.path());
    (100..200i64).for_each(|id| drop(db.call("put", (id.to_string(), "y"))));
    server.stop().expect("the log closes");
    let (mut old, mut new) = (0, 0);
    let steps = (0..12).map(|step| before + (after + 40 - before) * step / 11);
    for length in steps {
        let copied = tempfile::tempdir().expect("a temporary directory");
        copy(&dir.path().join("data"), &copied.path().join("data"));
        cut(copied.path(), length);
        let server = start(options(copied.path(), PARTITIONS));
        let db = connect(&server);
        assert!(rows(&db) >= 99, "what came before the change is there");
        match db.0.call_blocking("@AdHoc", ("SELECT COUNT(*) FROM t WHERE w = 7 AND id = '55'",)) {
            Ok(response) => {
                assert_eq!(integers(&response), [1]);
                new += 1;
            }
            Err(_) => {
                assert_eq!(db.scalar("SELECT COUNT(*) FROM t WHERE id + 0 = 55"), 1);
                old += 1;
            }
        }
        server.stop().expect("the log closes");
    }
    assert!(old > 0 && new > 0, "{old} with the old schema and {new} with the new one");
}
