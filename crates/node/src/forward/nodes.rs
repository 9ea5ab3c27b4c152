//! Forwarding between the nodes of a cluster: over their links, to the node that the metadata
//! names.

use crate::cluster::{Calls, Links, Seen};
use crate::forward::inbox::Forward;
use crate::forward::link::{Destination, Kind, Leadership, Link};
use ferrite_base::{Incarnation, NodeId};
use ferrite_cluster::Letter;
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

/// Who leads, by what is known at `here`. A node that is about to lead does not yet.
pub fn leadership(seen: &Seen, here: NodeId) -> Leadership {
    if seen.leads.is_some() {
        return Leadership::Here;
    }
    match seen.leading() {
        Some(leader) if leader.node != here => {
            Leadership::At(Destination { node: leader.node, incarnation: leader.incarnation })
        }
        _ => Leadership::Unknown,
    }
}
