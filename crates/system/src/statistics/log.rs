//! COMMANDLOG and RECOVERY: the redo log, the newest snapshot, and what the start has found.

use super::{count, empty, one_row};
use crate::result::{Cell, Columns, SystemTable, cells};
use crate::sources::Sources;
use ferrite_io::{Clock, SystemClock};
use ferrite_partition::Seen;
use ferrite_snapshot::own_name;
use ferrite_value::SqlType::{Bigint, Integer, Varchar};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub fn command_log(sources: &Sources<'_>) -> SystemTable {
    // Milliseconds; 0 when each answer waits for fsync.
    let segment = sources.log.segment.load(Relaxed);
    // A directory that cannot be read is the log's to tell of.
    let (in_use, there) = ferrite_log::count_segments(sources.disk, &sources.identity.dir, segment).unwrap_or_default();
    let interval = sources.identity.durability.strip_prefix("interval=").and_then(|text| text.parse().ok());
    one_row(
        sources,
        &[
            ("OUTSTANDING_BYTES", Bigint),
            ("OUTSTANDING_TXNS", Bigint),
            ("IN_USE_SEGMENT_COUNT", Integer),
            ("SEGMENT_COUNT", Integer),
            ("FSYNC_INTERVAL", Integer),
        ],
        cells![
            sources.log.queue_bytes.load(Relaxed) as i64,
            sources.log.queue_depth.load(Relaxed) as i64,
            in_use as i64,
            there as i64,
            interval.unwrap_or(0i64)
        ],
    )
}

/// Ours: how long it takes to make a batch durable, what the log takes on the disk, how old the
/// newest snapshot is. Times in microseconds, of the snapshot in milliseconds. NULL: there is none,
/// or it was taken before this start.
pub fn durability(sources: &Sources<'_>) -> SystemTable {
    let log = &sources.log;
    let dir = &sources.identity.dir;
    let bytes = ferrite_log::bytes_on_disk(sources.disk, dir, 0).unwrap_or(0);
    let micros = |time: Duration| time.as_micros() as i64;
    let attempts = sources.snapshot_status.attempts();
    let newest = attempts.iter().rev().find_map(|attempt| Some((attempt, attempt.outcome.as_ref().ok()?)));
    let found = sources.recovery.snapshot;
    let number = newest.map(|(_, saved)| saved.snapshot).or(found.map(|found| found.snapshot));
    let taken = newest.map(|(_, saved)| saved.taken).or(found.map(|found| found.taken));
    let age = taken.map(|taken| (SystemClock.wall_micros() - taken).max(0) / 1_000);
    one_row(
        sources,
        &[
            ("FSYNCS", Bigint),
            ("FSYNC_MEDIAN", Bigint),
            ("FSYNC_99_PERCENT", Bigint),
            ("FSYNC_MAX", Bigint),
            ("BYTES_ON_DISK", Bigint),
            ("BYTES_WRITTEN", Bigint),
            ("SNAPSHOT", Varchar),
            ("SNAPSHOT_AGE", Bigint),
            ("SNAPSHOT_DURATION", Bigint),
            ("SNAPSHOT_BYTES", Bigint),
        ],
        cells![
            count(log.fsyncs.count()),
            micros(log.fsyncs.median()),
            micros(log.fsyncs.quantile(0.99)),
            micros(log.fsyncs.quantile(1.0)),
            count(bytes),
            count(log.written_bytes.load(Relaxed)),
            number.map(own_name),
            age,
            newest.map(|(attempt, _)| attempt.ended_ms - attempt.begun_ms),
            newest.map(|(_, saved)| saved.bytes).or(found.map(|found| found.bytes)).map(count)
        ],
    )
}

/// Ours: how far the recovery is, which is over here, and what it has found.
pub fn recovery(sources: &Sources<'_>) -> Vec<SystemTable> {
    const COLUMNS: &Columns = &[
        ("SNAPSHOT", Varchar),
        ("SNAPSHOT_ROWS", Bigint),
        ("SNAPSHOT_BYTES", Bigint),
        ("SNAPSHOT_DURATION", Bigint),
        ("TRANSACTIONS", Bigint),
        ("ROW_CHANGES", Bigint),
        ("SCHEMA_CHANGES", Bigint),
        ("LOG_BYTES", Bigint),
        ("FIRST_SEGMENT", Bigint),
        ("LAST_SEGMENT", Bigint),
        ("LOG_DURATION", Bigint),
        ("ROW_CHANGES_PER_SECOND", Bigint),
        ("LOG_BYTES_PER_SECOND", Bigint),
        ("DURATION", Bigint),
        ("TORN_BYTES", Bigint),
        ("DAMAGED_SNAPSHOTS", Varchar),
    ];
    let found = &sources.recovery;
    let milliseconds = |time: Duration| time.as_millis() as i64;
    let rate = |amount: u64| (amount as f64 / found.replay_duration.as_secs_f64().max(1e-6)) as i64;
    let damaged: Vec<String> =
        found.damaged.iter().map(|(snapshot, why)| format!("{}: {why}", own_name(*snapshot))).collect();
    let mut summary = empty(&[super::BASE, COLUMNS]);
    let row: [Cell; 16] = cells![
        found.snapshot.map(|loaded| own_name(loaded.snapshot)),
        found.snapshot.map(|loaded| count(loaded.rows)),
        found.snapshot.map(|loaded| count(loaded.bytes)),
        found.snapshot.map(|loaded| milliseconds(loaded.duration)),
        count(found.transactions),
        count(found.row_changes),
        count(found.schema_changes),
        count(found.log_bytes),
        count(found.log_segments.0),
        count(found.log_segments.1),
        milliseconds(found.replay_duration),
        rate(found.row_changes),
        rate(found.log_bytes),
        milliseconds(found.duration),
        count(found.torn_bytes),
        damaged.join("; ")
    ];
    summary.row(super::base(sources).into_iter().chain(row));
    vec![progress(None), summary]
}

/// How far a recovery is; None: it is over. The same table while nothing else is answered.
pub fn progress(seen: Option<Seen>) -> SystemTable {
    let mut table = SystemTable::new(&[
        ("STATE", Varchar),
        ("PHASE", Varchar),
        ("BYTES", Bigint),
        ("BYTES_TOTAL", Bigint),
        ("ROWS", Bigint),
        ("DURATION", Bigint),
        ("BYTES_PER_SECOND", Bigint),
    ]);
    match seen {
        None => table.row(cells!["DONE", Cell::NULL, Cell::NULL, Cell::NULL, Cell::NULL, Cell::NULL, Cell::NULL]),
        Some(Seen { phase, bytes, bytes_total, rows, elapsed }) => table.row(cells![
            "RECOVERING",
            phase,
            count(bytes),
            count(bytes_total),
            count(rows),
            elapsed.as_millis() as i64,
            (bytes as f64 / elapsed.as_secs_f64().max(1e-6)) as i64
        ]),
    }
    table
}
