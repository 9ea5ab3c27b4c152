//! What a node of the world believes, and what must hold at each moment and at rest.

use super::{GROUP, Process, World};
use ferrite_base::{Epoch, NodeId};
use ferrite_meta::{CUT_OFF_NANOS, Controller, Phase, Presence};
use ferrite_replica::group::Member;

impl World {
    pub(super) fn member(&self, node: usize, process: &Process) -> Member {
        Member { node: self.id(node), incarnation: process.incarnation }
    }

    pub(super) fn here(&self, node: usize) -> Member {
        Member { node: self.id(node), incarnation: self.nodes[node].process.as_ref().unwrap().incarnation }
    }

    /// The epoch that the node leads as far as it knows, and whether its lease says so.
    pub(super) fn leads(&self, node: usize) -> Option<(Epoch, bool)> {
        self.process_leads(node, self.nodes[node].process.as_ref()?)
    }

    pub(super) fn process_leads(&self, node: usize, process: &Process) -> Option<(Epoch, bool)> {
        let known = &self.nodes[node];
        let (_, state) = process.link.state();
        let group = state.groups().get(&GROUP)?;
        let epoch = group.configuration.epoch;
        let leads = group.phase == Phase::Active
            && group.configuration.leader == self.member(node, process)
            && known.promised <= epoch
            && process.resigned != epoch
            && !process.leaves;
        let may_use = process.gives_up != epoch;
        leads.then(|| (epoch, may_use && self.clock(node) < process.link.lease_until()))
    }

    /// All voters have the vote that they were given, and know it, so one of them may lose it.
    /// While there are two, or a third that has nothing yet, none may.
    pub(super) fn votes_are_sound(&self) -> bool {
        let state = self.state();
        let has = |voter: &NodeId| {
            let known = self.nodes.iter().find(|node| node.id == Some(*voter));
            let controller = known.and_then(|node| node.process.as_ref()?.controller.as_ref());
            let knows = |controller: &Controller| controller.votes() && controller.state().1.voters() == state.voters();
            known.is_some_and(|node| node.vote == state.vote(*voter)) && controller.is_some_and(knows)
        };
        state.voters().len() == 3 && state.voters().iter().all(has)
    }

    pub(super) fn check(&mut self) {
        let mut leads = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for process in node.process.iter().chain(&node.earlier) {
                leads.extend(self.process_leads(number, process).map(|(epoch, lease)| (number, epoch, lease)));
            }
        }
        let state = self.state();
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(process) = &node.earlier else { continue };
            let of = node.id.and_then(|id| state.nodes().get(&id));
            let retired = of.is_some_and(|node| node.presence == Presence::Retired);
            let holds = !process.leaves && self.clock(number) < process.link.lease_until();
            assert!(!(retired && holds), "node {:?} is retired while its lease holds", node.id);
        }
        // One that knows of nothing commits for as long as this.
        let may_commit = |number: usize, process: &Process| {
            let until = process.link.lease_until();
            until > 0 && self.clock(number) < until + CUT_OFF_NANOS
        };
        for (number, node) in self.nodes.iter().enumerate() {
            for process in node.process.iter().filter(|process| may_commit(number, process)) {
                let Some((epoch, _)) = self.process_leads(number, process) else { continue };
                let lost = self.losses.keys().find(|lost| **lost > epoch);
                assert!(lost.is_none(), "node {} may commit at {epoch}, which was lost at {lost:?}", number + 1);
            }
        }
        for (node, epoch, lease) in &leads {
            self.counts.leases += u64::from(*lease);
            for (other, later, _) in &leads {
                assert!(
                    !(*lease && later > epoch),
                    "node {} leads epoch {later} while the lease of node {} for {epoch} holds",
                    other + 1,
                    node + 1
                );
            }
        }
    }

    /// No node leads the voters and the group: two would be lost in one.
    pub(super) fn voters_have_another_leader(&self) -> bool {
        (0..self.nodes.len()).all(|node| {
            let controller = self.nodes[node].process.as_ref().and_then(|process| process.controller.as_ref());
            self.leads(node).is_none() || controller.is_none_or(|controller| !controller.is_leader())
        })
    }
}
