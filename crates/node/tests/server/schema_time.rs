//! Changes of the schema that take long: they are ended, by their limit, by their client or by a
//! stop, and nothing is left of them: not in the tables, not in the catalog, not in the log. And
//! texts that take long to compile.

use crate::common::raw::Raw;
use crate::common::{Db, connect, options, start};
use ferrite_base::Settings;
use ferrite_client::Status;
use ferrite_node::{Server, ServerOptions};
use std::path::Path;
use std::time::Duration;

const ROWS: i64 = 20_000;
const SCHEMA: &str = "CREATE TABLE t (id BIGINT NOT NULL, v VARCHAR(500), PRIMARY KEY (id));
    PARTITION TABLE t ON COLUMN id;
    CREATE TABLE same (id BIGINT NOT NULL, v VARCHAR(500), PRIMARY KEY (id));
    CREATE TABLE other (id BIGINT NOT NULL, v VARCHAR(500), PRIMARY KEY (id));
    CREATE VIEW totals (n, last) AS SELECT COUNT(*), MAX(id) FROM t";

/// Each of them tries places in a long text over and over, for each row, or meets hundreds of
/// millions of pairs of rows: minutes.
const ENDLESS: &[&str] = &[
    "ALTER TABLE t ADD CONSTRAINT c CHECK (REPEAT(v, 5000) NOT LIKE '%aaaaaaaaaaaaaaaaaaaab%')",
    "CREATE INDEX i ON t (CASE WHEN REPEAT(v, 5000) LIKE '%aaaaaaaaaaaaaaaaaaaab%' THEN 1 ELSE 0 END)",
    "CREATE INDEX i ON t (id) WHERE REPEAT(v, 5000) LIKE '%aaaaaaaaaaaaaaaaaaaab%'",
    "CREATE VIEW v (id, n) AS SELECT id, COUNT(*) FROM t WHERE REPEAT(v, 5000) LIKE '%aaaaaaaaaaaaaaaaaaaab%' GROUP BY id",
    "CREATE VIEW v (n) AS SELECT COUNT(*) FROM same JOIN other ON same.v <> other.v",
    "ALTER TABLE t ADD COLUMN more BIGINT; DROP VIEW totals;
     CREATE INDEX i ON t (CASE WHEN REPEAT(v, 5000) LIKE '%aaaaaaaaaaaaaaaaaaaab%' THEN 1 ELSE 0 END)",
];

fn opened(dir: &Path, schema_seconds: u64) -> (Server, Db) {
    let settings = Settings { schema_seconds, ..Settings::default() };
    let server = start(ServerOptions { settings, ..options(dir, 3) });
    let db = connect(&server);
    (server, db)
}

fn filled(dir: &Path, schema_seconds: u64) -> (Server, Db) {
    let (server, db) = opened(dir, schema_seconds);
    db.sql(SCHEMA);
    for table in ["t", "same", "other"] {
        db.sql(&format!("INSERT INTO {table} SELECT n, REPEAT('a', 90) FROM GENERATE_SERIES(1, {ROWS}) AS g (n)"));
    }
    (server, db)
}

/// The schema, and what its tables say.
fn everything(db: &Db) -> (String, Vec<i64>) {
    let schema = format!("{:?}", db.call("@ExplainCatalog", ()).tables[0].rows);
    let queries =
        ["SELECT COUNT(*) FROM t", "SELECT SUM(id) FROM t", "SELECT SUM(n) FROM totals", "SELECT SUM(id) FROM same"];
    (schema, queries.iter().map(|query| db.scalar(query)).collect())
}

#[test]
fn what_takes_too_long_leaves_everything_as_it_was() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, _) = filled(dir.path(), 600);
    server.stop().expect("the log is closed");
    let (server, db) = opened(dir.path(), 1);
    let before = everything(&db);
    for change in ENDLESS {
        let limit = "the schema change takes longer than 1 seconds";
        db.fails("@AdHoc", (*change,), Status::GracefulFailure, limit);
        assert_eq!(everything(&db), before, "{change}");
    }
    db.fails("@AdHoc", (ENDLESS[0],), Status::GracefulFailure, "--limit schema-seconds");
    db.call("T.insert", (ROWS + 1, "b"));
    let after = everything(&db);
    server.stop().expect("the log is closed");

    // Nothing of them is in the log; and what was accepted is recovered whatever the limit.
    let (server, db) = opened(dir.path(), 600);
    assert_eq!(everything(&db), after);
    db.sql("CREATE INDEX i ON t (v); ALTER TABLE t ADD COLUMN more BIGINT DEFAULT 5 NOT NULL");
    assert_eq!(db.scalar("SELECT SUM(more) FROM t"), 5 * (ROWS + 1));
    server.stop().expect("the log is closed");
    let (server, db) = opened(dir.path(), 1);
    assert_eq!(db.scalar("SELECT SUM(more) FROM t WHERE v = 'b'"), 5);
    server.stop().expect("the log is closed");
}

#[test]
fn its_client_and_a_stop_end_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = filled(dir.path(), 86_400);
    let before = everything(&db);
    let mut raw = Raw::connect(server.address());
    for change in ENDLESS {
        raw.call("@AdHoc", 1, &(*change,));
        raw.call("@Cancel", 2, &());
        // It may wait or run: the answer is the same.
        let mut answers = [raw.answer().expect("an answer"), raw.answer().expect("an answer")];
        answers.sort();
        let [(change, _, said), (cancel, status, _)] = answers;
        assert_eq!((change, cancel, status), (1, 2, Status::Success.code()));
        assert!(said.contains("it was cancelled"), "{said}");
        assert_eq!(everything(&db), before);
    }
    raw.call("@AdHoc", 3, &(ENDLESS[0],));
    drop(raw);
    assert_eq!(everything(&db), before, "nobody waits for it any more");
    // A call behind it has to wait, and is answered nevertheless.
    let mut raw = Raw::connect(server.address());
    raw.call("@AdHoc", 4, &(ENDLESS[1],));
    raw.call("@Ping", 5, &());
    while raw.answer().expect("an answer").0 != 5 {}
    server.stop().expect("the log is closed");
    let (server, db) = opened(dir.path(), 600);
    assert_eq!(everything(&db), before);
    server.stop().expect("the log is closed");
}

#[test]
fn texts_that_take_long_to_compile_are_ended() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = vec!["SELECT id FROM same WHERE id = 1"; 9_000].join("; ");
    let opened = |query_time_max| {
        let server = start(ServerOptions { query_time_max, ..options(dir.path(), 1) });
        let db = connect(&server);
        (server, db)
    };
    let (server, db) = opened(Duration::from_millis(1));
    db.sql(
        "CREATE TABLE same (id BIGINT NOT NULL, PRIMARY KEY (id)); CREATE PROCEDURE one AS SELECT COUNT(*) FROM same",
    );
    let limit = "compiling takes longer than 0.001 seconds";
    for procedure in ["@AdHoc", "@Explain"] {
        db.fails(procedure, (text.as_str(),), Status::GracefulFailure, limit);
    }
    db.fails("@AdHoc", (text.as_str(),), Status::GracefulFailure, "--query-timeout");
    assert_eq!(db.scalar("SELECT COUNT(*) FROM same"), 0, "what is short is not asked about");
    server.stop().expect("the log is closed");
    let (server, db) = opened(Duration::from_secs(3_600));
    assert_eq!(db.sql(&text).tables.len(), 9_000);
    assert_eq!(db.call("one", ()).scalar(), Some(0));
    server.stop().expect("the log is closed");
}
