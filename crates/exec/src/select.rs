//! A SELECT block: joined rows, grouped if asked, become output rows, distinct if asked.

use crate::evaluator::Evaluator;
use crate::row_table::RowTable;
use crate::rows::{Emit, Flow, OutputRow};
use ferrite_base::UserResult;
use ferrite_expr::Expr;
use ferrite_plan::Select;

impl<'s> Evaluator<'s> {
    /// `visible`: how many of the output columns count for DISTINCT (the hidden ones behind them
    /// only serve ORDER BY). `order`: the rows are wanted in this order, in which each store has
    /// them by itself.
    pub(crate) fn run_select(
        &self,
        select: &'s Select,
        visible: usize,
        order: &[(&'s Expr, bool)],
        emit: Emit<'_, 's>,
    ) -> UserResult<Flow> {
        let mut distinct = select.distinct.then(|| RowTable::new(visible));
        let mut row = OutputRow::new();
        let mut deliver = || {
            row.clear();
            for expression in &select.output {
                row.push(self.evaluate(expression)?);
            }
            if let Some(seen) = &mut distinct {
                if !seen.insert(&row[..visible]).1 {
                    return Ok(Flow::More);
                }
                self.charge(seen.row_bytes())?;
            }
            emit(&row)
        };
        let flow = match &select.windowing {
            None if !order.is_empty() => self.joined_rows_in_order(select, order, &mut deliver),
            None => self.block_rows(select, &mut deliver),
            Some(windowing) => self.windowed_rows(select, windowing, &mut deliver),
        };
        if let Some(seen) = &distinct {
            self.release(seen.len() * seen.row_bytes());
        }
        flow
    }

    /// The block's rows before window functions: joined, and grouped if asked.
    #[inline]
    pub(crate) fn block_rows(
        &self,
        select: &'s Select,
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        match &select.aggregation {
            None => self.joined_rows(select, visit),
            Some(aggregation) => self.grouped_rows(select, aggregation, visit),
        }
    }
}
