//! A disk in memory that keeps what [`Disk`] promises and nothing beyond: what was not made durable
//! is lost, torn or reordered when the power goes; operations fail when told to; bytes rot.
//!
//! Every operation that changes something is a boundary at which power can be lost. From then on
//! everything fails, until [`SimulatedDisk::restart`]. Files that were opened before stay useless.

mod file;
mod state;

use crate::disk::{Disk, DiskFile, DiskLock, DiskResult, LockError, OpenMode};
use crate::simulated::content::Content;
use crate::simulated::inode::Tearing;
use crate::simulated::{SimulatedClock, SimulatedRandom};
use file::{SimulatedFile, SimulatedLock};
use state::{Shared, State, failed, no_such};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub use state::{CrashPoint, Fault, FaultKind, PowerLost};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// The process ended; the machine has what it was given.
    Process,
    /// The machine lost power.
    Power,
}

/// Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

/// Fsyncs wait as long as this lives.
#[must_use = "fsyncs wait only until this is dropped"]
pub struct HeldSyncs {
    shared: Arc<Shared>,
}

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.shared.state().syncs_held = false;
        self.shared.changed.notify_all();
    }
}

impl SimulatedDisk {
    pub fn new(seed: u64, clock: SimulatedClock) -> Self {
        let state = State::new(seed);
        SimulatedDisk { shared: Arc::new(Shared { state: Mutex::new(state), clock, changed: Condvar::new() }) }
    }

    /// A healthy one with a clock of its own.
    pub fn healthy() -> Self {
        Self::new(1, SimulatedClock::default())
    }

    /// Whoever uses the disk when the power goes unwinds with [`PowerLost`] instead of getting an
    /// error, so that nothing runs on.
    pub fn unwind_at_power_loss(&self) {
        self.state().unwinds = true;
    }

    /// Says what is done to the disk, a line for each operation.
    pub fn trace(&self, tracer: impl FnMut(&str) + Send + 'static) {
        self.state().tracer = Some(Box::new(tracer));
    }

    pub fn crash_at(&self, point: Option<CrashPoint>) {
        self.state().crash = point;
    }

    /// Operations so far that changed something.
    pub fn boundaries(&self) -> u64 {
        self.state().boundaries
    }

    pub fn fail(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Calls of that kind so far.
    pub fn count(&self, kind: FaultKind) -> u64 {
        self.state().counts.get(&kind).copied().unwrap_or(0)
    }

    /// Bytes of all files together that there is room for.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    pub fn used_bytes(&self) -> u64 {
        self.state().used()
    }

    /// The power goes now.
    pub fn halt(&self) {
        self.state().halted = true;
    }

    pub fn has_halted(&self) -> bool {
        self.state().halted
    }

    /// Fsyncs wait from now on, until what is returned is dropped: a test that fails meanwhile lets
    /// them go too, and can end.
    pub fn hold_syncs(&self) -> HeldSyncs {
        let mut state = self.state();
        assert!(!state.syncs_held, "fsyncs are held by one at a time");
        state.syncs_held = true;
        HeldSyncs { shared: Arc::clone(&self.shared) }
    }

    /// Blocks until an fsync waits.
    pub fn wait_for_held_sync(&self) {
        let waiting = self.shared.changed.wait_while(self.state(), |state| state.syncs_waiting == 0);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }

    /// The machine, or only the process, is there again. What was opened and locked before is void.
    pub fn restart(&self, restart: Restart) {
        let state = &mut *self.state();
        state.halted = false;
        state.crash = None;
        state.life += 1;
        state.locks.clear();
        if restart == Restart::Power {
            state.names.lose_power(&mut state.random);
            let tearing = Tearing::choose(&mut state.random);
            for inode in state.inodes.values_mut() {
                inode.lose_power(tearing, &mut state.random);
            }
        }
        let named: BTreeSet<u64> = state.names.inodes().collect();
        state.inodes.retain(|inode, _| named.contains(inode));
    }

    pub fn files(&self) -> Vec<PathBuf> {
        self.state().names.paths().cloned().collect()
    }

    /// A file's bytes as programs read them.
    pub fn bytes_of(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state.names.find(path)?;
        Some(state.inodes[&inode].bytes())
    }

    /// Puts these bytes there, durable at once: for tests that make files up.
    pub fn put_file(&self, path: &Path, bytes: &[u8]) {
        let mut content = Content::default();
        content.write(bytes, 0);
        self.put_content(path, content);
    }

    fn put_content(&self, path: &Path, content: Content) {
        let state = &mut *self.state();
        let inode = state.names.find(path).unwrap_or_else(|| state.new_inode(path));
        state.inodes.get_mut(&inode).expect("named files are there").replace(content);
        if let Some(dir) = path.parent() {
            state.dirs.extend(dir.ancestors().map(Path::to_path_buf));
            state.names.sync(dir);
        }
    }

    /// The same files on another disk, all of them durable: what the device was given until now.
    /// After an fsync that failed that can be less than what programs read through the page cache.
    pub fn copy(&self, seed: u64) -> SimulatedDisk {
        let copy = SimulatedDisk::new(seed, SimulatedClock::default());
        let state = self.state();
        for path in state.names.paths() {
            let inode = state.names.find(path).expect("a path that was just listed");
            copy.put_content(path, state.inodes[&inode].device());
        }
        copy
    }

    /// What a loss of power at this moment might leave of a directory's files, on another disk.
    /// This one goes on.
    pub fn after_power_loss(&self, dir: &Path, seed: u64) -> SimulatedDisk {
        let left = SimulatedDisk::new(seed, SimulatedClock::default());
        let mut random = SimulatedRandom::new(seed);
        let state = self.state();
        let survivors = state.names.survivors(&mut random);
        let tearing = Tearing::choose(&mut random);
        for (path, inode) in survivors.iter().filter(|(path, _)| path.parent() == Some(dir)) {
            let mut inode = state.inodes[inode].clone();
            inode.lose_power(tearing, &mut random);
            left.put_content(path, inode.device());
        }
        left
    }

    /// One bit of the file changes, unnoticed.
    pub fn rot(&self, path: &Path, position: u64, bit: u8) {
        let state = &mut *self.state();
        if let Some(inode) = state.names.find(path) {
            state.inodes.get_mut(&inode).expect("named files are there").rot(position, bit);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Disk for SimulatedDisk {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        if self.state().dirs.contains(path) {
            return Ok(());
        }
        self.shared.change_names("create directory", path, |state| {
            // Its name is made durable before this answers.
            state.dirs.extend(path.ancestors().map(Path::to_path_buf));
            Ok(())
        })
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        let inode = if mode == OpenMode::Create {
            self.shared.change_names("open", path, |state| {
                if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
                    return Err(no_such("open", path));
                }
                match state.names.find(path) {
                    Some(inode) => {
                        state.inodes.get_mut(&inode).expect("named files are there").set_len(0);
                        Ok(inode)
                    }
                    None => Ok(state.new_inode(path)),
                }
            })?
        } else {
            let state = self.state();
            state.check("open", path)?;
            state.names.find(path).ok_or_else(|| no_such("open", path))?
        };
        let writable = !matches!(mode, OpenMode::Read | OpenMode::ReadDirect);
        let direct = matches!(mode, OpenMode::ReadDirect | OpenMode::WriteDirect);
        let life = self.state().life;
        Ok(Box::new(SimulatedFile {
            shared: Arc::clone(&self.shared),
            path: path.to_path_buf(),
            inode,
            life,
            writable,
            direct,
        }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        let mut state = self.state();
        state.check("lock", path).map_err(LockError::Disk)?;
        if !state.locks.insert(path.to_path_buf()) {
            return Err(LockError::Held { path: path.to_path_buf(), process: None });
        }
        let life = state.life;
        Ok(Box::new(SimulatedLock { shared: Arc::clone(&self.shared), path: path.to_path_buf(), life }))
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        let mut state = self.state();
        state.check("list directory", dir)?;
        if !state.dirs.contains(dir) {
            return Err(no_such("list directory", dir));
        }
        if let Some(fault) = state.fault(FaultKind::Name, true) {
            return Err(failed("list directory", dir, fault.error));
        }
        Ok(state.names.list(dir))
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.shared.change_names("remove", path, |state| {
            state.names.find(path).ok_or_else(|| no_such("remove", path))?;
            state.names.remove(path);
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.shared.change_names("rename", from, |state| {
            state.names.find(from).ok_or_else(|| no_such("rename", from))?;
            state.names.rename(from, to);
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.shared.change_names("sync directory", dir, |state| {
            state.names.sync(dir);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
