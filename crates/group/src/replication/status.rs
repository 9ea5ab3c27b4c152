//! What a group has come to on this node, for others to read.

use super::Replication;
use crate::host::Party;
use crate::replayed::GroupPlace;
use ferrite_base::{Epoch, NodeId, Position};
use ferrite_replica::group::{History, Mark, Member};

/// What a leader's stream has come to.
pub(crate) struct Leads {
    pub here: Member,
    pub epoch: Epoch,
    pub history: History,
    pub durable: Position,
    pub commit: Position,
}

impl<C: Party> Replication<C> {
    /// What the stream has come to.
    pub fn place(&self) -> GroupPlace {
        self.lock().place()
    }

    pub fn end(&self) -> Mark {
        self.lock().machine.end()
    }

    /// Everything up to there is in this node's log.
    pub fn durable(&self) -> Position {
        self.lock().machine.durable()
    }

    /// The epochs of this node's stream, and up to where it is in its log.
    pub fn durable_stream(&self) -> (History, Position) {
        let state = self.lock();
        (state.machine.history().clone(), state.machine.durable())
    }

    pub fn is_open(&self) -> bool {
        self.lock().machine.is_open()
    }

    /// Whether it leads, though it may not take calls yet.
    pub fn is_leading(&self) -> bool {
        self.lock().machine.is_leading()
    }

    /// Whether that node counts for what is committed.
    pub fn has_member(&self, node: NodeId) -> bool {
        let state = self.lock();
        state.machine.configuration().is_some_and(|configuration| configuration.has_node(node))
    }

    /// The epoch's first entry is known to be committed: its members have all before it, durably.
    pub fn has_committed_start_of(&self, epoch: Epoch) -> bool {
        let state = self.lock();
        let starts = state.machine.history().starts();
        let commit = state.machine.commit();
        starts.iter().rev().any(|(begun, first)| *begun == epoch && *first <= commit)
    }

    /// Of the newest configuration that is known here.
    pub fn is_member(&self) -> bool {
        let state = self.lock();
        state.machine.configuration().is_some_and(|configuration| configuration.has(state.machine.here()))
    }

    /// An earlier process of this node is a member, or that is not known yet: no snapshot replaces
    /// what is here until the others do without it.
    pub fn stands_in(&self) -> bool {
        let state = self.lock();
        let is_member = state.machine.configuration().is_some_and(|known| known.has(state.machine.here()));
        state.machine.may_be_asked() && !is_member
    }

    /// None where this node does not lead.
    pub(crate) fn leads(&self) -> Option<Leads> {
        let state = self.lock();
        let machine = &state.machine;
        let epoch = machine.configuration().filter(|_| machine.is_leading())?.epoch;
        let durable = machine.durable();
        let commit = machine.commit();
        Some(Leads { here: machine.here(), epoch, history: machine.history().clone(), durable, commit })
    }

    /// It has no other members and never will.
    pub fn is_solo(&self) -> bool {
        self.solo
    }
}
