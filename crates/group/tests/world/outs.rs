//! What nodes want done, and what they tell their clients: carried out, and checked against what is
//! committed.

use super::node::{Out, number_of};
use super::packet::Packet;
use super::{Broken, World};
use ferrite_base::NodeId;
use ferrite_group::GroupEvent;
use ferrite_io::Clock;

impl World {
    /// What a node wants done, and what it says.
    pub(super) fn take_outs(&mut self, id: NodeId) -> Result<(), Broken> {
        loop {
            let node = self.nodes.get_mut(&id).expect("nodes are known");
            let Some(out) = node.running.as_ref().and_then(|running| running.outs.pop()) else { return Ok(()) };
            if self.trace {
                println!("{id} {}", out.line());
            }
            match out {
                Out::Sent(to, lane, bytes) => self.packets.push(Packet::Between { from: id, to, lane, bytes }),
                Out::Told(number, committed) => self.told(id, number, committed)?,
                Out::Passed(rows, true) if node.settled < rows => {
                    return Err(format!(
                        "node {id} passes a barrier behind {rows}, and {} are committed",
                        node.settled
                    ));
                }
                Out::Passed(_, committed) => self.outcome.passed += u64::from(committed),
                Out::Committed(entries) => {
                    if node.tables.len() != node.settled {
                        return Err(format!("node {id} applies behind what it executed and may have to take back"));
                    }
                    for number in entries.iter().filter_map(number_of) {
                        self.nodes.get_mut(&id).expect("nodes are known").tables.push(number);
                        self.settled(id)?;
                    }
                }
                Out::Installed => {
                    self.outcome.snapshots += 1;
                    node.installed();
                    self.settled_more(id)?;
                }
                Out::Event(event) => self.event(id, event)?,
            }
        }
    }

    fn told(&mut self, id: NodeId, number: u64, committed: bool) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        if node.asked.first() != Some(&number) {
            return Err(format!("node {id} is told of {number}, and {:?} waits", node.asked));
        }
        node.asked.remove(0);
        if !committed {
            self.outcome.unknown += 1;
            return Ok(());
        }
        if node.tables.get(node.settled) != Some(&number) {
            return Err(format!("node {id} is told of {number} out of order"));
        }
        self.outcome.acknowledged += 1;
        self.settled(id)?;
        self.acknowledged = self.acknowledged.max(self.nodes[&id].settled);
        self.release_reads(id)
    }

    /// One more of what a node has is committed: the same as everywhere.
    fn settled(&mut self, id: NodeId) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        let number = node.tables[node.settled];
        match self.stream.get(node.settled) {
            None => self.stream.push(number),
            Some(known) if *known == number => {}
            Some(known) => return Err(format!("node {id} has {number} where {known} was committed")),
        }
        node.settled += 1;
        Ok(())
    }

    /// What a snapshot shows is committed.
    fn settled_more(&mut self, id: NodeId) -> Result<(), Broken> {
        let node = &self.nodes[&id];
        let known = self.stream.len().min(node.settled);
        self.stream.extend(&node.tables[known..]);
        if node.tables[..] != self.stream[..node.settled] {
            return Err(format!("node {id} got {:?} where {:?} was committed", node.tables, self.stream));
        }
        Ok(())
    }

    fn event(&mut self, id: NodeId, event: GroupEvent) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        match event {
            GroupEvent::Opened => {
                if node.tables.len() != node.settled || node.settled < self.stream.len() {
                    return Err(format!("node {id} opens before it has applied what is committed"));
                }
                node.leads = true;
            }
            GroupEvent::Deposed { .. } => {
                self.outcome.deposed += 1;
                self.outcome.undone += (node.tables.len() - node.settled) as u64;
                node.tables.truncate(node.settled);
                node.leads = false;
                node.forget_clients();
                if !node.asked.is_empty() {
                    return Err(format!("node {id} leaves {:?} waiting", node.asked));
                }
            }
            // Here is no lease that could end.
            GroupEvent::StandsStill(_) => {}
            GroupEvent::Confirmed(round) => {
                node.confirmed = round;
                self.release_reads(id)?;
            }
            GroupEvent::Promise(epoch) => node.promises.push(epoch),
            GroupEvent::Sealed(sealed) => self.packets.push(Packet::Sealed(sealed)),
            GroupEvent::Propose(proposal) => self.packets.push(Packet::Propose(node.member, proposal)),
            GroupEvent::AskMetadata(_) => self.packets.push(Packet::Ask(id)),
            GroupEvent::Differs(other, _) => return Err(format!("node {id} finds that {other} differs")),
            GroupEvent::Diverged(other) => return Err(format!("node {id} finds that {other} has another stream")),
            GroupEvent::FromLog(wanted) => {
                self.outcome.from_log += 1;
                let now = self.clock.monotonic_nanos();
                if let Some(running) = &mut node.running {
                    running.supplier.request(wanted, now);
                }
            }
            GroupEvent::Replaced => {}
            GroupEvent::NeedsSnapshot(to) => self.send_snapshot(id, to),
            GroupEvent::TooLarge { to, .. } => {
                self.outcome.too_large += 1;
                self.send_snapshot(id, to);
            }
            GroupEvent::LogFailed(failure) => return Err(format!("node {id}: {failure}")),
        }
        Ok(())
    }
}
