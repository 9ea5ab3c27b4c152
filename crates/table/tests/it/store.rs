//! What a store does with changes that are fine, and what it says to those that are not.

mod views;

use crate::common::*;
use ferrite_base::limits::{INLINE_BYTES_MAX, TABLE_COLUMNS_MAX, VALUE_BYTES_MAX};
use ferrite_base::{ErrorKind, TableId, Watcher};
use ferrite_catalog::{Change, Effect, IndexKind, TableAction};
use ferrite_expr::{AggregateKind, CompareOperator, Expr};
use ferrite_table::{RedoError, Store};
use ferrite_value::{Decimal, SqlType, Value};
use std::sync::Arc;

const T: TableId = TableId(0);

fn customers(kind: IndexKind) -> Schema {
    let mut schema = Schema::default();
    schema.table(
        "CUSTOMERS",
        vec![
            column("ID", SqlType::Bigint, 0, false),
            column("NAME", SqlType::Varchar, 40, false),
            column("AGE", SqlType::Smallint, 0, true),
            column("BALANCE", SqlType::Decimal, 0, true),
            column("NOTE", SqlType::Varchar, 10_000, true),
        ],
        vec![
            index("BY_ID", &[0], true, kind),
            index("BY_NAME", &[1, 2], false, kind),
            index("BY_AGE", &[2], false, kind),
            index("BY_BALANCE", &[3], false, IndexKind::Ordered),
        ],
    );
    schema
}

fn customer<'v>(id: i64, name: &'v str, age: i64, note: &'v str) -> [Value<'v>; 5] {
    let balance = Value::Decimal(Decimal::from_i64(id * 10));
    [Value::Integer(id), Value::Text(name), Value::Integer(age), balance, Value::Text(note)]
}

fn ids_of(store: &Store, rows: impl Iterator<Item = ferrite_base::RowId>) -> Vec<i64> {
    rows.map(|row| match store.table(T).row(row).column(0) {
        Value::Integer(id) => id,
        other => panic!("{other:?}"),
    })
    .collect()
}

#[test]
fn rows_are_found_by_their_keys() {
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let mut store = customers(kind).store();
        for id in 0..500 {
            store.insert(T, &customer(id, if id % 2 == 0 { "Ada" } else { "Bob" }, id % 50, "x")).unwrap();
        }
        store.verify().unwrap();
        let table = store.table(T);
        let index = |name| index_id(&store, T, name);
        assert_eq!(ids_of(&store, table.lookup(index("BY_ID"), &[Value::Integer(77)])), [77]);
        assert_eq!(ids_of(&store, table.lookup(index("BY_ID"), &[Value::Integer(500)])), []);
        assert_eq!(ids_of(&store, table.lookup(index("BY_ID"), &[Value::Null])), []);
        // Another kind of number.
        let decimal = |text| Value::Decimal(Decimal::parse(text).unwrap());
        assert_eq!(ids_of(&store, table.lookup(index("BY_ID"), &[decimal("77")])), [77]);
        assert_eq!(ids_of(&store, table.lookup(index("BY_ID"), &[decimal("77.5")])), []);
        let mut found = ids_of(&store, table.lookup(index("BY_NAME"), &[Value::Text("Ada"), Value::Integer(4)]));
        found.sort();
        assert_eq!(found, (4..500).step_by(50).collect::<Vec<_>>());
        assert_eq!(ids_of(&store, table.lookup(index("BY_NAME"), &[Value::Text("Bob"), Value::Integer(4)])), []);
    }
}

#[test]
fn ranges_follow_bounds_and_order() {
    let mut store = customers(IndexKind::Ordered).store();
    for id in 0..10 {
        store.insert(T, &customer(id, if id < 5 { "Ada" } else { "Bob" }, id, "x")).unwrap();
    }
    let mut nobody = customer(10, "Cyd", 0, "x");
    nobody[2] = Value::Null;
    store.insert(T, &nobody).unwrap();
    let range = |name, equal: &[Value<'_>], lower, upper, descending| {
        let rows = store.table(T).range(index_id(&store, T, name), equal, lower, upper, descending);
        ids_of(&store, rows)
    };
    let int = Value::Integer;
    assert_eq!(range("BY_ID", &[], Some((int(7), true)), None, false), [7, 8, 9, 10]);
    assert_eq!(range("BY_ID", &[], Some((int(7), false)), Some((int(9), true)), true), [9, 8]);
    assert_eq!(range("BY_ID", &[], Some((int(7), false)), Some((int(7), true)), true), []);
    assert_eq!(range("BY_ID", &[], Some((int(9), true)), Some((int(2), true)), false), []);
    assert_eq!(range("BY_ID", &[int(3)], None, None, false), [3]);
    assert_eq!(range("BY_ID", &[], Some((Value::Float(7.5), true)), Some((Value::Float(9.0), false)), false), [8]);
    assert_eq!(range("BY_ID", &[], Some((Value::Null, false)), Some((int(1), true)), false), [0, 1]);
    // NULL is lowest, but less than nothing.
    assert_eq!(range("BY_AGE", &[], None, None, false), [10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(range("BY_AGE", &[], None, Some((int(2), false)), false), [0, 1]);
    assert_eq!(range("BY_AGE", &[], Some((Value::Null, false)), Some((int(1), true)), true), [1, 0]);
    assert_eq!(range("BY_AGE", &[], None, Some((Value::Null, true)), false), []);
    assert_eq!(range("BY_NAME", &[Value::Text("Ada")], Some((int(3), true)), None, false), [3, 4]);
    assert_eq!(range("BY_NAME", &[Value::Text("Ada")], None, None, true), [4, 3, 2, 1, 0]);
    assert_eq!(
        range("BY_NAME", &[], Some((Value::Text("Ada"), false)), Some((Value::Text("Bob"), true)), false),
        [5, 6, 7, 8, 9]
    );
    let decimal = |text| Value::Decimal(Decimal::parse(text).unwrap());
    assert_eq!(range("BY_BALANCE", &[], Some((decimal("69.5"), true)), Some((int(80), true)), false), [7, 8]);
}

#[test]
fn refusals_say_what_and_change_nothing() {
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let mut schema = customers(kind);
        let checks = vec![(
            "GROWN_UP".to_owned(),
            Expr::Compare {
                operator: CompareOperator::GreaterOrEqual,
                left: Box::new(Expr::column(0, 0)),
                right: Box::new(Expr::integer(18)),
            },
        )];
        schema.change(Change::CreateTable {
            name: "CHECKED".into(),
            columns: vec![column("AGE", SqlType::Integer, 0, false)],
            indexes: Vec::new(),
            primary_key: None,
            checks: checks
                .into_iter()
                .map(|(name, condition)| ferrite_catalog::Check { name, condition, text: String::new() })
                .collect(),
            stream: false,
            partition_column: None,
        });
        let checked = schema.id("CHECKED");
        let mut store = schema.store();
        store.insert(T, &customer(1, "Ada", 30, "x")).unwrap();
        let second = store.insert(T, &customer(2, "Bob", 31, "x")).unwrap();
        store.commit();
        let before = contents(&store, T);

        let error = store.insert(T, &customer(1, "dup", 3, "a long note that goes to a page of its own")).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::ConstraintViolation, "23505"));
        assert_eq!(error.message(), "Attempted violation of constraint");
        assert!(error.detail().unwrap().starts_with("Constraint Type UNIQUE, Table CatalogId CUSTOMERS\n"));
        assert!(error.detail().unwrap().contains("(ID) = (1)"), "{error}");
        let error =
            store.update(T, second, &[0, 4], &[Value::Integer(1), Value::Text("another long note")]).unwrap_err();
        assert_eq!(error.code(), "23505");
        store.update(T, second, &[0], &[Value::Integer(2)]).unwrap();

        let mut nameless = customer(3, "", 3, "x");
        nameless[1] = Value::Null;
        let error = store.insert(T, &nameless).unwrap_err();
        assert_eq!(error.code(), "23502");
        assert!(error.detail().unwrap().starts_with("Constraint Type NOT_NULL, Table CatalogId CUSTOMERS\n"));
        assert_eq!(store.update(T, second, &[1], &[Value::Null]).unwrap_err().code(), "23502");

        let long_name = "0123456789012345678901234567890123456789X";
        let error = store.insert(T, &customer(3, long_name, 3, "x")).unwrap_err();
        assert_eq!(
            error.message(),
            format!("The size 41 of the value '{long_name}' exceeds the size of the VARCHAR(40) column 'NAME'")
        );
        assert_eq!(store.insert(T, &customer(3, "x", 40_000, "x")).unwrap_err().code(), "22003");
        assert_eq!(store.insert(T, &[Value::Text("1")]).unwrap_err().kind(), ErrorKind::Internal);

        let error = store.insert(checked, &[Value::Integer(17)]).unwrap_err();
        assert_eq!(error.code(), "23514");
        assert!(error.detail().unwrap().starts_with("Constraint Type CHECK, Table CatalogId CHECKED\n"), "{error}");
        let grown_up = store.insert(checked, &[Value::Integer(18)]).unwrap();
        assert_eq!(store.update(checked, grown_up, &[0], &[Value::Integer(1)]).unwrap_err().code(), "23514");
        store.commit();
        assert_eq!(contents(&store, T), before);
        store.verify().unwrap();
    }
}

#[test]
fn a_unique_index_has_one_null() {
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let mut schema = Schema::default();
        let columns = vec![column("A", SqlType::Integer, 0, true), column("B", SqlType::Varchar, 5, true)];
        schema.table("T", columns, vec![index("I", &[0, 1], true, kind)]);
        let mut store = schema.store();
        store.insert(T, &[Value::Null, Value::Null]).unwrap();
        store.insert(T, &[Value::Null, Value::Text("")]).unwrap();
        assert_eq!(store.insert(T, &[Value::Null, Value::Null]).unwrap_err().code(), "23505");
    }
}

#[test]
fn partial_and_expression_indexes() {
    let mut schema = Schema::default();
    let mut by_length = index("BY_SUM", &[], true, IndexKind::Hash);
    by_length.keys = vec![Expr::Arithmetic {
        operator: ferrite_expr::ArithmeticOperator::Add,
        domain: ferrite_expr::ArithmeticDomain::Integer,
        left: Box::new(Expr::column(0, 0)),
        right: Box::new(Expr::column(0, 1)),
    }];
    by_length.predicate = Some(Expr::Compare {
        operator: CompareOperator::Greater,
        left: Box::new(Expr::column(0, 1)),
        right: Box::new(Expr::integer(0)),
    });
    let columns = vec![column("A", SqlType::Integer, 0, false), column("B", SqlType::Integer, 0, true)];
    schema.table("T", columns, vec![by_length]);
    let mut store = schema.store();
    let row = |a, b| [Value::Integer(a), Value::Integer(b)];
    let first = store.insert(T, &row(3, 4)).unwrap();
    assert_eq!(store.insert(T, &row(5, 2)).unwrap_err().code(), "23505");
    let outside = store.insert(T, &row(7, 0)).unwrap();
    store.insert(T, &row(8, -1)).unwrap();
    assert_eq!(store.update(T, outside, &[0, 1], &row(6, 1)).unwrap_err().code(), "23505");
    let found: Vec<_> = store.table(T).lookup(index_id(&store, T, "BY_SUM"), &[Value::Integer(7)]).collect();
    assert_eq!(found, [first]);
    store.commit();
    let mark = store.mark();
    store.update(T, first, &[1], &[Value::Null]).unwrap();
    store.update(T, outside, &[0, 1], &row(6, 1)).unwrap();
    store.verify().unwrap();
    store.rollback_to(mark);
    store.verify().unwrap();
}

#[test]
fn schema_changes_fill_and_refuse() {
    let mut schema = Schema::default();
    let columns = || vec![column("K", SqlType::Integer, 0, false), column("N", SqlType::Integer, 0, true)];
    let effects = schema.table("T", columns(), vec![]);
    let mut store = store();
    store.apply_effects(Arc::new(schema.catalog.clone()), &effects).unwrap();
    for i in 0..100 {
        store.insert(T, &[Value::Integer(i % 10), Value::Integer(i)]).unwrap();
    }
    store.commit();
    // Not unique: refused, and all is as before, the first effect included.
    let good = schema.catalog.clone();
    let mut effects = schema.table("OTHER", columns(), vec![]);
    effects.extend(
        schema.change(Change::CreateIndex { table: "T".into(), index: index("U", &[0], true, IndexKind::Hash) }),
    );
    assert_eq!(store.apply_effects(Arc::new(schema.catalog.clone()), &effects).unwrap_err().code(), "23505");
    assert!(store.table(T).definition().indexes.is_empty());
    assert_eq!(store.catalog().version, good.version);
    store.verify().unwrap();
    schema.catalog = good;
    let mut apply = |schema: &Schema, effects: &[Effect]| {
        store.apply_effects(Arc::new(schema.catalog.clone()), effects).unwrap();
        store.verify().unwrap();
    };
    let effects = schema.view(
        "V",
        "T",
        &[0],
        vec![aggregate(AggregateKind::CountRows, None), aggregate(AggregateKind::Min, Some((1, SqlType::Integer)))],
    );
    apply(&schema, &effects);
    let create = |table: &str, keys, unique, kind| Change::CreateIndex {
        table: table.into(),
        index: index(&format!("{table}_{kind:?}"), keys, unique, kind),
    };
    let effects = schema.change(create("T", &[0, 1], true, IndexKind::Ordered));
    apply(&schema, &effects);
    let effects = schema.change(create("V", &[1], false, IndexKind::Ordered));
    apply(&schema, &effects);
    for i in 0..50 {
        store.insert(T, &[Value::Integer(i % 7), Value::Integer(i + 1000)]).unwrap();
        let row = store.table(T).scan().nth(i as usize).unwrap();
        store.delete(T, row).unwrap();
        store.verify().unwrap();
    }
    store.commit();
    let effects = schema.change(Change::DropIndex { name: "T_Ordered".into(), if_exists: false });
    store.apply_effects(Arc::new(schema.catalog.clone()), &effects).unwrap();
    let row = store.table(T).scan().next().unwrap();
    store.delete(T, row).unwrap();
    store.commit();
    store.verify().unwrap();
    let effects = schema.change(Change::DropTable {
        name: "T".into(),
        if_exists: false,
        cascade: true,
        kind: ferrite_catalog::TableKind::Table,
    });
    store.apply_effects(Arc::new(schema.catalog.clone()), &effects).unwrap();
    assert_eq!(store.memory().len(), 0);
}

/// A DATE before 1583 is no TIMESTAMP that may be stored; where an earlier release has stored it
/// so, the log says that it did.
#[test]
fn what_a_committed_change_stored_is_stored_again() {
    let mut schema = Schema::default();
    let effects = schema.table("T", vec![column("D", SqlType::Date, 0, true)], vec![]);
    let mut store = store();
    store.apply_effects(Arc::new(schema.catalog.clone()), &effects).unwrap();
    store.insert(T, &[Value::Date((1 << 16) | 0x101)]).unwrap();
    store.commit();
    let to = column("", SqlType::Timestamp, 0, true).column_type;
    let action = TableAction::SetType { column: "D".into(), to, default: None, default_text: None };
    let effects = schema.change(Change::AlterTable { table: "T".into(), action });
    let catalog = Arc::new(schema.catalog.clone());
    let (mut stores, watcher) = ([store], Watcher::new(|| Ok(())));
    let refused =
        ferrite_table::change_schema_watched(&mut stores, &catalog, &effects, 0, &watcher).map(drop).unwrap_err();
    assert!(refused.message().contains("cannot become TIMESTAMP"), "{refused}");
    assert_eq!(sorted_contents(&stores[0], T), ["Date(65793)"]);
    ferrite_table::change_schema(&mut stores, &catalog, &effects, 0).unwrap();
    assert_eq!(sorted_contents(&stores[0], T), ["Timestamp(-62135596800000000)"]);
}

#[test]
fn redo_that_does_not_fit_is_refused_without_a_trace() {
    let schema = customers(IndexKind::Ordered);
    let mut store = schema.store();
    let first = store.insert(T, &customer(1, "Ada", 30, "x")).unwrap();
    let insert = store.redo().to_vec();
    store.commit();
    store.update(T, first, &[1, 4], &[Value::Text("Bea"), Value::Null]).unwrap();
    let update = store.redo().to_vec();
    store.commit();
    let mut copy = schema.store();
    assert_eq!(copy.apply_redo(&update), Err(RedoError::RowMissing { table: T, row: first }));
    copy.apply_redo(&insert).unwrap();
    let before = contents(&copy, T);
    assert_eq!(copy.apply_redo(&[9]), Err(RedoError::UnknownKind(9)));
    assert_eq!(copy.apply_redo(&[1, 55]), Err(RedoError::UnknownTable(55)));
    assert_eq!(copy.apply_redo(&[3, 0, 7]), Err(RedoError::RowMissing { table: T, row: ferrite_base::RowId(7) }));
    assert!(matches!(copy.apply_redo(&insert), Err(RedoError::Refused { .. } | RedoError::RowTaken { .. })));
    for cut in 1..update.len() {
        assert_eq!(copy.apply_redo(&update[..cut]), Err(RedoError::UnexpectedEnd), "cut at {cut}");
    }
    // A good change before a bad one goes too.
    let both = [&update[..], &[3, 0, 9]].concat();
    assert!(copy.apply_redo(&both).is_err());
    assert_eq!(contents(&copy, T), before);
    copy.apply_redo(&update).unwrap();
    assert_eq!(contents(&copy, T), contents(&store, T));
    copy.verify().unwrap();
}

#[test]
fn the_largest_values_fit_and_one_byte_more_does_not() {
    let mut schema = Schema::default();
    let column = column("A", SqlType::Varbinary, VALUE_BYTES_MAX as u32, false);
    schema.table("T", vec![column], vec![]);
    let mut store = schema.store();
    let bytes = vec![7; VALUE_BYTES_MAX + 1];
    assert_eq!(store.insert(T, &[Value::Bytes(&bytes)]).unwrap_err().code(), "22001");
    store.insert(T, &[Value::Bytes(&bytes[1..])]).unwrap();
    let mut copy = schema.store();
    copy.apply_redo(store.redo()).unwrap();
    store.commit();
    copy.verify().unwrap();
    assert_eq!(contents(&copy, T), contents(&store, T));
}

#[test]
fn texts_are_in_the_row_up_to_a_limit_and_beside_it_beyond() {
    for length in [INLINE_BYTES_MAX as u32, INLINE_BYTES_MAX as u32 + 1] {
        let mut schema = Schema::default();
        schema.table("T", vec![column("A", SqlType::Varbinary, length, false)], vec![]);
        let mut store = schema.store();
        let bytes = vec![1; length as usize];
        store.insert(T, &[Value::Bytes(&bytes)]).unwrap();
        assert_eq!(store.memory()[0].long_value_bytes > 0, length as usize > INLINE_BYTES_MAX);
        assert_eq!(contents(&store, T), [format!("0: {:?}", Value::Bytes(&bytes))]);
    }
}

#[test]
fn a_table_of_the_most_columns() {
    let mut schema = Schema::default();
    let columns = (0..TABLE_COLUMNS_MAX).map(|i| column(&format!("C{i}"), SqlType::Varchar, 15, i % 2 == 0)).collect();
    schema.table("T", columns, vec![index("I", &[1023, 5, 7], true, IndexKind::Ordered)]);
    let mut store = schema.store();
    let texts: Vec<String> = (0..TABLE_COLUMNS_MAX).map(|i| format!("text {i}")).collect();
    for i in 0..20 {
        let mut row: Vec<Value<'_>> = texts.iter().map(|text| Value::Text(text)).collect();
        row[5] = Value::Text(&texts[i]);
        row[8] = Value::Null;
        store.insert(T, &row).unwrap();
    }
    let mut copy = schema.store();
    copy.apply_redo(store.redo()).unwrap();
    store.commit();
    copy.verify().unwrap();
    assert_eq!(contents(&copy, T), contents(&store, T));
}

#[test]
fn a_vote_takes_less_than_eighty_bytes() {
    let schema = voter();
    let mut store = schema.store();
    let votes = 300_000;
    for i in 0..votes {
        let row = [Value::Integer(i * 7919), Value::Text(["CA", "NY", "TX"][i as usize % 3]), Value::Integer(i % 6)];
        store.insert(T, &row).unwrap();
        store.commit();
    }
    let bytes: usize = store.memory().iter().map(|table| table.total_bytes()).sum();
    assert!(bytes < votes as usize * 80, "{} bytes a vote", bytes / votes as usize);
    store.verify().unwrap();
}

#[test]
fn stores_can_be_lent_to_other_threads() {
    fn is_send<X: Send>() {}
    is_send::<Store>();
}

#[test]
fn keys_of_several_partitions_are_told_apart() {
    let ring = Arc::new(ferrite_value::ring::Ring::new_default(3));
    let mut schema = Schema::default();
    schema.table("T", vec![column("K", SqlType::Bigint, 0, false)], vec![]);
    schema.change(Change::PartitionTable { table: "T".into(), column: "K".into() });
    let stores: Vec<Store> =
        (0..3).map(|partition| Store::new(ferrite_base::PartitionId(partition), ring.clone())).collect();
    let table = schema.catalog.table(T).unwrap();
    for key in 0..1000 {
        let owners = stores.iter().filter(|store| store.owns(table, &Value::Integer(key)).unwrap());
        assert_eq!(owners.count(), 1);
    }
    assert!(stores[0].owns(table, &Value::Null).unwrap());
    assert!(stores[0].owns(table, &Value::Point(ferrite_value::Point { longitude: 0.0, latitude: 0.0 })).is_err());
}
