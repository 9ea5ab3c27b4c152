//! The way to an applier, for the code that hands it committed entries, and what the applier has
//! come to.

use crate::delivery::{Arrival, Delivery};
use crate::waker::WakingSender;
use ferrite_base::{Position, limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The way to an applier.
#[derive(Clone)]
pub struct Intake {
    pub(super) sender: WakingSender<Delivery>,
    /// Bytes of entries that were sent and not yet applied.
    pub(super) held: Arc<AtomicUsize>,
    /// Entries up to there are read from the log, and follow; 0: none are.
    pub(super) from_log: Arc<AtomicU64>,
    pub(super) applied: Arc<AtomicU64>,
    pub(super) compared: Arc<AtomicU64>,
    pub(super) ended: Arc<AtomicBool>,
}

impl Intake {
    /// Sends committed entries; returns them where the limit of entries in flight is reached, or
    /// earlier ones are read from the log. That is the bound of all queues from here to the
    /// partitions. It never waits: where there is a log, [`Intake::up_to`] takes their place.
    ///
    /// This and the next are called by one thread.
    pub fn entries(&self, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        let held = self.held.load(Ordering::Relaxed);
        let is_full = held > 0 && held + bytes.len() > limits::COPY_ENTRIES_BYTES_MAX;
        if is_full || self.from_log.load(Ordering::Acquire) > 0 {
            return Err(bytes);
        }
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.send(Delivery::Entries(Arc::new(Arrival { bytes, held: Arc::clone(&self.held) })));
        Ok(())
    }

    /// Entries after all that was sent, up to there, are committed, and in the node's log or on
    /// their way to it: the applier reads them there
    /// ([`Applier::with_log`](super::Applier::with_log)).
    pub fn up_to(&self, position: Position) {
        let more = |up_to: u64| (up_to > 0).then_some(up_to.max(position.0));
        if self.from_log.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            self.from_log.store(position.0, Ordering::Release);
            self.send(Delivery::FromLog);
        }
    }

    /// An applier that has ended drops what comes.
    pub fn send(&self, delivery: Delivery) {
        let _ = self.sender.send(delivery);
    }

    /// How often the tables were compared with the leader's, and were the same.
    pub fn compared(&self) -> u64 {
        self.compared.load(Ordering::Relaxed)
    }

    /// Where [`Intake::applied`] is read from.
    pub fn progress(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.applied)
    }

    /// It asks nothing of the partitions any more.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The copy's tables show everything up to there.
    pub fn applied(&self) -> Position {
        Position(self.applied.load(Ordering::Acquire))
    }
}
