//! `\d` and its like: the catalog as result tables, so that every output format serves them too.

use crate::names::{Names, Procedure, Table, TableKind};
use crate::suggest;
use ferrite_value::{OwnedValue, SqlType};
use ferrite_wire::OwnedTable;

/// Tables, each with a line above it; empty for none.
pub type Sections = Vec<(String, OwnedTable)>;

fn table_of(columns: &[&str], rows: Vec<Vec<OwnedValue>>) -> OwnedTable {
    let columns = columns.iter().map(|name| ((*name).to_owned(), SqlType::Varchar)).collect();
    OwnedTable { status: -128, columns, rows }
}

fn text(text: impl AsRef<str>) -> OwnedValue {
    OwnedValue::Text(text.as_ref().into())
}

fn optional(value: Option<impl AsRef<str>>) -> OwnedValue {
    value.map_or(OwnedValue::Null, text)
}

fn kind_name(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Table => "table",
        TableKind::View => "view",
        TableKind::Stream => "stream",
    }
}

/// By which column, or that every partition has all of it.
fn placement(table: &Table) -> String {
    match table.partition_column {
        Some(column) => format!("partitioned by {}", table.columns[column].name),
        None if table.computed => "computed when read".to_owned(),
        None if table.partitioned => "partitioned".to_owned(),
        None => "replicated".to_owned(),
    }
}

pub fn tables(names: &Names, wanted: impl Fn(TableKind) -> bool) -> OwnedTable {
    let row = |table: &Table| {
        vec![
            text(&table.name),
            text(kind_name(table.kind)),
            text(placement(table)),
            optional((!table.primary_key.is_empty()).then(|| table.primary_key.join(", "))),
        ]
    };
    let rows = names.tables.iter().filter(|table| wanted(table.kind)).map(row).collect();
    table_of(&["name", "kind", "placement", "primary key"], rows)
}

pub fn indexes(names: &Names, of: Option<&str>) -> OwnedTable {
    let rows = names
        .indexes
        .iter()
        .filter(|index| of.is_none_or(|table| index.table.eq_ignore_ascii_case(table)))
        .map(|index| {
            let unique = if index.unique { "yes" } else { "no" };
            vec![text(&index.name), text(&index.table), text(index.columns.join(", ")), text(unique)]
        })
        .collect();
    table_of(&["name", "table", "columns", "unique"], rows)
}

pub fn procedures(names: &Names, with_defaults: bool) -> OwnedTable {
    let rows = names
        .procedures
        .iter()
        .filter(|procedure| with_defaults || !procedure.is_default())
        .map(|procedure| {
            vec![text(&procedure.name), text(parameters(procedure)), text(reach(procedure)), text(access(procedure))]
        })
        .collect();
    table_of(&["name", "parameters", "partitions", "access"], rows)
}

/// Names and types, as a declaration has them.
pub fn parameters(procedure: &Procedure) -> String {
    let one = |parameter: &crate::names::Parameter| format!("{} {}", parameter.name, parameter.type_name);
    procedure.parameters.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn reach(procedure: &Procedure) -> String {
    match procedure.parameters.iter().find(|parameter| parameter.is_partitioning) {
        Some(parameter) => format!("one, by {}", parameter.name),
        None if procedure.single_partition => "one".to_owned(),
        None => "all".to_owned(),
    }
}

fn access(procedure: &Procedure) -> &'static str {
    if procedure.read_only { "reads" } else { "writes" }
}

/// A table, view, stream or procedure of this name. The error is the name that was probably meant.
pub fn describe(names: &Names, name: &str) -> Result<Sections, Option<String>> {
    if let Some(table) = names.table(name) {
        return Ok(describe_table(names, table));
    }
    if let Some(procedure) = names.procedure(name) {
        let rows = procedure
            .parameters
            .iter()
            .map(|parameter| {
                let role = if parameter.is_partitioning { "names the partition" } else { "" };
                vec![text(&parameter.name), text(&parameter.type_name), text(role)]
            })
            .collect();
        let heading = format!("procedure {}: runs on {}, {}", procedure.name, reach(procedure), access(procedure));
        return Ok(vec![(heading, table_of(&["parameter", "type", "role"], rows))]);
    }
    let known = names.tables.iter().map(|table| table.name.as_str());
    let procedures = names.procedures.iter().map(|procedure| procedure.name.as_str());
    Err(suggest::nearest(name, known.chain(procedures)).map(str::to_owned))
}

fn describe_table(names: &Names, table: &Table) -> Sections {
    let rows = table
        .columns
        .iter()
        .map(|column| {
            vec![
                text(&column.name),
                text(column.column_type.to_string()),
                text(if column.nullable { "" } else { "not null" }),
                optional(column.default.as_ref()),
            ]
        })
        .collect();
    let heading = format!("{} {}: {}", kind_name(table.kind), table.name, placement(table));
    let mut sections = vec![(heading, table_of(&["column", "type", "null", "default"], rows))];
    if !table.primary_key.is_empty() {
        let key = vec![vec![text(table.primary_key.join(", "))]];
        sections.push((String::new(), table_of(&["primary key"], key)));
    }
    let indexes = indexes(names, Some(&table.name));
    if !indexes.rows.is_empty() {
        sections.push((String::new(), indexes));
    }
    sections
}
