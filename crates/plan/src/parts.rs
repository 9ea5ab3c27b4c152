//! Which parts of a query every partition can do by itself: the grouping of its rows, and the first
//! rows of an order. The parts' results are then merged.
//!
//! A block can be done in parts when it reads one partitioned table, once and from end to end, as
//! its first source, and beside it only what every partition has: replicated tables. Then each of
//! its rows is made of rows of one partition. Nor may it call users' functions: whoever brings
//! their code keeps memory for each thread that ever called it, and threads that do parts come and
//! go.

use crate::long_read::{for_each_input, with_those_inside};
use crate::program::{Access, Input, JoinKind, Program, Query, QueryBody, Select};
use crate::walk::{for_each_expr, for_each_select_expr};
use ferrite_base::TableId;
use ferrite_expr::Expr;

/// What can be done in parts.
#[derive(Clone, Copy, Debug)]
pub enum InParts<'q> {
    /// The groups of a block with an aggregation.
    Groups(&'q Select),
    /// The first rows, by ORDER BY, of a query with a limit.
    First(&'q Query, &'q Select),
}

/// A block that can be done in parts.
#[derive(Debug)]
pub struct Divisible<'q> {
    pub work: InParts<'q>,
    /// The partitioned table.
    pub table: TableId,
    /// The replicated ones, once for each time that they are named: every part reads them, perhaps
    /// wholly.
    pub beside: Vec<TableId>,
}

/// The parts of `query`, and of its derived tables, that each partition can do by itself.
/// `partitioned` says which tables are.
pub fn in_parts<'q>(query: &'q Query, program: &Program, partitioned: &dyn Fn(TableId) -> bool) -> Vec<Divisible<'q>> {
    let mut found = Vec::new();
    search(query, program, partitioned, &mut found);
    found
}

fn search<'q>(
    query: &'q Query,
    program: &Program,
    partitioned: &dyn Fn(TableId) -> bool,
    found: &mut Vec<Divisible<'q>>,
) {
    match &query.body {
        QueryBody::Select(select) => {
            let work = if select.aggregation.is_some() {
                Some(InParts::Groups(select))
            } else {
                gives_first(query, select).then_some(InParts::First(query, select))
            };
            if let Some(work) = work
                && let Some((table, beside)) = tables_in_parts(select, program, partitioned)
            {
                found.push(Divisible { work, table, beside });
            }
            for source in &select.sources {
                search_inside(&source.input, program, partitioned, found);
            }
        }
        QueryBody::SetOperation { left, right, .. } => {
            search(left, program, partitioned, found);
            search(right, program, partitioned, found);
        }
        QueryBody::Recursive { .. } | QueryBody::Values(_) | QueryBody::Series { .. } => {}
    }
}

fn search_inside<'q>(
    input: &'q Input,
    program: &Program,
    partitioned: &dyn Fn(TableId) -> bool,
    found: &mut Vec<Divisible<'q>>,
) {
    match input {
        Input::Derived { query, correlated: false } => search(query, program, partitioned, found),
        Input::Hashed(hashed) => search_inside(&hashed.input, program, partitioned, found),
        _ => {}
    }
}

fn gives_first(query: &Query, select: &Select) -> bool {
    let sorted = !query.order_by.is_empty() && !query.presorted;
    sorted && query.limit.is_some() && select.windowing.is_none() && !select.distinct
}

/// The partitioned table of a block that can be done in parts, and the replicated ones. What stands
/// beside the partitioned table is done again in each part, so it must be little more than to read
/// those.
fn tables_in_parts(
    select: &Select,
    program: &Program,
    partitioned: &dyn Fn(TableId) -> bool,
) -> Option<(TableId, Vec<TableId>)> {
    let first = select.sources.first()?;
    let Input::Table { table, access: Access::Scan } = &first.input else { return None };
    let kept = first.join == JoinKind::Inner && select.sources.iter().all(|source| source.join != JoinKind::Full);
    if !kept || !partitioned(*table) {
        return None;
    }
    let mut beside = Vec::new();
    let mut everywhere = true;
    let mut look = |input: &Input| match input {
        Input::Table { table, .. } => {
            everywhere &= !partitioned(*table);
            beside.push(*table);
        }
        Input::Derived { query, .. } => everywhere &= reads_one_table(query),
        Input::Common { .. } | Input::Working { .. } => everywhere = false,
        Input::Hashed(_) | Input::One | Input::Measured(_) => {}
    };
    let mut asked = Vec::new();
    let mut ours = true;
    let mut look_at = |expr: &Expr, asked: &mut Vec<u16>| {
        subqueries_in(expr, asked);
        ours &= !expr.any(&mut |part| matches!(part, Expr::User { .. }));
    };
    for source in &select.sources[1..] {
        with_those_inside(&source.input, &mut look);
    }
    for_each_select_expr(select, &mut |expr| look_at(expr, &mut asked));
    let mut next = 0;
    let mut little = true;
    while let Some(subquery) = asked.get(next).and_then(|number| program.subqueries.get(usize::from(*number))) {
        little &= reads_one_table(&subquery.query);
        for_each_input(&subquery.query, &mut look);
        for_each_expr(&subquery.query, &mut |expr| look_at(expr, &mut asked));
        next += 1;
    }
    (everywhere && little && ours).then_some((*table, beside))
}

/// It joins nothing and makes no rows of its own.
fn reads_one_table(query: &Query) -> bool {
    matches!(&query.body, QueryBody::Select(select) if select.sources.len() <= 1)
}

fn subqueries_in(expr: &Expr, asked: &mut Vec<u16>) {
    expr.any(&mut |part| {
        match part {
            Expr::Subquery { subquery, .. } if !asked.contains(subquery) => asked.push(*subquery),
            _ => {}
        }
        false
    });
}
