//! The limits that a client can reach: at each of them a real server does what it is asked, one
//! past it the server says what docs/limits.md says that it says.

use crate::common::{Db, connect, options, start, text_of};
use ferrite_base::limits::*;
use ferrite_client::{ClientError, OwnedResponse};

type Answer = Result<OwnedResponse, ClientError>;

fn sql(db: &Db, text: &str) -> Answer {
    db.0.call_blocking("@AdHoc", (text,))
}

/// `count` pieces, numbered from 1, with a separator.
fn list(count: usize, separator: &str, piece: impl Fn(usize) -> String) -> String {
    (1..=count).map(piece).collect::<Vec<_>>().join(separator)
}

/// What the page says that whoever meets the limit is told, in the parts between the dots.
fn told(limit: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/limits.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| `{limit}` |")));
    let row = row.unwrap_or_else(|| panic!("docs/limits.md has no row for {limit}"));
    let cell = row.split(" | ").nth(4).expect("a row has five cells and the tests").trim_end_matches(" |");
    cell.split("...").map(|part| part.trim().to_owned()).collect()
}

/// What went otherwise than it should.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    /// Asks for `most` of something and for one more.
    fn check(&mut self, db: &Db, limit: &str, most: usize, ask: impl Fn(&Db, usize) -> Answer) {
        if let Err(error) = ask(db, most) {
            self.0.push(format!("{limit}: at the limit of {most}: {error:.500}"));
        }
        match ask(db, most + 1) {
            Err(ClientError::Failed(response)) => {
                let said = text_of(&response);
                for part in told(limit).iter().filter(|part| !said.contains(*part)) {
                    let short: String = said.chars().take(500).collect();
                    self.0.push(format!("{limit}: docs/limits.md says {part:?}, the server says {short:?}"));
                }
            }
            Err(error) => self.0.push(format!("{limit}: one past the limit of {most}: {error}")),
            Ok(_) => self.0.push(format!("{limit}: one past the limit of {most}, nothing is refused")),
        }
    }
}

#[test]
fn at_each_limit_and_one_past_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), 1));
    let db = connect(&server);
    db.sql(
        "CREATE TABLE one (id BIGINT NOT NULL, PRIMARY KEY (id));
        CREATE TABLE big (id BIGINT NOT NULL, bytes VARBINARY(1048576));
        CREATE TABLE usual (id BIGINT NOT NULL, bytes VARBINARY, text VARCHAR);
        CREATE TABLE characters (id BIGINT NOT NULL, text VARCHAR(262144));
        CREATE TABLE wide (id BIGINT NOT NULL, a BIGINT);
        CREATE PROCEDURE echo (i BIGINT, t VARCHAR, b VARBINARY) AS SELECT t, b FROM one WHERE id = i;",
    );
    db.sql("INSERT INTO one VALUES (1)");

    let mut faults = Faults::default();
    faults.check(&db, "VALUE_BYTES_MAX", VALUE_BYTES_MAX, |db, bytes| {
        db.0.call_blocking("BIG.insert", (1i64, &vec![7u8; bytes][..]))
    });
    faults.check(&db, "VALUE_BYTES_MAX", VALUE_BYTES_MAX, |db, bytes| {
        db.0.call_blocking("@AdHoc", ("INSERT INTO big VALUES (2, ?)", &vec![7u8; bytes][..]))
    });
    // Parameters come back, from statements of any kind.
    for text in
        ["SELECT ? FROM one", "SELECT COALESCE(?, ''), MAX(id) FROM one", "SELECT ? FROM one UNION ALL SELECT 'x'"]
    {
        faults.check(&db, "VALUE_BYTES_MAX", VALUE_BYTES_MAX, |db, bytes| {
            db.0.call_blocking("@AdHoc", (text, "a".repeat(bytes).as_str()))
        });
    }
    faults.check(&db, "VALUE_BYTES_MAX", VALUE_BYTES_MAX, |db, bytes| {
        db.0.call_blocking("@AdHoc", ("SELECT ? FROM one", &vec![7u8; bytes][..]))
    });
    faults.check(&db, "VALUE_BYTES_MAX", VALUE_BYTES_MAX, |db, bytes| {
        db.0.call_blocking("echo", (1i64, "a".repeat(bytes).as_str(), &b"a"[..]))
    });
    // As digits they are twice as long.
    faults.check(&db, "VALUE_BYTES_MAX", VALUE_BYTES_MAX, |db, bytes| {
        db.0.call_blocking("echo", (1i64, "a", "0a".repeat(bytes).as_str()))
    });
    faults.check(&db, "VARIABLE_LENGTH_DEFAULT", VARIABLE_LENGTH_DEFAULT as usize, |db, length| {
        db.0.call_blocking("USUAL.insert", (1i64, &vec![7u8; length][..], "é".repeat(length).as_str()))
    });
    faults.check(&db, "VARCHAR_CHARACTERS_MAX", VARCHAR_CHARACTERS_MAX as usize, |db, length| {
        db.0.call_blocking("CHARACTERS.insert", (1i64, "€".repeat(length).as_str()))
    });
    faults.check(&db, "ROW_BYTES_MAX", ROW_BYTES_MAX, |db, bytes| {
        let third = if bytes > ROW_BYTES_MAX { ", c TINYINT" } else { "" };
        let half = VALUE_BYTES_MAX;
        sql(db, &format!("CREATE TABLE rows{bytes} (a VARBINARY({half}), b VARBINARY({half}){third})"))
    });
    faults.check(&db, "TABLE_COLUMNS_MAX", TABLE_COLUMNS_MAX, |db, columns| {
        sql(
            db,
            &format!("CREATE TABLE columns{columns} ({})", list(columns, ", ", |column| format!("c{column} TINYINT"))),
        )
    });
    faults.check(&db, "TABLE_INDEXES_MAX", TABLE_INDEXES_MAX, |db, indexes| {
        let index = |number| format!("CREATE INDEX i{indexes}_{number} ON indexed{indexes} (a, id)");
        sql(
            db,
            &format!(
                "CREATE TABLE indexed{indexes} (id BIGINT NOT NULL, a BIGINT, PRIMARY KEY (id)); {}",
                list(indexes - 1, "; ", index)
            ),
        )
    });
    faults.check(&db, "INDEX_KEYS_MAX", INDEX_KEYS_MAX, |db, keys| {
        sql(db, &format!("CREATE INDEX keys{keys} ON wide ({})", list(keys, ", ", |key| format!("a + {key}"))))
    });
    faults.check(&db, "PARAMETERS_MAX", PARAMETERS_MAX, |db, parameters| {
        let marks = list(parameters, ", ", |_| "?".to_owned());
        sql(db, &format!("CREATE PROCEDURE many{parameters} AS SELECT id FROM one WHERE id IN ({marks})"))
    });
    faults.check(&db, "PARAMETERS_MAX", PARAMETERS_MAX, |db, parameters| {
        let names = list(parameters, ", ", |number| format!("p{number} BIGINT"));
        sql(db, &format!("CREATE PROCEDURE named{parameters} ({names}) AS BEGIN RETURN p1; END"))
    });
    faults.check(&db, "STATEMENT_BYTES_MAX", STATEMENT_BYTES_MAX, |db, bytes| {
        let text = "SELECT id FROM one";
        sql(db, &format!("{text}{}", " ".repeat(bytes - text.len())))
    });
    faults.check(&db, "STATEMENTS_MAX", STATEMENTS_MAX, |db, statements| {
        sql(db, &list(statements, "; ", |_| "DELETE FROM wide".to_owned()))
    });
    faults.check(&db, "STATEMENTS_MAX", STATEMENTS_MAX, |db, statements| {
        let body = list(statements, " ", |_| "SET a = 1;".to_owned());
        // The declaration counts, as does the RETURN.
        let body = body.strip_prefix("SET a = 1; SET a = 1; ").expect("there are more");
        sql(db, &format!("CREATE PROCEDURE long{statements} AS BEGIN DECLARE a BIGINT; {body} RETURN a; END"))
    });
    faults.check(&db, "NESTING_MAX", NESTING_MAX, |db, depth| {
        // Within the procedure's own block.
        let (open, close) = ("BEGIN ".repeat(depth + 1), "END; ".repeat(depth + 1));
        sql(db, &format!("CREATE PROCEDURE deep{depth} AS {open} RETURN 1; {}", close.trim_end_matches("; ")))
    });
    faults.check(&db, "JSON_NESTING_MAX", JSON_NESTING_MAX, |db, depth| {
        sql(db, &format!("SELECT ARRAY_LENGTH('{}{}') FROM one", "[".repeat(depth), "]".repeat(depth)))
    });
    faults.check(&db, "REGULAR_EXPRESSION_BYTES_MAX", 1_000, |db, repeats| {
        // How large it is when compiled is not for us to say: one that fits, and one that does not.
        let times = if repeats == 1_000 { 1 } else { 40 };
        sql(db, &format!("SELECT REGEXP_POSITION('x', '{}') FROM one", "[a-z]{1000}".repeat(times)))
    });
    faults.check(&db, "JOIN_TABLES_MAX", JOIN_TABLES_MAX, |db, tables| {
        sql(db, &format!("SELECT o1.id FROM {}", list(tables, ", ", |table| format!("one AS o{table}"))))
    });
    faults.check(&db, "COMMON_TABLES_MAX", COMMON_TABLES_MAX, |db, tables| {
        let with = list(tables, ", ", |table| format!("t{table} AS (SELECT id FROM one)"));
        sql(db, &format!("WITH {with} SELECT id FROM t1"))
    });
    faults.check(&db, "RECURSION_ROUNDS_MAX", RECURSION_ROUNDS_MAX, |db, rounds| {
        // The last round finds nothing.
        sql(
            db,
            &format!(
                "WITH RECURSIVE n (i) AS (SELECT id FROM one UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT MAX(i) FROM n",
                rounds - 1
            ),
        )
    });
    faults.check(&db, "GROUPING_SETS_MAX", GROUPING_SETS_MAX, |db, sets| {
        let more = if sets > GROUPING_SETS_MAX { ", GROUPING SETS ((), ())" } else { "" };
        let keys = list(8, ", ", |key| format!("id + {key}"));
        sql(db, &format!("SELECT COUNT(*) FROM one GROUP BY CUBE ({keys}){more}"))
    });
    faults.check(&db, "SERIES_ROWS_MAX", SERIES_ROWS_MAX as usize, |db, rows| {
        sql(db, &format!("SELECT COUNT(*) FROM GENERATE_SERIES(1, {rows})"))
    });
    faults.check(&db, "IDENTIFIER_BYTES_MAX", IDENTIFIER_BYTES_MAX, |db, bytes| {
        sql(db, &format!("CREATE TABLE {} (a BIGINT)", "n".repeat(bytes)))
    });
    faults.check(&db, "NOTE_BYTES_MAX", NOTE_BYTES_MAX, |db, bytes| {
        db.0.call_blocking("@Note", ("n".repeat(bytes).as_str(),))
    });
    assert_eq!(db.scalar("SELECT COUNT(*) FROM one"), 1, "and it goes on");
    assert!(faults.0.is_empty(), "{}", faults.0.join("\n"));
    server.stop().expect("the log is closed");
}
