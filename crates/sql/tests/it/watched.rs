//! Compiling that is ended by whoever watches it: it ends with his words, whenever he says so, and
//! else in the same program.

use crate::common::catalog_of;
use ferrite_base::{UserError, Watcher};
use ferrite_catalog::Catalog;
use ferrite_sql::{compile_adhoc, explain, parse_batch};
use std::cell::Cell;
use std::rc::Rc;

const SCHEMA: &str =
    "CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(20), n INTEGER); PARTITION TABLE t ON COLUMN k;
    CREATE TABLE r (k INTEGER NOT NULL PRIMARY KEY, v VARCHAR(20), d DECIMAL)";

fn compile(catalog: &Catalog, text: &str) -> Result<String, UserError> {
    let statements = parse_batch(text)?;
    let program = compile_adhoc(catalog, &statements, 0)?;
    let plans = explain(&program, catalog);
    Ok(plans.into_iter().map(|(_, plan)| plan).collect())
}

/// A statement that could not be compiled now is not at fault.
#[test]
fn the_end_of_a_leadership_is_no_error_of_the_statement() {
    let catalog = catalog_of(SCHEMA);
    let deposed = || UserError::not_started("this node no longer leads");
    let watcher = Watcher::new(move || Err(deposed()));
    let items: Vec<String> = (0..500).map(|n| format!("k + {n}")).collect();
    let text = format!("SELECT {} FROM r", items.join(", "));
    let error = watcher.watch(|| compile(&catalog, &text)).expect_err("it is ended");
    assert_eq!(error.message(), deposed().message());
}

#[test]
fn whenever_it_is_ended_it_says_so() {
    let catalog = catalog_of(SCHEMA);
    let items = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    let texts = [
        format!("SELECT {} FROM r", items(200, &|n| format!("k + {n}"))),
        format!("SELECT k FROM r GROUP BY k HAVING 1 IN ({})", items(150, &|n| format!("SUM(k + {n})"))),
        format!(
            "SELECT k FROM r WHERE k IN ({})",
            items(100, &|n| format!("(SELECT MAX(n) FROM t WHERE t.k = r.k + {n})"))
        ),
        format!(
            "SELECT * FROM t JOIN r ON t.n = r.k WHERE {}",
            items(100, &|n| format!("t.n <> {n}")).replace(", ", " AND ")
        ),
        vec!["UPDATE t SET n = n + 1 WHERE k = 5"; 50].join("; "),
    ];
    for text in &texts {
        let shown: String = text.chars().take(60).collect();
        let expected = compile(&catalog, text).expect("nobody ends it");
        let mut allowed = 0;
        loop {
            let asked = Rc::new(Cell::new(0));
            let count = Rc::clone(&asked);
            let watcher = Watcher::new(move || {
                count.set(count.get() + 1);
                if count.get() > allowed { Err(UserError::limit("enough")) } else { Ok(()) }
            });
            match watcher.watch(|| compile(&catalog, text)) {
                Ok(plans) => {
                    assert_eq!(plans, expected, "{shown}");
                    break;
                }
                // What a statement says has the statement in front, or its beginning behind.
                Err(error) => {
                    assert!(error.message().contains("enough"), "{shown}: after {allowed} questions: {error}")
                }
            }
            allowed += 1;
        }
        assert!(allowed >= 3, "{shown}: it was asked {allowed} times");
    }
}
