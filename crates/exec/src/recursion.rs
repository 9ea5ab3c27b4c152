//! WITH: tables that are computed once, and recursion in rounds.

use crate::evaluator::Evaluator;
use crate::row_table::RowTable;
use crate::rows::{Emit, Flow, Rows};
use ferrite_base::{UserError, UserResult, limits};
use ferrite_expr::Context;
use ferrite_plan::Query;
use ferrite_value::Value;

impl<'s> Evaluator<'s> {
    /// The rows of a table of WITH, computed when they are first asked for.
    pub(crate) fn common_rows(&self, table: u16) -> UserResult<Rows<'s>> {
        let cache = self.common_cache(table);
        if let Some(rows) = cache.get() {
            return Ok(rows);
        }
        let rows = self.materialize(&self.program.common_tables[table as usize])?;
        cache.set(Some(rows));
        Ok(rows)
    }

    /// Emits the rows of `first`, then those of each round.
    pub(crate) fn run_recursion(
        &self,
        working: u16,
        all: bool,
        first: &'s Query,
        step: &'s Query,
        emit: Emit<'_, 's>,
    ) -> UserResult<Flow> {
        let mut seen = (!all).then(|| RowTable::new(first.columns.len()));
        let mut query = first;
        for _ in 0..limits::RECURSION_ROUNDS_MAX {
            let mut rows = Vec::new();
            let flow = self.run_query(query, &mut |row| {
                if let Some(seen) = &mut seen {
                    if !seen.insert(row).1 {
                        return Ok(Flow::More);
                    }
                    self.charge(seen.row_bytes())?;
                }
                let row: &'s [Value<'s>] = self.keep(row)?;
                rows.push(row);
                emit(row)
            })?;
            if flow == Flow::Enough || rows.is_empty() {
                return Ok(flow);
            }
            self.tick()?;
            self.derived_cache(working).set(Some(self.arena().alloc_slice_copy(&rows)));
            query = step;
        }
        Err(UserError::limit(format!("WITH RECURSIVE took more than {} rounds", limits::RECURSION_ROUNDS_MAX))
            .with_hint("let a condition in its step end it, or use UNION instead of UNION ALL where rows come again"))
    }
}
