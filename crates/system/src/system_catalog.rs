//! `@SystemCatalog`: the schema as tables, in the layout that JDBC metadata and `sqlcmd` read
//! (wire-protocol 12.1).
//!
//! Everything comes from one catalog version. Rows are sorted by name: of the table or procedure,
//! then of what is in it.

mod jdbc_types;
mod procedures;

use crate::result::{self, Cell, Columns, SystemResult, SystemTable, cells};
use ferrite_base::UserError;
use ferrite_catalog::objects::BUILT_IN_ROLES;
use ferrite_catalog::{Catalog, Column, Index, IndexKind, Table, TableKind};
use ferrite_expr::Expr;
use ferrite_partition::Compiled;
use ferrite_value::ColumnType;
use ferrite_value::SqlType::{self, Integer, Smallint, Tinyint, Varchar};
use jdbc_types::{java_type, octet_length, precision, radix, scale, type_info};
use procedures::{procedure_columns, procedures};
use std::fmt::Write;

/// One table, by the selector's name in any case.
pub fn system_catalog(compiled: &Compiled, selector: &str) -> SystemResult {
    let catalog = &*compiled.catalog;
    let table = match selector.to_ascii_uppercase().as_str() {
        "TABLES" => tables(catalog),
        "COLUMNS" => columns(catalog),
        "INDEXINFO" => index_info(catalog),
        "PRIMARYKEYS" => primary_keys(catalog),
        "PROCEDURES" => procedures(&compiled.programs_by_name()),
        "PROCEDURECOLUMNS" => procedure_columns(&compiled.programs_by_name()),
        "TYPEINFO" => type_info(),
        "ROLES" => roles(catalog),
        "DDL" => schema(catalog),
        "CLASSES" => classes(catalog),
        "FUNCTIONS" => functions(catalog),
        "TASKS" => tasks(catalog),
        // There is nothing of these kinds to list.
        "TOPICS" => SystemTable::new(TOPICS),
        "USERS" => SystemTable::new(USERS),
        _ => return Err(UserError::parameters(format!("Invalid @SystemCatalog selector: {selector}"))),
    };
    Ok(vec![table])
}

/// The statements that make the schema, as one text: an addition of ours, which `ferrite dump`
/// reads.
fn schema(catalog: &Catalog) -> SystemTable {
    let mut answer = SystemTable::new(&[("DDL", Varchar)]);
    answer.row(cells![ferrite_catalog::schema_text_without_classes(catalog)]);
    answer
}

/// Tells a subscriber, unasked, which procedures there are.
pub fn write_procedures_push(out: &mut Vec<u8>, handle: i64, compiled: &Compiled) {
    result::write_response(out, handle, &Ok(vec![procedures(&compiled.programs_by_name())]));
}

const CLASSES: &Columns = &[("CLASS_NAME", Varchar), ("VOLT_PROCEDURE", Tinyint), ("ACTIVE_PROC", Tinyint)];

/// Which of the loaded classes are procedures that are declared; whether others could be is not
/// looked into.
fn classes(catalog: &Catalog) -> SystemTable {
    let mut answer = SystemTable::new(CLASSES);
    let active: std::collections::BTreeSet<&str> =
        catalog.procedures.values().filter_map(|procedure| procedure.class.as_deref()).collect();
    for name in catalog.classes.class_names() {
        let is_active = i64::from(active.contains(&*name));
        answer.row(cells![&name, is_active, is_active]);
    }
    answer
}

const FUNCTIONS: &Columns =
    &[("FUNCTION_TYPE", Varchar), ("FUNCTION_NAME", Varchar), ("CLASS_NAME", Varchar), ("METHOD_NAME", Varchar)];

fn functions(catalog: &Catalog) -> SystemTable {
    let mut answer = SystemTable::new(FUNCTIONS);
    for function in catalog.functions.values() {
        let kind = if function.is_aggregate() { "aggregate" } else { "scalar" };
        answer.row(cells![kind, &function.name, &function.class, function.method.clone()]);
    }
    answer
}

const TASKS: &Columns = &[
    ("TASK_NAME", Varchar),
    ("SCHEDULER_CLASS", Varchar),
    ("SCHEDULER_PARAMETERS", Varchar),
    ("ACTIONS_CLASS", Varchar),
    ("ACTIONS_PARAMETERS", Varchar),
    ("SCHEDULE_CLASS", Varchar),
    ("SCHEDULE_PARAMETERS", Varchar),
    ("ON_ERROR", Varchar),
    ("RUN_LOCATION", Varchar),
    ("USER", Varchar),
    ("ENABLED", Varchar),
];

/// Schedules and actions have no classes of their own here: their names say what they are.
fn tasks(catalog: &Catalog) -> SystemTable {
    let mut answer = SystemTable::new(TASKS);
    for task in catalog.tasks.values() {
        let parameters: Vec<String> =
            task.parameters.iter().map(|value| ferrite_value::convert::to_text_string(&value.as_value())).collect();
        answer.row(cells![
            &task.name,
            Cell::NULL,
            Cell::NULL,
            &task.procedure,
            parameters.join(", "),
            task.schedule.kind(),
            task.schedule.arguments(),
            task.on_error.name(),
            task.run_on.name(),
            Cell::NULL,
            if task.enabled { "true" } else { "false" }
        ]);
    }
    answer
}

const TOPICS: &Columns = &[
    ("TOPIC_NAME", Varchar),
    ("IS_SINGLE", Varchar),
    ("IS_OPAQUE", Varchar),
    ("STREAM_NAME", Varchar),
    ("PROCEDURE_NAME", Varchar),
];

const USERS: &Columns = &[("USER", Varchar), ("ROLES", Varchar)];

fn tables(catalog: &Catalog) -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("TABLE_CAT", Varchar),
        ("TABLE_SCHEM", Varchar),
        ("TABLE_NAME", Varchar),
        ("TABLE_TYPE", Varchar),
        ("REMARKS", Varchar),
        ("TYPE_CAT", Varchar),
        ("TYPE_SCHEM", Varchar),
        ("TYPE_NAME", Varchar),
        ("SELF_REFERENCING_COL_NAME", Varchar),
        ("REF_GENERATION", Varchar),
    ]);
    const NULL: Cell = Cell::NULL;
    for table in catalog.tables.values() {
        let kind = match table.kind {
            TableKind::Table => "TABLE",
            TableKind::View => "VIEW",
            TableKind::Stream => "EXPORT",
        };
        answer.row(cells![NULL, NULL, &table.name, kind, table_remarks(catalog, table), NULL, NULL, NULL, NULL, NULL]);
    }
    for name in catalog.plain_views.keys() {
        answer.row(cells![NULL, NULL, name, "VIEW", NULL, NULL, NULL, NULL, NULL, NULL]);
    }
    answer
}

/// Of a view, the source's partitioning column counts: the view may not even have it.
fn table_remarks(catalog: &Catalog, table: &Table) -> Option<String> {
    let source = table.view.as_ref().and_then(|view| catalog.table(view.source));
    let partitioned = source.map_or(table, |source| source);
    let mut entries = Vec::new();
    if let Some(column) = partitioned.partition_column {
        entries.push(format!("\"partitionColumn\":{}", json_string(&partitioned.columns[usize::from(column)].name)));
    }
    if let Some(source) = source {
        entries.push(format!("\"sourceTable\":{}", json_string(&source.name)));
    }
    (!entries.is_empty()).then(|| format!("{{{}}}", entries.join(",")))
}

pub fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => {
                write!(json, "\\u{:04x}", u32::from(control)).expect("writing to a String does not fail");
            }
            other => json.push(other),
        }
    }
    json.push('"');
    json
}

fn columns(catalog: &Catalog) -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("TABLE_CAT", Varchar),
        ("TABLE_SCHEM", Varchar),
        ("TABLE_NAME", Varchar),
        ("COLUMN_NAME", Varchar),
        ("DATA_TYPE", Integer),
        ("TYPE_NAME", Varchar),
        ("COLUMN_SIZE", Integer),
        ("BUFFER_LENGTH", Integer),
        ("DECIMAL_DIGITS", Integer),
        ("NUM_PREC_RADIX", Integer),
        ("NULLABLE", Integer),
        ("REMARKS", Varchar),
        ("COLUMN_DEF", Varchar),
        ("SQL_DATA_TYPE", Integer),
        ("SQL_DATETIME_SUB", Integer),
        ("CHAR_OCTET_LENGTH", Integer),
        ("ORDINAL_POSITION", Integer),
        ("IS_NULLABLE", Varchar),
        ("SCOPE_CATALOG", Varchar),
        ("SCOPE_SCHEMA", Varchar),
        ("SCOPE_TABLE", Varchar),
        ("SOURCE_DATA_TYPE", Smallint),
        ("IS_AUTOINCREMENT", Varchar),
    ]);
    for table in catalog.tables.values() {
        let mut columns: Vec<_> = table.columns.iter().enumerate().collect();
        columns.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        for (position, column) in columns {
            let is_key = table.partition_column == Some(position as u16);
            column_row(&mut answer, &table.name, column, position, is_key);
        }
    }
    for view in catalog.plain_views.values() {
        // One that does not fit the schema any more is listed without columns.
        let found = ferrite_sql::view_columns(catalog, view).unwrap_or_default();
        let mut columns: Vec<_> = found.into_iter().enumerate().collect();
        columns.sort_by(|a, b| a.1.0.cmp(&b.1.0));
        for (position, (name, sql_type)) in columns {
            let column_type = ColumnType::unbounded(sql_type);
            let column = Column { name, column_type, nullable: true, default: None, default_text: None };
            column_row(&mut answer, &view.name, &column, position, false);
        }
    }
    answer
}

fn column_row(answer: &mut SystemTable, name: &str, column: &Column, position: usize, is_key: bool) {
    const NULL: Cell = Cell::NULL;
    let column_type = column.column_type;
    let sql_type = column_type.sql_type;
    let size = match sql_type {
        SqlType::Varchar | SqlType::Varbinary => Some(column_type.length as i32),
        SqlType::Geography => None,
        _ => precision(&column_type),
    };
    answer.row(cells![
        NULL,
        NULL,
        name,
        &column.name,
        java_type(sql_type),
        sql_type.name(),
        size,
        NULL,
        scale(&column_type),
        radix(sql_type),
        i32::from(column.nullable),
        is_key.then_some("PARTITION_COLUMN"),
        column.default_text.as_ref(),
        NULL,
        NULL,
        octet_length(&column_type),
        position as i32 + 1,
        if column.nullable { "YES" } else { "NO" },
        NULL,
        NULL,
        NULL,
        NULL,
        "NO"
    ]);
}

fn index_info(catalog: &Catalog) -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("TABLE_CAT", Varchar),
        ("TABLE_SCHEM", Varchar),
        ("TABLE_NAME", Varchar),
        ("NON_UNIQUE", Tinyint),
        ("INDEX_QUALIFIER", Varchar),
        ("INDEX_NAME", Varchar),
        ("TYPE", Smallint),
        ("ORDINAL_POSITION", Smallint),
        ("COLUMN_NAME", Varchar),
        ("ASC_OR_DESC", Varchar),
        ("CARDINALITY", Integer),
        ("PAGES", Integer),
        ("FILTER_CONDITION", Varchar),
    ]);
    const NULL: Cell = Cell::NULL;
    for table in catalog.tables.values() {
        let mut indexes: Vec<&Index> = table.indexes.iter().collect();
        indexes.sort_by_key(|index| &index.name);
        for index in indexes {
            let (kind, direction) = match index.kind {
                IndexKind::Hash => (2, None),
                IndexKind::Ordered => (3, Some("A")),
            };
            let names = index_column_names(table, index);
            for (position, name) in names.into_iter().enumerate() {
                // Of a view's key the original server tells the positions only.
                let column = if index.is_view_key() { position.to_string() } else { name.to_owned() };
                answer.row(cells![
                    NULL,
                    NULL,
                    &table.name,
                    i32::from(!index.unique),
                    NULL,
                    &index.name,
                    kind,
                    position as i32 + 1,
                    column,
                    direction,
                    NULL,
                    NULL,
                    NULL
                ]);
            }
        }
    }
    answer
}

/// Of an index over expressions, the columns that they use, by name.
fn index_column_names<'t>(table: &'t Table, index: &Index) -> Vec<&'t str> {
    let name = |column: &u16| table.columns[usize::from(*column)].name.as_str();
    if let Some(columns) = index.key_columns() {
        return columns.iter().map(name).collect();
    }
    let mut names = Vec::new();
    for key in &index.keys {
        key.any(&mut |part| {
            if let Expr::Column { column, .. } = part {
                names.push(name(column));
            }
            false
        });
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn primary_keys(catalog: &Catalog) -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("TABLE_CAT", Varchar),
        ("TABLE_SCHEM", Varchar),
        ("TABLE_NAME", Varchar),
        ("COLUMN_NAME", Varchar),
        ("KEY_SEQ", Smallint),
        ("PK_NAME", Varchar),
    ]);
    for table in catalog.tables.values() {
        let Some(index) = table.primary_key_index() else { continue };
        let constraint = index.constraint.as_ref().unwrap_or(&index.name);
        let names = index_column_names(table, index);
        for (position, column) in names.into_iter().enumerate() {
            answer.row(cells![Cell::NULL, Cell::NULL, &table.name, column, position as i32 + 1, constraint]);
        }
    }
    answer
}

fn roles(catalog: &Catalog) -> SystemTable {
    let built_in = BUILT_IN_ROLES.iter().map(|(name, permissions)| (*name, permissions.join(",")));
    let declared = catalog.roles.iter().map(|(name, permissions)| (name.as_str(), permissions.join(",")));
    let mut roles: Vec<(&str, String)> = built_in.chain(declared).collect();
    roles.sort_unstable();
    let mut answer = SystemTable::new(&[("ROLE", Varchar), ("PERMISSIONS", Varchar)]);
    for (name, permissions) in roles {
        answer.row(cells![name, permissions]);
    }
    answer
}

#[cfg(test)]
mod tests;
