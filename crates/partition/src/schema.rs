//! Schema changes: text to a new catalog, then the stores follow it. Used by the coordinator and by replay alike.

use crate::commit;
use crate::compiled::Compiled;
use crate::record;
use crate::recovery::Recovered;
use ferrite_base::{TableId, UserResult};
use ferrite_catalog::{Catalog, Change, Effect};
use ferrite_io::Clock;
use ferrite_table::Store;
use std::sync::Arc;

/// A bound schema change, not yet carried out.
pub struct Planned {
    pub catalog: Arc<Catalog>,
    pub effects: Vec<Effect>,
    /// What was accepted but does nothing, for the user to know.
    pub warnings: Vec<String>,
    /// Tables that trade their rows with each other, the one thing for which a count of rows is answered.
    pub swapped: Vec<TableId>,
}

/// Binds the DDL statements of `text`, each against the catalog that those before it leave.
pub fn plan(catalog: &Catalog, text: &str) -> UserResult<Planned> {
    let statements = ferrite_sql::parse_batch(text)?;
    let mut next = catalog.clone();
    let mut effects = Vec::new();
    let mut warnings = Vec::new();
    let mut swapped = Vec::new();
    for (index, statement) in statements.iter().enumerate() {
        let bound = ferrite_sql::bind_ddl(&next, statement).and_then(|(change, more)| {
            warnings.extend(more);
            if let Change::SwapTables { one, other } = &change {
                swapped.extend([one, other].iter().filter_map(|name| Some(next.table_named(name)?.id)));
            }
            next.apply(&change)
        });
        let (changed, more) = bound.map_err(|error| ferrite_sql::ddl_error(index + 1, statement.text(), error))?;
        next = changed;
        effects.extend(more);
    }
    // However many statements it took, it is one version.
    next.version = ferrite_base::CatalogVersion(catalog.version.0 + 1);
    effects.retain(|effect| is_of(effect, &next) || was_in(effect, catalog));
    Ok(Planned { catalog: Arc::new(next), effects, warnings, swapped })
}

/// Whether the object that the effect is about is in the catalog.
fn is_of(effect: &Effect, catalog: &Catalog) -> bool {
    match *effect {
        Effect::CreateTable(table) | Effect::DropTable(table) | Effect::Repartition(table) | Effect::Refresh(table) => {
            catalog.table(table).is_some()
        }
        Effect::CreateIndex(table, index) | Effect::DropIndex(table, index) => {
            catalog.table(table).is_some_and(|table| table.index(index).is_some())
        }
    }
}

/// A drop of something that the old catalog had; anything else that is gone came and went within the batch.
fn was_in(effect: &Effect, old: &Catalog) -> bool {
    matches!(effect, Effect::DropTable(_) | Effect::DropIndex(..)) && is_of(effect, old)
}

/// Carries the change out on all stores: on every one, or on none.
pub fn apply(stores: &mut [Store], planned: &Planned) -> UserResult<()> {
    for store in stores.iter() {
        store.check_effects(&planned.catalog, &planned.effects)?;
    }
    for store in stores {
        store
            .apply_effects(Arc::clone(&planned.catalog), &planned.effects)
            .unwrap_or_else(|error| panic!("a schema change that was checked cannot fail: {error}"));
    }
    Ok(())
}

/// Runs the schema file of a new database: one transaction, in the log like any other.
pub fn at_first_start(recovered: &mut Recovered, text: &str, clock: &dyn Clock) -> UserResult<()> {
    let planned = plan(&recovered.compiled.catalog, text)?;
    let compiled = Arc::new(Compiled::new(Arc::clone(&planned.catalog))?);
    apply(&mut recovered.stores, &planned)?;
    let mut payload = Vec::new();
    record::write_schema(&mut payload, compiled.catalog.version.0, clock.wall_micros(), text);
    commit::append_and_wait(&recovered.log, payload).map_err(|failure| failure.unavailable())?;
    recovered.compiled = compiled;
    Ok(())
}
