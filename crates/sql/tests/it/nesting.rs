//! Every construct that can stand in itself, from ten deep to ten thousand: each text gets a
//! program or an error, never a stack that runs out. Threads get a small stack on purpose.

use crate::common::{catalog_of, run};
use ferrite_base::limits;
use ferrite_catalog::Catalog;
use std::time::{Duration, Instant};

/// What opens, stands in the middle, and closes; each where a value or a condition may stand.
const EXPRESSIONS: &[(&str, &str, &str)] = &[
    ("(", "1", ")"),
    ("-", "1", ""),
    ("- ", "1", ""),
    ("+ ", "1", ""),
    ("~", "1", ""),
    ("!", "1", ""),
    ("1+", "1", ""),
    ("1*", "1", ""),
    ("1^", "1", ""),
    ("1=", "1", ""),
    ("1|", "1", ""),
    ("(1+", "n", ")"),
    ("(", "n", "+1)"),
    ("(1=", "1", ")"),
    ("ABS(", "1", ")"),
    ("nosuch(", "1", ")"),
    ("GREATEST(1,", "1", ")"),
    ("COALESCE(n,", "1", ")"),
    ("COALESCE(", "n", ",1)"),
    ("NULLIF(", "n", ",1)"),
    ("DECODE(n,1,", "2", ")"),
    ("DECODE(", "n", ",1,2)"),
    ("CASE WHEN n=1 THEN ", "1", " END"),
    ("CASE WHEN ", "TRUE", " THEN TRUE END"),
    ("CASE WHEN n=1 THEN 1 ELSE ", "1", " END"),
    ("CASE ", "n", " WHEN 1 THEN 2 END"),
    ("CASE 1 WHEN ", "n", " THEN 2 END"),
    ("CAST(", "1", " AS INTEGER)"),
    ("CAST(1 AS ARRAY<", "INTEGER", ">)"),
    ("", "1", "::INTEGER"),
    ("CONVERT(", "1", ", CHAR)"),
    ("'a'||", "'b'", ""),
    ("CONCAT('a',", "'b'", ")"),
    ("REPLACE(", "v", ",'a','b')"),
    ("SUBSTRING(", "'abc'", " FROM 1 FOR 2)"),
    ("TRIM(LEADING FROM ", "'a'", ")"),
    ("POSITION('a' IN ", "'a'", ")"),
    ("OVERLAY(", "'abc'", " PLACING 'x' FROM 1)"),
    ("EXTRACT(YEAR FROM ", "NOW", ")"),
    ("CEIL(", "1", " TO DAY)"),
    ("INTERVAL ", "'1'", ""),
    ("", "NOW", " AT TIME ZONE 'UTC'"),
    ("", "n", " COLLATE x"),
    ("PRIOR ", "n", ""),
    ("NOT ", "TRUE", ""),
    ("NOT (", "n=1", ")"),
    ("n=1 AND ", "n=2", ""),
    ("n=1 OR ", "n=2", ""),
    ("(n=1 AND ", "n=2", ")"),
    ("(n=1 AND (n=2 OR ", "n=2", "))"),
    ("", "n", " IS NULL"),
    ("(", "n", " IS NULL)"),
    ("", "n=1", " IS TRUE"),
    ("(n IS DISTINCT FROM ", "1", ")"),
    ("(n BETWEEN 1 AND ", "2", ")"),
    ("(", "n=1", " BETWEEN FALSE AND TRUE)"),
    ("n IN (", "1", ")"),
    ("(", "n", " IN (1))"),
    ("v LIKE ", "'a'", ""),
    ("(", "n", ",1) IN ((1,2))"),
    ("(1,", "1", ")"),
    ("ROW(", "1", ")"),
    ("((", "1", "),1)"),
    ("(SELECT ", "1", " FROM r)"),
    ("COALESCE((SELECT ", "n", " FROM r LIMIT 1),1)"),
    ("EXISTS (SELECT 1 FROM r WHERE ", "n=1", ")"),
    ("NOT EXISTS (SELECT 1 FROM r x WHERE x.n=r.n AND ", "n=1", ")"),
    ("n IN (SELECT n FROM r WHERE ", "n=1", ")"),
    ("n = ANY (SELECT n FROM r WHERE ", "n=1", ")"),
    ("n > ALL (SELECT n FROM r WHERE ", "n=1", ")"),
    ("SUM(", "n", ")"),
    ("SUM(n) OVER (ORDER BY ", "n", ")"),
    ("SUM(", "n", ") OVER ()"),
    ("COUNT(*) FILTER (WHERE ", "n=1", ")"),
    ("STRING_AGG(", "v", ",',')"),
    ("GROUPING(", "n", ")"),
    ("[", "1", "]"),
    ("ARRAY[", "1", "]"),
    ("", "n", "[1]"),
    ("", "n", ".n"),
    ("{a: ", "1", "}"),
    ("x -> ", "1", ""),
    ("n->", "'a'", ""),
    ("ABS(x => ", "1", ")"),
    ("STRUCT(", "1", ")"),
    ("IF(TRUE,", "1", ",2)"),
];

/// What comes before, opens, stands in the middle, closes, and comes behind.
const STATEMENTS: &[(&str, &str, &str, &str, &str)] = &[
    ("SELECT * FROM ", "(", "r", ")", ""),
    ("", "SELECT * FROM (", "SELECT n FROM r", ") x", ""),
    ("", "SELECT a.n FROM r a JOIN (", "SELECT n FROM r", ") x ON a.n=x.n", ""),
    ("", "SELECT * FROM r a, LATERAL (", "SELECT n FROM r", ") x", ""),
    ("", "(", "SELECT n FROM r", " UNION SELECT n FROM r)", ""),
    ("", "SELECT n FROM r UNION (", "SELECT n FROM r", ")", ""),
    ("SELECT n FROM r", " UNION SELECT n FROM r", "", "", ""),
    ("SELECT n FROM r", " EXCEPT ALL SELECT n FROM r", "", "", ""),
    ("", "WITH c AS (", "SELECT n FROM r", ") SELECT * FROM c", ""),
    ("", "WITH RECURSIVE c(n) AS (SELECT n FROM r UNION ", "SELECT n FROM r", ") SELECT * FROM c", ""),
    ("", "WITH c AS (SELECT n FROM r) ", "SELECT n FROM c", "", ""),
    ("SELECT * FROM ", "(r a JOIN ", "r", " ON 1=1)", ""),
    ("SELECT 1 FROM r", " JOIN r ON 1=1", "", "", ""),
    ("SELECT 1 FROM r", " JOIN r", " ", " ON 1=1", ""),
    ("SELECT 1 FROM r", ",r", "", "", ""),
    ("", "EXPLAIN ", "SELECT 1 FROM r", "", ""),
    ("", "EXPLAIN ANALYZE ", "SELECT 1 FROM r", "", ""),
    ("INSERT INTO r (k) ", "(", "SELECT k FROM r", ")", ""),
    ("SELECT * FROM ", "(VALUES ", "(1)", ")", ""),
    ("SELECT COUNT(*) FROM r GROUP BY ", "GROUPING SETS (", "n", ")", ""),
    ("SELECT COUNT(*) FROM r GROUP BY ", "(", "n", ")", ""),
    ("SELECT n FROM r ORDER BY ", "(", "n", ")", ""),
    ("SELECT n FROM r LIMIT ", "(", "1", ")", ""),
    ("SELECT TOP ", "(", "1", ") n FROM r", ""),
    ("SELECT 1 FROM r ", "/*", "x", "*/", ""),
    ("CREATE VIEW w1 AS ", "SELECT * FROM (", "SELECT n, COUNT(*) c FROM r GROUP BY n", ") x", ""),
    ("CREATE VIEW w1 AS SELECT n, COUNT(*), SUM(", "ABS(", "n", ")", ") FROM r GROUP BY n"),
    ("CREATE VIEW w1 AS SELECT n, COUNT(*) FROM r WHERE ", "NOT (", "n=1", ")", " GROUP BY n"),
    ("CREATE TABLE x (a INTEGER, CHECK (", "ABS(", "a", ")", " > 1))"),
    ("CREATE TABLE x (a INTEGER, CHECK (", "(a=1 AND ", "a=1", ")", "))"),
    ("CREATE TABLE x (a INTEGER DEFAULT ", "(", "1", ")", ")"),
    ("CREATE TABLE x (a INTEGER DEFAULT ", "- ", "1", "", ")"),
    ("CREATE TABLE x (a ", "ARRAY<", "INTEGER", ">", ")"),
    ("CREATE TABLE x (a INTEGER", "[]", "", "", ")"),
    ("ALTER TABLE r ADD CHECK (", "(n>0 AND ", "n>0", ")", ")"),
    ("CREATE INDEX i ON r (", "ABS(", "n", ")", ")"),
    ("CREATE INDEX i ON r (n) WHERE ", "NOT (", "n=1", ")", ""),
    ("CREATE PROCEDURE p AS BEGIN ", "BEGIN ", "RETURN;", " END;", " END"),
    ("CREATE PROCEDURE p AS BEGIN ", "l: BEGIN ", "RETURN;", " END;", " END"),
    ("CREATE PROCEDURE p AS BEGIN ", "IF TRUE THEN ", "RETURN;", " END IF;", " END"),
    ("CREATE PROCEDURE p AS BEGIN ", "IF TRUE THEN RETURN; ELSE ", "RETURN;", " END IF;", " END"),
    ("CREATE PROCEDURE p AS BEGIN ", "WHILE FALSE DO ", "RETURN;", " END WHILE;", " END"),
    ("CREATE PROCEDURE p AS BEGIN ", "FOR x AS SELECT n FROM r DO ", "RETURN;", " END FOR;", " END"),
    ("CREATE PROCEDURE p AS BEGIN ", "CASE WHEN TRUE THEN ", "RETURN;", " END CASE;", " END"),
    ("CREATE PROCEDURE p AS BEGIN ", "LOOP ", "RETURN;", " END LOOP;", " END"),
    ("CREATE PROCEDURE p AS BEGIN DECLARE a INTEGER; SET a = ", "ABS(", "1", ")", "; END"),
    ("CREATE PROCEDURE p AS SELECT ", "ABS(", "1", ")", " FROM r"),
    ("CREATE PROCEDURE p AS ", "(", "SELECT 1 FROM r", ")", ""),
    ("", "CREATE PROCEDURE p AS ", "SELECT 1 FROM r", "", ""),
    ("DELETE FROM r WHERE ", "NOT (", "n=5", ")", ""),
    ("UPDATE r SET n = ", "ABS(", "n", ")", ""),
    ("UPDATE r SET n = 1 RETURNING ", "ABS(", "n", ")", ""),
    ("SELECT SUM(n) OVER w0 FROM r WINDOW ", "w0 AS (w0", "", ")", ""),
    ("SELECT * FROM r", " TABLESAMPLE (1)", "", "", ""),
    ("SELECT * FROM r MATCH_RECOGNIZE (PATTERN (", "(", "A", ")", ") DEFINE A AS TRUE)"),
    ("SELECT * FROM JSON_TABLE('[]','$' COLUMNS(", "NESTED PATH '$' COLUMNS(", "a INTEGER PATH '$'", ")", "))"),
    ("MERGE INTO r USING ", "(SELECT * FROM ", "r", ")", " ON 1=1 WHEN MATCHED THEN DELETE"),
    ("", "IF TRUE THEN ", "SELECT 1", " END IF", ""),
];

fn catalog() -> Catalog {
    catalog_of("CREATE TABLE r (k INTEGER NOT NULL PRIMARY KEY, n INTEGER, v VARCHAR(20))")
}

#[test]
fn whatever_stands_in_itself_may_be_as_deep_as_it_likes() {
    let mut texts: Vec<(usize, String)> = Vec::new();
    for depth in [10, 100, 1_000, 10_000] {
        let mut add = |before: &str, open: &str, middle: &str, close: &str, behind: &str| {
            let mut text = format!("{before}{}{middle}{}{behind}", open.repeat(depth), close.repeat(depth));
            text.truncate(limits::STATEMENT_BYTES_MAX);
            texts.push((depth, text));
        };
        for (open, middle, close) in EXPRESSIONS {
            add("SELECT ", open, middle, close, " FROM r");
            if depth == 10_000 {
                continue;
            }
            add("SELECT k FROM r WHERE (", open, middle, close, ") = 1");
            add("CREATE PROCEDURE p AS SELECT ", open, middle, close, " FROM r");
        }
        for (before, open, middle, close, behind) in STATEMENTS {
            add(before, open, middle, close, behind);
        }
    }
    let worker = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || {
        let catalog = catalog();
        for (depth, text) in texts {
            let start = Instant::now();
            let result = run(&catalog, &text);
            let shown: String = text.chars().take(60).collect();
            assert!(depth < 10_000 || result.is_err(), "{depth} deep, {shown} is taken");
            assert!(start.elapsed() < Duration::from_secs(60), "{depth} deep, {shown} took {:?}", start.elapsed());
        }
    });
    worker.expect("a thread").join().expect("no panic");
}
