//! The options of each bench on the command line.

mod experiments;

pub use experiments::{
    CompareDurability, CompareOptions, CurveOptions, DiffOptions, NodeOptions, NodeWorkload, RegressBench,
    RegressOptions, ScaleBy, ScaleOptions, SystemName, WorkloadKind,
};

use crate::generator::Shape;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Options that all loads have.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// Seconds of measurement
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub duration: Duration,
    /// Whole seconds of load before the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub warmup: u64,
    /// Calls per second, sent by schedule; latency then counts from the scheduled moment [default:
    /// as fast as answers come]
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
    /// A running server, or several nodes of a cluster, separated by commas [default: start one for
    /// the run]
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',',
          conflicts_with_all = ["dir", "durability", "partitions", "nodes"])]
    pub server: Vec<String>,
    /// Data directory of the server started for the run [default: a temporary one]
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "nodes")]
    pub dir: Option<PathBuf>,
    /// Durability of the server started for the run: sync, interval=MS, none or memory [default:
    /// the server's own]
    #[arg(long, value_name = "HOW")]
    pub durability: Option<String>,
    /// Partitions of the server started for the run [default: the server's own]
    #[arg(long, value_name = "COUNT")]
    pub partitions: Option<usize>,
    /// Server processes on this machine that form a cluster for the run; the load goes to its
    /// leader, or with --partitions-per-node to the leader of each call's partition [default: one
    /// server without a cluster]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub nodes: Option<u8>,
    /// Copies of the data beside the leader's, with --nodes
    #[arg(long, value_name = "K", requires = "nodes", default_value_t = 0, hide_default_value = true)]
    pub kfactor: u32,
    /// Copies of partitions on each node, with --nodes: every node leads some [default: one node
    /// leads all]
    #[arg(long, value_name = "COUNT", requires = "nodes", conflicts_with = "partitions")]
    pub partitions_per_node: Option<u32>,
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
    /// With --procedure java: the jar with the class voter.Vote, which examples/voter/java/build
    /// makes
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
pub struct FailoverOptions {
    /// Nodes, processes on this machine
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=7))]
    pub nodes: u32,
    /// Copies beside the first
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=6))]
    pub kfactor: u32,
    /// Kills of the leader, and then as many orderly stops
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub rounds: u32,
    /// Writes per second
    #[arg(long, value_name = "WRITES", default_value = "1000", value_parser = positive_rate)]
    pub rate: f64,
    /// Durability of the servers: sync, interval=MS or none
    #[arg(long, value_name = "HOW", default_value = "sync")]
    pub durability: String,
    /// Partitions of the database [default: the server's own]
    #[arg(long, value_name = "COUNT")]
    pub partitions: Option<usize>,
    /// Copies of partitions on each node: every node leads some, and each partition's writes are
    /// measured [default: one node leads all]
    #[arg(long, value_name = "COUNT", conflicts_with = "partitions")]
    pub partitions_per_node: Option<u32>,
    /// Save the result as JSON in this file, see `bench diff`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// More options for the servers, after --
    #[arg(last = true, value_name = "OPTION")]
    pub server_options: Vec<String>,
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
    /// Durability of the server: sync, interval=MS, none or memory [default: the server's own]
    #[arg(long, value_name = "HOW")]
    pub durability: Option<String>,
    /// Server processes on this machine, which form a cluster and keep a copy of everything; the
    /// one that leads is killed at half time, and whenever you press k; 3 to 5 of them [default:
    /// one server]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(3..=5))]
    pub nodes: Option<u32>,
    /// One line per second instead of the scoreboard, also in a terminal
    #[arg(long)]
    pub plain: bool,
}

fn seconds_or_zero(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is needed".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// A time above zero, as an option of the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
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

fn even_number(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(count @ 2..=1_000) if count % 2 == 0 => Ok(count),
        _ => Err("an even number from 2 to 1000 is needed".to_string()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a number from 0 to 100 is needed".to_string()),
    }
}
