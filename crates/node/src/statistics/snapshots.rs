//! SNAPSHOTSTATUS and SNAPSHOTSUMMARY: the snapshots and backups that this server has written lately, and those that it writes.

use super::layouts::{SNAPSHOT_STATUS, SNAPSHOT_SUMMARY};
use super::{BASE, base, empty};
use crate::result::{Cell, SystemTable, cells};
use crate::shared::Shared;
use crate::snapshots::Attempt;
use ferrite_partition::snapshots::DIRECTORY;
use ferrite_snapshot::own_name;
use ferrite_value::OwnedValue;
use std::sync::atomic::Ordering::Relaxed;

/// Automatic and asked for alike: they are the database's own.
const TYPE: &str = "COMMANDLOG";
/// Backups, in directories that callers name.
const BACKUP: &str = "MANUAL";

fn path(shared: &Shared) -> String {
    shared.identity.dir.join(DIRECTORY).display().to_string()
}

/// A row per partition's file. Times in milliseconds since 1970, durations in seconds, sizes in bytes.
pub fn status(shared: &Shared) -> SystemTable {
    let mut table = empty(&[BASE, SNAPSHOT_STATUS]);
    for Attempt { snapshot, begun_ms, ended_ms, outcome } in shared.snapshot_status.attempts() {
        let (bytes, result) = match &outcome {
            Ok(saved) => (saved.bytes as i64, "SUCCESS"),
            Err(_) => (0, "FAILURE"),
        };
        let milliseconds = (ended_ms - begun_ms).max(1);
        let row: [Cell; 12] = cells![
            "",
            path(shared),
            format!("{}.manifest", own_name(snapshot)),
            own_name(snapshot),
            snapshot as i64,
            begun_ms,
            ended_ms,
            bytes,
            milliseconds / 1_000,
            OwnedValue::Float(bytes as f64 / milliseconds as f64 * 1_000.0),
            result,
            TYPE
        ];
        table.row(base(shared).into_iter().chain(row));
    }
    for backup in shared.backup.attempts() {
        let Some((ended_ms, outcome)) = backup.ended else { continue };
        let (bytes, result) = outcome.map_or((0, "FAILURE"), |bytes| (bytes as i64, "SUCCESS"));
        let milliseconds = (ended_ms - backup.begun_ms).max(1);
        let row: [Cell; 12] = cells![
            "",
            backup.dir.display().to_string(),
            backup.file,
            backup.nonce,
            0i64,
            backup.begun_ms,
            ended_ms,
            bytes,
            milliseconds / 1_000,
            OwnedValue::Float(bytes as f64 / milliseconds as f64 * 1_000.0),
            result,
            BACKUP
        ];
        table.row(base(shared).into_iter().chain(row));
    }
    table
}

pub fn summary(shared: &Shared) -> SystemTable {
    let mut table = empty(&[SNAPSHOT_SUMMARY]);
    let mut row = |snapshot: u64, begun: i64, ended: i64, percent: f64, result: &str| {
        let duration = ((ended - begun) / 1_000).max(0);
        let row: [Cell; 9] = cells![
            own_name(snapshot),
            snapshot as i64,
            TYPE,
            path(shared),
            begun,
            ended,
            duration,
            OwnedValue::Float(percent),
            result
        ];
        table.row(row);
    };
    let attempts = shared.snapshot_status.attempts();
    // Each byte is written and read back; how many there will be is taken from the last that succeeded.
    let expected = attempts.iter().rev().find_map(|attempt| attempt.outcome.as_ref().ok()).map(|saved| 2 * saved.bytes);
    for Attempt { snapshot, begun_ms, ended_ms, outcome } in attempts {
        let (percent, result) = if outcome.is_ok() { (100.0, "SUCCESS") } else { (0.0, "FAILURE") };
        row(snapshot, begun_ms, ended_ms, percent, result);
    }
    let running = shared.snapshot_status.running.load(Relaxed);
    if running > 0 {
        let done = shared.snapshot_status.bytes_done.load(Relaxed) as f64;
        let percent = expected.map_or(0.0, |expected| (100.0 * done / expected.max(1) as f64).min(99.0));
        row(running, 0, 0, percent, "IN_PROGRESS");
    }
    for backup in shared.backup.attempts() {
        let (ended, percent, result) = match backup.ended {
            None => (0, 0.0, "IN_PROGRESS"),
            Some((at, Ok(_))) => (at, 100.0, "SUCCESS"),
            Some((at, Err(_))) => (at, 0.0, "FAILURE"),
        };
        let row: [Cell; 9] = cells![
            backup.nonce,
            0i64,
            BACKUP,
            backup.dir.display().to_string(),
            backup.begun_ms,
            ended,
            ((ended - backup.begun_ms) / 1_000).max(0),
            OwnedValue::Float(percent),
            result
        ];
        table.row(row);
    }
    table
}
