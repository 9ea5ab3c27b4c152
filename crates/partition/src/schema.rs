//! Schema changes: text to a new catalog, then the stores follow it. Used by the coordinator and by replay alike.

use crate::commit;
use crate::compiled::Compiled;
use crate::record;
use crate::recovery::Recovered;
use ferrite_base::{TableId, UserResult};
use ferrite_catalog::{Catalog, Change, Effect, settle};
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
    let effects = settle(effects, catalog, &next);
    // However many statements it took, it is one version.
    next.version = ferrite_base::CatalogVersion(catalog.version.0 + 1);
    Ok(Planned { catalog: Arc::new(next), effects, warnings, swapped })
}

/// Carries the change out on all stores: on every one, or on none. `time` is the transaction's.
pub fn apply(stores: &mut [Store], planned: &Planned, time: i64) -> UserResult<()> {
    ferrite_table::change_schema(stores, &planned.catalog, &planned.effects, time)
}

/// Runs the schema file of a new database: one transaction, in the log like any other.
pub fn at_first_start(recovered: &mut Recovered, text: &str, clock: &dyn Clock) -> UserResult<()> {
    let planned = plan(&recovered.compiled.catalog, text)?;
    let compiled = Arc::new(Compiled::new(Arc::clone(&planned.catalog))?);
    let time = clock.wall_micros();
    apply(&mut recovered.stores, &planned, time)?;
    let mut payload = Vec::new();
    record::write_schema(&mut payload, compiled.catalog.version.0, time, text);
    commit::append_and_wait(&recovered.log, payload).map_err(|failure| failure.unavailable())?;
    recovered.compiled = compiled;
    Ok(())
}
