//! The schema is the last one that was acknowledged, or the one after it if nobody knows of that;
//! rows have its columns.

use crate::history::History;
use crate::state::State;
use ferrite_catalog::Catalog;
use ferrite_catalog::schema_text;
use std::sync::Arc;

/// The catalog that `change` makes of the one before.
pub fn after(before: &Catalog, change: &str) -> Arc<Catalog> {
    let planned = ferrite_partition::schema::plan(before, change);
    planned.unwrap_or_else(|error| panic!("a schema change that was made does not apply: {error}\n{change}")).catalog
}

/// Whether the change whose outcome nobody knows has been made.
fn has_moved_on(history: &History, state: &State) -> bool {
    state.version == history.schema.catalog.version.0 + 1 && history.schema.outstanding.is_some()
}

pub fn check(history: &History, state: &State) -> Result<(), String> {
    let known = &history.schema;
    if state.version < known.seen {
        return Err(format!("version {} was in use, version {} is there", known.seen, state.version));
    }
    let (text, variant) = if has_moved_on(history, state) {
        let outstanding = known.outstanding.as_ref().expect("seen there");
        (schema_text(&after(&known.catalog, &outstanding.text)), &outstanding.variant)
    } else if state.version == known.catalog.version.0 {
        (schema_text(&known.catalog), &known.variant)
    } else {
        return Err(format!("version {} was acknowledged, version {} is there", known.catalog.version, state.version));
    };
    if state.schema_text != text {
        return Err(format!("version {} is\n{}\ninstead of\n{text}", state.version, state.schema_text));
    }
    for (column, values) in &state.added {
        let expected = variant.added.iter().find(|added| added.column.eq_ignore_ascii_case(column));
        let default = expected.ok_or_else(|| format!("nobody added column {column}"))?.default;
        if !values.iter().all(|value| *value == Some(default)) {
            return Err(format!("column {column} holds {values:?}, not its default {default}"));
        }
    }
    Ok(())
}

pub fn adopt(history: &mut History, state: &State) {
    let moved = has_moved_on(history, state);
    let known = &mut history.schema;
    if let Some(outstanding) = known.outstanding.take()
        && moved
    {
        known.variant = outstanding.variant;
        known.catalog = after(&known.catalog, &outstanding.text);
    }
}
