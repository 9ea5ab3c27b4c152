//! Words of errors about statements, and their places. Knows no syntax: which name stands where
//! is found by [`crate::parse::context`].

use ferrite_base::{ErrorKind, TextPosition, UserError};
use sqlparser::tokenizer::Location;

/// Longest stretch of a statement that a message repeats, in bytes.
const EXCERPT_BYTES_MAX: usize = 1_000;

/// A statement that is no longer is repeated whole, as the original server does. Of a longer one a
/// message says what is wrong first, and then how it begins.
const WHOLE_BYTES_MAX: usize = 200;
const BEGINNING_BYTES: usize = 120;

/// `Error in "statement" - reason`, or of a long statement `reason - in "its beginning..."`.
pub(crate) fn about(word: &str, after: &str, statement: &str, reason: &str) -> String {
    if statement.len() <= WHOLE_BYTES_MAX {
        return format!("{word} \"{statement}\"{after} {reason}");
    }
    format!("{reason} - in \"{}\"", beginning(statement))
}

/// How a long statement begins; a short one whole.
pub(crate) fn beginning(statement: &str) -> String {
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

/// A part of a statement as its author wrote it: parsing numbers the parameters (`?0`), which are
/// all `?` in the text.
pub(crate) fn as_written(part: &impl std::fmt::Display) -> String {
    let text = part.to_string();
    let mut written = String::with_capacity(text.len());
    let mut quote = None;
    let mut is_numbered = false;
    for character in text.chars() {
        match quote {
            Some(open) if open == character => quote = None,
            Some(_) => {}
            None if is_numbered && character.is_ascii_digit() => continue,
            None if matches!(character, '\'' | '"') => quote = Some(character),
            None => {}
        }
        is_numbered = quote.is_none() && character == '?';
        written.push(character);
    }
    written
}

/// The same error as one of compiling: constants are evaluated then, and what goes wrong is no
/// failure of execution.
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
pub(crate) fn place(location: Location) -> Option<TextPosition> {
    (location.line > 0).then_some(TextPosition { line: location.line, column: location.column })
}

/// The error with a place in the text, unless it has one.
pub(crate) fn at(error: UserError, location: Location) -> UserError {
    match place(location) {
        Some(place) => error.at(place),
        None => error,
    }
}
