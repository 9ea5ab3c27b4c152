//! Words around errors: which statement they are in, as the original server puts it.

use ferrite_base::{ErrorKind, UserError};

/// Longest stretch of a statement that a message repeats, in bytes.
const EXCERPT_BYTES_MAX: usize = 1_000;

/// A statement's text for a message, cut if it is long.
pub(crate) fn excerpt(text: &str) -> String {
    if text.len() <= EXCERPT_BYTES_MAX {
        return text.to_owned();
    }
    let mut end = EXCERPT_BYTES_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

/// The same error with another message.
pub(crate) fn with_message(error: UserError, message: String) -> UserError {
    let mut changed = UserError::new(error.kind(), error.code(), message);
    if let Some(detail) = error.detail() {
        changed = changed.with_detail(detail.to_owned());
    }
    if let Some(hint) = error.hint() {
        changed = changed.with_hint(hint.to_owned());
    }
    changed
}

/// The same error as one of compiling: constants are evaluated then, and what goes wrong is no failure of execution.
pub(crate) fn at_compile_time(error: UserError) -> UserError {
    if error.kind() != ErrorKind::Sql {
        return error;
    }
    let message = error.message();
    // Evaluated at run time the words differ, as in the original.
    let message = if error.code() == "22012" { format!("data exception: {message}") } else { message.to_owned() };
    let mut changed = UserError::new(ErrorKind::Compile, error.code(), message);
    if let Some(hint) = error.hint() {
        changed = changed.with_hint(hint.to_owned());
    }
    changed
}

/// An error met while compiling a statement: `SQL error while compiling query: Error in "..." - ...`.
pub fn compile_error(statement: &str, error: UserError) -> UserError {
    // These name the column and table already.
    let message = if error.message().starts_with("Constant value overflows") {
        format!("SQL error while compiling query: {}", error.message())
    } else if error.message().starts_with("SQL ") {
        error.message().to_owned()
    } else {
        format!("SQL error while compiling query: Error in \"{}\" - {}", excerpt(statement), error.message())
    };
    with_message(error, message)
}

/// An error met while binding or applying a schema change: `DDL Error: "... in statement [...]"`. For the caller that
/// applies a batch of them; `number` counts the statements of the batch from 1.
pub fn ddl_error(number: usize, statement: &str, error: UserError) -> UserError {
    if error.message().starts_with("Materialized view") {
        return error;
    }
    let message = format!(
        "[Ad Hoc DDL Input:{number}]: DDL Error: \"{} in statement [{}]\"",
        error.message(),
        excerpt(statement)
    );
    with_message(error, message)
}
