//! The messages between nodes about a group, and what a state machine wants done.

use super::configuration::{Member, Sealed};
use super::entry::{Header, Mark};
use super::history::History;
use ferrite_base::{Epoch, Incarnation, NodeId, Position};

/// A message and its sender. The connection knows the group and the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    pub from: Member,
    pub epoch: Epoch,
    pub message: Message,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Append these after `previous`. Without entries: a heartbeat, or the question whether
    /// `previous` is there.
    Append { previous: Mark, entries: Vec<Header>, commit: Position, round: u64 },
    /// `durable`: the last entry that is durable, and known to be in the leader's stream.
    /// `compares`: its checksum is this node's own, and not forgotten.
    Acked { durable: Mark, compares: bool, round: u64 },
    /// `previous` is not here.
    Mismatch { history: History, end: Position, round: u64 },
    /// The epoch that was promised is higher.
    Refused { promised: Epoch },
    /// What this node's tables hold is not what the leader has said of an entry.
    Differs { entry: Position },
    /// The leader's clock.
    Clock(Said),
    /// This node knows that time of the leader's clock; its tables show everything up to `applied`,
    /// and it can run all procedures, or cannot.
    Knows { said: Said, applied: Position, able: bool },
}

/// What a leader says of its clock, in microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Said {
    /// No transaction has shown a later time, or will before a member knows this one.
    pub now: i64,
    /// No transaction's number is of a later time.
    pub numbers: i64,
}

/// A change of the configuration that a leader asks the metadata for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// The epoch that it follows: otherwise it is refused.
    pub expected: Epoch,
    /// The proposing leader, or the member that it hands over to.
    pub leader: Member,
    pub members: Vec<Member>,
    pub added: Vec<NodeId>,
}

/// What the caller has to do, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    Send {
        to: NodeId,
        envelope: Envelope,
    },
    /// Send the entries after `after` up to `up_to`, which the caller has in memory or in the log,
    /// in one or several messages with this commit position and round.
    SendEntries {
        to: NodeId,
        epoch: Epoch,
        after: Position,
        up_to: Position,
        commit: Position,
        round: u64,
    },
    /// A follower: these entries go to the log, in this order.
    Write(Vec<Header>),
    /// The leader: the first entry of its epoch goes to the log.
    Start {
        header: Header,
        body: Vec<u8>,
    },
    /// A follower: entries from this position on, written and never applied, are dead.
    Drop {
        from: Position,
    },
    /// Everything up to here is committed: a follower applies it, a leader releases answers.
    Commit(Position),
    /// The leader now takes calls.
    Opened,
    /// Reads that wait for this round or a lower one may be answered.
    Confirmed(u64),
    /// No longer the leader: what is executed beyond `commit` is undone, its answers are unknown.
    Deposed {
        commit: Position,
    },
    /// The promise has to be durable before [`super::Group::promised`] is called with it.
    Promise(Epoch),
    /// The leader's own log has stood still for as long as a member's may, or has resumed. Another
    /// member should lead meanwhile.
    StandsStill(bool),
    /// Tell the metadata.
    Sealed(Sealed),
    Propose(Proposal),
    /// A message shows that there is a configuration, or a seal, of this epoch or a higher one.
    AskMetadata(Epoch),
    /// The node's stream is not what it claims: its copy is to be rebuilt.
    Diverged(NodeId),
    /// The node's tables are not what this leader's were at that entry: its copy is rebuilt.
    Differs(NodeId, Position),
    /// The node's stream has nothing of this one's, or is empty: it gets a snapshot. Repeated as
    /// long as that holds.
    NeedsSnapshot(NodeId),
}

/// When a leader acts by itself. In nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub heartbeat: u64,
    /// A member that is silent for this long is proposed for removal.
    pub failure: u64,
    /// Within this a member has to make durable what there is; one that does not is proposed for
    /// removal, even if it answers. A leader that does not gives up its lead.
    pub stall: u64,
    /// After this long without progress entries are sent again.
    pub resend: u64,
    /// What was proposed and is not decided after this long is proposed again: the metadata takes
    /// nothing while its leader changes.
    pub propose: u64,
    /// A learner that lacks at most this many bytes becomes a member.
    pub join_bytes: u64,
    /// Bytes on their way to one node.
    pub window_bytes: u64,
}

impl Timing {
    pub const DEFAULT: Timing = Timing {
        heartbeat: 100_000_000,
        failure: 2_000_000_000,
        stall: 10_000_000_000,
        resend: 1_000_000_000,
        propose: 50_000_000,
        join_bytes: 4 << 20,
        window_bytes: 64 << 20,
    };
}

/// What a node knows of a group when its process starts.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    pub promised: Epoch,
    /// Of all entries in the log, dead ones left out.
    pub history: History,
    pub end: Mark,
    /// What the log itself shows to be committed.
    pub commit: Position,
    /// Whether the log has everything that was acknowledged: false when the machine stopped and the
    /// mode is not `sync`.
    pub intact: bool,
}

impl Member {
    pub fn new(node: u32, incarnation: u64) -> Member {
        Member { node: NodeId(node), incarnation: Incarnation(incarnation) }
    }
}
