//! Queries: a body's rows, ordered, cut by OFFSET and LIMIT; VALUES lists and set operations.

use crate::evaluator::Evaluator;
use crate::row_table::RowTable;
use crate::rows::{Emit, Flow, OutputRow, PartResult, Rows};
use crate::series;
use crate::sorting::Sorter;
use crate::subquery::plain_lookup;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{Context, Expr};
use ferrite_plan::{Query, QueryBody, SetOperator, SortKey};
use ferrite_value::Value;
use smallvec::SmallVec;

impl<'s> Evaluator<'s> {
    /// Calls `emit` with the visible columns of each result row. Enough when `emit` said so; having
    /// reached the query's own limit is not.
    pub(crate) fn run_query(&self, query: &'s Query, emit: Emit<'_, 's>) -> UserResult<Flow> {
        self.set_repeats();
        if query.order_by.is_empty()
            && let Some(lookup) = plain_lookup(query)
        {
            return self.emit_matches(&lookup, emit);
        }
        let offset = self.row_count(&query.offset, "OFFSET")?.unwrap_or(0);
        let limit = self.row_count(&query.limit, "LIMIT")?;
        if limit == Some(0) {
            return Ok(Flow::More);
        }
        let visible = query.columns.len();
        if query.order_by.is_empty() || query.presorted {
            return self.run_unsorted(query, offset, limit, visible, emit);
        }
        let wanted = limit.map(|limit| limit.saturating_add(offset));
        let mut sorter = Sorter::new(&query.order_by, wanted);
        match self.prepared_rows(query) {
            Some((width, values)) => values.chunks_exact(width).try_for_each(|row| sorter.push(&self.meter, row))?,
            None => {
                self.run_body(query, &mut |row| {
                    sorter.push(&self.meter, row)?;
                    Ok(Flow::More)
                })?;
            }
        }
        let mut flow = Flow::More;
        for position in sorter.sorted(&self.meter)?.into_iter().skip(offset) {
            flow = emit(&sorter.row(position)[..visible])?;
            if flow == Flow::Enough {
                break;
            }
        }
        self.release(sorter.bytes());
        Ok(flow)
    }

    /// The first rows of each store, and how wide they are.
    fn prepared_rows(&self, query: &Query) -> Option<(usize, &'s [Value<'s>])> {
        let QueryBody::Select(select) = &query.body else { return None };
        self.prepared.iter().find_map(|prepared| match &prepared.result {
            PartResult::Rows { width, values } if std::ptr::eq(prepared.select, &**select) => {
                Some((*width, &values[..]))
            }
            _ => None,
        })
    }

    fn run_unsorted(
        &self,
        query: &'s Query,
        offset: usize,
        limit: Option<usize>,
        visible: usize,
        emit: Emit<'_, 's>,
    ) -> UserResult<Flow> {
        if offset == 0 && limit.is_none() {
            return self.run_body(query, &mut |row| emit(&row[..visible]));
        }
        let mut to_skip = offset;
        let mut left = limit.unwrap_or(usize::MAX);
        let mut flow = Flow::More;
        self.run_body(query, &mut |row| {
            if to_skip > 0 {
                to_skip -= 1;
                return Ok(Flow::More);
            }
            flow = emit(&row[..visible])?;
            left -= 1;
            Ok(if left == 0 { Flow::Enough } else { flow })
        })?;
        Ok(flow)
    }

    /// Rows of the body in any order, hidden columns included.
    #[inline]
    fn run_body(&self, query: &'s Query, emit: Emit<'_, 's>) -> UserResult<Flow> {
        match &query.body {
            QueryBody::Select(select) if query.presorted && self.stores.len() > 1 => {
                let key = |key: &SortKey| (&select.output[key.column as usize], key.descending);
                let keys: SmallVec<[_; 4]> = query.order_by.iter().map(key).collect();
                self.run_select(select, query.columns.len(), &keys, emit)
            }
            QueryBody::Select(select) => self.run_select(select, query.columns.len(), &[], emit),
            QueryBody::Values(rows) => self.run_values(rows, emit),
            QueryBody::Series { start, stop, step } => {
                series::run(self.evaluate(start)?, self.evaluate(stop)?, self.evaluate(step)?, emit)
            }
            QueryBody::Recursive { working, all, first, step } => self.run_recursion(*working, *all, first, step, emit),
            QueryBody::SetOperation { operator, all, left, right } => {
                self.run_set_operation(*operator, *all, left, right, emit)
            }
        }
    }

    fn run_values(&self, rows: &'s [Vec<Expr>], emit: Emit<'_, 's>) -> UserResult<Flow> {
        let mut row = OutputRow::new();
        for expressions in rows {
            row.clear();
            for expression in expressions {
                row.push(self.evaluate(expression)?);
            }
            if emit(&row)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    fn run_set_operation(
        &self,
        operator: SetOperator,
        all: bool,
        left: &'s Query,
        right: &'s Query,
        emit: Emit<'_, 's>,
    ) -> UserResult<Flow> {
        match (operator, all) {
            (SetOperator::Union, true) => {
                if self.run_query(left, emit)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
                self.run_query(right, emit)
            }
            (SetOperator::Union, false) => {
                let mut seen = RowTable::new(left.columns.len());
                let mut emit_new = |row: &[Value<'s>]| {
                    if !seen.insert(row).1 {
                        return Ok(Flow::More);
                    }
                    self.charge(seen.row_bytes())?;
                    emit(row)
                };
                if self.run_query(left, &mut emit_new)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
                self.run_query(right, &mut emit_new)
            }
            (SetOperator::Intersect | SetOperator::Except, _) => {
                self.run_intersect_or_except(operator == SetOperator::Intersect, all, left, right, emit)
            }
        }
    }

    /// The right side is counted, the left side streams against the counts.
    fn run_intersect_or_except(
        &self,
        intersect: bool,
        all: bool,
        left: &'s Query,
        right: &'s Query,
        emit: Emit<'_, 's>,
    ) -> UserResult<Flow> {
        let mut table = RowTable::new(left.columns.len());
        let mut counts: Vec<u64> = Vec::new();
        self.run_query(right, &mut |row| {
            let (position, new) = table.insert(row);
            if new {
                self.charge(table.row_bytes())?;
                counts.push(0);
            }
            counts[position] += 1;
            Ok(Flow::More)
        })?;
        self.run_query(left, &mut |row| {
            let wanted = match (intersect, all) {
                // Each row of the right side answers for one of the left.
                (_, true) => {
                    let partner = table.find(row).filter(|position| counts[*position] > 0);
                    if let Some(position) = partner {
                        counts[position] -= 1;
                    }
                    partner.is_some() == intersect
                }
                // Taken out by the first of its kind, so that it is emitted once.
                (true, false) => table.find(row).is_some_and(|position| std::mem::take(&mut counts[position]) > 0),
                // What was emitted joins the right side, for the same reason.
                (false, false) => {
                    let (_, new) = table.insert(row);
                    if new {
                        self.charge(table.row_bytes())?;
                        counts.push(0);
                    }
                    new
                }
            };
            if wanted { emit(row) } else { Ok(Flow::More) }
        })
    }

    /// All rows, held until the transaction's end.
    pub(crate) fn materialize(&self, query: &'s Query) -> UserResult<Rows<'s>> {
        let mut rows = Vec::new();
        self.run_query(query, &mut |row| {
            rows.push(self.keep(row)?);
            Ok(Flow::More)
        })?;
        Ok(self.arena().alloc_slice_copy(&rows))
    }

    /// The value of a LIMIT or OFFSET; None where there is none.
    pub(crate) fn row_count(&self, expression: &'s Option<Expr>, clause: &str) -> UserResult<Option<usize>> {
        let Some(expression) = expression else { return Ok(None) };
        match self.evaluate(expression)? {
            Value::Integer(count) if count >= 0 => Ok(Some(usize::try_from(count).unwrap_or(usize::MAX))),
            Value::Null => Err(UserError::data("2201W", format!("{clause} must not be NULL"))
                .with_hint("pass a number of rows, or leave the clause out")),
            Value::Integer(count) => Err(UserError::data("2201W", format!("{clause} must not be negative"))
                .with_detail(format!("it is {count}"))),
            other => {
                Err(UserError::data("2201W", format!("{clause} must be a whole number, not {}", other.kind_name())))
            }
        }
    }
}
