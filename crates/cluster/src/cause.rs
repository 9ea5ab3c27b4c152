//! What makes a node work, and what it wants done: closed lists.

use crate::handing::NotHandedOver;
use ferrite_base::{Epoch, GroupId, NodeId, Position, limits};
use ferrite_group::{FromLog, GroupEvent, Identity, IdentityError, SharedEntry};
use ferrite_meta::{Ask, State};
use ferrite_partition::applier::Applier;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::{Compiled, CopyFault};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every cause of work for a node.
pub enum Cause {
    /// Of a group, by [`crate::Host`]: a copy applies these.
    Committed(GroupId, CommittedEntries),
    /// Likewise, where many wait already: up to there, they are in the log or on their way to it.
    CommittedUpTo(GroupId, Position),
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

/// They count until they are dropped.
pub struct CommittedEntries {
    entries: Vec<SharedEntry>,
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl CommittedEntries {
    /// `held`: the bytes of all that wait. None where that would be more than may wait.
    pub(crate) fn new(entries: Vec<SharedEntry>, held: &Arc<AtomicUsize>) -> Option<CommittedEntries> {
        let bytes = entries.iter().map(|entry| entry.bytes.len()).sum();
        let before = held.fetch_add(bytes, Ordering::Relaxed);
        let committed = CommittedEntries { entries, bytes, held: Arc::clone(held) };
        (before == 0 || before + bytes <= limits::COPY_ENTRIES_BYTES_MAX).then_some(committed)
    }
}

impl Deref for CommittedEntries {
    type Target = [SharedEntry];

    fn deref(&self) -> &[SharedEntry] {
        &self.entries
    }
}

impl Drop for CommittedEntries {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a node cannot do itself. None of it may wait for a party.
pub trait NodeEffects: Send {
    /// Makes durable which node this is and what it has promised.
    fn keep(&mut self, identity: &Identity) -> Result<(), IdentityError>;
    fn ask(&mut self, ask: Ask);
    /// Runs this from now on, until it ends.
    fn run(&mut self, group: GroupId, applier: Applier);
    /// Who is told of each new catalog version that a copy has come to.
    fn publisher(&mut self, group: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send>;
    /// Who hashes what a copy's tables hold where its leader has marked the stream.
    fn hasher(&mut self, group: GroupId) -> Box<dyn Fn(ContentCut) + Send>;
    /// Entries are to be read from the log, and sent.
    fn send_from_log(&mut self, group: GroupId, wanted: FromLog);
    /// The node follows and gets a snapshot of what this leader has. Said again while it is so.
    fn needs_snapshot(&mut self, group: GroupId, node: NodeId);
    /// The node is not needed any more: what it was sent of a snapshot is of no use.
    fn needs_no_snapshot(&mut self, group: GroupId, node: NodeId);
    /// How long it takes to send everything to a node that has nothing.
    fn transfer_nanos(&self, group: GroupId) -> u64;
    /// The node leads, or does not any more.
    fn leads(&mut self, group: GroupId, epoch: Option<Epoch>);
    /// The database is paused from here on, or resumed, as the metadata says. Told before anything
    /// that follows from the same state of the metadata: a leader knows it when it begins to lead.
    fn paused(&mut self, paused: bool);
    /// The node has given up its lead of that epoch, which the metadata may not know for long.
    fn gave_up(&mut self, group: GroupId, epoch: Epoch);
    /// Calls that come wait from here on, and nothing is begun by itself; or all goes on.
    fn hold(&mut self, group: GroupId, holds: bool);
    /// All that was taken before it was to be held is answered. Asked until it is so.
    fn is_drained(&mut self, group: GroupId) -> bool;
    /// What became of [`crate::Node::hand_over`]: who leads now, or why this node leads on.
    fn handed_over(&mut self, group: GroupId, outcome: Result<NodeId, NotHandedOver>);
    /// What this node has of the group cannot be used any more: it is made anew.
    fn make_anew(&mut self, group: GroupId, reason: &str);
    /// This process must do nothing more: another has the node's place.
    fn end(&mut self, reason: &str);
    /// A line for the operator.
    fn notice(&mut self, line: &str);
}
