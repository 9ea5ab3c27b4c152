//! Row changes from records, made on a store: by recovery and by copies.

use crate::judge::ReplayError;
use crate::prefetch;
use crate::record::{self, RecordError};
use ferrite_base::{PartitionId, Sequence};
use ferrite_table::{RedoError, Store, Upcoming};

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
    transactions: &[u8],
) -> Result<(), ReplayError> {
    let mut reading = Reading { transactions, failed: None };
    let mut now = Upcoming::default();
    let mut next = Upcoming::default();
    let mut done = 0;
    reading.read_group(&mut next, store);
    store.ask_for_second(&next);
    while !next.is_empty() {
        std::mem::swap(&mut now, &mut next);
        reading.read_group(&mut next, store);
        for number in 0..now.len() {
            if number == prefetch::REPLAYED_ROWS_AFTER {
                store.ask_for_second(&next);
            }
            let sequence = Sequence(first.0.wrapping_add(u64::from(done)));
            let made = store.apply_upcoming(&now, number);
            made.map_err(|error| refused(store, partition, sequence, &error))?;
            done += 1;
        }
    }
    if let Some(error) = reading.failed {
        return Err(error.into());
    }
    if done != count {
        return Err(ReplayError::malformed("a batch does not hold as many transactions as it says"));
    }
    Ok(())
}

/// What is left of a batch.
struct Reading<'b> {
    transactions: &'b [u8],
    /// The next transaction cannot be read. Those before it are made.
    failed: Option<RecordError>,
}

impl<'b> Reading<'b> {
    /// Reads the next transactions and asks for what they will need. None are left when there are
    /// none in the group.
    fn read_group(&mut self, group: &mut Upcoming<'b>, store: &Store) {
        group.clear();
        while self.failed.is_none() && group.len() < prefetch::REPLAYED_TOGETHER {
            match record::next_transaction(&mut self.transactions) {
                Ok(Some(changes)) => store.read_ahead(group, changes),
                Ok(None) => break,
                Err(error) => self.failed = Some(error),
            }
        }
        store.ask_for_first(group);
    }
}
