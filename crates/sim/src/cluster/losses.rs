//! Where fsyncs are not waited for, a machine that stops takes what its node has acknowledged, and
//! the node's next process says that its log may lack something. So a node may lose that only while
//! another one has everything, and nobody decides otherwise at the same time.

use crate::cluster::process::Process;
use crate::cluster::world::{MILLI, World};
use crate::node::DIRECTORY;
use ferrite_base::{GroupId, NodeId};
use ferrite_io::Disk;
use ferrite_io::simulated::Restart;
use ferrite_member::leads_without;
use std::path::Path;

/// A copy that cannot be read is looked at again after so long, as an operator would start it.
const AGAIN_MILLIS: u64 = 500;
/// Of a hundred disks whose machine has lost its power, a bit rots on so many.
const ROTS: u64 = 40;

impl Process {
    /// Whether its copy is put aside since others lead by an accepted loss.
    pub fn was_lost(&self, group: GroupId, reason: &str) -> bool {
        let groups = self.node.state().groups();
        groups.get(&group).is_some_and(|group| group.loss.is_some()) && reason.contains("has led since epoch")
    }
}

impl World {
    /// Whether a node may lose what it has acknowledged: the leader has everything, and a lease.
    pub fn may_lose(&self, id: NodeId) -> bool {
        let leader = self.configuration().leader;
        leader.node != id
            && self.machines.get(&leader.node).is_some_and(|machine| {
                let process = machine.process.as_ref().filter(|process| process.member == leader);
                let has_all = process.is_some_and(|process| {
                    !process.served().is_empty() && process.lease.holds() && process.whole && !process.log_has_failed()
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
            // A node whose copy cannot be read does not vote until others lead without it.
            if self.voters() != [id] {
                self.rots(id);
            }
        }
        loses
    }

    /// Of some that lose their power, what the log has on the disk does not stay whole either.
    pub fn rots(&mut self, id: NodeId) {
        if !self.random.percent(ROTS) {
            return;
        }
        let machine = self.machines.get_mut(&id).expect("machines are known");
        let disk = &machine.disk;
        let dir = Path::new(DIRECTORY);
        let names = disk.list(dir).expect("a healthy disk");
        let logs: Vec<_> =
            names.into_iter().filter(|name| name.starts_with("redo-") && name.ends_with(".log")).collect();
        let Some(path) = (!logs.is_empty()).then(|| dir.join(self.random.pick(&logs))) else { return };
        let bytes = disk.bytes_of(&path).unwrap_or_default();
        // Where there is something.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        if used > 0 {
            let position = self.random.below(used);
            let bit = self.random.below(8) as u8;
            self.trace.line(&format!("bit {bit} of byte {position} of {} rots on {id}", path.display()));
            disk.rot(&path, position, bit);
            machine.has_rotted = true;
        }
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
        let is_cut = !is_given_up && self.cuts_the_log(id) == Some(true);
        let down_until = self.now + if is_given_up || is_cut { 0 } else { AGAIN_MILLIS * MILLI };
        self.machines.get_mut(&id).expect("machines are known").down_until = down_until;
    }
}
