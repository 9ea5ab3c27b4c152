//! Keeps a view's rows what its definition says, one source row at a time, within the transaction and through its undo log.

use crate::constraint;
use crate::evaluation::Rows as RowContext;
use crate::index::EncodedKey;
use crate::row::{RowStore, SourceRow};
use crate::table::{InsertError, TableData};
use crate::undo::UndoLog;
use crate::view_plan::{Aggregate, Operation, ViewPlan};
use bumpalo::Bump;
use ferrite_base::{RowId, TableId, UserError, UserResult};
use ferrite_value::{Decimal, Value, compare};

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
pub(crate) struct Surroundings<'a> {
    pub(crate) plan: &'a ViewPlan,
    pub(crate) tables: &'a Tables,
    pub(crate) arena: &'a Bump,
    /// A stored row, by slot, that is going: a search for the next extreme must not find it.
    pub(crate) leaving: Option<(usize, RowId)>,
}

impl<'a> Surroundings<'a> {
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

    /// Calls `visit` for each combination of rows that meets the join conditions (not yet the filter), with one slot's row given.
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
        slots.push(row);
        let holds = match slots.len() {
            1 => true,
            bound => match &self.plan.conditions[bound - 2] {
                Some(condition) => condition.is_true(&RowContext { slots, arena: self.arena })?,
                None => true,
            },
        };
        if holds {
            self.bind_next(given, slots, visit)?;
        }
        slots.pop();
        Ok(())
    }

    fn passes(&self, slots: &[SourceRow<'a>]) -> UserResult<bool> {
        match &self.plan.filter {
            Some(filter) => filter.is_true(&RowContext { slots, arena: self.arena }),
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
        let mut few = [Value::Null; 4];
        let mut many = Vec::new();
        let key: &mut [Value<'a>] = if plan.groups.len() <= few.len() {
            &mut few[..plan.groups.len()]
        } else {
            many.resize(plan.groups.len(), Value::Null);
            &mut many
        };
        for (value, group) in key.iter_mut().zip(&plan.groups) {
            *value = group.part.value(slots, self.arena)?;
        }
        let found = match plan.group_index {
            Some(index) => view.contents.indexes[index].find_group(&view.contents.rows, |part| key[part]),
            None => view.scan().next(),
        };
        match (found, direction) {
            (Some(row), Direction::Add) => self.change_group(view, row, key, slots, direction, undo),
            (None, Direction::Add) => self.add_group(view, key, slots, undo),
            (Some(row), Direction::Remove) => {
                let rows = &view.contents.rows;
                let count = rows.layout.columns[plan.row_count as usize].read_bigint(rows.pages.row(row));
                if count == 1 && !plan.groups.is_empty() {
                    view.delete_row(row, self.arena, undo)
                } else {
                    self.change_group(view, row, key, slots, direction, undo)
                }
            }
            (None, Direction::Remove) => {
                Err(UserError::internal(format!("view {} lacks a group of its source", view.definition().name)))
            }
        }
    }

    /// One more row in the group whose keys `value` gives, where [`ViewPlan::counts_plainly`]. This is what most views do for
    /// most rows.
    #[inline(always)]
    fn count_plainly(
        &self,
        view: &mut TableData,
        value: impl Fn(usize) -> Value<'a>,
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        let plan = self.plan;
        let view_id = view.id();
        let (tag, found) = view.contents.indexes[0].find_hashed_group(&view.contents.rows, &value);
        let RowStore { layout, pages, longs } = &mut view.contents.rows;
        if let Some(row) = found {
            let bytes = pages.row_mut(row);
            undo.updated(view_id, row, bytes);
            for aggregate in &plan.aggregates {
                let column = &layout.columns[aggregate.column as usize];
                column.write_bigint(bytes, column.read_bigint(bytes) + 1);
            }
            return Ok(());
        }
        let Some(row) = pages.take() else { return Err(constraint::table_full(view.definition())) };
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
        }
        view.check_row(row)?;
        view.insert_row(row, None, self.plan.group_index, self.arena, undo).map(|_| ()).map_err(InsertError::into_user)
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
        key: &[Value<'a>],
        slots: &[SourceRow<'a>],
        direction: Direction,
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        if self.plan.in_place {
            let view_id = view.id();
            let RowStore { layout, pages, longs } = &mut view.contents.rows;
            undo.updated(view_id, id, pages.row(id));
            let bytes = pages.row_mut(id);
            for aggregate in &self.plan.aggregates {
                let change = AggregateChange { aggregate, key, slots, direction };
                if let Operation::CountRows = aggregate.operation {
                    let column = &layout.columns[aggregate.column as usize];
                    column.write_bigint(bytes, column.read_bigint(bytes) + direction.sign());
                } else {
                    self.change_aggregate(&change, layout, bytes, longs)?;
                }
            }
            return Ok(());
        }
        self.change_group_aside(view, id, key, slots, direction, undo)
    }

    /// Where indexes or long values are concerned: the new row is made aside, then put in place as an update.
    fn change_group_aside(
        &self,
        view: &mut TableData,
        id: RowId,
        key: &[Value<'a>],
        slots: &[SourceRow<'a>],
        direction: Direction,
        undo: &mut UndoLog,
    ) -> UserResult<()> {
        let mut bytes = std::mem::take(&mut view.row_bytes);
        bytes.clear();
        bytes.extend_from_slice(view.contents.rows.pages.row(id));
        let RowStore { layout, longs, .. } = &mut view.contents.rows;
        let mut result = Ok(());
        for aggregate in &self.plan.aggregates {
            let change = AggregateChange { aggregate, key, slots, direction };
            result = self.change_aggregate(&change, layout, &mut bytes, longs);
            if result.is_err() {
                break;
            }
        }
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
        view.row_bytes = bytes;
        result
    }

    fn change_aggregate(
        &self,
        change: &AggregateChange<'a, '_>,
        layout: &crate::layout::RowLayout,
        bytes: &mut [u8],
        longs: &mut crate::long_values::LongValues,
    ) -> UserResult<()> {
        let AggregateChange { aggregate, slots, direction, .. } = *change;
        let column = &layout.columns[aggregate.column as usize];
        let argument = match &aggregate.argument {
            Some(argument) if aggregate.operation != Operation::CountRows => argument.value(slots, self.arena)?,
            _ => Value::Null,
        };
        match aggregate.operation {
            Operation::CountRows => {
                column.write_bigint(bytes, column.read_bigint(bytes) + direction.sign());
            }
            _ if argument.is_null() => {}
            Operation::Count => {
                column.write_bigint(bytes, column.read_bigint(bytes) + direction.sign());
            }
            Operation::Sum => {
                let counter = aggregate.non_null.unwrap_or(self.plan.row_count);
                let counter = &layout.columns[counter as usize];
                if aggregate.non_null.is_some() {
                    counter.write_bigint(bytes, counter.read_bigint(bytes) + direction.sign());
                }
                let sum = if counter.read_bigint(bytes) == 0 {
                    Value::Null
                } else {
                    sum(column.read(bytes, longs), argument, direction)?
                };
                column.write(bytes, &sum, longs);
            }
            Operation::Min | Operation::Max => {
                let wanted = if aggregate.operation == Operation::Min {
                    std::cmp::Ordering::Less
                } else {
                    std::cmp::Ordering::Greater
                };
                let present = column.read(bytes, longs);
                match direction {
                    Direction::Add => {
                        if present.is_null() || compare::order(&argument, &present) == wanted {
                            column.write(bytes, &argument, longs);
                        }
                    }
                    Direction::Remove => {
                        if compare::equal_grouping(&argument, &present) {
                            let next = self.next_extreme(change, wanted)?;
                            column.write(bytes, &next, longs);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The least or greatest argument of a group's rows, the leaving one excepted.
    fn next_extreme(&self, change: &AggregateChange<'a, '_>, wanted: std::cmp::Ordering) -> UserResult<Value<'a>> {
        let AggregateChange { aggregate, key, .. } = *change;
        let argument = aggregate.argument.as_ref().expect("MIN and MAX have an argument");
        let mut best = Value::Null;
        let mut consider = |slots: &[SourceRow<'a>]| {
            if !self.passes(slots)? {
                return Ok(());
            }
            for (group, wanted) in self.plan.groups.iter().zip(key) {
                if !compare::equal_grouping(&group.part.value(slots, self.arena)?, wanted) {
                    return Ok(());
                }
            }
            let value = argument.value(slots, self.arena)?;
            if !value.is_null() && (best.is_null() || compare::order(&value, &best) == wanted) {
                best = value;
            }
            Ok(())
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
        Ok(best)
    }
}

/// One aggregate of one group, and the combination that comes or goes.
struct AggregateChange<'a, 'c> {
    aggregate: &'a Aggregate,
    key: &'c [Value<'a>],
    slots: &'c [SourceRow<'a>],
    direction: Direction,
}

impl Direction {
    #[inline]
    fn sign(self) -> i64 {
        match self {
            Direction::Add => 1,
            Direction::Remove => -1,
        }
    }
}

fn sum<'v>(present: Value<'_>, argument: Value<'_>, direction: Direction) -> UserResult<Value<'v>> {
    let overflow = || UserError::out_of_range("the sum in a materialized view is out of range");
    Ok(match (present, argument, direction) {
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
