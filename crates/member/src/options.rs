//! How a node takes part in a cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A server without others has the default.
#[derive(Clone)]
pub struct ClusterOptions {
    /// All nodes, the same list on each; empty: what the directory says.
    pub hosts: Vec<String>,
    /// The others are of a cluster already, which this node joins.
    pub joins: bool,
    /// Copies of everything beside the first. None: its operator says nothing of it.
    pub kfactor: Option<u32>,
    /// Partitions that each node with data keeps, in groups that spread over the nodes. None: all
    /// partitions are one group.
    pub partitions_per_node: Option<u32>,
    /// What fails together with other nodes of the same name.
    pub rack: Option<String>,
    /// Which of the nodes this one is, as the list has it. None: that follows from its addresses.
    pub place: Option<String>,
    /// Where this node listens for the others. None: at its place in the list.
    pub listen: Option<SocketAddr>,
    /// Bytes a second at which a snapshot is sent to another node.
    pub transfer_rate: u64,
    /// Reads leave when the other members have confirmed that this node leads, though it may have a
    /// lease.
    pub reads_by_barrier: bool,
    /// Set by an owner that no longer wants a start that may wait for others for ever.
    pub ends: Arc<AtomicBool>,
}

impl Default for ClusterOptions {
    fn default() -> ClusterOptions {
        let transfer_rate = 150_000_000;
        ClusterOptions {
            hosts: Vec::new(),
            joins: false,
            kfactor: None,
            partitions_per_node: None,
            rack: None,
            place: None,
            listen: None,
            transfer_rate,
            reads_by_barrier: false,
            ends: Arc::default(),
        }
    }
}
