//! Rows whose time to live has passed: of which tables, and how many were deleted.

use ferrite_base::TableId;
use ferrite_catalog::{Catalog, Table};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was deleted of one table since the server started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Expired {
    pub rows: u64,
    /// Of these in the last round, or so far in the one that goes on.
    pub rows_last_round: u64,
    /// None while a round goes on, or after one that failed: how many are left is not known. A
    /// round that ends leaves none.
    pub remaining: Option<u64>,
    /// When the last rows were deleted, in microseconds since 1970.
    pub last_micros: Option<i64>,
}

/// What was deleted, for whoever asks. Tables that no longer expire are left out.
#[derive(Default)]
pub struct Figures(Mutex<BTreeMap<TableId, Expired>>);

impl Figures {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableId, Expired>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of(&self, table: TableId) -> Expired {
        self.lock().get(&table).copied().unwrap_or_default()
    }

    /// Forgets tables that are not kept.
    pub fn retain(&self, mut keep: impl FnMut(TableId) -> bool) {
        self.lock().retain(|table, _| keep(*table));
    }

    pub fn change(&self, table: TableId, change: impl FnOnce(&mut Expired)) {
        change(self.lock().entry(table).or_default());
    }
}

/// The tables whose rows expire. What would take rows that are to be migrated is not there: they
/// are kept, or dropped like others.
pub fn expiring(catalog: &Catalog, drop_migrating: bool) -> impl Iterator<Item = &Arc<Table>> {
    let kept = move |table: &Table| !drop_migrating && table.export.as_ref().is_some_and(|export| export.migrate);
    catalog.tables.values().filter(move |table| table.time_to_live.is_some() && !kept(table))
}
