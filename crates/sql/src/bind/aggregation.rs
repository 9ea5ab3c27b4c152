//! What a block aggregates, and how what it evaluates above its groups reads their rows.

use super::Binder;
use super::grouping::{Grouping, gather_dependents, keyed_slots};
use super::scope::{AggregateScope, Groups};
use ferrite_base::UserResult;
use ferrite_catalog::Table;
use ferrite_expr::Expr;
use ferrite_plan::walk::{conjunction, for_each_expr_mut};
use ferrite_plan::{Aggregation, Window};
use ferrite_value::SqlType;
use std::sync::Arc;

/// What a block evaluates above its groups.
pub(super) struct Above<'s> {
    /// Of the SELECT list and of ORDER BY.
    pub exprs: &'s mut [Expr],
    pub having: Vec<Expr>,
    pub windows: &'s mut [Window],
    /// The block's subqueries begin here among all.
    pub first_subquery: usize,
}

impl Binder<'_> {
    /// `tables`: of the block, by slot. `local_slots`: all slots of its sources.
    pub(super) fn aggregation(
        &mut self,
        groups: Groups,
        aggregates: AggregateScope,
        mut above: Above<'_>,
        tables: &[(u16, Arc<Table>)],
        local_slots: &[u16],
    ) -> UserResult<Aggregation> {
        let slot = match aggregates.slot {
            Some(slot) => slot,
            None => self.plan.new_slot()?,
        };
        let names = self.scope().map(|scope| scope.sources.clone()).unwrap_or_default();
        let keyed = keyed_slots(&groups, tables, self.catalog);
        let Groups { keys: mut group_by, sets, .. } = groups;
        let named = group_by.len();
        let subqueries = &mut self.plan.subqueries;
        let mut each = |visit: &mut dyn FnMut(&mut Expr) -> UserResult<()>| -> UserResult<()> {
            above.exprs.iter_mut().chain(&mut above.having).try_for_each(&mut *visit)?;
            for window in above.windows.iter_mut() {
                let order_by = window.order_by.iter_mut().map(|(expr, _)| expr);
                let arguments = window.functions.iter_mut().flat_map(|function| &mut function.arguments);
                window.partition_by.iter_mut().chain(order_by).chain(arguments).try_for_each(&mut *visit)?;
            }
            for (place, subquery) in subqueries.iter_mut().enumerate().skip(above.first_subquery) {
                // Those inside an aggregate's argument see the rows before they are grouped.
                if aggregates.inside.iter().any(|range| range.contains(&place)) {
                    continue;
                }
                let mut result = Ok(());
                for_each_expr_mut(&mut subquery.query, &mut |expr| {
                    if result.is_ok() {
                        result = visit(expr);
                    }
                });
                result?;
            }
            Ok(())
        };
        if !keyed.is_empty() {
            each(&mut |expr| gather_dependents(expr, &keyed, &mut group_by))?;
        }
        let grouping = Grouping {
            group_by: &group_by,
            dependent: (group_by.len() - named) as u16,
            aggregates: aggregates.group_count,
            slot,
            local_slots,
            names: &names,
        };
        each(&mut |expr| grouping.apply(expr))?;
        let aggregate_columns = grouping.aggregates;
        let dependent = grouping.dependent;
        self.move_columns(slot, aggregate_columns, dependent);
        for (position, key) in group_by.iter().enumerate().take(named) {
            self.column_like(slot, position as u16, SqlType::Varchar, std::slice::from_ref(key));
        }
        Ok(Aggregation { slot, group_by, sets, aggregates: aggregates.found, having: conjunction(above.having) })
    }
}
