//! The cluster's metadata: the nodes, which of them keep each group, and which vote
//! (docs/replication.md, sections 7 to 10; docs/decisions/0048-metadata.md).
//!
//! Owns the state that all voters agree on, and the commands that change it. Promises that the
//! state is a function of the commands, that each command is a comparison and a change in one, and
//! that a group's epochs only grow. Does not know sockets, clocks or threads.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod ask;
mod bytes;
mod command;
mod controller;
pub mod founding;
mod lease;
mod link;
mod parts;
pub mod placement;
mod removal;
mod state;
#[cfg(test)]
mod testing;
pub mod voter;

pub use ask::{Ask, MetadataUpdate, Question};
pub use bytes::Malformed;
pub use command::{Command, CommandError, FORMAT, FORMAT_SEVERAL_GROUPS};
pub use controller::{Controller, Out, has_lost_its_vote};
pub use lease::{CUT_OFF_NANOS, LEAD_ENDED_NANOS, LEASE_ENDED_NANOS, LEASE_NANOS};
pub use link::Link;
pub use parts::{Assignment, Group, Kind, Node, Phase, Presence, Settings};
pub use removal::{CannotRemove, may_remove, why_retired};
pub use state::{Change, Refusal, State};

pub use ferrite_base::limits::{
    CLUSTER_ADDRESSES_MAX as ADDRESSES_MAX, CLUSTER_GROUPS_MAX as GROUPS_MAX, CLUSTER_MEMBERS_MAX as MEMBERS_MAX,
    CLUSTER_NODES_MAX as NODES_MAX, CLUSTER_TEXT_BYTES_MAX as TEXT_BYTES_MAX, CLUSTER_VOTERS_MAX as VOTERS_MAX,
};
