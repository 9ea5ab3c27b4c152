//! The options of every process that may be a node of a cluster.

use crate::address;
use clap::Args;
use ferrite_io::LogFormat;
use ferrite_node::ClusterOptions;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Args)]
pub struct MemberOptions {
    /// All nodes of a cluster, this one too, each as the others reach it; the same list on every
    /// machine. Default port: 3021. Needed at the first start only.
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',')]
    cluster: Vec<String>,
    /// Copies of all data beside the first, on other nodes of the cluster: this many of them may be
    /// lost. Needed where a cluster of several nodes begins, and cannot be changed later.
    #[arg(long, value_name = "K", requires = "cluster", value_parser = clap::value_parser!(u32).range(0..=6))]
    kfactor: Option<u32>,
    /// Join the cluster that the other nodes of --cluster belong to, as a new node. The list names
    /// this node and any that are in the cluster already; --kfactor is the cluster's.
    #[arg(long, requires = "cluster", conflicts_with = "kfactor")]
    join: bool,
    /// Which of --cluster this node is, written as there. Needed where that does not follow from
    /// its addresses, since they are translated on the way.
    #[arg(long, value_name = "HOST[:PORT]", requires = "cluster")]
    cluster_as: Option<String>,
    /// Where this node listens for the others [default: at its place in --cluster].
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address::listen)]
    cluster_listen: Option<SocketAddr>,
    /// How this node writes what it reports on standard error: `text` (a line with time, level,
    /// message and code) or `json` (an object on each line). docs/events.md explains the codes.
    #[arg(long, value_enum, value_name = "text|json", default_value = "text")]
    log_format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

impl MemberOptions {
    pub fn log_format(&self) -> LogFormat {
        match self.log_format {
            Format::Text => LogFormat::Text,
            Format::Json => LogFormat::Json,
        }
    }

    /// `ends`: set when the process is to end, also while it waits for other nodes.
    pub fn cluster(self, ends: &Arc<AtomicBool>) -> ClusterOptions {
        ClusterOptions {
            hosts: self.cluster,
            joins: self.join,
            kfactor: self.kfactor,
            place: self.cluster_as,
            listen: self.cluster_listen,
            ends: Arc::clone(ends),
            ..ClusterOptions::default()
        }
    }
}
