//! A transaction's changes have a limit: at it they are made, past it the transaction is refused
//! and leaves nothing.

use crate::common::*;
use ferrite_base::{ErrorKind, TableId};
use ferrite_table::Store;
use ferrite_value::{SqlType, Value};

const T: TableId = TableId(0);
const LIMIT: usize = 1 << 20;

fn filled(rows: i64) -> Store {
    let mut schema = Schema::default();
    schema.table(
        "T",
        vec![column("K", SqlType::Bigint, 0, false), column("S", SqlType::Varchar, 15, false)],
        Vec::new(),
    );
    let mut store = schema.store();
    store.set_transaction_bytes_max(LIMIT);
    for key in 0..rows {
        store.insert(T, &[Value::Integer(key), Value::Text("some text")]).unwrap();
        store.commit();
    }
    store
}

#[test]
fn changes_up_to_the_limit_and_past_it() {
    // The redo: a row of this kind takes 21 to 23 bytes.
    let mut store = filled(0);
    let mark = store.mark();
    let row = [Value::Integer(1), Value::Text("some text")];
    let error = loop {
        match store.insert(T, &row) {
            Ok(_) => assert!(store.redo().len() <= LIMIT),
            Err(error) => break error,
        }
    };
    assert!(store.redo().len() > LIMIT && store.redo().len() < LIMIT + 100, "the first past the limit is refused");
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("1048576 bytes") && error.to_string().contains("transaction-bytes"), "{error}");
    store.rollback_to(mark);
    assert_eq!((store.table(T).row_count(), store.redo().len()), (0, 0));
    store.insert(T, &row).unwrap();
    store.commit();

    // The undo: deletions leave little redo, but the rows have to be kept until the end.
    let mut store = filled(60_000);
    let mark = store.mark();
    let ids: Vec<_> = store.table(T).scan().collect();
    let refused = ids.iter().position(|id| store.delete(T, *id).is_err()).expect("they do not all fit");
    assert!((5_000..30_000).contains(&refused), "{refused} rows were deleted first");
    store.rollback_to(mark);
    assert_eq!(store.table(T).row_count(), 60_000);
    store.verify().unwrap();
    // In smaller steps it goes, and so does all at once by TRUNCATE.
    for part in ids[..50_000].chunks(refused / 2) {
        part.iter().for_each(|id| store.delete(T, *id).unwrap());
        store.commit();
    }
    assert_eq!(store.truncate(T).unwrap(), 10_000);
    store.commit();
    store.verify().unwrap();
}
