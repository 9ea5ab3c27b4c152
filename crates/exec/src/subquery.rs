//! Subqueries inside expressions: scalar, EXISTS, ANY (IN) and ALL (NOT IN).
//!
//! One that does not depend on outer rows runs once per execution of its statement; its result is
//! kept, for IN and for an EXISTS that is tied to outer rows by equalities as a hash table: a
//! semi-join, or an anti-join where it is negated. A correlated one runs for each outer row and
//! stops at the row that decides. The commonest kind, a lookup in an index, goes straight to the
//! row.

use crate::evaluator::Evaluator;
use crate::row_table::RowTable;
use crate::rows::{Cached, Emit, Flow, OutputRow, RowSlot};
use ferrite_base::{IndexId, TableId, UserError, UserResult};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::{Access, Input, JoinKind, Query, QueryBody, Select, Source, SubqueryKind};
use ferrite_table::RowRef;
use ferrite_value::Value;
use std::rc::Rc;

/// What comparing with one value is, in units of work.
const COMPARED_WORK: usize = 8;

/// A query that is one index lookup without more to it.
pub(crate) struct PlainLookup<'s> {
    select: &'s Select,
    source: &'s Source,
    table: TableId,
    index: IndexId,
    keys: &'s [Expr],
    /// The output columns that are not hidden.
    output: &'s [Expr],
}

/// Recognises a [`PlainLookup`]. ORDER BY does not stand in the way: the callers want one row, or
/// whether there is one.
#[inline]
pub(crate) fn plain_lookup(query: &Query) -> Option<PlainLookup<'_>> {
    let QueryBody::Select(select) = &query.body else { return None };
    let [source] = &select.sources[..] else { return None };
    let Input::Table { table, access: Access::Lookup { index, keys } } = &source.input else { return None };
    let plain = select.aggregation.is_none()
        && select.windowing.is_none()
        && !select.distinct
        && source.join == JoinKind::Inner
        && query.limit.is_none()
        && query.offset.is_none();
    plain.then(|| PlainLookup {
        select,
        source,
        table: *table,
        index: *index,
        keys,
        output: &select.output[..query.columns.len()],
    })
}

impl<'s> Evaluator<'s> {
    #[inline]
    pub(crate) fn run_subquery(&self, number: u16, operand: Value<'_>) -> UserResult<Value<'s>> {
        let subquery = &self.program.subqueries[number as usize];
        if !subquery.correlated
            && let Some(cached) = self.cached_subquery(number)
        {
            return match &*cached {
                Cached::Asked => {
                    let rows = Rc::new(self.rows_among(&subquery.query, subquery.kind)?);
                    self.cache_subquery(number, rows.clone());
                    self.among(&rows, subquery.kind, operand)
                }
                Cached::Rows { .. } => self.among(&cached, subquery.kind, operand),
                cached => {
                    if let Cached::Set { values, .. } = cached
                        && !is_looked_up(values, subquery.kind, &operand)
                    {
                        self.count_work(values.len() * COMPARED_WORK)?;
                    }
                    Ok(answer_from(cached, subquery.kind, operand))
                }
            };
        }
        match subquery.kind {
            SubqueryKind::Scalar => {
                let value = self.scalar(&subquery.query)?;
                self.cache_value(number, subquery.correlated, value);
                Ok(value)
            }
            SubqueryKind::Exists => {
                let value = Value::Boolean(self.exists(&subquery.query)?);
                self.cache_value(number, subquery.correlated, value);
                Ok(value)
            }
            SubqueryKind::Any(operator) if subquery.correlated => {
                self.compare_each(&subquery.query, operand, operator, true)
            }
            SubqueryKind::All(operator) if subquery.correlated => {
                self.compare_each(&subquery.query, operand, operator, false)
            }
            SubqueryKind::Any(_) | SubqueryKind::All(_) => {
                let set = Rc::new(self.set_of(&subquery.query)?);
                self.cache_subquery(number, set.clone());
                Ok(answer_from(&set, subquery.kind, operand))
            }
            SubqueryKind::Among { unknown } => {
                // Many statements ask once only: the first answer ends with the row that decides,
                // and keeps nothing.
                self.cache_subquery(number, Rc::new(Cached::Asked));
                self.look_among(&subquery.query, operand, unknown)
            }
        }
    }

    /// The distinct values, without NULL, that the subquery of an IN answers.
    pub(crate) fn values_to_look_up(&self, number: u16) -> UserResult<Rc<Cached<'s>>> {
        let subquery = &self.program.subqueries[number as usize];
        if let Some(cached) = self.cached_subquery(number)
            && !matches!(*cached, Cached::Asked)
        {
            return Ok(cached);
        }
        let cached = Rc::new(match subquery.kind {
            SubqueryKind::Among { .. } => self.rows_among(&subquery.query, subquery.kind)?,
            _ => self.set_of(&subquery.query)?,
        });
        self.cache_subquery(number, cached.clone());
        Ok(cached)
    }

    fn look_among(&self, query: &'s Query, operand: Value<'_>, unknown: bool) -> UserResult<Value<'s>> {
        let single = [operand];
        let wanted = row_wanted(query.columns.len(), &operand, &single);
        let mut result = Value::Boolean(false);
        self.run_query(query, &mut |row| match equal_rows(wanted, row) {
            Some(true) => {
                result = Value::Boolean(true);
                Ok(Flow::Enough)
            }
            None if unknown => {
                result = Value::Null;
                Ok(Flow::More)
            }
            _ => Ok(Flow::More),
        })?;
        Ok(result)
    }

    /// Whether the operand is one of the rows; NULL where they leave that open.
    fn among(&self, cached: &Cached<'s>, kind: SubqueryKind, operand: Value<'_>) -> UserResult<Value<'s>> {
        let Cached::Rows { rows, open } = cached else { unreachable!("the rows are read before they are looked into") };
        let single = [operand];
        let wanted = row_wanted(rows.width(), &operand, &single);
        let each = |table: &RowTable<'s>, test: &dyn Fn(Option<bool>) -> bool| {
            for position in 0..table.len() {
                self.tick()?;
                if test(equal_rows(wanted, table.row(position))) {
                    return Ok(true);
                }
            }
            UserResult::Ok(false)
        };
        let null = wanted.iter().any(Value::is_null);
        let found = !null
            && rows.len() > 0
            && match wanted.iter().zip(rows.row(0)).all(|(left, right)| same_kind(left, right)) {
                true => rows.find(wanted).is_some(),
                false => each(rows, &|equal| equal == Some(true))?,
            };
        if found {
            return Ok(Value::Boolean(true));
        }
        let unknown = matches!(kind, SubqueryKind::Among { unknown: true });
        let left_open =
            unknown && (each(open, &|equal| equal.is_none())? || null && each(rows, &|equal| equal.is_none())?);
        Ok(if left_open { Value::Null } else { Value::Boolean(false) })
    }

    fn rows_among(&self, query: &'s Query, kind: SubqueryKind) -> UserResult<Cached<'s>> {
        let open_wanted = matches!(kind, SubqueryKind::Among { unknown: true });
        let mut rows = RowTable::new(query.columns.len());
        let mut open = RowTable::new(query.columns.len());
        self.run_query(query, &mut |row| {
            let null = row.iter().any(Value::is_null);
            let table = if null { &mut open } else { &mut rows };
            if (!null || open_wanted) && table.insert(row).1 {
                self.charge(table.row_bytes())?;
            }
            Ok(Flow::More)
        })?;
        Ok(Cached::Rows { rows, open })
    }

    /// Statements that ask only once (an IF, one row of VALUES) do not pay for remembering.
    #[inline]
    fn cache_value(&self, number: u16, correlated: bool, value: Value<'s>) {
        if !correlated && self.repeats() {
            self.cache_subquery(number, Rc::new(Cached::Value(value)));
        }
    }

    /// The one row's first column; NULL without a row.
    fn scalar(&self, query: &'s Query) -> UserResult<Value<'s>> {
        let several = || {
            UserError::data("21000", "a scalar subquery returned more than one row")
                .with_hint("use an aggregate or LIMIT 1, or IN instead of =")
        };
        if let Some(lookup) = plain_lookup(query) {
            return match self.only_match(&lookup, several)? {
                true => self.evaluate(&lookup.output[0]),
                false => Ok(Value::Null),
            };
        }
        let mut result = None;
        self.run_query(query, &mut |row| match result.replace(row[0]) {
            None => Ok(Flow::More),
            Some(_) => Err(several()),
        })?;
        Ok(result.unwrap_or(Value::Null))
    }

    /// Calls `take` with each value of the query's only row, or answers with the error of `several`
    /// when there are two.
    #[inline]
    pub(crate) fn single_row(
        &self,
        query: &'s Query,
        mut take: impl FnMut(Value<'s>),
        several: impl Fn() -> UserError,
    ) -> UserResult<()> {
        if let Some(lookup) = plain_lookup(query) {
            if self.only_match(&lookup, several)? {
                for expression in lookup.output {
                    take(self.evaluate(expression)?);
                }
            }
            return Ok(());
        }
        let mut rows = 0;
        self.run_query(query, &mut |row| {
            rows += 1;
            if rows > 1 {
                return Err(several());
            }
            row.iter().for_each(|value| take(*value));
            Ok(Flow::More)
        })?;
        Ok(())
    }

    /// Whether the lookup has a match, whose row then is bound; two are an error.
    #[inline]
    fn only_match(&self, lookup: &PlainLookup<'s>, several: impl Fn() -> UserError) -> UserResult<bool> {
        // Rows that a condition refuses are bound after the one that it took; without one the row
        // stays where it is.
        let conditional = lookup.source.filter.is_some() || lookup.select.filter.is_some();
        let mut found = false;
        let mut only = None;
        self.each_match(lookup, |row| {
            if std::mem::replace(&mut found, true) {
                return Err(several());
            }
            if conditional {
                only = Some(row);
            }
            Ok(Flow::More)
        })?;
        if let Some(row) = only {
            self.bind(lookup.source.slot, RowSlot::Stored(row));
        }
        Ok(found)
    }

    fn exists(&self, query: &'s Query) -> UserResult<bool> {
        let mut found = false;
        if let Some(lookup) = plain_lookup(query) {
            self.each_match(&lookup, |_| {
                found = true;
                Ok(Flow::Enough)
            })?;
        } else {
            self.run_query(query, &mut |_| {
                found = true;
                Ok(Flow::Enough)
            })?;
        }
        Ok(found)
    }

    /// A plain lookup as a statement of its own.
    pub(crate) fn emit_matches(&self, lookup: &PlainLookup<'s>, emit: Emit<'_, 's>) -> UserResult<Flow> {
        let mut row = OutputRow::new();
        self.each_match(lookup, |_| {
            row.clear();
            for expression in lookup.output {
                row.push(self.evaluate(expression)?);
            }
            emit(&row)
        })
    }

    /// Calls `visit` with each row that the lookup finds and its conditions take; the row is bound.
    #[inline(always)]
    fn each_match(
        &self,
        lookup: &PlainLookup<'s>,
        mut visit: impl FnMut(RowRef<'s>) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let stores = self.stores_to_read(lookup.table);
        self.each_looked_up(lookup.table, lookup.index, lookup.keys, stores, |_, _, row| {
            self.bind(lookup.source.slot, RowSlot::Stored(row));
            let passes = self.passes(&lookup.source.filter)? && self.passes(&lookup.select.filter)?;
            if passes { visit(row) } else { Ok(Flow::More) }
        })
    }

    /// `operand operator ANY (query)`, or ALL; stops at the row that decides.
    fn compare_each(
        &self,
        query: &'s Query,
        operand: Value<'_>,
        operator: CompareOperator,
        any: bool,
    ) -> UserResult<Value<'s>> {
        let mut result = Value::Boolean(!any);
        self.run_query(query, &mut |row| match operator.compare(&operand, &row[0]) {
            None => {
                result = Value::Null;
                Ok(Flow::More)
            }
            Some(holds) if holds == any => {
                result = Value::Boolean(any);
                Ok(Flow::Enough)
            }
            Some(_) => Ok(Flow::More),
        })?;
        Ok(result)
    }

    fn set_of(&self, query: &'s Query) -> UserResult<Cached<'s>> {
        let mut values = RowTable::new(1);
        let mut null = false;
        self.run_query(query, &mut |row| {
            if row[0].is_null() {
                null = true;
            } else if values.insert(&row[..1]).1 {
                self.charge(values.row_bytes())?;
            }
            Ok(Flow::More)
        })?;
        Ok(Cached::Set { values, null })
    }
}

fn answer_from<'s>(cached: &Cached<'s>, kind: SubqueryKind, operand: Value<'_>) -> Value<'s> {
    let (values, null) = match cached {
        Cached::Value(value) => return *value,
        Cached::Set { values, null } => (values, *null),
        Cached::Rows { .. } | Cached::Asked => unreachable!("they belong to another kind of subquery"),
    };
    let (operator, any) = match kind {
        SubqueryKind::Any(operator) => (operator, true),
        SubqueryKind::All(operator) => (operator, false),
        SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Among { .. } => {
            unreachable!("what is kept of them is not a set")
        }
    };
    if values.len() == 0 && !null {
        return Value::Boolean(!any);
    }
    if operand.is_null() {
        return Value::Null;
    }
    let decided = if is_looked_up(values, kind, &operand) {
        values.find(&[operand]).is_some()
    } else {
        (0..values.len()).any(|position| {
            let value = &values.row(position)[0];
            operator.compare(&operand, value) == Some(any)
        })
    };
    match (decided, null) {
        (true, _) => Value::Boolean(any),
        (false, true) => Value::Null,
        (false, false) => Value::Boolean(!any),
    }
}

/// Whether the hash table answers. Values of one kind hash alike when they are equal; of several
/// kinds (INTEGER and DECIMAL) they need not.
fn is_looked_up(values: &RowTable<'_>, kind: SubqueryKind, operand: &Value<'_>) -> bool {
    matches!(kind, SubqueryKind::Any(CompareOperator::Equal) | SubqueryKind::All(CompareOperator::NotEqual))
        && values.len() > 0
        && same_kind(operand, &values.row(0)[0])
}

/// The values of a row that is looked for.
fn row_wanted<'v, 'x>(width: usize, operand: &Value<'x>, single: &'v [Value<'x>; 1]) -> &'v [Value<'x>]
where
    'x: 'v,
{
    match operand {
        Value::Array(values) if width != 1 => values,
        _ => single,
    }
}

/// Whether two rows are equal: false if a pair of values is not, else unknown if one is NULL.
fn equal_rows(left: &[Value<'_>], right: &[Value<'_>]) -> Option<bool> {
    debug_assert_eq!(left.len(), right.len());
    let mut equal = Some(true);
    for (left, right) in left.iter().zip(right) {
        match CompareOperator::Equal.compare(left, right) {
            Some(false) => return Some(false),
            Some(true) => {}
            None => equal = None,
        }
    }
    equal
}

fn same_kind(left: &Value<'_>, right: &Value<'_>) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}
