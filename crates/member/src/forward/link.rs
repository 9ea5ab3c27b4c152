//! What forwarding uses of the cluster: the way to another node, and the leader.

use ferrite_base::{Incarnation, NodeId};
use ferrite_partition::MailboxHandle;

/// Which of the two kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Calls,
    Answers,
}

/// The way to the other nodes. Messages arrive in their order, each once, until the way is lost.
pub trait Link: Send + Sync + 'static {
    /// Bytes that wait to be sent to the node; None: there is no way at the moment.
    fn waiting(&self, to: NodeId) -> Option<usize>;
    /// Takes the message whole. False: not at all.
    fn send(&self, to: NodeId, kind: Kind, message: Vec<u8>) -> bool;
    /// There is room again for what the node sends.
    fn resume(&self, from: NodeId);
}

/// A node that leads, in one of its processes. It answers what it has taken, also when it leads in
/// another epoch by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    pub node: NodeId,
    pub incarnation: Incarnation,
}

/// Which node leads the partitions, as far as this node knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leadership {
    Here,
    /// This node leads, and another is about to: what comes waits.
    HandingOver,
    /// This node is the one that leads, and does not take calls yet: what comes waits.
    Coming,
    At(Destination),
    Unknown,
}

/// A client's call: `start..end` in the bytes of its batch is its frame body.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub connection: u64,
    pub handle: i64,
    /// What its door permits (`docs/decisions/0014-doors-and-privileges.md`).
    pub trusted: bool,
    pub start: u32,
    pub end: u32,
}

/// Calls that one network thread took in one turn, and where their answers go.
pub struct Batch {
    pub mailbox: MailboxHandle,
    pub calls: Vec<Call>,
    pub bytes: Vec<u8>,
    /// When they were taken, in microseconds since 1970.
    pub sent_micros: i64,
}

impl Batch {
    pub fn body(&self, call: &Call) -> &[u8] {
        &self.bytes[call.start as usize..call.end as usize]
    }
}
