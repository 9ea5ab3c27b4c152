//! Copies of replicated tables are compared with those of other groups, and made equal to those of
//! one of them, after an accepted loss (docs/decisions/0129).
//!
//! Invariants:
//! - rows are changed as a call of the lot changes them: with undo, and with redo in the group's
//!   part;
//! - all stores of the group make the same changes in the same order, so that they stay equal where
//!   a step ends early;
//! - rows are replaced only while a group that is unequal refuses calls of replicated tables: then
//!   no group has changed one since they were compared;
//! - a row that a unique index refuses is left for a later step: the one that is in its place is
//!   deleted by then, since no other group has both.

use super::Coordinator;
use super::lot_hold::Hold;
use crate::equalize::{
    BucketDigest, CountedRow, EqualizeStep, GroupDigest, as_table, bucket_of, encode_rows, row_hash,
};
use ferrite_base::{RowId, TableId, UserError, UserResult};
use ferrite_catalog::{Table, TableKind};
use ferrite_table::{Store, TableData, UNIQUE_VIOLATION};
use std::collections::{BTreeMap, BTreeSet};

impl Coordinator {
    /// Does the step on the stores that the lot holds, which are all of the group.
    pub(super) fn equalize(&mut self, hold: &mut Hold, step: &[u8]) -> UserResult<Vec<Option<Vec<u8>>>> {
        let step = EqualizeStep::decode(step)
            .map_err(|_| UserError::internal("a step of making replicated tables equal is malformed"))?;
        if hold.borrowed.iter().any(Option::is_none) {
            return Err(UserError::internal("replicated tables are made equal while all partitions are held"));
        }
        let group = self.of.group();
        let is_unequal = self.long_reads.cancellations().is_unequal();
        let said = self.with_held_stores(hold, |_, stores| match step {
            EqualizeStep::Digest(tables) => Ok(Some(GroupDigest { is_unequal, ..digest(stores, &tables) }.encode())),
            EqualizeStep::Rows { source, table, buckets, wanted } if source == group => {
                let wanted = wanted.into_iter().collect();
                Ok(Some(encode_rows(&rows_of(table_of(&stores[0], table)?, buckets, &wanted))))
            }
            EqualizeStep::Rows { .. } => Ok(None),
            EqualizeStep::Replace { unequal, .. } if unequal.contains(&group) && !is_unequal => {
                Err(UserError::not_started("the copies of replicated tables are in use again"))
            }
            EqualizeStep::Replace { table, buckets, wanted, bytes_max, rows, .. } => {
                let wanted = Wanted { table, buckets, wanted: wanted.into_iter().collect(), rows: &rows };
                replace_in_all(stores, &wanted, bytes_max).map(|changed| Some(changed.to_le_bytes().to_vec()))
            }
        })?;
        Ok(vec![said.map(|bytes| as_table(group, &bytes))])
    }
}

impl Coordinator {
    /// What concerns all tables is not done while the group's copies of replicated tables may
    /// differ from those of others: schema changes, backups.
    pub(super) fn require_equal(&self) -> UserResult<()> {
        let list = self.long_reads.cancellations();
        if list.is_unequal() { Err(list.unequal()) } else { Ok(()) }
    }
}

/// Every partition has all of its rows, and none of them follows from other tables.
fn is_replicated(table: &Table) -> bool {
    table.kind == TableKind::Table && !table.is_partitioned()
}

fn table_of(store: &Store, id: TableId) -> UserResult<&TableData> {
    let table = store.find_table(id).filter(|table| is_replicated(table.definition()));
    table.ok_or_else(|| UserError::internal(format!("there is no replicated table {id}")))
}

/// What the stores have. `asked`: which tables, each in so many buckets; none: all, in one.
fn digest(stores: &[Store], asked: &[(TableId, u32)]) -> GroupDigest {
    let mut digest = GroupDigest { stores: stores.len() as u32, ..GroupDigest::default() };
    let mut row = Vec::new();
    for table in stores.iter().flat_map(Store::tables).filter(|table| is_replicated(table.definition())) {
        let id = table.definition().id;
        let buckets = match asked {
            [] => 1,
            asked => match asked.iter().find(|(asked, _)| *asked == id) {
                Some((_, buckets)) => *buckets,
                None => continue,
            },
        };
        let known: &mut BTreeMap<u32, BucketDigest> = digest.tables.entry(id).or_default();
        for place in table.scan() {
            row.clear();
            table.write_row(place, &mut row);
            let hash = row_hash(&row);
            known.entry(bucket_of(hash, buckets)).or_default().add(&row, hash);
        }
    }
    digest
}

/// The rows of these buckets, equal ones counted, in the order of their hashes.
fn rows_of(table: &TableData, buckets: u32, wanted: &BTreeSet<u32>) -> Vec<CountedRow> {
    let mut rows = BTreeMap::<u128, CountedRow>::new();
    let mut row = Vec::new();
    for place in table.scan() {
        row.clear();
        table.write_row(place, &mut row);
        let hash = row_hash(&row);
        if wanted.contains(&bucket_of(hash, buckets)) {
            let counted = rows.entry(hash).or_insert_with(|| CountedRow { count: 0, row: row.clone() });
            counted.count += 1;
        }
    }
    rows.into_values().collect()
}

/// What a store is to have in some buckets of a table.
struct Wanted<'r> {
    table: TableId,
    buckets: u32,
    wanted: BTreeSet<u32>,
    rows: &'r [CountedRow],
}

/// How many rows were changed, in all stores. On failure they are as before.
fn replace_in_all(stores: &mut [Store], wanted: &Wanted<'_>, bytes_max: u64) -> UserResult<u64> {
    let marks = ferrite_exec::set_marks(stores);
    let share = bytes_max / stores.len() as u64;
    let each = stores.iter_mut().map(|store| replace(store, wanted, share));
    let changed = each.sum::<UserResult<u64>>().and_then(|changed| {
        Store::check_size_together(stores)?;
        Ok(changed)
    });
    if changed.is_err() {
        ferrite_exec::roll_back(stores, marks);
    }
    changed
}

/// Deletes what the source does not have, then inserts what is missing, up to so many bytes.
fn replace(store: &mut Store, wanted: &Wanted<'_>, bytes_max: u64) -> UserResult<u64> {
    let id = wanted.table;
    let table = table_of(store, id)?;
    let mut present = BTreeMap::<u128, (u64, Vec<RowId>)>::new();
    let mut row = Vec::new();
    for place in table.scan() {
        row.clear();
        table.write_row(place, &mut row);
        let hash = row_hash(&row);
        if wanted.wanted.contains(&bucket_of(hash, wanted.buckets)) {
            let known = present.entry(hash).or_insert_with(|| (row.len() as u64, Vec::new()));
            known.1.push(place);
        }
    }
    let source: BTreeMap<u128, &CountedRow> = wanted.rows.iter().map(|row| (row_hash(&row.row), row)).collect();
    let mut bytes = 0;
    let mut changed = 0;
    for (hash, (length, places)) in &present {
        let kept = source.get(hash).map_or(0, |counted| counted.count);
        for place in places.iter().skip(usize::try_from(kept).unwrap_or(usize::MAX)) {
            if bytes > bytes_max {
                return Ok(changed);
            }
            store.delete(id, *place)?;
            (bytes, changed) = (bytes + length, changed + 1);
        }
    }
    for (hash, counted) in source {
        let there = present.get(&hash).map_or(0, |(_, places)| places.len() as u64);
        for _ in there..counted.count {
            if bytes > bytes_max {
                return Ok(changed);
            }
            if insert(store, id, &counted.row)? {
                (bytes, changed) = (bytes + counted.row.len() as u64, changed + 1);
            }
        }
    }
    Ok(changed)
}

/// Inserts the row, unless another one has a key of it.
fn insert(store: &mut Store, table: TableId, row: &[u8]) -> UserResult<bool> {
    let mark = store.mark();
    let values = store
        .table(table)
        .read_row(row)
        .map_err(|error| UserError::internal(format!("a row of another group does not fit the table: {error}")))?;
    match store.insert(table, &values) {
        Ok(_) => Ok(true),
        Err(error) if error.code() == UNIQUE_VIOLATION => {
            store.rollback_to(mark);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
