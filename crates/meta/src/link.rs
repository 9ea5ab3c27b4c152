//! A node's way to the metadata: which voter it asks, what it knows, and how long its lease holds.

use crate::ask::{Ask, MetadataUpdate, Question};
use crate::lease::LEASE_NANOS;
use crate::state::State;
use ferrite_base::{NodeId, planted};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A leader that has answered nothing for this long may no longer lead, or cannot reach this node.
const SILENT_NANOS: u64 = 1_000_000_000;
/// Questions whose answers would still be of use.
const QUESTIONS_KEPT: usize = 256;

/// Of one process. Its numbers begin with this process: an answer to an earlier one grants nothing,
/// since it comes on a connection of that one.
pub struct Link {
    voters: Vec<NodeId>,
    leader: Option<NodeId>,
    /// When the first question after the last answer was asked.
    waits_since: Option<u64>,
    next: u64,
    /// When each question was asked, by this node's clock.
    asked: BTreeMap<u64, u64>,
    index: u64,
    state: Arc<State>,
    lease_until: u64,
}

impl Link {
    /// `voters`: those that are known at first, one at least. `number`: random.
    pub fn new(voters: Vec<NodeId>, number: u64) -> Link {
        assert!(!voters.is_empty(), "there is somebody to ask");
        // Half of the numbers are left to count.
        let next = (number >> 1) + 1;
        Link {
            voters,
            leader: None,
            waits_since: None,
            next,
            asked: BTreeMap::new(),
            index: 0,
            state: Arc::default(),
            lease_until: 0,
        }
    }

    /// The question, and the voter that it goes to. `now`: of the boot-time clock, in nanoseconds.
    pub fn ask(&mut self, ask: Ask, now: u64) -> (NodeId, Question) {
        let number = self.next;
        self.next += 1;
        self.asked.insert(number, now);
        while self.asked.len() > QUESTIONS_KEPT {
            self.asked.pop_first();
        }
        if now.saturating_sub(*self.waits_since.get_or_insert(now)) > SILENT_NANOS {
            (self.leader, self.waits_since) = (None, Some(now));
        }
        // In no order: a node that asks two things at a time must not keep asking the same voter
        // for one of them.
        let any = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let to = self.leader.unwrap_or(self.voters[(any % self.voters.len() as u64) as usize]);
        (to, Question { number, ask })
    }

    /// The node that was asked is not there: another is asked next.
    pub fn lost(&mut self, node: NodeId) {
        if self.leader == Some(node) {
            self.leader = None;
        }
    }

    /// What a voter says. Returns the state, if this is a later one.
    pub fn receive_update(&mut self, from: NodeId, update: MetadataUpdate) -> Option<(u64, Arc<State>)> {
        let MetadataUpdate { index, state, lease, leader } = update;
        self.waits_since = None;
        self.leader = leader.filter(|leader| *leader == from || self.leader.is_none() || self.leader == Some(from));
        let news = state.filter(|_| index > self.index);
        if let Some(state) = &news {
            (self.index, self.state) = (index, Arc::clone(state));
            if !state.voters().is_empty() {
                self.voters = state.voters().iter().copied().collect();
            }
        }
        // It counts once what it was granted for is known here.
        if let Some(asked) = lease.and_then(|number| self.asked.remove(&number))
            && index <= self.index
        {
            self.lease_until =
                self.lease_until.max(asked + if planted!(LongLease) { 2 * LEASE_NANOS } else { LEASE_NANOS });
        }
        news.map(|state| (index, state))
    }

    /// The voter to ask again soon: an answer of a voter that does not lead has named another.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    pub fn state(&self) -> (u64, &Arc<State>) {
        (self.index, &self.state)
    }

    /// Until then, by this node's clock, no other process leads what this one leads in the state
    /// that it knows.
    pub fn lease_until(&self) -> u64 {
        self.lease_until
    }
}
