//! What only the first start of a database settles: its schema file, and what DECIMAL means in it.

use crate::compiled::Compiled;
use crate::recovery::Recovered;
use crate::schema::Planned;
use crate::{commit, record, schema, task_check};
use ferrite_base::{SqlLimits, UserError, UserResult};
use ferrite_catalog::{Catalog, Classes, DecimalScale};
use ferrite_group::EntryBuffer;
use ferrite_io::Clock;
use ferrite_plan::external::RuntimeHandle;
use std::sync::Arc;

/// What DECIMAL(p, s) shall mean, by the server's options: in a database without a schema it may be
/// chosen, another one has it already.
pub fn choose_decimal_scale(recovered: &mut Recovered, wanted: Option<DecimalScale>) -> UserResult<()> {
    let catalog = &recovered.compiled.catalog;
    match wanted {
        Some(wanted) if wanted != catalog.decimals && catalog.version.0 == 0 => {
            let mut chosen = Catalog::clone(catalog);
            chosen.decimals = wanted;
            recovered.compiled = Arc::new(recovered.compiled.next(Arc::new(chosen))?);
            Ok(())
        }
        Some(wanted) if wanted != catalog.decimals => Err(UserError::ddl(
            "55000",
            format!("precision and scale of DECIMAL are {} in this database", catalog.decimals.name().to_lowercase()),
        )
        .with_hint(
            "start it without --decimal-scale; the statement SET DECIMAL_SCALE changes it where nothing depends on it",
        )),
        _ => Ok(()),
    }
}

/// Whether a new database can be begun with these classes and that schema, by a server with such
/// limits: without any database.
pub fn check(
    wanted: Option<DecimalScale>,
    jars: &[Vec<u8>],
    text: &str,
    limits: &SqlLimits,
    runtime: &RuntimeHandle,
) -> UserResult<()> {
    let mut catalog = Catalog::default();
    catalog.decimals = wanted.unwrap_or(catalog.decimals);
    prepare(&Compiled::new(Arc::new(catalog), runtime)?, jars, text, limits).map(drop)
}

/// The change that begins a new database, bound and compiled, and its text.
fn prepare(
    before: &Compiled,
    jars: &[Vec<u8>],
    text: &str,
    limits: &SqlLimits,
) -> UserResult<(Planned, Arc<Compiled>, String)> {
    // The places of errors are those in the schema's text.
    let load: String = jars.iter().map(|jar| schema::load_classes(jar)).collect();
    let mut classes = Catalog::clone(&before.catalog);
    for jar in jars {
        classes.classes = Classes::with_jar(&classes.classes, jar)?;
    }
    schema::plan_within(&classes, text, limits)?;
    let whole = load + text;
    let mut planned = schema::plan(&before.catalog, &whole)?;
    ferrite_sql::check_views(&before.catalog, &planned.catalog)?;
    planned.warnings.extend(schema::judge_classes(&before.catalog, &planned.catalog)?);
    let compiled = Arc::new(before.next(Arc::clone(&planned.catalog))?);
    task_check::check(before, &compiled)?;
    Ok((planned, compiled, whole))
}

/// Loads the classes of a new database and runs its schema file: one transaction, in the log like
/// any other. Returns what should be reported of it.
pub fn at_first_start(
    recovered: &mut Recovered,
    jars: &[Vec<u8>],
    text: &str,
    limits: &SqlLimits,
    clock: &dyn Clock,
) -> UserResult<Vec<String>> {
    let (planned, compiled, whole) = prepare(&recovered.compiled, jars, text, limits)?;
    let time = clock.wall_micros();
    schema::apply(&mut recovered.stores, &planned, time)?;
    let whole = schema::logged_text(&recovered.compiled.catalog, &whole);
    let mut records = EntryBuffer::default();
    record::write_schema(records.records(), compiled.catalog.version.0, time, &whole);
    commit::append_and_wait(&recovered.log, &recovered.group, records).map_err(|failure| failure.unavailable())?;
    recovered.history.add(compiled.catalog.version.0, time, &whole);
    recovered.compiled = compiled;
    Ok(planned.warnings)
}
