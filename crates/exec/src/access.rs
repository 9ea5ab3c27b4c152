//! How a source's rows are found: which stores hold them, and the scan, lookup or range over each.

use crate::evaluator::Evaluator;
use crate::rows::{Flow, RowSlot};
use ferrite_base::{IndexId, RowId, TableId, UserResult};
use ferrite_expr::Expr;
use ferrite_plan::{Access, Bound, KeyList};
use ferrite_table::RowRef;
use ferrite_value::{Value, compare};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Range;

/// Rows that are read, one after the other, in the time of one look-up.
const SCANNED_PER_LOOKUP: u64 = 4;

/// What putting a value of a list in order is, in units of work.
const LISTED_WORK: usize = 128;

type Keys<'s> = SmallVec<[Value<'s>; 4]>;

/// A stretch of an ordered index: first keys, and the bounds of the next with whether they are
/// inclusive.
struct Stretch<'s> {
    equal: Keys<'s>,
    lower: Option<(Value<'s>, bool)>,
    upper: Option<(Value<'s>, bool)>,
}

impl Stretch<'_> {
    /// It has no bounds: reading all rows is faster.
    fn is_everything(&self) -> bool {
        self.equal.is_empty() && self.lower.is_none() && self.upper.is_none()
    }
}

impl<'s> Evaluator<'s> {
    /// Positions of the stores that together hold each row of the table once: all for a partitioned
    /// table, one for a replicated one.
    #[inline]
    pub(crate) fn stores_to_read(&self, table: TableId) -> Range<usize> {
        let count = self.stores.len();
        if count == 1 || !self.stores[0].table(table).definition().is_partitioned() { 0..1 } else { 0..count }
    }

    /// Calls `visit` for each row, with its store's position and its id there.
    #[inline]
    pub(crate) fn each_row(
        &self,
        table: TableId,
        access: &'s Access,
        stores: Range<usize>,
        mut visit: impl FnMut(u32, RowId, RowRef<'s>) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        match access {
            Access::Lookup { index, keys } => return self.each_looked_up(table, *index, keys, stores, visit),
            Access::Scan => {
                for position in stores {
                    let rows = self.stores[position].table(table);
                    for id in rows.scan() {
                        self.tick()?;
                        if visit(position as u32, id, rows.row(id))? == Flow::Enough {
                            return Ok(Flow::Enough);
                        }
                    }
                }
            }
            Access::Range { index, equal, lower, upper, descending } => {
                let Some(stretch) = self.stretch(equal, lower, upper)? else { return Ok(Flow::More) };
                if lower.is_some() && stretch.is_everything() {
                    return self.each_row(table, &Access::Scan, stores, visit);
                }
                for position in stores {
                    let rows = self.stores[position].table(table);
                    for id in rows.range(*index, &stretch.equal, stretch.lower, stretch.upper, *descending) {
                        self.tick()?;
                        if visit(position as u32, id, rows.row(id))? == Flow::Enough {
                            return Ok(Flow::Enough);
                        }
                    }
                }
            }
            Access::Lookups { .. } | Access::Extreme { .. } => {
                return self.each_rarer_row(table, access, stores, &mut visit);
            }
        }
        Ok(Flow::More)
    }

    #[inline(never)]
    fn each_rarer_row(
        &self,
        table: TableId,
        access: &'s Access,
        stores: Range<usize>,
        visit: &mut dyn FnMut(u32, RowId, RowRef<'s>) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        match access {
            Access::Lookups { index, before, list: KeyList::Subquery(number), after } => {
                let found = self.values_to_look_up(*number)?;
                let values = found.values();
                let rows: u64 = stores.clone().map(|position| self.stores[position].table(table).row_count()).sum();
                if values.len() as u64 > rows / SCANNED_PER_LOOKUP {
                    return self.each_row(table, &Access::Scan, stores, visit);
                }
                let (Some(before), Some(after)) = (self.keys(before)?, self.keys(after)?) else {
                    return Ok(Flow::More);
                };
                for position in 0..values.len() {
                    let value = values.row(position)[0];
                    let keys: Keys<'s> = before.iter().copied().chain([value]).chain(after.iter().copied()).collect();
                    if self.each_found(table, *index, &keys, stores.clone(), &mut *visit)? == Flow::Enough {
                        return Ok(Flow::Enough);
                    }
                }
            }
            Access::Lookups { index, before, list, after } => {
                let (Some(before), Some(after)) = (self.keys(before)?, self.keys(after)?) else {
                    return Ok(Flow::More);
                };
                for value in self.listed(list)? {
                    let keys: Keys<'s> = before.iter().copied().chain([value]).chain(after.iter().copied()).collect();
                    if self.each_found(table, *index, &keys, stores.clone(), &mut *visit)? == Flow::Enough {
                        return Ok(Flow::Enough);
                    }
                }
            }
            Access::Extreme { index, equal, lower, upper, greatest } => {
                let Some(mut stretch) = self.stretch(equal, lower, upper)? else { return Ok(Flow::More) };
                // NULL is the least key, but nobody's minimum or maximum.
                stretch.lower.get_or_insert((Value::Null, false));
                for position in stores {
                    let rows = self.stores[position].table(table);
                    if let Some(id) = rows.range(*index, &stretch.equal, stretch.lower, stretch.upper, *greatest).next()
                    {
                        self.tick()?;
                        if visit(position as u32, id, rows.row(id))? == Flow::Enough {
                            return Ok(Flow::Enough);
                        }
                    }
                }
            }
            Access::Scan | Access::Lookup { .. } | Access::Range { .. } => unreachable!("they are not rare"),
        }
        Ok(Flow::More)
    }

    /// The rows of a stretch of an index in several stores, each in order, as one run in the order
    /// of `keys`; the row that is visited is bound to `slot`.
    pub(crate) fn each_merged_row(
        &self,
        slot: u16,
        table: TableId,
        access: &'s Access,
        keys: &[(&'s Expr, bool)],
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let Access::Range { index, equal, lower, upper, descending } = access else {
            unreachable!("only a range has an order");
        };
        let Some(stretch) = self.stretch(equal, lower, upper)? else { return Ok(Flow::More) };
        let mut runs: Vec<_> = (self.stores.iter())
            .map(|store| {
                let rows = store.table(table);
                (rows, rows.range(*index, &stretch.equal, stretch.lower, stretch.upper, *descending))
            })
            .collect();
        // Of each run the next row with its keys.
        let mut heads: Vec<Option<(RowRef<'s>, Keys<'s>)>> = Vec::with_capacity(runs.len());
        let head = |row: RowRef<'s>| -> UserResult<(RowRef<'s>, Keys<'s>)> {
            self.tick()?;
            self.bind(slot, RowSlot::Stored(row));
            let values = keys.iter().map(|(key, _)| self.evaluate(key)).collect::<UserResult<Keys<'s>>>()?;
            Ok((row, values))
        };
        for (rows, run) in &mut runs {
            heads.push(run.next().map(|id| head(rows.row(id))).transpose()?);
        }
        let order = |left: &Keys<'s>, right: &Keys<'s>| {
            let pairs = left.iter().zip(right).zip(keys);
            let mut decided = pairs.map(|((left, right), (_, descending))| {
                let ordering = compare::order(left, right);
                if *descending { ordering.reverse() } else { ordering }
            });
            decided.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
        };
        loop {
            let mut next: Option<(usize, &(RowRef<'s>, Keys<'s>))> = None;
            for (run, head) in heads.iter().enumerate() {
                if let Some(head) = head
                    && next.is_none_or(|(_, best)| order(&head.1, &best.1) == Ordering::Less)
                {
                    next = Some((run, head));
                }
            }
            let Some((run, (row, _))) = next else { return Ok(Flow::More) };
            self.bind(slot, RowSlot::Stored(*row));
            if visit()? == Flow::Enough {
                return Ok(Flow::Enough);
            }
            let (rows, ids) = &mut runs[run];
            heads[run] = ids.next().map(|id| head(rows.row(id))).transpose()?;
        }
    }

    /// The values of a list, each once, without NULL.
    fn listed(&self, list: &'s KeyList) -> UserResult<Vec<Value<'s>>> {
        let mut values = match list {
            KeyList::Values(expressions) => {
                expressions.iter().map(|expression| self.evaluate(expression)).collect::<UserResult<Vec<_>>>()?
            }
            KeyList::Array(array) => match self.evaluate(array)? {
                Value::Array(values) => values.to_vec(),
                _ => Vec::new(),
            },
            KeyList::Subquery(_) => unreachable!("its values are not copied"),
        };
        values.retain(|value| !value.is_null());
        self.count_work(values.len() * LISTED_WORK)?;
        values.sort_by(compare::order);
        values.dedup_by(|left, right| compare::equal_grouping(left, right));
        Ok(values)
    }

    /// None when one of the values is NULL: nothing equals it or compares with it.
    fn stretch(
        &self,
        equal: &'s [Expr],
        lower: &'s Option<Bound>,
        upper: &'s Option<Bound>,
    ) -> UserResult<Option<Stretch<'s>>> {
        let Some(equal) = self.keys(equal)? else { return Ok(None) };
        let (Some(mut lower), Some(upper)) = (self.bound_value(lower)?, self.bound_value(upper)?) else {
            return Ok(None);
        };
        if upper.is_some() && lower.is_none() {
            // NULL sorts lowest but is not less than anything.
            lower = Some((Value::Null, false));
        }
        Ok(Some(Stretch { equal, lower, upper }))
    }

    /// [`Evaluator::each_row`] for a lookup.
    #[inline(always)]
    pub(crate) fn each_looked_up(
        &self,
        table: TableId,
        index: IndexId,
        keys: &'s [Expr],
        stores: Range<usize>,
        visit: impl FnMut(u32, RowId, RowRef<'s>) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        if let [key] = keys {
            let key = self.evaluate(key)?;
            return if key.is_null() { Ok(Flow::More) } else { self.each_found(table, index, &[key], stores, visit) };
        }
        match self.keys(keys)? {
            Some(keys) => self.each_found(table, index, &keys, stores, visit),
            None => Ok(Flow::More),
        }
    }

    #[inline]
    fn each_found(
        &self,
        table: TableId,
        index: IndexId,
        key: &[Value<'s>],
        stores: Range<usize>,
        mut visit: impl FnMut(u32, RowId, RowRef<'s>) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        for position in stores {
            let rows = self.stores[position].table(table);
            if let Some(found) = rows.lookup_one(index, key) {
                if let Some(id) = found {
                    self.tick()?;
                    if visit(position as u32, id, rows.row(id))? == Flow::Enough {
                        return Ok(Flow::Enough);
                    }
                }
                continue;
            }
            for id in rows.lookup(index, key) {
                self.tick()?;
                if visit(position as u32, id, rows.row(id))? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
            }
        }
        Ok(Flow::More)
    }

    /// None when one of the keys is NULL: it equals nothing.
    pub(super) fn keys(&self, expressions: &'s [Expr]) -> UserResult<Option<Keys<'s>>> {
        let mut keys = Keys::new();
        for expression in expressions {
            let value = self.evaluate(expression)?;
            if value.is_null() {
                return Ok(None);
            }
            keys.push(value);
        }
        Ok(Some(keys))
    }

    /// None when the bound is NULL: nothing compares with it. Some(None) when there is no bound.
    #[allow(clippy::type_complexity, reason = "the sentence above says what the two options are")]
    fn bound_value(&self, bound: &'s Option<Bound>) -> UserResult<Option<Option<(Value<'s>, bool)>>> {
        let Some(bound) = bound else { return Ok(Some(None)) };
        let value = self.evaluate(&bound.value)?;
        Ok(match value {
            Value::Null => bound.open_if_null.then_some(None),
            value => Some(Some((value, bound.inclusive))),
        })
    }
}
