//! The limits that are set on what clients send and get: at each of them a server does what it is
//! asked, one past it the server names the setting. What was accepted under larger settings stays.

use crate::common::raw::Raw;
use crate::common::{Db, connect, options, start, text_of};
use ferrite_base::settings::FRAME_BYTES_LEAST;
use ferrite_base::{Settings, SqlLimits};
use ferrite_client::{ClientError, OwnedResponse};
use ferrite_node::{Server, ServerOptions};
use ferrite_value::OwnedValue;
use std::path::Path;

type Answer = Result<OwnedResponse, ClientError>;

fn sql(db: &Db, text: &str) -> Answer {
    db.0.call_blocking("@AdHoc", (text,))
}

fn list(count: usize, separator: &str, piece: impl Fn(usize) -> String) -> String {
    (1..=count).map(piece).collect::<Vec<_>>().join(separator)
}

fn opened(dir: &Path, settings: Settings) -> (Server, Db) {
    let server = start(ServerOptions { settings, ..options(dir, 1) });
    let db = connect(&server);
    (server, db)
}

/// A limit by its name, the least that it can be set to or somewhat more, and what asks for so much
/// of it.
struct Case(&'static str, usize, fn(&Db, usize) -> Answer);

const STATEMENT_BYTES: usize = 4_096;
const FEW: usize = 9;
const VALUE_BYTES: usize = 1_000;
const ROW_BYTES: usize = 2_048;
const RESULT_BYTES: usize = 1 << 20;

fn small() -> Settings {
    let sql = SqlLimits {
        value_bytes: VALUE_BYTES,
        row_bytes: ROW_BYTES,
        statement_bytes: STATEMENT_BYTES,
        statements: FEW,
        parameters: FEW,
    };
    Settings { sql, frame_bytes: FRAME_BYTES_LEAST, result_bytes: RESULT_BYTES, ..Settings::default() }
}

const SQL_CASES: &[Case] = &[
    Case("value-bytes", VALUE_BYTES, |db, bytes| sql(db, &format!("CREATE TABLE value{bytes} (a VARBINARY({bytes}))"))),
    Case("value-bytes", VALUE_BYTES / 4, |db, characters| {
        sql(db, &format!("CREATE STREAM stream{characters} (a VARCHAR({characters}))"))
    }),
    Case("value-bytes", VALUE_BYTES, |db, bytes| {
        sql(db, &format!("ALTER TABLE wide ADD COLUMN c{bytes} VARCHAR({bytes} BYTES)"))
    }),
    Case("row-bytes", ROW_BYTES, |db, bytes| {
        let half = bytes - 1_000;
        sql(
            db,
            &format!(
                "CREATE TABLE row{bytes} (a VARBINARY({}), b VARBINARY({}), c VARBINARY(1000))",
                half / 2,
                half.div_ceil(2)
            ),
        )
    }),
    Case("row-bytes", ROW_BYTES, |db, bytes| {
        // Its BIGINT and the column of the case above are there.
        let more = bytes - 8 - VALUE_BYTES;
        sql(
            db,
            &format!(
                "ALTER TABLE wide ADD COLUMN d{bytes} VARBINARY({}); ALTER TABLE wide ADD COLUMN e{bytes} VARBINARY({})",
                more / 2,
                more.div_ceil(2)
            ),
        )
    }),
    Case("statement-bytes", STATEMENT_BYTES, |db, bytes| sql(db, &format!("{:bytes$}", "SELECT id FROM one"))),
    Case("statement-bytes", STATEMENT_BYTES, |db, bytes| {
        db.0.call_blocking("@Explain", (format!("{:bytes$}", "SELECT id FROM one").as_str(),))
    }),
    Case("statements", FEW, |db, statements| {
        sql(db, &list(statements, "; ", |_| "DELETE FROM one WHERE id = 2".to_owned()))
    }),
    Case("statements", FEW, |db, statements| {
        sql(db, &list(statements, "; ", |number| format!("CREATE TABLE batch{statements}_{number} (a BIGINT)")))
    }),
    Case("statements", FEW, |db, statements| {
        // The declaration counts, as does the RETURN.
        let body = list(statements - 2, " ", |_| "SET a = 1;".to_owned());
        sql(db, &format!("CREATE PROCEDURE long{statements} AS BEGIN DECLARE a BIGINT; {body} RETURN a; END"))
    }),
    Case("parameters", FEW, |db, parameters| {
        let mut given = vec![OwnedValue::Integer(1); parameters];
        let marks = list(parameters, ", ", |_| "?".to_owned());
        given.insert(0, OwnedValue::Text(format!("SELECT id FROM one WHERE id IN ({marks})").into()));
        db.0.call_blocking("@AdHoc", given)
    }),
    Case("parameters", FEW, |db, parameters| {
        let marks = list(parameters, ", ", |_| "?".to_owned());
        sql(db, &format!("CREATE PROCEDURE marks{parameters} AS SELECT id FROM one WHERE id IN ({marks})"))
    }),
    Case("parameters", FEW, |db, parameters| {
        let names = list(parameters, ", ", |number| format!("p{number} BIGINT"));
        sql(db, &format!("CREATE PROCEDURE names{parameters} ({names}) AS BEGIN RETURN p1; END"))
    }),
    Case("parameters", FEW, |db, parameters| {
        let values = list(parameters, ", ", |number| number.to_string());
        let names = list(parameters, ", ", |number| format!("p{number} BIGINT"));
        // As many as the task has, where the procedure may have them.
        sql(
            db,
            &format!(
                "CREATE PROCEDURE work{parameters} ({names}) AS BEGIN RETURN p1; END; CREATE TASK task{parameters} ON SCHEDULE EVERY 1 HOURS PROCEDURE work{parameters} WITH ({values}) DISABLE"
            ),
        )
    }),
];

/// Limits that calls alone do not reach: the test that sets them, and how.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("frame-bytes", "settings.rs", "frame_bytes: FRAME_BYTES_LEAST"),
    ("result-bytes", "settings.rs", "result_bytes: RESULT_BYTES"),
    ("temporary-bytes", "two_servers.rs", "temporary_bytes: LITTLE"),
    ("transaction-bytes", "two_servers.rs", "transaction_bytes: LITTLE"),
    ("connection-outstanding-calls", "connection_limits.rs", "connection_outstanding_calls: MOST"),
    ("connection-outstanding-bytes", "connection_limits.rs", "connection_outstanding_bytes: MOST * bytes"),
    ("node-outstanding-calls", "connection_limits.rs", "node_outstanding_calls: MOST"),
    ("node-outstanding-bytes", "connection_limits.rs", "node_outstanding_bytes: MOST * bytes"),
    ("connections", "connection_limits.rs", "limits.connections_max = MOST"),
    ("connection-unread-seconds", "connection_limits.rs", "limits.unread_time_max ="),
    ("connection-answer-bytes", "connection_limits.rs", "limits.unread_bytes_max = MOST"),
    ("login-seconds", "connection_limits.rs", "limits.login_time_max ="),
    ("frame-seconds", "connection_limits.rs", "limits.frame_time_max ="),
    ("compound-calls", "compound.rs", "compound_calls: 3"),
    ("compound-stage-calls", "compound.rs", "compound_stage_calls: 2"),
    ("compound-seconds", "compound.rs", "compound_seconds: 1"),
    ("schema-seconds", "schema_time.rs", "Settings { schema_seconds,"),
    ("stop-seconds", "stop.rs", "Settings { stop_seconds,"),
];

#[test]
fn every_setting_is_tried_at_a_value_of_its_own() {
    for name in Settings::names() {
        let of_calls = SQL_CASES.iter().any(|Case(tried, ..)| *tried == name);
        let elsewhere = ELSEWHERE.iter().find(|(tried, ..)| *tried == name);
        assert!(of_calls != elsewhere.is_some(), "--limit {name} is tried once: in SQL_CASES or ELSEWHERE");
        if let Some((_, file, words)) = elsewhere {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server").join(file);
            let text = std::fs::read_to_string(&path).expect("a test's source");
            // The list above is none of the places.
            let places = text.matches(words).count() - usize::from(*file == "settings.rs");
            assert!(places > 0, "--limit {name}: {file} does not set it with {words}");
        }
    }
    let names = Settings::names();
    let unknown = SQL_CASES.iter().map(|Case(name, ..)| name).chain(ELSEWHERE.iter().map(|(name, ..)| name));
    assert_eq!(unknown.filter(|name| !names.contains(name)).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn what_is_set_is_in_force_and_takes_nothing_back() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = opened(dir.path(), small());
    db.sql("CREATE TABLE one (id BIGINT NOT NULL, PRIMARY KEY (id)); CREATE TABLE wide (id BIGINT NOT NULL);");
    db.sql("CREATE PROCEDURE take (bytes VARBINARY(1048576)) AS BEGIN RETURN 1; END");
    db.sql("INSERT INTO one VALUES (1)");
    let mut faults = Vec::new();
    for Case(name, most, ask) in SQL_CASES {
        if let Err(error) = ask(&db, *most) {
            faults.push(format!("{name}: at the limit of {most}: {error:.300}"));
        }
        match ask(&db, most + 1) {
            Err(ClientError::Failed(response)) if text_of(&response).contains(&format!("--limit {name}")) => {}
            other => faults.push(format!("{name}: one past the limit of {most}: {other:.300?}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    let mut raw = Raw::connect(server.address());
    // A result of exactly so many bytes: what is around the text has always the same size.
    let text = |bytes: usize| format!("SELECT REPEAT('x', 500000), REPEAT('y', {bytes}) FROM one");
    raw.call("@AdHoc", 1, &(text(10).as_str(),));
    let around = raw.frame().expect("an answer").len() + 4 - 10;
    for (bytes, fits) in [(RESULT_BYTES - around, true), (RESULT_BYTES - around + 1, false)] {
        raw.call("@AdHoc", 2, &(text(bytes).as_str(),));
        let (_, status, said) = raw.answer().expect("an answer");
        assert_eq!(status == 1, fits, "a result of {bytes} bytes and {around} around them: {said}");
        assert_eq!(said.contains(&format!("larger than {RESULT_BYTES} bytes (--limit result-bytes)")), !fits, "{said}");
    }

    // A call of exactly so many bytes; the connection goes on behind one that is refused, with what
    // was sent in one piece with it.
    let around = crate::common::raw::call("take", 3, &(&[0u8; 10][..],)).len() - 4 - 10;
    for past in [0, 1, 700_000] {
        let bytes = vec![7u8; FRAME_BYTES_LEAST - around + past];
        let mut calls = crate::common::raw::call("take", 3, &(&bytes[..],));
        calls.extend(crate::common::raw::call("@Ping", 4, &()));
        raw.send(&calls);
        // A ping is answered before a call that waits for its partition.
        let mut answers = [raw.answer().expect("an answer"), raw.answer().expect("the connection goes on")];
        answers.sort();
        let [(handle, status, said), (ping, _, _)] = answers;
        assert_eq!((handle, status == 1, ping), (3, past == 0, 4), "{past} bytes past the limit: {said}");
        let more = format!("more than the {FRAME_BYTES_LEAST} that one may have");
        assert!(past == 0 || said.contains(&more) && said.contains("--limit frame-bytes"), "{said}");
    }
    server.stop().expect("the log is closed");
}

/// Larger settings than there are without; then the least ones, to which nothing is lost.
#[test]
fn what_was_accepted_under_larger_settings_stays() {
    const PARAMETERS: usize = 5_000;
    const STATEMENTS: usize = 12_000;
    const COLUMN_BYTES: usize = 1 << 20;
    const COLUMNS: usize = 6;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sql = SqlLimits::CEILING;
    let (server, db) = opened(dir.path(), Settings { sql, ..Settings::default() });
    let columns = list(COLUMNS, ", ", |number| format!("c{number} VARBINARY({COLUMN_BYTES})"));
    db.sql(&format!("CREATE TABLE large (id BIGINT NOT NULL, {columns}, PRIMARY KEY (id))"));
    db.sql("CREATE TABLE other (a VARBINARY(1048576))");
    let marks = list(PARAMETERS, ", ", |_| "?".to_owned());
    db.sql(&format!("CREATE PROCEDURE many AS SELECT id FROM large WHERE id IN ({marks})"));
    let body = "SET a = a + 1; ".repeat(STATEMENTS);
    db.sql(&format!("CREATE PROCEDURE long AS BEGIN DECLARE a BIGINT DEFAULT 0; {body} RETURN a; END"));
    let padding = " ".repeat(2 << 20);
    db.sql(&format!("CREATE PROCEDURE padded AS SELECT id FROM large WHERE {padding} id = 1"));
    let row = |id: i64| {
        let mut row = vec![OwnedValue::Integer(id)];
        row.extend((0..COLUMNS).map(|column| OwnedValue::Bytes(vec![column as u8; COLUMN_BYTES].into())));
        row
    };
    db.call("LARGE.insert", row(1));
    let given = || -> Vec<OwnedValue> { (0..PARAMETERS as i64).map(OwnedValue::Integer).collect() };
    let check = |db: &Db, rows: i64| {
        let response = db.sql("SELECT * FROM large WHERE id = 1");
        assert_eq!(response.tables[0].rows[0], row(1));
        assert_eq!(db.call("many", given()).tables[0].rows.len() as i64, rows);
        assert_eq!(db.call("long", ()).scalar(), Some(STATEMENTS as i64));
        assert_eq!(db.call("padded", ()).scalar(), Some(1));
    };
    check(&db, 1);
    server.stop().expect("the log is closed");

    // From the log, and then from a snapshot, with the least settings; results must be allowed to
    // be as large as before.
    let least = || Settings { result_bytes: Settings::default().result_bytes, ..small() };
    let (server, db) = opened(dir.path(), least());
    check(&db, 1);
    db.call("LARGE.insert", {
        let mut short = row(2);
        short[1..].fill(OwnedValue::Null);
        short
    });
    // It may become smaller, and be changed otherwise, and not become larger.
    db.sql(&format!("ALTER TABLE large DROP COLUMN c{COLUMNS}"));
    let refused = db.fail("@AdHoc", ("ALTER TABLE large ADD COLUMN more VARBINARY(5)",));
    assert!(text_of(&refused).contains("--limit row-bytes"), "{}", text_of(&refused));
    db.sql("ALTER TABLE other ALTER COLUMN a VARBINARY(1048575)");
    db.sql("CREATE INDEX by_id ON large (id)");
    db.call("@SnapshotSave", ());
    server.stop().expect("the log is closed");
    let (server, db) = opened(dir.path(), least());
    assert_eq!(db.scalar("SELECT SUM(OCTET_LENGTH(c2)) FROM large"), COLUMN_BYTES as i64);
    assert_eq!(db.call("many", given()).tables[0].rows.len(), 2);
    server.stop().expect("the log is closed");
}
