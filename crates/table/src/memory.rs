//! How much memory tables take.

use crate::store::Store;
use crate::view_plan::GROUP_INDEX;
use ferrite_base::{IndexId, TableId};

#[derive(Clone, Debug)]
pub struct TableMemory {
    pub table: TableId,
    pub rows: u64,
    /// Bytes of row pages.
    pub row_bytes: usize,
    /// Of these, bytes of rows.
    pub live_row_bytes: usize,
    /// Bytes of long values' pages and blocks.
    pub long_value_bytes: usize,
    /// Of these, bytes of places that have a value.
    pub live_long_value_bytes: usize,
    pub indexes: Vec<IndexMemory>,
}

#[derive(Clone, Debug)]
pub struct IndexMemory {
    /// None: the index of our own by which a view finds its groups.
    pub index: Option<IndexId>,
    pub entries: usize,
    pub bytes: usize,
}

impl TableMemory {
    pub fn total_bytes(&self) -> usize {
        self.row_bytes + self.long_value_bytes + self.indexes.iter().map(|index| index.bytes).sum::<usize>()
    }
}

impl Store {
    /// What each table, view and stream takes in this partition. Takes time in proportion to the
    /// number of keys that are long.
    pub fn memory(&self) -> Vec<TableMemory> {
        self.tables
            .iter()
            .flatten()
            .map(|table| TableMemory {
                table: table.id(),
                rows: table.row_count(),
                row_bytes: table.contents.rows.pages.bytes(),
                live_row_bytes: table.contents.rows.pages.row_bytes(),
                long_value_bytes: table.contents.rows.longs.bytes(),
                live_long_value_bytes: {
                    let (unused, all) = table.contents.rows.longs.unused();
                    all - unused
                },
                indexes: table
                    .contents
                    .indexes
                    .iter()
                    .map(|index| IndexMemory {
                        index: Some(index.definition.id).filter(|id| *id != GROUP_INDEX),
                        entries: index.len(),
                        bytes: index.bytes(),
                    })
                    .collect(),
            })
            .collect()
    }
}
