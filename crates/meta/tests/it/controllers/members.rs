//! What a node does with what it hears of its group, and what it asks the voters for as time
//! passes.

use super::{GROUP, MILLI, Node, World};
use ferrite_base::{Epoch, NodeId, Position};
use ferrite_meta::{Ask, Phase, Presence, State};
use ferrite_replica::group::{History, Mark, Member, Proposal, Sealed};
use std::sync::Arc;

impl World {
    pub(super) fn metadata_changed(&mut self, node: usize, state: &State) {
        let here = self.here(node);
        let group = &state.groups()[&GROUP];
        let before = self.configurations.insert(group.configuration.epoch, group.configuration.clone());
        assert!(before.is_none_or(|before| before == group.configuration), "one configuration for an epoch");
        self.losses.extend(group.loss);
        let known = &mut self.nodes[node];
        let process = known.process.as_mut().unwrap();
        // An old word does not know of one that has joined since.
        let Some(own) = state.nodes().get(&here.node) else { return };
        process.registered |= own.incarnation == here.incarnation;
        assert_ne!(own.presence, Presence::Retired, "nobody who runs is retired");
        let accepted = group.accepted.is_some_and(|accepted| accepted.node == here.node);
        if !process.registered || !accepted && !group.configuration.has_node(here.node) {
            return;
        }
        if group.phase == Phase::Sealing {
            known.promised = known.promised.max(group.burnt);
            let history = History::new(vec![(Epoch(1), Position(1))]).unwrap();
            let (end, applied) = (known.end, known.end.position);
            let sealed = Sealed { member: here, epoch: group.burnt, end, history, intact: true, applied, able: true };
            self.ask(node, Ask::Sealed { group: GROUP, sealed });
        } else if group.configuration.epoch >= known.promised && group.configuration.has(here) {
            // The start of the epoch comes with the leader's entries.
            known.end = Mark { epoch: group.configuration.epoch, position: Position(1), chain: 0 };
        }
    }

    pub(super) fn tick(&mut self, node: usize) {
        let now = self.clock(node);
        let process = self.nodes[node].process.as_mut().unwrap();
        if let Some(controller) = &mut process.controller {
            controller.tick(now);
        }
        self.work(node);
        let here = self.here(node);
        let process = self.nodes[node].process.as_mut().unwrap();
        let pause = if process.registered { 666 } else { 50 } * MILLI;
        if process.asked_at.is_some_and(|at| now < at + pause) {
            return;
        }
        process.asked_at = Some(now);
        let index = process.link.state().0;
        let ask = if process.leaves {
            Ask::Goodbye(here)
        } else if process.registered {
            Ask::Look { member: here, index }
        } else {
            let node = self.registration(node, here.incarnation);
            Ask::Register { id: here.node, node }
        };
        self.ask(node, ask);
        // It has been without a lease and without an answer, as a leader that is cut off is.
        if let Some((epoch, _)) = self.leads(node)
            && self.faults
            && self.random.percent(3)
        {
            self.nodes[node].process.as_mut().unwrap().resigned = epoch;
            self.counts.resigned += 1;
        }
        let epoch = self.nodes[node].process.as_ref().unwrap().resigned;
        if epoch > Epoch(0) {
            self.ask(node, Ask::Resign { group: GROUP, from: here, epoch });
        }
        // Where it leads, members come and go.
        if let Some((epoch, _)) = self.leads(node)
            && (self.random.percent(40) || !self.faults)
        {
            self.propose(node, epoch);
        }
        // The answer to a seal may have been lost.
        let (_, state) = self.nodes[node].process.as_ref().unwrap().link.state();
        let state = Arc::clone(state);
        if let Some(group) = state.groups().get(&GROUP).filter(|group| group.phase == Phase::Sealing) {
            let gone = |id: &NodeId| self.nodes.iter().any(|node| node.gone && node.id == Some(*id));
            // An operator has lost patience, or what a member had is lost for good.
            let is_lost = group.configuration.members().iter().any(|member| gone(&member.node));
            if (self.faults || is_lost) && self.random.percent(20) {
                let expected = group.configuration.epoch;
                let all: Vec<NodeId> = state.nodes().keys().copied().filter(|id| !gone(id)).collect();
                let other = *self.random.pick(&all);
                let member = Member { node: other, incarnation: state.nodes()[&other].incarnation };
                self.ask(node, Ask::AcceptLoss { group: GROUP, from: here, expected, member });
            }
            self.metadata_changed(node, &state);
        }
        self.take_own(node);
    }

    fn propose(&mut self, node: usize, epoch: Epoch) {
        let here = self.here(node);
        let state = Arc::clone(self.nodes[node].process.as_ref().unwrap().link.state().1);
        let configuration = &state.groups()[&GROUP].configuration;
        let of = |id: &NodeId| Member { node: *id, incarnation: state.nodes()[id].incarnation };
        let all: Vec<NodeId> = state.nodes().keys().copied().collect();
        let other = of(self.random.pick(&all));
        let gone = self.nodes.iter().any(|node| node.id == Some(other.node) && node.gone);
        if other.node == here.node || (gone && !configuration.has_node(other.node)) {
            return;
        }
        // A leader hands over to a member that has everything.
        let is_complete = |node: &Node| node.id == Some(other.node) && node.end.position > Position(0);
        if configuration.has(other) && self.nodes.iter().any(is_complete) && self.random.percent(50) {
            let members = configuration.members().to_vec();
            let proposal = Proposal { expected: epoch, leader: other, members, added: Vec::new() };
            self.counts.handed_over += 1;
            // Reads go by rounds from here on: its lease counts for nothing while it leads.
            self.nodes[node].process.as_mut().unwrap().gives_up = epoch;
            return self.ask(node, Ask::Propose { group: GROUP, from: here, proposal, parent: self.nodes[node].end });
        }
        let mut members: Vec<Member> =
            configuration.members().iter().copied().filter(|member| member.node != other.node).collect();
        let mut added = Vec::new();
        if !configuration.has(other) {
            members.push(other);
            added.push(other.node);
        }
        let proposal = Proposal { expected: epoch, leader: here, members, added };
        self.counts.changed += 1;
        self.ask(node, Ask::Propose { group: GROUP, from: here, proposal, parent: self.nodes[node].end });
    }
}
