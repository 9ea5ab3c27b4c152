//! Words around errors: which statement they are in, as the original server puts it, and where in it.

use crate::parse::statement::Statement;
use crate::parse::tokens;
use ferrite_base::{ErrorKind, Place, UserError};
use sqlparser::tokenizer::{Location, Token};

/// Longest stretch of a statement that a message repeats, in bytes.
const EXCERPT_BYTES_MAX: usize = 1_000;

/// A statement that is no longer is repeated whole, as the original server does. Of a longer one a message says what is wrong
/// first, and then how it begins.
const WHOLE_BYTES_MAX: usize = 200;
const BEGINNING_BYTES: usize = 120;

/// `Error in "statement" - reason`, or of a long statement `reason - in "its beginning..."`.
pub(crate) fn about(word: &str, after: &str, statement: &str, reason: &str) -> String {
    if statement.len() <= WHOLE_BYTES_MAX {
        return format!("{word} \"{statement}\"{after} {reason}");
    }
    format!("{reason} - in \"{}\"", beginning(statement))
}

fn beginning(statement: &str) -> String {
    if statement.len() <= WHOLE_BYTES_MAX {
        return statement.to_owned();
    }
    format!("{}...", &statement[..statement.floor_char_boundary(BEGINNING_BYTES)])
}

/// A part of a statement for a message, cut if it is long.
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

/// The same error as one of compiling: constants are evaluated then, and what goes wrong is no failure of execution.
pub(crate) fn at_compile_time(error: UserError) -> UserError {
    if error.kind() != ErrorKind::Sql {
        return error;
    }
    let message = error.message();
    // Evaluated at run time the words differ, as in the original.
    let message = if error.code() == "22012" { format!("data exception: {message}") } else { message.to_owned() };
    error.with_kind(ErrorKind::Compile).with_message(message)
}

/// A place in a text. None for a token that is in no text.
pub(crate) fn place(location: Location) -> Option<Place> {
    (location.line > 0).then_some(Place { line: location.line, column: location.column })
}

/// The error with a place in the text, unless it has one.
pub(crate) fn at(error: UserError, location: Location) -> UserError {
    match place(location) {
        Some(place) => error.at(place),
        None => error,
    }
}

/// The error with a place, whatever it is: where the name stands that it is about, or where the statement begins. `start` is where
/// `statement` begins in what the caller sent.
pub(crate) fn somewhere(error: UserError, statement: &str, start: Location) -> UserError {
    if error.place().is_some() {
        return error;
    }
    let named = error.subject().and_then(|subject| place_of(subject, statement));
    let Some(start) = place(start) else { return error };
    error.at(named.map_or(start, |named| named.after(start)))
}

/// Where the name stands first in a statement. Of a qualified name, or one with a word before that says what it is, the last part.
fn place_of(name: &str, statement: &str) -> Option<Place> {
    let name = name.rsplit([' ', '.']).next().unwrap_or(name);
    let lexemes = tokens::lex(statement).ok()?;
    let found = lexemes.iter().find(|lexeme| match &lexeme.token.token {
        Token::Word(word) if word.quote_style.is_some() => word.value == name,
        Token::Word(word) => word.value.eq_ignore_ascii_case(name),
        _ => false,
    });
    place(found?.token.span.start)
}

/// An error met while compiling a statement: `SQL error while compiling query: Error in "..." - ...`. `start` as in [`somewhere`].
pub(crate) fn compile_error(statement: &str, start: Location, error: UserError) -> UserError {
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

/// An error met while binding or applying a schema change: `DDL Error: "... in statement [...]"`. For the caller that
/// applies a batch of them; `number` counts the statements of the batch from 1.
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
