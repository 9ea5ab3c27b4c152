//! What the planner is told of the rows: counts, and how many of a sample lie in a range.

use ferrite_base::{PartitionId, limits};
use ferrite_catalog::Catalog;
use ferrite_partition::{RowCounts, schema};
use ferrite_sql::Statistics;
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use ferrite_value::{OwnedValue, Value};
use std::ops::RangeInclusive;
use std::sync::Arc;

const ROWS: i64 = 40_000;
/// In place of a value that is not known yet.
const NEVER: i64 = 1_000_000_000;

#[test]
fn a_sample_stands_for_the_rows() {
    let text =
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, ends BIGINT, s BIGINT); CREATE INDEX by_end ON t (ends);
        CREATE TABLE nothing (id BIGINT NOT NULL PRIMARY KEY)";
    let planned = schema::plan(&Catalog::default(), text).unwrap();
    let mut stores = vec![Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
    schema::apply(&mut stores, &planned, 0).unwrap();
    let store = &mut stores[0];
    store.commit();
    let table = planned.catalog.table_named("T").unwrap().id;
    let counts = RowCounts::new(1);
    let part = |column: u16, between: RangeInclusive<i64>| {
        let [lower, upper] = [between.start(), between.end()].map(|bound| OwnedValue::Integer(*bound));
        counts.part_between(table, column, Some(&lower), Some(&upper))
    };
    assert_eq!(part(0, 0..=ROWS), None, "nothing was published");
    counts.publish(store);
    assert_eq!(part(0, 0..=ROWS), None, "there are no rows");
    let mut sampled = store.table(table).sample(limits::SAMPLE_ROWS).count();
    assert_eq!(sampled, 0);
    for id in 0..ROWS {
        // All but a tenth go on.
        let ends = if id % 10 == 0 { id } else { NEVER };
        store.insert(table, &[Value::Integer(id), Value::Integer(ends), Value::Null]).unwrap();
        let most = usize::try_from(id + 1).unwrap().min(2 * limits::SAMPLE_ROWS);
        if [1, 10, 1_000].contains(&(id + 1)) {
            sampled = store.table(table).sample(limits::SAMPLE_ROWS).count();
            assert!((1..=most).contains(&sampled), "{sampled} of {}", id + 1);
        }
        store.discard_redo();
        store.commit();
    }
    counts.publish(store);
    assert_eq!(counts.rows(table), u64::try_from(ROWS).ok());
    let about = |column: u16, between: RangeInclusive<i64>, expected: f64| {
        let found = part(column, between.clone()).expect("an index begins with the column");
        assert!((found - expected).abs() < 0.05, "{found}, not {expected}, of {column} in {between:?}");
    };
    about(0, 0..=ROWS, 1.0);
    about(0, 0..=ROWS / 2, 0.5);
    about(0, ROWS / 4..=ROWS / 2, 0.25);
    about(0, ROWS..=NEVER, 0.0);
    assert!(part(0, ROWS..=NEVER).is_some_and(|part| part > 0.0), "a sample says little of what it has not");
    // Interpolated between the ends, all but a few rows would be below.
    about(1, 0..=ROWS, 0.1);
    about(1, NEVER..=NEVER, 0.9);
    assert_eq!(part(2, 0..=ROWS), None, "no index begins with it");
}
