//! What an operator has in hand.

use ferrite_base::{Epoch, GroupId, NodeId};

/// What an operator does about a loss.
#[derive(Clone, Copy)]
pub(super) struct Operator {
    /// Whose loss is accepted.
    pub group: GroupId,
    /// The node with whose data the cluster is to go on.
    pub chosen: NodeId,
    /// In this epoch all was well.
    pub epoch: Epoch,
    /// When it asks again.
    pub next: u64,
}

/// What the administrator is to reach, and when it is tried next.
#[derive(Clone, Copy)]
pub(super) struct Administrator {
    pub paused: bool,
    pub next: u64,
}
