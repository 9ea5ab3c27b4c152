//! The groups of a node, for the threads that bring messages: a message goes to its group on the
//! thread that brings it, past the node.

use crate::GroupHandle;
use ferrite_base::{GroupId, NodeId};
use ferrite_group::message;
use ferrite_replica::group::Member;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Why a message was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    Malformed(&'static str),
    /// It claims to be from another node's process than the one that sent it.
    Sender(Member),
    /// This node keeps no such group.
    Group(GroupId),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Malformed(reason) => write!(f, "a message of a group cannot be read: {reason}"),
            Unusable::Sender(member) => write!(f, "a message is in the name of node {}", member.node),
            Unusable::Group(group) => write!(f, "a message is of group {group}, which this node does not keep"),
        }
    }
}

impl std::error::Error for Unusable {}

/// Clones are the same.
#[derive(Clone)]
pub struct Groups(Arc<BTreeMap<GroupId, GroupHandle>>);

impl Groups {
    pub fn new(groups: impl IntoIterator<Item = GroupHandle>) -> Groups {
        Groups(Arc::new(groups.into_iter().map(|group| (group.id(), group)).collect()))
    }

    pub fn get(&self, id: GroupId) -> Option<&GroupHandle> {
        self.0.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &GroupHandle> {
        self.0.values()
    }

    /// A message of a group, from the process at the other end of a connection.
    pub fn dispatch(&self, from: Member, bytes: &[u8]) -> Result<(), Unusable> {
        let (group, envelope, entries) = message::decode(bytes).map_err(|error| Unusable::Malformed(error.0))?;
        if envelope.from != from {
            return Err(Unusable::Sender(envelope.from));
        }
        let group = self.get(group).ok_or(Unusable::Group(group))?;
        group.handle_message(envelope, entries);
        Ok(())
    }

    pub(crate) fn disconnected(&self, node: NodeId) {
        self.iter().for_each(|group| group.disconnected(node));
    }
}
