//! When a node that does not belong to a cluster yet asks the others again.

use std::time::{Duration, Instant};

/// Between two rounds of questions. News is asked about in between.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A node that joins asks first after this, then after twice as long, up to [`ASK_EVERY`].
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Of one node.
pub struct Rounds {
    next: Instant,
    pause: Duration,
}

impl Rounds {
    pub fn new(now: Instant) -> Rounds {
        Rounds { next: now, pause: ASK_EVERY }
    }

    /// At once, and then less and less often.
    pub fn hurry(&mut self, now: Instant) {
        (self.next, self.pause) = (now, ASK_AGAIN);
    }

    /// When the next is due.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Begins a round, if one is due.
    pub fn begin(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + self.pause;
            self.pause = (self.pause * 2).min(ASK_EVERY);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_once_a_second_and_faster_after_news() {
        let begin = Instant::now();
        let mut rounds = Rounds::new(begin);
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(
            [0, 0, 999, 1_000, 1_999, 2_000].map(|millis| rounds.begin(at(millis))),
            [true, false, false, true, false, true]
        );
        rounds.hurry(at(2_500));
        let taken: Vec<u64> = (2_500..6_000).filter(|millis| rounds.begin(at(*millis))).collect();
        assert_eq!(taken, [2_500, 2_600, 2_800, 3_200, 4_000, 5_000]);
    }
}
