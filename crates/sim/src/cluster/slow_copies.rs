//! A copy whose tables are far behind its log, as while it builds an index that the leader has
//! built: callers would wait for it, so it leads only where nobody else can.

use crate::cluster::process::Process;
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::{GroupId, NodeId};
use ferrite_cluster::NotHandedOver;
use ferrite_io::Clock;
use ferrite_io::simulated::Restart;

/// It applies nothing for so long.
const SLOW_MILLIS: u64 = 12_000;
/// Of which it has no part any more behind so many entries.
const WRITES: usize = 3;
const WRITES_MILLIS: u64 = 3_000;
/// What the leader has committed meanwhile is old enough then to count.
const OLD_MILLIS: u64 = 500;
const DECIDED_MILLIS: u64 = 4_000;
const REPLACED_MILLIS: u64 = 9_000;
/// Calls wait for another leader no longer than that: for a decision, an entry and its fsyncs.
const LEADS_MILLIS: u64 = 1_500;

impl Process {
    /// What its copy has to apply takes so long.
    pub fn apply_later(&mut self, group: GroupId, nanos: u64) {
        let now = self.clock.monotonic_nanos();
        self.of_mut(group).applies_from = now + nanos;
    }
}

impl World {
    /// Where the leader and all other members run, who they are: from here on nothing else is done
    /// to them.
    pub(super) fn with_all_members(&mut self) -> Option<(NodeId, Vec<NodeId>)> {
        let leader = self.leader()?;
        let configuration = self.configuration();
        let others = configuration.members().iter().map(|member| member.node);
        let others: Vec<NodeId> = others.filter(|node| *node != leader && self.running().contains(node)).collect();
        if others.is_empty() || others.len() + 1 < configuration.members().len() {
            return None;
        }
        self.network.heal();
        (self.still, self.isolation, self.succession) = (None, None, None);
        Some((leader, others))
    }

    /// The leader hands over, or ends.
    pub fn a_copy_applies_slowly(&mut self) -> Result<(), Violation> {
        let Some((leader, others)) = self.with_all_members() else { return Ok(()) };
        let configuration = self.configuration();
        // The one that would be chosen.
        let slow = others[0];
        self.trace.line(&format!("{slow} is to apply slowly"));
        let process = self.machines.get_mut(&slow).and_then(|machine| machine.process.as_mut());
        process.expect("it runs").apply_later(self.focus, SLOW_MILLIS * MILLI);
        let before = self.callers.writes() + WRITES;
        let epoch = configuration.epoch;
        let has_written = move |world: &World| world.callers.writes() >= before;
        if !self.step_until(WRITES_MILLIS, has_written)? {
            return Ok(());
        }
        self.avoided = Some(leader);
        self.step_until(OLD_MILLIS, |_| false)?;
        let stays = self.configuration().epoch == epoch && self.leader() == Some(leader);
        if stays && self.is_slow(slow) {
            if others.len() > 1 && self.more.percent(75) {
                self.leader_ends_beside(leader, slow)?;
            } else {
                self.leader_hands_over_beside(leader, slow, others.len() > 1)?;
            }
        }
        self.avoided = None;
        if let Some(process) = self.machines.get_mut(&slow).and_then(|machine| machine.process.as_mut()) {
            process.apply_later(self.focus, 0);
        }
        Ok(())
    }

    fn is_slow(&self, node: NodeId) -> bool {
        let process = self.machines[&node].process.as_ref();
        let copy = process.and_then(|process| process.node.intake(self.focus).zip(Some(process)));
        copy.is_some_and(|(copy, process)| copy.applied() < process.of(self.focus).replication.commit())
    }

    fn leader_hands_over_beside(&mut self, leader: NodeId, slow: NodeId, others: bool) -> Result<(), Violation> {
        self.handed_over = None;
        let crashes = self.counts.crashes;
        let group = self.focus;
        self.step_machine(leader, |process| {
            process.node.hand_over(group, None, None);
            None
        })?;
        self.step_until(DECIDED_MILLIS, |world| world.handed_over.is_some())?;
        self.counts.slow_copies += 1;
        let is_refused = matches!(self.handed_over, Some(Err(NotHandedOver::Applying { .. })));
        let leads = self.configuration().leader.node;
        if leads == slow && self.is_slow(slow) {
            let detail = format!("node {leads}, which has to apply; others: {others}, refused: {is_refused}");
            return Err(Violation { invariant: "a copy leads when it has applied", detail });
        }
        if let Some(Ok(next)) = self.handed_over {
            let opens = move |world: &World| world.leader() == Some(next) || world.configuration().leader.node != next;
            // It opens when all members have its first entry: none may have ended since.
            let has_opened = self.step_until(LEADS_MILLIS, opens)?;
            if !has_opened && !self.network.is_split() && self.counts.crashes == crashes {
                let detail = format!("node {next} leads, and executes nothing");
                return Err(Violation { invariant: "a copy leads when it has applied", detail });
            }
        }
        Ok(())
    }

    /// All that live have the same, and say so: the one that is slow has the lowest number.
    fn leader_ends_beside(&mut self, leader: NodeId, slow: NodeId) -> Result<(), Violation> {
        let ends = |world: &World, node: &NodeId| {
            let process = world.machines[node].process.as_ref();
            process.and_then(|process| process.hosted(world.focus)).map(|of| of.replication.durable())
        };
        let configuration = self.configuration();
        let nodes: Vec<NodeId> = configuration.members().iter().map(|member| member.node).collect();
        let end = ends(self, &leader);
        if !nodes.iter().all(|node| ends(self, node) == end) {
            return Ok(());
        }
        self.crash_for(leader, Restart::Process, REPLACED_MILLIS);
        let replaced = move |world: &World| world.configuration().leader.node != leader;
        if !self.step_until(REPLACED_MILLIS, replaced)? {
            return Ok(());
        }
        self.counts.slow_copies += 1;
        let next = self.configuration();
        // Whoever was silent then was not waited for.
        let has_answered = nodes.iter().all(|node| *node == leader || next.has_node(*node));
        if next.leader.node == slow && has_answered && self.is_slow(slow) {
            let detail = format!("{next:?}, and node {slow} has to apply");
            return Err(Violation { invariant: "of equal copies the one leads that has applied", detail });
        }
        Ok(())
    }
}
