//! The causes of a node's work, and the effects that it wants: closed lists.

use crate::handing::NotHandedOver;
use ferrite_base::{Epoch, GroupId, NodeId, Position, limits};
use ferrite_group::{FromLog, GroupEvent, Identity, IdentityError, SharedEntry};
use ferrite_meta::{Ask, State};
use ferrite_notice::Notice;
use ferrite_partition::applier::Applier;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::{Compiled, CopyFault};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every cause of work for a node.
pub enum Cause {
    /// From a group, by [`crate::Host`]: a copy applies these.
    Committed(GroupId, CommittedEntries),
    /// The same when many already wait: those up to this position are in the log or on their way to
    /// it.
    CommittedUpTo(GroupId, Position),
    /// From a group, by [`crate::Host`].
    Event(GroupId, GroupEvent),
    /// A copy cannot continue.
    Fault(GroupId, CopyFault),
    /// The metadata, as it was after this many commands. It may be stale. `leader`: of the voters,
    /// as far as this node knows.
    Metadata { index: u64, state: Arc<State>, leader: Option<NodeId> },
    /// From the metadata: what this node knows of the state after this many commands holds until
    /// then, by its boot-time clock, in nanoseconds. Comes after that state.
    Lease { index: u64, until: u64 },
    /// Messages to that node that were not answered may be lost.
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

/// What a node cannot do itself. No method may wait for a party.
pub trait NodeEffects: Send {
    /// Makes durable which node this is and what it has promised.
    fn keep(&mut self, identity: &Identity) -> Result<(), IdentityError>;
    fn ask(&mut self, ask: Ask);
    /// Runs the applier until it ends.
    fn run(&mut self, group: GroupId, applier: Applier);
    /// The receiver of each new catalog version that a copy reaches.
    fn publisher(&mut self, group: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send>;
    /// The function that hashes a copy's tables where its leader has marked the stream.
    fn hasher(&mut self, group: GroupId) -> Box<dyn Fn(ContentCut) + Send>;
    /// Entries are to be read from the log, and sent.
    fn send_from_log(&mut self, group: GroupId, wanted: FromLog);
    /// The node follows and gets a snapshot of what this leader has. Repeated while that holds.
    fn needs_snapshot(&mut self, group: GroupId, node: NodeId);
    /// The node is no longer needed: what it was sent of a snapshot is useless.
    fn needs_no_snapshot(&mut self, group: GroupId, node: NodeId);
    /// How long it takes to send everything to a node that has nothing.
    fn transfer_nanos(&self, group: GroupId) -> u64;
    /// The node leads, or no longer leads.
    fn serves(&mut self, group: GroupId, epoch: Option<Epoch>);
    /// The database is now paused, or resumed, as the metadata says. Called before anything that
    /// follows from the same state of the metadata, so that a leader knows it when it begins to
    /// lead.
    fn paused(&mut self, paused: bool);

    /// Whether the group's copies of replicated tables may differ from those of other groups.
    /// Called before anything else that follows from the same metadata: a node that leads the group
    /// by it executes nothing on such copies.
    fn unequal(&mut self, group: GroupId, unequal: bool);
    /// The node has given up its lead of that epoch; the metadata may not learn this for a long
    /// time.
    fn gave_up(&mut self, group: GroupId, epoch: Epoch);
    /// New calls wait, and nothing starts by itself; or everything resumes.
    fn hold(&mut self, group: GroupId, holds: bool);
    /// Everything taken before the hold is answered. Asked until it is.
    fn is_drained(&mut self, group: GroupId) -> bool;
    /// The outcome of [`crate::Node::hand_over`]: who leads now, or why this node still leads.
    fn handed_over(&mut self, group: GroupId, outcome: Result<NodeId, NotHandedOver>);
    /// This node's copy of the group is unusable: it is rebuilt. `alone`: a group of which
    /// only this node has everything. Its directory is then left as it is.
    fn make_anew(&mut self, group: GroupId, reason: &str, alone: Option<GroupId>);
    /// This process must do nothing more: another has the node's place.
    fn end(&mut self, reason: &str);
    /// For the operator.
    fn notice(&mut self, notice: Notice);
}
