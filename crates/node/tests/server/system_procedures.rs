//! System procedures on a whole node: what they count, refuse, load and exchange.

use crate::common::{CONTESTANTS, Db, PATIENCE, VOTER, connect, integers, options, start, text_of};
use ferrite_client::{OwnedTable, Status};
use ferrite_node::{Server, ServerOptions};
use ferrite_value::{OwnedValue, SqlType, Value};
use ferrite_wire::{TableHeader, TableWriter};

const PARTITIONS: u32 = 3;

fn voter() -> (tempfile::TempDir, Server, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(CONTESTANTS);
    (dir, server, db)
}

fn statistics(db: &Db, selector: &str, interval: i32) -> OwnedTable {
    db.call("@Statistics", (selector, interval)).tables.swap_remove(0)
}

/// The sum of a column over the rows in which another has this text.
fn sum(table: &OwnedTable, column: &str, filter: (&str, &str)) -> i64 {
    let at = |name: &str| table.column_index(name).unwrap_or_else(|| panic!("there is no column {name}"));
    let matching = table.rows.iter().filter(|row| row[at(filter.0)] == OwnedValue::Text(filter.1.into()));
    matching
        .map(|row| match row[at(column)] {
            OwnedValue::Integer(number) => number,
            ref other => panic!("{column} is not an integer: {other:?}"),
        })
        .sum()
}

/// One that is busy from the first call on has figures all the same, and those of the others are
/// those of now.
#[test]
fn a_busy_partition_keeps_its_figures_and_that_is_said() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(ServerOptions { query_time_max: PATIENCE, ..options(dir.path(), PARTITIONS) });
    let db = connect(&server);
    db.sql("CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id");
    db.sql(
        "CREATE PROCEDURE Spin (id BIGINT) PARTITION ON TABLE t COLUMN id AS BEGIN
            DECLARE turns BIGINT DEFAULT 0;
            WHILE turns >= 0 DO SET turns = 1; END WHILE;
        END",
    );
    let spinning = db.0.call("Spin", (1i64,));
    // Sent by the same connection: some of them behind the busy one.
    let behind: Vec<_> = (0..30i64).map(|id| db.0.call("T.insert", (id,))).collect();
    let answer = db.call("@Statistics", ("IDLETIME", 0i32));
    let words = text_of(&answer);
    assert!(words.starts_with("partition ") && words.contains(" is busy: its figures are "), "{words}");
    let rows = &answer.tables[0].rows;
    assert_eq!(rows.len(), PARTITIONS as usize + 1, "each has a row, and the coordinator: {rows:?}");
    db.call("@Cancel", ());
    assert!(spinning.wait().is_err());
    behind.into_iter().for_each(|call| drop(call.wait()));
    // Those that were asked in vain answer now, before anything else.
    let answer = db.call("@Statistics", ("PROCEDURE", 0i32));
    assert_eq!(text_of(&answer), "");
    assert_eq!(sum(&answer.tables[0], "INVOCATIONS", ("PROCEDURE", "Spin")), 1);
    server.stop().expect("nothing failed");
}

#[test]
fn calls_are_counted_by_procedure_and_the_interval_flag_starts_anew() {
    let (_dir, server, db) = voter();
    let vote = ("PROCEDURE", "Vote");
    for phone in 0..100i64 {
        db.call("Vote", (5_550_000_000 + phone, 1i32, 2i64));
    }
    db.fail("Vote", (1i64,));
    assert_eq!(sum(&statistics(&db, "PROCEDURE", 1), "INVOCATIONS", vote), 101);
    for phone in 0..7i64 {
        db.call("Vote", (5_550_000_000 + phone, 1i32, 2i64));
    }
    let table = statistics(&db, "PROCEDURE", 1);
    assert_eq!(sum(&table, "INVOCATIONS", vote), 7);
    let table = statistics(&db, "PROCEDURE", 0);
    assert_eq!((sum(&table, "INVOCATIONS", vote), sum(&table, "FAILURES", vote)), (108, 1));
    let timed = sum(&table, "TIMED_INVOCATIONS", vote);
    assert!((1..108).contains(&timed), "{timed} calls were timed");
    assert!(sum(&table, "AVG_EXECUTION_TIME", vote) > 0);
    // A schema change gives procedures new numbers, and loses no count.
    db.sql("CREATE TABLE other (a INTEGER)");
    db.call("Vote", (5_550_000_000i64, 1i32, 2i64));
    assert_eq!(sum(&statistics(&db, "PROCEDURE", 0), "INVOCATIONS", vote), 109);
    assert_eq!(sum(&statistics(&db, "PROCEDUREPROFILE", 0), "INVOCATIONS", vote), 109);
    assert_eq!(sum(&statistics(&db, "INITIATOR", 0), "INVOCATIONS", ("PROCEDURE_NAME", "Vote")), 109);
    server.stop().expect("the log is closed");
}

#[test]
fn rows_bytes_and_latencies_are_told() {
    let (_dir, server, db) = voter();
    for phone in 0..50i64 {
        db.call("Vote", (5_550_000_000 + phone, 1i32, 2i64));
    }
    let tables = statistics(&db, "TABLE", 0);
    assert_eq!(sum(&tables, "TUPLE_COUNT", ("TABLE_NAME", "VOTES")), 50);
    assert_eq!(sum(&tables, "TUPLE_COUNT", ("TABLE_NAME", "CONTESTANTS")), 2 * i64::from(PARTITIONS));
    assert_eq!(
        sum(&statistics(&db, "INDEX", 0), "ENTRY_COUNT", ("TABLE_NAME", "CONTESTANTS")),
        2 * i64::from(PARTITIONS)
    );
    let bytes = statistics(&db, "IOSTATS", 0);
    assert!(sum(&bytes, "MESSAGES_READ", ("CONNECTION_HOSTNAME", "GLOBAL")) >= 50);
    let latency = statistics(&db, "LATENCY", 0);
    let count = latency.column_index("COUNT").expect("a column");
    assert!(matches!(latency.rows[0][count], OwnedValue::Integer(50..)), "{:?}", latency.rows);
    assert_eq!(statistics(&db, "IDLETIME", 0).rows.len(), PARTITIONS as usize + 1);
    assert_eq!(statistics(&db, "QUEUE", 0).rows.len(), PARTITIONS as usize + 1);
    assert_eq!(db.call("@Statistics", ("LIVECLIENTS", 0i32)).tables.len(), 2);
    db.fails("@AdHoc", ("SELECT nothing FROM votes",), Status::GracefulFailure, "nothing");
    let planner = statistics(&db, "PLANNER", 0);
    let of = |name: &str| planner.rows[0][planner.column_index(name).expect("a column")].clone();
    let OwnedValue::Integer(failures) = of("FAILURES") else { panic!("{planner:?}") };
    let OwnedValue::Integer(slowest) = of("PLAN_TIME_MAX") else { panic!("{planner:?}") };
    assert!(failures == 1 && slowest > 0, "{planner:?}");
    assert_eq!(db.call("@Statistics", ("MANAGEMENT", 0i32)).tables.len(), 9);
    let log = statistics(&db, "COMMANDLOG", 0);
    let of = |name: &str| log.rows[0][log.column_index(name).expect("a column")].clone();
    assert_eq!(of("IN_USE_SEGMENT_COUNT"), OwnedValue::Integer(1), "{log:?}");
    assert!(matches!(of("SEGMENT_COUNT"), OwnedValue::Integer(1..)), "{log:?}");
    server.stop().expect("the log is closed");
}

#[test]
fn figures_can_be_queried() {
    let (_dir, server, db) = voter();
    for phone in 0..50i64 {
        db.call("Vote", (5_550_000_000 + phone, 1i32, 2i64));
    }
    let query = |text: &str| db.call("@QueryStats", (text,)).tables.swap_remove(0);
    let votes = query(
        "SELECT procedure, SUM(invocations) AS calls FROM statistics(procedure, 0) WHERE procedure = 'Vote' GROUP BY procedure",
    );
    assert_eq!(votes.columns, [("PROCEDURE".to_owned(), SqlType::Varchar), ("CALLS".to_owned(), SqlType::Bigint)]);
    assert_eq!(votes.rows, [[OwnedValue::Text("Vote".into()), OwnedValue::Integer(50)]]);
    // Columns have the types that @Statistics gives them, also where there are no rows.
    for selector in ["TABLE", "INDEX", "MEMORY", "INITIATOR", "IDLETIME", "TASK", "SNAPSHOTSTATUS", "EXPORT"] {
        let columns = query(&format!("SELECT * FROM statistics({selector}, 0) AS figures LIMIT 3")).columns;
        assert_eq!(columns, statistics(&db, selector, 0).columns, "{selector}");
    }
    let rows = query(
        "SELECT t.table_name, SUM(t.tuple_count) FROM statistics(TABLE,0) t JOIN statistics('PARTITIONCOUNT') p ON p.partition_count = 3 \
         WHERE t.table_name = 'VOTES' GROUP BY t.table_name",
    );
    assert_eq!(rows.rows, [[OwnedValue::Text("VOTES".into()), OwnedValue::Integer(50)]]);
    db.fails(
        "@QueryStats",
        ("SELECT nosuch FROM statistics(MEMORY, 0)",),
        Status::GracefulFailure,
        "at line 1, column 8",
    );
    let told = db.call("@UpdateLogging", ("<configuration/>",));
    assert!(told.status_text.is_some_and(|words| words.contains("no loggers to set")));
    server.stop().expect("the log is closed");
}

#[test]
fn a_paused_server_reads_and_a_stopping_one_does_neither() {
    let (_dir, server, db) = voter();
    db.call("@Pause", ());
    let paused = "Server is paused and is available in read-only mode";
    assert_eq!(db.scalar("SELECT COUNT(*) FROM contestants"), 2);
    for _ in 0..3 {
        // By plan, and by cached plan.
        db.fails("@AdHoc", ("INSERT INTO contestants VALUES (8, 'late')",), Status::ServerUnavailable, paused);
    }
    db.fails("Vote", (5_550_000_000i64, 1i32, 2i64), Status::ServerUnavailable, paused);
    db.fails("CONTESTANTS.insert", (9i32, "late"), Status::ServerUnavailable, paused);
    db.fails("@AdHoc", ("DROP TABLE votes",), Status::ServerUnavailable, paused);
    db.fails("@SwapTables", ("votes", "contestants"), Status::ServerUnavailable, paused);
    db.call("@Resume", ());
    db.call("CONTESTANTS.insert", (9i32, "in time"));
    db.call("@PrepareShutdown", ());
    db.fails("@AdHoc", ("SELECT COUNT(*) FROM votes",), Status::ServerUnavailable, "Server is shutting down.");
    db.fails("Vote", (5_550_000_000i64, 1i32, 2i64), Status::ServerUnavailable, "Server is shutting down.");
    db.call("@Quiesce", ());
    db.call("@CancelShutdown", ());
    db.call("Vote", (5_550_000_000i64, 1i32, 2i64));
    db.fails("@Shutdown", (), Status::UnexpectedFailure, "cannot be stopped by a call");
    server.stop().expect("the log is closed");
}

fn encoded(rows: &[[Value<'_>; 2]]) -> Vec<u8> {
    let header = TableHeader::new([("ID", SqlType::Bigint), ("NAME", SqlType::Varchar)]);
    let mut out = Vec::new();
    let mut table = TableWriter::begin(&mut out, &header);
    rows.iter().for_each(|row| table.row(row).expect("a small row"));
    table.finish();
    out.split_off(4)
}

#[test]
fn bulk_loads_are_all_or_nothing() {
    let (_dir, server, db) = voter();
    db.sql(
        "CREATE TABLE here (id BIGINT NOT NULL, name VARCHAR(5), PRIMARY KEY (id)); PARTITION TABLE here ON COLUMN id;
            CREATE TABLE all_over (id BIGINT NOT NULL, name VARCHAR(5), PRIMARY KEY (id))",
    );
    let keys = db.call("@GetPartitionKeys", ("INTEGER",));
    let keys: Vec<i64> = keys.tables[0]
        .rows
        .iter()
        .map(|row| if let OwnedValue::Integer(key) = row[1] { key } else { panic!() })
        .collect();
    let key = keys[0].to_le_bytes();
    let load = |key: &[u8], upsert: i8, rows: &[u8]| {
        db.0.call_blocking("@LoadSinglepartitionTable", (Value::Bytes(key), "here", upsert, Value::Table(rows)))
    };
    let one = encoded(&[[Value::Integer(keys[0]), Value::Text("one")]]);
    assert_eq!(load(&key, 0, &one).expect("one row").scalar(), Some(1));
    // There already; too long; another partition's: nothing of the call stays.
    for second in [[Value::Integer(keys[0]), Value::Null], [Value::Integer(keys[1]), Value::Null]] {
        assert!(load(&key, 0, &encoded(&[second])).is_err());
    }
    // Without a key at all, as a loader finds it in an empty field: the column is what is told.
    let keyless = encoded(&[[Value::Null, Value::Text("none")]]);
    let keyless = (Value::Null, "here", 0i8, Value::Table(&keyless));
    db.fails("@LoadSinglepartitionTable", keyless, Status::GracefulFailure, "NOT_NULL");
    let replaced = encoded(&[[Value::Integer(keys[0]), Value::Text("two")]]);
    assert_eq!(load(&key, 1, &replaced).expect("an upsert").scalar(), Some(1));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM here WHERE name = 'two'"), 1);
    let broken = encoded(&[[Value::Integer(70), Value::Text("fits")], [Value::Integer(71), Value::Text("does not")]]);
    let everywhere =
        |rows: &[u8]| db.0.call_blocking("@LoadMultipartitionTable", ("ALL_OVER", 0i8, Value::Table(rows)));
    assert!(everywhere(&broken).is_err());
    assert_eq!(db.scalar("SELECT COUNT(*) FROM all_over"), 0);
    assert_eq!(everywhere(&replaced).expect("one row").scalar(), Some(1));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM all_over"), 1);
    assert!(everywhere(&replaced[..replaced.len() - 1]).is_err(), "a table that is cut off");
    db.fails("@LoadMultipartitionTable", ("here", 0i8, Value::Table(&one)), Status::GracefulFailure, "is partitioned");
    db.fails(
        "@LoadMultipartitionTable",
        ("nosuch", 0i8, Value::Table(&one)),
        Status::GracefulFailure,
        "object not found: nosuch",
    );
    server.stop().expect("the log is closed");
}

/// What no text and no computation can be comes in by no other door either: a dump with it could
/// not be loaded.
#[test]
fn no_door_lets_in_what_is_no_number_or_no_time() {
    let (_dir, server, db) = voter();
    db.sql(
        "CREATE TABLE alone (id BIGINT NOT NULL, f FLOAT, t TIMESTAMP, PRIMARY KEY (id)); PARTITION TABLE alone ON COLUMN id;
            CREATE TABLE everywhere (id BIGINT NOT NULL, f FLOAT, t TIMESTAMP, PRIMARY KEY (id));
            CREATE PROCEDURE among AS SELECT COUNT(*) FROM everywhere WHERE f IN ?",
    );
    let header = TableHeader::new([("ID", SqlType::Bigint), ("F", SqlType::Float), ("T", SqlType::Timestamp)]);
    let one = |f: f64, t: i64| {
        let mut out = Vec::new();
        let mut table = TableWriter::begin(&mut out, &header);
        table.row(&[Value::Integer(1), Value::Float(f), Value::Timestamp(t)]).expect("a small row");
        table.finish();
        out.split_off(4)
    };
    let key = 1i64.to_le_bytes();
    let before_1583 = -62_135_596_800_000_000;
    for (f, t, words) in [
        (f64::NAN, 0, "NaN is not a FLOAT of SQL"),
        (f64::INFINITY, 0, "Infinity is not a FLOAT of SQL"),
        (0.0, before_1583, "is not between 1583-01-01 and 9999-12-31"),
    ] {
        let rows = one(f, t);
        for upsert in [0i8, 1] {
            let alone = (Value::Bytes(&key), "alone", upsert, Value::Table(&rows));
            db.fails("@LoadSinglepartitionTable", alone, Status::GracefulFailure, words);
            let everywhere = ("everywhere", upsert, Value::Table(&rows));
            db.fails("@LoadMultipartitionTable", everywhere, Status::GracefulFailure, words);
        }
        let row = (1i64, f, Value::Timestamp(t));
        db.fails("ALONE.insert", row, Status::GracefulFailure, words);
        db.fails("EVERYWHERE.upsert", row, Status::GracefulFailure, words);
        let adhoc = ("INSERT INTO everywhere VALUES (?, ?, ?)", 1i64, f, Value::Timestamp(t));
        db.fails("@AdHoc", adhoc, Status::GracefulFailure, words);
    }
    for f in [f64::NAN, f64::INFINITY] {
        let words = "is not a FLOAT of SQL";
        db.fails("among", (Value::Array(&[Value::Float(1.0), Value::Float(f)]),), Status::GracefulFailure, words);
        db.fails("@AdHoc", ("SELECT ? + f FROM everywhere", f), Status::GracefulFailure, words);
    }
    assert_eq!(db.scalar("SELECT COUNT(*) FROM alone") + db.scalar("SELECT COUNT(*) FROM everywhere"), 0);
    // The doubles from -1.7E308 down are the NULL of the protocol.
    let null = one(f64::NEG_INFINITY, 0);
    assert!(db.0.call_blocking("@LoadMultipartitionTable", ("everywhere", 0i8, Value::Table(&null))).is_ok());
    assert_eq!(db.scalar("SELECT COUNT(*) FROM everywhere WHERE f IS NULL"), 1);
    server.stop().expect("the log is closed");
}

#[test]
fn swapped_tables_keep_their_names_and_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql("CREATE TABLE a (id BIGINT NOT NULL, v INTEGER, PRIMARY KEY (id)); PARTITION TABLE a ON COLUMN id; CREATE INDEX a_v ON a (v);
            CREATE TABLE b (id BIGINT NOT NULL, v INTEGER, PRIMARY KEY (id)); PARTITION TABLE b ON COLUMN id; CREATE INDEX b_v ON b (v);
            CREATE TABLE viewed (id BIGINT NOT NULL, v INTEGER, PRIMARY KEY (id)); PARTITION TABLE viewed ON COLUMN id;
            CREATE INDEX viewed_v ON viewed (v); CREATE VIEW totals AS SELECT v, COUNT(*) FROM viewed GROUP BY v;
            CREATE TABLE odd (id BIGINT NOT NULL, w INTEGER);
            CREATE PROCEDURE of_a PARTITION ON TABLE a COLUMN id AS SELECT v FROM a WHERE id = ?");
    for id in 0..20i64 {
        db.call("A.insert", (id, 1i32));
    }
    db.call("B.insert", (100i64, 2i32));
    let answer = db.call("@SwapTables", ("a", "B"));
    assert_eq!(answer.scalar(), Some(21), "{}", text_of(&answer));
    let check = |db: &Db| {
        assert_eq!((db.scalar("SELECT COUNT(*) FROM a"), db.scalar("SELECT COUNT(*) FROM b WHERE v = 1")), (1, 20));
        assert_eq!(integers(&db.call("of_a", (100i64,))), [2]);
        assert!(db.call("of_a", (5i64,)).tables[0].rows.is_empty());
    };
    check(&db);
    db.fails("@SwapTables", ("a", "viewed"), Status::GracefulFailure, "VIEWED is referenced in views (TOTALS)");
    db.fails("@SwapTables", ("a", "odd"), Status::GracefulFailure, "one table is partitioned and the other is not");
    db.fails("@SwapTables", ("a", "nosuch"), Status::GracefulFailure, "object not found");
    server.stop().expect("the log is closed");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    check(&db);
    db.sql("CREATE TABLE c (id BIGINT NOT NULL, v INTEGER, PRIMARY KEY (id)); PARTITION TABLE c ON COLUMN id; CREATE INDEX c_v ON c (v)");
    // One of them is dropped by the same change.
    let answer = db.call("@AdHoc", ("SWAP TABLE c WITH b; DROP TABLE c",));
    assert_eq!((answer.scalar(), db.scalar("SELECT COUNT(*) FROM b")), (Some(20), 0));
    db.sql("DROP INDEX a_v");
    db.call("@SwapTables", ("a", "a"));
    server.stop().expect("the log is closed");
}

#[test]
fn a_statement_for_one_partition_sees_that_one_only() {
    let (_dir, server, db) = voter();
    for phone in 0..90i64 {
        db.call("Vote", (5_550_000_000 + phone, 1i32, 2i64));
    }
    let here: Vec<i64> = integers(&db.call("@GetPartitionKeys", ("INTEGER",)))
        .iter()
        .enumerate()
        .map(|(index, _)| {
            let keys = db.call("@GetPartitionKeys", ("INTEGER",));
            let OwnedValue::Integer(key) = keys.tables[0].rows[index][1] else { panic!("not a key") };
            let text = "SELECT COUNT(*) FROM votes WHERE phone_number > ?";
            db.call("@AdHocSpForTest", (text, key, 0i64)).scalar().expect("a count")
        })
        .collect();
    assert!(here.iter().all(|count| (1..90).contains(count)), "{here:?}");
    assert_eq!(here.iter().sum::<i64>(), 90);
    server.stop().expect("the log is closed");
}

#[test]
fn what_is_not_there_says_so() {
    let (_dir, server, db) = voter();
    for procedure in ["@UpdateApplicationCatalog", "@ValidatePartitioning", "@JStack"] {
        db.fails(procedure, (), Status::GracefulFailure, "is not supported");
    }
    db.fails("@Nosuch", (), Status::UnexpectedFailure, "Procedure @Nosuch was not found");
    db.fails("@ExplainView", ("votes",), Status::GracefulFailure, "is not a view");
    db.call("@ExplainView", ("v_votes_by_phone_number",));
    let schema = db.call("@ExplainCatalog", ());
    assert_eq!(schema.tables[0].rows, db.call("@SystemCatalog", ("DDL",)).tables[0].rows);
    db.fails("@ExplainCatalog", ("votes",), Status::GracefulFailure, "EXPECTS 0");
    db.call("@Note", ("a note\nof two lines",));
    db.fails("@Note", (), Status::GracefulFailure, "takes a string");
    server.stop().expect("the log is closed");
}
