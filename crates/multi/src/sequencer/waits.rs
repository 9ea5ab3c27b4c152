//! What the sequencer waits for, before it begins or decides a lot.

use super::{Participant, Sequencer, Vote};
use crate::lot_id::LotId;
use ferrite_base::GroupId;
use std::collections::{BTreeMap, BTreeSet};

/// A group that has not run the parts of so many lots that have ended is given no more: what waits
/// for its agent has a bound.
pub(super) const PARTS_AHEAD_MAX: usize = 4;

/// What a group has yet to do for the lot that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartWaits {
    Runs,
    Prepares,
    /// It was asked on a connection that is lost: which part it has is asked anew.
    Answers,
}

impl Sequencer {
    /// The groups that are led and have not obeyed this sequencer yet.
    pub fn unordered(&self) -> &BTreeSet<GroupId> {
        &self.unordered
    }

    /// The lot whose partitions are held, and the groups that it waits for.
    pub fn held(&self) -> Option<(LotId, Vec<(GroupId, PartWaits)>)> {
        let lot = self.active?;
        let waits = |party: &Participant| match party.vote {
            Vote::Asked if !party.is_reached => Some(PartWaits::Answers),
            Vote::Asked | Vote::NotAsked if party.runs => Some(PartWaits::Runs),
            Vote::Asked => Some(PartWaits::Prepares),
            Vote::NotAsked | Vote::Yes | Vote::No => None,
        };
        let parties = &self.lots.get(&lot)?.parties;
        Some((lot, parties.iter().filter_map(|(group, party)| Some((*group, waits(party)?))).collect()))
    }

    /// Groups that are behind with what they were to run: lots were aborted by others before.
    pub fn behind(&self) -> BTreeSet<GroupId> {
        let mut parts: BTreeMap<GroupId, usize> = BTreeMap::new();
        for (group, party) in self.lots.values().flat_map(|of| &of.parties) {
            *parts.entry(*group).or_default() += usize::from(party.runs && party.is_reached && !party.is_settled);
        }
        parts.into_iter().filter(|(_, count)| *count >= PARTS_AHEAD_MAX).map(|(group, _)| group).collect()
    }

    /// Groups that have yet to say that they have the outcome of a lot.
    pub fn unsettled(&self) -> BTreeSet<GroupId> {
        let parties = self.lots.values().flat_map(|of| &of.parties);
        parties.filter(|(_, party)| !party.is_settled).map(|(group, _)| *group).collect()
    }
}
