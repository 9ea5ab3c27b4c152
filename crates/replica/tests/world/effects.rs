//! What nodes want done: carried out, and checked against what is committed.

use super::metadata::Word;
use super::{Broken, Fault, Packet, World};
use ferrite_base::{NodeId, Position};
use ferrite_replica::group::{Effect, Envelope, Message};

impl World {
    pub(super) fn effects(&mut self, id: NodeId) -> Result<(), Broken> {
        loop {
            let node = self.nodes.get_mut(&id).expect("nodes are known");
            let effects = node.group.take_effects();
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                self.effect(id, effect)?;
            }
        }
    }

    fn effect(&mut self, id: NodeId, effect: Effect) -> Result<(), Broken> {
        if self.trace {
            println!("{} {id} does {effect:?}", self.now);
        }
        let early = self.fault == Fault::AcknowledgedBeforeDurable;
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        let me = node.member;
        match effect {
            Effect::Send { to, envelope } => self.packets.push(Packet::Between { from: id, to, envelope }),
            Effect::SendEntries { to, epoch, after, up_to, commit, round } => {
                let (mut from, mut messages) = (after, Vec::new());
                loop {
                    // In one message or several.
                    let end = Position(up_to.0.min(from.0 + 1 + self.random.below(8)));
                    let node = &self.nodes[&id];
                    let message =
                        Message::Append { previous: node.mark(from), entries: node.entries(from, end), commit, round };
                    messages.push(Envelope { from: me, epoch, message });
                    from = end;
                    if from >= up_to {
                        break;
                    }
                }
                let packets = messages.into_iter().map(|envelope| Packet::Between { from: id, to, envelope });
                self.packets.extend(packets);
            }
            Effect::Write(headers) => {
                node.write(&headers);
                if early {
                    node.group.written(node.mark(node.end()));
                }
            }
            Effect::Start { header, .. } => {
                node.write(&[header]);
                self.outcome.leaders += 1;
            }
            Effect::Drop { from } => {
                self.outcome.dropped += 1;
                if node.committed >= from {
                    return Err(format!("node {id} drops {from}, and {} is committed there", node.committed));
                }
            }
            Effect::Commit(position) => self.committed(id, position)?,
            Effect::Opened => {}
            Effect::Confirmed(round) => {
                node.confirmed = round;
                self.release_reads(id)?;
            }
            Effect::Deposed { .. } => node.forget_clients(),
            Effect::Promise(epoch) => node.promises.push(epoch),
            Effect::Sealed(mut sealed) => {
                self.metadata.applied.insert(me, node.applied());
                if self.fault == Fault::SealedWithoutApplied {
                    sealed.applied = Position(0);
                }
                self.packets.push(Packet::ToMetadata(Word::Sealed(sealed)));
            }
            Effect::Propose(proposal) => {
                let end = node.group.end().position;
                self.has_applied(me, &proposal, end)?;
                self.packets.push(Packet::ToMetadata(Word::Propose(me, proposal)));
            }
            // Here is no lease that could end.
            Effect::StandsStill(_) => {}
            Effect::AskMetadata(_) => self.packets.push(Packet::ToMetadata(Word::Ask(id))),
            Effect::NeedsSnapshot(node) => {
                return Err(format!("{node} is to get a snapshot where all begin with the same"));
            }
            Effect::Differs(other, _) => return Err(format!("node {id} finds that {other} differs")),
            Effect::Diverged(other) => return Err(format!("node {id} finds that {other} has another stream")),
        }
        Ok(())
    }

    fn committed(&mut self, id: NodeId, position: Position) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        for header in node.entries(node.committed, position) {
            let known = self.committed.entry(header.mark.position).or_insert(header);
            if *known != header {
                return Err(format!("node {id} commits {header:?} where {known:?} was committed"));
            }
        }
        node.committed = position;
        if self.weights.pace == 0 {
            node.apply(u64::MAX >> 1);
        }
        while node.writes.front().is_some_and(|write| *write <= position) {
            let write = node.writes.pop_front().expect("seen just now");
            self.acknowledged = self.acknowledged.max(write);
            self.outcome.writes += 1;
        }
        self.release_reads(id)
    }
}
