//! ALTER TABLE and ALTER STREAM: columns, constraints, time to live, export.
//!
//! Columns are known by their position everywhere, so whoever names one is moved along when
//! positions change.

use super::{Draft, already_exists, check, depended_on, invalid, view};
use crate::change::{ColumnSource, Effect, NewIndex, Rebuild, RebuiltColumn, TableAction};
use crate::objects::{Check, Column, Export, Procedure, Table, TableKind, TimeToLive, ViewOutput};
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{Expr, Function};
use ferrite_value::{ColumnType, SqlType};
use std::sync::Arc;

impl Draft {
    pub(super) fn alter_table(&mut self, name: &str, action: &TableAction) -> UserResult<()> {
        let mut table = Table::clone(self.table_named(name)?);
        let of_view = matches!(action, TableAction::SetExport(_) | TableAction::SetTimeToLive(_));
        if table.kind == TableKind::View && !of_view {
            return Err(invalid(format!("{name} is a view")).with_hint("drop the view and create it again"));
        }
        match action {
            TableAction::AddColumn { column, before } => self.add_column(&mut table, column, before.as_deref())?,
            TableAction::DropColumn { name, if_exists, cascade } => {
                match table.column_named(name) {
                    Some(column) => self.drop_column(&mut table, column, *cascade)?,
                    None if *if_exists => {}
                    None => return Err(UserError::unknown_column(name).in_ddl()),
                };
            }
            TableAction::SetType { column, to, default, default_text } => {
                let position = table.column_named(column).ok_or_else(|| UserError::unknown_column(column).in_ddl())?;
                self.set_type(&mut table, position, *to)?;
                let column = &mut table.columns[position as usize];
                column.default.clone_from(default);
                column.default_text.clone_from(default_text);
            }
            TableAction::SetDefault { column, default, default_text } => {
                let position = table.column_named(column).ok_or_else(|| UserError::unknown_column(column).in_ddl())?;
                let column = &mut table.columns[position as usize];
                column.default.clone_from(default);
                column.default_text.clone_from(default_text);
                self.effects.push(Effect::Refresh(table.id));
            }
            TableAction::SetNullable { column, nullable } => {
                let position = table.column_named(column).ok_or_else(|| UserError::unknown_column(column).in_ddl())?;
                self.set_nullable(&mut table, position, *nullable)?;
            }
            TableAction::AddKey { index, primary_key } => self.add_key(&mut table, index, *primary_key)?,
            TableAction::AddCheck(new) => self.add_check(&mut table, new)?,
            TableAction::DropConstraint { name, if_exists } => self.drop_constraint(&mut table, name, *if_exists)?,
            TableAction::DropPrimaryKey => {
                let Some(key) = table.primary_key else {
                    return Err(UserError::ddl_not_found(format!("primary key of {}", table.name)));
                };
                self.remove_index(&mut table, key);
            }
            TableAction::RenameColumn { column, to } => self.rename_column(&mut table, column, to)?,
            TableAction::SetTimeToLive(time_to_live) => {
                if let Some(time_to_live) = time_to_live {
                    self.check_time_to_live(&table, time_to_live)?;
                }
                table.time_to_live = *time_to_live;
                self.effects.push(Effect::Refresh(table.id));
            }
            TableAction::SetExport(export) => self.set_export(&mut table, export.as_ref())?,
        }
        self.catalog.put_table(table);
        Ok(())
    }

    fn add_check(&mut self, table: &mut Table, new: &Check) -> UserResult<()> {
        refuse_for_stream(table, "a constraint")?;
        check::identifier(&new.name)?;
        if is_constraint(table, &new.name) {
            return Err(already_exists(&new.name));
        }
        check::row_expression(&format!("the constraint {}", new.name), &new.condition, &[&*table])?;
        let condition = check::kept(self.catalog.values, &new.condition, &[&*table]);
        table.checks.push(Check { condition, ..new.clone() });
        self.effects.push(Effect::Validate(table.id));
        Ok(())
    }

    fn set_export(&mut self, table: &mut Table, export: Option<&Export>) -> UserResult<()> {
        for column in export.iter().flat_map(|export| export.key.iter().chain(&export.value)) {
            table.column_named(column).ok_or_else(|| UserError::unknown_column(column).in_ddl())?;
        }
        let migrates = export.is_some_and(|export| export.migrate);
        if let (false, Some(user)) = (migrates, self.asks_whether_rows_migrate(table)) {
            return Err(depended_on(format!("{user} asks for rows of {} that are MIGRATING", table.name)));
        }
        table.export = export.cloned();
        self.effects.push(Effect::Refresh(table.id));
        Ok(())
    }

    /// An index or view whose text would mean nothing if the table did not migrate.
    fn asks_whether_rows_migrate(&self, table: &Table) -> Option<String> {
        let asks = |expression: &Expr| {
            expression.any(&mut |part| matches!(part, Expr::Call { function: Function::Migrating, .. }))
        };
        let mut indexes = table.indexes.iter();
        if let Some(index) = indexes.find(|index| index.keys.iter().chain(&index.predicate).any(asks)) {
            return Some(format!("index {}", index.name));
        }
        let mut views = table.dependent_views.iter().filter_map(|view| self.catalog.table(*view));
        let asking = views.find(|view| {
            view.view.as_ref().is_some_and(|definition| {
                let joins = definition.joins.iter().filter_map(|(_, on)| on.as_ref());
                let arguments = definition.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref());
                definition.filter.iter().chain(&definition.group_by).chain(joins).chain(arguments).any(asks)
            })
        });
        asking.map(|view| format!("view {}", view.name))
    }

    fn add_column(&mut self, table: &mut Table, column: &Column, before: Option<&str>) -> UserResult<()> {
        if table.column_named(&column.name).is_some() {
            return Err(already_exists(&column.name));
        }
        let place = match before {
            Some(before) => {
                table.column_named(before).ok_or_else(|| UserError::unknown_column(before).in_ddl())? as usize
            }
            None => table.columns.len(),
        };
        let mut rebuild = Rebuild::same(table.id, table.columns.len());
        let value = ColumnSource::Value(column.default.clone());
        rebuild.columns.insert(place, RebuiltColumn { from: value, through: Vec::new() });
        table.columns.insert(place, column.clone());
        check::columns(&table.name, &table.columns)?;
        self.move_columns(table, &|position| position + u16::from(position as usize >= place))?;
        self.effects.push(Effect::Rebuild(Arc::new(rebuild)));
        Ok(())
    }

    fn drop_column(&mut self, table: &mut Table, column: u16, cascade: bool) -> UserResult<()> {
        let name = table.columns[column as usize].name.clone();
        if table.partition_column == Some(column) {
            return Err(depended_on(format!("{} is partitioned on {name}", table.name)));
        }
        if table.columns.len() == 1 {
            return Err(invalid(format!("{name} is the only column of {}", table.name)));
        }
        let uses = |expression: &Expr| expression.uses_column(0, column);
        let indexes: Vec<_> =
            table.indexes.iter().filter(|index| index.keys.iter().chain(&index.predicate).any(uses)).collect();
        let checks: Vec<_> = table.checks.iter().filter(|check| uses(&check.condition)).collect();
        let expires = table.time_to_live.is_some_and(|time_to_live| time_to_live.column == column);
        let exports =
            table.export.as_ref().is_some_and(|export| export.key.contains(&name) || export.value.contains(&name));
        if exports {
            return Err(depended_on(format!("the export of {} names {name}", table.name)));
        }
        if !cascade {
            let named = indexes.iter().map(|index| match &index.constraint {
                Some(constraint) => format!("constraint {constraint}"),
                None => format!("index {}", index.name),
            });
            let dependents: Vec<String> = named
                .chain(checks.iter().map(|check| format!("constraint {}", check.name)))
                .chain(self.views_using(table, column))
                .chain(expires.then(|| "USING TTL".to_owned()))
                .collect();
            if !dependents.is_empty() {
                return Err(depended_on(format!("dependent objects use {name}: {}", dependents.join(", ")))
                    .with_hint("drop them first, or add CASCADE to drop them too"));
            }
        }
        let indexes: Vec<_> = indexes.iter().map(|index| index.id).collect();
        for index in indexes {
            self.remove_index(table, index);
        }
        table.checks.retain(|check| !check.condition.uses_column(0, column));
        if expires {
            table.time_to_live = None;
        }
        for view in table.dependent_views.clone() {
            let reads = self.catalog.table(view).is_some_and(|view| uses_column(view, table, column));
            if reads {
                let procedures = self.procedures_on(view);
                procedures.iter().for_each(|procedure| {
                    self.catalog.procedures.remove(&procedure.to_uppercase());
                });
                if let Some(name) = self.catalog.table(view).map(|view| view.name.clone()) {
                    self.remove_readers_of(&[name]);
                }
                self.remove_view_or_table(view);
                table.dependent_views.retain(|dependent| *dependent != view);
            }
        }
        let mut rebuild = Rebuild::same(table.id, table.columns.len());
        rebuild.columns.remove(column as usize);
        table.columns.remove(column as usize);
        self.move_columns(table, &|position| position - u16::from(position > column))?;
        self.effects.push(Effect::Rebuild(Arc::new(rebuild)));
        Ok(())
    }

    fn set_type(&mut self, table: &mut Table, column: u16, to: ColumnType) -> UserResult<()> {
        let definition = &table.columns[column as usize];
        if definition.column_type == to {
            self.effects.push(Effect::Refresh(table.id));
            return Ok(());
        }
        let name = definition.name.clone();
        // What computes with the column was compiled for its type; a key that is the column itself
        // was not.
        let computes =
            |expression: &Expr| !matches!(expression, Expr::Column { .. }) && expression.uses_column(0, column);
        let in_use = |expression: &Expr| expression.uses_column(0, column);
        let mut dependents = self.views_using(table, column);
        for index in &table.indexes {
            if index.keys.iter().any(computes) || index.predicate.as_ref().is_some_and(in_use) {
                dependents.push(format!("index {}", index.name));
            }
            if to.sql_type == SqlType::Geography && index.keys.iter().any(in_use) {
                return Err(UserError::not_supported(format!("an index over GEOGRAPHY ({})", index.name)));
            }
        }
        let checks = table.checks.iter().filter(|check| in_use(&check.condition));
        dependents.extend(checks.map(|check| format!("constraint {}", check.name)));
        if !dependents.is_empty() {
            return Err(depended_on(format!("dependent objects compute with {name}: {}", dependents.join(", ")))
                .with_hint("drop them, alter the table, and create them again; all of it can be one text, and is then one transaction"));
        }
        let mut rebuild = Rebuild::same(table.id, table.columns.len());
        rebuild.columns[column as usize].through.push(to);
        table.columns[column as usize].column_type = to;
        check::columns(&table.name, &table.columns)?;
        if table.partition_column == Some(column) {
            check::partition_column(&table.name, &table.columns[column as usize])?;
        }
        if let Some(time_to_live) = &table.time_to_live {
            self.check_time_to_live(table, time_to_live)?;
        }
        self.effects.push(Effect::Rebuild(Arc::new(rebuild)));
        Ok(())
    }

    fn set_nullable(&mut self, table: &mut Table, column: u16, nullable: bool) -> UserResult<()> {
        let definition = &table.columns[column as usize];
        if definition.nullable == nullable {
            return Ok(());
        }
        let name = &definition.name;
        if nullable && table.partition_column == Some(column) {
            return Err(depended_on(format!("{} is partitioned on {name}, which must be NOT NULL", table.name)));
        }
        if nullable && table.primary_key_index().is_some_and(|key| key.has_key_column(column)) {
            return Err(depended_on(format!("{name} is in the primary key of {}, and must be NOT NULL", table.name)));
        }
        let views = self.views_using(table, column);
        if table.kind == TableKind::Stream && !views.is_empty() {
            return Err(depended_on(format!("dependent objects read {name}: {}", views.join(", "))));
        }
        table.columns[column as usize].nullable = nullable;
        self.effects.push(Effect::Rebuild(Arc::new(Rebuild::same(table.id, table.columns.len()))));
        Ok(())
    }

    fn add_key(&mut self, table: &mut Table, new: &NewIndex, primary_key: bool) -> UserResult<()> {
        refuse_for_stream(table, "a key")?;
        if primary_key && table.primary_key.is_some() {
            return Err(UserError::ddl("42P16", format!("table {} has a primary key already", table.name)));
        }
        if let Some(name) = new.constraint.as_ref().filter(|name| is_constraint(table, name)) {
            return Err(already_exists(name));
        }
        let index = self.build_index(table, new, primary_key)?;
        if primary_key {
            for column in index.key_columns().ok_or_else(|| invalid("a primary key takes columns".into()))? {
                self.set_nullable(table, column, false)?;
            }
            table.primary_key = Some(index.id);
        }
        self.effects.push(Effect::CreateIndex(table.id, index.id));
        table.indexes.push(index);
        check::unique_keys(table)
    }

    fn drop_constraint(&mut self, table: &mut Table, name: &str, if_exists: bool) -> UserResult<()> {
        if let Some(position) = table.checks.iter().position(|check| check.name == name) {
            table.checks.remove(position);
            self.effects.push(Effect::Refresh(table.id));
            return Ok(());
        }
        let named = |index: &&crate::Index| index.constraint.as_deref() == Some(name);
        match table.indexes.iter().find(named).map(|index| index.id) {
            Some(index) => self.remove_index(table, index),
            None if if_exists => {}
            None => return Err(UserError::ddl_not_found(name)),
        }
        Ok(())
    }

    fn remove_index(&mut self, table: &mut Table, index: ferrite_base::IndexId) {
        table.indexes.retain(|present| present.id != index);
        if table.primary_key == Some(index) {
            table.primary_key = None;
        }
        self.effects.push(Effect::DropIndex(table.id, index));
    }

    /// The views that read this column, as dependents are named.
    pub(super) fn views_using(&self, table: &Table, column: u16) -> Vec<String> {
        let views = self.catalog.views_of(table);
        let using = views.into_iter().filter(|view| uses_column(view, table, column));
        using.map(|view| format!("view {}", view.name)).collect()
    }

    /// All that name columns of the table by position follow them to their new ones.
    fn move_columns(&mut self, table: &mut Table, position: &dyn Fn(u16) -> u16) -> UserResult<()> {
        for index in &mut table.indexes {
            index.keys.iter_mut().chain(&mut index.predicate).for_each(|key| key.move_columns(0, position));
        }
        table.checks.iter_mut().for_each(|check| check.condition.move_columns(0, position));
        table.partition_column = table.partition_column.map(position);
        if let Some(time_to_live) = &mut table.time_to_live {
            time_to_live.column = position(time_to_live.column);
        }
        for id in &table.dependent_views {
            let mut view = Table::clone(self.table(*id)?);
            let definition = view.view.as_mut().expect("dependents are views");
            let slot = view::sources(definition).position(|source| source == table.id);
            if let Some(slot) = slot {
                for expression in view::expressions_mut(definition) {
                    expression.move_columns(slot as u16, position);
                }
            }
            self.catalog.put_table(view);
        }
        let routed = self.procedures_on(table.id);
        for name in routed {
            let key = name.to_uppercase();
            let mut procedure = Procedure::clone(&self.catalog.procedures[&key]);
            if let Some(partitioning) = &mut procedure.partitioning {
                partitioning.column = position(partitioning.column);
            }
            self.catalog.procedures.insert(key, Arc::new(procedure));
        }
        Ok(())
    }
}

fn uses_column(view: &Table, table: &Table, column: u16) -> bool {
    let Some(definition) = &view.view else { return false };
    let slot = view::sources(definition).position(|source| source == table.id);
    slot.is_some_and(|slot| view::expressions(definition).any(|expression| expression.uses_column(slot as u16, column)))
}

fn is_constraint(table: &Table, name: &str) -> bool {
    table.checks.iter().any(|check| check.name == name)
        || table.indexes.iter().any(|index| index.constraint.as_deref() == Some(name))
}

fn refuse_for_stream(table: &Table, what: &str) -> UserResult<()> {
    if table.kind == TableKind::Stream {
        return Err(invalid(format!("the stream {} keeps no rows and cannot have {what}", table.name)));
    }
    Ok(())
}

impl Draft {
    fn check_time_to_live(&self, table: &Table, time_to_live: &TimeToLive) -> UserResult<()> {
        self.check_expiry_of_view(table, time_to_live)?;
        refuse_for_stream(table, "a time to live")?;
        let column = table.columns.get(time_to_live.column as usize);
        let column =
            column.ok_or_else(|| UserError::unknown_column(format!("column {}", time_to_live.column)).in_ddl())?;
        match column.column_type.sql_type {
            SqlType::Timestamp | SqlType::Bigint | SqlType::Integer => Ok(()),
            other => Err(invalid(format!(
                "USING TTL needs a column of type TIMESTAMP, BIGINT or INTEGER, and {}.{} is {other}",
                table.name, column.name
            ))),
        }
    }

    /// Rows of a view go by themselves only where nothing else could take them away, and then as a
    /// whole.
    fn check_expiry_of_view(&self, table: &Table, time_to_live: &TimeToLive) -> UserResult<()> {
        let Some(view) = &table.view else { return Ok(()) };
        let name = &table.name;
        if self.table(view.source)?.kind != TableKind::Stream {
            return Err(invalid(format!(
                "rows of the view {name} follow from those of its tables and cannot expire by themselves"
            ))
            .with_hint("give the table USING TTL: what expires there leaves the view"));
        }
        if view.group_by.is_empty() {
            return Err(invalid(format!(
                "the view {name} has no GROUP BY: it always has one row, which cannot expire"
            )));
        }
        let of_group = matches!(view.outputs.get(time_to_live.column as usize), Some(ViewOutput::Group(_)));
        if table.partitioned_without_column && !of_group {
            return Err(invalid(format!(
                "each partition has a part of each row of the view {name}, and would let it expire by itself"
            ))
            .with_hint(
                "group the view by the stream's partitioning column, or name a column of GROUP BY in USING TTL",
            ));
        }
        Ok(())
    }
}
