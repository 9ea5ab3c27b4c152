//! What samples of a ratio say: their median, an interval that holds the true one with a
//! probability of 95 %, and a verdict.
//!
//! The interval is between two of the sorted samples themselves (the sign test turned round): it
//! asks for nothing about how they are distributed, which on a machine that is shared with others
//! is nothing that anybody knows.

use serde::Serialize;
use std::fmt;

/// How sure an interval is.
const CONFIDENCE: f64 = 0.95;
/// With fewer samples not even smallest and largest are that sure.
pub const ROUNDS_MIN: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// Whether `low` and `high` hold with the confidence promised, or are just smallest and largest
    /// of too few samples.
    pub certain: bool,
}

impl Interval {
    /// By the median; without end while nothing is certain.
    pub fn width(&self) -> f64 {
        if self.certain { (self.high - self.low) / self.median } else { f64::INFINITY }
    }

    /// The same of the inverse ratio.
    fn inverse(&self) -> Interval {
        Interval { median: 1.0 / self.median, low: 1.0 / self.high, high: 1.0 / self.low, certain: self.certain }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.median, self.low, self.high)
    }
}

/// `samples` must not be empty.
pub fn interval(samples: &[f64]) -> Interval {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let left_out = left_out(sorted.len());
    let low = left_out.unwrap_or(0);
    let high = sorted.len() - 1 - left_out.unwrap_or(0);
    Interval {
        median: (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0,
        low: sorted[low],
        high: sorted[high],
        certain: left_out.is_some(),
    }
}

/// How many samples may be left out at each end, so that the median still lies between those that
/// are left. It lies below the smallest but `k` with the probability that at most `k` of `count`
/// coins fall on one side.
fn left_out(count: usize) -> Option<usize> {
    let mut found = None;
    let mut tail = 0.0;
    let mut term = 0.5f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    for k in 0..count / 2 {
        tail += term;
        if 2.0 * tail > 1.0 - CONFIDENCE {
            break;
        }
        found = Some(k);
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Faster,
    /// Not below the threshold, and not clearly above 1.
    Same,
    /// Below the threshold, in transactions a second or in transactions for a second of the
    /// server's CPU.
    Slower,
    /// The intervals are too wide to tell.
    Undecided,
}

impl Verdict {
    /// `cpu` is the ratio of CPU time per transaction: less is better.
    pub fn of(throughput: &Interval, cpu: &Interval, threshold: f64) -> Verdict {
        let one = |ratio: &Interval| match ratio {
            ratio if !ratio.certain => Verdict::Undecided,
            ratio if ratio.high < threshold => Verdict::Slower,
            ratio if ratio.low < threshold => Verdict::Undecided,
            ratio if ratio.low > 1.0 => Verdict::Faster,
            _ => Verdict::Same,
        };
        match (one(throughput), one(&cpu.inverse())) {
            (Verdict::Slower, _) | (_, Verdict::Slower) => Verdict::Slower,
            (Verdict::Undecided, _) | (_, Verdict::Undecided) => Verdict::Undecided,
            (throughput, _) => throughput,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::Slower => "SLOWER",
            Verdict::Undecided => "undecided",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_may_be_left_out_as_in_the_tables_of_the_sign_test() {
        let expected = [
            (1, None),
            (5, None),
            (6, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
            (12, Some(2)),
            (20, Some(5)),
            (50, Some(17)),
        ];
        for (count, out) in expected {
            assert_eq!(left_out(count), out, "{count}");
        }
        assert!(left_out(ROUNDS_MIN - 1).is_none() && left_out(ROUNDS_MIN).is_some());
    }

    #[test]
    fn intervals_are_between_samples() {
        let all = interval(&[1.2, 0.9, 1.0, 1.1, 0.8, 1.3]);
        assert_eq!((all.low, all.high, all.certain), (0.8, 1.3, true));
        assert!((all.median - 1.05).abs() < 1e-9);
        let without_ends = interval(&[0.1, 1.0, 1.0, 1.0, 1.02, 1.0, 0.99, 1.0, 9.0]);
        assert_eq!((without_ends.median, without_ends.low, without_ends.high), (1.0, 0.99, 1.02));
        assert!((without_ends.width() - 0.03).abs() < 1e-9);
        let few = interval(&[2.0, 1.0]);
        assert_eq!((few.median, few.certain, few.width()), (1.5, false, f64::INFINITY));
    }

    fn between(low: f64, high: f64) -> Interval {
        Interval { median: (low + high) / 2.0, low, high, certain: true }
    }

    #[test]
    fn verdicts() {
        let even = between(0.995, 1.005);
        for (throughput, cpu, threshold, verdict) in [
            (even, even, 0.98, Verdict::Same),
            (between(1.01, 1.05), even, 0.98, Verdict::Faster),
            (between(0.90, 0.97), even, 0.98, Verdict::Slower),
            (between(0.90, 0.99), even, 0.98, Verdict::Undecided),
            // What costs more CPU is slower on a machine that has other things to do.
            (even, between(1.05, 1.10), 0.98, Verdict::Slower),
            (even, between(1.00, 1.10), 0.98, Verdict::Undecided),
            (between(1.12, 1.2), between(0.80, 0.90), 1.10, Verdict::Faster),
            (between(1.05, 1.09), between(0.80, 0.90), 1.10, Verdict::Slower),
            (Interval { certain: false, ..even }, even, 0.98, Verdict::Undecided),
        ] {
            assert_eq!(Verdict::of(&throughput, &cpu, threshold), verdict, "{throughput} {cpu} {threshold}");
        }
    }
}
