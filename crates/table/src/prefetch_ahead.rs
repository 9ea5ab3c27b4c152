//! Memory that a transaction of the log will need, asked for before it is applied.
//!
//! In a large table every hash look-up and every row is a cache miss of its own, longer than all
//! the computing around it. Replay knows what comes next: asking early lets the misses of several
//! transactions overlap. Nothing here changes anything or is relied on, and what cannot be read is
//! left for [`Store::apply_redo`] to refuse.

use crate::redo::{self, Reader, RedoError};
use crate::store::Store;
use crate::table::TableData;
use ferrite_base::{RowId, TableId};
use ferrite_value::Value;

/// Further changes of a transaction are not asked for: it would be long until they are made.
const CHANGES_MAX: usize = 8;
/// Nor are wider rows, which cost more to read twice.
const COLUMNS_MAX: usize = 16;

/// What is asked for, some transactions apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ahead {
    /// Buckets of the keys of inserted rows; rows that will be updated or deleted.
    First,
    /// What those lead to: rows in the buckets, buckets of the keys of stored rows.
    Second,
}

impl Store {
    /// Asks the processor to have at hand soon what `changes`, those of one transaction, will read
    /// and write.
    pub fn prefetch_ahead(&self, changes: &[u8], ahead: Ahead) {
        // An error here is an error there, where it is told.
        let _ = self.ask_for_changes(changes, ahead);
    }

    fn ask_for_changes(&self, changes: &[u8], ahead: Ahead) -> Result<(), RedoError> {
        let mut reader = Reader::new(changes);
        for _ in 0..CHANGES_MAX {
            if reader.is_empty() {
                break;
            }
            let kind = reader.byte()?;
            let id = TableId(reader.varint()?);
            let Some(table) = self.find_table(id) else { break };
            if !matches!(kind, redo::INSERT | redo::UPDATE | redo::DELETE) {
                break;
            }
            let row = RowId(reader.varint()?);
            if kind == redo::INSERT {
                let mut values = [Value::Null; COLUMNS_MAX];
                let Some(values) = values.get_mut(..table.layout().columns.len()) else { break };
                reader.row(id, table.layout(), values)?;
                let value = |column: u16| values[column as usize];
                self.ask_for_indexes(table, value, ahead);
                self.ask_for_groups(table, value, ahead);
                continue;
            }
            let rows = &table.contents.rows;
            match ahead {
                Ahead::First => rows.pages.prefetch(row),
                Ahead::Second if rows.pages.is_live(row) => {
                    let stored = rows.row(row);
                    self.ask_for_groups(table, |column| stored.column(column), Ahead::First);
                    if kind == redo::DELETE {
                        self.ask_for_indexes(table, |column| stored.column(column), Ahead::First);
                    }
                }
                Ahead::Second => break,
            }
            if kind == redo::UPDATE {
                reader.skip_update(id, table.layout())?;
            }
        }
        Ok(())
    }

    /// For the table's own indexes, with the values of a row by their columns.
    #[inline]
    fn ask_for_indexes<'v>(&self, table: &TableData, value: impl Fn(u16) -> Value<'v>, ahead: Ahead) {
        for index in &table.contents.indexes {
            match ahead {
                Ahead::First => index.prefetch_key_of(&value),
                Ahead::Second => index.prefetch_row_of(&value, &table.contents.rows),
            }
        }
    }

    /// For the groups to which a row belongs in the views that follow the table.
    #[inline]
    fn ask_for_groups<'v>(&self, table: &TableData, value: impl Fn(u16) -> Value<'v>, ahead: Ahead) {
        for view in &table.dependents {
            let plan = self.plans[view.index()].as_deref().expect("views have plans");
            let (Some(columns), Some(position)) = (&plan.group_columns, plan.group_index) else { continue };
            let contents = &self.table(*view).contents;
            let part = |part: usize| value(columns[part]);
            match ahead {
                Ahead::First => contents.indexes[position].prefetch_parts(part),
                Ahead::Second => contents.indexes[position].prefetch_row_of_parts(part, &contents.rows),
            }
        }
    }
}
