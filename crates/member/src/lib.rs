//! A node's part in a cluster (docs/decisions/0057-server-of-a-cluster.md): how it becomes one of
//! its nodes, the threads that it has besides those of a single server, the messages they take, and
//! the calls that it passes on to the leader.
//!
//! Owns the cluster's port, what the directory says of the cluster, and the calls on their way to
//! other nodes. Promises one answer to each of these calls. Does not know clients' sockets: what it
//! needs of the node above it are a few traits ([`Clients`], [`Drain`], [`forward::Executor`]) and
//! channels. A single server does not come here.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that no process reads would hold up the thread that prints it;
// `ferrite_io::stdio` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod clients;
mod copy_side;
mod descriptors;
mod directory;
mod discard_copy;
mod drain;
mod effects;
pub mod equalizing;
mod error;
mod figures;
pub mod forward;
mod founding;
mod from_single_node;
mod giving_way;
mod group_health;
mod hand_overs;
mod health;
mod hosted;
mod hosts;
mod join;
mod links;
mod loss;
pub mod lots;
mod membership_report;
mod metadata;
mod node;
mod node_status;
mod notices;
mod offline;
mod open;
mod options;
mod orders;
mod pausing;
mod peer_dispatcher;
mod place;
mod procedures;
mod quorum_report;
mod reachability;
pub mod release;
mod remove;
mod rounds;
mod running;
mod snapshot_request;
mod status;
mod status_tables;
mod supply;
#[cfg(test)]
mod testing;
mod tolerance;
mod topology;
mod transfer;
mod transfer_message;
mod waits;
mod witness;

pub use clients::Clients;
pub use copy_side::CopySide;
pub use descriptors::peer_connections_max;
pub use directory::Unsynced;
pub use discard_copy::{damage, leads_without};
pub use drain::Drain;
pub use error::MemberError;
pub use figures::{Figures, OwnFigures};
pub use from_single_node::{examine_database, has_database};
pub use giving_way::Room;
pub use hosted::{HostedGroup, of_group};
pub use hosts::{cluster_name, host_id, hosts};
pub use join::{About, join};
pub use links::Links;
pub use loss::AcceptLoss;
pub use node_status::{NodeStatus, Standing, StatusSnapshot};
pub use offline::{accept_loss, leave_cluster};
pub use open::{Member, open};
pub use options::ClusterOptions;
pub use orders::{HandOver, Order};
pub use pausing::{Pause, Pauses};
pub use peer_dispatcher::Calls;
pub use place::bind;
pub use remove::RemoveNode;
pub use running::{DataUses, Running, Uses, start};
pub use snapshot_request::SnapshotRequest;
pub use status::Handle;
pub use topology::Topology;
pub use waits::Waits;
pub use witness::{Witness, WitnessOptions};

/// For tools that depend on this crate and not on the metadata.
pub use ferrite_meta::placement;
