//! The way to the other nodes: what a group sends, and where the nodes are.

use crate::lots::LotTransport;
use crate::notices::Notices;
use crate::place;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use ferrite_base::NodeId;
use ferrite_cluster::{MessageKind, Transport};
use ferrite_group::Urgency;
use ferrite_meta::{Node, Presence, State};
use ferrite_notice::Notice;
use ferrite_peer::{Lane, Limits, NotSent, Outgoing, Peers};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two lookups of the nodes' addresses: names may get other addresses.
const LOOK_UP_EVERY: Duration = Duration::from_secs(5);

/// Clones are the same.
#[derive(Clone)]
pub struct Links {
    peers: Peers,
    message_bytes_max: [usize; Lane::ALL.len()],
    notices: Arc<Notices>,
}

impl Links {
    /// `limits`: those that `peers` was started with.
    pub fn new(peers: Peers, limits: &Limits) -> Links {
        Links { peers, message_bytes_max: limits.message_bytes_max, notices: Arc::default() }
    }

    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Whether there is room for about this many bytes on the lane.
    pub fn has_room(&self, to: NodeId, lane: Lane, bytes_max: usize) -> bool {
        self.peers.waiting(to, lane).is_some_and(|waiting| waiting < bytes_max)
    }

    /// Takes the message, or loses it: the sender repeats it.
    pub fn send_on(&self, to: NodeId, lane: Lane, message_kind: MessageKind, message: Vec<u8>) {
        let message = Outgoing::new(message_kind as u8, message);
        if self.fits(to, lane, message_kind, message.len()) {
            let _ = self.peers.send(to, lane, message);
        }
    }

    /// Whether the lane takes a message of this size. The senders know the limit: one that does not
    /// fit would be repeated for ever.
    fn fits(&self, to: NodeId, lane: Lane, message_kind: MessageKind, bytes: usize) -> bool {
        let most = self.message_bytes_max[lane as usize];
        if bytes > most {
            self.notices.say(Notice::MessageTooLarge { node: to, kind: format!("{message_kind:?}"), bytes, most });
        }
        bytes <= most
    }
}

impl Transport for Links {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>) {
        let lane = match urgency {
            Urgency::Control => Lane::Control,
            Urgency::Entries => Lane::Entries,
        };
        self.send_on(to, lane, MessageKind::Group, message);
    }
}

impl LotTransport for Links {
    fn send(&self, to: NodeId, message: Vec<u8>) {
        let message = Outgoing::new(MessageKind::Lots as u8, message);
        let fits = self.fits(to, Lane::Lots, MessageKind::Lots, message.len());
        // What is not connected is about to be said to be lost.
        if !fits || self.peers.send(to, Lane::Lots, message) == Err(NotSent::Full) {
            self.peers.break_lane(to, Lane::Lots);
        }
    }

    fn resume(&self, from: NodeId) {
        self.peers.resume(from, Lane::Lots);
    }
}

/// This node and the others, and where they hear each other, as the metadata says. A node that
/// previously used this one's address runs nowhere, whether or not it is retired yet.
pub fn hosts_of(state: &State, here: NodeId) -> BTreeMap<NodeId, String> {
    let own = state.nodes().get(&here).and_then(Node::host);
    let is_there = |(id, node): &(&NodeId, &Node)| {
        node.presence != Presence::Retired && (**id == here || own.is_none() || node.host() != own)
    };
    let known = state.nodes().iter().filter(is_there);
    known.filter_map(|(id, node)| Some((*id, node.addresses.first()?.clone()))).collect()
}

/// The thread that looks names up, which may take a while. `told`: the metadata, when it changes;
/// `learn`: hears the latest of it.
pub fn look_up(
    peers: &Peers,
    (here, mut hosts): (NodeId, BTreeMap<NodeId, String>),
    told: &Receiver<(u64, Arc<State>)>,
    learn: impl Fn(u64, &State),
) {
    let mut known = BTreeMap::new();
    loop {
        for (node, host) in &hosts {
            // A node that cannot be looked up now keeps its address.
            let found = place::addresses(host);
            if !found.is_empty() {
                known.insert(*node, found);
            }
        }
        known.retain(|node, _| hosts.contains_key(node));
        let expected: Vec<_> = known.iter().map(|(node, found)| (*node, found.clone())).collect();
        peers.expect(&expected);
        match told.recv_timeout(LOOK_UP_EVERY) {
            Ok(first) => {
                let (index, state) = told.try_iter().last().unwrap_or(first);
                hosts = hosts_of(&state, here);
                learn(index, &state);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
