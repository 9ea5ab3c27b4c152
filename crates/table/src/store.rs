//! A partition's store: its tables, the undo of the transaction that runs, and the redo that the
//! transaction leaves.
//!
//! Every change goes through here and keeps rows, indexes, views, undo and redo in step. A change
//! that fails may have been made in part (a view's sum can overflow after the row is in): whoever
//! calls rolls back to a mark from before it.

mod replay;

use crate::compaction_state::Compaction;
use crate::constraint;
use crate::redo;
use crate::row::SourceRow;
use crate::snapshot_pins::SnapshotPins;
use crate::table::{InsertError, TableData};
use crate::tags::{Tags, Unknown};
use crate::undo::{Excess, KEPT_BYTES_MAX, UndoKind, UndoLog, UndoMark};
use crate::view_maintenance::{Direction, Surroundings, Tables, table};
use crate::view_plan::ViewPlan;
use bumpalo::Bump;
use ferrite_base::{PartitionId, RowId, Sequence, TableId, UserError, UserResult, memory};
use ferrite_catalog::{Catalog, Table};
use ferrite_value::ring::Ring;
use ferrite_value::{Value, compare, hash};
use std::sync::Arc;

/// One partition's tables.
pub struct Store {
    pub(crate) partition: PartitionId,
    pub(crate) ring: Arc<Ring>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: Tables,
    /// By the view's table id.
    pub(crate) plans: Vec<Option<Box<ViewPlan>>>,
    /// The view that follows a change at the moment, out of its place among the tables.
    view: Option<Box<TableData>>,
    pub(crate) undo: UndoLog,
    pub(crate) redo: Vec<u8>,
    /// Whether changes are written to the redo; otherwise a byte stands for each.
    pub(crate) keeps_redo: bool,
    pub(crate) pins: Arc<SnapshotPins>,
    /// For expressions of views, indexes and checks; emptied before each change.
    pub(crate) arena: Bump,
    generations: u64,
    /// Reused from change to change.
    changed: Vec<u16>,
    /// Row changes that replay has made.
    replayed: u64,
    pub(crate) compaction: Compaction,
}

/// A change of one row, as its views see it.
#[derive(Clone, Copy)]
enum RowChange<'a> {
    Insert(&'a [Value<'a>]),
    Delete(RowId),
    /// What the row will be is in the bytes.
    Update(RowId, &'a [u8]),
}

impl Store {
    pub fn new(partition: PartitionId, ring: Arc<Ring>) -> Store {
        Store {
            partition,
            ring,
            catalog: Arc::default(),
            tables: Vec::new(),
            plans: Vec::new(),
            view: None,
            undo: UndoLog::new(),
            redo: Vec::with_capacity(4096),
            keeps_redo: true,
            pins: Arc::default(),
            arena: Bump::new(),
            generations: 0,
            changed: Vec::new(),
            replayed: 0,
            compaction: Compaction::default(),
        }
    }

    /// What one transaction may change here, in bytes; without this,
    /// [`ferrite_base::limits::TRANSACTION_BYTES_MAX`].
    pub fn set_transaction_bytes_max(&mut self, bytes: usize) {
        self.undo.set_bytes_max(bytes);
    }

    /// See [`Store::set_transaction_bytes_max`].
    pub fn transaction_bytes_max(&self) -> usize {
        self.undo.bytes_max()
    }

    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Panics where there is no such table: plans are compiled against the catalog in force.
    #[inline]
    pub fn table(&self, id: TableId) -> &TableData {
        match self.tables.get(id.index()) {
            Some(Some(table)) => table,
            _ => panic!("no table {id}"),
        }
    }

    /// All tables, views and streams, by id.
    pub fn tables(&self) -> impl Iterator<Item = &TableData> {
        self.tables.iter().filter_map(Option::as_deref)
    }

    /// None: there is no table of that number.
    pub fn find_table(&self, id: TableId) -> Option<&TableData> {
        self.tables.get(id.index())?.as_deref()
    }

    /// Does a row of `table` with this value in the partitioning column belong here? Fails where
    /// the value is of a kind that cannot select a partition.
    #[inline]
    pub fn owns(&self, table: &Table, key: &Value<'_>) -> UserResult<bool> {
        if self.ring.partition_count() == 1 {
            return Ok(true);
        }
        let Some(column) = table.partition_column else { return Ok(true) };
        let token = hash::partition_token(key, table.columns[column as usize].column_type.sql_type)?;
        Ok(self.ring.partition_of_optional(token) == self.partition)
    }

    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    #[inline]
    fn table_mut(&mut self, id: TableId) -> &mut TableData {
        match self.tables.get_mut(id.index()) {
            Some(Some(table)) => table,
            _ => panic!("no table {id}"),
        }
    }

    /// Inserts a row: a value per column, of the column's kind. Rounds DECIMALs as declared, and
    /// checks NOT NULL, sizes, CHECK and UNIQUE before it writes. A stream keeps no rows: the id it
    /// returns means nothing.
    #[inline]
    pub fn insert(&mut self, table: TableId, row: &[Value<'_>]) -> UserResult<RowId> {
        let mut room = Vec::new();
        let row = self.table(table).as_kept(None, row, &mut room)?;
        let id = self.insert_at(table, row, None, Unknown).map_err(InsertError::into_user)?;
        if self.writes_redo() {
            let data = self.tables[table.index()].as_deref().expect("inserted into");
            redo::write_insert(&mut self.redo, table, id, data.layout(), row);
        }
        self.check_size()?;
        Ok(id)
    }

    /// The transaction has not become too large.
    #[inline]
    fn check_size(&self) -> UserResult<()> {
        if self.redo.len() > self.undo.bytes_max() || self.undo.excess().is_some() {
            return Err(self.too_large());
        }
        Ok(())
    }

    /// The parts of one transaction have not become too large together: they become one entry of
    /// the log.
    pub fn check_size_together(stores: &[Store]) -> UserResult<()> {
        let bytes: usize = stores.iter().map(|store| store.redo.len()).sum();
        match stores.first().map_or(usize::MAX, |store| store.undo.bytes_max()) {
            bytes_max if bytes > bytes_max => Err(constraint::transaction_too_large_together(bytes_max)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn too_large(&self) -> UserError {
        match self.undo.excess() {
            Some(Excess::Memory) => memory::refused("all the changes of the transaction"),
            Some(Excess::Transaction) | None => constraint::transaction_too_large(self.undo.bytes_max()),
        }
    }

    /// Before a change of a page that a snapshot may show, so that it has to be copied: is there
    /// memory for that?
    #[inline]
    fn check_copies(&self, there_is: fn() -> bool) -> UserResult<()> {
        if !there_is() && self.undo.is_limited() && self.pins.count() > 0 {
            return Err(memory::refused("changes while a snapshot is read")
                .with_hint("try again when the long query or the snapshot has ended, or start the server with a higher --memory-limit"));
        }
        Ok(())
    }

    #[inline]
    fn insert_at(
        &mut self,
        table: TableId,
        row: &[Value<'_>],
        place: Option<RowId>,
        tags: impl Tags,
    ) -> Result<RowId, InsertError> {
        self.arena.reset();
        let Some(Some(data)) = self.tables.get_mut(table.index()) else { panic!("no table {table}") };
        data.check_row(row)?;
        if !data.definition().checks.is_empty() {
            data.check_conditions(SourceRow::Given(row), &self.arena)?;
        }
        let id = match data.is_stream() {
            true => RowId(0),
            false => data.insert_row(row, place, None, tags, &self.arena, &mut self.undo)?,
        };
        if !data.dependents.is_empty() {
            self.maintain_views(table, RowChange::Insert(row), tags)?;
        }
        Ok(id)
    }

    /// Sets columns of a row. Panics where the row is not there. In a view it must be one of a
    /// stream, and no column that it is grouped by; so, too, with [`Store::delete`].
    pub fn update(&mut self, table: TableId, row: RowId, columns: &[u16], values: &[Value<'_>]) -> UserResult<()> {
        self.check_copies(memory::takes_rows)?;
        let mut room = Vec::new();
        let values = self.table(table).as_kept(Some(columns), values, &mut room)?;
        if !self.update_at(table, row, columns, values)? {
            return Ok(());
        }
        if !self.writes_redo() {
            return self.check_size();
        }
        let data = self.tables[table.index()].as_deref().expect("updated");
        let stored = data.row(row);
        if let Some(plan) = &self.plans[table.index()] {
            let groups = plan.group_columns_of_view();
            let value = |column| stored.column(column);
            redo::write_group(&mut self.redo, table, data.layout(), &groups, Some(&self.changed), value);
            return self.check_size();
        }
        redo::write_update(&mut self.redo, table, row, data.layout(), &self.changed, |column| stored.column(column));
        self.check_size()
    }

    /// Whether anything changed; what, is in `self.changed`.
    fn update_at(&mut self, table: TableId, id: RowId, columns: &[u16], values: &[Value<'_>]) -> UserResult<bool> {
        assert_eq!(columns.len(), values.len(), "a value per column");
        self.arena.reset();
        let Some(Some(data)) = self.tables.get_mut(table.index()) else { panic!("no table {table}") };
        assert!(data.is_live(id), "row {id} of table {table} is there");
        self.changed.clear();
        for (column, value) in columns.iter().zip(values) {
            data.check_value(*column, value)?;
            if !same(&data.row(id).column(*column), value) {
                self.changed.push(*column);
            }
        }
        if self.changed.is_empty() {
            return Ok(false);
        }
        let long_columns = &data.layout().long_columns;
        if self.changed.iter().any(|column| long_columns.contains(column)) && self.undo.is_refused_memory() {
            return Err(constraint::no_memory(data.definition()));
        }
        // A long value that is written belongs to nobody until the row is put in place.
        let writes_longs = self.changed.iter().any(|column| long_columns.contains(column));
        if writes_longs {
            self.undo.unsettle();
        }
        let mut bytes = std::mem::take(&mut data.row_bytes);
        bytes.clear();
        bytes.extend_from_slice(data.contents.rows.pages.row(id));
        for (column, value) in columns.iter().zip(values) {
            if self.changed.contains(column) {
                let rows = &mut data.contents.rows;
                rows.layout.columns[*column as usize].write(&mut bytes, value, &mut rows.longs);
            }
        }
        let result = self.update_to(table, id, &bytes);
        self.table_mut(table).row_bytes = bytes;
        if writes_longs {
            self.undo.settle();
        }
        result.map(|()| true)
    }

    fn update_to(&mut self, table: TableId, id: RowId, bytes: &[u8]) -> UserResult<()> {
        let Some(Some(data)) = self.tables.get_mut(table.index()) else { panic!("no table {table}") };
        let row = SourceRow::Stored(data.contents.rows.row_of_bytes(bytes));
        if let Err(error) = data.check_conditions(row, &self.arena) {
            data.abandon_replace(id, bytes);
            return Err(error);
        }
        data.prepare_replace(id, bytes, &self.changed, &self.arena)?;
        if !data.dependents.is_empty()
            && let Err(error) = self.maintain_views(table, RowChange::Update(id, bytes), Unknown)
        {
            self.table_mut(table).abandon_replace(id, bytes);
            return Err(error);
        }
        let data = self.tables[table.index()].as_deref_mut().expect("found above");
        data.apply_replace(id, bytes, &mut self.undo);
        Ok(())
    }

    /// Panics where the row is not there.
    pub fn delete(&mut self, table: TableId, row: RowId) -> UserResult<()> {
        self.check_copies(memory::has_room)?;
        if let Some(plan) = &self.plans[table.index()] {
            let data = self.table(table);
            let groups = plan.group_columns_of_view();
            let mut change = Vec::new();
            let stored = data.row(row);
            redo::write_group(&mut change, table, data.layout(), &groups, None, |column| stored.column(column));
            self.delete_at(table, row)?;
            if self.writes_redo() {
                self.redo.append(&mut change);
            }
            return self.check_size();
        }
        self.delete_at(table, row)?;
        if self.writes_redo() {
            redo::write_delete(&mut self.redo, table, row);
        }
        self.check_size()
    }

    fn delete_at(&mut self, table: TableId, row: RowId) -> UserResult<()> {
        self.arena.reset();
        self.compaction.deletions += 1;
        let data = self.table_mut(table);
        assert!(data.is_live(row), "row {row} of table {table} is there");
        if !data.dependents.is_empty() {
            self.maintain_views(table, RowChange::Delete(row), Unknown)?;
        }
        let data = self.tables[table.index()].as_deref_mut().expect("found above");
        data.delete_row(row, &self.arena, &mut self.undo)
    }

    /// Deletes all rows at once, and says how many there were.
    pub fn truncate(&mut self, table: TableId) -> UserResult<u64> {
        let count = self.table(table).row_count();
        if count > 0 {
            self.truncate_all(table)?;
            if self.writes_redo() {
                redo::write_truncate(&mut self.redo, table);
            }
        }
        Ok(count)
    }

    fn truncate_all(&mut self, table: TableId) -> UserResult<()> {
        self.undo.unsettle();
        let result = self.truncate_with_views(table);
        self.undo.settle();
        result
    }

    fn truncate_with_views(&mut self, table: TableId) -> UserResult<()> {
        self.replace_contents(table);
        for position in 0..self.table(table).dependents.len() {
            // Its rows were combinations with rows of this table, of which there are none now.
            let view_id = self.table(table).dependents[position];
            self.replace_contents(view_id);
            let mut view = self.tables[view_id.index()].take().expect("dependent views are there");
            let plan = self.plans[view_id.index()].as_deref().expect("views have plans");
            let tables = &self.tables;
            let arena = &self.arena;
            let surroundings = Surroundings { plan, tables, arena, leaving: None, filling: true, tag: Unknown };
            let result = surroundings.add_only_row(&mut view, &mut UndoLog::off());
            self.tables[view_id.index()] = Some(view);
            result?;
        }
        Ok(())
    }

    fn replace_contents(&mut self, table: TableId) {
        self.generations += 1;
        let generation = self.generations;
        let before = self.table_mut(table).replace_contents(generation);
        self.undo.replaced(table, before);
    }

    /// Brings the views on `table` up to a change of one of its rows, which is not yet made
    /// (update, delete) or just made. `tags`: of an inserted row.
    fn maintain_views(&mut self, changed: TableId, change: RowChange<'_>, tags: impl Tags) -> UserResult<()> {
        for position in 0..self.table(changed).dependents.len() {
            let view_id = self.table(changed).dependents[position];
            let plan = self.plans[view_id.index()].as_deref().expect("views have plans");
            let slot = plan.slot_of(changed).expect("a dependent view reads the table");
            if matches!(change, RowChange::Update(..)) && !plan.reads[slot].meets(&self.changed) {
                continue;
            }
            self.view = self.tables[view_id.index()].take();
            let view = self.view.as_deref_mut().expect("dependent views are there");
            let rows = &table(&self.tables, changed).contents.rows;
            let tables = &self.tables;
            let arena = &self.arena;
            let tag = tags.of_view(position);
            let mut surroundings = Surroundings { plan, tables, arena, leaving: None, filling: false, tag };
            let undo = &mut self.undo;
            let result = match change {
                RowChange::Insert(row) => surroundings.change(view, slot, SourceRow::Given(row), Direction::Add, undo),
                RowChange::Delete(id) => {
                    surroundings.leaving = Some((slot, id));
                    let row = SourceRow::Stored(rows.row(id));
                    surroundings.change(view, slot, row, Direction::Remove, undo)
                }
                RowChange::Update(id, bytes) => {
                    surroundings.leaving = Some((slot, id));
                    let before = SourceRow::Stored(rows.row(id));
                    let after = SourceRow::Stored(rows.row_of_bytes(bytes));
                    surroundings.replace(view, slot, before, after, undo)
                }
            };
            self.tables[view_id.index()] = self.view.take();
            result?;
        }
        Ok(())
    }

    // The transaction.

    /// Where the transaction stands.
    #[inline]
    pub fn mark(&self) -> UndoMark {
        UndoMark { undo: self.undo.length(), freed: self.undo.freed.len(), redo: self.redo.len() }
    }

    /// Undoes all changes since the mark; their redo goes too.
    pub fn rollback_to(&mut self, mark: UndoMark) {
        assert!(mark.undo <= self.undo.length(), "marks end with their transaction");
        self.undo.unsettle();
        while self.undo.length() > mark.undo {
            self.arena.reset();
            let entry = self.undo.last();
            let rest = entry.rest;
            let changed = entry.table;
            let Some(Some(data)) = self.tables.get_mut(entry.table.index()) else {
                panic!("table {} is there while its undo is", entry.table)
            };
            if entry.kind == UndoKind::Replaced {
                let (table, contents) = self.undo.replaced.pop().expect("an entry of this kind has contents");
                assert_eq!(table, changed, "contents go back to their own table");
                data.contents = contents;
            } else {
                data.roll_back(&entry, &self.arena);
            }
            self.undo.truncate(rest);
        }
        assert_eq!(self.undo.length(), mark.undo, "a mark lies between two changes");
        self.undo.freed.truncate(mark.freed);
        self.redo.truncate(mark.redo);
        self.undo.settle();
    }

    /// Where the transaction began.
    pub fn beginning(&self) -> UndoMark {
        let (undo, freed) = self.undo.beginning();
        UndoMark { undo, freed, redo: 0 }
    }

    /// After a panic: whether it came where all that was changed since a mark can be undone. It did
    /// not in the midst of a change of rows and indexes; then the store must not be used any more.
    pub fn recover(&mut self) -> bool {
        if let Some(view) = self.view.take() {
            let place = view.id().index();
            self.tables[place] = Some(view);
        }
        self.undo.is_settled()
    }

    /// Makes the changes final: forgets undo and redo (take the redo before), frees what deletions
    /// left.
    #[inline]
    pub fn commit(&mut self) {
        assert!(self.undo.is_settled(), "a commit does not come in the midst of a change");
        self.redo.clear();
        if self.redo.capacity() > KEPT_BYTES_MAX {
            self.redo = Vec::with_capacity(4096);
        }
        if self.undo.is_empty() {
            return;
        }
        assert!(!self.undo.is_retaining(), "a transaction whose undo is kept has a number");
        self.compaction.deletions += self.undo.freed.len() as u64;
        for position in 0..self.undo.freed.len() {
            let table = self.undo.freed[position].table;
            let generation = self.undo.freed[position].generation;
            let handle = self.undo.freed[position].handle;
            let contents = &mut self.table_mut(table).contents;
            if contents.generation == generation {
                contents.rows.longs.free(handle);
            }
        }
        self.undo.clear();
    }

    /// Whether nothing is left of a transaction: no change to undo, none to hand to the log.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.undo.is_empty() && self.redo.is_empty()
    }

    /// The changes since the last commit or take; empty when there are none.
    #[inline]
    pub fn redo(&self) -> &[u8] {
        &self.redo
    }

    /// Moves the changes since the last commit or take to the end of `out`.
    #[inline]
    pub fn take_redo_into(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.redo);
        self.redo.clear();
    }

    /// Forgets the changes' redo, but not their undo: another store's record stands for this one's,
    /// or no log has it.
    pub fn discard_redo(&mut self) {
        self.redo.clear();
    }

    // Transactions that have ended and are not committed (docs/decisions/0045-retained-undo.md).

    /// From here on, whether the undo of transactions is kept until they are committed. There must
    /// be none that is kept.
    pub fn retain_undo(&mut self, on: bool) {
        self.undo.set_retaining(on);
    }

    /// Ends the transaction like [`Store::commit`], but so that it can be undone. `sequence`: its
    /// number, or that of the last one where it has left no redo.
    #[inline]
    pub fn commit_at(&mut self, sequence: Sequence) {
        assert!(self.undo.is_settled(), "a commit does not come in the midst of a change");
        if !self.undo.is_retaining() || self.undo.is_empty() {
            return self.commit();
        }
        self.discard_redo();
        self.undo.retain(sequence);
    }

    /// Transactions up to this number will not be undone: forgets their undo, and frees what they
    /// deleted.
    pub fn committed(&mut self, sequence: Sequence) {
        assert!(self.is_committed(), "what is committed is told of between transactions");
        let freed = self.undo.freed_through(sequence);
        self.compaction.deletions += freed.len() as u64;
        for position in freed {
            let table = self.undo.freed[position].table;
            let generation = self.undo.freed[position].generation;
            let handle = self.undo.freed[position].handle;
            let contents = &mut self.table_mut(table).contents;
            if contents.generation == generation {
                contents.rows.longs.free(handle);
                continue;
            }
            // Contents that were replaced since are kept, and may come back.
            let mut replaced = self.undo.replaced.iter_mut();
            if let Some((_, kept)) = replaced.find(|(of, kept)| (*of, kept.generation) == (table, generation)) {
                kept.rows.longs.free(handle);
            }
        }
        self.undo.forget(sequence);
    }

    /// Undoes all transactions behind this number, the last one first.
    pub fn step_back(&mut self, sequence: Sequence) {
        assert!(self.is_committed(), "a store steps back between transactions");
        let (undo, freed) = self.undo.reopen_behind(sequence);
        self.rollback_to(UndoMark { undo, freed, redo: 0 });
    }

    /// The number of the first transaction whose undo is kept.
    pub fn first_retained(&self) -> Option<Sequence> {
        self.undo.first_retained()
    }

    /// Bytes of undo that is kept of transactions that have ended.
    pub fn retained_bytes(&self) -> usize {
        self.undo.retained_bytes()
    }
}

/// Stored alike: floats by their bits.
fn same(stored: &Value<'_>, given: &Value<'_>) -> bool {
    match (stored, given) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Point(a), Value::Point(b)) => {
            a.longitude.to_bits() == b.longitude.to_bits() && a.latitude.to_bits() == b.latitude.to_bits()
        }
        _ => compare::equal_grouping(stored, given),
    }
}
