//! A real disk whose fsyncs wait while its gate is closed: what is not durable yet stays so until the test says.

use ferrite_io::{Disk, DiskFile, DiskLock, DiskResult, LockError, OpenMode, RealDisk};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// Fsyncs that wait now.
    waiting: usize,
}

#[derive(Clone, Default)]
pub struct GatedDisk(Arc<Gate>);

impl GatedDisk {
    fn set(&self, closed: bool) {
        self.0.state.lock().expect("nobody panics with the gate").closed = closed;
        self.0.changed.notify_all();
    }

    pub fn close(&self) {
        self.set(true);
    }

    pub fn open(&self) {
        self.set(false);
    }

    /// Blocks until an fsync waits at the closed gate.
    pub fn wait_for_fsync(&self) {
        let state = self.0.state.lock().expect("nobody panics with the gate");
        let _state = self.0.changed.wait_while(state, |state| state.waiting == 0).expect("nobody panics with the gate");
    }
}

struct GatedFile {
    inner: Box<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl DiskFile for GatedFile {
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
        self.inner.write_at(bytes, offset)
    }

    fn sync_data(&self) -> DiskResult<()> {
        let mut state = self.gate.state.lock().expect("nobody panics with the gate");
        state.waiting += 1;
        self.gate.changed.notify_all();
        state = self.gate.changed.wait_while(state, |state| state.closed).expect("nobody panics with the gate");
        state.waiting -= 1;
        drop(state);
        self.inner.sync_data()
    }

    fn preallocate(&self, bytes: u64) -> DiskResult<()> {
        self.inner.preallocate(bytes)
    }
}

impl Disk for GatedDisk {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        RealDisk.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        Ok(Box::new(GatedFile { inner: RealDisk.open(path, mode)?, gate: Arc::clone(&self.0) }))
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
