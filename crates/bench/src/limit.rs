//! `ferrite bench limit`: the yardstick, measured.

use crate::error::{BenchError, BenchResult};
use crate::limit_client::{self, BareTally, OUTSTANDING_MAX};
use crate::limit_server;
use crate::options::{LimitOptions, LimitServerOptions, LoadOptions, VoteProcedure};
use crate::random::seed_or_random;
use crate::report::LoadReport;
use crate::results::keep;
use crate::run::{measure, measure_with};
use crate::session::{Environment, Session};
use crate::voter_load::{Tally, VoterLoad};

/// What the yardstick's server knows; more would be invalid to it.
const CONTESTANTS: u16 = 6;
const VOTES_MAX: i32 = 2;

/// Runs the yardstick in a process of its own, prints its seconds and checks its count.
pub fn run_limit(environment: &Environment, options: &LimitOptions) -> BenchResult<LoadReport> {
    let report = measure_limit(environment, &options.load, seed_or_random(options.seed))?;
    ferrite_io::out!("{}", report.text());
    keep(options.load.json.as_deref(), "limit", &report)?;
    Ok(report)
}

/// With a schedule, what is looked for is latency: a table that grows moves all of its entries at
/// once, for up to half a second. So there is room from the start; memory is taken from the system
/// only as it is used.
const ROWS_AT_A_RATE: usize = 28_000_000;

pub(crate) fn measure_limit(environment: &Environment, load: &LoadOptions, seed: u64) -> BenchResult<LoadReport> {
    let bare = load.rate.is_none() && load.connections == 1 && load.threads == 1 && load.outstanding <= OUTSTANDING_MAX;
    let session = Session::open_limit(environment, if load.rate.is_some() { ROWS_AT_A_RATE } else { 0 })?;
    let (mut report, accepted, failed) = if bare {
        let (result, report) = measure_with("limit", environment, &session, load, |plan, watch| {
            limit_client::run(plan, CONTESTANTS, VOTES_MAX, seed, watch)
        })?;
        let BareTally { accepted, other, .. } = result.workloads[0];
        (report, accepted, other)
    } else {
        let make = |thread: usize| {
            VoterLoad::new(VoteProcedure::Psm, CONTESTANTS, VOTES_MAX, seed.wrapping_add(thread as u64))
        };
        let (result, report) = measure("limit, by the load generator", environment, &session, load, make)?;
        let tally = Tally::of(&result.workloads);
        (report, tally.accepted_total(), tally.failed)
    };
    let count = session.call("Count", ())?.first().and_then(|table| table.scalar());
    session.close()?;
    if count != Some(accepted as i64) || failed > 0 || report.unknown > 0 {
        return Err(BenchError::Wrong(vec![format!(
            "{accepted} votes were accepted, {failed} failed, {} are unknown, and the yardstick counts {count:?}",
            report.unknown
        )]));
    }
    report.validated.push(format!("{accepted} votes accepted and counted"));
    Ok(report)
}

/// The yardstick's server: runs until the process is ended. Prints one line when it takes
/// connections.
pub fn run_limit_server(options: &LimitServerOptions) -> BenchResult<()> {
    limit_server::serve(options.listen, i32::from(options.contestants), options.rows, |address| {
        ferrite_io::outln!("ferrite limit ready on {address} (1 thread per connection, no log)");
    })
}
