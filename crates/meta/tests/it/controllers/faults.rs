//! What goes wrong: processes end and stand still, networks split, disks and votes are lost.

use super::{GROUP, MILLI, Node, World};
use ferrite_io::simulated::{Restart, SimulatedDisk};
use ferrite_meta::Phase;

impl World {
    pub(super) fn fault(&mut self) {
        let node = self.random.below(self.nodes.len() as u64) as usize;
        match self.random.below(12) {
            0..2 if self.nodes[node].process.is_some() => self.end(node, Restart::Process),
            2 if self.nodes[node].process.is_some() => self.end(node, Restart::Power),
            3 if self.random.percent(10) => (0..self.nodes.len()).for_each(|node| self.end(node, Restart::Power)),
            4..7 => {
                self.nodes[node].paused = self.now + self.random.below(6_000 * MILLI);
                self.counts.pauses += 1;
            }
            7 => {
                if let Some(process) = &mut self.nodes[node].process {
                    process.leaves = true;
                    self.counts.goodbyes += 1;
                }
            }
            8 if self.random.percent(60) => {
                let all = self.random.percent(60);
                self.lose(node, all);
            }
            8..10 => {
                let pairs = (0..self.nodes.len()).flat_map(|from| (0..self.nodes.len()).map(move |to| (from, to)));
                self.cut = pairs.filter(|_| self.random.percent(25)).collect();
            }
            _ => self.cut.clear(),
        }
    }

    /// All members of the group stand still for so long that an operator takes them for lost.
    pub(super) fn members_stand_still(&mut self, still: u64) {
        let state = self.state();
        let configuration = &state.groups()[&GROUP].configuration;
        let beyond = state.voters().iter().filter(|voter| !configuration.has_node(**voter)).count();
        // The others decide without them.
        if 2 * beyond <= state.voters().len() {
            return;
        }
        let until = self.now + still;
        for node in self.nodes.iter_mut().filter(|node| node.id.is_some_and(|id| configuration.has_node(id))) {
            node.paused = until;
        }
        self.cut.clear();
        self.calm_until = until;
    }

    /// A node loses its vote, and perhaps all that it has, where nobody needs that.
    fn lose(&mut self, node: usize, all: bool) {
        let group = self.state().groups()[&GROUP].clone();
        let leads = group.phase != Phase::Active || Some(group.configuration.leader.node) == self.nodes[node].id;
        if !self.votes_are_sound() || self.nodes[node].gone || self.nodes[node].id.is_none() || (all && leads) {
            return;
        }
        self.end(node, Restart::Process);
        let (place, number) = (self.nodes[node].place, self.random.number());
        let known = &mut self.nodes[node];
        (known.disk, known.vote) = (SimulatedDisk::new(number, Default::default()), None);
        if !all {
            self.counts.votes_lost += 1;
            return;
        }
        known.gone = true;
        let next = Node::empty(place, &mut self.random);
        self.nodes.push(next);
        self.counts.wiped += 1;
    }

    pub(super) fn end(&mut self, node: usize, restart: Restart) {
        let stands_still = restart == Restart::Process && self.random.percent(30);
        let known = &mut self.nodes[node];
        known.earlier = known.process.take().filter(|_| stands_still);
        known.paused = 0;
        known.inbox.clear();
        known.own.clear();
        known.disk.restart(restart);
        self.counts.restarts += 1;
    }
}
