//! `@QueryStats`: SQL over the tables that `@Statistics` answers:
//! `SELECT ... FROM statistics(PROCEDURE, 0) WHERE ...`.
//!
//! Each `statistics(...)` is taken out of the text and becomes a table of WITH that holds the
//! figures as constants; what is left is compiled like any other query. So the figures of one call
//! are of one moment, and there is no second engine.

use crate::result::{SystemResult, SystemTable};
use ferrite_base::error::TextPosition;
use ferrite_base::{SqlLimits, UserError, UserResult, limits};
use ferrite_catalog::Catalog;
use ferrite_plan::Program;
use ferrite_sql::With;
use ferrite_value::{OwnedValue, SqlType, temporal::DisplayTimestamp};
use std::fmt::Write;
use std::sync::Arc;

/// The word in FROM.
const FUNCTION: &str = "STATISTICS";

/// The query as a program; `tables` answers a selector, with the interval flag or without.
pub fn query_statistics(
    catalog: &Catalog,
    limits: &SqlLimits,
    text: &str,
    tables: impl Fn(&str, bool) -> SystemResult,
) -> UserResult<Arc<Program>> {
    let Taken { text, calls, with } = take_out(text)?;
    if calls.is_empty() {
        return Err(UserError::syntax("@QueryStats takes a query over figures of the server")
            .with_hint("name them in FROM: SELECT ... FROM statistics(PROCEDURE, 0)"));
    }
    // What the grammar says is about what the caller wrote.
    if !matches!(ferrite_sql::parse_within(&text, limits)?.as_slice(), [statement] if statement.is_query()) {
        return Err(UserError::syntax("@QueryStats takes one query, which changes nothing"));
    }
    let mut whole =
        String::from(if with.as_ref().is_some_and(|with| with.recursive) { "WITH RECURSIVE " } else { "WITH " });
    for (number, call) in calls.iter().enumerate() {
        let tables = tables(&call.selector, call.interval)?;
        let Some(table) = tables.first() else { continue };
        if number > 0 {
            whole.push_str(", ");
        }
        push_table(&mut whole, &stand_in(number), table);
        if whole.len() > limits::STATEMENT_BYTES_MAX {
            return Err(UserError::limit(format!(
                "there are more figures than the {} bytes of a statement can hold",
                limits::STATEMENT_BYTES_MAX
            ))
            .with_hint("@Statistics answers them all"));
        }
    }
    // The query begins on a line of its own, so that places in it are easy to tell.
    match with {
        None => write!(whole, "\n{text}"),
        // The calls stand behind it, so it is where it was.
        Some(With { place, .. }) => {
            write!(whole, ",\n{}{}{}", &text[..place.start], " ".repeat(place.len()), &text[place.end..])
        }
    }
    .expect("writing to a String does not fail");
    let in_query =
        |place: TextPosition| (place.line > 1).then(|| TextPosition { line: place.line - 1, column: place.column });
    compile_shown(catalog, &whole, &text).map_err(|error| error.moved(in_query))
}

/// A statement that was put together here; errors show it as `shown`.
fn compile_shown(catalog: &Catalog, text: &str, shown: &str) -> UserResult<Arc<Program>> {
    let mut statements = ferrite_sql::parse_batch(text)?;
    let [statement] = statements.as_mut_slice() else {
        return Err(UserError::syntax("one statement is required"));
    };
    statement.set_text(shown);
    Ok(Arc::new(ferrite_sql::compile_adhoc(catalog, &statements, 0)?))
}

/// One `statistics(selector [, interval])`.
#[derive(Debug, PartialEq)]
struct Call {
    selector: String,
    interval: bool,
}

#[derive(Debug, PartialEq)]
struct Taken {
    /// The query with names of tables in place of the calls.
    text: String,
    calls: Vec<Call>,
    with: Option<With>,
}

fn stand_in(number: usize) -> String {
    format!("TT{number}")
}

/// Takes the calls out of a query.
fn take_out(query: &str) -> UserResult<Taken> {
    let (found, with) = ferrite_sql::table_calls(query, FUNCTION)?;
    let mut taken = Taken { text: String::with_capacity(query.len()), calls: Vec::new(), with };
    let mut done = 0;
    for call in found {
        taken.text.push_str(&query[done..call.place.start]);
        taken.text.push_str(&stand_in(taken.calls.len()));
        taken.calls.push(read_call(call.arguments.as_deref())?);
        done = call.place.end;
    }
    taken.text.push_str(&query[done..]);
    Ok(taken)
}

fn read_call(arguments: Option<&[String]>) -> UserResult<Call> {
    let (selector, interval) = match arguments {
        Some([selector]) => (selector, false),
        Some([selector, interval]) if interval == "0" || interval == "1" => (selector, interval == "1"),
        _ => {
            return Err(UserError::syntax("statistics takes a selector of @Statistics and 0 or 1")
                .with_hint("FROM statistics(PROCEDURE, 0)"));
        }
    };
    Ok(Call { selector: selector.clone(), interval })
}

/// `name AS (SELECT CAST(c0 AS type) AS "NAME", ... FROM (VALUES ...) AS v (c0, ...))`
fn push_table(out: &mut String, name: &str, table: &SystemTable) {
    let written = write!(out, "{name} AS (SELECT ").and_then(|()| {
        for (position, (column, sql_type)) in table.columns().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            let known = table.rows().iter().any(|row| row[position] != OwnedValue::Null);
            match sql_type {
                SqlType::Varchar | SqlType::Varbinary if known => write!(out, "{comma}c{position} AS \"{column}\"")?,
                _ => write!(out, "{comma}CAST(c{position} AS {}) AS \"{column}\"", sql_type.name())?,
            }
        }
        out.push_str(" FROM (VALUES ");
        let nothing = vec![OwnedValue::Null; table.columns().count()];
        let rows = if table.rows().is_empty() { std::slice::from_ref(&nothing) } else { table.rows() };
        for (number, row) in rows.iter().enumerate() {
            out.push_str(if number > 0 { ", (" } else { "(" });
            for (position, value) in row.iter().enumerate() {
                out.push_str(if position > 0 { ", " } else { "" });
                push_constant(out, value)?;
            }
            out.push(')');
        }
        out.push_str(") AS v (");
        for position in 0..table.columns().count() {
            write!(out, "{}c{position}", if position > 0 { ", " } else { "" })?;
        }
        out.push(')');
        out.push_str(if table.rows().is_empty() { " WHERE 1 = 0)" } else { ")" });
        Ok(())
    });
    written.expect("writing to a String does not fail");
}

fn push_constant(out: &mut String, value: &OwnedValue) -> std::fmt::Result {
    match value {
        OwnedValue::Integer(number) => write!(out, "{number}"),
        OwnedValue::Float(number) if number.is_finite() => write!(out, "{number:e}"),
        OwnedValue::Text(text) => write!(out, "'{}'", text.replace('\'', "''")),
        OwnedValue::Timestamp(micros) => write!(out, "TIMESTAMP '{}'", DisplayTimestamp(*micros)),
        OwnedValue::Bytes(bytes) => {
            out.push_str("X'");
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}"))?;
            out.push('\'');
            Ok(())
        }
        // Figures have no other types; and what is not a number is none.
        _ => out.write_str("NULL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{Asker, SELECTORS, statistics};
    use crate::testing;

    fn names_and_columns(query: &str) -> UserResult<Vec<String>> {
        let node = testing::node(2);
        let tables =
            |selector: &str, interval| statistics(&node.sources(), &node, selector, interval, Asker::default());
        let program = query_statistics(&node.compiled.catalog, &SqlLimits::default(), query, tables)?;
        Ok(program.statements.iter().map(|statement| statement.text.clone()).collect())
    }

    #[test]
    fn calls_are_taken_out_wherever_they_stand() {
        let taken = take_out(
            "SELECT 'statistics(a,0)' FROM Statistics ( memory , 1 ) AS m, statistics('TOPO') -- statistics(x)",
        )
        .unwrap();
        assert_eq!(taken.text, "SELECT 'statistics(a,0)' FROM TT0 AS m, TT1 -- statistics(x)");
        let call = |selector: &str, interval| Call { selector: selector.to_owned(), interval };
        assert_eq!(taken.calls, [call("memory", true), call("TOPO", false)]);
        let taken = take_out("/* x */ with recursive a AS (SELECT 1) SELECT * FROM statistics(table,0)").unwrap();
        assert_eq!(taken.with, Some(With { place: 8..22, recursive: true }));
        for malformed in [
            "statistics(",
            "statistics()",
            "statistics(a, 2)",
            "statistics(a b)",
            "statistics(a,0,0)",
            "statistics(a;b)",
        ] {
            assert!(take_out(malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn every_selector_is_a_table() {
        for selector in SELECTORS {
            let query = format!("SELECT COUNT(*) FROM statistics({selector}, 0) AS s");
            names_and_columns(&query).unwrap_or_else(|error| panic!("{selector}: {error}"));
        }
    }

    #[test]
    fn queries_join_group_and_name_tables_of_their_own() {
        for query in [
            "SELECT procedure, SUM(invocations) FROM statistics(procedure, 0) GROUP BY procedure ORDER BY 2 DESC LIMIT 3",
            "SELECT t.hostname, i.index_name FROM statistics(TABLE,0) t LEFT JOIN statistics(INDEX,0) i ON t.table_name = i.table_name",
            "WITH big AS (SELECT * FROM statistics(TABLE,0) WHERE tuple_count > 10) SELECT COUNT(*) FROM big",
            "(SELECT \"P99.9\" FROM statistics(LATENCY,1)) UNION ALL SELECT 1 FROM statistics(GC,0)",
        ] {
            let texts = names_and_columns(query).unwrap_or_else(|error| panic!("{query}: {error}"));
            assert_eq!(texts.len(), 1);
        }
    }

    #[test]
    fn errors_are_about_what_the_caller_wrote() {
        let error = names_and_columns("SELECT id,\n nosuch FROM statistics(MEMORY, 0)").unwrap_err().to_string();
        assert!(
            error.contains("Error in \"SELECT id,\n nosuch FROM TT0\"") && error.contains("at line 1, column 8"),
            "{error}"
        );
        let error = names_and_columns("SELECT rss FROM statistics(MEMORY, 0) WHERE").unwrap_err().to_string();
        assert!(error.contains("SELECT rss FROM TT0 WHERE"), "{error}");
        for (query, words) in [
            ("SELECT 1", "takes a query over figures"),
            ("SELECT * FROM statistics(NOSUCH, 0)", "First argument to @Statistics"),
            ("SELECT 1 FROM statistics(MEMORY,0); SELECT 2", "takes one query"),
            ("DELETE FROM statistics(MEMORY,0)", "takes one query"),
        ] {
            let error = names_and_columns(query).unwrap_err().to_string();
            assert!(error.contains(words), "{query}: {error}");
        }
    }
}
