//! Snapshots and backups that were written lately, and those that are being written.

use ferrite_base::GroupId;
use ferrite_partition::snapshots::Saved;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// One attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub group: GroupId,
    pub snapshot: u64,
    /// Milliseconds since 1970.
    pub begun_ms: i64,
    pub ended_ms: i64,
    pub outcome: Result<Saved, String>,
}

/// What others can see of the snapshots.
#[derive(Default)]
pub struct SnapshotStatus {
    /// The number of the one that is being written; 0: none is.
    pub running: AtomicU64,
    /// Whose that is.
    pub running_group: AtomicU32,
    /// Bytes written and read back of it.
    pub bytes_done: AtomicU64,
    /// Oldest first.
    pub attempts: Mutex<VecDeque<Attempt>>,
    /// Set when the server stops.
    pub stop: AtomicBool,
}

impl SnapshotStatus {
    /// The newest that was written since the start.
    pub fn newest(&self) -> Option<Saved> {
        let attempts = self.attempts.lock().expect("no panic with the attempts");
        attempts.iter().rev().find_map(|attempt| attempt.outcome.as_ref().ok().cloned())
    }

    pub fn attempts(&self) -> Vec<Attempt> {
        self.attempts.lock().expect("no panic with the attempts").iter().cloned().collect()
    }
}

/// A backup that was begun.
#[derive(Clone, Debug)]
pub struct BackupAttempt {
    pub dir: PathBuf,
    pub nonce: String,
    /// The name of the file that comes last.
    pub file: String,
    /// Milliseconds since 1970.
    pub begun_ms: i64,
    /// When it ended, and its bytes or what went wrong. None: it goes on.
    pub ended: Option<(i64, Result<u64, String>)>,
}
