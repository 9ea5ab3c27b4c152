//! What a start has found, for operators and statistics.

use crate::recovery::Loaded;
use ferrite_base::GroupId;
use ferrite_value::Value;
use ferrite_value::text::to_text_string;
use std::path::PathBuf;
use std::time::Duration;

/// What recovery found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub created: bool,
    /// It had no schema, and was given its first one at this start.
    pub begun: bool,
    pub transactions: u64,
    /// Rows inserted, changed or deleted by these transactions.
    pub row_changes: u64,
    pub schema_changes: u64,
    pub log_bytes: u64,
    /// First and last segment that was read.
    pub log_segments: (u64, u64),
    /// All of it, reading snapshots and log and building indexes.
    pub duration: Duration,
    /// Of the log alone.
    pub replay_duration: Duration,
    /// The log ended in good order.
    pub clean: bool,
    /// Bytes at the end of the log that were no whole write, and were cut off.
    pub torn_bytes: u64,
    /// Files that keep what was cut at the operator's word.
    pub quarantined: Vec<PathBuf>,
    /// That the first of the node's groups began with, with the rows and bytes of all of them.
    pub snapshot: Option<Loaded>,
    /// A server ran here with durability memory and did not stop in an orderly way: the database is
    /// as of this time, microseconds since 1970, and what was acknowledged after it is gone.
    pub without_redo: Option<i64>,
    /// The snapshot that each group began with; 0: none.
    pub loaded: Vec<(GroupId, u64)>,
    /// Snapshots that could not be used, newest first, and why; group by group.
    pub damaged: Vec<(u64, String)>,
    /// Threads that loaded and replayed.
    pub threads: usize,
}

impl Summary {
    /// What operators are told where the server before ran without redo and was not stopped.
    pub fn loss_without_redo(&self) -> Option<String> {
        self.without_redo.map(|time| {
            format!(
                "the server that ran here before, with --durability memory, did not stop in an orderly way. The database is as \
                 of {} UTC; what was acknowledged after that is lost, as this durability allows",
                to_text_string(&Value::Timestamp(time))
            )
        })
    }
}
