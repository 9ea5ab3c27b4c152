//! How a source's rows are found: which stores hold them, and the scan, lookup or range over each.

use crate::frame::Frame;
use ferrite_base::{IndexId, RowId, TableId, UserResult};
use ferrite_expr::Expr;
use ferrite_sql::plan::{Access, Bound};
use ferrite_table::RowRef;
use ferrite_value::Value;
use smallvec::SmallVec;
use std::ops::Range;

/// Whether whoever takes the rows wants more of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    More,
    Enough,
}

type Keys<'s> = SmallVec<[Value<'s>; 4]>;

impl<'s> Frame<'s> {
    /// Positions of the stores that together hold each row of the table once: all for a partitioned table, one for a
    /// replicated one.
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
                let Some(equal) = self.keys(equal)? else { return Ok(Flow::More) };
                let (Some(mut lower), Some(upper)) = (self.bound_value(lower)?, self.bound_value(upper)?) else {
                    return Ok(Flow::More);
                };
                if upper.is_some() && lower.is_none() {
                    // NULL sorts lowest but is not less than anything.
                    lower = Some((Value::Null, false));
                }
                for position in stores {
                    let rows = self.stores[position].table(table);
                    for id in rows.range(*index, &equal, lower, upper, *descending) {
                        self.tick()?;
                        if visit(position as u32, id, rows.row(id))? == Flow::Enough {
                            return Ok(Flow::Enough);
                        }
                    }
                }
            }
        }
        Ok(Flow::More)
    }

    /// [`Frame::each_row`] for a lookup.
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
    fn keys(&self, expressions: &'s [Expr]) -> UserResult<Option<Keys<'s>>> {
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
    #[allow(clippy::type_complexity)]
    fn bound_value(&self, bound: &'s Option<Bound>) -> UserResult<Option<Option<(Value<'s>, bool)>>> {
        let Some(bound) = bound else { return Ok(Some(None)) };
        let value = self.evaluate(&bound.value)?;
        Ok(if value.is_null() { None } else { Some(Some((value, bound.inclusive))) })
    }
}
