//! `ferrite dump`: a script that makes the schema and the rows again.
//!
//! Rows of a table come from one SELECT, and so from one moment, as long as they fit into one
//! answer; else page by page in the order of the primary key, or of all columns where there is
//! none. Where several groups have them, partition by partition: no query reads all.

use crate::lexer::quoted;
use crate::names::{Names, Table, TableKind};
use crate::options::DumpOptions;
use crate::render;
use crate::session::{Failure, Session, text};
use ferrite_value::text::DisplayHex;
use ferrite_value::{OwnedValue, SqlType};
use ferrite_wire::{OwnedResponse, OwnedTable};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Rows of one page of a table that does not fit into one answer: with the largest rows (2 MB) it
/// is tried again smaller.
const PAGE_ROWS: usize = 50_000;
/// Bytes of the VALUES of one INSERT statement.
const INSERT_BYTES: usize = 100_000;

#[derive(Debug)]
pub enum DumpError {
    Call(String, Failure),
    Write(io::Error),
    NoTable(String, Option<String>),
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> DumpError {
        DumpError::Write(error)
    }
}

impl std::fmt::Display for DumpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DumpError::Call(what, failure) => write!(f, "cannot read {what}: {failure}"),
            DumpError::Write(error) => write!(f, "cannot write: {error}"),
            DumpError::NoTable(name, None) => write!(f, "there is no table {name}"),
            DumpError::NoTable(name, Some(near)) => write!(f, "there is no table {name}\nhint: did you mean {near}?"),
        }
    }
}

/// Writes the whole script. `warn` is told what the user should know.
pub fn run(
    session: &mut Session,
    options: &DumpOptions,
    out: &mut dyn Write,
    warn: &mut dyn FnMut(&str),
) -> Result<(), DumpError> {
    let names = Names::read(session).map_err(|failure| DumpError::Call("the catalog".to_owned(), failure))?;
    let chosen = chosen(&names, &options.tables)?;
    writeln!(out, "-- Made by ferrite dump; run it with: ferrite sql -f FILE\n")?;
    if !options.data_only {
        let ddl = schema(session).map_err(|failure| DumpError::Call("the schema".to_owned(), failure))?;
        out.write_all(ddl.trim_end().as_bytes())?;
        out.write_all(b"\n\n")?;
    }
    if !options.schema_only {
        for table in chosen {
            dump_table(session, table, options.inserts, out, warn)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// The statements that make the schema, each with its `;`.
fn schema(session: &mut Session) -> Result<String, Failure> {
    let response = session.ask("@SystemCatalog", &[text("DDL")])?;
    let mut ddl = String::new();
    for row in response.tables.iter().flat_map(|table| &table.rows) {
        for value in row {
            if let OwnedValue::Text(statement) = value {
                ddl.push_str(statement.trim_end());
                ddl.push_str(if statement.trim_end().ends_with(';') { "\n" } else { ";\n" });
            }
        }
    }
    Ok(ddl)
}

/// The tables that have rows of their own, or those of them that were asked for.
fn chosen<'n>(names: &'n Names, wanted: &[String]) -> Result<Vec<&'n Table>, DumpError> {
    if wanted.is_empty() {
        return Ok(names.tables.iter().filter(|table| table.kind == TableKind::Table).collect());
    }
    wanted
        .iter()
        .map(|name| {
            names.table(name).ok_or_else(|| {
                let near = crate::suggest::nearest(name, names.tables.iter().map(|table| table.name.as_str()));
                DumpError::NoTable(name.clone(), near.map(str::to_owned))
            })
        })
        .collect()
}

fn dump_table(
    session: &mut Session,
    table: &Table,
    inserts: bool,
    out: &mut dyn Write,
    warn: &mut dyn FnMut(&str),
) -> Result<(), DumpError> {
    let columns: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    let select = format!("SELECT {} FROM {}", columns.join(", "), quoted(&table.name));
    let failed = |failure| DumpError::Call(format!("table {}", table.name), failure);
    let mut writer = TableWriter { table, columns: columns.join(", "), inserts, mark: end_mark(), begun: false };
    let outcome = dump_from(session, &DumpSource::All, &select, &mut writer, out, warn);
    match outcome {
        Err(DumpError::Call(_, failure)) if is_of_several_groups(&failure) => {
            warn(&format!(
                "several groups have rows of table {}: it is read partition by partition, and not as of one moment",
                table.name
            ));
            for key in partition_keys(session).map_err(failed)? {
                dump_from(session, &DumpSource::PartitionOf(key), &select, &mut writer, out, warn)?;
            }
        }
        other => other?,
    }
    writer.finish(out)?;
    Ok(())
}

/// The code of what a server cannot do.
const NOT_SUPPORTED: &str = "0A000";

/// Which rows of a table are read.
enum DumpSource {
    All,
    /// Those of the partition that the key belongs to.
    PartitionOf(OwnedValue),
}

impl DumpSource {
    fn ask(&self, session: &mut Session, statement: &str, parameters: &[OwnedValue]) -> Result<OwnedResponse, Failure> {
        let mut given = vec![text(statement)];
        match self {
            DumpSource::All => given.extend_from_slice(parameters),
            DumpSource::PartitionOf(key) => {
                given.push(key.clone());
                given.extend_from_slice(parameters);
                return session.ask("@AdHocSpForTest", &given);
            }
        }
        session.ask("@AdHoc", &given)
    }
}

/// One key of each partition.
fn partition_keys(session: &mut Session) -> Result<Vec<OwnedValue>, Failure> {
    let response = session.ask("@GetPartitionKeys", &[text("INTEGER")])?;
    let rows = response.tables.into_iter().flat_map(|table| table.rows);
    Ok(rows.filter_map(|row| row.into_iter().nth(1)).collect())
}

/// Whether the server cannot run a query of all rows: several groups have them. Any other reason
/// for that code is one for each partition, too, and is heard then.
fn is_of_several_groups(failure: &Failure) -> bool {
    matches!(failure, Failure::Call(error) if error.response().is_some() && error.code() == NOT_SUPPORTED)
}

fn dump_from(
    session: &mut Session,
    source: &DumpSource,
    select: &str,
    writer: &mut TableWriter<'_>,
    out: &mut dyn Write,
    warn: &mut dyn FnMut(&str),
) -> Result<(), DumpError> {
    let table = writer.table;
    let failed = |failure| DumpError::Call(format!("table {}", table.name), failure);
    match source.ask(session, select, &[]) {
        Ok(response) => {
            if let Some(rows) = response.tables.first() {
                writer.rows(rows, out)?;
            }
        }
        Err(failure) if is_too_large(&failure) => {
            let no_key = table.primary_key.is_empty();
            let order = if no_key { "all its columns: stop writers meanwhile" } else { "its primary key" };
            warn(&format!(
                "table {} does not fit into one answer: it is read page by page, in the order of {order}, and not as of one moment",
                table.name
            ));
            pages(session, source, select, writer, out)?;
        }
        Err(failure) => return Err(failed(failure)),
    }
    Ok(())
}

/// Whether the server refused for the size of the result, or of what it held to make it.
fn is_too_large(failure: &Failure) -> bool {
    let text = failure.to_string();
    matches!(failure, Failure::Call(error) if error.response().is_some())
        && (text.contains("the result is larger than") || text.contains("temporary"))
}

fn pages(
    session: &mut Session,
    source: &DumpSource,
    select: &str,
    writer: &mut TableWriter<'_>,
    out: &mut dyn Write,
) -> Result<(), DumpError> {
    let table = writer.table;
    let key: Vec<usize> = table.primary_key.iter().filter_map(|name| table.column_index(name)).collect();
    let order: Vec<String> = if key.is_empty() {
        table.columns.iter().map(|column| quoted(&column.name)).collect()
    } else {
        table.primary_key.iter().map(|name| quoted(name)).collect()
    };
    let mut page_rows = PAGE_ROWS;
    let mut last_key: Vec<OwnedValue> = Vec::new();
    let mut read = 0;
    loop {
        let (condition, parameters) =
            if last_key.is_empty() { (String::new(), Vec::new()) } else { behind(&order, &last_key) };
        let offset = if key.is_empty() { format!(" OFFSET {read}") } else { String::new() };
        let statement = format!("{select}{condition} ORDER BY {} LIMIT {page_rows}{offset}", order.join(", "));
        let response = match source.ask(session, &statement, &parameters) {
            Ok(response) => response,
            Err(failure) if is_too_large(&failure) && page_rows > 1 => {
                page_rows = (page_rows / 8).max(1);
                continue;
            }
            Err(failure) => return Err(DumpError::Call(format!("table {}", table.name), failure)),
        };
        let Some(rows) = response.tables.first() else { return Ok(()) };
        writer.rows(rows, out)?;
        read += rows.rows.len();
        if rows.rows.len() < page_rows {
            return Ok(());
        }
        if let Some(last) = rows.rows.last() {
            last_key = key.iter().map(|column| last[*column].clone()).collect();
        }
    }
}

/// The condition that a row stands behind a key, written out for each column:
/// `A > ? OR (A = ? AND B > ?)`.
fn behind(order: &[String], key: &[OwnedValue]) -> (String, Vec<OwnedValue>) {
    let mut parameters = Vec::new();
    let mut alternatives = Vec::new();
    for length in 0..key.len() {
        let mut parts = Vec::new();
        for (name, value) in order[..length].iter().zip(key) {
            parts.push(format!("{name} = ?"));
            parameters.push(value.clone());
        }
        parts.push(format!("{} > ?", order[length]));
        parameters.push(key[length].clone());
        alternatives.push(format!("({})", parts.join(" AND ")));
    }
    (format!(" WHERE {}", alternatives.join(" OR ")), parameters)
}

/// A line that no data are: nobody can have put it there beforehand.
fn end_mark() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = |salt: u64| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(salt);
        hasher.finish()
    };
    format!("END_{:016x}{:016x}", random(1), random(2))
}

struct TableWriter<'t> {
    table: &'t Table,
    columns: String,
    inserts: bool,
    mark: String,
    begun: bool,
}

impl TableWriter<'_> {
    fn rows(&mut self, rows: &OwnedTable, out: &mut dyn Write) -> io::Result<()> {
        if rows.rows.is_empty() {
            return Ok(());
        }
        let mut line = String::new();
        if !self.inserts {
            if !self.begun {
                writeln!(
                    out,
                    "\\copy {} ({}) from inline {} with csv, header false",
                    quoted(&self.table.name),
                    self.columns,
                    self.mark
                )?;
                self.begun = true;
            }
            for row in &rows.rows {
                line.clear();
                render::csv_row(&mut line, row, b',');
                out.write_all(line.as_bytes())?;
            }
            return Ok(());
        }
        self.begun = true;
        for (row, number) in rows.rows.iter().zip(1..) {
            if line.is_empty() {
                write!(line, "INSERT INTO {} ({}) VALUES\n  (", quoted(&self.table.name), self.columns)
                    .expect("to a String");
            } else {
                line.push_str(",\n  (");
            }
            for (column, value) in row.iter().enumerate() {
                if column > 0 {
                    line.push_str(", ");
                }
                literal(&mut line, value, self.table.columns[column].column_type.sql_type);
            }
            line.push(')');
            if line.len() >= INSERT_BYTES || number == rows.rows.len() {
                line.push_str(";\n");
                out.write_all(line.as_bytes())?;
                line.clear();
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.begun && !self.inserts {
            writeln!(out, "{}", self.mark)?;
        }
        if self.begun {
            writeln!(out)?;
        }
        Ok(())
    }
}

/// A value as SQL writes it.
fn literal(out: &mut String, value: &OwnedValue, sql_type: SqlType) {
    match value {
        OwnedValue::Null => out.push_str("NULL"),
        OwnedValue::Text(text) => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
        OwnedValue::Bytes(bytes) => write!(out, "x'{}'", DisplayHex(bytes)).expect("to a String"),
        OwnedValue::Integer(_) | OwnedValue::Decimal(_) | OwnedValue::Boolean(_) => {
            out.push_str(&render::value_text(value))
        }
        OwnedValue::Float(float) => write!(out, "{float:e}").expect("to a String"),
        OwnedValue::Point(_) => write!(out, "POINTFROMTEXT('{}')", render::value_text(value)).expect("to a String"),
        OwnedValue::Geography(_) => {
            write!(out, "POLYGONFROMTEXT('{}')", render::value_text(value)).expect("to a String")
        }
        OwnedValue::Timestamp(_) | OwnedValue::Date(_) => {
            let text = render::value_text(value);
            debug_assert!(matches!(sql_type, SqlType::Timestamp | SqlType::Date));
            write!(out, "'{text}'").expect("to a String");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_several_columns_is_compared_column_by_column() {
        let order = ["A".to_owned(), "B".to_owned()];
        let (condition, parameters) = behind(&order, &[OwnedValue::Integer(1), text("x")]);
        assert_eq!(condition, " WHERE (A > ?) OR (A = ? AND B > ?)");
        assert_eq!(parameters, [OwnedValue::Integer(1), OwnedValue::Integer(1), text("x")]);
    }

    #[test]
    fn values_become_literals() {
        let written = |value: OwnedValue| {
            let mut out = String::new();
            literal(&mut out, &value, SqlType::Timestamp);
            out
        };
        assert_eq!(written(text("it's")), "'it''s'");
        assert_eq!(written(OwnedValue::Float(0.1)), "1e-1");
        assert_eq!(written(OwnedValue::Bytes([0xca].into())), "x'CA'");
        assert_eq!(written(OwnedValue::Timestamp(0)), "'1970-01-01 00:00:00.000000'");
    }
}
