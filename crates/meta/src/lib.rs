//! The cluster's metadata: which nodes there are, who keeps each group, who votes
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
pub mod founding;
mod keeper;
mod lease;
mod link;
mod parts;
mod state;
pub mod voter;

pub use ask::{Ask, Question, Told};
pub use bytes::Malformed;
pub use command::{Command, CommandError, FORMAT};
pub use keeper::{Keeper, Out};
pub use lease::{LEASE_ENDED_NANOS, LEASE_NANOS};
pub use link::Link;
pub use parts::{Group, Kind, Node, Phase, Presence, Settings};
pub use state::{Change, Refusal, State};

/// Nodes that a cluster ever had, retired ones among them.
pub const NODES_MAX: usize = 1_024;
/// Groups of a cluster.
pub const GROUPS_MAX: usize = 256;
/// Members of a group.
pub const MEMBERS_MAX: usize = 8;
/// Voters of the metadata.
pub const VOTERS_MAX: usize = 5;
/// Addresses of a node.
pub const ADDRESSES_MAX: usize = 8;
/// Bytes of an address, and of a release's name.
pub const TEXT_BYTES_MAX: usize = 255;
