//! The table of the groups: who leads each, how many losses it tolerates, what it waits for, and
//! how far its failover has come.

use crate::node_status::StatusSnapshot;
use crate::reachability::Reachability;
use crate::tolerance::{complete, keepers, losses, waits_for};
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_cluster::FailoverPhase;
use ferrite_meta::{Group, Phase};
use ferrite_system::result::{SystemTable, cells};
use ferrite_value::SqlType;

/// What a group waits for that continues from an older copy.
const UNEQUAL: &str = "replicated tables that are equal to those of the other groups";

pub fn group_table() -> SystemTable {
    SystemTable::new(&[
        ("GROUP_ID", SqlType::Integer),
        ("EPOCH", SqlType::Bigint),
        ("LEADER", SqlType::Integer),
        ("MEMBERS", SqlType::Integer),
        ("KFACTOR", SqlType::Integer),
        ("LOSSES_WITH_DATA_KEPT", SqlType::Integer),
        ("LOSSES_WITH_SERVICE", SqlType::Integer),
        ("WAITS_FOR", SqlType::Varchar),
        ("PHASE", SqlType::Varchar),
    ])
}

/// `in_step`: all members have what is committed. None: this node does not take part, or has not
/// heard yet from the others, and cannot know how many losses the cluster tolerates. `applies`:
/// what is left before this node leads a group; `there`: how far another node has come that was
/// chosen to lead one, as it has reported.
pub fn group(
    seen: &StatusSnapshot,
    in_step: Option<bool>,
    reachability: &Reachability,
    applies: impl Fn(GroupId) -> Option<String>,
    there: impl Fn(NodeId, GroupId) -> Option<(Epoch, FailoverPhase)>,
) -> SystemTable {
    let state = &seen.state;
    let mut table = group_table();
    let kfactor = state.settings().map_or(0, |settings| settings.kfactor);
    for (id, group) in state.groups() {
        let leader = seen.leading_of(*id);
        let complete = complete(&group.configuration, in_step.unwrap_or(false));
        let keepers = leader.map(|_| keepers(&group.configuration, in_step.unwrap_or(false), reachability));
        let (data, service) = losses(state, keepers, reachability);
        let doubtful = || {
            seen.is_doubtful(*id)
                .then(|| format!("a word of the voters, whether node {} leads on", group.configuration.leader.node))
        };
        let unequal = || group.unequal.then(|| UNEQUAL.to_owned());
        let applies = || applies(*id);
        let awaited = waits_for(group, reachability).or_else(applies).or_else(doubtful).or_else(unequal);
        table.row(cells![
            i64::from(id.0),
            group.configuration.epoch.0 as i64,
            leader.map_or(0, |leader| i64::from(leader.node.0)),
            complete.count() as i64,
            i64::from(kfactor),
            in_step.map(|_| data as i64),
            in_step.map(|_| service as i64),
            awaited.unwrap_or_default(),
            phase((*id, group), seen, reachability, &there).map(FailoverPhase::name)
        ]);
    }
    table
}

/// How far the group's failover has come, as far as this node knows. None: its leader, another
/// node, has not reported it yet.
fn phase(
    (id, group): (GroupId, &Group),
    seen: &StatusSnapshot,
    reachability: &Reachability,
    there: impl Fn(NodeId, GroupId) -> Option<(Epoch, FailoverPhase)>,
) -> Option<FailoverPhase> {
    if !seen.registered {
        return None;
    }
    if group.phase == Phase::Sealing {
        return Some(FailoverPhase::Promise);
    }
    let leader = group.configuration.leader.node;
    let of_epoch = |(epoch, phase)| (epoch == group.configuration.epoch).then_some(phase);
    let is_here = seen.lead.as_ref().is_some_and(|(here, _)| *here == leader);
    match () {
        () if is_here => seen.standing(id).phase.and_then(of_epoch),
        () if reachability.is_reached(leader) => there(leader, id).and_then(of_epoch),
        () => Some(FailoverPhase::Detect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reachability::Condition;
    use crate::testing::{WELL, four_nodes};
    use ferrite_cluster::Lease;
    use ferrite_group::FIRST_GROUP;
    use ferrite_io::Clock;
    use ferrite_io::simulated::SimulatedClock;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn a_group_has_the_phase_of_its_failover() {
        let mut seen = StatusSnapshot { state: Arc::new(four_nodes()), registered: true, ..StatusSnapshot::default() };
        let group = seen.state.groups()[&FIRST_GROUP].clone();
        let (leader, epoch) = (group.configuration.leader.node, group.configuration.epoch);
        let of = |found: Condition| Reachability(BTreeMap::from([(leader, found)]));
        let said = |found: Condition, said: Option<(Epoch, FailoverPhase)>| {
            let there = |node, id| said.filter(|_| node == leader && id == FIRST_GROUP);
            phase((FIRST_GROUP, &group), &seen, &of(found), there)
        };
        let open = Some((epoch, FailoverPhase::Open));
        assert_eq!(said(Condition { reached: false, ..WELL }, open), Some(FailoverPhase::Detect));
        assert_eq!(said(WELL, open), Some(FailoverPhase::Open));
        assert_eq!(said(WELL, Some((Epoch(epoch.0 + 1), FailoverPhase::Serve))), None);
        assert_eq!(said(WELL, None), None);
        let of_another = |_, id| open.filter(|_| id != FIRST_GROUP);
        assert_eq!(phase((FIRST_GROUP, &group), &seen, &of(WELL), of_another), None, "that is another group's");
        let nothing = |_, _| None;
        let sealed = Group { phase: Phase::Sealing, ..group.clone() };
        assert_eq!(phase((FIRST_GROUP, &sealed), &seen, &of(WELL), nothing), Some(FailoverPhase::Promise));
        let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::default());
        seen.lead = Some((leader, Lease::new(clock)));
        seen.standing_mut(FIRST_GROUP).phase = Some((epoch, FailoverPhase::Apply));
        assert_eq!(
            phase((FIRST_GROUP, &group), &seen, &of(WELL), nothing),
            Some(FailoverPhase::Apply),
            "this node's own"
        );
        seen.registered = false;
        assert_eq!(phase((FIRST_GROUP, &group), &seen, &of(WELL), nothing), None, "what it knew last");
    }
}
