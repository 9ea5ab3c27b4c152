//! How much of the machine's cores the process uses.

use rustix::time::{ClockId, clock_gettime};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The share since it was asked last, whoever asked, or since the start.
pub struct ProcessorUse {
    /// When it was asked, and the seconds of all cores that had been used then.
    last: Mutex<(Instant, f64)>,
}

impl ProcessorUse {
    pub fn new(started: Instant) -> ProcessorUse {
        ProcessorUse { last: Mutex::new((started, 0.0)) }
    }

    /// 0 to 100, of all cores.
    pub(crate) fn percent(&self) -> i64 {
        let now = Instant::now();
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let used = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, used_before) = std::mem::replace(&mut *last, (now, used));
        let elapsed = now.duration_since(since).as_secs_f64().max(1e-3);
        (100.0 * (used - used_before) / (elapsed * cores() as f64)).round().clamp(0.0, 100.0) as i64
    }
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
