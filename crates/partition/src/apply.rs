//! Row changes from records, made on a store: by recovery and by copies.

use crate::judge::ReplayError;
use crate::prefetch;
use crate::record;
use ferrite_base::{PartitionId, Sequence};
use ferrite_table::{Ahead, RedoError, Store};

/// Makes the changes of one transaction.
pub(crate) fn one(
    store: &mut Store,
    partition: PartitionId,
    sequence: Sequence,
    changes: &[u8],
) -> Result<(), ReplayError> {
    store.apply_redo(changes).map_err(|error| refused(store, partition, sequence, &error))
}

#[cold]
fn refused(store: &Store, partition: PartitionId, sequence: Sequence, error: &RedoError) -> ReplayError {
    let named =
        |table| store.tables().find(|data| data.definition().id == table).map(|data| data.definition().name.clone());
    ReplayError::Changes { partition, sequence, table: error.table().and_then(named), reason: error.to_string() }
}

/// Makes those of a batch of them.
pub(crate) fn batch(
    store: &mut Store,
    partition: PartitionId,
    first: Sequence,
    count: u32,
    mut transactions: &[u8],
) -> Result<(), ReplayError> {
    let mut done = 0;
    let mut buckets = LookAhead::new(transactions, Ahead::First, prefetch::BUCKET_AHEAD, store);
    let mut rows = LookAhead::new(transactions, Ahead::Second, prefetch::ROW_AHEAD, store);
    while let Some(changes) = record::next_transaction(&mut transactions)? {
        buckets.step(store);
        rows.step(store);
        one(store, partition, Sequence(first.0.wrapping_add(u64::from(done))), changes)?;
        done += 1;
    }
    if done != count {
        return Err(ReplayError::malformed("a batch does not hold as many transactions as it says"));
    }
    Ok(())
}

/// Reads a batch some transactions ahead of the one that is applied, and asks for what those will
/// need.
struct LookAhead<'b> {
    transactions: &'b [u8],
    ahead: Ahead,
}

impl<'b> LookAhead<'b> {
    fn new(transactions: &'b [u8], ahead: Ahead, distance: usize, store: &Store) -> LookAhead<'b> {
        let mut reading = LookAhead { transactions, ahead };
        (0..distance).for_each(|_| reading.step(store));
        reading
    }

    /// Behind the last transaction, and at one that cannot be read, it does nothing.
    #[inline]
    fn step(&mut self, store: &Store) {
        if let Ok(Some(changes)) = record::next_transaction(&mut self.transactions) {
            store.prefetch_ahead(changes, self.ahead);
        }
    }
}
