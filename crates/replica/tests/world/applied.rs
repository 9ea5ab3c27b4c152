//! Copies whose tables follow their logs some time later, and what that means for who leads next
//! (docs/decisions/0075-who-has-applied.md).

use super::{Broken, Fault, Node, World};
use ferrite_base::{NodeId, Position};
use ferrite_replica::group::{Envelope, GroupConfiguration, Member, Message, Proposal, Said, Sealed};

impl World {
    /// Whether a leader that is to hand over has a member with everything in its log, and not in
    /// its tables.
    pub(super) fn note_lag(&mut self, leader: NodeId) {
        if !self.nodes[&leader].group.is_open() {
            return;
        }
        let (end, last) = (self.nodes[&leader].group.end().position, &self.metadata.last);
        let lags = |node: &mut Node| node.up && node.group.durable() >= end && node.applied() < end;
        let mut members = self.nodes.values_mut().filter(|node| last.has(node.member));
        self.outcome.lagged += u64::from(members.any(lags));
    }

    /// Whom a leader proposes in its place can execute at once: its tables show everything.
    pub(super) fn has_applied(&mut self, from: Member, proposal: &Proposal, end: Position) -> Result<(), Broken> {
        let next = self.nodes.get_mut(&proposal.leader.node).expect("nodes are known");
        // Another process of it is refused.
        if proposal.leader == from || !next.up || next.member != proposal.leader {
            return Ok(());
        }
        match next.applied() {
            applied if applied >= end => Ok(()),
            applied => {
                Err(format!("{from:?} hands over to {:?}, which has applied {applied} of {end}", proposal.leader))
            }
        }
    }

    /// Of equal streams the one leads that had applied most.
    pub(super) fn has_applied_most(&self, decided: &GroupConfiguration, answers: &[Sealed]) -> Result<bool, Broken> {
        let of_leader = answers.iter().find(|answer| answer.member == decided.leader).expect("a leader has answered");
        let applied = |member: &Member| self.metadata.applied.get(member).copied().unwrap_or(Position(0));
        let (end, own) = (of_leader.end, applied(&decided.leader));
        let equal = answers.iter().filter(|answer| answer.end == end && decided.has(answer.member));
        let mut differs = false;
        for answer in equal {
            let other = applied(&answer.member);
            if other > own {
                let (leader, better) = (decided.leader.node, answer.member.node);
                return Err(format!(
                    "node {leader} leads with {own} applied, and node {better} had {other} of {end:?}"
                ));
            }
            differs |= other < own;
        }
        Ok(differs)
    }

    /// Some copy applies something.
    pub(super) fn apply_some(&mut self) -> Result<(), Broken> {
        if self.more.below(1_000) >= self.weights.apply {
            return Ok(());
        }
        let index = self.more.below(self.nodes.len() as u64) as usize;
        let id = *self.nodes.keys().nth(index).expect("below their number");
        let entries = self.more.below(1 + self.weights.pace);
        self.with(id, |node| node.apply(entries))
    }

    /// What a node says of its tables comes with its acknowledgements.
    pub(super) fn knows(&mut self, from: NodeId, acked: &Envelope) -> Option<Envelope> {
        let Message::Acked { durable, .. } = acked.message else { return None };
        let node = self.nodes.get_mut(&from).expect("nodes are known");
        if node.member != acked.from {
            return None;
        }
        let applied = if self.fault == Fault::DurableIsApplied { durable.position } else { node.applied() };
        let message = Message::Knows { said: Said::default(), applied, able: true };
        Some(Envelope { message, ..acked.clone() })
    }
}
