//! Databases that a server of November 2026 (commit 8794d8c) has left, with what was taken then and
//! is computed otherwise or refused today (docs/decisions/0024). Their archives, and how they were
//! made: `tests/data/old-database`.

use crate::common::{Db, connect, options, start};
use ferrite_client::Status;
use ferrite_value::{OwnedValue, convert::to_text_string};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

const ASKED_AND_ANSWERED: &str = include_str!("../data/old-database/answers.txt");
const CHANGED: &str = include_str!("../data/old-database/changed.sql");

#[test]
fn from_its_log() {
    opens_and_goes_on(include_bytes!("../data/old-database/log.gz"));
}

#[test]
fn from_its_snapshot() {
    opens_and_goes_on(include_bytes!("../data/old-database/snapshot.gz"));
}

/// All is as it was then, views follow what is changed now, and that is there after the next start,
/// from the log and from a snapshot of ours.
fn opens_and_goes_on(archive: &[u8]) {
    let dir = tempfile::tempdir().expect("a directory");
    unpack(archive, &dir.path().join("data"));
    let open = || {
        let server = start(options(dir.path(), 2));
        (connect(&server), server)
    };
    let (db, server) = open();
    assert_eq!(answers(&db), ASKED_AND_ANSWERED);
    lines(CHANGED).for_each(|statement| drop(db.sql(statement)));
    let changed = answers(&db) + &later(&db);
    // Rows of an hour go where those of the same hour are; a view of today has today's end of the
    // hour.
    let has = |answer: &str| assert!(changed.contains(answer), "{answer:?} in {changed}");
    has("windows_by_hour ORDER BY w;\n1577879999999999,2\nSELECT");
    has("windows_now ORDER BY w;\n1577880000000000,2\nSELECT");
    has("floats_by_text ORDER BY w;\n0.25,1\n123456.5,1\nSELECT");
    has("later_by_text ORDER BY w;\n2.5E-1,1\n");
    has("orders_by_day;\n");
    drop(db);
    server.stop().expect("the log is closed");

    let (db, server) = open();
    assert_eq!(answers(&db) + &later(&db), changed, "from the log");
    db.call("@SnapshotSave", ());
    drop(db);
    server.stop().expect("the log is closed");

    let (db, server) = open();
    assert_eq!(answers(&db) + &later(&db), changed, "from a snapshot");
    // What a row was counted under is found again, for all of them.
    for table in ["moved", "casts", "windows", "floats", "texts", "orders", "later"] {
        db.sql(&format!("DELETE FROM {table}"));
    }
    for view in ["moved_by_day", "casts_of_b", "casts_of_s", "windows_by_hour", "windows_by_weeks", "floats_by_text"] {
        assert_eq!(db.scalar(&format!("SELECT COUNT(*) FROM {view}")), 0, "{view}");
    }
    for view in ["texts_of_d", "texts_of_at", "texts_negative", "orders_by_day", "windows_now", "later_by_text"] {
        assert_eq!(db.scalar(&format!("SELECT COUNT(*) FROM {view}")), 0, "{view}");
    }
    drop(db);
    server.stop().expect("the log is closed");
}

/// Sums of FLOAT that had lost what small values there were are what the rows say, and stay so
/// (docs/decisions/0032). Those of a stream, whose rows are gone, are as they were.
#[test]
fn sums_that_had_lost_their_small_values() {
    const RIGHT: [&str; 3] = [
        "SELECT k, f, g FROM by_k ORDER BY k;\na,1.0,0.5\n\
         a key that is too long to stand in the row of a view, and so stands elsewhere,2.0,0.25\nb,4.0,3.125\n",
        "SELECT n, f, g FROM in_all;\n4,7.0,3.875\n",
        "SELECT k, n, f FROM passed ORDER BY k;\n1,2,1.0E300\n2,1,5.0\n",
    ];
    let then = include_str!("../data/old-sums/answers.txt");
    assert!(then.contains("a,0.0,0.0\n") && then.contains("\n4,0.0,0.0\n"), "{then}");
    for archive in [&include_bytes!("../data/old-sums/log.gz")[..], include_bytes!("../data/old-sums/snapshot.gz")] {
        let dir = tempfile::tempdir().expect("a directory");
        unpack(archive, &dir.path().join("data"));
        for round in 0..3 {
            let server = start(options(dir.path(), 2));
            let db = connect(&server);
            for right in RIGHT {
                let (asked, _) = right.split_once('\n').expect("a statement and its rows");
                assert_eq!(answered(&db, asked), right, "start {round}");
            }
            db.sql("INSERT INTO amounts VALUES (100, 'a', 1E300, 1E300), (101, 'a', 1E200, 1E200)");
            if round == 0 {
                db.call("@SnapshotSave", ());
            }
            db.sql("DELETE FROM amounts WHERE id = 100");
            db.sql("DELETE FROM amounts WHERE id = 101");
            drop(db);
            server.stop().expect("the log is closed");
        }
    }
}

/// Definitions whose literals have more digits than DECIMAL keep the rounded ones with which their
/// rows were stored; what is defined later has all digits (docs/decisions/0072). The archives are
/// those of a server of commit dae9795b.
#[test]
fn literals_that_were_rounded() {
    let then = include_str!("../data/old-literals/answers.txt");
    let told = |db: &Db, more: &[&str]| {
        let asked = lines(then).filter(|line| line.ends_with(';')).chain(more.iter().copied());
        asked.map(|statement| answered(db, statement)).collect::<String>()
    };
    let later = ["SELECT id, x FROM later;", "SELECT p, n FROM later_by_x;"];
    for archive in
        [&include_bytes!("../data/old-literals/log.gz")[..], include_bytes!("../data/old-literals/snapshot.gz")]
    {
        let dir = tempfile::tempdir().expect("a directory");
        unpack(archive, &dir.path().join("data"));
        let open = || {
            let server = start(options(dir.path(), 2));
            (connect(&server), server)
        };
        let (db, server) = open();
        assert_eq!(told(&db, &[]), then);
        let insert = "INSERT INTO points (id, d) VALUES (1, 1)";
        db.fails("@AdHoc", (insert,), Status::GracefulFailure, "NEVER_ONE");
        db.sql("INSERT INTO points (id, d) VALUES (8, 1)");
        db.sql("CREATE TABLE later (id INTEGER NOT NULL PRIMARY KEY, x FLOAT DEFAULT 0.1234567890123456, CHECK (id <> 0.9999999999999))");
        db.sql("CREATE VIEW later_by_x (p, n) AS SELECT x * 1.0000000000001, COUNT(*) FROM later GROUP BY x * 1.0000000000001");
        db.sql("INSERT INTO later (id) VALUES (1)");
        assert_eq!(
            db.call("exactly", ()).tables[0].rows,
            [[OwnedValue::Integer(1)]],
            "procedures have today's meaning"
        );
        let changed = told(&db, &later);
        assert!(changed.contains("8,0.123456789012,1.000000000000,"), "{changed}");
        assert!(changed.contains("1,0.1234567890123456\n") && changed.contains("0.12345678901235793,1\n"), "{changed}");
        drop(db);
        server.stop().expect("the log is closed");

        let (db, server) = open();
        assert_eq!(told(&db, &later), changed, "from the log");
        db.call("@SnapshotSave", ());
        drop(db);
        server.stop().expect("the log is closed");

        let (db, server) = open();
        assert_eq!(told(&db, &later), changed, "from a snapshot");
        db.fails("@AdHoc", (insert,), Status::GracefulFailure, "NEVER_ONE");
        db.sql("DELETE FROM points");
        db.sql("DELETE FROM later");
        for view in ["scaled", "by_product", "later_by_x"] {
            assert_eq!(db.scalar(&format!("SELECT COUNT(*) FROM {view}")), 0, "{view}");
        }
        drop(db);
        server.stop().expect("the log is closed");
    }
}

/// The files of the archive, as `make.py` describes it.
fn unpack(archive: &[u8], to: &Path) {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(archive).read_to_end(&mut bytes).expect("a whole archive");
    let mut rest = &bytes[..];
    let mut take = |count: usize| {
        let (taken, behind) = rest.split_at(count);
        rest = behind;
        (taken.to_vec(), rest.is_empty())
    };
    let number = |bytes: Vec<u8>| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let mut last = false;
    while !last {
        let name_bytes = number(take(2).0) as usize;
        let name = String::from_utf8(take(name_bytes).0).expect("a name");
        let (length, stored) = (number(take(8).0), number(take(8).0) as usize);
        let path = to.join(name);
        fs::create_dir_all(path.parent().expect("a file in a directory")).expect("a directory");
        let mut file = File::create(&path).expect("a file");
        let (contents, end) = take(stored);
        file.write_all(&contents).expect("room");
        file.set_len(length).expect("room");
        last = end;
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with("--"))
}

/// What was asked of the old server, each with the answer of this one.
fn answers(db: &Db) -> String {
    let asked = lines(ASKED_AND_ANSWERED).filter(|line| line.ends_with(';'));
    asked.map(|statement| answered(db, statement)).collect()
}

fn later(db: &Db) -> String {
    let asked = ["SELECT w, n FROM later_by_text ORDER BY w;"];
    let hours = "SELECT SINCE_EPOCH(MICROSECOND, w), n FROM windows_now ORDER BY w;";
    [hours].iter().chain(&asked).map(|statement| answered(db, statement)).collect()
}

fn answered(db: &Db, statement: &str) -> String {
    let response = match statement.strip_prefix("EXEC ") {
        Some(procedure) => db.call(procedure.trim_end_matches(';'), ()),
        None => db.sql(statement),
    };
    let shown = |value: &OwnedValue| match value {
        OwnedValue::Null => String::new(),
        value => to_text_string(&value.as_value()),
    };
    let rows = response.tables[0].rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join(",") + "\n");
    format!("{statement}\n{}", rows.collect::<String>())
}
