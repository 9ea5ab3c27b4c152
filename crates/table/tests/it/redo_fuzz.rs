//! Redo from hostile hands: whatever the bytes, an answer, no panic, and on a refusal no trace;
//! read ahead they come to the same.

use crate::common::*;
use ferrite_base::TableId;
use ferrite_catalog::IndexKind;
use ferrite_expr::AggregateKind;
use ferrite_table::{Store, Upcoming};
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

/// `twin`: has had the same, and reads it ahead.
fn try_bytes([store, twin]: &mut [Store; 2], bytes: &[u8]) {
    let before = contents(store, T);
    let mut upcoming = Upcoming::default();
    twin.read_ahead(&mut upcoming, bytes);
    twin.ask_for_first(&upcoming);
    twin.ask_for_second(&upcoming);
    let outcome = store.apply_redo(bytes);
    assert_eq!(twin.apply_upcoming(&upcoming, 0), outcome);
    let after = contents(store, T);
    assert_eq!(contents(twin, T), after);
    if outcome.is_err() {
        assert_eq!(after, before);
    }
    for store in [store, twin] {
        store.verify().unwrap();
        if store.table(T).row_count() > 50 {
            store.truncate(T).unwrap();
            store.commit();
        }
    }
}

#[test]
fn any_bytes() {
    let stores = std::sync::Mutex::new([filled().0, filled().0]);
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let mut stores = stores.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        try_bytes(&mut stores, bytes);
    });
}

#[test]
fn good_records_with_bytes_changed() {
    let (_, redo) = filled();
    let mut random = Random(3);
    let mut stores = [schema().store(), schema().store()];
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
        try_bytes(&mut stores, &bytes);
        if random.one_in(3) {
            for store in &mut stores {
                store.truncate(T).unwrap();
                store.commit();
            }
        }
    }
}
