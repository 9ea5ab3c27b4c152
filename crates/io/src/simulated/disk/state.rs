//! What a simulated disk is: its files and names, and the boundaries of its operations, at which
//! the power goes or a fault is met.
//!
//! It decides whether an operation fails. What each of them does to a file is not known here.

use crate::disk::{DiskError, DiskResult};
use crate::simulated::inode::Inode;
use crate::simulated::names::Names;
use crate::simulated::{SimulatedClock, SimulatedRandom};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    pub const EIO: i32 = 5;
    pub const ENOSPC: i32 = 28;
    pub const ENOMEM: i32 = 12;
    pub const ENFILE: i32 = 23;
    pub const EMFILE: i32 = 24;
}

/// Where the power goes: at the boundary of that number, counted from 1, before the operation or
/// after it.
#[derive(Clone, Copy, Debug)]
pub struct CrashPoint {
    pub boundary: u64,
    pub after: bool,
}

type Tracer = Box<dyn FnMut(&str) + Send>;

pub(super) struct State {
    pub(super) random: SimulatedRandom,
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) next_inode: u64,
    pub(super) names: Names,
    pub(super) dirs: BTreeSet<PathBuf>,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) capacity: u64,
    pub(super) boundaries: u64,
    pub(super) crash: Option<CrashPoint>,
    pub(super) halted: bool,
    pub(super) unwinds: bool,
    /// Of the machine's life: handles of earlier ones are void.
    pub(super) life: u64,
    pub(super) faults: Vec<Fault>,
    pub(super) counts: BTreeMap<FaultKind, u64>,
    pub(super) tracer: Option<Tracer>,
    /// Fsyncs wait while this holds.
    pub(super) syncs_held: bool,
    pub(super) syncs_waiting: usize,
}

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) clock: SimulatedClock,
    pub(super) changed: Condvar,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change of names. Where it fails, nobody knows whether it took place.
    pub(super) fn change_names<T>(
        &self,
        operation: &'static str,
        path: &Path,
        body: impl FnOnce(&mut State) -> DiskResult<T>,
    ) -> DiskResult<T> {
        self.change(operation, path, FaultKind::Name, true, 0, |state, fault| {
            let Some(fault) = fault else { return body(state) };
            if fault.error == Fault::EIO && state.random.percent(50) {
                let _ = body(state);
            }
            Err(failed(operation, path, fault.error))
        })
    }

    /// An operation that changes something: it can fail, and the power can go at it.
    pub(super) fn change<T>(
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
        state.trace(operation, path, detail);
        let fault = state.fault(kind, counted);
        if let Some(fault) = &fault {
            state.trace("fail to", path, fault.error as u64);
        }
        let result = body(state, fault);
        if crash.is_some() {
            return Err(state.lose_power(operation, path));
        }
        result
    }
}

impl State {
    pub(super) fn new(seed: u64) -> State {
        State {
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
        }
    }

    pub(super) fn check(&self, operation: &'static str, path: &Path) -> DiskResult<()> {
        if self.halted { Err(no_power(operation, path)) } else { Ok(()) }
    }

    fn lose_power(&mut self, operation: &'static str, path: &Path) -> DiskError {
        self.halted = true;
        self.trace("lose power at", path, 0);
        if self.unwinds && !std::thread::panicking() {
            std::panic::resume_unwind(Box::new(PowerLost));
        }
        no_power(operation, path)
    }

    pub(super) fn trace(&mut self, operation: &str, path: &Path, detail: u64) {
        if let Some(tracer) = &mut self.tracer {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            tracer(&format!("disk {operation} {name} {detail}"));
        }
    }

    /// Counts the call; the fault that it meets.
    pub(super) fn fault(&mut self, kind: FaultKind, counted: bool) -> Option<Fault> {
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

    pub(super) fn used(&self) -> u64 {
        self.inodes.values().map(|inode| inode.len() as u64).sum()
    }

    pub(super) fn new_inode(&mut self, path: &Path) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        self.names.put(path, inode);
        inode
    }
}

pub(super) fn no_power(operation: &'static str, path: &Path) -> DiskError {
    DiskError::new(operation, path, io::Error::other("the simulated machine has lost power"))
}

pub(super) fn failed(operation: &'static str, path: &Path, error: i32) -> DiskError {
    DiskError::new(operation, path, io::Error::from_raw_os_error(error))
}

pub(super) fn no_such(operation: &'static str, path: &Path) -> DiskError {
    DiskError::new(operation, path, io::Error::from(io::ErrorKind::NotFound))
}
