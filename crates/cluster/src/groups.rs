//! The groups of a node, for the threads that bring messages: a message goes to its group on the
//! thread that brings it, past the node.

use crate::GroupHandle;
use ferrite_base::{GroupId, NodeId};
use ferrite_group::message;
use ferrite_replica::group::Member;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, RwLock};

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

/// Clones are the same. Groups come and go while the node runs.
#[derive(Clone)]
pub struct Groups(Arc<RwLock<Arc<[GroupHandle]>>>);

const NO_PANIC: &str = "no panic with the groups";

impl Groups {
    pub fn new(groups: impl IntoIterator<Item = GroupHandle>) -> Groups {
        let all: BTreeMap<GroupId, GroupHandle> = groups.into_iter().map(|group| (group.id(), group)).collect();
        Groups(Arc::new(RwLock::new(all.into_values().collect())))
    }

    pub fn get(&self, id: GroupId) -> Option<GroupHandle> {
        let all = self.0.read().expect(NO_PANIC);
        all.iter().find(|group| group.id() == id).cloned()
    }

    /// Those of this moment, by id.
    pub fn iter(&self) -> impl Iterator<Item = GroupHandle> + use<> {
        let all = Arc::clone(&self.0.read().expect(NO_PANIC));
        (0..all.len()).map(move |at| Arc::clone(&all[at]))
    }

    /// In the place of one of the same id, if there is one.
    pub(crate) fn insert(&self, group: GroupHandle) {
        self.change(group.id(), Some(group));
    }

    pub(crate) fn remove(&self, id: GroupId) {
        self.change(id, None);
    }

    fn change(&self, id: GroupId, group: Option<GroupHandle>) {
        let mut all = self.0.write().expect(NO_PANIC);
        let mut next: Vec<GroupHandle> = all.iter().filter(|known| known.id() != id).cloned().chain(group).collect();
        next.sort_by_key(|group| group.id());
        *all = next.into();
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
