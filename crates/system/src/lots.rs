//! Transactions over groups, as the node that orders them counts.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Of a node since it started. Those that wait, and that are open, come and go.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LotCounts {
    /// Calls over several groups that were given to lots; one that began again counts again.
    pub calls: u64,
    /// Calls that failed by what they met.
    pub failed: u64,
    /// Calls that came with another catalog than a group had, and were looked up again.
    pub stale: u64,
    /// Calls that were answered with status -7.
    pub unknown: u64,
    /// Lots, in all.
    pub begun: u64,
    pub committed: u64,
    /// Lots that only read, and whose calls were answered.
    pub read: u64,
    /// Lots of which nothing took place.
    pub aborted: u64,
    /// Calls that wait for a lot.
    pub waiting: u64,
    /// Lots that are not decided.
    pub open: u64,
    /// For how long the oldest of these has not been.
    pub open_millis: u64,
}

/// The same for all threads that ask. One thread writes.
#[derive(Default)]
pub struct LotFigures([AtomicU64; 11]);

impl LotFigures {
    pub fn set(&self, counts: LotCounts) {
        let LotCounts { calls, failed, stale, unknown, begun, committed, read, aborted, waiting, open, open_millis } =
            counts;
        let all = [calls, failed, stale, unknown, begun, committed, read, aborted, waiting, open, open_millis];
        self.0.iter().zip(all).for_each(|(figure, value)| figure.store(value, Relaxed));
    }

    pub fn read(&self) -> LotCounts {
        let [calls, failed, stale, unknown, begun, committed, read, aborted, waiting, open, open_millis] =
            self.0.each_ref().map(|figure| figure.load(Relaxed));
        LotCounts { calls, failed, stale, unknown, begun, committed, read, aborted, waiting, open, open_millis }
    }
}
