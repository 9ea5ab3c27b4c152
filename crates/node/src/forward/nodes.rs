//! Forwarding between the nodes of a cluster: over their links, to the node that the metadata
//! names.

use crate::cluster::{Calls, Links, Seen};
use crate::forward::inbox::Forward;
use crate::forward::link::{Destination, Kind, Leadership, Link};
use ferrite_base::{Epoch, Incarnation, NodeId};
use ferrite_cluster::Letter;
use ferrite_group::FIRST_GROUP;
use ferrite_peer::{Lane, Outgoing};

impl Link for Links {
    fn waiting(&self, to: NodeId) -> Option<usize> {
        self.peers().waiting(to, Lane::Calls)
    }

    fn send(&self, to: NodeId, kind: Kind, message: Vec<u8>) -> bool {
        let letter = match kind {
            Kind::Calls => Letter::Calls,
            Kind::Answers => Letter::Answers,
        };
        self.peers().send(to, Lane::Calls, Outgoing::new(letter as u8, message)).is_ok()
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

/// Who leads, by what is known at `here`, and in which epoch. A node that is about to lead does not
/// yet.
pub fn leadership(seen: &Seen, here: NodeId) -> (Leadership, Epoch) {
    let epoch = seen.state.groups().get(&FIRST_GROUP).map_or(Epoch(0), |group| group.configuration.epoch);
    let leadership = match seen.leading() {
        _ if seen.leads.is_some() && seen.holds => Leadership::HandingOver,
        _ if seen.leads.is_some() => Leadership::Here,
        Some(leader) if leader.node != here => {
            Leadership::At(Destination { node: leader.node, incarnation: leader.incarnation })
        }
        _ => Leadership::Unknown,
    };
    (leadership, epoch)
}
