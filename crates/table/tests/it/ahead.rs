//! What is asked for ahead of a look-up is what the look-up finds.

use crate::common::*;
use ferrite_base::limits::INLINE_BYTES_MAX;
use ferrite_base::{RowId, TableId};
use ferrite_catalog::IndexKind;
use ferrite_table::{Store, finds_by_hash};
use ferrite_value::{Decimal, Point, SqlType, Value};

const T: TableId = TableId(0);
const ROWS: i64 = 300;

/// Type and length of a column, and its value in a row.
type Kind = (SqlType, u32, fn(i64) -> Value<'static>);

/// A column of each kind that a key may have.
fn columns() -> Vec<Kind> {
    fn text(number: i64, bytes: usize) -> &'static str {
        format!("{number:>bytes$}").leak()
    }
    vec![
        (SqlType::Bigint, 0, Value::Integer),
        (SqlType::Smallint, 0, Value::Integer),
        (SqlType::Timestamp, 0, Value::Timestamp),
        (SqlType::Date, 0, |number| Value::Date(2026 << 16 | 1 << 8 | (number as i32 % 28 + 1))),
        (SqlType::Decimal, 0, |number| Value::Decimal(Decimal::from_i64(number))),
        (SqlType::Float, 0, |number| Value::Float(number as f64 / 4.0)),
        (SqlType::Point, 0, |number| Value::Point(Point { longitude: number as f64 / 2.0, latitude: 7.0 })),
        (SqlType::Varchar, 10, |number| Value::Text(text(number, 5))),
        (SqlType::Varchar, 250, |number| Value::Text(text(number, 40))),
        (SqlType::Varbinary, INLINE_BYTES_MAX as u32, |number| Value::Bytes(text(number, 9).as_bytes())),
        (SqlType::Varbinary, 1_000, |number| Value::Bytes(text(number, 600).as_bytes())),
    ]
}

fn row(number: i64) -> Vec<Value<'static>> {
    let values = columns().into_iter().map(|(_, _, value)| value(number));
    // The last column tells apart what is equal in others.
    values.chain([Value::Integer(number)]).collect()
}

fn filled(nullable: bool, kind: IndexKind) -> Store {
    let mut schema = Schema::default();
    let kinds = columns();
    let last = kinds.len() as u16;
    let mut definitions: Vec<_> = (0..)
        .zip(&kinds)
        .map(|(number, (sql_type, length, _))| column(&format!("C{number}"), *sql_type, *length, nullable))
        .collect();
    definitions.push(column("N", SqlType::Bigint, 0, nullable));
    let mut indexes: Vec<_> =
        (0..last).map(|number| index(&format!("PAIR{number}"), &[number, last], true, kind)).collect();
    let single = (0..=last).filter(|column| *column != 3);
    indexes.extend(single.map(|number| index(&format!("ONE{number}"), &[number], true, kind)));
    indexes.push(index("NOT_UNIQUE", &[8], false, kind));
    schema.table("T", definitions, indexes);
    let mut store = schema.store();
    for number in 0..ROWS {
        store.insert(T, &row(number)).unwrap();
    }
    store.commit();
    store.verify().unwrap();
    store
}

/// Every index that finds by hash leads to the row that its look-up finds, and says beforehand that
/// it does.
fn check(store: &Store) {
    let table = store.table(T);
    for index in &table.definition().indexes {
        let columns = index.key_columns().unwrap();
        for id in table.scan() {
            let key: Vec<Value<'_>> = columns.iter().map(|column| table.row(id).column(*column)).collect();
            let hashed = table.hashed_key(index.id, &key);
            let has_null = key.iter().any(Value::is_null);
            assert_eq!(hashed.is_some(), finds_by_hash(table.definition(), index) && !has_null, "{}", index.name);
            let Some(hashed) = hashed else { continue };
            table.prefetch_bucket(index.id, hashed);
            let asked = table.prefetch_row(index.id, hashed).expect("the key is there");
            let found: Vec<RowId> = table.lookup(index.id, &key).collect();
            assert_eq!((asked, &found[..]), (id, &[id][..]), "{} {key:?}", index.name);
            assert!(table.lookup_one(index.id, &key).is_none_or(|found| found == Some(id)));
            (0..20).for_each(|column| table.prefetch_value(asked, column, 3));
        }
        let missing: Vec<Value<'_>> = columns.iter().map(|column| row(ROWS + 28)[usize::from(*column)]).collect();
        assert!(table.lookup_one(index.id, &missing).is_none_or(|found| found.is_none()));
        assert_eq!(table.lookup(index.id, &missing).count(), 0);
        // Of another kind than the column's.
        assert!(table.hashed_key(index.id, &vec![Value::Boolean(true); columns.len()]).is_none());
        assert!(table.hashed_key(index.id, &[]).is_none());
    }
}

#[test]
fn keys_of_all_types_lead_to_their_rows() {
    for kind in [IndexKind::Ordered, IndexKind::Hash] {
        for nullable in [false, true] {
            let mut store = filled(nullable, kind);
            check(&store);
            // After deletions and moves, too.
            let ids: Vec<RowId> = store.table(T).scan().collect();
            ids.iter().filter(|id| id.0 % 3 != 0).for_each(|id| store.delete(T, *id).unwrap());
            store.commit();
            store.set_compaction_waste_min(1);
            while store.compact(1_000, true) {
                store.commit();
            }
            store.commit();
            store.verify().unwrap();
            check(&store);
        }
    }
}

#[test]
fn unique_keys_with_nulls_are_refused_twice() {
    for kind in [IndexKind::Ordered, IndexKind::Hash] {
        let mut store = filled(true, kind);
        let mut values = row(ROWS);
        values.fill(Value::Null);
        store.insert(T, &values).unwrap();
        assert_eq!(store.insert(T, &values).unwrap_err().code(), "23505");
        store.commit();
        store.verify().unwrap();
    }
}

#[test]
fn any_row_and_any_column_may_be_asked_for() {
    let mut store = filled(false, IndexKind::Ordered);
    let last = store.table(T).scan().last().unwrap();
    store.truncate(T).unwrap();
    for row in [RowId(0), last, RowId(u32::MAX)] {
        (0..40).for_each(|column| store.table(T).prefetch_value(row, column, usize::MAX));
    }
    store.commit();
}
