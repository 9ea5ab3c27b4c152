//! A disk with little room.

use ferrite_io::simulated::SimulatedDisk;
use ferrite_io::{Disk, DiskFile, DiskLock, DiskResult, LockError, OpenMode, Space};
use std::path::Path;

pub struct Small {
    pub disk: SimulatedDisk,
    pub free: u64,
}

impl Disk for Small {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        self.disk.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        self.disk.open(path, mode)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        self.disk.lock(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        self.disk.list(dir)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.disk.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.disk.sync_dir(dir)
    }

    fn space(&self, _: &Path) -> DiskResult<Space> {
        Ok(Space { free: self.free, total: u64::MAX })
    }
}
