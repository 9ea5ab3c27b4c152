//! Processes that end in good order, as the server's do (`node/src/stop.rs`): first somebody else
//! leads, if anybody can; then it says goodbye, and goes when it is not needed any more.

use crate::cluster::machine::Stopping;
use crate::cluster::process::Process;
use crate::cluster::rest::REST_NANOS;
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::NodeId;
use ferrite_io::simulated::Restart;

/// For so long somebody who could lead is waited for, of a process that may take so long to end.
const PATIENCE_NANOS: u64 = 3_500 * MILLI;
const STOP_NANOS: u64 = 7_000 * MILLI;
/// It goes so long behind its goodbye, whoever has heard it.
const GOODBYE_NANOS: u64 = 2_000 * MILLI;

impl World {
    /// Somebody ends in good order, the leader preferred.
    pub fn stop_somebody(&mut self) -> Result<(), Violation> {
        let running = self.running();
        if running.is_empty() {
            return Ok(());
        }
        self.look_at_another();
        let leader = self.configuration().leader.node;
        let takes_leader = running.contains(&leader) && self.random.percent(60);
        let chosen = if takes_leader { leader } else { *self.random.pick(&running) };
        self.stop(chosen, PATIENCE_NANOS)
    }

    /// That one does.
    pub fn stop_one(&mut self, id: NodeId) -> Result<(), Violation> {
        self.stop(id, PATIENCE_NANOS)
    }

    fn stop(&mut self, id: NodeId, patience: u64) -> Result<(), Violation> {
        let machine = self.machines.get_mut(&id).expect("machines are known");
        if machine.stopping.is_some() {
            return Ok(());
        }
        machine.stopping = Some(Stopping::HandingOver(self.now + STOP_NANOS.max(2 * patience)));
        self.counts.stops += 1;
        self.trace.line(&format!("{id} is told to end"));
        let machine = self.machines.get_mut(&id).expect("machines are known");
        machine.hands_over = machine.process.as_ref().map(Process::served).unwrap_or_default().into_iter().collect();
        let groups = machine.hands_over.clone();
        if groups.is_empty() {
            machine.stopping = Some(Stopping::HandedOver);
        }
        self.step_machine(id, |process| {
            groups.iter().for_each(|group| process.node.hand_over(*group, None, Some(patience)));
            None
        })
    }

    /// Whether the process has gone.
    pub fn go_on_stopping(&mut self, id: NodeId) -> Result<bool, Violation> {
        let now = self.now;
        let machine = self.machines.get_mut(&id).expect("machines are known");
        let (Some(stopping), Some(process)) = (&mut machine.stopping, &machine.process) else { return Ok(false) };
        if machine.still_until > now {
            return Ok(false);
        }
        match *stopping {
            Stopping::HandingOver(until) if now < until => {}
            Stopping::HandingOver(_) | Stopping::HandedOver => {
                *stopping = Stopping::Leaving;
                self.step_machine(id, |process| {
                    process.node.leave();
                    Some("leaves".to_owned())
                })?;
            }
            Stopping::Leaving if process.node.says_goodbye() => *stopping = Stopping::Goodbye(now + GOODBYE_NANOS),
            Stopping::Leaving => {}
            Stopping::Goodbye(until) if now >= until || process.node.has_left() => {
                self.crash(id, Restart::Process);
                return Ok(true);
            }
            Stopping::Goodbye(_) => {}
        }
        Ok(false)
    }

    /// All nodes are started again one behind the other, each as soon as the one before takes part:
    /// whoever ends leaves somebody who leads.
    pub fn restart_in_peace(&mut self) -> Result<(), Violation> {
        let mut all: Vec<NodeId> = self.machines.keys().copied().collect();
        let first = self.random.below(all.len() as u64) as usize;
        all.rotate_left(first);
        for id in all {
            if !self.decides_without(id) {
                continue;
            }
            self.stop(id, REST_NANOS / 2)?;
            let ended = |world: &World| world.machines[&id].process.is_none();
            self.go_on_until("a node that is told to end ends", id, ended)?;
            self.machines.get_mut(&id).expect("machines are known").down_until = u64::MAX;
            if self.plan.kfactor > 0 {
                self.go_on_until("a node that ends in good order leaves somebody who leads", id, |world| {
                    let leads = |group| world.leader_of(group).is_some_and(|leader| leader != id);
                    world.all_groups().into_iter().all(leads)
                })?;
            }
            self.machines.get_mut(&id).expect("machines are known").down_until = self.now;
            self.go_on_until("a node that starts again takes part", id, |world| {
                let process = world.machines[&id].process.as_ref();
                process.is_some_and(|process| process.node.is_registered())
            })?;
        }
        self.rest()
    }

    /// Whether a majority of the voters is there without the node: one that was wiped has lost its
    /// vote.
    fn decides_without(&self, id: NodeId) -> bool {
        let state = self.metadata();
        let is_there = |voter: &&NodeId| self.machines.contains_key(voter) || self.witnesses.contains_key(voter);
        let there = state.voters().iter().filter(|voter| **voter != id).filter(is_there).count();
        there > state.voters().len() / 2
    }

    fn go_on_until(
        &mut self,
        invariant: &'static str,
        id: NodeId,
        is_so: impl Fn(&World) -> bool,
    ) -> Result<(), Violation> {
        let begin = self.now;
        while !is_so(self) {
            if self.now - begin > REST_NANOS {
                let detail = format!("node {id}: {:?}", self.configuration());
                return Err(Violation { invariant, detail });
            }
            self.step()?;
        }
        Ok(())
    }
}
