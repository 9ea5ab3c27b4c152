//! From a bound statement to a planned one.
//!
//! What the binder hands over is a plan in its plainest form: sources in the order in which they
//! are written, every table read from end to end, each condition where it was written. Here every
//! block gets its order and access paths, from the inside out, and what it says about partitions is
//! noted.

use super::context::{PlanContext, PlannedSubquery};
use super::pending::PendingSource;
use super::semi::{self, Decorrelated};
use super::{Arranged, Changed, arrange, arrange_change, extremes};
use ferrite_base::{TableId, UserError, UserResult, watch};
use ferrite_catalog::Table;
use ferrite_expr::Expr;
use ferrite_plan::walk::split_conjunction;
use ferrite_plan::{Delete, Input, Insert, InsertSource, JoinKind, Plan, Query, QueryBody, Select, SortKey, Source};
use ferrite_plan::{Subquery, SubqueryKind, Update};
use std::sync::Arc;

/// What planning a block is, in units of work for whoever watches; its expressions were counted
/// when they were bound.
const BLOCK: usize = 16_384;

impl PlanContext<'_> {
    /// The planner's door: plans a bound statement, in place. A block of a query goes on in
    /// `select` below, which has its sources arranged (`arrange` in `mod.rs`).
    pub fn plan_statement(&mut self, plan: &mut Plan) -> UserResult<()> {
        self.plan_common_tables()?;
        match plan {
            Plan::Query(query) => self.query(query),
            Plan::Insert(insert) => self.insert(insert),
            Plan::Update(update) => self.update(update),
            Plan::Delete(delete) => self.delete(delete),
            Plan::Truncate { table } => {
                let table = self.changed_table(*table)?;
                let key = Expr::column(self.slots(), table.partition_column.unwrap_or_default());
                self.in_block(|context| {
                    context.facts.add_write(&table, key);
                    Ok(())
                })
            }
        }
    }

    /// Plans a bound query that stands for itself.
    pub fn plan_query(&mut self, query: &mut Query) -> UserResult<()> {
        self.plan_common_tables()?;
        self.query(query)
    }

    /// Plans the subqueries of a bound expression that stands for itself.
    pub fn plan_expression(&mut self, expr: &mut Expr) -> UserResult<()> {
        self.plan_common_tables()?;
        self.expression(expr)
    }

    /// The tables of WITH refer to nothing around them.
    fn plan_common_tables(&mut self) -> UserResult<()> {
        while let Some(table) = self.common_tables.get_mut(self.common_planned) {
            let number = self.common_planned;
            let mut query = std::mem::replace(table, nothing());
            self.common_planned += 1;
            let planned = self.query(&mut query);
            self.common_tables[number] = query;
            planned?;
        }
        Ok(())
    }

    fn in_block<T>(&mut self, plan: impl FnOnce(&mut Self) -> UserResult<T>) -> UserResult<T> {
        self.facts.open_block();
        let planned = plan(self);
        self.facts.close_block();
        planned
    }

    fn changed_table(&self, table: TableId) -> UserResult<Arc<Table>> {
        self.catalog.table(table).cloned().ok_or_else(|| UserError::internal("a bound table is in the catalog"))
    }

    fn query(&mut self, query: &mut Query) -> UserResult<()> {
        self.expressions(query.limit.iter_mut().chain(&mut query.offset))?;
        match &mut query.body {
            QueryBody::Select(select) => {
                let presorted = self.in_block(|context| context.select(select, &query.order_by))?;
                query.presorted = presorted && !query.order_by.is_empty();
                Ok(())
            }
            QueryBody::SetOperation { left, right, .. } => {
                self.query(left)?;
                self.query(right)
            }
            QueryBody::Values(rows) => self.expressions(rows.iter_mut().flatten()),
            QueryBody::Series { start, stop, step } => self.expressions([start, stop, step]),
            QueryBody::Recursive { first, step, .. } => {
                self.query(first)?;
                self.query(step)
            }
        }
    }

    /// Says whether the rows come in the wanted order.
    fn select(&mut self, select: &mut Select, order_by: &[SortKey]) -> UserResult<bool> {
        watch::work(BLOCK)?;
        self.derived_tables(&mut select.sources)?;
        self.expressions(&mut select.filter)?;
        if let Some(aggregation) = &mut select.aggregation {
            self.expressions(&mut aggregation.group_by)?;
            let aggregates = aggregation.aggregates.iter_mut();
            self.expressions(aggregates.filter_map(|aggregate| aggregate.argument.as_mut()))?;
            self.expressions(&mut aggregation.having)?;
        }
        for window in select.windowing.iter_mut().flat_map(|windowing| &mut windowing.windows) {
            self.expressions(&mut window.partition_by)?;
            self.expressions(window.order_by.iter_mut().map(|(expr, _)| expr))?;
            self.expressions(window.functions.iter_mut().flat_map(|function| &mut function.arguments))?;
        }
        self.expressions(&mut select.output)?;
        let as_read = select.aggregation.is_none() && select.windowing.is_none() && !select.distinct;
        let wanted: Vec<(Expr, bool)> = order_by
            .iter()
            .filter(|_| as_read)
            .map(|key| (select.output[usize::from(key.column)].clone(), key.descending))
            .collect();
        let pending = self.pending(&mut select.sources)?;
        let conjuncts = conjuncts(&mut select.filter);
        let Arranged { mut sources, filter, presorted } = arrange(self, pending, conjuncts, &wanted)?;
        if sources.is_empty() {
            let slot = self.new_slot()?;
            sources.push(Source { slot, input: Input::One, join: JoinKind::Inner, on: None, filter: None });
        }
        (select.sources, select.filter) = (sources, filter);
        self.extremes(select)?;
        Ok(presorted)
    }

    /// MIN and MAX by index, where one row of each store is enough.
    fn extremes(&mut self, select: &mut Select) -> UserResult<()> {
        let Some(groups) = &select.aggregation else { return Ok(()) };
        extremes::shortcut_extremes(self.catalog, &self.subqueries, &mut select.sources, &select.filter, groups);
        self.facts.grouped(groups);
        if select.windowing.is_none()
            && let Some((tables, having)) =
                extremes::separate_extremes(self, &select.sources, &select.filter, groups, &mut select.output)?
        {
            (select.sources, select.filter, select.aggregation) = (tables, having, None);
        }
        Ok(())
    }

    /// What stands inside sources and in their ON.
    fn derived_tables(&mut self, sources: &mut [Source]) -> UserResult<()> {
        for source in sources {
            if let Input::Derived { query, .. } = &mut source.input {
                self.query(query)?;
                self.facts.derived_columns(source.slot, query);
            }
            self.expressions(&mut source.on)?;
        }
        Ok(())
    }

    fn pending(&mut self, sources: &mut Vec<Source>) -> UserResult<Vec<PendingSource>> {
        std::mem::take(sources).into_iter().map(|source| PendingSource::of(self, source)).collect()
    }

    fn expressions<'e>(&mut self, exprs: impl IntoIterator<Item = &'e mut Expr>) -> UserResult<()> {
        exprs.into_iter().try_for_each(|expr| self.expression(expr))
    }

    fn expression(&mut self, expr: &mut Expr) -> UserResult<()> {
        let mut planned = Ok(());
        expr.for_each_operand_mut(&mut |operand| {
            if planned.is_ok() {
                planned = self.expression(operand);
            }
        });
        planned?;
        if let Expr::Subquery { subquery, operand } = expr {
            let number = usize::from(*subquery);
            self.subquery(number)?;
            if operand.is_none() {
                *operand = self.subqueries_planned[number].operand.clone().map(Box::new);
            }
        }
        Ok(())
    }

    /// Once, wherever it is asked.
    fn subquery(&mut self, number: usize) -> UserResult<()> {
        self.subqueries_planned.resize_with(self.subqueries.len(), PlannedSubquery::default);
        if std::mem::replace(&mut self.subqueries_planned[number].done, true) {
            return Ok(());
        }
        let mut query = std::mem::replace(&mut self.subqueries[number].query, nothing());
        let planned = self.query(&mut query);
        self.subqueries[number].query = query;
        planned?;
        let Subquery { kind, query, correlated } = &self.subqueries[number];
        if let (SubqueryKind::Exists, true) = (kind, correlated)
            && let Some(Decorrelated { query, operand }) = semi::decorrelated(query, &self.subqueries)
        {
            let kind = SubqueryKind::Among { unknown: false };
            self.subqueries[number] = Subquery { kind, query, correlated: false };
            self.subqueries_planned[number].operand = Some(operand);
        }
        Ok(())
    }

    fn insert(&mut self, insert: &mut Insert) -> UserResult<()> {
        let table = self.changed_table(insert.table)?;
        let query = match &mut insert.source {
            InsertSource::Values { more } => {
                let rows = std::iter::once(&mut insert.row).chain(more);
                return self.in_block(|context| context.inserted_rows(&table, rows));
            }
            InsertSource::Query(query) => query,
        };
        let block = self.facts.next_block();
        self.query(query)?;
        // The partition of a row is decided by the query's expression for the column.
        let key = table.partition_column.map(|column| insert.row[usize::from(column)].clone());
        let key = match key {
            Some(Expr::Column { slot, column }) if slot == insert.slot => match &query.body {
                QueryBody::Select(select) if select.aggregation.is_none() => select.output[usize::from(column)].clone(),
                _ => Expr::column(slot, column),
            },
            Some(expr) => expr,
            None => Expr::null(),
        };
        self.facts.add_write_in(&table, key, Some(block));
        Ok(())
    }

    fn inserted_rows<'r>(&mut self, table: &Table, rows: impl Iterator<Item = &'r mut Vec<Expr>>) -> UserResult<()> {
        let mut keys = Vec::new();
        for row in rows {
            self.expressions(&mut *row)?;
            keys.push(row[usize::from(table.partition_column.unwrap_or_default())].clone());
        }
        keys.into_iter().for_each(|key| self.facts.add_write(table, key));
        Ok(())
    }

    fn update(&mut self, update: &mut Update) -> UserResult<()> {
        let Update { table, slot, filter, joined, assignments, .. } = update;
        let table = self.changed_table(*table)?;
        let changed = self.in_block(|context| {
            context.joined(joined)?;
            context.expressions(assignments.iter_mut().map(|(_, value)| value))?;
            context.changed(&table, *slot, filter, joined)
        })?;
        (update.access, update.filter, update.joined) = (changed.access, changed.filter, changed.joined);
        Ok(())
    }

    fn delete(&mut self, delete: &mut Delete) -> UserResult<()> {
        let Delete { table, slot, filter, joined, order_by, limit, offset, .. } = delete;
        let table = self.changed_table(*table)?;
        let changed = self.in_block(|context| {
            context.joined(joined)?;
            context.expressions(order_by.iter_mut().map(|(expr, _)| expr))?;
            context.expressions(limit.iter_mut().chain(offset))?;
            context.changed(&table, *slot, filter, joined)
        })?;
        (delete.access, delete.filter, delete.joined) = (changed.access, changed.filter, changed.joined);
        Ok(())
    }

    /// What UPDATE and DELETE join with.
    fn joined(&mut self, joined: &mut Option<Box<Select>>) -> UserResult<()> {
        joined.iter_mut().try_for_each(|select| self.derived_tables(&mut select.sources))
    }

    fn changed(
        &mut self,
        table: &Arc<Table>,
        slot: u16,
        filter: &mut Option<Expr>,
        joined: &mut Option<Box<Select>>,
    ) -> UserResult<Changed> {
        self.expressions(&mut *filter)?;
        let pending = match joined {
            Some(select) => self.pending(&mut select.sources)?,
            None => Vec::new(),
        };
        arrange_change(self, table, slot, pending, conjuncts(filter))
    }
}

/// What stands in a query's place while it is planned.
fn nothing() -> Query {
    Query::of(QueryBody::Values(Vec::new()), Vec::new())
}

fn conjuncts(filter: &mut Option<Expr>) -> Vec<Expr> {
    let mut conjuncts = Vec::new();
    if let Some(filter) = filter.take() {
        split_conjunction(filter, &mut conjuncts);
    }
    conjuncts
}
