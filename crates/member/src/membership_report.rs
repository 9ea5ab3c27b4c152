//! Which nodes keep a group, as its operator sees it: a line for each configuration, and how many
//! losses the data survives.
//!
//! Promises not to count a member too early. A member that was just added has what is committed
//! only when the first entry of that epoch is committed: until then it does not suffice to lead
//! (docs/replication.md, section 7). A node of the group knows that, and tells the others; where
//! none is heard, the leader would have removed the member after a while.
//!
//! Promises, too, not to alarm an operator at a normal start: what a node knew last is of interest
//! only where it does not take part within some seconds, and a missing leader only where it lasts.

use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_meta::{Group, Phase, State};
use ferrite_notice::Notice;
use ferrite_replica::group::{Member, Timing};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A member that has not come to its epoch within this time is removed.
const IN_STEP_NANOS: u64 = Timing::DEFAULT.failure + Timing::DEFAULT.stall;

/// Within this a node takes part when nothing is wrong.
const START_NANOS: u64 = 5_000_000_000;

/// Within this a leader is chosen when enough nodes are there.
const CHOSEN_NANOS: u64 = 1_000_000_000;

#[derive(Default)]
pub struct MembershipReport {
    /// When it was first checked.
    begun: Option<u64>,
    known: Option<Arc<State>>,
    /// The last line was what the node had known before it took part.
    was_old: bool,
    groups: BTreeMap<GroupId, GroupReport>,
}

/// Of one group.
#[derive(Default)]
struct GroupReport {
    /// Its configuration, and since when that is known.
    since: Option<(Epoch, u64)>,
    in_step: bool,
    /// The configuration's line, until it is true.
    line: Option<Notice>,
    /// Since when it has had no leader, and the line of that.
    choosing: Option<(u64, Notice)>,
}

impl MembershipReport {
    /// What to report, and whether all members of all groups have what is committed, as far as this
    /// node can tell. `registered`: the node takes part; `begun`: whether the first entry of a
    /// group's epoch is committed, as this node or a member knows.
    pub fn report(
        &mut self,
        state: &Arc<State>,
        (here, registered): (Member, bool),
        now: u64,
        begun: impl Fn(GroupId, Epoch) -> bool,
    ) -> (Vec<Notice>, bool) {
        let mut lines = Vec::new();
        let is_late = now.saturating_sub(*self.begun.get_or_insert(now)) >= START_NANOS;
        let is_told = registered || is_late;
        // It is repeated, as it is now.
        let again = registered && std::mem::take(&mut self.was_old);
        if is_told && (again || self.known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, state))) {
            let known = self.known.replace(Arc::clone(state));
            for (id, group) in state.groups() {
                let before = known.as_ref().and_then(|known| known.groups().get(id));
                self.groups.entry(*id).or_default().news(*id, before, (group, again), now, &mut lines);
            }
            if !registered {
                self.was_old = true;
                for report in self.groups.values_mut() {
                    // It cannot know whether others have chosen one meanwhile.
                    report.choosing = None;
                    lines.extend(report.line.take());
                }
                lines.iter_mut().for_each(is_old);
            }
        }
        let mut in_step = !state.groups().is_empty();
        for (id, group) in state.groups() {
            let report = self.groups.entry(*id).or_default();
            in_step &= report.advance(group, here, now, |epoch| begun(*id, epoch), &mut lines);
        }
        (lines, in_step)
    }

    /// The group's configuration whose members were all known to have what is committed, at the
    /// last check.
    pub fn in_step(&self, id: GroupId) -> Option<Epoch> {
        let report = self.groups.get(&id).filter(|report| report.in_step)?;
        report.since.map(|(epoch, _)| epoch)
    }
}

impl GroupReport {
    /// Whether all members have what is committed; and the lines whose time has come.
    fn advance(
        &mut self,
        group: &Group,
        here: Member,
        now: u64,
        begun: impl Fn(Epoch) -> bool,
        lines: &mut Vec<Notice>,
    ) -> bool {
        if let Some((_, line)) = self.choosing.take_if(|(since, _)| now.saturating_sub(*since) >= CHOSEN_NANOS) {
            lines.push(line);
        }
        let configuration = &group.configuration;
        if self.since.is_none_or(|(epoch, _)| epoch != configuration.epoch) {
            (self.since, self.in_step) = (Some((configuration.epoch, now)), false);
        }
        let since = self.since.map_or(now, |(_, since)| since);
        let has_waited = now.saturating_sub(since) >= IN_STEP_NANOS;
        let is_member = configuration.has(here);
        self.in_step = self.in_step
            || configuration.added().is_empty()
            || begun(configuration.epoch)
            || !is_member && group.phase == Phase::Active && has_waited;
        if self.in_step {
            lines.extend(self.line.take());
        }
        self.in_step
    }

    /// `again`: although it is not news.
    fn news(
        &mut self,
        id: GroupId,
        before: Option<&Group>,
        (group, again): (&Group, bool),
        now: u64,
        lines: &mut Vec<Notice>,
    ) {
        if let Some((epoch, node)) = group.loss.filter(|_| before.is_some_and(|before| before.loss != group.loss)) {
            lines.push(Notice::LossAccepted { group: id, node, epoch, stale: false });
        }
        match (before.is_some_and(|before| before.unequal), group.unequal) {
            (false, true) => lines.push(Notice::GroupUnequal { group: id }),
            (true, false) => lines.push(Notice::GroupEqual { group: id }),
            _ => {}
        }
        if group.phase != Phase::Sealing {
            self.choosing = None;
        }
        if group.phase == Phase::Sealing && (again || before.is_none_or(|before| before.burnt != group.burnt)) {
            let last = group.configuration.leader.node;
            self.choosing = Some((now, Notice::ChoosesLeader { group: id, last, stale: false }));
            self.line = None;
        } else if again || before.is_none_or(|before| before.configuration.epoch != group.configuration.epoch) {
            self.line = Some(kept_by(id, group));
        }
    }
}

fn kept_by(id: GroupId, group: &Group) -> Notice {
    let configuration = &group.configuration;
    let mut nodes: Vec<NodeId> = configuration.members().iter().map(|member| member.node).collect();
    nodes.sort_unstable();
    let leader = configuration.leader.node;
    Notice::KeptBy { group: id, nodes, leader, epoch: configuration.epoch, stale: false }
}

/// The notice is of what a node knew before it took part.
fn is_old(notice: &mut Notice) {
    if let Notice::KeptBy { stale, .. } | Notice::ChoosesLeader { stale, .. } | Notice::LossAccepted { stale, .. } =
        notice
    {
        *stale = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ferrite_group::FIRST_GROUP;
    use ferrite_meta::Command;
    use ferrite_replica::group::{GroupConfiguration, Mark};

    /// The line of a configuration that node 1 leads.
    fn kept_by(nodes: &[u32], epoch: u64) -> Notice {
        let nodes = nodes.iter().copied().map(NodeId).collect();
        Notice::KeptBy { group: FIRST_GROUP, nodes, leader: NodeId(1), epoch: Epoch(epoch), stale: false }
    }

    fn chooses() -> Notice {
        Notice::ChoosesLeader { group: FIRST_GROUP, last: NodeId(1), stale: false }
    }

    fn founded() -> State {
        testing::founded((1..=3).map(testing::node).collect(), &[1], &[1, 2, 3])
    }

    /// Node 2 is added in epoch 2.
    fn added(state: &State) -> State {
        let members = vec![Member::new(1, 1), Member::new(2, 1)];
        let configuration = GroupConfiguration::new(Epoch(2), members[0], members, vec![NodeId(2)]);
        let (group, expected, parent) = (FIRST_GROUP, Epoch(1), Mark::ORIGIN);
        let mut state = state.clone();
        state.apply(&Command::Configure { group, expected, configuration, parent }).expect("it follows");
        state
    }

    #[test]
    fn a_member_counts_when_it_has_come_to_the_epoch_that_it_was_added_in() {
        let first = Arc::new(founded());
        let second = Arc::new(added(&first));
        let alone = kept_by(&[1], 1);
        let both = kept_by(&[1, 2], 2);
        for here in [1, 2] {
            let (mut keepers, here) = (MembershipReport::default(), (Member::new(here, 1), true));
            assert_eq!(keepers.report(&first, here, 0, |_, _| false), (vec![alone.clone()], true));
            for now in [1, IN_STEP_NANOS + 1] {
                assert_eq!(keepers.report(&second, here, now, |_, _| false), (vec![], false));
            }
            assert_eq!(keepers.report(&second, here, 3, |_, epoch| epoch == Epoch(2)), (vec![both.clone()], true));
            assert_eq!(keepers.report(&second, here, 4, |_, _| false), (vec![], true), "it stays so");
        }
        // A node that is not part of it hears it from a member, or supposes it after a while.
        let (mut keepers, here) = (MembershipReport::default(), (Member::new(3, 1), true));
        assert_eq!(keepers.report(&first, here, 0, |_, _| false), (vec![alone.clone()], true));
        assert_eq!(keepers.report(&second, here, 4 + IN_STEP_NANOS, |_, _| false), (vec![], false));
        assert_eq!(keepers.report(&second, here, 4 + 2 * IN_STEP_NANOS, |_, _| false), (vec![both.clone()], true));
        let mut keepers = MembershipReport::default();
        keepers.report(&first, here, 0, |_, _| false);
        assert_eq!(keepers.report(&second, here, 5, |_, epoch| epoch == Epoch(2)), (vec![both], true));
        // A seal that comes first.
        let mut third = State::clone(&second);
        third.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(2), epoch: Epoch(3) }).expect("it is led");
        let (mut keepers, here) = (MembershipReport::default(), (Member::new(2, 1), true));
        keepers.report(&first, here, 0, |_, _| false);
        keepers.report(&second, here, 1, |_, _| false);
        let third = Arc::new(third);
        let choosing = chooses();
        assert_eq!(keepers.report(&third, here, 2, |_, _| false), (vec![], false), "it is done soon");
        assert_eq!(keepers.report(&third, here, 2 + CHOSEN_NANOS, |_, _| false), (vec![choosing], false));
        assert_eq!(keepers.report(&third, here, 3 + CHOSEN_NANOS, |_, _| false), (vec![], false), "once");
    }

    #[test]
    fn a_normal_start_reads_as_one() {
        let first = Arc::new(founded());
        let (mut keepers, here) = (MembershipReport::default(), Member::new(2, 1));
        let mut look =
            |state: &Arc<State>, registered, now| keepers.report(state, (here, registered), now, |_, _| false).0;
        assert!(look(&first, false, 1).is_empty(), "what was is past");
        let (mut sealing, mut led) = (State::clone(&first), State::clone(&first));
        sealing.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        assert!(look(&Arc::new(sealing.clone()), true, 2).is_empty());
        let configuration = GroupConfiguration::new(Epoch(2), Member::new(1, 1), vec![Member::new(1, 1)], Vec::new());
        let (group, expected, parent) = (FIRST_GROUP, Epoch(1), Mark::ORIGIN);
        led.apply(&Command::Configure { group, expected, configuration, parent }).expect("it follows");
        assert_eq!(look(&Arc::new(led), true, 2 + CHOSEN_NANOS), [kept_by(&[1], 2)]);
        // Alone, it reports what it knows.
        let (mut keepers, here) = (MembershipReport::default(), Member::new(2, 1));
        let mut look = |registered, now| keepers.report(&first, (here, registered), now, |_, _| false).0;
        assert_eq!((look(false, 1), look(false, START_NANOS)), (vec![], vec![]));
        let mut old = kept_by(&[1], 1);
        is_old(&mut old);
        assert!(old.to_string().starts_with("as this node knew it last, group 0 is kept by"), "{old}");
        assert_eq!(look(false, 1 + START_NANOS), [old]);
        assert!(look(false, 2 + START_NANOS).is_empty());
        assert_eq!(look(true, 3 + START_NANOS), [kept_by(&[1], 1)], "it is so yet");
        assert!(look(true, 4 + START_NANOS).is_empty(), "once");
        // A seal that it had heard of may be over since.
        let (mut keepers, sealing) = (MembershipReport::default(), Arc::new(sealing));
        let mut look = |registered, now| keepers.report(&sealing, (here, registered), now, |_, _| false).0;
        assert!(look(false, 1).is_empty() && look(false, 1 + START_NANOS).is_empty());
        assert!(look(false, 2 + START_NANOS + CHOSEN_NANOS).is_empty());
        let registered = 3 * START_NANOS;
        assert!(look(true, registered).is_empty());
        assert_eq!(look(true, registered + CHOSEN_NANOS), [chooses()]);
    }
}
