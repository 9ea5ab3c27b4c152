//! Which nodes keep a partition.

use ferrite_base::{Epoch, NodeId};

/// A partition's leader and members, as decided for one epoch. Never changed: a change is a new
/// configuration in a higher epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    epoch: Epoch,
    leader: NodeId,
    members: Vec<NodeId>,
}

impl Configuration {
    /// # Panics
    /// If the leader is not a member, or a member is named twice.
    pub fn new(epoch: Epoch, leader: NodeId, mut members: Vec<NodeId>) -> Self {
        members.sort_unstable();
        assert!(members.windows(2).all(|pair| pair[0] != pair[1]), "a member is named twice");
        assert!(members.contains(&leader), "the leader is a member");
        Configuration { epoch, leader, members }
    }

    /// One node alone.
    pub fn single(node: NodeId) -> Self {
        Self::new(Epoch(1), node, vec![node])
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn leader(&self) -> NodeId {
        self.leader
    }

    /// In ascending order.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    pub(crate) fn place(&self, member: NodeId) -> Option<usize> {
        self.members.binary_search(&member).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the leader is a member")]
    fn a_leader_from_outside_is_refused() {
        Configuration::new(Epoch(1), NodeId(3), vec![NodeId(1), NodeId(2)]);
    }

    #[test]
    #[should_panic(expected = "a member is named twice")]
    fn a_member_named_twice_is_refused() {
        Configuration::new(Epoch(1), NodeId(1), vec![NodeId(1), NodeId(2), NodeId(1)]);
    }
}
