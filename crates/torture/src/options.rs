//! The options of `ferrite bench torture` and `ferrite bench soak`.

use clap::{Args, ValueEnum};
use ferrite_bench::options::{LoadOptions, TargetOptions, seconds};
use std::path::PathBuf;
use std::time::Duration;

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

/// What may happen to a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum HarmKind {
    /// SIGKILL of one node
    Kills,
    /// SIGKILL of all nodes at once
    KillsOfAll,
    /// SIGSTOP of a node, and SIGCONT after seconds
    Pauses,
    /// SIGTERM of a node
    Stops,
    /// SIGKILL of a node and the loss of its directory; it joins as another node
    Wipes,
    /// Nodes that do not reach each other for seconds; needs root, and the programs ip, tc and nft
    Splits,
}

#[derive(Clone, Debug, Args)]
pub struct TortureOptions {
    /// Kills under load
    #[arg(long, value_name = "COUNT", default_value_t = 20, conflicts_with = "nodes")]
    pub kills: u32,
    /// Kill, stop and pause nodes of a cluster of this many processes [default: one server without
    /// others]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..=7))]
    pub nodes: Option<u32>,
    /// Copies beside the first
    #[arg(long, value_name = "K", default_value_t = 1, requires = "nodes", value_parser = clap::value_parser!(u32).range(0..=6))]
    pub kfactor: u32,
    /// Copies of partitions on each node, which form several groups [default: one group]
    #[arg(long, value_name = "COUNT", requires = "nodes", conflicts_with = "partitions", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub partitions_per_node: Option<u32>,
    /// Rounds with a cluster
    #[arg(long, value_name = "COUNT", default_value_t = 20, requires = "nodes")]
    pub rounds: u32,
    /// What happens to a cluster, separated by commas
    #[arg(
        long, value_enum, value_name = "WHAT", value_delimiter = ',', requires = "nodes",
        default_values = ["kills", "kills-of-all", "pauses", "stops"]
    )]
    pub harms: Vec<HarmKind>,
    /// Calls a second to a cluster, about [default: 4,800]
    #[arg(long, value_name = "COUNT", requires = "nodes", value_parser = clap::value_parser!(u32).range(50..=100_000))]
    pub rate: Option<u32>,
    /// No further kills or rounds after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Seed of what happens when [default: another one each time]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Partitions of the database
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub partitions: u32,
    /// Durability of the server: sync, interval=MS, none or memory
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
