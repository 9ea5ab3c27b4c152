//! Which programs are certainly short: of so few rows and steps that a network thread may run a
//! call of one in the place of the partition's thread (docs/decisions/0108-lone-calls.md).
//!
//! The rule is strict rather than clever, since other connections wait for a call that turns out to
//! be long: no loops, no code of users, no patterns and other functions that are costly for long
//! values, rows found by whole keys of unique indexes only, and no change that makes a view look
//! for another MIN or MAX.

use crate::program::{
    Access, Delete, Input, Insert, InsertSource, Plan, Program, Query, QueryBody, ReturnValue, Returning, Select, Step,
    Update,
};
use crate::walk::{for_each_access_expr, for_each_expr};
use ferrite_base::{IndexId, TableId};
use ferrite_catalog::{Catalog, Index, Table};
use ferrite_expr::{AggregateKind, Expr};

/// Steps of a body, statements or other, and rows that one INSERT names.
const STEPS_MAX: usize = 32;

/// Whether each call of `program` is short, whatever its parameters and whatever the tables hold,
/// as long as its parameters are of the declared types.
pub fn is_short(program: &Program, catalog: &Catalog) -> bool {
    let mut judge = Judge { catalog, steps: 0 };
    program.external.is_none()
        && program.common_tables.is_empty()
        && program.parameters.iter().all(|parameter| !parameter.array && !parameter.table)
        && program.subqueries.iter().all(|subquery| judge.query(&subquery.query))
        && judge.body(&program.body)
}

struct Judge<'c> {
    catalog: &'c Catalog,
    steps: usize,
}

impl Judge<'_> {
    fn body(&mut self, steps: &[Step]) -> bool {
        self.steps += steps.len();
        self.steps <= STEPS_MAX && steps.iter().all(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::Execute { plan, .. } => self.plan(plan),
            Step::Fetch { query, .. } => self.query(query),
            Step::Assign { value, .. } => is_quick(value),
            Step::If { branches, otherwise } => {
                branches.iter().all(|(condition, body)| is_quick(condition) && self.body(body)) && self.body(otherwise)
            }
            Step::Block { body, .. } => self.body(body),
            Step::Return(ReturnValue::Tables(queries)) => queries.iter().all(|(_, query)| self.query(query)),
            Step::Return(ReturnValue::Status(value)) | Step::Signal { message: value, .. } => is_quick(value),
            Step::Return(ReturnValue::Nothing) | Step::Leave { .. } => true,
            Step::Analyze { .. } | Step::While { .. } | Step::For { .. } | Step::Iterate { .. } => false,
        }
    }

    fn plan(&self, plan: &Plan) -> bool {
        match plan {
            Plan::Query(query) => self.query(query),
            Plan::Insert(Insert { table, source: InsertSource::Values { more }, row, upsert, returning, .. }) => {
                more.len() < STEPS_MAX
                    && more.iter().flatten().chain(row).all(is_quick)
                    && is_plain(returning.as_deref())
                    && self.table(*table).is_some_and(|table| self.is_kept_up_soon(table, *upsert))
            }
            Plan::Update(Update { table, access, filter, joined: None, assignments, returning, .. }) => {
                filter.iter().chain(assignments.iter().map(|(_, value)| value)).all(is_quick)
                    && is_plain(returning.as_deref())
                    && self.is_one_row(*table, access)
                    && self.table(*table).is_some_and(|table| self.is_kept_up_soon(table, true))
            }
            Plan::Delete(Delete { table, access, filter, joined: None, returning, migrate: false, .. }) => {
                filter.iter().all(is_quick)
                    && is_plain(returning.as_deref())
                    && self.is_one_row(*table, access)
                    && self.table(*table).is_some_and(|table| self.is_kept_up_soon(table, true))
            }
            Plan::Insert(_) | Plan::Update(_) | Plan::Delete(_) | Plan::Truncate { .. } => false,
        }
    }

    fn query(&self, query: &Query) -> bool {
        let mut quick = true;
        for_each_expr(query, &mut |expr| quick &= is_quick(expr));
        quick && self.is_one_row_query(query)
    }

    fn is_one_row_query(&self, query: &Query) -> bool {
        match &query.body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::SetOperation { left, right, .. } => self.is_one_row_query(left) && self.is_one_row_query(right),
            QueryBody::Values(rows) => rows.len() <= STEPS_MAX,
            QueryBody::Series { .. } | QueryBody::Recursive { .. } => false,
        }
    }

    fn select(&self, select: &Select) -> bool {
        let of_users = |aggregation: &crate::program::Aggregation| {
            aggregation.aggregates.iter().any(|aggregate| aggregate.user.is_some())
        };
        select.windowing.is_none()
            && !select.aggregation.as_ref().is_some_and(of_users)
            && select.sources.iter().all(|source| match &source.input {
                Input::One => true,
                Input::Table { table, access } => self.is_one_row(*table, access),
                Input::Derived { query, .. } => self.is_one_row_query(query),
                Input::Common { .. } | Input::Working { .. } | Input::Hashed(_) | Input::Measured(_) => false,
            })
    }

    fn is_one_row(&self, table: TableId, access: &Access) -> bool {
        let Access::Lookup { index, .. } = access else { return false };
        let mut quick = true;
        for_each_access_expr(access, &mut |expr| quick &= is_quick(expr));
        quick && self.table(table).is_some_and(|table| is_unique(table, *index))
    }

    fn table(&self, id: TableId) -> Option<&Table> {
        self.catalog.table(id).map(|table| &**table)
    }

    /// Whether what hangs on a row of the table is changed with it at once. `replaces`: a row may
    /// go, or get other values, and with it a MIN or MAX for which another has to be found.
    fn is_kept_up_soon(&self, table: &Table, replaces: bool) -> bool {
        let of_index = |index: &Index| index.keys.iter().chain(&index.predicate).all(is_quick);
        table.checks.iter().all(|check| is_quick(&check.condition))
            && table.indexes.iter().all(of_index)
            && table.dependent_views.iter().all(|id| {
                let Some(view) = self.table(*id).and_then(|table| table.view.as_ref()) else { return false };
                let seeks = |kind| matches!(kind, AggregateKind::Min | AggregateKind::Max);
                view.source == table.id
                    && view.joins.is_empty()
                    && view.filter.iter().chain(&view.group_by).all(is_quick)
                    && view.aggregates.iter().all(|aggregate| {
                        !(replaces && seeks(aggregate.kind))
                            && aggregate.user.is_none()
                            && aggregate.argument.iter().all(is_quick)
                    })
            })
    }
}

fn is_unique(table: &Table, index: IndexId) -> bool {
    table.index(index).is_some_and(|index| index.unique)
}

fn is_plain(returning: Option<&Returning>) -> bool {
    returning.is_none_or(|returning| returning.output.iter().all(is_quick))
}

/// Its cost is about that of copying what it reads, and no user's code runs in it.
fn is_quick(expr: &Expr) -> bool {
    let mut quick = match expr {
        Expr::User { .. } | Expr::Like { prefix_only: false, .. } => false,
        Expr::Call { function, .. } => !function.is_costly(),
        _ => true,
    };
    expr.for_each_operand(|operand| quick &= is_quick(operand));
    quick
}
