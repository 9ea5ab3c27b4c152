//! Queries that are done in parts, a store each, answer what they answer otherwise.

use crate::support::{Collected, Lending, PARTS_DONE};
use bumpalo::Bump;
use ferrite_base::UserResult;
use ferrite_exec::{Call, Scratch, WorkerPool};
use ferrite_expr::{Code, UserFunction};
use ferrite_value::{OwnedValue, SqlType, Value};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

/// Queries, and whether they are done in parts.
const QUERIES: &[(&str, bool)] = &[
    ("SELECT COUNT(*), SUM(id), MIN(s), MAX(d), AVG(k) FROM t WHERE k < 90", true),
    ("SELECT COUNT(*), MIN(s) FROM t WHERE k > 1000", true),
    ("SELECT k, COUNT(*), SUM(d), MIN(s), COUNT(DISTINCT s) FROM t GROUP BY k ORDER BY k", true),
    ("SELECT s, SUM(id) AS total FROM t GROUP BY s HAVING COUNT(*) > 2 ORDER BY total DESC, s LIMIT 5", true),
    ("SELECT k, s, COUNT(*) FROM t GROUP BY ROLLUP (k, s) ORDER BY 1, 2, 3 LIMIT 20 OFFSET 3", true),
    ("SELECT k, COUNT(*) FROM t GROUP BY k LIMIT 3", true),
    ("SELECT name, COUNT(*), STDDEV(id) FROM t JOIN names ON names.k = t.k GROUP BY name ORDER BY name", true),
    ("SELECT name, COUNT(t.id) FROM t LEFT JOIN names ON names.k = t.k GROUP BY name ORDER BY name", true),
    ("SELECT COUNT(*) FROM t WHERE k IN (SELECT k FROM names WHERE name > 'name 3')", true),
    ("SELECT MAX(n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS q", true),
    ("SELECT s, id FROM t ORDER BY s DESC, id LIMIT 7 OFFSET 2", true),
    ("SELECT s FROM t WHERE k = 5 ORDER BY d + 1 DESC LIMIT 3", true),
    ("SELECT id FROM t ORDER BY k LIMIT 5", true),
    ("SELECT id, COUNT(*) FROM t GROUP BY id ORDER BY id DESC LIMIT 4", true),
    ("SELECT STRING_AGG(s, ',' ORDER BY s) FROM t WHERE id < 50", false),
    ("SELECT k, COUNT(*) FROM names GROUP BY k ORDER BY k", false),
    ("SELECT COUNT(*) FROM t WHERE k IN (SELECT id FROM t WHERE id < 20)", false),
    ("SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.k = b.id", false),
    ("SELECT SUM(DISTINCT d / (k - 5)) FROM t", true),
];

#[test]
fn parts_answer_what_the_whole_does() {
    let mut in_parts = crate::support::filled(3, Lending::All, 60_000);
    let mut whole = crate::support::filled(3, Lending::AsRouted, 60_000);
    for (query, expected) in QUERIES {
        let before = PARTS_DONE.get();
        let answer = in_parts.run(query).map(|found| found.rows).map_err(|error| error.to_string());
        assert_eq!(PARTS_DONE.get() > before, *expected, "{query}");
        let other = whole.run(query).map(|found| found.rows).map_err(|error| error.to_string());
        assert_eq!(answer, other, "{query}");
    }
}

/// Helpers of a call whose time is over when they are asked about it.
struct TooLate;

impl WorkerPool for TooLate {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }

    fn interrupted(&self) -> bool {
        true
    }

    fn pays(&self, _: u64, _: u64) -> bool {
        true
    }
}

/// The whole began anew, with as much time again.
#[test]
fn a_query_ends_with_the_time_of_its_parts() {
    let mut database = crate::support::filled(3, Lending::All, 60_000);
    let statements = ferrite_sql::parse_batch("SELECT COUNT(*) FROM t WHERE k < 90").expect("a statement");
    let program = ferrite_sql::compile_adhoc(&database.catalog, &statements, 0).expect("a program");
    let arena = Bump::new();
    let asked = Cell::new(false);
    let noted = || {
        asked.set(true);
        false
    };
    let call = Call { workers: Some(&TooLate), interrupted: Some(&noted), ..Call::new(&program, &[], 0, &arena) };
    let error =
        ferrite_exec::run_transaction(&mut database.stores, &call, &mut Scratch::default(), &mut Collected::default())
            .expect_err("its time is over");
    assert_eq!((error.code(), error.message()), ("57014", "Transaction Interrupted"));
    assert!(asked.get(), "the caller may have another reason");
}

/// A function of a user's: its argument, and who asked.
#[derive(Default)]
struct Same(Mutex<HashSet<ThreadId>>);

impl Code for Same {
    fn call<'a>(&self, arguments: &[Value<'_>], arena: &'a Bump) -> UserResult<Value<'a>> {
        self.0.lock().expect("nobody panics with it").insert(thread::current().id());
        Ok(arguments[0].copied_to(arena))
    }

    fn aggregate<'a>(&self, _: &[OwnedValue], _: usize, _: &'a Bump) -> UserResult<Value<'a>> {
        unreachable!("it is no aggregate")
    }
}

/// Whoever brings its code keeps memory for each thread that ever called it.
#[test]
fn users_functions_are_called_by_no_thread_that_comes_and_goes() {
    let mut database = crate::support::filled(3, Lending::All, 60_000);
    let code = Arc::new(Same::default());
    let types = (vec![SqlType::Bigint], SqlType::Bigint);
    let function = UserFunction::new("SAME".to_owned(), "a.F".to_owned(), Some("same".to_owned()), types.0, types.1);
    function.link(code.clone());
    Arc::make_mut(&mut database.catalog).functions.insert("SAME".to_owned(), Arc::new(function));
    for query in [
        "SELECT COUNT(*) FROM t WHERE same(id) > 0",
        "SELECT MOD(same(id), 2) AS half, COUNT(*) FROM t GROUP BY MOD(same(id), 2) ORDER BY half",
        "SELECT SUM(same(id)) FROM t",
        "SELECT id FROM t ORDER BY same(id) DESC LIMIT 5",
        "SELECT COUNT(*) FROM t WHERE k IN (SELECT k FROM names WHERE same(k) > 3)",
        "SELECT COUNT(*) FROM t JOIN names ON names.k = t.k AND same(names.k) > 3",
    ] {
        database.run(query).expect("an answer");
        let callers = std::mem::take(&mut *code.0.lock().expect("nobody panics with it"));
        assert_eq!(callers, HashSet::from([thread::current().id()]), "{query}");
    }
}
