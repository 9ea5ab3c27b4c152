//! What a schema change may bring in: the limits that are set, asked where it comes from a client.
//!
//! Promises that nothing is refused for what was there before: a column keeps the size that it was
//! declared with, and a table that is larger than new ones may be can still be made smaller. Replay
//! does not come by here.

use ferrite_base::{SqlLimits, UserError, UserResult};
use ferrite_catalog::{Catalog, Change, Column, Procedure, Table};

/// `before` and `after` are the catalogs around the change.
pub fn check(change: &Change, before: &Catalog, after: &Catalog, limits: &SqlLimits) -> UserResult<()> {
    if *limits == SqlLimits::CEILING {
        return Ok(());
    }
    match change {
        Change::Several(changes) => changes.iter().try_for_each(|change| check(change, before, after, limits)),
        Change::CreateTable { name, .. } | Change::AlterTable { table: name, .. } => match after.table_named(name) {
            Some(table) => check_table(before.table_named(name).map(|table| &**table), table, limits),
            None => Ok(()),
        },
        Change::CreateProcedure { procedure } if procedure.class.is_none() => check_procedure(procedure, limits),
        Change::CreateTask { task } if task.parameters.len() > limits.parameters => {
            Err(too_many_parameters(&format!("the task {}", task.name), task.parameters.len(), limits))
        }
        _ => Ok(()),
    }
}

fn check_table(before: Option<&Table>, table: &Table, limits: &SqlLimits) -> UserResult<()> {
    let columns_before = before.map_or(&[][..], |table| &table.columns);
    for column in &table.columns {
        let bytes = column.column_type.bytes_max();
        let was = |before: &Column| before.name == column.name && before.column_type.bytes_max() >= bytes;
        if column.column_type.sql_type.is_variable_length()
            && bytes > limits.value_bytes
            && !columns_before.iter().any(was)
        {
            return Err(UserError::limit(format!(
                "a value of {}.{}, {}, could have {bytes} bytes, more than the {} that a value may have",
                table.name, column.name, column.column_type, limits.value_bytes
            ))
            .with_detail("the limit is --limit value-bytes")
            .with_hint("declare a smaller size; VARCHAR(n) counts four bytes a character, VARCHAR(n BYTES) one"));
        }
    }
    let bytes = |columns: &[Column]| columns.iter().map(|column| column.column_type.bytes_max()).sum::<usize>();
    let row_bytes = bytes(&table.columns);
    if row_bytes > limits.row_bytes && row_bytes > bytes(columns_before) {
        return Err(UserError::limit(format!(
            "a row of {} could have {row_bytes} bytes, more than the {} that a row may have",
            table.name, limits.row_bytes
        ))
        .with_detail("the limit is --limit row-bytes")
        .with_hint("declare smaller columns; VARCHAR(n) counts four bytes a character, VARCHAR(n BYTES) one"));
    }
    Ok(())
}

fn check_procedure(procedure: &Procedure, limits: &SqlLimits) -> UserResult<()> {
    let body = ferrite_sql::measure_body(&procedure.body)?;
    if body.statements > limits.statements {
        return Err(UserError::limit(format!("more than {} statements in a procedure", limits.statements))
            .with_detail(format!("{} has {} (--limit statements)", procedure.name, body.statements)));
    }
    let parameters = procedure.parameters.as_ref().map_or(body.placeholders, Vec::len);
    if parameters > limits.parameters {
        return Err(too_many_parameters(&format!("the procedure {}", procedure.name), parameters, limits));
    }
    Ok(())
}

fn too_many_parameters(whose: &str, parameters: usize, limits: &SqlLimits) -> UserError {
    UserError::limit(format!("{whose} has {parameters} parameters, more than {}", limits.parameters))
        .with_detail("the limit is --limit parameters")
}
