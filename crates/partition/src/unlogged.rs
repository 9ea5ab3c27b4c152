//! Changes that no log has (`--durability memory`, docs/decisions/0106-durability-memory.md):
//! whether there are any, and the files that tell the next start of them and of the newest
//! snapshot.
//!
//! Invariant: what the disk holds is always one state of the database, that of the newest complete
//! snapshot and of the log after it. In this mode that state moves forward only when a snapshot
//! becomes complete. So nothing may be appended to the group's stream once a change is not in it.

use crate::replay::GroupReplay;
use crate::start_error::StartError;
use ferrite_group::FIRST_GROUP;
use ferrite_io::{Disk, DiskError, DiskResult, small_file};
use ferrite_snapshot::{Found, SnapshotError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exists while a server runs with durability memory, and after one that ended without its last
/// snapshot.
pub const FILE: &str = "memory-run";
/// Exists since the first complete snapshot of such a run, and names the newest one: no log leads
/// to it, so it must not be missed silently.
pub const NEWEST_FILE: &str = "memory-snapshot";
const FILE_BYTES_MAX: usize = 4_096;

/// Shared by all that changes the database, and by all that takes its snapshots.
#[derive(Debug, Default)]
pub struct Unlogged {
    /// Since the last snapshot was taken, or the start.
    changed: AtomicBool,
    /// Since the start: the log does not lead to what the stores hold.
    behind: AtomicBool,
}

impl Unlogged {
    /// Something has changed. Called for every transaction that changes anything: mostly a load.
    #[inline]
    pub fn note(&self) {
        if !self.changed.load(Ordering::Acquire) {
            self.behind.store(true, Ordering::Release);
            self.changed.store(true, Ordering::Release);
        }
    }

    /// A snapshot was taken that shows all changes so far. Its record is in the log, and what
    /// follows counts for a start only if the snapshot becomes complete.
    pub fn snapshot_taken(&self) {
        self.behind.store(true, Ordering::Release);
        self.changed.store(false, Ordering::Release);
    }

    /// Whether a snapshot would show more than the last one that was taken.
    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Whether the log no longer leads to what the stores hold: nothing may be appended to the
    /// stream.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }
}

/// A server begins to run with this durability. Durable before anything is changed.
pub(crate) fn begin_run(disk: &dyn Disk, dir: &Path, now: i64) -> DiskResult<()> {
    let text = format!(
        "{now}\nA server runs this database with --durability memory since then (microseconds since 1970), or did not\n\
         stop in an orderly way: what it changed after its newest snapshot is in no file.\n"
    );
    small_file::replace(disk, dir, FILE, "memory-run.new", text.as_bytes())
}

/// Everything is in a complete snapshot, and nothing is changed any more.
pub fn end_run(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    remove(disk, dir, FILE)
}

/// When the run began that did not end in an orderly way. One whose time cannot be read began at an
/// unknown time: 0.
pub(crate) fn unfinished_run(disk: &dyn Disk, dir: &Path) -> DiskResult<Option<i64>> {
    let read = small_file::read(disk, dir, FILE, FILE_BYTES_MAX)?;
    let begun = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).lines().next().and_then(|line| line.parse().ok());
    Ok(read.map(|bytes| begun(bytes).unwrap_or(0)))
}

/// The snapshot of this number is complete, and no log leads to it.
pub(crate) fn note_newest(disk: &dyn Disk, dir: &Path, snapshot: u64) -> DiskResult<()> {
    let text = format!(
        "{snapshot}\nThe newest complete snapshot that was taken with --durability memory. No redo log leads to it: without\n\
         it or a later one, a start is refused.\n"
    );
    small_file::replace(disk, dir, NEWEST_FILE, "memory-snapshot.new", text.as_bytes())
}

/// The number of that snapshot. 0: there was none, or the file cannot be read any more.
pub(crate) fn newest(disk: &dyn Disk, dir: &Path) -> DiskResult<u64> {
    let read = small_file::read(disk, dir, NEWEST_FILE, FILE_BYTES_MAX)?;
    let number = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).lines().next().and_then(|line| line.parse().ok());
    Ok(read.and_then(number).unwrap_or(0))
}

/// An operator has given that snapshot up.
pub(crate) fn forget_newest(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    remove(disk, dir, NEWEST_FILE)
}

fn remove(disk: &dyn Disk, dir: &Path, name: &str) -> DiskResult<()> {
    if disk.list(dir)?.iter().any(|other| other == name) {
        disk.remove(&dir.join(name))?;
        disk.sync_dir(dir)?;
    }
    Ok(())
}

/// What is noted for the next start: a start does without it where the disk is full.
pub(crate) fn unless_full(noted: DiskResult<()>) -> Result<(), StartError> {
    match noted {
        Err(error) if !error.is_out_of_space() => Err(failed(error)),
        _ => Ok(()),
    }
}

fn failed(error: DiskError) -> StartError {
    StartError::Snapshot(SnapshotError::Disk(error))
}

/// What runs with durability memory have noted for this start.
pub(crate) struct MemoryRuns {
    /// When the one began that did not end in an orderly way.
    pub unfinished: Option<i64>,
    /// The newest snapshot that such a run completed; 0: none.
    newest: u64,
}

impl MemoryRuns {
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<MemoryRuns, StartError> {
        Ok(MemoryRuns {
            unfinished: unfinished_run(disk, dir).map_err(failed)?,
            newest: newest(disk, dir).map_err(failed)?,
        })
    }

    /// # Errors
    /// The snapshot that this node's data begin with cannot be read: what is older is another
    /// history, or another state.
    pub fn miss_no_base(&self, replay: &GroupReplay, found: &Found, accept_loss: bool) -> Result<(), StartError> {
        let damaged = replay.superseded.iter().rev().find(|snapshot| found.snapshots.contains(snapshot)).copied();
        let own = replay.missing.filter(|missing| missing.is_own && !accept_loss).map(|missing| missing.snapshot);
        let noted = Some(self.newest).filter(|newest| *newest > replay.loaded && !accept_loss);
        // A run without redo has the first group only.
        let noted = noted.filter(|_| replay.id == FIRST_GROUP);
        damaged.or(own).or(noted).map_or(Ok(()), |snapshot| Err(StartError::Installed { snapshot }))
    }

    /// The snapshot that this start begins with is not missed silently by a later one. The process
    /// that made it may have ended before it noted that.
    pub fn note_base(&self, disk: &dyn Disk, dir: &Path, replay: &GroupReplay) -> Result<(), StartError> {
        if replay.id != FIRST_GROUP || !replay.begins_without_log || self.newest >= replay.loaded {
            return Ok(());
        }
        unless_full(note_newest(disk, dir, replay.loaded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_io::RealDisk;

    #[test]
    fn a_change_is_shown_by_the_next_snapshot_and_parts_the_stores_from_the_log_for_good() {
        let unlogged = Unlogged::default();
        assert!(!unlogged.has_changed() && !unlogged.is_behind());
        unlogged.note();
        unlogged.note();
        assert!(unlogged.has_changed() && unlogged.is_behind());
        unlogged.snapshot_taken();
        assert!(!unlogged.has_changed() && unlogged.is_behind());
        unlogged.note();
        assert!(unlogged.has_changed());
        let taken_first = Unlogged::default();
        taken_first.snapshot_taken();
        assert!(taken_first.is_behind(), "its snapshot may not become complete");
    }

    #[test]
    fn a_run_that_did_not_end_is_known_until_the_next_ends() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let unfinished = || unfinished_run(&RealDisk, home.path()).expect("a healthy disk");
        assert_eq!(unfinished(), None);
        begin_run(&RealDisk, home.path(), 1_234_567).expect("a healthy disk");
        assert_eq!(unfinished(), Some(1_234_567));
        begin_run(&RealDisk, home.path(), 2_345_678).expect("a healthy disk");
        assert_eq!(unfinished(), Some(2_345_678));
        end_run(&RealDisk, home.path()).expect("a healthy disk");
        end_run(&RealDisk, home.path()).expect("a healthy disk");
        assert_eq!(unfinished(), None);
        std::fs::write(home.path().join(FILE), b"\xff").expect("a file");
        assert_eq!(unfinished(), Some(0));
    }

    #[test]
    fn the_newest_snapshot_is_known_until_it_is_given_up() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let known = || newest(&RealDisk, home.path()).expect("a healthy disk");
        assert_eq!(known(), 0);
        for snapshot in [3, 12] {
            note_newest(&RealDisk, home.path(), snapshot).expect("a healthy disk");
            assert_eq!(known(), snapshot);
        }
        std::fs::write(home.path().join(NEWEST_FILE), b"\xff").expect("a file");
        assert_eq!(known(), 0);
        forget_newest(&RealDisk, home.path()).expect("a healthy disk");
        forget_newest(&RealDisk, home.path()).expect("a healthy disk");
        assert_eq!(known(), 0);
    }
}
