//! Conditions pushed into derived tables, below their grouping and set operations where that
//! changes nothing.

use super::Reached;
use super::access::{choose, conditions_of};
use ferrite_catalog::Catalog;
use ferrite_expr::Expr;
use ferrite_plan::walk::{conjunction, for_each_slot, rewrite, split_conjunction};
use ferrite_plan::{Access, Input, JoinKind, Query, QueryBody, Select, Subquery};

/// Tests `condition`, which is about rows of `query` bound to `slot`, inside the query. False: it
/// cannot be, and nothing has changed.
pub(super) fn push(catalog: &Catalog, subqueries: &[Subquery], query: &mut Query, slot: u16, condition: &Expr) -> bool {
    let mut only_this = true;
    let mut columns = Vec::new();
    let mut read = |expr: &Expr| {
        match expr {
            Expr::Column { slot: found, column } if *found == slot => columns.push(*column),
            Expr::Column { .. } | Expr::Subquery { .. } => only_this = false,
            _ => {}
        }
        false
    };
    condition.any(&mut read);
    if !only_this || columns.is_empty() || !can_take(query, &columns) {
        return false;
    }
    push_into(catalog, subqueries, query, slot, condition);
    true
}

/// Whether a condition on these columns may stand inside the query.
fn can_take(query: &Query, columns: &[u16]) -> bool {
    if query.limit.is_some() || query.offset.is_some() {
        return false;
    }
    match &query.body {
        QueryBody::Select(select) => {
            let full = select.sources.iter().any(|source| source.join == JoinKind::Full);
            !full && select.windowing.is_none() && columns.iter().all(|column| inner(select, *column).is_some())
        }
        QueryBody::SetOperation { left, right, .. } => can_take(left, columns) && can_take(right, columns),
        _ => false,
    }
}

/// What an output column is in terms of the sources' rows; None where it takes grouping to say.
fn inner(select: &Select, column: u16) -> Option<&Expr> {
    let output = select.output.get(usize::from(column))?;
    let expr = match (&select.aggregation, output) {
        (None, output) => output,
        // In some of several sets a key is NULL whatever the row has.
        (Some(aggregation), Expr::Column { slot, column })
            if *slot == aggregation.slot && aggregation.sets.is_empty() =>
        {
            aggregation.group_by.get(usize::from(*column))?
        }
        (Some(_), _) => return None,
    };
    (!expr.any(&mut |part| matches!(part, Expr::Subquery { .. }))).then_some(expr)
}

fn push_into(catalog: &Catalog, subqueries: &[Subquery], query: &mut Query, slot: u16, condition: &Expr) {
    match &mut query.body {
        QueryBody::Select(select) => {
            let mut moved = condition.clone();
            rewrite(&mut moved, &mut |part| match part {
                Expr::Column { slot: found, column } if *found == slot => inner(select, *column).cloned(),
                _ => None,
            });
            add(catalog, subqueries, select, moved, query.presorted);
        }
        QueryBody::SetOperation { left, right, .. } => {
            push_into(catalog, subqueries, left, slot, condition);
            push_into(catalog, subqueries, right, slot, condition);
        }
        _ => unreachable!("asked before whether it can take a condition"),
    }
}

/// Adds a condition to a planned block, at the first source where it can be decided.
fn add(catalog: &Catalog, subqueries: &[Subquery], select: &mut Select, condition: Expr, presorted: bool) {
    let slots: Vec<u16> = select.sources.iter().map(|source| source.slot).collect();
    let mut last = None;
    for_each_slot(&condition, subqueries, &mut |read| {
        last = last.max(slots.iter().position(|slot| *slot == read));
    });
    let Some(position) = last else {
        select.filter = conjunction(select.filter.take().into_iter().chain([condition]).collect());
        return;
    };
    let source = &mut select.sources[position];
    let inner = source.join == JoinKind::Inner;
    if let (true, Input::Derived { query, correlated: false }) = (inner, &mut source.input)
        && push(catalog, subqueries, query, source.slot, &condition)
    {
        return;
    }
    if let (true, Input::Hashed(hashed)) = (inner, &mut source.input) {
        let mut own = true;
        for_each_slot(&condition, subqueries, &mut |read| own &= read == source.slot);
        if own {
            hashed.filter = conjunction(hashed.filter.take().into_iter().chain([condition]).collect());
            return;
        }
    }
    let mut conditions = Vec::new();
    if let Some(filter) = source.filter.take() {
        split_conjunction(filter, &mut conditions);
    }
    conditions.push(condition);
    if let Input::Table { table, access } = &mut source.input
        && let (true, Some(table)) = (inner && (!presorted || matches!(access, Access::Scan)), catalog.table(*table))
        && let Some(fulfilled) = conditions_of(table, source.slot, access)
    {
        let reached = Reached { local: &slots, bound: &slots[..position], subqueries };
        let cost = choose(table, source.slot, &fulfilled, &reached).cost;
        let mut all = fulfilled;
        all.extend(conditions.iter().cloned());
        let choice = choose(table, source.slot, &all, &reached);
        if choice.cost < cost {
            super::remove_all(&mut all, &choice.consumed);
            *access = choice.access;
            conditions = all;
        }
    }
    source.filter = conjunction(conditions);
}
