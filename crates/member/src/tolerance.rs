//! How many losses the cluster tolerates, as far as this node hears: which members of a group have
//! everything, how many nodes may be lost with the data kept and the service continuing, which ones
//! a group without a leader waits for.
//!
//! It does not know how the members know that they are in step.

use crate::loss;
use crate::node_status::StatusSnapshot;
use crate::reachability::{Reachability, majority};
use ferrite_base::NodeId;
use ferrite_meta::{Group, State};
use ferrite_replica::group::GroupConfiguration;

/// The members that have what is committed: one that was just added has not (decision 0046).
pub fn complete(configuration: &GroupConfiguration, in_step: bool) -> impl Iterator<Item = NodeId> {
    let nodes = configuration.members().iter().map(|member| member.node);
    nodes.filter(move |node| in_step || !configuration.added().contains(node))
}

/// How many of the members that are there could each lead alone, with everything that was
/// acknowledged.
pub fn keepers(configuration: &GroupConfiguration, in_step: bool, reachability: &Reachability) -> usize {
    complete(configuration, in_step)
        .filter(|node| reachability.is_reached(*node) && !reachability.may_lack(*node))
        .count()
}

/// How many more voters may be lost with a majority left of all.
pub fn spare_voters(state: &State, reachability: &Reachability) -> usize {
    let counts = |voter: &&NodeId| reachability.missing(state, **voter).is_none();
    state.voters().iter().filter(counts).count().saturating_sub(majority(state))
}

/// How many more nodes may be lost, whichever these are, with what is committed kept and the
/// service continuing. `members`: of a group with a leader, those that have everything.
pub fn losses(state: &State, members: Option<usize>, reachability: &Reachability) -> (usize, usize) {
    let data = members.unwrap_or(1).saturating_sub(1);
    (data, if members.is_some() { data.min(spare_voters(state, reachability)) } else { 0 })
}

/// Whether each group is led, and has K + 1 copies, of which each has what is committed and is
/// reached.
pub fn has_all_copies(seen: &StatusSnapshot, in_step: Option<bool>, reachability: &Reachability) -> bool {
    let Some(settings) = seen.state.settings() else { return false };
    in_step == Some(true)
        && seen.state.groups().iter().all(|(id, group)| {
            let there = keepers(&group.configuration, true, reachability);
            seen.leading_of(*id).is_some() && there > settings.kfactor as usize
        })
}

/// The nodes that a group without a leader waits for.
pub fn waits_for(group: &Group, reachability: &Reachability) -> Option<String> {
    let is_proven = |node| !group.configuration.added().contains(&node) && !reachability.may_lack(node);
    loss::waits_for(group, |node| reachability.is_reached(node) && !is_proven(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;
    use crate::reachability::Condition;
    use crate::testing::{WELL, all_well_but, founded, four_nodes, node};
    use ferrite_base::{Epoch, Incarnation};
    use ferrite_group::FIRST_GROUP;
    use ferrite_meta::{Command, Node};
    use ferrite_replica::group::Member;
    use std::sync::Arc;

    #[test]
    fn losses_that_it_stands_follow_from_members_and_voters() {
        let (state, all) = (four_nodes(), all_well_but(0, WELL));
        let losses_without = |gone| losses(&state, Some(2), &all_well_but(gone, Condition::default()));
        assert_eq!(losses_without(0), (1, 1));
        assert_eq!(losses_without(3), (1, 1), "it does not vote");
        assert_eq!(losses_without(4), (1, 0));
        let mut lost = state.clone();
        let node =
            Node { incarnation: Incarnation(2), vote: None, start: [2; 16], ..state.nodes()[&NodeId(2)].clone() };
        let again = Command::Register { id: NodeId(2), expected: Incarnation(1), node };
        lost.apply(&again).expect("a later process");
        assert_eq!(losses(&lost, Some(2), &all), (1, 0), "a vote that is lost is not there");
        assert_eq!([1, 2, 3, 4].map(|id| all.vote(&lost, NodeId(id))), ["yes", "lost", "no", "yes"]);
        assert_eq!(losses(&state, Some(1), &all), (0, 0));
        assert_eq!((losses(&state, Some(0), &all), losses(&state, None, &all)), ((0, 0), (0, 0)));
        let sealed = |state: &State| waits_for(&state.groups()[&FIRST_GROUP], &all_well_but(0, WELL));
        assert_eq!(sealed(&state), None);
        let mut state = state;
        state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        assert_eq!(sealed(&state).as_deref(), Some("node 1 or node 2, members of its last configuration (epoch 1)"));
    }

    #[test]
    fn all_copies_are_there_where_k_and_one_are_led_complete_and_reached() {
        let seen = |members: &[u32]| {
            let state = founded((1..=4).map(node).collect(), members, &[1, 2, 4]);
            StatusSnapshot { state: Arc::new(state), ..StatusSnapshot::default() }
        };
        let (both, all) = (seen(&[1, 2]), all_well_but(0, WELL));
        assert!(has_all_copies(&both, Some(true), &all));
        for in_step in [None, Some(false)] {
            assert!(!has_all_copies(&both, in_step, &all), "one of them may lack something");
        }
        assert!(!has_all_copies(&both, Some(true), &all_well_but(2, Condition::default())), "one is not reached");
        assert!(has_all_copies(&both, Some(true), &all_well_but(3, Condition::default())), "it has no copy");
        assert!(!has_all_copies(&seen(&[1]), Some(true), &all), "one of two");
        assert!(!has_all_copies(&StatusSnapshot::default(), Some(true), &all), "nothing is founded");
        let mut sealed = (*both.state).clone();
        sealed.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        assert!(!has_all_copies(&StatusSnapshot { state: Arc::new(sealed), ..both }, Some(true), &all), "nobody leads");
    }

    #[test]
    fn a_member_that_was_just_added_or_is_not_there_keeps_nothing_alone() {
        let pair = vec![Member::new(1, 1), Member::new(2, 1)];
        let added = GroupConfiguration::new(Epoch(2), pair[0], pair, vec![NodeId(2)]);
        let keepers = |in_step, reachability: &Reachability| keepers(&added, in_step, reachability);
        assert_eq!([true, false].map(|in_step| keepers(in_step, &all_well_but(0, WELL))), [2, 1]);
        assert_eq!([true, false].map(|in_step| keepers(in_step, &all_well_but(2, Condition::default()))), [1, 1]);
        assert_eq!([true, false].map(|in_step| keepers(in_step, &all_well_but(1, Condition::default()))), [1, 0]);
    }

    #[test]
    fn a_group_does_not_wait_for_a_member_that_is_there_and_lacks_something() {
        let mut state = four_nodes();
        state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        let group = &state.groups()[&FIRST_GROUP];
        let lacks = Condition { health: Some(Health { incomplete: true, ..Health::default() }), ..WELL };
        let waits = |reachability: Reachability| waits_for(group, &reachability).expect("no node leads");
        assert_eq!(waits(all_well_but(2, lacks)), "node 1, members of its last configuration (epoch 1)");
        assert!(waits(all_well_but(2, Condition { reached: false, ..lacks })).starts_with("node 1 or node 2, "));
        assert!(waits(Reachability((1..=4).map(|id| (NodeId(id), lacks)).collect())).starts_with("node 1 or node 2, "));
    }
}
