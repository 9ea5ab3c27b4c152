//! Names of tables, columns, indexes and procedures in schema statements that nothing has: which
//! one was probably meant.
//!
//! What a name stands for is decided where the change is applied; here is only what is told when it
//! stands for nothing.

use crate::parse::statement::{AlterAction, Ddl};
use crate::spelling::nearest;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, Change, TableAction};

pub(crate) fn check(catalog: &Catalog, ddl: &Ddl) -> UserResult<()> {
    match ddl {
        Ddl::AlterTable { table, if_exists: false, actions, .. } => {
            self::table(catalog, table)?;
            actions.iter().try_for_each(|action| match action {
                AlterAction::SetType { column: name, .. }
                | AlterAction::SetDefault { column: name, .. }
                | AlterAction::Action(
                    TableAction::DropColumn { name, if_exists: false, .. }
                    | TableAction::SetNullable { column: name, .. }
                    | TableAction::RenameColumn { column: name, .. },
                ) => column(catalog, table, actions, name),
                _ => Ok(()),
            })
        }
        Ddl::Replication { table: Some(name) } | Ddl::CreateIndex { table: name, .. } => table(catalog, name),
        Ddl::PartitionProcedure { name, .. } => found_procedure(catalog, name),
        Ddl::Change(change) => check_change(catalog, change),
        _ => Ok(()),
    }
}

fn check_change(catalog: &Catalog, change: &Change) -> UserResult<()> {
    match change {
        Change::ReplicateTable { table: name } | Change::DropTable { name, if_exists: false, .. } => {
            table(catalog, name)
        }
        Change::PartitionTable { table: name, column: of } => {
            table(catalog, name)?;
            column(catalog, name, &[], of)
        }
        Change::DropIndex { name, if_exists: false } => {
            let indexes = catalog.tables.values().flat_map(|table| &table.indexes).map(|index| index.name.as_str());
            found("42704", name, catalog.index_named(name).is_some(), indexes)
        }
        Change::DropProcedure { name, if_exists: false } => found_procedure(catalog, name),
        Change::SwapTables { one, other } => table(catalog, one).and_then(|()| table(catalog, other)),
        _ => Ok(()),
    }
}

fn found_procedure(catalog: &Catalog, name: &str) -> UserResult<()> {
    let procedures = catalog.procedures.values().map(|procedure| procedure.name.as_str());
    let name = procedure(catalog, name);
    found("42883", &name, catalog.procedure_named(&name).is_some(), procedures)
}

/// The procedure that a statement means: a name with dots in it is that of the procedure's Java
/// class, or of a table and a verb.
pub(crate) fn procedure(catalog: &Catalog, name: &str) -> String {
    let Some((before, last)) = name.rsplit_once('.') else { return name.to_owned() };
    let of_class = catalog.procedures.values().find(|procedure| procedure.class.as_deref() == Some(name));
    match of_class {
        Some(procedure) => procedure.name.clone(),
        None if before.contains('.') => name.to_owned(),
        None => format!("{before}.{}", last.to_lowercase()),
    }
}

fn table(catalog: &Catalog, name: &str) -> UserResult<()> {
    let names = catalog.tables.keys().chain(catalog.plain_views.keys());
    found("42P01", name, catalog.is_taken(name), names.map(String::as_str))
}

/// A column of a table that is there, or that an action before adds or renames.
fn column(catalog: &Catalog, table: &str, actions: &[AlterAction], name: &str) -> UserResult<()> {
    let Some(table) = catalog.table_named(table) else { return Ok(()) };
    let made = actions.iter().any(|action| match action {
        AlterAction::Add { parts, .. } => parts.columns.iter().any(|column| column.name == name),
        AlterAction::Action(TableAction::RenameColumn { to, .. }) => to == name,
        _ => false,
    });
    let others = table.columns.iter().map(|column| column.name.as_str());
    found("42703", name, made || table.column_named(name).is_some(), others)
}

fn found<'c>(code: &'static str, name: &str, there: bool, others: impl Iterator<Item = &'c str>) -> UserResult<()> {
    if there {
        return Ok(());
    }
    let error = UserError::ddl(code, format!("object not found: {name}")).about(name);
    Err(match nearest(name, others) {
        Some(meant) => error.with_hint(format!("did you mean {meant}?")),
        None => error,
    })
}
