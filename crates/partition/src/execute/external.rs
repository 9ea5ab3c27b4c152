//! Calls whose body is written in another language: the transaction as that body sees it.
//!
//! Promises that a batch of statements happens or does not happen, that a body which fails leaves
//! no trace, and that no body runs SQL past its time. Knows no language.

use super::answer::{HeaderCache, WireSink};
use super::{check_tables, decode_parameters};
use crate::cancel::GroupCancellations;
use crate::contain::{Outside, contained};
use crate::predictor::CallProfile;
use bumpalo::Bump;
use ferrite_base::{PartitionId, UserError, UserResult, limits};
use ferrite_exec::{Call, ResultSink, Scratch, roll_back, run_transaction, set_marks};
use ferrite_plan::Fitted;
use ferrite_plan::external::{self as sql, Host};
use ferrite_plan::{OutputColumn, Program};
use ferrite_table::Store;
use ferrite_value::Value;
use ferrite_wire::{OpenTable, TableWriter, table};
use std::sync::Arc;

/// What is kept from call to call.
#[derive(Default)]
pub(super) struct Kept {
    pub partition: Option<PartitionId>,
    /// Which calls are not executed.
    pub watched: GroupCancellations,
    /// Memory for one batch.
    arena: Bump,
    unique: UniqueIds,
    /// What the next call is watched for.
    pub profile: Option<Box<CallProfile>>,
}

impl Kept {
    pub fn unique_ids_above(&mut self, micros: i64) {
        self.unique.go_on_above(micros);
    }

    #[inline]
    pub fn take_unique_ids_ahead(&mut self) -> Option<i64> {
        self.unique.take_ahead()
    }
}

/// Runs the body as a transaction.
#[inline(never)]
pub(super) fn run(
    external: &sql::ExternalRoutine,
    stores: &mut [Store],
    call: &Call<'_>,
    scratch: &mut Scratch,
    sink: &mut WireSink<'_, '_>,
    kept: &mut Kept,
    outside: &Outside,
) -> UserResult<()> {
    if let Some(broken) = &external.broken {
        return Err(broken.clone());
    }
    // The call's time begins with the body.
    if let Some(interrupted) = call.interrupted {
        interrupted();
    }
    let marks = set_marks(stores);
    let partition = kept.partition;
    let unique_id = kept.unique.next(call.transaction_time, partition);
    let mut transaction = Transaction {
        external,
        stores,
        call,
        scratch,
        sink,
        arena: &mut kept.arena,
        unique_id,
        partition,
        profile: kept.profile.as_deref_mut(),
        outside,
        watched: &kept.watched,
    };
    let result = match &external.body {
        sql::RoutineBody::Transaction(body) => outside.run(|| body.call(&mut transaction, call.parameters)),
        sql::RoutineBody::Compound(_) | sql::RoutineBody::NonTransactional(_) => {
            Err(UserError::internal("a procedure outside of transactions was sent to a partition"))
        }
    };
    if result.is_err() {
        roll_back(transaction.stores, marks);
    }
    result
}

struct Transaction<'t, 'x, 'o, 'c> {
    external: &'t sql::ExternalRoutine,
    stores: &'t mut [Store],
    call: &'t Call<'x>,
    scratch: &'t mut Scratch,
    sink: &'t mut WireSink<'o, 'c>,
    arena: &'t mut Bump,
    unique_id: i64,
    partition: Option<PartitionId>,
    profile: Option<&'t mut CallProfile>,
    outside: &'t Outside,
    watched: &'t GroupCancellations,
}

impl Host for Transaction<'_, '_, '_, '_> {
    fn transaction_time(&self) -> i64 {
        self.call.transaction_time
    }

    fn unique_id(&self) -> i64 {
        self.unique_id
    }

    fn partition(&self) -> Option<u32> {
        self.partition.map(|partition| partition.0)
    }

    fn execute(&mut self, batch: &[u8], tables: &mut Vec<u8>) -> UserResult<()> {
        self.in_time()?;
        let mut rest = batch;
        let count = u32::from_be_bytes(read_array(&mut rest)?);
        if count as usize > limits::ROUTINE_BATCH_STATEMENTS_MAX {
            let most = limits::ROUTINE_BATCH_STATEMENTS_MAX;
            return Err(UserError::limit(format!("more than {most} statements in a batch"))
                .with_hint("execute them in several batches: they are one transaction all the same"));
        }
        let marks = (count > 1).then(|| set_marks(self.stores));
        let mut made_up = None;
        for _ in 0..count {
            if let Err(error) = self.statement(&mut rest, tables, &mut made_up) {
                if let Some(marks) = marks {
                    roll_back(self.stores, marks);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn answer(&mut self, mut tables: &[u8]) -> UserResult<()> {
        while !tables.is_empty() {
            let length = u32::from_be_bytes(tables.first_chunk().copied().ok_or_else(malformed)?) as usize;
            let (table, rest) = tables.split_at_checked(4 + length).ok_or_else(malformed)?;
            self.sink.writer.encoded_table(table)?;
            tables = rest;
        }
        Ok(())
    }

    fn status(&mut self, code: i8, text: Option<&str>) {
        self.sink.writer.application_status(code);
        if let Some(text) = text {
            self.sink.writer.application_status_text(text);
        }
    }
}

impl Transaction<'_, '_, '_, '_> {
    fn in_time(&self) -> UserResult<()> {
        if self.call.interrupted.is_some_and(|interrupted| interrupted()) {
            return Err(UserError::data("57014", "Transaction Interrupted").with_hint(
                "the procedure ran longer than it may; shorten it, or start the server with a longer --query-timeout",
            ));
        }
        Ok(())
    }

    /// One statement of a batch; all or nothing. `made_up` is the last one that came as a text.
    fn statement<'b>(
        &mut self,
        rest: &mut &'b [u8],
        tables: &mut Vec<u8>,
        made_up: &mut Option<(&'b [u8], Arc<Program>)>,
    ) -> UserResult<()> {
        let number = u16::from_be_bytes(read_array(rest)?);
        let mut compiled = None;
        let program = if number == sql::TEXT {
            &**compiled.insert(self.made_up(sized(rest)?, made_up)?)
        } else {
            self.external.statements.get(usize::from(number)).ok_or_else(malformed)?
        };
        let parameters = sized(rest)?;
        self.arena.reset();
        let catalog = self.stores.first().map(Store::catalog).expect("a transaction has a store");
        let fitted = decode_parameters(program, catalog, parameters, false, self.arena)?;
        let Fitted { program: variant, values: parameters } = fitted;
        let program = variant.as_deref().unwrap_or(program);
        check_tables(program, catalog, self.watched)?;
        if let Some(profile) = &mut self.profile {
            profile.statement(usize::from(number), parameters, self.call.parameters);
        }
        let call = Call { program, parameters, arena: self.arena, ..*self.call };
        let bytes_max = self.sink.writer.bytes_max();
        let additions = self.sink.headers.additions;
        let mut sink = TableSink { tables, bytes_max, headers: self.sink.headers, open: None };
        let scratch = &mut *self.scratch;
        let outside = self.outside;
        // Not across the body's frames, which may be those of another language.
        let marks = set_marks(self.stores);
        let done = outside.inside(|| {
            contained(
                self.stores,
                |_| marks,
                outside,
                &program.name,
                |stores| run_transaction(stores, &call, scratch, &mut sink),
            )
        });
        if let Some(program) = variant.or(compiled) {
            self.sink.headers.keep(program, additions);
        }
        done
    }

    /// The statement that the body gives as a text; without one, the last such statement again.
    #[cold]
    #[inline(never)]
    fn made_up<'b>(&mut self, text: &'b [u8], last: &mut Option<(&'b [u8], Arc<Program>)>) -> UserResult<Arc<Program>> {
        if let Some((known, program)) = last
            && (text.is_empty() || *known == text)
        {
            return Ok(Arc::clone(program));
        }
        self.in_time()?;
        let outside = self.outside;
        let reach = self.external.texts;
        let marks = set_marks(self.stores);
        let program = outside.inside(|| {
            contained(
                self.stores,
                |_| marks,
                outside,
                "a statement that a procedure made up",
                |stores| {
                    let catalog = stores.first().map(Store::catalog).expect("a transaction has a store");
                    ferrite_sql::compile_text(catalog, str::from_utf8(text).map_err(|_| malformed())?, reach)
                },
            )
        })?;
        let (_, program) = last.insert((text, Arc::new(program)));
        Ok(Arc::clone(program))
    }
}

fn sized<'b>(bytes: &mut &'b [u8]) -> UserResult<&'b [u8]> {
    let length = u32::from_be_bytes(read_array(bytes)?) as usize;
    let (head, tail) = bytes.split_at_checked(length).ok_or_else(malformed)?;
    *bytes = tail;
    Ok(head)
}

fn read_array<const N: usize>(bytes: &mut &[u8]) -> UserResult<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk().ok_or_else(malformed)?;
    *bytes = tail;
    Ok(*head)
}

#[cold]
fn malformed() -> UserError {
    UserError::internal("a procedure's batch of statements is malformed")
}

/// Writes results one after the other, without a response around them.
struct TableSink<'t> {
    tables: &'t mut Vec<u8>,
    /// What they may have at most.
    bytes_max: usize,
    headers: &'t mut HeaderCache,
    open: Option<(OpenTable, usize)>,
}

impl ResultSink for TableSink<'_> {
    #[inline]
    fn begin_table(&mut self, columns: &[OutputColumn]) {
        let position = self.headers.position(columns);
        let table = TableWriter::begin(self.tables, &self.headers.entries[position].1).suspend();
        self.open = Some((table, position));
    }

    #[inline]
    fn row(&mut self, values: &[Value<'_>]) -> UserResult<()> {
        let (table, position) = self.open.take().expect("rows come after their table was begun");
        let mut table = table.resume(self.tables, &self.headers.entries[position].1);
        table.row(values)?;
        self.open = Some((table.suspend(), position));
        let most = self.bytes_max;
        if self.tables.len() > most {
            return Err(UserError::limit(format!(
                "the results of a batch are larger than {most} bytes (--limit result-bytes)"
            ))
            .with_hint("add a LIMIT, or execute the statements one after the other"));
        }
        Ok(())
    }

    #[inline]
    fn end_table(&mut self) {
        let (table, position) = self.open.take().expect("a table is ended once");
        table.resume(self.tables, &self.headers.entries[position].1).finish();
    }

    fn modified(&mut self, rows: u64) {
        table::write_modified_tuples(self.tables, rows as i64);
    }

    fn status(&mut self, value: Option<i64>) {
        table::write_scalar_table(self.tables, value.unwrap_or(i64::MIN));
    }
}

/// Numbers of transactions that are not given twice: milliseconds since 2008, a count within the
/// millisecond, the partition.
#[derive(Default)]
struct UniqueIds {
    millisecond: i64,
    count: i64,
    /// Since this was asked last, one was given that is of a later time than its transaction.
    ahead: bool,
}

/// 2008-01-01 in milliseconds since 1970.
const UNIQUE_EPOCH_MS: i64 = 1_199_145_600_000;
const COUNT_BITS: u32 = 9;
const PARTITION_BITS: u32 = 14;
/// The partition that transactions over all of them count as.
const ALL_PARTITIONS: i64 = (1 << PARTITION_BITS) - 1;
const _: () = assert!((limits::PARTITIONS_MAX as i64) < ALL_PARTITIONS);
/// What is left for them: until 2042.
const MILLISECOND_MAX: i64 = i64::MAX >> (COUNT_BITS + PARTITION_BITS);

impl UniqueIds {
    /// Future ones are above all that were made up to `micros` since 1970. Another node reports
    /// that time, whose clock may be centuries ahead.
    fn go_on_above(&mut self, micros: i64) {
        let millisecond = (micros / 1_000 - UNIQUE_EPOCH_MS + 1).min(MILLISECOND_MAX);
        if millisecond > self.millisecond {
            (self.millisecond, self.count) = (millisecond, 0);
        }
    }

    /// The time that the last one is of, in microseconds since 1970, where the clock does not say
    /// it, once.
    #[inline]
    fn take_ahead(&mut self) -> Option<i64> {
        if !self.ahead {
            return None;
        }
        self.ahead = false;
        Some((self.millisecond + UNIQUE_EPOCH_MS) * 1_000)
    }

    fn next(&mut self, transaction_time: i64, partition: Option<PartitionId>) -> i64 {
        let now = transaction_time / 1_000 - UNIQUE_EPOCH_MS;
        if now > self.millisecond {
            (self.millisecond, self.count) = (now, 0);
        } else {
            self.count += 1;
            if self.count >> COUNT_BITS != 0 {
                (self.millisecond, self.count) = (self.millisecond + 1, 0);
            }
            self.ahead |= self.millisecond > now;
        }
        let partition = partition.map_or(ALL_PARTITIONS, |partition| i64::from(partition.0));
        self.millisecond << (COUNT_BITS + PARTITION_BITS) | self.count << PARTITION_BITS | partition
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiled::Compiled;
    use crate::counters::CallOutcome;
    use crate::execute::{Executor, Request};
    use crate::schema;
    use ferrite_base::RowId;
    use ferrite_catalog::Catalog;
    use ferrite_plan::external::{Body, ExternalRoutine, RoutineBody, Texts};
    use ferrite_value::OwnedValue;
    use ferrite_value::ring::Ring;
    use ferrite_wire::parameters::ParameterSet;
    use std::time::Duration;

    /// Queues `UPDATE ... SET v = n * ?` with a double, an integer and a double again.
    #[derive(Debug)]
    struct Multiplies(f64);

    impl Body for Multiplies {
        fn call(&self, host: &mut dyn Host, _: &[Value<'_>]) -> UserResult<()> {
            let mut batch = 3u32.to_be_bytes().to_vec();
            for factor in [OwnedValue::Float(15.1), OwnedValue::Integer(2), OwnedValue::Float(self.0)] {
                let mut set = Vec::new();
                (factor,).write_set(&mut set).expect("it is small");
                batch.extend_from_slice(&0u16.to_be_bytes());
                batch.extend_from_slice(&(set.len() as u32).to_be_bytes());
                batch.extend_from_slice(&set);
            }
            host.execute(&batch, &mut Vec::new())
        }
    }

    #[test]
    fn a_statement_computes_with_what_the_body_gives_it() {
        let ddl = "CREATE TABLE pos (n INTEGER, v FLOAT);
            CREATE PROCEDURE fill AS INSERT INTO pos VALUES (7, 0);
            CREATE PROCEDURE multiply AS UPDATE pos SET v = v + n * ?;";
        let planned = schema::plan(&Catalog::default(), ddl).expect("the schema binds");
        let mut stores = [Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
        schema::apply(&mut stores, &planned, 0).expect("the store is empty");
        let compiled = Compiled::new(planned.catalog, &Default::default()).expect("the statements compile");
        let program = |name: &str| Arc::clone(compiled.program(compiled.require(name).expect("it is there")));
        let caller = |factor: f64| {
            let body = RoutineBody::Transaction(Arc::new(Multiplies(factor)));
            let statements = vec![program("multiply")];
            let external = Some(Arc::new(ExternalRoutine { body, statements, texts: Texts::None, broken: None }));
            Arc::new(Program { external, ..Program::clone(&program("fill")) })
        };
        let mut executor = Executor::new(Duration::from_secs(10));
        let mut call = |program: &Arc<Program>| {
            let mut out = Vec::new();
            let request =
                Request { program, parameters: &[0, 0], drop_first_parameter: false, handle: 1, transaction_time: 0 };
            let outcome = executor.call(&mut stores, &request, &mut out);
            for store in &mut stores {
                store.discard_redo();
                store.commit();
            }
            (outcome, String::from_utf8_lossy(&out).into_owned())
        };
        for program in [&program("fill"), &caller(0.5)] {
            let (outcome, answer) = call(program);
            assert_eq!(outcome, CallOutcome::Committed, "{answer}");
        }
        for factor in [f64::NAN, f64::INFINITY] {
            let (outcome, answer) = call(&caller(factor));
            assert_eq!(outcome, CallOutcome::RolledBack, "{answer}");
            assert!(answer.contains("is not a FLOAT of SQL"), "{answer}");
        }
        let table = compiled.catalog.table_named("POS").expect("it is there").id;
        let Value::Float(v) = stores[0].table(table).row(RowId(0)).column(1) else { panic!("v is a FLOAT") };
        assert!((v - (7.0 * 15.1 + 14.0 + 3.5)).abs() < 1e-9, "{v}");
    }
    use std::collections::HashSet;

    #[test]
    fn unique_ids_are_unique_whatever_the_clock_does() {
        let mut ids = UniqueIds::default();
        let mut seen = HashSet::new();
        let begin = 1_800_000_000_000_000;
        for number in 0..5_000 {
            // A thousand in the same millisecond, then back by an hour, then on.
            let time = match number / 1_000 {
                0 => begin,
                1 => begin - 3_600_000_000,
                _ => begin + number * 100,
            };
            assert!(seen.insert(ids.next(time, Some(PartitionId(3)))), "{number}");
        }
        assert!(seen.iter().all(|id| *id > 0 && id & ALL_PARTITIONS == 3));
        // Another node continues, whose clock is an hour behind.
        let (highest, time) = (seen.iter().max().copied(), begin + 5_000 * 100);
        let mut others = UniqueIds::default();
        others.go_on_above(time);
        for _ in 0..2_000 {
            assert!(Some(others.next(time - 3_600_000_000, Some(PartitionId(3)))) > highest);
        }
        others.go_on_above(begin);
        assert!(Some(others.next(begin, Some(PartitionId(3)))) > highest, "it does not go back");
        // Another node's clock was ahead of all numbers that there are.
        for micros in [i64::MAX, (MILLISECOND_MAX + UNIQUE_EPOCH_MS + 7) * 1_000] {
            others.go_on_above(micros);
            assert!(others.next(begin, Some(PartitionId(3))) > 0, "{micros}");
            assert_eq!(others.take_ahead(), Some((MILLISECOND_MAX + UNIQUE_EPOCH_MS) * 1_000));
        }
    }
}
