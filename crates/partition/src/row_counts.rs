//! How many rows the tables have, for the planner: each partition says so now and then, and nobody
//! waits for it.
//!
//! The counts are of some moment not long ago. Plans made with them are right whatever they are.

use ferrite_base::TableId;
use ferrite_sql::Statistics;
use ferrite_table::Store;
use std::sync::{Mutex, PoisonError};

/// A table with fewer rows is thought to have this many: small counts are the first to be out of
/// date.
const ROWS_MIN: u64 = 100;

struct Count {
    table: TableId,
    rows: u64,
    partitioned: bool,
}

pub struct RowCounts {
    partitions: Vec<Mutex<Vec<Count>>>,
}

impl RowCounts {
    pub fn new(partitions: usize) -> RowCounts {
        RowCounts { partitions: (0..partitions).map(|_| Mutex::default()).collect() }
    }

    /// Says how many rows the store's tables have now.
    pub fn publish(&self, store: &Store) {
        let Some(counts) = self.partitions.get(store.partition().index()) else { return };
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clear();
        counts.extend(store.catalog().tables.values().map(|table| Count {
            table: table.id,
            rows: store.table(table.id).row_count(),
            partitioned: table.is_partitioned(),
        }));
    }
}

impl Statistics for RowCounts {
    fn rows(&self, table: TableId) -> Option<u64> {
        let mut total = None;
        for counts in &self.partitions {
            let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(count) = counts.iter().find(|count| count.table == table) else { continue };
            total = Some(total.unwrap_or(0) + count.rows);
            if !count.partitioned {
                break;
            }
        }
        total.map(|rows| rows.max(ROWS_MIN))
    }

    fn partitions(&self) -> u64 {
        self.partitions.len() as u64
    }
}
