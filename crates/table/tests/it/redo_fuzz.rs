//! Redo from hostile hands: whatever the bytes, an answer, no panic, and on a refusal no trace;
//! asking ahead for what they name leaves none at all.

use crate::common::*;
use ferrite_base::TableId;
use ferrite_catalog::IndexKind;
use ferrite_expr::AggregateKind;
use ferrite_table::{Ahead, Store};
use ferrite_value::{SqlType, Value};

const T: TableId = TableId(0);

fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.table(
        "T",
        vec![
            column("A", SqlType::Tinyint, 0, false),
            column("B", SqlType::Varchar, 5, true),
            column("C", SqlType::Varchar, 100, true),
            column("D", SqlType::Decimal, 0, true),
            column("E", SqlType::Boolean, 0, true),
        ],
        vec![index("I", &[0], true, IndexKind::Hash), index("J", &[1, 2], false, IndexKind::Ordered)],
    );
    let sums = vec![aggregate(AggregateKind::Sum, Some((0, SqlType::Tinyint)))];
    schema.view("V", "T", &[1], sums);
    schema
}

fn filled() -> (Store, Vec<u8>) {
    let mut store = schema().store();
    let mut redo = Vec::new();
    for i in 0..5 {
        let long = "a longer text, which does not fit a handle".to_owned();
        let values = [Value::Integer(i), Value::Text("b"), Value::Text(&long), Value::Null, Value::Boolean(true)];
        let row = store.insert(T, &values).unwrap();
        store.update(T, row, &[1, 2], &[Value::Null, Value::Text("c")]).unwrap();
        if i % 2 == 0 {
            store.delete(T, row).unwrap();
        }
    }
    store.take_redo_into(&mut redo);
    store.commit();
    (store, redo)
}

fn try_bytes(store: &mut Store, bytes: &[u8]) {
    let before = contents(store, T);
    store.prefetch_ahead(bytes, Ahead::First);
    store.prefetch_ahead(bytes, Ahead::Second);
    if store.apply_redo(bytes).is_err() {
        assert_eq!(contents(store, T), before);
    }
    store.verify().unwrap();
    if store.table(T).row_count() > 50 {
        store.truncate(T).unwrap();
        store.commit();
    }
}

#[test]
fn any_bytes() {
    let store = std::sync::Mutex::new(filled().0);
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let mut store = store.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        try_bytes(&mut store, bytes);
    });
}

#[test]
fn good_records_with_bytes_changed() {
    let (_, redo) = filled();
    let mut random = Random(3);
    let mut store = schema().store();
    for _ in 0..20_000 {
        let mut bytes = redo.clone();
        for _ in 0..1 + random.below(3) {
            let position = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[position] = random.next() as u8,
                1 => bytes.truncate(position + 1),
                _ => bytes[position] ^= 1 << random.below(8),
            }
        }
        try_bytes(&mut store, &bytes);
        if random.one_in(3) {
            store.truncate(T).unwrap();
            store.commit();
        }
    }
}
