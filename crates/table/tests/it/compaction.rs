//! Compaction: after most rows went at random, what is left takes little memory, is what it was, is
//! consistent, and a copy that replays the moves is the same to the row id. Transactions come
//! between its steps.

use crate::common::*;
use ferrite_base::{RowId, Sequence, TableId};
use ferrite_catalog::IndexKind;
use ferrite_expr::AggregateKind;
use ferrite_table::Store;
use ferrite_value::{SqlType, Value};

const T: TableId = TableId(0);
const VIEW: TableId = TableId(1);

fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.table(
        "T",
        vec![
            column("K", SqlType::Bigint, 0, false),
            column("G", SqlType::Integer, 0, true),
            column("S", SqlType::Varchar, 20_000, true),
        ],
        vec![
            index("BY_KEY", &[0], true, IndexKind::Hash),
            index("BY_GROUP", &[1], false, IndexKind::Hash),
            index("IN_ORDER", &[1, 0], true, IndexKind::Ordered),
            index("BY_TEXT", &[2, 0], true, IndexKind::Ordered),
        ],
    );
    let sum = aggregate(AggregateKind::Sum, Some((0, SqlType::Bigint)));
    // A group for each two rows, so that the view empties too.
    schema.view("BY_GROUP_TOO", "T", &[1], vec![aggregate(AggregateKind::CountRows, None), sum]);
    schema
}

fn insert(store: &mut Store, key: i64, random: &mut Random) {
    let text = "long".repeat([0, 1, 30, 40, 300, 4_500][random.below(6) as usize] * usize::from(random.one_in(4)));
    let text = if random.one_in(5) { Value::Null } else { Value::Text(&text) };
    store.insert(T, &[Value::Integer(key), Value::Integer(key / 2), text]).unwrap();
}

/// Ends a transaction, and makes it again in the copy.
fn commit(store: &mut Store, copy: &mut Store) {
    if !store.redo().is_empty() {
        copy.apply_redo(store.redo()).unwrap();
    }
    store.commit();
}

fn total_bytes(store: &Store) -> usize {
    store.memory().iter().map(|table| table.total_bytes()).sum()
}

fn check_same(store: &Store, copy: &Store) {
    assert!(contents(store, T) == contents(copy, T), "the copy has the same rows at the same places");
    assert!(sorted_contents(store, VIEW) == sorted_contents(copy, VIEW));
}

#[test]
fn what_is_left_takes_little_and_is_what_it_was() {
    const ROWS: i64 = 30_000;
    for seed in 1..=4 {
        let mut random = Random(seed);
        let (mut store, mut copy) = (schema().store(), schema().store());
        (0..ROWS).for_each(|key| insert(&mut store, key, &mut random));
        commit(&mut store, &mut copy);
        let full = total_bytes(&store);
        let ids: Vec<RowId> = store.table(T).scan().filter(|_| !random.one_in(10)).collect();
        ids.iter().for_each(|id| store.delete(T, *id).unwrap());
        commit(&mut store, &mut copy);
        let left = sorted_contents(&store, T);
        store.set_compaction_waste_min(100_000);
        assert!(store.has_compaction_work(true));
        // While somebody looks nothing moves.
        let snapshot = store.snapshot(|_| true);
        assert!(!store.compact(1_000, true));
        drop(snapshot);
        let (mut steps, mut keys) = (0, ROWS);
        while store.compact(100, seed % 2 == 0) {
            commit(&mut store, &mut copy);
            steps += 1;
            if steps % 5 == 0 {
                keys += 1;
                insert(&mut store, keys, &mut random);
                let rows: Vec<RowId> = store.table(T).scan().collect();
                let some = rows[random.below(rows.len() as u64) as usize];
                store.update(T, some, &[2], &[Value::Text("changed")]).unwrap();
                let mark = store.mark();
                store.delete(T, some).unwrap();
                insert(&mut store, keys + 1, &mut random);
                store.rollback_to(mark);
                commit(&mut store, &mut copy);
            }
            if steps % 20 == 0 {
                store.verify().unwrap();
            }
        }
        commit(&mut store, &mut copy);
        assert!(steps > 20, "{steps} steps");
        store.verify().unwrap();
        copy.verify().unwrap();
        check_same(&store, &copy);
        let unchanged = sorted_contents(&store, T);
        let gone = left.iter().filter(|row| unchanged.binary_search(row).is_err()).count();
        assert!(gone <= steps / 5, "{gone} rows are not what they were");
        assert!(total_bytes(&store) < full / 4, "{} bytes of {full} are left", total_bytes(&store));
        // All is found, and the table takes rows as before.
        (0..2_000).for_each(|number| insert(&mut store, 2 * ROWS + number, &mut random));
        commit(&mut store, &mut copy);
        store.verify().unwrap();
        check_same(&store, &copy);
    }
}

/// While transactions may be undone, rows move and their long values do not: undo has the places
/// of those. Once all is committed, they move too.
#[test]
fn what_may_be_undone_is_not_moved_away_from_its_undo() {
    for seed in 1..=4 {
        let mut random = Random(seed);
        let (mut store, mut copy) = (schema().store(), schema().store());
        store.retain_undo(true);
        let mut sequence = 0;
        let mut end = |store: &mut Store| {
            sequence += 1;
            let redo = store.redo().to_vec();
            store.commit_at(Sequence(sequence));
            (Sequence(sequence), redo)
        };
        (0..20_000).for_each(|key| insert(&mut store, key, &mut random));
        copy.apply_redo(&end(&mut store).1).unwrap();
        let ids: Vec<RowId> = store.table(T).scan().filter(|_| !random.one_in(10)).collect();
        ids.iter().for_each(|id| store.delete(T, *id).unwrap());
        let (deleted, redo) = end(&mut store);
        copy.apply_redo(&redo).unwrap();
        let full = total_bytes(&store);
        store.committed(deleted);
        store.set_compaction_waste_min(100_000);
        // Rows whose long values stay, and rows whose do not.
        let rows: Vec<RowId> = store.table(T).scan().collect();
        for id in rows {
            match random.below(3) {
                0 => store.update(T, id, &[1], &[Value::Integer(7)]).unwrap(),
                1 => store.update(T, id, &[2], &[Value::Text(&"other".repeat(60))]).unwrap(),
                _ => {}
            }
        }
        end(&mut store);
        while store.compact(100, false) {
            end(&mut store);
        }
        end(&mut store);
        assert!(store.is_compaction_held() && store.retained_bytes() > 0);
        store.verify().unwrap();
        store.step_back(deleted);
        store.verify().unwrap();
        check_same(&store, &copy);
        while store.compact(100, false) {
            let (moved, redo) = end(&mut store);
            copy.apply_redo(&redo).unwrap();
            store.committed(moved);
        }
        copy.apply_redo(&end(&mut store).1).unwrap();
        store.verify().unwrap();
        check_same(&store, &copy);
        assert!(!store.is_compaction_held());
        assert!(total_bytes(&store) < full / 2, "{} bytes of {full} are left", total_bytes(&store));
    }
}

#[test]
fn a_table_that_is_in_use_is_left_alone() {
    let mut random = Random(7);
    let mut store = schema().store();
    (0..20_000).for_each(|key| insert(&mut store, key, &mut random));
    store.commit();
    let rows = contents(&store, T);
    // A third is not worth it, and neither is a small table.
    let ids: Vec<RowId> = store.table(T).scan().step_by(3).collect();
    ids.iter().for_each(|id| store.delete(T, *id).unwrap());
    store.commit();
    store.set_compaction_waste_min(10_000);
    assert!(!store.compact(1_000, false) && store.redo().is_empty());
    let left: Vec<String> = rows.into_iter().enumerate().filter(|(at, _)| at % 3 != 0).map(|(_, row)| row).collect();
    assert!(contents(&store, T) == left);
    assert!(!store.has_compaction_work(true), "until more goes");
}

#[test]
fn a_record_that_is_refused_moves_nothing() {
    let mut random = Random(3);
    let mut store = schema().store();
    (0..10).for_each(|key| insert(&mut store, key, &mut random));
    store.commit();
    let before = contents(&store, T);
    // Row 3 to slot 200; then row 4 where row 5 is, to a page that there is not, or from where
    // nothing is.
    for bad in [[5, 0, 4, 5, 0], [5, 0, 4, 255, 127], [5, 0, 99, 98, 0]] {
        let bad = if bad[3] < 128 { &bad[..4] } else { &bad[..] };
        let record = [&[5, 0, 3, 0xc8, 0x01][..], bad].concat();
        assert!(store.apply_redo(&record).is_err(), "{bad:?}");
        assert!(contents(&store, T) == before, "{bad:?}");
        store.verify().unwrap();
    }
    store.apply_redo(&[5, 0, 3, 0xc8, 0x01]).unwrap();
    store.verify().unwrap();
    assert_eq!(contents(&store, T).last().unwrap().split_once(": ").unwrap().0, "200");
}
