//! A disk in memory that keeps what [`Disk`] promises and nothing beyond: what was not made durable
//! is lost, torn or reordered when the power goes; operations fail when told to; bytes rot.
//!
//! Every operation that changes something is a boundary at which power can be lost. From then on
//! everything fails, until [`SimulatedDisk::restart`]. Files that were opened before stay useless.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::{Disk, DiskError, DiskFile, DiskLock, DiskResult, LockError, OpenMode, SECTOR_BYTES};
use crate::simulated::content::Content;
use crate::simulated::inode::{Inode, Tearing};
use crate::simulated::names::Names;
use crate::simulated::{SimulatedClock, SimulatedRandom};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// What thread unwinds with that was using the disk when the power went, if it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct PowerLost;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    Read,
    Write,
    Sync,
    Preallocate,
    /// Opening, making, removing and renaming files, listing directories and making them durable.
    Name,
}

/// The calls of one kind are counted from 1; from `at` on, `times` of them fail. Files that were
/// opened for reading only count for `Read` alone.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub kind: FaultKind,
    pub at: u64,
    pub times: u64,
    pub error: i32,
    /// Bytes that a failing write still writes.
    pub short: usize,
}

impl Fault {
    pub const EIO: i32 = EIO;
    pub const ENOSPC: i32 = ENOSPC;
    pub const ENOMEM: i32 = ENOMEM;
    pub const ENFILE: i32 = ENFILE;
    pub const EMFILE: i32 = EMFILE;
}

/// Where the power goes: at the boundary of that number, counted from 1, before the operation or
/// after it.
#[derive(Clone, Copy, Debug)]
pub struct CrashPoint {
    pub boundary: u64,
    pub after: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// The process ended; the machine has what it was given.
    Process,
    /// The machine lost power.
    Power,
}

type Tracer = Box<dyn FnMut(&str) + Send>;

struct State {
    random: SimulatedRandom,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: Names,
    dirs: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    capacity: u64,
    boundaries: u64,
    crash: Option<CrashPoint>,
    halted: bool,
    unwinds: bool,
    /// Of the machine's life: handles of earlier ones are void.
    life: u64,
    faults: Vec<Fault>,
    counts: BTreeMap<FaultKind, u64>,
    tracer: Option<Tracer>,
    /// Fsyncs wait while this holds.
    syncs_held: bool,
    syncs_waiting: usize,
}

struct Shared {
    state: Mutex<State>,
    clock: SimulatedClock,
    changed: Condvar,
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
        let state = State {
            random: SimulatedRandom::new(seed),
            inodes: BTreeMap::new(),
            next_inode: 1,
            names: Names::default(),
            dirs: BTreeSet::from([PathBuf::from("/")]),
            locks: BTreeSet::new(),
            capacity: u64::MAX,
            boundaries: 0,
            crash: None,
            halted: false,
            unwinds: false,
            life: 1,
            faults: Vec::new(),
            counts: BTreeMap::new(),
            tracer: None,
            syncs_held: false,
            syncs_waiting: 0,
        };
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

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change of names. Where it fails, nobody knows whether it took place.
    fn change_names<T>(
        &self,
        operation: &'static str,
        path: &Path,
        body: impl FnOnce(&mut State) -> DiskResult<T>,
    ) -> DiskResult<T> {
        self.change(operation, path, FaultKind::Name, true, 0, |state, fault| {
            let Some(fault) = fault else { return body(state) };
            if fault.error == EIO && state.random.percent(50) {
                let _ = body(state);
            }
            Err(failed(operation, path, fault.error))
        })
    }

    /// An operation that changes something: it can fail, and the power can go at it.
    fn change<T>(
        &self,
        operation: &'static str,
        path: &Path,
        kind: FaultKind,
        counted: bool,
        detail: u64,
        body: impl FnOnce(&mut State, Option<Fault>) -> DiskResult<T>,
    ) -> DiskResult<T> {
        let state = &mut *self.state();
        state.check(operation, path)?;
        state.boundaries += 1;
        let crash = state.crash.filter(|crash| crash.boundary <= state.boundaries);
        if crash.is_some_and(|crash| !crash.after) {
            return Err(state.lose_power(operation, path));
        }
        state.tell(operation, path, detail);
        let fault = state.fault(kind, counted);
        if let Some(fault) = &fault {
            state.tell("fail to", path, fault.error as u64);
        }
        let result = body(state, fault);
        if crash.is_some() {
            return Err(state.lose_power(operation, path));
        }
        result
    }
}

impl State {
    fn check(&self, operation: &'static str, path: &Path) -> DiskResult<()> {
        if self.halted { Err(no_power(operation, path)) } else { Ok(()) }
    }

    fn lose_power(&mut self, operation: &'static str, path: &Path) -> DiskError {
        self.halted = true;
        self.tell("lose power at", path, 0);
        if self.unwinds && !std::thread::panicking() {
            std::panic::resume_unwind(Box::new(PowerLost));
        }
        no_power(operation, path)
    }

    fn tell(&mut self, operation: &str, path: &Path, detail: u64) {
        if let Some(tracer) = &mut self.tracer {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            tracer(&format!("disk {operation} {name} {detail}"));
        }
    }

    /// Counts the call; the fault that it meets.
    fn fault(&mut self, kind: FaultKind, counted: bool) -> Option<Fault> {
        if !counted {
            return None;
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let count = *count;
        self.faults
            .iter()
            .find(|fault| fault.kind == kind && count >= fault.at && count - fault.at < fault.times)
            .copied()
    }

    fn used(&self) -> u64 {
        self.inodes.values().map(|inode| inode.len() as u64).sum()
    }

    fn new_inode(&mut self, path: &Path) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        self.names.put(path, inode);
        inode
    }
}

fn no_power(operation: &'static str, path: &Path) -> DiskError {
    DiskError::new(operation, path, io::Error::other("the simulated machine has lost power"))
}

fn failed(operation: &'static str, path: &Path, error: i32) -> DiskError {
    DiskError::new(operation, path, io::Error::from_raw_os_error(error))
}

fn no_such(operation: &'static str, path: &Path) -> DiskError {
    DiskError::new(operation, path, io::Error::from(io::ErrorKind::NotFound))
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

struct SimulatedLock {
    shared: Arc<Shared>,
    path: PathBuf,
    life: u64,
}

impl DiskLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.life == self.life {
            state.locks.remove(&self.path);
        }
    }
}

struct SimulatedFile {
    shared: Arc<Shared>,
    path: PathBuf,
    inode: u64,
    life: u64,
    writable: bool,
    direct: bool,
}

impl SimulatedFile {
    /// The file's bytes, if it was opened in this life of the machine.
    fn inode<'s>(&self, state: &'s mut State, operation: &'static str) -> DiskResult<&'s mut Inode> {
        state.check(operation, &self.path)?;
        if state.life != self.life {
            return Err(no_power(operation, &self.path));
        }
        state.inodes.get_mut(&self.inode).ok_or_else(|| no_such(operation, &self.path))
    }

    fn wait_while_held(&self) {
        let mut state = self.shared.state();
        if state.syncs_held {
            state.syncs_waiting += 1;
            self.shared.changed.notify_all();
            let waited = self.shared.changed.wait_while(state, |state| state.syncs_held);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            state.syncs_waiting -= 1;
        }
    }
}

impl DiskFile for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> DiskResult<u64> {
        Ok(self.inode(&mut self.shared.state(), "look up")?.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        assert!(!self.direct || is_direct(buffer, offset), "direct reads are of sectors");
        let mut state = self.shared.state();
        self.inode(&mut state, "read")?;
        if let Some(fault) = state.fault(FaultKind::Read, true) {
            state.tell("fail to read", &self.path, offset);
            return Err(failed("read", &self.path, fault.error));
        }
        Ok(self.inode(&mut state, "read")?.read(buffer, offset, self.direct))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        assert!(self.writable, "{} was opened for reading", self.path.display());
        assert!(!self.direct || is_direct(bytes, offset), "direct writes are of sectors");
        self.shared.clock.advance(Duration::from_nanos(20_000 + bytes.len() as u64));
        self.shared.change("write", &self.path, FaultKind::Write, true, checksum(bytes) ^ offset, |state, fault| {
            let room = state.capacity.saturating_sub(state.used());
            let inode = self.inode(state, "write")?;
            let growth = (offset + bytes.len() as u64).saturating_sub(inode.len() as u64);
            let fits = bytes.len() - growth.saturating_sub(room).min(bytes.len() as u64) as usize;
            let written = fault.map_or(fits, |fault| fault.short.min(fits));
            if written > 0 {
                inode.write(&bytes[..written], offset);
            }
            match fault {
                Some(fault) => Err(failed("write", &self.path, fault.error)),
                None if fits < bytes.len() => Err(failed("write", &self.path, ENOSPC)),
                None => Ok(()),
            }
        })
    }

    fn sync_data(&self) -> DiskResult<()> {
        if self.writable {
            self.wait_while_held();
        }
        let time = {
            let state = &mut *self.shared.state();
            match state.random.below(100) {
                0 => 300_000,
                1..10 => 5_000,
                _ => 100 + state.random.below(900),
            }
        };
        self.shared.clock.advance(Duration::from_micros(time));
        self.shared.change("fsync", &self.path, FaultKind::Sync, self.writable, 0, |state, fault| {
            let mut random = state.random.fork();
            let inode = self.inode(state, "fsync")?;
            match fault {
                Some(fault) => {
                    inode.lose_pending(&mut random);
                    Err(failed("fsync", &self.path, fault.error))
                }
                None => {
                    inode.sync();
                    Ok(())
                }
            }
        })
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        let state = self.shared.state();
        state.check("look for", &self.path)?;
        Ok(state.life == self.life && state.names.find(&self.path) == Some(self.inode))
    }

    fn preallocate(&self, bytes: u64) -> DiskResult<()> {
        self.shared.change("preallocate", &self.path, FaultKind::Preallocate, self.writable, bytes, |state, fault| {
            if let Some(fault) = fault {
                return Err(failed("preallocate", &self.path, fault.error));
            }
            let room = state.capacity.saturating_sub(state.used());
            let inode = self.inode(state, "preallocate")?;
            let growth = bytes.saturating_sub(inode.len() as u64);
            if growth > room {
                return Err(failed("preallocate", &self.path, ENOSPC));
            }
            if growth > 0 {
                inode.set_len(bytes as usize);
            }
            Ok(())
        })
    }
}

fn is_direct(buffer: &[u8], offset: u64) -> bool {
    (buffer.is_empty() || (buffer.as_ptr() as usize).is_multiple_of(SECTOR_BYTES))
        && buffer.len().is_multiple_of(SECTOR_BYTES)
        && offset.is_multiple_of(SECTOR_BYTES as u64)
}

/// For the trace (FNV-1a): runs that write other bytes are other runs.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |sum, piece| {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
