//! How many rows the tables have, and a sample of the values that their ordered indexes begin with,
//! for the planner: each partition publishes them now and then, and nothing waits for it.
//!
//! They are of some moment not long ago. Plans made with them are right whatever they are.

use ferrite_base::{TableId, limits};
use ferrite_catalog::{IndexKind, Table};
use ferrite_expr::Expr;
use ferrite_sql::Statistics;
use ferrite_table::{Store, TableData};
use ferrite_value::{OwnedValue, SqlType, compare};
use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// A table with fewer rows is thought to have this many: small counts are the first to be out of
/// date.
const ROWS_MIN: u64 = 100;

/// A sample of a table with this many rows fewer or more, as a part of them, is out of date.
const SAMPLE_DRIFT_PART: u64 = 8;
/// The counts are published this often, about, before a table is sampled again: its rows may be
/// others, though as many.
const SAMPLED_EVERY: u32 = 16_384;
/// The least part of the rows that a range is thought to have, in rows of the sample.
const SAMPLE_ROWS_MIN: f64 = 0.5;

struct Count {
    table: Arc<Table>,
    rows: u64,
    sample: Sample,
}

/// Values of some rows.
#[derive(Default)]
struct Sample {
    /// By column, without NULL.
    columns: Vec<(u16, Vec<OwnedValue>)>,
    rows: usize,
    /// What the table had then, and how often it was published since.
    rows_then: u64,
    age: u32,
}

pub struct RowCounts {
    /// By number, of the whole cluster.
    partitions: Vec<Mutex<Vec<Count>>>,
    /// How many of them are here, and publish counts.
    here: usize,
}

impl RowCounts {
    /// Of partitions that are all here.
    pub fn new(partitions: usize) -> RowCounts {
        RowCounts::of_some(partitions, partitions)
    }

    /// Of partitions of which so many are here: the others are thought to have as many rows each.
    pub fn of_some(partitions: usize, here: usize) -> RowCounts {
        assert!((1..=partitions).contains(&here), "a node has partitions of its cluster");
        RowCounts { partitions: (0..partitions).map(|_| Mutex::default()).collect(), here }
    }

    /// Says how many rows the store's tables have now.
    pub fn publish(&self, store: &Store) {
        let partition = store.partition().index();
        let Some(counts) = self.partitions.get(partition) else { return };
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let tables = &store.catalog().tables;
        for (place, table) in tables.values().enumerate() {
            let data = store.table(table.id);
            let rows = data.row_count();
            match counts.get_mut(place).filter(|count| Arc::ptr_eq(&count.table, table)) {
                Some(count) => {
                    count.rows = rows;
                    if count.sample.is_out_of_date(rows) {
                        count.sample = Sample::of(table, data, partition);
                    }
                }
                // The schema has changed.
                None => {
                    counts.truncate(place);
                    counts.push(Count { table: Arc::clone(table), rows, sample: Sample::of(table, data, partition) });
                }
            }
        }
        counts.truncate(tables.len());
    }
}

impl Sample {
    /// Of a table that is on all partitions, the first one's.
    fn of(table: &Table, data: &TableData, partition: usize) -> Sample {
        let mut columns: Vec<(u16, Vec<OwnedValue>)> = Vec::new();
        let is_asked = table.is_partitioned() || partition == 0;
        for index in table.indexes.iter().filter(|index| is_asked && index.kind == IndexKind::Ordered) {
            if let Some(Expr::Column { column, .. }) = index.keys.first()
                && is_sampled(table.columns[usize::from(*column)].column_type.sql_type)
                && columns.iter().all(|(known, _)| known != column)
            {
                columns.push((*column, Vec::new()));
            }
        }
        let mut rows = 0;
        if !columns.is_empty() {
            for id in data.sample(limits::SAMPLE_ROWS) {
                rows += 1;
                let row = data.row(id);
                for (column, values) in &mut columns {
                    let value = row.column(*column);
                    if !value.is_null() {
                        values.push(value.to_owned_value());
                    }
                }
            }
        }
        Sample { columns, rows, rows_then: data.row_count(), age: 0 }
    }

    /// Whether it may be none of a table that has this many rows now.
    fn is_out_of_date(&mut self, rows: u64) -> bool {
        self.age += 1;
        self.rows_then.abs_diff(rows) > self.rows_then / SAMPLE_DRIFT_PART || self.age >= SAMPLED_EVERY
    }

    /// How many rows of the sample have a value between the bounds, and how many there are.
    fn between(&self, column: u16, lower: Option<&OwnedValue>, upper: Option<&OwnedValue>) -> Option<(usize, usize)> {
        let (_, values) = self.columns.iter().find(|(known, _)| *known == column)?;
        let is_beyond = |value: &OwnedValue, bound: Option<&OwnedValue>, beyond: Ordering| {
            bound.is_some_and(|bound| compare::order(&value.as_value(), &bound.as_value()) == beyond)
        };
        let inside = values
            .iter()
            .filter(|value| !is_beyond(value, lower, Ordering::Less) && !is_beyond(value, upper, Ordering::Greater));
        Some((inside.count(), self.rows))
    }
}

/// Values of these types are small.
fn is_sampled(sql_type: SqlType) -> bool {
    sql_type.is_numeric() || matches!(sql_type, SqlType::Timestamp | SqlType::Date)
}

impl Statistics for RowCounts {
    fn rows(&self, table: TableId) -> Option<u64> {
        let mut total = None;
        for counts in &self.partitions {
            let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(count) = counts.iter().find(|count| count.table.id == table) else { continue };
            if !count.table.is_partitioned() {
                return Some(count.rows.max(ROWS_MIN));
            }
            total = Some(total.unwrap_or(0) + count.rows);
        }
        let total = total.map(|rows| rows * self.partitions.len() as u64 / self.here as u64);
        total.map(|rows| rows.max(ROWS_MIN))
    }

    fn partitions(&self) -> u64 {
        self.partitions.len() as u64
    }

    fn part_between(
        &self,
        table: TableId,
        column: u16,
        lower: Option<&OwnedValue>,
        upper: Option<&OwnedValue>,
    ) -> Option<f64> {
        let mut inside = 0;
        let mut rows = 0;
        for counts in &self.partitions {
            let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(count) = counts.iter().find(|count| count.table.id == table) else { continue };
            let (found, of) = count.sample.between(column, lower, upper)?;
            inside += found;
            rows += of;
            if !count.table.is_partitioned() {
                break;
            }
        }
        (rows > 0).then(|| (inside as f64).max(SAMPLE_ROWS_MIN) / rows as f64)
    }
}
