//! Which statement an error is in, as the original server puts it, and where in it.

use super::statement::Statement;
use super::tokens;
use crate::errors::{about, beginning, place};
use ferrite_base::{ErrorKind, TextPosition, UserError};
use sqlparser::tokenizer::{Location, Token};

/// The error with a place, whatever it is: where the name stands that it is about, or where the
/// statement begins. `start` is where `statement` begins in what the caller sent.
pub(crate) fn somewhere(error: UserError, statement: &str, start: Location) -> UserError {
    if error.place().is_some() {
        return error;
    }
    let named = error.subject().and_then(|subject| place_of(subject, statement));
    let Some(start) = place(start) else { return error };
    error.at(named.map_or(start, |named| named.after(start)))
}

/// Where the name stands first in a statement. Of a qualified name, or one with a word before that
/// says what it is, the last part.
fn place_of(name: &str, statement: &str) -> Option<TextPosition> {
    let name = name.rsplit([' ', '.']).next().unwrap_or(name);
    let lexemes = tokens::lex(statement).ok()?;
    let found = lexemes.iter().find(|lexeme| match &lexeme.token.token {
        Token::Word(word) if word.quote_style.is_some() => word.value == name,
        Token::Word(word) => word.value.eq_ignore_ascii_case(name),
        _ => false,
    });
    place(found?.token.span.start)
}

/// An error met while compiling a statement:
/// `SQL error while compiling query: Error in "..." - ...`. `start` as in [`somewhere`].
pub(crate) fn compile_error(statement: &str, start: Location, error: UserError) -> UserError {
    // The statement was not compiled to its end, and is not why.
    if error.kind() == ErrorKind::Unavailable {
        return error;
    }
    let error = somewhere(error, statement, start);
    // These name the column and table already.
    let message = if error.message().starts_with("Constant value overflows") {
        format!("SQL error while compiling query: {}", error.message())
    } else if error.message().starts_with("SQL ") {
        error.message().to_owned()
    } else {
        format!("SQL error while compiling query: {}", about("Error in", " -", statement, error.message()))
    };
    error.with_message(message)
}

/// An error met while binding or applying a schema change: `DDL Error: "... in statement [...]"`.
/// For the caller that applies a batch of them; `number` counts the statements of the batch from 1.
pub fn ddl_error(number: usize, statement: &Statement, error: UserError) -> UserError {
    let error = somewhere(error, &statement.text, statement.start);
    if error.message().starts_with("Materialized view") {
        return error;
    }
    let message = format!(
        "[Ad Hoc DDL Input:{number}]: DDL Error: \"{} in statement [{}]\"",
        error.message(),
        beginning(&statement.text)
    );
    error.with_message(message)
}
