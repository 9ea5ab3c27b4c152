//! Forwarding between the nodes of a cluster: over their links, to the node that the metadata
//! names.

use crate::forward::inbox::Forward;
use crate::forward::link::{Destination, Kind, Leadership, Link};
use crate::links::Links;
use crate::node_status::StatusSnapshot;
use crate::peer_dispatcher::Calls;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_cluster::MessageKind;
use ferrite_peer::{Lane, Outgoing};
use ferrite_replica::group::Member;

impl Link for Links {
    fn waiting(&self, to: NodeId) -> Option<usize> {
        self.peers().waiting(to, Lane::Calls)
    }

    fn send(&self, to: NodeId, kind: Kind, message: Vec<u8>) -> bool {
        let message_kind = match kind {
            Kind::Calls => MessageKind::Calls,
            Kind::Answers => MessageKind::Answers,
        };
        self.peers().send(to, Lane::Calls, Outgoing::new(message_kind as u8, message)).is_ok()
    }

    fn resume(&self, from: NodeId) {
        self.peers().resume(from, Lane::Calls);
    }
}

impl Calls for Forward {
    fn calls(&self, node: NodeId, incarnation: Incarnation, message: &[u8]) -> bool {
        Forward::calls(self, node, incarnation, message)
    }

    fn answers(&self, node: NodeId, message: &[u8]) -> bool {
        Forward::answers(self, node, message)
    }

    fn lost(&self, node: NodeId) {
        Forward::lost(self, node);
    }
}

/// The group's leader, by what `here` knows, and its epoch.
pub fn leadership(seen: &StatusSnapshot, here: NodeId, id: GroupId) -> (Leadership, Epoch) {
    let epoch = seen.state.groups().get(&id).map_or(Epoch(0), |group| group.configuration.epoch);
    let standing = seen.standing(id);
    let leadership = match seen.chosen_for(id) {
        _ if standing.serves.is_some() && standing.holds => Leadership::HandingOver,
        _ if standing.serves.is_some() => Leadership::Here,
        Some(leader) if leader.node != here => {
            Leadership::At(Destination { node: leader.node, incarnation: leader.incarnation })
        }
        Some(leader) if seen.registered && is_process(seen, leader) => Leadership::Coming,
        // An earlier process of this node does not.
        _ => Leadership::Unknown,
    };
    (leadership, epoch)
}

/// Whether it is the one that the metadata knows.
fn is_process(seen: &StatusSnapshot, member: Member) -> bool {
    seen.state.nodes().get(&member.node).is_some_and(|node| node.incarnation == member.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ferrite_group::FIRST_GROUP;
    use ferrite_meta::{Command, Node};
    use std::sync::Arc;

    #[test]
    fn a_node_that_is_chosen_is_about_to_lead_until_it_does() {
        let mut state = testing::founded((1..=3).map(testing::node).collect(), &[1, 2], &[1, 2, 3]);
        let leads = |seen: &StatusSnapshot, here| leadership(seen, NodeId(here), FIRST_GROUP).0;
        let mut seen = StatusSnapshot { state: Arc::new(state.clone()), ..StatusSnapshot::default() };
        assert_eq!(leads(&seen, 1), Leadership::Unknown, "it may be an earlier process");
        seen.registered = true;
        assert_eq!(leads(&seen, 1), Leadership::Coming);
        let destination = Destination { node: NodeId(1), incarnation: Incarnation(1) };
        assert_eq!(leads(&seen, 2), Leadership::At(destination));
        seen.standing_mut(FIRST_GROUP).serves = Some(Epoch(1));
        assert_eq!(leads(&seen, 1), Leadership::Here);
        seen.standing_mut(FIRST_GROUP).holds = true;
        assert_eq!(leads(&seen, 1), Leadership::HandingOver);
        let node = Node { incarnation: Incarnation(2), start: [9; 16], ..testing::node(1) };
        state.apply(&Command::Register { id: NodeId(1), expected: Incarnation(1), node }).expect("it follows");
        let seen = StatusSnapshot { state: Arc::new(state), registered: true, ..StatusSnapshot::default() };
        assert_eq!(leads(&seen, 1), Leadership::Unknown, "the group is about to be sealed");
    }

    #[test]
    fn each_group_has_a_leader_of_its_own() {
        let state = testing::of_groups((1..=3).map(testing::node).collect(), &[&[1, 2], &[2, 3]], &[1, 2, 3]);
        let mut seen = StatusSnapshot { state: Arc::new(state), registered: true, ..StatusSnapshot::default() };
        let leads = |seen: &StatusSnapshot| [0, 1].map(|id| leadership(seen, NodeId(1), GroupId(id)).0);
        let second = Leadership::At(Destination { node: NodeId(2), incarnation: Incarnation(1) });
        assert_eq!(leads(&seen), [Leadership::Coming, second]);
        seen.standing_mut(GroupId(0)).serves = Some(Epoch(1));
        assert_eq!(leads(&seen), [Leadership::Here, second]);
        // The hand-over of a group that another node leads by now.
        seen.standing_mut(GroupId(1)).holds = true;
        assert_eq!(leads(&seen), [Leadership::Here, second]);
        assert_eq!(leadership(&seen, NodeId(1), GroupId(9)), (Leadership::Unknown, Epoch(0)));
    }
}
