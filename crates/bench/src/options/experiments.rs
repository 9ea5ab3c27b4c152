//! The options of the experiments: curve, Node.js, comparison, scaling; and of comparing what they
//! kept.

use super::{TargetOptions, even_number, ratio_above_zero, seconds, whole_seconds};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What an experiment runs many times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum WorkloadKind {
    /// Voter's Vote: three reads, an insert, two views that follow.
    Voter,
    /// Values by key, nine reads to a write.
    Kv,
    /// Reads of values by key.
    Read,
    /// Writes of values by key.
    Write,
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no workload is hidden").get_name())
    }
}

#[derive(Clone, Debug, Args)]
pub struct CurveOptions {
    #[command(flatten)]
    pub target: TargetOptions,
    #[arg(long, value_enum, default_value_t = WorkloadKind::Voter)]
    pub workload: WorkloadKind,
    /// Seconds of each pass; there are two for each of twelve rates, and one for each client that
    /// is tried
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub duration: Duration,
    /// Whole seconds of load before each pass
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub warmup: u64,
    /// Outstanding calls of each client
    #[arg(long, value_name = "CALLS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: u32,
    /// Clients to try at most; each is a connection
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub clients_max: u16,
    /// Threads that generate load
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: u16,
    /// Where to write: PATH.csv, PATH.json and PATH.html
    #[arg(long, value_name = "PATH", default_value = "curve")]
    pub out: PathBuf,
    /// Print each second
    #[arg(long)]
    pub verbose: bool,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum NodeWorkload {
    /// Voter's Vote: three reads, an insert, two views that follow.
    #[default]
    Voter,
    /// Reads of values by key: 1,024 bytes each.
    Read,
    /// Writes of values by key: 1,024 bytes each.
    Write,
    /// The smallest procedure: one row of two words by its key.
    Hello,
}

impl NodeWorkload {
    pub fn name(self) -> &'static str {
        match self {
            NodeWorkload::Voter => "voter",
            NodeWorkload::Read => "read",
            NodeWorkload::Write => "write",
            NodeWorkload::Hello => "hello",
        }
    }
}

#[derive(Clone, Debug, Default, Args)]
pub struct NodeOptions {
    #[command(flatten)]
    pub target: TargetOptions,
    /// Node.js processes
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024), conflicts_with = "sweep")]
    pub forks: u16,
    /// One run each with half as many processes as cores, as many, one and a half times, twice as
    /// many
    #[arg(long)]
    pub sweep: bool,
    #[arg(long, value_enum, default_value_t = NodeWorkload::Voter)]
    pub workload: NodeWorkload,
    /// Whole seconds of measurement
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = whole_seconds)]
    pub duration: Duration,
    /// Whole seconds of load before it
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub warmup: u64,
    /// Outstanding calls of each process
    #[arg(long, value_name = "CALLS", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub outstanding: u32,
    /// The Node.js program
    #[arg(long, value_name = "PROGRAM", default_value = "node")]
    pub node: String,
    /// The driver's folder [default: clients/node of the source tree that the program or the
    /// current directory lies in]
    #[arg(long, value_name = "DIRECTORY")]
    pub driver: Option<PathBuf>,
    /// Save the result as JSON in this file, see `bench diff`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemName {
    Ferrite,
    Postgres,
    Redis,
    Sqlite,
}

impl fmt::Display for SystemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SystemName::Ferrite => "FerriteDB",
            SystemName::Postgres => "PostgreSQL",
            SystemName::Redis => "Redis",
            SystemName::Sqlite => "SQLite",
        })
    }
}

#[derive(Clone, Debug, Args)]
pub struct CompareOptions {
    /// Workloads, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "voter,read,write")]
    pub workloads: Vec<WorkloadKind>,
    /// Systems, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub systems: Vec<SystemName>,
    /// Durabilities of our server, separated by commas; the others run with settings that promise
    /// the same [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub durability: Vec<CompareDurability>,
    /// Seconds of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub duration: Duration,
    /// Whole seconds of load before each
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub warmup: u64,
    /// Outstanding calls at any time, over all connections
    #[arg(long, value_name = "CALLS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: u32,
    /// Bytes of a value, of the workloads kv, read and write
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..=1_048_576)
    )]
    pub value_size: u32,
    /// Partitions of our server [default: its own]
    #[arg(long, value_name = "COUNT")]
    pub partitions: Option<usize>,
    /// Where to create the databases: on the disk to be measured [default: the temporary directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// Save the result as JSON in this file, see `bench diff`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

/// What an answer promises in a comparison, by our server's `--durability`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CompareDurability {
    /// Everything is fsynced before it is answered.
    Sync,
    /// A crash may take the last second: interval=1000.
    Interval,
    /// A crash of the machine may take anything.
    None,
    /// No log: Redis without its file and snapshots, PostgreSQL with UNLOGGED tables.
    Memory,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ScaleBy {
    /// Partitions of the server.
    Partitions,
    /// Connections, each with --outstanding calls.
    Clients,
}

impl ScaleBy {
    pub fn name(self) -> &'static str {
        match self {
            ScaleBy::Partitions => "partitions",
            ScaleBy::Clients => "clients",
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct ScaleOptions {
    #[arg(long, value_enum, default_value_t = WorkloadKind::Voter)]
    pub workload: WorkloadKind,
    /// What to increase
    #[arg(long, value_enum, default_value_t = ScaleBy::Partitions)]
    pub by: ScaleBy,
    /// The largest number; every one to 4 is measured, then doublings [default: 4, or the cores if
    /// there are more]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub up_to: Option<u16>,
    /// Measurements of each number
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seconds of each pass
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub duration: Duration,
    /// Whole seconds of load before each pass
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub warmup: u64,
    /// Outstanding calls: in total (by partitions) or of each client (by clients)
    #[arg(long, value_name = "CALLS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: u32,
    /// Threads that generate load
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: u16,
    /// By partitions: connections, over all threads
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,
    /// By clients: partitions of the server [default: the server's own]
    #[arg(long, value_name = "COUNT")]
    pub partitions: Option<usize>,
    /// Durability of the servers: sync, interval=MS, none or memory [default: the server's own]
    #[arg(long, value_name = "HOW")]
    pub durability: Option<String>,
    /// Save the result as JSON in this file, see `bench diff`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

/// What `bench regress` compares two builds by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum RegressBench {
    /// Voter, one partition, durability sync.
    Voter,
    /// Voter, two partitions, durability sync.
    #[value(name = "voter-2")]
    Voter2,
    /// Voter, one partition, durability none.
    VoterNone,
    /// Values by key, nine reads to a write.
    Kv,
    /// Statements as text, one update to nine selects.
    #[value(name = "adhoc")]
    AdHoc,
    /// Transfers between accounts of two partitions, and reads of all accounts.
    Multi,
}

impl RegressBench {
    pub fn name(self) -> &'static str {
        match self {
            RegressBench::Voter => "voter",
            RegressBench::Voter2 => "voter-2",
            RegressBench::VoterNone => "voter-none",
            RegressBench::Kv => "kv",
            RegressBench::AdHoc => "adhoc",
            RegressBench::Multi => "multi",
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct RegressOptions {
    /// The other build's program
    #[arg(long, value_name = "BINARY")]
    pub against: PathBuf,
    /// Benches, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "voter,voter-2,voter-none,kv,adhoc,multi")]
    pub benches: Vec<RegressBench>,
    /// Ratio to the other build, of transactions a second and of transactions per CPU time, below
    /// which this one is slower
    #[arg(long, value_name = "RATIO", default_value = "0.98", value_parser = ratio_above_zero)]
    pub threshold: f64,
    /// Seconds after which a bench begins no more rounds, however wide its interval is
    #[arg(long, value_name = "SECONDS", default_value = "180", value_parser = seconds)]
    pub time: Duration,
    /// Seconds of each burst of load
    #[arg(long, value_name = "SECONDS", default_value = "0.3", value_parser = seconds)]
    pub burst: Duration,
    /// Bursts of each build in a round: an even number, since each pair is loaded in the order
    /// this, other, other, this
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = even_number)]
    pub bursts: u32,
    /// Outstanding calls at any time
    #[arg(long, value_name = "CALLS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: u32,
    /// What to call this build, such as its commit [default: its file's name]
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// What to call the other one
    #[arg(long, value_name = "NAME")]
    pub against_label: Option<String>,
    /// Append each bench's outcome to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Save the result as JSON in this file, see `bench diff`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub struct DiffOptions {
    /// A result kept with --json
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// Another one, of the same bench
    #[arg(value_name = "B")]
    pub after: PathBuf,
}
