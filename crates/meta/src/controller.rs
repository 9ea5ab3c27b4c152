//! A voter with its duties: it answers nodes, and while it leads the voters it grants leases, finds
//! out which processes are gone, and seals groups without a leader (docs/replication.md, sections 7
//! to 10).
//!
//! Promises that a lease is granted only by a leader that still led after the question came, and
//! that no group is sealed, and no node registered anew, while a lease granted to the earlier
//! process by any leader may hold. What it remembers besides the state is for one term: a successor
//! begins again.

mod duties;
mod failover;
mod nodes;
mod seal;

pub use nodes::has_lost_its_vote;
pub(crate) use nodes::offers_vote;

use crate::ask::{Ask, MetadataUpdate, Question};
use crate::bytes::Malformed;
use crate::command::Command;
use crate::parts::{Group, Node, Presence};
use crate::state::State;
use crate::voter::{Did, ReadId, Voter, VoterError};
use duties::{Duties, Waiting, configure};
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_replica::group::Member;
use seal::Seal;
use std::sync::Arc;

/// Questions that wait for the voters; the asking nodes ask again.
const WAITING_MAX: usize = 4_096;

/// What it wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Out {
    /// To a voter.
    Raft { to: NodeId, message: Vec<u8> },
    /// To any node, this one too.
    Update { to: NodeId, update: MetadataUpdate },
}

pub struct Controller {
    here: NodeId,
    voter: Voter,
    duties: Option<Duties>,
    /// The state as last sent to nodes, shared by the messages to all of them.
    published: (u64, Arc<State>),
    /// Nodes that asked something that this voter does not lead to.
    asked: Vec<(NodeId, u64)>,
}

impl Controller {
    pub fn new(here: NodeId, voter: Voter) -> Controller {
        let (index, state) = voter.state();
        let published = (index, Arc::new(state.clone()));
        Controller { here, voter, duties: None, published, asked: Vec::new() }
    }

    pub fn is_leader(&self) -> bool {
        self.duties.is_some()
    }

    /// Whether it counts when the voters decide. A new one does not yet.
    pub fn votes(&self) -> bool {
        self.voter.votes()
    }

    /// Writes the vote as it is. An error: as of [`Controller::work`].
    pub fn probe(&mut self) -> Result<(), VoterError> {
        self.voter.probe()
    }

    /// Which of its node's votes it is.
    pub fn number(&self) -> u32 {
        self.voter.number()
    }

    /// The state, and how many commands are in it.
    pub fn state(&self) -> (u64, &State) {
        self.voter.state()
    }

    /// For each group without a leader: the members that could help and have not answered.
    pub fn waits_for(&self) -> Vec<(GroupId, Vec<NodeId>)> {
        let Some(duties) = &self.duties else { return Vec::new() };
        let missing = |(id, seal): (&GroupId, &Seal)| {
            let group = self.voter.state().1.groups().get(id)?;
            let nodes = group.configuration.members().iter().map(|member| member.node);
            Some((*id, nodes.filter(|node| !seal.answers.contains_key(node)).collect()))
        };
        duties.seals.iter().filter_map(missing).collect()
    }

    /// A message of another voter.
    pub fn handle_raft(&mut self, from: NodeId, bytes: &[u8]) -> Result<(), Malformed> {
        self.voter.handle_raft(from, bytes)
    }

    /// A question of a node's process.
    pub fn asked(&mut self, from: NodeId, question: Question, now: u64) {
        let Question { number, ask } = question;
        let state = self.voter.state().1;
        let Some(duties) = &mut self.duties else {
            let index = if let Ask::Look { index, .. } = ask { index } else { 0 };
            return self.asked.push((from, index));
        };
        match ask {
            Ask::Register { id, node } => {
                let command = duties.register(state, id, node, now);
                self.propose(command);
                self.asked.push((from, 0));
            }
            Ask::Join { key, node } => {
                let command = duties.join(state, key, node, now);
                self.propose(command);
                self.asked.push((from, 0));
            }
            Ask::Remove { lost, .. } => {
                let command = duties.remove(state, self.here, lost, now);
                self.propose(command);
                self.asked.push((from, 0));
            }
            Ask::Goodbye(Member { node, incarnation }) => {
                self.voter.propose(&Command::Goodbye { node, incarnation });
            }
            Ask::Look { member, index } => {
                // A process that cannot be granted a lease at the moment is not gone.
                if is_current(state, member) {
                    duties.heard.insert(member.node, now);
                }
                let Some(read) = self.voter.read() else { return self.asked.push((from, index)) };
                duties.waiting.insert(read, Waiting { from, number, member, index });
                if duties.waiting.len() > WAITING_MAX {
                    duties.waiting.pop_first();
                }
            }
            Ask::Propose { group, from, proposal, parent } => {
                // A leader asks repeatedly until it hears.
                if let Some(command) = configure(state, group, from, proposal, parent)
                    && let Command::Configure { configuration, .. } = &command
                    && duties.is_new(group, configuration, now)
                    && self.voter.propose(&command)
                {
                    duties.configured.insert(group, (configuration.clone(), now));
                }
            }
            Ask::Resign { group, from: member, epoch } => {
                let command = duties.resigns(state, group, member, epoch, now);
                self.propose(command);
                self.asked.push((from, 0));
            }
            Ask::AcceptLoss { group, expected, member, .. } => {
                let command = duties.accepts_loss(state, group, expected, member, now);
                self.propose(command);
                self.asked.push((from, 0));
            }
            Ask::Equal { group, loss, .. } => {
                let command = equal(state, group, loss);
                self.propose(command);
                self.asked.push((from, 0));
            }
            Ask::Pause { revision, paused, .. } => {
                let command = pause(state, revision, paused);
                self.propose(command);
                self.asked.push((from, 0));
            }
            Ask::Sealed { group, sealed } => duties.answered(state, group, from, sealed),
        }
    }

    fn propose(&mut self, command: Option<Command>) {
        let Some(command) = command else { return };
        if !self.voter.propose(&command)
            && let Some(duties) = &mut self.duties
        {
            duties.ended(&command);
        }
    }

    /// To be called at [`Controller::next_tick`], and when something came. `now`: of the boot-time
    /// clock, in nanoseconds.
    pub fn tick(&mut self, now: u64) {
        self.voter.tick(now);
        let state = self.voter.state().1;
        let Some(duties) = &mut self.duties else { return };
        let supervise = |(id, group): (&GroupId, &Group)| duties.supervise(state, *id, group, now);
        let mut commands: Vec<Command> = state.groups().iter().filter_map(supervise).collect();
        commands.extend(duties.care(state, self.here, now));
        for command in commands {
            if !self.voter.propose(&command) {
                duties.ended(&command);
            }
        }
        if let Some(to) = duties.moves_to(self.here, self.voter.state().1, now) {
            self.voter.hand_over(to);
        }
    }

    /// When [`Controller::tick`] has something to do next, if nothing comes earlier: now, or at a
    /// time. The other timed matter, a voter that is to lead in this one's place, is checked when
    /// the voter ticks, ten times a second and more. None: never.
    pub fn next_tick(&self, now: u64) -> Option<u64> {
        let voter = self.voter.next_tick()?;
        let state = self.voter.state().1;
        let duties = self.duties.as_ref().and_then(|duties| duties.next_look(state, now));
        Some(voter.min(duties.unwrap_or(u64::MAX)).max(now))
    }

    /// Acts on everything that came.
    ///
    /// # Errors
    /// This voter must be given up; the node continues without it.
    pub fn work(&mut self, now: u64, out: &mut Vec<Out>) -> Result<(), VoterError> {
        let mut did = Vec::new();
        let outcome = self.voter.work(&mut did);
        let mut confirmed = Vec::new();
        for did in did {
            match did {
                Did::Send { to, message } => out.push(Out::Raft { to, message }),
                Did::Leader { is_leader: true, .. } => self.duties = Some(Duties::since(now)),
                Did::Leader { is_leader: false, .. } => self.duties = None,
                Did::Applied { command, outcome, .. } => {
                    if let Some(duties) = &mut self.duties {
                        if outcome.is_ok() {
                            duties.give_time(&command, now);
                        }
                        duties.applied(&command, outcome.is_ok(), now);
                    }
                }
                Did::Installed { .. } => {}
                // What it confirms is applied by then, since both come from one step.
                Did::Confirmed { read, index } => confirmed.push((read, index)),
            }
        }
        outcome?;
        let (index, state) = self.voter.state();
        let news = index > self.published.0;
        if news {
            if *self.published.1 != *state {
                self.published.1 = Arc::new(state.clone());
            }
            self.published.0 = index;
        }
        for (read, wanted) in confirmed {
            assert!(index >= wanted, "what a leader has committed is applied before reads are answered");
            self.grant(read, now, out);
        }
        for (to, known) in std::mem::take(&mut self.asked) {
            out.push(Out::Update { to, update: self.update_for(known, None) });
        }
        if news && self.duties.is_some() {
            let runs = |(_, node): &(&NodeId, &Node)| node.presence != Presence::Retired;
            let all: Vec<NodeId> = self.published.1.nodes().iter().filter(runs).map(|(node, _)| *node).collect();
            out.extend(all.into_iter().map(|to| Out::Update { to, update: self.update_for(0, None) }));
        }
        Ok(())
    }

    fn update_for(&self, known: u64, lease: Option<u64>) -> MetadataUpdate {
        let (index, state) = &self.published;
        let leader = if self.duties.is_some() { Some(self.here) } else { self.voter.leader() };
        MetadataUpdate { index: *index, state: (*index > known).then(|| Arc::clone(state)), lease, leader }
    }

    /// This voter was the leader after the question had come.
    fn grant(&mut self, read: ReadId, now: u64, out: &mut Vec<Out>) {
        let Some(duties) = &mut self.duties else { return };
        let Some(Waiting { from, number, member, index }) = duties.waiting.remove(&read) else { return };
        // What was proposed since is decided by what held before it: no lease in between.
        let granted = is_current(&self.published.1, member) && !duties.is_given_up(&self.published.1, member.node);
        if granted {
            duties.heard.insert(member.node, now);
        }
        out.push(Out::Update { to: from, update: self.update_for(index, granted.then_some(number)) });
    }
}

fn is_current(state: &State, member: Member) -> bool {
    let node = state.nodes().get(&member.node);
    node.is_some_and(|node| node.incarnation == member.incarnation && node.presence == Presence::Running)
}

/// A delayed question names settings that are no longer the last.
fn pause(state: &State, revision: u64, paused: bool) -> Option<Command> {
    let is_last = state.settings().is_some_and(|known| known.revision == revision);
    is_last.then_some(Command::Pause { revision, paused })
}

/// A delayed question names a loss that is no longer the last.
fn equal(state: &State, id: GroupId, loss: Epoch) -> Option<Command> {
    let group = state.groups().get(&id).filter(|group| group.unequal)?;
    let is_last = group.loss.is_some_and(|(epoch, _)| epoch == loss);
    is_last.then_some(Command::Equal { group: id, loss })
}

#[cfg(test)]
mod tests;
