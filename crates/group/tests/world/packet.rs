//! What is on the way between nodes and the metadata.

use super::METADATA;
use ferrite_base::{Epoch, NodeId};
use ferrite_group::{GroupPlace, Urgency, message};
use ferrite_replica::group::{GroupConfiguration, Member, Proposal, Sealed};

#[derive(Clone)]
pub(super) enum Packet {
    Between { from: NodeId, to: NodeId, lane: Urgency, bytes: Vec<u8> },
    Sealed(Sealed),
    Propose(Member, Proposal),
    Ask(NodeId),
    Configured { to: NodeId, configuration: GroupConfiguration },
    Seal { to: NodeId, epoch: Epoch },
    Learner { to: NodeId, learner: Member },
    Gone { to: NodeId, member: Member },
    Snapshot { from: NodeId, to: NodeId, place: Box<GroupPlace>, tables: Vec<u64> },
}

impl Packet {
    pub(super) fn way(&self) -> (NodeId, NodeId) {
        match self {
            Packet::Between { from, to, .. } | Packet::Snapshot { from, to, .. } => (*from, *to),
            Packet::Sealed(Sealed { member, .. }) | Packet::Propose(member, _) => (member.node, METADATA),
            Packet::Ask(node) => (*node, METADATA),
            Packet::Configured { to, .. }
            | Packet::Seal { to, .. }
            | Packet::Learner { to, .. }
            | Packet::Gone { to, .. } => (METADATA, *to),
        }
    }

    pub(super) fn line(&self) -> String {
        match self {
            Packet::Between { from, to, bytes, .. } => match message::decode(bytes) {
                Ok((_, envelope, _)) => format!("{from} to {to}: {} {:?}", envelope.epoch, envelope.message),
                Err(error) => error.to_string(),
            },
            Packet::Sealed(sealed) => format!("{sealed:?}"),
            Packet::Propose(from, proposal) => format!("{from:?} {proposal:?}"),
            Packet::Ask(node) => format!("{node} asks"),
            Packet::Configured { to, configuration } => format!("to {to}: {configuration:?}"),
            Packet::Seal { to, epoch } => format!("to {to}: seal {epoch}"),
            Packet::Learner { to, learner } => format!("to {to}: learner {learner:?}"),
            Packet::Snapshot { from, to, place, .. } => format!("{from} to {to}: snapshot at {:?}", place.end),
            Packet::Gone { to, member } => format!("to {to}: gone {member:?}"),
        }
    }
}
