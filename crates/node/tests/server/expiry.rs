//! Time to live on a running server: rows of tables and of views of streams that expire by
//! themselves.

use crate::common::{Db, connect, options, start, text_of, wait_for};
use ferrite_node::ServerOptions;
use ferrite_value::OwnedValue;

const PARTITIONS: u32 = 3;

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
    wait_for("the rows to expire", || left() == (50, 2));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM events WHERE at < NOW"), 0);
    // The count of a round is told when its last batch is answered, which may come after rows were
    // seen to be gone.
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
    wait_for("the count of them", || told() == [row("EVENTS", 150), row("NOTES", 1)]);
    assert!(figures().iter().all(|row| matches!(row[5], OwnedValue::Timestamp(1..))), "{:?}", figures());
    // Dropped and added again, and over a restart.
    db.sql("ALTER TABLE events DROP TTL");
    db.sql("INSERT INTO events VALUES (1, '2001-01-01 00:00:00')");
    db.sql("ALTER TABLE events ADD USING TTL 20 DAYS ON COLUMN at MAX_FREQUENCY 100");
    server.stop().expect("the log closes");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    wait_for("a row to expire after a restart", || db.scalar("SELECT COUNT(*) FROM events") == 50);
    server.stop().expect("the log closes");
}

/// The copies of a replicated table lose the same rows, batch after batch, wherever each keeps
/// them.
#[test]
fn copies_of_a_replicated_table_expire_alike() {
    const ROWS: i64 = 3_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(
        "CREATE TABLE spread (id INTEGER NOT NULL, name VARCHAR(9), at BIGINT); PARTITION TABLE spread ON COLUMN id",
    );
    // Some rows are equal in all columns. Moved to every copy, with later ones behind the holes of
    // deleted ones.
    for id in 0..ROWS {
        drop(db.0.call("SPREAD.insert", (id as i32 % 1_700, "same", 5i64)));
    }
    db.0.drain();
    db.sql("REPLICATE TABLE spread");
    db.sql("DELETE FROM spread WHERE MOD(id, 7) = 3");
    db.sql("INSERT INTO spread VALUES (-1, NULL, NULL), (-2, 'later', 99999999999), (3, 'same', 5), (3, 'same', 5)");
    let left = db.scalar("SELECT COUNT(*) FROM spread WHERE at = 5");
    db.sql("ALTER TABLE spread USING TTL 1 DAYS ON COLUMN at BATCH_SIZE 100 MAX_FREQUENCY 1000");
    wait_for("the rows to expire", || db.scalar("SELECT COUNT(*) FROM spread") == 2);
    let sums = db.call("@Statistics", ("TABLE", 0i32));
    let at = |name: &str| sums.tables[0].column_index(name).expect("a column of TABLE");
    for row in &sums.tables[0].rows {
        assert_eq!(row[at("TUPLE_COUNT")], OwnedValue::Integer(2), "{row:?}");
    }
    let rows = &db.call("@Statistics", ("TTL", 0i32)).tables[0].rows;
    assert_eq!(rows[0][2], OwnedValue::Integer(left), "a row of a replicated table counts once");
    server.stop().expect("the log closes");
}

/// Nothing takes rows away that are to be migrated. They are kept, and where the server is told so
/// they are dropped.
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
        let there = || (db.scalar("SELECT COUNT(*) FROM gone WHERE id < 100"), db.scalar("SELECT COUNT(*) FROM plain"));
        // A round of the other table is over: this one's turn has come as well.
        let wanted = if drop_migrating { (0, 0) } else { (10, 0) };
        wait_for("what expires here", || there() == wanted);
        assert_eq!(db.scalar("SELECT COUNT(*) FROM gone WHERE id = 100"), 1);
        let expiring = db.call("@Statistics", ("TTL", 0i32)).tables[0].rows.len();
        assert_eq!(expiring, if drop_migrating { 2 } else { 1 });
        db.sql("DELETE FROM gone");
        server.stop().expect("the log closes");
    }
}

/// A view of a stream has rows of its own, and nothing else takes them away: in each partition,
/// again after a restart, and while more comes.
#[test]
fn rows_of_a_view_of_a_stream_expire() {
    const NAMES: i64 = 200;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(
        "CREATE STREAM visit PARTITION ON COLUMN who (who BIGINT NOT NULL, at TIMESTAMP NOT NULL, pages INTEGER);
        CREATE VIEW visits (who, n, pages, last) AS SELECT who, COUNT(*), SUM(pages), MAX(at) FROM visit GROUP BY who
            USING TTL 1 HOURS ON COLUMN last BATCH_SIZE 10 MAX_FREQUENCY 50;
        CREATE INDEX visits_last ON visits (last)",
    );
    // A fourth of them comes a second time, in far time: the latest one counts.
    let come = |db: &Db, from: i64| {
        for who in from..from + NAMES {
            db.sql(&format!("INSERT INTO visit VALUES ({who}, '2001-01-01 00:00:00', 1)"));
            if who % 4 == 0 {
                db.sql(&format!("INSERT INTO visit VALUES ({who}, '2100-01-01 00:00:00', 2)"));
            }
        }
    };
    let left = |db: &Db| db.scalar("SELECT COUNT(*) FROM visits");
    come(&db, 0);
    wait_for("the rows of the view to expire", || left(&db) == NAMES / 4);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM visits WHERE last < NOW OR MOD(who, 4) <> 0"), 0);
    // One that has expired begins anew.
    db.sql("INSERT INTO visit VALUES (1, '2100-01-01 00:00:00', 7)");
    assert_eq!(db.scalar("SELECT n * 10 + pages FROM visits WHERE who = 1"), 17);
    // Some that nobody has looked at when the server ends.
    come(&db, NAMES);
    server.stop().expect("the log closes");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    wait_for("rows of the view to expire after a restart", || left(&db) == 2 * NAMES / 4 + 1);
    come(&db, 2 * NAMES);
    wait_for("more rows of the view to expire", || left(&db) == 3 * NAMES / 4 + 1);
    server.stop().expect("the log closes");
}
