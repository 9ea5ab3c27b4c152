//! A member or learner: takes the leader's entries, reports what is durable.

use super::entry::{Header, Mark};
use super::message::{Effect, Message};
use super::{Group, Member, Role};
use ferrite_base::{Epoch, Position, planted};

impl Group {
    pub(super) fn asked_to_append(
        &mut self,
        from: Member,
        epoch: Epoch,
        previous: Mark,
        entries: &[Header],
        commit: Position,
        round: u64,
    ) {
        let sealed = self.sealing.map_or(Epoch(0), |sealing| sealing.epoch);
        let promised = self.promised.max(sealed);
        if epoch < promised && !planted!(OldEpoch) {
            // A message of a lower epoch, or of one that this node was asked to give up.
            self.effects.push(Effect::Send {
                to: from.node,
                envelope: super::Envelope { from: self.here, epoch, message: Message::Refused { promised } },
            });
            return;
        }
        let leader = self.configuration.as_ref().map(|configuration| configuration.leader);
        if leader != Some(from) || self.is_leading() {
            return;
        }
        if self.stream.contradicts(previous) {
            self.effects.push(Effect::Diverged(self.here.node));
            return;
        }
        if !self.stream.has(previous) {
            let history = self.stream.history.clone();
            let end = self.stream.end().position;
            self.send(from.node, Message::Mismatch { history, end, round });
            return;
        }
        let Some(verified) = self.accept(previous, entries) else { return };
        let Role::Following { verified: known, round: heard } = &mut self.role else { unreachable!("judged above") };
        let reached = known.map_or(verified, |known| known.max(verified));
        *known = Some(reached);
        *heard = (*heard).max(round);
        let committed = if planted!(ReceivedIsCommitted) { reached } else { commit.min(reached) };
        self.commit_to(committed);
        // New entries are acknowledged when they are durable.
        if self.stream.durable() >= verified || entries.is_empty() || planted!(EarlyAcknowledgement) {
            self.acknowledge();
        }
    }

    /// Takes what is new of the entries after `previous`, which is here. Returns how far this
    /// stream is then the leader's; None if they cannot be the leader's.
    fn accept(&mut self, previous: Mark, entries: &[Header]) -> Option<Position> {
        let mut last = Mark { chain: self.stream.chain_at(previous.position).unwrap_or(previous.chain), ..previous };
        let mut new = Vec::new();
        for header in entries {
            if !header.follows(self.id, last) {
                self.effects.push(Effect::Diverged(self.here.node));
                return None;
            }
            let before = std::mem::replace(&mut last, header.mark);
            if self.stream.contradicts(last) {
                self.effects.push(Effect::Diverged(self.here.node));
                return None;
            }
            if self.stream.has(last) {
                continue;
            }
            if last.position <= self.stream.end().position {
                // Streams part where an epoch begins in one of them: the leader's, or one that this
                // node began while its former leader continued. And never below what is committed.
                let parts = header.starts_epoch || self.stream.history.begins_at(last.position);
                if !parts || last.position <= self.commit {
                    self.effects.push(Effect::Diverged(self.here.node));
                    return None;
                }
                self.stream.drop_behind(before);
                self.effects.push(Effect::Drop { from: last.position });
            }
            self.stream.push(header);
            new.push(*header);
        }
        if !new.is_empty() {
            self.effects.push(Effect::Write(new));
        }
        Some(last.position)
    }

    /// Tells the leader what is durable of its stream.
    pub(super) fn acknowledge(&mut self) {
        let Role::Following { verified: Some(verified), round } = self.role else { return };
        let Some(configuration) = &self.configuration else { return };
        let durable = if planted!(EarlyAcknowledgement) { verified } else { self.stream.durable().min(verified) };
        let sealed = self.sealing.map_or(Epoch(0), |sealing| sealing.epoch);
        if self.promised.max(sealed) > configuration.epoch && !planted!(OldEpoch) {
            return;
        }
        let leader = configuration.leader.node;
        let compares = self.stream.chain_at(durable).is_some();
        self.send(leader, Message::Acked { durable: self.stream.mark_at(durable), compares, round });
    }
}
