//! Text to statements. Knows the grammar, not the schema.

pub(crate) mod cursor;
pub(crate) mod data_change;
pub(crate) mod ddl;
pub(crate) mod procedure;
pub(crate) mod statement;
pub(crate) mod table;
pub(crate) mod tokens;

use cursor::{Cursor, lexeme_text};
use ferrite_base::{UserError, UserResult, limits};
use statement::{Body, Statement};
use tokens::Lexeme;

/// Words that schema changes begin with.
const DDL_WORDS: [&str; 6] = ["CREATE", "DROP", "ALTER", "PARTITION", "REPLICATE", "DR"];

/// Splits `text` at `;` and parses each statement. Empty statements are dropped.
pub fn parse_batch(text: &str) -> UserResult<Vec<Statement>> {
    let lexemes = tokens::lex(text).map_err(|error| syntax_context(text.trim(), error))?;
    let ranges = tokens::split(&lexemes);
    if ranges.len() > limits::STATEMENTS_MAX {
        return Err(UserError::limit(format!(
            "{} statements in one batch are more than {}",
            ranges.len(),
            limits::STATEMENTS_MAX
        )));
    }
    let mut statements = Vec::with_capacity(ranges.len());
    for range in ranges {
        let part = &lexemes[range];
        let part_text = lexeme_text(text, part);
        let body = parse_statement(text, part).map_err(|error| syntax_context(part_text, error))?;
        statements.push(Statement { text: part_text.to_owned(), body });
    }
    Ok(statements)
}

fn parse_statement(text: &str, lexemes: &[Lexeme]) -> UserResult<Body> {
    let cursor = Cursor::new(text, lexemes);
    let is_ddl = DDL_WORDS.iter().any(|word| cursor.is_word(word));
    if is_ddl {
        Ok(Body::Ddl(Box::new(ddl::parse(cursor)?)))
    } else {
        let mut placeholders = 0;
        Ok(Body::Sql(Box::new(data_change::parse(cursor, &mut placeholders)?)))
    }
}

/// Errors name the statement, as the original's do.
fn syntax_context(text: &str, error: UserError) -> UserError {
    if error.code() != "42601" {
        let is_ddl =
            DDL_WORDS.iter().any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)));
        return if is_ddl { error } else { crate::errors::compile_error(text, error) };
    }
    let message = format!(
        "SQL error while compiling query: SQL Syntax error in \"{}\" {}",
        crate::errors::excerpt(text),
        error.message()
    );
    crate::errors::with_message(error, message)
}
