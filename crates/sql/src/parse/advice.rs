//! What to tell who writes another dialect, or slips: the word that was probably meant, what to use
//! instead.

use crate::errors::{as_written, at};
use crate::spelling::nearest;
use ferrite_base::UserError;
use sqlparser::tokenizer::{Location, Token};

/// The words that statements and their clauses begin with.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "ALTER", "AND", "BETWEEN", "CREATE", "DELETE", "DISTINCT", "DROP", "EXPLAIN", "FROM", "GROUP", "HAVING", "INDEX",
    "INNER", "INSERT", "INTO", "JOIN", "LEFT", "LIKE", "LIMIT", "MIGRATE", "NULL", "OFFSET", "ORDER", "PARTITION",
    "PROCEDURE", "RETURNING", "ROLE", "SELECT", "STREAM", "TABLE", "TRUNCATE", "UNION", "UNIQUE", "UPDATE", "UPSERT",
    "USING", "VALUES", "VIEW", "WHERE", "WITH",
];

/// The types, with the one name of each that is suggested.
const TYPES: &str = "types are TINYINT, SMALLINT, INTEGER, BIGINT, FLOAT, DECIMAL, VARCHAR(n), VARBINARY(n), TIMESTAMP, DATE, \
                     BOOLEAN, GEOGRAPHY_POINT, GEOGRAPHY";
const TYPE_NAMES: [&str; 13] = [
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "FLOAT",
    "DECIMAL",
    "VARCHAR",
    "VARBINARY",
    "TIMESTAMP",
    "DATE",
    "BOOLEAN",
    "GEOGRAPHY",
    "GEOGRAPHY_POINT",
];

/// The error about a token that cannot stand where it is, with the keyword that it may be a slip
/// of.
pub(crate) fn meant(error: UserError, token: &Token) -> UserError {
    let Token::Word(word) = token else { return error };
    if word.quote_style.is_some() || error.hint().is_some() {
        return error;
    }
    let written = word.value.to_uppercase();
    let hint = match written.as_str() {
        "SIMILAR" => Some("use REGEXP_LIKE(text, pattern), LIKE or ILIKE".to_owned()),
        "UNNEST" => Some("an array parameter goes with IN ? or = ANY (?)".to_owned()),
        "AUTO_INCREMENT" | "AUTOINCREMENT" | "IDENTITY" | "GENERATED" => Some(NO_SEQUENCES.to_owned()),
        known if WORDS.contains(&known) => None,
        _ => nearest(&written, WORDS.iter().copied()).map(|word| format!("did you mean {word}?")),
    };
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

const NO_SEQUENCES: &str =
    "there are no sequences: a key that many clients draw would pass through one place; let the client make it";

/// A type that there is not.
pub(crate) fn unknown_type(name: &str) -> UserError {
    let error = UserError::compile("42704", format!("unknown type {name}"));
    let instead = match name {
        "TEXT" | "CHAR" | "CHARACTER" | "NCHAR" | "NVARCHAR" | "VARCHAR2" | "STRING" | "CLOB" | "JSON" | "JSONB"
        | "UUID" => "VARCHAR(n), of up to 1048576 bytes",
        "BLOB" | "BYTEA" | "BINARY" | "BYTES" | "RAW" => "VARBINARY(n), of up to 1048576 bytes",
        "DATETIME" | "TIMESTAMPTZ" | "TIME" => "TIMESTAMP, which is in UTC",
        "INT8" | "LONG" | "INT64" => "BIGINT",
        "MONEY" | "NUMBER" => "DECIMAL, which has 38 digits, 12 of them decimals",
        "SERIAL" | "BIGSERIAL" | "SMALLSERIAL" => return error.with_hint(NO_SEQUENCES),
        _ => {
            return match nearest(name, TYPE_NAMES.into_iter()) {
                Some(meant) => error.with_hint(format!("did you mean {meant}?")),
                None => error.with_hint(TYPES),
            };
        }
    };
    error.with_hint(format!("use {instead}"))
}

/// Statements of other systems, and what there is in their place.
pub(crate) fn other_statement(word: &str) -> Option<UserError> {
    let hint = match word {
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" => {
            "each statement is a transaction, and so is each procedure: put what belongs together into a procedure"
        }
        "CALL" | "EXEC" | "EXECUTE" => "clients call procedures by name; in the shell write: exec NAME value, ...",
        "SHOW" | "DESCRIBE" | "DESC" => "the shell has: show tables, describe NAME; programs call @SystemCatalog",
        "GRANT" | "REVOKE" => {
            "there are no users yet; CREATE ROLE and ALLOW are kept in the schema, but nothing enforces them"
        }
        "REPLACE" | "MERGE" => "UPSERT INTO inserts the row, or updates the one with its primary key",
        "SET" => "there are no settings of a connection",
        "USE" => "a server has one database",
        "LOCK" => "every transaction runs alone",
        "COPY" | "LOAD" => "ferrite load reads files",
        "IMPORT" => "put the class into a jar, and load that: LOAD CLASSES, or load classes FILE in the shell",
        "EXPORT" => "say it in the declaration: CREATE STREAM s EXPORT TO TARGET t (...)",
        "VACUUM" | "ANALYZE" | "REINDEX" => "it is not needed here",
        _ => return None,
    };
    Some(UserError::not_supported(format!("statement {word}")).with_hint(hint))
}

/// An error of sqlparser's, its place taken out of its words.
pub(crate) fn grammar_error(message: &str) -> UserError {
    let (words, place) = match message.rsplit_once(" at Line: ") {
        Some((words, place)) => (words, place.split_once(", Column: ")),
        None => (message, None),
    };
    let words = match words.strip_suffix(", found: EOF") {
        Some(expected) => format!("{expected}, but the statement ends"),
        None => words.to_owned(),
    };
    let error = UserError::syntax(as_written(&words));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match place.and_then(|(line, column)| number(line).zip(number(column))) {
        Some((line, column)) => at(error, Location { line, column }),
        None => error,
    }
}
