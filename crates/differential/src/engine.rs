//! Our database within this process: SQL text in, answers out, on as many partitions as asked for,
//! without threads, log and network.
//!
//! A statement can be run in several ways that must make no difference: see [`Way`].

use crate::answer::{Answer, EngineResult, Failure, canonical_decimal, canonical_float};
use bumpalo::Bump;
use ferrite_base::{ErrorKind, PartitionId, TableId, UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_exec::{Call, ResultSink, Scratch, WorkerPool};
use ferrite_plan::{Fitted, Owners};
use ferrite_plan::{OutputColumn, Program, SnapshotPlan};
use ferrite_sql::{Argument, Parameterizer, Statistics, Template};
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use ferrite_value::{OwnedValue, Value, convert};
use std::cell::Cell as Counter;
use std::ops::Range;
use std::sync::Arc;

/// The one transaction time: 2026-01-01.
const TRANSACTION_TIME: i64 = 1_767_225_600_000_000;
/// How often a program may ask whether to go on (about every thousand rows): an endless one ends,
/// and always at the same place.
const QUESTIONS_MAX: u64 = 4_000;
/// Of the error for that.
pub const TOO_LONG: &str = "57014";

/// How a query is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Planned without knowledge of the data, on all stores.
    Plain,
    /// On the stores that its routing asks for.
    AsRouted,
    /// Planned with row counts that are made up from the seed, on the stores that its routing asks
    /// for.
    WithStatistics(u64),
    /// On snapshots of the stores, without indexes, as long reads are.
    OnSnapshot,
    /// With its literals taken out and given back as parameters, as the plan cache does.
    Parameterized,
}

pub struct Engine {
    stores: Vec<Store>,
    catalog: Arc<Catalog>,
    ring: Arc<Ring>,
    /// Follow the stores by their redo and must end like them.
    copies: Vec<Store>,
    scratch: Scratch,
    parameterizer: Parameterizer,
}

struct MadeUp(u64);

impl Statistics for MadeUp {
    fn rows(&self, table: TableId) -> Option<u64> {
        let mixed = (self.0 ^ table.index() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match mixed % 4 {
            0 => None,
            1 => Some(mixed % 10),
            2 => Some(mixed % 1_000),
            _ => Some(mixed),
        }
    }

    fn partitions(&self) -> u64 {
        7
    }

    fn part_between(&self, table: TableId, column: u16, _: Option<&OwnedValue>, _: Option<&OwnedValue>) -> Option<f64> {
        let mixed = (self.0 ^ (table.index() << 16 | usize::from(column)) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match mixed >> 62 {
            0 => None,
            part => Some((part - 1) as f64 / 2.0),
        }
    }
}

impl Engine {
    pub fn new(partitions: u32) -> Engine {
        let ring = Arc::new(Ring::new_default(partitions));
        let stores = || (0..partitions).map(|number| Store::new(PartitionId(number), ring.clone())).collect();
        Engine {
            stores: stores(),
            copies: stores(),
            catalog: Arc::default(),
            scratch: Scratch::default(),
            parameterizer: Parameterizer::default(),
            ring,
        }
    }

    /// Runs a statement that changes the schema.
    pub fn define(&mut self, text: &str) -> Result<(), Failure> {
        self.change_schema(text).map_err(failure)
    }

    /// Runs a query or a data change; `way` matters to queries.
    pub fn run(&mut self, text: &str, way: Way) -> EngineResult {
        self.run_as(text, way).map_err(failure)
    }

    /// Runs a statement with parameters as a call with these values, whatever their types.
    pub fn run_given(&mut self, text: &str, values: &[OwnedValue]) -> EngineResult {
        self.with_values(text, values).map_err(failure)
    }

    /// The code of the error that the statement has when it is compiled.
    pub fn refusal(&self, text: &str, values: usize) -> Option<String> {
        let compiled = ferrite_sql::parse_batch(text)
            .and_then(|statements| ferrite_sql::compile_adhoc(&self.catalog, &statements, values));
        compiled.err().map(|error| error.code().to_owned())
    }

    /// The same, as a call of a procedure that is the statement.
    pub fn run_procedure(&mut self, text: &str, values: &[OwnedValue]) -> EngineResult {
        self.as_procedure(text, values).map_err(failure)
    }

    fn as_procedure(&mut self, text: &str, values: &[OwnedValue]) -> UserResult<Answer> {
        let statements = ferrite_sql::parse_batch(&format!("CREATE PROCEDURE differential_call AS {text}"))?;
        let [statement] = statements.as_slice() else { return Err(UserError::internal("it is one statement")) };
        let (change, _warnings) = ferrite_sql::bind_ddl(&self.catalog, statement)?;
        let (catalog, _) = self.catalog.apply(&change)?;
        let Some(procedure) = catalog.procedures.get("DIFFERENTIAL_CALL") else {
            return Err(UserError::internal("a procedure that is not there"));
        };
        let called = ferrite_sql::compile_procedure(&self.catalog, procedure)?;
        self.call_with(&called, values)
    }

    fn with_values(&mut self, text: &str, values: &[OwnedValue]) -> UserResult<Answer> {
        let statements = ferrite_sql::parse_batch(text)?;
        let called = ferrite_sql::compile_adhoc(&self.catalog, &statements, values.len())?;
        self.call_with(&called, values)
    }

    /// Converts the values as a server does, and calls the program or a variant of it.
    fn call_with(&mut self, called: &Program, values: &[OwnedValue]) -> UserResult<Answer> {
        let arena = Bump::new();
        let given: Vec<Value<'_>> = values.iter().map(OwnedValue::as_value).collect();
        let fitted = match &called.variants {
            None => Fitted { program: None, values: &given },
            Some(variants) => variants.fit(called, &self.catalog, &given, &arena),
        };
        let program = fitted.program.as_deref().unwrap_or(called);
        let mut parameters = Vec::new();
        for (value, parameter) in fitted.values.iter().zip(&program.parameters) {
            parameters.push(convert::to_declared(*value, &parameter.column_type, &arena)?);
        }
        let range = self.route(called, &given)?;
        self.call(program, &parameters, range)
    }

    /// How many stores a statement is lent that is called with these values. None where it cannot
    /// be called with them.
    pub fn stores_of(&self, text: &str, values: &[OwnedValue]) -> Option<usize> {
        let statements = ferrite_sql::parse_batch(text).ok()?;
        let called = ferrite_sql::compile_adhoc(&self.catalog, &statements, values.len()).ok()?;
        let given: Vec<Value<'_>> = values.iter().map(OwnedValue::as_value).collect();
        self.route(&called, &given).ok().map(|range| range.len())
    }

    fn change_schema(&mut self, text: &str) -> UserResult<()> {
        let statements = ferrite_sql::parse_batch(text)?;
        let mut catalog = Catalog::clone(&self.catalog);
        let mut effects = Vec::new();
        for statement in &statements {
            let (change, _warnings) = ferrite_sql::bind_ddl(&catalog, statement)?;
            let (next, more) = catalog.apply(&change)?;
            catalog = next;
            effects.extend(more);
        }
        let effects = ferrite_catalog::settle(effects, &self.catalog, &catalog);
        let catalog = Arc::new(catalog);
        ferrite_table::change_schema(&mut self.stores, &catalog, &effects, TRANSACTION_TIME)?;
        ferrite_table::change_schema(&mut self.copies, &catalog, &effects, TRANSACTION_TIME)
            .expect("copies follow their stores");
        self.catalog = catalog;
        Ok(())
    }

    fn run_as(&mut self, text: &str, way: Way) -> UserResult<Answer> {
        let statements = ferrite_sql::parse_batch(text)?;
        let program = match way {
            Way::WithStatistics(seed) => ferrite_sql::compile_adhoc_with(&self.catalog, &MadeUp(seed), &statements, 0)?,
            _ => ferrite_sql::compile_adhoc(&self.catalog, &statements, 0)?,
        };
        match way {
            Way::OnSnapshot => self.on_snapshot(&program),
            Way::Parameterized => self.parameterized(text, &program),
            Way::Plain => self.call(&program, &[], 0..self.stores.len()),
            Way::AsRouted | Way::WithStatistics(_) => {
                let range = self.route(&program, &[])?;
                self.call(&program, &[], range)
            }
        }
    }

    fn on_snapshot(&mut self, program: &Program) -> UserResult<Answer> {
        let program = match &program.snapshot_plan {
            SnapshotPlan::None => return self.call(program, &[], 0..self.stores.len()),
            SnapshotPlan::Same => program,
            SnapshotPlan::Other(other) => other,
        };
        let tables = ferrite_plan::tables_read(program);
        let range = self.route(program, &[])?;
        let mut stores: Vec<Store> =
            self.stores.iter_mut().map(|store| store.snapshot(|table| tables.contains(&table))).collect();
        run_on(&mut stores[range], program, &[], &mut self.scratch, Some(&Backwards))
    }

    fn parameterized(&mut self, text: &str, exact: &Program) -> UserResult<Answer> {
        let found = self.parameterizer.parameterize(text).and_then(|()| {
            let literals = self.parameterizer.literals();
            ferrite_sql::find_template(&self.catalog, &ferrite_sql::NoStatistics, text, literals, exact)
        });
        let Some((template, _)) = found else { return self.call(exact, &[], 0..self.stores.len()) };
        let missing = || UserError::internal("a literal that is not a parameter");
        self.by_template(&template, text).unwrap_or_else(|| Err(missing()))
    }

    /// Runs `text`, which was taken apart last. None where one of its literals is none that the
    /// template takes.
    fn by_template(&mut self, template: &Template, text: &str) -> Option<UserResult<Answer>> {
        let arena = Bump::new();
        let mut parameters = Vec::new();
        for argument in &template.arguments {
            // Nobody gives other parameters.
            let Argument::Literal { number, sql_type } = argument else { return None };
            let literal = self.parameterizer.literals()[usize::from(*number)];
            parameters.push(literal.as_parameter(text, *sql_type, &arena)?);
        }
        let range = self.route(&template.program, &parameters);
        Some(range.and_then(|range| self.call(&template.program, &parameters, range)))
    }

    /// Runs `text` by the plan that is made for `first`, as the plan cache does. None where they
    /// differ in more than literals, or no plan for both is to be had.
    pub fn run_by_template(&mut self, first: &str, text: &str) -> Option<EngineResult> {
        let exact = ferrite_sql::parse_batch(first)
            .and_then(|statements| ferrite_sql::compile_adhoc(&self.catalog, &statements, 0))
            .ok()?;
        self.parameterizer.parameterize(first)?;
        let shape = self.parameterizer.shape().to_vec();
        let literals = self.parameterizer.literals().to_vec();
        let (template, lifted) =
            ferrite_sql::find_template(&self.catalog, &ferrite_sql::NoStatistics, first, &literals, &exact)?;
        self.parameterizer.parameterize(text)?;
        let kept = literals.iter().zip(self.parameterizer.literals()).zip(&lifted).filter(|(_, lifted)| !**lifted);
        let mut same = self.parameterizer.shape() == shape;
        for ((one, other), _) in kept {
            same &= one.written(first) == other.written(text);
        }
        if !same {
            return None;
        }
        self.by_template(&template, text).map(|answer| answer.map_err(failure))
    }

    /// Runs the program as one transaction and commits it.
    fn call(&mut self, program: &Program, parameters: &[Value<'_>], range: Range<usize>) -> UserResult<Answer> {
        let answer = run_on(&mut self.stores[range], program, parameters, &mut self.scratch, None)?;
        for (store, copy) in self.stores.iter_mut().zip(&mut self.copies) {
            let mut redo = Vec::new();
            store.take_redo_into(&mut redo);
            store.commit();
            if !redo.is_empty() {
                copy.apply_redo(&redo).expect("a copy takes its store's redo");
            }
        }
        Ok(answer)
    }

    /// The stores that a call is lent.
    fn route(&self, program: &Program, parameters: &[Value<'_>]) -> UserResult<Range<usize>> {
        let count = self.stores.len();
        Ok(match program.owners(|index| Ok(parameters[usize::from(index)]), &self.ring)? {
            Owners::One(partition) => partition.index()..partition.index() + 1,
            Owners::Any | Owners::Named => count - 1..count,
            Owners::All | Owners::Several(_) => 0..count,
            Owners::None => return Err(UserError::internal("a compound procedure in SQL alone")),
        })
    }

    /// What must hold between transactions: indexes and views say what the rows say, replicas are
    /// alike, and copies that follow by redo are like their stores. Err says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        for (number, (store, copy)) in self.stores.iter().zip(&self.copies).enumerate() {
            store.verify().map_err(|problem| format!("store {number}: {problem}"))?;
            copy.verify().map_err(|problem| format!("copy {number}: {problem}"))?;
            for (name, table) in &self.catalog.tables {
                let rows = table_rows(store, table.id, table.columns.len());
                if rows != table_rows(copy, table.id, table.columns.len()) {
                    return Err(format!("store {number}: redo did not give the same rows of {name}"));
                }
                if !table.is_partitioned() && rows != table_rows(&self.stores[0], table.id, table.columns.len()) {
                    return Err(format!("store {number}: the replicas of {name} differ"));
                }
            }
        }
        Ok(())
    }
}

/// Does the parts of a query one after the other, the last first.
struct Backwards;

impl WorkerPool for Backwards {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).rev().for_each(work);
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn pays(&self, _: u64, _: u64) -> bool {
        true
    }
}

fn run_on(
    stores: &mut [Store],
    program: &Program,
    parameters: &[Value<'_>],
    scratch: &mut Scratch,
    workers: Option<&dyn WorkerPool>,
) -> UserResult<Answer> {
    let arena = Bump::new();
    let asked = Counter::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        asked.get() > QUESTIONS_MAX
    };
    let call =
        Call { interrupted: Some(&interrupted), workers, ..Call::new(program, parameters, TRANSACTION_TIME, &arena) };
    let mut answer = Answer::default();
    let result = ferrite_exec::run_transaction(stores, &call, scratch, &mut answer);
    match result {
        Err(_) if asked.get() > QUESTIONS_MAX => Err(UserError::new(ErrorKind::Limit, TOO_LONG, "took too long")),
        other => other.map(|()| answer),
    }
}

fn failure(error: UserError) -> Failure {
    Failure { code: error.code().to_owned(), message: error.to_string() }
}

fn table_rows(store: &Store, table: TableId, columns: usize) -> Vec<Vec<Option<String>>> {
    let rows = store.table(table);
    let mut all: Vec<Vec<Option<String>>> = rows
        .scan()
        .map(|id| (0..columns).map(|column| canonical(&rows.row(id).column(column as u16))).collect())
        .collect();
    all.sort();
    all
}

impl ResultSink for Answer {
    fn begin_table(&mut self, columns: &[OutputColumn]) {
        self.types = columns.iter().map(|column| column.sql_type).collect();
    }

    fn row(&mut self, values: &[Value<'_>]) -> UserResult<()> {
        assert_eq!(values.len(), self.types.len(), "a row is as wide as its table");
        self.rows.push(values.iter().map(canonical).collect());
        Ok(())
    }

    fn end_table(&mut self) {}

    fn modified(&mut self, rows: u64) {
        self.modified = Some(rows);
    }

    fn status(&mut self, _: Option<i64>) {}
}

fn canonical(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Float(number) => canonical_float(*number),
        Value::Decimal(_) => canonical_decimal(&convert::to_text_string(value)),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        other => convert::to_text_string(other),
    })
}
