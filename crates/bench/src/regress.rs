//! `ferrite bench regress --against BINARY`: this build and another in turn, on the benches that
//! matter, until it is clear whether this one is slower.
//!
//! What makes the comparison fair: the load is always made by this build, so that only the servers
//! differ, and both get the same calls; in a round both servers stand side by side, prepared alike,
//! and are loaded for a fraction of a second each in the order this, other, other, this, again and
//! again: what a virtual machine's neighbours take changes the speed by a fifth from one second to
//! the next, and meets both builds in short bursts. Each round has servers of its own, since where
//! a process' memory comes to lie decides some percent for as long as it lives. A round is one
//! sample of the ratio ([`sample`]).

mod sample;
mod side;

use crate::error::{BenchError, BenchResult, Doing};
use crate::measurement::median;
use crate::options::{RegressBench, RegressOptions};
use crate::random::seed_or_random;
use crate::report::grouped;
use crate::results::{Machine, keep};
use crate::session::Environment;
use sample::{Interval, ROUNDS_MIN, Verdict, interval};
use serde::Serialize;
use side::{Burst, Side};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An interval this narrow says all that there is to say.
const WIDTH_ENOUGH: f64 = 0.02;
/// Load before the first burst that counts.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
struct RegressReport {
    settings: RegressSettings,
    benches: Vec<BenchReport>,
}

#[derive(Debug, Serialize)]
struct RegressSettings {
    this: String,
    against: String,
    threshold: f64,
    burst_seconds: f64,
    /// Of each build in a round.
    bursts: u32,
    outstanding: u32,
    seed: u64,
}

#[derive(Debug, Serialize)]
struct BenchReport {
    name: String,
    verdict: Verdict,
    /// Transactions per second of this build by those of the other: more is better.
    throughput: Interval,
    /// The server's CPU time per transaction, this build by the other: less is better.
    cpu: Interval,
    this: Medians,
    against: Medians,
    rounds: Vec<Round>,
}

/// Over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Medians {
    transactions_per_second: f64,
    server_cpu_microseconds_per_transaction: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    this: Burst,
    against: Burst,
}

impl Round {
    fn throughput_ratio(&self) -> f64 {
        self.this.transactions_per_second() / self.against.transactions_per_second()
    }

    fn cpu_ratio(&self) -> f64 {
        self.this.cpu_microseconds_per_transaction() / self.against.cpu_microseconds_per_transaction()
    }
}

pub fn run_regress(environment: &Environment, options: &RegressOptions) -> BenchResult<()> {
    let against = options.against.canonicalize().doing(format_args!("looking for {}", options.against.display()))?;
    let other = Environment { executable: against, stop: environment.stop.clone() };
    let file_name = |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let settings = RegressSettings {
        this: options.label.clone().unwrap_or_else(|| file_name(&environment.executable)),
        against: options.against_label.clone().unwrap_or_else(|| file_name(&other.executable)),
        threshold: options.threshold,
        burst_seconds: options.burst.as_secs_f64(),
        bursts: options.bursts,
        outstanding: options.outstanding,
        seed: seed_or_random(options.seed),
    };
    if let Some(file) = &options.record {
        crate::results::check_writable(file)?;
    }
    ferrite_io::outln!(
        "regress: {} against {}, {} bursts of {} s each in a round, {} calls outstanding; slower is below {}",
        settings.this,
        settings.against,
        settings.bursts,
        settings.burst_seconds,
        settings.outstanding,
        settings.threshold
    );
    let mut report = RegressReport { settings, benches: Vec::new() };
    for &bench in &options.benches {
        if environment.stop.load(Ordering::Relaxed) {
            break;
        }
        let one = run_bench(environment, &other, options, bench, report.settings.seed)?;
        ferrite_io::outln!("{}", one.line());
        if let Some(file) = &options.record {
            record(file, &report.settings, &one)?;
        }
        report.benches.push(one);
    }
    keep(options.json.as_deref(), "regress", &report)?;
    let named = |verdict: Verdict| {
        let names = report.benches.iter().filter(|bench| bench.verdict == verdict).map(|bench| bench.name.clone());
        names.collect::<Vec<String>>()
    };
    let slower = named(Verdict::Slower);
    let undecided = named(Verdict::Undecided);
    if !slower.is_empty() {
        return Err(BenchError::Slower(slower));
    }
    if !undecided.is_empty() {
        return Err(BenchError::Undecided(undecided));
    }
    Ok(())
}

fn run_bench(
    environment: &Environment,
    other: &Environment,
    options: &RegressOptions,
    bench: RegressBench,
    seed: u64,
) -> BenchResult<BenchReport> {
    let give_up = Instant::now() + options.time;
    let mut rounds: Vec<Round> = Vec::new();
    loop {
        let seed = seed.wrapping_add(1_000 * rounds.len() as u64);
        let round = run_round([environment, other], options, bench, seed, rounds.len() % 2 == 1)?;
        ferrite_io::outln!(
            "  {:<11} round {:>2}: {:>10}/s by {:>10}/s: {:.3}   CPU-us {:.3} by {:.3}: {:.3}",
            bench.name(),
            rounds.len() + 1,
            grouped(round.this.transactions_per_second() as u64),
            grouped(round.against.transactions_per_second() as u64),
            round.throughput_ratio(),
            round.this.cpu_microseconds_per_transaction(),
            round.against.cpu_microseconds_per_transaction(),
            round.cpu_ratio(),
        );
        rounds.push(round);
        let report = BenchReport::new(bench, options.threshold, rounds);
        let narrow = report.throughput.width() <= WIDTH_ENOUGH && report.cpu.width() <= WIDTH_ENOUGH;
        if narrow || Instant::now() >= give_up || environment.stop.load(Ordering::Relaxed) {
            return Ok(report);
        }
        rounds = report.rounds;
    }
}

/// Both servers anew; warmed up, then loaded in the order A, B, B, A, again and again. `swapped`:
/// this build is B.
fn run_round(
    environments: [&Environment; 2],
    options: &RegressOptions,
    bench: RegressBench,
    seed: u64,
    swapped: bool,
) -> BenchResult<Round> {
    let mut sides = Vec::new();
    for environment in environments {
        sides.push(Side::prepare(environment, bench, options.outstanding, seed)?);
    }
    let (a, b) = if swapped { (1, 0) } else { (0, 1) };
    for side in [a, b] {
        sides[side].burst(WARM_UP)?;
    }
    let mut sums = [Burst::default(); 2];
    for _ in 0..options.bursts / 2 {
        for side in [a, b, b, a] {
            let burst = sides[side].burst(options.burst)?;
            sums[side].add(&burst);
        }
    }
    for side in sides {
        side.check_and_close()?;
    }
    Ok(Round { this: sums[0], against: sums[1] })
}

impl BenchReport {
    fn new(bench: RegressBench, threshold: f64, rounds: Vec<Round>) -> BenchReport {
        let all = |figure: fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
        let middle = |figure: fn(&Round) -> f64| median(&all(figure)).unwrap_or(0.0);
        let throughput = interval(&all(Round::throughput_ratio));
        let cpu = interval(&all(Round::cpu_ratio));
        BenchReport {
            name: bench.name().to_string(),
            verdict: Verdict::of(&throughput, &cpu, threshold),
            throughput,
            cpu,
            this: Medians {
                transactions_per_second: middle(|round| round.this.transactions_per_second()),
                server_cpu_microseconds_per_transaction: middle(|round| round.this.cpu_microseconds_per_transaction()),
            },
            against: Medians {
                transactions_per_second: middle(|round| round.against.transactions_per_second()),
                server_cpu_microseconds_per_transaction: middle(|round| {
                    round.against.cpu_microseconds_per_transaction()
                }),
            },
            rounds,
        }
    }

    fn line(&self) -> String {
        let mut line = format!(
            "{:<11} {:>10}/s by {:>10}/s: {}   CPU-us {:.3} by {:.3}: {}   {}",
            self.name,
            grouped(self.this.transactions_per_second as u64),
            grouped(self.against.transactions_per_second as u64),
            self.throughput,
            self.this.server_cpu_microseconds_per_transaction,
            self.against.server_cpu_microseconds_per_transaction,
            self.cpu,
            self.verdict.name(),
        );
        if self.rounds.len() < ROUNDS_MIN {
            line.push_str(&format!(" ({} rounds; {ROUNDS_MIN} are the fewest that decide)", self.rounds.len()));
        }
        line
    }
}

/// A line of the history.
#[derive(Serialize)]
struct Recorded<'r> {
    finished_unix_seconds: u64,
    #[serde(flatten)]
    settings: &'r RegressSettings,
    bench: &'r str,
    verdict: Verdict,
    rounds: usize,
    throughput: &'r Interval,
    cpu: &'r Interval,
    this_median: Medians,
    against_median: Medians,
    machine: Machine,
}

/// Appends a bench's outcome to a file with one JSON object per line.
fn record(file: &Path, settings: &RegressSettings, bench: &BenchReport) -> BenchResult<()> {
    let recorded = Recorded {
        finished_unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        settings,
        bench: &bench.name,
        verdict: bench.verdict,
        rounds: bench.rounds.len(),
        throughput: &bench.throughput,
        cpu: &bench.cpu,
        this_median: bench.this,
        against_median: bench.against,
        machine: Machine::here(),
    };
    let mut line = serde_json::to_vec(&recorded).map_err(std::io::Error::from).doing("writing the record")?;
    line.push(b'\n');
    let mut open =
        OpenOptions::new().create(true).append(true).open(file).doing(format_args!("opening {}", file.display()))?;
    open.write_all(&line).doing(format_args!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(transactions: u64, cpu_milliseconds: u64) -> Burst {
        Burst { transactions, seconds: 2.0, cpu_seconds: cpu_milliseconds as f64 / 1e3 }
    }

    #[test]
    fn ratios_are_of_this_by_the_other() {
        let rounds = vec![Round { this: burst(2_100, 1_050), against: burst(2_000, 1_250) }; ROUNDS_MIN];
        let report = BenchReport::new(RegressBench::Voter, 0.98, rounds);
        assert!((report.throughput.median - 1.05).abs() < 1e-9 && (report.cpu.median - 0.8).abs() < 1e-9);
        assert_eq!(report.this.transactions_per_second, 1_050.0);
        assert_eq!(report.against.server_cpu_microseconds_per_transaction, 625.0);
        assert_eq!(report.verdict, Verdict::Faster);
        let line = report.line();
        assert!(line.contains("1.050") && line.ends_with("faster"), "{line}");
    }

    #[test]
    fn a_record_is_a_line_of_json_each() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("regress.jsonl");
        let settings = RegressSettings {
            this: "abc".to_string(),
            against: "def".to_string(),
            threshold: 0.98,
            burst_seconds: 1.0,
            bursts: 2,
            outstanding: 10,
            seed: 1,
        };
        let rounds = vec![Round { this: burst(900, 1), against: burst(1_000, 1) }; ROUNDS_MIN];
        let report = BenchReport::new(RegressBench::Multi, 0.98, rounds);
        record(&file, &settings, &report).unwrap();
        record(&file, &settings, &report).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((value["this"].as_str(), value["verdict"].as_str()), (Some("abc"), Some("slower")));
            assert_eq!(value["throughput"]["median"].as_f64(), Some(0.9));
        }
    }
}
