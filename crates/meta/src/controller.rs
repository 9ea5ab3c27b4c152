//! A voter with its duties: it answers nodes, and while it leads the voters it grants leases, finds
//! out which processes are gone, and seals groups without a leader (docs/replication.md, sections 7
//! to 10).
//!
//! Promises that a lease is granted only by a leader that still led after the question came, and
//! that no group is sealed, and no node registered anew, while a lease granted to the earlier
//! process by any leader may hold. What it remembers besides the state is for one term: a successor
//! begins again.

mod nodes;

pub use nodes::has_lost_its_vote;
pub(crate) use nodes::offers_vote;

use crate::ask::{Ask, Question, Told};
use crate::bytes::Malformed;
use crate::command::Command;
use crate::lease::{LEAD_ENDED_NANOS, LEASE_ENDED_NANOS, LEASE_NANOS};
use crate::parts::{Group, Node, Phase, Presence};
use crate::state::State;
use crate::voter::{Did, ReadId, Voter, VoterError};
use ferrite_base::{Epoch, GroupId, NodeId, Position, planted};
use ferrite_replica::group::{GroupConfiguration, Mark, Member, Proposal, Sealed, decide};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long to wait for other live candidates once one suffices.
const GRACE_NANOS: u64 = 200_000_000;
/// The same if all members were restarted: after a loss of power they come one by one. A late one
/// had only entries that no client has heard of (docs/decisions/0082-service-after-power.md).
const GRACE_AFTER_POWER_NANOS: u64 = 1_000_000_000;
/// The same before a node leads that an operator has accepted to lack something.
const GRACE_BEFORE_LOSS_NANOS: u64 = 10_000_000_000;
/// From the voters' choice of a leader to a group's. What comes before is an election, and what
/// comes between are messages.
const _: () = assert!(LEASE_ENDED_NANOS + GRACE_AFTER_POWER_NANOS < 3_500_000_000);
/// Questions that wait for the voters; the asking nodes ask again.
const WAITING_MAX: usize = 4_096;
/// A command that was not heard of is proposed again after this.
const AGAIN_NANOS: u64 = 1_000_000_000;

/// A leader of the voters whose node leads a group looks for another voter this long after its
/// election, when all nodes have asked, and again when that has failed.
const MOVE_NANOS: u64 = 1_000_000_000;
const MOVE_AGAIN_NANOS: u64 = 10_000_000_000;
/// A node that asked this recently is there: nodes ask three times in the time of a lease.
const LATELY_NANOS: u64 = LEASE_NANOS / 2;

/// What it wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Out {
    /// To a voter.
    Raft { to: NodeId, message: Vec<u8> },
    /// To any node, this one too.
    Tell { to: NodeId, told: Told },
}

pub struct Controller {
    here: NodeId,
    voter: Voter,
    duties: Option<Duties>,
    /// The state as last told, for many to share.
    told: (u64, Arc<State>),
    /// Nodes that asked something that this voter does not lead to.
    asked: Vec<(NodeId, u64)>,
}

/// Of the voters' leader.
struct Duties {
    /// When it began to lead, by its clock.
    since: u64,
    /// When the process that is registered for a node was heard of last, or granted a lease, which
    /// is later.
    heard: BTreeMap<NodeId, u64>,
    waiting: BTreeMap<ReadId, Waiting>,
    seals: BTreeMap<GroupId, Seal>,
    /// What was proposed for a group, or for a node, and is not applied yet.
    proposed: BTreeMap<Subject, Proposed>,
    /// What a group's leader wanted last, and when that was proposed.
    configured: BTreeMap<GroupId, (GroupConfiguration, u64)>,
    /// When it next checks whether another voter is to lead.
    next_move: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Group(GroupId),
    Node(NodeId),
    Voters,
}

/// Commands in the voters' log. A leader's are applied one by one, or it leads no more.
struct Proposed {
    /// When the last one was.
    at: u64,
    commands: Vec<Command>,
}

struct Waiting {
    from: NodeId,
    number: u64,
    member: Member,
    index: u64,
}

struct Seal {
    epoch: Epoch,
    /// When it was decided, as far as this leader of the voters knows.
    since: u64,
    answers: BTreeMap<NodeId, Sealed>,
    /// When one sufficed.
    sufficed: Option<u64>,
}

impl Seal {
    /// The answers of processes that still run. If the group's stream has begun, a member has some
    /// of it, or its log was taken away: then it says nothing of what it had.
    fn current(&self, state: &State, group: &Group) -> Vec<Sealed> {
        let has_begun = group.parent.position > Position(0);
        let counts =
            |answer: &&Sealed| is_current(state, answer.member) && (!has_begun || answer.end.position > Position(0));
        self.answers.values().filter(counts).cloned().collect()
    }
}

impl Controller {
    pub fn new(here: NodeId, voter: Voter) -> Controller {
        let (index, state) = voter.state();
        let told = (index, Arc::new(state.clone()));
        Controller { here, voter, duties: None, told, asked: Vec::new() }
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
    pub fn received(&mut self, from: NodeId, bytes: &[u8]) -> Result<(), Malformed> {
        self.voter.received(from, bytes)
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
                if let Some(command) = duties.register(state, id, node, now)
                    && !self.voter.propose(&command)
                {
                    duties.ended(&command);
                }
                self.asked.push((from, 0));
            }
            Ask::Join { key, node } => {
                if let Some(command) = duties.join(state, key, node, now)
                    && !self.voter.propose(&command)
                {
                    duties.ended(&command);
                }
                self.asked.push((from, 0));
            }
            Ask::Remove { lost, .. } => {
                if let Some(command) = duties.remove(state, self.here, lost, now)
                    && !self.voter.propose(&command)
                {
                    duties.ended(&command);
                }
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
                // Reads by a lease that it still has ended with its lead.
                let known = state.groups().get(&group).filter(|known| known.phase == Phase::Active);
                if let Some(known) = known
                    && (known.configuration.leader, known.configuration.epoch) == (member, epoch)
                    && let Some(command) = duties.seal(group, known, now)
                    && !self.voter.propose(&command)
                {
                    duties.ended(&command);
                }
                self.asked.push((from, 0));
            }
            Ask::AcceptLoss { group, expected, member, .. } => {
                if let Some(known) = state.groups().get(&group)
                    && known.phase == Phase::Sealing
                    && known.configuration.epoch == expected
                    && !duties.suffices(state, group, known)
                    && duties.has_surely_stopped(group, now)
                {
                    let command = Command::AcceptLoss { group, expected, sealed: known.burnt, member };
                    self.voter.propose(&command);
                }
                self.asked.push((from, 0));
            }
            Ask::Pause { revision, paused, .. } => {
                // A delayed question names settings that are no longer the last.
                if state.settings().is_some_and(|known| known.revision == revision) {
                    self.voter.propose(&Command::Pause { revision, paused });
                }
                self.asked.push((from, 0));
            }
            Ask::Sealed { group, sealed } => {
                let asked = state.groups().get(&group);
                if let Some(seal) = duties.seals.get_mut(&group)
                    && seal.epoch == sealed.epoch
                    && sealed.member.node == from
                    && asked.is_some_and(|group| is_candidate(group, from))
                {
                    seal.answers.insert(sealed.member.node, sealed);
                }
            }
        }
    }

    /// To be called at [`Controller::next_tick`], and when something came. `now`: of the boot-time
    /// clock, in nanoseconds.
    pub fn tick(&mut self, now: u64) {
        self.voter.tick(now);
        let state = self.voter.state().1;
        let Some(duties) = &mut self.duties else { return };
        let look = |(id, group): (&GroupId, &Group)| duties.look(state, *id, group, now);
        let mut commands: Vec<Command> = state.groups().iter().filter_map(look).collect();
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
                Did::Leads { leads: true, .. } => self.duties = Some(Duties::since(now)),
                Did::Leads { leads: false, .. } => self.duties = None,
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
        let news = index > self.told.0;
        if news {
            if *self.told.1 != *state {
                self.told.1 = Arc::new(state.clone());
            }
            self.told.0 = index;
        }
        for (read, wanted) in confirmed {
            assert!(index >= wanted, "what a leader has committed is applied before reads are answered");
            self.grant(read, now, out);
        }
        for (to, known) in std::mem::take(&mut self.asked) {
            out.push(Out::Tell { to, told: self.tell(known, None) });
        }
        if news && self.duties.is_some() {
            let runs = |(_, node): &(&NodeId, &Node)| node.presence != Presence::Retired;
            let all: Vec<NodeId> = self.told.1.nodes().iter().filter(runs).map(|(node, _)| *node).collect();
            out.extend(all.into_iter().map(|to| Out::Tell { to, told: self.tell(0, None) }));
        }
        Ok(())
    }

    fn tell(&self, known: u64, lease: Option<u64>) -> Told {
        let (index, state) = &self.told;
        let leader = if self.duties.is_some() { Some(self.here) } else { self.voter.leader() };
        Told { index: *index, state: (*index > known).then(|| Arc::clone(state)), lease, leader }
    }

    /// This voter was the leader after the question had come.
    fn grant(&mut self, read: ReadId, now: u64, out: &mut Vec<Out>) {
        let Some(duties) = &mut self.duties else { return };
        let Some(Waiting { from, number, member, index }) = duties.waiting.remove(&read) else { return };
        // What was proposed since is decided by what held before it: no lease in between.
        let granted = is_current(&self.told.1, member) && !duties.is_given_up(&self.told.1, member.node);
        if granted {
            duties.heard.insert(member.node, now);
        }
        out.push(Out::Tell { to: from, told: self.tell(index, granted.then_some(number)) });
    }
}

/// What a lease must not be granted alongside.
fn subject(command: &Command) -> Option<Subject> {
    match command {
        Command::Seal { group, .. } | Command::Activate { group, .. } => Some(Subject::Group(*group)),
        Command::Register { id, .. } | Command::Join { id, .. } | Command::Retire { node: id, .. } => {
            Some(Subject::Node(*id))
        }
        Command::Voters { .. } => Some(Subject::Voters),
        _ => None,
    }
}

fn is_current(state: &State, member: Member) -> bool {
    let node = state.nodes().get(&member.node);
    node.is_some_and(|node| node.incarnation == member.incarnation && node.presence == Presence::Running)
}

/// Whether a seal of the group asks the node.
fn is_candidate(group: &Group, node: NodeId) -> bool {
    group.configuration.has_node(node) || group.accepted.is_some_and(|accepted| accepted.node == node)
}

/// The configuration that follows from the answers to a seal. If no node has everything, the node
/// for which an operator has accepted that leads: alone, with what it has, which is something.
fn next(group: &Group, epoch: Epoch, answers: &[Sealed]) -> Option<GroupConfiguration> {
    decide(&group.configuration, epoch, answers).or_else(|| {
        let accepted = group.accepted?;
        let has_some = |answer: &&Sealed| answer.member == accepted && answer.end.position > Position(0);
        let answer = answers.iter().find(has_some).filter(|answer| answer.epoch == epoch)?;
        Some(GroupConfiguration::alone(epoch, answer.member))
    })
}

/// A leader's own change of its configuration.
fn configure(state: &State, id: GroupId, from: Member, proposal: Proposal, parent: Mark) -> Option<Command> {
    let group = state.groups().get(&id)?;
    let Proposal { expected, leader, members, added } = proposal;
    let names: BTreeSet<NodeId> = members.iter().map(|member| member.node).collect();
    let sound = names.len() == members.len()
        && members.contains(&from)
        && members.contains(&leader)
        && !added.contains(&leader.node)
        && added.iter().all(|node| names.contains(node));
    if !sound || group.configuration.leader != from || group.configuration.epoch != expected {
        return None;
    }
    let configuration = GroupConfiguration::new(Epoch(group.burnt.0 + 1), leader, members, added);
    Some(Command::Configure { group: id, expected, configuration, parent })
}

impl Duties {
    fn since(now: u64) -> Duties {
        Duties {
            since: now,
            heard: BTreeMap::new(),
            waiting: BTreeMap::new(),
            seals: BTreeMap::new(),
            proposed: BTreeMap::new(),
            configured: BTreeMap::new(),
            next_move: now + MOVE_NANOS,
        }
    }

    /// The voter that is to lead in place of one whose node leads a group: if that node were lost,
    /// the group would first wait for the election of another leader of the voters, and then for as
    /// long as leases may hold that this leader knows nothing of.
    fn moves_to(&mut self, here: NodeId, state: &State, now: u64) -> Option<NodeId> {
        if now < self.next_move || !self.proposed.is_empty() || !self.seals.is_empty() {
            return None;
        }
        let leads = |node: NodeId| state.groups().values().any(|group| group.configuration.leader.node == node);
        let is_there = |node: NodeId| {
            let runs = state.nodes().get(&node).is_some_and(|known| known.presence == Presence::Running);
            runs && self.heard.get(&node).is_some_and(|heard| now.saturating_sub(*heard) < LATELY_NANOS)
        };
        // A witness leads no group later, and a node that keeps no copy is the last to do so.
        let keeps = |node: &NodeId| state.groups().values().any(|group| group.configuration.has_node(*node));
        let others = state.voters().iter().copied().filter(|voter| *voter != here && !leads(*voter));
        let to = others.filter(|voter| leads(here) && is_there(*voter)).min_by_key(keeps);
        if to.is_some() {
            self.next_move = now + MOVE_AGAIN_NANOS;
        }
        to
    }

    /// The node's process does not ask, and no lease granted to it holds, by this leader or an
    /// earlier one.
    fn is_silent(&self, node: NodeId, now: u64) -> bool {
        let heard = self.heard.get(&node).copied().unwrap_or_default();
        let since = if planted!(TermForgetsLeases) { heard } else { heard.max(self.since) };
        let waits = if planted!(SealInLease) { LEASE_ENDED_NANOS / 4 } else { LEASE_ENDED_NANOS };
        now.saturating_sub(since) > waits
    }

    /// When a node that runs will have been silent for too long; at once while anything is under
    /// way.
    fn next_look(&self, state: &State, now: u64) -> Option<u64> {
        let is_sealing = |group: &Group| group.phase == Phase::Sealing;
        let busy = !self.proposed.is_empty() || !self.seals.is_empty() || state.groups().values().any(is_sealing);
        if busy {
            return Some(now);
        }
        let running = state.nodes().iter().filter(|(_, node)| node.presence == Presence::Running);
        let silent = running.map(|(id, _)| {
            let heard = self.heard.get(id).copied().unwrap_or_default().max(self.since);
            heard.saturating_add(LEASE_ENDED_NANOS + 1)
        });
        // Nodes that have been silent for longer were looked at.
        silent.filter(|at| *at > now).min()
    }

    /// Whether something was proposed, and is not applied yet, that counts on the node's having no
    /// lease.
    fn is_given_up(&self, state: &State, node: NodeId) -> bool {
        let leads = |id: &GroupId| state.groups().get(id).is_some_and(|group| group.configuration.leader.node == node);
        self.proposed.keys().any(|subject| match subject {
            Subject::Group(id) => leads(id),
            Subject::Node(other) => *other == node,
            Subject::Voters => false,
        })
    }

    /// Whether what a leader wants is not already under way.
    fn is_new(&self, group: GroupId, configuration: &GroupConfiguration, now: u64) -> bool {
        let known = self.configured.get(&group);
        known.is_none_or(|(last, at)| last != configuration || now.saturating_sub(*at) >= AGAIN_NANOS)
    }

    /// The command, if it is time to propose something for its subject: not again at once.
    fn propose(&mut self, command: Command, now: u64) -> Option<Command> {
        let subject = subject(&command)?;
        let known = self.proposed.entry(subject).or_insert(Proposed { at: now, commands: Vec::new() });
        if !known.commands.is_empty() && now.saturating_sub(known.at) < AGAIN_NANOS {
            return None;
        }
        known.at = now;
        known.commands.push(command.clone());
        Some(command)
    }

    /// The command is applied, or was not taken. Others for its subject are still on their way.
    fn ended(&mut self, command: &Command) {
        let Some(subject) = subject(command) else { return };
        let Some(known) = self.proposed.get_mut(&subject) else { return };
        if let Some(at) = known.commands.iter().position(|other| other == command) {
            known.commands.remove(at);
        }
        if known.commands.is_empty() {
            self.proposed.remove(&subject);
        }
    }

    /// Whether a node has answered that can lead without a loss.
    fn suffices(&self, state: &State, id: GroupId, group: &Group) -> bool {
        let Some(seal) = self.seals.get(&id) else { return false };
        decide(&group.configuration, seal.epoch, &seal.current(state, group)).is_some()
    }

    /// Whether the leader from before the seal commits nothing any more, even if it has not heard
    /// of the seal: a loss accepted earlier could make two leaders.
    fn has_surely_stopped(&self, id: GroupId, now: u64) -> bool {
        planted!(AcceptAtOnce)
            || self.seals.get(&id).is_some_and(|seal| now.saturating_sub(seal.since) > LEAD_ENDED_NANOS)
    }

    /// A process that has just come, or that has just begun to lead, has time to ask for a lease:
    /// it is not replaced at once for silence from before it had a role.
    fn give_time(&mut self, command: &Command, now: u64) {
        match command {
            Command::Register { id, .. } => self.heard.insert(*id, now),
            Command::Activate { configuration, .. } | Command::Configure { configuration, .. } => {
                self.heard.insert(configuration.leader.node, now)
            }
            _ => None,
        };
    }

    /// A refused command has changed nothing, so nothing that was known ends with it.
    fn applied(&mut self, command: &Command, taken: bool, now: u64) {
        self.ended(command);
        if let Command::Configure { group, .. } = command {
            self.configured.remove(group);
        }
        match command {
            Command::Seal { group, epoch, .. } if taken => {
                let seal = Seal { epoch: *epoch, since: now, answers: BTreeMap::new(), sufficed: None };
                self.seals.insert(*group, seal);
            }
            Command::Activate { group, .. } | Command::Configure { group, .. } if taken => {
                self.seals.remove(group);
            }
            _ => {}
        }
    }

    /// A process that started takes its node's place once the earlier one is certain to do nothing
    /// more.
    fn register(&mut self, state: &State, id: NodeId, node: Node, now: u64) -> Option<Command> {
        let expected = match state.nodes().get(&id) {
            None => return None,
            Some(known) if known.incarnation == node.incarnation && known.start == node.start => return None,
            Some(known) => {
                if !self.has_ended(id, known, now) {
                    return None;
                }
                known.incarnation
            }
        };
        self.propose(Command::Register { id, expected, node }, now)
    }

    fn look(&mut self, state: &State, id: GroupId, group: &Group, now: u64) -> Option<Command> {
        match group.phase {
            Phase::Active => {
                let leader = group.configuration.leader;
                let gone = !is_current(state, leader) || self.is_silent(leader.node, now);
                gone.then(|| self.seal(id, group, now)).flatten()
            }
            // One that an earlier leader of the voters began is begun again.
            Phase::Sealing if !self.seals.contains_key(&id) => self.seal(id, group, now),
            Phase::Sealing => self.decide(state, id, group, now),
        }
    }

    fn seal(&mut self, id: GroupId, group: &Group, now: u64) -> Option<Command> {
        let command = Command::Seal { group: id, expected: group.configuration.epoch, epoch: Epoch(group.burnt.0 + 1) };
        self.propose(command, now)
    }

    fn decide(&mut self, state: &State, id: GroupId, group: &Group, now: u64) -> Option<Command> {
        let last = &group.configuration;
        // A member that was not heard of in this term may be on its way back, as after a loss of
        // power.
        let lives = |member: &Member| {
            let heard = self.heard.contains_key(&member.node) && !self.is_silent(member.node, now);
            heard && is_current(state, *member)
        };
        let restarted = !last.members().iter().any(lives);
        let living: Vec<NodeId> =
            last.members().iter().filter(|member| lives(member)).map(|member| member.node).collect();
        let seal = self.seals.get_mut(&id).expect("a seal of this leader");
        let answers = seal.current(state, group);
        let configuration = next(group, seal.epoch, &answers)?;
        let is_whole = decide(last, seal.epoch, &answers).is_some();
        let since = *seal.sufficed.get_or_insert(now);
        let has_answered = |node: &NodeId| answers.iter().any(|answer| answer.member.node == *node);
        let all_answered = || last.members().iter().all(|member| has_answered(&member.node));
        let (others_come, grace) = if !is_whole {
            (!all_answered(), GRACE_BEFORE_LOSS_NANOS)
        } else if restarted {
            (!all_answered(), GRACE_AFTER_POWER_NANOS)
        } else {
            (!living.iter().all(has_answered), GRACE_NANOS)
        };
        if others_come && now.saturating_sub(since) < grace {
            return None;
        }
        let of_leader = answers.iter().find(|answer| answer.member == configuration.leader);
        let parent = of_leader.expect("a leader has answered").end;
        let command = Command::Activate { group: id, configuration, parent };
        self.propose(command, now)
    }
}

#[cfg(test)]
mod tests;
