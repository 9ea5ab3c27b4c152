//! A member that cannot run all procedures, as one without a JDK: it leads only where no other
//! member can (docs/decisions/0102-nodes-without-java.md).

use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::NodeId;
use ferrite_io::simulated::Restart;
use std::sync::atomic::Ordering::Relaxed;

/// Members say what they can run within that, ten times.
const SAID_MILLIS: u64 = 500;
const DECIDED_MILLIS: u64 = 4_000;
const REPLACED_MILLIS: u64 = 9_000;
const RULE: &str = "a member that runs all procedures leads";

impl World {
    /// The leader hands over, ends, or ends in good order.
    pub fn a_member_cannot_run_all(&mut self) -> Result<(), Violation> {
        let Some((leader, others)) = self.with_all_members() else { return Ok(()) };
        // The one that would be chosen.
        let unable = others[0];
        // One that stands still hears nothing of what others can run, and says nothing.
        if [leader, unable].iter().any(|node| self.machines[node].still_until > self.now) {
            return Ok(());
        }
        let configuration = self.configuration();
        self.trace.line(&format!("{unable} cannot run all procedures"));
        self.process(unable).unable.store(true, Relaxed);
        self.step_until(SAID_MILLIS, |_| false)?;
        if self.configuration() == configuration && self.leader() == Some(leader) {
            match self.later.below(3) {
                0 if others.len() > 1 => self.leader_ends_beside_unable(leader, unable, &others)?,
                1 if others.len() > 1 => self.leader_stops_beside_unable(leader, unable, &others)?,
                1 => self.leader_leaves_unable_alone(leader, unable)?,
                _ => self.leader_hands_over_to_unable(leader, unable)?,
            }
        }
        self.network.heal();
        for machine in self.machines.values() {
            machine.process.iter().for_each(|process| process.unable.store(false, Relaxed));
        }
        Ok(())
    }

    fn cannot_run_all(&self, node: NodeId) -> bool {
        let process = self.machines.get(&node).and_then(|machine| machine.process.as_ref());
        process.is_some_and(|process| process.unable.load(Relaxed))
    }

    /// An operator asks for it, or for any other.
    fn leader_hands_over_to_unable(&mut self, leader: NodeId, unable: NodeId) -> Result<(), Violation> {
        let to = self.later.percent(50).then_some(unable);
        let group = self.focus;
        self.handed_over = None;
        self.step_machine(leader, |process| {
            process.node.hand_over(group, to, None);
            None
        })?;
        self.step_until(DECIDED_MILLIS, |world| world.handed_over.is_some())?;
        self.counts.unable += 1;
        if self.handed_over == Some(Ok(unable)) && self.cannot_run_all(unable) {
            let detail = format!("node {leader} hands over to node {unable}, asked for {to:?}");
            return Err(Violation { invariant: RULE, detail });
        }
        Ok(())
    }

    fn leader_ends_beside_unable(
        &mut self,
        leader: NodeId,
        unable: NodeId,
        others: &[NodeId],
    ) -> Result<(), Violation> {
        self.crash_for(leader, Restart::Process, REPLACED_MILLIS);
        self.step_until(REPLACED_MILLIS, move |world| world.configuration().leader.node != leader)?;
        self.is_not_led_by(leader, unable, others)
    }

    fn leader_stops_beside_unable(
        &mut self,
        leader: NodeId,
        unable: NodeId,
        others: &[NodeId],
    ) -> Result<(), Violation> {
        self.stop_one(leader)?;
        self.step_until(REPLACED_MILLIS, move |world| world.configuration().leader.node != leader)?;
        self.is_not_led_by(leader, unable, others)
    }

    fn is_not_led_by(&mut self, leader: NodeId, unable: NodeId, others: &[NodeId]) -> Result<(), Violation> {
        let next = self.configuration();
        if next.leader.node == leader {
            return Ok(());
        }
        self.counts.unable += 1;
        // A member that was silent then was not waited for.
        let was_there = |node: &NodeId| {
            let machine = self.machines.get(node).filter(|machine| machine.still_until <= self.now);
            machine.and_then(|machine| machine.process.as_ref()).is_some_and(|process| next.has(process.member))
        };
        let were_there = others.iter().all(was_there) && !self.network.is_split();
        if next.leader.node == unable && were_there && self.cannot_run_all(unable) {
            return Err(Violation { invariant: RULE, detail: format!("{next:?}, and node {unable} cannot") });
        }
        Ok(())
    }

    /// It is better than none.
    fn leader_leaves_unable_alone(&mut self, leader: NodeId, unable: NodeId) -> Result<(), Violation> {
        self.stop_one(leader)?;
        let begin = self.now;
        let led = self.step_until(REPLACED_MILLIS, move |world| world.leader() == Some(unable))?;
        self.counts.unable += u64::from(led);
        self.trace.line(&format!("{unable} leads after {} ms: {led}", (self.now - begin) / MILLI));
        Ok(())
    }
}
