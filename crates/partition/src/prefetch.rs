//! Memory that a call will need, asked for some calls ahead.
//!
//! In a large table every look-up by key is a chain of cache misses, each longer than all the
//! computing around it: the bucket of the key's hash, the row, the long values of the row. A batch
//! holds hundreds of calls, and where a key is a parameter its bucket is known before the call
//! runs: asking early, a link of the chain at a time, lets the misses of several calls overlap.
//! What to ask for is found once per program, from its plan
//! (docs/decisions/0104-values-in-reach.md).
//!
//! Nothing here decides anything: what is asked for wrongly, or not at all, costs time only.

use ferrite_base::{IndexId, RowId, TableId};
use ferrite_catalog::Catalog;
use ferrite_expr::Expr;
use ferrite_plan::walk::for_each_select_expr;
use ferrite_plan::{Access, Input, Insert, InsertSource, Plan, Program, Query, QueryBody, ReturnValue, Select, Step};
use ferrite_table::{HashedKey, Store, TableData, stands_apart};
use ferrite_value::Value;
use ferrite_wire::Parameters;

/// Transactions that replay reads together, and whose buckets it asks for at once, ahead of the
/// first of as many that precede them.
pub const REPLAYED_TOGETHER: usize = 16;
/// Transactions between that and asking for the rows.
pub const REPLAYED_ROWS_AFTER: usize = REPLAYED_TOGETHER / 2;
/// Calls whose buckets are asked for at once, ahead of the first call of the preceding group.
pub const GROUP: usize = 8;
/// Calls between that and asking for the rows.
pub const ROWS_AFTER: usize = GROUP / 2;
/// Calls between asking for the buckets and asking for where the rows' long values begin.
pub const VALUES_AFTER: usize = GROUP - 2;
/// Calls between asking for the buckets and the last call ahead of those of the group: what is read
/// of values is asked for from this call on, a call ahead.
pub const TURN_AFTER: usize = GROUP - 1;

/// Most keys have one or two columns; longer ones are not worth decoding twice.
const KEY_COLUMNS_MAX: usize = 4;
/// Longer texts and bytes are not worth hashing twice.
const KEY_BYTES_MAX: usize = 256;
/// Long values of a row that are asked for.
const VALUES_MAX: usize = 4;
/// Lines of a value that is read: a kilobyte and what it may begin and end within. Of longer ones
/// the processor asks for the rest by itself.
const LINES_READ: u16 = 18;
/// Lines of a value that is compared or freed.
const LINES_TOUCHED: u16 = 1;

/// A look-up by hash whose key is made of parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefetch {
    table: TableId,
    index: IndexId,
    parameters: Vec<u16>,
    values: [LongValue; VALUES_MAX],
}

/// A long value of the row that is looked up, and how many lines of it are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct LongValue {
    column: u16,
    lines: u16,
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
            Plan::Update(update) => self.access(update.table, &update.access, &[]),
            Plan::Delete(delete) => self.access(delete.table, &delete.access, &[]),
            Plan::Truncate { .. } => {}
        }
    }

    fn query(&mut self, query: &Query) {
        match &query.body {
            QueryBody::Select(select) => {
                select.sources.iter().for_each(|source| self.input(&source.input, &columns_read(select, source.slot)));
            }
            QueryBody::SetOperation { left, right, .. } => {
                self.query(left);
                self.query(right);
            }
            QueryBody::Recursive { first, .. } => self.query(first),
            QueryBody::Values(_) | QueryBody::Series { .. } => {}
        }
    }

    /// `read`: columns of its rows whose values are wanted.
    fn input(&mut self, input: &Input, read: &[u16]) {
        match input {
            Input::Table { table, access } => self.access(*table, access, read),
            Input::Derived { query, .. } => self.query(query),
            Input::Hashed(hashed) => self.input(&hashed.input, read),
            Input::Measured(input) => self.input(input, read),
            _ => {}
        }
    }

    fn access(&mut self, table: TableId, access: &Access, read: &[u16]) {
        if let Access::Lookup { index, keys } = access {
            self.look_up(table, *index, keys.iter().collect(), read);
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
                self.look_up(insert.table, index.id, keys, &[]);
            }
        }
        for view in &table.dependent_views {
            let Some(view) = self.catalog.table(*view) else { continue };
            if let (Some(key), Some(definition)) = (view.primary_key, &view.view)
                && let Some(keys) = definition.group_by.iter().map(value_of).collect()
            {
                self.look_up(view.id, key, keys, &[]);
            }
        }
    }

    fn look_up(&mut self, id: TableId, index: IndexId, keys: Vec<&Expr>, read: &[u16]) {
        let Some(table) = self.catalog.table(id) else { return };
        let Some(definition) = table.index(index) else { return };
        let parameters: Option<Vec<u16>> = keys
            .into_iter()
            .map(|key| match key {
                Expr::Parameter(index) => Some(*index),
                _ => None,
            })
            .collect();
        let Some(parameters) = parameters else { return };
        if !ferrite_table::finds_by_hash(table, definition) || !(1..=KEY_COLUMNS_MAX).contains(&parameters.len()) {
            return;
        }
        let mut prefetch = Prefetch { table: id, index, parameters, values: Default::default() };
        let columns = table.columns.iter().zip(0..).filter(|(column, _)| stands_apart(&column.column_type));
        for (slot, (_, column)) in prefetch.values.iter_mut().zip(columns) {
            *slot = LongValue { column, lines: if read.contains(&column) { LINES_READ } else { LINES_TOUCHED } };
        }
        match self.found.iter_mut().find(|found| found.is_same_look_up(&prefetch)) {
            Some(found) => found.want_values_of(&prefetch),
            None => self.found.push(prefetch),
        }
    }
}

/// Columns of the rows bound to `slot` that a query's expressions refer to.
fn columns_read(select: &Select, slot: u16) -> Vec<u16> {
    let mut columns = Vec::new();
    for_each_select_expr(select, &mut |expr| {
        expr.any(&mut |part| {
            if let Expr::Column { slot: other, column } = part
                && *other == slot
            {
                columns.push(*column);
            }
            false
        });
    });
    columns
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

    pub fn is_same_look_up(&self, other: &Prefetch) -> bool {
        (self.table, self.index, &self.parameters) == (other.table, other.index, &other.parameters)
    }

    /// What another one of the same look-up wants of the row is asked for, too.
    pub fn want_values_of(&mut self, other: &Prefetch) {
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            value.lines = value.lines.max(other.lines);
        }
    }

    /// What a call with these parameters will look up. Parameters that are not as declared, or not
    /// there, are left for the call itself to complain about.
    #[inline]
    fn sought(&self, store: &Store, call: u32, parameters: &[u8]) -> Option<Sought> {
        let table = store.table(self.table);
        let key = match self.parameters[..] {
            [index] if let Some(integer) = integer_parameter(parameters, index) => {
                table.hashed_key(self.index, &[Value::Integer(integer)])?
            }
            _ => self.key(table, parameters)?,
        };
        Some(Sought { table: self.table, index: self.index, key, row: None, call, values: self.values })
    }

    /// A key of any kind.
    #[inline(never)]
    fn key(&self, table: &TableData, parameters: &[u8]) -> Option<HashedKey> {
        let mut key = [Value::Null; KEY_COLUMNS_MAX];
        for (slot, index) in key.iter_mut().zip(&self.parameters) {
            *slot = parameter(parameters, *index)?;
        }
        table.hashed_key(self.index, &key[..self.parameters.len()])
    }
}

/// A key that a call is going to look up.
struct Sought {
    table: TableId,
    index: IndexId,
    key: HashedKey,
    /// Where its bucket leads, once that was at hand.
    row: Option<RowId>,
    /// The call it belongs to: its place in the batch.
    call: u32,
    values: [LongValue; VALUES_MAX],
}

impl Sought {
    #[inline]
    fn prefetch_values(&self, store: &Store, lines_max: u16) {
        let Some(row) = self.row else { return };
        for value in self.values.iter().take_while(|value| value.lines != 0) {
            store.table(self.table).prefetch_value(row, value.column, value.lines.min(lines_max).into());
        }
    }
}

/// What is asked for ahead of the calls of a batch, a group of calls at a time: the processor then
/// finds several addresses at once, where asking for one between two calls would make it wait for
/// each. Only of the values that are read all but the first lines are asked for call by call: there
/// are more of them than the processor can wait for at once.
#[derive(Default)]
pub struct Ahead {
    /// By the calls of the next group.
    sought: Vec<Sought>,
    /// Requests of the previous group's calls, whose values were not asked for yet: the last first.
    unread: Vec<Sought>,
    /// Some of those of the next group lead to long values.
    wants_values: bool,
}

impl Ahead {
    /// Forgets the calls of the batch before.
    #[inline]
    pub fn begin(&mut self) {
        self.sought.clear();
        self.unread.clear();
    }

    /// Asks for the buckets that these look-ups, with the parameter sets of their calls and the
    /// calls' places in the batch, lead to.
    #[inline]
    pub fn prefetch_buckets<'b>(
        &mut self,
        store: &Store,
        look_ups: impl Iterator<Item = (&'b Prefetch, &'b [u8], usize)>,
    ) {
        self.sought.clear();
        let sought =
            look_ups.filter_map(|(prefetch, parameters, call)| prefetch.sought(store, call as u32, parameters));
        self.sought.extend(sought);
        self.wants_values = false;
        for sought in &self.sought {
            self.wants_values |= sought.values[0].lines != 0;
            store.table(sought.table).prefetch_bucket(sought.index, sought.key);
        }
    }

    /// Asks for the rows that those buckets, at hand by now, lead to.
    #[inline]
    pub fn prefetch_rows(&mut self, store: &Store) {
        for sought in &mut self.sought {
            sought.row = store.table(sought.table).prefetch_row(sought.index, sought.key);
        }
    }

    /// Asks for the first lines of the long values that those rows, at hand by now, lead to.
    #[inline]
    pub fn prefetch_values(&self, store: &Store) {
        if !self.wants_values {
            return;
        }
        self.sought.iter().for_each(|sought| sought.prefetch_values(store, LINES_TOUCHED));
    }

    /// The next group's calls are about to come.
    #[inline]
    pub fn turn(&mut self) {
        self.unread.clear();
        if !self.wants_values {
            return;
        }
        let reads = |sought: &Sought| sought.values.iter().any(|value| value.lines > LINES_TOUCHED);
        self.unread.extend(self.sought.drain(..).rev().filter(reads));
    }

    /// Asks for the values that the calls up to this one read.
    #[inline]
    pub fn prefetch_values_up_to(&mut self, store: &Store, call: usize) {
        while let Some(sought) = self.unread.pop_if(|sought| sought.call as usize <= call) {
            if sought.call as usize == call {
                sought.prefetch_values(store, LINES_READ);
            }
        }
    }
}

/// A parameter of any kind that a key may have.
#[inline(never)]
fn parameter(set: &[u8], index: u16) -> Option<Value<'_>> {
    let value = Parameters::parse(set).ok()?.nth(usize::from(index)).ok()??;
    is_key(&value).then_some(value)
}

/// Whether a key with this value is asked for ahead.
pub fn is_key(value: &Value<'_>) -> bool {
    match value {
        Value::Text(text) => text.len() <= KEY_BYTES_MAX,
        Value::Bytes(bytes) => bytes.len() <= KEY_BYTES_MAX,
        Value::Null | Value::Array(_) | Value::Table(_) | Value::Geography(_) => false,
        _ => true,
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
    use ferrite_base::PartitionId;
    use ferrite_value::Decimal;
    use ferrite_value::ring::Ring;
    use ferrite_wire::ParameterSet;
    use std::sync::Arc;

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
        // Not of ordered indexes on an integer, and the same key once.
        assert_eq!(asked(&compiled, "Several"), [key("PAIR", &[1, 0])]);
        assert_eq!(asked(&compiled, "PAIR.insert"), [key("PAIR", &[0, 1])]);
        assert_eq!(asked(&compiled, "PAIR.select"), [key("PAIR", &[0, 1])]);
        assert_eq!(asked(&compiled, "ACCOUNT.select"), []);
    }

    const THINGS: &str = "
        CREATE TABLE things (name VARCHAR(250) NOT NULL, seen TIMESTAMP NOT NULL, price DECIMAL NOT NULL,
            picture VARBINARY(100000) NOT NULL, note VARCHAR(1000),
            PRIMARY KEY (name), ASSUMEUNIQUE (seen, price));
        PARTITION TABLE things ON COLUMN name;
        CREATE UNIQUE INDEX by_price ON things USING HASH (price, name);
        CREATE PROCEDURE Note AS SELECT note FROM things WHERE name = ?;
        CREATE PROCEDURE Reprice AS UPDATE things SET price = ? WHERE name = ?;";

    fn things() -> (Compiled, Store) {
        let planned = schema::plan(&Catalog::default(), THINGS).expect("the schema binds");
        let mut stores = [Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
        schema::apply(&mut stores, &planned, 0).expect("the store is empty");
        let compiled = Compiled::new(planned.catalog, &Default::default()).expect("the procedures compile");
        let [store] = stores;
        (compiled, store)
    }

    fn prefetches_of(compiled: &Compiled, procedure: &str) -> Vec<Prefetch> {
        prefetches(compiled.program(compiled.require(procedure).expect("it is there")), &compiled.catalog)
    }

    #[test]
    fn values_that_are_read_are_asked_for_whole_and_others_where_they_begin() {
        let (compiled, _) = things();
        let values = |procedure: &str| {
            let found = prefetches_of(&compiled, procedure);
            let lines = |prefetch: &Prefetch| {
                let used = prefetch.values.iter().take_while(|value| value.lines != 0);
                used.map(|value| (value.column, value.lines)).collect::<Vec<_>>()
            };
            found.iter().map(lines).collect::<Vec<_>>()
        };
        let (touched, read) = (LINES_TOUCHED, LINES_READ);
        assert_eq!(values("Note"), [[(0, touched), (3, touched), (4, read)]]);
        assert_eq!(values("Reprice"), [[(0, touched), (3, touched), (4, touched)]]);
        assert_eq!(values("THINGS.select"), [[(0, read), (3, read), (4, read)]]);
        // Its primary key, seen and price together, and the price with the name.
        assert_eq!(values("THINGS.upsert"), vec![[(0, touched), (3, touched), (4, touched)]; 3]);
    }

    #[test]
    fn keys_of_any_type_lead_to_the_row_that_the_call_finds() {
        let (compiled, mut store) = things();
        let table = compiled.catalog.table_named("THINGS").expect("it is there").id;
        let row = |number: i64, name: &'static str| {
            let price = Value::Decimal(Decimal::from_i64(number));
            [Value::Text(name), Value::Timestamp(number), price, Value::Bytes(&[7; 2_000]), Value::Null]
        };
        for (number, name) in (1..).zip(["one", "two", "three", "four"]) {
            store.insert(table, &row(number, name)).expect("it is new");
        }
        store.commit();
        let mut ahead = Ahead::default();
        let mut rows_asked = |procedure: &str, values: &[Value<'_>]| {
            let mut set = Vec::new();
            values.write_set(&mut set).expect("it is small");
            let found = prefetches_of(&compiled, procedure);
            ahead.prefetch_buckets(&store, found.iter().map(|prefetch| (prefetch, &set[..], 5)));
            ahead.prefetch_rows(&store);
            ahead.prefetch_values(&store);
            let rows = ahead.sought.iter().map(|sought| sought.row).collect::<Vec<_>>();
            ahead.turn();
            ahead.prefetch_values_up_to(&store, 4);
            assert_eq!(ahead.unread.len(), if procedure == "THINGS.select" { rows.len() } else { 0 });
            ahead.prefetch_values_up_to(&store, 5);
            assert!(ahead.unread.is_empty());
            rows
        };
        let third = Some(RowId(2));
        assert_eq!(rows_asked("THINGS.select", &[Value::Text("three")]), [third]);
        assert_eq!(rows_asked("THINGS.select", &[Value::Text("five")]), [None]);
        assert_eq!(rows_asked("THINGS.upsert", &row(3, "three")), [third; 3]);
        assert_eq!(rows_asked("Reprice", &[Value::Decimal(Decimal::from_i64(9)), Value::Text("three")]), [third]);
        // Not of the declared kind, NULL, too long, too few.
        for values in [&[Value::Integer(3)][..], &[Value::Null], &[Value::Text(&"x".repeat(300))], &[]] {
            assert_eq!(rows_asked("THINGS.select", values), []);
        }
    }
}
