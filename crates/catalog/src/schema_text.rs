//! The schema as statements that make it again: the same text for the same schema, whatever changes
//! led to it.

use crate::objects::{
    Catalog, Column, DecimalScale, Export, Index, IndexKind, PlainView, Procedure, Table, TableKind, TimeToLive,
    VIEW_KEY_CONSTRAINT,
};
use crate::task::Task;
use ferrite_expr::{Expr, Function};
use ferrite_value::{OwnedValue, convert::to_text_string};
use std::fmt::Write;

/// Words that begin a table constraint: a column of such a name is quoted.
const CONSTRAINT_WORDS: [&str; 7] = ["PRIMARY", "UNIQUE", "ASSUMEUNIQUE", "CHECK", "FOREIGN", "CONSTRAINT", "LIMIT"];
/// How the statement begins that a history begins with.
pub const DECIMAL_SCALE: &str = "SET DECIMAL_SCALE";
/// How the names begin that are made up for constraints without one.
const MADE_UP: &str = "VOLTDB_AUTOGEN_CT__";

/// Statements that make this schema from [`Catalog::before_history`]: what DECIMAL(p, s) means,
/// classes, then roles and functions, then tables, streams and materialized views in the order in
/// which they were made, then plain views, procedures and tasks.
pub fn schema_text(catalog: &Catalog) -> String {
    let mut out = String::new();
    set_decimal_scale(&mut out, catalog.decimals);
    if !catalog.classes.is_empty() {
        statement(&mut out, format_args!("LOAD CLASSES '{}'", crate::base64::encode(&catalog.classes.jar())));
    }
    objects(&mut out, catalog);
    out
}

/// [`schema_text`] for people: without the bytes of Java classes, which are loaded from their jars,
/// and without what a new database has anyway.
pub fn schema_text_without_classes(catalog: &Catalog) -> String {
    let mut out = String::new();
    if catalog.decimals != DecimalScale::default() {
        set_decimal_scale(&mut out, catalog.decimals);
    }
    objects(&mut out, catalog);
    out
}

/// The statement that a new history begins with.
pub fn decimal_scale_text(decimals: DecimalScale) -> String {
    let mut out = String::new();
    set_decimal_scale(&mut out, decimals);
    out
}

fn set_decimal_scale(out: &mut String, decimals: DecimalScale) {
    statement(out, format_args!("{DECIMAL_SCALE} {}", decimals.name()));
}

fn objects(out: &mut String, catalog: &Catalog) {
    for (name, permissions) in &catalog.roles {
        let with = if permissions.is_empty() { String::new() } else { format!(" WITH {}", permissions.join(", ")) };
        statement(out, format_args!("CREATE ROLE {}{with}", quoted(&name.to_uppercase())));
    }
    for function in catalog.functions.values() {
        let name = quoted(&function.name);
        match &function.method {
            Some(method) => {
                statement(out, format_args!("CREATE FUNCTION {name} FROM METHOD {}.{method}", function.class))
            }
            None => statement(out, format_args!("CREATE AGGREGATE FUNCTION {name} FROM CLASS {}", function.class)),
        }
    }
    let mut tables: Vec<&Table> = catalog.tables.values().map(|table| &**table).collect();
    tables.sort_by_key(|table| table.id);
    for table in tables {
        match table.kind {
            TableKind::View => view(out, table),
            TableKind::Table | TableKind::Stream => self::table(out, table),
        }
        for index in table.indexes.iter().filter(|index| index.constraint.is_none()) {
            create_index(out, table, index);
        }
    }
    // One that reads another reads all that the other does, and that besides.
    let mut plain_views: Vec<&PlainView> = catalog.plain_views.values().map(|view| &**view).collect();
    plain_views.sort_by_key(|view| view.reads.len());
    for view in plain_views {
        let columns = list(view.columns.iter().map(String::as_str));
        statement(out, format_args!("CREATE VIEW {} ({columns}) AS\n{}", quoted(&view.name), view.text));
    }
    for procedure in catalog.procedures.values() {
        create_procedure(out, catalog, procedure);
    }
    for task in catalog.tasks.values() {
        create_task(out, task);
    }
}

fn statement(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text};").expect("a string takes all");
}

/// A name as it must be written to be read as it is.
fn quoted(name: &str) -> String {
    let begins = |first: char| first.is_ascii_uppercase() || first == '_';
    let plain = name.starts_with(begins)
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && !CONSTRAINT_WORDS.contains(&name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

fn table(out: &mut String, table: &Table) {
    let is_stream = table.kind == TableKind::Stream;
    let mut head = format!("CREATE {} {}", if is_stream { "STREAM" } else { "TABLE" }, quoted(&table.name));
    let partition_column = table.partition_column.map(|column| quoted(&table.columns[column as usize].name));
    if let (true, Some(column)) = (is_stream, &partition_column) {
        head.push_str(&format!(" PARTITION ON COLUMN {column}"));
    }
    if let Some(export) = &table.export {
        head.push_str(&export_clause(export));
    }
    let mut parts: Vec<String> = table.columns.iter().map(column).collect();
    for index in &table.indexes {
        let Some(constraint) = index.constraint.as_deref().filter(|name| *name != VIEW_KEY_CONSTRAINT) else {
            continue;
        };
        let name =
            if constraint.starts_with(MADE_UP) { String::new() } else { format!("CONSTRAINT {} ", quoted(constraint)) };
        let kind = match (table.primary_key == Some(index.id), index.assume_unique) {
            (true, _) => "PRIMARY KEY",
            (false, true) => "ASSUMEUNIQUE",
            (false, false) => "UNIQUE",
        };
        parts.push(format!("{name}{kind}{} ({})", using(index), keys(table, index)));
    }
    for check in &table.checks {
        parts.push(format!("CONSTRAINT {} CHECK ({})", quoted(&check.name), check.text));
    }
    let tail = table.time_to_live.map_or(String::new(), |time| time_to_live_clause(table, &time));
    statement(out, format_args!("{head} (\n  {}\n){tail}", parts.join(",\n  ")));
    if let (false, Some(column)) = (is_stream, partition_column) {
        statement(out, format_args!("PARTITION TABLE {} ON COLUMN {column}", quoted(&table.name)));
    }
}

fn column(column: &Column) -> String {
    let mut text = format!("{} {}", quoted(&column.name), column.column_type);
    if let Some(default) = &column.default {
        text.push_str(&format!(" DEFAULT {}", default_value(default)));
    }
    if !column.nullable {
        text.push_str(" NOT NULL");
    }
    text
}

fn default_value(default: &Expr) -> String {
    match default {
        Expr::Constant(value) => constant(value),
        Expr::Call { function: Function::CurrentDate, .. } => "CURRENT_DATE".to_owned(),
        _ => "NOW".to_owned(),
    }
}

fn constant(value: &OwnedValue) -> String {
    let text = to_text_string(&value.as_value());
    match value {
        OwnedValue::Null => "NULL".to_owned(),
        OwnedValue::Integer(_) | OwnedValue::Float(_) | OwnedValue::Decimal(_) | OwnedValue::Boolean(_) => text,
        _ => format!("'{}'", text.replace('\'', "''")),
    }
}

fn using(index: &Index) -> &'static str {
    if index.kind == IndexKind::Hash { " USING HASH" } else { "" }
}

fn keys(table: &Table, index: &Index) -> String {
    let key = |(position, key): (usize, &Expr)| match key {
        Expr::Column { column, .. } => quoted(&table.columns[*column as usize].name),
        _ => index.text.keys.get(position).cloned().unwrap_or_default(),
    };
    index.keys.iter().enumerate().map(key).collect::<Vec<_>>().join(", ")
}

fn create_index(out: &mut String, table: &Table, index: &Index) {
    let kind = match (index.unique, index.assume_unique) {
        (_, true) => "ASSUMEUNIQUE ",
        (true, false) => "UNIQUE ",
        (false, false) => "",
    };
    let condition = index.text.predicate.as_ref().map_or(String::new(), |text| format!(" WHERE {text}"));
    statement(
        out,
        format_args!(
            "CREATE {kind}INDEX {} ON {}{} ({}){condition}",
            quoted(&index.name),
            quoted(&table.name),
            using(index),
            keys(table, index)
        ),
    );
}

fn view(out: &mut String, table: &Table) {
    let Some(view) = &table.view else { return };
    let columns = list(table.columns.iter().map(|column| &*column.name));
    let export = table.export.as_ref().map_or(String::new(), export_clause);
    let tail = table.time_to_live.map_or(String::new(), |time| time_to_live_clause(table, &time));
    statement(out, format_args!("CREATE VIEW {}{export} ({columns}) AS\n{}{tail}", quoted(&table.name), view.text));
}

pub(crate) fn time_to_live_clause(table: &Table, time: &TimeToLive) -> String {
    format!(
        " USING TTL {} {} ON COLUMN {} BATCH_SIZE {} MAX_FREQUENCY {}",
        time.value,
        time.unit.name(),
        quoted(&table.columns[time.column as usize].name),
        time.batch_size,
        time.max_frequency
    )
}

fn export_clause(export: &Export) -> String {
    let verb = if export.migrate { "MIGRATE" } else { "EXPORT" };
    let kind = if export.topic { "TOPIC" } else { "TARGET" };
    let mut text = format!(" {verb} TO {kind} {}", quoted(&export.to));
    if !export.triggers.is_empty() {
        text.push_str(&format!(" ON {}", export.triggers.join(", ")));
    }
    if !(export.key.is_empty() && export.value.is_empty()) {
        text.push_str(" WITH");
        for (word, columns) in [("KEY", &export.key), ("VALUE", &export.value)] {
            if !columns.is_empty() {
                text.push_str(&format!(" {word} ({})", list(columns.iter().map(String::as_str))));
            }
        }
    }
    text
}

fn create_procedure(out: &mut String, catalog: &Catalog, procedure: &Procedure) {
    let kind = match (procedure.directed, procedure.compound) {
        (true, _) => "DIRECTED ",
        (_, true) => "COMPOUND ",
        _ => "",
    };
    let mut head = format!("CREATE {kind}PROCEDURE {}", procedure_name(&procedure.name));
    if let Some(parameters) = &procedure.parameters {
        let parameter =
            |(name, column_type): &(String, ferrite_value::ColumnType)| format!("{} {column_type}", quoted(name));
        head.push_str(&format!(" ({})", parameters.iter().map(parameter).collect::<Vec<_>>().join(", ")));
    }
    if let Some(partitioning) = &procedure.partitioning
        && let Some(table) = catalog.table(partitioning.table)
    {
        head.push_str(&format!(
            "\n  PARTITION ON TABLE {} COLUMN {} PARAMETER {}",
            quoted(&table.name),
            quoted(&table.columns[partitioning.column as usize].name),
            partitioning.parameter
        ));
    }
    if !procedure.allow_roles.is_empty() {
        head.push_str(&format!("\n  ALLOW {}", list(procedure.allow_roles.iter().map(String::as_str))));
    }
    match &procedure.class {
        Some(class) => statement(out, format_args!("{head}\n  FROM CLASS {class}")),
        None => statement(out, format_args!("{head} AS\n{}", procedure.body)),
    }
}

fn create_task(out: &mut String, task: &Task) {
    let with = if task.parameters.is_empty() {
        String::new()
    } else {
        format!(" WITH ({})", task.parameters.iter().map(constant).collect::<Vec<_>>().join(", "))
    };
    statement(
        out,
        format_args!(
            "CREATE TASK {} ON SCHEDULE {} {}\n  PROCEDURE {}{with}\n  ON ERROR {} RUN ON {} {}",
            quoted(&task.name),
            task.schedule.kind(),
            task.schedule.arguments(),
            procedure_name(&task.procedure),
            task.on_error.name(),
            task.run_on.name(),
            if task.enabled { "ENABLE" } else { "DISABLE" }
        ),
    );
}

/// Procedures keep their names as written; a dot parts the two words of some.
fn procedure_name(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        && !["PARTITION", "ALLOW"].contains(&&*name.to_uppercase());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
