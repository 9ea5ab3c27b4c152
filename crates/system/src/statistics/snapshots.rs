//! SNAPSHOTSTATUS and SNAPSHOTSUMMARY: the snapshots and backups that this server has written
//! lately, and those that it writes.

use super::layouts::{SNAPSHOT_STATUS, SNAPSHOT_SUMMARY};
use super::{BASE, base, empty};
use crate::result::{Cell, SystemTable, cells};
use crate::saved::Attempt;
use crate::sources::Sources;
use ferrite_base::GroupId;
use ferrite_partition::snapshots::directory;
use ferrite_snapshot::own_name;
use ferrite_value::OwnedValue;
use std::sync::atomic::Ordering::Relaxed;

/// Automatic and asked for alike: they are the database's own.
const TYPE: &str = "COMMANDLOG";
/// Backups, in directories that callers name.
const BACKUP: &str = "MANUAL";

fn path(sources: &Sources<'_>, group: GroupId) -> String {
    directory(&sources.identity.dir, group).display().to_string()
}

/// A snapshot or backup whose writing has ended. Times in milliseconds since 1970.
struct Written {
    path: String,
    file: String,
    nonce: String,
    number: i64,
    begun_ms: i64,
    ended_ms: i64,
    /// None: it failed.
    bytes: Option<i64>,
    kind: &'static str,
}

impl Written {
    /// Durations in seconds, sizes in bytes.
    fn cells(self) -> [Cell; 12] {
        let (bytes, result) = self.bytes.map_or((0, "FAILURE"), |bytes| (bytes, "SUCCESS"));
        let milliseconds = (self.ended_ms - self.begun_ms).max(1);
        cells![
            "",
            self.path,
            self.file,
            self.nonce,
            self.number,
            self.begun_ms,
            self.ended_ms,
            bytes,
            milliseconds / 1_000,
            OwnedValue::Float(bytes as f64 / milliseconds as f64 * 1_000.0),
            result,
            self.kind
        ]
    }
}

/// A row for each that has ended.
pub fn status(sources: &Sources<'_>) -> SystemTable {
    status_of(sources, |_| true, true)
}

/// A row for each of that group's that has ended. `with_backups`: and for each backup that the node
/// has made, which are of no group.
pub fn group_status(sources: &Sources<'_>, group: GroupId, with_backups: bool) -> SystemTable {
    status_of(sources, |own| own == group, with_backups)
}

fn status_of(sources: &Sources<'_>, is_meant: impl Fn(GroupId) -> bool, with_backups: bool) -> SystemTable {
    let snapshots = sources.snapshot_status.attempts().into_iter().filter(|attempt| is_meant(attempt.group));
    let snapshots = snapshots.map(|attempt| {
        let Attempt { group, snapshot, begun_ms, ended_ms, outcome } = attempt;
        Written {
            path: path(sources, group),
            file: format!("{}.manifest", own_name(snapshot)),
            nonce: own_name(snapshot),
            number: snapshot as i64,
            begun_ms,
            ended_ms,
            bytes: outcome.ok().map(|saved| saved.bytes as i64),
            kind: TYPE,
        }
    });
    let backups = sources.backups.iter().filter(|_| with_backups).cloned().filter_map(|backup| {
        let (ended_ms, outcome) = backup.ended?;
        Some(Written {
            path: backup.dir.display().to_string(),
            file: backup.file,
            nonce: backup.nonce,
            number: 0,
            begun_ms: backup.begun_ms,
            ended_ms,
            bytes: outcome.ok().map(|bytes| bytes as i64),
            kind: BACKUP,
        })
    });
    let mut table = empty(&[BASE, SNAPSHOT_STATUS]);
    for written in snapshots.chain(backups) {
        table.row(base(sources).into_iter().chain(written.cells()));
    }
    table
}

pub fn summary(sources: &Sources<'_>) -> SystemTable {
    let mut table = empty(&[SNAPSHOT_SUMMARY]);
    let mut row =
        |nonce: String, number: u64, of: (&str, String), [begun, ended]: [i64; 2], percent: f64, result: &str| {
            let (kind, path) = of;
            let duration = ((ended - begun) / 1_000).max(0);
            let percent = OwnedValue::Float(percent);
            let row: [Cell; 9] = cells![nonce, number as i64, kind, path, begun, ended, duration, percent, result];
            table.row(row);
        };
    let own = |group| (TYPE, path(sources, group));
    let attempts = sources.snapshot_status.attempts();
    // Each byte is written and read back; how many there will be is taken from the last that
    // succeeded.
    let expected = attempts.iter().rev().find_map(|attempt| attempt.outcome.as_ref().ok()).map(|saved| 2 * saved.bytes);
    for Attempt { group, snapshot, begun_ms, ended_ms, outcome } in attempts {
        let (percent, result) = if outcome.is_ok() { (100.0, "SUCCESS") } else { (0.0, "FAILURE") };
        row(own_name(snapshot), snapshot, own(group), [begun_ms, ended_ms], percent, result);
    }
    let running = sources.snapshot_status.running.load(Relaxed);
    if running > 0 {
        let done = sources.snapshot_status.bytes_done.load(Relaxed) as f64;
        let percent = expected.map_or(0.0, |expected| (100.0 * done / expected.max(1) as f64).min(99.0));
        let group = GroupId(sources.snapshot_status.running_group.load(Relaxed));
        row(own_name(running), running, own(group), [0, 0], percent, "IN_PROGRESS");
    }
    for backup in sources.backups.iter().cloned() {
        let (ended, percent, result) = match backup.ended {
            None => (0, 0.0, "IN_PROGRESS"),
            Some((at, Ok(_))) => (at, 100.0, "SUCCESS"),
            Some((at, Err(_))) => (at, 0.0, "FAILURE"),
        };
        let of = (BACKUP, backup.dir.display().to_string());
        row(backup.nonce, 0, of, [backup.begun_ms, ended], percent, result);
    }
    table
}
