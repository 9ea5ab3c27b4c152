//! Follows changes of the schema: makes and drops tables, views and indexes, filling them from the rows that are there. All or
//! nothing within this store.

use crate::index::IndexData;
use crate::row::SourceRow;
use crate::store::Store;
use crate::table::TableData;
use crate::undo::UndoLog;
use crate::view_maintenance::{Direction, Surroundings, table};
use crate::view_plan::ViewPlan;
use ferrite_base::{IndexId, TableId, UserError, UserResult};
use ferrite_catalog::{Catalog, Effect, Table};
use std::sync::Arc;

/// How to take one effect back.
enum Inverse {
    RemoveTable(TableId),
    PutTableBack(Box<TableData>, Option<Box<ViewPlan>>),
    RemoveIndex(TableId, IndexId),
    PutIndexBack(TableId, usize, Box<IndexData>),
}

impl Store {
    /// Carries out a schema change. `catalog` is the schema after it. On an error this store is as it was. Must not be called
    /// within a transaction.
    pub fn apply_effects(&mut self, catalog: Arc<Catalog>, effects: &[Effect]) -> UserResult<()> {
        let mark = self.mark();
        assert!(mark.undo == 0, "a schema change is a transaction of its own");
        let mut done = Vec::new();
        let mut result = effects.iter().try_for_each(|effect| self.carry_out(&catalog, *effect, &mut done));
        result = result.and_then(|()| self.check_plans());
        match result {
            Ok(()) => self.set_catalog(catalog),
            Err(_) => done.into_iter().rev().for_each(|inverse| self.take_back(inverse)),
        }
        self.attach_views();
        result
    }

    /// Would [`Store::apply_effects`] succeed? Does its work on the side, so that several stores can be asked before the first
    /// is changed.
    pub fn check_effects(&self, catalog: &Catalog, effects: &[Effect]) -> UserResult<()> {
        let is_new = |id: TableId| effects.contains(&Effect::CreateTable(id));
        for effect in effects {
            match *effect {
                Effect::CreateTable(id) => {
                    let definition = definition(catalog, id)?;
                    match &definition.view {
                        // What is made by the same change is empty and stands in no view's way.
                        Some(view) if is_new(view.source) || view.joins.iter().any(|join| is_new(join.0)) => {
                            ViewPlan::compile(definition, view, catalog)?;
                        }
                        _ => drop(self.new_table(definition, catalog)?),
                    }
                }
                Effect::CreateIndex(table, id) if !is_new(table) => {
                    let index = definition(catalog, table)?.index(id).ok_or_else(|| no_index(id))?;
                    let data = self.find_table(table).ok_or_else(|| no_table(table))?;
                    data.build_index(index)?;
                }
                Effect::Repartition(id) if !is_new(id) => {
                    check_empty(self.find_table(id).ok_or_else(|| no_table(id))?)?;
                }
                Effect::DropTable(id) | Effect::DropIndex(id, _) | Effect::Refresh(id) if !is_new(id) => {
                    self.find_table(id).ok_or_else(|| no_table(id))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes over a schema version that asks nothing of the stores (procedures, roles).
    pub fn set_catalog(&mut self, catalog: Arc<Catalog>) {
        for data in self.tables.iter_mut().flatten() {
            if let Some(definition) = catalog.table(data.id()) {
                data.set_definition(definition.clone());
            }
        }
        self.catalog = catalog;
    }

    fn carry_out(&mut self, catalog: &Catalog, effect: Effect, done: &mut Vec<Inverse>) -> UserResult<()> {
        match effect {
            Effect::CreateTable(id) => {
                let definition = definition(catalog, id)?;
                if self.find_table(id).is_some() {
                    return Err(UserError::internal(format!("table {id} is there already")));
                }
                if self.tables.len() <= id.index() {
                    self.tables.resize_with(id.index() + 1, || None);
                    self.plans.resize_with(id.index() + 1, || None);
                }
                let (data, plan) = self.new_table(definition, catalog)?;
                self.tables[id.index()] = Some(data);
                self.plans[id.index()] = plan;
                done.push(Inverse::RemoveTable(id));
            }
            Effect::DropTable(id) => {
                let data = self.tables.get_mut(id.index()).and_then(Option::take).ok_or_else(|| no_table(id))?;
                done.push(Inverse::PutTableBack(data, self.plans[id.index()].take()));
            }
            Effect::CreateIndex(table, id) => {
                let definition = definition(catalog, table)?;
                let index = definition.index(id).ok_or_else(|| no_index(id))?;
                let data =
                    self.tables.get_mut(table.index()).and_then(Option::as_mut).ok_or_else(|| no_table(table))?;
                // A table made by the same change has its indexes from the beginning.
                if data.contents.indexes.iter().all(|present| present.definition.id != id) {
                    let built = data.build_index(index)?;
                    data.contents.indexes.push(built);
                    done.push(Inverse::RemoveIndex(table, id));
                }
            }
            Effect::DropIndex(table, id) => {
                let data =
                    self.tables.get_mut(table.index()).and_then(Option::as_mut).ok_or_else(|| no_table(table))?;
                let position = data.contents.indexes.iter().position(|index| index.definition.id == id);
                let position = position.ok_or_else(|| no_index(id))?;
                let index = Box::new(data.contents.indexes.remove(position));
                done.push(Inverse::PutIndexBack(table, position, index));
            }
            Effect::Repartition(id) => {
                check_empty(self.find_table(id).ok_or_else(|| no_table(id))?)?;
            }
            Effect::Refresh(id) => {
                self.find_table(id).ok_or_else(|| no_table(id))?;
            }
        }
        Ok(())
    }

    fn new_table(
        &self,
        definition: &Arc<Table>,
        catalog: &Catalog,
    ) -> UserResult<(Box<TableData>, Option<Box<ViewPlan>>)> {
        let Some(view) = &definition.view else {
            let columns: Vec<_> =
                definition.columns.iter().map(|column| (column.column_type, column.nullable)).collect();
            return Ok((Box::new(TableData::new(definition.clone(), &columns)), None));
        };
        let mut plan = Box::new(ViewPlan::compile(definition, view, catalog)?);
        if let Some(missing) = plan.tables.iter().find(|table| self.find_table(**table).is_none()) {
            return Err(no_table(*missing));
        }
        let mut data = Box::new(TableData::new(definition.clone(), &plan.columns));
        self.fill_view(&mut plan, &mut data)?;
        Ok((data, Some(plan)))
    }

    /// Fills the empty data of a view.
    pub(crate) fn fill_view(&self, plan: &mut ViewPlan, data: &mut TableData) -> UserResult<()> {
        plan.attach(data)?;
        let mut arena = bumpalo::Bump::new();
        let surroundings = Surroundings { plan, tables: &self.tables, arena: &arena, leaving: None };
        surroundings.add_only_row(data, &mut UndoLog::off())?;
        if plan.tables.len() > 1 {
            return surroundings.fill(data, &mut UndoLog::off());
        }
        // What one row's expressions leave in the arena must not pile up over all rows.
        let source = table(&self.tables, plan.tables[0]);
        for id in source.scan() {
            arena.reset();
            let surroundings = Surroundings { plan, tables: &self.tables, arena: &arena, leaving: None };
            let row = SourceRow::Stored(source.row(id));
            surroundings.change(data, 0, row, Direction::Add, &mut UndoLog::off())?;
        }
        Ok(())
    }

    fn check_plans(&self) -> UserResult<()> {
        let mut named = self.plans.iter().flatten().flat_map(|plan| &plan.tables);
        match named.find(|table| self.find_table(**table).is_none()) {
            Some(table) => Err(UserError::ddl("2BP01", format!("table {table} is dropped, but not the views on it"))),
            None => Ok(()),
        }
    }

    fn take_back(&mut self, inverse: Inverse) {
        match inverse {
            Inverse::RemoveTable(id) => {
                self.tables[id.index()] = None;
                self.plans[id.index()] = None;
            }
            Inverse::PutTableBack(data, plan) => {
                let place = data.id().index();
                self.tables[place] = Some(data);
                self.plans[place] = plan;
            }
            Inverse::RemoveIndex(table, id) => {
                let data = self.tables[table.index()].as_mut().expect("the index was made in it");
                data.contents.indexes.retain(|index| index.definition.id != id);
            }
            Inverse::PutIndexBack(table, position, index) => {
                let data = self.tables[table.index()].as_mut().expect("the index was taken from it");
                data.contents.indexes.insert(position, *index);
            }
        }
    }

    /// After tables or indexes have come or gone: who depends on whom, and through which index.
    fn attach_views(&mut self) {
        for data in self.tables.iter_mut().flatten() {
            data.dependents.clear();
        }
        for number in 0..self.plans.len() {
            let Some(plan) = self.plans[number].as_deref_mut() else { continue };
            let view = self.tables[number].as_deref_mut().expect("a plan's view is there");
            plan.attach(view).expect("groups of a view are distinct");
            let tables = plan.tables.clone();
            for table in &tables {
                let data = self.tables[table.index()].as_deref_mut().expect("a view's source is there");
                data.dependents.push(TableId(number as u32));
            }
            let source = self.tables[tables[0].index()].as_deref().expect("a view's source is there");
            let plan = self.plans[number].as_deref_mut().expect("found above");
            plan.attach_source(source);
        }
    }
}

fn definition(catalog: &Catalog, id: TableId) -> UserResult<&Arc<Table>> {
    catalog.table(id).ok_or_else(|| no_table(id))
}

fn check_empty(data: &TableData) -> UserResult<()> {
    if data.row_count() == 0 {
        return Ok(());
    }
    let name = &data.definition().name;
    Err(UserError::ddl("55006", format!("table {name} has rows: its partitioning cannot be changed"))
        .with_hint("partition a table before it is filled, or TRUNCATE it first"))
}

#[cold]
fn no_table(id: TableId) -> UserError {
    UserError::internal(format!("a schema change names table {id}, which is not there"))
}

#[cold]
fn no_index(id: IndexId) -> UserError {
    UserError::internal(format!("a schema change names index {id}, which is not there"))
}
