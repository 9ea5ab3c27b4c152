//! The metadata: seals epochs, decides on leaders and members, and tells the nodes.

use super::World;
use super::packet::Packet;
use ferrite_base::{Epoch, NodeId};
use ferrite_replica::group::{GroupConfiguration, Sealed, decide};

impl World {
    pub(super) fn register(&mut self, id: NodeId) {
        let member = self.nodes[&id].member;
        let to = self.last.leader.node;
        if !self.last.has(member) {
            if let Some(gone) = self.last.members().iter().find(|member| member.node == id) {
                self.packets.push(Packet::Gone { to, member: *gone });
            }
            self.packets.push(Packet::Learner { to, learner: member });
        }
        self.packets.push(Packet::Ask(id));
    }

    pub(super) fn announce(&mut self) {
        let configuration = &self.last;
        let packets = self.nodes.keys().map(|to| Packet::Configured { to: *to, configuration: configuration.clone() });
        self.packets.extend(packets);
    }

    pub(super) fn begin_seal(&mut self) {
        let epoch = self.next;
        self.next = Epoch(epoch.0 + 1);
        self.sealing = Some((epoch, Vec::new()));
        let candidates = self.last.members().iter().map(|member| Packet::Seal { to: member.node, epoch });
        self.packets.extend(candidates);
    }

    pub(super) fn metadata_decides(&mut self) {
        let Some((epoch, answers)) = &self.sealing else { return };
        let current = answers.iter().filter(|answer| self.nodes[&answer.member.node].member == answer.member);
        let current: Vec<Sealed> = current.cloned().collect();
        if let Some(decided) = decide(&self.last, *epoch, &current) {
            self.last = decided;
            self.sealing = None;
            self.announce();
            let up: Vec<NodeId> =
                self.nodes.iter().filter(|(_, node)| node.running.is_some()).map(|(id, _)| *id).collect();
            up.into_iter().for_each(|id| self.register(id));
        }
    }

    /// What is for a node that does not run is lost.
    pub(super) fn metadata_hears(&mut self, packet: Packet) {
        match packet {
            Packet::Sealed(sealed) => {
                let member = sealed.member;
                let current = self.nodes[&member.node].member == member;
                if let Some((epoch, answers)) = &mut self.sealing
                    && sealed.epoch == *epoch
                    && current
                {
                    answers.retain(|answer| answer.member.node != member.node);
                    answers.push(sealed);
                }
            }
            Packet::Propose(from, proposal) => {
                let current = proposal.members.iter().all(|member| self.nodes[&member.node].member == *member);
                if proposal.expected == self.last.epoch && self.sealing.is_none() && from == self.last.leader && current
                {
                    self.outcome.joins += u64::from(!proposal.added.is_empty());
                    self.last = GroupConfiguration::new(self.next, from, proposal.members, proposal.added);
                    self.next = Epoch(self.next.0 + 1);
                    self.announce();
                }
            }
            Packet::Ask(to) => {
                self.packets.push(Packet::Configured { to, configuration: self.last.clone() });
                if let Some((epoch, _)) = self.sealing {
                    self.packets.push(Packet::Seal { to, epoch });
                }
            }
            _ => {}
        }
    }
}
