//! `ferrite bench scale`: throughput with 1, 2, 3... partitions, or clients, and the Universal
//! Scalability Law ([`law`]) fitted to it.
//!
//! Each number is measured several times, in rounds over all numbers, so that a slow minute of the
//! machine meets all of them.

pub mod law;

use crate::error::{BenchError, BenchResult};
use crate::generator::Shape;
use crate::load::LoadPlan;
use crate::measurement::median;
use crate::options::{ScaleBy, ScaleOptions, TargetOptions};
use crate::random::seed_or_random;
use crate::report::grouped;
use crate::results::{cores, keep};
use crate::session::{Environment, Session};
use crate::workloads::{Pass, Subject};
use law::Law;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Up to here every number is measured, beyond it doublings.
const EVERY_NUMBER_TO: usize = 4;

#[derive(Debug, Serialize)]
struct ScaleReport {
    settings: ScaleSettings,
    points: Vec<ScalePoint>,
    law: Option<Law>,
    /// What is to be known before the law is believed.
    caveats: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ScaleSettings {
    workload: String,
    by: String,
    rounds: u32,
    outstanding: u32,
    threads: u16,
    connections: u16,
    warmup_seconds: u64,
    pass_seconds: f64,
    seed: u64,
}

#[derive(Debug, Serialize)]
struct ScalePoint {
    /// Such as `2 partitions`.
    name: String,
    workers: usize,
    /// The median of the rounds.
    transactions_per_second: f64,
    /// By the median of one worker.
    speedup: Option<f64>,
    server_cpu_microseconds_per_transaction: Option<f64>,
    rounds_per_second: Vec<f64>,
}

pub fn run_scale(environment: &Environment, options: &ScaleOptions) -> BenchResult<()> {
    let seed = seed_or_random(options.seed);
    let run = Run { environment, options, subject: Subject::new(options.workload, seed) };
    let numbers = numbers(options.up_to.map_or_else(|| cores().max(EVERY_NUMBER_TO), usize::from));
    ferrite_io::outln!(
        "scale, {}, by {}: {numbers:?}, {} round(s), passes of {} s after {} s, {} calls outstanding",
        options.workload,
        options.by.name(),
        options.rounds,
        options.duration.as_secs_f64(),
        options.warmup,
        options.outstanding
    );
    let mut passes: Vec<Vec<Pass>> = numbers.iter().map(|_| Vec::new()).collect();
    'rounds: for round in 1..=options.rounds {
        for (place, &number) in numbers.iter().enumerate() {
            if environment.stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            let pass = run.pass(number)?;
            ferrite_io::outln!(
                "round {round}, {:<14} {:>11}/s",
                run.name(number),
                grouped(pass.transactions_per_second as u64)
            );
            passes[place].push(pass);
        }
    }
    let report = run.report(seed, &numbers, &passes)?;
    ferrite_io::out!("{}", report.text());
    keep(options.json.as_deref(), "scale", &report)
}

/// 1, 2, 3, 4, 8, 16... and the last one.
fn numbers(up_to: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (1..=EVERY_NUMBER_TO.min(up_to)).collect();
    let mut next = EVERY_NUMBER_TO * 2;
    while next < up_to {
        numbers.push(next);
        next *= 2;
    }
    if numbers.last() != Some(&up_to) {
        numbers.push(up_to);
    }
    numbers
}

struct Run<'r> {
    environment: &'r Environment,
    options: &'r ScaleOptions,
    subject: Subject,
}

impl Run<'_> {
    fn name(&self, number: usize) -> String {
        let one = match self.options.by {
            ScaleBy::Partitions => "partition",
            ScaleBy::Clients => "client",
        };
        format!("{number} {one}{}", if number == 1 { "" } else { "s" })
    }

    /// A server of its own each time: what an earlier pass left in memory must not matter.
    fn pass(&self, number: usize) -> BenchResult<Pass> {
        let options = self.options;
        let (partitions, connections) = match options.by {
            ScaleBy::Partitions => (Some(number), usize::from(options.connections)),
            ScaleBy::Clients => (options.partitions, number),
        };
        let target = TargetOptions { durability: options.durability.clone(), partitions, ..TargetOptions::default() };
        let session = Session::open(self.environment, &target)?;
        self.subject.prepare(&session)?;
        let outstanding = match options.by {
            ScaleBy::Partitions => options.outstanding as usize,
            ScaleBy::Clients => options.outstanding as usize * number,
        };
        let plan = LoadPlan {
            address: session.address().to_string(),
            connections,
            threads: usize::from(options.threads).min(connections),
            shape: Shape {
                outstanding,
                rate: None,
                limiter: false,
                warmup: Duration::from_secs(options.warmup),
                duration: Some(options.duration),
            },
            stop: Arc::clone(&self.environment.stop),
        };
        let pass = self.subject.run(&session, &plan, |_, _| ())?;
        session.close()?;
        Ok(pass)
    }

    fn report(&self, seed: u64, numbers: &[usize], passes: &[Vec<Pass>]) -> BenchResult<ScaleReport> {
        let mut points = Vec::new();
        let mut measured = Vec::new();
        for (&workers, passes) in numbers.iter().zip(passes) {
            let rates: Vec<f64> = passes.iter().map(|pass| pass.transactions_per_second).collect();
            let Some(middle) = median(&rates) else { continue };
            measured.extend(rates.iter().map(|rate| (workers as f64, *rate)));
            let cpu: Option<Vec<f64>> =
                passes.iter().map(|pass| pass.server_cpu_microseconds_per_transaction).collect();
            let alone = points.first().map_or(middle, |first: &ScalePoint| first.transactions_per_second);
            points.push(ScalePoint {
                name: self.name(workers),
                workers,
                transactions_per_second: middle,
                speedup: numbers.contains(&1).then(|| middle / alone),
                server_cpu_microseconds_per_transaction: cpu.and_then(|cpu| median(&cpu)),
                rounds_per_second: rates,
            });
        }
        if points.is_empty() {
            return Err(BenchError::Load("stopped before anything was measured".to_string()));
        }
        let options = self.options;
        let settings = ScaleSettings {
            workload: options.workload.to_string(),
            by: options.by.name().to_string(),
            rounds: options.rounds,
            outstanding: options.outstanding,
            threads: options.threads,
            connections: options.connections,
            warmup_seconds: options.warmup,
            pass_seconds: options.duration.as_secs_f64(),
            seed,
        };
        let law = Law::fit(&measured);
        let most = points.last().map_or(0, |point| point.workers);
        let caveats = caveats(cores(), usize::from(options.threads), points.len(), most, options.by, law.as_ref());
        Ok(ScaleReport { settings, points, law, caveats })
    }
}

/// What the figures cannot say.
fn caveats(cores: usize, threads: usize, points: usize, most: usize, by: ScaleBy, law: Option<&Law>) -> Vec<String> {
    let mut caveats = Vec::new();
    // A partition's thread, the network's, the log's, the load's.
    let wanted = most + threads + 1;
    if by == ScaleBy::Partitions && wanted > cores {
        caveats.push(format!(
            "this machine has {cores} core{}, and {most} partitions with their network and log threads and {threads} thread{} of load want {wanted}: \
             sigma and kappa show them take turns on the cores, and say nothing about the server on a larger machine",
            if cores == 1 { "" } else { "s" },
            if threads == 1 { "" } else { "s" },
        ));
    }
    if by == ScaleBy::Clients {
        caveats.push(format!(
            "clients are connections of {threads} thread{} of load on the same {cores} core{} as the server; more of them bring more calls outstanding, \
             not more cores",
            if threads == 1 { "" } else { "s" },
            if cores == 1 { "" } else { "s" },
        ));
    }
    if points < 4 {
        caveats.push(format!("{points} different numbers cannot contradict a law with three parameters"));
    }
    if let Some(law) = law
        && law.largest_error > 0.1
    {
        caveats.push(format!(
            "the law is off by up to {:.0} %: it does not describe what was measured",
            law.largest_error * 100.0
        ));
    }
    caveats
}

impl ScaleReport {
    fn text(&self) -> String {
        let mut lines =
            vec![format!("\n{:<16} {:>12} {:>9} {:>12} {:>9}", "", "per second", "speedup", "law", "CPU-us")];
        for point in &self.points {
            let law =
                self.law.map_or("-".to_string(), |law| grouped(law.throughput(point.workers as f64).round() as u64));
            let speedup = point.speedup.map_or("-".to_string(), |speedup| format!("{speedup:.2}"));
            let cpu = point.server_cpu_microseconds_per_transaction.map_or("-".to_string(), |cpu| format!("{cpu:.2}"));
            let rate = grouped(point.transactions_per_second.round() as u64);
            lines.push(format!("{:<16} {rate:>12} {speedup:>9} {law:>12} {cpu:>9}", point.name));
        }
        match &self.law {
            Some(law) => {
                let explained =
                    law.explained.map_or(String::new(), |part| format!(", {:.0} % of the variance", part * 100.0));
                lines.push(format!(
                    "\nUniversal Scalability Law: lambda {}/s, sigma {:.4}, kappa {:.5}; off by at most {:.1} %{explained}",
                    grouped(law.lambda.round() as u64),
                    law.sigma,
                    law.kappa,
                    law.largest_error * 100.0
                ));
                lines.push(match law.peak() {
                    Some(peak) => format!(
                        "by the law throughput is highest at {peak:.1}: {}/s",
                        grouped(law.throughput(peak).round() as u64)
                    ),
                    None if law.sigma > 0.0 => {
                        format!(
                            "by the law it never falls, and nears {}/s",
                            grouped((law.lambda / law.sigma).round() as u64)
                        )
                    }
                    None => "by the law it grows with each, without end".to_string(),
                });
            }
            None => lines.push("\nno law: at least two different numbers are needed".to_string()),
        }
        lines.extend(self.caveats.iter().map(|caveat| format!("note: {caveat}")));
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_at_the_low_end() {
        assert_eq!(numbers(1), [1]);
        assert_eq!(numbers(3), [1, 2, 3]);
        assert_eq!(numbers(4), [1, 2, 3, 4]);
        assert_eq!(numbers(6), [1, 2, 3, 4, 6]);
        assert_eq!(numbers(24), [1, 2, 3, 4, 8, 16, 24]);
    }

    #[test]
    fn what_cannot_be_known_is_said() {
        let said = |cores, most| caveats(cores, 1, 4, most, ScaleBy::Partitions, None).join(" ");
        assert!(said(2, 4).contains("has 2 cores, and 4 partitions"), "{}", said(2, 4));
        assert_eq!(said(16, 8), "");
        let bad = Law { lambda: 1.0, sigma: 0.0, kappa: 0.0, explained: None, largest_error: 0.3 };
        assert!(caveats(16, 1, 4, 8, ScaleBy::Partitions, Some(&bad))[0].contains("30 %"));
        assert!(caveats(16, 1, 2, 2, ScaleBy::Partitions, None)[0].contains("three parameters"));
    }
}
