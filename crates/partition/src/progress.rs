//! Tells the operator how far recovery is: a line a second once it takes longer than two.

use ferrite_io::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Takes a line for the operator.
pub type Report = dyn Fn(&str) + Sync;

const FIRST_NANOS: u64 = 2_000_000_000;
const EVERY_NANOS: u64 = 1_000_000_000;

pub(crate) struct Progress<'r> {
    clock: Arc<dyn Clock>,
    report: &'r Report,
    phase: Mutex<&'static str>,
    begun: AtomicU64,
    bytes: AtomicU64,
    rows: AtomicU64,
    next_line: AtomicU64,
}

impl<'r> Progress<'r> {
    pub fn new(clock: Arc<dyn Clock>, report: &'r Report) -> Progress<'r> {
        let now = clock.monotonic_nanos();
        Progress {
            clock,
            report,
            phase: Mutex::new(""),
            begun: AtomicU64::new(now),
            bytes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            next_line: AtomicU64::new(now + FIRST_NANOS),
        }
    }

    pub fn now(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    pub fn say(&self, line: &str) {
        (self.report)(line);
    }

    /// From now on it is about this.
    pub fn begin(&self, phase: &'static str) {
        *self.phase.lock().expect("no panic with the phase") = phase;
        self.begun.store(self.now(), Relaxed);
        self.bytes.store(0, Relaxed);
        self.rows.store(0, Relaxed);
    }

    /// So much more is done. Called from any thread.
    pub fn add(&self, bytes: u64, rows: u64) {
        let bytes = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let rows = self.rows.fetch_add(rows, Relaxed) + rows;
        let (now, due) = (self.now(), self.next_line.load(Relaxed));
        if now < due || self.next_line.compare_exchange(due, now + EVERY_NANOS, Relaxed, Relaxed).is_err() {
            return;
        }
        let seconds = now.saturating_sub(self.begun.load(Relaxed)).max(1) as f64 / 1e9;
        let megabytes = bytes as f64 / 1e6;
        let phase = *self.phase.lock().expect("no panic with the phase");
        let rows = if rows > 0 { format!(", {rows} rows") } else { String::new() };
        self.say(&format!("recovering: {phase}, {megabytes:.0} MB{rows}, {:.0} MB/s", megabytes / seconds));
    }
}
