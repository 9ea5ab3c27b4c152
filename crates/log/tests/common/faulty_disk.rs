//! A real disk that fails when told to: at the n-th write, fsync or preallocation, whole or after a part.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use ferrite_io::{Disk, DiskError, DiskFile, DiskLock, DiskResult, LockError, OpenMode, RealDisk};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Write,
    Sync,
    Preallocate,
}

/// The calls of one kind are counted from 1; from `at` on, `times` of them fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub kind: Kind,
    pub at: u64,
    pub times: u64,
    pub error: i32,
    /// Bytes that a failing write still writes.
    pub short: usize,
}

pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;

#[derive(Default)]
struct Counts {
    writes: AtomicU64,
    syncs: AtomicU64,
    preallocations: AtomicU64,
}

pub struct FaultyDisk {
    fault: Fault,
    counts: Arc<Counts>,
}

impl FaultyDisk {
    pub fn new(fault: Fault) -> Self {
        FaultyDisk { fault, counts: Arc::new(Counts::default()) }
    }

    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.of(kind).load(SeqCst)
    }
}

impl Counts {
    fn of(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Write => &self.writes,
            Kind::Sync => &self.syncs,
            Kind::Preallocate => &self.preallocations,
        }
    }
}

struct FaultyFile {
    inner: Box<dyn DiskFile>,
    fault: Fault,
    counts: Arc<Counts>,
    /// Reading handles are synced by recovery; they are not what is tested.
    counted: bool,
}

impl FaultyFile {
    fn check(&self, kind: Kind, operation: &'static str) -> DiskResult<()> {
        if !self.counted {
            return Ok(());
        }
        let count = self.counts.of(kind).fetch_add(1, SeqCst) + 1;
        if kind == self.fault.kind && count >= self.fault.at && count - self.fault.at < self.fault.times {
            return Err(DiskError::new(operation, self.inner.path(), io::Error::from_raw_os_error(self.fault.error)));
        }
        Ok(())
    }
}

impl DiskFile for FaultyFile {
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
        if let Err(error) = self.check(Kind::Write, "write") {
            // Through another handle, since this one may take whole sectors only.
            let part = &bytes[..self.fault.short.min(bytes.len())];
            RealDisk.open(self.inner.path(), OpenMode::Write)?.write_at(part, offset)?;
            return Err(error);
        }
        self.inner.write_at(bytes, offset)
    }

    fn sync_data(&self) -> DiskResult<()> {
        self.check(Kind::Sync, "fsync")?;
        self.inner.sync_data()
    }

    fn preallocate(&self, bytes: u64) -> DiskResult<()> {
        self.check(Kind::Preallocate, "preallocate")?;
        self.inner.preallocate(bytes)
    }
}

impl Disk for FaultyDisk {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        RealDisk.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        let inner = RealDisk.open(path, mode)?;
        let counted = !matches!(mode, OpenMode::Read | OpenMode::ReadDirect);
        Ok(Box::new(FaultyFile { inner, fault: self.fault, counts: self.counts.clone(), counted }))
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
}
