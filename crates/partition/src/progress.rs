//! Tells the operator how far recovery is: a line a second once it takes longer than two, and its
//! [`RecoveryProgress`] for any thread that looks.

use ferrite_io::Clock;
use ferrite_notice::Notice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Takes what the operator is to hear.
pub type ProgressListener = dyn Fn(Notice) + Sync;

const FIRST_NANOS: u64 = 2_000_000_000;
const EVERY_NANOS: u64 = 1_000_000_000;

/// Where a recovery can be seen from another thread.
#[derive(Default, Debug)]
pub struct RecoveryProgress {
    phase: Mutex<Phase>,
    bytes: AtomicU64,
    rows: AtomicU64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Phase {
    name: &'static str,
    /// By the recovery's clock.
    begun: u64,
    bytes_total: u64,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// What it is about: `snapshot`, or `log`; empty before it has begun with either.
    pub phase: &'static str,
    /// Done of it.
    pub bytes: u64,
    /// At most this many there are.
    pub bytes_total: u64,
    pub rows: u64,
    /// On it so far.
    pub elapsed: Duration,
}

impl RecoveryProgress {
    /// `now` is the time of the clock that the recovery has.
    pub fn read(&self, now: u64) -> Seen {
        let Phase { name, begun, bytes_total } = *self.phase.lock().expect("no panic with the phase");
        let bytes = self.bytes.load(Relaxed);
        let rows = self.rows.load(Relaxed);
        let elapsed = if name.is_empty() { 0 } else { now.saturating_sub(begun) };
        Seen { phase: name, bytes, bytes_total, rows, elapsed: Duration::from_nanos(elapsed) }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.phase.is_empty() { f.write_str("recovering: it has just begun") } else { self.notice().fmt(f) }
    }
}

impl Seen {
    fn notice(&self) -> Notice {
        let Seen { phase, bytes, bytes_total, rows, elapsed } = *self;
        Notice::Recovering { phase, bytes, bytes_total, rows, elapsed }
    }
}

pub(crate) struct ProgressReporter<'r> {
    clock: Arc<dyn Clock>,
    report: &'r ProgressListener,
    progress: &'r RecoveryProgress,
    next_line: AtomicU64,
}

impl<'r> ProgressReporter<'r> {
    pub fn new(
        clock: Arc<dyn Clock>,
        report: &'r ProgressListener,
        progress: &'r RecoveryProgress,
    ) -> ProgressReporter<'r> {
        let next_line = AtomicU64::new(clock.monotonic_nanos() + FIRST_NANOS);
        ProgressReporter { clock, report, progress, next_line }
    }

    pub fn now(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    pub fn say(&self, notice: Notice) {
        (self.report)(notice);
    }

    /// From now on it is about this, which has at most this many bytes.
    pub fn begin(&self, name: &'static str, bytes_total: u64) {
        *self.progress.phase.lock().expect("no panic with the phase") = Phase { name, begun: self.now(), bytes_total };
        self.progress.bytes.store(0, Relaxed);
        self.progress.rows.store(0, Relaxed);
    }

    /// This much more is done. Called from any thread.
    pub fn add(&self, bytes: u64, rows: u64) {
        self.progress.bytes.fetch_add(bytes, Relaxed);
        self.progress.rows.fetch_add(rows, Relaxed);
        let now = self.now();
        let due = self.next_line.load(Relaxed);
        if now < due || self.next_line.compare_exchange(due, now + EVERY_NANOS, Relaxed, Relaxed).is_err() {
            return;
        }
        self.say(self.progress.read(now).notice());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_io::simulated::SimulatedClock;

    #[test]
    fn what_is_seen_and_what_is_said() {
        let (clock, progress, lines) =
            (SimulatedClock::default(), RecoveryProgress::default(), Arc::new(Mutex::new(Vec::new())));
        let said = Arc::clone(&lines);
        let report = move |notice: Notice| said.lock().unwrap().push(notice.to_string());
        let reporter = ProgressReporter::new(Arc::new(clock.clone()), &report, &progress);
        assert_eq!(progress.read(clock.monotonic_nanos()).to_string(), "recovering: it has just begun");
        reporter.begin("snapshot", 400_000_000);
        clock.advance(Duration::from_millis(1_999));
        reporter.add(100_000_000, 10);
        assert!(lines.lock().unwrap().is_empty(), "a short recovery is not worth a line");
        clock.advance(Duration::from_millis(1));
        reporter.add(100_000_000, 10);
        reporter.add(0, 0);
        clock.advance(Duration::from_secs(1));
        reporter.begin("log", 5_000_000);
        clock.advance(Duration::from_secs(2));
        reporter.add(3_000_000, 0);
        assert_eq!(
            *lines.lock().unwrap(),
            ["recovering: snapshot, 200 MB of 400, 20 rows, 100 MB/s", "recovering: log, 3 MB of 5, 2 MB/s"]
        );
    }
}
