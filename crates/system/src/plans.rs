//! Plans of ad hoc statements: how they were used.

use std::time::Duration;

/// How long texts took to compile, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compilations {
    pub count: u64,
    /// Of these ended with an error.
    pub failures: u64,
    /// All together.
    pub nanoseconds: u64,
    pub nanoseconds_min: u64,
    pub nanoseconds_max: u64,
}

impl Compilations {
    pub fn add(&mut self, time: Duration, failed: bool) {
        let nanoseconds = time.as_nanos() as u64;
        self.nanoseconds_min = if self.count == 0 { nanoseconds } else { self.nanoseconds_min.min(nanoseconds) };
        self.nanoseconds_max = self.nanoseconds_max.max(nanoseconds);
        self.nanoseconds += nanoseconds;
        self.count += 1;
        self.failures += u64::from(failed);
    }
}

/// Counts since the start, and what is there now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlanCacheStatistics {
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub entries: u64,
    pub compilations: Compilations,
}
