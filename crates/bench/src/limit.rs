//! `ferrite bench limit`: the yardstick, measured.

use crate::error::{BenchError, BenchResult};
use crate::limit_server;
use crate::options::{LimitOptions, LimitServerOptions, LoadOptions, VoteProcedure};
use crate::report::Report;
use crate::results::keep;
use crate::run::{measure, seed_or_random};
use crate::session::{Environment, Session};
use crate::voter_load::{Tally, VoterLoad};

/// What the yardstick's server knows; more would be invalid to it.
const CONTESTANTS: u16 = 6;
const VOTES_MAX: i32 = 2;

/// Runs the yardstick in a process of its own, prints its seconds and checks its count.
pub fn run_limit(environment: &Environment, options: &LimitOptions) -> BenchResult<Report> {
    let report = measure_limit(environment, &options.load, seed_or_random(options.seed))?;
    print!("{}", report.text());
    keep(options.load.json.as_deref(), "limit", &report)?;
    Ok(report)
}

pub(crate) fn measure_limit(environment: &Environment, load: &LoadOptions, seed: u64) -> BenchResult<Report> {
    let session = Session::open_limit(environment)?;
    let make =
        |thread: usize| VoterLoad::new(VoteProcedure::Psm, CONTESTANTS, VOTES_MAX, seed.wrapping_add(thread as u64));
    let (result, mut report) = measure("limit", environment, &session, load, make)?;
    let tally = Tally::of(&result.workloads);
    let count = session.call("Count", ())?.first().and_then(|table| table.scalar());
    session.close()?;
    let accepted = tally.accepted_total();
    if count != Some(accepted as i64) || tally.failed > 0 || report.unknown > 0 {
        return Err(BenchError::Wrong(vec![format!(
            "{accepted} votes were accepted, {} failed, {} are unknown, and the yardstick counts {count:?}",
            tally.failed, report.unknown
        )]));
    }
    report.validated.push(format!("{accepted} votes accepted and counted"));
    Ok(report)
}

/// The yardstick's server: runs until the process is ended. Prints one line when it takes connections.
pub fn run_limit_server(options: &LimitServerOptions) -> BenchResult<()> {
    limit_server::serve(options.listen, i64::from(options.contestants), |address| {
        println!("ferrite limit ready on {address} (1 thread, no log)");
    })
}
