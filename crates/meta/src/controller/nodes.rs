//! Nodes that join, nodes that are gone for good, and votes that are: what the voters' leader does
//! about them (docs/replication.md, section 9).
//!
//! Promises that a node is retired only when no lease of its process can hold and no group counts
//! on its copy, and that voters change one at a time, each time to a set of which a majority is
//! there. Each step follows from the state and from the nodes that are heard, so a leader that dies
//! in between leaves nothing half done.

use super::duties::Duties;
use super::is_current;
use crate::command::Command;
use crate::founding::Layout;
use crate::parts::{Kind, Node, Presence};
use crate::removal::may_remove;
use crate::state::State;
use ferrite_base::{Incarnation, NodeId};
use ferrite_replica::group::Member;
use std::collections::BTreeSet;

impl Duties {
    /// A node without an id gets the next one, once the process that previously had its address is
    /// certain to do nothing more. One that would keep nothing gets none.
    pub(super) fn join(&mut self, state: &State, key: [u8; 16], node: Node, now: u64) -> Option<Command> {
        if state.joined_with(key).is_some() || !state.has_place_for(&node) {
            return None;
        }
        let mut before = state.nodes().iter().filter(|(_, other)| other.host() == node.host());
        if !before.all(|(id, other)| self.has_ended(*id, other, now)) {
            return None;
        }
        let id = state.next_node();
        let node = Node { incarnation: Incarnation(1), presence: Presence::Stopped, vote: None, ..node };
        self.propose(Command::Join { id, key, node }, now)
    }

    /// What is to be done about nodes and votes that are gone, if anything is.
    pub(super) fn care(&mut self, state: &State, here: NodeId, now: u64) -> Option<Command> {
        for (id, node) in state.nodes() {
            if self.is_replaced(state, *id, node, now)
                && let Some(command) = self.retire(state, here, *id, node, now)
            {
                return Some(command);
            }
        }
        for voter in state.voters().iter().filter(|voter| has_lost_its_vote(state, **voter)) {
            if let Some(command) = self.without_vote(state, here, *voter, now) {
                return Some(command);
            }
        }
        self.with_vote(state, here, now).or_else(|| self.without_surplus(state, here, now))
    }

    /// An operator says that a node is lost for good.
    pub(super) fn remove(&mut self, state: &State, here: NodeId, lost: Member, now: u64) -> Option<Command> {
        let known = state.nodes().get(&lost.node).filter(|known| known.incarnation == lost.incarnation)?;
        may_remove(state, lost.node).ok()?;
        self.retire(state, here, lost.node, known, now)
    }

    /// A node whose process has ended goes for good: first its vote, then itself. If a group counts
    /// on it, nothing is done: the group's leader removes it from the members, or it comes back.
    pub(super) fn retire(&mut self, state: &State, here: NodeId, id: NodeId, node: &Node, now: u64) -> Option<Command> {
        if node.presence == Presence::Retired || !self.has_ended(id, node, now) {
            return None;
        }
        if state.groups().values().any(|group| group.configuration.has_node(id)) {
            return None;
        }
        if state.voters().contains(&id) {
            return self.without_vote(state, here, id, now);
        }
        self.propose(Command::Retire { node: id, incarnation: node.incarnation }, now)
    }

    /// The process does nothing more, and holds no lease.
    pub(super) fn has_ended(&self, id: NodeId, node: &Node, now: u64) -> bool {
        node.presence != Presence::Running || self.is_silent(id, now)
    }

    /// Its process was heard of by this leader, and not too long ago.
    pub(super) fn is_there(&self, state: &State, id: NodeId, now: u64) -> bool {
        let Some(node) = state.nodes().get(&id) else { return false };
        let current = is_current(state, Member { node: id, incarnation: node.incarnation });
        current && self.heard.contains_key(&id) && !self.is_silent(id, now)
    }

    /// Another node runs at its address, which has room for one.
    fn is_replaced(&self, state: &State, id: NodeId, node: &Node, now: u64) -> bool {
        let later = |(other, one): (&NodeId, &Node)| {
            *other > id && one.host() == node.host() && self.is_there(state, *other, now)
        };
        node.presence != Presence::Retired && state.nodes().iter().any(later)
    }

    /// Whether a majority of these is there.
    fn has_majority(&self, state: &State, here: NodeId, voters: &BTreeSet<NodeId>, now: u64) -> bool {
        let counts = |voter: &&NodeId| {
            **voter == here || (self.is_there(state, **voter, now) && !has_lost_its_vote(state, **voter))
        };
        voters.iter().filter(counts).count() * 2 > voters.len()
    }

    /// The voters without that one. A leader that took its own vote away would end its process.
    fn without_vote(&mut self, state: &State, here: NodeId, voter: NodeId, now: u64) -> Option<Command> {
        let mut voters = state.voters().clone();
        voters.remove(&voter);
        if voter == here || !self.has_majority(state, here, &voters, now) {
            return None;
        }
        self.change_voters(state, voters, state.vote(voter)?, now)
    }

    /// One voter more, if there are fewer than the cluster's nodes allow.
    fn with_vote(&mut self, state: &State, here: NodeId, now: u64) -> Option<Command> {
        let before = state.voters();
        if before.len() >= voters_wanted(state) {
            return None;
        }
        let can_vote =
            |(id, node): &(&NodeId, &Node)| offers_vote(state, **id, node) && self.is_there(state, **id, now);
        let mut able: Vec<(NodeId, &Node)> = state.latest().filter(can_vote).map(|(id, node)| (*id, node)).collect();
        // Witnesses have nothing else to do.
        able.sort_by_key(|(id, node)| (node.kind == Kind::Data, *id));
        let (chosen, node) = *able.first()?;
        // An even number survives no more losses than the odd one below it: it is only a step to
        // the next.
        if before.len() % 2 == 1 && able.len() < 2 {
            return None;
        }
        let number = node.vote?;
        let mut voters = before.clone();
        voters.insert(chosen);
        if !self.has_majority(state, here, &voters, now) {
            return None;
        }
        self.change_voters(state, voters, number, now)
    }

    /// One voter less, if their number is even and more than the cluster's nodes call for: an even
    /// number survives no more losses than one less.
    fn without_surplus(&mut self, state: &State, here: NodeId, now: u64) -> Option<Command> {
        let voters = state.voters();
        if voters.len() <= voters_wanted(state) || voters.len() % 2 == 1 {
            return None;
        }
        let silent_first = |voter: &&NodeId| (!self.is_there(state, **voter, now), **voter);
        let chosen = *voters.iter().filter(|voter| **voter != here).max_by_key(silent_first)?;
        self.without_vote(state, here, chosen, now)
    }

    fn change_voters(&mut self, state: &State, voters: BTreeSet<NodeId>, number: u32, now: u64) -> Option<Command> {
        let expected = state.voters().iter().copied().collect();
        self.propose(Command::Voters { expected, voters: voters.into_iter().collect(), number }, now)
    }
}

/// The last process of that voter had another vote, or none.
pub fn has_lost_its_vote(state: &State, voter: NodeId) -> bool {
    let node = state.nodes().get(&voter);
    node.is_none_or(|node| node.presence == Presence::Retired || node.vote != state.vote(voter))
}

/// A node that has a vote to give, but none that counts.
pub(crate) fn offers_vote(state: &State, id: NodeId, node: &Node) -> bool {
    let is_new = node.vote.is_some_and(|number| state.vote(id).is_none_or(|last| number > last));
    is_new && node.presence == Presence::Running && !state.voters().contains(&id)
}

/// How many of the cluster's nodes are to vote.
fn voters_wanted(state: &State) -> usize {
    let kinds: Vec<Kind> = state.latest().map(|(_, node)| node.kind).collect();
    let kfactor = state.settings().map_or(0, |settings| settings.kfactor);
    Layout::new(&kinds, kfactor).voters()
}
