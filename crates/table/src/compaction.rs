//! Makes a store smaller after many deletions, in small steps between transactions
//! (docs/decisions/0009-compaction.md).
//!
//! A table is worth it when more than half of its row and long-value memory is unused, and that is
//! at least [`WASTE_BYTES_MIN`](crate::compaction_state::WASTE_BYTES_MIN): then a step is paid for
//! by at least one deletion. Its rows move from its last pages to free slots in its first; that
//! changes row ids, so it is logged, as changes of their own (`redo::MOVE`). Long values, hash
//! segments, ordered indexes and the places of pages in memory are nobody else's business and are
//! changed without a trace. While a snapshot lives nothing moves: it would copy pages.

use crate::compaction_state::{RETURNS_PER_LOOK, SCATTERED_BYTES_MIN, Work};
use crate::contents::Contents;
use crate::index::{IndexData, Structure};
use crate::layout::RowLayout;
use crate::redo;
use crate::store::Store;
use crate::table::TableData;
use ferrite_base::{RowId, TableId, memory};
use ferrite_catalog::TableKind;
use std::collections::VecDeque;

/// Entries of an ordered index that is built anew at once: some milliseconds. Larger ones stay as
/// they are.
const REBUILT_ENTRIES_MAX: usize = 250_000;
/// What the longer kinds of work count in rows moved.
const PAGE_COST: usize = 8;
const MERGE_COST: usize = 32;

impl Store {
    /// Does a little of the work that makes this store smaller, about as much as moving `budget`
    /// rows takes; whether there is more. What it leaves in the redo is a transaction for the
    /// caller to log and commit. `places`: also move memory closer together, which depends on
    /// addresses and so differs from run to run. Must not be called within a transaction.
    pub fn compact(&mut self, budget: usize, places: bool) -> bool {
        assert!(self.undo.is_empty(), "compaction comes between transactions");
        if !self.has_compaction_work(places) {
            return false;
        }
        if self.compaction.work.is_empty() {
            self.look_for_waste(places);
        }
        let mut budget = budget;
        while budget > 0
            && !self.is_compaction_held()
            && let Some(work) = self.compaction.work.pop_front()
        {
            if let Some(rest) = self.work(work, &mut budget) {
                self.compaction.work.push_front(rest);
            }
        }
        !self.compaction.work.is_empty() && !self.is_compaction_held()
    }

    /// Whether [`Store::compact`] would do anything, or look for it.
    #[inline]
    pub fn has_compaction_work(&self, places: bool) -> bool {
        let state = &self.compaction;
        let others_left = || memory::pages_returned() - state.returned_at >= RETURNS_PER_LOOK;
        (state.is_wanted() || places && others_left()) && self.pins.count() == 0 && !self.is_compaction_held()
    }

    /// Whether what comes next waits for the commit of what has ended: undo that is kept has the
    /// places of long values in it.
    pub fn is_compaction_held(&self) -> bool {
        matches!(self.compaction.work.front(), Some(Work::LongValues { .. })) && self.undo.has_retained()
    }

    /// Whether there is work that only a snapshot is in the way of.
    pub fn has_held_compaction_work(&self) -> bool {
        self.compaction.is_wanted() && self.pins.count() > 0
    }

    /// From here on, whether the rows of tables stay where they are, as a copy's must. Rows of
    /// views are placed by each copy for itself.
    pub fn keep_rows(&mut self, keep: bool) {
        let Store { tables, compaction, .. } = self;
        compaction.keeps_rows = keep;
        if keep {
            let of_table = |table: &TableId| tables.get(table.index()).is_some_and(|data| is_table(data.as_deref()));
            compaction.work.retain(|work| !matches!(work, Work::Rows { table, .. } if of_table(table)));
        }
    }

    /// For tests and the simulator, whose tables are small.
    pub fn set_compaction_waste_min(&mut self, bytes: usize) {
        self.compaction.waste_min = bytes;
    }

    fn look_for_waste(&mut self, places: bool) {
        self.compaction.looked_at = self.compaction.deletions;
        self.compaction.returned_at = memory::pages_returned();
        let mut work = VecDeque::new();
        for data in self.tables.iter().flatten() {
            let Contents { rows, indexes, .. } = &data.contents;
            let table = data.id();
            let (unused_rows, row_bytes) = rows.pages.unused();
            let (unused_longs, long_bytes) = rows.longs.unused();
            let unused = unused_rows + unused_longs;
            if unused < self.compaction.waste_min.max(1) || unused * 2 < row_bytes + long_bytes {
                continue;
            }
            if !self.compaction.keeps_rows || !is_table(Some(data)) {
                work.push_back(Work::Rows { table, low: 0, high: rows.pages.page_count() });
            }
            work.push_back(Work::LongValues { table, thresholds: rows.longs.thresholds(), page: 0 });
            for (index, data) in indexes.iter().enumerate() {
                if data.by_hash().is_some() {
                    work.push_back(Work::Segments { table, index, place: 0 });
                }
                if !matches!(data.structure, Structure::Hash(_)) {
                    work.push_back(Work::Ordered { table, index });
                }
            }
        }
        // Also for the pages between which other stores gave theirs back, and anew after each pass
        // that moved many.
        if places && (!work.is_empty() || is_scattered()) {
            let tables = self.tables.iter().flatten().map(|data| data.id());
            work.extend(tables.map(|table| Work::Places { table, part: 0, number: 0 }));
        }
        self.compaction.work = work;
    }

    /// Goes on with a piece of work; what is left of it.
    fn work(&mut self, mut work: Work, budget: &mut usize) -> Option<Work> {
        let (Work::Rows { table, .. }
        | Work::LongValues { table, .. }
        | Work::Segments { table, .. }
        | Work::Ordered { table, .. }
        | Work::Places { table, .. }) = work;
        let Some(Some(data)) = self.tables.get_mut(table.index()) else { return None };
        let left = match &mut work {
            Work::Rows { low, high, .. } => {
                let logged = is_table(Some(data));
                let undo = &mut self.undo;
                let redo = &mut self.redo;
                let keeps_redo = self.keeps_redo;
                move_rows(data, low, high, budget, |data, from, to| {
                    self.arena.reset();
                    data.move_row(from, to, &self.arena, undo).expect("the slot is free");
                    match logged {
                        true if keeps_redo => redo::write_move(redo, table, from, to),
                        true => redo.push(redo::UNLOGGED),
                        false => {}
                    }
                })
            }
            Work::LongValues { thresholds, page, .. } => move_long_values(data, thresholds, page, budget),
            Work::Segments { index, place, .. } => {
                match data.contents.indexes.get_mut(*index).and_then(IndexData::by_hash_mut) {
                    Some(hash) => {
                        let mut left = true;
                        while left && *budget > 0 {
                            left = hash.merge_next(place);
                            *budget = budget.saturating_sub(MERGE_COST);
                        }
                        left
                    }
                    None => false,
                }
            }
            Work::Ordered { index, .. } => {
                if let Some(index) = data.contents.indexes.get_mut(*index)
                    && index.len() <= REBUILT_ENTRIES_MAX
                {
                    index.rebuild();
                    *budget = 0;
                }
                false
            }
            Work::Places { part, number, .. } => move_places(&mut data.contents, part, number, budget),
        };
        left.then_some(work)
    }
}

/// Its rows' ids are in the log.
fn is_table(data: Option<&TableData>) -> bool {
    data.is_some_and(|data| data.definition().kind == TableKind::Table)
}

/// Moves rows from the last pages to free slots of the first; whether there may be more.
fn move_rows(
    data: &mut TableData,
    low: &mut usize,
    high: &mut usize,
    budget: &mut usize,
    mut move_row: impl FnMut(&mut TableData, RowId, RowId),
) -> bool {
    *high = (*high).min(data.contents.rows.pages.page_count());
    while *budget > 0 {
        let Some(source) = high.checked_sub(1).filter(|source| *source > *low) else { return false };
        *budget -= 1;
        let pages = &data.contents.rows.pages;
        match (pages.first_row_of(source), pages.free_slot(low, source)) {
            (None, _) => *high = source,
            (Some(_), None) => return false,
            (Some(from), Some(to)) => move_row(data, from, to),
        }
    }
    true
}

fn move_long_values(data: &mut TableData, thresholds: &[usize], page: &mut usize, budget: &mut usize) -> bool {
    let rows = &mut data.contents.rows;
    if rows.layout.long_columns.is_empty() || thresholds.iter().all(|threshold| *threshold == usize::MAX) {
        return false;
    }
    while *budget > 0 && *page < rows.pages.page_count() {
        let ids: Vec<RowId> = rows.pages.rows_of(*page).collect();
        *page += 1;
        *budget = budget.saturating_sub(ids.len().max(1));
        let RowLayout { columns, long_columns, .. } = &rows.layout;
        for id in ids {
            for column in long_columns.iter().map(|column| &columns[*column as usize]) {
                if let Some(handle) = rows.longs.moved(column.handle(rows.pages.row(id)), thresholds) {
                    column.write_handle(rows.pages.row_mut(id), handle);
                }
            }
        }
    }
    *page < rows.pages.page_count()
}

fn is_scattered() -> bool {
    memory::bytes_scattered() >= SCATTERED_BYTES_MIN.max(memory::bytes_used() / 4)
}

/// Rows' pages first, then those of long values, then hash indexes.
fn move_places(contents: &mut Contents, part: &mut usize, number: &mut usize, budget: &mut usize) -> bool {
    if *part == 0 && *number == 0 && !is_scattered() {
        return false;
    }
    while *budget > 0 {
        let left = match *part {
            0 => contents.rows.pages.move_place(*number),
            1 => contents.rows.longs.move_place(*number),
            _ => match contents.indexes.get_mut(*part - 2) {
                Some(index) => index.by_hash_mut().and_then(|hash| hash.move_place(*number)),
                None => return false,
            },
        };
        match left {
            Some(moved) => {
                *number += 1;
                *budget = budget.saturating_sub(if moved { PAGE_COST } else { 1 });
            }
            None => (*part, *number) = (*part + 1, 0),
        }
    }
    true
}
