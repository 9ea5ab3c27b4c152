//! What a cluster's threads ask of the thread that writes their node's snapshots, of one group each
//! time. A leaf.

use ferrite_base::GroupId;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::snapshots::Snapshots;
use std::sync::Arc;
use std::time::Duration;

pub enum SnapshotRequest {
    /// For another node: with a number above this one, and held with the log after it from then on.
    /// Called with the number.
    SaveFor(u64, Box<dyn FnOnce(Result<u64, String>) + Send>),
    /// What a copy's tables hold is to be hashed.
    Hash(Box<ContentCut>),
    /// The group's snapshots that are on their way to other nodes, or are read there: they stay,
    /// with the log after them.
    Hold(Vec<u64>),
    /// Another node's snapshot takes the place of what is here: done piece by piece, until it says
    /// that it is over. No snapshot is taken meanwhile.
    TakeIn(TakeIn),
}

/// Does the next piece of work with the node's own snapshots of the group. None: it is over.
pub type TakeIn = Box<dyn FnMut(&mut Snapshots) -> Option<Duration> + Send>;

/// The way to that thread. Where it has ended, so has the node, and the request is dropped.
pub type SnapshotRequests = Arc<dyn Fn(GroupId, SnapshotRequest) + Send + Sync>;
