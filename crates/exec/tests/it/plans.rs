//! Plans do the work that they are chosen for: statements on large tables, with how many rows they
//! meet counted through the interruption hook (which is asked every 1,024 rows). With `--nocapture`
//! the times are printed.

use crate::support::{Collected, Database, Lending};
use bumpalo::Bump;
use ferrite_exec::{Call, Scratch};
use std::cell::Cell;
use std::time::Instant;

const ROWS: u64 = 100_000;

/// Two tables of [`ROWS`] rows without an index on `k`, of which each value is there once.
fn database(partitions: u32) -> Database {
    let mut database = Database::new(partitions, Lending::All);
    for statement in [
        "CREATE TABLE digits (d INTEGER NOT NULL)",
        "INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
        "CREATE TABLE one (id INTEGER NOT NULL, k INTEGER, v INTEGER, PRIMARY KEY (id))",
        "PARTITION TABLE one ON COLUMN id",
        "CREATE INDEX one_v ON one (v)",
        "CREATE TABLE two (id INTEGER NOT NULL, k INTEGER)",
    ] {
        database.run(statement).expect(statement);
    }
    let number = "a.d * 10000 + b.d * 1000 + c.d * 100 + e.d * 10 + f.d";
    let digits = "digits a, digits b, digits c, digits e, digits f";
    database.run(&format!("INSERT INTO one SELECT {number}, {number}, {number} FROM {digits}")).expect("rows");
    database.run(&format!("INSERT INTO two SELECT {number}, 99999 - ({number}) FROM {digits}")).expect("rows");
    database
}

/// The first value of the result, and how many times 1,024 rows were met.
fn run(database: &mut Database, text: &str) -> (String, u64) {
    let statements = ferrite_sql::parse_batch(text).expect("it parses");
    let program = ferrite_sql::compile_adhoc(&database.catalog, &statements, 0).expect("it compiles");
    let arena = Bump::new();
    let asked = Cell::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        false
    };
    let call = Call { interrupted: Some(&interrupted), ..Call::new(&program, &[], 0, &arena) };
    let mut collected = Collected::default();
    let start = Instant::now();
    ferrite_exec::run_transaction(&mut database.stores, &call, &mut Scratch::default(), &mut collected)
        .expect("it runs");
    println!("{:?} {text}", start.elapsed());
    (collected.rows[0][0].clone(), asked.get())
}

#[test]
fn a_join_without_indexes_meets_each_row_a_few_times() {
    for partitions in [1, 3] {
        let mut database = database(partitions);
        for text in [
            "SELECT COUNT(*) FROM one, two WHERE one.k = two.k",
            "SELECT COUNT(two.k) FROM one LEFT JOIN two ON one.k = two.k",
            "SELECT COUNT(*) FROM two WHERE EXISTS (SELECT 1 FROM one WHERE one.k = two.k)",
        ] {
            let (count, asked) = run(&mut database, text);
            assert_eq!(count, ROWS.to_string(), "{text}");
            assert!(asked <= 6 * ROWS / 1_024, "{text}: asked {asked} times");
        }
    }
}

#[test]
fn the_first_rows_and_the_extremes_of_an_index_meet_no_more() {
    for partitions in [1, 3] {
        let mut database = database(partitions);
        for (text, value) in [
            ("SELECT v FROM one ORDER BY v DESC LIMIT 10", "99999"),
            ("SELECT v FROM one WHERE v > 500 ORDER BY v LIMIT 10 OFFSET 5", "506"),
            ("SELECT MAX(v) FROM one", "99999"),
            ("SELECT MIN(v) FROM one WHERE v > 7", "8"),
            ("SELECT COUNT(*) FROM one WHERE v IN (1, 5, 77777, 5)", "3"),
        ] {
            assert_eq!(run(&mut database, text), (value.to_owned(), 0), "{text}");
        }
    }
}
