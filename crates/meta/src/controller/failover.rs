//! What the voters' leader does about a group without a leader: it seals the group, gathers its
//! members' answers, and decides which of them leads next (docs/replication.md, section 7).

use super::duties::Duties;
use super::is_current;
use crate::command::Command;
use crate::lease::{LEAD_ENDED_NANOS, LEASE_ENDED_NANOS};
use crate::parts::{Group, Phase};
use crate::state::State;
use ferrite_base::{Epoch, GroupId, NodeId, Position, planted};
use ferrite_replica::group::{GroupConfiguration, Member, Sealed, decide};

/// How long to wait for other live candidates once one suffices.
pub(super) const GRACE_NANOS: u64 = 200_000_000;
/// The same if all members were restarted: after a loss of power they come one by one. A late one
/// had only entries that no client has heard of (docs/decisions/0082-service-after-power.md).
pub(super) const GRACE_AFTER_POWER_NANOS: u64 = 1_000_000_000;
/// The same before a node leads that an operator has accepted to lack something.
pub(super) const GRACE_BEFORE_LOSS_NANOS: u64 = 10_000_000_000;
/// From the voters' choice of a leader to a group's. What comes before is an election, and what
/// comes between are messages.
const _: () = assert!(LEASE_ENDED_NANOS + GRACE_AFTER_POWER_NANOS < 3_500_000_000);

impl Duties {
    pub(super) fn supervise(&mut self, state: &State, id: GroupId, group: &Group, now: u64) -> Option<Command> {
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

    pub(super) fn seal(&mut self, id: GroupId, group: &Group, now: u64) -> Option<Command> {
        let command = Command::Seal { group: id, expected: group.configuration.epoch, epoch: Epoch(group.burnt.0 + 1) };
        self.propose(command, now)
    }

    /// A member's answer to a seal.
    pub(super) fn answered(&mut self, state: &State, id: GroupId, from: NodeId, sealed: Sealed) {
        let group = state.groups().get(&id);
        if let Some(seal) = self.seals.get_mut(&id)
            && seal.epoch == sealed.epoch
            && sealed.member.node == from
            && group.is_some_and(|group| is_candidate(group, from))
        {
            seal.answers.insert(sealed.member.node, sealed);
        }
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
        let configuration = next(state, group, seal.epoch, &answers)?;
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

    /// A leader gives its lead up. Reads by a lease that it still has ended with its lead.
    pub(super) fn resigns(
        &mut self,
        state: &State,
        id: GroupId,
        leader: Member,
        epoch: Epoch,
        now: u64,
    ) -> Option<Command> {
        let group = state.groups().get(&id).filter(|group| group.phase == Phase::Active)?;
        let is_leader = (group.configuration.leader, group.configuration.epoch) == (leader, epoch);
        is_leader.then(|| self.seal(id, group, now)).flatten()
    }

    /// An operator continues with what a member has, since no other can be had.
    pub(super) fn accepts_loss(
        &self,
        state: &State,
        id: GroupId,
        expected: Epoch,
        member: Member,
        now: u64,
    ) -> Option<Command> {
        let group = state.groups().get(&id)?;
        let is_sealed = group.phase == Phase::Sealing && group.configuration.epoch == expected;
        let may = is_sealed && !self.suffices(state, id, group) && self.has_surely_stopped(id, now);
        may.then_some(Command::AcceptLoss { group: id, expected, sealed: group.burnt, member })
    }

    /// Whether a node has answered that can lead without a loss.
    pub(super) fn suffices(&self, state: &State, id: GroupId, group: &Group) -> bool {
        let Some(seal) = self.seals.get(&id) else { return false };
        decide(&group.configuration, seal.epoch, &seal.current(state, group)).is_some()
    }

    /// Whether the leader from before the seal commits nothing any more, even if it has not heard
    /// of the seal: a loss accepted earlier could make two leaders.
    pub(super) fn has_surely_stopped(&self, id: GroupId, now: u64) -> bool {
        planted!(AcceptAtOnce)
            || self.seals.get(&id).is_some_and(|seal| now.saturating_sub(seal.since) > LEAD_ENDED_NANOS)
    }
}

/// Whether a seal of the group asks the node.
fn is_candidate(group: &Group, node: NodeId) -> bool {
    group.configuration.has_node(node) || group.accepted.is_some_and(|accepted| accepted.node == node)
}

/// The configuration that follows from the answers to a seal. If no node has everything, the node
/// for which an operator has accepted that leads: alone, with what it has, which is something.
pub(super) fn next(state: &State, group: &Group, epoch: Epoch, answers: &[Sealed]) -> Option<GroupConfiguration> {
    let decided = decide(&group.configuration, epoch, answers);
    decided.map(|decided| first_in_place(state, group, decided, answers)).or_else(|| {
        let accepted = group.accepted?;
        let has_some = |answer: &&Sealed| answer.member == accepted && answer.end.position > Position(0);
        let answer = answers.iter().find(has_some).filter(|answer| answer.epoch == epoch)?;
        Some(GroupConfiguration::alone(epoch, answer.member))
    })
}

/// Of members that have and can do as much as the one that was chosen, the first in the group's
/// place leads: so the groups of a lost node go to different others.
fn first_in_place(state: &State, group: &Group, decided: GroupConfiguration, answers: &[Sealed]) -> GroupConfiguration {
    let has = |member: Member| {
        let answer = answers.iter().find(|answer| answer.member == member)?;
        Some((answer.able, answer.end.epoch, answer.end.position, answer.applied))
    };
    let members = decided.members().iter().copied();
    let equal: Vec<Member> = members.filter(|member| has(*member) == has(decided.leader)).collect();
    let place = state.place_of(group);
    match place.iter().find_map(|node| equal.iter().find(|member| member.node == *node)) {
        Some(first) => GroupConfiguration::new(decided.epoch, *first, decided.members().to_vec(), Vec::new()),
        None => decided,
    }
}
