//! The tables of `@ClusterStatus`: nodes, groups, voters, each node's figures, and what the cluster
//! is as a whole.
//!
//! They show what they are given: what this node knows of the others is in `reachability.rs`, what
//! follows from it in `tolerance.rs`.

mod groups;
mod nodes;

use crate::figures::AllFigures;
use crate::reachability::{Reachability, majority};
use crate::tolerance::spare_voters;
use ferrite_base::NodeId;
use ferrite_meta::{Phase, Presence, State};
use ferrite_system::result::{Cell, SystemTable, cells};
use ferrite_value::SqlType;
use std::collections::BTreeSet;
use std::time::Instant;

pub use groups::{group, group_table};
pub use nodes::{nodes, nodes_table, word};

pub fn voters_table() -> SystemTable {
    SystemTable::new(&[
        ("VOTERS", SqlType::Integer),
        ("VOTERS_THERE", SqlType::Integer),
        ("MAJORITY", SqlType::Integer),
        ("LOSSES_WITH_DECISIONS", SqlType::Integer),
        ("MISSING", SqlType::Varchar),
    ])
}

/// `heard`: this process has had the time to hear the others.
pub fn voters(state: &State, reachability: &Reachability, heard: bool) -> SystemTable {
    let mut table = voters_table();
    let voters = state.voters().len();
    let missing = reachability.all_missing(state);
    table.row(cells![
        voters as i64,
        (voters - missing.len()) as i64,
        majority(state) as i64,
        heard.then_some(spare_voters(state, reachability) as i64),
        missing.join(", ")
    ]);
    table
}

/// A row for each node that has sent them lately. `leader`: its figures for the others count.
pub fn figures(state: &State, leader: Option<NodeId>, all: &AllFigures) -> SystemTable {
    let mut table = SystemTable::new(&[
        ("NODE", SqlType::Integer),
        ("RELEASE", SqlType::Varchar),
        ("UPTIME_SECONDS", SqlType::Bigint),
        ("DURABILITY", SqlType::Varchar),
        ("MEMORY_BYTES", SqlType::Bigint),
        ("DATA_BYTES", SqlType::Bigint),
        ("DISK_FREE_BYTES", SqlType::Bigint),
        ("BEHIND_ENTRIES", SqlType::Bigint),
        ("SNAPSHOT_AGE_SECONDS", SqlType::Bigint),
        ("BACKUP_AGE_SECONDS", SqlType::Bigint),
    ]);
    let now = Instant::now();
    // Where there are several groups, each leader knows of those that copy its groups.
    let active = state.groups().values().filter(|group| group.phase == Phase::Active);
    let leaders: BTreeSet<NodeId> = match state.groups().len() {
        0 | 1 => leader.into_iter().collect(),
        _ => active.map(|group| group.configuration.leader.node).collect(),
    };
    let said: Vec<_> = leaders.iter().filter_map(|leader| all.of(*leader, now)).collect();
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    for (id, node) in state.nodes().iter().filter(|(_, node)| node.presence != Presence::Retired) {
        let Some(figures) = all.of(*id, now) else { continue };
        // A node without data has none of these.
        let of_data = |number: u64| (!figures.durability.is_empty()).then_some(count(number));
        let of_it = said.iter().flat_map(|said| &said.behind).filter(|(other, _)| other == id);
        let of_it: Vec<u64> = of_it.map(|(_, behind)| *behind).collect();
        let lag = (leaders.contains(id) || !of_it.is_empty()).then(|| of_it.iter().sum::<u64>());
        table.row(cells![
            i64::from(id.0),
            node.release.clone(),
            count(figures.uptime_seconds),
            figures.durability.clone(),
            count(figures.memory_bytes),
            of_data(figures.data_bytes),
            of_data(figures.disk_free_bytes),
            lag.map(count),
            figures.snapshot_age_seconds.map(count),
            figures.backup_age_seconds.map(count)
        ]);
    }
    table
}

/// One row; none before the cluster is founded. `full`: all copies that are to be there are.
pub fn cluster(state: &State, full: bool) -> SystemTable {
    let mut table = SystemTable::new(&[
        ("CLUSTER", SqlType::Varchar),
        ("STATE", SqlType::Varchar),
        ("SAFETY", SqlType::Varchar),
        ("PARTITIONS", SqlType::Integer),
        ("KFACTOR", SqlType::Integer),
    ]);
    if let Some(settings) = state.settings() {
        let id: String = settings.cluster.iter().map(|byte| format!("{byte:02x}")).collect();
        let row: [Cell; 5] = cells![
            id,
            if settings.paused { "PAUSED" } else { "RUNNING" },
            if full { "FULL" } else { "REDUCED" },
            i64::from(settings.partitions),
            i64::from(settings.kfactor)
        ];
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::testing;
    use ferrite_meta::Command;
    use ferrite_value::OwnedValue;

    #[test]
    fn the_leader_says_how_far_others_are_behind_and_who_is_silent_has_no_row() {
        let state = testing::founded((1..=4).map(testing::node).collect(), &[1, 2], &[1, 2, 4]);
        let (all, now) = (AllFigures::default(), Instant::now());
        let of_data = || Figures { durability: "sync".to_owned(), data_bytes: 5, ..Figures::default() };
        all.said(NodeId(1), Figures { behind: vec![(NodeId(2), 7)], ..of_data() }, now);
        all.said(NodeId(2), Figures { behind: vec![(NodeId(1), 99)], ..of_data() }, now);
        all.said(NodeId(4), Figures::default(), now);
        let shown = |leader| -> Vec<(OwnedValue, OwnedValue, OwnedValue)> {
            let table = figures(&state, leader, &all);
            table.rows().iter().map(|row| (row[0].clone(), row[5].clone(), row[7].clone())).collect()
        };
        let (number, null) = (OwnedValue::Integer, || OwnedValue::Null);
        let led = [(number(1), number(5), number(0)), (number(2), number(5), number(7)), (number(4), null(), null())];
        assert_eq!(shown(Some(NodeId(1))), led);
        assert_eq!(shown(None)[1], (number(2), number(5), null()), "an earlier leader's word does not count");
    }

    #[test]
    fn a_paused_cluster_and_one_that_lacks_a_copy_are_shown_as_such() {
        let mut state = testing::founded((1..=3).map(testing::node).collect(), &[1, 2], &[1, 2, 3]);
        let text = |text: &str| OwnedValue::Text(text.into());
        let shown = |state: &State, full| cluster(state, full).rows()[0][1..3].to_vec();
        assert_eq!(shown(&state, true), [text("RUNNING"), text("FULL")]);
        state.apply(&Command::Pause { revision: 1, paused: true }).expect("it follows");
        assert_eq!(shown(&state, false), [text("PAUSED"), text("REDUCED")]);
        assert!(cluster(&State::default(), true).rows().is_empty());
    }
}
