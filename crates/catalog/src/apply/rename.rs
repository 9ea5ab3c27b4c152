//! New names. Views and procedures keep the text that they were written as, so what a text names
//! keeps its name.

use super::{Draft, already_exists, check, depended_on, invalid};
use crate::change::Effect;
use crate::objects::{Procedure, Table, TableKind};
use ferrite_base::{UserError, UserResult};
use std::sync::Arc;

impl Draft {
    pub(super) fn rename_table(&mut self, name: &str, to: &str, kind: TableKind) -> UserResult<()> {
        check::identifier(to)?;
        if self.catalog.plain_views.contains_key(name) && kind == TableKind::View {
            return self.rename_plain_view(name, to);
        }
        let mut table = Table::clone(self.table_named(name)?);
        if table.kind != kind && kind != TableKind::Table {
            return Err(invalid(format!(
                "{name} is not a {}",
                if kind == TableKind::View { "view" } else { "stream" }
            )));
        }
        if self.catalog.is_taken(to) {
            return Err(already_exists(to));
        }
        let mut views: Vec<String> =
            self.catalog.views_of(&table).iter().map(|view| format!("view {}", view.name)).collect();
        views.extend(self.readers_of(&[name]).iter().map(|view| format!("view {}", view.name)));
        let qualified = format!("{name}.");
        let names_it = |text: &String| text.to_uppercase().contains(&qualified);
        let in_text = table
            .checks
            .iter()
            .filter(|check| names_it(&check.text))
            .map(|check| format!("constraint {}", check.name))
            .chain(
                table
                    .indexes
                    .iter()
                    .filter(|index| index.text.keys.iter().chain(&index.text.predicate).any(names_it))
                    .map(|index| format!("index {}", index.name)),
            );
        let dependents: Vec<String> = views.into_iter().chain(in_text).collect();
        refuse_rename(name, &dependents)?;
        self.catalog.tables.remove(name);
        table.name = to.to_owned();
        self.effects.push(Effect::Refresh(table.id));
        self.catalog.put_table(table);
        Ok(())
    }

    pub(super) fn rename_column(&mut self, table: &mut Table, name: &str, to: &str) -> UserResult<()> {
        check::identifier(to)?;
        let column = table.column_named(name).ok_or_else(|| UserError::unknown_column(name).in_ddl())?;
        if table.column_named(to).is_some() {
            return Err(already_exists(to));
        }
        let mut dependents: Vec<String> = self.views_using(table, column);
        for index in &table.indexes {
            // Plain columns are named by what they are.
            let in_text = !index.text.keys.is_empty() && index.keys.iter().any(|key| key.uses_column(0, column));
            if in_text || index.predicate.as_ref().is_some_and(|predicate| predicate.uses_column(0, column)) {
                dependents.push(format!("index {}", index.name));
            }
        }
        for check in table.checks.iter().filter(|check| check.condition.uses_column(0, column)) {
            dependents.push(format!("constraint {}", check.name));
        }
        refuse_rename(name, &dependents)?;
        table.columns[column as usize].name = to.to_owned();
        if let Some(export) = &mut table.export {
            let names = export.key.iter_mut().chain(&mut export.value);
            names.filter(|column| *column == name).for_each(|column| to.clone_into(column));
        }
        self.effects.push(Effect::Refresh(table.id));
        Ok(())
    }

    pub(super) fn rename_index(&mut self, name: &str, to: &str) -> UserResult<()> {
        check::identifier(to)?;
        let (table, index) = self.catalog.index_named(name).ok_or_else(|| UserError::ddl_not_found(name))?;
        let id = index.id;
        if self.catalog.index_named(to).is_some() {
            return Err(already_exists(to));
        }
        let mut table = Table::clone(table);
        for index in table.indexes.iter_mut().filter(|index| index.id == id) {
            if let Some(constraint) = &index.constraint {
                return Err(depended_on(format!(
                    "the index {name} belongs to the constraint {constraint} of {}",
                    table.name
                )));
            }
            index.name = to.to_owned();
        }
        self.effects.push(Effect::Refresh(table.id));
        self.catalog.put_table(table);
        Ok(())
    }

    pub(super) fn rename_procedure(&mut self, name: &str, to: &str) -> UserResult<()> {
        check::identifier(to)?;
        if to.starts_with('@') {
            return Err(invalid(format!("the name {to} begins with @, as only those of system procedures do")));
        }
        let procedure = self.catalog.procedure_named(name).ok_or_else(|| UserError::unknown_routine(name).in_ddl())?;
        let mut procedure = Procedure::clone(procedure);
        self.catalog.procedures.remove(&name.to_uppercase());
        if self.catalog.procedure_named(to).is_some() {
            return Err(already_exists(to));
        }
        procedure.name = to.to_owned();
        self.catalog.procedures.insert(to.to_uppercase(), Arc::new(procedure));
        Ok(())
    }
}

pub(super) fn refuse_rename(name: &str, dependents: &[String]) -> UserResult<()> {
    if dependents.is_empty() {
        return Ok(());
    }
    Err(depended_on(format!("dependent objects name {name} in their definition: {}", dependents.join(", ")))
        .with_hint("drop them, rename, and create them again; all of it can be one text, and is then one transaction"))
}
