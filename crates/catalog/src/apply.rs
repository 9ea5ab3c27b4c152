//! `Catalog x Change -> Catalog` and effects: all rules of what a schema may be are here.
//!
//! Nothing is changed in place: a refused change leaves no trace, and the old version stays as it was for whoever runs on
//! it. Messages leave out the statement, which the caller adds.

mod check;
mod index;
mod procedure;
mod swap;
mod table;
mod view;

use crate::change::{Change, Effect};
use crate::objects::{Catalog, Table};
use ferrite_base::{CatalogVersion, IndexId, TableId, UserError, UserResult};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Catalog {
    /// The next version of the schema, and what the stores have to do to follow.
    pub fn apply(&self, change: &Change) -> UserResult<(Catalog, Vec<Effect>)> {
        let mut draft = Draft { catalog: self.clone(), effects: Vec::new() };
        draft.catalog.version = CatalogVersion(self.version.0 + 1);
        match change {
            Change::CreateTable { .. } => draft.create_table(change)?,
            Change::DropTable { name, if_exists, cascade, kind } => {
                draft.drop_table(name, *if_exists, *cascade, *kind)?;
            }
            Change::PartitionTable { table, column } => draft.partition_table(table, column)?,
            Change::ReplicateTable { table } => draft.replicate_table(table)?,
            Change::CreateIndex { table, index } => draft.create_index(table, index)?,
            Change::DropIndex { name, if_exists } => draft.drop_index(name, *if_exists)?,
            Change::CreateView { name, columns, view } => draft.create_view(name, columns, view)?,
            Change::CreateProcedure { procedure } => draft.create_procedure(procedure)?,
            Change::PartitionProcedure { name, partitioning } => draft.partition_procedure(name, partitioning)?,
            Change::DropProcedure { name, if_exists } => draft.drop_procedure(name, *if_exists)?,
            Change::CreateRole { name, permissions } => draft.create_role(name, permissions)?,
            Change::SwapTables { one, other } => draft.swap_tables(one, other)?,
            Change::DropRole { name, if_exists } => draft.drop_role(name, *if_exists)?,
        }
        Ok(draft.finish())
    }
}

/// The next version while it is being made. Dropped on error.
struct Draft {
    catalog: Catalog,
    effects: Vec<Effect>,
}

impl Draft {
    /// Effects are looked up in the new catalog, so a table that went after it was refreshed is only dropped. One refresh
    /// of a table is enough.
    fn finish(mut self) -> (Catalog, Vec<Effect>) {
        let mut refreshed = BTreeSet::new();
        self.effects.retain(|effect| match effect {
            Effect::Refresh(table) => self.catalog.table(*table).is_some() && refreshed.insert(*table),
            _ => true,
        });
        (self.catalog, self.effects)
    }

    fn table_named(&self, name: &str) -> UserResult<&Arc<Table>> {
        self.catalog.table_named(name).ok_or_else(|| not_found(name))
    }

    fn table(&self, id: TableId) -> UserResult<&Arc<Table>> {
        self.catalog.table(id).ok_or_else(|| not_found(format!("table {id}")))
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
fn not_found(name: impl std::fmt::Display) -> UserError {
    UserError::ddl("42704", format!("object not found: {name}"))
}

#[cold]
fn already_exists(name: &str) -> UserError {
    UserError::ddl("42710", format!("object name already exists: {name}"))
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
