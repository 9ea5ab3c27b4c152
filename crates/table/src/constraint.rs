//! The words of refusals: constraints as the original words them, and limits.

use crate::index::IndexData;
use crate::pages::NoSlot;
use crate::row::SourceRow;
use bumpalo::Bump;
use ferrite_base::{UserError, memory};
use ferrite_catalog::Table;
use ferrite_value::{Value, text};

/// SQLSTATE of a row that a unique index refuses.
pub const UNIQUE_VIOLATION: &str = "23505";
const MESSAGE: &str = "Attempted violation of constraint";
/// Characters of one value that a message shows.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// A value for a message.
pub(crate) fn shown(value: &Value<'_>) -> String {
    let mut text = text::to_text_string(value);
    if let Some((end, _)) = text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        text.truncate(end);
        text.push_str("...");
    }
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Text(_) => format!("'{text}'"),
        _ => text,
    }
}

fn column_name(table: &Table, column: u16) -> &str {
    table.columns.get(column as usize).map_or("(hidden)", |column| &column.name)
}

#[cold]
#[inline(never)]
pub(crate) fn unique<'a>(table: &Table, index: &'a IndexData, row: SourceRow<'a>, arena: &'a Bump) -> UserError {
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (place, part) in index.parts.iter().enumerate() {
        let written = index.definition.text.keys.get(place).map_or("expression", String::as_str);
        names.push(part.key.column().map_or(written, |column| column_name(table, column)));
        values.push(part.key.value(&[row], arena).map_or_else(|_| "?".to_owned(), |value| shown(&value)));
    }
    let rule = index.definition.constraint.as_ref().unwrap_or(&index.definition.name);
    UserError::constraint(UNIQUE_VIOLATION, MESSAGE).with_detail(format!(
        "Constraint Type UNIQUE, Table CatalogId {}\nKey ({}) = ({}) already exists (constraint {rule})",
        table.name,
        names.join(", "),
        values.join(", ")
    ))
}

#[cold]
#[inline(never)]
pub(crate) fn not_null(table: &Table, column: u16) -> UserError {
    UserError::constraint("23502", MESSAGE).with_detail(format!(
        "Constraint Type NOT_NULL, Table CatalogId {}\nColumn {} cannot be NULL",
        table.name,
        column_name(table, column)
    ))
}

#[cold]
#[inline(never)]
pub(crate) fn check(table: &Table, name: &str) -> UserError {
    UserError::constraint("23514", MESSAGE)
        .with_detail(format!("Constraint Type CHECK, Table CatalogId {}\nCondition {name} does not hold", table.name))
}

#[cold]
#[inline(never)]
pub(crate) fn wrong_kind(table: &Table, column: u16, value: &Value<'_>) -> UserError {
    UserError::internal(format!(
        "a {} value for column {}.{}",
        value.kind_name(),
        table.name,
        column_name(table, column)
    ))
}

#[cold]
#[inline(never)]
pub(crate) fn wrong_width(table: &Table, width: usize) -> UserError {
    UserError::internal(format!("a row of {width} values for table {} of {} columns", table.name, table.columns.len()))
}

#[cold]
#[inline(never)]
pub(crate) fn no_slot(table: &Table, reason: NoSlot) -> UserError {
    match reason {
        NoSlot::Full => table_full(table),
        NoSlot::NoMemory => no_memory(table),
    }
}

#[cold]
#[inline(never)]
pub(crate) fn no_memory(table: &Table) -> UserError {
    memory::refused(&format!("more rows of {}", table.name))
}

#[cold]
#[inline(never)]
pub(crate) fn transaction_too_large(bytes_max: usize) -> UserError {
    changes_too_much(bytes_max, "in one partition")
}

#[cold]
#[inline(never)]
pub(crate) fn transaction_too_large_together(bytes_max: usize) -> UserError {
    changes_too_much(bytes_max, "in all partitions together")
}

fn changes_too_much(bytes_max: usize, of_what: &str) -> UserError {
    UserError::limit("the transaction changes more than it may")
        .with_detail(format!("the limit is {bytes_max} bytes of changes {of_what} (--limit transaction-bytes)"))
        .with_hint("change fewer rows at once: divide the statement with WHERE or LIMIT; TRUNCATE TABLE empties a table of any size")
}

#[cold]
#[inline(never)]
fn table_full(table: &Table) -> UserError {
    UserError::limit(format!("table {} has as many rows in this partition as it can have", table.name))
        .with_hint("use more partitions, or delete rows")
}
