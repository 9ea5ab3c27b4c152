//! Effects of several changes brought into one order, in which a store can carry them out against
//! the last catalog.

use crate::change::{Effect, Rebuild};
use crate::objects::{Catalog, TableKind};
use ferrite_base::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What leads from `old` to `new`: what came and went in between is left out, each table is rebuilt
/// at most once, and tables come before the views that read them.
pub fn settle(effects: Vec<Effect>, old: &Catalog, new: &Catalog) -> Vec<Effect> {
    let mut rebuilds: BTreeMap<TableId, Rebuild> = BTreeMap::new();
    let mut settled: Vec<Effect> = Vec::new();
    for effect in effects {
        let keep = match &effect {
            Effect::CreateTable(table) | Effect::Refresh(table) | Effect::Validate(table) => {
                new.table(*table).is_some()
            }
            Effect::DropTable(table) => old.table(*table).is_some(),
            Effect::CreateIndex(table, index) => new.table(*table).is_some_and(|table| table.index(*index).is_some()),
            Effect::DropIndex(table, index) => {
                new.table(*table).is_some() && old.table(*table).is_some_and(|table| table.index(*index).is_some())
            }
            Effect::Repartition(table) => old.table(*table).is_some() && new.table(*table).is_some(),
            Effect::Fill(table, _) => new.table(*table).is_some(),
            // Follows from the rebuilt tables, below.
            Effect::Refill(_) => false,
            Effect::Rebuild(rebuild) => {
                // What is new has its last columns from the beginning.
                if old.table(rebuild.table).is_some() && new.table(rebuild.table).is_some() {
                    let whole = match rebuilds.get(&rebuild.table) {
                        Some(before) => before.then(rebuild),
                        None => Rebuild::clone(rebuild),
                    };
                    rebuilds.insert(rebuild.table, whole);
                }
                false
            }
        };
        if keep && !settled.contains(&effect) {
            settled.push(effect);
        }
    }
    settled.retain(|effect| !matches!(effect, Effect::Repartition(table) if rebuilds.contains_key(table)));
    // Where rows are taken from goes afterwards.
    let is_source = |id: &TableId, settled: &[Effect]| {
        settled.iter().any(|effect| matches!(effect, Effect::Fill(_, from) if from == id))
    };
    let sources: Vec<TableId> = settled
        .iter()
        .filter_map(|effect| match effect {
            Effect::DropTable(table) if is_source(table, &settled) => Some(*table),
            _ => None,
        })
        .collect();
    let refilled = refilled(&settled, &rebuilds, old, new);
    settled.extend(rebuilds.into_values().map(|rebuild| Effect::Rebuild(Arc::new(rebuild))));
    settled.extend(refilled);
    let is_view = |table: &TableId| new.table(*table).is_some_and(|table| table.kind == TableKind::View);
    settled.sort_by_key(|effect| match effect {
        Effect::DropTable(table) if sources.contains(table) => 4,
        Effect::DropTable(_) => 0,
        Effect::CreateTable(table) if !is_view(table) => 1,
        Effect::Rebuild(_) | Effect::Repartition(_) => 2,
        Effect::Fill(..) => 3,
        Effect::Refill(_) => 4,
        Effect::CreateTable(_) => 5,
        Effect::CreateIndex(..) | Effect::DropIndex(..) => 6,
        Effect::Validate(_) => 7,
        Effect::Refresh(_) => 8,
    });
    settled
}

/// Views that were there before, of tables whose rows change as a whole.
fn refilled(settled: &[Effect], rebuilds: &BTreeMap<TableId, Rebuild>, old: &Catalog, new: &Catalog) -> Vec<Effect> {
    let repartitioned = settled.iter().filter_map(|effect| match effect {
        Effect::Repartition(table) => Some(*table),
        _ => None,
    });
    let filled = settled.iter().filter_map(|effect| match effect {
        Effect::Fill(table, _) => Some(*table),
        _ => None,
    });
    let mut views_again = Vec::new();
    for table in repartitioned.chain(filled).chain(rebuilds.keys().copied()) {
        let views = &new.table(table).expect("kept only if it is there").dependent_views;
        for view in views.iter().filter(|view| old.table(**view).is_some()) {
            if !views_again.contains(&Effect::Refill(*view)) {
                views_again.push(Effect::Refill(*view));
            }
        }
    }
    views_again
}
