//! Tables of an answer, by the names of their columns: later releases may add some.

use ferrite_client::{OwnedTable, OwnedValue};
use serde_json::{Map, Value};

#[derive(Default)]
pub struct Table {
    names: Vec<String>,
    rows: Vec<Vec<OwnedValue>>,
}

impl Table {
    pub fn of(table: &OwnedTable) -> Table {
        Table { names: table.columns.iter().map(|(name, _)| name.clone()).collect(), rows: table.rows.clone() }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    fn value(&self, row: usize, name: &str) -> Option<&OwnedValue> {
        let column = self.names.iter().position(|known| known == name)?;
        self.rows.get(row)?.get(column)
    }

    /// Empty where there is no such row or column, and for NULL.
    pub fn text(&self, row: usize, name: &str) -> String {
        self.value(row, name).map(text).unwrap_or_default()
    }

    pub fn number(&self, row: usize, name: &str) -> Option<i64> {
        match self.value(row, name) {
            Some(OwnedValue::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    /// The row with its columns' names in small letters; null for NULL and for an empty text.
    pub fn object(&self, row: usize) -> Map<String, Value> {
        let values = self.rows.get(row).into_iter().flatten();
        let pairs = self.names.iter().zip(values).map(|(name, value)| (name.to_lowercase(), json(value)));
        pairs.collect()
    }

    /// A line of names, and these rows.
    pub fn cells(&self, rows: impl Iterator<Item = usize>) -> Vec<Vec<String>> {
        let names = self.names.iter().map(|name| name.to_lowercase()).collect();
        let rows = rows.map(|row| self.rows[row].iter().map(text).collect());
        std::iter::once(names).chain(rows).collect()
    }
}

fn text(value: &OwnedValue) -> String {
    match value {
        OwnedValue::Integer(number) => number.to_string(),
        OwnedValue::Text(text) => text.to_string(),
        _ => String::new(),
    }
}

fn json(value: &OwnedValue) -> Value {
    match value {
        OwnedValue::Integer(number) => (*number).into(),
        OwnedValue::Text(text) if !text.is_empty() => text.to_string().into(),
        _ => Value::Null,
    }
}

/// Cells below each other.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
