//! What makes a node work, and what it wants done: closed lists.

use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_group::{FromLog, GroupEvent, Identity, IdentityError, SharedEntry};
use ferrite_meta::{Ask, State};
use ferrite_partition::applier::Applier;
use ferrite_partition::{Compiled, CopyFault};
use std::sync::Arc;

/// Every cause of work for a node.
pub enum Cause {
    /// Of a group, by [`crate::Host`]: a copy applies these.
    Committed(GroupId, Vec<SharedEntry>),
    /// Of a group, by [`crate::Host`].
    Event(GroupId, GroupEvent),
    /// A copy cannot go on.
    Fault(GroupId, CopyFault),
    /// The metadata, as it was after this many commands. It may be an old word.
    Metadata { index: u64, state: Arc<State> },
    /// Of the metadata: what this node knows of the state after so many commands holds until then,
    /// by its boot-time clock, in nanoseconds. Behind that state.
    Lease { index: u64, until: u64 },
    /// What was sent to that node and not answered may be lost.
    Lost(NodeId),
}

/// What a node cannot do itself. None of it may wait for a party.
pub trait Around: Send {
    /// Makes durable which node this is and what it has promised.
    fn keep(&mut self, identity: &Identity) -> Result<(), IdentityError>;
    fn ask(&mut self, ask: Ask);
    /// Runs this from now on, until it ends.
    fn run(&mut self, group: GroupId, applier: Applier);
    /// Who is told of each new catalog version that a copy has come to.
    fn publisher(&mut self, group: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send>;
    /// Entries are to be read from the log, and sent.
    fn send_from_log(&mut self, group: GroupId, wanted: FromLog);
    /// The node follows and gets a snapshot of what this leader has. Said again while it is so.
    fn needs_snapshot(&mut self, group: GroupId, node: NodeId);
    /// The node leads, or does not any more.
    fn leads(&mut self, group: GroupId, epoch: Option<Epoch>);
    /// What this node has of the group cannot be used any more: it is made anew.
    fn make_anew(&mut self, group: GroupId, reason: &str);
    /// This process must do nothing more: another has the node's place.
    fn end(&mut self, reason: &str);
    /// A line for the operator.
    fn notice(&mut self, line: &str);
}
