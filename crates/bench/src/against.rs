//! `ferrite bench voter --against-limit`: Voter and the yardstick in turn, so that both meet the
//! same state of the machine, and the ratio of their medians.

use crate::error::BenchResult;
use crate::limit::measure_limit;
use crate::measurement::median;
use crate::options::{LoadOptions, VoterOptions};
use crate::random::seed_or_random;
use crate::report::{LoadReport, grouped, ratio};
use crate::results::keep;
use crate::session::Environment;
use crate::voter::measure_voter;
use serde::Serialize;
use std::sync::atomic::Ordering;

/// How often both are run.
const ROUNDS: u32 = 2;

/// Both loads, and how they compare.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub limit: Vec<LoadReport>,
    pub voter: Vec<LoadReport>,
    /// Transactions per second.
    pub limit_median: f64,
    pub voter_median: f64,
    /// `voter_median / limit_median`.
    pub ratio: f64,
}

impl Comparison {
    fn new(limit: Vec<LoadReport>, voter: Vec<LoadReport>) -> Comparison {
        let middle = |reports: &[LoadReport]| {
            let rates: Vec<f64> = reports.iter().map(|report| report.transactions_per_second).collect();
            median(&rates).unwrap_or(0.0)
        };
        let limit_median = middle(&limit);
        let voter_median = middle(&voter);
        Comparison { limit, voter, limit_median, voter_median, ratio: ratio(voter_median, limit_median) }
    }
}

/// Runs both in turn, each round for its share of the duration, prints all of it and the ratio.
pub fn run_against_limit(environment: &Environment, options: &VoterOptions) -> BenchResult<Comparison> {
    let load = LoadOptions { duration: options.load.duration / ROUNDS, ..options.load.clone() };
    let mut limit = Vec::new();
    let mut voter = Vec::new();
    for _ in 0..ROUNDS {
        let report = measure_limit(environment, &load, seed_or_random(options.seed))?;
        ferrite_io::outln!("{}", report.text());
        limit.push(report);
        if environment.stop.load(Ordering::Relaxed) {
            break;
        }
        let report = measure_voter(environment, options, &load)?;
        ferrite_io::outln!("{}", report.text());
        voter.push(report);
        if environment.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let comparison = Comparison::new(limit, voter);
    ferrite_io::outln!(
        "voter {}/s, limit {}/s: ratio {:.3}",
        grouped(comparison.voter_median.round() as u64),
        grouped(comparison.limit_median.round() as u64),
        comparison.ratio
    );
    keep(options.load.json.as_deref(), "voter against the limit", &comparison)?;
    Ok(comparison)
}
