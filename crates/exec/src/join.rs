//! The nested loops over a SELECT block's sources: inner, left outer and full outer joins.

use crate::evaluator::Evaluator;
use crate::rows::{Flow, Identity, RowSlot, Rows};
use ferrite_base::UserResult;
use ferrite_expr::Expr;
use ferrite_plan::{Access, Input, JoinKind, Query, QueryBody, Select, Source};
use std::collections::HashSet;

impl<'s> Evaluator<'s> {
    /// Calls `visit` with the slots bound, once for each joined row that passes the block's
    /// conditions.
    #[inline]
    pub(crate) fn joined_rows(
        &self,
        select: &'s Select,
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let sources = &select.sources;
        if let [first, second] = &sources[..]
            && second.join == JoinKind::Full
        {
            return self.full_join(select, first, second, visit);
        }
        self.nested_loop(select, 0, visit)
    }

    /// [`Evaluator::joined_rows`] in the order of `keys`, where each store delivers the first
    /// source's rows in that order.
    pub(crate) fn joined_rows_in_order(
        &self,
        select: &'s Select,
        keys: &[(&'s Expr, bool)],
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let Some(source) = select.sources.first() else { return self.joined_rows(select, visit) };
        let Input::Table { table, access: access @ Access::Range { .. } } = unmeasured(&source.input) else {
            // At most one row, or none of a table.
            return self.joined_rows(select, visit);
        };
        if self.stores_to_read(*table).len() == 1 {
            return self.joined_rows(select, visit);
        }
        let mut next = || {
            if self.passes(&source.filter)? { self.nested_loop(select, 1, visit) } else { Ok(Flow::More) }
        };
        if !matches!(source.input, Input::Measured(_)) {
            return self.each_merged_row(source.slot, *table, access, keys, &mut next);
        }
        let mut rows = 0;
        let mut elsewhere = 0;
        let start = self.nanoseconds();
        let flow = self.each_merged_row(source.slot, *table, access, keys, &mut || {
            rows += 1;
            let before = self.nanoseconds();
            let flow = next();
            elsewhere += self.nanoseconds() - before;
            flow
        });
        self.measured(source.slot, rows, (self.nanoseconds() - start).saturating_sub(elsewhere));
        flow
    }

    fn nested_loop(
        &self,
        select: &'s Select,
        depth: usize,
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let Some(source) = select.sources.get(depth) else {
            return if self.passes(&select.filter)? { visit() } else { Ok(Flow::More) };
        };
        let mut matched = false;
        let flow = self.each_source_row(source, depth == 0, |_| {
            if !self.passes(&source.on)? {
                return Ok(Flow::More);
            }
            matched = true;
            if self.passes(&source.filter)? { self.nested_loop(select, depth + 1, visit) } else { Ok(Flow::More) }
        })?;
        if flow == Flow::Enough || matched || source.join == JoinKind::Inner {
            return Ok(flow);
        }
        self.bind(source.slot, RowSlot::Null);
        if self.passes(&source.filter)? { self.nested_loop(select, depth + 1, visit) } else { Ok(Flow::More) }
    }

    /// Binds the source's slot to each of its rows in turn. The `first` source of a block is read
    /// once.
    #[inline]
    fn each_source_row(
        &self,
        source: &'s Source,
        first: bool,
        mut visit: impl FnMut(Identity) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        match &source.input {
            Input::Table { table, access } => {
                self.each_row(*table, access, self.stores_to_read(*table), |store, id, row| {
                    self.bind(source.slot, RowSlot::Stored(row));
                    visit(Identity::from(store) << 32 | Identity::from(id.0))
                })
            }
            Input::Derived { query, correlated: false }
                if first && matches!(query.body, QueryBody::Recursive { .. } | QueryBody::Series { .. }) =>
            {
                // Row by row, so that a LIMIT outside ends it.
                let mut position = 0;
                self.run_query(query, &mut |row| {
                    self.tick()?;
                    self.bind_computed(source.slot, row);
                    position += 1;
                    visit(position)
                })
            }
            input => self.each_input_row(source.slot, input, &mut visit),
        }
    }

    /// [`Evaluator::each_source_row`] for any input.
    pub(crate) fn each_input_row(
        &self,
        slot: u16,
        input: &'s Input,
        visit: &mut dyn FnMut(Identity) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        match input {
            Input::Table { table, access } => {
                self.each_row(*table, access, self.stores_to_read(*table), |store, id, row| {
                    self.bind(slot, RowSlot::Stored(row));
                    visit(Identity::from(store) << 32 | Identity::from(id.0))
                })
            }
            Input::Derived { query, correlated } => {
                self.each_computed_row(slot, self.derived_rows(slot, query, *correlated)?, visit)
            }
            Input::Common { table } => self.each_computed_row(slot, self.common_rows(*table)?, visit),
            Input::Working { slot: working } => {
                self.each_computed_row(slot, self.derived_cache(*working).get().unwrap_or_default(), visit)
            }
            Input::One => {
                self.bind(slot, RowSlot::Computed(&[]));
                visit(0)
            }
            Input::Hashed(hashed) => self.each_hashed_row(slot, hashed, visit),
            Input::Measured(input) => self.each_measured_row(slot, input, visit),
        }
    }

    fn each_computed_row(
        &self,
        slot: u16,
        rows: Rows<'s>,
        visit: &mut dyn FnMut(Identity) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        for (position, row) in rows.iter().enumerate() {
            self.tick()?;
            self.bind(slot, RowSlot::Computed(row));
            if visit(position as Identity)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    /// The rows of an input, counted and timed for EXPLAIN ANALYZE.
    #[inline(never)]
    fn each_measured_row(
        &self,
        slot: u16,
        input: &'s Input,
        visit: &mut dyn FnMut(Identity) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let mut rows = 0;
        let mut elsewhere = 0;
        let start = self.nanoseconds();
        let flow = self.each_input_row(slot, input, &mut |identity| {
            rows += 1;
            let before = self.nanoseconds();
            let flow = visit(identity);
            elsewhere += self.nanoseconds() - before;
            flow
        });
        self.measured(slot, rows, (self.nanoseconds() - start).saturating_sub(elsewhere));
        flow
    }

    /// One loop of a source is over.
    fn measured(&self, slot: u16, rows: u64, nanoseconds: u64) {
        if let Some(measure) = self.measures.borrow_mut().get_mut(usize::from(slot)) {
            measure.loops += 1;
            measure.rows += rows;
            measure.nanoseconds += nanoseconds;
        }
    }

    /// A derived table's rows: computed once per statement, or each time if they depend on the rows
    /// bound before.
    fn derived_rows(&self, slot: u16, query: &'s Query, correlated: bool) -> UserResult<Rows<'s>> {
        if correlated {
            return self.materialize(query);
        }
        let cache = self.derived_cache(slot);
        if let Some(rows) = cache.get() {
            return Ok(rows);
        }
        let rows = self.materialize(query)?;
        cache.set(Some(rows));
        Ok(rows)
    }

    /// Conditions of WHERE that the plan hung on the first source wait here until the join is done:
    /// a row that fails them still matches, and so keeps its partner from appearing with NULLs.
    fn full_join(
        &self,
        select: &'s Select,
        first: &'s Source,
        second: &'s Source,
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let mut deliver = || {
            let passes = self.passes(&first.filter)? && self.passes(&second.filter)? && self.passes(&select.filter)?;
            if passes { visit() } else { Ok(Flow::More) }
        };
        let mut matched_second = HashSet::new();
        let flow = self.each_source_row(first, true, |_| {
            let mut matched = false;
            let flow = self.each_source_row(second, false, |identity| {
                if !self.passes(&second.on)? {
                    return Ok(Flow::More);
                }
                matched = true;
                if matched_second.insert(identity) {
                    self.charge(2 * size_of::<Identity>())?;
                }
                deliver()
            })?;
            if matched || flow == Flow::Enough {
                return Ok(flow);
            }
            self.bind(second.slot, RowSlot::Null);
            deliver()
        })?;
        if flow == Flow::Enough {
            return Ok(flow);
        }
        self.bind(first.slot, RowSlot::Null);
        // The access path and the hash table found partners; here every row counts.
        let mut unmatched = |identity| if matched_second.contains(&identity) { Ok(Flow::More) } else { deliver() };
        let input = match unmeasured(&second.input) {
            Input::Hashed(hashed) => &hashed.input,
            input => input,
        };
        match unmeasured(input) {
            Input::Table { table, .. } => {
                self.each_row(*table, &Access::Scan, self.stores_to_read(*table), |store, id, row| {
                    self.bind(second.slot, RowSlot::Stored(row));
                    unmatched(Identity::from(store) << 32 | Identity::from(id.0))
                })
            }
            input => self.each_input_row(second.slot, input, &mut unmatched),
        }
    }
}

/// The input itself, where it is counted and timed.
pub(crate) fn unmeasured(input: &Input) -> &Input {
    match input {
        Input::Measured(input) => unmeasured(input),
        input => input,
    }
}
