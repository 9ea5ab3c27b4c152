//! A real disk that stops at its n-th change: that one and all later ones fail, as after the end of
//! the process.

use ferrite_io::{Disk, DiskError, DiskFile, DiskLock, DiskResult, LockError, OpenMode, RealDisk};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[derive(Default)]
pub struct CrashingDisk {
    /// Changes left; 0: the disk has stopped. Counted only once it is armed.
    left: Arc<AtomicU64>,
}

impl CrashingDisk {
    pub fn new() -> Arc<CrashingDisk> {
        Arc::new(CrashingDisk { left: Arc::new(AtomicU64::new(u64::MAX)) })
    }

    /// Stops after so many changes.
    pub fn stop_after(&self, changes: u64) {
        self.left.store(changes, SeqCst);
    }

    pub fn left(&self) -> u64 {
        self.left.load(SeqCst)
    }
}

fn change(left: &AtomicU64, operation: &'static str, path: &Path) -> DiskResult<()> {
    let counted = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
    counted.map(drop).map_err(|_| DiskError::new(operation, path, io::Error::from_raw_os_error(5)))
}

impl Disk for CrashingDisk {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        RealDisk.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        if mode == OpenMode::Create {
            change(&self.left, "create", path)?;
        }
        Ok(Box::new(CrashingFile { inner: RealDisk.open(path, mode)?, left: Arc::clone(&self.left) }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        RealDisk.lock(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        RealDisk.list(dir)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        change(&self.left, "remove", path)?;
        RealDisk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        change(&self.left, "rename", from)?;
        RealDisk.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        change(&self.left, "sync directory", dir)?;
        RealDisk.sync_dir(dir)
    }
}

struct CrashingFile {
    inner: Box<dyn DiskFile>,
    left: Arc<AtomicU64>,
}

impl DiskFile for CrashingFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn bytes(&self) -> DiskResult<u64> {
        self.inner.bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        change(&self.left, "write", self.inner.path())?;
        self.inner.write_at(bytes, offset)
    }

    fn sync_data(&self) -> DiskResult<()> {
        change(&self.left, "fsync", self.inner.path())?;
        self.inner.sync_data()
    }

    fn preallocate(&self, bytes: u64) -> DiskResult<bool> {
        change(&self.left, "preallocate", self.inner.path())?;
        self.inner.preallocate(bytes)
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        self.inner.is_in_place()
    }
}
