//! A store as it is at one moment, for reading beside the transactions that go on: for long
//! queries, and for whatever copies a partition (docs/decisions/0004-page-snapshots.md).

use crate::store::Store;
use ferrite_base::TableId;
use std::sync::Arc;

impl Store {
    /// The tables for which `covers` says yes, as they are now, without indexes. Takes
    /// microseconds: pages are shared until this store changes them. The result may go to another
    /// thread and be dropped there. Writing to it, asking it for an index or for a table that it
    /// does not cover panics. Must not be called within a transaction.
    pub fn snapshot(&mut self, covers: impl Fn(TableId) -> bool) -> Store {
        assert!(self.undo.is_empty(), "a snapshot is taken between transactions");
        let pin = self.pins.pin();
        let mut snapshot = Store::new(self.partition, Arc::clone(&self.ring));
        snapshot.catalog = Arc::clone(&self.catalog);
        snapshot.tables.resize_with(self.tables.len(), || None);
        for (place, table) in snapshot.tables.iter_mut().zip(&mut self.tables) {
            *place = match table {
                Some(table) if covers(table.id()) => Some(Box::new(table.snapshot(&pin))),
                _ => None,
            };
        }
        snapshot
    }

    /// Snapshots of this store that are not dropped yet.
    pub fn snapshots(&self) -> usize {
        self.pins.count()
    }

    /// Bytes of pages that this store no longer uses and its snapshots still do. [`Store::memory`]
    /// does not count them.
    pub fn snapshot_bytes(&self) -> usize {
        self.pins.bytes()
    }
}
