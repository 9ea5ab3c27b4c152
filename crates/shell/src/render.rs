//! Result tables as text: aligned for people, or CSV, JSON and Markdown for what comes next.
//!
//! Promises that no cell can send control characters to a terminal, that columns stay in line
//! whatever scripts they hold, and that the CSV, read back, gives the same values.

use crate::options::Format;
use crate::style::Style;
use ferrite_value::text::{DisplayHex, DisplayValue};
use ferrite_value::{OwnedValue, SqlType};
use ferrite_wire::OwnedTable;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// What the reader wants to see.
#[derive(Clone, Debug)]
pub struct Look {
    pub format: Format,
    pub expanded: bool,
    pub style: Style,
    /// What stands for NULL where there is no other way to say it.
    pub null: String,
}

pub fn write_table(out: &mut dyn Write, table: &OwnedTable, look: &Look) -> io::Result<()> {
    match look.format {
        Format::Aligned if look.expanded => expanded(out, table, look),
        Format::Aligned => aligned(out, table, look),
        Format::Csv => csv(out, table),
        Format::Json => json(out, table),
        Format::Markdown => markdown(out, table, look),
    }
}

/// Columns that an aligned table takes.
pub fn aligned_width(table: &OwnedTable, look: &Look) -> usize {
    let cells = Cells::of(table, look);
    cells.widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1)
}

/// The value as text. Decimals lose the zeros at their end; all else is as CAST to VARCHAR gives
/// it.
pub fn value_text(value: &OwnedValue) -> String {
    match value {
        OwnedValue::Decimal(decimal) => decimal.shortest().to_string(),
        other => DisplayValue(other.as_value()).to_string(),
    }
}

/// Control characters as escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            control if control.is_control() => {
                write!(shown, "\\x{:02x}", u32::from(control)).expect("writing to a String does not fail");
            }
            other => shown.push(other),
        }
    }
    Cow::Owned(shown)
}

/// All of a table as printable text, with the widths of its columns.
struct Cells {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
}

impl Cells {
    fn of(table: &OwnedTable, look: &Look) -> Cells {
        let shown = |value: &OwnedValue| match value {
            OwnedValue::Null => look.null.clone(),
            OwnedValue::Text(text) => printable(text).into_owned(),
            other => value_text(other),
        };
        let names: Vec<String> = table.columns.iter().map(|(name, _)| printable(name).into_owned()).collect();
        let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
        let mut widths: Vec<usize> = names.iter().map(|name| name.width()).collect();
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        Cells { names, rows, widths }
    }
}

fn is_right_aligned(sql_type: SqlType) -> bool {
    sql_type.is_numeric()
}

/// The cell with its colour and the blanks that fill its column.
fn padded(cell: &str, width: usize, right: bool, last: bool, paint: impl Fn(&str) -> String) -> String {
    let fill = " ".repeat(width.saturating_sub(cell.width()));
    match (right, last) {
        (true, _) => format!("{fill}{}", paint(cell)),
        (false, true) => paint(cell),
        (false, false) => format!("{}{fill}", paint(cell)),
    }
}

fn aligned(out: &mut dyn Write, table: &OwnedTable, look: &Look) -> io::Result<()> {
    let cells = Cells::of(table, look);
    let style = look.style;
    let last = cells.names.len().saturating_sub(1);
    let line = |parts: Vec<String>| format!("{}\n", format!(" {}", parts.join(" | ")).trim_end());
    let names = cells.names.iter().zip(&cells.widths).enumerate().map(|(column, (name, width))| {
        let right = is_right_aligned(table.columns[column].1);
        padded(name, *width, right, column == last, |text| style.heading(text))
    });
    out.write_all(line(names.collect()).as_bytes())?;
    let rule: Vec<String> = cells.widths.iter().map(|width| "-".repeat(width + 2)).collect();
    writeln!(out, "{}", rule.join("+"))?;
    for (row, values) in cells.rows.iter().zip(&table.rows) {
        let parts = row.iter().zip(values).enumerate().map(|(column, (cell, value))| {
            let right = is_right_aligned(table.columns[column].1);
            let paint = |text: &str| if *value == OwnedValue::Null { style.faint(text) } else { text.to_owned() };
            padded(cell, cells.widths[column], right, column == last, paint)
        });
        out.write_all(line(parts.collect()).as_bytes())?;
    }
    Ok(())
}

fn expanded(out: &mut dyn Write, table: &OwnedTable, look: &Look) -> io::Result<()> {
    let cells = Cells::of(table, look);
    let width = cells.names.iter().map(|name| name.width()).max().unwrap_or(0);
    for (number, (row, values)) in cells.rows.iter().zip(&table.rows).enumerate() {
        writeln!(out, "{}", look.style.faint(&format!("--- row {} ---", number + 1)))?;
        for ((name, cell), value) in cells.names.iter().zip(row).zip(values) {
            let name = padded(name, width, false, false, |text| look.style.heading(text));
            let cell = if *value == OwnedValue::Null { look.style.faint(cell) } else { cell.clone() };
            writeln!(out, "{}", format!("{name} | {cell}").trim_end())?;
        }
    }
    Ok(())
}

fn csv(out: &mut dyn Write, table: &OwnedTable) -> io::Result<()> {
    let mut line = String::new();
    for (column, (name, _)) in table.columns.iter().enumerate() {
        csv_separate(&mut line, column);
        csv_text(&mut line, name, b',');
    }
    line.push('\n');
    out.write_all(line.as_bytes())?;
    for row in &table.rows {
        line.clear();
        csv_row(&mut line, row, b',');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn csv_separate(line: &mut String, column: usize) {
    if column > 0 {
        line.push(',');
    }
}

/// A row with its line end. NULL is an empty field, an empty text is `""`.
pub fn csv_row(line: &mut String, row: &[OwnedValue], delimiter: u8) {
    for (column, value) in row.iter().enumerate() {
        if column > 0 {
            line.push(char::from(delimiter));
        }
        match value {
            OwnedValue::Null if row.len() == 1 => line.push_str("\\N"),
            OwnedValue::Null => {}
            OwnedValue::Text(text) => csv_text(line, text, delimiter),
            other => csv_text(line, &value_text(other), delimiter),
        }
    }
    line.push('\n');
}

pub fn csv_text(line: &mut String, text: &str, delimiter: u8) {
    let special = |byte: u8| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    // Blanks at the ends, marks of comments and the sign for NULL stand in quotes to be read as
    // they are.
    let needs_quotes =
        text.is_empty() || text.bytes().any(special) || text.starts_with([' ', '#', '\\']) || text.ends_with(' ');
    if !needs_quotes {
        return line.push_str(text);
    }
    line.push('"');
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

fn json(out: &mut dyn Write, table: &OwnedTable) -> io::Result<()> {
    let names = json_names(table);
    let mut text = String::from("[");
    for (number, row) in table.rows.iter().enumerate() {
        text.push_str(if number == 0 { "\n  {" } else { ",\n  {" });
        for (column, value) in row.iter().enumerate() {
            if column > 0 {
                text.push_str(", ");
            }
            text.push_str(&names[column]);
            text.push_str(": ");
            json_value(&mut text, value);
        }
        text.push('}');
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    text.push_str(if table.rows.is_empty() { "]\n" } else { "\n]\n" });
    out.write_all(text.as_bytes())
}

/// The names as JSON strings; one that occurs again gets a number, since a reader keeps one of each
/// only.
fn json_names(table: &OwnedTable) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (column, (name, _)) in table.columns.iter().enumerate() {
        let mut unique = if name.is_empty() { format!("column{}", column + 1) } else { name.clone() };
        let mut number = 2;
        while names.contains(&json_string(&unique)) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        names.push(json_string(&unique));
    }
    names
}

pub(crate) fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

fn json_value(out: &mut String, value: &OwnedValue) {
    match value {
        OwnedValue::Null => out.push_str("null"),
        OwnedValue::Boolean(true) => out.push_str("true"),
        OwnedValue::Boolean(false) => out.push_str("false"),
        OwnedValue::Integer(_) | OwnedValue::Decimal(_) => out.push_str(&value_text(value)),
        OwnedValue::Float(float) if float.is_finite() => {
            write!(out, "{float:?}").expect("writing to a String does not fail");
        }
        OwnedValue::Text(text) => out.push_str(&json_string(text)),
        OwnedValue::Bytes(bytes) => {
            write!(out, "\"{}\"", DisplayHex(bytes)).expect("writing to a String does not fail");
        }
        other => out.push_str(&json_string(&value_text(other))),
    }
}

fn markdown(out: &mut dyn Write, table: &OwnedTable, look: &Look) -> io::Result<()> {
    let cells = Cells::of(table, look);
    let escaped = |cell: &String| cell.replace('|', "\\|");
    let line = |row: &[String]| format!("| {} |\n", row.iter().map(escaped).collect::<Vec<_>>().join(" | "));
    out.write_all(line(&cells.names).as_bytes())?;
    let rule = table.columns.iter().map(|(_, sql_type)| if is_right_aligned(*sql_type) { "---:" } else { "---" });
    writeln!(out, "| {} |", rule.collect::<Vec<_>>().join(" | "))?;
    for row in &cells.rows {
        out.write_all(line(row).as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::Decimal;

    fn table() -> OwnedTable {
        let text = |text: &str| OwnedValue::Text(text.into());
        OwnedTable {
            status: -128,
            columns: vec![
                ("ID".into(), SqlType::Bigint),
                ("NAME".into(), SqlType::Varchar),
                ("D".into(), SqlType::Decimal),
            ],
            rows: vec![
                vec![OwnedValue::Integer(1), text("日本|語"), OwnedValue::Decimal(Decimal::parse("1.50").unwrap())],
                vec![OwnedValue::Integer(-20), text("a\n\x1b[31m"), OwnedValue::Null],
                vec![OwnedValue::Null, text(""), OwnedValue::Decimal(Decimal::from_i64(7))],
            ],
        }
    }

    fn written(format: Format, expanded: bool) -> String {
        let look = Look { format, expanded, style: Style::PLAIN, null: "<null>".into() };
        let mut out = Vec::new();
        write_table(&mut out, &table(), &look).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn aligned_tables_stay_in_line() {
        let expected = "     ID | NAME        |      D\n\
                        --------+-------------+--------\n      1 | 日本|語     |    1.5\n    \
                        -20 | a\\n\\x1b[31m | <null>\n <null> |             |      7\n";
        assert_eq!(written(Format::Aligned, false), expected);
    }

    #[test]
    fn expanded_rows_have_a_line_per_value() {
        let text = written(Format::Aligned, true);
        assert!(text.starts_with("--- row 1 ---\nID   | 1\nNAME | 日本|語\nD    | 1.5\n--- row 2 ---\n"), "{text}");
    }

    #[test]
    fn csv_tells_null_from_nothing() {
        assert_eq!(written(Format::Csv, false), "ID,NAME,D\n1,日本|語,1.5\n-20,\"a\n\x1b[31m\",\n,\"\",7\n");
    }

    #[test]
    fn json_is_json() {
        let text = written(Format::Json, false);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value[1]["NAME"], "a\n\u{1b}[31m");
        assert_eq!(value[2]["ID"], serde_json::Value::Null);
        assert_eq!(value[0]["D"], 1.5);
    }

    #[test]
    fn markdown_escapes_what_would_end_a_cell() {
        let text = written(Format::Markdown, false);
        assert!(text.starts_with("| ID | NAME | D |\n| ---: | --- | ---: |\n| 1 | 日本\\|語 | 1.5 |\n"), "{text}");
    }
}
