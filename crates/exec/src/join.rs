//! The nested loops over a SELECT block's sources: inner, left outer and full outer joins.

use crate::access::Flow;
use crate::frame::{Frame, RowSlot};
use ferrite_base::UserResult;
use ferrite_sql::plan::{Access, Input, JoinKind, QueryBody, Select, Source};
use ferrite_value::Value;
use std::collections::HashSet;

/// Rows of a derived table, held in the arena.
pub(crate) type Rows<'s> = &'s [&'s [Value<'s>]];

/// A source row's identity within its source.
type Identity = u64;

impl<'s> Frame<'s> {
    /// Calls `visit` with the slots bound, once for each joined row that passes the block's conditions.
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

    /// Binds the source's slot to each of its rows in turn. The `first` source of a block is read once.
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
                if first && matches!(query.body, QueryBody::Recursive { .. }) =>
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
            Input::Derived { .. } | Input::Common { .. } | Input::Working { .. } => {
                for (position, row) in self.derived_rows(source)?.iter().enumerate() {
                    self.tick()?;
                    self.bind(source.slot, RowSlot::Computed(row));
                    if visit(position as Identity)? == Flow::Enough {
                        return Ok(Flow::Enough);
                    }
                }
                Ok(Flow::More)
            }
            Input::One => {
                self.bind(source.slot, RowSlot::Computed(&[]));
                visit(0)
            }
        }
    }

    /// A derived table's rows: computed once per statement, or each time if they depend on the rows bound before.
    fn derived_rows(&self, source: &'s Source) -> UserResult<Rows<'s>> {
        let (query, correlated) = match &source.input {
            Input::Derived { query, correlated } => (query, correlated),
            Input::Common { table } => return self.common_rows(*table),
            Input::Working { slot } => return Ok(self.derived_cache(*slot).get().unwrap_or_default()),
            _ => unreachable!("asked for derived tables only"),
        };
        if *correlated {
            return self.materialize(query);
        }
        let cache = self.derived_cache(source.slot);
        if let Some(rows) = cache.get() {
            return Ok(rows);
        }
        let rows = self.materialize(query)?;
        cache.set(Some(rows));
        Ok(rows)
    }

    /// Conditions of WHERE that the plan hung on the first source wait here until the join is done: a row that fails them
    /// still matches, and so keeps its partner from appearing with NULLs.
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
        let mut unmatched = |identity| if matched_second.contains(&identity) { Ok(Flow::More) } else { deliver() };
        match &second.input {
            // The access path found partners; here every row counts.
            Input::Table { table, .. } => {
                self.each_row(*table, &Access::Scan, self.stores_to_read(*table), |store, id, row| {
                    self.bind(second.slot, RowSlot::Stored(row));
                    unmatched(Identity::from(store) << 32 | Identity::from(id.0))
                })
            }
            _ => self.each_source_row(second, false, unmatched),
        }
    }
}
