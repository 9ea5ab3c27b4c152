//! The rows that an UPDATE or DELETE is about, found before the first of them changes.

use crate::evaluator::Evaluator;
use crate::rows::{Flow, RowSlot};
use crate::sorting::sort;
use ferrite_base::{RowId, TableId, UserResult};
use ferrite_expr::{Context, Expr};
use ferrite_plan::{Access, Delete};
use ferrite_value::{Value, compare};
use std::cmp::Ordering;

/// The rows that an UPDATE or DELETE is about, in every store that holds a copy.
#[inline]
pub(crate) fn each_target<'s>(
    evaluator: &Evaluator<'s>,
    table: TableId,
    slot: u16,
    access: &'s Access,
    filter: &'s Option<Expr>,
    mut visit: impl FnMut(u32, RowId) -> UserResult<()>,
) -> UserResult<()> {
    if !matches!(access, Access::Lookup { .. }) {
        evaluator.set_repeats();
    }
    evaluator.each_row(table, access, 0..evaluator.stores.len(), |store, id, row| {
        evaluator.bind(slot, RowSlot::Stored(row));
        if evaluator.passes(filter)? {
            visit(store, id)?;
        }
        Ok(Flow::More)
    })?;
    Ok(())
}

/// DELETE with LIMIT: the targets in order, then cut. The copies of a replicated table may hold
/// their rows in different places, so there the whole row decides between rows that ORDER BY leaves
/// equal: all copies lose the same.
pub(crate) fn limited_targets<'s>(
    evaluator: &Evaluator<'s>,
    delete: &'s Delete,
    targets: &mut Vec<(u32, RowId)>,
) -> UserResult<()> {
    let offset = evaluator.row_count(&delete.offset, "OFFSET")?.unwrap_or(0);
    let limit = evaluator.row_count(&delete.limit, "LIMIT")?.unwrap_or(usize::MAX);
    let definition = evaluator.stores[0].table(delete.table).definition();
    let replicated = !definition.is_partitioned();
    let tie_columns = if replicated { definition.columns.len() as u16 } else { 0 };
    if delete.order_by.is_empty() && (!replicated || evaluator.stores.len() == 1) {
        return first_targets(evaluator, delete, offset, limit, targets);
    }
    if delete.order_by.is_empty() && offset == 0 {
        return first_copies(evaluator, delete, limit, tie_columns, targets);
    }
    let width = delete.order_by.len() + tie_columns as usize;
    let mut keys: Vec<Value<'s>> = Vec::new();
    let mut found: Vec<(u32, RowId)> = Vec::new();
    each_target(evaluator, delete.table, delete.slot, &delete.access, &delete.filter, |store, id| {
        evaluator.charge(width * size_of::<Value<'_>>())?;
        found.push((store, id));
        for (expression, _) in &delete.order_by {
            keys.push(evaluator.evaluate(expression)?);
        }
        keys.extend((0..tie_columns).map(|column| evaluator.column(delete.slot, column)));
        Ok(())
    })?;
    let order = sort(&evaluator.meter, (0..found.len() as u32).collect(), |left, right| {
        let left = left as usize * width;
        let right = right as usize * width;
        let left = &keys[left..left + width];
        let right = &keys[right..right + width];
        for (place, (left, right)) in left.iter().zip(right).enumerate() {
            let ordering = compare::order(left, right);
            if ordering != Ordering::Equal {
                let descending = delete.order_by.get(place).is_some_and(|(_, descending)| *descending);
                return if descending { ordering.reverse() } else { ordering };
            }
        }
        Ordering::Equal
    })?;
    if !replicated {
        targets.extend(order.into_iter().skip(offset).take(limit).map(|place| found[place as usize]));
        return Ok(());
    }
    for store in 0..evaluator.stores.len() as u32 {
        let copies = order.iter().map(|place| found[*place as usize]).filter(|(position, _)| *position == store);
        targets.extend(copies.skip(offset).take(limit));
    }
    Ok(())
}

/// Any rows will do, as long as every copy of a replicated table loses the same: those that the
/// first copy has first, and then in the others the rows that are equal to them. Copies hold their
/// rows in much the same order, so few more are looked at than are wanted, however many there are.
fn first_copies<'s>(
    evaluator: &Evaluator<'s>,
    delete: &'s Delete,
    limit: usize,
    columns: u16,
    targets: &mut Vec<(u32, RowId)>,
) -> UserResult<()> {
    if limit == 0 {
        return Ok(());
    }
    evaluator.set_repeats();
    let width = usize::from(columns);
    let mut values: Vec<Value<'s>> = Vec::new();
    evaluator.each_row(delete.table, &delete.access, 0..1, |store, id, row| {
        evaluator.bind(delete.slot, RowSlot::Stored(row));
        if evaluator.passes(&delete.filter)? {
            evaluator.charge(width * size_of::<Value<'_>>())?;
            values.extend((0..columns).map(|column| evaluator.column(delete.slot, column)));
            targets.push((store, id));
        }
        Ok(if targets.len() >= limit { Flow::Enough } else { Flow::More })
    })?;
    let mut chosen: Vec<&[Value<'s>]> = values.chunks_exact(width).collect();
    chosen.sort_by(|left, right| order_of_rows(left, right));
    let mut row_values: Vec<Value<'s>> = Vec::with_capacity(width);
    for store in 1..evaluator.stores.len() {
        // At the first of equal rows: how many of them this copy has lost already. It loses as many
        // as were chosen.
        let mut lost = vec![0; chosen.len()];
        let mut missing = chosen.len();
        evaluator.each_row(delete.table, &delete.access, store..store + 1, |store, id, row| {
            if missing == 0 {
                return Ok(Flow::Enough);
            }
            evaluator.bind(delete.slot, RowSlot::Stored(row));
            if evaluator.passes(&delete.filter)? {
                row_values.clear();
                row_values.extend((0..columns).map(|column| evaluator.column(delete.slot, column)));
                let first = chosen.partition_point(|row| order_of_rows(row, &row_values) == Ordering::Less);
                let next = chosen.get(first).and_then(|_| chosen.get(first + lost[first]));
                if next.is_some_and(|row| order_of_rows(row, &row_values) == Ordering::Equal) {
                    lost[first] += 1;
                    missing -= 1;
                    targets.push((store, id));
                }
            }
            Ok(if missing == 0 { Flow::Enough } else { Flow::More })
        })?;
        debug_assert_eq!(missing, 0, "the copies of a replicated table have the same rows");
    }
    Ok(())
}

/// Any rows will do, so no more are looked at than are wanted.
fn first_targets<'s>(
    evaluator: &Evaluator<'s>,
    delete: &'s Delete,
    offset: usize,
    limit: usize,
    targets: &mut Vec<(u32, RowId)>,
) -> UserResult<()> {
    if limit == 0 {
        return Ok(());
    }
    evaluator.set_repeats();
    let mut passed = 0;
    evaluator.each_row(delete.table, &delete.access, 0..evaluator.stores.len(), |store, id, row| {
        evaluator.bind(delete.slot, RowSlot::Stored(row));
        if evaluator.passes(&delete.filter)? {
            passed += 1;
            if passed > offset {
                targets.push((store, id));
                evaluator.charge(size_of::<(u32, RowId)>())?;
            }
        }
        Ok(if targets.len() >= limit { Flow::Enough } else { Flow::More })
    })?;
    Ok(())
}

/// By the first column in which they differ.
fn order_of_rows(left: &[Value<'_>], right: &[Value<'_>]) -> Ordering {
    let unequal = left.iter().zip(right).map(|(left, right)| compare::order(left, right)).find(|order| order.is_ne());
    unequal.unwrap_or(Ordering::Equal)
}
