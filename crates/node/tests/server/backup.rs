//! Backups of a running node, and their rows back into databases of other numbers of partitions:
//! wholly, or not at all.

use crate::common::{Db, connect, options, start, text_of};
use ferrite_client::{OwnedResponse, Status};
use ferrite_node::Server;
use ferrite_value::{OwnedValue, Value};
use std::fs;
use std::path::{Path, PathBuf};

const SCHEMA: &str =
    "CREATE TABLE person (id BIGINT NOT NULL, name VARCHAR(40) NOT NULL, note VARCHAR(5000), worth DECIMAL,
      born TIMESTAMP, image VARBINARY(100000), place GEOGRAPHY_POINT, PRIMARY KEY (id));
    PARTITION TABLE person ON COLUMN id;
    CREATE INDEX by_name ON person (name);
    CREATE VIEW names (name, n, worth) AS SELECT name, COUNT(*), SUM(worth) FROM person GROUP BY name;
    CREATE TABLE country (code VARCHAR(2) NOT NULL, name VARCHAR(60), PRIMARY KEY (code));
    CREATE TABLE nothing (x INTEGER);
    CREATE PROCEDURE by_id PARTITION ON TABLE person COLUMN id AS SELECT name FROM person WHERE id = ?;";
const PEOPLE: i64 = 3_000;

/// A server with all rows, and where its backups go.
struct Filled {
    dir: tempfile::TempDir,
    backups: PathBuf,
    server: Server,
    db: Db,
}

impl Filled {
    fn new(partitions: u32) -> Filled {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let server = start(options(dir.path(), partitions));
        let db = connect(&server);
        fill(&db);
        Filled { backups: dir.path().join("backups"), dir, server, db }
    }
}

fn fill(db: &Db) {
    db.sql(SCHEMA);
    let calls: Vec<_> = (0..PEOPLE)
        .map(|id| {
            let note = (id % 3 != 0).then(|| "n\"o,te ".repeat((id % 400) as usize));
            let image = (id % 5 == 0).then(|| vec![id as u8; (id * 7 % 30_000) as usize]);
            let born = OwnedValue::Timestamp(id * 1_000_003);
            let worth = OwnedValue::Decimal(ferrite_value::Decimal::from_i64(id));
            db.0.call("PERSON.insert", (id, format!("name {}", id % 17), note, worth, born, image, OwnedValue::Null))
        })
        .collect();
    calls.into_iter().for_each(|call| drop(call.wait().expect("an insert")));
    db.sql("DELETE FROM person WHERE id < 100");
    db.sql("INSERT INTO country VALUES ('CH', 'Switzerland'); INSERT INTO country VALUES ('JP', NULL)");
}

/// All that there is, in one order.
fn contents(db: &Db) -> Vec<Vec<Vec<OwnedValue>>> {
    ["SELECT * FROM person ORDER BY id", "SELECT * FROM names ORDER BY name", "SELECT * FROM country ORDER BY code"]
        .map(|text| db.sql(text).tables.swap_remove(0).rows)
        .into()
}

fn saved(response: &OwnedResponse) {
    let table = &response.tables[0];
    let result = table.column_index("RESULT").expect("a result column");
    assert!(!table.rows.is_empty());
    for row in &table.rows {
        assert_eq!(row[result], OwnedValue::Text("SUCCESS".into()), "{row:?}");
    }
}

fn tables(db: &Db) -> i64 {
    db.call("@SystemCatalog", ("TABLES",)).tables[0].rows.len() as i64
}

fn save(db: &Db, dir: &Path, nonce: &str) {
    saved(&db.call("@SnapshotSave", (dir.to_str().expect("a plain path"), nonce, 1i8)));
}

#[test]
fn rows_come_back_into_any_number_of_partitions() {
    let from = Filled::new(3);
    let db = &from.db;
    let path = from.backups.to_str().expect("a plain path");
    save(db, &from.backups, "monday");
    let before = contents(db);
    // The moment is fixed: what comes later is not in it.
    db.sql("DELETE FROM person WHERE id > 1000");
    for (partitions, with_schema) in [(1, false), (5, true), (3, false)] {
        let other = tempfile::tempdir().expect("a temporary directory");
        let into = start(options(other.path(), partitions));
        let restored = connect(&into);
        if with_schema {
            restored.sql(SCHEMA);
        }
        saved(&restored.call("@SnapshotRestore", (format!("{{path:'{path}',nonce:'monday'}}"),)));
        assert_eq!(contents(&restored), before);
        assert_eq!(restored.call("by_id", (101i64,)).tables[0].rows.len(), 1);
        let count = tables(&restored);
        assert_eq!(count, tables(db), "no staging tables are left");
        into.stop().expect("the log closes");
        // And from the log.
        let into = start(options(other.path(), partitions));
        let restored = connect(&into);
        assert_eq!(contents(&restored), before);
        // A second time: the tables have rows.
        restored.fails("@SnapshotRestore", (path, "monday"), Status::GracefulFailure, "has rows");
        assert_eq!((contents(&restored), tables(&restored)), (before.clone(), count));
        into.stop().expect("the log closes");
    }
    from.server.stop().expect("the log closes");
}

/// As a parameter this text is NULL.
#[test]
fn a_text_of_a_backslash_and_an_n_comes_back_as_that_text() {
    const TABLES: [&str; 3] = ["texts", "everywhere", "keyed"];
    let Filled { dir: _kept, backups, server, db } = Filled::new(2);
    db.sql("CREATE TABLE texts (id INTEGER NOT NULL, t VARCHAR(9) NOT NULL, PRIMARY KEY (id))");
    db.sql("PARTITION TABLE texts ON COLUMN id");
    db.sql("CREATE TABLE everywhere (t VARCHAR(9) NOT NULL)");
    db.sql("CREATE TABLE keyed (t VARCHAR(9) NOT NULL, PRIMARY KEY (t)); PARTITION TABLE keyed ON COLUMN t");
    for row in
        ["texts (id, t) VALUES (1, '\\' || 'N')", "everywhere (t) VALUES ('\\' || 'N')", "keyed (t) VALUES ('\\N')"]
    {
        db.sql(&format!("INSERT INTO {row}"));
    }
    let texts = |db: &Db| TABLES.map(|table| db.sql(&format!("SELECT t FROM {table}")).tables[0].rows.clone());
    // Where that key's rows are.
    let by_key = |db: &Db| db.scalar("SELECT COUNT(*) FROM keyed WHERE t = '\\N'");
    let before = texts(&db);
    assert_eq!(by_key(&db), 1);
    save(&db, &backups, "x");
    TABLES.iter().for_each(|table| drop(db.sql(&format!("DELETE FROM {table}"))));
    assert_eq!(by_key(&db), 0);
    let path = backups.to_str().expect("a plain path");
    saved(
        &db.call("@SnapshotRestore", (format!("{{path:'{path}',nonce:'x',tables:['TEXTS','EVERYWHERE','KEYED']}}"),)),
    );
    assert_eq!((texts(&db), by_key(&db)), (before.clone(), 1));
    assert_eq!(before[0], [[OwnedValue::Text("\\N".into())]]);
    server.stop().expect("the log closes");
}

#[test]
fn what_fails_midway_leaves_the_database_as_it_was() {
    let Filled { dir: _kept, backups, server, db } = Filled::new(2);
    save(&db, &backups, "x");
    server.stop().expect("the log closes");
    let path = backups.to_str().expect("a plain path");

    let other = tempfile::tempdir().expect("a temporary directory");
    let into = start(options(other.path(), 3));
    let db = connect(&into);
    // A constraint that the rows break is met when all of them are there.
    db.sql(&SCHEMA.replace("CREATE INDEX by_name ON person (name)", "ALTER TABLE person ADD CHECK (id < 2999)"));
    db.sql("INSERT INTO nothing VALUES (1)");
    db.sql("DELETE FROM nothing");
    let count = tables(&db);
    let unchanged = |db: &Db| {
        assert_eq!(db.scalar("SELECT COUNT(*) FROM person"), 0);
        assert_eq!(db.scalar("SELECT COUNT(*) FROM country"), 0);
        assert_eq!(db.scalar("SELECT COUNT(*) FROM names"), 0);
        assert_eq!(tables(db), count, "staging tables are left");
    };
    let said = text_of(&db.fail("@SnapshotRestore", (path, "x"))).to_owned();
    assert!(said.contains("CHECK"), "{said}");
    unchanged(&db);
    // A damaged file is found before anything is touched.
    let rows = backups.join("x-p0001.rows");
    let good = fs::read(&rows).expect("a rows file");
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    fs::write(&rows, &bad).expect("written");
    let said = text_of(&db.fail("@SnapshotRestore", (path, "x"))).to_owned();
    assert!(said.contains("x-p0001.rows"), "{said}");
    fs::write(&rows, &good[..good.len() - 4096]).expect("written");
    assert!(text_of(&db.fail("@SnapshotRestore", (path, "x"))).contains("x-p0001.rows"));
    unchanged(&db);
    fs::write(&rows, &good).expect("written");
    db.sql("ALTER TABLE person DROP COLUMN place");
    assert!(text_of(&db.fail("@SnapshotRestore", (path, "x"))).contains("other columns"));
    unchanged(&db);
    // Left out, the rest comes.
    saved(&db.call("@SnapshotRestore", (format!("{{path:'{path}',nonce:x,skiptables:[person]}}"),)));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM country"), 2);
    // What a crash within a restore leaves is dropped at the next start.
    db.sql("CREATE TABLE ferrite_restore_7 (x INTEGER)");
    into.stop().expect("the log closes");
    let into = start(options(other.path(), 3));
    assert_eq!(tables(&connect(&into)), count);
    into.stop().expect("the log closes");
}

#[test]
fn requests_are_checked_and_backups_listed_and_deleted() {
    let Filled { dir: _kept, backups, server, db } = Filled::new(2);
    let path = backups.to_str().expect("a plain path");
    let scan = |db: &Db| db.call("@SnapshotScan", (path,));
    let missing = scan(&db);
    assert_eq!(missing.tables[0].rows.len(), 0);
    assert_eq!(missing.tables[1].rows[0][7], OwnedValue::Text("Path is not a directory".into()));

    // A request error is a table, as existing tools expect.
    let own = backups.with_file_name("data").join("snapshots");
    for (dir, nonce, words) in [
        ("relative", "x", "not absolute"),
        (path, "a-b", "has a -"),
        (path, "..", "begins with a ."),
        ("/tmp/../etc", "x", "upwards"),
        (own.to_str().expect("a plain path"), "x", "own directory"),
        ("/dev/null", "x", "not a directory"),
    ] {
        let response = db.call("@SnapshotSave", (dir, nonce, 1i8));
        let row = &response.tables[0].rows[0];
        assert_eq!(row[3], OwnedValue::Text("FAILURE".into()));
        assert!(matches!(&row[4], OwnedValue::Text(text) if text.contains(words)), "{row:?}");
    }
    save(&db, &backups, "one");
    let again = db.call("@SnapshotSave", (path, "one", 1i8));
    assert_eq!(again.tables[0].rows[0][3], OwnedValue::Text("FAILURE".into()));
    let said = format!("{:?}", again.tables[0].rows);
    assert!(said.contains("already exists") && !said.contains("incomplete"), "{said}");
    // One that a kill has ended.
    fs::write(backups.join("half-p0000.rows"), "rows").expect("the directory is there");
    let again = db.call("@SnapshotSave", (path, "half", 1i8));
    let said = format!("{:?}", again.tables[0].rows);
    assert!(
        said.contains("half-p0000.rows already exists") && said.contains("that is incomplete in this directory"),
        "{said}"
    );
    fs::remove_file(backups.join("half-p0000.rows")).expect("it is there");
    let csv = format!("{{uripath:'file://{path}',nonce:two,format:csv,block:true,tables:[country,person]}}");
    saved(&db.call("@SnapshotSave", (csv,)));
    let country = fs::read_to_string(backups.join("two-COUNTRY.csv")).expect("a CSV file");
    let mut lines: Vec<&str> = country.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["\"CH\",\"Switzerland\"", "\"JP\","]);
    let people = fs::read_to_string(backups.join("two-PERSON.csv")).expect("a CSV file");
    assert_eq!(people.lines().count() as i64, PEOPLE - 100);
    assert!(people.contains("n\"\"o,te"));

    let seen = scan(&db);
    let nonces: Vec<_> = seen.tables[0].rows.iter().map(|row| (row[1].clone(), row[8].clone())).collect();
    let text = |text: &str| OwnedValue::Text(text.into());
    assert_eq!(nonces, [(text("one"), text("TRUE")), (text("two"), text("TRUE"))]);
    fs::remove_file(backups.join("one-p0000.rows")).expect("removed");
    assert_eq!(scan(&db).tables[0].rows[0][8], text("FALSE"));
    let (paths, names) = ([Value::Text(path); 2], [Value::Text("one"), Value::Text("two")]);
    let deleted = db.call("@SnapshotDelete", (Value::Array(&paths), Value::Array(&names)));
    assert_eq!(deleted.tables[0].rows.len(), 2 + 3, "{:?}", deleted.tables[0].rows);
    assert_eq!(fs::read_dir(&backups).expect("still there").count(), 0);
    let again = db.call("@SnapshotDelete", (Value::Array(&paths), Value::Array(&names)));
    let row = &again.tables[0].rows[1];
    assert_eq!((again.tables[0].rows.len(), &row[8]), (2, &text("FAILURE")), "{row:?}");
    assert_eq!(row[9], text(&format!("there is no backup two in {path}")));
    server.stop().expect("the log closes");
}

/// A native backup of some tables has their schema and no more, so that nobody takes it for the
/// whole.
#[test]
fn a_native_backup_may_have_some_of_the_tables() {
    let Filled { dir: _kept, backups, server, db } = Filled::new(3);
    let path = backups.to_str().expect("a plain path");
    db.sql("CREATE TASK asks ON SCHEDULE EVERY 1 HOUR PROCEDURE by_id WITH (1)");
    let settings = |nonce: &str, more: &str| format!("{{uripath:'file://{path}',nonce:{nonce},block:true,{more}}}");
    saved(&db.call("@SnapshotSave", (settings("some", "tables:['PERSON']"),)));
    saved(&db.call("@SnapshotSave", (settings("others", "format:native,skiptables:[person,nothing]"),)));
    let unknown = db.call("@SnapshotSave", (settings("none", "tables:[nobody]"),));
    assert!(format!("{:?}", unknown.tables[0].rows).contains("nobody"), "{:?}", unknown.tables[0].rows);
    let scan = db.call("@SnapshotScan", (path,)).tables.swap_remove(0);
    let required: Vec<_> = scan.rows.iter().map(|row| row[5].clone()).collect();
    assert_eq!(required, [OwnedValue::Text("COUNTRY".into()), OwnedValue::Text("PERSON".into())]);
    let before = contents(&db);
    server.stop().expect("the log closes");

    // Into a database without a schema, and into one that has it; then the rest.
    for with_schema in [false, true] {
        let other = tempfile::tempdir().expect("a temporary directory");
        let into = start(options(other.path(), 2));
        let db = connect(&into);
        if with_schema {
            db.sql(SCHEMA);
        }
        saved(&db.call("@SnapshotRestore", (path, "some")));
        let people = db.sql("SELECT * FROM person ORDER BY id").tables.swap_remove(0).rows;
        assert_eq!(people, before[0]);
        if with_schema {
            assert_eq!(db.scalar("SELECT COUNT(*) FROM country"), 0);
            saved(&db.call("@SnapshotRestore", (path, "others")));
            assert_eq!(contents(&db), before);
        } else {
            let names = |selector: &str| db.call("@SystemCatalog", (selector,)).tables.swap_remove(0).rows.len();
            assert_eq!((names("TABLES"), names("TASKS")), (1, 0));
            db.fails("@SnapshotRestore", (path, "others"), Status::GracefulFailure, "is not in this database");
        }
        into.stop().expect("the log closes");
    }
}

#[test]
fn backups_are_among_the_snapshots_that_statistics_know() {
    let Filled { dir: _kept, backups, server, db } = Filled::new(2);
    let path = backups.to_str().expect("a plain path");
    save(&db, &backups, "one");
    saved(&db.call("@SnapshotSave", (format!("{{uripath:'file://{path}',nonce:two,format:csv,block:true}}"),)));
    // One that is refused was none.
    db.call("@SnapshotSave", (path, "one", 1i8));
    // Without a place it is the database's own.
    saved(&db.call("@SnapshotSave", ("{block:true,format:\"native\"}",)));
    let text = |text: &str| OwnedValue::Text(text.into());
    let mut summary = db.call("@Statistics", ("SNAPSHOTSUMMARY", 0)).tables.swap_remove(0);
    summary.rows.retain(|row| row[2] == text("MANUAL"));
    let seen: Vec<_> = summary.rows.iter().map(|row| [row[0].clone(), row[3].clone(), row[8].clone()]).collect();
    assert_eq!(seen, ["one", "two"].map(|nonce| [text(nonce), text(path), text("SUCCESS")]));
    let status = db.call("@Statistics", ("SNAPSHOTSTATUS", 0)).tables.swap_remove(0);
    assert_eq!(status.rows.len(), 3);
    for (nonce, file) in [("one", "one.manifest"), ("two", "two.schema.sql")] {
        let row = status.rows.iter().find(|row| row[6] == text(nonce)).expect("a row for each");
        assert_eq!(
            [&row[4], &row[5], &row[13], &row[14]],
            [&text(path), &text(file), &text("SUCCESS"), &text("MANUAL")]
        );
        assert!(matches!(row[10], OwnedValue::Integer(1..)), "{row:?}");
    }
    server.stop().expect("the log closes");
}
