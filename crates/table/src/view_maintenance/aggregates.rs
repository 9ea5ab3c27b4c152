//! The aggregates of one group of a view: what counts, sums and extremes become when a combination
//! of rows comes, goes or becomes another, and the search of the group's rows where that alone
//! decides.
//!
//! How groups are found, made and removed is the parent's.

use super::{Change, Direction, Surroundings, table};
use crate::evaluation::{KeyPart, Rows as RowContext, note_row};
use crate::float_sum::{ExactSum, FloatSum};
use crate::layout::{ColumnLayout, RowLayout};
use crate::long_values::LongValues;
use crate::row::SourceRow;
use crate::tags::Tag;
use crate::view_plan::{Aggregate, Operation};
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_value::{Decimal, Value, compare};
use std::cmp::Ordering;

impl<'a, T: Tag> Surroundings<'a, T> {
    /// Writes each column at most once: what is written over is freed by the one who compares rows,
    /// not here.
    pub(super) fn change_aggregates(
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
                    let present = column.read(bytes, longs);
                    if let Some(value) = self.changed_extreme(aggregate, change.key, present, before, after)? {
                        column.write(bytes, &value, longs);
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

    /// What an extreme becomes where one argument becomes another; None: it stays.
    #[inline]
    fn changed_extreme(
        &self,
        aggregate: &'a Aggregate,
        key: &[Value<'a>],
        present: Value<'_>,
        before: Value<'a>,
        after: Value<'a>,
    ) -> UserResult<Option<Value<'a>>> {
        let wanted = aggregate.operation.order();
        let goes = !before.is_null() && compare::equal_grouping(&before, &present);
        if !after.is_null() && (present.is_null() || compare::order(&after, &present) == wanted) {
            return Ok(Some(after));
        }
        if !goes {
            return Ok(None);
        }
        if compare::equal_grouping(&after, &present) {
            // The other zero: no row may have the one that is written.
            return Ok(Some(after));
        }
        let mut next = self.next_extreme(aggregate, key)?;
        if !after.is_null() && (next.is_null() || compare::order(&after, &next) == wanted) {
            next = after;
        }
        // Of a column that is never NULL: all that is left of the group are combinations of the row
        // that goes, which are taken out one by one. The last one takes the group along.
        let writes = !next.is_null() || self.plan.columns[aggregate.column as usize].1;
        Ok(writes.then_some(next))
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

impl Operation {
    /// How a better value compares with a worse one.
    fn order(self) -> Ordering {
        if self == Operation::Min { Ordering::Less } else { Ordering::Greater }
    }
}

/// Both NULL, or equal to the last bit that an aggregate could tell.
pub(super) fn same(before: &Value<'_>, after: &Value<'_>) -> bool {
    match (before, after) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        _ => compare::equal_grouping(before, after),
    }
}

/// A count of rows, which an UPDATE of a view of a stream may have brought to the end of its type.
#[inline]
pub(super) fn counted(count: i64, difference: i64) -> UserResult<i64> {
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

pub(super) fn sum<'v>(present: Value<'_>, argument: Value<'_>, direction: Direction) -> UserResult<Value<'v>> {
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
