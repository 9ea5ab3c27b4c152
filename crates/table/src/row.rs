//! Rows as the rest of the crate sees them: stored, or given as values.

use crate::layout::RowLayout;
use crate::long_values::LongValues;
use crate::pages::Pages;
use crate::snapshot_pins::{SnapshotPin, SnapshotPins};
use ferrite_base::RowId;
use ferrite_value::Value;
use std::sync::Arc;

/// One table's rows: pages, long values, and the layout that gives them meaning.
pub(crate) struct RowStore {
    pub(crate) layout: RowLayout,
    pub(crate) pages: Pages,
    pub(crate) longs: LongValues,
}

impl RowStore {
    pub(crate) fn new(layout: RowLayout, pins: &Arc<SnapshotPins>) -> RowStore {
        RowStore { pages: Pages::new(layout.row_bytes, pins), layout, longs: LongValues::new(pins) }
    }

    /// Others of the same table, empty.
    pub(crate) fn sibling(&self) -> RowStore {
        RowStore { layout: self.layout.clone(), pages: self.pages.sibling(), longs: self.longs.sibling() }
    }

    /// The rows as they are now, for reading.
    pub(crate) fn snapshot(&mut self, pin: &Arc<SnapshotPin>) -> RowStore {
        RowStore { layout: self.layout.clone(), pages: self.pages.snapshot(pin), longs: self.longs.snapshot(pin) }
    }

    #[inline]
    pub(crate) fn row(&self, id: RowId) -> RowRef<'_> {
        RowRef { bytes: self.pages.row(id), layout: &self.layout, longs: &self.longs }
    }

    /// A row whose bytes lie outside the pages, its long values inside.
    #[inline]
    pub(crate) fn row_of_bytes<'s>(&'s self, bytes: &'s [u8]) -> RowRef<'s> {
        RowRef { bytes, layout: &self.layout, longs: &self.longs }
    }
}

/// A stored row. Values read from it are borrowed from its page.
#[derive(Clone, Copy)]
pub struct RowRef<'s> {
    pub(crate) bytes: &'s [u8],
    pub(crate) layout: &'s RowLayout,
    longs: &'s LongValues,
}

impl<'s> RowRef<'s> {
    /// The value of a column, by its position in the table.
    #[inline]
    pub fn column(&self, column: u16) -> Value<'s> {
        self.layout.columns[column as usize].read(self.bytes, self.longs)
    }
}

/// A row from either side of the door.
#[derive(Clone, Copy)]
pub(crate) enum SourceRow<'a> {
    Stored(RowRef<'a>),
    /// Full width, in column order.
    Given(&'a [Value<'a>]),
}

impl<'a> SourceRow<'a> {
    #[inline(always)]
    pub(crate) fn column(&self, column: u16) -> Value<'a> {
        match self {
            SourceRow::Stored(row) => row.column(column),
            SourceRow::Given(values) => values[column as usize],
        }
    }
}
