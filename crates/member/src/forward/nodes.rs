//! Forwarding between the nodes of a cluster: over their links, to the node that the metadata
//! names.

use crate::forward::inbox::Forward;
use crate::forward::link::{Destination, Kind, Leadership, Link};
use crate::links::Links;
use crate::node_status::StatusSnapshot;
use crate::peer_dispatcher::Calls;
use ferrite_base::{Epoch, Incarnation, NodeId};
use ferrite_cluster::MessageKind;
use ferrite_group::FIRST_GROUP;
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

/// The leader, by what `here` knows, and its epoch.
pub fn leadership(seen: &StatusSnapshot, here: NodeId) -> (Leadership, Epoch) {
    let epoch = seen.state.groups().get(&FIRST_GROUP).map_or(Epoch(0), |group| group.configuration.epoch);
    let leadership = match seen.chosen() {
        _ if seen.serves.is_some() && seen.holds => Leadership::HandingOver,
        _ if seen.serves.is_some() => Leadership::Here,
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
    use ferrite_meta::{Command, Node};
    use std::sync::Arc;

    #[test]
    fn a_node_that_is_chosen_is_about_to_lead_until_it_does() {
        let mut state = testing::founded((1..=3).map(testing::node).collect(), &[1, 2], &[1, 2, 3]);
        let leads = |seen: &StatusSnapshot, here| leadership(seen, NodeId(here)).0;
        let mut seen = StatusSnapshot { state: Arc::new(state.clone()), ..StatusSnapshot::default() };
        assert_eq!(leads(&seen, 1), Leadership::Unknown, "it may be an earlier process");
        seen.registered = true;
        assert_eq!(leads(&seen, 1), Leadership::Coming);
        let destination = Destination { node: NodeId(1), incarnation: Incarnation(1) };
        assert_eq!(leads(&seen, 2), Leadership::At(destination));
        seen.serves = Some(Epoch(1));
        assert_eq!(leads(&seen, 1), Leadership::Here);
        seen.holds = true;
        assert_eq!(leads(&seen, 1), Leadership::HandingOver);
        let node = Node { incarnation: Incarnation(2), start: [9; 16], ..testing::node(1) };
        state.apply(&Command::Register { id: NodeId(1), expected: Incarnation(1), node }).expect("it follows");
        let seen = StatusSnapshot { state: Arc::new(state), registered: true, ..StatusSnapshot::default() };
        assert_eq!(leads(&seen, 1), Leadership::Unknown, "the group is about to be sealed");
    }
}
