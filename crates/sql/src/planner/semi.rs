//! Subqueries as semi-joins and anti-joins: EXISTS and IN whose only tie to the outer row are
//! equalities.
//!
//! Such a subquery is asked once for all rows: the inner sides of its equalities become its
//! columns, the outer sides the operand that is looked for among its rows, which are kept as a hash
//! table ([`SubqueryKind::Among`]). Where an index answers the equality for each outer row, the
//! subquery stays as it is.

use super::access::{Choice, choose};
use super::context::PlanContext;
use super::pending::{PendingInput, PendingSource};
use super::{Reached, hash, remove_all};
use ferrite_catalog::Table;
use ferrite_expr::{CompareOperator, Expr, Function};
use ferrite_plan::walk::{conjunction, for_each_expr, for_each_slot, split_conjunction};
use ferrite_plan::{Access, Input, JoinKind, OutputColumn, Query, QueryBody, Select, Subquery, SubqueryKind};
use ferrite_value::{OwnedValue, SqlType};

/// A subquery that refers to nothing outside, and what is looked for among its rows.
pub(super) struct Decorrelated {
    pub query: Query,
    pub operand: Expr,
}

/// The query of an EXISTS without its equalities with outer rows, if these alone refer outside and
/// no index answers them.
pub(super) fn decorrelated(query: &Query, subqueries: &[Subquery]) -> Option<Decorrelated> {
    let one_row_counts = match &query.limit {
        None => true,
        Some(Expr::Constant(OwnedValue::Integer(limit))) => *limit > 0,
        Some(_) => false,
    };
    let QueryBody::Select(select) = &query.body else { return None };
    if !one_row_counts || query.offset.is_some() || select.aggregation.is_some() || select.windowing.is_some() {
        return None;
    }
    let mut own = Vec::new();
    if !add_own_slots(query, subqueries, &mut own) {
        return None;
    }
    let reads = |expr: &Expr, wanted: &dyn Fn(u16) -> bool| {
        let mut found = false;
        for_each_slot(expr, subqueries, &mut |slot| found |= wanted(slot));
        found
    };
    let outer_only =
        |expr: &Expr| reads(expr, &|slot| !own.contains(&slot)) && !reads(expr, &|slot| own.contains(&slot));
    let mut inside = Vec::new();
    let mut outside = Vec::new();
    let mut sources = select.sources.clone();
    for (position, source) in sources.iter_mut().enumerate() {
        let (Input::Hashed(hashed), JoinKind::Inner) = (&mut source.input, source.join) else { continue };
        let pairs = std::mem::take(&mut hashed.built).into_iter().zip(std::mem::take(&mut hashed.probed));
        let (tied, free): (Vec<_>, Vec<_>) = pairs.partition(|(_, probed)| outer_only(probed));
        (hashed.built, hashed.probed) = free.into_iter().unzip();
        let left = !hashed.built.is_empty();
        if !left && position > 0 {
            // Nothing would join it with the sources before it.
            return None;
        }
        for (built, probed) in tied {
            inside.push(built);
            outside.push(probed);
        }
        if !left {
            let conditions = hashed.filter.take().into_iter().chain(source.filter.take()).collect();
            source.filter = conjunction(conditions);
            let input = std::mem::replace(&mut hashed.input, Input::One);
            source.input = input;
        }
    }
    // A row is matched however often it is there; of what DISTINCT compares nothing is left.
    let select = Select { sources, output: inside.clone(), distinct: false, ..select.as_ref().clone() };
    // Nobody sees the columns: what they are called and typed does not matter.
    let column = OutputColumn { name: String::new(), sql_type: SqlType::Varchar };
    let columns = vec![column; inside.len()];
    let query = Query::of(QueryBody::Select(Box::new(select)), columns);
    let mut correlated = false;
    for_each_expr(&query, &mut |expr| correlated |= reads(expr, &|slot| !own.contains(&slot)));
    if inside.is_empty() || correlated {
        return None;
    }
    let operand = match outside.len() {
        1 => outside.pop()?,
        _ => Expr::Call { function: Function::Together, arguments: outside.into() },
    };
    Some(Decorrelated { query, operand })
}

/// In WHERE and ON, where unknown counts as false, a correlated IN is an EXISTS with one equality
/// more; a correlated NOT IN is the negation of one where neither side can be NULL. With the
/// equality there is a hash table or an index to find the rows by.
pub(super) fn membership_as_existence(
    context: &mut PlanContext<'_>,
    pending: &[PendingSource],
    conjuncts: &mut [Expr],
) {
    for conjunct in conjuncts {
        let Expr::Subquery { subquery, operand: Some(operand) } = conjunct else { continue };
        let Some(asked) = context.subqueries.get(usize::from(*subquery)).filter(|asked| asked.correlated) else {
            continue;
        };
        let negated = match asked.kind {
            SubqueryKind::Any(CompareOperator::Equal) => false,
            SubqueryKind::All(CompareOperator::NotEqual) => true,
            _ => continue,
        };
        if negated && !(is_never_null(operand, pending) && answers_no_null(context, &asked.query)) {
            continue;
        }
        let mut query = asked.query.clone();
        if !with_equality(context, &mut query, operand) {
            continue;
        }
        let number = *subquery;
        let asked = usize::from(*subquery);
        let exists = match decorrelated(&query, &context.subqueries) {
            Some(Decorrelated { query, operand }) => {
                let kind = SubqueryKind::Among { unknown: false };
                context.subqueries[asked] = Subquery { kind, query, correlated: false };
                Expr::Subquery { subquery: number, operand: Some(Box::new(operand)) }
            }
            None => {
                context.subqueries[asked] = Subquery { kind: SubqueryKind::Exists, query, correlated: true };
                Expr::Subquery { subquery: number, operand: None }
            }
        };
        *conjunct = if negated { Expr::Not(Box::new(exists)) } else { exists };
    }
}

/// Demands that the query's column equals `operand`. False: it cannot be said inside, and nothing
/// has changed.
fn with_equality(context: &PlanContext<'_>, query: &mut Query, operand: &Expr) -> bool {
    let QueryBody::Select(select) = &mut query.body else { return false };
    let cut = query.limit.is_some() || query.offset.is_some();
    let grouped = select.aggregation.is_some() || select.windowing.is_some();
    let outer_joins = select.sources.iter().any(|source| source.join != JoinKind::Inner);
    let asks = |expr: &Expr| expr.any(&mut |part| matches!(part, Expr::Subquery { .. }));
    let Some(value) = select.output.first().cloned() else { return false };
    if cut || grouped || outer_joins || asks(&value) || asks(operand) {
        return false;
    }
    let slots: Vec<u16> = select.sources.iter().map(|source| source.slot).collect();
    let mut read = Vec::new();
    for_each_slot(&value, &context.subqueries, &mut |slot| read.push(slot));
    read.dedup();
    let [slot] = read[..] else { return false };
    let Some(position) = slots.iter().position(|other| *other == slot) else { return false };
    let equality = Expr::Compare {
        operator: CompareOperator::Equal,
        left: Box::new(value.clone()),
        right: Box::new(operand.clone()),
    };
    query.order_by.clear();
    query.presorted = false;
    select.distinct = false;
    let source = &mut select.sources[position];
    if let Input::Hashed(hashed) = &mut source.input {
        hashed.built.push(value);
        hashed.probed.push(operand.clone());
        return true;
    }
    let mut conditions = Vec::new();
    if let Some(filter) = source.filter.take() {
        split_conjunction(filter, &mut conditions);
    }
    conditions.push(equality);
    let reached = Reached { local: &slots, bound: &slots[..position], subqueries: &context.subqueries };
    source.input = match std::mem::replace(&mut source.input, Input::One) {
        Input::Table { table, access: Access::Scan } => match context.catalog.table(table) {
            Some(definition) => found_by(definition, slot, &mut conditions, &reached),
            None => Input::Table { table, access: Access::Scan },
        },
        input @ (Input::Derived { correlated: false, .. } | Input::Common { .. })
            if hash::is_better(slot, &Choice::scan(), &conditions, &reached) =>
        {
            hash::hashed(slot, input, &mut conditions, &reached, false)
        }
        input => input,
    };
    source.filter = conjunction(conditions);
    true
}

/// The table's rows by an index or, failing that, a hash table.
fn found_by(table: &Table, slot: u16, conditions: &mut Vec<Expr>, reached: &Reached<'_>) -> Input {
    let choice = choose(table, slot, conditions, reached);
    if !hash::is_better(slot, &choice, conditions, reached) {
        remove_all(conditions, &choice.consumed);
        return Input::Table { table: table.id, access: choice.access };
    }
    let choice = hash::independent(table, slot, conditions, reached, false);
    remove_all(conditions, &choice.consumed);
    hash::hashed(slot, Input::Table { table: table.id, access: choice.access }, conditions, reached, false)
}

/// A column of one of these tables that is declared NOT NULL, and no outer join puts NULL in its
/// place.
fn is_never_null(expr: &Expr, pending: &[PendingSource]) -> bool {
    let no_outer_join = pending.iter().all(|source| source.join == JoinKind::Inner);
    let Expr::Column { slot, column } = expr else { return false };
    let source = pending.iter().find(|source| source.slot == *slot);
    match source.map(|source| &source.input) {
        Some(PendingInput::Table(table)) => no_outer_join && is_not_null(table, *column),
        _ => false,
    }
}

/// Whether the query's one column is a column that is declared NOT NULL.
fn answers_no_null(context: &PlanContext<'_>, query: &Query) -> bool {
    let QueryBody::Select(select) = &query.body else { return false };
    let Some(Expr::Column { slot, column }) = select.output.first() else { return false };
    let source = select.sources.iter().find(|source| source.slot == *slot);
    let input = source.map(|source| match &source.input {
        Input::Hashed(hashed) => &hashed.input,
        input => input,
    });
    let no_outer_join = select.sources.iter().all(|source| source.join == JoinKind::Inner);
    match input {
        Some(Input::Table { table, .. }) => {
            no_outer_join && context.catalog.table(*table).is_some_and(|table| is_not_null(table, *column))
        }
        _ => false,
    }
}

fn is_not_null(table: &Table, column: u16) -> bool {
    table.columns.get(usize::from(column)).is_some_and(|column| !column.nullable)
}

/// Adds the slots that the query binds itself, its derived tables and subqueries included. False:
/// it reads the rows of a recursion's last round, which are others each time.
fn add_own_slots(query: &Query, subqueries: &[Subquery], slots: &mut Vec<u16>) -> bool {
    let inside = match &query.body {
        QueryBody::Select(select) => {
            slots.extend(select.aggregation.iter().map(|aggregation| aggregation.slot));
            slots.extend(select.windowing.iter().map(|windowing| windowing.slot));
            select.sources.iter().all(|source| {
                slots.push(source.slot);
                add_slots_inside(&source.input, subqueries, slots)
            })
        }
        QueryBody::SetOperation { left, right, .. } => {
            add_own_slots(left, subqueries, slots) && add_own_slots(right, subqueries, slots)
        }
        QueryBody::Recursive { .. } => false,
        QueryBody::Values(_) | QueryBody::Series { .. } => true,
    };
    let mut asked = Vec::new();
    for_each_expr(query, &mut |expr| {
        expr.any(&mut |part| {
            if let Expr::Subquery { subquery, .. } = part {
                asked.push(usize::from(*subquery));
            }
            false
        });
    });
    inside
        && asked
            .into_iter()
            .filter_map(|asked| subqueries.get(asked))
            .all(|asked| add_own_slots(&asked.query, subqueries, slots))
}

fn add_slots_inside(input: &Input, subqueries: &[Subquery], slots: &mut Vec<u16>) -> bool {
    match input {
        Input::Derived { query, .. } => add_own_slots(query, subqueries, slots),
        Input::Hashed(hashed) => add_slots_inside(&hashed.input, subqueries, slots),
        Input::Measured(input) => add_slots_inside(input, subqueries, slots),
        Input::Working { .. } => false,
        Input::Table { .. } | Input::Common { .. } | Input::One => true,
    }
}
