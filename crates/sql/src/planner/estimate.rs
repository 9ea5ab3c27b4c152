//! How many rows a plan's parts deliver, by simple rules from the tables' row counts, and for a
//! range whose bounds are constants from a sample of the rows. Estimates rank plans and are shown
//! by EXPLAIN; no answer depends on them.

use ferrite_base::TableId;
use ferrite_catalog::Table;
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::{Access, Bound, KeyList};
use ferrite_value::OwnedValue;

/// What the planner may know of the data. Counts may be old or missing: a plan is right whatever
/// they are.
pub trait Statistics {
    /// Rows of the table, over all partitions.
    fn rows(&self, table: TableId) -> Option<u64>;
    /// Over how many partitions the rows of partitioned tables are spread.
    fn partitions(&self) -> u64 {
        1
    }
    /// The part of the table's rows, from 0 to 1, whose value of a column lies between the bounds.
    /// None: nothing is known.
    fn part_between(
        &self,
        _: TableId,
        _column: u16,
        _lower: Option<&OwnedValue>,
        _upper: Option<&OwnedValue>,
    ) -> Option<f64> {
        None
    }
    /// The part of the rows that a bound leaves whose value is this parameter. None: nothing is
    /// known.
    fn part_by_parameter(&self, _parameter: u16) -> Option<f64> {
        None
    }
}

/// Nothing is known: how procedures are compiled, whose plans stand for as long as the schema does.
pub struct NoStatistics;

impl Statistics for NoStatistics {
    fn rows(&self, _: TableId) -> Option<u64> {
        None
    }
}

/// Rows of a table that nothing is known of.
pub(crate) const ROWS_UNKNOWN: f64 = 1_000.0;
const ONE_BOUND: f64 = 1.0 / 3.0;
const TWO_BOUNDS: f64 = 1.0 / 10.0;
const OTHER_CONDITION: f64 = 1.0 / 3.0;
/// Elements of an array parameter.
const ARRAY_VALUES: f64 = 5.0;
/// Values that the subquery of an IN answers.
const SUBQUERY_VALUES: f64 = 100.0;

/// Rows that one evaluation of `access` delivers, of a table of `rows`.
pub(crate) fn access_rows(statistics: &dyn Statistics, table: &Table, access: &Access, rows: f64) -> f64 {
    let unique = |index, keys: usize| table.index(index).is_some_and(|index| index.unique && keys >= index.keys.len());
    let found = |index, keys: usize| if unique(index, keys) { 1.0 } else { rows * equalities(keys, rows) };
    let found = match access {
        Access::Scan => rows,
        Access::Lookup { index, keys } => found(*index, keys.len()),
        Access::Range { index, equal, lower, upper, .. } => {
            let column = match table.index(*index).and_then(|index| index.keys.get(equal.len())) {
                Some(Expr::Column { column, .. }) => Some(*column),
                _ => None,
            };
            let known = column.and_then(|column| part_of_range(statistics, table.id, column, lower, upper));
            let bounds = known.unwrap_or(match (lower, upper) {
                (None, None) => 1.0,
                (Some(_), Some(_)) => TWO_BOUNDS,
                _ => ONE_BOUND,
            });
            found(*index, equal.len()) * bounds
        }
        Access::Lookups { index, before, list, after } => {
            let values = match list {
                KeyList::Values(values) => values.len() as f64,
                KeyList::Array(_) => ARRAY_VALUES,
                KeyList::Subquery(_) => SUBQUERY_VALUES,
            };
            found(*index, before.len() + 1 + after.len()) * values
        }
        Access::Extreme { .. } => 1.0,
    };
    found.min(rows).max(rows.min(1.0))
}

/// The part of the rows that bounds on a column leave, if something is known of the column and of
/// one of the bounds.
fn part_of_range(
    statistics: &dyn Statistics,
    table: TableId,
    column: u16,
    lower: &Option<Bound>,
    upper: &Option<Bound>,
) -> Option<f64> {
    let constant = |bound: &Option<Bound>| match bound.as_ref().map(|bound| &bound.value) {
        Some(Expr::Constant(value)) => Some(value.clone()),
        _ => None,
    };
    let least = constant(lower);
    let greatest = constant(upper);
    let part = statistics.part_between(table, column, least.as_ref(), greatest.as_ref())?;
    let mut others = 1.0;
    let mut is_known = least.is_some() || greatest.is_some();
    for bound in [lower, upper].into_iter().flatten() {
        let known = match bound.value {
            Expr::Constant(_) => Some(1.0),
            Expr::Parameter(index) => statistics.part_by_parameter(index),
            _ => None,
        };
        is_known |= known.is_some();
        others *= known.unwrap_or(ONE_BOUND);
    }
    is_known.then_some(part * others)
}

/// The part of the rows that equalities on this many columns leave: values are thought to be fewer
/// than rows, the more so the more rows there are (the two thirds power: 100 values in 1,000 rows).
fn equalities(count: usize, rows: f64) -> f64 {
    rows.max(1.0).powf(-2.0 / 3.0 * count as f64).max(1.0 / rows.max(1.0))
}

/// The part of `rows` that a condition lets pass.
pub(crate) fn selectivity(condition: &Expr, rows: f64) -> f64 {
    match condition {
        Expr::And(parts) => parts.iter().map(|part| selectivity(part, rows)).product(),
        Expr::Or(parts) => parts.iter().map(|part| selectivity(part, rows)).sum::<f64>().min(1.0),
        Expr::Compare { operator: CompareOperator::Equal, .. } => equalities(1, rows),
        Expr::InList { list, negated: false, .. } => (list.len() as f64 * equalities(1, rows)).min(1.0),
        Expr::Compare { operator: CompareOperator::NotEqual, .. } | Expr::IsNull { negated: true, .. } => 1.0,
        _ => OTHER_CONDITION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_never_add_rows() {
        for rows in [0.0, 1.0, 10.0, 1e9] {
            assert!((0.0..=1.0).contains(&equalities(1, rows)));
            assert!(equalities(2, rows) <= equalities(1, rows));
            let either = Expr::Or(vec![Expr::null(), Expr::null(), Expr::null(), Expr::null()].into());
            assert_eq!(selectivity(&either, rows), 1.0);
        }
    }
}
