//! Random transactions against a model: a map from row id to values. After each: the store agrees
//! with the model and with itself, an abort leaves no trace, and a copy that replays the redo is
//! the same to the row id.

use crate::common::*;
use ferrite_base::{RowId, Sequence, TableId};
use ferrite_catalog::IndexKind;
use ferrite_expr::{AggregateKind, CompareOperator, Expr};
use ferrite_table::{Store, Upcoming};
use ferrite_value::{Decimal, OwnedValue, SqlType, Value, compare};
use std::collections::BTreeMap;

const T: TableId = TableId(0);
const G: u16 = 1;
const N: u16 = 2;
const S: u16 = 3;
const D: u16 = 5;
const COLUMNS: u16 = 7;

fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.table(
        "T",
        vec![
            column("K", SqlType::Bigint, 0, false),
            column("G", SqlType::Tinyint, 0, true),
            column("N", SqlType::Integer, 0, true),
            column("S", SqlType::Varchar, 500, true),
            column("B", SqlType::Varbinary, 20, true),
            column("D", SqlType::Decimal, 0, true),
            column("F", SqlType::Float, 0, false),
        ],
        vec![
            index("UNIQUE_HASH", &[0], true, IndexKind::Hash),
            index("HASH_OF_FEW", &[1], false, IndexKind::Hash),
            index("HASH_OF_TEXT", &[3, 1], false, IndexKind::Hash),
            index("UNIQUE_ORDERED", &[3, 0], true, IndexKind::Ordered),
            index("ORDERED", &[1, 2, 5], false, IndexKind::Ordered),
            index("ORDERED_INTEGER", &[0], false, IndexKind::Ordered),
        ],
    );
    let aggregates = || {
        vec![
            aggregate(AggregateKind::CountRows, None),
            aggregate(AggregateKind::Sum, Some((N, SqlType::Integer))),
            aggregate(AggregateKind::Sum, Some((D, SqlType::Decimal))),
            aggregate(AggregateKind::Count, Some((N, SqlType::Integer))),
            aggregate(AggregateKind::Min, Some((S, SqlType::Varchar))),
            aggregate(AggregateKind::Max, Some((N, SqlType::Integer))),
        ]
    };
    let counts = || aggregates().into_iter().take(4).collect::<Vec<_>>();
    schema.view("BY_GROUP", "T", &[G], aggregates());
    schema.view("BY_TEXT", "T", &[S, G], counts());
    schema.view("ALL_ROWS", "T", &[], aggregates());
    let filter = Expr::Compare {
        operator: CompareOperator::Greater,
        left: Box::new(Expr::column(0, N)),
        right: Box::new(Expr::integer(3)),
    };
    schema.filtered_view("FILTERED", "T", &[G, N], counts(), Some(filter));
    schema.change(ferrite_catalog::Change::CreateIndex {
        table: "BY_GROUP".into(),
        index: index("BY_COUNT", &[1], false, IndexKind::Ordered),
    });
    schema
}

fn random_value(random: &mut Random, column: u16) -> OwnedValue {
    if column != 0 && column != 6 && random.one_in(5) {
        return OwnedValue::Null;
    }
    let small = random.below(6) as i64;
    match column {
        0 => OwnedValue::Integer(random.below(200) as i64 - 50),
        1 => OwnedValue::Integer(small),
        2 => OwnedValue::Integer(random.below(10) as i64),
        3 => {
            let lengths = [0, 3, 8, 62, 64, 499];
            OwnedValue::Text("abcdefghi"[small as usize..][..1].repeat(lengths[random.below(6) as usize]).into())
        }
        4 => OwnedValue::Bytes(vec![small as u8; random.below(21) as usize].into()),
        5 => OwnedValue::Decimal(Decimal::from_i64(small)),
        _ => OwnedValue::Float(small as f64 / 4.0),
    }
}

type Model = BTreeMap<RowId, Vec<OwnedValue>>;

fn insert(store: &mut Store, model: &mut Model, random: &mut Random) {
    let row: Vec<OwnedValue> = (0..COLUMNS).map(|column| random_value(random, column)).collect();
    let values: Vec<Value<'_>> = row.iter().map(OwnedValue::as_value).collect();
    let taken = model.values().any(|other| other[0] == row[0]);
    match store.insert(T, &values) {
        Ok(id) => {
            assert!(!taken);
            assert!(model.insert(id, row).is_none());
        }
        Err(error) => assert!(taken && error.code() == "23505", "{error:?}"),
    }
}

fn update(store: &mut Store, model: &mut Model, random: &mut Random, id: RowId) {
    let columns: Vec<u16> = (0..COLUMNS).filter(|_| random.one_in(3)).collect();
    let row: Vec<OwnedValue> = columns.iter().map(|column| random_value(random, *column)).collect();
    let values: Vec<Value<'_>> = row.iter().map(OwnedValue::as_value).collect();
    let taken = columns.first() == Some(&0) && model.iter().any(|(other, old)| *other != id && old[0] == row[0]);
    match store.update(T, id, &columns, &values) {
        Ok(()) => {
            assert!(!taken);
            let stored = model.get_mut(&id).unwrap();
            columns.iter().zip(row).for_each(|(column, value)| stored[*column as usize] = value);
        }
        Err(error) => assert!(taken && error.code() == "23505", "{error:?}"),
    }
}

fn change(store: &mut Store, model: &mut Model, random: &mut Random) {
    let some_row = |model: &Model, random: &mut Random| {
        let position = random.below(model.len().max(1) as u64) as usize;
        model.keys().nth(position).copied()
    };
    match (random.below(20), some_row(model, random)) {
        (0..10, _) | (_, None) => insert(store, model, random),
        (10..15, Some(id)) => update(store, model, random, id),
        (19, _) if random.one_in(10) => {
            assert_eq!(store.truncate(T).unwrap(), model.len() as u64);
            model.clear();
        }
        (_, Some(id)) => {
            store.delete(T, id).unwrap();
            model.remove(&id);
        }
    }
}

fn check_rows(store: &Store, model: &Model) {
    let table = store.table(T);
    assert!(table.scan().eq(model.keys().copied()));
    for (id, row) in model {
        for (column, value) in row.iter().enumerate() {
            assert_eq!(table.row(*id).column(column as u16).to_owned_value(), *value);
        }
    }
}

/// Counts and sums by hand, for one view.
fn check_view(store: &Store, schema: &Schema, model: &Model) {
    let view = store.table(schema.id("BY_GROUP"));
    let mut groups: BTreeMap<String, (i64, Option<i64>)> = BTreeMap::new();
    for row in model.values() {
        let group = groups.entry(format!("{:?}", row[G as usize])).or_default();
        group.0 += 1;
        if let OwnedValue::Integer(n) = row[N as usize] {
            group.1 = Some(group.1.unwrap_or(0) + n);
        }
    }
    assert_eq!(view.row_count() as usize, groups.len());
    for id in view.scan() {
        let row = view.row(id);
        let (count, sum) = groups[&format!("{:?}", row.column(0).to_owned_value())];
        assert!(compare::equal_grouping(&row.column(1), &Value::Integer(count)));
        assert!(compare::equal_grouping(&row.column(2), &sum.map_or(Value::Null, Value::Integer)));
    }
}

/// Look-ups and ranges against a filter over the model.
fn check_indexes(store: &Store, model: &Model, random: &mut Random) {
    let table = store.table(T);
    for index in &table.definition().indexes {
        let columns = index.key_columns().unwrap();
        let key: Vec<OwnedValue> = columns.iter().map(|column| random_value(random, *column)).collect();
        let key: Vec<Value<'_>> = key.iter().map(OwnedValue::as_value).collect();
        let equal = |row: &[OwnedValue], parts: usize| {
            columns[..parts].iter().zip(&key).all(|(column, value)| {
                compare::compare(&row[*column as usize].as_value(), value).is_some_and(std::cmp::Ordering::is_eq)
            })
        };
        let wanted: Vec<RowId> = model.iter().filter(|(_, row)| equal(row, columns.len())).map(|(id, _)| *id).collect();
        let mut found: Vec<RowId> = table.lookup(index.id, &key).collect();
        found.sort();
        assert_eq!(found, wanted, "index {} for {key:?}", index.name);
        if index.kind == IndexKind::Hash {
            continue;
        }
        let parts = random.below(columns.len() as u64) as usize;
        let mut bound = || {
            let value = random_value(random, columns[parts]);
            (!random.one_in(3) && value != OwnedValue::Null).then(|| (value, random.one_in(2)))
        };
        let (lower, upper) = (bound(), bound());
        let within = |row: &[OwnedValue]| {
            let value = row[columns[parts] as usize].as_value();
            let meets = |bound: &Option<(OwnedValue, bool)>, wanted: std::cmp::Ordering| {
                bound.as_ref().is_none_or(|(bound, inclusive)| {
                    compare::compare(&value, &bound.as_value())
                        .is_some_and(|order| order == wanted || (*inclusive && order.is_eq()))
                })
            };
            meets(&lower, std::cmp::Ordering::Greater) && meets(&upper, std::cmp::Ordering::Less)
        };
        let mut wanted: Vec<RowId> =
            model.iter().filter(|(_, row)| equal(row, parts) && within(row)).map(|(id, _)| *id).collect();
        let order = |left: &RowId, right: &RowId| {
            let mut parts = columns.iter().map(|column| {
                compare::order(&model[left][*column as usize].as_value(), &model[right][*column as usize].as_value())
            });
            parts.find(|order| order.is_ne()).unwrap_or(left.cmp(right))
        };
        wanted.sort_by(order);
        let borrowed = |bound: &Option<(OwnedValue, bool)>| -> Option<(OwnedValue, bool)> { bound.clone() };
        let (lower, upper) = (borrowed(&lower), borrowed(&upper));
        let as_value = |bound: &'_ Option<(OwnedValue, bool)>| {
            bound.as_ref().map(|(value, inclusive)| (value.clone(), *inclusive))
        };
        let (low, high) = (as_value(&lower), as_value(&upper));
        for descending in [false, true] {
            let low = low.as_ref().map(|(value, inclusive)| (value.as_value(), *inclusive));
            let high = high.as_ref().map(|(value, inclusive)| (value.as_value(), *inclusive));
            let found: Vec<RowId> = table.range(index.id, &key[..parts], low, high, descending).collect();
            assert_eq!(found, wanted, "index {} equal {:?} {low:?} {high:?}", index.name, &key[..parts]);
            wanted.reverse();
        }
    }
}

fn dump(store: &Store, schema: &Schema) -> Vec<Vec<String>> {
    let mut tables: Vec<Vec<String>> = schema
        .catalog
        .tables
        .values()
        .filter(|table| table.view.is_some())
        .map(|table| sorted_contents(store, table.id))
        .collect();
    tables.push(contents(store, T));
    tables
}

/// A copy makes transactions again, all of which it reads before it makes the first.
fn make_again(copy: &mut Store, transactions: &[Vec<u8>]) {
    let mut upcoming = Upcoming::default();
    transactions.iter().for_each(|redo| copy.read_ahead(&mut upcoming, redo));
    assert_eq!((upcoming.len(), upcoming.is_empty()), (transactions.len(), transactions.is_empty()));
    copy.ask_for_first(&upcoming);
    for number in 0..transactions.len() {
        copy.ask_for_second(&upcoming);
        copy.apply_upcoming(&upcoming, number).unwrap();
    }
    upcoming.clear();
    assert!(upcoming.is_empty());
}

fn run(seed: u64, transactions: u64) {
    let mut random = Random(seed);
    let schema = schema();
    let mut store = schema.store();
    let mut copy = schema.store();
    let mut ahead = schema.store();
    let mut unread = Vec::new();
    let mut model = Model::new();
    for _ in 0..transactions {
        let before = (dump(&store, &schema), model.clone());
        let start = store.mark();
        for _ in 0..random.below(12) {
            let statement = (store.mark(), model.clone());
            for _ in 0..1 + random.below(3) {
                change(&mut store, &mut model, &mut random);
            }
            if random.one_in(6) {
                store.rollback_to(statement.0);
                model = statement.1;
            }
        }
        check_rows(&store, &model);
        check_view(&store, &schema, &model);
        if random.one_in(4) {
            store.rollback_to(start);
            assert!(store.redo().is_empty());
            model = before.1;
            assert_eq!(dump(&store, &schema), before.0);
        } else {
            copy.apply_redo(store.redo()).unwrap();
            unread.push(store.redo().to_vec());
            store.commit();
        }
        if random.one_in(8) {
            make_again(&mut ahead, &std::mem::take(&mut unread));
        }
        store.verify().unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        check_rows(&store, &model);
        check_indexes(&store, &model, &mut random);
    }
    make_again(&mut ahead, &unread);
    for copy in [&copy, &ahead] {
        assert_eq!(dump(copy, &schema), dump(&store, &schema));
        copy.verify().unwrap();
        assert_eq!(copy.replayed(), ahead.replayed());
    }
    // Where the next row goes is the same too.
    let row: Vec<Value<'_>> = vec![
        Value::Integer(1_000_000),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Float(0.0),
    ];
    let placed = store.insert(T, &row);
    assert_eq!((copy.insert(T, &row), ahead.insert(T, &row)), (placed.clone(), placed));
}

#[test]
fn random_transactions_agree_with_a_model() {
    for seed in 0..40 {
        run(seed, 100);
    }
}

/// Transactions of which some are committed later and some undone after they have ended: what is
/// left is what the survivors alone leave, to the row id.
fn run_retained(seed: u64, transactions: u64) {
    let mut random = Random(seed);
    let schema = schema();
    let mut store = schema.store();
    store.set_compaction_waste_min(64);
    store.retain_undo(true);
    // What those have done that will not be undone, and after each of the others.
    let mut copy = schema.store();
    let mut pending: Vec<(Sequence, Vec<u8>, Model)> = Vec::new();
    let (mut model, mut committed, mut sequence) = (Model::new(), Model::new(), Sequence(0));
    for _ in 0..transactions {
        let before = model.clone();
        let start = store.beginning();
        for _ in 0..random.below(8) {
            let statement = (store.mark(), model.clone());
            change(&mut store, &mut model, &mut random);
            if random.one_in(6) {
                store.rollback_to(statement.0);
                model = statement.1;
            }
        }
        if random.one_in(5) {
            store.rollback_to(start);
            model = before;
        } else if random.one_in(6) && store.is_committed() {
            // Moves rows, and logs that.
            store.compact(1 + random.below(30) as usize, false);
            let moved: BTreeMap<RowId, Vec<OwnedValue>> = store
                .table(T)
                .scan()
                .map(|id| (id, (0..COLUMNS).map(|c| store.table(T).row(id).column(c).to_owned_value()).collect()))
                .collect();
            model = moved;
        }
        if !store.redo().is_empty() {
            sequence = Sequence(sequence.0 + 1);
            pending.push((sequence, store.redo().to_vec(), model.clone()));
        }
        store.commit_at(sequence);
        match random.below(6) {
            0 | 1 if !pending.is_empty() => {
                let through = random.below(pending.len() as u64) as usize;
                store.committed(pending[through].0);
                let (redo, mut after): (Vec<_>, Vec<_>) =
                    pending.drain(..=through).map(|(_, redo, after)| (redo, after)).unzip();
                make_again(&mut copy, &redo);
                committed = after.pop().expect("one at least");
            }
            2 => {
                let kept = random.below(pending.len() as u64 + 1) as usize;
                let last = match kept {
                    0 => pending.first().map_or(sequence, |(first, ..)| Sequence(first.0 - 1)),
                    kept => pending[kept - 1].0,
                };
                store.step_back(last);
                pending.truncate(kept);
                model = pending.last().map_or(&committed, |(.., after)| after).clone();
                sequence = last;
            }
            _ => {}
        }
        store.verify().unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        check_rows(&store, &model);
        check_view(&store, &schema, &model);
        check_indexes(&store, &model, &mut random);
    }
    store.step_back(pending.first().map_or(sequence, |(first, ..)| Sequence(first.0 - 1)));
    assert_eq!(store.retained_bytes(), 0);
    assert_eq!(dump(&copy, &schema), dump(&store, &schema), "seed {seed}");
    copy.verify().unwrap();
    let longs = |store: &Store| store.memory()[T.index()].live_long_value_bytes;
    assert_eq!(longs(&copy), longs(&store), "seed {seed}: what was deleted is freed once");
}

#[test]
fn what_has_ended_can_be_undone_until_it_is_committed() {
    for seed in 0..60 {
        run_retained(seed, 120);
    }
}
