//! Where fsyncs are not waited for, all members lose their power together: nobody is known to have
//! what was acknowledged, and nobody leads until an operator accepts that, as by `ferrite admin
//! recover --accept-loss`. What is there then is a beginning of the stream.

use crate::cluster::invariants::committed;
use crate::cluster::operator::Operator;
use crate::cluster::process::Process;
use crate::cluster::world::{MILLI, World};
use crate::invariants::{self, Violation};
use ferrite_base::{NodeId, Position};
use ferrite_group::FIRST_GROUP;
use ferrite_io::simulated::Restart;
use ferrite_meta::{Ask, Phase, Presence};
use ferrite_replica::group::Member;

/// Clients call for so long at most before the power goes.
const LOAD_MILLIS: u64 = 3_000;
/// Machines come back within that.
const DARK_MILLIS: u64 = 2_000;
/// Between two attempts of the operator.
const ASK_MILLIS: u64 = 500;
/// Somebody leads within that: after a loss of power the voters wait ten seconds for all members.
pub(super) const ACCEPTED_MILLIS: u64 = 60_000;

impl World {
    /// From rest to rest. Whether anything is left.
    pub fn lose_all(&mut self) -> Result<bool, Violation> {
        self.trace.line("all are to lose their power");
        self.callers.keep_the_schema();
        self.callers.clients.quiet = false;
        let end = self.now + (1 + self.random.below(LOAD_MILLIS)) * MILLI;
        while self.now < end {
            self.step()?;
        }
        let configuration = self.configuration();
        let members: Vec<NodeId> = configuration.members().iter().map(|member| member.node).collect();
        for node in self.running() {
            if members.contains(&node) || self.random.percent(70) {
                self.counts.losses += 1;
                self.crash(node, Restart::Power);
                self.rots(node);
                let down = self.random.below(DARK_MILLIS) * MILLI;
                self.machines.get_mut(&node).expect("it ran").down_until = self.now + down;
            }
        }
        self.callers.clients.quiet = true;
        let chosen = *self.random.pick(&members);
        self.operator = Some(Operator { group: FIRST_GROUP, chosen, epoch: configuration.epoch, next: self.now });
        let end = self.now + ACCEPTED_MILLIS * MILLI;
        loop {
            let known = self.metadata();
            let group = &known.groups()[&FIRST_GROUP];
            let epoch = group.configuration.epoch;
            if group.phase == Phase::Active && epoch > configuration.epoch {
                let lost = group.loss.filter(|(when, _)| *when > configuration.epoch);
                self.trace.line(&format!("{epoch} begins, with a loss: {lost:?}"));
                self.counts.accepted += u64::from(lost.is_some());
                let parent = group.parent;
                let lost = lost.is_some();
                if lost && self.ledger.with(|book| committed::lost(book, FIRST_GROUP, parent, epoch)) {
                    self.callers.may_come_back();
                }
                self.rest()?;
                self.operator = None;
                if lost {
                    self.check_what_is_left()?;
                }
                return Ok(true);
            }
            if self.has_nothing_left(&members) || self.has_lost_its_votes() {
                self.trace.line("nothing is left");
                return Ok(false);
            }
            if self.now > end {
                let detail = format!("{:?} since {configuration:?}", group.phase);
                return Err(Violation { invariant: "somebody leads when a loss is accepted", detail });
            }
            self.accept();
            self.step()?;
        }
    }

    /// No member has an entry: who leads by an accepted loss has some.
    fn has_nothing_left(&self, members: &[NodeId]) -> bool {
        let is_empty = |process: &Process| process.of(FIRST_GROUP).replication.end().position == Position(0);
        members
            .iter()
            .map(|node| &self.machines[node])
            .all(|machine| machine.is_beyond_reading || machine.process.as_ref().is_some_and(is_empty))
    }

    /// Too few voters can start for anything to be decided: what is left is a database without
    /// others.
    fn has_lost_its_votes(&self) -> bool {
        let voters = self.voters();
        let is_lost = |voter: &&NodeId| self.machines.get(voter).is_some_and(|machine| machine.is_beyond_reading);
        2 * voters.iter().filter(is_lost).count() >= voters.len()
    }

    /// A node whose copy cannot be read does not start, and those that run are no majority of the
    /// voters without it.
    fn lacks_the_vote_of(&self, id: NodeId) -> bool {
        let voters = self.voters();
        let running = self.running();
        let votes = |voter: &&NodeId| {
            running.contains(voter) || self.witnesses.get(voter).is_some_and(|witness| witness.running.is_some())
        };
        voters.contains(&id) && 2 * voters.iter().filter(votes).count() <= voters.len()
    }

    /// What an operator asks of any node that runs.
    pub(super) fn accept(&mut self) {
        let Some(Operator { group, chosen, epoch, next }) = self.operator else { return };
        if self.now < next {
            return;
        }
        self.operator = Some(Operator { group, chosen, epoch, next: self.now + ASK_MILLIS * MILLI });
        let known = self.metadata();
        let running = self.running();
        let runs = known.nodes().get(&chosen).filter(|node| node.presence == Presence::Running);
        let Some(node) = runs.filter(|_| running.contains(&chosen)) else { return };
        if self.process(chosen).of(group).replication.end().position == Position(0) {
            return self.chooses_another();
        }
        let member = Member { node: chosen, incarnation: node.incarnation };
        let asked = *self.random.pick(&running);
        let process = self.process(asked);
        let ask = Ask::AcceptLoss { group, from: process.member, expected: epoch, member };
        process.seat.asks().push(ask);
        self.trace.line(&format!("{asked} is told to go on with {member:?}"));
    }

    /// The operator cuts the log of the chosen node where it cannot be read, and of one whose vote
    /// is needed, or goes on with another node's data where nothing of it can be read. Where things
    /// go wrong yet, other voters may come back by themselves.
    pub fn cuts_the_log(&mut self, id: NodeId) -> Option<bool> {
        if self.operator.is_none() && !self.network.calm {
            return None;
        }
        let is_chosen = self.operator.is_some_and(|operator| operator.chosen == id);
        if !is_chosen && !self.lacks_the_vote_of(id) {
            return None;
        }
        let machine = self.machines.get_mut(&id).expect("machines are known");
        let cut = machine.accept_loss();
        machine.is_beyond_reading = !cut;
        self.trace.line(&format!("the log of {id} is cut: {cut}"));
        if cut {
            self.counts.logs_cut += 1;
        } else if is_chosen {
            self.chooses_another();
        }
        Some(cut)
    }

    fn chooses_another(&mut self) {
        let members = self.configuration().members().to_vec();
        let chosen = self.random.pick(&members).node;
        self.operator = self.operator.map(|operator| Operator { chosen, ..operator });
    }

    /// The rules that hold where something may be missing at the end. From there on all hold for
    /// what is there.
    pub(super) fn check_what_is_left(&mut self) -> Result<(), Violation> {
        let leader = self.leader().expect("at rest there is one");
        if self.process(leader).of(self.focus).version() == 0 {
            // Not even the schema is left.
            self.callers.begin_again();
            self.submit_first_schema(self.focus);
            self.rest()?;
        }
        self.compare_copies()?;
        let state = self.state();
        self.callers.note_what_is_torn(&state);
        self.trace.line(&format!("left {:?} version {} rows {:x}", state.heads, state.version, state.rows_hash));
        let invariant = "the schema that is left is one that was made";
        self.callers.go_back_to(&state).map_err(|detail| Violation { invariant, detail })?;
        let history = &mut self.callers.clients.history;
        invariants::check_whole(history, &state)?;
        invariants::adopt(history, &state);
        self.callers.forget_what_is_lost();
        self.noted()
    }
}
