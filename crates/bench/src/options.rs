//! What can be said on the command line.

mod experiments;

pub use experiments::{
    CompareOptions, CurveOptions, DiffOptions, NodeOptions, NodeWorkload, RegressBench, RegressOptions, ScaleBy,
    ScaleOptions, SystemName, WorkloadKind,
};

use crate::generator::Shape;
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which load, and how.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// The Voter application: each call runs a stored procedure with three reads and an insert that updates two views.
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
    /// Kill a server repeatedly under load, and compare what clients were told with what was recovered.
    Torture(TortureOptions),
    /// The yardstick: a bare client against a bare loop with hash tables, or with --rate, --connections or --threads the load generator.
    Limit(LimitOptions),
    /// Throughput against latency: maximum throughput, then lower rates; CSV, JSON and an HTML report.
    Curve(CurveOptions),
    /// Node.js processes with our driver: transactions in total, per core and per process.
    Node(NodeOptions),
    /// The same workloads on PostgreSQL, Redis and SQLite, with equal durability.
    Compare(CompareOptions),
    /// Throughput with 1, 2, 3... partitions or clients, and the Universal Scalability Law fitted to it.
    Scale(ScaleOptions),
    /// Compare this build with another, in turns. Exit code 1: this one is slower; 2: no clear result.
    Regress(RegressOptions),
    /// How long the machine itself pauses each core: a lower bound on any server's latency.
    Pauses(PausesOptions),
    /// Compare two saved results: each figure, its ratio, and whether the difference is more than noise.
    Diff(DiffOptions),
    /// The server of the yardstick.
    #[command(hide = true)]
    LimitServer(LimitServerOptions),
}

impl BenchCommand {
    /// Where the result is to be kept.
    pub fn json(&self) -> Option<&Path> {
        match self {
            BenchCommand::Voter(options) => options.load.json.as_deref(),
            BenchCommand::Kv(options) => options.load.json.as_deref(),
            BenchCommand::AdHoc(options) => options.load.json.as_deref(),
            BenchCommand::Multi(options) => options.load.json.as_deref(),
            BenchCommand::Crossing(options) => options.load.json.as_deref(),
            BenchCommand::Soak(options) => options.load.json.as_deref(),
            BenchCommand::Torture(options) => options.json.as_deref(),
            BenchCommand::Limit(options) => options.load.json.as_deref(),
            BenchCommand::Pauses(options) => options.json.as_deref(),
            BenchCommand::Node(options) => options.json.as_deref(),
            BenchCommand::Compare(options) => options.json.as_deref(),
            BenchCommand::Scale(options) => options.json.as_deref(),
            BenchCommand::Regress(options) => options.json.as_deref(),
            // Makes sure of its three files itself.
            BenchCommand::Curve(_) => None,
            BenchCommand::Diff(_) | BenchCommand::LimitServer(_) => None,
        }
    }
}

/// Options that all loads have.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// Seconds of measurement
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub duration: Duration,
    /// Whole seconds of load before the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub warmup: u64,
    /// Calls per second, sent by schedule; latency then counts from the scheduled moment [default: as fast as answers come]
    #[arg(long, value_name = "CALLS", value_parser = positive_rate)]
    pub rate: Option<f64>,
    /// Outstanding calls at any time, over all connections
    #[arg(long, value_name = "CALLS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub outstanding: u32,
    /// Connections, over all threads
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,
    /// Threads that generate load
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: u16,
    /// Save the result as JSON in this file, see `bench diff`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl LoadOptions {
    pub fn shape(&self) -> Shape {
        Shape {
            outstanding: self.outstanding as usize,
            rate: self.rate,
            limiter: false,
            warmup: Duration::from_secs(self.warmup),
            duration: Some(self.duration),
        }
    }
}

/// Which server.
#[derive(Clone, Debug, Default, Args)]
pub struct TargetOptions {
    /// A running server [default: start one for the run]
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["dir", "durability", "partitions"])]
    pub server: Option<String>,
    /// Data directory of the server started for the run [default: a temporary one]
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// Durability of the server started for the run: sync, interval=MS or none [default: the server's own]
    #[arg(long, value_name = "HOW")]
    pub durability: Option<String>,
    /// Partitions of the server started for the run [default: the server's own]
    #[arg(long, value_name = "COUNT")]
    pub partitions: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum VoteProcedure {
    /// SQL/PSM: the logic runs in the server.
    Psm,
    /// Four plain statements without logic.
    Statements,
    /// A Java class, see --jar.
    Java,
}

#[derive(Clone, Debug, Args)]
pub struct VoterOptions {
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub target: TargetOptions,
    /// Contestants, at most 12
    #[arg(long, value_name = "COUNT", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=12))]
    pub contestants: u16,
    /// Votes that one phone number may cast
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub max_votes: i32,
    /// How the vote is implemented
    #[arg(long, value_enum, default_value_t = VoteProcedure::Psm)]
    pub procedure: VoteProcedure,
    /// With --procedure java: the jar with the class voter.Vote, which examples/voter/java/build makes
    #[arg(long, value_name = "FILE", required_if_eq("procedure", "java"))]
    pub jar: Option<PathBuf>,
    /// Keep the server's votes instead of creating the tables anew
    #[arg(long)]
    pub keep: bool,
    /// A query to run beside the load, again and again, on a connection of its own
    #[arg(long, value_name = "SQL")]
    pub report_query: Option<String>,
    /// Alternate with the yardstick, half of the duration each, and print the ratio of the medians
    #[arg(long, conflicts_with_all = ["server", "rate"])]
    pub against_limit: bool,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub struct AdHocOptions {
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub target: TargetOptions,
    /// Rows of the table
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Percentage of calls that update a row; the others select one
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub writes: f64,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub struct CrossingOptions {
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub target: TargetOptions,
    /// The jar with the class voter.Nothing, which examples/voter/java/build makes
    #[arg(long, value_name = "FILE")]
    pub jar: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MultiWrite {
    /// Between two accounts: two rows by their keys.
    Transfer,
    /// A row of a replicated table, on every partition.
    Replicated,
}

#[derive(Clone, Debug, Args)]
pub struct MultiOptions {
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub target: TargetOptions,
    /// Accounts, which every read adds up
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub accounts: u32,
    /// Percentage of calls that read all accounts
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0, value_parser = percent)]
    pub reads: f64,
    /// What the other calls do
    #[arg(long, value_enum, default_value_t = MultiWrite::Transfer)]
    pub write: MultiWrite,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub struct KvOptions {
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub target: TargetOptions,
    /// Keys
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub pool_size: u32,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u16).range(11..=250))]
    pub key_size: u16,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub value_size: u32,
    /// Smallest value; the largest is --value-size [default: all values are of the same size]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub value_size_min: Option<u32>,
    /// Percentage of calls that read
    #[arg(long, value_name = "PERCENT", default_value_t = 90.0, value_parser = percent)]
    pub reads: f64,
    /// Different bytes in values: 1 for all the same, 256 for any
    #[arg(long, value_name = "COUNT", default_value_t = 127, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub entropy: u16,
    /// Keep the server's rows and do not write all keys first
    #[arg(long)]
    pub keep: bool,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub struct SoakOptions {
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub target: TargetOptions,
    /// Votes in the table once it is full
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: u64,
    /// Also write the samples to this file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct TortureOptions {
    /// Kills under load
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub kills: u32,
    /// No further kills after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Seed of what happens when [default: another one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Partitions of the database
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub partitions: u32,
    /// Durability of the server: sync, interval=MS or none
    #[arg(long, value_name = "HOW", default_value = "sync")]
    pub durability: String,
    /// Lose everything that was not fsynced, as in a power failure
    #[arg(long)]
    pub power_loss: bool,
    /// Data directory, new or empty; kept [default: a temporary one, kept when something is wrong]
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// Also write the lines of the run to this file
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Save the counts as JSON in this file, see `bench diff`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// More options for the server, after --
    #[arg(last = true, value_name = "OPTION")]
    pub server_options: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub struct LimitOptions {
    #[command(flatten)]
    pub load: LoadOptions,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub struct PausesOptions {
    /// Seconds of measurement
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub duration: Duration,
    /// Save the result as JSON in this file, see `bench diff`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct LimitServerOptions {
    /// Address to listen on
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    pub contestants: u16,
    /// Votes to reserve room for at the start
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub rows: usize,
}

#[derive(Clone, Debug, Args)]
pub struct DemoOptions {
    /// Seconds to run; 0: until Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds_or_zero)]
    pub duration: Duration,
    /// Outstanding calls at any time
    #[arg(long, value_name = "CALLS", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub outstanding: u32,
    /// Durability of the server: sync, interval=MS or none [default: the server's own]
    #[arg(long, value_name = "HOW")]
    pub durability: Option<String>,
    /// One line per second instead of the scoreboard, also in a terminal
    #[arg(long)]
    pub plain: bool,
}

fn seconds_or_zero(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is needed".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn seconds(text: &str) -> Result<Duration, String> {
    match seconds_or_zero(text)? {
        Duration::ZERO => Err("more than 0 seconds are needed".to_string()),
        duration => Ok(duration),
    }
}

fn whole_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err("a whole number of seconds above 0 is needed".to_string()),
    }
}

fn positive_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a number of calls per second above 0 is needed".to_string()),
    }
}

fn ratio_above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio.is_finite() && ratio > 0.0 => Ok(ratio),
        _ => Err("a ratio above 0 is needed".to_string()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a number from 0 to 100 is needed".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: BenchCommand,
    }

    fn parse(line: &str) -> Result<BenchCommand, clap::Error> {
        Line::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).map(|line| line.command)
    }

    #[test]
    fn lines_that_are_understood() {
        let BenchCommand::Voter(voter) = parse("voter").unwrap() else { panic!("voter") };
        assert_eq!((voter.load.duration, voter.contestants, voter.max_votes), (Duration::from_secs(20), 6, 2));
        let BenchCommand::Voter(voter) =
            parse("voter --against-limit --duration 2.5 --procedure statements --durability none").unwrap()
        else {
            panic!("voter")
        };
        assert_eq!(voter.load.duration, Duration::from_millis(2500));
        assert_eq!((voter.procedure, voter.against_limit), (VoteProcedure::Statements, true));
        let BenchCommand::Kv(kv) = parse("kv --rate 1e5 --reads 50 --server a:1").unwrap() else { panic!("kv") };
        let BenchCommand::Compare(compare) = parse("compare --systems redis,sqlite").unwrap() else {
            panic!("compare")
        };
        assert_eq!(compare.systems, [SystemName::Redis, SystemName::Sqlite]);
        assert_eq!(compare.workloads, [WorkloadKind::Voter, WorkloadKind::Read, WorkloadKind::Write]);
        assert_eq!((kv.load.rate, kv.reads, kv.target.server.as_deref()), (Some(1e5), 50.0, Some("a:1")));
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
