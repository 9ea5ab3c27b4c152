//! A group's surroundings: the parties that append, and the rest of the node.

use crate::recent::SharedEntry;
use crate::replayed::GroupPlace;
use ferrite_base::{Epoch, GroupId, NodeId, Position, UserError};
use ferrite_log::LogFailed;
use ferrite_replica::group::{Proposal, Sealed};
use std::fmt;

/// Why an append will not be committed by this node, as far as it knows.
#[derive(Clone, Debug)]
pub enum NotCommitted {
    Log(LogFailed),
    /// It no longer leads. Another leader may still commit it.
    Deposed,
}

impl NotCommitted {
    /// For a caller whose transaction was executed, but is not known to be committed.
    pub fn outcome_unknown(&self) -> UserError {
        match self {
            NotCommitted::Log(failure) => failure.outcome_unknown(),
            NotCommitted::Deposed => UserError::maybe_committed(&self.to_string()),
        }
    }

    /// For a caller whose transaction was not begun, or has changed nothing and is not known to
    /// have seen the truth.
    pub fn unavailable(&self) -> UserError {
        match self {
            NotCommitted::Log(failure) => failure.unavailable(),
            NotCommitted::Deposed => UserError::not_started(&self.to_string()),
        }
    }
}

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCommitted::Log(failure) => failure.fmt(f),
            NotCommitted::Deposed => f.write_str("this node no longer leads the partitions"),
        }
    }
}

impl std::error::Error for NotCommitted {}

/// The party that learns the outcome of an append.
pub trait Party: Send + 'static {
    /// Called in the order of the appends, once it and all before it are committed, or with the
    /// reason why that is unknown. `payload`: memory to reuse. Must neither wait nor append.
    fn complete(self, payload: Vec<u8>, outcome: Result<(), NotCommitted>);
}

/// How a message travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Never waits behind bulk: heartbeats, acknowledgements.
    Control,
    Entries,
}

/// Entries that are not in memory any more are to be read from the log, and sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FromLog {
    pub to: NodeId,
    pub epoch: Epoch,
    pub after: Position,
    pub up_to: Position,
    pub commit: Position,
    pub round: u64,
}

/// What the rest of the node has to know or to do, for a group that may have other members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupEvent {
    /// It leads, and now takes calls.
    Opened,
    /// It no longer leads: what was executed beyond this place is undone. What follows of these
    /// entries is given again as [`GroupHost::committed`].
    Deposed(Box<GroupPlace>),
    /// Reads that wait for this round may be answered.
    Confirmed(u64),
    /// To be made durable; then [`Replication::promised`] is called.
    Promise(Epoch),
    Sealed(Sealed),
    Propose(Proposal),
    /// It leads, and its own log stands still, or has resumed: meanwhile the node lets its lease
    /// end. Being deposed ends it, too.
    StandsStill(bool),
    AskMetadata(Epoch),
    /// The node's stream is not what it claims: its copy is rebuilt.
    Diverged(NodeId),
    /// The node's tables are not what this leader's were at that entry: it leaves the members, and
    /// its copy is rebuilt.
    Differs(NodeId, Position),
    /// The node follows and entries cannot make it equal: it gets a snapshot. Repeated as long as
    /// that holds.
    NeedsSnapshot(NodeId),
    /// The node lacks an entry that fits in no message, so only a snapshot can make it equal; a
    /// member has to leave first. Repeated as long as that holds.
    TooLarge {
        to: NodeId,
        position: Position,
    },
    /// [`Replication::install`]: what was given earlier as [`GroupHost::committed`] is of another
    /// stream than what follows.
    Replaced,
    /// [`Supplier::request`](crate::Supplier::request).
    FromLog(FromLog),
    LogFailed(LogFailed),
}

/// What the rest of a node does for its groups. Must not wait or call the group. Commits and events
/// come in order, also relative to what parties learn.
///
/// What a node does with the events of a group whose partitions it has:
///
/// ```text
/// Opened          Delivery::Promote, then Promoted::lead
/// Confirmed(n)    Gate::confirmed(n) of every partition and the coordinator
/// Deposed         SteppingBack::begin; when it is done, an Applier that begins where it says
/// committed       Intake::entries of that applier
/// ```
///
/// in their order: what comes while one of these is under way waits for it.
pub trait GroupHost: Send + Sync + 'static {
    /// Takes a message for a node, or loses it. Called under the group's lock.
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>);
    /// A copy applies these, in this order.
    fn committed(&self, group: GroupId, entries: Vec<SharedEntry>);
    fn event(&self, group: GroupId, event: GroupEvent);

    /// Whether this node's lease still holds (docs/replication.md section 6): asked after a read
    /// ran, which then waits for no round.
    fn has_lease(&self) -> bool {
        false
    }

    /// Whether the voters cannot have done without this group's members yet (section 8): asked when
    /// something is durable, if they could.
    fn may_lead(&self) -> bool {
        true
    }
}

/// For a node without others: nothing ever reaches it.
pub struct NoHost;

impl GroupHost for NoHost {
    fn send(&self, to: NodeId, _: Urgency, _: Vec<u8>) {
        panic!("a node without others sends to {to}");
    }

    fn committed(&self, group: GroupId, _: Vec<SharedEntry>) {
        panic!("a node without others is no copy of group {group}");
    }

    fn event(&self, _: GroupId, _: GroupEvent) {}
}
