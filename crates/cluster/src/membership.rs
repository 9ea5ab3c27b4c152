//! What the leader of a group learns of the cluster's nodes: which processes are gone, and which
//! nodes may become members.

use crate::GroupHandle;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_meta::{Group, Kind, Node, Phase, Presence, State};
use ferrite_replica::group::{GroupConfiguration, Member};
use std::collections::BTreeSet;

/// A node that has begun to catch up and is not a member after this long does not keep others from
/// trying: its disk may be full, say. If it is only slow, a second one does no harm.
const ALONE_NANOS: u64 = 60_000_000_000;

/// A live node answers within this. One that runs as far as the metadata knows may be dead, like a
/// former leader whose lease has just ended: then it is the next one's turn.
const ANSWER_NANOS: u64 = 300_000_000;
/// If none of them has answered, each has twice the time in the next round, up to this: machines
/// that are starved of processor time answer late, and would lose their turn for ever.
const ANSWER_NANOS_MAX: u64 = 10_000_000_000;

/// Whether the voters can decide without any of the members, or could after one more change of the
/// voters, of which this node has not heard: an operator may have accepted the loss of what the
/// members have, while they know nothing of it.
pub(crate) fn is_dispensable(state: &State, configuration: &GroupConfiguration) -> bool {
    let beyond = state.voters().iter().filter(|voter| !configuration.has_node(**voter)).count();
    2 * beyond >= state.voters().len()
}

/// Which nodes were offered to a group, when, and since when it has lacked a member.
#[derive(Default)]
pub(crate) struct Offers {
    last: Option<(NodeId, u64)>,
    /// How many were offered since it has lacked one.
    made: usize,
    /// The configuration that lacks one, and when that was first seen.
    lacks: Option<(Epoch, u64)>,
    /// The members since the last time that none was lacking. A returning one lacks little of the
    /// data.
    had: BTreeSet<NodeId>,
}

impl Offers {
    /// To be called for each update of the metadata, whichever node leads.
    pub fn seen(&mut self, kept: &Group, state: &State) {
        self.see(kept.configuration.members().iter().map(|member| member.node), wanted(kept, state));
    }

    fn see(&mut self, members: impl ExactSizeIterator<Item = NodeId>, wanted: usize) {
        if members.len() >= wanted {
            self.had.clear();
        }
        self.had.extend(members);
    }

    /// Whether a member was lacking at the last look: [`offer`] is to be called soon.
    pub fn lack(&self) -> bool {
        self.lacks.is_some()
    }

    /// Those that come back, and the others.
    fn split(&self, members: Vec<Member>) -> (Vec<Member>, Vec<Member>) {
        members.into_iter().partition(|member| self.had.contains(&member.node))
    }

    /// Whether others wait for one that may come back: for as long as it would take to send them
    /// everything, so that waiting loses no more time than not waiting.
    fn await_return(&self, away: bool, transfer_nanos: u64, now: u64) -> bool {
        let since = self.lacks.map_or(now, |(_, since)| since);
        away && now.saturating_sub(since) < transfer_nanos.min(ALONE_NANOS)
    }

    /// How many nodes may catch up besides as many as are lacking.
    fn besides(&mut self, epoch: Epoch, lacking: usize, now: u64) -> usize {
        self.lacks = match self.lacks {
            _ if lacking == 0 => None,
            Some((known, since)) if known == epoch => Some((known, since)),
            _ => {
                self.made = 0;
                Some((epoch, now))
            }
        };
        let since = self.lacks.map_or(now, |(_, since)| since);
        usize::try_from(now.saturating_sub(since) / ALONE_NANOS).unwrap_or(usize::MAX)
    }

    /// Whether the candidate, of this many, that was offered last may still answer.
    fn waits(&self, candidates: usize, now: u64) -> bool {
        let rounds = self.made.saturating_sub(1) / candidates.max(1);
        let answer = ANSWER_NANOS.saturating_mul(1 << rounds.min(16)).min(ANSWER_NANOS_MAX);
        self.last.is_some_and(|(_, offered)| now.saturating_sub(offered) < answer)
    }
}

/// The members that a group has when nothing is wrong.
fn wanted(kept: &Group, state: &State) -> usize {
    if kept.place().is_empty() { copies(state) } else { kept.place().len() }
}

/// Of each partition.
fn copies(state: &State) -> usize {
    state.settings().map_or(1, |settings| settings.kfactor as usize + 1)
}

/// Whether the node leads the group, as far as the metadata knows.
pub(crate) fn leads(kept: &Group, node: NodeId) -> bool {
    kept.phase == Phase::Active && kept.configuration.leader.node == node
}

pub(crate) fn process(id: NodeId, node: &Node) -> Member {
    Member { node: id, incarnation: node.incarnation }
}

/// The leader, if it is known.
pub(crate) fn leader(state: &State, id: GroupId) -> Option<NodeId> {
    let group = state.groups().get(&id).filter(|group| group.phase == Phase::Active)?;
    Some(group.configuration.leader.node)
}

/// Whether another node that keeps data runs, as far as the metadata knows, and is not one of those
/// that end.
pub(crate) fn others_run(state: &State, here: NodeId, ending: &BTreeSet<NodeId>) -> bool {
    state.nodes().keys().any(|id| *id != here && runs(state, *id) && !ending.contains(id))
}

/// Whether one of them may keep this group.
pub(crate) fn others_keep(kept: &Group, state: &State, here: NodeId, ending: &BTreeSet<NodeId>) -> bool {
    let place = state.place_of(kept);
    let elsewhere =
        place.is_empty() || place.iter().any(|node| *node != here && !ending.contains(node) && runs(state, *node));
    elsewhere && others_run(state, here, ending)
}

fn runs(state: &State, id: NodeId) -> bool {
    let data = |node: &Node| node.kind == Kind::Data && node.presence == Presence::Running;
    state.nodes().get(&id).is_some_and(data)
}

/// Whether there is another node that keeps data, though it may not run at the moment, and is not
/// one of those that end.
pub(crate) fn has_others(state: &State, here: NodeId, ending: &BTreeSet<NodeId>) -> bool {
    let keeps = |node: &Node| node.kind == Kind::Data && node.presence != Presence::Retired;
    let is_another = |id: &NodeId| *id != here && !ending.contains(id);
    copies(state) > 1 && state.nodes().iter().any(|(id, node)| is_another(id) && keeps(node))
}

/// Whether a process of another node leads a group that ends, and has not said goodbye yet.
pub(crate) fn leader_ends(state: &State, here: NodeId, ending: &BTreeSet<NodeId>) -> bool {
    let ends = |leader: &Member| leader.node != here && ending.contains(&leader.node) && !is_gone(state, leader);
    state.groups().values().any(|group| group.phase == Phase::Active && ends(&group.configuration.leader))
}

/// A restarted process, or one that has said that it stops, acknowledges nothing more.
fn is_gone(state: &State, member: &Member) -> bool {
    let node = state.nodes().get(&member.node);
    node.is_none_or(|node| node.presence != Presence::Running || node.incarnation != member.incarnation)
}

/// How many more members there should be, and which nodes may become one: those of its place, if it
/// has one.
fn openings(kept: &Group, state: &State) -> (usize, Vec<Member>) {
    let members = kept.configuration.members();
    let place = state.place_of(kept);
    let there = members.iter().filter(|member| !is_gone(state, member)).count();
    let may_join = |(id, node): (&NodeId, &Node)| {
        let is_meant = place.is_empty() || place.contains(id);
        let joins = is_meant && node.kind == Kind::Data && node.presence == Presence::Running;
        let process = process(*id, node);
        (joins && !members.contains(&process)).then_some(process)
    };
    (wanted(kept, state).saturating_sub(there), state.nodes().iter().filter_map(may_join).collect())
}

/// Whether a former member, or one whose process is gone, may come back.
fn is_away(kept: &Group, state: &State, node: NodeId) -> bool {
    let members = kept.configuration.members();
    let is_there = members.iter().any(|member| member.node == node && !is_gone(state, member));
    !is_there && state.nodes().get(&node).is_some_and(|node| node.presence != Presence::Retired)
}

/// To be called for each update of the metadata, before the group gets its configuration: a learner
/// that is no longer needed must not be proposed once others have become members. Returns the nodes
/// that the group no longer follows.
pub(crate) fn forget(leader: &GroupHandle, kept: &Group, state: &State, offers: &mut Offers, now: u64) -> Vec<Member> {
    let (lacking, candidates) = openings(kept, state);
    let lacking = lacking.saturating_add(offers.besides(kept.configuration.epoch, lacking, now));
    let follow: Vec<Member> = candidates.into_iter().filter(|member| leader.follows(*member)).collect();
    // As many of each kind as are lacking: the first to get there are taken.
    let (returning, others) = offers.split(follow);
    let of = |follow: &[Member]| needless(follow, |member| leader.is_answered_by(member), lacking);
    let needless = [of(&returning), of(&others)].concat();
    needless.iter().for_each(|member| leader.forget(*member));
    needless
}

/// To be called for each update of the metadata; telling the group what it already knows does no
/// harm.
pub(crate) fn report_gone(leader: &GroupHandle, kept: &Group, state: &State) {
    let members = kept.configuration.members();
    members.iter().filter(|member| is_gone(state, member)).for_each(|member| leader.gone(*member));
}

/// To be called after that, and in between. `transfer_nanos`: how long it takes to send everything
/// to a node that has nothing.
pub(crate) fn offer(
    leader: &GroupHandle,
    kept: &Group,
    state: &State,
    offers: &mut Offers,
    transfer_nanos: u64,
    now: u64,
) {
    let (lacking, candidates) = openings(kept, state);
    let lacking = lacking.saturating_add(offers.besides(kept.configuration.epoch, lacking, now));
    if lacking == 0 {
        return;
    }
    let waits = offers.waits(candidates.len(), now);
    let counts = |member| leader.is_answered_by(member) || waits && leader.follows(member);
    let last = offers.last.map(|(node, _)| node);
    let (returning, others) = offers.split(candidates);
    // A returning node is offered even if another, which gets everything, already follows.
    let mut learners = chosen(&returning, counts, lacking, last);
    let away = offers.had.iter().any(|node| is_away(kept, state, *node));
    if !offers.await_return(away, transfer_nanos, now) {
        let returned = returning.iter().filter(|member| leader.is_answered_by(**member)).count();
        learners.extend(chosen(&others, counts, lacking.saturating_sub(returned), last));
    }
    for learner in learners {
        offers.last = Some((learner.node, now));
        offers.made += 1;
        leader.learner(learner);
    }
}

/// Of the learners of a group that lacks this many members, those that are not needed: the ones
/// beyond that number, once enough have answered. Until then one that has not may still answer; the
/// group stops following a silent one.
fn needless(follow: &[Member], answers: impl Fn(Member) -> bool, lacking: usize) -> Vec<Member> {
    let (answer, silent): (Vec<Member>, Vec<Member>) = follow.iter().copied().partition(|member| answers(*member));
    let silent = if answer.len() >= lacking { silent } else { Vec::new() };
    answer.into_iter().skip(lacking).chain(silent).collect()
}

/// The nodes to offer to a group that lacks this many members, besides the learners that count
/// because they have answered or still may. The next in turn is the one after the node that was
/// offered last.
fn chosen(
    candidates: &[Member],
    counts: impl Fn(Member) -> bool,
    lacking: usize,
    offered: Option<NodeId>,
) -> Vec<Member> {
    let (follow, others): (Vec<Member>, Vec<Member>) = candidates.iter().copied().partition(|member| counts(*member));
    let (later, earlier): (Vec<Member>, Vec<Member>) =
        others.into_iter().partition(|member| Some(member.node) > offered);
    later.into_iter().chain(earlier).take(lacking.saturating_sub(follow.len())).collect()
}

#[cfg(test)]
mod tests;
