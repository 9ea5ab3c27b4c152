//! What a node of a cluster does for its groups (docs/decisions/0055-node-of-a-cluster.md):
//! registers, changes roles, keeps promises, passes on what the metadata and the groups say to each
//! other.
//!
//! Owns which role the node has in each group, which node it is, and its way to the metadata.
//! Promises that every wait is a state: [`Node`] takes one cause of work after the other and never
//! waits for a party, so that the server's thread and the simulator run the same code. Does not
//! know sockets, threads or timers, nor how the metadata's voters agree.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod cause;
mod failover_phase;
mod group_replica;
mod groups;
mod hand_over;
mod handing;
mod host;
mod kept_alone;
mod lead_return;
mod lease;
mod membership;
mod message_kind;
mod metadata;
mod node;
mod seal_answer;

pub use cause::{Cause, CommittedEntries, NodeEffects};
pub use failover_phase::FailoverPhase;
pub use group_replica::Parties;
pub use groups::{Groups, Unusable};
pub use handing::NotHandedOver;
pub use host::{Host, Transport};
pub use kept_alone::kept_here_alone;
pub use lease::Lease;
pub use message_kind::{MessageKind, UnknownKind};
pub use metadata::{Errand, Metadata};
pub use node::{Node, Start};

use ferrite_group::Replication;
use ferrite_partition::commit::Completion;
use std::sync::Arc;

/// A group of partitions, as this node replicates it.
pub type GroupHandle = Arc<Replication<Completion>>;
