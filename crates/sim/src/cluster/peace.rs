//! What has to go well when nothing is done wrong.

use crate::cluster::rest::REST_NANOS;
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::GroupId;
use ferrite_cluster::NotHandedOver;
use std::sync::atomic::Ordering::Relaxed;

/// What a leader executes as it is asked to hand over takes this long at most: calls that were
/// taken wait behind it, and are drained before the leader gives up.
const BUSY_MILLIS: u64 = 500;

impl World {
    /// Nothing is done wrong any more: all nodes become members, and a write succeeds.
    pub fn settle(&mut self) -> Result<(), Violation> {
        self.trace.line("calm");
        self.network.calm = true;
        self.network.heal();
        self.callers.clients.quiet = true;
        for machine in self.machines.values_mut() {
            machine.disk.crash_at(None);
            machine.disk.heal();
            // Some stand still until all others have come to rest.
            if self.random.percent(50) {
                machine.still_until = 0;
            }
            machine.looks_until = 0;
        }
        self.failing = None;
        for witness in self.witnesses.values_mut() {
            witness.disk.crash_at(None);
            witness.disk.heal();
        }
        self.rest()?;
        self.resume_in_peace()?;
        let groups = self.all_groups();
        groups.into_iter().try_for_each(|group| self.write_in_peace(group))
    }

    fn write_in_peace(&mut self, group: GroupId) -> Result<(), Violation> {
        let before = self.callers.writes();
        for _ in 0..40 {
            if self.callers.writes() > before {
                return Ok(());
            }
            let leader = self.leader_of(group).expect("at rest there is one");
            let machine = &self.machines[&leader];
            let process = machine.process.as_ref().expect("a leader runs");
            self.callers.clients.quiet = false;
            let is_asked = self.callers.submit(process, group, false);
            self.callers.clients.quiet = true;
            if !is_asked {
                return Ok(());
            }
            self.rest()?;
        }
        let detail = format!("none of 40 calls of group {group} was a write that succeeded");
        Err(Violation { invariant: "without faults a write succeeds", detail })
    }

    /// The leader hands over while clients call, and in half of the cases while it executes
    /// something long: no call is refused, and no outcome is unknown.
    pub fn hand_over_in_peace(&mut self) -> Result<(), Violation> {
        let Some(leader) = self.leader().filter(|_| self.plan.kfactor > 0) else { return Ok(()) };
        let group = self.focus;
        let epoch = self.configuration().epoch;
        let before = self.callers.not_executed();
        self.callers.clients.quiet = false;
        for _ in 0..self.random.below(4).min(self.plan.window as u64) {
            let process = self.machines[&leader].process.as_ref().expect("a leader runs");
            self.callers.submit(process, group, false);
            process.of(group).held.waiting.store(self.callers.waiting_for(process.member, group), Relaxed);
        }
        self.callers.clients.quiet = true;
        self.handed_over = None;
        let begin = self.now;
        let busy = if self.later.percent(50) { self.later.below(BUSY_MILLIS) * MILLI } else { 0 };
        self.step_machine(leader, |process| {
            process.keep_busy(busy);
            process.node.hand_over(group, None, None);
            None
        })?;
        while self.handed_over.is_none() && self.now - begin < REST_NANOS {
            // Until the leader holds them, clients continue to call.
            if self.later.percent(10) && self.running().contains(&leader) {
                self.call(leader, false);
            }
            self.step()?;
        }
        self.rest()?;
        let next = self.configuration();
        let after = self.callers.not_executed();
        let fine = match self.handed_over {
            Some(Ok(to)) => to == next.leader.node && to != leader && after == before,
            // A schema change may take its time where fsyncs take theirs.
            Some(Err(NotHandedOver::Busy | NotHandedOver::Applying { .. })) => {
                next.leader.node == leader && after == before
            }
            _ => false,
        };
        if fine {
            return Ok(());
        }
        let detail = format!(
            "node {leader} hands over in epoch {epoch}: {:?}; then {next:?}; {} calls were not executed or are unknown",
            self.handed_over,
            after - before
        );
        Err(Violation { invariant: "a hand-over fails no call", detail })
    }
}
