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

use ferrite_base::{Epoch, GroupId};
use ferrite_group::FIRST_GROUP;
use ferrite_meta::{Group, Phase, State};
use ferrite_replica::group::{Member, Timing};
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
    /// The configuration of the group, and since when it is known.
    since: Option<(Epoch, u64)>,
    in_step: bool,
    /// Its line, until it is true.
    line: Option<String>,
    /// Since when it has had no leader, and the line of that.
    choosing: Option<(u64, String)>,
}

impl MembershipReport {
    /// What to report, and whether all members have what is committed, as far as this node can
    /// tell. `registered`: the node takes part; `begun`: whether the first entry of an epoch is
    /// committed, as this node or a member knows.
    pub fn look(
        &mut self,
        state: &Arc<State>,
        (here, registered): (Member, bool),
        now: u64,
        begun: impl Fn(Epoch) -> bool,
    ) -> (Vec<String>, bool) {
        let mut lines = Vec::new();
        let is_late = now.saturating_sub(*self.begun.get_or_insert(now)) >= START_NANOS;
        let is_told = registered || is_late;
        // It is repeated, as it is now.
        let again = registered && std::mem::take(&mut self.was_old);
        if is_told && (again || self.known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, state))) {
            let known = self.known.replace(Arc::clone(state));
            for (id, group) in state.groups() {
                let before = known.as_ref().and_then(|known| known.groups().get(id));
                self.news(*id, before, (group, again), now, &mut lines);
            }
            if !registered {
                self.was_old = true;
                // It cannot know whether others have chosen one meanwhile.
                self.choosing = None;
                lines.extend(self.line.take());
                lines.iter_mut().for_each(|line| *line = format!("as this node knew it last, {line}"));
            }
        }
        if let Some((_, line)) = self.choosing.take_if(|(since, _)| now.saturating_sub(*since) >= CHOSEN_NANOS) {
            lines.push(line);
        }
        let Some(group) = state.groups().get(&FIRST_GROUP) else { return (lines, false) };
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
        (lines, self.in_step)
    }

    /// The configuration whose members were all known to have what is committed, at the last check.
    pub fn in_step(&self) -> Option<Epoch> {
        self.since.filter(|_| self.in_step).map(|(epoch, _)| epoch)
    }

    /// `again`: although it is not news.
    fn news(
        &mut self,
        id: GroupId,
        before: Option<&Group>,
        (group, again): (&Group, bool),
        now: u64,
        lines: &mut Vec<String>,
    ) {
        if let Some((epoch, node)) = group.loss.filter(|_| before.is_some_and(|before| before.loss != group.loss)) {
            lines.push(format!(
                "LOSS ACCEPTED by an operator: node {node} leads group {id} from epoch {epoch} with what it has. What \
                 others acknowledged beyond that is lost"
            ));
        }
        if group.phase != Phase::Sealing {
            self.choosing = None;
        }
        if group.phase == Phase::Sealing && (again || before.is_none_or(|before| before.burnt != group.burnt)) {
            let leader = group.configuration.leader.node;
            let line = format!("group {id} is choosing a leader; node {leader} led it last");
            self.choosing = Some((now, line));
            self.line = None;
        } else if again || before.is_none_or(|before| before.configuration.epoch != group.configuration.epoch) {
            self.line = Some(kept_by(id, group));
        }
    }
}

fn kept_by(id: GroupId, group: &Group) -> String {
    let configuration = &group.configuration;
    let mut ids: Vec<u32> = configuration.members().iter().map(|member| member.node.0).collect();
    ids.sort_unstable();
    let mut nodes: Vec<String> = ids.iter().map(|id| format!("node {id}")).collect();
    let count = nodes.len();
    let epoch = configuration.epoch;
    let last = nodes.pop().expect("a configuration has its leader");
    let all = if nodes.is_empty() { last } else { format!("{} and {last}", nodes.join(", ")) };
    let plural = if count == 1 { "" } else { "s" };
    let leader = configuration.leader.node;
    format!("group {id} is kept by {count} node{plural}: {all}, led by node {leader} (epoch {epoch})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing;
    use ferrite_base::NodeId;
    use ferrite_meta::Command;
    use ferrite_replica::group::{GroupConfiguration, Mark};

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
        let alone = "group 0 is kept by 1 node: node 1, led by node 1 (epoch 1)".to_owned();
        let both = "group 0 is kept by 2 nodes: node 1 and node 2, led by node 1 (epoch 2)".to_owned();
        for here in [1, 2] {
            let (mut keepers, here) = (MembershipReport::default(), (Member::new(here, 1), true));
            assert_eq!(keepers.look(&first, here, 0, |_| false), (vec![alone.clone()], true));
            for now in [1, IN_STEP_NANOS + 1] {
                assert_eq!(keepers.look(&second, here, now, |_| false), (vec![], false));
            }
            assert_eq!(keepers.look(&second, here, 3, |epoch| epoch == Epoch(2)), (vec![both.clone()], true));
            assert_eq!(keepers.look(&second, here, 4, |_| false), (vec![], true), "it stays so");
        }
        // A node that is not part of it hears it from a member, or supposes it after a while.
        let (mut keepers, here) = (MembershipReport::default(), (Member::new(3, 1), true));
        assert_eq!(keepers.look(&first, here, 0, |_| false), (vec![alone.clone()], true));
        assert_eq!(keepers.look(&second, here, 4 + IN_STEP_NANOS, |_| false), (vec![], false));
        assert_eq!(keepers.look(&second, here, 4 + 2 * IN_STEP_NANOS, |_| false), (vec![both.clone()], true));
        let mut keepers = MembershipReport::default();
        keepers.look(&first, here, 0, |_| false);
        assert_eq!(keepers.look(&second, here, 5, |epoch| epoch == Epoch(2)), (vec![both], true));
        // A seal that comes first.
        let mut third = State::clone(&second);
        third.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(2), epoch: Epoch(3) }).expect("it is led");
        let (mut keepers, here) = (MembershipReport::default(), (Member::new(2, 1), true));
        keepers.look(&first, here, 0, |_| false);
        keepers.look(&second, here, 1, |_| false);
        let third = Arc::new(third);
        let choosing = "group 0 is choosing a leader; node 1 led it last".to_owned();
        assert_eq!(keepers.look(&third, here, 2, |_| false), (vec![], false), "it is done soon");
        assert_eq!(keepers.look(&third, here, 2 + CHOSEN_NANOS, |_| false), (vec![choosing], false));
        assert_eq!(keepers.look(&third, here, 3 + CHOSEN_NANOS, |_| false), (vec![], false), "once");
    }

    #[test]
    fn a_normal_start_reads_as_one() {
        let first = Arc::new(founded());
        let (mut keepers, here) = (MembershipReport::default(), Member::new(2, 1));
        let mut look = |state: &Arc<State>, registered, now| keepers.look(state, (here, registered), now, |_| false).0;
        assert_eq!(look(&first, false, 1), [""; 0], "what was is past");
        let (mut sealing, mut led) = (State::clone(&first), State::clone(&first));
        sealing.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        assert_eq!(look(&Arc::new(sealing.clone()), true, 2), [""; 0]);
        let configuration = GroupConfiguration::new(Epoch(2), Member::new(1, 1), vec![Member::new(1, 1)], Vec::new());
        let (group, expected, parent) = (FIRST_GROUP, Epoch(1), Mark::ORIGIN);
        led.apply(&Command::Configure { group, expected, configuration, parent }).expect("it follows");
        let line = "group 0 is kept by 1 node: node 1, led by node 1 (epoch 2)";
        assert_eq!(look(&Arc::new(led), true, 2 + CHOSEN_NANOS), [line]);
        // Alone, it reports what it knows.
        let (mut keepers, here) = (MembershipReport::default(), Member::new(2, 1));
        let mut look = |registered, now| keepers.look(&first, (here, registered), now, |_| false).0;
        assert_eq!((look(false, 1), look(false, START_NANOS)), (vec![], vec![]));
        let line = "group 0 is kept by 1 node: node 1, led by node 1 (epoch 1)".to_owned();
        assert_eq!(look(false, 1 + START_NANOS), [format!("as this node knew it last, {line}")]);
        assert!(look(false, 2 + START_NANOS).is_empty());
        assert_eq!(look(true, 3 + START_NANOS), [line], "it is so yet");
        assert!(look(true, 4 + START_NANOS).is_empty(), "once");
        // A seal that it had heard of may be over since.
        let (mut keepers, sealing) = (MembershipReport::default(), Arc::new(sealing));
        let mut look = |registered, now| keepers.look(&sealing, (here, registered), now, |_| false).0;
        assert!(look(false, 1).is_empty() && look(false, 1 + START_NANOS).is_empty());
        assert!(look(false, 2 + START_NANOS + CHOSEN_NANOS).is_empty());
        let registered = 3 * START_NANOS;
        assert!(look(true, registered).is_empty());
        assert_eq!(look(true, registered + CHOSEN_NANOS), ["group 0 is choosing a leader; node 1 led it last"]);
    }
}
