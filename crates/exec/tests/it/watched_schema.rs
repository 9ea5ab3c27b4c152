//! Changes of the schema that are ended by whoever watches them: at every moment at which it is
//! asked, nothing has changed. Those who follow the log are asked nothing.

use crate::support::{Database, Lending, filled};
use ferrite_base::{ErrorKind, UserError, Watcher};
use std::cell::Cell;
use std::rc::Rc;

/// Rows of the partitioned table, enough for several questions in each of two stores.
const ROWS: u32 = 2_400;

const BEFORE: &[&str] = &[
    "CREATE INDEX t_k ON t (k, s)",
    "CREATE VIEW per_k (k, n, least) AS SELECT k, COUNT(*), MIN(s) FROM t GROUP BY k",
    "CREATE VIEW per_name (name, n) AS SELECT names.name, COUNT(*) FROM t JOIN names ON t.k = names.k GROUP BY names.name",
    "CREATE TABLE whole (id BIGINT NOT NULL, s VARCHAR(20), PRIMARY KEY (id))",
    "INSERT INTO whole SELECT n, 'w' FROM GENERATE_SERIES(1, 1200) AS g (n)",
];

const CHANGES: &[&str] = &[
    "CREATE INDEX i ON t (s)",
    "CREATE UNIQUE INDEX i ON t (d, id)",
    "CREATE INDEX i_hash ON t (UPPER(s), k)",
    "CREATE INDEX i ON t (s) WHERE s LIKE '%1%'",
    "CREATE INDEX i ON per_k (n); CREATE INDEX j ON t (s)",
    "CREATE ASSUMEUNIQUE INDEX i ON whole (s, id)",
    "ALTER TABLE t ADD CONSTRAINT c CHECK (s LIKE 's%' OR s IS NULL)",
    "ALTER TABLE t ADD COLUMN e VARCHAR(100) DEFAULT 'and some text that does not lie in the row, so long is it, if you count' NOT NULL",
    "ALTER TABLE t DROP COLUMN d",
    "ALTER TABLE whole ALTER COLUMN s VARCHAR(200)",
    "ALTER TABLE whole ALTER COLUMN s SET NOT NULL",
    "CREATE VIEW v (s, n, most) AS SELECT s, COUNT(*), MAX(d) FROM t WHERE k > 3 GROUP BY s",
    "CREATE VIEW v (n, total) AS SELECT COUNT(*), SUM(d) FROM t",
    "CREATE VIEW v (k, n) AS SELECT t.k, COUNT(*) FROM t JOIN names ON t.k = names.k AND names.name LIKE '%1' GROUP BY t.k",
    "PARTITION TABLE whole ON COLUMN id",
    "DROP VIEW per_name; DROP VIEW per_k; DROP INDEX t_k; CREATE INDEX t_k ON t (d); ALTER TABLE t ADD COLUMN e BIGINT; PARTITION TABLE whole ON COLUMN id;
     CREATE VIEW per_k (s, n) AS SELECT s, COUNT(*) FROM whole GROUP BY s",
];

fn enough() -> UserError {
    UserError::limit("enough")
}

/// Allows as many questions as `allowed`; the other counts them.
fn allowing(allowed: usize) -> (Watcher, Rc<Cell<usize>>) {
    let asked = Rc::new(Cell::new(0));
    let count = Rc::clone(&asked);
    let watcher = Watcher::new(move || {
        count.set(count.get() + 1);
        if count.get() > allowed { Err(enough()) } else { Ok(()) }
    });
    (watcher, asked)
}

/// All that a store has: which tables and indexes, and their rows in their places.
fn everything(database: &Database) -> Vec<String> {
    let mut all = Vec::new();
    for store in &database.stores {
        for (name, table) in &database.catalog.tables {
            let rows = store.table(table.id);
            all.push(format!("{name}: {:?}", rows.definition()));
            for id in rows.scan() {
                let row = rows.row(id);
                let values: Vec<_> = (0..table.columns.len() as u16).map(|column| row.column(column)).collect();
                all.push(format!("{name} {id}: {values:?}"));
            }
        }
    }
    all
}

#[test]
fn whenever_it_is_ended_nothing_has_changed() {
    for change in CHANGES {
        let mut database = filled(2, Lending::All, ROWS);
        BEFORE.iter().for_each(|text| drop(database.run(text).expect("what is there before")));
        let before = everything(&database);
        let mut allowed = 0;
        loop {
            let (watcher, asked) = allowing(allowed);
            match database.run_watched(change, &watcher) {
                Ok(()) => {
                    assert_eq!(asked.get(), allowed, "{change}");
                    break;
                }
                Err(error) => assert_eq!(error, enough(), "{change}"),
            }
            assert_eq!(everything(&database), before, "{change}: after {allowed} questions");
            allowed += 1;
        }
        assert!(allowed >= 2, "{change}: it was asked {allowed} times");
        // What is there works on, with all its indexes and views; and is what it is to those who
        // were never stopped.
        database.verify();
        database.run("UPDATE t SET k = 7 WHERE id < 500").expect("an update");
        database.run("DELETE FROM whole WHERE id > 900").expect("a deletion");
        database.verify();
    }
}

#[test]
fn what_is_ended_early_leaves_what_comes_next_alone() {
    let mut database = filled(2, Lending::All, ROWS);
    BEFORE.iter().for_each(|text| drop(database.run(text).expect("what is there before")));
    for (allowed, change) in CHANGES.iter().enumerate() {
        let (watcher, _) = allowing(allowed % 3);
        let error = database.run_watched(&format!("{change}; CREATE INDEX last ON t (s, k)"), &watcher);
        assert_eq!(error.expect_err("it is ended").kind(), ErrorKind::Limit, "{change}");
        database.run("INSERT INTO t SELECT 100000 + COUNT(*), 7, 'x', 1 FROM t").expect("a row");
    }
    database.verify();
    database.run("CREATE INDEX last ON t (s, k)").expect("nobody ends this one");
    database.verify();
}
