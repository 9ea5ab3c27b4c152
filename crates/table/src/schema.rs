//! Follows changes of the schema: makes, drops and rebuilds tables, views and indexes, filling them
//! from the rows that are there. All or nothing, over all stores that are given: when the tables of
//! one refuse, or whoever watches ends it, none has changed.

use crate::constraint;
use crate::evaluation::note_row;
use crate::index::IndexData;
use crate::row::SourceRow;
use crate::store::Store;
use crate::table::{InsertError, TableData};
use crate::tags::Unknown;
use crate::undo::UndoLog;
use crate::view_maintenance::{Direction, Surroundings, table};
use crate::view_plan::ViewPlan;
use bumpalo::Bump;
use ferrite_base::{IndexId, TableId, UserError, UserResult, Watcher, watch};
use ferrite_catalog::{Catalog, ColumnSource, Effect, Rebuild, RebuiltColumn, Table, TableKind};
use ferrite_expr::{Expr, Function};
use ferrite_value::{Value, cast, temporal};
use std::sync::Arc;

/// How to take one effect on one store back.
enum Inverse {
    RemoveTable(TableId),
    PutTableBack(Box<TableData>, Option<Box<ViewPlan>>),
    RemoveIndex(TableId, IndexId),
    PutIndexBack(TableId, usize, Box<IndexData>),
}

/// Carries out a schema change on all stores of a database. `catalog` is the schema after it,
/// `time` the transaction's, in microseconds since 1970. On an error all stores are as they were.
/// Must not be called within a transaction.
pub fn change_schema(stores: &mut [Store], catalog: &Arc<Catalog>, effects: &[Effect], time: i64) -> UserResult<()> {
    // What was once committed is carried out to its end.
    watch::unwatched(|| carry_out(stores, catalog, effects, time, Values::AsCommitted)).map(drop)
}

/// The same, of a change that is not committed yet, which `watcher` may end; and how to take it
/// back.
pub fn change_schema_watched(
    stores: &mut [Store],
    catalog: &Arc<Catalog>,
    effects: &[Effect],
    time: i64,
    watcher: &Watcher,
) -> UserResult<SchemaUndo> {
    watcher.watch(|| carry_out(stores, catalog, effects, time, Values::New))
}

/// What rows may become.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// What may be stored today.
    New,
    /// What they became when the change was committed, perhaps by an earlier release.
    AsCommitted,
}

fn carry_out(
    stores: &mut [Store],
    catalog: &Arc<Catalog>,
    effects: &[Effect],
    time: i64,
    values: Values,
) -> UserResult<SchemaUndo> {
    let before = stores.first().map(|store| Arc::clone(&store.catalog));
    for store in stores.iter() {
        assert!(store.mark().undo == 0, "a schema change is a transaction of its own");
    }
    let mut change = SchemaChange { stores, catalog, time, values, done: Vec::new() };
    let mut result = effects.iter().try_for_each(|effect| change.carry_out(effect, effects));
    if result.is_ok() {
        result = change.stores.iter().try_for_each(Store::check_plans);
    }
    let undo = SchemaUndo { before, done: std::mem::take(&mut change.done) };
    // From here on it is decided.
    match result {
        Ok(()) => watch::unwatched(|| {
            stores.iter_mut().for_each(|store| store.set_catalog(Arc::clone(catalog)));
            stores.iter_mut().for_each(Store::attach_views);
            Ok(undo)
        }),
        Err(error) => {
            undo.take_back(stores);
            Err(error)
        }
    }
}

/// How the stores become what they were before a schema change that they have followed. Dropped
/// when the change is committed.
pub struct SchemaUndo {
    /// None: there are no stores.
    before: Option<Arc<Catalog>>,
    /// Which store, and what was done to it.
    done: Vec<(usize, Inverse)>,
}

impl SchemaUndo {
    /// Of the same stores, in which nothing has been changed since.
    pub fn take_back(self, stores: &mut [Store]) {
        let SchemaUndo { before, done } = self;
        watch::unwatched(|| {
            done.into_iter().rev().for_each(|(store, inverse)| stores[store].take_back(inverse));
            if let Some(before) = before {
                stores.iter_mut().for_each(|store| store.set_catalog(Arc::clone(&before)));
            }
            stores.iter_mut().for_each(Store::attach_views);
        });
    }
}

/// A schema change under way.
struct SchemaChange<'c> {
    stores: &'c mut [Store],
    catalog: &'c Catalog,
    time: i64,
    values: Values,
    /// Which store, and how it becomes what it was.
    done: Vec<(usize, Inverse)>,
}

impl SchemaChange<'_> {
    fn carry_out(&mut self, effect: &Effect, effects: &[Effect]) -> UserResult<()> {
        match effect {
            Effect::Rebuild(rebuild) => return self.rebuild(rebuild, rebuild.table),
            Effect::Repartition(id) => {
                let columns = definition(self.catalog, *id)?.columns.len();
                return self.rebuild(&Rebuild::same(*id, columns), *id);
            }
            Effect::Fill(id, from) => return self.fill(*id, *from, effects),
            _ => {}
        }
        for number in 0..self.stores.len() {
            if let Some(inverse) = self.stores[number].carry_out(self.catalog, effect)? {
                self.done.push((number, inverse));
            }
        }
        Ok(())
    }

    /// Rows of another table that is divided in the same way.
    fn fill(&mut self, id: TableId, from: TableId, effects: &[Effect]) -> UserResult<()> {
        let definition = definition(self.catalog, id)?;
        let changes_rows = |effect: &Effect| match effect {
            Effect::Rebuild(rebuild) => [id, from].contains(&rebuild.table),
            Effect::Repartition(table) => [id, from].contains(table),
            _ => false,
        };
        if effects.iter().any(changes_rows) {
            let message = format!("the table {} cannot be filled and altered in one transaction", definition.name);
            return Err(UserError::ddl("55000", message));
        }
        for store in self.stores.iter() {
            if store.find_table(id).ok_or_else(|| no_table(id))?.row_count() > 0 {
                return Err(UserError::ddl("55000", format!("the table {} has rows", definition.name))
                    .with_hint("only an empty table is filled; delete its rows first"));
            }
        }
        self.rebuild(&Rebuild::same(id, definition.columns.len()), from)
    }

    /// Rows of the table's next version, made from those of `from` and put where they belong then.
    /// The new tables of all stores are made before the first takes the place of an old one,
    /// because rows may come from any.
    fn rebuild(&mut self, rebuild: &Rebuild, from: TableId) -> UserResult<()> {
        let id = rebuild.table;
        let definition = definition(self.catalog, id)?;
        let before = self.stores.first().and_then(|store| store.find_table(from)).ok_or_else(|| no_table(from))?;
        let was_partitioned = before.definition().is_partitioned();
        let moves = before.definition().partition_column.map(RebuiltColumn::same)
            != definition.partition_column.map(|column| rebuild.columns[column as usize].clone());
        if definition.kind == TableKind::Stream && moves {
            self.check_views_empty(definition)?;
        }
        let mut made = Vec::with_capacity(self.stores.len());
        for (number, store) in self.stores.iter().enumerate() {
            let mut data = store.empty_table(definition);
            let sources = if was_partitioned && moves { &self.stores[..] } else { &self.stores[number..=number] };
            for source in sources {
                let rows = source.find_table(from).ok_or_else(|| no_table(from))?;
                self.copy_rows(rebuild, rows, &mut data, moves.then_some(store))?;
            }
            made.push(data);
        }
        for (number, data) in made.into_iter().enumerate() {
            let store = &mut self.stores[number];
            let old = store.tables[id.index()].replace(data).expect("seen above");
            self.done.push((number, Inverse::PutTableBack(old, None)));
        }
        Ok(())
    }

    /// Puts the rows of `source`, changed, into `data`; where they may move, only those that the
    /// store owns.
    fn copy_rows(
        &self,
        rebuild: &Rebuild,
        source: &TableData,
        data: &mut TableData,
        owner: Option<&Store>,
    ) -> UserResult<()> {
        let definition = Arc::clone(data.definition());
        let mut arena = Bump::new();
        for id in source.scan() {
            note_row()?;
            arena.reset();
            let row = source.row(id);
            let values = arena.alloc_slice_fill_copy(rebuild.columns.len(), Value::Null);
            for (position, column) in rebuild.columns.iter().enumerate() {
                let value = match &column.from {
                    ColumnSource::Column(from) => row.column(*from),
                    ColumnSource::Value(Some(Expr::Constant(value))) => value.as_value(),
                    ColumnSource::Value(Some(Expr::Call { function: Function::CurrentDate, .. })) => {
                        temporal::date_from_timestamp(self.time).map_or(Value::Null, Value::Date)
                    }
                    ColumnSource::Value(Some(_)) => Value::Timestamp(self.time),
                    ColumnSource::Value(None) => Value::Null,
                };
                values[position] = convert(value, column, &definition.columns[position].name, self.values, &arena)?;
            }
            if let (Some(store), Some(column)) = (owner, definition.partition_column)
                && !store.owns(&definition, &values[column as usize])?
            {
                continue;
            }
            data.check_row(values)?;
            data.check_conditions(SourceRow::Given(values), &arena)?;
            data.insert_row(values, None, None, Unknown, &arena, &mut UndoLog::off())
                .map_err(InsertError::into_user)?;
        }
        Ok(())
    }

    /// What a stream's views have counted cannot be divided otherwise: the rows that they came from
    /// are gone.
    fn check_views_empty(&self, stream: &Table) -> UserResult<()> {
        for view in &stream.dependent_views {
            let filled = self.stores.iter().any(|store| {
                let plan = store.plans.get(view.index()).and_then(Option::as_deref);
                plan.zip(store.find_table(*view)).is_some_and(|(plan, data)| plan.has_counted(data))
            });
            if filled {
                let name = &definition(self.catalog, *view)?.name;
                return Err(UserError::ddl(
                    "55000",
                    format!("the view {name} has rows of the stream {}, whose partitioning changes", stream.name),
                )
                .with_hint("drop the view, and create it again after the change"));
            }
        }
        Ok(())
    }
}

/// A value on its way to a column of another type.
fn convert<'a>(
    value: Value<'a>,
    column: &RebuiltColumn,
    name: &str,
    values: Values,
    arena: &'a Bump,
) -> UserResult<Value<'a>> {
    column.through.iter().try_fold(value, |value, to| {
        let converted = match (value, cast::cast(value, to, arena)) {
            (Value::Date(_), Ok(Value::Timestamp(midnight))) if values == Values::New => {
                temporal::valid_timestamp(midnight).map(Value::Timestamp)
            }
            (_, converted) => converted,
        };
        converted.map_err(|error| {
            let from = constraint::shown(&value);
            let message = format!("the value {from} of column {name} cannot become {to}: {}", error.message());
            UserError::data("22000", message).with_code(error.code().to_owned())
        })
    })
}

impl Store {
    /// [`change_schema`] of this store alone, at no particular time.
    pub fn apply_effects(&mut self, catalog: Arc<Catalog>, effects: &[Effect]) -> UserResult<()> {
        change_schema(std::slice::from_mut(self), &catalog, effects, 0)
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

    /// What must be done to take it back; None where nothing was done.
    fn carry_out(&mut self, catalog: &Catalog, effect: &Effect) -> UserResult<Option<Inverse>> {
        Ok(match *effect {
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
                Some(Inverse::RemoveTable(id))
            }
            Effect::DropTable(id) => {
                let data = self.tables.get_mut(id.index()).and_then(Option::take).ok_or_else(|| no_table(id))?;
                Some(Inverse::PutTableBack(data, self.plans[id.index()].take()))
            }
            Effect::CreateIndex(table, id) => {
                let definition = definition(catalog, table)?;
                let index = definition.index(id).ok_or_else(|| no_index(id))?;
                let data =
                    self.tables.get_mut(table.index()).and_then(Option::as_mut).ok_or_else(|| no_table(table))?;
                // A table made or rebuilt by the same change has its indexes already.
                if data.contents.indexes.iter().any(|present| present.definition.id == id) {
                    return Ok(None);
                }
                let built = data.build_index(index)?;
                data.contents.indexes.push(built);
                Some(Inverse::RemoveIndex(table, id))
            }
            Effect::DropIndex(table, id) => {
                let data =
                    self.tables.get_mut(table.index()).and_then(Option::as_mut).ok_or_else(|| no_table(table))?;
                let position = data.contents.indexes.iter().position(|index| index.definition.id == id);
                // A rebuilt table comes without it.
                position.map(|position| {
                    let index = Box::new(data.contents.indexes.remove(position));
                    Inverse::PutIndexBack(table, position, index)
                })
            }
            Effect::Refill(id) => Some(self.refill(id, catalog)?),
            Effect::Validate(id) => {
                self.validate(definition(catalog, id)?)?;
                None
            }
            Effect::Refresh(id) => {
                self.find_table(id).ok_or_else(|| no_table(id))?;
                None
            }
            Effect::Rebuild(_) | Effect::Repartition(_) | Effect::Fill(..) => {
                unreachable!("these concern all stores together")
            }
        })
    }

    /// A table without rows, with its indexes.
    pub(crate) fn empty_table(&self, definition: &Arc<Table>) -> Box<TableData> {
        let columns: Vec<_> = definition.columns.iter().map(|column| (column.column_type, column.nullable)).collect();
        Box::new(TableData::new(definition.clone(), &columns, &self.pins))
    }

    fn new_table(
        &self,
        definition: &Arc<Table>,
        catalog: &Catalog,
    ) -> UserResult<(Box<TableData>, Option<Box<ViewPlan>>)> {
        let Some(view) = &definition.view else { return Ok((self.empty_table(definition), None)) };
        let mut plan = Box::new(ViewPlan::compile(definition, view, catalog)?);
        if let Some(missing) = plan.tables.iter().find(|table| self.find_table(**table).is_none()) {
            return Err(no_table(*missing));
        }
        let mut data = Box::new(TableData::new(definition.clone(), &plan.columns, &self.pins));
        self.fill_view(&mut plan, &mut data)?;
        Ok((data, Some(plan)))
    }

    /// A view whose tables were rebuilt: filled anew, but where it is of a stream. Then its rows
    /// stay, and only where its plan finds the stream's columns changes.
    fn refill(&mut self, id: TableId, catalog: &Catalog) -> UserResult<Inverse> {
        let definition = definition(catalog, id)?;
        let view = definition.view.as_ref().ok_or_else(|| no_table(id))?;
        let (data, plan) = if self::definition(catalog, view.source)?.kind == TableKind::Stream {
            let plan = Box::new(ViewPlan::compile(definition, view, catalog)?);
            let before = self.find_table(id).ok_or_else(|| no_table(id))?;
            let mut data = Box::new(TableData::new(definition.clone(), &plan.columns, &self.pins));
            let mut row = vec![Value::Null; plan.columns.len()];
            let mut arena = Bump::new();
            for id in before.scan() {
                note_row()?;
                arena.reset();
                (0..row.len()).for_each(|column| row[column] = before.row(id).column(column as u16));
                data.insert_row(&row, None, None, Unknown, &arena, &mut UndoLog::off())
                    .map_err(InsertError::into_user)?;
            }
            (data, Some(plan))
        } else {
            self.new_table(definition, catalog)?
        };
        let old = self.tables[id.index()].replace(data).ok_or_else(|| no_table(id))?;
        let old_plan = std::mem::replace(&mut self.plans[id.index()], plan);
        Ok(Inverse::PutTableBack(old, old_plan))
    }

    /// Fills a view anew whose rows come from a snapshot that is without the rests of its sums.
    /// Should it not be possible, the sums stay as they were.
    pub(crate) fn add_rests(&mut self, id: TableId) {
        let catalog = Arc::clone(&self.catalog);
        drop(self.refill(id, &catalog));
    }

    /// Every row meets the checks of `definition`.
    fn validate(&self, definition: &Table) -> UserResult<()> {
        let data = self.find_table(definition.id).ok_or_else(|| no_table(definition.id))?;
        let mut arena = Bump::new();
        for id in data.scan() {
            note_row()?;
            arena.reset();
            data.check_conditions_of(definition, SourceRow::Stored(data.row(id)), &arena)?;
        }
        Ok(())
    }

    /// Fills the empty data of a view.
    pub(crate) fn fill_view(&self, plan: &mut ViewPlan, data: &mut TableData) -> UserResult<()> {
        plan.attach(data)?;
        let mut arena = Bump::new();
        let surroundings =
            Surroundings { plan, tables: &self.tables, arena: &arena, leaving: None, filling: true, tag: Unknown };
        surroundings.add_only_row(data, &mut UndoLog::off())?;
        if plan.tables.len() > 1 {
            return surroundings.fill(data, &mut UndoLog::off());
        }
        // What one row's expressions leave in the arena must not pile up over all rows.
        let source = table(&self.tables, plan.tables[0]);
        for id in source.scan() {
            note_row()?;
            arena.reset();
            let surroundings =
                Surroundings { plan, tables: &self.tables, arena: &arena, leaving: None, filling: true, tag: Unknown };
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
    pub(crate) fn attach_views(&mut self) {
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

pub(crate) fn definition(catalog: &Catalog, id: TableId) -> UserResult<&Arc<Table>> {
    catalog.table(id).ok_or_else(|| no_table(id))
}

#[cold]
fn no_table(id: TableId) -> UserError {
    UserError::internal(format!("a schema change names table {id}, which is not there"))
}

#[cold]
fn no_index(id: IndexId) -> UserError {
    UserError::internal(format!("a schema change names index {id}, which is not there"))
}
