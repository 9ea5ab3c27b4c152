//! Records to the values of a row: which field belongs to which column, what is NULL, and the
//! conversion to the column's type, which is the server's own.

use crate::names::Table;
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use ferrite_value::{ColumnType, OwnedValue, Value, convert};
use serde_json::value::RawValue;
use std::collections::HashMap;

use super::records::Field;

/// The text that the server reads as NULL, whatever the column.
const NULL_TEXT: &str = "\\N";

/// A row that can be sent, or why not.
pub type RowResult<T> = Result<T, String>;

#[derive(Clone, Debug)]
struct Target {
    name: String,
    column_type: ColumnType,
    /// Which field fills it.
    field: Option<usize>,
    /// What it is without one.
    default: OwnedValue,
}

/// From records to rows of one table.
#[derive(Clone, Debug)]
pub struct Mapping {
    targets: Vec<Target>,
    fields: usize,
    by_name: HashMap<String, usize>,
    null: Option<String>,
    quote: Option<u8>,
}

impl Mapping {
    /// `columns` are the fields' columns in order; None: those of the table. The error names what
    /// is wrong.
    pub fn new(
        table: &Table,
        columns: Option<&[String]>,
        null: Option<String>,
        quote: Option<u8>,
    ) -> RowResult<Mapping> {
        let mut targets: Vec<Target> = Vec::with_capacity(table.columns.len());
        for column in &table.columns {
            // The catalog does not say whether a VARCHAR counts bytes, so that its size is the
            // server's to check.
            let column_type = ColumnType::unbounded(column.column_type.sql_type);
            targets.push(Target { name: column.name.clone(), column_type, field: None, default: OwnedValue::Null });
        }
        let fields = match columns {
            None => {
                targets.iter_mut().enumerate().for_each(|(position, target)| target.field = Some(position));
                targets.len()
            }
            Some(columns) => {
                for (field, name) in columns.iter().enumerate() {
                    let index = table.column_index(name).ok_or_else(|| no_column(table, name))?;
                    if targets[index].field.replace(field).is_some() {
                        return Err(format!("column {name} is named twice"));
                    }
                }
                columns.len()
            }
        };
        for (target, column) in targets.iter_mut().zip(&table.columns) {
            if let (None, Some(default)) = (target.field, &column.default) {
                target.default = constant(default, &target.column_type).ok_or_else(|| {
                    format!(
                        "column {} has the default {default}, which only a value in the file can replace here",
                        column.name
                    )
                })?;
            }
        }
        let by_name =
            table.columns.iter().enumerate().map(|(index, column)| (column.name.to_uppercase(), index)).collect();
        Ok(Mapping { targets, fields, by_name, null, quote })
    }

    /// For JSON objects, whose fields say their columns: all columns' defaults must be known.
    pub fn by_name(table: &Table) -> RowResult<Mapping> {
        let mut mapping = Mapping::new(table, None, None, None)?;
        for (target, column) in mapping.targets.iter_mut().zip(&table.columns) {
            if let Some(default) = &column.default {
                target.default = constant(default, &target.column_type).unwrap_or(OwnedValue::Null);
            }
        }
        Ok(mapping)
    }

    /// The values of a record's fields, in table order.
    pub fn row<'a>(&self, record: &'a str, fields: &[Field], arena: &'a Bump) -> RowResult<ArenaVec<'a, Value<'a>>> {
        if fields.len() != self.fields {
            return Err(format!("{} fields, but {} columns", fields.len(), self.fields));
        }
        let mut values = ArenaVec::with_capacity_in(self.targets.len(), arena);
        for target in &self.targets {
            let value = match target.field {
                Some(field) => {
                    let field = fields[field];
                    let text = field.text(record, self.quote, arena);
                    if !field.quoted && self.is_null(text) {
                        Value::Null
                    } else {
                        target.convert(Value::Text(text), arena)?
                    }
                }
                None => target.default(arena),
            };
            values.push(value);
        }
        Ok(values)
    }

    fn is_null(&self, text: &str) -> bool {
        text == NULL_TEXT
            || match &self.null {
                Some(null) => text == null,
                None => text.is_empty(),
            }
    }

    /// The values of a line of JSON: an object by names, an array by position.
    pub fn json_row<'a>(&self, line: &'a str, arena: &'a Bump) -> RowResult<ArenaVec<'a, Value<'a>>> {
        let mut values = ArenaVec::with_capacity_in(self.targets.len(), arena);
        let wrong = |error: serde_json::Error| format!("not JSON: {error}");
        if line.trim_start().starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(line).map_err(wrong)?;
            if items.len() != self.fields {
                return Err(format!("{} values, but {} columns", items.len(), self.fields));
            }
            for target in &self.targets {
                values.push(match target.field {
                    Some(field) => target.convert_json(items[field].get(), arena)?,
                    None => target.default(arena),
                });
            }
            return Ok(values);
        }
        values.extend(self.targets.iter().map(|target| target.default(arena)));
        let object: HashMap<String, &RawValue> = serde_json::from_str(line).map_err(wrong)?;
        for (name, value) in object {
            let index = self.by_name.get(&name.to_uppercase()).ok_or_else(|| format!("there is no column {name}"))?;
            values[*index] = self.targets[*index].convert_json(value.get(), arena)?;
        }
        Ok(values)
    }

    /// Columns whose text the server would read as NULL if it came as a parameter.
    pub fn literal_columns(values: &[Value<'_>]) -> bool {
        values.iter().any(|value| matches!(value, Value::Text(NULL_TEXT)))
    }

    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(|target| target.name.as_str())
    }
}

impl Target {
    fn default<'a>(&self, arena: &'a Bump) -> Value<'a> {
        self.default.as_value().copied_to(arena)
    }

    fn convert<'a>(&self, value: Value<'a>, arena: &'a Bump) -> RowResult<Value<'a>> {
        if let Value::Text(NULL_TEXT) = value {
            // In quotes it is a text, and of other types none that could be meant.
            return match self.column_type.sql_type {
                ferrite_value::SqlType::Varchar => Ok(value),
                _ => Err(format!("column {}: \"\\N\" in quotes is not NULL", self.name)),
            };
        }
        convert::to_declared(value, &self.column_type, arena)
            .map_err(|error| format!("column {}: {}", self.name, error.message()))
    }

    fn convert_json<'a>(&self, json: &'a str, arena: &'a Bump) -> RowResult<Value<'a>> {
        let value = match json.as_bytes().first() {
            Some(b'n') => return Ok(Value::Null),
            Some(b't') => Value::Boolean(true),
            Some(b'f') => Value::Boolean(false),
            Some(b'"') => {
                let text: String = serde_json::from_str(json).map_err(|error| format!("not JSON: {error}"))?;
                Value::Text(arena.alloc_str(&text))
            }
            // Numbers by their digits, so that none is lost; what is nested stays JSON.
            _ => Value::Text(json),
        };
        self.convert(value, arena)
    }
}

fn no_column(table: &Table, name: &str) -> String {
    let near = crate::suggest::nearest(name, table.columns.iter().map(|column| column.name.as_str()));
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("table {} has no column {name}{hint}", table.name)
}

/// A default that is a literal. Others, such as NOW, are the server's to evaluate.
fn constant(default: &str, column_type: &ColumnType) -> Option<OwnedValue> {
    if default.eq_ignore_ascii_case("null") {
        return Some(OwnedValue::Null);
    }
    let inner =
        default.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).map(|inner| inner.replace("''", "'"));
    let text = inner.as_deref().unwrap_or(default);
    let arena = Bump::new();
    // A word that a VARCHAR column has without quotes is a function's name.
    if inner.is_none() && column_type.sql_type.is_variable_length() {
        return None;
    }
    convert::to_declared(Value::Text(text), column_type, &arena).ok().map(|value| value.to_owned_value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::records::{Dialect, Scanned};
    use crate::names::{Column, TableKind};
    use ferrite_value::SqlType;

    fn table() -> Table {
        let column = |name: &str, sql_type: SqlType, default: Option<&str>| Column {
            name: name.to_owned(),
            column_type: ColumnType::unbounded(sql_type),
            nullable: true,
            default: default.map(str::to_owned),
        };
        Table {
            name: "T".into(),
            kind: TableKind::Table,
            columns: vec![
                column("ID", SqlType::Bigint, None),
                column("NAME", SqlType::Varchar, Some("'none'")),
                column("PRICE", SqlType::Decimal, Some("1.5")),
            ],
            partition_column: None,
            partitioned: false,
            computed: false,
            primary_key: Vec::new(),
        }
    }

    fn csv(mapping: &Mapping, record: &str) -> Result<Vec<String>, String> {
        let dialect = Dialect { delimiter: b',', quote: Some(b'"'), comment: None, lines: false };
        let mut fields = Vec::new();
        assert!(matches!(dialect.scan(record.as_bytes(), true, &mut fields), Scanned::Record { .. }));
        let arena = Bump::new();
        mapping
            .row(record, &fields, &arena)
            .map(|values| values.iter().map(ferrite_value::text::to_text_string).collect())
    }

    #[test]
    fn fields_become_values_of_their_columns() {
        let mapping = Mapping::new(&table(), None, None, Some(b'"')).unwrap();
        assert_eq!(csv(&mapping, "1,a,2.25").unwrap(), ["1", "a", "2.250000000000"]);
        assert_eq!(csv(&mapping, ",,").unwrap(), ["NULL", "NULL", "NULL"]);
        assert_eq!(csv(&mapping, "1,\"\",\\N").unwrap(), ["1", "", "NULL"]);
        assert_eq!(csv(&mapping, "x,a,1").unwrap_err(), "column ID: unable to convert VARCHAR x to BIGINT");
        assert_eq!(csv(&mapping, "1,a").unwrap_err(), "2 fields, but 3 columns");
        let some = Mapping::new(&table(), Some(&["price".into(), "id".into()]), Some("NA".into()), Some(b'"')).unwrap();
        assert_eq!(csv(&some, "NA,7").unwrap(), ["7", "none", "NULL"]);
        let wrong = Mapping::new(&table(), Some(&["prise".into()]), None, None).unwrap_err();
        assert_eq!(wrong, "table T has no column prise; did you mean PRICE?");
    }

    #[test]
    fn lines_of_json_become_rows() {
        let mapping = Mapping::by_name(&table()).unwrap();
        let arena = Bump::new();
        let shown = |line: &'static str| {
            let values = mapping.json_row(line, &arena)?;
            Ok::<_, String>(values.iter().map(ferrite_value::text::to_text_string).collect::<Vec<_>>())
        };
        assert_eq!(
            shown("{\"id\": 12345678901234567, \"Name\": \"a\\n\"}").unwrap(),
            ["12345678901234567", "a\n", "1.500000000000"]
        );
        assert_eq!(shown("[1, null, 0.1]").unwrap(), ["1", "NULL", "0.100000000000"]);
        assert!(shown("{\"nosuch\": 1}").unwrap_err().contains("no column nosuch"));
        assert!(shown("{").unwrap_err().contains("not JSON"));
    }
}
