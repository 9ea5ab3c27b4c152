//! A leader that hands over to another member (docs/replication.md, section 7).
//!
//! Promises that a leader that has proposed another one confirms its reads by rounds until the
//! epoch has ended: its lease knows nothing of the other.

use super::{Group, GroupConfiguration, Leading, Member, Role};
use ferrite_base::{NodeId, Position, planted};
use std::collections::BTreeSet;
use std::fmt;

/// Which members may lead next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    /// Those that can run all procedures of the database. Where no member can, any.
    Able,
    /// Others too, if none of those is there: this node ends.
    All,
}

/// A leader's state of handing over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handing {
    /// It wants another member to lead, this one or any.
    wish: Option<(Option<NodeId>, Among)>,
    /// It has proposed another one in this epoch: that may be decided at any time.
    proposed: bool,
}

impl Handing {
    /// Whether anything is left to be done.
    pub(super) fn is_under_way(&self) -> bool {
        self.wish.is_some() || self.proposed
    }

    /// What was proposed in the last epoch is now refused.
    pub(super) fn in_new_epoch(&mut self) {
        self.proposed = false;
    }
}

/// Whether another node could lead, if this one no longer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Successor {
    /// A member that has everything, or will in a moment, and that the voters believe to have it.
    Ready,
    /// That node is such a member, but its tables lack this many entries, which it has yet to
    /// apply: calls would wait for that.
    Applying {
        node: NodeId,
        behind: u64,
    },
    /// Like the first, but it cannot run all procedures, which this node can. `comes`: others
    /// follow, and may become members that can.
    Unable {
        node: NodeId,
        comes: bool,
    },
    /// A node follows and is not a member yet, or has only just become one: without this node no
    /// node could lead.
    Coming,
    Nobody,
}

/// Why this node cannot hand over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CannotHandOver {
    /// It does not lead, or not yet.
    NotLeading,
    /// It leads already.
    Leads(NodeId),
    NotMember(NodeId),
    /// It cannot run all procedures of the database, and another member can.
    Unable(NodeId),
    /// No other node is a member.
    Alone,
}

impl fmt::Display for CannotHandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotHandOver::NotLeading => f.write_str("this node does not lead"),
            CannotHandOver::Leads(node) => write!(f, "node {node} leads already"),
            CannotHandOver::NotMember(node) => {
                write!(f, "node {node} has no complete copy at the moment, so it cannot lead")
            }
            CannotHandOver::Unable(node) => write!(
                f,
                "node {node} cannot run all procedures of the database, and another member can: `ferrite admin status` shows \
                 what it lacks"
            ),
            CannotHandOver::Alone => f.write_str("no other node has a complete copy"),
        }
    }
}

impl std::error::Error for CannotHandOver {}

/// Which members may lead next, by what they can run.
#[derive(Clone, Copy)]
struct Eligible {
    here: bool,
    /// Another member that does not end.
    others: bool,
    among: Among,
}

impl Eligible {
    fn admits(self, able: bool) -> bool {
        planted!(UnableHanded) || able || !self.others && (!self.here || self.among == Among::All)
    }
}

impl Group {
    /// Whether [`Group::hand_over`] is possible, as far as the configuration and what the members
    /// can run say.
    pub fn may_hand_over(&self, to: Option<NodeId>) -> Result<(), CannotHandOver> {
        let Some(configuration) = self.configuration.as_ref().filter(|_| self.is_open()) else {
            return Err(CannotHandOver::NotLeading);
        };
        match to {
            Some(node) if node == self.here.node => Err(CannotHandOver::Leads(node)),
            Some(node) if !configuration.has_node(node) => Err(CannotHandOver::NotMember(node)),
            Some(node) if self.should_not_lead(node) => Err(CannotHandOver::Unable(node)),
            None if configuration.members().len() == 1 => Err(CannotHandOver::Alone),
            _ => Ok(()),
        }
    }

    /// The nodes whose processes end, as they have said: one of them is to lead only if it is
    /// named.
    pub fn are_ending(&mut self, nodes: BTreeSet<NodeId>) {
        self.ending = nodes;
    }

    /// Whether `to`, one node or any, allows that node.
    fn is_meant(&self, node: NodeId, to: Option<NodeId>) -> bool {
        node != self.here.node && to.map_or_else(|| !self.ending.contains(&node), |to| node == to)
    }

    /// Whether this node leads, and the processes of all other members end.
    pub fn is_left_alone(&self) -> bool {
        let (Role::Leading(_), Some(configuration)) = (&self.role, &self.configuration) else { return false };
        configuration.members().iter().all(|member| !self.is_meant(member.node, None))
    }

    /// It cannot run all procedures, and this node can, or another member that does not end.
    fn should_not_lead(&self, node: NodeId) -> bool {
        let (Role::Leading(leading), Some(configuration)) = (&self.role, &self.configuration) else { return false };
        let is_able = leading.others.get(&node).is_some_and(|progress| progress.able);
        !planted!(UnableHanded) && !is_able && (self.able || leading.has_able(configuration, &self.ending, None))
    }

    /// By what the members can run: a member that ends could not lead in another's place. `now`:
    /// nor could one that is silent then.
    fn eligible(
        &self,
        leading: &Leading,
        configuration: &GroupConfiguration,
        among: Among,
        now: Option<u64>,
    ) -> Eligible {
        let heard = now.map(|now| (now, self.timing.failure));
        Eligible { here: self.able, others: leading.has_able(configuration, &self.ending, heard), among }
    }

    /// The node that could lead in this leader's place, that one or any.
    pub fn successor(&self, to: Option<NodeId>, now: u64) -> Successor {
        let (Role::Leading(leading), Some(configuration)) = (&self.role, &self.configuration) else {
            return Successor::Nobody;
        };
        let failure = self.timing.failure;
        // An added member suffices only with the epoch's start (decision 0046).
        let proven = |node| self.is_proven() || !configuration.added().contains(&node);
        let fits = |member: &&Member| {
            let lives = leading.followed(**member).is_some_and(|progress| !progress.is_silent(now, failure));
            self.is_meant(member.node, to) && lives && proven(member.node)
        };
        let behind = |member: &Member| {
            let applied = leading.followed(*member).map_or(Position(0), |progress| progress.applied);
            (leading.pace.behind(applied, self.commit).unwrap_or(0), member.node)
        };
        let eligible = self.eligible(leading, configuration, Among::Able, Some(now));
        let admits =
            |member: &&Member| leading.followed(**member).is_some_and(|progress| eligible.admits(progress.able));
        let fitting = configuration.members().iter().filter(fits);
        let goes_on = |node: NodeId| !self.ending.contains(&node);
        let unable = fitting.clone().find(|member| !admits(member));
        let others_follow = || {
            let could_be_another = |node| goes_on(node) && !fitting.clone().any(|member| member.node == node);
            leading.is_followed(could_be_another, now, failure)
        };
        match (fitting.clone().filter(admits).map(behind).min(), unable) {
            (Some((0, _)), _) => Successor::Ready,
            (Some((behind, node)), _) => Successor::Applying { node, behind },
            (None, Some(member)) => Successor::Unable { node: member.node, comes: others_follow() },
            (None, None) if leading.is_followed(goes_on, now, failure) => Successor::Coming,
            (None, None) => Successor::Nobody,
        }
    }

    /// From now on another member is to lead, this one or any: it is proposed as soon as everything
    /// here is committed and it has all of that. Lasts until [`Group::keep_lead`], or until another
    /// node leads.
    pub fn hand_over(&mut self, to: Option<NodeId>, among: Among, now: u64) -> Result<(), CannotHandOver> {
        self.may_hand_over(to)?;
        if let Role::Leading(leading) = &mut self.role {
            leading.handing.wish = Some((to, among));
        }
        self.hand_over_if_possible(now);
        Ok(())
    }

    /// This node is to lead on. Another node that it has proposed may still come to lead; so it
    /// proposes itself, and knows in the next epoch.
    pub fn keep_lead(&mut self, now: u64) {
        if let Role::Leading(leading) = &mut self.role {
            leading.handing.wish = None;
            self.end_proposal(now);
        }
    }

    /// Of the members that could lead, the one that has least to apply, and how many entries that
    /// is.
    pub fn least_behind(&self, to: Option<NodeId>) -> Option<(NodeId, u64)> {
        let (Role::Leading(leading), Some(configuration)) = (&self.role, &self.configuration) else { return None };
        let among = leading.handing.wish.map_or(Among::Able, |(_, among)| among);
        let eligible = self.eligible(leading, configuration, among, None);
        let wanted = configuration.members().iter().filter(|member| self.is_meant(member.node, to));
        let behind = |member: &Member| {
            let progress = leading.followed(*member).filter(|progress| eligible.admits(progress.able))?;
            Some((self.stream.end().position.0.saturating_sub(progress.applied.0), member.node))
        };
        wanted.filter_map(behind).min().map(|(behind, node)| (node, behind))
    }

    /// Whether another is to lead, or was proposed.
    pub fn is_handing_over(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.handing.is_under_way())
    }

    /// Whether another was proposed in this epoch.
    pub fn has_proposed_another(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.handing.proposed)
    }

    /// A lease counts for reads: no other node may lead while it holds.
    pub fn may_use_lease(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.is_open()
            && (!leading.handing.proposed || planted!(LeaseInHandOver)))
    }

    fn end_proposal(&mut self, now: u64) {
        let Some(configuration) = &self.configuration else { return };
        let members = configuration.members().to_vec();
        let added = configuration.added().to_vec();
        let proven = self.is_proven();
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.handing.proposed && leading.handing.wish.is_none() {
            self.propose_led_by(self.here, members, if proven { Vec::new() } else { added }, now);
        }
    }

    /// The epoch's start is committed: an added member is as good as the others.
    fn is_proven(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.is_open() && self.commit >= leading.start)
    }

    pub(super) fn hand_over_if_possible(&mut self, now: u64) {
        let end = self.stream.end().position;
        let failure = self.timing.failure;
        let is_complete = self.is_proven() && self.commit == end;
        let (Role::Leading(leading), Some(configuration)) = (&self.role, &self.configuration) else { return };
        let Some((to, among)) = leading.handing.wish else { return self.end_proposal(now) };
        let eligible = self.eligible(leading, configuration, among, Some(now));
        let fits = |member: &Member| {
            let progress = leading.followed(*member).filter(|progress| !progress.is_silent(now, failure));
            self.is_meant(member.node, to)
                && progress.is_some_and(|progress| progress.has_all(end) && eligible.admits(progress.able))
        };
        let Some(next) = configuration.members().iter().copied().find(|member| is_complete && fits(member)) else {
            return;
        };
        let members = configuration.members().to_vec();
        // Set before it is proposed.
        let Role::Leading(leading) = &mut self.role else { return };
        let before = std::mem::replace(&mut leading.handing.proposed, true);
        if !self.propose_led_by(next, members, Vec::new(), now)
            && let Role::Leading(leading) = &mut self.role
        {
            leading.handing.proposed = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{Effect, Envelope, Message, Proposal, Remembered, Said, Timing};
    use ferrite_base::{Epoch, GroupId};

    fn member(node: u32) -> Member {
        Member::new(node, 1)
    }

    fn configuration(epoch: u64, leader: u32) -> GroupConfiguration {
        GroupConfiguration::new(Epoch(epoch), member(leader), vec![member(1), member(2), member(3)], Vec::new())
    }

    /// Node 1 leads nodes 2 and 3, of which those given have everything.
    fn leader(complete: &[u32]) -> Group {
        let remembered = Remembered { intact: true, ..Remembered::default() };
        let mut group = Group::new(GroupId(0), member(1), Timing::DEFAULT, remembered);
        group.configured(configuration(1, 1), 0);
        (0..2).for_each(|_| acknowledge(&mut group, &[2, 3]));
        assert!(group.is_open());
        group.append(7, 10).unwrap();
        (0..2).for_each(|_| acknowledge(&mut group, complete));
        group.take_effects();
        group
    }

    fn acknowledge(group: &mut Group, nodes: &[u32]) {
        group.written(group.end());
        group.tick(1);
        for node in nodes {
            let message = Message::Acked { durable: group.end(), compares: true, round: 0 };
            group.handle_message(Envelope { from: member(*node), epoch: group.epoch(), message }, 1);
            applies(group, *node, group.end().position);
        }
    }

    fn applies(group: &mut Group, node: u32, applied: Position) {
        can_run(group, node, applied, true);
    }

    fn can_run(group: &mut Group, node: u32, applied: Position, able: bool) {
        let message = Message::Knows { said: Said::default(), applied, able };
        group.handle_message(Envelope { from: member(node), epoch: group.epoch(), message }, 1);
    }

    /// Node 2 has applied nothing, node 3 has applied that.
    fn with_slow_copies(applied: u64) -> Group {
        let mut group = leader(&[]);
        group.written(group.end());
        for node in [2, 3] {
            let message = Message::Acked { durable: group.end(), compares: true, round: 0 };
            (0..2).for_each(|_| {
                group
                    .handle_message(Envelope { from: member(node), epoch: group.epoch(), message: message.clone() }, 1);
            });
        }
        if let Role::Leading(leading) = &mut group.role {
            leading.others.values_mut().for_each(|progress| progress.applied = Position(0));
        }
        applies(&mut group, 3, Position(applied));
        group
    }

    #[test]
    fn a_copy_that_applies_is_no_successor_until_it_keeps_up_and_is_proposed_when_it_has_all() {
        let mut group = with_slow_copies(0);
        assert_eq!(group.commit(), Position(2));
        let later = |number: u64| 1 + number * 100_000_000;
        (0..3).for_each(|number| group.tick(later(number)));
        assert_eq!(group.successor(None, later(3)), Successor::Applying { node: NodeId(2), behind: 2 });
        applies(&mut group, 3, Position(1));
        assert_eq!(group.successor(None, later(3)), Successor::Applying { node: NodeId(3), behind: 1 });
        group.take_effects();
        group.hand_over(None, Among::Able, later(3)).unwrap();
        assert!(proposals(&mut group).is_empty() && !group.has_proposed_another());
        applies(&mut group, 3, Position(2));
        assert_eq!(group.successor(None, later(3)), Successor::Ready);
        let to_two = group.successor(Some(NodeId(2)), later(3));
        assert_eq!(to_two, Successor::Applying { node: NodeId(2), behind: 2 });
        group.tick(later(4));
        assert_eq!(proposals(&mut group)[0].leader, member(3), "not the lower number");
    }

    fn proposals(group: &mut Group) -> Vec<Proposal> {
        let proposal = |effect| match effect {
            Effect::Propose(proposal) => Some(proposal),
            _ => None,
        };
        group.take_effects().into_iter().filter_map(proposal).collect()
    }

    #[test]
    fn who_has_everything_is_proposed_and_leases_do_not_count_from_then_on() {
        let mut group = leader(&[3]);
        assert_eq!(group.hand_over(None, Among::Able, 1), Ok(()));
        assert!(proposals(&mut group).is_empty() && group.may_use_lease(), "the last entry is not committed");
        acknowledge(&mut group, &[2]);
        group.tick(2);
        let proposed = proposals(&mut group);
        let all = vec![member(1), member(2), member(3)];
        let expected = Proposal { expected: Epoch(1), leader: member(2), members: all, added: Vec::new() };
        assert_eq!(proposed, [expected]);
        assert!(!group.may_use_lease() && group.is_open());
        assert!(group.read().is_some_and(|round| round > 0), "reads ask the others");
        group.configured(configuration(2, 2), 3);
        assert!(!group.is_leading());
        assert!(group.take_effects().contains(&Effect::Deposed { commit: Position(2) }));
    }

    #[test]
    fn a_leader_that_keeps_its_lead_proposes_itself_until_the_epoch_has_ended() {
        let mut group = leader(&[2, 3]);
        group.hand_over(Some(NodeId(3)), Among::Able, 1).unwrap();
        assert_eq!(proposals(&mut group)[0].leader, member(3));
        group.keep_lead(2);
        assert!(proposals(&mut group).is_empty(), "soon behind the last one");
        let later = 2 + Timing::DEFAULT.propose;
        group.tick(later);
        assert_eq!(proposals(&mut group)[0].leader, member(1));
        assert!(!group.may_use_lease(), "the other may be decided yet");
        group.configured(configuration(2, 1), later);
        assert!(group.may_use_lease() && group.is_open());
        group.tick(later + Timing::DEFAULT.propose);
        assert!(
            proposals(&mut group).iter().all(|proposal| proposal.members.len() == 3 || proposal.leader == member(1))
        );
    }

    #[test]
    fn an_added_member_is_no_successor_before_it_has_the_start_of_its_epoch() {
        let mut group = leader(&[2, 3]);
        let successor = |group: &Group, to: Option<u32>, now| group.successor(to.map(NodeId), now);
        assert_eq!(successor(&group, None, 1), Successor::Ready);
        assert_eq!(successor(&group, Some(4), 1), Successor::Coming, "others follow");
        assert_eq!(successor(&group, None, 1 + Timing::DEFAULT.failure), Successor::Nobody, "they are silent");
        group.configured(GroupConfiguration::alone(Epoch(2), member(1)), 1);
        assert_eq!(successor(&group, None, 1), Successor::Nobody);
        group.learner(member(2), 1);
        assert_eq!(successor(&group, None, 1), Successor::Nobody, "nobody has heard of it");
        acknowledge(&mut group, &[2]);
        assert_eq!(successor(&group, None, 1), Successor::Coming);
        let added = |epoch, added: &[u32]| {
            let members = vec![member(1), member(2), member(3)];
            GroupConfiguration::new(Epoch(epoch), member(1), members, added.iter().copied().map(NodeId).collect())
        };
        group.configured(added(3, &[2, 3]), 1);
        assert_eq!(successor(&group, None, 1), Successor::Coming, "the start of the epoch is not there");
        group.learner(member(3), 1);
        (0..2).for_each(|_| acknowledge(&mut group, &[2, 3]));
        assert_eq!(successor(&group, None, 1), Successor::Ready);
        // If one of several is not proven, the others are.
        group.configured(added(4, &[3]), 1);
        assert_eq!((successor(&group, None, 1), successor(&group, Some(3), 1)), (Successor::Ready, Successor::Coming));
    }

    #[test]
    fn a_node_that_ends_is_no_successor_unless_it_is_named() {
        let mut group = leader(&[2, 3]);
        group.are_ending(BTreeSet::from([NodeId(2)]));
        assert_eq!(group.successor(None, 1), Successor::Ready);
        group.hand_over(None, Among::Able, 1).unwrap();
        assert_eq!(proposals(&mut group)[0].leader, member(3), "node 2 ends");
        let mut group = leader(&[2, 3]);
        group.are_ending(BTreeSet::from([NodeId(2), NodeId(3)]));
        assert_eq!((group.successor(None, 1), group.least_behind(None)), (Successor::Nobody, None));
        assert!(group.is_left_alone());
        group.hand_over(None, Among::Able, 1).unwrap();
        assert!(proposals(&mut group).is_empty() && group.may_use_lease(), "all end");
        group.keep_lead(1);
        assert_eq!(group.successor(Some(NodeId(2)), 1), Successor::Ready);
        group.hand_over(Some(NodeId(2)), Among::Able, 1).unwrap();
        assert_eq!(proposals(&mut group)[0].leader, member(2));
    }

    #[test]
    fn a_member_that_cannot_run_all_procedures_is_taken_only_where_no_other_can() {
        let mut group = leader(&[2, 3]);
        let end = group.end().position;
        can_run(&mut group, 2, end, false);
        assert_eq!(group.successor(None, 1), Successor::Ready, "node 3");
        assert_eq!(group.successor(Some(NodeId(2)), 1), Successor::Unable { node: NodeId(2), comes: true });
        let to_two = group.hand_over(Some(NodeId(2)), Among::Able, 1);
        assert_eq!(to_two, Err(CannotHandOver::Unable(NodeId(2))));
        group.hand_over(None, Among::Able, 1).unwrap();
        assert_eq!(proposals(&mut group)[0].leader, member(3), "not the lower number");
    }

    #[test]
    fn a_member_that_can_run_all_and_ends_keeps_the_lead_from_no_other() {
        let with_three_ending = || {
            let mut group = leader(&[2, 3]);
            let end = group.end().position;
            can_run(&mut group, 2, end, false);
            group.are_ending(BTreeSet::from([NodeId(3)]));
            group
        };
        let mut group = with_three_ending();
        assert_eq!(group.successor(None, 1), Successor::Unable { node: NodeId(2), comes: false });
        group.hand_over(None, Among::Able, 1).unwrap();
        assert!(proposals(&mut group).is_empty(), "this node can run all, and may lead on");
        group.hand_over(None, Among::All, 1).unwrap();
        assert_eq!(proposals(&mut group)[0].leader, member(2), "node 3 ends");
        let mut group = with_three_ending();
        assert_eq!(group.successor(Some(NodeId(3)), 1), Successor::Ready, "it is named");
        group.runs_all(false);
        assert_eq!(group.successor(None, 1), Successor::Ready);
        assert_eq!(group.hand_over(Some(NodeId(2)), Among::Able, 1), Ok(()));
        assert_eq!(proposals(&mut group)[0].leader, member(2));
    }

    #[test]
    fn a_leader_that_ends_takes_a_member_that_cannot_and_one_that_cannot_itself_takes_any() {
        let unable = || {
            let mut group = leader(&[2, 3]);
            let end = group.end().position;
            [2, 3].iter().for_each(|node| can_run(&mut group, *node, end, false));
            group
        };
        let mut group = unable();
        assert_eq!(group.successor(None, 1), Successor::Unable { node: NodeId(2), comes: false });
        group.hand_over(None, Among::Able, 1).unwrap();
        assert!(proposals(&mut group).is_empty() && group.least_behind(None).is_none());
        group.hand_over(None, Among::All, 1).unwrap();
        assert_eq!(proposals(&mut group)[0].leader, member(2));
        // A member that can run all but has not applied what is here is waited for.
        let mut group = unable();
        can_run(&mut group, 3, Position(0), true);
        if let Role::Leading(leading) = &mut group.role {
            leading.others.get_mut(&NodeId(3)).unwrap().applied = Position(0);
        }
        group.hand_over(None, Among::All, 1).unwrap();
        assert_eq!((proposals(&mut group), group.least_behind(None)), (Vec::new(), Some((NodeId(3), 2))));
        let mut group = unable();
        group.runs_all(false);
        assert_eq!(group.successor(None, 1), Successor::Ready);
        assert_eq!(group.hand_over(Some(NodeId(3)), Among::Able, 1), Ok(()));
        assert_eq!(proposals(&mut group)[0].leader, member(3));
        let end = group.end().position;
        can_run(&mut group, 2, end, true);
        assert_eq!(group.may_hand_over(Some(NodeId(3))), Err(CannotHandOver::Unable(NodeId(3))));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let mut group = leader(&[2, 3]);
        assert_eq!(group.hand_over(Some(NodeId(1)), Among::Able, 1), Err(CannotHandOver::Leads(NodeId(1))));
        assert_eq!(group.hand_over(Some(NodeId(4)), Among::Able, 1), Err(CannotHandOver::NotMember(NodeId(4))));
        group.configured(GroupConfiguration::alone(Epoch(2), member(1)), 1);
        assert_eq!(group.hand_over(None, Among::Able, 1), Err(CannotHandOver::Alone));
        group.configured(configuration(3, 2), 1);
        assert_eq!(group.hand_over(None, Among::Able, 1), Err(CannotHandOver::NotLeading));
    }
}
