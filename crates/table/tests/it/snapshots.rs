//! Snapshots taken at random moments of random transactions: each shows to its end what its store
//! was when it was taken, on whatever thread it is read and dropped, and leaves no memory behind.

use crate::common::*;
use ferrite_base::{RowId, Sequence, TableId};
use ferrite_catalog::{Change, Effect, IndexKind, TableKind};
use ferrite_expr::AggregateKind;
use ferrite_table::Store;
use ferrite_value::{SqlType, Value};
use std::sync::Arc;
use std::sync::mpsc;

/// Rows of few bytes, rows that fill a page with a few, and views of both.
fn schema() -> Schema {
    let mut schema = Schema::default();
    let columns = || {
        vec![
            column("K", SqlType::Bigint, 0, false),
            column("G", SqlType::Integer, 0, true),
            column("S", SqlType::Varchar, 100_000, true),
        ]
    };
    schema.table("NARROW", columns(), vec![index("BY_KEY", &[0], true, IndexKind::Hash)]);
    let mut wide = columns();
    wide.extend((0..60).map(|i| column(&format!("C{i}"), SqlType::Varchar, 60, true)));
    schema.table("WIDE", wide, Vec::new());
    for (view, source) in [("NARROW_BY_GROUP", "NARROW"), ("WIDE_BY_GROUP", "WIDE")] {
        let aggregates =
            vec![aggregate(AggregateKind::CountRows, None), aggregate(AggregateKind::Sum, Some((0, SqlType::Bigint)))];
        schema.view(view, source, &[1], aggregates);
    }
    schema
}

const TABLES: u32 = 4;

fn all_contents(store: &Store, covered: &[bool]) -> Vec<Vec<String>> {
    (0..TABLES)
        .filter(|table| covered[*table as usize])
        .map(|table| {
            let rows = contents(store, TableId(table));
            assert_eq!(rows.len() as u64, store.table(TableId(table)).row_count());
            rows
        })
        .collect()
}

/// A snapshot and what it must show.
struct Held {
    store: Store,
    covered: Vec<bool>,
    expected: Vec<Vec<String>>,
}

impl Held {
    fn take(store: &mut Store, random: &mut Random) -> Held {
        let covered: Vec<bool> = (0..TABLES).map(|_| !random.one_in(4)).collect();
        let expected = all_contents(store, &covered);
        Held { store: store.snapshot(|table| covered[table.index()]), covered, expected }
    }

    fn check(&self) {
        assert!(all_contents(&self.store, &self.covered) == self.expected, "a snapshot shows what it was taken of");
    }
}

fn change(store: &mut Store, random: &mut Random, keys: &mut i64) {
    let table = TableId(u32::from(random.one_in(3)));
    let width = store.table(table).definition().columns.len();
    let text = "x".repeat([0, 5, 70, 900, 9000, 17_000, 90_000][random.below(7) as usize]);
    let text = if random.one_in(4) { Value::Null } else { Value::Text(&text) };
    let group = Value::Integer(random.below(900) as i64);
    let rows: Vec<RowId> = store.table(table).scan().collect();
    let some = (!rows.is_empty()).then(|| rows[random.below(rows.len() as u64) as usize]);
    match (random.below(20), some) {
        (0..8, _) | (_, None) => {
            *keys += 1;
            let mut row = vec![Value::Null; width];
            (row[0], row[1], row[2]) = (Value::Integer(*keys), group, text);
            store.insert(table, &row).unwrap();
        }
        (8..13, Some(row)) => store.update(table, row, &[1, 2], &[group, text]).unwrap(),
        (13..19, Some(row)) => store.delete(table, row).unwrap(),
        _ if random.one_in(8) => drop(store.truncate(table).unwrap()),
        // A stretch goes, so that pages do.
        _ => rows.iter().skip(3).take(300).for_each(|row| store.delete(table, *row).unwrap()),
    }
}

fn transaction(store: &mut Store, random: &mut Random, keys: &mut i64) {
    let mark = store.mark();
    for _ in 0..random.below(60) {
        change(store, random, keys);
    }
    if random.one_in(4) {
        store.rollback_to(mark);
    }
    store.commit();
}

#[test]
fn snapshots_show_what_they_were_taken_of() {
    for seed in 1..=12 {
        let mut random = Random(seed);
        let mut store = schema().store();
        let mut keys = 0;
        let mut held: Vec<Held> = Vec::new();
        for _ in 0..60 {
            transaction(&mut store, &mut random, &mut keys);
            if random.one_in(3) {
                held.push(Held::take(&mut store, &mut random));
            }
            if random.one_in(4) && !held.is_empty() {
                let held = held.remove(random.below(held.len() as u64) as usize);
                held.check();
            }
        }
        store.verify().unwrap();
        held.iter().for_each(Held::check);
        assert_eq!(store.snapshots(), held.len());
        while !held.is_empty() {
            drop(held.remove(random.below(held.len() as u64) as usize));
            held.iter().for_each(Held::check);
        }
        assert_eq!((store.snapshots(), store.snapshot_bytes()), (0, 0));
        store.verify().unwrap();
    }
}

#[test]
fn snapshots_are_read_and_dropped_on_another_thread() {
    let mut random = Random(99);
    let mut store = schema().store();
    let mut keys = 0;
    let (send, receive) = mpsc::channel::<Held>();
    let reader = std::thread::spawn(move || {
        let mut count = 0;
        let mut before: Option<Held> = None;
        for held in receive {
            held.check();
            // The one before is dropped while its successor lives, so that memory passes between
            // them.
            before.iter().for_each(Held::check);
            before = Some(held);
            count += 1;
        }
        count
    });
    for _ in 0..150 {
        transaction(&mut store, &mut random, &mut keys);
        send.send(Held::take(&mut store, &mut random)).unwrap();
    }
    drop(send);
    assert_eq!(reader.join().unwrap(), 150);
    assert_eq!((store.snapshots(), store.snapshot_bytes()), (0, 0));
    store.verify().unwrap();
}

#[test]
fn a_snapshot_outlives_its_tables_and_its_store() {
    let mut random = Random(7);
    let mut schema = schema();
    let mut store = schema.store();
    let mut keys = 0;
    (0..20).for_each(|_| transaction(&mut store, &mut random, &mut keys));
    let first =
        Held { covered: vec![true; 4], expected: all_contents(&store, &[true; 4]), store: store.snapshot(|_| true) };
    let (name, kind) = ("NARROW".to_owned(), TableKind::Table);
    let effects = schema.change(Change::DropTable { name, if_exists: false, cascade: true, kind });
    assert!(effects.contains(&Effect::DropTable(TableId(0))));
    store.apply_effects(Arc::new(schema.catalog.clone()), &effects).unwrap();
    first.check();
    assert!(store.snapshot_bytes() > 0, "the dropped table's pages are kept");
    let covered = vec![false, true, false, true];
    let second =
        Held { expected: all_contents(&store, &covered), covered, store: store.snapshot(|table| table.0 % 2 == 1) };
    drop(store);
    second.check();
    first.check();
    drop(first);
    second.check();
}

/// What a long read costs: pages are copied when they are written to, once, and only those.
#[test]
fn only_what_is_written_to_is_copied() {
    let mut store = schema().store();
    let row = |key: i64| [Value::Integer(key), Value::Integer(key % 3), Value::Null];
    let ids: Vec<RowId> = (0..5000).map(|key| store.insert(TableId(0), &row(key)).unwrap()).collect();
    store.commit();
    let held = store.snapshot(|table| table.0 == 0);
    assert_eq!(store.snapshot_bytes(), 0);
    for _ in 0..3 {
        store.update(TableId(0), ids[0], &[2], &[Value::Text("changed")]).unwrap();
        store.commit();
    }
    let one = store.snapshot_bytes();
    assert!((16_384..20_000).contains(&one), "a page and its part of the directory, not {one}");
    store.update(TableId(0), ids[4999], &[1], &[Value::Integer(7)]).unwrap();
    store.commit();
    assert_eq!(store.snapshot_bytes(), one + 16_384);
    drop(held);
    assert_eq!(store.snapshot_bytes(), 0);
}

#[test]
fn what_has_ended_is_shown_while_its_undo_is_kept() {
    let (mut store, narrow) = (schema().store(), TableId(0));
    store.retain_undo(true);
    store.insert(narrow, &[Value::Integer(1), Value::Integer(1), Value::Text("one")]).unwrap();
    store.commit_at(Sequence(1));
    assert!(store.retained_bytes() > 0);
    let shown = all_contents(&store, &[true; TABLES as usize]);
    let snapshot = store.snapshot(|_| true);
    store.step_back(Sequence(0));
    assert_eq!(all_contents(&snapshot, &[true; TABLES as usize]), shown);
    assert_eq!(store.table(narrow).row_count(), 0);
    store.insert(narrow, &[Value::Integer(2), Value::Integer(1), Value::Text("two")]).unwrap();
    let within = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| store.snapshot(|_| true)));
    assert!(within.is_err(), "a transaction has not ended");
}
