//! Tables and streams: creation, removal, partitioning.

use super::{Draft, already_exists, check, depended_on, invalid, view};
use crate::change::{Change, Effect};
use crate::objects::{Table, TableKind};
use ferrite_base::limits::TABLES_MAX;
use ferrite_base::{TableId, UserError, UserResult};
use ferrite_expr::Expr;
use std::sync::Arc;

impl Draft {
    /// One more table, stream or view may be made.
    pub(super) fn check_room_for_table(&self) -> UserResult<()> {
        if self.catalog.tables.len() + self.catalog.plain_views.len() >= TABLES_MAX {
            return Err(UserError::limit(format!("limit of {TABLES_MAX} tables and views reached")));
        }
        Ok(())
    }

    pub(super) fn create_table(&mut self, change: &Change) -> UserResult<()> {
        let Change::CreateTable { name, columns, indexes, primary_key, checks, stream, partition_column } = change
        else {
            unreachable!("called for CreateTable only");
        };
        check::identifier(name)?;
        if self.catalog.is_taken(name) {
            return Err(already_exists(name));
        }
        check::columns(name, columns)?;
        self.check_room_for_table()?;
        if *stream && !(indexes.is_empty() && checks.is_empty()) {
            return Err(invalid(format!("the stream {name} keeps no rows and cannot have keys or other constraints")));
        }
        let mut table = Table {
            id: self.new_table_id(),
            name: name.clone(),
            kind: if *stream { TableKind::Stream } else { TableKind::Table },
            columns: columns.clone(),
            partition_column: None,
            partitioned_without_column: false,
            indexes: Vec::with_capacity(indexes.len()),
            primary_key: None,
            checks: checks.clone(),
            time_to_live: None,
            export: None,
            view: None,
            dependent_views: Vec::new(),
        };
        for (position, new) in indexes.iter().enumerate() {
            let is_primary_key = *primary_key == Some(position);
            let index = self.build_index(&table, new, is_primary_key)?;
            if is_primary_key {
                table.primary_key = Some(index.id);
                for key in &index.keys {
                    if let Expr::Column { column, .. } = key {
                        table.columns[*column as usize].nullable = false;
                    }
                }
            }
            table.indexes.push(index);
        }
        for check in checks {
            check::row_expression(&format!("the constraint {}", check.name), &check.condition, &[&table])?;
        }
        let conditions = checks.iter().map(|check| check::kept(self.catalog.values, &check.condition, &[&table]));
        let conditions: Vec<Expr> = conditions.collect();
        table.checks.iter_mut().zip(conditions).for_each(|(check, condition)| check.condition = condition);
        if let Some(column) = partition_column {
            let definition = table
                .columns
                .get(*column as usize)
                .ok_or_else(|| UserError::unknown_column(format!("column {column}")).in_ddl())?;
            check::partition_column(name, definition)?;
            table.partition_column = Some(*column);
            check::unique_keys(&table)?;
        }
        self.effects.push(Effect::CreateTable(table.id));
        self.catalog.put_table(table);
        Ok(())
    }

    pub(super) fn drop_table(&mut self, name: &str, if_exists: bool, cascade: bool, kind: TableKind) -> UserResult<()> {
        if self.catalog.plain_views.contains_key(name) {
            return self.drop_plain_view(name, cascade, kind);
        }
        let Some(table) = self.catalog.table_named(name) else {
            return if if_exists { Ok(()) } else { Err(UserError::unknown_table(name).in_ddl()) };
        };
        if table.kind != kind {
            let word = kind_word(table.kind);
            return Err(invalid(format!("{name} is a {}", word.to_lowercase())).with_hint(format!("use DROP {word}")));
        }
        let table = Arc::clone(table);
        let procedures = self.procedures_on(table.id);
        if !cascade {
            self.refuse_if_depended_on(&table, &procedures)?;
        }
        let gone: Vec<String> =
            self.catalog.views_of(&table).iter().map(|view| view.name.clone()).chain([name.to_owned()]).collect();
        self.remove_readers_of(&gone);
        for procedure in &procedures {
            self.catalog.procedures.remove(&procedure.to_uppercase());
        }
        for view in &table.dependent_views {
            // A view that joins the table twice is listed once; one already gone is not met again.
            self.remove_view_or_table(*view);
        }
        self.remove_view_or_table(table.id);
        Ok(())
    }

    fn refuse_if_depended_on(&self, table: &Table, procedures: &[String]) -> UserResult<()> {
        let views = table.dependent_views.iter().filter_map(|view| self.catalog.table(*view));
        let dependents: Vec<String> = views
            .map(|view| format!("view {}", view.name))
            .chain(self.readers_of(&[&table.name]).iter().map(|view| format!("view {}", view.name)))
            .chain(procedures.iter().map(|procedure| format!("procedure {procedure}")))
            .collect();
        if dependents.is_empty() {
            return Ok(());
        }
        Err(depended_on(format!("dependent objects exist: {}", dependents.join(", ")))
            .with_hint("drop them first, or add CASCADE to drop them too"))
    }

    /// Takes the object out, and its id from the tables that it reads if it is a view.
    pub(super) fn remove_view_or_table(&mut self, id: TableId) {
        let Some(table) = self.catalog.take_table(id) else { return };
        self.effects.push(Effect::DropTable(id));
        if let Some(view) = &table.view {
            for source in view::sources(view) {
                if let Some(source) = self.catalog.table(source) {
                    let mut source = Table::clone(source);
                    source.dependent_views.retain(|dependent| *dependent != id);
                    self.effects.push(Effect::Refresh(source.id));
                    self.catalog.put_table(source);
                }
            }
        }
    }

    pub(super) fn partition_table(&mut self, name: &str, column: &str) -> UserResult<()> {
        let mut table = Table::clone(self.table_named(name)?);
        if table.kind == TableKind::View {
            return Err(invalid(format!("{name} is a view, which is partitioned as its table is")));
        }
        let position = table.column_named(column).ok_or_else(|| UserError::unknown_column(column).in_ddl())?;
        check::partition_column(name, &table.columns[position as usize])?;
        if table.partition_column == Some(position) {
            return Ok(());
        }
        self.refuse_if_routed(&table)?;
        for view in &table.dependent_views {
            let view = self.table(*view)?;
            let definition = view.view.as_ref().expect("dependents are views");
            if definition.source != table.id {
                return Err(depended_on(format!(
                    "{name} is joined in the view {}, which was made for it as it is",
                    view.name
                ))
                .with_hint("drop the view, and create it again after the change"));
            }
        }
        self.refuse_if_joined(&table)?;
        table.partition_column = Some(position);
        check::unique_keys(&table)?;
        self.repartition(table)
    }

    pub(super) fn replicate_table(&mut self, name: &str) -> UserResult<()> {
        let mut table = Table::clone(self.table_named(name)?);
        if table.kind == TableKind::View {
            return Err(invalid(format!("{name} is a view, which is partitioned as its table is")));
        }
        if table.partition_column.is_none() {
            return Ok(());
        }
        self.refuse_if_routed(&table)?;
        self.refuse_if_joined(&table)?;
        table.partition_column = None;
        self.repartition(table)
    }

    /// Where a view joins partitioned tables, their rows meet because they are partitioned alike.
    fn refuse_if_joined(&self, table: &Table) -> UserResult<()> {
        for view in self.catalog.views_of(table) {
            let definition = view.view.as_ref().expect("dependents are views");
            let mut others = view::sources(definition).filter(|source| *source != table.id);
            if others.any(|other| self.catalog.table(other).is_some_and(|other| other.is_partitioned())) {
                return Err(depended_on(format!(
                    "the view {} joins {} with another partitioned table",
                    view.name, table.name
                ))
                .with_hint("drop the view, and create it again after the change"));
            }
        }
        Ok(())
    }

    /// Procedures are routed by the column that the table was partitioned on.
    fn refuse_if_routed(&self, table: &Table) -> UserResult<()> {
        match self.procedures_on(table.id).first() {
            None => Ok(()),
            Some(procedure) => {
                Err(depended_on(format!("the procedure {procedure} is partitioned on {}; drop it first", table.name)))
            }
        }
    }

    /// Puts the table with its new partitioning, and the views over it with theirs.
    fn repartition(&mut self, table: Table) -> UserResult<()> {
        self.effects.push(Effect::Repartition(table.id));
        for id in &table.dependent_views {
            let mut view = Table::clone(self.table(*id)?);
            let definition = view.view.as_ref().expect("dependents are views");
            if definition.source == table.id {
                let partitioning = view::Partitioning::derive(definition, &table);
                partitioning.set(&mut view);
                self.effects.push(Effect::Refresh(*id));
                self.catalog.put_table(view);
            }
        }
        self.catalog.put_table(table);
        Ok(())
    }
}

fn kind_word(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Table => "TABLE",
        TableKind::View => "VIEW",
        TableKind::Stream => "STREAM",
    }
}
