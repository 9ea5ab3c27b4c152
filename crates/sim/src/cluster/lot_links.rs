//! Connections for lots between the processes: each keeps the order of what it carries, and loses
//! nothing but all at its end. Its end is heard on both sides, at different times, and a new one
//! begins when both have heard it.

use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::NodeId;
use ferrite_io::simulated::SimulatedRandom;
use ferrite_replica::group::Member;
use std::collections::BTreeMap;

/// Of a thousand messages, so many end their connection where messages are lost at all.
const BREAKS: u64 = 4;
/// A side hears of the end within that, and a new connection begins within that behind it.
const HEARD_MILLIS: u64 = 60;
const AGAIN_MILLIS: u64 = 80;
const MICROS: u64 = 1_500;

struct Connection {
    number: u64,
    sides: [Member; 2],
}

struct LotPacket {
    number: u64,
    from: NodeId,
    to: NodeId,
    bytes: Vec<u8>,
    due: u64,
}

/// One side is to hear that its connection has ended.
struct Ending {
    side: Member,
    other: NodeId,
    due: u64,
}

pub struct LotLinks {
    random: SimulatedRandom,
    open: BTreeMap<[NodeId; 2], Connection>,
    last: u64,
    again: BTreeMap<[NodeId; 2], u64>,
    /// Of each way, in its order.
    flying: Vec<LotPacket>,
    endings: Vec<Ending>,
}

fn pair(one: NodeId, other: NodeId) -> [NodeId; 2] {
    [one.min(other), one.max(other)]
}

impl LotLinks {
    pub fn new(random: SimulatedRandom) -> LotLinks {
        let (open, again) = Default::default();
        LotLinks { random, open, last: 0, again, flying: Vec::new(), endings: Vec::new() }
    }

    /// What is not connected is lost: its sender has heard that, or is about to.
    pub fn send(&mut self, from: Member, to: NodeId, bytes: Vec<u8>, now: u64) {
        let open = self.open.get(&pair(from.node, to)).filter(|open| open.sides.contains(&from));
        let Some(number) = open.map(|open| open.number) else { return };
        let same = self.flying.iter().filter(|packet| packet.number == number && packet.to == to);
        let last = same.map(|packet| packet.due).max().unwrap_or_default();
        let due = last.max(now + 1_000 * (20 + self.random.below(MICROS)));
        self.flying.push(LotPacket { number, from: from.node, to, bytes, due });
    }

    /// The connection ends, and both sides will hear it.
    fn end(&mut self, between: [NodeId; 2], now: u64) {
        let Some(ended) = self.open.remove(&between) else { return };
        self.flying.retain(|packet| packet.number != ended.number);
        let mut last = now;
        for (side, other) in [(0, 1), (1, 0)] {
            let due = now + self.random.below(HEARD_MILLIS) * MILLI;
            last = last.max(due);
            self.endings.push(Ending { side: ended.sides[side], other: ended.sides[other].node, due });
        }
        self.again.insert(between, last + self.random.below(AGAIN_MILLIS) * MILLI);
    }

    /// A process has ended, and with it all its connections.
    pub fn ended(&mut self, node: NodeId, now: u64) {
        let all: Vec<[NodeId; 2]> = self.open.keys().copied().filter(|between| between.contains(&node)).collect();
        all.into_iter().for_each(|between| self.end(between, now));
        self.endings.retain(|ending| ending.side.node != node);
    }

    fn is_ending(&self, between: [NodeId; 2]) -> bool {
        self.endings.iter().any(|ending| pair(ending.side.node, ending.other) == between)
    }

    pub fn is_idle(&self) -> bool {
        self.flying.is_empty() && self.endings.is_empty()
    }

    pub fn next_due(&self) -> Option<u64> {
        self.flying.iter().map(|packet| packet.due).min()
    }
}

impl World {
    /// Whether something can arrive on a connection for lots.
    pub fn has_lots_due(&self) -> bool {
        let moves = |node: &NodeId| self.machines.get(node).is_some_and(|machine| machine.still_until <= self.now);
        self.lot_links.flying.iter().any(|packet| packet.due <= self.now && moves(&packet.to))
    }

    /// The first message that can.
    pub fn deliver_lot(&mut self) -> Result<(), Violation> {
        let moves = |node: &NodeId| self.machines.get(node).is_some_and(|machine| machine.still_until <= self.now);
        let all = self.lot_links.flying.iter().enumerate();
        let due = all.filter(|(_, packet)| packet.due <= self.now && moves(&packet.to));
        let Some((index, _)) = due.min_by_key(|(index, packet)| (packet.due, *index)) else { return Ok(()) };
        let LotPacket { from, to, bytes, .. } = self.lot_links.flying.remove(index);
        let breaks = !self.network.calm && self.plan.faults.lose > 0 && self.lot_links.random.below(1_000) < BREAKS;
        if breaks || self.network.is_cut(from, to) {
            self.trace.line(&format!("a message about lots from {from} to {to} ends its connection"));
            self.counts.links_ended += 1;
            self.lot_links.end(pair(from, to), self.now);
            return Ok(());
        }
        self.counts.lot_messages += 1;
        let mut outcome = Ok(true);
        self.step_machine(to, |process| {
            let lots = process.lots.as_ref().expect("lots are sent where there are several groups");
            outcome = lots.hub.deliver(from, &bytes);
            Some(format!("hears of lots from {from}"))
        })?;
        let detail = |error| Violation { invariant: "messages make sense", detail: format!("{error:?}") };
        outcome.map(drop).map_err(detail)
    }

    /// Connections begin, and the end of others is heard. To be called as time passes.
    pub fn connect_lots(&mut self) -> Result<(), Violation> {
        if !self.has_several_groups() {
            return Ok(());
        }
        while let Some(index) = self.lot_links.endings.iter().position(|ending| ending.due <= self.now) {
            let Ending { side, other, .. } = self.lot_links.endings.remove(index);
            if self.machines.get(&side.node).is_some_and(|machine| machine.still_until > self.now) {
                let due = self.now + MILLI;
                self.lot_links.endings.push(Ending { side, other, due });
                break;
            }
            self.step_machine(side.node, |process| {
                if process.member == side
                    && let Some(lots) = &process.lots
                {
                    lots.hub.lost(other);
                }
                None
            })?;
        }
        let running = self.running();
        for (place, one) in running.iter().enumerate() {
            for other in &running[place + 1..] {
                self.connect(*one, *other)?;
            }
        }
        Ok(())
    }

    fn connect(&mut self, one: NodeId, other: NodeId) -> Result<(), Violation> {
        let between = pair(one, other);
        if self.lot_links.open.contains_key(&between) {
            // A silent connection is ended, too.
            if self.network.is_cut(one, other) && self.lot_links.random.percent(5) {
                self.lot_links.end(between, self.now);
            }
            return Ok(());
        }
        let is_early = self.lot_links.again.get(&between).is_some_and(|again| self.now < *again);
        let stands = [one, other].iter().any(|node| self.machines[node].still_until > self.now);
        let is_cut = self.network.is_cut(one, other) || self.network.is_cut(other, one);
        if is_early || stands || is_cut || self.lot_links.is_ending(between) {
            return Ok(());
        }
        self.lot_links.last += 1;
        let number = self.lot_links.last;
        let sides = between.map(|node| self.process(node).member);
        self.lot_links.open.insert(between, Connection { number, sides });
        for (here, there) in [(one, other), (other, one)] {
            self.step_machine(here, |process| {
                if let Some(lots) = &process.lots {
                    lots.hub.opened(there);
                }
                None
            })?;
        }
        Ok(())
    }
}
