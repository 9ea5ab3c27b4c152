//! Materialized views: what they may be, how they are partitioned, the index over their groups.

use super::{Draft, already_exists, check, invalid};
use crate::change::Effect;
use crate::objects::{
    Column, Index, IndexKind, Table, TableKind, VIEW_KEY_CONSTRAINT, VIEW_KEY_INDEX, View, ViewOutput,
};
use ferrite_base::{TableId, UserResult};
use ferrite_expr::{AggregateKind, CompareOperator, Expr};
use std::sync::Arc;

impl Draft {
    pub(super) fn create_view(&mut self, name: &str, columns: &[Column], view: &View) -> UserResult<()> {
        check::identifier(name)?;
        self.check_room_for_table()?;
        if self.catalog.is_taken(name) {
            return Err(already_exists(name));
        }
        check::columns(name, columns)?;
        let source = Arc::clone(self.table(view.source)?);
        if source.kind == TableKind::View {
            return Err(invalid(format!(
                "Materialized view \"{name}\" cannot be defined over the view {}",
                source.name
            )));
        }
        let tables = self.view_tables(name, &source, view)?;
        check_definition(name, columns, view, &tables)?;
        let mut view = view.clone();
        let definitions: Vec<&Table> = tables.iter().map(Arc::as_ref).collect();
        for expression in expressions_mut(&mut view) {
            *expression = check::kept(self.catalog.values, expression, &definitions);
        }

        let mut table = Table {
            id: self.new_table_id(),
            name: name.to_owned(),
            kind: TableKind::View,
            columns: columns.to_vec(),
            partition_column: None,
            partitioned_without_column: false,
            indexes: Vec::new(),
            primary_key: None,
            checks: Vec::new(),
            time_to_live: None,
            export: None,
            view: Some(view.clone()),
            dependent_views: Vec::new(),
        };
        if !view.group_by.is_empty() {
            let index = group_index(self.new_index_id(), &view);
            table.primary_key = Some(index.id);
            table.indexes.push(index);
        }
        Partitioning::derive(&view, &source).set(&mut table);

        let id = table.id;
        self.effects.push(Effect::CreateTable(id));
        self.catalog.put_table(table);
        for table in tables {
            let mut table = Table::clone(&table);
            table.dependent_views.push(id);
            self.effects.push(Effect::Refresh(table.id));
            self.catalog.put_table(table);
        }
        Ok(())
    }

    /// The tables that a view reads: its source, and those that are joined to it.
    fn view_tables(&self, name: &str, source: &Arc<Table>, view: &View) -> UserResult<Vec<Arc<Table>>> {
        let mut tables = vec![Arc::clone(source)];
        for (joined, condition) in &view.joins {
            let joined = Arc::clone(self.table(*joined)?);
            let reason = match joined.kind {
                TableKind::View => Some("is a view"),
                TableKind::Stream => Some("is a stream"),
                TableKind::Table if joined.is_partitioned() && !stays_local(condition.as_ref(), &tables, &joined) => {
                    Some("is partitioned, and not joined on its partitioning column")
                }
                TableKind::Table if tables.iter().any(|table| table.id == joined.id) => Some("is there twice"),
                TableKind::Table => None,
            };
            if let Some(reason) = reason {
                return Err(invalid(format!(
                    "Materialized view \"{name}\" can join replicated tables, and partitioned ones on their partitioning columns, \
                     each once: {} {reason}",
                    joined.name
                )));
            }
            tables.push(joined);
        }
        Ok(tables)
    }
}

/// Whether rows of `joined` meet only rows of their own partition: its partitioning column equals
/// that of one of the `tables` before it.
fn stays_local(condition: Option<&Expr>, tables: &[Arc<Table>], joined: &Table) -> bool {
    let is_key = |expression: &Expr| match expression {
        Expr::Column { slot, column } if *slot as usize == tables.len() => joined.partition_column == Some(*column),
        _ => false,
    };
    let is_other_key = |expression: &Expr| match expression {
        Expr::Column { slot, column } => {
            tables.get(*slot as usize).is_some_and(|table| table.partition_column == Some(*column))
        }
        _ => false,
    };
    let links = |conjunct: &Expr| match conjunct {
        Expr::Compare { operator: CompareOperator::Equal, left, right } => {
            is_key(left) && is_other_key(right) || is_key(right) && is_other_key(left)
        }
        _ => false,
    };
    match condition {
        Some(Expr::And(conjuncts)) => conjuncts.iter().any(links),
        Some(condition) => links(condition),
        None => false,
    }
}

/// The tables that a view reads.
pub(super) fn sources(view: &View) -> impl Iterator<Item = TableId> {
    std::iter::once(view.source).chain(view.joins.iter().map(|(table, _)| *table))
}

/// All expressions of a view's definition.
pub(super) fn expressions(view: &View) -> impl Iterator<Item = &Expr> {
    let conditions = view.filter.iter().chain(view.joins.iter().filter_map(|(_, condition)| condition.as_ref()));
    let arguments = view.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref());
    conditions.chain(&view.group_by).chain(arguments)
}

/// The same, to change them.
pub(super) fn expressions_mut(view: &mut View) -> impl Iterator<Item = &mut Expr> {
    let joined = view.joins.iter_mut().filter_map(|(_, condition)| condition.as_mut());
    let arguments = view.aggregates.iter_mut().filter_map(|aggregate| aggregate.argument.as_mut());
    view.filter.iter_mut().chain(joined).chain(&mut view.group_by).chain(arguments)
}

fn check_definition(name: &str, columns: &[Column], view: &View, tables: &[Arc<Table>]) -> UserResult<()> {
    let supported = view.aggregates.iter().all(|aggregate| {
        let kind = matches!(
            aggregate.kind,
            AggregateKind::CountRows
                | AggregateKind::Count
                | AggregateKind::Sum
                | AggregateKind::Min
                | AggregateKind::Max
        );
        kind && !aggregate.distinct
    });
    if !supported || view.aggregates.is_empty() {
        return Err(invalid(format!(
            "Materialized view \"{name}\" must have non-group by columns aggregated by sum, count, min or max."
        )));
    }
    let outputs_exist = view.outputs.iter().all(|output| match output {
        ViewOutput::Group(position) => (*position as usize) < view.group_by.len(),
        ViewOutput::Aggregate(position) => (*position as usize) < view.aggregates.len(),
    });
    if columns.len() != view.outputs.len() || !outputs_exist {
        return Err(invalid(format!(
            "Materialized view \"{name}\" names {} columns for {} results",
            columns.len(),
            view.outputs.len()
        )));
    }
    if (0..view.group_by.len()).any(|group| output_of_group(view, group).is_none()) {
        return Err(invalid(format!(
            "Materialized view \"{name}\" must have all its GROUP BY expressions in the SELECT list"
        )));
    }
    let tables: Vec<&Table> = tables.iter().map(Arc::as_ref).collect();
    let what = format!("the definition of the view {name}");
    expressions(view).try_for_each(|expression| check::row_expression(&what, expression, &tables))
}

/// The view's column that shows a group key.
fn output_of_group(view: &View, group: usize) -> Option<u16> {
    let position = view.outputs.iter().position(|output| *output == ViewOutput::Group(group as u16))?;
    Some(position as u16)
}

/// Finds a group's row by its keys, in GROUP BY order.
fn group_index(id: ferrite_base::IndexId, view: &View) -> Index {
    let key = |group| Expr::column(0, output_of_group(view, group).expect("checked to be in the SELECT list"));
    Index {
        id,
        name: VIEW_KEY_INDEX.to_owned(),
        keys: (0..view.group_by.len()).map(key).collect(),
        unique: true,
        assume_unique: false,
        kind: IndexKind::Hash,
        predicate: None,
        constraint: Some(VIEW_KEY_CONSTRAINT.to_owned()),
        text: Default::default(),
    }
}

/// How a view's rows are spread.
pub(super) enum Partitioning {
    Replicated,
    /// By this column of the view: each group is in one partition.
    By(u16),
    /// Each partition has its part of each group.
    InParts,
}

impl Partitioning {
    pub(super) fn derive(view: &View, source: &Table) -> Partitioning {
        let Some(partition_column) = source.partition_column else { return Partitioning::Replicated };
        let group = view
            .group_by
            .iter()
            .position(|key| matches!(key, Expr::Column { slot: 0, column } if *column == partition_column));
        match group.and_then(|group| output_of_group(view, group)) {
            Some(column) => Partitioning::By(column),
            None => Partitioning::InParts,
        }
    }

    /// The group index of a view in parts is unique within each partition only, and says so.
    pub(super) fn set(self, view: &mut Table) {
        view.partition_column = if let Partitioning::By(column) = self { Some(column) } else { None };
        view.partitioned_without_column = matches!(self, Partitioning::InParts);
        for index in view.indexes.iter_mut().filter(|index| index.is_view_key()) {
            index.assume_unique = view.partitioned_without_column;
        }
    }
}
