//! A file of a simulated disk that is open, and a lock that is held: what reading, writing and
//! fsync do, and how long they take.
//!
//! Whether an operation fails is decided in `state.rs`.

use super::state::{Fault, FaultKind, Shared, State, failed, no_power, no_such};
use crate::disk::{DiskFile, DiskLock, DiskResult, SECTOR_BYTES};
use crate::simulated::inode::Inode;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub(super) struct SimulatedLock {
    pub(super) shared: Arc<Shared>,
    pub(super) path: PathBuf,
    pub(super) life: u64,
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

pub(super) struct SimulatedFile {
    pub(super) shared: Arc<Shared>,
    pub(super) path: PathBuf,
    pub(super) inode: u64,
    pub(super) life: u64,
    pub(super) writable: bool,
    pub(super) direct: bool,
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
            state.trace("fail to read", &self.path, offset);
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
                None if fits < bytes.len() => Err(failed("write", &self.path, Fault::ENOSPC)),
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

    fn preallocate(&self, bytes: u64) -> DiskResult<bool> {
        self.shared.change("preallocate", &self.path, FaultKind::Preallocate, self.writable, bytes, |state, fault| {
            if let Some(fault) = fault {
                return Err(failed("preallocate", &self.path, fault.error));
            }
            let room = state.capacity.saturating_sub(state.used());
            let inode = self.inode(state, "preallocate")?;
            let growth = bytes.saturating_sub(inode.len() as u64);
            if growth > room {
                return Err(failed("preallocate", &self.path, Fault::ENOSPC));
            }
            if growth > 0 {
                inode.set_len(bytes as usize);
            }
            Ok(true)
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
