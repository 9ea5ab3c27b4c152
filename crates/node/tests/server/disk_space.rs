//! A disk that fills up: writes are refused while there is still room for those that are in, reads
//! go on, and with space come writes.

use crate::common::{CONTESTANTS, Db, VOTER, connect, options, start, text_of, votes, wait_for};
use ferrite_client::{ClientError, Status};
use ferrite_io::{Disk, DiskFile, DiskLock, DiskResult, LockError, OpenMode, RealDisk, Space};
use ferrite_node::Server;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A real disk that says what the test says about its room.
struct Filling(AtomicU64);

impl Disk for Filling {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        RealDisk.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        RealDisk.open(path, mode)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        RealDisk.lock(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        RealDisk.list(dir)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        RealDisk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        RealDisk.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        RealDisk.sync_dir(dir)
    }

    fn space(&self, _dir: &Path) -> DiskResult<Space> {
        Ok(Space { free: self.0.load(Ordering::SeqCst), total: u64::MAX })
    }
}

/// A server on a disk that has just as much room as is reserved.
fn on_a_filling_disk(reserve: u64) -> (tempfile::TempDir, Arc<Filling>, Server, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let disk = Arc::new(Filling(AtomicU64::new(reserve)));
    let mut options = options(dir.path(), 2);
    options.disk = Arc::clone(&disk) as Arc<dyn Disk>;
    options.settings.disk_reserve_bytes = reserve;
    let server = start(options);
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(CONTESTANTS);
    (dir, disk, server, db)
}

/// What gives room back goes on as long as it fits: the log's half of the reserve is not needed
/// while no writes are taken.
#[test]
fn a_snapshot_that_fits_is_taken_below_half_of_the_reserve() {
    const RESERVE: u64 = 8 << 30;
    let (_dir, disk, server, db) = on_a_filling_disk(RESERVE);
    let seen = |free: u64| {
        disk.0.store(free, Ordering::SeqCst);
        let said = format!("{free} bytes are free");
        wait_for("the watch, which looks at the disk every second", || {
            let outcome = db.0.call_blocking("Vote", (5_550_000_000i64, 1i32, i64::MAX));
            matches!(outcome, Err(ClientError::Failed(response)) if text_of(&response).contains(&said))
        });
    };
    seen(RESERVE / 4);
    let saved = || format!("{:?}", db.call("@SnapshotSave", ()).tables);
    let taken = saved();
    assert!(!taken.contains("FAILURE"), "{taken}");
    // Not where it would leave the log less than a segment.
    seen(60 << 20);
    let refused = saved();
    assert!(refused.contains("FAILURE") && refused.contains("less than half of its reserve"), "{refused}");
    server.stop().expect("the log is closed");
}

#[test]
fn writes_are_refused_below_the_reserve_and_taken_above_it() {
    const RESERVE: u64 = 1_000_000;
    let (_dir, disk, server, db) = on_a_filling_disk(RESERVE);
    let mut cast = 0;
    // Votes until they are refused, or taken, as the watch sees the disk.
    let mut vote_until = |taken: bool| {
        let mut said = String::new();
        wait_for("the watch, which looks at the disk every second", || {
            match db.0.call_blocking("Vote", (5_550_000_000i64 + cast, 1i32, i64::MAX)) {
                Ok(_) => {
                    cast += 1;
                    taken
                }
                Err(ClientError::Failed(response)) => {
                    assert_eq!(response.status(), Some(Status::ServerUnavailable));
                    text_of(&response).clone_into(&mut said);
                    !taken
                }
                Err(error) => panic!("{error}"),
            }
        });
        (cast, said)
    };
    vote_until(true);
    disk.0.store(RESERVE - 1, Ordering::SeqCst);
    let (taken, said) = vote_until(false);
    assert!(said.contains("999999 bytes are free") && said.contains("--disk-reserve"), "{said}");
    // Reads go on, and all kinds of writes are refused.
    assert_eq!(votes(&db), [taken; 3]);
    for text in ["DELETE FROM votes", "INSERT INTO contestants VALUES (9, 'Nine')", "CREATE TABLE other (id BIGINT)"] {
        db.fails("@AdHoc", (text,), Status::ServerUnavailable, "the disk of the redo log");
    }
    db.fails("CONTESTANTS.insert", (9i32, "Nine"), Status::ServerUnavailable, "the disk of the redo log");
    disk.0.store(RESERVE, Ordering::SeqCst);
    let (cast, _) = vote_until(true);
    assert_eq!(votes(&db), [cast; 3]);
    db.sql("CREATE TABLE other (id BIGINT)");
    server.stop().expect("the log is closed");
}
