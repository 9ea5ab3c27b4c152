//! When a cluster is at rest: everybody is there and knows the same, and nothing is on its way.

use crate::cluster::contents::contents;
use crate::cluster::invariants::{copies, snapshots};
use crate::cluster::world::{MILLI, World, violated};
use crate::invariants::Violation;
use ferrite_base::{GroupId, NodeId};
use ferrite_meta::{Phase, Presence};
use ferrite_partition::applier::Intake;
use ferrite_replica::group::GroupConfiguration;
use std::sync::atomic::Ordering::Relaxed;

/// In which all has to be well again once nothing is done wrong any more.
pub(super) const REST_NANOS: u64 = 90_000 * MILLI;
const REST_STEPS: u64 = 90_000;
/// Between two looks whether all is well.
const LOOK_STEPS: u64 = 8;

impl World {
    /// Goes on until nothing is on its way, and all nodes are members.
    pub fn rest(&mut self) -> Result<(), Violation> {
        let begin = self.now;
        let steps = self.counts.steps;
        loop {
            // Whatever has come to rest stays so for a while.
            if self.counts.steps.is_multiple_of(LOOK_STEPS) && self.unrest().is_none() {
                return Ok(());
            }
            if self.now - begin > REST_NANOS || self.counts.steps - steps > REST_STEPS {
                let detail = self.unrest().unwrap_or_default();
                return Err(Violation { invariant: "without faults all comes to rest", detail });
            }
            self.step()?;
        }
    }

    /// What is not at rest.
    fn unrest(&self) -> Option<String> {
        let state = self.metadata();
        for (id, group) in state.groups() {
            let configuration = &group.configuration;
            let Some(leader) = self.leader_of(*id).filter(|_| group.phase == Phase::Active) else {
                return Some(format!("nobody leads group {id}: {configuration:?}, {:?}", group.phase));
            };
            if !self.process(leader).lease.holds() {
                return Some(format!("node {leader} leads without a lease"));
            }
            if configuration.members().len() != self.plan.kfactor as usize + 1 {
                return Some(format!("members of group {id} are missing: {configuration:?}"));
            }
        }
        if let Some(newcomer) = self.newcomers.first() {
            return Some(format!("the machine at node{} has joined nothing", newcomer.place));
        }
        for (id, node) in state.nodes() {
            let there = self.machines.contains_key(id) || self.witnesses.contains_key(id);
            if there == (node.presence == Presence::Retired) {
                return Some(format!("node {id} is {:?}", node.presence));
            }
        }
        let votes = state.voters().iter().filter(|id| self.vote_of(**id) == state.vote(**id)).count();
        if votes != self.plan.voters() || votes != state.voters().len() {
            return Some(format!("votes are missing: {:?}", state.voters()));
        }
        for (id, witness) in &self.witnesses {
            let Some(running) = &witness.running else { return Some(format!("witness {id} does not run")) };
            if !running.node.is_registered() || !running.seat.votes() {
                return Some(format!("witness {id} is not there"));
            }
        }
        for (id, machine) in &self.machines {
            let Some(process) = &machine.process else { return Some(format!("node {id} does not run")) };
            if process.log_has_failed() {
                return Some(format!("the log of node {id} has failed"));
            }
            if !process.node.is_registered() || !process.seat.votes() {
                return Some(format!("node {id} is not there"));
            }
            if process.all_hosted().any(|of| of.held.holds.load(Relaxed)) {
                return Some(format!("node {id} holds its calls"));
            }
            if !process.is_at_rest() || !machine.inbox.is_empty() {
                return Some(format!("node {id} is at work: {}", process.work()));
            }
        }
        for (id, group) in state.groups() {
            let behind = self.unrest_of(*id, &group.configuration);
            if behind.is_some() {
                return behind;
            }
        }
        if !self.lot_links.is_idle() {
            return Some("messages about lots are on their way".to_owned());
        }
        let waiting = self.callers.waiting();
        (waiting > 0).then(|| format!("{waiting} calls have no answer"))
    }

    /// Which member of a group does not have what its leader has.
    fn unrest_of(&self, group: GroupId, configuration: &GroupConfiguration) -> Option<String> {
        let mark = self.process(configuration.leader.node).of(group).replication.end();
        for (id, machine) in self.machines.iter().filter(|(id, _)| configuration.has_node(**id)) {
            let process = machine.process.as_ref().expect("seen just now");
            if !configuration.has(process.member) {
                return Some(format!("an earlier process of node {id} is the member: {configuration:?}"));
            }
            let replication = &process.of(group).replication;
            let end = replication.end();
            let commit = replication.commit();
            if end != mark || commit != mark.position {
                return Some(format!("node {id} has {end:?}, committed {commit}, and the leader has {mark:?}"));
            }
        }
        None
    }

    /// What the nodes have, when all is at rest.
    pub fn compare_copies(&mut self) -> Result<(), Violation> {
        for machine in self.machines.values() {
            let process = machine.process.as_ref().expect("at rest all run");
            for of in process.all_hosted() {
                let on_disk = of.copying.on_disk(&machine.disk);
                let on_disk = on_disk.unwrap_or_else(|error| panic!("a healthy disk is read: {error}"));
                snapshots::check(&on_disk).map_err(violated("what a snapshot needs is in the log"))?;
            }
        }
        self.all_groups().into_iter().try_for_each(|group| self.compare_copies_of(group))
    }

    fn compare_copies_of(&mut self, group: GroupId) -> Result<(), Violation> {
        let mut all: Vec<(NodeId, Vec<String>)> = Vec::new();
        let configuration = self.configuration_of(group);
        for (id, machine) in self.machines.iter().filter(|(id, _)| configuration.has_node(**id)) {
            let process = machine.process.as_ref().expect("at rest all run");
            self.counts.compared += process.node.intake(group).map_or(0, Intake::compared);
            let found = process.of(group).with_stores(contents).expect("at rest all stores are at home");
            all.push((*id, found.map_err(violated("indexes and views equal a scan"))?));
        }
        copies::check(&all).map_err(violated("copies at one position are equal"))
    }

    /// The vote that a node has, if its process knows that it counts.
    pub fn vote_of(&self, id: NodeId) -> Option<u32> {
        let process = self.machines.get(&id).and_then(|machine| machine.process.as_ref());
        let witness = self.witnesses.get(&id).and_then(|witness| witness.running.as_ref());
        let seat = process.map(|process| &process.seat).or(witness.map(|running| &running.seat))?;
        seat.counts().then(|| seat.vote())
    }
}
