//! `ferrite bench pauses`: how long the machine itself stops a thread that does nothing but read
//! the clock.
//!
//! One thread per core, bound to it, spins and notes every gap between two readings that is longer
//! than a reading can take. What stops it is not the database: the hypervisor, interrupts, other
//! processes. No server on this machine can have a better tail of latency than these gaps allow, so
//! a latency figure is worth as much as the pauses beside it.

use crate::error::{BenchResult, Doing};
use crate::options::PausesOptions;
use crate::results::keep;
use serde::Serialize;
use std::io;
use std::time::{Duration, Instant};

/// Gaps up to this are the loop's own: a reading takes some 30 ns, an interrupt a few microseconds.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);

/// What one core showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CorePauses {
    pub name: String,
    pub core: usize,
    pub measured_seconds: f64,
    pub over_100_microseconds: usize,
    pub over_1_millisecond: usize,
    pub over_10_milliseconds: usize,
    /// Part of the time in which the core was stopped, by all pauses counted here.
    pub stopped_percent: f64,
    pub longest_microseconds: f64,
    /// How long a call that comes at a random moment waits until this core runs again, in
    /// microseconds.
    pub wait_p99_microseconds: f64,
    pub wait_p999_microseconds: f64,
}

/// What is kept of a run.
#[derive(Serialize)]
struct Pauses<'a> {
    cores: &'a [CorePauses],
}

/// Spins on every core for the time asked for, prints a line per core, writes JSON if asked to.
pub fn run_pauses(options: &PausesOptions) -> BenchResult<Vec<CorePauses>> {
    let allowed =
        rustix::thread::sched_getaffinity(None).map_err(io::Error::from).doing("asking which cores there are")?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    ferrite_io::outln!(
        "a thread on each of {} cores reads the clock for {:.0} s",
        cores.len(),
        options.duration.as_secs_f64()
    );
    let threads: Vec<_> = cores
        .iter()
        .map(|&core| {
            let duration = options.duration;
            std::thread::spawn(move || watch(core, duration))
        })
        .collect();
    let found = threads
        .into_iter()
        .map(|thread| thread.join().expect("reading a clock does not panic"))
        .collect::<io::Result<Vec<CorePauses>>>()
        .doing("binding a thread to its core")?;
    for core in &found {
        ferrite_io::outln!("{}", line(core));
    }
    keep(options.json.as_deref(), "pauses", &Pauses { cores: &found })?;
    Ok(found)
}

fn line(core: &CorePauses) -> String {
    format!(
        "core {:<3} stopped {:.2} % of the time: {} times over 0.1 ms, {} over 1 ms, {} over 10 ms, longest {:.2} ms; \
         a call at a random moment waits p99 {:.2} ms, p99.9 {:.2} ms",
        core.core,
        core.stopped_percent,
        core.over_100_microseconds,
        core.over_1_millisecond,
        core.over_10_milliseconds,
        core.longest_microseconds / 1e3,
        core.wait_p99_microseconds / 1e3,
        core.wait_p999_microseconds / 1e3,
    )
}

fn watch(core: usize, duration: Duration) -> io::Result<CorePauses> {
    let mut only = rustix::thread::CpuSet::new();
    only.set(core);
    rustix::thread::sched_setaffinity(None, &only)?;
    let mut pauses = Vec::new();
    let began = Instant::now();
    let mut last = began;
    while last.duration_since(began) < duration {
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap >= SHORTEST_PAUSE {
            pauses.push(gap);
        }
        last = now;
    }
    Ok(summarize(core, last.duration_since(began), &pauses))
}

fn summarize(core: usize, measured: Duration, pauses: &[Duration]) -> CorePauses {
    let over = |limit: Duration| pauses.iter().filter(|pause| **pause > limit).count();
    let stopped: Duration = pauses.iter().sum();
    CorePauses {
        name: format!("core {core}"),
        core,
        measured_seconds: measured.as_secs_f64(),
        over_100_microseconds: over(Duration::from_micros(100)),
        over_1_millisecond: over(Duration::from_millis(1)),
        over_10_milliseconds: over(Duration::from_millis(10)),
        stopped_percent: 100.0 * stopped.as_secs_f64() / measured.as_secs_f64().max(f64::MIN_POSITIVE),
        longest_microseconds: pauses.iter().max().map_or(0.0, |longest| longest.as_secs_f64() * 1e6),
        wait_p99_microseconds: wait_at(0.99, measured, pauses).as_secs_f64() * 1e6,
        wait_p999_microseconds: wait_at(0.999, measured, pauses).as_secs_f64() * 1e6,
    }
}

/// The wait that a share `quantile` of all moments does not exceed. A moment within a pause waits
/// for the rest of it, so the time during which the wait exceeds `w` is what is left of each pause
/// without its last `w`. That falls with `w`: bisect.
fn wait_at(quantile: f64, measured: Duration, pauses: &[Duration]) -> Duration {
    let allowed = measured.as_secs_f64() * (1.0 - quantile);
    let exceeded = |wait: f64| pauses.iter().map(|pause| (pause.as_secs_f64() - wait).max(0.0)).sum::<f64>();
    let mut low = 0.0;
    let mut high = pauses.iter().max().map_or(0.0, Duration::as_secs_f64);
    if exceeded(low) <= allowed {
        return Duration::ZERO;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if exceeded(middle) > allowed { low = middle } else { high = middle }
    }
    Duration::from_secs_f64(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_from_pauses() {
        let second = Duration::from_secs(1);
        assert_eq!(wait_at(0.99, second, &[]), Duration::ZERO);
        // Ten milliseconds in all is exactly the hundredth that p99 leaves out.
        assert_eq!(wait_at(0.99, second, &[Duration::from_millis(5); 2]), Duration::ZERO);
        // One pause of 110 ms: for 10 ms of the second the wait is over 100 ms.
        let wait = wait_at(0.99, second, &[Duration::from_millis(110)]);
        assert!(wait.abs_diff(Duration::from_millis(100)) < Duration::from_micros(1), "{wait:?}");
    }

    #[test]
    fn a_summary_counts_by_length() {
        let pauses = [50, 200, 2_000, 20_000].map(Duration::from_micros);
        let summary = summarize(3, Duration::from_secs(1), &pauses);
        assert_eq!(
            (summary.over_100_microseconds, summary.over_1_millisecond, summary.over_10_milliseconds),
            (3, 2, 1)
        );
        assert_eq!(summary.longest_microseconds, 20_000.0);
        assert!((summary.stopped_percent - 2.225).abs() < 1e-9);
    }

    #[test]
    fn every_allowed_core_is_watched() {
        let options = PausesOptions { duration: Duration::from_millis(20), json: None };
        let found = run_pauses(&options).unwrap();
        assert!(!found.is_empty() && found.iter().all(|core| core.measured_seconds >= 0.02));
    }
}
