//! A leader is the only member, and is cut off or stands still while an operator takes it for lost:
//! another node leads without what it has. From then on it acknowledges nothing, whatever its
//! clients ask, and however long it stood still.

use crate::cluster::accepting::ACCEPTED_MILLIS;
use crate::cluster::invariants::committed;
use crate::cluster::operator::Operator;
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use crate::operation::{Answer, Told};
use ferrite_base::{NodeId, Position};
use ferrite_io::simulated::Restart;
use ferrite_meta::Phase;
use ferrite_replica::group::Member;

/// The other members are left out within that.
const ALONE_MILLIS: u64 = 12_000;
/// They stay away for that long, unless they are called back.
const AWAY_MILLIS: u64 = 60_000;
/// What the leader acknowledges behind the cut is lost.
const LOST_MILLIS: u64 = 1_500;
/// Calls of the former leader when another one leads: those that wait while it stands still, and
/// those that come later.
const CALLS_THAT_WAIT: usize = 4;
const CALLS: usize = 8;
const CALLS_MILLIS: u64 = 700;

/// Changes of a replicated table before, within that.
const TABLE_CHANGES: u64 = 12;
const TABLE_MILLIS: u64 = 600;

impl World {
    /// From rest to rest.
    pub fn accept_the_loss_of_a_leader_that_lives(&mut self) -> Result<(), Violation> {
        self.callers.keep_the_schema();
        let group = self.focus;
        self.change_a_replicated_table(TABLE_CHANGES, TABLE_MILLIS)?;
        let before = self.configuration();
        let old = before.leader;
        let others: Vec<NodeId> =
            before.members().iter().map(|member| member.node).filter(|node| *node != old.node).collect();
        let beyond = self.voters().iter().filter(|voter| !before.has_node(**voter)).count();
        let left = self.voters().iter().filter(|voter| !others.contains(voter)).count();
        // Without the others the voters decide, and without the leader too.
        if others.is_empty() || beyond == 0 || 2 * left <= self.voters().len() {
            return Ok(());
        }
        self.trace.line(&format!("{old:?} is to be given up by group {group} while it lives"));
        for other in &others {
            self.crash_for(*other, Restart::Process, AWAY_MILLIS);
        }
        let is_alone = move |world: &World| {
            let process = world.machines.get(&old.node).and_then(|machine| machine.process.as_ref());
            let known = process.and_then(|process| process.node.state().groups().get(&group));
            known.is_some_and(|group| group.configuration.leader == old && group.configuration.members().len() == 1)
        };
        let is_alone = self.step_until(ALONE_MILLIS, is_alone)? && self.leader() == Some(old.node);
        for other in &others {
            self.machines.get_mut(other).expect("machines are known").down_until = self.now;
        }
        if is_alone {
            // What the group loses of them, others have.
            self.change_a_replicated_table(TABLE_CHANGES, TABLE_MILLIS)?;
            let chosen = *self.more.pick(&others);
            self.is_given_up(old, chosen)?;
        }
        self.network.heal();
        self.rest()?;
        if self.operator.take().is_some() {
            self.check_what_is_left()?;
        }
        Ok(())
    }

    fn is_given_up(&mut self, old: Member, chosen: NodeId) -> Result<(), Violation> {
        self.network.cut_off(&self.everybody(), old.node);
        self.counts.cut_off += 1;
        let id = self.focus;
        let epoch = self.configuration().epoch;
        self.callers.clients.quiet = false;
        let millis = self.more.below(LOST_MILLIS);
        self.step_until(millis, |_| false)?;
        self.callers.clients.quiet = true;
        let stands_still = self.more.percent(60);
        if stands_still {
            self.machines.get_mut(&old.node).expect("it runs").still_until = u64::MAX;
            self.counts.pauses += 1;
        }
        self.operator = Some(Operator { group: id, chosen, epoch, next: self.now });
        let end = self.now + ACCEPTED_MILLIS * MILLI;
        loop {
            let known = self.metadata();
            let group = &known.groups()[&id];
            if group.phase == Phase::Active && group.configuration.epoch > epoch {
                assert_eq!(group.configuration.leader.node, chosen, "nobody else was there");
                let parent = group.parent;
                let begun = group.configuration.epoch;
                self.counts.lived += 1;
                self.given_up = Some(old.node);
                if self.ledger.with(|book| committed::lost(book, id, parent, begun)) {
                    self.callers.may_come_back();
                }
                return self.asks_who_was_given_up(old);
            }
            if self.now > end {
                let detail = format!("{:?} since {epoch}", group.phase);
                return Err(Violation { invariant: "somebody leads when a loss is accepted", detail });
            }
            let runs = self.machines[&chosen].process.as_ref();
            if runs.is_some_and(|process| process.of(id).replication.end().position > Position(0)) {
                self.accept();
            }
            self.step()?;
        }
    }

    /// What is not committed by now, and what comes, it acknowledges no more. A read that was
    /// confirmed before may be answered yet: its answer was on its way.
    fn asks_who_was_given_up(&mut self, old: Member) -> Result<(), Violation> {
        let group = self.focus;
        let mut asked = self.callers.asked(old, group);
        let first = self.callers.clients.history.operations.len();
        self.trace.line(&format!("{old:?} was given up, and has not answered {asked:?}"));
        for number in 0..CALLS_THAT_WAIT + CALLS {
            if number == CALLS_THAT_WAIT {
                self.machines.get_mut(&old.node).expect("it runs").still_until = 0;
            }
            let process = self.machines[&old.node].process.as_ref();
            if process.is_some_and(|process| process.member == old) {
                let looks = self.more.percent(30);
                self.call(old.node, looks);
                asked.extend(self.callers.asked(old, group));
            }
            for _ in 0..self.more.below(8) {
                self.step()?;
            }
        }
        self.step_until(CALLS_MILLIS, |_| false)?;
        let operations = &self.callers.clients.history.operations;
        let is_done = |number: &&usize| match operations[**number].told {
            Told::Done(Answer::Steps(_)) => true,
            Told::Done(_) => **number >= first,
            _ => false,
        };
        match asked.iter().find(is_done) {
            Some(number) => Err(Violation {
                invariant: "a leader whose loss was accepted acknowledges nothing",
                detail: format!("operation {number}: {:?}", operations[*number]),
            }),
            None => Ok(()),
        }
    }
}
