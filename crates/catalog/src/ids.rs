//! The same schema under other ids: for a catalog that is made again from its text and must be
//! named as before.

use crate::objects::{Catalog, Table};
use ferrite_base::{CatalogVersion, IndexId, TableId, UserError, UserResult};
use std::collections::BTreeMap;

/// The ids that a catalog's objects are to have, and what it goes on counting from.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    pub version: CatalogVersion,
    pub next_table_id: u32,
    pub next_index_id: u32,
    /// By name.
    pub tables: BTreeMap<String, TableId>,
    /// By the names of table and index, the latter as [`crate::Index::distinct_name`] says it.
    pub indexes: BTreeMap<(String, String), IndexId>,
}

impl Catalog {
    /// This schema, its tables and indexes named by these ids. Fails where one of them has none.
    pub fn with_ids(&self, ids: &Ids) -> UserResult<Catalog> {
        let missing = |name: &str| UserError::internal(format!("no id is known for {name}"));
        let new_id = |old: TableId| {
            let name = &self.table(old).ok_or_else(|| missing(&format!("table {old}")))?.name;
            ids.tables.get(name).copied().filter(|id| id.0 < ids.next_table_id).ok_or_else(|| missing(name))
        };
        let mut catalog = Catalog::default();
        catalog.version = ids.version;
        catalog.next_table_id = ids.next_table_id;
        catalog.next_index_id = ids.next_index_id;
        catalog.roles.clone_from(&self.roles);
        catalog.classes = self.classes.clone();
        catalog.functions.clone_from(&self.functions);
        catalog.tasks.clone_from(&self.tasks);
        for table in self.tables.values() {
            let mut table = Table::clone(table);
            table.id = new_id(table.id)?;
            let mut primary_key = None;
            for index in &mut table.indexes {
                let key = (table.name.clone(), index.distinct_name().to_owned());
                let id = *ids.indexes.get(&key).ok_or_else(|| missing(&index.name))?;
                if table.primary_key == Some(index.id) {
                    primary_key = Some(id);
                }
                index.id = id;
            }
            table.primary_key = primary_key;
            for view in &mut table.dependent_views {
                *view = new_id(*view)?;
            }
            if let Some(view) = &mut table.view {
                view.source = new_id(view.source)?;
                for (joined, _) in &mut view.joins {
                    *joined = new_id(*joined)?;
                }
            }
            catalog.put_table(table);
        }
        for (name, procedure) in &self.procedures {
            let mut procedure = crate::Procedure::clone(procedure);
            if let Some(partitioning) = &mut procedure.partitioning {
                partitioning.table = new_id(partitioning.table)?;
            }
            catalog.procedures.insert(name.clone(), std::sync::Arc::new(procedure));
        }
        // As after the changes that gave them out.
        catalog.reserve_ids();
        Ok(catalog)
    }
}
