//! What one second of load was like, and many of them together.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies in microseconds to three digits. Longer than this counts as this: five minutes.
const LATENCY_MICROSECONDS_MAX: u64 = 300_000_000;

/// A stretch of time: usually a second, or all of them.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Microseconds of each answered call, from the intended send where there is a schedule.
    pub latencies: Histogram<u64>,
    pub succeeded: u64,
    /// Answered with an abort or a failure that rolled back.
    pub aborted: u64,
    /// Answered with any other failure.
    pub failed: u64,
    /// No answer, because the connection broke.
    pub lost: u64,
    /// Bytes of values read or written, where the load counts them.
    pub payload_bytes: u64,
}

impl Default for Measurement {
    fn default() -> Self {
        let latencies = Histogram::new_with_bounds(1, LATENCY_MICROSECONDS_MAX, 3).expect("the bounds are in order");
        Measurement { latencies, succeeded: 0, aborted: 0, failed: 0, lost: 0, payload_bytes: 0 }
    }
}

impl Measurement {
    #[inline]
    pub fn record_latency(&mut self, nanoseconds: u64) {
        self.latencies.saturating_record(nanoseconds / 1_000);
    }

    pub fn answered(&self) -> u64 {
        self.succeeded + self.aborted + self.failed
    }

    pub fn merge(&mut self, other: &Measurement) {
        self.latencies.add(&other.latencies).expect("all measurements have the same bounds");
        self.succeeded += other.succeeded;
        self.aborted += other.aborted;
        self.failed += other.failed;
        self.lost += other.lost;
        self.payload_bytes += other.payload_bytes;
    }

    pub fn latency(&self) -> Latency {
        let at = |quantile| self.latencies.value_at_quantile(quantile);
        Latency {
            average: self.latencies.mean(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: self.latencies.max(),
        }
    }
}

/// Microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latency {
    pub average: f64,
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub p99_99: u64,
    pub max: u64,
}

/// One second of a run, in short.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SecondSummary {
    /// Seconds since the measurement began.
    pub second: i64,
    pub transactions: u64,
    pub aborted: u64,
    pub failed: u64,
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

impl SecondSummary {
    pub fn new(second: i64, measurement: &Measurement) -> SecondSummary {
        let latency = measurement.latency();
        SecondSummary {
            second,
            transactions: measurement.succeeded,
            aborted: measurement.aborted,
            failed: measurement.failed + measurement.lost,
            p50: latency.p50,
            p99: latency.p99,
            max: latency.max,
        }
    }
}

/// The second with the fewest transactions.
pub fn worst_second(seconds: &[SecondSummary]) -> Option<SecondSummary> {
    seconds.iter().copied().min_by_key(|second| second.transactions)
}

/// The middle value; the mean of the two middle ones for an even number. None for an empty list.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_series() {
        let mut measurement = Measurement::default();
        for microseconds in 1..=10_000u64 {
            measurement.record_latency(microseconds * 1_000);
            measurement.succeeded += 1;
        }
        let latency = measurement.latency();
        // Three digits: half a percent is allowed.
        for (found, expected) in [
            (latency.p50, 5_000),
            (latency.p95, 9_500),
            (latency.p99, 9_900),
            (latency.p99_9, 9_990),
            (latency.p99_99, 9_999),
            (latency.max, 10_000),
        ] {
            assert!((found as f64 / f64::from(expected) - 1.0).abs() < 0.005, "{found} is not {expected}");
        }
        assert!((latency.average - 5_000.5).abs() < 25.0);
    }

    #[test]
    fn merging_adds_up() {
        let (mut a, mut b) = (Measurement::default(), Measurement::default());
        a.record_latency(1_000_000);
        b.record_latency(3_000_000);
        b.record_latency(u64::MAX);
        (a.succeeded, b.succeeded, b.aborted, b.failed, b.lost, b.payload_bytes) = (1, 2, 3, 4, 5, 6);
        a.merge(&b);
        assert_eq!((a.succeeded, a.aborted, a.failed, a.lost, a.payload_bytes), (3, 3, 4, 5, 6));
        assert_eq!((a.answered(), a.latencies.len()), (10, 3));
        assert!(a.latency().max >= LATENCY_MICROSECONDS_MAX, "what is too long counts as the longest");
    }

    #[test]
    fn the_worst_second_has_the_fewest_transactions() {
        let seconds: Vec<SecondSummary> = [900, 20, 1_000]
            .into_iter()
            .enumerate()
            .map(|(second, transactions)| {
                SecondSummary::new(second as i64, &Measurement { succeeded: transactions, ..Measurement::default() })
            })
            .collect();
        assert_eq!(worst_second(&seconds).map(|second| (second.second, second.transactions)), Some((1, 20)));
        assert_eq!(worst_second(&[]), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    }
}
