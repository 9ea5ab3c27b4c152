//! Time. Durations come from the monotonic clock; the wall clock is for showing and for SQL's NOW
//! only.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_nanos(&self) -> u64;

    /// The same, and it runs on while the machine is suspended: for what others count on, who do
    /// not stand still meanwhile.
    fn boottime_nanos(&self) -> u64;

    /// Microseconds since 1970-01-01 UTC; may jump.
    fn wall_micros(&self) -> i64;

    /// Somebody has shown this time, such as the node that led before this one.
    fn wall_was(&self, _micros: i64) {}
}

#[derive(Clone, Copy, Default, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[inline]
    fn monotonic_nanos(&self) -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[inline]
    fn boottime_nanos(&self) -> u64 {
        let time = clock_gettime(ClockId::Boottime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[inline]
    fn wall_micros(&self) -> i64 {
        let time = clock_gettime(ClockId::Realtime);
        time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
    }
}

/// Time since some fixed moment, in steps of a few milliseconds; never goes back. Costs a fifth of
/// what an exact clock does: for limits of seconds that are looked at often.
#[inline]
pub fn coarse_monotonic() -> Duration {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_forward() {
        let first = SystemClock.monotonic_nanos();
        assert!(SystemClock.monotonic_nanos() >= first);
        let first = SystemClock.boottime_nanos();
        assert!(SystemClock.boottime_nanos() >= first && first > 0);
        // 2020-01-01; catches a mistaken unit.
        assert!(SystemClock.wall_micros() > 1_577_836_800_000_000);
        assert!(SystemClock.wall_micros() < 1_577_836_800_000_000 * 10);
    }
}
