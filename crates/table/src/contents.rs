//! What a table holds, as one value that can be replaced and put back.

use crate::index::IndexData;
use crate::row::RowStore;
use ferrite_catalog::Index;

/// Rows and indexes; replaced as a whole by TRUNCATE.
pub(crate) struct Contents {
    pub(crate) rows: RowStore,
    /// Those of the catalog in its order, then perhaps one of our own that finds a view's groups.
    pub(crate) indexes: Vec<IndexData>,
    /// Tells these contents from earlier ones of the same table.
    pub(crate) generation: u64,
}

impl Contents {
    pub(crate) fn fresh(rows: RowStore, indexes: &[Index], generation: u64) -> Contents {
        let indexes = indexes.iter().map(|index| IndexData::new(index, &rows.layout)).collect();
        Contents { rows, indexes, generation }
    }
}
