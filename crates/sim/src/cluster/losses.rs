//! Where fsyncs are not waited for, a machine that stops takes what its node has acknowledged, and
//! the node's next process says that its log may lack something. So a node may lose that only while
//! another one has everything, and nobody decides otherwise at the same time.

use crate::cluster::world::{MILLI, World};
use ferrite_base::NodeId;
use ferrite_io::simulated::Restart;
use ferrite_node::leads_without;

/// A copy that cannot be read is looked at again after so long, as an operator would start it.
const AGAIN_MILLIS: u64 = 500;

impl World {
    /// Whether a node may lose what it has acknowledged: the leader has everything, and a lease.
    pub fn may_lose(&self, id: NodeId) -> bool {
        let leader = self.configuration().leader;
        leader.node != id
            && self.machines.get(&leader.node).is_some_and(|machine| {
                let process = machine.process.as_ref().filter(|process| process.member == leader);
                let has_all = process.is_some_and(|process| {
                    process.leads.is_some() && process.lease.holds() && process.whole && !process.log_has_failed()
                });
                machine.still_until <= self.now && has_all
            })
    }

    /// A machine whose node waits for no fsync loses its power, if it may.
    pub fn loses(&mut self, id: NodeId) -> bool {
        let loses = self.random.percent(self.plan.faults.losses) && self.may_lose(id);
        if loses {
            self.counts.losses += 1;
            self.crash(id, Restart::Power);
        }
        loses
    }

    /// Who is to lead has a healthy disk from then on: its log would be all that is left.
    pub fn spare_the_leader(&mut self) {
        if let Some(failing) = self.failing
            && self.configuration().leader.node == failing
        {
            self.failing = None;
            if let Some(machine) = self.machines.get(&failing) {
                machine.disk.heal();
            }
        }
    }

    /// What a node has after such a loss cannot be read. It is put aside as soon as others lead
    /// without it, as the server does; until then the node does not start.
    pub fn finds_its_copy_unusable(&mut self, id: NodeId) {
        self.trace.line(&format!("{id} cannot read its copy"));
        self.counts.unusable += 1;
        let machine = &self.machines[&id];
        let leads = |other: &NodeId| leads_without(id, self.process(*other).node.state(), &machine.known);
        let is_given_up = self.running().iter().any(leads);
        if is_given_up {
            machine.throw_away();
        }
        let down_until = self.now + if is_given_up { 0 } else { AGAIN_MILLIS * MILLI };
        self.machines.get_mut(&id).expect("machines are known").down_until = down_until;
    }
}
