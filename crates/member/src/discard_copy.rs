//! A copy that cannot be read when its node starts (docs/cluster.md, "What happens when").
//!
//! Promises that it is put aside only where others lead the group without it, as far as this node
//! knows. The operator hears what remains, and nothing is deleted.

use crate::error::MemberError;
use crate::join::Joined;
use ferrite_base::{GroupId, NodeId};
use ferrite_meta::{Phase, State};
use ferrite_notice::Notice;
use ferrite_partition::recovery::StartError;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Within this time a leader removes a member that does not answer, and a group finds another
/// leader.
const ASK_TIME_MAX: Duration = Duration::from_secs(15);
/// Between two questions.
const AGAIN: Duration = Duration::from_millis(200);

/// What the start ends with. Where the copy counts for nothing, the next start puts it aside.
pub fn unusable(error: StartError, joined: &Joined, ends: &AtomicBool) -> MemberError {
    let Some(damage) = damage(&error) else { return MemberError::Start(error) };
    ferrite_io::notify(Notice::CopyDamaged { damage: damage.clone() });
    let until = Instant::now() + ASK_TIME_MAX;
    while !ends.load(Ordering::Acquire) {
        let others = joined.founders.shown_by_others(joined.node, &joined.state);
        if others.iter().any(|shown| leads_without(joined.node, &shown.state, &joined.state)) {
            return match joined.unsynced.throw_away() {
                Ok(()) => {
                    let reason = "other nodes keep the group without it: it is put aside";
                    ferrite_io::notify(Notice::CopyPutAside { reason: reason.to_owned() });
                    MemberError::CopyGivenUp(reason.to_owned())
                }
                Err(error) => MemberError::Cluster(error.to_string()),
            };
        }
        if Instant::now() >= until {
            let without = if_all_are_lost(&error, &joined.dir);
            return MemberError::Cluster(format!(
                "{damage}. Nothing was changed. No other node that could be reached leads the group without this one. When one \
                 does (ferrite admin status), start this node again: it puts the copy aside and gets everything from the leader. \
                 {without}"
            ));
        }
        std::thread::sleep(AGAIN);
    }
    MemberError::Ended
}

/// What an operator can do then. A node that does not start does not vote either: where too few
/// others vote, no node leads until it starts.
fn if_all_are_lost(error: &StartError, dir: &Path) -> String {
    match error {
        StartError::Rot(_) => format!(
            "Where all complete copies are lost for good, or no node can lead without this node's vote, continue with what can be \
             read here: ferrite admin recover --dir {} --accept-loss",
            dir.display()
        ),
        _ => "Where all complete copies are lost for good, nothing here can be used: continue with another node's older copy, by \
              ferrite admin recover --accept-loss --node N"
            .to_owned(),
    }
}

/// What is wrong with the files, if anything.
pub fn damage(error: &StartError) -> Option<String> {
    match error {
        StartError::Rot(damage) | StartError::NothingLeft(damage) => Some(damage.place()),
        StartError::Checkpoint { snapshot } => {
            Some(format!("the redo log does not continue where snapshot {snapshot} says that it does"))
        }
        StartError::Behind { snapshot } => {
            Some(format!("the redo log ends before the last entry that snapshot {snapshot} shows"))
        }
        StartError::Installed { snapshot } => {
            Some(format!("snapshot {snapshot}, with which this node's data begins, cannot be read"))
        }
        StartError::CameBack { snapshot } => {
            Some(format!("the files of snapshot {snapshot} are here again, which an earlier start gave up"))
        }
        _ => None,
    }
}

/// Whether other nodes lead all groups, and this one is a member of none: the directory has all of
/// its copies, and one that counts is reason enough to keep it. `known`: what this node knew last,
/// by which it may have been a member; anything older says nothing.
pub fn leads_without(node: NodeId, shown: &State, known: &State) -> bool {
    let all: BTreeSet<GroupId> = shown.groups().keys().chain(known.groups().keys()).copied().collect();
    !all.is_empty() && all.into_iter().all(|id| leads_group_without(node, id, shown, known))
}

fn leads_group_without(node: NodeId, id: GroupId, shown: &State, known: &State) -> bool {
    let Some(group) = shown.groups().get(&id) else { return false };
    let is_newer = known.groups().get(&id).is_none_or(|known| known.burnt <= group.burnt);
    is_newer && group.phase == Phase::Active && group.configuration.members().iter().all(|member| member.node != node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ferrite_base::Epoch;
    use ferrite_group::FIRST_GROUP;
    use ferrite_meta::Command;
    use ferrite_partition::loss::LogDamage;
    use ferrite_replica::group::{GroupConfiguration, Mark, Member};
    use ferrite_snapshot::SnapshotError;

    #[test]
    fn a_copy_counts_for_nothing_where_others_have_gone_on_without_it() {
        let founded = || testing::founded((1..=3).map(testing::node).collect(), &[1], &[1, 2, 3]);
        let configure = |state: &State, epoch: u64, members: &[u32]| {
            let added = members[1..].iter().copied().map(NodeId).collect();
            let members: Vec<Member> = members.iter().map(|id| Member::new(*id, 1)).collect();
            let (expected, parent) = (Epoch(epoch - 1), Mark::ORIGIN);
            let configuration = GroupConfiguration::new(Epoch(epoch), members[0], members, added);
            let mut state = state.clone();
            let command = Command::Configure { group: FIRST_GROUP, expected, configuration, parent };
            state.apply(&command).expect("it follows");
            state
        };
        let first = founded();
        let with = configure(&first, 2, &[1, 2]);
        let without = configure(&with, 3, &[1]);
        assert!(!leads_without(NodeId(2), &with, &with), "it may be needed");
        assert!(leads_without(NodeId(2), &without, &with));
        assert!(!leads_without(NodeId(2), &first, &with), "who says so has not heard of it");
        let mut sealing = without.clone();
        let seal = Command::Seal { group: FIRST_GROUP, expected: Epoch(3), epoch: Epoch(4) };
        sealing.apply(&seal).expect("it is led");
        assert!(!leads_without(NodeId(2), &sealing, &with), "nobody leads");
        assert!(!leads_without(NodeId(2), &State::default(), &with));
    }

    #[test]
    fn a_copy_of_a_group_that_counts_keeps_those_beside_it() {
        let of = |groups: &[&[u32]]| testing::of_groups((1..=3).map(testing::node).collect(), groups, &[1, 2, 3]);
        let known = of(&[&[1, 2], &[3, 2]]);
        assert!(leads_without(NodeId(2), &of(&[&[1], &[3, 1]]), &known));
        assert!(!leads_without(NodeId(2), &of(&[&[1], &[3, 2]]), &known), "it is a member of the second");
        assert!(!leads_without(NodeId(2), &of(&[&[1]]), &known), "nothing is said of the second");
    }

    #[test]
    fn only_what_can_be_cut_is_offered_to_be_cut() {
        let damage = || {
            let path = Path::new("/node/redo-0000000001.log").to_path_buf();
            let (stake, reached) = (Vec::new(), Vec::new());
            let detail = "a checksum differs".to_owned();
            Box::new(LogDamage { path, position: 4_096, missing: None, certain: true, detail, stake, reached })
        };
        let said = |error: StartError| if_all_are_lost(&error, Path::new("/node"));
        assert!(said(StartError::Rot(damage())).contains("recover --dir /node --accept-loss"));
        let of_no_use = [
            StartError::NothingLeft(damage()),
            StartError::Checkpoint { snapshot: 1 },
            StartError::Behind { snapshot: 1 },
            StartError::Installed { snapshot: 1 },
            StartError::CameBack { snapshot: 1 },
        ];
        let path = Path::new("/node/snapshots/snapshot-0000000001.manifest").to_path_buf();
        let of_a_later_release = SnapshotError::Schema { path, detail: "statement SET is not supported".to_owned() };
        assert_eq!(super::damage(&StartError::Snapshot(of_a_later_release)), None, "nothing is put aside");
        for error in of_no_use {
            assert!(super::damage(&error).is_some() && !said(error).contains("--dir"));
        }
    }
}
