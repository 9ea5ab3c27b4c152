//! Indexes without which a schema works, but slowly. Whether one is missing is seen only when all
//! statements of a schema change are there: an index comes after its table.

use ferrite_catalog::{Catalog, Index, IndexKind, Table, TableKind};
use ferrite_expr::{AggregateKind, Expr};
use std::collections::BTreeMap;

/// Advice for tables and views that an index would help, by their names.
pub fn missing_indexes(catalog: &Catalog) -> BTreeMap<String, String> {
    let advice = |table: &Table| expiry_is_slow(table).or_else(|| extremes_are_slow(catalog, table));
    catalog.tables.values().filter_map(|table| Some((table.name.clone(), advice(table)?))).collect()
}

fn is_whole(index: &Index) -> bool {
    index.kind == IndexKind::Ordered && index.predicate.is_none()
}

fn expiry_is_slow(table: &Table) -> Option<String> {
    let expiring = table.time_to_live.as_ref().filter(|_| table.view.is_none())?;
    let leads = |index: &Index| {
        let first = index.keys.first();
        is_whole(index) && matches!(first, Some(Expr::Column { column, .. }) if *column == expiring.column)
    };
    (!table.indexes.iter().any(leads)).then(|| {
        format!(
            "table {}: expired rows are found by scanning the table; an index helps: CREATE INDEX ... ON {0} ({})",
            table.name,
            table.columns[usize::from(expiring.column)].name
        )
    })
}

/// MIN and MAX look for the next row of a group when the one that was least or greatest goes:
/// through an ordered index on the groups, or through all rows.
fn extremes_are_slow(catalog: &Catalog, table: &Table) -> Option<String> {
    let name = &table.name;
    let view = table.view.as_ref()?;
    let extreme =
        |aggregate: &ferrite_expr::Aggregate| matches!(aggregate.kind, AggregateKind::Min | AggregateKind::Max);
    let source = catalog.table(view.source)?;
    if source.kind == TableKind::Stream || !view.joins.is_empty() || !view.aggregates.iter().any(extreme) {
        return None;
    }
    let helps = |index: &Index| {
        let first = index.keys.get(..view.group_by.len());
        is_whole(index) && first.is_some_and(|keys| keys.iter().all(|key| view.group_by.contains(key)))
    };
    let columns: Option<Vec<&str>> = view
        .group_by
        .iter()
        .map(|group| match group {
            Expr::Column { slot: 0, column } => Some(&*source.columns[usize::from(*column)].name),
            _ => None,
        })
        .collect();
    let columns = columns.filter(|columns| !columns.is_empty())?;
    (!source.indexes.iter().any(helps)).then(|| {
        format!(
            "view {name}: deleting a row that is MIN or MAX of its group scans {}; an index helps: CREATE INDEX ... ON {0} ({})",
            source.name,
            columns.join(", ")
        )
    })
}
