//! What several groups make of their shares of a statement is what one node makes of all.

use crate::support::{Collected, Database, Lending};
use bumpalo::Bump;
use ferrite_base::{PartitionId, UserResult};
use ferrite_exec::{Call, OwnShare, Scratch};

const PARTITIONS: u32 = 5;
/// The first group has the partitions before this one.
const SECOND_GROUP: u32 = 2;

fn database() -> Database {
    let mut database = Database::new(PARTITIONS, Lending::AsRouted);
    for text in [
        "CREATE TABLE t (p BIGINT NOT NULL, k BIGINT NOT NULL, u BIGINT, PRIMARY KEY (p, k), UNIQUE (p, u))",
        "PARTITION TABLE t ON COLUMN p",
    ] {
        database.run(text).expect("a legal schema");
    }
    for p in 0..20 {
        database.run(&format!("INSERT INTO t VALUES ({p}, 1, 10), ({p}, 2, 20)")).expect("new rows");
    }
    database
}

/// Runs a statement of rows by their owners, in two groups; the sum of the rows, and the tables.
fn in_groups(database: &mut Database, text: &str) -> UserResult<(u64, Vec<Vec<String>>)> {
    let statements = ferrite_sql::parse_batch(text)?;
    let program = ferrite_sql::compile_adhoc(&database.catalog, &statements, 0)?;
    let mut sum = 0;
    let mut rows = Vec::new();
    for group in [0..SECOND_GROUP, SECOND_GROUP..PARTITIONS] {
        let arena = Bump::new();
        let call = Call::new(&program, &[], 0, &arena);
        let mut collected = Collected::default();
        let is_elsewhere = |partition: PartitionId| !group.contains(&partition.0);
        let stores = &mut database.stores[group.start as usize..group.end as usize];
        let shares = [OwnShare::OwnRows];
        ferrite_exec::run_shares(stores, &call, &shares, &is_elsewhere, &mut Scratch::default(), &mut collected)?;
        sum += collected.modified.unwrap_or(0);
        rows.extend(collected.rows.into_iter().filter(|row| row.len() > 1));
    }
    database.stores.iter_mut().for_each(|store| store.commit());
    Ok((sum, rows))
}

fn contents(database: &mut Database) -> Vec<Vec<String>> {
    database.run("SELECT p, k, u FROM t ORDER BY p, k").expect("a query").rows
}

#[test]
fn an_upsert_whose_rows_exchange_keys_is_made_in_every_group() {
    let mut whole = database();
    let mut groups = database();
    // In half of the partitioning keys the rows exchange what is unique, in others they do not.
    let rows: Vec<String> = (0..20)
        .map(|p| match p % 2 {
            0 => format!("({p}, 1, 20), ({p}, 2, 10), ({p}, 3, 30)"),
            _ => format!("({p}, 2, 40), ({p}, 3, 50)"),
        })
        .collect();
    let text = format!("UPSERT INTO t VALUES {}", rows.join(", "));
    let expected = whole.run(&text).expect("keys are unique in the end").modified;
    let made = in_groups(&mut groups, &text).expect("keys are unique in the end");
    assert_eq!(Some(made.0), expected);
    assert_eq!(contents(&mut groups), contents(&mut whole));
    groups.stores.iter().for_each(|store| store.verify().expect("consistent"));
}

#[test]
fn an_upsert_that_leaves_a_duplicate_is_refused_and_changes_nothing() {
    let mut groups = database();
    let before = contents(&mut groups);
    for p in 0..20 {
        let text = format!("UPSERT INTO t VALUES ({p}, 1, 20), ({p}, 2, 20)");
        let refused = in_groups(&mut groups, &text).expect_err("a duplicate");
        assert_eq!(refused.code(), "23505", "{refused}");
    }
    assert_eq!(contents(&mut groups), before);
}
