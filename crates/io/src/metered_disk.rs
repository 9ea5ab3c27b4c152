//! A disk that calls a listener each time this many bytes of room were taken, before the thread
//! that took them continues.
//!
//! Owns the count of bytes since the last call, over all files. Promises that between two calls no
//! more than that is taken, but for one operation of each thread. Overwriting counts as taking: it
//! only makes the call come earlier. Does not know how much room there is.

use crate::disk::{Disk, DiskFile, DiskLock, DiskResult, LockError, OpenMode, Space};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

type Listener = Box<dyn Fn() + Send + Sync>;

struct Meter {
    every: u64,
    taken: AtomicU64,
    listener: OnceLock<Listener>,
}

impl Meter {
    fn charge(&self, bytes: u64) {
        if self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes >= self.every
            && self.taken.swap(0, Ordering::Relaxed) != 0
            && let Some(listener) = self.listener.get()
        {
            listener();
        }
    }
}

pub struct MeteredDisk {
    below: Arc<dyn Disk>,
    meter: Arc<Meter>,
}

impl MeteredDisk {
    pub fn new(below: Arc<dyn Disk>, every: u64) -> MeteredDisk {
        MeteredDisk { below, meter: Arc::new(Meter { every, taken: AtomicU64::new(0), listener: OnceLock::new() }) }
    }

    /// The listener, called on the thread that took the room. Once: later ones are ignored.
    pub fn subscribe(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.meter.listener.set(Box::new(listener));
    }
}

impl Disk for MeteredDisk {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        self.below.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        let below = self.below.open(path, mode)?;
        Ok(Box::new(MeteredFile { below, meter: Arc::clone(&self.meter) }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        self.below.lock(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        self.below.list(dir)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.below.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.below.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.below.sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> DiskResult<Space> {
        self.below.space(dir)
    }
}

struct MeteredFile {
    below: Box<dyn DiskFile>,
    meter: Arc<Meter>,
}

impl DiskFile for MeteredFile {
    fn path(&self) -> &Path {
        self.below.path()
    }

    fn bytes(&self) -> DiskResult<u64> {
        self.below.bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        self.below.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.below.write_at(bytes, offset)?;
        self.meter.charge(bytes.len() as u64);
        Ok(())
    }

    fn sync_data(&self) -> DiskResult<()> {
        self.below.sync_data()
    }

    fn sync_data_in_pieces(&self) -> DiskResult<()> {
        self.below.sync_data_in_pieces()
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        self.below.is_in_place()
    }

    fn forget(&self) {
        self.below.forget();
    }

    fn preallocate(&self, bytes: u64) -> DiskResult<bool> {
        let reserved = self.below.preallocate(bytes)?;
        self.meter.charge(bytes);
        Ok(reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    #[test]
    fn whoever_takes_room_tells() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = MeteredDisk::new(Arc::new(RealDisk), 1000);
        let told = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&told);
        let file = disk.open(&dir.path().join("file"), OpenMode::Create).expect("a file");
        file.write_at(&[1; 5000], 0).expect("nobody listens yet");
        disk.subscribe(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let words = || told.load(Ordering::Relaxed);
        file.write_at(&[1; 999], 0).expect("written");
        assert_eq!(words(), 0);
        file.write_at(&[1; 1], 999).expect("written");
        assert_eq!(words(), 1, "of all files and operations together");
        disk.open(&dir.path().join("other"), OpenMode::Create).expect("a file").preallocate(4096).expect("room");
        assert_eq!(words(), 2);
        file.write_at(&[1; 999], 0).expect("written");
        assert_eq!(words(), 2, "the count begins anew");
    }
}
