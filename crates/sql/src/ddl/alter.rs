//! ALTER TABLE: each action bound against the table as the actions before it leave it.

use super::parts::{check_of, column, ignored_declaration, key_of, stored_default, warn_of_parts};
use crate::bind::change::stored_constant;
use crate::bind::literal::declared;
use crate::bind::types::Typed;
use crate::parse::statement::{AlterAction, ConstraintKind, CreateTable, TimeToLiveClause};
use crate::parse::table::too_many_checks;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, Change, Export, Table, TableAction, TableKind, TimeToLive};
use ferrite_expr::{Expr, Function};
use ferrite_value::{ColumnType, SqlType};

pub(crate) fn alter_table(
    catalog: &Catalog,
    name: &str,
    stream: bool,
    if_exists: bool,
    actions: &[AlterAction],
    warnings: &mut Vec<String>,
) -> UserResult<Change> {
    match catalog.table_named(name) {
        None if catalog.plain_views.contains_key(name) => return Err(catalog.no_table(name)),
        None if if_exists => return Ok(Change::Several(Vec::new())),
        Some(table) if stream && table.kind != TableKind::Stream => {
            return Err(UserError::ddl("42809", format!("{name} is not a stream")));
        }
        _ => {}
    }
    let mut catalog = catalog.clone();
    let mut name = name.to_owned();
    let mut changes = Vec::new();
    for action in actions {
        let mut bound = Vec::new();
        bind_action(&catalog, &name, action, &mut bound, warnings)?;
        for change in bound {
            catalog = catalog.apply(&change)?.0;
            changes.push(change);
        }
        if let AlterAction::RenameTable { to } = action {
            name.clone_from(to);
        }
    }
    Ok(Change::Several(changes))
}

fn bind_action(
    catalog: &Catalog,
    name: &str,
    action: &AlterAction,
    bound: &mut Vec<Change>,
    warnings: &mut Vec<String>,
) -> UserResult<()> {
    let table = catalog.table_named(name).ok_or_else(|| UserError::unknown_table(name).in_ddl())?;
    let position = |column: &str| table.column_named(column).ok_or_else(|| UserError::unknown_column(column).in_ddl());
    let action = match action {
        AlterAction::Add { parts, before, if_not_exists } => {
            return add(catalog, table, parts, before.as_deref(), *if_not_exists, bound, warnings);
        }
        AlterAction::RenameTable { to } => {
            bound.push(Change::RenameTable { table: name.to_owned(), to: to.clone(), kind: TableKind::Table });
            return Ok(());
        }
        AlterAction::Nothing => {
            warnings.push(format!("table {name}: LIMIT PARTITION ROWS is not enforced"));
            return Ok(());
        }
        AlterAction::SetType { column, to } => {
            warnings.extend(ignored_declaration(catalog, column, to, name));
            let to = declared(catalog, *to).map_err(|error| error.about(column.as_str()))?;
            let (default, default_text) = converted_default(table, position(column)?, &to)?;
            TableAction::SetType { column: column.clone(), to, default, default_text }
        }
        AlterAction::SetDefault { column, default } => {
            let definition = &table.columns[usize::from(position(column)?)];
            let (default, default_text) =
                stored_default(catalog, &definition.name, &definition.column_type, default.as_deref(), name)?;
            TableAction::SetDefault { column: column.clone(), default, default_text }
        }
        AlterAction::SetTimeToLive(clause) => {
            let time_to_live = match clause {
                Some(clause) => Some(time_to_live(table, clause, warnings)?),
                None => None,
            };
            TableAction::SetTimeToLive(time_to_live)
        }
        AlterAction::Action(action) => {
            if let TableAction::SetExport(Some(export)) = action {
                warnings.push(not_exported(name, export));
            }
            action.clone()
        }
    };
    bound.push(Change::AlterTable { table: name.to_owned(), action });
    Ok(())
}

fn add(
    catalog: &Catalog,
    table: &Table,
    parts: &CreateTable,
    before: Option<&str>,
    if_not_exists: bool,
    bound: &mut Vec<Change>,
    warnings: &mut Vec<String>,
) -> UserResult<()> {
    let mut push = |action| bound.push(Change::AlterTable { table: table.name.clone(), action });
    let mut columns = table.columns.clone();
    for definition in &parts.columns {
        if if_not_exists && table.column_named(&definition.name).is_some() {
            return Ok(());
        }
        let column = column(catalog, definition, &table.name)?;
        warnings.extend(ignored_declaration(catalog, &definition.name, &definition.column_type, &table.name));
        columns.push(column.clone());
        push(TableAction::AddColumn { column, before: before.map(str::to_owned) });
    }
    // Positions count as they are when the column is in its place.
    if let (Some(before), Some(added)) = (before, columns.len().checked_sub(1))
        && let Some(place) = table.column_named(before)
    {
        columns[usize::from(place)..=added].rotate_right(1);
    }
    for constraint in &parts.constraints {
        let index = key_of(catalog, &table.name, &columns, constraint)?;
        push(TableAction::AddKey { index, primary_key: constraint.kind == ConstraintKind::PrimaryKey });
    }
    too_many_checks(&table.name, table.checks.len() + parts.checks.len())?;
    let mut taken: Vec<String> = table.checks.iter().map(|check| check.name.clone()).collect();
    for (name, written) in &parts.checks {
        let check = check_of(catalog, &table.name, &columns, name.as_deref(), written, &taken)?;
        taken.push(check.name.clone());
        push(TableAction::AddCheck(check));
    }
    warn_of_parts(&table.name, parts, warnings);
    Ok(())
}

/// The default of a column whose type changes.
fn converted_default(table: &Table, column: u16, to: &ColumnType) -> UserResult<(Option<Expr>, Option<String>)> {
    let column = &table.columns[usize::from(column)];
    let cannot = || {
        UserError::ddl("42804", format!("the default of column {} cannot be one of type {to}", column.name))
            .with_hint("DROP DEFAULT, or SET DEFAULT, before the type changes; both can be actions of one statement")
    };
    match &column.default {
        None => Ok((None, None)),
        Some(default @ Expr::Constant(_)) => {
            let typed = Typed::new(default.clone(), column.column_type.sql_type);
            let stored = stored_constant(&typed, to, &column.name, &table.name).map_err(|_| cannot())?;
            let kept = ferrite_value::convert::as_kept(stored.as_value(), to, &column.name).map_err(|_| cannot())?;
            let default = Some(Expr::Constant(kept.to_owned_value()));
            let text = super::parts::default_text(default.as_ref());
            Ok((default, text))
        }
        Some(Expr::Call { function: Function::Now, .. }) if to.sql_type == SqlType::Timestamp => {
            Ok((column.default.clone(), column.default_text.clone()))
        }
        Some(_) => Err(cannot()),
    }
}

pub(crate) fn time_to_live(
    table: &Table,
    clause: &TimeToLiveClause,
    warnings: &mut Vec<String>,
) -> UserResult<TimeToLive> {
    let column =
        table.column_named(&clause.column).ok_or_else(|| UserError::unknown_column(&clause.column).in_ddl())?;
    if table.export.as_ref().is_some_and(|export| export.migrate) {
        warnings.push(format!(
            "table {}: rows that are to be migrated are kept, and do not expire, unless the server runs with \
             --migrating-rows drop",
            table.name
        ));
    }
    Ok(time_of(clause, column))
}

pub(crate) fn time_of(clause: &TimeToLiveClause, column: u16) -> TimeToLive {
    TimeToLive {
        value: clause.value,
        unit: clause.unit,
        column,
        batch_size: clause.batch_size,
        max_frequency: clause.max_frequency,
    }
}

pub(crate) fn not_exported(name: &str, export: &Export) -> String {
    let verb = if export.migrate { "MIGRATE" } else { "EXPORT" };
    format!(
        "{name}: {verb} TO {} {} is kept in the schema, but nothing is sent there",
        if export.topic { "TOPIC" } else { "TARGET" },
        export.to
    )
}
