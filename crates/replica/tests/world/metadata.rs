//! The metadata: seals epochs, decides on leaders and members, and tells the nodes; with faults, it
//! decides wrongly.

use super::{Broken, Fault, Packet, World};
use ferrite_base::{Epoch, NodeId, Position};
use ferrite_replica::group::{GroupConfiguration, Member, Proposal, Sealed, decide};
use std::collections::BTreeMap;

/// What nodes tell it.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Sealed(Sealed),
    Propose(Member, Proposal),
    Ask(NodeId),
}

pub(super) struct Metadata {
    pub(super) last: GroupConfiguration,
    /// The next epoch that is not burnt.
    pub(super) next: Epoch,
    pub(super) sealing: Option<(Epoch, Vec<Sealed>)>,
    /// What processes had applied when they answered the last seal.
    pub(super) applied: BTreeMap<Member, Position>,
}

impl World {
    /// A node that has started, or seems to be lost, makes itself known.
    pub(super) fn register(&mut self, id: NodeId) {
        let member = self.nodes[&id].member;
        let Metadata { last, .. } = &self.metadata;
        let to = last.leader.node;
        if !last.has(member) {
            if let Some(gone) = last.members().iter().find(|member| member.node == id) {
                self.packets.push(Packet::Gone { to, member: *gone });
            }
            self.packets.push(Packet::Learner { to, learner: member });
        }
        self.packets.push(Packet::ToMetadata(Word::Ask(id)));
    }

    pub(super) fn announce(&mut self) {
        let configuration = self.metadata.last.clone();
        let packets: Vec<_> = self.nodes.keys().map(|to| (*to, configuration.clone())).collect();
        self.packets.extend(packets.into_iter().map(|(to, configuration)| Packet::Configured { to, configuration }));
    }

    pub(super) fn tell_metadata(&mut self, word: Word) {
        match word {
            Word::Sealed(sealed) => {
                if let Some((epoch, answers)) = &mut self.metadata.sealing
                    && sealed.epoch == *epoch
                    && self.nodes[&sealed.member.node].member == sealed.member
                {
                    answers.retain(|answer| answer.member.node != sealed.member.node);
                    answers.push(sealed);
                }
            }
            Word::Propose(from, proposal) => {
                let Metadata { last, next, sealing, .. } = &mut self.metadata;
                let current = proposal.members.iter().all(|member| self.nodes[&member.node].member == *member);
                if proposal.expected == last.epoch && sealing.is_none() && from == last.leader && current {
                    self.outcome.joins += u64::from(!proposal.added.is_empty());
                    self.outcome.handed_over += u64::from(proposal.leader != from);
                    *last = GroupConfiguration::new(*next, proposal.leader, proposal.members, proposal.added);
                    *next = Epoch(next.0 + 1);
                    self.announce();
                }
            }
            Word::Ask(to) => {
                let configuration = self.metadata.last.clone();
                self.packets.push(Packet::Configured { to, configuration });
                if let Some((epoch, _)) = self.metadata.sealing {
                    self.packets.push(Packet::Seal { to, epoch });
                }
            }
        }
    }

    pub(super) fn begin_seal(&mut self) {
        let epoch = self.metadata.next;
        self.metadata.next = Epoch(epoch.0 + 1);
        self.metadata.sealing = Some((epoch, Vec::new()));
        let candidates: Vec<NodeId> = self.metadata.last.members().iter().map(|member| member.node).collect();
        self.packets.extend(candidates.into_iter().map(|to| Packet::Seal { to, epoch }));
    }

    pub(super) fn metadata_decides(&mut self) -> Result<(), Broken> {
        let Some((epoch, answers)) = &self.metadata.sealing else { return Ok(()) };
        let (epoch, mut answers) = (*epoch, answers.clone());
        let mut last = self.metadata.last.clone();
        match self.fault {
            Fault::AddedAreLikeMembers => {
                last = GroupConfiguration::new(last.epoch, last.leader, last.members().to_vec(), Vec::new());
            }
            Fault::AnyAnswerSuffices => {
                let members = answers.iter().map(|answer| answer.member).collect::<Vec<_>>();
                let Some(first) = members.first().copied() else { return Ok(()) };
                last = GroupConfiguration::new(last.epoch, first, members, Vec::new());
            }
            _ => {}
        }
        // A process that was there when it answered may be gone.
        answers.retain(|answer| self.nodes[&answer.member.node].member == answer.member);
        if let Some(decided) = decide(&last, epoch, &answers) {
            self.outcome.chosen += u64::from(self.has_applied_most(&decided, &answers)?);
            self.metadata.last = decided;
            self.metadata.sealing = None;
            self.announce();
            let known: Vec<NodeId> = self.nodes.iter().filter(|(_, node)| node.up).map(|(id, _)| *id).collect();
            known.into_iter().for_each(|id| self.register(id));
        }
        Ok(())
    }
}
