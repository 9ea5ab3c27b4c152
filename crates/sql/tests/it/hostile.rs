//! Hostile texts: deep, long, broken. Each answers with a program or an error, quickly, and never
//! with a panic or a stack that runs out. Threads get a small stack on purpose.

use crate::common::{catalog_of, run};
use ferrite_base::limits;
use ferrite_catalog::Catalog;
use ferrite_sql::{bind_ddl, parse_batch};
use std::time::{Duration, Instant};

fn catalog() -> Catalog {
    catalog_of(
        "CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(20), n INTEGER); PARTITION TABLE t ON COLUMN k; \
                  CREATE TABLE r (k INTEGER NOT NULL PRIMARY KEY, v VARCHAR(20), d DECIMAL); \
                  CREATE VIEW w AS SELECT n, COUNT(*) c FROM t GROUP BY n",
    )
}

fn within_small_stack(texts: Vec<String>, expected: Option<bool>) {
    let worker = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || {
        let catalog = catalog();
        for text in texts {
            let start = Instant::now();
            let result = run(&catalog, &text);
            let shown: String = text.chars().take(60).collect();
            if let Some(expected) = expected {
                assert_eq!(result.is_ok(), expected, "{shown}: {result:?}");
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{shown} took {:?}", start.elapsed());
        }
    });
    worker.expect("a thread").join().expect("no panic");
}

#[test]
fn nesting_is_bounded() {
    let depth = 100_000;
    let repeated = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("SELECT {}{middle}{} FROM r", open.repeat(depth), close.repeat(depth))
    };
    let mut texts = vec![
        repeated("(", "1", ")", depth),
        repeated("-", " 1", "", depth),
        repeated("- ", " 1", "", depth),
        repeated("NOT ", "TRUE", "", depth),
        repeated("ABS(", "1", ")", depth),
        repeated("CASE WHEN TRUE THEN ", "1", " END", depth),
        repeated("(SELECT ", "1", ")", depth),
        format!("SELECT {} FROM r", vec!["1"; depth].join(" + ")),
        format!("SELECT * FROM r WHERE {}", vec!["k = 1"; depth].join(" OR ")),
        format!("SELECT * FROM r WHERE {}", vec!["k = 1"; depth].join(" AND ")),
        vec!["SELECT 1 FROM r"; depth / 2].join(" UNION ALL "),
        format!("SELECT * FROM {}r{}", "(".repeat(depth), ")".repeat(depth)),
        format!("SELECT * FROM r {}", "JOIN r ON TRUE ".repeat(depth / 2)),
        format!("CREATE PROCEDURE p AS BEGIN {} {} END", "BEGIN ".repeat(depth), "END; ".repeat(depth)),
        format!(
            "CREATE PROCEDURE p AS BEGIN {} {} END",
            "IF TRUE THEN ".repeat(depth / 2),
            "END IF; ".repeat(depth / 2)
        ),
        format!(
            "CREATE PROCEDURE p AS BEGIN {} {} END",
            "WHILE TRUE DO ".repeat(depth / 2),
            "END WHILE; ".repeat(depth / 2)
        ),
        format!("CREATE TABLE x (a INTEGER DEFAULT {}1{})", "(".repeat(depth), ")".repeat(depth)),
        format!("SELECT {} FROM r", vec!["a"; depth].join(".")),
        format!("SELECT CAST(1 AS {}INTEGER{}) FROM r", "ARRAY<".repeat(depth), ">".repeat(depth)),
        format!("SELECT {}1{} FROM r", "[".repeat(depth), "]".repeat(depth)),
        format!("SELECT {}1{} FROM r", "{a: ".repeat(depth), "}".repeat(depth)),
        format!("SELECT 1 {} FROM r", "IS NULL ".repeat(depth)),
        format!("SELECT 1 {} FROM r", "::INTEGER".repeat(depth)),
        format!("SELECT 1 {} FROM r", "[1]".repeat(depth)),
        format!("SELECT 1 {} FROM r", "COLLATE x ".repeat(depth)),
        format!("SELECT 1 {} FROM r", "AT TIME ZONE 'x' ".repeat(depth / 2)),
        format!("SELECT {}1 FROM r", "INTERVAL ".repeat(depth)),
        format!("{}SELECT 1 FROM r", "EXPLAIN ".repeat(depth)),
    ];
    texts.iter_mut().for_each(|text| text.truncate(limits::STATEMENT_BYTES_MAX));
    within_small_stack(texts, Some(false));
}

#[test]
fn chains_at_their_limits_and_one_past() {
    let catalog = catalog();
    let refused = |text: &str, words: &str| {
        let error = run(&catalog, text).expect_err("one past the limit").to_string();
        assert!(error.contains(words), "{error}");
    };
    // The query is a level, and so is the last term.
    let terms = limits::NESTING_MAX - 1;
    for (operator, term) in [("+", "k"), ("*", "k"), ("||", "v")] {
        let chain = |count: usize| vec![term; count].join(operator);
        run(&catalog, &format!("SELECT {} FROM r", chain(terms))).expect("at the limit");
        refused(&format!("SELECT {} FROM r", chain(terms + 1)), "nested deeper than 200 levels");
        let parts = vec![format!("({})", chain(100)); 9].join(operator);
        run(&catalog, &format!("SELECT {parts} FROM r")).expect("in parts it is flatter");
    }
    for (operator, condition) in [("AND", "k = 1"), ("OR", "k = 1")] {
        let chain = |terms: usize| vec![condition; terms].join(&format!(" {operator} "));
        // A comparison is an operator, too.
        run(&catalog, &format!("SELECT k FROM r WHERE {}", chain(limits::OPERATORS_MAX / 2))).expect("at the limit");
        let more = chain(limits::OPERATORS_MAX / 2 + 1);
        refused(&format!("SELECT k FROM r WHERE {more}"), "more than 1000 operators in one expression");
    }
    for operator in ["UNION", "UNION ALL", "EXCEPT"] {
        let chain = |operations: usize| vec!["SELECT k FROM r"; operations + 1].join(&format!(" {operator} "));
        run(&catalog, &chain(limits::SET_OPERATIONS_MAX)).expect("at the limit");
        refused(&chain(limits::SET_OPERATIONS_MAX + 1), "more than 200 set operations in one query");
    }
}

#[test]
fn what_is_within_the_limits_works() {
    let texts = vec![
        format!("SELECT {}1{} FROM r", "(".repeat(90), ")".repeat(90)),
        format!("SELECT {}1{} FROM r", "ABS(".repeat(60), ")".repeat(60)),
        format!("SELECT * FROM r WHERE {}", vec!["k = 1"; 400].join(" OR ")),
        format!("SELECT * FROM r WHERE k IN ({})", vec!["1"; 100_000].join(",")),
        format!("INSERT INTO r VALUES {}", vec!["(1, 'x', 2.5)"; 50_000].join(",")),
        vec!["SELECT * FROM r WHERE k = 1"; limits::STATEMENTS_MAX].join(";"),
        format!("SELECT 1 FROM r /* {} */", "x".repeat(900_000)),
        format!("SELECT '{}' FROM r", "\u{e9}".repeat(400_000)),
    ];
    within_small_stack(texts, Some(true));
}

#[test]
fn limits_are_enforced_one_past_them() {
    let texts = vec![
        format!("SELECT 1 FROM r{}", " ".repeat(limits::STATEMENT_BYTES_CEILING)),
        vec!["SELECT 1 FROM r"; limits::STATEMENTS_CEILING + 1].join(";"),
        format!("SELECT * FROM r WHERE k IN ({})", vec!["?"; limits::PARAMETERS_CEILING + 1].join(",")),
        format!(
            "SELECT * FROM {}",
            (0..=limits::JOIN_TABLES_MAX).map(|n| format!("r r{n}")).collect::<Vec<_>>().join(",")
        ),
        format!("CREATE TABLE {} (a INTEGER)", "x".repeat(limits::IDENTIFIER_BYTES_MAX + 1)),
        format!(
            "CREATE TABLE x ({})",
            (0..=limits::TABLE_COLUMNS_MAX).map(|n| format!("c{n} INTEGER")).collect::<Vec<_>>().join(",")
        ),
        format!("CREATE TABLE x (a VARCHAR({}))", limits::VALUE_BYTES_MAX + 1),
    ];
    within_small_stack(texts, Some(false));
    let parameters = format!("SELECT * FROM r WHERE k IN ({})", vec!["?"; limits::PARAMETERS_CEILING].join(","));
    let tables = (0..limits::JOIN_TABLES_MAX).map(|n| format!("r r{n}")).collect::<Vec<_>>().join(",");
    within_small_stack(vec![parameters, format!("SELECT * FROM {tables}")], Some(true));
}

#[test]
fn broken_texts_are_errors() {
    let texts = [
        "SELECT",
        "SELECT 'x",
        "SELECT \"x",
        "SELECT /* x",
        "\u{0}",
        "SELECT \u{202e} FROM r",
        "INSERT INTO",
        "INSERT INTO r VALUES",
        "INSERT INTO r VALUES ()",
        "UPDATE r SET",
        "DELETE FROM r OFFSET",
        "DELETE FROM r WHERE k = 1 OFFSET",
        "UPSERT",
        "CREATE",
        "CREATE PROCEDURE",
        "CREATE PROCEDURE p AS",
        "CREATE PROCEDURE p AS BEGIN",
        "CREATE PROCEDURE p AS BEGIN IF",
        "DROP",
        "CREATE PROCEDURE p AS BEGIN FOR x AS DO END FOR; END",
        "CREATE PROCEDURE p (a) AS SELECT 1",
        "CREATE INDEX i ON t ()",
        "CREATE VIEW v AS SELECT",
        "PARTITION",
        "PARTITION TABLE",
        "CREATE TABLE x (a VARCHAR(99999999999999999999))",
        "SELECT x'0'",
        "SELECT 1e999 FROM r",
        "SELECT 1.2.3 FROM r",
        "SELECT * FROM r LIMIT 99999999999999999999",
        "TRUNCATE",
        "SELECT ?1 FROM r",
        "SELECT * FROM r ORDER BY 0",
        "SELECT * FROM r GROUP BY 99999999999999999999999",
        "SELECT COUNT(DISTINCT *) FROM r",
        "SELECT * FROM r WHERE k IN ()",
        "CREATE TABLE \"\" (a INTEGER)",
        "SELECT TOP FROM r",
        "SELECT CAST(1 AS VARCHAR(0)) FROM r",
    ];
    within_small_stack(texts.iter().map(|text| text.to_string()).collect(), Some(false));
}

/// Words and pieces in random order reach deeper than random bytes.
#[test]
fn random_texts_do_no_harm() {
    const PIECES: [&str; 96] = [
        "SELECT",
        "*",
        "FROM",
        "t",
        "r",
        "w",
        "WHERE",
        "k",
        "v",
        "n",
        "d",
        "c",
        "=",
        "<",
        ">",
        "?",
        "1",
        "2.5",
        "'x'",
        "(",
        ")",
        ",",
        ";",
        "AND",
        "OR",
        "NOT",
        "IN",
        "EXISTS",
        "ANY",
        "ALL",
        "UNION",
        "EXCEPT",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "LIMIT",
        "OFFSET",
        "TOP",
        "DISTINCT",
        "COUNT(*)",
        "SUM(",
        "MIN(",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST(",
        "AS",
        "INTEGER",
        "VARCHAR(3)",
        "JOIN",
        "LEFT JOIN",
        "ON",
        "USING",
        "INSERT INTO",
        "UPSERT INTO",
        "VALUES",
        "UPDATE",
        "SET",
        "DELETE FROM",
        "TRUNCATE TABLE",
        "CREATE",
        "TABLE",
        "VIEW",
        "INDEX",
        "PROCEDURE",
        "PARTITION",
        "COLUMN",
        "BEGIN",
        "DECLARE",
        "IF",
        "END IF",
        "WHILE",
        "DO",
        "END WHILE",
        "FOR",
        "END FOR",
        "RETURN",
        "SIGNAL SQLSTATE '45000'",
        "INTO",
        "DEFAULT",
        "NULL",
        "NOT NULL",
        "PRIMARY KEY",
        "UNIQUE",
        "CHECK",
        "BETWEEN",
        "LIKE",
        "STARTS WITH",
        "IS NULL",
        "+",
        "-",
        "*",
        "/",
        ".",
    ];
    let catalog = catalog();
    bolero::check!().with_iterations(20_000).with_type::<Vec<u8>>().for_each(|bytes| {
        let mut text =
            String::from(["SELECT ", "", "CREATE PROCEDURE p AS BEGIN ", "SELECT * FROM r WHERE "][bytes.len() % 4]);
        for byte in bytes {
            text.push_str(PIECES[usize::from(*byte) % PIECES.len()]);
            text.push(' ');
        }
        let _ = run(&catalog, &text);
        let _ = run(&catalog, &String::from_utf8_lossy(bytes));
    });
}

#[test]
fn tables_of_with_windows_and_joins_do_not_multiply() {
    let chain = |count: usize, body: &dyn Fn(usize) -> String| {
        let tables: Vec<String> = (1..count).map(|number| format!("c{number} AS ({})", body(number - 1))).collect();
        tables.join(", ")
    };
    let once = |count| {
        let tables = chain(count, &|before| format!("SELECT * FROM c{before}"));
        format!("WITH c0 AS (SELECT 1 AS x), {tables} SELECT * FROM c{}", count - 1)
    };
    let twice = |count, outer: &str| {
        let tables = chain(count, &|before| format!("SELECT a.x FROM c{before} a, c{before} b"));
        format!("SELECT (WITH c0 AS (SELECT {outer} AS x), {tables} SELECT MAX(x) FROM c{}) FROM r", count - 1)
    };
    let nested = |depth: usize| {
        let open: String =
            (0..depth).map(|level| format!("(WITH c{level} AS (SELECT r.k AS x) SELECT MAX(x) + ")).collect();
        let close: String = (0..depth).rev().map(|level| format!(" FROM c{level})")).collect();
        format!("SELECT {open}1{close} FROM r")
    };
    let windows: Vec<String> = (1..1_000).map(|number| format!("w{number} AS (w{})", number - 1)).collect();
    let calls: Vec<String> = (0..900).map(|number| format!("RANK() OVER (ORDER BY k + {number})")).collect();
    let join = |count: usize, kind: &str, constraint: &str| {
        let joins: String = (1..count).map(|number| format!(" {kind} JOIN r r{number} {constraint}")).collect();
        format!("SELECT * FROM r{joins}")
    };
    let works = vec![
        once(16),
        once(90),
        twice(40, "1"),
        nested(30),
        join(60, "FULL", "USING (k)"),
        join(60, "FULL", "ON TRUE"),
        join(60, "NATURAL RIGHT", ""),
        format!("SELECT {} FROM r", calls.join(", ")),
        format!("SELECT * FROM {}r{}", "(".repeat(30), " JOIN r r1 USING (k))".to_owned() + &")".repeat(29)),
    ];
    within_small_stack(works, Some(true));
    let fails = vec![
        once(300),
        once(5_000),
        twice(40, "r.k"),
        nested(5_000),
        join(100, "FULL", "USING (k)"),
        join(20_000, "NATURAL FULL", ""),
        join(20_000, "RIGHT", "ON TRUE"),
        format!("SELECT RANK() OVER w999 FROM r WINDOW w0 AS (ORDER BY k), {}", windows.join(", ")),
        "SELECT RANK() OVER a FROM r WINDOW a AS (b), b AS (a)".to_owned(),
        format!("SELECT {} FROM r", "SUM(k) OVER (ORDER BY ".repeat(150) + "k" + &")".repeat(150)),
        format!("SELECT * FROM r WHERE {} IN (SELECT k FROM r)", "(".repeat(10_000) + "k, k" + &")".repeat(10_000)),
        format!("WITH RECURSIVE c AS (SELECT 1 AS x {}) SELECT * FROM c", "UNION SELECT x FROM c ".repeat(100)),
    ];
    within_small_stack(fails, Some(false));
}

/// What SQL writes once and a plan has several times: one in another, it must not double with each
/// level.
#[test]
fn what_stands_for_more_does_not_double() {
    let nested = |depth: usize, open: &str, middle: &str, close: &str| {
        format!("SELECT {}{middle}{} FROM r", open.repeat(depth), close.repeat(depth))
    };
    let forms = [
        ("COALESCE(", "k", ", 1)"),
        ("NULLIF(", "k", ", 1)"),
        ("DECODE(", "k", ", 1, 2, 3, 4)"),
        ("CASE ", "k", " WHEN 1 THEN 2 WHEN 2 THEN 3 END"),
        ("(", "k = 1", ") BETWEEN FALSE AND TRUE"),
        ("COALESCE((SELECT ", "k", " FROM t WHERE t.k = r.k), 1)"),
        ("CASE WHEN ((", "k", "), 1) IN ((1, 2), (3, 4)) THEN 1 END"),
        ("CASE WHEN ((", "k", "), 1) < (1, 2) THEN 1 END"),
    ];
    for (open, middle, close) in forms {
        within_small_stack(vec![nested(4, open, middle, close)], Some(true));
        within_small_stack(vec![nested(30, open, middle, close), nested(60, open, middle, close)], Some(false));
    }
    // The last operand stands once, and so does a list's.
    let once = vec![nested(50, "COALESCE(k, ", "1", ")"), nested(50, "CASE WHEN (", "k", ") IN (1, 2, 3) THEN 1 END")];
    within_small_stack(once, Some(true));
    let catalog = catalog();
    let error = run(&catalog, &nested(40, "COALESCE(", "k", ", 1)")).expect_err("it is too much");
    assert!(error.contains("more than 2000000 expressions when it is written out"), "{error}");
}

#[test]
fn clauses_have_so_many_items_and_not_one_more() {
    let items = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let catalog = catalog();
    type Text<'t> = &'t dyn Fn(usize) -> String;
    let clauses: [(usize, &str, Text<'_>); 5] = [
        (limits::SUBQUERIES_MAX, "more than 16384 subqueries in expressions", &|count| {
            format!("SELECT k FROM r WHERE k IN ({})", items(count, &|n| format!("(SELECT {n} FROM r)")))
        }),
        (limits::AGGREGATES_MAX, "more than 4096 aggregates in one SELECT", &|count| {
            format!("SELECT k FROM r GROUP BY k HAVING 1 IN ({})", items(count, &|n| format!("SUM(k + {n})")))
        }),
        (limits::GROUP_KEYS_MAX, "more than 1024 keys in GROUP BY", &|count| {
            format!("SELECT COUNT(*) FROM r GROUP BY {}", items(count, &|n| format!("k + {n}")))
        }),
        (limits::SORT_KEYS_MAX, "more than 1024 keys in ORDER BY", &|count| {
            format!("SELECT k FROM r ORDER BY {}", items(count, &|n| format!("k + {n}")))
        }),
        (limits::SORT_KEYS_MAX, "more than 1024 keys in one window", &|count| {
            format!("SELECT RANK() OVER (ORDER BY {}) FROM r", items(count, &|n| format!("k + {n}")))
        }),
    ];
    for (most, told, text) in clauses {
        run(&catalog, &text(most)).unwrap_or_else(|error| panic!("{most} are taken: {error:.300}"));
        let error = run(&catalog, &text(most + 1)).expect_err("one more is not");
        assert!(error.contains(told), "{told}: {error:.300}");
    }
}

/// Each of these took from ten seconds to minutes, or all memory, before its kind was bounded.
#[test]
fn large_texts_take_no_longer_than_they_should() {
    let items = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let natural = (1..64).map(|n| format!(" NATURAL JOIN wide w{n}")).collect::<String>();
    let columns = items(1_000, &|n| format!("c{n} INTEGER"));
    let mut catalog = catalog();
    for statement in parse_batch(&format!("CREATE TABLE wide ({columns})")).expect("it parses") {
        let (change, _) = bind_ddl(&catalog, &statement).expect("it binds");
        catalog = catalog.apply(&change).expect("it applies").0;
    }
    let texts = [
        format!("SELECT {} FROM r", items(20_000, &|n| format!("OCTET_LENGTH(REPEAT('x', {}))", 1_000_000 - n))),
        format!("SELECT k FROM r WHERE v IN ({})", items(20_000, &|n| format!("REPEAT('x', {})", 1_000_000 - n))),
        "SELECT k FROM r WHERE REPEAT('a', 1000000) LIKE '%' || REPEAT('a', 400000) || 'b'".to_owned(),
        format!("SELECT {} FROM wide", vec!["wide.*"; 100_000].join(",")),
        format!("SELECT {} FROM wide", vec!["*"; 100_000].join(",")),
        format!("SELECT * FROM wide w0{natural}"),
        format!("SELECT {} FROM r", items(60_000, &|n| format!("SUM(k + {n})"))),
        format!("SELECT k FROM r ORDER BY {}", items(60_000, &|n| format!("k + {n}"))),
    ];
    for text in texts {
        let shown: String = text.chars().take(60).collect();
        let start = Instant::now();
        let _ = run(&catalog, &text);
        assert!(start.elapsed() < Duration::from_secs(60), "{shown} took {:?}", start.elapsed());
    }
}

#[test]
fn a_table_has_so_many_checks_and_not_one_more() {
    let checks = |count: usize| (0..count).map(|n| format!(", CHECK (a <> {n})")).collect::<String>();
    let catalog = catalog();
    run(&catalog, &format!("CREATE TABLE x (a INTEGER{})", checks(limits::TABLE_CHECKS_MAX)))
        .expect("so many are taken");
    for text in [
        format!("CREATE TABLE x (a INTEGER{})", checks(limits::TABLE_CHECKS_MAX + 1)),
        format!("CREATE TABLE x (a INTEGER{})", checks(50_000)),
    ] {
        let error = run(&catalog, &text).expect_err("one more is not");
        assert!(error.contains("more than 1024 CHECK conditions"), "{error:.300}");
    }
}
