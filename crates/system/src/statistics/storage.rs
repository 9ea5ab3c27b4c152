//! Figures about tables, indexes and memory.

use super::{BASE, SITE, TIME, base, count, empty, kib, now_ms, one_row};
use crate::expired::expiring;
use crate::result::{Cell, Columns, SystemTable, cells};
use crate::sources::Collected;
use crate::sources::Sources;
use crate::system_information::{physical_memory_kib, status_kib};
use ferrite_base::memory;
use ferrite_catalog::{Catalog, IndexKind, Table, TableKind, VIEW_KEY_INDEX};
use ferrite_partition::counters::{IndexMemory, TableMemory, ThreadReport};
use ferrite_value::OwnedValue;
use ferrite_value::SqlType::{Bigint, Integer, Timestamp, Tinyint, Varchar};
use std::sync::Arc;

type Reports = Collected<Vec<ThreadReport>>;

/// Each partition's part of each table that the catalog has.
fn each(collected: &Reports, catalog: &Catalog, mut row: impl FnMut(i32, &Arc<Table>, &TableMemory)) {
    for report in &collected.reports {
        let Some(partition) = report.partition else { continue };
        let mut tables: Vec<_> =
            report.tables.iter().filter_map(|memory| Some((catalog.table(memory.table)?, memory))).collect();
        tables.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        tables.into_iter().for_each(|(table, memory)| row(partition.0 as i32, table, memory));
    }
}

pub fn tables(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("PARTITION_ID", Bigint),
        ("TABLE_NAME", Varchar),
        ("TABLE_TYPE", Varchar),
        ("TUPLE_COUNT", Bigint),
        ("TUPLE_ALLOCATED_MEMORY", Bigint),
        ("TUPLE_DATA_MEMORY", Bigint),
        ("STRING_DATA_MEMORY", Bigint),
        ("TUPLE_LIMIT", Integer),
        ("PERCENT_FULL", Integer),
        ("DR", Varchar),
        ("EXPORT", Varchar),
    ];
    let mut answer = empty(&[BASE, SITE, COLUMNS]);
    let catalog = &sources.compiled.catalog;
    each(collected, catalog, |partition, table, memory| {
        let kind = if table.kind == TableKind::Stream { "StreamedTable" } else { "PersistentTable" };
        let row = cells![
            partition,
            partition,
            &table.name,
            kind,
            count(memory.rows),
            kib(memory.row_bytes),
            kib(memory.live_row_bytes),
            kib(memory.long_value_bytes),
            Cell::NULL,
            Cell::NULL,
            "false",
            "false"
        ];
        answer.row(base(sources).into_iter().chain(row));
    });
    answer
}

pub fn indexes(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("PARTITION_ID", Bigint),
        ("INDEX_NAME", Varchar),
        ("TABLE_NAME", Varchar),
        ("INDEX_TYPE", Varchar),
        ("IS_UNIQUE", Tinyint),
        ("IS_COUNTABLE", Tinyint),
        ("ENTRY_COUNT", Bigint),
        ("MEMORY_ESTIMATE", Bigint),
    ];
    let mut answer = empty(&[BASE, SITE, COLUMNS]);
    let catalog = &sources.compiled.catalog;
    each(collected, catalog, |partition, table, memory| {
        for index in &memory.indexes {
            let (name, unique, ordered) = description(table, index);
            let row = cells![
                partition,
                partition,
                name,
                &table.name,
                index_type(unique, ordered),
                i32::from(unique),
                i32::from(ordered),
                index.entries as i64,
                kib(index.bytes)
            ];
            answer.row(base(sources).into_iter().chain(row));
        }
    });
    answer
}

/// Name, whether it is unique, whether it is ordered.
fn description<'t>(table: &'t Table, memory: &IndexMemory) -> (&'t str, bool, bool) {
    let index = memory.index.and_then(|id| table.index(id));
    // The one that is not in the catalog is that by which a view finds its groups.
    index.map_or((VIEW_KEY_INDEX, true, false), |index| {
        (index.name.as_str(), index.unique, index.kind == IndexKind::Ordered)
    })
}

/// In the words of the original server, which tools may compare.
fn index_type(unique: bool, ordered: bool) -> &'static str {
    match (ordered, unique) {
        (true, true) => "CompactingTreeUniqueIndex",
        (true, false) => "CompactingTreeMultiMapIndex",
        (false, true) => "CompactingHashUniqueIndex",
        (false, false) => "CompactingHashMultiMapIndex",
    }
}

/// In KiB.
pub fn memory(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    let parts = || collected.reports.iter().flat_map(|report| &report.tables);
    let used = kib(memory::bytes_used());
    // Blocks larger than a page do not come from the reserve.
    let allocated = kib(memory::bytes_reserved()).max(used);
    let rows: u64 = parts().map(|table| table.rows).sum();
    let indexes: usize = parts().flat_map(|table| &table.indexes).map(|index| index.bytes).sum();
    let texts: usize = parts().map(|table| table.long_value_bytes).sum();
    let row_bytes: usize = parts().map(|table| table.row_bytes).sum();
    let live_row_bytes: usize = parts().map(|table| table.live_row_bytes).sum();
    one_row(
        sources,
        &[
            ("RSS", Integer),
            ("JAVAUSED", Integer),
            ("JAVAUNUSED", Integer),
            ("TUPLEDATA", Bigint),
            ("TUPLEALLOCATED", Bigint),
            ("INDEXMEMORY", Bigint),
            ("STRINGMEMORY", Bigint),
            ("TUPLECOUNT", Bigint),
            ("POOLEDMEMORY", Bigint),
            ("PHYSICALMEMORY", Bigint),
            ("JAVAMAXHEAP", Integer),
        ],
        cells![
            status_kib("/proc/self/status", "VmRSS:").min(i64::from(i32::MAX)),
            0,
            0,
            kib(live_row_bytes),
            kib(row_bytes),
            kib(indexes),
            kib(texts),
            count(rows),
            allocated,
            physical_memory_kib(),
            0
        ],
    )
}

/// A row for each table whose rows expire, since the start.
pub fn time_to_live(sources: &Sources<'_>) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("TABLE_NAME", Varchar),
        ("ROWS_DELETED", Bigint),
        ("ROWS_DELETED_LAST_ROUND", Bigint),
        ("ROWS_REMAINING", Bigint),
        ("LAST_DELETE_TIMESTAMP", Timestamp),
    ];
    let mut answer = empty(&[TIME, COLUMNS]);
    for table in expiring(&sources.compiled.catalog, sources.identity.drop_migrating) {
        let expired = sources.expired.of(table.id);
        answer.row(cells![
            now_ms(),
            &table.name,
            count(expired.rows),
            count(expired.rows_last_round),
            expired.remaining.map(count),
            expired.last_micros.map(OwnedValue::Timestamp)
        ]);
    }
    answer
}

/// What the snapshots that somebody reads cost by partition: pages that were changed since, in KiB.
/// Ours.
pub fn snapshots(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns = &[("PARTITION_ID", Integer), ("SNAPSHOTS", Integer), ("SNAPSHOT_MEMORY", Bigint)];
    let mut answer = empty(&[BASE, COLUMNS]);
    for report in &collected.reports {
        let Some(partition) = report.partition else { continue };
        let row = cells![partition.0 as i32, report.snapshots as i32, kib(report.snapshot_bytes)];
        answer.row(base(sources).into_iter().chain(row));
    }
    answer
}
