//! What ends a program before its own end: the interruption hook, the temporary memory limit, a sink that is full.

mod support;

use bumpalo::Bump;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_exec::{Call, ResultSink, Scratch};
use ferrite_sql::plan::OutputColumn;
use ferrite_value::Value;
use std::cell::Cell;
use support::{Collected, Database, Lending};

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

#[test]
fn sorting_and_grouping_stop_at_the_temporary_memory_limit() {
    let mut database = database(1_500);
    // A row of two values takes 48 bytes while it is sorted: a million fit, two and a quarter do not.
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
