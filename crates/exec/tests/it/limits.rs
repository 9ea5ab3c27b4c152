//! What ends a program before its own end: the interruption hook, the temporary memory limit, a
//! sink that is full.

use crate::support::{Collected, Database, Lending};
use bumpalo::Bump;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_exec::{Call, ResultSink, Scratch};
use ferrite_plan::OutputColumn;
use ferrite_value::Value;
use std::cell::Cell;

/// A database with the table t(id, v) of `rows` rows.
fn database(rows: i64) -> Database {
    let mut database = Database::new(1, Lending::All);
    database.run("CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(2000))").expect("a table");
    let body = "BEGIN
        DECLARE i BIGINT DEFAULT 0;
        WHILE i < bound DO SET i = i + 1; INSERT INTO t (id) VALUES (i); END WHILE;
        END";
    database.run(&format!("CREATE PROCEDURE Fill (bound BIGINT) AS {body}")).expect("a procedure");
    database.run(&format!("EXEC Fill {rows}")).expect("rows");
    database
}

fn interrupted_after(database: &mut Database, procedure: &str, checks: u32) -> UserResult<()> {
    let program = database.programs[&procedure.to_uppercase()].clone();
    let arena = Bump::new();
    let asked = Cell::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        asked.get() > checks
    };
    let call = Call { interrupted: Some(&interrupted), ..Call::new(&program, &[], 0, &arena) };
    ferrite_exec::run_transaction(&mut database.stores, &call, &mut Scratch::default(), &mut Collected::default())
}

#[test]
fn an_endless_loop_is_interrupted_and_undone() {
    let mut database = database(10);
    database
        .run("CREATE PROCEDURE Endless AS BEGIN DELETE FROM t WHERE id = 1; WHILE TRUE DO DELETE FROM t WHERE id = 2; END WHILE; END")
        .expect("a procedure");
    let error = interrupted_after(&mut database, "Endless", 3).expect_err("it does not end by itself");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Sql, "Transaction Interrupted"));
    assert!(error.hint().is_some());
    assert_eq!(database.run("SELECT COUNT(*) FROM t").expect("a count").rows, [["10"]]);
}

#[test]
fn a_long_query_is_interrupted() {
    let mut database = database(200);
    database
        .run("CREATE PROCEDURE Long AS SELECT COUNT(*) FROM t a, t b, t c, t d, t e WHERE a.id + b.id + c.id + d.id + e.id < 0")
        .expect("a procedure");
    let error = interrupted_after(&mut database, "Long", 2).expect_err("it takes hours");
    assert_eq!(error.message(), "Transaction Interrupted");
}

#[test]
fn short_calls_are_not_asked_about() {
    let mut database = database(500);
    database.run("CREATE PROCEDURE Short AS SELECT COUNT(*) FROM t WHERE id > 10").expect("a procedure");
    interrupted_after(&mut database, "Short", 0).expect("it is over before the first question");
}

/// Few rows, each of which is much work.
#[test]
fn work_is_asked_about_and_not_only_rows() {
    let mut database = database(10);
    let twenty = vec!["CHAR_LENGTH(REPEAT('x', 900000 + id))"; 20].join(" + ");
    let bodies = [
        "SELECT id FROM t WHERE REPEAT('a', 100000 + id) LIKE '%' || REPEAT('a', 50000) || 'b'".to_owned(),
        "SELECT id FROM t WHERE REPEAT('a', 100000 + id) LIKE '%' || REPEAT('_', 50000) || 'b'".to_owned(),
        format!("SELECT id FROM t WHERE {twenty} < 0"),
        format!("SELECT SUM({twenty}) FROM t"),
        "SELECT id FROM t ORDER BY UPPER(REPEAT('x', 900000 + id))".to_owned(),
        "SELECT id FROM t WHERE REPLACE(REPEAT('a', 200000 + id), 'a', 'bcd') = v".to_owned(),
        "SELECT id FROM t WHERE LPAD('a', 900000 + id, 'xyz') = v OR RPAD('a', 900000 + id, 'xyz') = v".to_owned(),
        "SELECT id FROM t WHERE REGEXP_POSITION(REPEAT('ab', 100000 + id), 'b+c') > 0".to_owned(),
        "SELECT id FROM t WHERE ARRAY_LENGTH('[' || REPEAT('1,', 100000 + id) || '1]') < 0".to_owned(),
        format!("BEGIN DECLARE a BIGINT; {} END", "SET a = CHAR_LENGTH(REPEAT('x', 900000 + 1));".repeat(20)),
        "UPDATE t SET v = SUBSTRING(REPEAT('x', 900000 + id), 1, 5)".to_owned(),
        "DELETE FROM t WHERE CHAR_LENGTH(REPEAT('x', 900000 + id)) < 5".to_owned(),
    ];
    for (number, body) in bodies.iter().enumerate() {
        database.run(&format!("CREATE PROCEDURE Work{number} AS {body}")).expect("a procedure");
        let error = interrupted_after(&mut database, &format!("Work{number}"), 3);
        let error = error.err().unwrap_or_else(|| panic!("{body} is not interrupted"));
        assert_eq!(error.message(), "Transaction Interrupted", "{body}");
    }
}

/// CHECKs, indexes and views: so much for one row and no more, and many rows are interrupted.
#[test]
fn what_is_defined_over_rows_is_limited_and_interrupted() {
    for definition in [
        "ALTER TABLE t ADD CHECK (v NOT LIKE '%' || SUBSTRING(v, 1, CHAR_LENGTH(v) / 2) || 'b')",
        "CREATE INDEX i ON t (POSITION('b' IN REPLACE(REPEAT(v, 200), 'a', 'aa')))",
        "CREATE VIEW w AS SELECT CHAR_LENGTH(REPEAT(v, 400)) AS c, COUNT(*) AS n FROM t GROUP BY CHAR_LENGTH(REPEAT(v, 400))",
    ] {
        let mut database = database(30);
        database.run(definition).expect("there is no v yet");
        database.run("CREATE PROCEDURE Long AS UPDATE t SET v = REPEAT('a', 2000)").expect("a procedure");
        let error = interrupted_after(&mut database, "Long", 3).expect_err("it is much work");
        assert_eq!(error.message(), "Transaction Interrupted", "{definition}");
        assert_eq!(database.run("UPDATE t SET v = 'cc'").expect("that is little").rows, [["30"]]);
    }
    // The least of a group goes, again and again: each time the group's rows are read.
    let mut database = database(3_000);
    database.run("CREATE VIEW m AS SELECT v, MIN(id) AS least, COUNT(*) AS n FROM t GROUP BY v").expect("a view");
    database.run("CREATE PROCEDURE Least AS DELETE FROM t WHERE id < 900").expect("a procedure");
    let error = interrupted_after(&mut database, "Least", 3).expect_err("it is much work");
    assert_eq!(error.message(), "Transaction Interrupted");
    assert_eq!(database.run("SELECT least, n FROM m").expect("the view").rows, [["1", "3000"]]);
    database.run("DELETE FROM t WHERE id < 9").expect("that is little");
    assert_eq!(database.run("SELECT least, n FROM m").expect("the view").rows, [["9", "2992"]]);
    let mut database = self::database(1);
    let checks: Vec<String> = (0..20).map(|n| format!("CHECK (CHAR_LENGTH(REPEAT(v, {})) > 0)", 400_000 + n)).collect();
    let create = |count: usize| format!("CREATE TABLE c{count} (v VARCHAR(2), {})", checks[..count].join(", "));
    database.run(&create(20)).expect("a table");
    database.run("INSERT INTO c20 VALUES (NULL)").expect("that is nothing");
    // 800,000 bytes are made, which counts four times, and looked at, which does too: ten of them
    // fit.
    let error = database.run("INSERT INTO c20 VALUES ('ab')").err().expect("that is too much");
    assert!(error.message().contains("a view, index or CHECK is more work for one row than"), "{error}");
    database.run(&create(5)).expect("a table");
    database.run("INSERT INTO c5 VALUES ('ab')").expect("five fit");
}

#[test]
fn one_evaluation_stops_at_the_temporary_memory_limit() {
    let mut database = database(1);
    let texts: Vec<String> = (0..300).map(|n| format!("REPEAT('x', {} + id)", 900_000 + n)).collect();
    for query in [
        format!("SELECT id FROM t WHERE v IN ({})", texts.join(", ")),
        format!("SELECT {} FROM t", texts.join(", ")),
        format!("SELECT COUNT(*) FROM t WHERE GREATEST({}) = v", texts.join(", ")),
    ] {
        let error = database.run(&query).err().unwrap_or_else(|| panic!("{query:.60} fits"));
        assert_eq!(error.kind(), ErrorKind::Limit, "{query:.60}: {error}");
        assert!(error.message().contains("temporary memory"), "{error}");
    }
}

/// A batch has slots for each of its statements; what one held is given back.
#[test]
fn a_long_batch_holds_no_more_than_a_short_one() {
    let mut database = database(3);
    let statements = "SELECT COUNT(*) FROM t a, t b WHERE a.id = b.id AND a.v IS NULL;".repeat(3_000);
    database.run(&format!("CREATE PROCEDURE Batch AS BEGIN {statements} END")).expect("a procedure");
    let program = database.programs["BATCH"].clone();
    let arena = Bump::new();
    let call = Call::new(&program, &[], 0, &arena);
    let mut sink = Collected::default();
    ferrite_exec::run_transaction(&mut database.stores, &call, &mut Scratch::default(), &mut sink).expect("it runs");
    assert!(arena.allocated_bytes() < 10_000_000, "{} bytes", arena.allocated_bytes());
}

/// Sorting in runs that are merged gives what sorting in one go does.
#[test]
fn many_rows_are_sorted_as_few_are() {
    let mut database = database(300);
    let pairs = "FROM t a, t b WHERE a.id <= 200";
    let first =
        database.run(&format!("SELECT a.id, b.id {pairs} ORDER BY MOD(a.id * 7 + b.id * 31, 1000), a.id LIMIT 60000"));
    let rows = first.expect("they are sorted").rows;
    assert_eq!(rows.len(), 60_000);
    let key = |row: &Vec<String>| {
        let (a, b): (i64, i64) = (row[0].parse().expect("a number"), row[1].parse().expect("a number"));
        ((a * 7 + b * 31) % 1000, a)
    };
    assert!(rows.is_sorted_by_key(key), "in order");
    let mut seen: Vec<&Vec<String>> = rows.iter().collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 60_000, "each once");
    let ranked = format!(
        "SELECT COUNT(*) FROM (SELECT RANK() OVER (ORDER BY MOD(a.id * 7 + b.id * 31, 1000), a.id, b.id) AS place {pairs}) x \
         WHERE place BETWEEN 1 AND 60000"
    );
    assert_eq!(database.run(&ranked).expect("they are ranked").rows, [["60000"]]);
}

#[test]
fn sorting_and_grouping_stop_at_the_temporary_memory_limit() {
    let mut database = database(1_500);
    // A row of two values takes 48 bytes while it is sorted: a million fit, two and a quarter do
    // not.
    let sorted = |bound: i64| {
        format!(
            "SELECT COUNT(*) FROM (SELECT a.id AS x, b.id AS y FROM t a, t b WHERE a.id <= {bound} AND b.id <= {bound} ORDER BY y, x LIMIT 5000000) s"
        )
    };
    assert_eq!(database.run(&sorted(500)).expect("it fits").rows, [["250000"]]);
    for query in [
        sorted(1_500),
        "SELECT COUNT(*) FROM (SELECT DISTINCT a.id AS x, b.id AS y FROM t a, t b) s".to_owned(),
        "SELECT COUNT(*) FROM (SELECT a.id AS x, b.id AS y, COUNT(*) AS c FROM t a, t b GROUP BY a.id, b.id) s"
            .to_owned(),
        "SELECT COUNT(DISTINCT a.id * 10000 + b.id) FROM t a, t b".to_owned(),
    ] {
        let error = database.run(&query).err().unwrap_or_else(|| panic!("{query} fits"));
        assert_eq!(error.kind(), ErrorKind::Limit, "{query}: {error}");
        assert!(error.message().contains("temporary memory"), "{error}");
    }
    // A small LIMIT sorts any number of rows.
    let top = "SELECT a.id * 10000 + b.id AS x FROM t a, t b ORDER BY x DESC LIMIT 2";
    assert_eq!(database.run(top).expect("it fits").rows, [["15001500"], ["15001499"]]);
}

/// A sink that takes so many rows.
struct Full(u32);

impl ResultSink for Full {
    fn begin_table(&mut self, _: &[OutputColumn]) {}

    fn row(&mut self, _: &[Value<'_>]) -> UserResult<()> {
        if self.0 == 0 {
            return Err(UserError::limit("the result is too large"));
        }
        self.0 -= 1;
        Ok(())
    }

    fn end_table(&mut self) {}

    fn modified(&mut self, _: u64) {}

    fn status(&mut self, _: Option<i64>) {}
}

#[test]
fn a_full_sink_fails_the_program_and_undoes_it() {
    let mut database = database(20);
    database
        .run("CREATE PROCEDURE Take AS BEGIN DELETE FROM t WHERE id > 15; SELECT id FROM t; END")
        .expect("a procedure");
    let program = database.programs["TAKE"].clone();
    let arena = Bump::new();
    let call = Call::new(&program, &[], 0, &arena);
    let mut scratch = Scratch::default();
    let error = ferrite_exec::run_transaction(&mut database.stores, &call, &mut scratch, &mut Full(14))
        .expect_err("fifteen rows do not fit");
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(database.run("SELECT COUNT(*) FROM t").expect("a count").rows, [["20"]]);
    ferrite_exec::run_transaction(&mut database.stores, &call, &mut scratch, &mut Full(15)).expect("fifteen rows fit");
}

/// A transaction's changes in all partitions become one entry of the log, which is bounded.
#[test]
fn changes_of_all_partitions_together_up_to_the_limit_and_past_it() {
    let mut database = Database::new(3, Lending::All);
    // A replicated table changes in each of them.
    database.run("CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(200))").expect("a table");
    let fill = "CREATE PROCEDURE Fill AS BEGIN
        INSERT INTO r SELECT n, 'some text' FROM GENERATE_SERIES(1, 500) AS g (n);
        UPDATE r SET v = 'other text';
        END";
    database.run(fill).expect("a procedure");
    let program = database.programs["FILL"].clone();
    let mut within = |bytes: usize| {
        database.stores.iter_mut().for_each(|store| store.set_transaction_bytes_max(bytes));
        let (arena, marks) = (Bump::new(), ferrite_exec::set_marks(&database.stores));
        let call = Call::new(&program, &[], 0, &arena);
        let (mut scratch, mut sink) = (Scratch::default(), Collected::default());
        let outcome = ferrite_exec::run_transaction(&mut database.stores, &call, &mut scratch, &mut sink);
        let bytes: usize = database.stores.iter().map(|store| store.redo().len()).sum();
        ferrite_exec::roll_back(&mut database.stores, marks);
        outcome.map(|()| bytes).map_err(|error| (error, bytes))
    };
    let bytes = within(1 << 20).expect("it fits easily");
    assert_eq!(within(bytes), Ok(bytes));
    let (error, left) = within(bytes - 1).expect_err("one byte too many");
    assert_eq!((error.kind(), left), (ErrorKind::Limit, 0), "{error}");
    let said = format!("{} bytes of changes in all partitions together (--limit transaction-bytes)", bytes - 1);
    assert!(error.to_string().contains(&said), "{error}");
}
