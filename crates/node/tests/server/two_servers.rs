//! Two servers in one process: each keeps to its own limits, whichever started last, and each has
//! its own runtime for procedures in other languages.

use crate::common::{connect, options, start, text_of};
use ferrite_base::{Settings, UserError, UserResult};
use ferrite_catalog::base64;
use ferrite_node::ServerOptions;
use ferrite_plan::external::{Body, Description, Host, RoutineBody};
use ferrite_value::Value;
use std::sync::Arc;

const ROWS: i64 = 2_000;
const SCHEMA: &str = "CREATE TABLE t (id BIGINT NOT NULL, s VARCHAR(1000), PRIMARY KEY (id))";
/// What the statements below need more than, and less than by default.
const LITTLE: usize = 1 << 20;

fn little() -> Settings {
    Settings { result_bytes: LITTLE, temporary_bytes: LITTLE, transaction_bytes: LITTLE, ..Settings::default() }
}

#[test]
fn each_keeps_to_its_own_limits() {
    // By name and what exceeds a mebibyte of it.
    let wide = "x".repeat(1_000);
    let cases = [
        ("result-bytes", "SELECT id, s FROM t".to_owned()),
        (
            "temporary-bytes",
            "SELECT COUNT(*) FROM (SELECT DISTINCT s || CAST(id AS VARCHAR) AS wide FROM t) x".to_owned(),
        ),
        ("transaction-bytes", format!("UPDATE t SET s = '{}'", "y".repeat(1_000))),
    ];
    for little_first in [true, false] {
        let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
        let open = |dir: &tempfile::TempDir, settings| {
            let server = start(ServerOptions { settings, ..options(dir.path(), 1) });
            let db = connect(&server);
            db.sql(SCHEMA);
            (0..ROWS).step_by(500).for_each(|first| {
                let last = first + 499;
                db.sql(&format!("INSERT INTO t SELECT n, NULL FROM GENERATE_SERIES({first}, {last}) AS g (n)"));
                db.sql(&format!("UPDATE t SET s = '{wide}' WHERE id BETWEEN {first} AND {last}"));
            });
            (server, db)
        };
        let order = if little_first { [little(), Settings::default()] } else { [Settings::default(), little()] };
        let mut opened = dirs.iter().zip(order).map(|(dir, settings)| open(dir, settings)).collect::<Vec<_>>();
        if !little_first {
            opened.reverse();
        }
        let [(small, of_small), (large, of_large)] = <[_; 2]>::try_from(opened).ok().expect("two servers");
        for (name, statement) in &cases {
            of_large.sql(statement);
            let refused = of_small.fail("@AdHoc", (statement.as_str(),));
            let words = text_of(&refused);
            assert!(words.contains(&format!("--limit {name}")), "{name}, little first: {little_first}: {words}");
        }
        small.stop().expect("the log is closed");
        large.stop().expect("the log is closed");
    }
}

/// Answers that it is of this server.
#[derive(Debug)]
struct Named(i8);

impl Body for Named {
    fn call(&self, host: &mut dyn Host, _: &[Value<'_>]) -> UserResult<()> {
        host.status(self.0, None);
        Ok(())
    }
}

fn describe(number: i8) -> Description {
    let body = RoutineBody::Transaction(Arc::new(Named(number)));
    Description { parameters: Vec::new(), statements: Vec::new(), partition_info: None, texts: false, body }
}

fn first(_: &str) -> UserResult<Description> {
    Ok(describe(1))
}

fn second(_: &str) -> UserResult<Description> {
    Ok(describe(2))
}

fn none(class: &str) -> UserResult<Description> {
    Err(UserError::not_found(class))
}

#[test]
fn each_has_its_own_runtime() {
    let load = format!("LOAD CLASSES '{}'", base64::encode(&crate::jar::jar(&["a/Named.class"])));
    let create = "CREATE PROCEDURE FROM CLASS a.Named";
    let servers = [first, second, none].map(|describe| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let runtime = crate::in_rust::runtime(describe);
        let server = start(ServerOptions { runtime, ..options(dir.path(), 1) });
        let db = connect(&server);
        db.sql(&load);
        (dir, server, db)
    });
    let [(_, _, of_one), (_, _, of_two), (_, _, of_other)] = &servers;
    of_one.sql(create);
    of_two.sql(create);
    assert!(of_other.0.call_blocking("@AdHoc", (create,)).is_err(), "its runtime knows no such class");
    assert_eq!(of_one.call("Named", ()).application_status, 1);
    assert_eq!(of_two.call("Named", ()).application_status, 2);
    for (_, server, _) in servers {
        server.stop().expect("the log is closed");
    }
}
