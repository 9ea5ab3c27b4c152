//! Checks that several kinds of objects share: names, columns, expressions over rows.

use super::{already_exists, invalid};
use crate::objects::{Column, FunctionValues, Table};
use ferrite_base::limits::{IDENTIFIER_BYTES_MAX, ROW_BYTES_CEILING, TABLE_COLUMNS_MAX, VALUE_BYTES_MAX};
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{Expr, Function, earlier};
use std::collections::BTreeSet;

pub(super) fn identifier(name: &str) -> UserResult<()> {
    if name.is_empty() {
        return Err(invalid("a name cannot be empty".into()));
    }
    if name.len() > IDENTIFIER_BYTES_MAX {
        return Err(UserError::limit(format!(
            "the name {}... is longer than {IDENTIFIER_BYTES_MAX} bytes",
            name.chars().take(32).collect::<String>()
        )));
    }
    Ok(())
}

/// Number, names and sizes.
pub(super) fn columns(table: &str, columns: &[Column]) -> UserResult<()> {
    if columns.is_empty() {
        return Err(invalid(format!("{table} has no columns")));
    }
    if columns.len() > TABLE_COLUMNS_MAX {
        return Err(UserError::limit(format!(
            "{table} has {} columns, more than the {TABLE_COLUMNS_MAX} that a table may have",
            columns.len()
        )));
    }
    let mut names = BTreeSet::new();
    let mut row_bytes = 0;
    for column in columns {
        identifier(&column.name)?;
        if !names.insert(&column.name) {
            return Err(already_exists(&column.name));
        }
        let column_type = &column.column_type;
        if column_type.sql_type.is_variable_length() && !(1..=VALUE_BYTES_MAX).contains(&(column_type.length as usize))
        {
            return Err(UserError::limit(format!(
                "the size of {table}.{}, {column_type}, is not between 1 and {VALUE_BYTES_MAX}",
                column.name
            )));
        }
        row_bytes += column_type.bytes_max();
    }
    if row_bytes > ROW_BYTES_CEILING {
        return Err(UserError::limit(format!(
            "a row of {table} could have {row_bytes} bytes, more than the {ROW_BYTES_CEILING} that a row may have"
        ))
        .with_hint("declare smaller columns; VARCHAR(n) counts four bytes a character, VARCHAR(n BYTES) one"));
    }
    Ok(())
}

/// An expression that is computed from rows alone: of `tables`, bound to the slots from 0. `what`
/// is for messages.
pub(super) fn row_expression(what: &str, expression: &Expr, tables: &[&Table]) -> UserResult<()> {
    let outside = expression.any(&mut |inner| match inner {
        Expr::Parameter(_) | Expr::Register(_) | Expr::Subquery { .. } => true,
        Expr::Call { function, .. } => !function.is_deterministic(),
        Expr::Column { slot, column } => {
            tables.get(*slot as usize).is_none_or(|table| table.columns.len() <= *column as usize)
        }
        _ => false,
    });
    if outside {
        let uses_time = expression.any(&mut |inner| matches!(inner, Expr::Call { function: Function::Now, .. }));
        let reason = if uses_time { "NOW" } else { "a parameter, a subquery or another table" };
        return Err(invalid(format!("{what} depends on {reason}; it may depend on the columns of its row only")));
    }
    Ok(())
}

/// The expression as the database keeps it: with the values that functions had when it was written.
pub(super) fn kept(values: FunctionValues, expression: &Expr, tables: &[&Table]) -> Expr {
    let expression = expression.clone();
    if values != FunctionValues::Earlier {
        return expression;
    }
    earlier::kept(expression, &|slot, column| {
        let column = tables.get(usize::from(slot))?.columns.get(usize::from(column))?;
        Some(column.column_type.sql_type)
    })
}

/// A column that rows can be spread by.
pub(super) fn partition_column(table: &str, column: &Column) -> UserResult<()> {
    if column.nullable {
        return Err(invalid(format!("the partitioning column {table}.{} must be declared NOT NULL", column.name)));
    }
    if !column.column_type.sql_type.can_partition() {
        return Err(invalid(format!(
            "{table}.{} is of type {}, by which a table cannot be partitioned",
            column.name, column.column_type.sql_type
        ))
        .with_hint("partition by an integer, VARCHAR or VARBINARY column"));
    }
    Ok(())
}

/// In a partitioned table a unique key must contain the partitioning column: only then can one
/// partition tell.
pub(super) fn unique_keys(table: &Table) -> UserResult<()> {
    let Some(partition_column) = table.partition_column else { return Ok(()) };
    let column = &table.columns[partition_column as usize].name;
    for index in table.indexes.iter().filter(|index| index.unique && !index.is_view_key()) {
        if index.has_key_column(partition_column) {
            continue;
        }
        let is_primary_key = table.primary_key == Some(index.id);
        if is_primary_key {
            return Err(invalid(format!(
                "the primary key of the partitioned table {} must include the partitioning column {column}",
                table.name
            )));
        }
        if !index.assume_unique {
            return Err(invalid(format!(
                "the unique index {} on the partitioned table {} must include the partitioning column {column}",
                index.name, table.name
            ))
            .with_hint("add the column, or declare ASSUMEUNIQUE if values cannot repeat across partitions"));
        }
    }
    Ok(())
}
