//! A database without threads, log and network: SQL text in, rows out, on as many partitions as
//! asked for.

// Each test binary uses its part of it.
#![allow(dead_code, reason = "each test file uses its part")]

use bumpalo::Bump;
use ferrite_base::{PartitionId, UserError, UserResult, Watcher};
use ferrite_catalog::Catalog;
use ferrite_exec::{Call, ResultSink, Scratch, WorkerPool};
use ferrite_plan::{Fitted, Owners};
use ferrite_plan::{OutputColumn, Program};
use ferrite_table::{Store, TableData};
use ferrite_value::ring::Ring;
use ferrite_value::text::parse_hex_bytes;
use ferrite_value::{Decimal, OwnedValue, Value, convert, temporal};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// The one transaction time of all calls: 2026-01-01.
const TRANSACTION_TIME: i64 = 1_767_225_600_000_000;

thread_local! {
    /// Parts of queries that [`Threads`] have done for this thread.
    pub static PARTS_DONE: Cell<usize> = const { Cell::new(0) };
}

/// A thread for each part, however few rows there are.
pub struct Threads;

impl WorkerPool for Threads {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| (0..count).for_each(|number| drop(scope.spawn(move || work(number)))));
        PARTS_DONE.set(PARTS_DONE.get() + count);
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn pays(&self, _: u64, _: u64) -> bool {
        true
    }
}

/// Which stores a call gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lending {
    /// All of them, whatever the program says; what can be done in parts is.
    All,
    /// Those that the program's routing asks for.
    AsRouted,
}

pub struct Database {
    pub stores: Vec<Store>,
    pub catalog: Arc<Catalog>,
    pub programs: HashMap<String, Arc<Program>>,
    ring: Arc<Ring>,
    lending: Lending,
    /// Follow the stores by their redo and must end like them.
    copies: Vec<Store>,
    scratch: Scratch,
}

impl Database {
    pub fn new(partitions: u32, lending: Lending) -> Database {
        let ring = Arc::new(Ring::new_default(partitions));
        let stores = || (0..partitions).map(|number| Store::new(PartitionId(number), ring.clone())).collect();
        Database {
            stores: stores(),
            catalog: Arc::default(),
            programs: HashMap::new(),
            lending,
            copies: stores(),
            scratch: Scratch::default(),
            ring,
        }
    }

    /// Runs SQL text, `EXEC procedure argument, ...`, or
    /// `WITH ARGUMENTS argument, ... : text with ?`.
    pub fn run(&mut self, text: &str) -> UserResult<Collected> {
        if let Some(call) = text.trim().strip_prefix("EXEC ") {
            return self.call_text(call);
        }
        if let Some(prepared) = text.trim().strip_prefix("WITH ARGUMENTS ") {
            let (words, text) = prepared.split_once(": ").expect("arguments, a colon, and the text");
            return self.prepared(text, &arguments_of(words));
        }
        let statements = ferrite_sql::parse_batch(text)?;
        if statements.iter().any(|statement| statement.is_ddl()) {
            self.change_schema(&statements, &Watcher::new(|| Ok(())))?;
            return Ok(Collected::default());
        }
        let program = ferrite_sql::compile_adhoc(&self.catalog, &statements, 0)?;
        self.call(&program, &[])
    }

    /// Changes the schema while somebody watches; whoever follows the log has no such watcher.
    pub fn run_watched(&mut self, text: &str, watcher: &Watcher) -> UserResult<()> {
        self.change_schema(&ferrite_sql::parse_batch(text)?, watcher)
    }

    /// Several statements are one change: all or nothing.
    fn change_schema(&mut self, statements: &[ferrite_sql::Statement], watcher: &Watcher) -> UserResult<()> {
        let mut catalog = Catalog::clone(&self.catalog);
        let mut effects = Vec::new();
        for statement in statements {
            let (change, _warnings) = ferrite_sql::bind_ddl(&catalog, statement)?;
            let (next, more) = catalog.apply(&change)?;
            catalog = next;
            effects.extend(more);
        }
        let effects = ferrite_catalog::settle(effects, &self.catalog, &catalog);
        let catalog = Arc::new(catalog);
        ferrite_sql::check_views(&self.catalog, &catalog)?;
        let mut programs = HashMap::new();
        for procedure in catalog.procedures.values() {
            let program = ferrite_sql::compile_procedure(&catalog, procedure)?;
            programs.insert(procedure.name.to_uppercase(), Arc::new(program));
        }
        for program in ferrite_sql::default_procedures(&catalog) {
            programs.insert(program.name.to_uppercase(), Arc::new(program));
        }
        // What is taken back leaves no trace, and can be done again.
        let change = |stores: &mut Vec<Store>| {
            ferrite_table::change_schema_watched(stores, &catalog, &effects, TRANSACTION_TIME, watcher)
        };
        let before = contents(&self.stores);
        change(&mut self.stores)?.take_back(&mut self.stores);
        self.stores.iter().for_each(|store| store.verify().expect("what was taken back is consistent"));
        assert!(contents(&self.stores) == before, "a schema change that is taken back leaves a trace");
        change(&mut self.stores)?;
        ferrite_table::change_schema(&mut self.copies, &catalog, &effects, TRANSACTION_TIME)
            .expect("copies follow their stores");
        self.catalog = catalog;
        self.programs = programs;
        Ok(())
    }

    fn call_text(&mut self, text: &str) -> UserResult<Collected> {
        let (name, arguments) = text.split_once(' ').unwrap_or((text, ""));
        let program = self.programs.get(&name.to_uppercase()).expect("a procedure by that name").clone();
        let arguments = arguments_of(arguments);
        let arguments: Vec<Value<'_>> = arguments.iter().map(OwnedValue::as_value).collect();
        self.call(&program, &arguments)
    }

    /// A text with its parameters, as drivers send prepared statements.
    fn prepared(&mut self, text: &str, arguments: &[OwnedValue]) -> UserResult<Collected> {
        let statements = ferrite_sql::parse_batch(text)?;
        let program = ferrite_sql::compile_adhoc(&self.catalog, &statements, arguments.len())?;
        let arguments: Vec<Value<'_>> = arguments.iter().map(OwnedValue::as_value).collect();
        self.call(&program, &arguments)
    }

    /// Runs a program as one transaction and commits it.
    pub fn call(&mut self, program: &Program, arguments: &[Value<'_>]) -> UserResult<Collected> {
        let arena = Bump::new();
        if arguments.len() != program.parameters.len() {
            return Err(UserError::parameters(format!(
                "{} takes {} parameters",
                program.name,
                program.parameters.len()
            )));
        }
        let fitted = match &program.variants {
            None => Fitted { program: None, values: arguments },
            Some(variants) => variants.fit(program, &self.catalog, arguments, &arena),
        };
        // A call is routed by what it was compiled for first.
        let called = program;
        let program = fitted.program.as_deref().unwrap_or(program);
        let mut parameters = Vec::new();
        for (value, parameter) in fitted.values.iter().zip(&program.parameters) {
            parameters.push(convert::to_declared(*value, &parameter.column_type, &arena)?);
        }
        let mut collected = Collected::default();
        let range = match self.lending {
            Lending::All => 0..self.stores.len(),
            Lending::AsRouted => self.route(called, arguments)?,
        };
        let call = Call {
            workers: (self.lending == Lending::All).then_some(&Threads as &dyn WorkerPool),
            ..Call::new(program, &parameters, TRANSACTION_TIME, &arena)
        };
        let stores = &mut self.stores[range];
        ferrite_exec::run_transaction(stores, &call, &mut self.scratch, &mut collected)?;
        for (position, store) in self.stores.iter_mut().enumerate() {
            let mut redo = Vec::new();
            store.take_redo_into(&mut redo);
            store.commit();
            if !redo.is_empty() {
                self.copies[position].apply_redo(&redo).expect("a copy takes its store's redo");
            }
        }
        Ok(collected)
    }

    /// The stores of the partitions that the server would ask.
    fn route(&self, program: &Program, given: &[Value<'_>]) -> UserResult<std::ops::Range<usize>> {
        let count = self.stores.len();
        Ok(match program.owners(|index| Ok(given[usize::from(index)]), &self.ring)? {
            Owners::One(partition) => partition.index()..partition.index() + 1,
            Owners::Any | Owners::Named => count - 1..count,
            Owners::All | Owners::Several(_) => 0..count,
            Owners::None => panic!("a compound procedure is no transaction"),
        })
    }

    /// The invariants that hold between transactions: indexes and views say what the rows say,
    /// replicas are alike, and copies made by redo are like their stores.
    pub fn verify(&self) {
        self.stores.iter().for_each(|store| store.verify().expect("indexes and views agree with the rows"));
        self.check();
    }

    /// The same without what is in one store alone, which takes its time.
    pub fn check(&self) {
        for (name, table) in &self.catalog.tables {
            for (store, copy) in self.stores.iter().zip(&self.copies) {
                let rows = table_rows(store, table.id, table.columns.len());
                assert_eq!(
                    rows,
                    table_rows(copy, table.id, table.columns.len()),
                    "{name}: redo did not give the same rows"
                );
                if !table.is_partitioned() {
                    let first = table_rows(&self.stores[0], table.id, table.columns.len());
                    assert_eq!(rows, first, "{name}: replicas differ");
                }
            }
        }
    }
}

fn table_rows(store: &Store, table: ferrite_base::TableId, columns: usize) -> Vec<Vec<String>> {
    let rows = store.table(table);
    let mut all: Vec<Vec<String>> = rows
        .scan()
        .map(|id| (0..columns).map(|column| text_of(&rows.row(id).column(column as u16))).collect())
        .collect();
    assert_eq!(all.len() as u64, rows.row_count());
    all.sort();
    all
}

fn arguments_of(text: &str) -> Vec<OwnedValue> {
    // A comma inside quotes parts no arguments.
    let mut quoted = false;
    let words = text.split(|character| {
        quoted ^= character == '\'';
        character == ',' && !quoted
    });
    words.map(str::trim).filter(|word| !word.is_empty()).map(literal).collect()
}

/// An argument: a number (with an exponent a FLOAT), quoted text, X'...', TIMESTAMP '...' or NULL.
fn literal(word: &str) -> OwnedValue {
    if word.eq_ignore_ascii_case("NULL") {
        OwnedValue::Null
    } else if let Some(text) = word.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        OwnedValue::Text(text.into())
    } else if let Some(digits) = word.strip_prefix("X'") {
        let digits = digits.strip_suffix('\'').expect("hexadecimal digits in quotes");
        OwnedValue::Bytes(parse_hex_bytes(digits).expect("pairs of hexadecimal digits").into())
    } else if let Some(written) = word.strip_prefix("TIMESTAMP ") {
        OwnedValue::Timestamp(temporal::parse_timestamp(written.trim_matches('\'')).expect("a time"))
    } else if let Ok(number) = word.parse() {
        OwnedValue::Integer(number)
    } else if word.contains('e') {
        OwnedValue::Float(word.parse().expect("a number, quoted text or NULL"))
    } else {
        OwnedValue::Decimal(Decimal::parse(word).expect("a number, quoted text or NULL"))
    }
}

/// A result: all rows of all tables, with modified counts and statuses as rows of one column.
#[derive(Default)]
pub struct Collected {
    pub rows: Vec<Vec<String>>,
    pub column_count: usize,
    /// The count of the last data change; None if there was none.
    pub modified: Option<u64>,
    /// There was a result table or a status.
    pub has_rows: bool,
}

impl ResultSink for Collected {
    fn begin_table(&mut self, columns: &[OutputColumn]) {
        self.column_count = columns.len();
        self.has_rows = true;
    }

    fn row(&mut self, values: &[Value<'_>]) -> UserResult<()> {
        assert_eq!(values.len(), self.column_count, "a row is as wide as its table");
        self.rows.push(values.iter().map(text_of).collect());
        Ok(())
    }

    fn end_table(&mut self) {}

    fn modified(&mut self, rows: u64) {
        self.rows.push(vec![rows.to_string()]);
        self.modified = Some(rows);
    }

    fn status(&mut self, value: Option<i64>) {
        self.rows.push(vec![value.map_or("NULL".into(), |value| value.to_string())]);
        self.has_rows = true;
    }
}

/// As the test files write it.
pub fn text_of(value: &Value<'_>) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Text("") => "(empty)".into(),
        Value::Float(number) => format!("{number:.3}"),
        other => convert::to_text_string(other),
    }
}

/// Counts the statuses 0 to 3 of calls and refuses everything else; allocates nothing.
#[derive(Default)]
pub struct Statuses {
    pub counts: [u64; 4],
}

impl ResultSink for Statuses {
    fn begin_table(&mut self, _: &[OutputColumn]) {}

    fn row(&mut self, _: &[Value<'_>]) -> UserResult<()> {
        Ok(())
    }

    fn end_table(&mut self) {}

    fn modified(&mut self, _: u64) {}

    fn status(&mut self, value: Option<i64>) {
        self.counts[value.expect("a status") as usize] += 1;
    }
}

/// The Voter example with six contestants and a few area codes.
pub fn load_voter(database: &mut Database) {
    database.run(include_str!("../../../../examples/voter/ddl.sql")).expect("the example's schema");
    for contestant in 1..=6 {
        database
            .run(&format!("INSERT INTO contestants VALUES ({contestant}, 'Contestant {contestant}')"))
            .expect("a row");
    }
    for (area_code, state) in [(201, "NJ"), (617, "MA"), (212, "NY"), (415, "CA")] {
        database.run(&format!("INSERT INTO area_code_state VALUES ({area_code}, '{state}')")).expect("a row");
    }
}

/// A partitioned table of `rows` rows, with keys of few and of many values, and a replicated one
/// beside it.
pub fn filled(partitions: u32, lending: Lending, rows: u32) -> Database {
    let mut database = Database::new(partitions, lending);
    for text in [
        "CREATE TABLE t (id BIGINT NOT NULL, k INTEGER, s VARCHAR(20), d DECIMAL, PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id;",
        "CREATE TABLE names (k INTEGER NOT NULL, name VARCHAR(20), PRIMARY KEY (k))",
    ] {
        database.run(text).expect("a schema");
    }
    database
        .run("INSERT INTO names SELECT n, 'name ' || CAST(n AS VARCHAR(9)) FROM GENERATE_SERIES(0, 50) AS g (n)")
        .expect("rows");
    let step = 20_000;
    for first in (1..=rows).step_by(step) {
        let last = (first + step as u32 - 1).min(rows);
        let insert = format!(
            "INSERT INTO t SELECT n, CASE WHEN MOD(n, 11) = 0 THEN NULL ELSE MOD(n, 100) END, 's' || CAST(MOD(n, 1000) AS VARCHAR(9)), n \
             FROM GENERATE_SERIES({first}, {last}) AS g (n)"
        );
        database.run(&insert).expect("rows");
    }
    database
}

/// Definitions and rows of all tables, those of large ones by their number.
fn contents(stores: &[Store]) -> Vec<String> {
    const ROWS_MAX: u64 = 3_000;
    let table = |table: &TableData| {
        let columns = table.definition().columns.len();
        let row =
            |id| (0..columns).map(|column| format!("{:?} ", table.row(id).column(column as u16))).collect::<String>();
        let rows: Vec<String> = match table.row_count() {
            0..=ROWS_MAX => table.scan().map(|id| format!("{id} {}", row(id))).collect(),
            count => vec![count.to_string()],
        };
        format!("{:?} {rows:?}", table.definition())
    };
    stores.iter().flat_map(Store::tables).map(table).collect()
}
