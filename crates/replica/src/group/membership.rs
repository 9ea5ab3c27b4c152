//! A leader's nodes: learners that are on their way to become members, and members that are gone.
//! It proposes changes of the configuration, and the metadata decides.

use super::message::{Effect, Proposal};
use super::progress::Progress;
use super::{Group, Member, Role};
use ferrite_base::{NodeId, Position};

impl Group {
    /// A node wants to follow without being a member.
    pub fn learner(&mut self, member: Member, now: u64) {
        let next = Position(self.stream.end().position.0 + 1);
        let is_member = self.configuration.as_ref().is_some_and(|configuration| configuration.has(member));
        let Role::Leading(leading) = &mut self.role else { return };
        let known = leading.others.get(&member.node).map(|progress| progress.member.incarnation);
        if is_member || known.is_some_and(|incarnation| incarnation >= member.incarnation) {
            return;
        }
        leading.others.insert(member.node, Progress::new(member, next, now));
    }

    /// The process is not to become a member: nothing more is sent to it, unless it is one.
    pub fn forget(&mut self, member: Member) {
        let is_member = self.configuration.as_ref().is_some_and(|configuration| configuration.has(member));
        if let Role::Leading(leading) = &mut self.role
            && leading.followed(member).is_some()
            && !is_member
        {
            leading.others.remove(&member.node);
        }
    }

    /// No entries make the node equal: a member leaves, and gets a snapshot as a learner. It is
    /// asked repeatedly where its stream ends: with a snapshot it is further at once.
    pub fn needs_more_than_entries(&mut self, node: NodeId, now: u64) {
        self.disconnected(node);
        let is_member = self.configuration.as_ref().is_some_and(|configuration| configuration.has_node(node));
        if self.is_leading() && is_member {
            self.propose_without(&[node], now);
        }
    }

    /// The node reports that its tables are not what this leader's were: nothing that it has
    /// counts, whatever is in its log.
    pub(super) fn differed(&mut self, from: Member, entry: Position, now: u64) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.followed(from).is_some() && entry <= self.stream.end().position {
            self.effects.push(Effect::Differs(from.node, entry));
            self.propose_without(&[from.node], now);
        }
    }

    /// Proposes to remove members that are silent or stand still, and to add learners that have
    /// caught up.
    pub(super) fn review(&mut self, now: u64) {
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.stands_still {
            // Another node decides which member to leave out.
            return;
        }
        let Some(configuration) = &self.configuration else { return };
        let is_silent = |progress: &Progress| progress.is_silent(now, self.timing.failure);
        leading.others.retain(|_, progress| configuration.has(progress.member) || !is_silent(progress));
        let others = configuration.members().iter().filter(|member| **member != self.here);
        let stalls = |progress: &Progress| progress.watch.is_late(now, self.timing.stall);
        let is_gone = |progress: &Progress| is_silent(progress) || stalls(progress);
        let gone = others.copied().filter(|member| leading.followed(*member).is_none_or(is_gone));
        let gone: Vec<NodeId> = gone.map(|member| member.node).collect();
        if !gone.is_empty() {
            return self.propose_without(&gone, now);
        }
        let ready = leading.others.values().find(|progress| {
            let near = self.stream.bytes_behind(progress.durable) <= self.timing.join_bytes;
            // A node whose log stands still answers, too.
            let keeps_up = progress.durable >= self.stream.end().position || progress.moves && !stalls(progress);
            leading.open && progress.matched && near && keeps_up && !configuration.has(progress.member)
        });
        let Some(learner) = ready.map(|progress| progress.member) else { return };
        let mut members = configuration.members().to_vec();
        members.retain(|member| member.node != learner.node);
        members.push(learner);
        self.propose(members, vec![learner.node], now);
    }

    /// The metadata says that a node's process is gone.
    pub fn gone(&mut self, member: Member, now: u64) {
        let is_member = self.configuration.as_ref().is_some_and(|configuration| configuration.has(member));
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.followed(member).is_some() {
            leading.others.remove(&member.node);
        }
        if is_member && member != self.here {
            self.review(now);
        }
    }

    pub(super) fn propose_without(&mut self, gone: &[NodeId], now: u64) {
        let Some(configuration) = &self.configuration else { return };
        let stays = |node: &NodeId| !gone.contains(node) || *node == self.here.node;
        let members = configuration.members().iter().copied().filter(|member| stays(&member.node)).collect();
        let added = configuration.added().iter().copied().filter(stays).collect();
        self.propose(members, added, now);
    }

    pub(super) fn propose(&mut self, members: Vec<Member>, added: Vec<NodeId>, now: u64) {
        self.propose_led_by(self.here, members, added, now);
    }

    /// Members added in the current epoch count as added until its start is committed. False: too
    /// soon after the last proposal.
    pub(super) fn propose_led_by(
        &mut self,
        leader: Member,
        members: Vec<Member>,
        mut added: Vec<NodeId>,
        now: u64,
    ) -> bool {
        let expected = self.epoch();
        let again = self.timing.propose;
        let Role::Leading(leading) = &mut self.role else { return false };
        if leading.proposed.is_some_and(|proposed| now.saturating_sub(proposed) < again) {
            return false;
        }
        leading.proposed = Some(now);
        let proven = leading.open && self.commit >= leading.start;
        let unproven = self.configuration.as_ref().map_or(&[][..], |configuration| configuration.added());
        if !proven {
            added.extend(unproven.iter().filter(|node| members.iter().any(|member| member.node == **node)));
            added.sort_unstable();
            added.dedup();
        }
        self.effects.push(Effect::Propose(Proposal { expected, leader, members, added }));
        true
    }
}
