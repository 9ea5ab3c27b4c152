//! A wall clock that does not go back by a little, whoever sets it.

use crate::clock::Clock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// By more than this it goes back: time that stood still for hours would be worse.
const HELD_MICROS: i64 = 60_000_000;
/// What was shown is remembered to so much, so that threads do not hold each other up.
const STEP_MICROS: i64 = 1_000;

/// Where the wall clock below is set back by a minute at most, or is that much behind what another
/// node has shown, the time stands still until it has caught up. The other clocks are those below.
#[derive(Debug)]
pub struct SteadyClock<C> {
    below: C,
    /// Packed [`Shown`].
    shown: AtomicI64,
}

/// What the clock has shown.
#[derive(Clone, Copy)]
enum Shown {
    /// Nothing that is a step later than this.
    About(i64),
    /// This, and nothing later: it stands still.
    Held(i64),
}

impl Shown {
    fn pack(self) -> i64 {
        match self {
            Shown::About(at) => at << 1,
            Shown::Held(at) => at << 1 | 1,
        }
    }

    fn unpack(packed: i64) -> Shown {
        if packed & 1 == 0 { Shown::About(packed >> 1) } else { Shown::Held(packed >> 1) }
    }
}

impl<C: Clock> SteadyClock<C> {
    pub fn new(below: C) -> SteadyClock<C> {
        let shown = AtomicI64::new(Shown::About(below.wall_micros()).pack());
        SteadyClock { below, shown }
    }
}

impl<C: Clock> Clock for SteadyClock<C> {
    #[inline]
    fn monotonic_nanos(&self) -> u64 {
        self.below.monotonic_nanos()
    }

    #[inline]
    fn boottime_nanos(&self) -> u64 {
        self.below.boottime_nanos()
    }

    #[inline]
    fn wall_micros(&self) -> i64 {
        loop {
            let wall = self.below.wall_micros();
            let packed = self.shown.load(Relaxed);
            let (at, next, show) = match Shown::unpack(packed) {
                Shown::About(at) if (0..STEP_MICROS).contains(&(wall - at)) => return wall,
                Shown::About(at) => (at, Shown::Held(at + STEP_MICROS), at + STEP_MICROS),
                Shown::Held(at) => (at, Shown::Held(at), at),
            };
            let goes_on = wall > at || at - wall > HELD_MICROS;
            let (next, show) = if goes_on { (Shown::About(wall).pack(), wall) } else { (next.pack(), show) };
            if next == packed || self.shown.compare_exchange(packed, next, Relaxed, Relaxed).is_ok() {
                return show;
            }
        }
    }

    fn wall_was(&self, micros: i64) {
        // What is too far ahead is not held to.
        if micros - self.below.wall_micros() <= HELD_MICROS {
            self.shown.fetch_max(Shown::Held(micros).pack(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedClock;
    use std::time::Duration;

    const HOUR: i64 = 3_600_000_000;

    fn clocks() -> (SimulatedClock, SteadyClock<SimulatedClock>) {
        let below = SimulatedClock::default();
        (below.clone(), SteadyClock::new(below))
    }

    #[test]
    fn it_shows_what_is_below_while_that_goes_on() {
        let (below, steady) = clocks();
        for step in [0, 1, 999, 1_000, 1_001, 5_000_000_000] {
            below.advance(Duration::from_micros(step));
            assert_eq!(steady.wall_micros(), below.wall_micros());
            assert_eq!(steady.boottime_nanos(), below.boottime_nanos());
            assert_eq!(steady.monotonic_nanos(), below.monotonic_nanos());
        }
        below.jump(5 * HOUR);
        assert_eq!(steady.wall_micros(), below.wall_micros(), "forward it jumps");
    }

    #[test]
    fn set_back_by_a_little_it_stands_still_until_that_has_passed() {
        let (below, steady) = clocks();
        let mut last = steady.wall_micros();
        below.advance(Duration::from_micros(700));
        last = last.max(steady.wall_micros());
        below.jump(-10_000_000);
        for _ in 0..10 {
            let now = steady.wall_micros();
            assert!(now >= last && now <= last + STEP_MICROS, "{now} behind {last}");
            last = now;
            below.advance(Duration::from_secs(1));
        }
        below.advance(Duration::from_secs(1));
        assert_eq!(steady.wall_micros(), below.wall_micros(), "it has caught up");
        // Also while it catches up, microsecond by microsecond.
        below.jump(-2_000);
        let mut last = steady.wall_micros();
        for _ in 0..4_000 {
            below.advance(Duration::from_micros(1));
            let now = steady.wall_micros();
            assert!(now >= last, "{now} behind {last}");
            last = now;
        }
        assert_eq!(last, below.wall_micros());
    }

    #[test]
    fn set_back_by_hours_it_follows() {
        let (below, steady) = clocks();
        let begin = steady.wall_micros();
        below.jump(3 * HOUR);
        assert_eq!(steady.wall_micros(), begin + 3 * HOUR);
        below.jump(-3 * HOUR);
        assert_eq!(steady.wall_micros(), begin);
        below.advance(Duration::from_secs(1));
        assert_eq!(steady.wall_micros(), begin + 1_000_000);
        // To the limit, and past it.
        below.jump(-HELD_MICROS);
        assert!(steady.wall_micros() >= begin + 1_000_000);
        below.jump(-STEP_MICROS - 1);
        assert_eq!(steady.wall_micros(), below.wall_micros());
    }

    #[test]
    fn what_another_node_has_shown_is_not_gone_behind() {
        let (below, steady) = clocks();
        let there = below.wall_micros() + 20_000_000;
        steady.wall_was(there);
        steady.wall_was(below.wall_micros());
        assert!(steady.wall_micros() >= there);
        below.advance(Duration::from_secs(21));
        assert_eq!(steady.wall_micros(), below.wall_micros());
        // One whose clock was hours ahead.
        steady.wall_was(below.wall_micros() + 5 * HOUR);
        assert_eq!(steady.wall_micros(), below.wall_micros());
    }
}
