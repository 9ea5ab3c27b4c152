//! The network between the nodes: loses, repeats, reorders, delays, cuts one way or both.

use crate::cluster::plan::Faults;
use ferrite_base::NodeId;
use ferrite_cluster::MessageKind;
use ferrite_group::Urgency;
use ferrite_io::simulated::SimulatedRandom;
use ferrite_replica::group::Member;
use std::collections::{BTreeMap, BTreeSet};

/// Of a hundred messages: how many take long.
const SLOW: u64 = 3;
const SLOW_MILLIS: u64 = 400;
const FAR_MICROS: u64 = 150_000;

/// What one process says to another node, as bytes. What the connection knows of the sender stands
/// beside it.
#[derive(Clone)]
pub struct Packet {
    pub from: Member,
    pub to: NodeId,
    pub lane: Urgency,
    pub bytes: Vec<u8>,
}

impl Packet {
    fn way(&self) -> (NodeId, NodeId) {
        (self.from.node, self.to)
    }

    pub fn line(&self) -> String {
        let Packet { from, to, lane, bytes } = self;
        let text = match MessageKind::decode(bytes) {
            Ok((MessageKind::Group, body)) => match ferrite_group::message::decode(body) {
                Ok((_, envelope, _)) => format!("{} {:?}", envelope.epoch, envelope.message),
                Err(error) => error.to_string(),
            },
            Ok((message_kind, body)) => {
                let begin: String = body.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
                format!("{message_kind:?} {:08x} {begin}", ferrite_base::checksum::crc32c(body))
            }
            Err(error) => error.to_string(),
        };
        let short: String = text.chars().take(160).collect();
        format!("{} to {to} by {lane:?}: {short}", from.node)
    }
}

struct Flying {
    packet: Packet,
    due: u64,
}

pub struct Network {
    random: SimulatedRandom,
    flying: Vec<Flying>,
    /// When the last message of each way arrives, of those in order.
    last: BTreeMap<(NodeId, NodeId), u64>,
    /// From, to.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// What is appended comes late to that node.
    pub far: Option<NodeId>,
    faults: Faults,
    /// Nothing is done wrong for now.
    pub calm: bool,
    pub lost: u64,
}

impl Network {
    pub fn new(random: SimulatedRandom, faults: Faults) -> Network {
        Network {
            random,
            flying: Vec::new(),
            last: BTreeMap::new(),
            cut: BTreeSet::new(),
            far: None,
            faults,
            calm: true,
            lost: 0,
        }
    }

    pub fn send(&mut self, packet: Packet, now: u64) {
        let most = if self.calm { 1 } else { self.faults.delay };
        let slow = !self.calm && self.faults.delay > 0 && self.random.percent(SLOW);
        let micros = 50 + self.random.below(1 + 1_000 * if slow { SLOW_MILLIS } else { most });
        if !self.calm && self.random.percent(self.faults.repeat) {
            let due = now + 1_000 * (50 + self.random.below(1 + 2_000 * most));
            self.flying.push(Flying { packet: packet.clone(), due });
        }
        let is_far = self.far == Some(packet.to) && packet.lane == Urgency::Entries && !self.calm;
        let mut due = now + 1_000 * (micros + if is_far { FAR_MICROS } else { 0 });
        if self.calm || !self.random.percent(self.faults.reorder) {
            let last = self.last.entry(packet.way()).or_default();
            due = due.max(*last);
            *last = due;
        }
        self.flying.push(Flying { packet, due });
    }

    /// Whether something could arrive now.
    pub fn has_due(&self, now: u64) -> bool {
        self.flying.iter().any(|flying| flying.due <= now)
    }

    pub fn next_due(&self) -> Option<u64> {
        self.flying.iter().map(|flying| flying.due).min()
    }

    /// Something that arrives now. None: it was lost.
    pub fn deliver(&mut self, now: u64) -> Option<Packet> {
        let due = (0..self.flying.len()).filter(|index| self.flying[*index].due <= now);
        // Of those that arrive together, the one that was sent first.
        let chosen = due.min_by_key(|index| self.flying[*index].due)?;
        let Flying { packet, .. } = self.flying.remove(chosen);
        let loses = !self.calm && self.random.percent(self.faults.lose);
        if loses || self.cut.contains(&packet.way()) {
            self.lost += 1;
            return None;
        }
        Some(packet)
    }

    /// What is on its way to or from a process that has ended is lost, or not.
    pub fn crashed(&mut self, node: NodeId) {
        let random = &mut self.random;
        self.flying.retain(|flying| flying.packet.from.node != node || random.percent(50));
    }

    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Cuts one node off, or some ways; or heals all. A line that says what.
    pub fn split_or_heal(&mut self, nodes: &[NodeId], leader: NodeId) -> String {
        if !self.cut.is_empty() {
            self.heal();
            return "heals".to_owned();
        }
        let one = if self.random.percent(50) { leader } else { *self.random.pick(nodes) };
        let others = || nodes.iter().copied().filter(|node| *node != one);
        match self.random.below(5) {
            0 => {
                let other = *self.random.pick(nodes);
                self.cut.insert((one, other));
                format!("cuts {one} to {other}")
            }
            1 => {
                let other = *self.random.pick(nodes);
                self.cut.extend([(one, other), (other, one)]);
                format!("cuts {one} and {other}")
            }
            2 => {
                self.cut.extend(others().map(|other| (one, other)));
                format!("{one} only hears")
            }
            3 => {
                self.cut.extend(others().map(|other| (other, one)));
                format!("{one} only speaks")
            }
            _ => {
                self.cut.extend(others().flat_map(|other| [(one, other), (other, one)]));
                format!("cuts {one} off")
            }
        }
    }

    /// Cuts one node off from now on.
    pub fn cut_off(&mut self, nodes: &[NodeId], one: NodeId) {
        let others = nodes.iter().copied().filter(|node| *node != one);
        self.cut.extend(others.flat_map(|other| [(one, other), (other, one)]));
    }

    /// Cuts some off from all others.
    pub fn cut_sides(&mut self, nodes: &[NodeId], side: &[NodeId]) {
        for one in side {
            let others = nodes.iter().copied().filter(|node| !side.contains(node));
            self.cut.extend(others.flat_map(|other| [(*one, other), (other, *one)]));
        }
    }

    /// Cuts one node off from some others.
    pub fn cut_from(&mut self, one: NodeId, others: &[NodeId]) {
        self.cut.extend(others.iter().flat_map(|other| [(one, *other), (*other, one)]));
    }

    /// What one sends does not come to the other.
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cut.contains(&(from, to))
    }

    pub fn is_split(&self) -> bool {
        !self.cut.is_empty()
    }
}
