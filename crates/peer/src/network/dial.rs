//! What happens as time passes: handshakes that take too long end, connections to nodes that are
//! not heard of are closed, and nodes are dialed.

use super::connections::{Connection, Connections, Dial, State, TICK, TICK_MAX};
use super::locked;
use crate::frame::Lane;
use crate::handshake::Hello;
use ferrite_base::NodeId;
use mio::net::TcpStream;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Connections {
    /// Something is to be looked at.
    pub(super) fn tick_soon(&mut self) {
        self.next_tick = self.next_tick.min(Instant::now() + TICK);
    }

    pub(super) fn tick(&mut self) {
        self.more_to_accept = self.listener.is_some();
        self.changes = self.shared.changes.load(Ordering::Acquire);
        let now = Instant::now();
        self.next_tick = now + TICK_MAX;
        let time_max = self.shared.limits.handshake_time_max;
        let expected = locked(&self.shared.addresses).clone();
        let is_expected = |node: NodeId| expected.contains_key(&node);
        let silent_from = now.checked_sub(self.shared.limits.silence_time_max);
        let silent: Vec<NodeId> = {
            let roster = locked(&self.shared.roster);
            let is_silent = |node: &&NodeId| roster.heard_last(**node).is_some_and(|heard| Some(heard) <= silent_from);
            expected.keys().filter(is_silent).copied().collect()
        };
        let gone = |connection: &Connection| match &connection.state {
            State::Open { node, .. } if !is_expected(*node) => true,
            // A connection that has just been opened was heard of, if only there.
            State::Open { node, .. } => silent.contains(node) && Some(connection.since) <= silent_from,
            _ => now.duration_since(connection.since) >= time_max,
        };
        let over: Vec<usize> = self.open.iter().filter(|(_, open)| gone(open)).map(|(number, _)| *number).collect();
        over.into_iter().for_each(|number| self.close(number));
        let here = *locked(&self.shared.roster).here();
        self.dials.retain(|(node, _), _| is_expected(*node));
        for (node, addresses) in expected.iter().filter(|(node, all)| **node < here.node && !all.is_empty()) {
            for lane in self.lanes() {
                self.dial(*node, addresses, lane, here, now);
            }
        }
        // Handshakes that may take too long, nodes that are not reached.
        let is_open = |open: &Connection| matches!(open.state, State::Open { .. });
        let reached = |node: &NodeId, on: &Lane| {
            self.open
                .values()
                .any(|open| matches!(&open.state, State::Open { node: other, lane, .. } if other == node && lane == on))
        };
        let are_reached = self.dials.keys().all(|(node, lane)| reached(node, lane));
        if !are_reached || !self.open.values().all(is_open) {
            self.tick_soon();
        }
    }

    fn dial(&mut self, to: NodeId, addresses: &[SocketAddr], on: Lane, here: Hello, now: Instant) {
        let is_under_way = self.open.values().any(|connection| match &connection.state {
            State::Dialing { node, lane, .. } | State::Open { node, lane, .. } => *node == to && *lane == on,
            _ => false,
        });
        let (least, most) = self.shared.limits.redial;
        let dial = self.dials.entry((to, on)).or_insert(Dial { next: now, pause: least, failed: 0 });
        if is_under_way || now < dial.next {
            return;
        }
        dial.next = now + dial.pause;
        // All of them are tried before the pause grows.
        if (dial.failed + 1).is_multiple_of(addresses.len()) {
            dial.pause = (dial.pause * 2).min(most);
        }
        let address = addresses[dial.failed % addresses.len()];
        match TcpStream::connect(address) {
            Ok(stream) => {
                let nonce = self.draw();
                let hello = [&Hello { lane: on, ..here }.encode()[..], &nonce].concat();
                self.add(stream, address, State::Dialing { node: to, lane: on, nonce }, hello);
            }
            Err(_) => dial.failed += 1,
        }
    }
}
