//! What the voters' leader remembers for its term: which nodes it has heard of, and what it has
//! proposed for which subject. Promises that a command is not proposed again at once.

use super::seal::Seal;
use crate::command::Command;
use crate::lease::{LEASE_ENDED_NANOS, LEASE_NANOS};
use crate::parts::{Group, Node, Phase, Presence};
use crate::state::State;
use crate::voter::ReadId;
use ferrite_base::{Epoch, GroupId, NodeId, planted};
use ferrite_replica::group::{GroupConfiguration, Mark, Member, Proposal};
use std::collections::{BTreeMap, BTreeSet};

/// A command that was not heard of is proposed again after this.
pub(super) const AGAIN_NANOS: u64 = 1_000_000_000;
/// A leader of the voters whose node leads a group looks for another voter this long after its
/// election, when all nodes have asked, and again when that has failed.
pub(super) const MOVE_NANOS: u64 = 1_000_000_000;
pub(super) const MOVE_AGAIN_NANOS: u64 = 10_000_000_000;
/// A node that asked this recently is there: nodes ask three times in the time of a lease.
const LATELY_NANOS: u64 = LEASE_NANOS / 2;

/// What the voters' leader remembers.
pub(super) struct Duties {
    /// When it began to lead, by its clock.
    since: u64,
    /// When the process that is registered for a node was heard of last, or granted a lease, which
    /// is later.
    pub(super) heard: BTreeMap<NodeId, u64>,
    pub(super) waiting: BTreeMap<ReadId, Waiting>,
    pub(super) seals: BTreeMap<GroupId, Seal>,
    /// What was proposed for a group, or for a node, and is not applied yet.
    pub(super) proposed: BTreeMap<Subject, Proposed>,
    /// What a group's leader wanted last, and when that was proposed.
    pub(super) configured: BTreeMap<GroupId, (GroupConfiguration, u64)>,
    /// When it next checks whether another voter is to lead.
    next_move: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Group(GroupId),
    Node(NodeId),
    Voters,
}

/// Commands in the voters' log. A leader's are applied one by one, or it leads no more.
pub(super) struct Proposed {
    /// When the last one was.
    at: u64,
    commands: Vec<Command>,
}

pub(super) struct Waiting {
    pub(super) from: NodeId,
    pub(super) number: u64,
    pub(super) member: Member,
    pub(super) index: u64,
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

/// A leader's own change of its configuration.
pub(super) fn configure(state: &State, id: GroupId, from: Member, proposal: Proposal, parent: Mark) -> Option<Command> {
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
    pub(super) fn since(now: u64) -> Duties {
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

    /// The voter that is to lead in place of one whose node leads more groups, or any where another
    /// leads none: if that node were lost, its groups would first wait for the election of another
    /// leader of the voters, and then for as long as leases may hold that this leader knows nothing
    /// of.
    pub(super) fn moves_to(&mut self, here: NodeId, state: &State, now: u64) -> Option<NodeId> {
        if now < self.next_move || !self.proposed.is_empty() || !self.seals.is_empty() {
            return None;
        }
        let led =
            |node: NodeId| state.groups().values().filter(|group| group.configuration.leader.node == node).count();
        let is_there = |node: NodeId| {
            let runs = state.nodes().get(&node).is_some_and(|known| known.presence == Presence::Running);
            runs && self.heard.get(&node).is_some_and(|heard| now.saturating_sub(*heard) < LATELY_NANOS)
        };
        // One that leads and is not heard of may have died. Its groups wait for its leases to end,
        // and with another leader of the voters they would begin that wait again.
        let leads = |group: &Group| group.configuration.leader.node;
        if state.groups().values().any(|group| leads(group) != here && !is_there(leads(group))) {
            return None;
        }
        // A witness leads no group later, and a node that keeps no copy is the last to do so.
        let keeps = |node: &NodeId| state.groups().values().any(|group| group.configuration.has_node(*node));
        let others = state.voters().iter().copied().filter(|voter| *voter != here && led(*voter) < led(here));
        let to = others.filter(|voter| is_there(*voter)).min_by_key(|voter| (led(*voter), keeps(voter)));
        if to.is_some() {
            self.next_move = now + MOVE_AGAIN_NANOS;
        }
        to
    }

    /// The node's process does not ask, and no lease granted to it holds, by this leader or an
    /// earlier one.
    pub(super) fn is_silent(&self, node: NodeId, now: u64) -> bool {
        let heard = self.heard.get(&node).copied().unwrap_or_default();
        let since = if planted!(TermForgetsLeases) { heard } else { heard.max(self.since) };
        let waits = if planted!(SealInLease) { LEASE_ENDED_NANOS / 4 } else { LEASE_ENDED_NANOS };
        now.saturating_sub(since) > waits
    }

    /// When a node that runs will have been silent for too long; at once while anything is under
    /// way.
    pub(super) fn next_look(&self, state: &State, now: u64) -> Option<u64> {
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
    pub(super) fn is_given_up(&self, state: &State, node: NodeId) -> bool {
        let leads = |id: &GroupId| state.groups().get(id).is_some_and(|group| group.configuration.leader.node == node);
        self.proposed.keys().any(|subject| match subject {
            Subject::Group(id) => leads(id),
            Subject::Node(other) => *other == node,
            Subject::Voters => false,
        })
    }

    /// Whether what a leader wants is not already under way.
    pub(super) fn is_new(&self, group: GroupId, configuration: &GroupConfiguration, now: u64) -> bool {
        let known = self.configured.get(&group);
        known.is_none_or(|(last, at)| last != configuration || now.saturating_sub(*at) >= AGAIN_NANOS)
    }

    /// The command, if it is time to propose something for its subject: not again at once.
    pub(super) fn propose(&mut self, command: Command, now: u64) -> Option<Command> {
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
    pub(super) fn ended(&mut self, command: &Command) {
        let Some(subject) = subject(command) else { return };
        let Some(known) = self.proposed.get_mut(&subject) else { return };
        if let Some(at) = known.commands.iter().position(|other| other == command) {
            known.commands.remove(at);
        }
        if known.commands.is_empty() {
            self.proposed.remove(&subject);
        }
    }

    /// A process that has just come, or that has just begun to lead, has time to ask for a lease:
    /// it is not replaced at once for silence from before it had a role.
    pub(super) fn give_time(&mut self, command: &Command, now: u64) {
        match command {
            Command::Register { id, .. } => self.heard.insert(*id, now),
            Command::Activate { configuration, .. } | Command::Configure { configuration, .. } => {
                self.heard.insert(configuration.leader.node, now)
            }
            _ => None,
        };
    }

    /// A refused command has changed nothing, so nothing that was known ends with it.
    pub(super) fn applied(&mut self, command: &Command, taken: bool, now: u64) {
        self.ended(command);
        if let Command::Configure { group, .. } = command {
            self.configured.remove(group);
        }
        match command {
            Command::Seal { group, epoch, .. } if taken => {
                self.seals.insert(*group, Seal::new(*epoch, now));
            }
            Command::Activate { group, .. } | Command::Configure { group, .. } if taken => {
                self.seals.remove(group);
            }
            _ => {}
        }
    }

    /// A process that started takes its node's place once the earlier one is certain to do nothing
    /// more.
    pub(super) fn register(&mut self, state: &State, id: NodeId, node: Node, now: u64) -> Option<Command> {
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
}
