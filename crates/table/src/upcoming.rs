//! Transactions of the log, read some way ahead of the one that is made.
//!
//! In a large table every hash look-up and every row is a cache miss of its own, longer than all
//! the computing around it, and before it comes a walk through the page tables, for which the
//! processor stands still if it is alone. Replay and copies know what comes next. They read some
//! transactions together, hash their keys, and ask for what those will touch in one go, so that
//! walks and misses overlap. What was read and hashed is what the changes are made with: once.
//!
//! Nothing here changes anything. Invariant: values and tags follow from the bytes, the tables'
//! layouts and their indexes' definitions, which no row change changes, so they are the same
//! whenever they are worked out. What is not read here, because it is of another kind, large or
//! malformed, is left for [`Store::apply_redo`] to make or to refuse, with all that follows it in
//! its transaction.

use crate::hash_table::NO_TAG;
use crate::redo::{self, Reader, RedoError};
use crate::store::Store;
use crate::table::TableData;
use crate::tags::Known;
use ferrite_base::{RowId, TableId};
use ferrite_catalog::TableKind;
use ferrite_value::Value;
use std::ops::Range;

/// Changes of a transaction that are read ahead: for more, what they need would not be at hand any
/// more by the time they are made.
const CHANGES_MAX: usize = 8;
/// Wider rows are not read ahead: their values would fill the cache.
const COLUMNS_MAX: usize = 16;

/// Some transactions, in order.
#[derive(Default)]
pub struct Upcoming<'b> {
    transactions: Vec<Transaction<'b>>,
    changes: Vec<Change>,
    values: Vec<Value<'b>>,
    columns: Vec<u16>,
    /// Of an inserted row: one for each index of its table, then one for each view that follows the
    /// table. [`NO_TAG`] where none is known.
    tags: Vec<u32>,
}

struct Transaction<'b> {
    changes: Range<usize>,
    /// What was not read.
    rest: &'b [u8],
}

/// The ranges are of the vectors of [`Upcoming`].
struct Change {
    table: TableId,
    row: RowId,
    kind: Kind,
    values: Range<usize>,
}

enum Kind {
    /// Of the tags so many are of indexes.
    Insert {
        tags: Range<usize>,
        indexes: usize,
    },
    Update {
        columns: Range<usize>,
    },
    Delete,
}

/// A change of one row that was read.
pub(crate) enum Read<'u> {
    Insert { values: &'u [Value<'u>], tags: Known<'u> },
    Update { columns: &'u [u16], values: &'u [Value<'u>] },
    Delete,
}

impl<'b> Upcoming<'b> {
    /// Transactions that it has.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    pub fn clear(&mut self) {
        let Upcoming { transactions, changes, values, columns, tags } = self;
        transactions.clear();
        changes.clear();
        values.clear();
        columns.clear();
        tags.clear();
    }

    /// What was read of a transaction, in order.
    pub(crate) fn changes(&self, number: usize) -> impl Iterator<Item = (TableId, RowId, Read<'_>)> {
        self.changes[self.transactions[number].changes.clone()].iter().map(|change| {
            let values = &self.values[change.values.clone()];
            let read = match &change.kind {
                Kind::Insert { tags, indexes } => {
                    let (indexes, views) = self.tags[tags.clone()].split_at(*indexes);
                    Read::Insert { values, tags: Known { indexes, views } }
                }
                Kind::Update { columns } => Read::Update { columns: &self.columns[columns.clone()], values },
                Kind::Delete => Read::Delete,
            };
            (change.table, change.row, read)
        })
    }

    /// The changes that follow those, as they stand in the log.
    pub(crate) fn rest(&self, number: usize) -> &'b [u8] {
        self.transactions[number].rest
    }

    fn all(&self) -> impl Iterator<Item = (TableId, RowId, Read<'_>)> {
        (0..self.transactions.len()).flat_map(|number| self.changes(number))
    }
}

impl Store {
    /// Reads `changes`, those of the transaction behind all that `upcoming` has, which are to be
    /// made here.
    pub fn read_ahead<'b>(&self, upcoming: &mut Upcoming<'b>, changes: &'b [u8]) {
        let first = upcoming.changes.len();
        let mut reader = Reader::new(changes);
        let mut rest = changes;
        while !reader.is_empty() && upcoming.changes.len() - first < CHANGES_MAX {
            match self.read_change(&mut reader, upcoming) {
                Ok(Some(change)) => upcoming.changes.push(change),
                // An error here is an error again when the change is made, and told then.
                Ok(None) | Err(_) => break,
            }
            rest = reader.rest();
        }
        upcoming.transactions.push(Transaction { changes: first..upcoming.changes.len(), rest });
    }

    /// None: of another kind than is read ahead.
    #[inline]
    fn read_change<'b>(
        &self,
        reader: &mut Reader<'b>,
        upcoming: &mut Upcoming<'b>,
    ) -> Result<Option<Change>, RedoError> {
        let kind = reader.byte()?;
        let id = TableId(reader.varint()?);
        let Some(table) = self.find_table(id) else { return Ok(None) };
        if table.definition().kind == TableKind::View || !matches!(kind, redo::INSERT | redo::UPDATE | redo::DELETE) {
            return Ok(None);
        }
        let row = RowId(reader.varint()?);
        let layout = table.layout();
        let values_start = upcoming.values.len();
        let kind = match kind {
            redo::INSERT => {
                if layout.columns.len() > COLUMNS_MAX {
                    return Ok(None);
                }
                upcoming.values.resize(values_start + layout.columns.len(), Value::Null);
                let values = &mut upcoming.values[values_start..];
                reader.row(id, layout, values)?;
                let tags_start = upcoming.tags.len();
                self.push_tags(table, values, &mut upcoming.tags);
                Kind::Insert { tags: tags_start..upcoming.tags.len(), indexes: table.contents.indexes.len() }
            }
            redo::UPDATE => {
                let set = reader.columns(id, layout)?;
                let columns_start = upcoming.columns.len();
                upcoming.columns.extend_from_slice(set.columns());
                upcoming.values.extend_from_slice(set.values());
                Kind::Update { columns: columns_start..upcoming.columns.len() }
            }
            _ => Kind::Delete,
        };
        Ok(Some(Change { table: id, row, kind, values: values_start..upcoming.values.len() }))
    }

    #[inline]
    fn push_tags(&self, table: &TableData, values: &[Value<'_>], tags: &mut Vec<u32>) {
        tags.extend(table.contents.indexes.iter().map(|index| index.tag_of_row(|column| values[column as usize])));
        tags.extend(table.dependents.iter().map(|view| {
            let plan = self.plans[view.index()].as_deref().expect("views have plans");
            let (Some(columns), Some(position)) = (&plan.group_columns, plan.group_index) else { return NO_TAG };
            let index = &self.table(*view).contents.indexes[position];
            index.tag_of_parts(|part| values[columns[part] as usize])
        }));
    }

    /// Asks the processor to have soon: buckets of the keys of inserted rows, rows that will be
    /// updated or deleted.
    pub fn ask_for_first(&self, upcoming: &Upcoming<'_>) {
        for (id, row, read) in upcoming.all() {
            let table = self.table(id);
            match read {
                Read::Insert { tags, .. } => {
                    let indexes = table.contents.indexes.iter().zip(tags.indexes);
                    indexes.for_each(|(index, tag)| index.prefetch_tag(*tag));
                    for (view, tag) in table.dependents.iter().zip(tags.views) {
                        self.with_group_index(*view, |index, _| index.prefetch_tag(*tag));
                    }
                }
                Read::Update { .. } | Read::Delete => table.contents.rows.pages.prefetch(row),
            }
        }
    }

    /// Asks, some time later, for what those lead to: rows in the buckets, buckets of the keys of
    /// stored rows.
    pub fn ask_for_second(&self, upcoming: &Upcoming<'_>) {
        for (id, row, read) in upcoming.all() {
            let table = self.table(id);
            let rows = &table.contents.rows;
            match read {
                Read::Insert { tags, .. } => {
                    let indexes = table.contents.indexes.iter().zip(tags.indexes);
                    indexes.for_each(|(index, tag)| index.prefetch_row_of_tag(*tag, rows));
                    for (view, tag) in table.dependents.iter().zip(tags.views) {
                        self.with_group_index(*view, |index, view| {
                            index.prefetch_row_of_tag(*tag, &view.contents.rows);
                        });
                    }
                }
                Read::Update { .. } | Read::Delete if !rows.pages.is_live(row) => {}
                Read::Update { columns, .. } => {
                    self.ask_for_groups_of(table, row);
                    // What was there is freed, where it begins.
                    columns.iter().for_each(|column| table.prefetch_value(row, *column, 1));
                }
                Read::Delete => {
                    self.ask_for_groups_of(table, row);
                    let stored = rows.row(row);
                    for index in &table.contents.indexes {
                        index.prefetch_tag(index.tag_of_row(|column| stored.column(column)));
                    }
                }
            }
        }
    }

    /// For the buckets of the groups to which a stored row belongs in the views that follow its
    /// table.
    fn ask_for_groups_of(&self, table: &TableData, row: RowId) {
        let stored = table.contents.rows.row(row);
        for view in &table.dependents {
            let plan = self.plans[view.index()].as_deref().expect("views have plans");
            if let Some(columns) = &plan.group_columns {
                self.with_group_index(*view, |index, _| {
                    index.prefetch_tag(index.tag_of_parts(|part| stored.column(columns[part])));
                });
            }
        }
    }

    /// Calls `visit` with the index by which the groups of a view are found, if there is one, and
    /// the view.
    #[inline]
    fn with_group_index(&self, view: TableId, visit: impl FnOnce(&crate::index::IndexData, &TableData)) {
        let plan = self.plans[view.index()].as_deref().expect("views have plans");
        let view = self.table(view);
        if let Some(position) = plan.group_index {
            visit(&view.contents.indexes[position], view);
        }
    }
}
