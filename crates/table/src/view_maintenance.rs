//! Keeps a view's rows what its definition says, one source row at a time, within the transaction
//! and through its undo log.

mod aggregates;

use crate::constraint;
use crate::evaluation::{Rows as RowContext, note_row};
use crate::index::EncodedKey;
use crate::row::{RowStore, SourceRow};
use crate::table::{InsertError, TableData};
use crate::tags::{Tag, Unknown};
use crate::undo::UndoLog;
use crate::view_plan::{Operation, ViewPlan};
use aggregates::{counted, same, sum};
use bumpalo::Bump;
use ferrite_base::{RowId, TableId, UserError, UserResult, fault};
use ferrite_value::Value;

/// One partition's tables by id. A view that is being changed is taken out.
pub(crate) type Tables = Vec<Option<Box<TableData>>>;

#[inline]
pub(crate) fn table(tables: &Tables, id: TableId) -> &TableData {
    tables[id.index()].as_deref().expect("plans name tables that are there")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Add,
    Remove,
}

/// What a change of a view looks at besides the view itself.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a, T> {
    pub(crate) plan: &'a ViewPlan,
    pub(crate) tables: &'a Tables,
    pub(crate) arena: &'a Bump,
    /// A stored row, by slot, that is going: a search for the next extreme must not find it.
    pub(crate) leaving: Option<(usize, RowId)>,
    /// The tables' rows are not those that the view counts yet.
    pub(crate) filling: bool,
    /// Of the row's group, in the index by which groups are found.
    pub(crate) tag: T,
}

impl<'a, T: Tag> Surroundings<'a, T> {
    /// A row bound to `slot` came or goes.
    #[inline]
    pub(crate) fn change(
        &self,
        view: &mut TableData,
        slot: usize,
        row: SourceRow<'a>,
        direction: Direction,
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        if self.plan.tables.len() == 1 {
            return self.change_combination(view, &[row], direction, undo);
        }
        self.each_combination(Some((slot, row)), &mut |slots| self.change_combination(view, slots, direction, undo))
    }

    /// Adds all combinations: for a view of a join, without rows.
    pub(crate) fn fill(&self, view: &mut TableData, undo: &mut UndoLog) -> UserResult<()> {
        self.each_combination(None, &mut |slots| self.change_combination(view, slots, Direction::Add, undo))
    }

    /// Calls `visit` for each combination of rows that meets the join conditions (not yet the
    /// filter), with one slot's row given.
    fn each_combination(
        &self,
        given: Option<(usize, SourceRow<'a>)>,
        visit: &mut dyn FnMut(&[SourceRow<'a>]) -> UserResult<()>,
    ) -> UserResult<()> {
        let mut slots = Vec::with_capacity(self.plan.tables.len());
        self.bind_next(given, &mut slots, visit)
    }

    fn bind_next(
        &self,
        given: Option<(usize, SourceRow<'a>)>,
        slots: &mut Vec<SourceRow<'a>>,
        visit: &mut dyn FnMut(&[SourceRow<'a>]) -> UserResult<()>,
    ) -> UserResult<()> {
        let slot = slots.len();
        if slot == self.plan.tables.len() {
            return visit(slots);
        }
        if let Some((place, row)) = given
            && place == slot
        {
            return self.bind(row, given, slots, visit);
        }
        let rows = table(self.tables, self.plan.tables[slot]);
        for id in rows.scan() {
            if self.leaving != Some((slot, id)) {
                self.bind(SourceRow::Stored(rows.row(id)), given, slots, visit)?;
            }
        }
        Ok(())
    }

    fn bind(
        &self,
        row: SourceRow<'a>,
        given: Option<(usize, SourceRow<'a>)>,
        slots: &mut Vec<SourceRow<'a>>,
        visit: &mut dyn FnMut(&[SourceRow<'a>]) -> UserResult<()>,
    ) -> UserResult<()> {
        note_row()?;
        slots.push(row);
        let holds = match slots.len() {
            1 => true,
            bound => match &self.plan.conditions[bound - 2] {
                Some(condition) => condition.is_true(&RowContext::new(slots, self.arena))?,
                None => true,
            },
        };
        if holds {
            self.bind_next(given, slots, visit)?;
        }
        slots.pop();
        Ok(())
    }

    /// A row is about to become another.
    pub(crate) fn replace(
        &self,
        view: &mut TableData,
        slot: usize,
        before: SourceRow<'a>,
        after: SourceRow<'a>,
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        let old = [before];
        let new = [after];
        if self.plan.tables.len() == 1 && self.passes(&old)? && self.passes(&new)? {
            let key = self.group_key(&old)?;
            let new_key = self.group_key(&new)?;
            let mut parts = key.as_slice().iter().zip(new_key.as_slice());
            if parts.all(|(old, new)| same(old, new)) {
                // The group stays: extremes that do not change need no search.
                if self.plan.aggregates.iter().all(|aggregate| aggregate.operation == Operation::CountRows) {
                    return Ok(());
                }
                let key = key.as_slice();
                let row = self.find_group(view, key).ok_or_else(|| lacks_group(view))?;
                return self.change_group(view, row, Change { key, before: Some(&old), after: Some(&new) }, undo);
            }
        }
        self.change(view, slot, before, Direction::Remove, undo)?;
        self.change(view, slot, after, Direction::Add, undo)
    }

    fn group_key(&self, slots: &[SourceRow<'a>]) -> UserResult<GroupKey<'a>> {
        let length = self.plan.groups.len();
        let mut key = GroupKey { few: [Value::Null; 4], many: Vec::new(), length };
        let values = if length <= key.few.len() {
            &mut key.few[..length]
        } else {
            key.many.resize(length, Value::Null);
            &mut key.many[..]
        };
        for (value, group) in values.iter_mut().zip(&self.plan.groups) {
            *value = group.part.value(slots, self.arena)?;
        }
        Ok(key)
    }

    fn find_group(&self, view: &TableData, key: &[Value<'a>]) -> Option<RowId> {
        self.plan.find_group(view, |part| key[part])
    }

    fn passes(&self, slots: &[SourceRow<'a>]) -> UserResult<bool> {
        match &self.plan.filter {
            Some(filter) => filter.is_true(&RowContext::new(slots, self.arena)),
            None => Ok(true),
        }
    }

    #[inline]
    fn change_combination(
        &self,
        view: &mut TableData,
        slots: &[SourceRow<'a>],
        direction: Direction,
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        fault::point(fault::Point::View);
        if !self.passes(slots)? {
            return Ok(());
        }
        let plan = self.plan;
        if plan.counts_plainly && direction == Direction::Add {
            let columns = plan.group_columns.as_deref().expect("counts_plainly says so");
            return match slots[0] {
                SourceRow::Given(values) => self.count_plainly(view, |part| values[columns[part] as usize], undo),
                SourceRow::Stored(row) => self.count_plainly(view, |part| row.column(columns[part]), undo),
            };
        }
        let key = self.group_key(slots)?;
        let key = key.as_slice();
        match (self.find_group(view, key), direction) {
            (Some(row), Direction::Add) => {
                self.change_group(view, row, Change { key, before: None, after: Some(slots) }, undo)
            }
            (None, Direction::Add) => self.add_group(view, key, slots, undo),
            (Some(row), Direction::Remove) => {
                let rows = &view.contents.rows;
                let count = rows.layout.columns[plan.row_count as usize].read_bigint(rows.pages.row(row));
                if count == 1 && !plan.groups.is_empty() {
                    view.delete_row(row, self.arena, undo)
                } else {
                    self.change_group(view, row, Change { key, before: Some(slots), after: None }, undo)
                }
            }
            (None, Direction::Remove) => Err(lacks_group(view)),
        }
    }

    /// One more row in the group whose keys `value` gives, where [`ViewPlan::counts_plainly`]. This
    /// is what most views do for most rows.
    #[inline(always)]
    fn count_plainly(
        &self,
        view: &mut TableData,
        value: impl Fn(usize) -> Value<'a>,
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        let plan = self.plan;
        let view_id = view.id();
        let (tag, found) = view.contents.indexes[0].find_hashed_group(&view.contents.rows, self.tag, &value);
        let RowStore { layout, pages, longs } = &mut view.contents.rows;
        if let Some(row) = found {
            undo.unsettle();
            let bytes = pages.row_mut(row);
            undo.updated(view_id, row, bytes);
            undo.settle();
            for aggregate in &plan.aggregates {
                let column = &layout.columns[aggregate.column as usize];
                column.write_bigint(bytes, counted(column.read_bigint(bytes), 1)?);
            }
            return Ok(());
        }
        undo.unsettle();
        let row = match pages.allocate(undo.is_limited()) {
            Ok(row) => row,
            Err(reason) => {
                undo.settle();
                return Err(constraint::no_slot(view.definition(), reason));
            }
        };
        let bytes = pages.row_mut(row);
        for (part, group) in plan.groups.iter().enumerate() {
            layout.columns[group.column as usize].write(bytes, &value(part), longs);
        }
        for (copy, column) in &plan.copies {
            let part = plan.groups.iter().position(|group| group.column == *column).expect("a copy is of a group");
            layout.columns[*copy as usize].write(bytes, &value(part), longs);
        }
        for aggregate in &plan.aggregates {
            layout.columns[aggregate.column as usize].write_bigint(bytes, 1);
        }
        view.contents.indexes[0].insert(EncodedKey::Tag(tag), row);
        undo.inserted(view_id, row);
        undo.settle();
        Ok(())
    }

    /// The row of a group's first combination; of no combination at all where `slots` is empty.
    fn add_group(
        &self,
        view: &mut TableData,
        key: &[Value<'a>],
        slots: &[SourceRow<'a>],
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        let row = self.arena.alloc_slice_fill_copy(self.plan.columns.len(), Value::Null);
        for (value, group) in key.iter().zip(&self.plan.groups) {
            row[group.column as usize] = *value;
        }
        for (copy, column) in &self.plan.copies {
            row[*copy as usize] = row[*column as usize];
        }
        for aggregate in &self.plan.aggregates {
            let argument = match &aggregate.argument {
                Some(argument) if !slots.is_empty() => argument.value(slots, self.arena)?,
                _ => Value::Null,
            };
            let counted = match aggregate.operation {
                Operation::CountRows => !slots.is_empty(),
                _ => !argument.is_null(),
            };
            row[aggregate.column as usize] = match aggregate.operation {
                Operation::CountRows | Operation::Count => Value::Integer(counted as i64),
                Operation::Sum if counted => sum(Value::Null, argument, Direction::Add)?,
                Operation::Sum | Operation::Min | Operation::Max => argument,
            };
            if let Some(column) = aggregate.non_null {
                row[column as usize] = Value::Integer(counted as i64);
            }
            if let Some(column) = aggregate.rest {
                row[column as usize..][..2].fill(Value::Float(0.0));
            }
        }
        view.check_row(row)?;
        view.insert_row(row, None, self.plan.group_index, Unknown, self.arena, undo)
            .map(|_| ())
            .map_err(InsertError::into_user)
    }

    /// The one row that a view without groups has from the beginning.
    pub(crate) fn add_only_row(&self, view: &mut TableData, undo: &mut UndoLog) -> UserResult<()> {
        if self.plan.groups.is_empty() { self.add_group(view, &[], &[], undo) } else { Ok(()) }
    }

    #[inline]
    fn change_group(
        &self,
        view: &mut TableData,
        id: RowId,
        change: Change<'a, '_>,
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        if self.plan.in_place {
            let view_id = view.id();
            let RowStore { layout, pages, longs } = &mut view.contents.rows;
            undo.unsettle();
            let bytes = pages.row_mut(id);
            undo.updated(view_id, id, bytes);
            undo.settle();
            return self.change_aggregates(change, layout, bytes, longs);
        }
        // Where indexes or long values are concerned: the new row is made aside, then put in place
        // as an update.
        let mut bytes = std::mem::take(&mut view.row_bytes);
        bytes.clear();
        bytes.extend_from_slice(view.contents.rows.pages.row(id));
        // A long value that is written belongs to nobody until the row is put in place.
        let has_longs = !view.layout().long_columns.is_empty();
        if has_longs {
            undo.unsettle();
        }
        let RowStore { layout, longs, .. } = &mut view.contents.rows;
        let mut result = self.change_aggregates(change, layout, &mut bytes, longs);
        match result {
            Ok(()) => {
                let changed: Vec<u16> = self.plan.aggregates.iter().map(|aggregate| aggregate.column).collect();
                result = view.prepare_replace(id, &bytes, &changed, self.arena);
                if result.is_ok() {
                    view.apply_replace(id, &bytes, undo);
                }
            }
            Err(_) => view.abandon_replace(id, &bytes),
        }
        if has_longs {
            undo.settle();
        }
        view.row_bytes = bytes;
        result
    }
}

/// What happens to one group: a combination of rows comes, goes, or becomes another.
#[derive(Clone, Copy)]
struct Change<'a, 'c> {
    key: &'c [Value<'a>],
    before: Option<&'c [SourceRow<'a>]>,
    after: Option<&'c [SourceRow<'a>]>,
}

/// A group's key, in place while it is short.
struct GroupKey<'a> {
    few: [Value<'a>; 4],
    many: Vec<Value<'a>>,
    length: usize,
}

impl<'a> GroupKey<'a> {
    fn as_slice(&self) -> &[Value<'a>] {
        if self.length <= self.few.len() { &self.few[..self.length] } else { &self.many }
    }
}

#[cold]
fn lacks_group(view: &TableData) -> UserError {
    UserError::internal(format!("view {} lacks a group of its source", view.definition().name))
}
