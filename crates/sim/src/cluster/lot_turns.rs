//! Connections for lots begin, carry messages and end, as time passes.

use crate::cluster::lot_links::{Ending, LotPacket, OpenLink, pair};
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::NodeId;
use ferrite_group::FIRST_GROUP;

/// Of a thousand messages, so many end their connection where messages are lost at all.
const BREAKS: u64 = 4;

impl World {
    /// The first message that can arrive on a connection for lots: its place, and when. What is for
    /// a process that stands still waits.
    fn next_lot(&self) -> Option<(usize, u64)> {
        let moves = |node: &NodeId| self.machines.get(node).is_some_and(|machine| machine.still_until <= self.now);
        let all = self.lot_links.flying.iter().enumerate().filter(|(_, packet)| moves(&packet.to));
        all.map(|(index, packet)| (index, packet.due)).min_by_key(|(index, due)| (*due, *index))
    }

    pub fn next_lot_due(&self) -> Option<u64> {
        self.next_lot().map(|(_, due)| due)
    }

    /// Whether one can arrive now.
    pub fn has_lots_due(&self) -> bool {
        self.next_lot_due().is_some_and(|due| due <= self.now)
    }

    /// It arrives.
    pub fn deliver_lot(&mut self) -> Result<(), Violation> {
        let Some((index, _)) = self.next_lot().filter(|(_, due)| *due <= self.now) else { return Ok(()) };
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
        self.replace_a_sequencer_that_is_not_heard()?;
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

    /// Of some messages that stall, another sequencer comes before they arrive.
    fn replace_a_sequencer_that_is_not_heard(&mut self) -> Result<(), Violation> {
        let stalls = self.lot_links.stalls;
        let stalled = std::mem::replace(&mut self.counts.stalls, stalls) < stalls;
        let Some(leader) = self.leader_of(FIRST_GROUP).filter(|_| stalled && self.later.percent(50)) else {
            return Ok(());
        };
        self.step_machine(leader, |process| {
            process.node.hand_over(FIRST_GROUP, None, None);
            Some("is to hand over, as a connection for lots stalls".to_owned())
        })
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
        self.lot_links.open.insert(between, OpenLink { number, sides });
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
