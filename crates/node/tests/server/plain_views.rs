//! Views that are computed when they are read, in a running node: told, listed, and there again
//! after every kind of start.

use crate::common::{Db, connect, options, start, text_of};
use ferrite_client::{OwnedResponse, Status};
use ferrite_node::Server;
use ferrite_value::OwnedValue;
use std::path::Path;

const TABLES: &str = "CREATE TABLE person (id BIGINT NOT NULL, town VARCHAR(10), age INTEGER, PRIMARY KEY (id));
    PARTITION TABLE person ON COLUMN id;
    CREATE TABLE town (name VARCHAR(10) NOT NULL, country VARCHAR(10), PRIMARY KEY (name));";
const VIEWS: &str = "CREATE VIEW old AS SELECT * FROM person WHERE age >= 40;
    CREATE VIEW per_town AS SELECT town, COUNT(*) AS n FROM person GROUP BY town;
    CREATE VIEW a_countries AS SELECT t.country, SUM(p.n) AS people FROM per_town p LEFT JOIN town t ON t.name = p.town
        GROUP BY t.country;
    CREATE VIEW z_old_ids (number) AS SELECT id FROM old UNION SELECT 0 FROM town;
    CREATE PROCEDURE one_old PARTITION ON TABLE person COLUMN id AS SELECT town FROM old WHERE id = ?;";
const ASKED: [&str; 4] = [
    "SELECT * FROM old ORDER BY id",
    "SELECT * FROM a_countries ORDER BY country",
    "SELECT * FROM z_old_ids ORDER BY number",
    "SELECT o.id, c.people FROM old o JOIN a_countries c ON c.country = 'CH' ORDER BY id",
];

fn text(value: &str) -> OwnedValue {
    OwnedValue::Text(value.into())
}

fn filled(db: &Db) {
    db.sql(TABLES);
    let told = db.sql(VIEWS);
    let words = "view OLD is computed when it is read: a materialized view must not have * in its SELECT list";
    assert!(text_of(&told).contains(words), "{}", text_of(&told));
    assert!(!text_of(&told).contains("PER_TOWN is"), "that one is kept up: {}", text_of(&told));
    for id in 0..60_i64 {
        db.call("PERSON.insert", (id, ["Bern", "Rome", "Oslo"][(id % 3) as usize], id));
    }
    db.sql("INSERT INTO town VALUES ('Bern', 'CH'); INSERT INTO town VALUES ('Rome', 'IT')");
}

fn answers(db: &Db) -> Vec<Vec<Vec<OwnedValue>>> {
    ASKED.iter().map(|asked| db.sql(asked).tables.swap_remove(0).rows).collect()
}

/// TABLE_NAME and TABLE_TYPE, or what else stands there.
fn named(response: &OwnedResponse, columns: [&str; 2]) -> Vec<[OwnedValue; 2]> {
    let table = &response.tables[0];
    let columns = columns.map(|column| table.column_index(column).expect("a column of the answer"));
    table.rows.iter().map(|row| columns.map(|column| row[column].clone())).collect()
}

fn opened(dir: &Path) -> (Server, Db) {
    let server = start(options(dir, 3));
    let db = connect(&server);
    (server, db)
}

#[test]
fn they_are_there_again_from_the_log_a_snapshot_and_a_backup() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = opened(dir.path());
    filled(&db);
    let before = answers(&db);
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [20, 3, 21, 20]);
    assert_eq!(db.call("one_old", (41_i64,)).tables[0].rows, [[text("Oslo")]]);
    // Columns that come later are none of theirs.
    db.sql("ALTER TABLE person ADD COLUMN late INTEGER DEFAULT 7 BEFORE town");
    assert_eq!(answers(&db), before);
    db.fails(
        "@AdHoc",
        ("ALTER TABLE person DROP COLUMN age",),
        Status::GracefulFailure,
        "view OLD (object not found: AGE)",
    );
    server.stop().expect("the log is closed");

    let (server, db) = opened(dir.path());
    assert_eq!(answers(&db), before, "from the log");
    db.call("@SnapshotSave", ());
    let backups = dir.path().join("backups");
    let path = backups.to_str().expect("a plain path");
    db.call("@SnapshotSave", (path, "monday", 1_i8));
    server.stop().expect("the log is closed");

    let (server, db) = opened(dir.path());
    assert!(server.recovery().snapshot.is_some());
    assert_eq!(answers(&db), before, "from a snapshot");
    server.stop().expect("the log is closed");

    let other = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(other.path(), 1));
    let db = connect(&server);
    db.call("@SnapshotRestore", (path, "monday"));
    assert_eq!(answers(&db), before, "from a backup");
    assert_eq!(db.call("one_old", (41_i64,)).tables[0].rows, [[text("Oslo")]]);
    server.stop().expect("the log is closed");
}

#[test]
fn they_are_listed_and_refuse_to_be_changed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = opened(dir.path());
    filled(&db);
    let tables = named(&db.call("@SystemCatalog", ("TABLES",)), ["TABLE_NAME", "TABLE_TYPE"]);
    for view in ["OLD", "PER_TOWN", "A_COUNTRIES", "Z_OLD_IDS"] {
        assert!(tables.contains(&[text(view), text("VIEW")]), "{view}: {tables:?}");
    }
    let columns = named(&db.call("@SystemCatalog", ("COLUMNS",)), ["TABLE_NAME", "COLUMN_NAME"]);
    let of_old: Vec<_> = columns.iter().filter(|row| row[0] == text("OLD")).map(|row| row[1].clone()).collect();
    assert_eq!(of_old, ["AGE", "ID", "TOWN"].map(text));
    assert!(columns.contains(&[text("Z_OLD_IDS"), text("NUMBER")]));
    let plan = db.call("@ExplainView", ("old",));
    let words = "computed when it is read: SELECT PERSON.\"ID\", PERSON.TOWN, PERSON.AGE FROM person WHERE age >= 40";
    assert_eq!(plan.tables[0].rows[0][1], text(words));
    db.call("@Statistics", ("TABLE", 0));
    db.call("@Statistics", ("INDEX", 0));
    db.fails("@AdHoc", ("DELETE FROM old",), Status::GracefulFailure, "view OLD cannot be deleted from");
    db.fails("@AdHoc", ("DROP TABLE town",), Status::GracefulFailure, "dependent objects exist: view A_COUNTRIES");
    db.fails("@AdHoc", ("DROP VIEW per_town",), Status::GracefulFailure, "dependent objects exist: view A_COUNTRIES");
    db.sql("DROP PROCEDURE one_old; DROP TABLE person CASCADE");
    let tables = named(&db.call("@SystemCatalog", ("TABLES",)), ["TABLE_NAME", "TABLE_TYPE"]);
    assert_eq!(tables, [[text("TOWN"), text("TABLE")]]);
    server.stop().expect("the log is closed");
}
