//! Who belongs to the group, and who follows it to become a member.

use super::Replication;
use crate::host::Party;
use ferrite_base::{Epoch, NodeId};
use ferrite_replica::group::Member;
use std::sync::Arc;

impl<C: Party> Replication<C> {
    /// Whether that node counts for what is committed.
    pub fn has_member(&self, node: NodeId) -> bool {
        let state = self.lock();
        state.machine.configuration().is_some_and(|configuration| configuration.has_node(node))
    }

    /// The epoch's first entry is known to be committed: its members have all before it, durably.
    pub fn has_committed_start_of(&self, epoch: Epoch) -> bool {
        let state = self.lock();
        let (starts, commit) = (state.machine.history().starts(), state.machine.commit());
        starts.iter().rev().any(|(begun, first)| *begun == epoch && *first <= commit)
    }

    /// Of the newest configuration that is known here.
    pub fn is_member(&self) -> bool {
        let state = self.lock();
        state.machine.configuration().is_some_and(|configuration| configuration.has(state.machine.here()))
    }

    /// An earlier process of this node is a member, or that is not known yet: no snapshot takes the
    /// place of what is here until the others do without it.
    pub fn stands_in(&self) -> bool {
        let state = self.lock();
        let is_member = state.machine.configuration().is_some_and(|known| known.has(state.machine.here()));
        state.machine.may_be_asked() && !is_member
    }

    pub fn learner(self: &Arc<Self>, member: Member) {
        self.told(|machine, now| machine.learner(member, now));
    }

    /// Whether this node leads, and the process follows, as a learner or a member.
    pub fn follows(&self, member: Member) -> bool {
        self.lock().machine.follows(member)
    }

    /// The same, and it has answered.
    pub fn is_answered_by(&self, member: Member) -> bool {
        let now = self.now();
        self.lock().machine.is_answered_by(member, now)
    }

    pub fn forget(self: &Arc<Self>, member: Member) {
        self.told(|machine, _| machine.forget(member));
    }

    pub fn gone(self: &Arc<Self>, member: Member) {
        self.told(|machine, now| machine.gone(member, now));
    }

    pub fn disconnected(self: &Arc<Self>, node: NodeId) {
        self.told(|machine, _| machine.disconnected(node));
    }
}
