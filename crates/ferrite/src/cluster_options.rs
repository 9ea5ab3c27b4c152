//! The options of every process that may be a node of a cluster.

use crate::address;
use clap::Args;
use ferrite_io::LogFormat;
use ferrite_member::ClusterOptions;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Longest name of a rack.
const RACK_BYTES_MAX: usize = 64;

#[derive(Args)]
pub struct MemberOptions {
    /// All nodes of the cluster, including this one, each by the name or address at which the
    /// others reach it; the same list on every machine. Default port: 3021. Required only at the
    /// first start.
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',')]
    cluster: Vec<String>,
    /// Number of additional copies of all data, on other nodes: this many nodes can be lost.
    /// Required when a cluster of several nodes is founded, and cannot be changed later.
    #[arg(long, value_name = "K", requires = "cluster", value_parser = clap::value_parser!(u32).range(0..=6))]
    kfactor: Option<u32>,
    /// Number of partitions that each node keeps: those that it leads, and its copies of others.
    /// They are divided into groups, so that every node leads some of them. The same number on
    /// every node, at the first start; cannot be changed later [default: all partitions are one
    /// group, led by one node].
    #[arg(long, value_name = "PARTITIONS", requires = "cluster", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    partitions_per_node: Option<u32>,
    /// Rack (or zone, or host) of this node: what fails together. Two copies of a partition are not
    /// placed in the same rack if that can be avoided. Only with --partitions-per-node.
    #[arg(long, value_name = "NAME", requires = "cluster", value_parser = rack)]
    rack: Option<String>,
    /// Join an existing cluster as a new node. --cluster then lists this node and any nodes that
    /// are already in the cluster, which has its own --kfactor.
    #[arg(long, requires = "cluster", conflicts_with_all = ["kfactor", "partitions_per_node"])]
    join: bool,
    /// This node's entry in --cluster, spelled the same way. Required if the node cannot recognize
    /// its entry by its own addresses, for example behind NAT.
    #[arg(long, value_name = "HOST[:PORT]", requires = "cluster")]
    cluster_as: Option<String>,
    /// Address and port on which to accept other nodes [default: those of this node's entry in
    /// --cluster].
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address::listen)]
    cluster_listen: Option<SocketAddr>,
    /// Format of the events that this node reports on standard error: `text` (a line with time,
    /// level, message and code) or `json` (one object per line). docs/events.md explains the codes.
    #[arg(long, value_enum, value_name = "text|json", default_value = "text")]
    log_format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

fn rack(text: &str) -> Result<String, String> {
    let name = text.trim();
    let fits = (1..=RACK_BYTES_MAX).contains(&name.len()) && !name.contains(',');
    fits.then(|| name.to_owned())
        .ok_or_else(|| format!("expected a name of 1 to {RACK_BYTES_MAX} bytes without commas"))
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
            partitions_per_node: self.partitions_per_node,
            rack: self.rack,
            place: self.cluster_as,
            listen: self.cluster_listen,
            ends: Arc::clone(ends),
            ..ClusterOptions::default()
        }
    }
}
