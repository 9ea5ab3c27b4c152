//! Counters of the log, written by its thread and read by any.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const STEPS: usize = 8;
const BUCKETS: usize = 62 * STEPS;

/// Counts durations in buckets that are an eighth of a power of two wide, so that quantiles are
/// right within 12 %.
pub struct Histogram {
    buckets: Box<[AtomicU64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]) }
    }
}

impl Histogram {
    pub fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)].fetch_add(1, Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// The duration below which this part (0 to 1) of all lie: the middle of its bucket. Zero when
    /// there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let rank = ((total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in counts.iter().enumerate() {
            seen += count;
            if seen >= rank && total > 0 {
                let (low, width) = bounds_of(index);
                return Duration::from_nanos(low + width / 2);
            }
        }
        Duration::ZERO
    }

    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let power = nanos.ilog2() as usize;
    let step = (nanos >> (power - 3)) as usize - STEPS;
    ((power - 2) * STEPS + step).min(BUCKETS - 1)
}

/// Lowest value and width of a bucket.
fn bounds_of(index: usize) -> (u64, u64) {
    if index < STEPS {
        return (index as u64, 0);
    }
    let shift = index / STEPS - 1;
    (((STEPS + index % STEPS) as u64) << shift, 1 << shift)
}

#[derive(Default)]
pub struct LogStatistics {
    /// Appends and barriers completed without error.
    pub appends: AtomicU64,
    pub payload_bytes: AtomicU64,
    pub blocks: AtomicU64,
    /// Bytes written to segments, headers and padding included, filling with zeros not.
    pub written_bytes: AtomicU64,
    /// Segments begun since the log was opened.
    pub segments: AtomicU64,
    /// The number of the segment that is written; those after it are prepared ahead.
    pub segment: AtomicU64,
    /// Time to make a batch durable. With `Durability::Sync` its write is included, since what
    /// fsync alone takes then depends on how the write is done.
    pub fsyncs: Histogram,
    /// Appends and barriers taken over and not yet completed.
    pub queue_depth: AtomicUsize,
    /// And the bytes of these.
    pub queue_bytes: AtomicUsize,
    pub failed: AtomicBool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_hold_their_values() {
        for value in (0..10_000u64).chain((0..64).map(|power| 1 << power)).chain([u64::MAX]) {
            let (low, width) = bounds_of(bucket_of(value));
            assert!(low <= value && (value - low <= width), "{value}: {low} + {width}");
        }
    }

    #[test]
    fn quantiles() {
        let histogram = Histogram::default();
        assert_eq!(histogram.median(), Duration::ZERO);
        for micros in 1..=1_000 {
            histogram.record(Duration::from_micros(micros));
        }
        assert_eq!(histogram.count(), 1_000);
        let close = |part: f64, micros: f64| (histogram.quantile(part).as_secs_f64() * 1e6 / micros - 1.0).abs() < 0.07;
        assert!(close(0.5, 500.0) && close(0.99, 990.0) && close(0.0, 1.0));
    }
}
