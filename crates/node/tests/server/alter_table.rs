//! ALTER TABLE and time to live on a running server: under load, over restarts, and over logs that end anywhere.

use crate::common::{Db, connect, integers, options, start, text_of};
use ferrite_node::ServerOptions;
use ferrite_value::OwnedValue;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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

/// Leaves `length` bytes of the log's last file, and zeros behind them, as a kill at that moment does. How far the log reached was said
/// later.
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

#[test]
fn expired_rows_go_by_themselves() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(
        "CREATE TABLE events (id INTEGER NOT NULL, at TIMESTAMP NOT NULL); PARTITION TABLE events ON COLUMN id;
        CREATE TABLE notes (id INTEGER NOT NULL, minute BIGINT);
        CREATE INDEX by_at ON events (at);
        CREATE VIEW counted AS SELECT COUNT(*) AS n FROM events",
    );
    for id in 0..200 {
        let at = if id % 4 == 0 { "2100-01-01 00:00:00" } else { "2001-01-01 00:00:00" };
        db.sql(&format!("INSERT INTO events VALUES ({id}, '{at}')"));
    }
    db.sql("INSERT INTO notes VALUES (1, 5), (2, 99999999999), (3, NULL)");
    db.sql(
        "ALTER TABLE events USING TTL 1 HOURS ON COLUMN at BATCH_SIZE 10 MAX_FREQUENCY 50;
        ALTER TABLE notes ADD USING TTL 10 MINUTES ON COLUMN minute",
    );
    let left = || (db.scalar("SELECT n FROM counted"), db.scalar("SELECT COUNT(*) FROM notes"));
    let deadline = Instant::now() + Duration::from_secs(30);
    while left() != (50, 2) {
        assert!(Instant::now() < deadline, "rows that have expired are there still: {:?}", left());
    }
    assert_eq!(db.scalar("SELECT COUNT(*) FROM events WHERE at < NOW"), 0);
    // The count of a round is told when its last batch is answered, which may come after rows were seen to be gone.
    let figures = || db.call("@Statistics", ("TTL", 0i32)).tables[0].rows.clone();
    let told = || figures().iter().map(|row| row[1..5].to_vec()).collect::<Vec<_>>();
    let row = |name: &str, deleted| {
        vec![
            OwnedValue::Text(name.into()),
            OwnedValue::Integer(deleted),
            OwnedValue::Integer(0),
            OwnedValue::Integer(0),
        ]
    };
    // A later round finds nothing.
    while told() != [row("EVENTS", 150), row("NOTES", 1)] {
        assert!(Instant::now() < deadline, "{:?}", told());
    }
    assert!(figures().iter().all(|row| matches!(row[5], OwnedValue::Timestamp(1..))), "{:?}", figures());
    // Dropped and added again, and over a restart.
    db.sql("ALTER TABLE events DROP TTL");
    db.sql("INSERT INTO events VALUES (1, '2001-01-01 00:00:00')");
    db.sql("ALTER TABLE events ADD USING TTL 20 DAYS ON COLUMN at MAX_FREQUENCY 100");
    server.stop().expect("the log closes");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    while db.scalar("SELECT COUNT(*) FROM events") != 50 {
        assert!(Instant::now() < deadline, "a row that has expired is there after a restart");
    }
    server.stop().expect("the log closes");
}

/// The copies of a replicated table lose the same rows, batch after batch, wherever each keeps them.
#[test]
fn copies_of_a_replicated_table_expire_alike() {
    const ROWS: i64 = 3_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(
        "CREATE TABLE spread (id INTEGER NOT NULL, name VARCHAR(9), at BIGINT); PARTITION TABLE spread ON COLUMN id",
    );
    // Some rows are equal in all columns. Moved to every copy, with later ones behind the holes of deleted ones.
    for id in 0..ROWS {
        drop(db.0.call("SPREAD.insert", (id as i32 % 1_700, "same", 5i64)));
    }
    db.0.drain();
    db.sql("REPLICATE TABLE spread");
    db.sql("DELETE FROM spread WHERE MOD(id, 7) = 3");
    db.sql("INSERT INTO spread VALUES (-1, NULL, NULL), (-2, 'later', 99999999999), (3, 'same', 5), (3, 'same', 5)");
    let left = db.scalar("SELECT COUNT(*) FROM spread WHERE at = 5");
    db.sql("ALTER TABLE spread USING TTL 1 DAYS ON COLUMN at BATCH_SIZE 100 MAX_FREQUENCY 1000");
    let deadline = Instant::now() + Duration::from_secs(30);
    while db.scalar("SELECT COUNT(*) FROM spread") != 2 {
        assert!(Instant::now() < deadline, "rows that have expired are there still");
    }
    let sums = db.call("@Statistics", ("TABLE", 0i32));
    let at = |name: &str| sums.tables[0].column_index(name).expect("a column of TABLE");
    for row in &sums.tables[0].rows {
        assert_eq!(row[at("TUPLE_COUNT")], OwnedValue::Integer(2), "{row:?}");
    }
    let rows = &db.call("@Statistics", ("TTL", 0i32)).tables[0].rows;
    assert_eq!(rows[0][2], OwnedValue::Integer(left), "a row of a replicated table counts once");
    server.stop().expect("the log closes");
}

/// Nothing takes rows away that are to be migrated. They are kept, and where the server is told so they are dropped.
#[test]
fn rows_to_migrate_are_kept_or_dropped_when_their_time_is_up() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for drop_migrating in [false, true, false] {
        let server = start(ServerOptions { drop_migrating, ..options(dir.path(), PARTITIONS) });
        let db = connect(&server);
        if db.call("@SystemCatalog", ("TABLES",)).tables[0].rows.is_empty() {
            let told = db.sql(
                "CREATE TABLE gone MIGRATE TO TARGET archive (id BIGINT NOT NULL, at TIMESTAMP NOT NULL)
                   USING TTL 1 DAYS ON COLUMN at MAX_FREQUENCY 100;
                 PARTITION TABLE gone ON COLUMN id;
                 CREATE TABLE plain (at TIMESTAMP) USING TTL 1 DAYS ON COLUMN at MAX_FREQUENCY 100",
            );
            let words = text_of(&told);
            assert!(words.contains("--migrating-rows drop"), "{words}");
        }
        for id in 0..10i64 {
            db.sql(&format!("INSERT INTO gone VALUES ({id}, '2001-01-01 00:00:00')"));
        }
        db.sql("INSERT INTO gone VALUES (100, NOW); INSERT INTO plain VALUES ('2001-01-01 00:00:00')");
        let deadline = Instant::now() + Duration::from_secs(60);
        let there = || (db.scalar("SELECT COUNT(*) FROM gone WHERE id < 100"), db.scalar("SELECT COUNT(*) FROM plain"));
        // A round of the other table is over: this one's turn has come as well.
        let wanted = if drop_migrating { (0, 0) } else { (10, 0) };
        while there() != wanted {
            assert!(Instant::now() < deadline, "{:?}", there());
        }
        assert_eq!(db.scalar("SELECT COUNT(*) FROM gone WHERE id = 100"), 1);
        let expiring = db.call("@Statistics", ("TTL", 0i32)).tables[0].rows.len();
        assert_eq!(expiring, if drop_migrating { 2 } else { 1 });
        db.sql("DELETE FROM gone");
        server.stop().expect("the log closes");
    }
}
