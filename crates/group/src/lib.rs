//! A replica group as one node keeps it: the entries of its stream, their way into the redo log,
//! what a replay of the log makes of them, where a member gets those that it missed, and the file
//! that says which node this is.
//!
//! Promises that positions, chain checksums and the order in the log agree (decision 0044); that a
//! replay gives out the entries that are known to be committed, in order and once, and keeps the
//! others. Does not know what records an entry holds, or tables or peers.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod appender;
mod catch_up;
mod entry;
mod host;
mod identity;
pub mod message;
mod recent;
mod replayed;
mod replication;
mod supplier;
mod times;

pub use appender::{Checkpointed, GroupAppender};
pub use catch_up::{CatchUp, CatchUpError, Missed, Wanted, numbers};
pub use entry::{Entry, EntryBuffer, EntryError, HEADER_BYTES, KIND_ENTRY, KIND_EPOCH_START};
pub use host::{FromLog, GroupEvent, GroupHost, NoHost, NotCommitted, Party, Urgency};
pub use identity::{Identity, IdentityError, IdentityFile};
pub use recent::{Behind, Recent, SharedEntry};
pub use replayed::{Found, GroupPlace, Replayed, Verdict};
pub use replication::{Begin, Committing, Replication};
pub use supplier::{Supplied, Supplier};
pub use times::TIMES;

pub use ferrite_replica::group::{Among, CannotHandOver, Successor};

use ferrite_base::{GroupId, NodeId};

/// The group that has all partitions, until there are several.
pub const FIRST_GROUP: GroupId = GroupId(0);

/// A node that is not in a cluster, or has founded one.
pub const FIRST_NODE: NodeId = NodeId(1);
