//! A clock that stands still until it is moved on. Clones show the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::clock::Clock;

/// Wall time at the beginning: 2024-01-01.
const EPOCH_MICROS: i64 = 1_704_067_200_000_000;

#[derive(Clone, Default, Debug)]
pub struct SimulatedClock {
    nanos: Arc<AtomicU64>,
    /// By how much the wall clock was set forward, in microseconds.
    jumped: Arc<AtomicI64>,
}

impl SimulatedClock {
    pub fn advance(&self, time: Duration) {
        self.nanos.fetch_add(time.as_nanos() as u64, SeqCst);
    }

    /// Somebody sets the wall clock, forward or back.
    pub fn jump(&self, micros: i64) {
        self.jumped.fetch_add(micros, SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn monotonic_nanos(&self) -> u64 {
        self.nanos.load(SeqCst)
    }

    /// A simulated machine is never suspended.
    fn boottime_nanos(&self) -> u64 {
        self.monotonic_nanos()
    }

    fn wall_micros(&self) -> i64 {
        EPOCH_MICROS + (self.nanos.load(SeqCst) / 1_000) as i64 + self.jumped.load(SeqCst)
    }
}
