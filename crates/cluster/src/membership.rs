//! What the leader of a group is told of the cluster's nodes: whose process is gone, and who may
//! become a member.

use crate::GroupHandle;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_meta::{Group, Kind, Node, Phase, Presence, State};
use ferrite_replica::group::Member;

/// A node that has begun to catch up and is no member after so long does not keep others from
/// trying: its disk may be full, say. Where it only takes its time, a second one is nobody's harm.
const ALONE_NANOS: u64 = 60_000_000_000;

/// Who was offered to a group, and since when it has lacked a member.
#[derive(Default)]
pub(crate) struct Offers {
    last: Option<NodeId>,
    /// The configuration that lacks one, and when that was first seen.
    lacks: Option<(Epoch, u64)>,
}

impl Offers {
    /// How many may catch up beside as many as are lacking.
    fn besides(&mut self, epoch: Epoch, lacking: usize, now: u64) -> usize {
        self.lacks = match self.lacks {
            _ if lacking == 0 => None,
            Some((known, since)) if known == epoch => Some((known, since)),
            _ => Some((epoch, now)),
        };
        let since = self.lacks.map_or(now, |(_, since)| since);
        usize::try_from(now.saturating_sub(since) / ALONE_NANOS).unwrap_or(usize::MAX)
    }
}

/// The members that a group has when nothing is wrong.
fn wanted(state: &State) -> usize {
    state.settings().map_or(1, |settings| settings.kfactor as usize + 1)
}

fn process(id: NodeId, node: &Node) -> Member {
    Member { node: id, incarnation: node.incarnation }
}

/// Who leads, if that is known.
pub(crate) fn leader(state: &State, id: GroupId) -> Option<NodeId> {
    let group = state.groups().get(&id).filter(|group| group.phase == Phase::Active)?;
    Some(group.configuration.leader.node)
}

/// Whether another node that keeps data runs, as far as the metadata knows.
pub(crate) fn others_run(state: &State, here: NodeId) -> bool {
    let runs = |node: &Node| node.kind == Kind::Data && node.presence == Presence::Running;
    state.nodes().iter().any(|(id, node)| *id != here && runs(node))
}

/// Whether there is another node that keeps data, though it may not run at the moment.
pub(crate) fn has_others(state: &State, here: NodeId) -> bool {
    let keeps = |node: &Node| node.kind == Kind::Data && node.presence != Presence::Retired;
    wanted(state) > 1 && state.nodes().iter().any(|(id, node)| *id != here && keeps(node))
}

/// A restarted process, or one that has said that it stops, acknowledges nothing more.
fn is_gone(state: &State, member: &Member) -> bool {
    let node = state.nodes().get(&member.node);
    node.is_none_or(|node| node.presence != Presence::Running || node.incarnation != member.incarnation)
}

/// How many members there should be beside those that are there, and who may become one.
fn openings(kept: &Group, state: &State) -> (usize, Vec<Member>) {
    let members = kept.configuration.members();
    let there = members.iter().filter(|member| !is_gone(state, member)).count();
    let may_join = |(id, node): (&NodeId, &Node)| {
        let joins = node.kind == Kind::Data && node.presence == Presence::Running;
        let process = process(*id, node);
        (joins && !members.contains(&process)).then_some(process)
    };
    (wanted(state).saturating_sub(there), state.nodes().iter().filter_map(may_join).collect())
}

/// To be called for each word of the metadata, before the group is told its configuration: who
/// follows and is not needed any more must not be proposed once others have become members.
pub(crate) fn forget(leader: &GroupHandle, kept: &Group, state: &State, offers: &mut Offers, now: u64) {
    let (lacking, candidates) = openings(kept, state);
    let lacking = lacking.saturating_add(offers.besides(kept.configuration.epoch, lacking, now));
    let follow = candidates.into_iter().filter(|member| leader.follows(*member));
    follow.skip(lacking).for_each(|member| leader.forget(member));
}

/// To be called for each word of the metadata; the group hears what it knows already without harm.
pub(crate) fn tell(leader: &GroupHandle, kept: &Group, state: &State, offers: &mut Offers, now: u64) {
    let members = kept.configuration.members();
    members.iter().filter(|member| is_gone(state, member)).for_each(|member| leader.gone(*member));
    let (lacking, candidates) = openings(kept, state);
    let lacking = lacking.saturating_add(offers.besides(kept.configuration.epoch, lacking, now));
    for learner in chosen(&candidates, |member| leader.follows(member), lacking, offers.last) {
        offers.last = Some(learner.node);
        leader.learner(learner);
    }
}

/// Who is offered to a group that lacks so many members, beside those who follow it. A process that
/// runs as far as the metadata knows may be dead; the group stops to follow it when it is silent.
/// So the next in turn is whoever comes behind the one that was offered last.
fn chosen(
    candidates: &[Member],
    follows: impl Fn(Member) -> bool,
    lacking: usize,
    offered: Option<NodeId>,
) -> Vec<Member> {
    let (follow, others): (Vec<Member>, Vec<Member>) = candidates.iter().copied().partition(|member| follows(*member));
    let (later, earlier): (Vec<Member>, Vec<Member>) =
        others.into_iter().partition(|member| Some(member.node) > offered);
    later.into_iter().chain(earlier).take(lacking.saturating_sub(follow.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_never_gets_there_is_not_the_only_one_for_ever() {
        let mut offers = Offers::default();
        let mut besides = |epoch, lacking, seconds: u64| offers.besides(Epoch(epoch), lacking, seconds * 1_000_000_000);
        assert_eq!(besides(4, 1, 100), 0);
        assert_eq!(besides(4, 1, 159), 0);
        assert_eq!(besides(4, 1, 160), 1);
        assert_eq!(besides(4, 1, 220), 2);
        assert_eq!(besides(5, 1, 221), 0, "somebody has become a member");
        assert_eq!(besides(5, 0, 300), 0);
        assert_eq!(besides(5, 1, 310), 0, "none was lacking meanwhile");
    }

    #[test]
    fn a_dead_node_keeps_nobody_from_becoming_a_member() {
        let candidates: Vec<Member> = (2..5).map(|node| Member::new(node, 1)).collect();
        let chosen = |follows: &[u32], lacking, offered: u32| -> Vec<u32> {
            let offered = (offered > 0).then_some(NodeId(offered));
            let follows = |member: Member| follows.contains(&member.node.0);
            let chosen = chosen(&candidates, follows, lacking, offered);
            chosen.into_iter().map(|member| member.node.0).collect()
        };
        assert_eq!(chosen(&[], 1, 0), [2]);
        assert_eq!(chosen(&[2], 1, 2), [], "it may answer yet");
        assert_eq!(chosen(&[], 1, 2), [3], "it was silent");
        assert_eq!(chosen(&[], 1, 4), [2], "and all once more");
        assert_eq!(chosen(&[3], 2, 3), [4]);
        assert_eq!(chosen(&[3], 2, 4), [2]);
        assert_eq!(chosen(&[2, 3], 1, 3), [], "one more than is lacking is nobody's harm");
        assert_eq!(chosen(&[], 0, 0), []);
    }
}
