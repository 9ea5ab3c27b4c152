//! What has to go well when nothing is done wrong.

use crate::cluster::world::{REST_NANOS, World};
use crate::invariants::Violation;
use ferrite_cluster::NotHandedOver;
use ferrite_group::FIRST_GROUP;
use std::sync::atomic::Ordering::Relaxed;

impl World {
    /// The leader hands over while clients call: none of them hears that it was refused, or that
    /// nobody knows.
    pub fn hand_over_in_peace(&mut self) -> Result<(), Violation> {
        let Some(leader) = self.leader().filter(|_| self.plan.kfactor > 0) else { return Ok(()) };
        let epoch = self.configuration().epoch;
        let before = self.callers.not_executed();
        self.callers.clients.quiet = false;
        for _ in 0..self.random.below(4).min(self.plan.window as u64) {
            let process = self.machines[&leader].process.as_ref().expect("a leader runs");
            self.callers.submit(process, false);
            process.held.waiting.store(self.callers.waiting_for(process.member), Relaxed);
        }
        self.callers.clients.quiet = true;
        self.handed_over = None;
        let begin = self.now;
        self.step_machine(leader, |process| {
            process.node.hand_over(FIRST_GROUP, None, None);
            None
        })?;
        while self.handed_over.is_none() && self.now - begin < REST_NANOS {
            self.step()?;
        }
        self.rest()?;
        let (next, after) = (self.configuration(), self.callers.not_executed());
        let fine = match self.handed_over {
            Some(Ok(to)) => to == next.leader.node && to != leader && after == before,
            // A schema change may take its time where fsyncs take theirs.
            Some(Err(NotHandedOver::Busy)) => next.leader.node == leader && after == before,
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
