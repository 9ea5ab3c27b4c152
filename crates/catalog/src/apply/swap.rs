//! Two tables that are alike trade their rows: each name goes to the other's storage, with all that
//! was declared under it.

use super::{Draft, invalid};
use crate::change::Effect;
use crate::objects::{Index, Procedure, Table, TableKind};
use ferrite_base::{TableId, UserResult};
use std::sync::Arc;

impl Draft {
    pub(super) fn swap_tables(&mut self, one: &str, other: &str) -> UserResult<()> {
        let one = Arc::clone(self.table_named(one)?);
        let other = Arc::clone(self.table_named(other)?);
        let reasons = self.differences(&one, &other);
        if !reasons.is_empty() {
            return Err(invalid(format!(
                "Swapping tables {} and {} failed for the following reason(s):\n  - {}",
                one.name,
                other.name,
                reasons.join("\n  - ")
            )));
        }
        if one.id == other.id {
            return Ok(());
        }
        self.catalog.take_table(one.id);
        self.catalog.take_table(other.id);
        self.catalog.put_table(over_storage_of(&one, &other));
        self.catalog.put_table(over_storage_of(&other, &one));
        self.swap_partitioning(one.id, other.id);
        self.effects.extend([Effect::Refresh(one.id), Effect::Refresh(other.id)]);
        Ok(())
    }

    /// Procedures name their partitioning table, so they go with the name.
    fn swap_partitioning(&mut self, one: TableId, other: TableId) {
        for procedure in self.catalog.procedures.values_mut() {
            let Some(partitioning) = &procedure.partitioning else { continue };
            let table = match partitioning.table {
                table if table == one => other,
                table if table == other => one,
                _ => continue,
            };
            let mut changed = Procedure::clone(procedure);
            changed.partitioning = Some(crate::ProcedurePartitioning { table, ..partitioning.clone() });
            *procedure = Arc::new(changed);
        }
    }

    /// Why the tables cannot trade places.
    fn differences(&self, one: &Table, other: &Table) -> Vec<String> {
        let mut reasons = Vec::new();
        for table in [one, other] {
            if table.kind != TableKind::Table {
                reasons.push(format!("{} is not a table", table.name));
            }
            if !table.dependent_views.is_empty() {
                let names: Vec<&str> = table
                    .dependent_views
                    .iter()
                    .filter_map(|view| self.catalog.table(*view))
                    .map(|view| view.name.as_str())
                    .collect();
                reasons.push(format!("{} is referenced in views ({})", table.name, names.join(", ")));
            }
        }
        if one.is_partitioned() != other.is_partitioned() {
            reasons.push("one table is partitioned and the other is not".to_owned());
        } else if one.partition_column != other.partition_column {
            reasons.push("the tables are partitioned on different columns".to_owned());
        }
        if one.columns.len() != other.columns.len() {
            reasons.push("the tables have different numbers of columns".to_owned());
        }
        for (mine, others) in one.columns.iter().zip(&other.columns) {
            let alike = |left: &crate::Column, right: &crate::Column| {
                left.name == right.name && left.column_type == right.column_type && left.nullable == right.nullable
            };
            if !alike(mine, others) {
                reasons.push(format!("the columns {} and {} are not alike", mine.name, others.name));
            }
        }
        let conditions = |table: &Table| table.checks.iter().map(|check| check.condition.clone()).collect::<Vec<_>>();
        if conditions(one) != conditions(other) {
            reasons.push("the tables have different CHECK constraints".to_owned());
        }
        for (table, counterpart) in [(one, other), (other, one)] {
            for index in &table.indexes {
                if corresponding(table, index, counterpart).is_none() {
                    reasons.push(format!(
                        "the index {} on table {} has no corresponding index in the other table",
                        index.name, table.name
                    ));
                }
            }
        }
        if reasons.is_empty() && pairs(one, other).is_none() {
            reasons.push("the tables have several indexes on the same columns".to_owned());
        }
        reasons
    }
}

/// The index of `counterpart` that can stand for `index` of `table`.
fn corresponding<'t>(table: &Table, index: &Index, counterpart: &'t Table) -> Option<&'t Index> {
    let is_primary = |table: &Table, index: &Index| table.primary_key == Some(index.id);
    counterpart.indexes.iter().find(|candidate| {
        candidate.keys == index.keys
            && candidate.unique == index.unique
            && candidate.assume_unique == index.assume_unique
            && candidate.kind == index.kind
            && candidate.predicate == index.predicate
            && is_primary(counterpart, candidate) == is_primary(table, index)
    })
}

/// For each index of `one` its counterpart; None when two of them have the same.
fn pairs<'t>(one: &Table, other: &'t Table) -> Option<Vec<&'t Index>> {
    let pairs: Vec<&Index> = one.indexes.iter().filter_map(|index| corresponding(one, index, other)).collect();
    let mut ids: Vec<_> = pairs.iter().map(|index| index.id).collect();
    ids.sort_unstable();
    ids.dedup();
    (ids.len() == one.indexes.len() && ids.len() == other.indexes.len()).then_some(pairs)
}

/// What `named` declares, over the rows and indexes of `stored`.
fn over_storage_of(stored: &Table, named: &Table) -> Table {
    let names = pairs(stored, named).expect("the tables were compared");
    let indexes = stored.indexes.iter().zip(names).map(|(index, names)| Index { id: index.id, ..names.clone() });
    Table { id: stored.id, indexes: indexes.collect(), primary_key: stored.primary_key, ..named.clone() }
}
