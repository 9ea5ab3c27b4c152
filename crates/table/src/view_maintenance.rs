//! Keeps a view's rows what its definition says, one source row at a time, within the transaction
//! and through its undo log.

use crate::constraint;
use crate::evaluation::{KeyPart, Rows as RowContext, note_row};
use crate::float_sum::{ExactSum, FloatSum};
use crate::index::EncodedKey;
use crate::layout::{ColumnLayout, RowLayout};
use crate::long_values::LongValues;
use crate::row::{RowStore, SourceRow};
use crate::table::{InsertError, TableData};
use crate::tags::{Tag, Unknown};
use crate::undo::UndoLog;
use crate::view_plan::{Aggregate, Operation, ViewPlan};
use bumpalo::Bump;
use ferrite_base::{RowId, TableId, UserError, UserResult, fault};
use ferrite_value::{Decimal, Value, compare};
use std::cmp::Ordering;

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
        let row = match pages.take(undo.is_limited()) {
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

    /// Writes each column at most once: what is written over is freed by the one who compares rows,
    /// not here.
    fn change_aggregates(
        &self,
        change: Change<'a, '_>,
        layout: &RowLayout,
        bytes: &mut [u8],
        longs: &mut LongValues,
    ) -> UserResult<()> {
        for aggregate in &self.plan.aggregates {
            let column = &layout.columns[aggregate.column as usize];
            if aggregate.operation == Operation::CountRows {
                let difference = change.after.is_some() as i64 - change.before.is_some() as i64;
                column.write_bigint(bytes, counted(column.read_bigint(bytes), difference)?);
                continue;
            }
            let argument = |slots: Option<&[SourceRow<'a>]>| match (slots, &aggregate.argument) {
                (Some(slots), Some(argument)) => argument.value(slots, self.arena),
                _ => Ok(Value::Null),
            };
            let before = argument(change.before)?;
            let after = argument(change.after)?;
            if same(&before, &after) {
                continue;
            }
            let difference = !after.is_null() as i64 - !before.is_null() as i64;
            match aggregate.operation {
                Operation::CountRows => unreachable!("done above"),
                Operation::Count => column.write_bigint(bytes, counted(column.read_bigint(bytes), difference)?),
                Operation::Sum => {
                    let counter = &layout.columns[aggregate.non_null.unwrap_or(self.plan.row_count) as usize];
                    if aggregate.non_null.is_some() {
                        counter.write_bigint(bytes, counted(counter.read_bigint(bytes), difference)?);
                    }
                    let empty = counter.read_bigint(bytes) == 0;
                    if let Some(rest) = aggregate.rest {
                        let columns = [column, &layout.columns[rest as usize], &layout.columns[rest as usize + 1]];
                        let sum = match empty {
                            true => None,
                            false => {
                                let present = columns.map(|column| float(column, bytes, longs));
                                Some(self.float_sum(aggregate, change.key, present, before, after)?)
                            }
                        };
                        write_float_sum(columns, sum, bytes, longs);
                        continue;
                    }
                    let sum = match empty {
                        true => Value::Null,
                        false => sum_of_changed(column.read(bytes, longs), before, after)?,
                    };
                    column.write(bytes, &sum, longs);
                }
                Operation::Min | Operation::Max => {
                    let wanted = aggregate.operation.order();
                    let present = column.read(bytes, longs);
                    let goes = !before.is_null() && compare::equal_grouping(&before, &present);
                    if !after.is_null() && (present.is_null() || compare::order(&after, &present) == wanted) {
                        column.write(bytes, &after, longs);
                    } else if goes && compare::equal_grouping(&after, &present) {
                        // The other zero: no row may have the one that is written.
                        column.write(bytes, &after, longs);
                    } else if goes {
                        let mut next = self.next_extreme(aggregate, change.key)?;
                        if !after.is_null() && (next.is_null() || compare::order(&after, &next) == wanted) {
                            next = after;
                        }
                        // Of a column that is never NULL: all that is left of the group are
                        // combinations of the row that goes, which are taken out one by one. The
                        // last one takes the group along.
                        if !next.is_null() || self.plan.columns[aggregate.column as usize].1 {
                            column.write(bytes, &next, longs);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A sum of FLOAT in which one argument becomes another. Only what comes out must be in range.
    fn float_sum(
        &self,
        aggregate: &'a Aggregate,
        key: &[Value<'a>],
        [sum, rest, lost]: [f64; 3],
        before: Value<'a>,
        after: Value<'a>,
    ) -> UserResult<FloatSum> {
        let present = FloatSum { sum, rest, lost };
        let less = |sum: FloatSum| match before {
            Value::Float(before) => sum.with(-before),
            _ => Some(sum),
        };
        let more = |sum: FloatSum| match after {
            Value::Float(after) => sum.with(after),
            _ => Some(sum),
        };
        let changed = less(present).and_then(more).or_else(|| more(present).and_then(less));
        let changed = changed.ok_or_else(sum_out_of_range)?;
        // Of a join, one of several combinations with the row is gone, and the others are not.
        if changed.is_near() || self.filling || self.plan.tables.len() > 1 {
            return Ok(changed);
        }
        Ok(self.exact_sum(aggregate, key, after)?.unwrap_or(changed))
    }

    /// The sum over a group's rows with all that rounding would take from it. `after` is the
    /// argument of a row that comes.
    #[cold]
    #[inline(never)]
    fn exact_sum(&self, aggregate: &'a Aggregate, key: &[Value<'a>], after: Value<'a>) -> UserResult<Option<FloatSum>> {
        let argument = aggregate.argument.as_ref().expect("SUM has an argument");
        let mut sum = ExactSum::default();
        self.each_of_group(key, &mut |slots, computed| {
            if let Value::Float(value) = argument.value(slots, computed)? {
                sum.add(value);
            }
            Ok(())
        })?;
        // What a stored row becomes is not stored yet; a new row is.
        if let (Some(_), Value::Float(value)) = (self.leaving, after) {
            sum.add(value);
        }
        Ok(sum.rounded())
    }

    /// The least or greatest argument of a group's rows, the leaving one excepted.
    fn next_extreme(&self, aggregate: &'a Aggregate, key: &[Value<'a>]) -> UserResult<Value<'a>> {
        let wanted = aggregate.operation.order();
        let argument = aggregate.argument.as_ref().expect("MIN and MAX have an argument");
        let mut best = Value::Null;
        self.each_of_group(key, &mut |slots, computed| {
            let better =
                |value: &Value<'_>| !value.is_null() && (best.is_null() || compare::order(value, &best) == wanted);
            match argument {
                KeyPart::Column(_) => {
                    let value = argument.value(slots, self.arena)?;
                    if better(&value) {
                        best = value;
                    }
                }
                KeyPart::Expression(_) => {
                    let value = argument.value(slots, computed)?;
                    if better(&value) {
                        best = value.copied_to(self.arena);
                    }
                }
            }
            Ok(())
        })?;
        Ok(best)
    }

    /// Calls `visit` for each combination of rows in a group, the leaving row excepted, with memory
    /// for what is computed of it.
    fn each_of_group(
        &self,
        key: &[Value<'a>],
        visit: &mut dyn FnMut(&[SourceRow<'a>], &Bump) -> UserResult<()>,
    ) -> UserResult<()> {
        // What is computed of one row must not pile up over all rows.
        let mut computed = Bump::new();
        let mut consider = |slots: &[SourceRow<'a>]| {
            note_row()?;
            computed.reset();
            if let Some(filter) = &self.plan.filter
                && !filter.is_true(&RowContext::new(slots, &computed))?
            {
                return Ok(());
            }
            for (group, wanted) in self.plan.groups.iter().zip(key) {
                if !compare::equal_grouping(&group.part.value(slots, &computed)?, wanted) {
                    return Ok(());
                }
            }
            visit(slots, &computed)
        };
        match &self.plan.source_index {
            Some(path) => {
                let source = table(self.tables, self.plan.tables[0]);
                let equal: Vec<Value<'_>> = path.groups.iter().map(|group| key[*group]).collect();
                for id in source.index(path.index).range(&equal, None, None, false, true) {
                    if self.leaving != Some((0, id)) {
                        consider(&[SourceRow::Stored(source.row(id))])?;
                    }
                }
            }
            None => self.each_combination(None, &mut consider)?,
        }
        Ok(())
    }
}

/// A column of a sum; NULL is a sum of nothing.
#[inline]
fn float(column: &ColumnLayout, bytes: &[u8], longs: &LongValues) -> f64 {
    match column.read(bytes, longs) {
        Value::Float(value) => value,
        _ => 0.0,
    }
}

#[inline]
fn write_float_sum(columns: [&ColumnLayout; 3], sum: Option<FloatSum>, bytes: &mut [u8], longs: &mut LongValues) {
    let shown = sum.map_or(Value::Null, |sum| Value::Float(sum.sum));
    let FloatSum { rest, lost, .. } = sum.unwrap_or_default();
    for (column, value) in columns.into_iter().zip([shown, Value::Float(rest), Value::Float(lost)]) {
        column.write(bytes, &value, longs);
    }
}

#[cold]
fn sum_out_of_range() -> UserError {
    UserError::out_of_range("the sum in a materialized view is out of range")
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

impl Operation {
    /// How a better value compares with a worse one.
    fn order(self) -> Ordering {
        if self == Operation::Min { Ordering::Less } else { Ordering::Greater }
    }
}

/// Both NULL, or equal to the last bit that an aggregate could tell.
fn same(before: &Value<'_>, after: &Value<'_>) -> bool {
    match (before, after) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        _ => compare::equal_grouping(before, after),
    }
}

#[cold]
fn lacks_group(view: &TableData) -> UserError {
    UserError::internal(format!("view {} lacks a group of its source", view.definition().name))
}

/// A count of rows, which an UPDATE of a view of a stream may have brought to the end of its type.
#[inline]
fn counted(count: i64, difference: i64) -> UserResult<i64> {
    count.checked_add(difference).ok_or_else(count_out_of_range)
}

#[cold]
fn count_out_of_range() -> UserError {
    UserError::out_of_range("the count in a materialized view is out of range")
}

/// A sum in which one argument becomes another. Only what comes out must be in range: what is left
/// without either need not be.
fn sum_of_changed<'v>(present: Value<'_>, before: Value<'_>, after: Value<'_>) -> UserResult<Value<'v>> {
    let after_first = || sum(sum(present, after, Direction::Add)?, before, Direction::Remove);
    sum(present, before, Direction::Remove).and_then(|rest| sum(rest, after, Direction::Add)).or_else(|_| after_first())
}

fn sum<'v>(present: Value<'_>, argument: Value<'_>, direction: Direction) -> UserResult<Value<'v>> {
    let overflow = sum_out_of_range;
    Ok(match (present, argument, direction) {
        (Value::Integer(x), Value::Null, _) => Value::Integer(x),
        (Value::Float(x), Value::Null, _) => Value::Float(x),
        (Value::Decimal(x), Value::Null, _) => Value::Decimal(x),
        (Value::Null, Value::Null, _) => Value::Null,
        (Value::Null, Value::Integer(x), Direction::Add) => Value::Integer(x),
        // No infinity gets in, so none has to be taken out.
        (Value::Null, Value::Float(x), Direction::Add) if x.is_finite() => Value::Float(x),
        (Value::Null, Value::Float(_), Direction::Add) => return Err(overflow()),
        (Value::Null, Value::Decimal(x), Direction::Add) => Value::Decimal(x),
        (Value::Integer(a), Value::Integer(b), _) => {
            let sum = if direction == Direction::Add { a.checked_add(b) } else { a.checked_sub(b) };
            Value::Integer(sum.filter(|sum| *sum != i64::MIN).ok_or_else(overflow)?)
        }
        (Value::Decimal(a), Value::Decimal(b), _) => {
            let sum: Option<Decimal> = if direction == Direction::Add { a.checked_add(b) } else { a.checked_sub(b) };
            Value::Decimal(sum.ok_or_else(overflow)?)
        }
        (Value::Float(a), Value::Float(b), _) => {
            let sum = if direction == Direction::Add { a + b } else { a - b };
            if !sum.is_finite() {
                return Err(overflow());
            }
            Value::Float(sum)
        }
        (present, argument, _) => {
            let kinds = (present.kind_name(), argument.kind_name());
            return Err(UserError::internal(format!("a sum of {} and {}", kinds.0, kinds.1)));
        }
    })
}
