//! A seal of a group that a leader of the voters has decided, and what the group's members have
//! answered to it.

use super::is_current;
use crate::parts::Group;
use crate::state::State;
use ferrite_base::{Epoch, NodeId, Position};
use ferrite_replica::group::Sealed;
use std::collections::BTreeMap;

pub(super) struct Seal {
    pub(super) epoch: Epoch,
    /// When it was decided, as far as this leader of the voters knows.
    pub(super) since: u64,
    pub(super) answers: BTreeMap<NodeId, Sealed>,
    /// When one sufficed.
    pub(super) sufficed: Option<u64>,
}

impl Seal {
    pub(super) fn new(epoch: Epoch, now: u64) -> Seal {
        Seal { epoch, since: now, answers: BTreeMap::new(), sufficed: None }
    }

    /// The answers of processes that still run. If the group's stream has begun, a member has some
    /// of it, or its log was taken away: then it says nothing of what it had.
    pub(super) fn current(&self, state: &State, group: &Group) -> Vec<Sealed> {
        let has_begun = group.parent.position > Position(0);
        let counts =
            |answer: &&Sealed| is_current(state, answer.member) && (!has_begun || answer.end.position > Position(0));
        self.answers.values().filter(counts).cloned().collect()
    }
}
