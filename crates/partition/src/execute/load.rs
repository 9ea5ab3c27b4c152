//! Bulk load: one data change for each row of a table that a client sent, all in one transaction.

use super::parameters::{convert_all, malformed};
use super::{CallOutcome, Executor, GroupShares, Request, Slow, check_tables};
use crate::contain::{Outside, contained};
use bumpalo::Bump;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_exec::{Call, ResultSink};
use ferrite_plan::{OutputColumn, Parameter};
use ferrite_table::Store;
use ferrite_value::{SqlType, Value};
use ferrite_wire::table::write_scalar_table;
use ferrite_wire::{ResponseWriter, Table, failure};
use std::time::{Duration, Instant};

/// Names of tables begin so that a restore makes for the rows of a backup. What is loaded into them
/// are values, and no parameters, among which the text `\N` would mean NULL.
pub const STAGING: &str = "FERRITE_RESTORE_";

/// How often the clock is looked at.
const ROWS_PER_CLOCK: usize = 1_024;

impl Executor {
    /// Runs the program, an insert or upsert of one row, for each row of the encoded table that is
    /// its parameter. All or nothing; the answer is the number of rows. Columns are taken in order,
    /// as the program declares its parameters.
    pub fn load(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
        slow: Option<Slow<'_>>,
        out: &mut Vec<u8>,
    ) -> CallOutcome {
        let mut writer = ResponseWriter::begin(out, request.handle);
        match self.load_all(stores, request, slow) {
            Ok(rows) => {
                writer.scalar_table(rows);
                writer.finish();
                CallOutcome::Committed
            }
            Err(error) => {
                writer.fail(&error);
                CallOutcome::RolledBack
            }
        }
    }

    /// The same for a group that loads what all groups load. The answer is one table, its length in
    /// front.
    pub(crate) fn load_in_group(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
        shares: &GroupShares<'_>,
        own_time: Option<Duration>,
    ) -> UserResult<Vec<Option<Vec<u8>>>> {
        shares.require_all(stores)?;
        let rows = self.within_time(own_time, |executor| executor.load_all(stores, request, None))?;
        let mut table = Vec::new();
        write_scalar_table(&mut table, rows);
        Ok(vec![Some(table)])
    }

    /// How many rows it were. On failure the stores are as before.
    fn load_all(&mut self, stores: &mut [Store], request: &Request<'_>, slow: Option<Slow<'_>>) -> UserResult<i64> {
        let marks = ferrite_exec::set_marks(stores);
        let outside = Outside::default();
        let rows = contained(
            stores,
            |_| marks.clone(),
            &outside,
            &request.program.name,
            |stores| self.load_rows(stores, request, slow, &outside),
        );
        if rows.is_err() {
            ferrite_exec::roll_back(stores, marks);
        }
        rows
    }

    fn load_rows(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
        mut slow: Option<Slow<'_>>,
        outside: &Outside,
    ) -> UserResult<i64> {
        let Request { program, parameters, transaction_time, .. } = *request;
        let catalog = stores.first().map(Store::catalog).expect("a load has a store");
        check_tables(program, catalog, &self.cancellations)?;
        let table = Table::parse(parameters).map_err(|error| malformed(program, &error))?;
        if table.column_count() != program.parameters.len() {
            return Err(failure::parameter_count(&program.name, program.parameters.len(), table.column_count()));
        }
        let are_values = program.name.starts_with(STAGING);
        let began = Instant::now();
        let mut given: Vec<Value<'_>> = Vec::with_capacity(table.column_count());
        for (number, row) in table.rows().enumerate() {
            let row = row.map_err(|error| malformed(program, &error))?;
            given.clear();
            for cell in row.cells() {
                given.push(cell.map_err(|error| malformed(program, &error))?);
            }
            self.arena.reset();
            let arena = &self.arena;
            let in_row = |error: UserError| error.in_context(format_args!("row {number}"));
            let mut parameters = convert_all(program, &given, arena).map_err(in_row)?;
            if are_values {
                parameters = with_texts(parameters, &given, &program.parameters, arena);
            }
            let call = Call::new(program, parameters, transaction_time, arena);
            ferrite_exec::run(stores, &call, &mut self.scratch, &mut Discard).map_err(in_row)?;
            if number % ROWS_PER_CLOCK != 0 || number == 0 {
                continue;
            }
            if let Some(slow) = slow.take() {
                outside.run(slow);
            }
            let executed = began.elapsed();
            if self.cancellations.stops(self.current, executed) {
                return Err(self.cancellations.error());
            }
            if executed > self.limits.time_max {
                return Err(UserError::new(ErrorKind::Limit, "57014", "the load took too long and was rolled back")
                    .with_hint("send fewer rows in one call"));
            }
        }
        Ok(table.row_count() as i64)
    }
}

/// The same with each text as it was given.
fn with_texts<'x>(
    converted: &[Value<'x>],
    given: &[Value<'x>],
    declared: &[Parameter],
    arena: &'x Bump,
) -> &'x [Value<'x>] {
    let value = |((converted, given), declared): ((&Value<'x>, &Value<'x>), &Parameter)| match given {
        Value::Text(_) if declared.column_type.sql_type == SqlType::Varchar => *given,
        _ => *converted,
    };
    arena.alloc_slice_fill_iter(converted.iter().zip(given).zip(declared).map(value))
}

/// The answer of each row's statement is not needed.
struct Discard;

impl ResultSink for Discard {
    fn begin_table(&mut self, _columns: &[OutputColumn]) {}

    fn row(&mut self, _values: &[Value<'_>]) -> UserResult<()> {
        Ok(())
    }

    fn end_table(&mut self) {}

    fn modified(&mut self, _rows: u64) {}

    fn status(&mut self, _value: Option<i64>) {}
}
