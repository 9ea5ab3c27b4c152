//! In which order the sources of a join are met: the order whose loops meet the fewest rows, by
//! estimate.
//!
//! Up to [`EXHAUSTIVE_MAX`] sources all orders are weighed; beyond, the next source is always the
//! one that looks best then. Among equals, the order in which the sources are written stays, and so
//! it does where there are too many conditions to weigh.

use super::access::choose;
use super::context::PlanContext;
use super::estimate::{ROWS_UNKNOWN, access_rows, selectivity};
use super::pending::{PendingInput, PendingSource};
use super::{Reached, hash};
use ferrite_expr::Expr;
use ferrite_plan::walk::{for_each_expr, for_each_slot};

/// All subsets of this many sources are 128.
const EXHAUSTIVE_MAX: usize = 7;
/// Conditions that are looked at while orders are weighed: beyond, the order in which the sources
/// are written stays. Some tenths of a second; 64 tables may have a thousand conditions.
const WEIGHED_MAX: usize = 4_194_304;
/// What building one row of a hash table costs, in rows met.
const BUILD_COST: f64 = 2.0;
/// What finding the place in an index costs.
const LOOKUP_COST: f64 = 1.0;

#[derive(Clone)]
struct Plan {
    order: Vec<usize>,
    cost: f64,
    /// Rows joined so far.
    rows: f64,
}

pub(super) fn arranged(
    context: &PlanContext<'_>,
    pending: Vec<PendingSource>,
    local: &[u16],
    conjuncts: &[Expr],
) -> Vec<PendingSource> {
    let needed = pending.iter().map(|source| needed_by(context, &pending, source)).collect();
    let search = Search { context, pending: &pending, needed, local, conjuncts };
    let exhaustive = pending.len() <= EXHAUSTIVE_MAX;
    let steps = if exhaustive { pending.len() << pending.len() } else { pending.len() * pending.len() };
    if steps * conjuncts.len() > WEIGHED_MAX {
        return pending;
    }
    let order = if exhaustive { search.exhaustively() } else { search.greedily() };
    let mut pending: Vec<Option<PendingSource>> = pending.into_iter().map(Some).collect();
    order.into_iter().filter_map(|position| pending[position].take()).collect()
}

struct Search<'s, 'c> {
    context: &'s PlanContext<'c>,
    pending: &'s [PendingSource],
    /// For each source the ones that it is computed from, bit by bit: they come before it.
    needed: Vec<u64>,
    local: &'s [u16],
    conjuncts: &'s [Expr],
}

/// The sources that a LATERAL one refers to.
fn needed_by(context: &PlanContext<'_>, pending: &[PendingSource], source: &PendingSource) -> u64 {
    let mut needed = 0;
    if let PendingInput::Derived { query, correlated: true } = &source.input {
        for_each_expr(query, &mut |expr| {
            for_each_slot(expr, &context.subqueries, &mut |slot| {
                let place = pending.iter().position(|other| other.slot == slot);
                needed |= place.map_or(0, |place| 1_u64 << place);
            });
        });
    }
    needed
}

const _: () = assert!(ferrite_base::limits::JOIN_TABLES_MAX <= u64::BITS as usize);

impl Search<'_, '_> {
    fn exhaustively(&self) -> Vec<usize> {
        let count = self.pending.len();
        let mut best: Vec<Option<Plan>> = vec![None; 1 << count];
        best[0] = Some(Plan { order: Vec::new(), cost: 0.0, rows: 1.0 });
        for joined in 0..best.len() {
            let Some(plan) = best[joined].clone() else { continue };
            let open = (0..count).filter(|next| joined & (1 << next) == 0);
            for next in open.filter(|next| self.needed[*next] & !(joined as u64) == 0) {
                let longer = self.with(&plan, next);
                let place = &mut best[joined | 1 << next];
                if place.as_ref().is_none_or(|known| better(&longer, known)) {
                    *place = Some(longer);
                }
            }
        }
        best.pop().flatten().map(|plan| plan.order).unwrap_or_default()
    }

    fn greedily(&self) -> Vec<usize> {
        let mut plan = Plan { order: Vec::new(), cost: 0.0, rows: 1.0 };
        while plan.order.len() < self.pending.len() {
            let joined = plan.order.iter().fold(0_u64, |joined, place| joined | 1 << place);
            let open = (0..self.pending.len()).filter(|next| !plan.order.contains(next));
            let open = open.filter(|next| self.needed[*next] & !joined == 0);
            let longer = open.map(|next| self.with(&plan, next));
            let best = longer.reduce(|best, other| if better(&other, &best) { other } else { best });
            plan = best.expect("a source is left");
        }
        plan.order
    }

    /// The plan with one more source.
    fn with(&self, plan: &Plan, next: usize) -> Plan {
        let source = &self.pending[next];
        let bound: Vec<u16> = plan.order.iter().map(|position| self.pending[*position].slot).collect();
        let reached = Reached { local: self.local, bound: &bound, subqueries: &self.context.subqueries };
        let before = plan.rows;
        let mut consumed = Vec::new();
        let (cost, found) = match &source.input {
            PendingInput::Table(table) => {
                let rows = self.context.rows(table);
                let choice = choose(table, source.slot, self.conjuncts, &reached);
                if hash::is_better(source.slot, &choice, self.conjuncts, &reached) {
                    self.hashed(source.slot, rows, before, &reached, &mut consumed)
                } else {
                    let found = access_rows(self.context.statistics, table, &choice.access, rows);
                    consumed = choice.consumed;
                    (before * (LOOKUP_COST + found), found)
                }
            }
            // A derived table that depends on rows before it runs again for each of them.
            PendingInput::Derived { correlated: true, .. } => (before * ROWS_UNKNOWN, ROWS_UNKNOWN),
            PendingInput::Working { .. } => (before * ROWS_UNKNOWN, ROWS_UNKNOWN),
            _ => {
                if hash::keys(source.slot, self.conjuncts, &reached).is_empty() {
                    (ROWS_UNKNOWN + before * ROWS_UNKNOWN, ROWS_UNKNOWN)
                } else {
                    let (cost, found) = self.hashed(source.slot, ROWS_UNKNOWN, before, &reached, &mut consumed);
                    (ROWS_UNKNOWN + cost, found)
                }
            }
        };
        let rows = before * found * self.decided(&bound, source.slot, &consumed);
        let mut order = plan.order.clone();
        order.push(next);
        Plan { order, cost: plan.cost + cost, rows: rows.max(f64::MIN_POSITIVE) }
    }

    /// Cost and rows found per row before, when the source is behind a hash table.
    fn hashed(
        &self,
        slot: u16,
        rows: f64,
        before: f64,
        reached: &Reached<'_>,
        consumed: &mut Vec<usize>,
    ) -> (f64, f64) {
        let keys = hash::keys(slot, self.conjuncts, reached);
        let mut found = rows;
        for key in &keys {
            consumed.push(key.position);
            // Each value of the side that has more of them is on the other side too.
            found /= self.distinct(key.probed).max(rows.powf(2.0 / 3.0)).max(1.0);
        }
        (BUILD_COST * rows + before * (1.0 + found), found)
    }

    /// How many values an expression has: as many as rows for a unique column.
    fn distinct(&self, expr: &Expr) -> f64 {
        let Expr::Column { slot, column } = expr else { return 1.0 };
        let source = self.pending.iter().find(|source| source.slot == *slot);
        let Some(PendingInput::Table(table)) = source.map(|source| &source.input) else { return 1.0 };
        let rows = self.context.rows(table);
        let key = [Expr::column(0, *column)];
        let unique = table.indexes.iter().any(|index| index.unique && index.keys == key && index.predicate.is_none());
        if unique { rows } else { rows.powf(2.0 / 3.0) }
    }

    /// The part of the rows that passes the conditions that can be decided now and could not
    /// before.
    fn decided(&self, bound: &[u16], slot: u16, consumed: &[usize]) -> f64 {
        let mut after = bound.to_vec();
        after.push(slot);
        let subqueries = &self.context.subqueries;
        let before = Reached { local: self.local, bound, subqueries };
        let now = Reached { local: self.local, bound: &after, subqueries };
        let conditions = self.conjuncts.iter().enumerate();
        conditions
            .filter(|(position, expr)| !consumed.contains(position) && now.reaches(expr) && !before.reaches(expr))
            .map(|(_, expr)| selectivity(expr, ROWS_UNKNOWN))
            .product()
    }
}

/// Clearly better: rounding decides nothing.
fn better(plan: &Plan, than: &Plan) -> bool {
    plan.cost < than.cost * 0.999
}
