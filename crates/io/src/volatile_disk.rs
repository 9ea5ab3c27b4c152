//! A disk whose unsynced writes die with the process: a kill of the process is then to the database
//! what a power loss is.
//!
//! Owns what was written and not yet fsynced, in memory, per file; passes it on to the disk below
//! when the file is fsynced, in any order. A part of the writes goes to the disk below at once,
//! sector by sector, as a real disk may do it, so that a kill leaves torn and reordered writes
//! behind. Names of files (made, renamed, removed) and sizes are passed on at once: losing those is
//! the simulated disk's business. For tests only: it copies every byte and never writes directly.

use crate::disk::{Disk, DiskFile, DiskLock, DiskResult, LockError, OpenMode, SECTOR_BYTES, Space};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One write in this many is passed on early, in part.
const EARLY_ONE_IN: u64 = 4;

pub struct VolatileDisk {
    below: Arc<dyn Disk>,
    files: Mutex<HashMap<PathBuf, Arc<Unsynced>>>,
    random: Arc<AtomicU64>,
}

impl VolatileDisk {
    /// `seed` decides which sectors reach the disk below early.
    pub fn new(below: Arc<dyn Disk>, seed: u64) -> VolatileDisk {
        VolatileDisk { below, files: Mutex::default(), random: Arc::new(AtomicU64::new(seed)) }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Unsynced>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file would lose: writes in their order. Shared by all openings of the file.
#[derive(Default)]
struct Unsynced {
    writes: Mutex<Vec<(u64, Box<[u8]>)>>,
}

impl Unsynced {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Box<[u8]>)>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for VolatileDisk {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        self.below.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        let below_mode = match mode {
            OpenMode::ReadDirect | OpenMode::Read => OpenMode::Read,
            OpenMode::WriteDirect | OpenMode::Write => OpenMode::Write,
            OpenMode::Create => OpenMode::Create,
        };
        let below = self.below.open(path, below_mode)?;
        let mut files = self.files();
        if mode == OpenMode::Create {
            files.remove(path);
        }
        let unsynced = Arc::clone(files.entry(path.to_path_buf()).or_default());
        Ok(Box::new(VolatileFile { below, unsynced, random: Arc::clone(&self.random) }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        self.below.lock(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        self.below.list(dir)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.below.remove(path)?;
        self.files().remove(path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        let mut files = self.files();
        self.below.rename(from, to)?;
        // What was not fsynced under the old name is not under the new one either.
        match files.remove(from) {
            Some(unsynced) => files.insert(to.to_path_buf(), unsynced),
            None => files.remove(to),
        };
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.below.sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> DiskResult<Space> {
        self.below.space(dir)
    }
}

struct VolatileFile {
    below: Box<dyn DiskFile>,
    unsynced: Arc<Unsynced>,
    random: Arc<AtomicU64>,
}

impl VolatileFile {
    /// The next number of splitmix64.
    fn next(&self) -> u64 {
        let x = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Passes on about half of the sectors.
    fn write_early(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        let mut at = 0;
        while at < bytes.len() {
            let sector_rest = SECTOR_BYTES - (offset as usize + at) % SECTOR_BYTES;
            let end = bytes.len().min(at + sector_rest);
            if self.next().is_multiple_of(2) {
                self.below.write_at(&bytes[at..end], offset + at as u64)?;
            }
            at = end;
        }
        Ok(())
    }
}

impl DiskFile for VolatileFile {
    fn path(&self) -> &Path {
        self.below.path()
    }

    fn bytes(&self) -> DiskResult<u64> {
        let written = self.unsynced.lock().iter().map(|(offset, bytes)| offset + bytes.len() as u64).max();
        Ok(self.below.bytes()?.max(written.unwrap_or(0)))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        let writes = self.unsynced.lock();
        let mut read = self.below.read_at(buffer, offset)?;
        for (start, bytes) in writes.iter() {
            let begin = (*start).max(offset);
            let end = (start + bytes.len() as u64).min(offset + buffer.len() as u64);
            if begin < end {
                let to = (begin - offset) as usize..(end - offset) as usize;
                if to.start > read {
                    buffer[read..to.start].fill(0);
                }
                read = read.max(to.end);
                buffer[to].copy_from_slice(&bytes[(begin - start) as usize..(end - start) as usize]);
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        let mut writes = self.unsynced.lock();
        if self.next().is_multiple_of(EARLY_ONE_IN) {
            self.write_early(bytes, offset)?;
        }
        writes.push((offset, bytes.into()));
        Ok(())
    }

    fn sync_data(&self) -> DiskResult<()> {
        let mut writes = self.unsynced.lock();
        for (offset, bytes) in writes.drain(..) {
            self.below.write_at(&bytes, offset)?;
        }
        self.below.sync_data()
    }

    fn preallocate(&self, bytes: u64) -> DiskResult<bool> {
        self.below.preallocate(bytes)
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        self.below.is_in_place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    #[test]
    fn what_was_not_fsynced_is_seen_here_and_not_below() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let disk = VolatileDisk::new(Arc::new(RealDisk), 1);
        let file = disk.open(&path, OpenMode::Create).unwrap();
        file.preallocate(64).unwrap();
        file.write_at(b"kept", 8).unwrap();
        file.sync_data().unwrap();
        // Some of these pass early, in whole sectors; far from all do.
        for round in 0..64u64 {
            file.write_at(b"lost", 8 + (round + 1) * 64 * SECTOR_BYTES as u64).unwrap();
        }
        let again = disk.open(&path, OpenMode::ReadDirect).unwrap();
        let mut buffer = [1; 4];
        let (mut here, mut below) = (0, 0);
        for round in 0..64u64 {
            let offset = 8 + (round + 1) * 64 * SECTOR_BYTES as u64;
            here += i32::from(again.read_at(&mut buffer, offset).unwrap() == 4 && &buffer == b"lost");
            let real = RealDisk.open(&path, OpenMode::Read).unwrap();
            below += i32::from(real.read_at(&mut buffer, offset).unwrap() == 4 && &buffer == b"lost");
        }
        assert_eq!(here, 64);
        assert!((1..32).contains(&below), "{below} of 64 writes reached the disk without an fsync");
        let mut whole = [9; 16];
        assert_eq!(again.read_at(&mut whole, 0).unwrap(), 16);
        assert_eq!(&whole, b"\0\0\0\0\0\0\0\0kept\0\0\0\0");
        assert!(again.bytes().unwrap() >= 64 * 64 * SECTOR_BYTES as u64);
    }

    #[test]
    fn a_renamed_file_takes_its_unsynced_writes_along() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let disk = VolatileDisk::new(Arc::new(RealDisk), 3);
        let file = disk.open(&from, OpenMode::Create).unwrap();
        file.write_at(b"new", 0).unwrap();
        disk.rename(&from, &to).unwrap();
        let mut buffer = [0; 3];
        let renamed = disk.open(&to, OpenMode::Write).unwrap();
        assert_eq!(renamed.read_at(&mut buffer, 0).unwrap(), 3);
        assert_eq!(&buffer, b"new");
        renamed.sync_data().unwrap();
        assert_eq!(RealDisk.open(&to, OpenMode::Read).unwrap().read_at(&mut buffer, 0).unwrap(), 3);
        // A new file of an old name begins empty.
        disk.open(&to, OpenMode::Create).unwrap();
        assert_eq!(disk.open(&to, OpenMode::Read).unwrap().read_at(&mut buffer, 0).unwrap(), 0);
    }
}
