//! Walking expressions and plans.

use crate::program::{Access, Input, KeyList, Query, QueryBody, Select, Subquery};
use ferrite_expr::Expr;

/// Replaces what `replace` has an answer for, from the outside in.
pub fn rewrite(expr: &mut Expr, replace: &mut dyn FnMut(&Expr) -> Option<Expr>) {
    if let Some(replacement) = replace(expr) {
        *expr = replacement;
        return;
    }
    expr.for_each_operand_mut(&mut |operand| rewrite(operand, replace));
}

/// Moves every column of slot `from` to slot `to`.
pub fn move_slot(expr: &Expr, from: u16, to: u16) -> Expr {
    let mut moved = expr.clone();
    rewrite(&mut moved, &mut |inner| match inner {
        Expr::Column { slot, column } if *slot == from => Some(Expr::Column { slot: to, column: *column }),
        _ => None,
    });
    moved
}

/// Calls `visit` for every expression of a query, derived tables included; the plans of subqueries
/// are not entered.
pub fn for_each_expr(query: &Query, visit: &mut dyn FnMut(&Expr)) {
    match &query.body {
        QueryBody::Select(select) => for_each_select_expr(select, visit),
        QueryBody::SetOperation { left, right, .. } => {
            for_each_expr(left, visit);
            for_each_expr(right, visit);
        }
        QueryBody::Values(rows) => rows.iter().flatten().for_each(&mut *visit),
        QueryBody::Series { start, stop, step } => [start, stop, step].into_iter().for_each(&mut *visit),
        QueryBody::Recursive { first, step, .. } => {
            for_each_expr(first, visit);
            for_each_expr(step, visit);
        }
    }
    query.limit.iter().chain(&query.offset).for_each(visit);
}

pub fn for_each_select_expr(select: &Select, visit: &mut dyn FnMut(&Expr)) {
    for source in &select.sources {
        for_each_input_expr(&source.input, visit);
        source.on.iter().chain(&source.filter).for_each(&mut *visit);
    }
    select.filter.iter().for_each(&mut *visit);
    if let Some(aggregation) = &select.aggregation {
        aggregation.group_by.iter().for_each(&mut *visit);
        aggregation.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref()).for_each(&mut *visit);
        aggregation.having.iter().for_each(&mut *visit);
    }
    for window in select.windowing.iter().flat_map(|windowing| &windowing.windows) {
        window.partition_by.iter().for_each(&mut *visit);
        window.order_by.iter().for_each(|(expr, _)| visit(expr));
        window.functions.iter().flat_map(|function| &function.arguments).for_each(&mut *visit);
    }
    select.output.iter().for_each(visit);
}

pub fn for_each_input_expr(input: &Input, visit: &mut dyn FnMut(&Expr)) {
    match input {
        Input::Table { access, .. } => for_each_access_expr(access, visit),
        Input::Derived { query, .. } => for_each_expr(query, visit),
        Input::One | Input::Common { .. } | Input::Working { .. } => {}
        Input::Hashed(hashed) => {
            for_each_input_expr(&hashed.input, visit);
            hashed.filter.iter().chain(&hashed.built).chain(&hashed.probed).for_each(visit);
        }
        Input::Measured(input) => for_each_input_expr(input, visit),
    }
}

pub fn for_each_access_expr(access: &Access, visit: &mut dyn FnMut(&Expr)) {
    match access {
        Access::Scan => {}
        Access::Lookup { keys, .. } => keys.iter().for_each(visit),
        Access::Range { equal, lower, upper, .. } | Access::Extreme { equal, lower, upper, .. } => {
            equal.iter().for_each(&mut *visit);
            lower.iter().chain(upper).for_each(|bound| visit(&bound.value));
        }
        Access::Lookups { before, list, after, .. } => {
            before.iter().for_each(&mut *visit);
            match list {
                KeyList::Values(values) => values.iter().for_each(&mut *visit),
                KeyList::Array(array) => visit(array),
                KeyList::Subquery(_) => {}
            }
            after.iter().for_each(visit);
        }
    }
}

fn for_each_input_expr_mut(input: &mut Input, visit: &mut dyn FnMut(&mut Expr)) {
    match input {
        Input::Table { access, .. } => for_each_access_expr_mut(access, visit),
        Input::Derived { query, .. } => for_each_expr_mut(query, visit),
        Input::One | Input::Common { .. } | Input::Working { .. } => {}
        Input::Hashed(hashed) => {
            for_each_input_expr_mut(&mut hashed.input, visit);
            hashed.filter.iter_mut().chain(&mut hashed.built).chain(&mut hashed.probed).for_each(visit);
        }
        Input::Measured(input) => for_each_input_expr_mut(input, visit),
    }
}

fn for_each_access_expr_mut(access: &mut Access, visit: &mut dyn FnMut(&mut Expr)) {
    match access {
        Access::Scan => {}
        Access::Lookup { keys, .. } => keys.iter_mut().for_each(visit),
        Access::Range { equal, lower, upper, .. } | Access::Extreme { equal, lower, upper, .. } => {
            equal.iter_mut().for_each(&mut *visit);
            lower.iter_mut().chain(upper).for_each(|bound| visit(&mut bound.value));
        }
        Access::Lookups { before, list, after, .. } => {
            before.iter_mut().for_each(&mut *visit);
            match list {
                KeyList::Values(values) => values.iter_mut().for_each(&mut *visit),
                KeyList::Array(array) => visit(array),
                KeyList::Subquery(_) => {}
            }
            after.iter_mut().for_each(visit);
        }
    }
}

/// The same, to change them.
pub fn for_each_expr_mut(query: &mut Query, visit: &mut dyn FnMut(&mut Expr)) {
    match &mut query.body {
        QueryBody::Select(select) => for_each_select_expr_mut(select, visit),
        QueryBody::SetOperation { left, right, .. } => {
            for_each_expr_mut(left, visit);
            for_each_expr_mut(right, visit);
        }
        QueryBody::Values(rows) => rows.iter_mut().flatten().for_each(&mut *visit),
        QueryBody::Series { start, stop, step } => [start, stop, step].into_iter().for_each(&mut *visit),
        QueryBody::Recursive { first, step, .. } => {
            for_each_expr_mut(first, visit);
            for_each_expr_mut(step, visit);
        }
    }
    query.limit.iter_mut().chain(&mut query.offset).for_each(visit);
}

fn for_each_select_expr_mut(select: &mut Select, visit: &mut dyn FnMut(&mut Expr)) {
    for source in &mut select.sources {
        for_each_input_expr_mut(&mut source.input, visit);
        source.on.iter_mut().chain(&mut source.filter).for_each(&mut *visit);
    }
    select.filter.iter_mut().for_each(&mut *visit);
    if let Some(aggregation) = &mut select.aggregation {
        aggregation.group_by.iter_mut().for_each(&mut *visit);
        aggregation.aggregates.iter_mut().filter_map(|aggregate| aggregate.argument.as_mut()).for_each(&mut *visit);
        aggregation.having.iter_mut().for_each(&mut *visit);
    }
    for window in select.windowing.iter_mut().flat_map(|windowing| &mut windowing.windows) {
        window.partition_by.iter_mut().for_each(&mut *visit);
        window.order_by.iter_mut().for_each(|(expr, _)| visit(expr));
        window.functions.iter_mut().flat_map(|function| &mut function.arguments).for_each(&mut *visit);
    }
    select.output.iter_mut().for_each(visit);
}

/// Calls `visit` with every slot that evaluating `expr` may read, subqueries' plans included.
pub fn for_each_slot(expr: &Expr, subqueries: &[Subquery], visit: &mut dyn FnMut(u16)) {
    match expr {
        Expr::Column { slot, .. } => visit(*slot),
        Expr::Subquery { subquery, .. } => {
            if let Some(subquery) = subqueries.get(usize::from(*subquery)) {
                for_each_expr(&subquery.query, &mut |inner| for_each_slot(inner, subqueries, visit));
            }
        }
        _ => {}
    }
    expr.for_each_operand(|operand| for_each_slot(operand, subqueries, visit));
}

/// The conjunction of `conditions`; None when there is none.
pub fn conjunction(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 => None,
        1 => conditions.pop(),
        _ => Some(Expr::And(conditions.into_boxed_slice())),
    }
}

/// Splits a condition at its ANDs; what is constantly true is dropped.
pub fn split_conjunction(condition: Expr, into: &mut Vec<Expr>) {
    match condition {
        Expr::And(operands) => operands.into_iter().for_each(|operand| split_conjunction(operand, into)),
        Expr::Constant(ferrite_value::OwnedValue::Boolean(true)) => {}
        other => into.push(other),
    }
}
