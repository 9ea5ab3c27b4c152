//! Where a partition rests while it has nothing to do. A network thread with few short calls runs
//! them there, in the place of the partition's thread, so that a lone call wakes no thread
//! (docs/decisions/0108-lone-calls.md).
//!
//! Owns the partition while it rests. Promises that what a thread sends is executed in the order in
//! which it is sent: a batch is run here only while the inbox is empty, and from the inbox nothing
//! is taken while the partition rests or runs here.

use super::Partition;
use crate::event::CallBatch;
use crossbeam_channel::Select;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// One partition's, known to its thread and to the network threads.
#[derive(Default)]
// Of each partition in lines of its own: every batch reads here.
#[repr(align(64))]
pub struct Seat {
    /// So that a batch for a busy partition does not touch the lock.
    rests: AtomicBool,
    /// Locked while a batch runs.
    partition: Mutex<Option<Box<Partition>>>,
}

/// A batch that was run here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    Whole,
    /// There is work for the partition's thread, which sleeps until an event comes.
    ThreadIsWanted,
}

impl Seat {
    /// Whether the partition rests, or did a moment ago.
    #[inline]
    pub fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// Runs the batch, if the partition rests and nothing else waits for it; or gives it back. To
    /// be called with calls that are short.
    ///
    /// # Errors
    /// The partition has other things to do: the batch goes to its inbox.
    pub fn run(&self, batch: CallBatch) -> Result<Ran, CallBatch> {
        let mut resting = match self.partition.try_lock() {
            Ok(resting) => resting,
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return Err(batch),
        };
        let Some(partition) = resting.as_mut() else { return Err(batch) };
        partition.run_elsewhere(batch)
    }

    /// The partition rests until there is an event in its inbox, every sender is gone, or the time
    /// is over; false for that.
    pub(crate) fn rest(
        &self,
        partition: Box<Partition>,
        inbox: &mut Select<'_>,
        time_max: Option<Duration>,
    ) -> (Box<Partition>, bool) {
        let before = self.lock().replace(partition);
        assert!(before.is_none(), "a seat is one partition's");
        self.rests.store(true, Ordering::Relaxed);
        let came = match time_max {
            Some(time) => inbox.ready_timeout(time).is_ok(),
            None => {
                inbox.ready();
                true
            }
        };
        self.rests.store(false, Ordering::Relaxed);
        let partition = self.lock().take().expect("a partition is where it was left");
        (partition, came)
    }

    /// A thread that panics ends the process.
    fn lock(&self) -> MutexGuard<'_, Option<Box<Partition>>> {
        self.partition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
