//! Which programs may take long, and how they run on a snapshot of the stores, which has no indexes
//! (docs/decisions/0004-page-snapshots.md, "Which reads").
//!
//! What a program costs is counted in rows met, by a rule simple enough to tell in a sentence: a
//! scan meets all rows of its table, once for each row of the sources before it, of which a tenth
//! pass where there is a condition; a look-up, and a stretch of an index between bounds, meet one;
//! a hash table is made once. How many rows a table has is known only when the program runs, so the
//! decision falls then.

use crate::program::{
    Access, Bound, Input, Plan, Program, Query, QueryBody, ReturnValue, Select, SnapshotPlan, Step, Subquery,
};
use ferrite_base::{TableId, UserResult, limits};
use ferrite_catalog::Catalog;
use ferrite_expr::{Expr, Function};
use ferrite_value::OwnedValue;
use std::sync::Arc;

/// How many times the rows that a program meets with indexes it may meet without them, and still
/// run on a snapshot.
const DETOUR_MAX: f64 = 10.0;
/// What a recursion is taken to need.
const ROUNDS_USUAL: f64 = 10.0;
/// What a limit that is a parameter is taken to be.
const LIMIT_USUAL: f64 = 1_000.0;
/// What part of a source's rows is taken to pass conditions of its own.
const PASSING: f64 = 0.1;

/// Whether `program` may take long and how it runs on a snapshot. `compile` compiles it again
/// against another catalog.
pub fn snapshot_plan(
    program: &Program,
    catalog: &Catalog,
    compile: impl FnOnce(&Catalog) -> UserResult<Program>,
) -> SnapshotPlan {
    if !program.read_only {
        return SnapshotPlan::None;
    }
    let mut accesses = Accesses::default();
    for_each_query(program, &mut |query| accesses.query(query));
    if !accesses.scans {
        return SnapshotPlan::None;
    }
    if !accesses.indexes {
        return SnapshotPlan::Same;
    }
    let tables = tables_read(program);
    match compile(&catalog.without_indexes(&tables)) {
        Ok(mut other) if other.routing == program.routing => {
            other.without_indexes(&tables);
            SnapshotPlan::Other(Arc::new(other))
        }
        _ => SnapshotPlan::None,
    }
}

/// The program to run on a snapshot instead, if this one will take long; `rows` says how many rows
/// a table has, `has_prefix` whether a parameter is a pattern that begins with something else than
/// a wildcard.
pub fn as_long_read(
    program: &Arc<Program>,
    rows: &dyn Fn(TableId) -> u64,
    has_prefix: &dyn Fn(u16) -> bool,
) -> Option<Arc<Program>> {
    let without_indexes = match &program.snapshot_plan {
        SnapshotPlan::None => return None,
        SnapshotPlan::Same => program,
        SnapshotPlan::Other(other) => other,
    };
    let met = rows_met(program, rows, has_prefix);
    if met < limits::LONG_READ_ROWS_MIN as f64 {
        return None;
    }
    let same = Arc::ptr_eq(program, without_indexes);
    (same || rows_met(without_indexes, rows, has_prefix) <= met * DETOUR_MAX).then(|| Arc::clone(without_indexes))
}

/// The tables that a program reads.
pub fn tables_read(program: &Program) -> Vec<TableId> {
    let mut tables = Vec::new();
    for_each_query(program, &mut |query| {
        for_each_input(query, &mut |input| match input {
            Input::Table { table, .. } if !tables.contains(table) => tables.push(*table),
            _ => {}
        });
    });
    tables
}

#[derive(Default)]
struct Accesses {
    /// Some table is read from end to end.
    scans: bool,
    /// Some index is used.
    indexes: bool,
}

impl Accesses {
    fn query(&mut self, query: &Query) {
        for_each_input(query, &mut |input| {
            if let Input::Table { access, .. } = input {
                self.scans |= reads_all(access);
                self.indexes |= !matches!(access, Access::Scan);
            }
        });
    }
}

/// The pattern that bounds a stretch of an index, if it begins with something.
fn pattern_of(access: &Access) -> Option<&Expr> {
    let Access::Range { equal, lower: Some(Bound { value, .. }), .. } = access else { return None };
    match value {
        Expr::Call { function: Function::LiteralPrefix, arguments } if equal.is_empty() => arguments.first(),
        _ => None,
    }
}

/// A scan, or all of an index: for its order, or because a pattern may begin with a wildcard.
fn reads_all(access: &Access) -> bool {
    match access {
        Access::Scan => true,
        Access::Lookup { .. } | Access::Lookups { .. } | Access::Extreme { .. } => false,
        Access::Range { equal, lower, upper, .. } => {
            equal.is_empty() && lower.is_none() && upper.is_none() || pattern_of(access).is_some()
        }
    }
}

/// Calls `visit` for the queries of a program's statements, WITH tables and subqueries; not for
/// those within queries.
fn for_each_query<'p>(program: &'p Program, visit: &mut dyn FnMut(&'p Query)) {
    fn of_steps<'p>(steps: &'p [Step], visit: &mut dyn FnMut(&'p Query)) {
        for step in steps {
            match step {
                Step::Execute { plan: Plan::Query(query), .. } | Step::Fetch { query, .. } => visit(query),
                Step::For { query, body, .. } => {
                    visit(query);
                    of_steps(body, visit);
                }
                Step::Return(ReturnValue::Tables(queries)) => queries.iter().for_each(|(_, query)| visit(query)),
                Step::If { branches, otherwise } => {
                    branches.iter().for_each(|(_, body)| of_steps(body, visit));
                    of_steps(otherwise, visit);
                }
                Step::While { body, .. } | Step::Block { body, .. } => of_steps(body, visit),
                // What is analyzed runs where its own plan says, to show that plan.
                Step::Analyze { .. }
                | Step::Execute { .. }
                | Step::Assign { .. }
                | Step::Leave { .. }
                | Step::Iterate { .. }
                | Step::Return(ReturnValue::Nothing | ReturnValue::Status(_))
                | Step::Signal { .. } => {}
            }
        }
    }
    of_steps(&program.body, visit);
    program.common_tables.iter().for_each(&mut *visit);
    program.subqueries.iter().for_each(|subquery| visit(&subquery.query));
}

/// Calls `visit` for the inputs of a query, derived tables' own included.
pub fn for_each_input<'q>(query: &'q Query, visit: &mut dyn FnMut(&'q Input)) {
    match &query.body {
        QueryBody::Select(select) => {
            select.sources.iter().for_each(|source| with_those_inside(&source.input, visit));
        }
        QueryBody::SetOperation { left, right, .. } => {
            for_each_input(left, visit);
            for_each_input(right, visit);
        }
        QueryBody::Recursive { first, step, .. } => {
            for_each_input(first, visit);
            for_each_input(step, visit);
        }
        QueryBody::Values(_) | QueryBody::Series { .. } => {}
    }
}

pub fn with_those_inside<'q>(input: &'q Input, visit: &mut dyn FnMut(&'q Input)) {
    visit(input);
    match input {
        Input::Derived { query, .. } => for_each_input(query, visit),
        Input::Hashed(hashed) => with_those_inside(&hashed.input, visit),
        Input::Measured(inner) => with_those_inside(inner, visit),
        Input::Table { .. } | Input::Common { .. } | Input::Working { .. } | Input::One => {}
    }
}

/// Rows that a run of the program meets. Statements in loops count once, correlated subqueries once
/// for each row of the largest statement.
fn rows_met(program: &Program, rows: &dyn Fn(TableId) -> u64, has_prefix: &dyn Fn(u16) -> bool) -> f64 {
    let mut estimate = Estimate { rows, has_prefix, common_tables: Vec::new() };
    for query in &program.common_tables {
        let (_, joined) = estimate.query(query);
        estimate.common_tables.push(joined);
    }
    let mut met = 0.0;
    let mut most = 1.0_f64;
    let mut once = 0.0;
    let mut per_row = 0.0;
    for_each_query(program, &mut |query| {
        let (of_query, joined) = estimate.query(query);
        met += of_query;
        most = most.max(joined);
    });
    for Subquery { query, correlated, .. } in &program.subqueries {
        let (of_query, _) = estimate.query(query);
        met -= of_query;
        *(if *correlated { &mut per_row } else { &mut once }) += of_query;
    }
    met + once + per_row * most
}

struct Estimate<'r> {
    rows: &'r dyn Fn(TableId) -> u64,
    has_prefix: &'r dyn Fn(u16) -> bool,
    /// How many rows each table of WITH has; those that have not been looked at yet count as one.
    common_tables: Vec<f64>,
}

impl Estimate<'_> {
    /// Rows met, and rows that are joined.
    fn query(&self, query: &Query) -> (f64, f64) {
        match &query.body {
            QueryBody::Select(select) => match first_rows(query, select) {
                Some(limit) => (limit, limit),
                None => self.select(select),
            },
            QueryBody::SetOperation { left, right, .. } => {
                let left = self.query(left);
                let right = self.query(right);
                (left.0 + right.0, left.1 + right.1)
            }
            QueryBody::Recursive { first, step, .. } => {
                let first = self.query(first);
                let step = self.query(step);
                (first.0 + ROUNDS_USUAL * step.0, first.1 + ROUNDS_USUAL * step.1)
            }
            QueryBody::Values(rows) => (0.0, rows.len() as f64),
            QueryBody::Series { .. } => (0.0, SERIES_USUAL),
        }
    }

    /// Rows that an input has for each of the `joined` rows before it. What is met but once is
    /// added to `met`.
    fn input(&self, input: &Input, joined: f64, met: &mut f64) -> f64 {
        match input {
            Input::Table { table, access } if reads_all(access) && !self.has_bounds(access) => {
                (self.rows)(*table) as f64
            }
            Input::Table { .. } | Input::Working { .. } | Input::One => 1.0,
            Input::Common { table } => self.common_tables.get(usize::from(*table)).copied().unwrap_or(1.0),
            Input::Derived { query, correlated } => {
                let (of_query, rows) = self.query(query);
                *met += if *correlated { of_query * joined } else { of_query };
                rows
            }
            // Its rows are met when the hash table is made; then each look-up finds one.
            Input::Hashed(hashed) => {
                let built = self.input(&hashed.input, 1.0, met);
                *met += built;
                1.0
            }
            Input::Measured(inner) => self.input(inner, joined, met),
        }
    }

    /// It is a stretch of an index by a pattern, and the pattern begins with something.
    fn has_bounds(&self, access: &Access) -> bool {
        match pattern_of(access) {
            Some(Expr::Parameter(parameter)) => (self.has_prefix)(*parameter),
            _ => false,
        }
    }

    fn select(&self, select: &Select) -> (f64, f64) {
        let mut met = 0.0;
        let mut joined = 1.0;
        for source in &select.sources {
            let of_source = self.input(&source.input, joined, &mut met);
            joined *= of_source;
            met += joined;
            if source.filter.is_some() || source.on.is_some() {
                joined *= PASSING;
            }
            joined = joined.max(1.0);
        }
        (met, joined)
    }
}

/// Rows that a series is thought to have.
const SERIES_USUAL: f64 = 100.0;

/// `SELECT ... FROM t LIMIT 10`: the number of rows with which the scan ends, where nothing else
/// decides.
fn first_rows(query: &Query, select: &Select) -> Option<f64> {
    let ends_early = (query.order_by.is_empty() || query.presorted)
        && select.sources.len() == 1
        && select.sources[0].filter.is_none()
        && select.filter.is_none()
        && select.aggregation.is_none()
        && select.windowing.is_none()
        && !select.distinct;
    let number = |expr: &Option<Expr>| match expr {
        Some(Expr::Constant(OwnedValue::Integer(number))) => Some(*number as f64),
        // Those who page through a result do so in steps of a screen or two.
        Some(Expr::Parameter(_)) => Some(LIMIT_USUAL),
        _ => None,
    };
    let limit = number(&query.limit)?;
    ends_early.then(|| limit + number(&query.offset).unwrap_or(0.0))
}
