//! When batches go to the partition's thread although it rests, since some took long at its seat.
//!
//! Promises that a single long one, as when the machine gave the processor to something else,
//! costs few batches their short way, and that calls which are always long soon lose it.

use std::time::Duration;

/// A batch that is run while a partition rests should take less; a short call takes a few
/// microseconds.
const TIME_MAX: Duration = Duration::from_micros(200);
/// Batches that are declined after a long one, if none was long before.
const DECLINED_MIN: u32 = 8;
/// After several.
const DECLINED_MAX: u32 = 1_000;

#[derive(Default)]
pub(super) struct SeatBackoff {
    left: u32,
    /// How many the next long batch costs beyond [`DECLINED_MIN`].
    more: u32,
}

impl SeatBackoff {
    /// Whether the next batch is to be declined; counts it.
    #[inline]
    pub(super) fn declines(&mut self) -> bool {
        let declines = self.left > 0;
        self.left -= u32::from(declines);
        declines
    }

    /// A batch took so long.
    #[inline]
    pub(super) fn ran(&mut self, took: Duration) {
        if took <= TIME_MAX {
            self.more = self.more.saturating_sub(1);
            return;
        }
        self.left = (DECLINED_MIN + self.more).min(DECLINED_MAX);
        self.more = 4 * self.left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_micros(201);

    fn declined(backoff: &mut SeatBackoff) -> u32 {
        (0..).take_while(|_| backoff.declines()).last().map_or(0, |last: u32| last + 1)
    }

    #[test]
    fn a_long_batch_now_and_then_costs_few_others() {
        let mut backoff = SeatBackoff::default();
        for _ in 0..10 {
            backoff.ran(LONG);
            assert_eq!(declined(&mut backoff), DECLINED_MIN);
            (0..4 * DECLINED_MIN).for_each(|_| backoff.ran(SHORT));
        }
    }

    #[test]
    fn calls_that_are_always_long_lose_their_seat() {
        let mut backoff = SeatBackoff::default();
        let costs = [(); 6].map(|()| {
            backoff.ran(LONG);
            declined(&mut backoff)
        });
        assert_eq!(costs, [8, 40, 168, 680, 1_000, 1_000]);
    }
}
