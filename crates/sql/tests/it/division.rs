//! What each group does of a program that several groups run together, and which programs they
//! cannot.

use crate::common::catalog_of;
use ferrite_catalog::Catalog;
use ferrite_plan::{Program, Share, divide};
use ferrite_sql::{compile_adhoc, compile_procedure, parse_batch};

const SCHEMA: &str = "
    CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(20), n INTEGER); PARTITION TABLE t ON COLUMN k;
    CREATE TABLE u (k BIGINT NOT NULL, n INTEGER); PARTITION TABLE u ON COLUMN k;
    CREATE TABLE r (k INTEGER NOT NULL PRIMARY KEY, v VARCHAR(20));
    CREATE PROCEDURE transfer AS BEGIN
        UPDATE t SET n = n - ? WHERE k = ?;
        UPDATE t SET n = n + ? WHERE k = ?;
        INSERT INTO r VALUES (?, 'moved');
    END;
    CREATE PROCEDURE checks(a BIGINT) AS BEGIN
        DECLARE x INTEGER;
        SELECT n INTO x FROM t WHERE k = a;
        IF x > 0 THEN UPDATE t SET n = 0 WHERE k = a + 1; END IF;
    END";

fn shares(program: &Program, catalog: &Catalog) -> String {
    let partitioned = |id| catalog.tables.values().any(|table| table.id == id && table.is_partitioned());
    match divide(program, &partitioned) {
        Ok(shares) => {
            let word = |share: &Share| match share {
                Share::Owner { .. } => "owner",
                Share::Any => "any",
                Share::Rows => "rows",
                Share::Same => "same",
            };
            shares.iter().map(word).collect::<Vec<_>>().join(" ")
        }
        Err(why) => match why.statement {
            Some(statement) => format!("not {}: {}", statement + 1, why.reason),
            None => format!("not: {}", why.reason),
        },
    }
}

#[test]
fn statements_have_their_shares() {
    let catalog = catalog_of(SCHEMA);
    let expected = [
        ("SELECT * FROM t WHERE k = 5", "owner"),
        ("SELECT * FROM t JOIN u ON t.k = u.k WHERE t.k = 5", "owner"),
        ("SELECT v FROM r", "any"),
        ("SELECT 1", "any"),
        ("SELECT COUNT(*) FROM t", "not 1: it reads rows of several groups"),
        ("SELECT n FROM t WHERE k IN (1, 2)", "not 1: it reads rows of several groups"),
        ("INSERT INTO t VALUES (1, 'a', 1)", "owner"),
        ("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)", "rows"),
        ("INSERT INTO r VALUES (1, 'a')", "same"),
        ("UPSERT INTO r VALUES (1, 'a')", "same"),
        (
            "INSERT INTO t SELECT k, v, 0 FROM r",
            "not 1: it inserts the rows of a query, which may belong to other groups than those that have them",
        ),
        ("UPDATE t SET n = n + 1", "rows"),
        ("UPDATE t SET n = 0 WHERE k IN (1, 2)", "rows"),
        (
            "UPDATE t SET n = 0 WHERE n = (SELECT MAX(k) FROM r)",
            "not 1: it has a subquery, which may need rows of other groups",
        ),
        ("UPDATE r SET v = 'x' WHERE k = 1", "same"),
        ("DELETE FROM t WHERE n < 0", "rows"),
        ("DELETE FROM u WHERE n < 0", "rows"),
        ("DELETE FROM r", "same"),
        ("TRUNCATE TABLE t", "rows"),
        ("TRUNCATE TABLE r", "same"),
        ("UPDATE t SET n = 0 WHERE k = 1; UPDATE t SET n = 1 WHERE k = 2; SELECT v FROM r", "owner owner any"),
        ("UPDATE t SET n = 0 WHERE k = 1; SELECT COUNT(*) FROM u", "not 2: it reads rows of several groups"),
    ];
    for (text, expected) in expected {
        let statements = parse_batch(text).expect("it parses");
        let program = compile_adhoc(&catalog, &statements, 0).expect("it compiles");
        assert_eq!(shares(&program, &catalog), expected, "{text}");
    }
}

#[test]
fn procedures_have_them_where_no_statement_needs_the_result_of_another() {
    let catalog = catalog_of(SCHEMA);
    let expected =
        [("transfer", "owner owner same"), ("checks", "not: its body decides what to do by what it has read")];
    for (name, expected) in expected {
        let procedure = catalog.procedures.values().find(|procedure| procedure.name.eq_ignore_ascii_case(name));
        let program = compile_procedure(&catalog, procedure.expect("it was created")).expect("it compiles");
        assert_eq!(shares(&program, &catalog), expected, "{name}");
    }
}

#[test]
fn what_touches_a_replicated_table_is_known_whichever_way_it_takes() {
    let catalog = catalog_of(SCHEMA);
    let is_replicated = |id| catalog.tables.values().any(|table| table.id == id && !table.is_partitioned());
    let touches = |text: &str| {
        let program = compile_adhoc(&catalog, &parse_batch(text).expect("it parses"), 0).expect("it compiles");
        ferrite_plan::touches(&program, &is_replicated)
    };
    for text in [
        "SELECT v FROM r",
        "SELECT t.n FROM t JOIN r ON t.v = r.v WHERE t.k = 1",
        "SELECT n FROM t WHERE k = 1 AND n IN (SELECT k FROM r)",
        "SELECT n, (SELECT MAX(k) FROM r) FROM t WHERE k = 1",
        "SELECT x.k FROM (SELECT k FROM r) x",
        "WITH w AS (SELECT k FROM r) SELECT a.k FROM w a JOIN w b ON a.k = b.k",
        "SELECT k FROM t WHERE k = 1 UNION ALL SELECT k FROM r",
        "INSERT INTO r VALUES (1, 'a')",
        "INSERT INTO t SELECT k, v, 0 FROM r",
        "UPDATE r SET v = 'b'",
        "UPDATE t SET n = r.k FROM r WHERE t.v = r.v AND t.k = 1",
        "DELETE FROM r",
        "DELETE FROM t WHERE k = 1 AND EXISTS (SELECT 1 FROM r WHERE r.v = t.v)",
        "TRUNCATE TABLE r",
        "EXPLAIN ANALYZE SELECT v FROM r",
    ] {
        assert!(touches(text), "{text}");
    }
    for text in ["SELECT 1", "SELECT * FROM t JOIN u ON t.k = u.k WHERE t.k = 5", "UPDATE t SET n = 0 WHERE k = 1"] {
        assert!(!touches(text), "{text}");
    }
}
