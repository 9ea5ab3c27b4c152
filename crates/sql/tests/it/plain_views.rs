//! Views that are computed when they are read: how far they may stand in each other, and that their
//! text makes them again.

use ferrite_base::ErrorKind;
use ferrite_base::limits::{STATEMENT_VIEW_BYTES_MAX, STATEMENT_VIEWS_MAX, VIEW_EXPANSIONS_MAX, VIEW_NESTING_MAX};
use ferrite_catalog::{Catalog, schema_text};
use ferrite_sql::{bind_ddl, compile_adhoc, parse_batch};
use std::fmt::Write;

fn changed(catalog: &Catalog, text: &str) -> Result<Catalog, ferrite_base::UserError> {
    let mut catalog = catalog.clone();
    for statement in parse_batch(text)? {
        let (change, _) = bind_ddl(&catalog, &statement)?;
        catalog = catalog.apply(&change)?.0;
    }
    Ok(catalog)
}

fn refused<T>(result: Result<T, ferrite_base::UserError>, with: &str) {
    let error = result.err().expect("one more is refused");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error:?}");
    assert!(error.message().contains(with), "{error:?}");
}

fn read(catalog: &Catalog, text: &str) -> Result<(), ferrite_base::UserError> {
    compile_adhoc(catalog, &parse_batch(text)?, 0).map(drop)
}

fn table() -> Catalog {
    changed(&Catalog::default(), "CREATE TABLE t (a INTEGER, b INTEGER)").expect("a table")
}

/// Views V1 to V(depth), each of the one before.
fn chain(depth: usize) -> String {
    let mut text = String::from("CREATE VIEW v1 AS SELECT a FROM t;");
    for number in 2..=depth {
        write!(text, "CREATE VIEW v{number} AS SELECT a FROM v{};", number - 1).expect("a string takes all");
    }
    text
}

#[test]
fn views_stand_so_deep_in_each_other_and_not_deeper() {
    let deepest = changed(&table(), &chain(VIEW_NESTING_MAX)).expect("so deep is well");
    read(&deepest, &format!("SELECT a FROM v{VIEW_NESTING_MAX}")).expect("what was made can be read");
    let deeper = format!("CREATE VIEW deeper AS SELECT a FROM v{VIEW_NESTING_MAX}");
    refused(changed(&deepest, &deeper), "views are nested more than 32 deep");
}

#[test]
fn a_view_is_made_of_so_many_views_and_not_more() {
    let mut catalog = changed(&table(), "CREATE VIEW v1 AS SELECT a FROM t").expect("a view");
    let mut count = 1;
    let mut depth = 1;
    // Each is the one before twice, and itself.
    while 2 * count < VIEW_EXPANSIONS_MAX {
        depth += 1;
        let twice = format!("CREATE VIEW v{depth} AS SELECT x.a FROM v{0} x, v{0} y", depth - 1);
        catalog = changed(&catalog, &twice).expect("not too many yet");
        count = 2 * count + 1;
    }
    assert_eq!(count, VIEW_EXPANSIONS_MAX - 1);
    let exactly = format!("CREATE VIEW exactly AS SELECT a FROM v{depth}");
    catalog = changed(&catalog, &exactly).expect("as many as may be");
    refused(
        changed(&catalog, "CREATE VIEW more AS SELECT a FROM exactly"),
        "the view is made of more than 256 views when it is written out",
    );
}

#[test]
fn a_statement_reads_so_many_views_and_not_more() {
    let catalog = changed(&table(), &chain(16)).expect("views");
    let statements = |count: usize| "SELECT a FROM v16;".repeat(count);
    assert_eq!(STATEMENT_VIEWS_MAX % 16, 0);
    read(&catalog, &statements(STATEMENT_VIEWS_MAX / 16)).expect("as many as may be");
    let more = format!("{} SELECT a FROM v1", statements(STATEMENT_VIEWS_MAX / 16));
    refused(read(&catalog, &more), "more than 16384 views are read when they are written out");
}

#[test]
fn the_views_of_a_statement_have_so_many_bytes_and_not_more() {
    // A definition of 64 KiB.
    let head = "SELECT a FROM t WHERE a <> 0";
    let body = format!("{head}{}", " ".repeat(65_536 - head.len() - 8) + "AND b<>1");
    let catalog = changed(&table(), &format!("CREATE VIEW v AS {body}")).expect("a view");
    assert_eq!(catalog.plain_views["V"].text.len(), 65_536);
    let statements = |count: usize| "SELECT a FROM v;".repeat(count);
    read(&catalog, &statements(STATEMENT_VIEW_BYTES_MAX / 65_536)).expect("as many as may be");
    refused(
        read(&catalog, &statements(STATEMENT_VIEW_BYTES_MAX / 65_536 + 1)),
        "the views that are read have more than 4194304 bytes when they are written out",
    );
}

#[test]
fn its_text_makes_the_same_schema() {
    let made = changed(
        &table(),
        "CREATE VIEW z AS SELECT * FROM t; CREATE VIEW \"a b\" (\"c d\", \"FROM\") AS SELECT z.* FROM z -- all\n",
    )
    .expect("views");
    let made = changed(&made, "CREATE VIEW counted AS SELECT a, COUNT(*) AS n FROM t GROUP BY a").expect("a view");
    let made = changed(&made, "CREATE VIEW over_both AS SELECT z.a, n FROM z JOIN counted ON z.a = counted.a")
        .expect("a view");
    let text = schema_text(&made);
    let again = changed(&Catalog::before_history(), &text).expect("its own text is taken");
    assert_eq!(schema_text(&again), text);
    let described = |catalog: &Catalog| format!("{:?}", catalog.plain_views);
    assert_eq!(described(&again), described(&made), "{text}");
    assert_eq!(made.plain_views["Z"].text, "SELECT T.A, T.B FROM t");
}

/// Views of views, each of which nests what may stand in itself, until one is refused: never a
/// stack that runs out. The thread gets a small one on purpose.
#[test]
fn deep_views_of_deep_queries_are_refused_and_exhaust_no_stack() {
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    // The server's threads have 8 MiB. These texts take 2.0 to 2.25 MiB where crates are compiled
    // without incremental compilation, a little less with it.
    let worker = std::thread::Builder::new().stack_size(3 * 1024 * 1024).spawn(move || {
        for (open, close) in [
            ("SELECT a FROM (", ") AS x"),
            ("SELECT x.a FROM t AS y JOIN (", ") AS x ON x.a = y.a"),
            ("SELECT a FROM t WHERE a IN (", ")"),
            ("SELECT (", ") AS a FROM t"),
            ("WITH w AS (", ") SELECT a FROM w"),
            ("(", " UNION SELECT a FROM t)"),
        ] {
            for depth in [3, 20, 60, 90] {
                let mut catalog = table();
                let mut before = "SELECT a FROM t".to_owned();
                let mut refused = false;
                for number in 0..=VIEW_NESTING_MAX {
                    let query = nested(open, &before, close, depth);
                    let Ok(next) = changed(&catalog, &format!("CREATE VIEW v{number} (a) AS {query}")) else {
                        refused = true;
                        break;
                    };
                    catalog = next;
                    before = format!("SELECT MAX(a) AS a FROM v{number}");
                    read(&catalog, &format!("SELECT a FROM v{number}")).expect("what was made can be read");
                    for deep in [50, 150, 199] {
                        drop(read(&catalog, &nested("SELECT a FROM (", &before, ") AS x", deep)));
                    }
                }
                assert!(refused, "{open} {depth}");
            }
        }
    });
    worker.expect("a thread").join().expect("no panic");
}
