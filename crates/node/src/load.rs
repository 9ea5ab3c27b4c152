//! `@LoadSinglepartitionTable` and `@LoadMultipartitionTable`: what the bulk loaders of existing
//! clients call (wire-protocol 12.6).

use ferrite_base::{UserError, UserResult};
use ferrite_partition::{Compiled, ProgramCall, Reply, Retry, StoreSet};
use ferrite_plan::Program;
use ferrite_value::Value;
use std::sync::Arc;
use std::time::Duration;

/// Rows on their way into a table.
pub struct Load<'v> {
    /// The bytes of a partitioning key that all rows share a partition with, or None for one that
    /// is NULL; None for a replicated table.
    pub key: Option<Option<&'v [u8]>>,
    table: &'v str,
    upsert: bool,
    /// As encoded.
    pub rows: &'v [u8],
}

pub fn single<'v>(parameters: &[Value<'v>]) -> UserResult<Load<'v>> {
    match parameters {
        [Value::Bytes(key), Value::Text(table), Value::Integer(upsert), Value::Table(rows)] => {
            Ok(Load { key: Some(Some(key)), table, upsert: *upsert == 1, rows })
        }
        // Bulk loaders send rows without a key this way; the insert of the row reports which column
        // must have one.
        [Value::Null, Value::Text(table), Value::Integer(upsert), Value::Table(rows)] => {
            Ok(Load { key: Some(None), table, upsert: *upsert == 1, rows })
        }
        _ => Err(UserError::parameters(
            "@LoadSinglepartitionTable takes the bytes of a partitioning key, a table's name, 1 for upsert or 0, and a table of rows",
        )),
    }
}

pub fn multi<'v>(parameters: &[Value<'v>]) -> UserResult<Load<'v>> {
    match parameters {
        [Value::Text(table), Value::Integer(upsert), Value::Table(rows)] => {
            Ok(Load { key: None, table, upsert: *upsert == 1, rows })
        }
        _ => Err(UserError::parameters(
            "@LoadMultipartitionTable takes a table's name, 1 for upsert or 0, and a table of rows",
        )),
    }
}

/// The call that loads encoded rows, of which the program is run for each.
pub fn program_call(
    program: Arc<Program>,
    compiled: Arc<Compiled>,
    rows: Vec<u8>,
    time_max: Option<Duration>,
    reply: Reply,
    retry: Retry,
) -> ProgramCall {
    ProgramCall {
        turn: None,
        time_max,
        program,
        compiled,
        parameters: rows,
        stores: StoreSet::All,
        reply,
        retry: Some(retry),
        load: true,
        recompile: None,
    }
}

impl Load<'_> {
    /// What is run for each row.
    pub fn program(&self, compiled: &Compiled) -> UserResult<Arc<Program>> {
        let catalog = &compiled.catalog;
        let folded = self.table.to_uppercase();
        let found = catalog.tables.get(self.table).or_else(|| catalog.tables.get(&folded));
        let table = found.ok_or_else(|| match catalog.plain_views.contains_key(&folded) {
            true => catalog.no_table(&folded),
            false => UserError::unknown_table(self.table),
        })?;
        if self.key.is_some() != table.partition_column.is_some() {
            let (kind, procedure) = match table.partition_column {
                Some(_) => ("partitioned", "@LoadSinglepartitionTable"),
                None => ("replicated", "@LoadMultipartitionTable"),
            };
            let message = format!("table {} is {kind}", table.name);
            return Err(UserError::parameters(message).with_hint(format!("{procedure} loads such tables")));
        }
        let verb = if self.upsert { "upsert" } else { "insert" };
        let id = compiled.find(&format!("{}.{verb}", table.name)).ok_or_else(|| {
            UserError::parameters(format!("table {} cannot be loaded with {verb}", table.name))
                .with_hint("views take no rows, and an upsert needs a primary key")
        })?;
        Ok(Arc::clone(compiled.program(id)))
    }
}
