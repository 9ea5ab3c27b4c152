//! `Catalog x Change -> Catalog` and effects: all rules of what a schema may be are here.
//!
//! Nothing is changed in place: a refused change leaves no trace, and the old version stays as it
//! was for whoever runs on it. Messages leave out the statement, which the caller adds.

mod alter;
mod check;
mod decimals;
mod fill;
mod function;
mod index;
mod plain_view;
mod procedure;
mod rename;
mod settle;
mod swap;
mod table;
mod task;
mod view;

pub use settle::settle;

use crate::change::{Change, Effect};
use crate::objects::{Catalog, Table};
use ferrite_base::{CatalogVersion, IndexId, TableId, UserError, UserResult};
use std::sync::Arc;

impl Catalog {
    /// The next version of the schema, and what the stores have to do to follow.
    pub fn apply(&self, change: &Change) -> UserResult<(Catalog, Vec<Effect>)> {
        let mut draft = Draft { catalog: self.clone(), effects: Vec::new() };
        draft.catalog.version = CatalogVersion(self.version.0 + 1);
        draft.change(change)?;
        draft.check_tasks()?;
        let effects = settle(draft.effects, self, &draft.catalog);
        Ok((draft.catalog, effects))
    }
}

/// The next version while it is being made. Dropped on error.
struct Draft {
    catalog: Catalog,
    effects: Vec<Effect>,
}

impl Draft {
    fn change(&mut self, change: &Change) -> UserResult<()> {
        match change {
            Change::CreateTable { .. } => self.create_table(change),
            Change::DropTable { name, if_exists, cascade, kind } => self.drop_table(name, *if_exists, *cascade, *kind),
            Change::AlterTable { table, action } => self.alter_table(table, action),
            Change::RenameTable { table, to, kind } => self.rename_table(table, to, *kind),
            Change::RenameIndex { name, to } => self.rename_index(name, to),
            Change::RenameProcedure { name, to } => self.rename_procedure(name, to),
            Change::SetDecimalScale(to) => self.set_decimal_scale(*to),
            Change::Several(changes) => changes.iter().try_for_each(|change| self.change(change)),
            Change::PartitionTable { table, column } => self.partition_table(table, column),
            Change::ReplicateTable { table } => self.replicate_table(table),
            Change::CreateIndex { table, index } => self.create_index(table, index),
            Change::DropIndex { name, if_exists } => self.drop_index(name, *if_exists),
            Change::CreateView { name, columns, view } => self.create_view(name, columns, view),
            Change::CreatePlainView { view } => self.create_plain_view(view),
            Change::CreateProcedure { procedure } => self.create_procedure(procedure),
            Change::PartitionProcedure { name, partitioning } => self.partition_procedure(name, partitioning),
            Change::DropProcedure { name, if_exists } => self.drop_procedure(name, *if_exists),
            Change::LoadClasses { jar } => {
                self.catalog.classes = self.catalog.classes.with_jar(jar)?;
                self.renew_functions()
            }
            Change::RemoveClasses { patterns } => {
                for pattern in patterns {
                    self.catalog.classes = self.catalog.classes.without(pattern);
                }
                self.renew_functions()
            }
            Change::CreateFunction { name, class, method } => self.create_function(name, class, method.as_deref()),
            Change::DropFunction { name, aggregate, if_exists } => self.drop_function(name, *aggregate, *if_exists),
            Change::CreateTask { task } => self.create_task(task),
            Change::AlterTask { name, action } => self.alter_task(name, *action),
            Change::DropTask { name, if_exists } => self.drop_task(name, *if_exists),
            Change::CreateRole { name, permissions } => self.create_role(name, permissions),
            Change::FillTable { table, from } => self.fill_table(table, from),
            Change::SwapTables { one, other } => self.swap_tables(one, other),
            Change::DropRole { name, if_exists } => self.drop_role(name, *if_exists),
        }
    }

    fn table_named(&self, name: &str) -> UserResult<&Arc<Table>> {
        self.catalog.table_named(name).ok_or_else(|| self.catalog.no_table(name))
    }

    fn table(&self, id: TableId) -> UserResult<&Arc<Table>> {
        self.catalog.table(id).ok_or_else(|| UserError::unknown_table(format!("table {id}")).in_ddl())
    }

    fn new_table_id(&mut self) -> TableId {
        let id = TableId(self.catalog.next_table_id);
        self.catalog.next_table_id += 1;
        id
    }

    fn new_index_id(&mut self) -> IndexId {
        let id = IndexId(self.catalog.next_index_id);
        self.catalog.next_index_id += 1;
        id
    }
}

#[cold]
fn already_exists(name: &str) -> UserError {
    UserError::ddl("42710", format!("object name already exists: {name}")).about(name)
}

/// A schema that breaks a rule.
#[cold]
fn invalid(message: String) -> UserError {
    UserError::ddl("42P16", message)
}

/// Something else needs what is to go.
#[cold]
fn depended_on(message: String) -> UserError {
    UserError::ddl("2BP01", message)
}
