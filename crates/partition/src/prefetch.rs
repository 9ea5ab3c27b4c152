//! Memory that a call will need, asked for some calls ahead.
//!
//! In a large table every hash look-up is a cache miss of its own, longer than all the computing
//! around it. A batch holds hundreds of calls, and where a key is a parameter its bucket is known
//! before the call runs: asking early lets the misses of several calls overlap. What to ask for is
//! found once per program, from its plan.

use ferrite_base::{IndexId, TableId};
use ferrite_catalog::{Catalog, IndexKind};
use ferrite_expr::Expr;
use ferrite_plan::{Access, Input, Insert, InsertSource, Plan, Program, Query, QueryBody, ReturnValue, Step};
use ferrite_table::{HashedKey, Store};
use ferrite_value::Value;

/// Transactions that replay reads together, and whose buckets it asks for at once, before the first
/// of as many in front of them is made.
pub const REPLAYED_TOGETHER: usize = 16;
/// Transactions between that and asking for the rows.
pub const REPLAYED_ROWS_AFTER: usize = REPLAYED_TOGETHER / 2;
/// Calls whose buckets are asked for at once, before the first call of the group in front of them.
pub const GROUP: usize = 8;
/// Calls between that and asking for the rows.
pub const ROWS_AFTER: usize = GROUP / 2;

/// Most keys have one or two columns; longer ones are not worth decoding twice.
const KEY_COLUMNS_MAX: usize = 4;

/// A look-up in a hash index whose key is made of parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefetch {
    table: TableId,
    index: IndexId,
    parameters: Vec<u16>,
}

/// The look-ups of `program` that can be seen coming.
pub fn prefetches(program: &Program, catalog: &Catalog) -> Vec<Prefetch> {
    let mut finder = Finder { catalog, found: Vec::new() };
    finder.steps(&program.body);
    program.subqueries.iter().for_each(|subquery| finder.query(&subquery.query));
    finder.found
}

struct Finder<'c> {
    catalog: &'c Catalog,
    found: Vec<Prefetch>,
}

impl Finder<'_> {
    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Execute { plan, .. } | Step::Analyze { plan, .. } => self.plan(plan),
                Step::Fetch { query, .. } => self.query(query),
                Step::If { branches, otherwise } => {
                    branches.iter().for_each(|(_, body)| self.steps(body));
                    self.steps(otherwise);
                }
                Step::While { body, .. } | Step::Block { body, .. } => self.steps(body),
                Step::For { query, body, .. } => {
                    self.query(query);
                    self.steps(body);
                }
                Step::Return(ReturnValue::Tables(queries)) => queries.iter().for_each(|(_, query)| self.query(query)),
                Step::Assign { .. }
                | Step::Leave { .. }
                | Step::Iterate { .. }
                | Step::Return(_)
                | Step::Signal { .. } => {}
            }
        }
    }

    fn plan(&mut self, plan: &Plan) {
        match plan {
            Plan::Query(query) => self.query(query),
            Plan::Insert(insert) => self.insert(insert),
            Plan::Update(update) => self.access(update.table, &update.access),
            Plan::Delete(delete) => self.access(delete.table, &delete.access),
            Plan::Truncate { .. } => {}
        }
    }

    fn query(&mut self, query: &Query) {
        match &query.body {
            QueryBody::Select(select) => {
                select.sources.iter().for_each(|source| self.input(&source.input));
            }
            QueryBody::SetOperation { left, right, .. } => {
                self.query(left);
                self.query(right);
            }
            QueryBody::Recursive { first, .. } => self.query(first),
            QueryBody::Values(_) | QueryBody::Series { .. } => {}
        }
    }

    fn input(&mut self, input: &Input) {
        match input {
            Input::Table { table, access } => self.access(*table, access),
            Input::Derived { query, .. } => self.query(query),
            Input::Hashed(hashed) => self.input(&hashed.input),
            Input::Measured(input) => self.input(input),
            _ => {}
        }
    }

    fn access(&mut self, table: TableId, access: &Access) {
        if let Access::Lookup { index, keys } = access {
            self.look_up(table, *index, keys.iter().collect());
        }
    }

    /// An insert looks up its unique keys, and the groups of the views that follow the table.
    fn insert(&mut self, insert: &Insert) {
        if !matches!(insert.source, InsertSource::Values { .. }) {
            return;
        }
        let Some(table) = self.catalog.table(insert.table) else { return };
        let value_of = |expr: &Expr| match expr {
            Expr::Column { slot: 0, column } => insert.row.get(usize::from(*column)),
            _ => None,
        };
        for index in &table.indexes {
            if let Some(keys) = index.keys.iter().map(value_of).collect() {
                self.look_up(insert.table, index.id, keys);
            }
        }
        for view in &table.dependent_views {
            let Some(view) = self.catalog.table(*view) else { continue };
            if let (Some(key), Some(definition)) = (view.primary_key, &view.view)
                && let Some(keys) = definition.group_by.iter().map(value_of).collect()
            {
                self.look_up(view.id, key, keys);
            }
        }
    }

    fn look_up(&mut self, table: TableId, index: IndexId, keys: Vec<&Expr>) {
        let is_hash = self
            .catalog
            .table(table)
            .and_then(|table| table.index(index))
            .is_some_and(|index| index.kind == IndexKind::Hash);
        let parameters: Option<Vec<u16>> = keys
            .into_iter()
            .map(|key| match key {
                Expr::Parameter(index) => Some(*index),
                _ => None,
            })
            .collect();
        if let (true, Some(parameters)) = (is_hash, parameters)
            && (1..=KEY_COLUMNS_MAX).contains(&parameters.len())
        {
            let prefetch = Prefetch { table, index, parameters };
            if !self.found.contains(&prefetch) {
                self.found.push(prefetch);
            }
        }
    }
}

impl Prefetch {
    #[cfg(test)]
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The key: positions of parameters.
    pub fn parameters(&self) -> &[u16] {
        &self.parameters
    }

    /// The same look-up, made of other parameters.
    pub fn with_parameters(&self, parameters: Vec<u16>) -> Prefetch {
        Prefetch { parameters, ..*self }
    }

    /// What a call with these parameters will look up. Parameters that are not as declared, or not
    /// there, are left for the call itself to complain about.
    #[inline]
    fn sought(&self, store: &Store, parameters: &[u8]) -> Option<Sought> {
        let mut key = [Value::Null; KEY_COLUMNS_MAX];
        for (slot, index) in key.iter_mut().zip(&self.parameters) {
            *slot = Value::Integer(integer_parameter(parameters, *index)?);
        }
        let hashed = store.table(self.table).hashed_key(self.index, &key[..self.parameters.len()])?;
        Some(Sought { table: self.table, index: self.index, key: hashed })
    }
}

/// A key that a call is going to look up.
struct Sought {
    table: TableId,
    index: IndexId,
    key: HashedKey,
}

/// What is asked for ahead of the calls of a batch, a group of calls at a time: the processor then
/// finds several addresses at once, where asking for one between two calls would make it wait for
/// each.
#[derive(Default)]
pub struct Ahead {
    /// By the calls of the next group.
    sought: Vec<Sought>,
}

impl Ahead {
    /// Asks for the buckets that these look-ups, with the parameter sets of their calls, lead to.
    #[inline]
    pub fn prefetch_buckets<'b>(&mut self, store: &Store, look_ups: impl Iterator<Item = (&'b Prefetch, &'b [u8])>) {
        self.sought.clear();
        self.sought.extend(look_ups.filter_map(|(prefetch, parameters)| prefetch.sought(store, parameters)));
        for sought in &self.sought {
            store.table(sought.table).prefetch_bucket(sought.index, sought.key);
        }
    }

    /// Asks for the rows that those buckets, at hand by now, lead to.
    #[inline]
    pub fn prefetch_rows(&mut self, store: &Store) {
        for sought in &self.sought {
            store.table(sought.table).prefetch_row(sought.index, sought.key);
        }
    }
}

/// An integer among integers, as partition keys most often are; what else there may be is not worth
/// decoding twice. The bytes are a parameter set (wire-protocol 4), not yet checked.
#[inline]
fn integer_parameter(set: &[u8], index: u16) -> Option<i64> {
    let mut rest = set.get(2..)?;
    for _ in 0..index {
        rest = rest.get(1 + integer_bytes(*rest.first()?)?..)?;
    }
    let (code, rest) = rest.split_first()?;
    match integer_bytes(*code)? {
        1 => rest.first().map(|byte| i64::from(*byte as i8)),
        2 => rest.first_chunk().map(|bytes| i64::from(i16::from_be_bytes(*bytes))),
        4 => rest.first_chunk().map(|bytes| i64::from(i32::from_be_bytes(*bytes))),
        _ => rest.first_chunk().map(|bytes| i64::from_be_bytes(*bytes)),
    }
}

#[inline]
fn integer_bytes(code: u8) -> Option<usize> {
    (3..=6).contains(&code).then(|| 1 << (code - 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compiled, schema};

    const VOTER: &str = include_str!("../../ferrite/tests/common/voter.sql");

    /// What is asked for ahead of a call, as table names and positions of parameters.
    fn asked(compiled: &Compiled, procedure: &str) -> Vec<(String, Vec<u16>)> {
        let program = compiled.program(compiled.require(procedure).expect("the procedure is there"));
        let name =
            |prefetch: &Prefetch| compiled.catalog.table(prefetch.table).expect("the table is there").name.clone();
        let found = prefetches(program, &compiled.catalog);
        found.iter().map(|prefetch| (name(prefetch), prefetch.parameters.clone())).collect()
    }

    #[test]
    fn keys_that_are_parameters_are_asked_for_and_computed_ones_are_not() {
        let text = format!(
            "{VOTER}; CREATE TABLE pair (one BIGINT NOT NULL, two BIGINT NOT NULL, PRIMARY KEY USING HASH (one, two));
            PARTITION TABLE pair ON COLUMN one;
            CREATE PROCEDURE Several (a BIGINT, b BIGINT) AS BEGIN
                DECLARE later BIGINT;
                IF a > 0 THEN SET later = b; DELETE FROM pair WHERE two = a AND one = b; END IF;
                UPDATE pair SET two = 0 WHERE one = a AND two = later;
                DELETE FROM pair WHERE one = a + 1 AND two = b;
                DELETE FROM account WHERE id = a;
                INSERT INTO pair VALUES (b, a);
            END;"
        );
        let planned = schema::plan(&Catalog::default(), &text).expect("the schema binds");
        let compiled = Compiled::new(planned.catalog, &Default::default()).expect("the procedures compile");
        let key = |table: &str, parameters: &[u16]| (table.to_owned(), parameters.to_vec());
        // The area code is computed, the state is looked up; the view is asked for once although it
        // is read and written.
        assert_eq!(asked(&compiled, "Vote"), [key("V_VOTES_BY_PHONE_NUMBER", &[0])]);
        // Not of ordered indexes, and the same key once.
        assert_eq!(asked(&compiled, "Several"), [key("PAIR", &[1, 0])]);
        assert_eq!(asked(&compiled, "PAIR.insert"), [key("PAIR", &[0, 1])]);
        assert_eq!(asked(&compiled, "PAIR.select"), [key("PAIR", &[0, 1])]);
        assert_eq!(asked(&compiled, "ACCOUNT.select"), []);
    }
}
