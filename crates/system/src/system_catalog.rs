//! `@SystemCatalog`: the schema as tables, in the layout that JDBC metadata and `sqlcmd` read
//! (wire-protocol 12.1).
//!
//! Everything comes from one catalog version. Rows are sorted by name: of the table or procedure,
//! then of what is in it.

use crate::result::{self, Cell, Columns, SystemResult, SystemTable, cells};
use ferrite_base::UserError;
use ferrite_base::limits::VALUE_BYTES_MAX;
use ferrite_catalog::objects::BUILT_IN_ROLES;
use ferrite_catalog::{Catalog, Column, Index, IndexKind, Table, TableKind};
use ferrite_expr::Expr;
use ferrite_partition::Compiled;
use ferrite_plan::{Parameter, Program, Routing};
use ferrite_value::ColumnType;
use ferrite_value::SqlType::{self, Integer, Smallint, Tinyint, Varchar};
use std::fmt::Write;
use std::sync::Arc;

/// Digits behind the point of every DECIMAL.
const DECIMAL_SCALE: i32 = 12;

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

/// The numbers of `java.sql.Types`.
fn java_type(sql_type: SqlType) -> i32 {
    match sql_type {
        SqlType::Tinyint => -6,
        SqlType::Smallint => 5,
        SqlType::Integer => 4,
        SqlType::Bigint => -5,
        SqlType::Float => 6,
        SqlType::Varchar => 12,
        SqlType::Timestamp => 93,
        SqlType::Date => 91,
        SqlType::Decimal => 3,
        SqlType::Boolean => 16,
        SqlType::Varbinary => -3,
        SqlType::Point | SqlType::Geography => 1111,
    }
}

/// Digits of a number, in units of [`radix`].
fn fixed_precision(sql_type: SqlType) -> Option<i32> {
    match sql_type {
        SqlType::Tinyint => Some(7),
        SqlType::Smallint => Some(15),
        SqlType::Integer => Some(31),
        SqlType::Bigint | SqlType::Timestamp => Some(63),
        SqlType::Float => Some(53),
        SqlType::Decimal => Some(38),
        _ => None,
    }
}

fn radix(sql_type: SqlType) -> Option<i32> {
    match sql_type {
        SqlType::Decimal => Some(10),
        other => fixed_precision(other).map(|_| 2),
    }
}

/// The same of a column, which may declare it.
fn precision(column_type: &ColumnType) -> Option<i32> {
    let declared = column_type.precision_and_scale().map(|(precision, _)| precision as i32);
    declared.or(fixed_precision(column_type.sql_type))
}

fn scale(column_type: &ColumnType) -> Option<i32> {
    let declared = column_type.precision_and_scale().map(|(_, scale)| scale as i32);
    declared.or((column_type.sql_type == SqlType::Decimal).then_some(DECIMAL_SCALE))
}

/// The declared size, of the types for which JDBC wants it.
fn octet_length(column_type: &ColumnType) -> Option<i32> {
    matches!(column_type.sql_type, SqlType::Varchar | SqlType::Varbinary).then_some(column_type.length as i32)
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

fn procedures(programs: &[&Arc<Program>]) -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("PROCEDURE_CAT", Varchar),
        ("PROCEDURE_SCHEM", Varchar),
        ("PROCEDURE_NAME", Varchar),
        ("RESERVED1", Varchar),
        ("RESERVED2", Varchar),
        ("RESERVED3", Varchar),
        ("REMARKS", Varchar),
        ("PROCEDURE_TYPE", Smallint),
        ("SPECIFIC_NAME", Varchar),
    ]);
    const NULL: Cell = Cell::NULL;
    for program in programs {
        let name = &program.name;
        answer.row(cells![NULL, NULL, name, NULL, NULL, NULL, procedure_remarks(program), 0, name]);
    }
    answer
}

/// What clients route calls by (wire-protocol 11.6).
fn procedure_remarks(program: &Program) -> String {
    let partitioning = match &program.routing {
        Routing::Parameter { index, sql_type } => Some((i32::from(*index), sql_type.code())),
        Routing::Directed => Some((-1, -1)),
        // The server finds these calls' partitions itself, so clients need not send them anywhere
        // in particular.
        Routing::Constant { .. } | Routing::Several { .. } | Routing::Any | Routing::All => None,
        // What it calls may write.
        Routing::Compound => {
            let compound = program.is_compound();
            return format!(r#"{{"compound":{compound},"readOnly":false,"singlePartition":false}}"#);
        }
    };
    let read_only = program.read_only;
    match partitioning {
        Some((parameter, code)) => format!(
            "{{\"compound\":false,\"partitionParameter\":{parameter},\"partitionParameterType\":{code},\
             \"readOnly\":{read_only},\"singlePartition\":true}}"
        ),
        None => format!("{{\"compound\":false,\"readOnly\":{read_only},\"singlePartition\":false}}"),
    }
}

fn procedure_columns(programs: &[&Arc<Program>]) -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("PROCEDURE_CAT", Varchar),
        ("PROCEDURE_SCHEM", Varchar),
        ("PROCEDURE_NAME", Varchar),
        ("COLUMN_NAME", Varchar),
        ("COLUMN_TYPE", Smallint),
        ("DATA_TYPE", Integer),
        ("TYPE_NAME", Varchar),
        ("PRECISION", Integer),
        ("LENGTH", Integer),
        ("SCALE", Smallint),
        ("RADIX", Smallint),
        ("NULLABLE", Smallint),
        ("REMARKS", Varchar),
        ("COLUMN_DEF", Varchar),
        ("SQL_DATA_TYPE", Integer),
        ("SQL_DATETIME_SUB", Integer),
        ("CHAR_OCTET_LENGTH", Integer),
        ("ORDINAL_POSITION", Integer),
        ("IS_NULLABLE", Varchar),
        ("SPECIFIC_NAME", Varchar),
    ]);
    const NULL: Cell = Cell::NULL;
    const IN: i32 = 1;
    const NULLABLE_UNKNOWN: i32 = 2;
    for program in programs {
        for (position, parameter) in program.parameters.iter().enumerate() {
            let column_type = parameter_type(parameter);
            let sql_type = column_type.sql_type;
            let size = match sql_type {
                variable if variable.is_variable_length() => Some(column_type.length as i32),
                _ => precision(&column_type),
            };
            answer.row(cells![
                NULL,
                NULL,
                &program.name,
                parameter.name.clone().unwrap_or_else(|| format!("param{position}")),
                IN,
                if parameter.table { 1111 } else { java_type(sql_type) },
                if parameter.table { "VOLTTABLE" } else { sql_type.name() },
                size,
                column_type.bytes_max() as i32,
                scale(&column_type),
                radix(sql_type),
                NULLABLE_UNKNOWN,
                parameter_remarks(program, position, parameter),
                NULL,
                NULL,
                NULL,
                octet_length(&column_type),
                position as i32 + 1,
                "",
                &program.name
            ]);
        }
    }
    answer
}

/// A `?` takes any value of its type: what it is compared or assigned to decides whether a long one
/// is too long.
fn parameter_type(parameter: &Parameter) -> ColumnType {
    match parameter.name {
        Some(_) => parameter.column_type,
        None => ColumnType::unbounded(parameter.column_type.sql_type),
    }
}

fn parameter_remarks(program: &Program, position: usize, parameter: &Parameter) -> Option<&'static str> {
    let is_key = matches!(&program.routing, Routing::Parameter { index, .. } if usize::from(*index) == position);
    match (is_key, parameter.array) {
        (true, true) => Some("PARTITION_PARAMETER,ARRAY_PARAMETER"),
        (true, false) => Some("PARTITION_PARAMETER"),
        (false, true) => Some("ARRAY_PARAMETER"),
        (false, false) => None,
    }
}

fn type_info() -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("TYPE_NAME", Varchar),
        ("DATA_TYPE", Integer),
        ("PRECISION", Integer),
        ("LITERAL_PREFIX", Varchar),
        ("LITERAL_SUFFIX", Varchar),
        ("CREATE_PARAMS", Varchar),
        ("NULLABLE", Smallint),
        ("CASE_SENSITIVE", Tinyint),
        ("SEARCHABLE", Smallint),
        ("UNSIGNED_ATTRIBUTE", Tinyint),
        ("FIXED_PREC_SCALE", Tinyint),
        ("AUTO_INCREMENT", Tinyint),
        ("LOCAL_TYPE_NAME", Varchar),
        ("MINIMUM_SCALE", Smallint),
        ("MAXIMUM_SCALE", Smallint),
        ("SQL_DATA_TYPE", Integer),
        ("SQL_DATETIME_SUB", Integer),
        ("NUM_PREC_RADIX", Integer),
    ]);
    for sql_type in SqlType::ALL {
        let quote = matches!(sql_type, SqlType::Varchar | SqlType::Varbinary | SqlType::Timestamp | SqlType::Date)
            .then_some("'");
        let is_text = sql_type == SqlType::Varchar;
        let precision =
            if sql_type.is_variable_length() { Some(VALUE_BYTES_MAX as i32) } else { fixed_precision(sql_type) };
        let scale = match sql_type {
            SqlType::Decimal => Some(DECIMAL_SCALE),
            SqlType::Boolean => Some(0),
            integer if integer.is_integer() => Some(0),
            _ => None,
        };
        answer.row(cells![
            sql_type.name(),
            java_type(sql_type),
            precision,
            quote,
            quote,
            sql_type.is_variable_length().then_some("max_length"),
            1,
            i32::from(is_text),
            if is_text { 3 } else { 2 },
            sql_type.is_numeric().then_some(0),
            0,
            0,
            sql_type.name(),
            scale,
            scale,
            Cell::NULL,
            Cell::NULL,
            radix(sql_type)
        ]);
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
