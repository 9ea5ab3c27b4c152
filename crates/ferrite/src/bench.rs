//! `ferrite bench`: which bench was asked for, and the crate that runs it.

use clap::Subcommand;
use ferrite_bench::options::{
    AdHocOptions, CompareOptions, CrossingOptions, CurveOptions, DiffOptions, FailoverOptions, KvOptions, LimitOptions,
    LimitServerOptions, MultiOptions, NodeOptions, PausesOptions, RegressOptions, ScaleOptions, VoterOptions,
};
use ferrite_bench::session::{PROGRAM_VARIABLE, own_executable};
use ferrite_bench::{
    BenchError, BenchResult, Environment, adhoc, against, crossing, curve, diff, failover, kv, limit, multi, node,
    pauses, regress, results, scale, voter,
};
use ferrite_torture::{SoakOptions, TortureOptions};
use std::env;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process;

/// The program that compares with other databases, beside this one.
const COMPARE: &str = "ferrite-compare";

/// Which load, and how.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// The Voter application: each call runs a stored procedure with three reads and an insert that
    /// updates two views.
    Voter(VoterOptions),
    /// Reads and writes of values by key.
    Kv(KvOptions),
    /// SQL text with different literals in each call.
    #[command(name = "adhoc")]
    AdHoc(AdHocOptions),
    /// Transactions over several partitions.
    Multi(MultiOptions),
    /// The cost of calling into Java: an empty Java procedure against an empty SQL procedure.
    Crossing(CrossingOptions),
    /// Hours of votes, with as many deleted as inserted: whether memory, files or latency grow.
    Soak(SoakOptions),
    /// Kill a server repeatedly under load, and compare what clients were told with what was
    /// recovered.
    Torture(TortureOptions),
    /// How long a cluster of processes on this machine acknowledges nothing when its leader is
    /// killed, and when it is stopped.
    Failover(FailoverOptions),
    /// The yardstick: a bare client against a bare loop with hash tables, or with
    /// --rate, --connections or --threads the load generator.
    Limit(LimitOptions),
    /// Throughput against latency: maximum throughput, then lower rates; CSV, JSON and an HTML
    /// report.
    Curve(CurveOptions),
    /// Node.js processes with our driver: transactions in total, per core and per process.
    Node(NodeOptions),
    /// The same workloads on PostgreSQL, Redis and SQLite, with equal durability.
    Compare(CompareOptions),
    /// Throughput with 1, 2, 3... partitions or clients, and the Universal Scalability Law fitted
    /// to it.
    Scale(ScaleOptions),
    /// Compare this build with another, in turns. Exit code 1: this one is slower; 2: no clear
    /// result.
    Regress(RegressOptions),
    /// How long the machine itself pauses each core: a lower bound on any server's latency.
    Pauses(PausesOptions),
    /// Compare two saved results: each figure, its ratio, and whether the difference is more than
    /// noise.
    Diff(DiffOptions),
    /// The server of the yardstick.
    #[command(hide = true)]
    LimitServer(LimitServerOptions),
}

impl Command {
    /// Where the result is to be kept.
    fn json(&self) -> Option<&Path> {
        match self {
            Command::Voter(options) => options.load.json.as_deref(),
            Command::Kv(options) => options.load.json.as_deref(),
            Command::AdHoc(options) => options.load.json.as_deref(),
            Command::Multi(options) => options.load.json.as_deref(),
            Command::Crossing(options) => options.load.json.as_deref(),
            Command::Soak(options) => options.load.json.as_deref(),
            Command::Torture(options) => options.json.as_deref(),
            Command::Failover(options) => options.json.as_deref(),
            Command::Limit(options) => options.load.json.as_deref(),
            Command::Pauses(options) => options.json.as_deref(),
            Command::Node(options) => options.json.as_deref(),
            Command::Scale(options) => options.json.as_deref(),
            Command::Regress(options) => options.json.as_deref(),
            // They see to their files themselves.
            Command::Compare(_) | Command::Curve(_) => None,
            Command::Diff(_) | Command::LimitServer(_) => None,
        }
    }
}

/// Runs one bench to its end. An error means that it could not be run, or that its result was
/// wrong.
pub fn run(command: &Command) -> BenchResult<()> {
    if let Command::Compare(_) = command {
        return Err(start_compare()?);
    }
    if let Some(file) = command.json() {
        results::check_writable(file)?;
    }
    match command {
        Command::Diff(options) => diff::run_diff(options),
        Command::LimitServer(options) => limit::run_limit_server(options),
        Command::Pauses(options) => pauses::run_pauses(options).map(drop),
        _ => run_load(command, &Environment::of_this_process()?),
    }
}

/// Becomes `ferrite-compare`, which has the clients of other databases, with this command line.
/// Returns only if it cannot.
fn start_compare() -> BenchResult<BenchError> {
    let own = own_executable()?;
    let program = own.with_file_name(COMPARE);
    let reason = process::Command::new(&program).args(env::args_os().skip(1)).env(PROGRAM_VARIABLE, &own).exec();
    if reason.kind() == ErrorKind::NotFound {
        return Ok(BenchError::Load(format!(
            "there is no {}, which does the comparison; build it with `cargo build --release --bin {COMPARE}`, \
             or install it there",
            program.display()
        )));
    }
    Ok(BenchError::System { doing: format!("starting {}", program.display()), reason })
}

/// Those that start servers, and so end them at a signal.
fn run_load(command: &Command, environment: &Environment) -> BenchResult<()> {
    match command {
        Command::Voter(options) if options.against_limit => against::run_against_limit(environment, options).map(drop),
        Command::Voter(options) => voter::run_voter(environment, options).map(drop),
        Command::Kv(options) => kv::run_kv(environment, options).map(drop),
        Command::AdHoc(options) => adhoc::run_adhoc(environment, options).map(drop),
        Command::Multi(options) => multi::run_multi(environment, options).map(drop),
        Command::Crossing(options) => crossing::run_crossing(environment, options),
        Command::Soak(options) => ferrite_torture::run_soak(environment, options),
        Command::Torture(options) => ferrite_torture::run_torture(environment, options),
        Command::Failover(options) => failover::run_failover(environment, options),
        Command::Curve(options) => curve::run_curve(environment, options).map(drop),
        Command::Node(options) => node::run_node(environment, options),
        Command::Scale(options) => scale::run_scale(environment, options),
        Command::Regress(options) => regress::run_regress(environment, options),
        Command::Limit(options) => limit::run_limit(environment, options).map(drop),
        Command::Compare(_) | Command::LimitServer(_) | Command::Pauses(_) | Command::Diff(_) => {
            unreachable!("answered by run")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use ferrite_bench::options::{SystemName, VoteProcedure, WorkloadKind};
    use std::time::Duration;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Line::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).map(|line| line.command)
    }

    #[test]
    fn lines_that_are_understood() {
        let Command::Voter(voter) = parse("voter").unwrap() else { panic!("voter") };
        assert_eq!((voter.load.duration, voter.contestants, voter.max_votes), (Duration::from_secs(20), 6, 2));
        let Command::Voter(voter) =
            parse("voter --against-limit --duration 2.5 --procedure statements --durability none").unwrap()
        else {
            panic!("voter")
        };
        assert_eq!(voter.load.duration, Duration::from_millis(2500));
        assert_eq!((voter.procedure, voter.against_limit), (VoteProcedure::Statements, true));
        let Command::Kv(kv) = parse("kv --rate 1e5 --reads 50 --server a:1").unwrap() else { panic!("kv") };
        let Command::Compare(compare) = parse("compare --systems redis,sqlite").unwrap() else { panic!("compare") };
        assert_eq!(compare.systems, [SystemName::Redis, SystemName::Sqlite]);
        assert_eq!(compare.workloads, [WorkloadKind::Voter, WorkloadKind::Read, WorkloadKind::Write]);
        assert_eq!((kv.load.rate, kv.reads, &kv.target.server[..]), (Some(1e5), 50.0, &["a:1".to_owned()][..]));
    }

    #[test]
    fn lines_that_are_refused() {
        for line in [
            "voter --duration 0",
            "voter --duration -1",
            "voter --rate 0",
            "voter --outstanding 0",
            "voter --contestants 13",
            "voter --server a:1 --dir d",
            "voter --server a:1 --against-limit",
            "kv --reads 101",
            "kv --entropy 0",
            "kv --key-size 10",
            "curve --clients-max 0",
            "failover --kfactor 0",
            "failover --rate 0",
            "node --forks 0",
            "node --sweep --forks 2",
            "node --duration 1.5",
            "compare --systems oracle",
            "compare --workloads",
            "scale --up-to 0",
            "regress",
            "regress --against ferrite --threshold 0",
            "regress --against ferrite --benches tpcc",
            "diff a",
            "nothing",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
