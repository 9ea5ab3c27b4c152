//! Which snapshots of a store are live, and the memory that is kept only for them
//! (docs/decisions/0004-page-snapshots.md has the invariant and the terms).
//!
//! Shared between the store's owner, who takes snapshots and retires memory, and whoever drops a
//! snapshot, on whatever thread.

use crate::page_directory::{Epoch, OldChunk};
use ferrite_base::memory::Block;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a table no longer uses and a snapshot may still read.
pub(crate) enum Memory {
    Page(Block),
    /// Nothing is done with it but to drop it. The pages that it lists are retired one by one.
    Chunk {
        _chunk: OldChunk,
    },
}

impl Memory {
    fn bytes(&self) -> usize {
        match self {
            Memory::Page(block) => block.len(),
            Memory::Chunk { .. } => OldChunk::BYTES,
        }
    }
}

struct Retired {
    stamp: Epoch,
    memory: Memory,
}

struct Live {
    epoch: Epoch,
    /// What this snapshot and perhaps older ones see, and no younger one does.
    retired: Vec<Retired>,
}

#[derive(Default)]
struct State {
    /// The epoch of the next snapshot.
    next: Epoch,
    /// Ascending by epoch.
    live: Vec<Live>,
}

impl State {
    /// The youngest live snapshot that can see memory with this stamp in a table of this epoch.
    fn viewer(&mut self, stamp: Epoch, table_epoch: Epoch) -> Option<&mut Live> {
        self.live.iter_mut().rev().find(|live| live.epoch < table_epoch).filter(|live| live.epoch >= stamp)
    }
}

/// The live snapshots of one store.
#[derive(Default)]
pub(crate) struct SnapshotPins {
    state: Mutex<State>,
    bytes: AtomicUsize,
}

impl SnapshotPins {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while holding the list of snapshots")
    }

    /// What a table made now has as its epoch: later than all snapshots so far.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lock().next
    }

    /// Begins a snapshot; it lives as long as what is returned.
    pub(crate) fn pin(self: &Arc<SnapshotPins>) -> Arc<SnapshotPin> {
        let mut state = self.lock();
        let epoch = state.next;
        state.next += 1;
        state.live.push(Live { epoch, retired: Vec::new() });
        Arc::new(SnapshotPin { pins: Arc::clone(self), epoch })
    }

    /// Whether a live snapshot can see memory with this stamp in a table of this epoch.
    pub(crate) fn is_visible(&self, stamp: Epoch, table_epoch: Epoch) -> bool {
        self.lock().viewer(stamp, table_epoch).is_some()
    }

    /// Keeps memory that the table no longer uses as long as a live snapshot can see it.
    pub(crate) fn retire(&self, stamp: Epoch, table_epoch: Epoch, memory: Memory) {
        let bytes = memory.bytes();
        if let Some(viewer) = self.lock().viewer(stamp, table_epoch) {
            viewer.retired.push(Retired { stamp, memory });
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes that only snapshots keep.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Live snapshots.
    pub(crate) fn count(&self) -> usize {
        self.lock().live.len()
    }

    /// The long part, over all that was retired, goes without the lock, for which the store's owner
    /// may be waiting.
    fn release(&self, epoch: Epoch) {
        let (mut retired, mut older) = {
            let mut state = self.lock();
            let position = state.live.iter().position(|live| live.epoch == epoch).expect("a snapshot ends once");
            let retired = state.live.remove(position).retired;
            (retired, position.checked_sub(1).map(|before| state.live[before].epoch))
        };
        while let Some(heir) = older {
            let (kept, freed): (Vec<_>, Vec<_>) = retired.into_iter().partition(|entry| entry.stamp <= heir);
            self.free(freed);
            retired = kept;
            let mut state = self.lock();
            let position = state.live.partition_point(|live| live.epoch <= heir);
            let last = position.checked_sub(1).map(|before| &mut state.live[before]);
            match last {
                Some(live) if live.epoch == heir => {
                    live.retired.append(&mut retired);
                    return;
                }
                // It has gone meanwhile: to the one before it.
                other => older = other.map(|live| live.epoch),
            }
        }
        self.free(retired);
    }

    fn free(&self, retired: Vec<Retired>) {
        let bytes: usize = retired.iter().map(|entry| entry.memory.bytes()).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        drop(retired);
    }
}

/// One snapshot's claim on what it sees; shared by its tables.
pub(crate) struct SnapshotPin {
    pins: Arc<SnapshotPins>,
    pub(crate) epoch: Epoch,
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        self.pins.release(self.epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::limits::PAGE_BYTES;

    fn page() -> Memory {
        Memory::Page(Block::zeroed(PAGE_BYTES))
    }

    #[test]
    fn memory_passes_to_older_viewers_and_then_goes() {
        let pins = Arc::new(SnapshotPins::default());
        let [first, second, third] = [pins.pin(), pins.pin(), pins.pin()];
        assert_eq!((first.epoch, second.epoch, third.epoch, pins.epoch()), (0, 1, 2, 3));
        pins.retire(3, 3, page());
        assert_eq!(pins.bytes(), 0, "made after all of them");
        pins.retire(0, 3, page());
        pins.retire(2, 3, page());
        assert_eq!(pins.bytes(), 2 * PAGE_BYTES);
        drop(third);
        assert_eq!(pins.bytes(), PAGE_BYTES, "the one made between the second and the third goes");
        // A table that the second snapshot does not cover.
        assert!(pins.is_visible(0, 1) && !pins.is_visible(1, 1));
        pins.retire(0, 1, page());
        drop(first);
        assert_eq!(pins.bytes(), PAGE_BYTES);
        assert!(!pins.is_visible(0, 1) && pins.is_visible(0, 2));
        drop(second);
        assert_eq!((pins.bytes(), pins.count()), (0, 0));
    }
}
