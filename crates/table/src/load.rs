//! A store made of a snapshot's rows: every table of a catalog, filled block by block, then indexes
//! and views attached.

use crate::image::{ImageError, RunReader, Shape};
use crate::schema::definition;
use crate::store::Store;
use crate::table::TableData;
use crate::view_plan::ViewPlan;
use ferrite_base::{PartitionId, TableId, UserResult};
use ferrite_catalog::{Catalog, TableKind};
use ferrite_value::ring::Ring;
use std::sync::Arc;

/// A store that is being filled.
pub struct Loading {
    store: Store,
    /// The table whose rows come, what was said of it, and the row id behind the last.
    current: Option<(TableId, u64, u64)>,
    /// How its rows are read, where it is a view that an earlier release stored otherwise.
    earlier: Option<RunReader>,
    /// The views of which that was so.
    earlier_views: Vec<TableId>,
    /// By table id.
    seen: Vec<bool>,
}

impl Loading {
    /// A store with the tables of `catalog`, all empty.
    pub fn begin(partition: PartitionId, ring: Arc<Ring>, catalog: &Arc<Catalog>) -> UserResult<Loading> {
        let mut store = Store::new(partition, ring);
        let ids = || catalog.tables.values().map(|table| table.id);
        let length = ids().map(|id| id.index() + 1).max().unwrap_or(0);
        store.tables.resize_with(length, || None);
        store.plans.resize_with(length, || None);
        for id in ids() {
            let definition = definition(catalog, id)?;
            store.tables[id.index()] = Some(match &definition.view {
                None => store.empty_table(definition),
                Some(view) => {
                    let plan = ViewPlan::compile(definition, view, catalog)?;
                    let data = TableData::new(definition.clone(), &plan.columns, &store.pins);
                    store.plans[id.index()] = Some(Box::new(plan));
                    Box::new(data)
                }
            });
        }
        store.set_catalog(Arc::clone(catalog));
        let seen = vec![false; length];
        Ok(Loading { store, current: None, earlier: None, earlier_views: Vec::new(), seen })
    }

    /// The rows that come are this table's.
    pub fn table(&mut self, id: TableId, shape: &Shape) -> Result<(), ImageError> {
        self.end_table()?;
        let Some(Some(data)) = self.store.tables.get_mut(id.index()) else {
            return Err(ImageError::Shape(format!("the schema has no table {id} ({})", shape.name)));
        };
        let plan = self.store.plans[id.index()].as_deref();
        self.earlier = match data.has_shape(shape) {
            true => None,
            false => plan.and_then(|plan| RunReader::of_earlier_view(plan.columns_without_rests(), shape)),
        };
        if !(data.has_shape(shape) || self.earlier.is_some()) || std::mem::replace(&mut self.seen[id.index()], true) {
            let name = &shape.name;
            return Err(ImageError::Shape(format!("the rows of {name} are not those of the table in the schema")));
        }
        if self.earlier.is_some() {
            self.earlier_views.push(id);
        } else if !data.contents.rows.pages.give_out(shape.pages as usize) {
            return Err(ImageError::Shape(format!("{} cannot have {} pages", shape.name, shape.pages)));
        }
        self.current = Some((id, shape.rows, 0));
        Ok(())
    }

    /// Rows of the table that was named last. How many.
    pub fn rows(&mut self, table: TableId, bytes: &[u8]) -> Result<u64, ImageError> {
        let Some((current, left, next)) = self.current.as_mut().filter(|current| current.0 == table) else {
            return Err(ImageError::Shape(format!("rows of table {table} stand behind another table")));
        };
        let data = self.store.tables[current.index()].as_deref_mut().expect("begun above");
        let loaded = match &self.earlier {
            Some(reader) => data.load_earlier_runs(reader, next, bytes)?,
            None => data.load_runs(next, bytes)?,
        };
        *left = left.checked_sub(loaded).ok_or_else(|| too_few(data, "more"))?;
        Ok(loaded)
    }

    fn end_table(&mut self) -> Result<(), ImageError> {
        match self.current.take() {
            Some((id, left, _)) if left > 0 => {
                Err(too_few(self.store.tables[id.index()].as_deref().expect("begun before"), "fewer"))
            }
            _ => Ok(()),
        }
    }

    /// Builds the indexes and attaches the views. Every table must have come.
    pub fn finish(mut self) -> Result<Store, ImageError> {
        self.end_table()?;
        for (position, seen) in self.seen.iter().enumerate() {
            let Some(data) = self.store.tables[position].as_deref_mut() else { continue };
            let stream = data.definition().kind == TableKind::Stream;
            if !(*seen || stream) {
                return Err(ImageError::Shape(format!("the rows of {} are missing", data.definition().name)));
            }
            data.rebuild_indexes().map_err(ImageError::Refused)?;
            if let Some(plan) = self.store.plans[position].as_deref_mut() {
                plan.attach(data).map_err(ImageError::Refused)?;
                if plan.groups.is_empty() && data.row_count() != 1 {
                    return Err(too_few(data, "other than one"));
                }
            }
        }
        for view in self.earlier_views {
            self.store.add_rests(view);
        }
        self.store.attach_views();
        Ok(self.store)
    }
}

fn too_few(data: &TableData, word: &str) -> ImageError {
    ImageError::Shape(format!("there are {word} rows of {} than it says", data.definition().name))
}
