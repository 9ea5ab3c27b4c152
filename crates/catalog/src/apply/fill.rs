//! A table gets the rows of another one that has the same columns: how a restore puts everything in
//! its place in one step.

use super::{Draft, invalid};
use crate::change::Effect;
use crate::objects::{Column, Table, TableKind};
use ferrite_base::UserResult;
use std::sync::Arc;

impl Draft {
    /// Whether the table is empty only the stores know.
    pub(super) fn fill_table(&mut self, table: &str, from: &str) -> UserResult<()> {
        let table = Arc::clone(self.table_named(table)?);
        let from = Arc::clone(self.table_named(from)?);
        if let Some(reason) = difference(&table, &from) {
            return Err(invalid(format!("table {} cannot be filled from {}: {reason}", table.name, from.name)));
        }
        self.effects.push(Effect::Fill(table.id, from.id));
        Ok(())
    }
}

fn difference(table: &Table, from: &Table) -> Option<String> {
    if table.id == from.id {
        return Some("it is the same table".to_owned());
    }
    if let Some(other) = [table, from].into_iter().find(|table| table.kind != TableKind::Table) {
        return Some(format!("{} is not a table", other.name));
    }
    if table.partition_column != from.partition_column {
        return Some("the tables are not partitioned alike".to_owned());
    }
    let alike = |left: &Column, right: &Column| left.name == right.name && left.column_type == right.column_type;
    let differs = table.columns.len() != from.columns.len()
        || table.columns.iter().zip(&from.columns).any(|(left, right)| !alike(left, right));
    differs.then(|| "their columns are not the same".to_owned())
}
