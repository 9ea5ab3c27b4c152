//! One table's data and the physical changes of it: rows, indexes and undo in step. Knows no redo
//! and no views.

use crate::constraint;
use crate::contents::Contents;
use crate::evaluation::{Rows as RowContext, note_row};
use crate::index::{EncodedKey, HashedKey, IndexData};
use crate::layout::RowLayout;
use crate::look_up::Rows;
use crate::pages::{PlaceError, Scan};
use crate::row::{RowRef, RowStore, SourceRow};
use crate::snapshot_pins::{SnapshotPin, SnapshotPins};
use crate::tags::Tags;
use crate::undo::{Freed, UndoEntry, UndoKind, UndoLog};
use bumpalo::Bump;
use ferrite_base::{IndexId, RowId, TableId, UserError, UserResult, fault, memory};
use ferrite_catalog::{Index, Table, TableKind};
use ferrite_value::{ColumnType, SqlType, Value, convert};
use std::sync::Arc;

/// Rows that an index is given between two looks at the memory limit.
const ROWS_PER_LOOK: usize = 1_024;

/// The data of one table, view or stream in one partition.
pub struct TableData {
    definition: Arc<Table>,
    pub(crate) contents: Contents,
    /// Views that read this table.
    pub(crate) dependents: Vec<TableId>,
    // Reused from change to change.
    keys: Vec<EncodedKey>,
    pub(crate) row_bytes: Vec<u8>,
    key_changes: Vec<KeyChange>,
}

struct KeyChange {
    index: usize,
    before: EncodedKey,
    after: EncodedKey,
}

impl TableData {
    /// `columns`: those of the definition, and a view's hidden ones.
    pub(crate) fn new(definition: Arc<Table>, columns: &[(ColumnType, bool)], pins: &Arc<SnapshotPins>) -> TableData {
        let rows = RowStore::new(RowLayout::new(columns), pins);
        let contents = Contents::fresh(rows, &definition.indexes, 0);
        TableData::with(definition, contents)
    }

    fn with(definition: Arc<Table>, contents: Contents) -> TableData {
        TableData {
            row_bytes: Vec::with_capacity(contents.rows.layout.row_bytes),
            definition,
            contents,
            dependents: Vec::new(),
            keys: Vec::new(),
            key_changes: Vec::new(),
        }
    }

    /// The rows as they are now, for reading, without the indexes.
    pub(crate) fn snapshot(&mut self, pin: &Arc<SnapshotPin>) -> TableData {
        let Contents { rows, generation, .. } = &mut self.contents;
        let contents = Contents { rows: rows.snapshot(pin), indexes: Vec::new(), generation: *generation };
        TableData::with(Arc::clone(&self.definition), contents)
    }

    pub fn definition(&self) -> &Arc<Table> {
        &self.definition
    }

    pub(crate) fn set_definition(&mut self, definition: Arc<Table>) {
        self.definition = definition;
    }

    pub(crate) fn id(&self) -> TableId {
        self.definition.id
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.definition.kind == TableKind::Stream
    }

    #[inline]
    pub(crate) fn layout(&self) -> &RowLayout {
        &self.contents.rows.layout
    }

    pub fn row_count(&self) -> u64 {
        self.contents.rows.pages.rows()
    }

    /// A stored row. Panics where the page of `id` is not there; a row that was deleted reads as
    /// zeros.
    #[inline]
    pub fn row(&self, id: RowId) -> RowRef<'_> {
        self.contents.rows.row(id)
    }

    pub fn is_live(&self, id: RowId) -> bool {
        self.contents.rows.pages.is_live(id)
    }

    /// All rows' ids, ascending.
    pub fn scan(&self) -> Scan<'_> {
        self.contents.rows.pages.scan()
    }

    /// About this many rows from all parts of the table, or all that it has. Takes time in
    /// proportion to their number, not to the table's size.
    pub fn sample(&self, wanted: usize) -> impl Iterator<Item = RowId> {
        let pages = &self.contents.rows.pages;
        let count = pages.page_count().max(1);
        let step = count.div_ceil(wanted.max(1));
        let of_each = wanted.div_ceil(count.div_ceil(step));
        let rows_each = pages.rows() as usize / count;
        let within = (rows_each / of_each.max(1)).max(1);
        (0..pages.page_count()).step_by(step).flat_map(move |page| pages.rows_of(page).step_by(within).take(of_each))
    }

    #[inline]
    pub(crate) fn index(&self, id: IndexId) -> &IndexData {
        match self.contents.indexes.iter().find(|index| index.definition.id == id) {
            Some(index) => index,
            None => panic!("table {} has no index {id}", self.definition.name),
        }
    }

    /// Rows whose whole key equals `key`; of an ordered index, those whose first keys do. A NULL
    /// finds nothing.
    #[inline]
    pub fn lookup<'s>(&'s self, index: IndexId, key: &'s [Value<'s>]) -> Rows<'s> {
        self.index(index).look_up(key, &self.contents.rows)
    }

    /// [`TableData::lookup`] where at most one row can be found. None: this key of this index is
    /// not such a case.
    #[inline]
    pub fn lookup_one(&self, index: IndexId, key: &[Value<'_>]) -> Option<Option<RowId>> {
        self.index(index).look_up_one(key, &self.contents.rows)
    }

    /// Rows in the order of an ordered index: equal in the first keys, and within bounds (value,
    /// inclusive) in the next. Where there is a bound, NULLs are left out; a lower bound NULL
    /// bounds nothing else. NULL in `equal` finds nothing.
    #[inline]
    pub fn range<'s>(
        &'s self,
        index: IndexId,
        equal: &[Value<'_>],
        lower: Option<(Value<'_>, bool)>,
        upper: Option<(Value<'_>, bool)>,
        descending: bool,
    ) -> Rows<'s> {
        self.index(index).range(equal, lower, upper, descending, false)
    }

    /// Where a key is looked for, for [`TableData::prefetch_bucket`]. None where it is not by hash,
    /// or the values are of other kinds than the columns of the index.
    #[inline]
    pub fn hashed_key(&self, index: IndexId, key: &[Value<'_>]) -> Option<HashedKey> {
        self.index(index).hashed_key(key)
    }

    /// Asks the processor to have a key's hash bucket at hand soon. Worth its while some tens of
    /// nanoseconds ahead.
    #[inline]
    pub fn prefetch_bucket(&self, index: IndexId, key: HashedKey) {
        self.index(index).prefetch(key);
    }

    /// The second step: the row that the bucket, at hand by now, leads to. It is most often the
    /// key's.
    #[inline]
    pub fn prefetch_row(&self, index: IndexId, key: HashedKey) -> Option<RowId> {
        self.index(index).prefetch_row(key, &self.contents.rows)
    }

    /// The third step: the first lines, this many at most, of a long value of the row, at hand by
    /// now. Any row and column will do.
    #[inline]
    pub fn prefetch_value(&self, row: RowId, column: u16, lines: usize) {
        let rows = &self.contents.rows;
        if let (Some(bytes), Some(column)) = (rows.pages.place(row), rows.layout.columns.get(usize::from(column)))
            && column.storage.is_long()
        {
            rows.longs.prefetch(column.handle(bytes), lines);
        }
    }

    /// The value may stand in the column.
    #[inline]
    pub(crate) fn check_value(&self, column: u16, value: &Value<'_>) -> UserResult<()> {
        let layout = &self.layout().columns[column as usize];
        if let Value::Integer(integer) = value
            && layout.storage.fits_integer(*integer)
        {
            return Ok(());
        }
        if value.is_null() {
            return if layout.nullable() { Ok(()) } else { Err(constraint::not_null(&self.definition, column)) };
        }
        if !layout.storage.holds(value) {
            return Err(constraint::wrong_kind(&self.definition, column, value));
        }
        match self.definition.columns.get(column as usize) {
            Some(column) => convert::check_fits(value, &column.column_type, &column.name),
            None => Ok(()),
        }
    }

    /// The values as the table keeps them: DECIMALs rounded to the scale that their column
    /// declares. `columns`: which columns they are for; None: all. What is computed is in `room`.
    #[inline]
    pub fn as_kept<'s, 'v>(
        &self,
        columns: Option<&[u16]>,
        values: &'s [Value<'v>],
        room: &'s mut Vec<Value<'v>>,
    ) -> UserResult<&'s [Value<'v>]> {
        if self.layout().rounds { self.rounded(columns, values, room) } else { Ok(values) }
    }

    #[inline(never)]
    fn rounded<'s, 'v>(
        &self,
        columns: Option<&[u16]>,
        values: &'s [Value<'v>],
        room: &'s mut Vec<Value<'v>>,
    ) -> UserResult<&'s [Value<'v>]> {
        room.reserve_exact(values.len());
        for (place, value) in values.iter().enumerate() {
            let column = columns.map_or(place, |columns| usize::from(columns[place]));
            room.push(match (self.definition.columns.get(column), value) {
                (Some(column), Value::Decimal(_)) if column.column_type.sql_type == SqlType::Decimal => {
                    convert::as_kept(*value, &column.column_type, &column.name)?
                }
                _ => *value,
            });
        }
        Ok(room)
    }

    /// The values may be a row of the table: as wide, each fitting its column.
    #[inline]
    pub(crate) fn check_row(&self, row: &[Value<'_>]) -> UserResult<()> {
        if row.len() != self.layout().columns.len() {
            return Err(constraint::wrong_width(&self.definition, row.len()));
        }
        for (column, value) in row.iter().enumerate() {
            self.check_value(column as u16, value)?;
        }
        Ok(())
    }

    /// The CHECK conditions do not say no.
    pub(crate) fn check_conditions<'a>(&'a self, row: SourceRow<'a>, arena: &'a Bump) -> UserResult<()> {
        self.check_conditions_of(&self.definition, row, arena)
    }

    /// The same of another version of the definition, with the same columns.
    pub(crate) fn check_conditions_of<'a>(
        &'a self,
        definition: &'a Table,
        row: SourceRow<'a>,
        arena: &'a Bump,
    ) -> UserResult<()> {
        if definition.checks.is_empty() {
            return Ok(());
        }
        let slots = [row];
        let context = RowContext::new(&slots, arena);
        for check in &definition.checks {
            if let Value::Boolean(false) = check.condition.eval(&context)? {
                return Err(constraint::check(&self.definition, &check.name));
            }
        }
        Ok(())
    }

    /// Puts a checked row in the lowest free slot, or at `place`. Refuses duplicates before it
    /// writes anything; the index at `known_new` was already seen not to have the key. `tags`: of
    /// its keys.
    #[inline]
    pub(crate) fn insert_row(
        &mut self,
        row: &[Value<'_>],
        place: Option<RowId>,
        known_new: Option<usize>,
        tags: impl Tags,
        arena: &Bump,
        undo: &mut UndoLog,
    ) -> Result<RowId, InsertError> {
        self.keys.clear();
        for (position, index) in self.contents.indexes.iter().enumerate() {
            let key = index.key_of_tagged_row(tags.of_index(position), SourceRow::Given(row), arena)?;
            if index.is_unique()
                && known_new != Some(position)
                && index.conflict(&key, SourceRow::Given(row), None, &self.contents.rows).is_some()
            {
                return Err(constraint::unique(&self.definition, index, SourceRow::Given(row), arena).into());
            }
            self.keys.push(key);
        }
        let rows = &mut self.contents.rows;
        undo.unsettle();
        let id = match place {
            None => {
                if !rows.layout.long_columns.is_empty() && undo.is_refused_memory() {
                    undo.settle();
                    return Err(constraint::no_memory(&self.definition).into());
                }
                match rows.pages.allocate(undo.is_limited()) {
                    Ok(id) => id,
                    Err(reason) => {
                        undo.settle();
                        return Err(constraint::no_slot(&self.definition, reason).into());
                    }
                }
            }
            Some(id) => {
                if let Err(error) = rows.pages.take_at(id) {
                    undo.settle();
                    return Err(InsertError::Place(error));
                }
                id
            }
        };
        let bytes = rows.pages.row_mut(id);
        for (column, value) in rows.layout.columns.iter().zip(row) {
            column.write(bytes, value, &mut rows.longs);
        }
        fault::point(fault::Point::Structure);
        for (index, key) in self.contents.indexes.iter_mut().zip(&mut self.keys) {
            index.insert(std::mem::replace(key, EncodedKey::NotIndexed), id);
        }
        undo.inserted(self.definition.id, id);
        undo.settle();
        Ok(id)
    }

    pub(crate) fn delete_row(&mut self, id: RowId, arena: &Bump, undo: &mut UndoLog) -> UserResult<()> {
        self.keys.clear();
        for index in &self.contents.indexes {
            self.keys.push(index.key_of_row(SourceRow::Stored(self.contents.rows.row(id)), arena)?);
        }
        undo.unsettle();
        for (index, key) in self.contents.indexes.iter_mut().zip(self.keys.drain(..)) {
            index.remove(key, id);
        }
        fault::point(fault::Point::Structure);
        let contents = &mut self.contents;
        let bytes = contents.rows.pages.row(id);
        undo.deleted(self.definition.id, id, bytes);
        for column in &contents.rows.layout.long_columns {
            let handle = contents.rows.layout.columns[*column as usize].handle(bytes);
            if undo.is_recording() {
                undo.freed.push(Freed { table: self.definition.id, generation: contents.generation, handle });
            } else {
                contents.rows.longs.free(handle);
            }
        }
        contents.rows.pages.release(id);
        undo.settle();
        Ok(())
    }

    /// Moves a row to a free slot. Only its id changes.
    pub(crate) fn move_row(
        &mut self,
        from: RowId,
        to: RowId,
        arena: &Bump,
        undo: &mut UndoLog,
    ) -> Result<(), PlaceError> {
        let contents = &mut self.contents;
        contents.rows.pages.take_at(to)?;
        for index in &mut contents.indexes {
            let row = SourceRow::Stored(contents.rows.row(from));
            let key = index.key_of_row(row, arena).expect("the same row had a key before");
            index.remove(key.clone(), from);
            index.insert(key, to);
        }
        self.row_bytes.clear();
        self.row_bytes.extend_from_slice(contents.rows.pages.row(from));
        contents.rows.pages.row_mut(to).copy_from_slice(&self.row_bytes);
        contents.rows.pages.release(from);
        undo.moved(self.definition.id, from, to);
        Ok(())
    }

    /// The first half of changing a row: `new_bytes` is what it will be. Refuses duplicates;
    /// remembers which keys change. On an error the new bytes' own long values are freed.
    pub(crate) fn prepare_replace(
        &mut self,
        id: RowId,
        new_bytes: &[u8],
        changed: &[u16],
        arena: &Bump,
    ) -> UserResult<()> {
        self.key_changes.clear();
        for (position, index) in self.contents.indexes.iter().enumerate() {
            if !index.reads.meets(changed) {
                continue;
            }
            let rows = &self.contents.rows;
            let after = rows.row_of_bytes(new_bytes);
            let result = (|| {
                let before = index.key_of_row(SourceRow::Stored(rows.row(id)), arena)?;
                let key = index.key_of_row(SourceRow::Stored(after), arena)?;
                if index.is_unique() && index.conflict(&key, SourceRow::Stored(after), Some(id), rows).is_some() {
                    return Err(constraint::unique(&self.definition, index, SourceRow::Stored(after), arena));
                }
                Ok((before, key))
            })();
            match result {
                Ok((before, after)) if before == after => {}
                Ok((before, after)) => self.key_changes.push(KeyChange { index: position, before, after }),
                Err(error) => {
                    self.abandon_replace(id, new_bytes);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Frees what new bytes that will not be used hold.
    pub(crate) fn abandon_replace(&mut self, id: RowId, new_bytes: &[u8]) {
        let rows = &mut self.contents.rows;
        let old_bytes = rows.pages.row(id);
        for column in &rows.layout.long_columns {
            let column = &rows.layout.columns[*column as usize];
            if column.handle(new_bytes) != column.handle(old_bytes) {
                rows.longs.free(column.handle(new_bytes));
            }
        }
    }

    /// The second half: cannot fail.
    pub(crate) fn apply_replace(&mut self, id: RowId, new_bytes: &[u8], undo: &mut UndoLog) {
        let contents = &mut self.contents;
        undo.unsettle();
        for change in self.key_changes.drain(..) {
            let index = &mut contents.indexes[change.index];
            index.remove(change.before, id);
            index.insert(change.after, id);
        }
        let rows = &mut contents.rows;
        let old_bytes = rows.pages.row(id);
        undo.updated(self.definition.id, id, old_bytes);
        for column in &rows.layout.long_columns {
            let column = &rows.layout.columns[*column as usize];
            let handle = column.handle(old_bytes);
            if handle == column.handle(new_bytes) {
                continue;
            }
            if undo.is_recording() {
                undo.freed.push(Freed { table: self.definition.id, generation: contents.generation, handle });
            } else {
                rows.longs.free(handle);
            }
        }
        rows.pages.row_mut(id).copy_from_slice(new_bytes);
        undo.settle();
    }

    /// Puts back what one change overwrote.
    pub(crate) fn roll_back(&mut self, entry: &UndoEntry<'_>, arena: &Bump) {
        let contents = &mut self.contents;
        let id = entry.row;
        fn key<'a>(index: &'a IndexData, row: SourceRow<'a>, arena: &'a Bump) -> EncodedKey {
            index.key_of_row(row, arena).expect("the same row had a key before")
        }
        match entry.kind {
            UndoKind::Inserted => {
                for index in &mut contents.indexes {
                    let key = key(index, SourceRow::Stored(contents.rows.row(id)), arena);
                    index.remove(key, id);
                }
                let bytes = contents.rows.pages.row(id);
                for column in &contents.rows.layout.long_columns {
                    contents.rows.longs.free(contents.rows.layout.columns[*column as usize].handle(bytes));
                }
                contents.rows.pages.release(id);
            }
            UndoKind::Deleted => {
                contents.rows.pages.take_at(id).expect("the slot of a deleted row is free when undo comes to it");
                contents.rows.pages.row_mut(id).copy_from_slice(entry.before);
                for index in &mut contents.indexes {
                    let key = key(index, SourceRow::Stored(contents.rows.row(id)), arena);
                    index.insert(key, id);
                }
            }
            UndoKind::Updated => {
                for index in &mut contents.indexes {
                    let rows = &contents.rows;
                    if rows.layout.same_columns(&index.read_columns, rows.pages.row(id), entry.before) {
                        continue;
                    }
                    let after = key(index, SourceRow::Stored(contents.rows.row(id)), arena);
                    let before = key(index, SourceRow::Stored(contents.rows.row_of_bytes(entry.before)), arena);
                    if before != after {
                        index.remove(after, id);
                        index.insert(before, id);
                    }
                }
                let rows = &mut contents.rows;
                let bytes = rows.pages.row(id);
                for column in &rows.layout.long_columns {
                    let column = &rows.layout.columns[*column as usize];
                    if column.handle(bytes) != column.handle(entry.before) {
                        rows.longs.free(column.handle(bytes));
                    }
                }
                rows.pages.row_mut(id).copy_from_slice(entry.before);
            }
            UndoKind::Moved => {
                let from =
                    RowId(u32::from_le_bytes(entry.before.try_into().expect("an entry of this kind has a row id")));
                let moved = self.move_row(id, from, arena, &mut UndoLog::off());
                moved.expect("the slot that a row left is free when undo comes to it");
            }
            UndoKind::Replaced => unreachable!("whole contents are put back by the store"),
        }
    }

    /// Empty contents in place of the present ones, which are returned.
    pub(crate) fn replace_contents(&mut self, generation: u64) -> Contents {
        let indexes: Vec<Index> = self.contents.indexes.iter().map(|index| index.definition.clone()).collect();
        let fresh = Contents::fresh(self.contents.rows.sibling(), &indexes, generation);
        std::mem::replace(&mut self.contents, fresh)
    }

    /// An index of the present rows.
    pub(crate) fn build_index(&self, definition: &Index) -> UserResult<IndexData> {
        let mut index = IndexData::new(definition, self.layout());
        let mut arena = Bump::new();
        let duplicate = |index: &IndexData, id: RowId| {
            let arena = Bump::new();
            constraint::unique(&self.definition, index, SourceRow::Stored(self.row(id)), &arena)
        };
        // Ordered ones are built of sorted keys, which is several times as fast as finding each
        // key's place.
        let mut sorted = index.sorted_keys(self.row_count() as usize);
        for (number, id) in self.scan().enumerate() {
            if number % ROWS_PER_LOOK == 0 && !memory::takes_rows() {
                return Err(constraint::no_memory(&self.definition));
            }
            note_row()?;
            arena.reset();
            let row = SourceRow::Stored(self.row(id));
            let key = index.key_of_row(row, &arena)?;
            match &mut sorted {
                Some(keys) => keys.push(key, id),
                None if index.is_unique() && index.conflict(&key, row, None, &self.contents.rows).is_some() => {
                    return Err(duplicate(&index, id));
                }
                None => index.insert(key, id),
            }
        }
        if let Some(keys) = sorted {
            index.fill(keys).map_err(|id| duplicate(&index, id))?;
        }
        Ok(index)
    }

    /// Makes the indexes that the catalog names anew.
    pub(crate) fn rebuild_indexes(&mut self) -> UserResult<()> {
        let definition = Arc::clone(&self.definition);
        let built = definition.indexes.iter().map(|index| self.build_index(index)).collect::<UserResult<_>>()?;
        self.contents.indexes = built;
        Ok(())
    }
}

/// Why a row could not be put in.
#[derive(Debug)]
pub(crate) enum InsertError {
    User(UserError),
    /// Only where the caller named the place.
    Place(PlaceError),
}

impl From<UserError> for InsertError {
    fn from(error: UserError) -> InsertError {
        InsertError::User(error)
    }
}

impl InsertError {
    /// For insertions that leave the choice of the place to the table.
    pub(crate) fn into_user(self) -> UserError {
        match self {
            InsertError::User(error) => error,
            InsertError::Place(error) => UserError::internal(format!("a free slot is not free: {error:?}")),
        }
    }
}
