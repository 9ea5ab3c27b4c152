//! A materialized view compiled for maintenance: which source columns it reads, where its groups
//! and aggregates stand in its rows, and how a group is found.

use crate::evaluation::{ColumnSet, KeyPart};
use crate::index::{IndexData, Structure};
use crate::layout::RowLayout;
use crate::table::TableData;
use ferrite_base::{IndexId, RowId, TableId, UserError, UserResult};
use ferrite_catalog::objects::ViewOutput;
use ferrite_catalog::{Catalog, Index, IndexKind, Table, TableKind, View};
use ferrite_expr::{AggregateKind, Expr};
use ferrite_value::{ColumnType, SqlType, Value};

/// The id of indexes of our own, which the catalog does not know.
pub(crate) const GROUP_INDEX: IndexId = IndexId(u32::MAX);

pub(crate) struct Group {
    pub(crate) part: KeyPart,
    /// Where it stands in the view's row.
    pub(crate) column: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    CountRows,
    Count,
    Sum,
    Min,
    Max,
}

pub(crate) struct Aggregate {
    pub(crate) operation: Operation,
    pub(crate) argument: Option<KeyPart>,
    pub(crate) column: u16,
    /// For a sum whose argument may be NULL: the hidden column that counts those that are not.
    pub(crate) non_null: Option<u16>,
    /// For a sum of FLOAT, where rows may go again: the first of two hidden columns, the sum's rest
    /// and what is lost of it.
    pub(crate) rest: Option<u16>,
}

/// An ordered index of the source that leads to a group's rows.
pub(crate) struct SourceIndex {
    pub(crate) index: IndexId,
    /// For each of its first keys, the group.
    pub(crate) groups: Vec<usize>,
}

pub(crate) struct ViewPlan {
    /// The source, then joined tables: slots 0, 1, ...
    pub(crate) tables: Vec<TableId>,
    /// For slots 1, ...
    pub(crate) conditions: Vec<Option<Expr>>,
    pub(crate) filter: Option<Expr>,
    /// In the order of the keys of the index that finds groups.
    pub(crate) groups: Vec<Group>,
    /// Further view columns that show a group: (column, the group's column).
    pub(crate) copies: Vec<(u16, u16)>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// The column that counts the group's rows.
    pub(crate) row_count: u16,
    /// Types of all columns of the view's row and whether they may be NULL, hidden ones last.
    pub(crate) columns: Vec<(ColumnType, bool)>,
    /// Per slot, what the view depends on.
    pub(crate) reads: Vec<ColumnSet>,
    /// Position of the index that finds groups; None for a view without groups, which has one row.
    pub(crate) group_index: Option<usize>,
    /// The source's columns that are the groups, in their order, where all are plain columns and
    /// there is no join.
    pub(crate) group_columns: Option<Box<[u16]>>,
    /// The aggregates are counts of rows, groups are `group_columns` in columns of the same type,
    /// found by a hash index that is the view's only index: rows can be written without values in
    /// between.
    pub(crate) counts_plainly: bool,
    /// Each group that is a plain column stands in a column that is declared alike.
    same_types: bool,
    /// Aggregates may be changed where they stand: none is long, and none is read by an index.
    pub(crate) in_place: bool,
    pub(crate) source_index: Option<SourceIndex>,
}

impl ViewPlan {
    pub(crate) fn compile(table: &Table, view: &View, catalog: &Catalog) -> UserResult<ViewPlan> {
        let mut tables = vec![view.source];
        tables.extend(view.joins.iter().map(|join| join.0));
        let definitions = sources(&tables, catalog)?;
        let not_null = |expression: &Expr| match expression {
            Expr::Column { slot, column } => !definitions[*slot as usize].columns[*column as usize].nullable,
            _ => false,
        };
        let of_stream = definitions[0].kind == TableKind::Stream;
        let mut columns: Vec<(ColumnType, bool)> =
            table.columns.iter().map(|column| (column.column_type, true)).collect();
        let mut plan = ViewPlan {
            conditions: view.joins.iter().map(|join| join.1.clone()).collect(),
            filter: view.filter.clone(),
            groups: Vec::new(),
            copies: Vec::new(),
            aggregates: Vec::new(),
            row_count: u16::MAX,
            columns: Vec::new(),
            reads: reads(view, tables.len()),
            tables,
            group_index: None,
            group_columns: None,
            counts_plainly: false,
            same_types: false,
            in_place: true,
            source_index: None,
        };
        plan.add_groups(view, &mut columns, &not_null)?;
        for (column, output) in view.outputs.iter().enumerate() {
            let ViewOutput::Aggregate(position) = output else { continue };
            let aggregate = &view.aggregates[*position as usize];
            let operation = operation(aggregate)?;
            let of_float = aggregate.argument_type == SqlType::Float;
            let never_null = aggregate.argument.as_ref().is_none_or(not_null);
            columns[column].1 = match operation {
                Operation::CountRows | Operation::Count => false,
                _ => !never_null || view.group_by.is_empty(),
            };
            if operation == Operation::CountRows && plan.row_count == u16::MAX {
                plan.row_count = column as u16;
            }
            plan.aggregates.push(Aggregate {
                // A count of what is never NULL needs not look.
                operation: if operation == Operation::Count && never_null { Operation::CountRows } else { operation },
                argument: aggregate.argument.as_ref().map(KeyPart::new),
                column: column as u16,
                non_null: (operation == Operation::Sum && !never_null).then_some(0),
                rest: (operation == Operation::Sum && of_float && !of_stream).then_some(0),
            });
        }
        let same_copies = plan.copies.iter().all(|(copy, column)| columns[*copy as usize] == columns[*column as usize]);
        plan.same_types = same_copies
            && plan.groups.iter().all(|group| {
                group.part.column().is_none_or(|source| {
                    let source = &definitions[0].columns[source as usize];
                    columns[group.column as usize] == (source.column_type, source.nullable)
                })
            });
        plan.add_hidden(&mut columns);
        plan.columns = columns;
        Ok(plan)
    }

    /// `columns`: of the view, and whether each may be NULL. `not_null`: of an expression.
    fn add_groups(
        &mut self,
        view: &View,
        columns: &mut [(ColumnType, bool)],
        not_null: &impl Fn(&Expr) -> bool,
    ) -> UserResult<()> {
        for (position, group) in view.group_by.iter().enumerate() {
            let mut shown_in = (0..view.outputs.len() as u16)
                .filter(|column| view.outputs[*column as usize] == ViewOutput::Group(position as u16));
            let Some(column) = shown_in.next() else {
                return Err(UserError::not_supported("a materialized view that groups by what it does not select"));
            };
            columns[column as usize].1 = !not_null(group);
            for copy in shown_in {
                columns[copy as usize].1 = !not_null(group);
                self.copies.push((copy, column));
            }
            self.groups.push(Group { part: KeyPart::new(group), column });
        }
        Ok(())
    }

    /// Columns behind those that the view shows: counts, and rests of sums.
    fn add_hidden(&mut self, columns: &mut Vec<(ColumnType, bool)>) {
        let hidden = (ColumnType::fixed(SqlType::Bigint), false);
        if self.row_count == u16::MAX {
            self.row_count = columns.len() as u16;
            self.aggregates.push(Aggregate {
                operation: Operation::CountRows,
                argument: None,
                column: self.row_count,
                non_null: None,
                rest: None,
            });
            columns.push(hidden);
        }
        for aggregate in self.aggregates.iter_mut().filter(|aggregate| aggregate.non_null.is_some()) {
            aggregate.non_null = Some(columns.len() as u16);
            columns.push(hidden);
        }
        // Last: snapshots of earlier releases are without them.
        for aggregate in self.aggregates.iter_mut().filter(|aggregate| aggregate.rest.is_some()) {
            aggregate.rest = Some(columns.len() as u16);
            columns.extend([(ColumnType::fixed(SqlType::Float), false); 2]);
        }
        // Counts first: the others look at them.
        self.aggregates.sort_by_key(|aggregate| aggregate.operation != Operation::CountRows);
    }

    /// The columns but for the rests of sums.
    pub(crate) fn columns_without_rests(&self) -> &[(ColumnType, bool)] {
        let rests = self.aggregates.iter().filter(|aggregate| aggregate.rest.is_some()).count();
        &self.columns[..self.columns.len() - 2 * rests]
    }

    /// The row of a group by its keys, in the order of `groups`; the only row of a view without
    /// groups.
    #[inline]
    pub(crate) fn find_group<'v>(&self, view: &TableData, key: impl Fn(usize) -> Value<'v>) -> Option<RowId> {
        match self.group_index {
            Some(index) => view.contents.indexes[index].find_group(&view.contents.rows, key),
            None => view.scan().next(),
        }
    }

    /// The view's columns that show its groups, ascending, each group once.
    pub(crate) fn group_columns_of_view(&self) -> Vec<u16> {
        let mut columns: Vec<u16> = self.groups.iter().map(|group| group.column).collect();
        columns.sort_unstable();
        columns
    }

    /// Whether any source row stands behind the view's rows.
    pub(crate) fn has_counted(&self, view: &TableData) -> bool {
        let count = |id| view.layout().columns[self.row_count as usize].read_bigint(view.row(id).bytes);
        view.scan().any(|id| count(id) != 0)
    }

    /// Which slot a table is bound to.
    pub(crate) fn slot_of(&self, table: TableId) -> Option<usize> {
        self.tables.iter().position(|other| *other == table)
    }

    /// Chooses how groups are found among the indexes that the view has now; makes one where none
    /// serves. To be called whenever the view's indexes have changed.
    pub(crate) fn attach(&mut self, view: &mut TableData) -> UserResult<()> {
        let group_columns: Vec<u16> = self.groups.iter().map(|group| group.column).collect();
        let indexes = &mut view.contents.indexes;
        let of_catalog = |index: &IndexData| index.definition.id != GROUP_INDEX;
        if self.groups.is_empty() {
            self.group_index = None;
        } else {
            if indexes.iter().any(|index| of_catalog(index) && serves(index, &group_columns)) {
                indexes.retain(of_catalog);
            } else if indexes.iter().all(of_catalog) {
                let index = view.build_index(&group_index(view.definition(), &group_columns))?;
                view.contents.indexes.push(index);
            }
            let indexes = &view.contents.indexes;
            let position = indexes.iter().position(|index| serves(index, &group_columns)).expect("made if need be");
            let keys = &indexes[position].parts;
            self.groups.sort_by_key(|group| keys.iter().position(|part| part.key.column() == Some(group.column)));
            self.group_index = Some(position);
        }
        let plain = self.groups.iter().map(|group| group.part.column());
        self.group_columns = plain.collect::<Option<Box<[u16]>>>().filter(|_| self.tables.len() == 1);
        let indexes = &view.contents.indexes;
        self.counts_plainly = self.same_types
            && self.group_columns.is_some()
            && self.aggregates.iter().all(|aggregate| aggregate.operation == Operation::CountRows)
            && indexes.len() == 1
            && matches!(indexes[0].structure, Structure::Hash(_));
        let layout: &RowLayout = view.layout();
        self.in_place = self.aggregates.iter().all(|aggregate| {
            !layout.columns[aggregate.column as usize].storage.is_long()
                && !view.contents.indexes.iter().any(|index| index.reads.contains(aggregate.column))
        });
        Ok(())
    }

    /// Chooses the source's index for finding a group's rows, if it has one. To be called whenever
    /// its indexes have changed.
    pub(crate) fn attach_source(&mut self, source: &TableData) {
        self.source_index = None;
        if self.tables.len() > 1 || self.groups.is_empty() {
            return;
        }
        let definitions = source.contents.indexes.iter().map(|index| &index.definition);
        for index in definitions.filter(|index| index.kind == IndexKind::Ordered && index.predicate.is_none()) {
            let Some(columns) = index.key_columns() else { continue };
            let group_of = |column: &u16| self.groups.iter().position(|group| group.part.column() == Some(*column));
            let groups: Vec<usize> = columns.iter().map_while(group_of).collect();
            if groups.len() == self.groups.len() {
                self.source_index = Some(SourceIndex { index: index.id, groups });
                return;
            }
        }
    }
}

/// The tables that a view reads, in the order of its slots.
fn sources<'c>(tables: &[TableId], catalog: &'c Catalog) -> UserResult<Vec<&'c Table>> {
    let definitions: Vec<&Table> = tables
        .iter()
        .map(|id| {
            catalog.table(*id).map(|table| &**table).ok_or_else(|| UserError::unknown_table(format!("table {id}")))
        })
        .collect::<UserResult<_>>()?;
    if definitions.iter().any(|definition| definition.kind == TableKind::View) {
        return Err(UserError::not_supported("a materialized view of a view"));
    }
    if definitions[1..].iter().any(|definition| definition.kind == TableKind::Stream) {
        return Err(UserError::not_supported("a materialized view that joins a stream"));
    }
    if (1..tables.len()).any(|slot| tables[..slot].contains(&tables[slot])) {
        return Err(UserError::not_supported("a materialized view that joins a table with itself"));
    }
    Ok(definitions)
}

fn serves(index: &IndexData, group_columns: &[u16]) -> bool {
    index.is_unique()
        && index.definition.predicate.is_none()
        && index.parts.len() == group_columns.len()
        && index.parts.iter().all(|part| part.key.column().is_some_and(|column| group_columns.contains(&column)))
        && group_columns.iter().all(|column| index.parts.iter().any(|part| part.key.column() == Some(*column)))
}

fn group_index(view: &Table, columns: &[u16]) -> Index {
    Index {
        id: GROUP_INDEX,
        name: format!("{} by its groups", view.name),
        keys: columns.iter().map(|column| Expr::column(0, *column)).collect(),
        unique: true,
        assume_unique: false,
        kind: IndexKind::Hash,
        predicate: None,
        constraint: None,
        text: Default::default(),
    }
}

fn operation(aggregate: &ferrite_expr::Aggregate) -> UserResult<Operation> {
    let operation = match aggregate.kind {
        AggregateKind::CountRows => Operation::CountRows,
        AggregateKind::Count => Operation::Count,
        AggregateKind::Sum => Operation::Sum,
        AggregateKind::Min => return Ok(Operation::Min),
        AggregateKind::Max => return Ok(Operation::Max),
        AggregateKind::Average => {
            return Err(UserError::not_supported("AVG in a materialized view")
                .with_hint("select SUM and COUNT, and divide in the query"));
        }
        other => return Err(UserError::not_supported(format!("{} in a materialized view", other.name()))),
    };
    if aggregate.distinct {
        return Err(UserError::not_supported("DISTINCT in a materialized view"));
    }
    Ok(operation)
}

fn reads(view: &View, slots: usize) -> Vec<ColumnSet> {
    let mut sets = vec![ColumnSet::default(); slots];
    let arguments = view.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref());
    let conditions = view.joins.iter().filter_map(|join| join.1.as_ref());
    for expression in view.filter.iter().chain(&view.group_by).chain(arguments).chain(conditions) {
        for (slot, set) in sets.iter_mut().enumerate() {
            set.add_expression(expression, slot as u16);
        }
    }
    sets
}
