//! MIN and MAX by index: of an ordered index's key they need one row of each store, not all.

use super::access;
use super::context::PlanContext;
use ferrite_base::UserResult;
use ferrite_catalog::Catalog;
use ferrite_expr::{Aggregate, AggregateKind, Expr};
use ferrite_plan::walk::{for_each_access_expr, for_each_slot, move_slot, rewrite};
use ferrite_plan::{Aggregation, Input, JoinKind, OutputColumn, Query, QueryBody, Select, Source, Subquery};

/// Takes the way to the one row, where MIN or MAX of one value is all that is asked.
pub(super) fn shortcut_extremes(
    catalog: &Catalog,
    subqueries: &[Subquery],
    sources: &mut [Source],
    filter: &Option<Expr>,
    aggregation: &Aggregation,
) {
    let ([source], None, true) = (sources, filter, is_one_group(aggregation)) else { return };
    let Some(first) = aggregation.aggregates.first() else { return };
    if aggregation.aggregates.iter().all(|other| other.kind == first.kind && other.argument == first.argument)
        && let Some(shortcut) = shortened(catalog, subqueries, source, first)
    {
        *source = shortcut;
    }
}

fn is_one_group(aggregation: &Aggregation) -> bool {
    aggregation.group_by.is_empty() && aggregation.sets.is_empty()
}

/// The source with the access path that finds the aggregate's one row.
fn shortened(catalog: &Catalog, subqueries: &[Subquery], source: &Source, aggregate: &Aggregate) -> Option<Source> {
    let greatest = match aggregate.kind {
        AggregateKind::Min => false,
        AggregateKind::Max => true,
        _ => return None,
    };
    let Input::Table { table, access } = &source.input else { return None };
    if source.on.is_some() || source.join != JoinKind::Inner {
        return None;
    }
    let definition = catalog.table(*table)?;
    let value = aggregate.argument.as_ref()?;
    let own = || access::extreme(definition, source.slot, access, value, greatest);
    let other = || access::extreme_by_other(definition, source, access, value, greatest, subqueries);
    let access = if source.filter.is_none() { own().or_else(other) } else { other() }?;
    let slot = source.slot;
    let join = source.join;
    Some(Source { slot, input: Input::Table { table: *table, access }, join, on: None, filter: None })
}

/// MIN and MAX together: each becomes a derived table of one row with its own access path, and the
/// block their join. What refers to the group's row (`output`, HAVING) is brought to those tables;
/// answers the block's sources and its filter.
pub(super) fn separate_extremes(
    context: &mut PlanContext<'_>,
    sources: &[Source],
    filter: &Option<Expr>,
    aggregation: &Aggregation,
    output: &mut [Expr],
) -> UserResult<Option<(Vec<Source>, Option<Expr>)>> {
    let ([source], None, true) = (sources, filter, is_one_group(aggregation)) else { return Ok(None) };
    if aggregation.aggregates.len() < 2 {
        return Ok(None);
    }
    // A subquery reads the group's row by its slot.
    let asks = |expr: &Expr| expr.any(&mut |inner| matches!(inner, Expr::Subquery { .. }));
    if output.iter().chain(&aggregation.having).any(asks) {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(aggregation.aggregates.len());
    for aggregate in &aggregation.aggregates {
        match shortened(context.catalog, &context.subqueries, source, aggregate) {
            Some(source) => parts.push((source, aggregate)),
            None => return Ok(None),
        }
    }
    let mut tables = Vec::with_capacity(parts.len());
    for (place, (source, aggregate)) in parts.into_iter().enumerate() {
        tables.push(alone(context, source, aggregate.clone(), place > 0)?);
    }
    let to_tables = |expr: &mut Expr| {
        rewrite(expr, &mut |inner| match inner {
            Expr::Column { slot, column } if *slot == aggregation.slot => {
                tables.get(usize::from(*column)).map(|table| Expr::column(table.slot, 0))
            }
            _ => None,
        });
    };
    output.iter_mut().for_each(to_tables);
    let mut having = aggregation.having.clone();
    having.iter_mut().for_each(to_tables);
    Ok(Some((tables, having)))
}

/// A derived table of one row, in which one aggregate reads its source alone. `is_moved`: from a
/// row of its own.
fn alone(
    context: &mut PlanContext<'_>,
    mut source: Source,
    mut aggregate: Aggregate,
    is_moved: bool,
) -> UserResult<Source> {
    if is_moved {
        // A row of its own for each, also for those who count rows.
        let own = context.new_slot()?;
        let moved = |argument: &Expr| move_slot(argument, source.slot, own);
        aggregate.argument = aggregate.argument.as_ref().map(moved);
        source.slot = own;
    }
    let group = context.new_slot()?;
    let slot = context.new_slot()?;
    let mut correlated = false;
    if let Input::Table { access, .. } = &source.input {
        for_each_access_expr(access, &mut |expr| {
            for_each_slot(expr, &context.subqueries, &mut |_| correlated = true);
        });
    }
    let column = OutputColumn { name: aggregate.kind.name().to_owned(), sql_type: aggregate.result_type };
    let aggregation =
        Aggregation { slot: group, group_by: Vec::new(), sets: Vec::new(), aggregates: vec![aggregate], having: None };
    let select = Select {
        sources: vec![source],
        filter: None,
        aggregation: Some(aggregation),
        windowing: None,
        distinct: false,
        output: vec![Expr::column(group, 0)],
    };
    let query = Box::new(Query::of(QueryBody::Select(Box::new(select)), vec![column]));
    let input = Input::Derived { query, correlated };
    Ok(Source { slot, input, join: JoinKind::Inner, on: None, filter: None })
}
