//! Access paths as text: how a source's rows are found, and what is asked of the keys of the index
//! that finds them.
//!
//! It knows neither the plan around a path nor how many rows it finds.

use super::expression::Names;
use ferrite_base::{IndexId, TableId};
use ferrite_catalog::{IndexKind, Table};
use ferrite_expr::Expr;
use ferrite_plan::{Access, Bound, KeyList};
use std::sync::Arc;

impl Names<'_> {
    pub fn access(&self, table: TableId, access: &Access, name: &str) -> String {
        let definition = self.catalog.table(table);
        match access {
            Access::Scan => format!("scan {name}"),
            Access::Lookup { index, keys } => {
                let described = definition.map(|table| index_text(table, *index)).unwrap_or_default();
                let keys = self.equalities(definition, *index, keys, 0);
                format!("lookup {name} by {described} ({})", keys.join(", "))
            }
            Access::Lookups { index, before, list, after } => {
                let described = definition.map(|table| index_text(table, *index)).unwrap_or_default();
                let mut keys = self.equalities(definition, *index, before, 0);
                let key = self.key(definition, *index, before.len());
                keys.push(match list {
                    KeyList::Values(values) => {
                        let values: Vec<String> = values.iter().map(|value| self.expr(value)).collect();
                        format!("{key} IN ({})", values.join(", "))
                    }
                    KeyList::Array(array) => format!("{key} IN {}", self.expr(array)),
                    KeyList::Subquery(subquery) => format!("{key} IN subquery {subquery}"),
                });
                keys.extend(self.equalities(definition, *index, after, before.len() + 1));
                format!("lookups {name} by {described} ({})", keys.join(", "))
            }
            Access::Range { index, equal, lower, upper, descending } => {
                let described = definition.map(|table| index_text(table, *index)).unwrap_or_default();
                let conditions = self.stretch(definition, *index, equal, lower, upper);
                format!("range {name} by {described}{conditions}{}", if *descending { " descending" } else { "" })
            }
            Access::Extreme { index, equal, lower, upper, greatest } => {
                let described = definition.map(|table| index_text(table, *index)).unwrap_or_default();
                let conditions = self.stretch(definition, *index, equal, lower, upper);
                let key = self.key(definition, *index, equal.len());
                let end = if *greatest { "greatest" } else { "least" };
                format!("{end} {key} of {name} by {described}{conditions}")
            }
        }
    }

    fn equalities(&self, table: Option<&Arc<Table>>, index: IndexId, keys: &[Expr], first: usize) -> Vec<String> {
        let keys = keys.iter().enumerate();
        keys.map(|(place, key)| format!("{} = {}", self.key(table, index, first + place), self.expr(key))).collect()
    }

    fn stretch(
        &self,
        table: Option<&Arc<Table>>,
        index: IndexId,
        equal: &[Expr],
        lower: &Option<Bound>,
        upper: &Option<Bound>,
    ) -> String {
        let mut conditions = self.equalities(table, index, equal, 0);
        let next = self.key(table, index, equal.len());
        for (bound, sign) in [(lower, ">"), (upper, "<")] {
            if let Some(Bound { value, inclusive, .. }) = bound {
                let equals = if *inclusive { "=" } else { "" };
                conditions.push(format!("{next} {sign}{equals} {}", self.expr(value)));
            }
        }
        if conditions.is_empty() { String::new() } else { format!(" ({})", conditions.join(", ")) }
    }

    fn key(&self, table: Option<&Arc<Table>>, index: IndexId, position: usize) -> String {
        let Some(table) = table else { return "key".to_owned() };
        match table.index(index).and_then(|index| index.keys.get(position)) {
            Some(Expr::Column { column, .. }) => {
                table.columns.get(usize::from(*column)).map(|column| column.name.clone()).unwrap_or_default()
            }
            _ => format!("key {}", position + 1),
        }
    }
}

fn index_text(table: &Table, id: IndexId) -> String {
    let Some(index) = table.index(id) else { return "an index".to_owned() };
    let unique = if index.unique { "unique " } else { "" };
    let kind = if index.kind == IndexKind::Hash { "hash " } else { "" };
    if table.primary_key == Some(id) {
        return format!("{kind}primary key");
    }
    format!("{unique}{kind}index {}", index.name)
}
