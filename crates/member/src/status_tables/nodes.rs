//! The table of the nodes: what each is, whether it runs and is reached, which part it has.

use crate::health::Health;
use crate::node_status::StatusSnapshot;
use crate::reachability::{Condition, Reachability};
use crate::tolerance::complete;
use ferrite_meta::{Group, Kind, Presence};
use ferrite_system::result::{SystemTable, cells};
use ferrite_value::SqlType;

pub fn word(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

pub fn nodes_table() -> SystemTable {
    SystemTable::new(&[
        ("NODE", SqlType::Integer),
        ("KIND", SqlType::Varchar),
        ("PRESENCE", SqlType::Varchar),
        ("REACHED", SqlType::Varchar),
        ("ROLE", SqlType::Varchar),
        ("VOTES", SqlType::Varchar),
        ("ADDRESS", SqlType::Varchar),
        ("CLIENTS", SqlType::Varchar),
        ("SILENT_MS", SqlType::Bigint),
        ("LACKS", SqlType::Varchar),
    ])
}

/// `in_step`: as for [`group`].
pub fn nodes(seen: &StatusSnapshot, in_step: Option<bool>, reachability: &Reachability) -> SystemTable {
    let state = &seen.state;
    let leads = |node| state.groups().keys().any(|id| seen.leading_of(*id).is_some_and(|leader| leader.node == node));
    let is_complete =
        |group: &Group, node| complete(&group.configuration, in_step.unwrap_or(false)).any(|member| member == node);
    let mut table = nodes_table();
    for (id, node) in state.nodes() {
        let kind = if node.kind == Kind::Data { "data" } else { "witness" };
        // Of any group.
        let role = match () {
            () if leads(*id) => "leader",
            () if state.groups().values().any(|group| is_complete(group, *id)) => "member",
            () => "",
        };
        let address = |place: usize| node.addresses.get(place).cloned().unwrap_or_default();
        table.row(cells![
            i64::from(id.0),
            kind,
            presence(node.presence, reachability.of(*id)),
            word(reachability.is_reached(*id)),
            role,
            reachability.vote(state, *id),
            address(0),
            address(1),
            reachability.of(*id).silent.map(|silent| silent.as_millis() as i64),
            reachability.lacks(*id)
        ]);
    }
    table
}

/// The metadata knows only what a node has reported itself: a killed node still counts as running.
/// A process that is heard knows better: it may not take part yet, or no longer.
fn presence(presence: Presence, found: Condition) -> &'static str {
    let says = |is: fn(&Health) -> bool| found.health.as_ref().is_some_and(is);
    match presence {
        Presence::Retired => "retired",
        _ if found.reached && says(|health| health.log_failed) => "failed",
        _ if found.reached && says(|health| health.starting) => "starting",
        Presence::Running if found.reached => "running",
        Presence::Running => "silent",
        // It is connected, and has reported nothing yet.
        Presence::Stopped if found.reached && found.health.is_none() => "starting",
        // It has reported it itself previously, and may still run.
        Presence::Stopped if found.failed => "failed",
        Presence::Stopped => "stopped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, WELL};
    use ferrite_value::OwnedValue;
    use std::sync::Arc;

    #[test]
    fn a_node_leads_if_it_leads_any_group() {
        let groups: &[&[u32]] = &[&[1, 2], &[2, 1]];
        let state = testing::of_groups((1..=3).map(testing::node).collect(), groups, &[1, 2, 3]);
        let seen = StatusSnapshot { state: Arc::new(state), registered: true, ..StatusSnapshot::default() };
        let shown = nodes(&seen, Some(true), &testing::all_well_but(0, WELL));
        let roles: Vec<_> = shown.rows().iter().map(|row| row[4].clone()).collect();
        assert_eq!(roles, ["leader", "leader", ""].map(|role| OwnedValue::Text(role.into())));
    }

    #[test]
    fn a_node_whose_log_failed_is_no_stopped_one_where_it_is_heard_no_more() {
        let failed = Condition { health: Some(Health { log_failed: true, ..Health::default() }), failed: true, ..WELL };
        let unheard = Condition { reached: false, health: None, ..failed };
        for (known, found, shown) in [
            (Presence::Running, failed, "failed"),
            (Presence::Stopped, failed, "failed"),
            (Presence::Stopped, unheard, "failed"),
            (Presence::Stopped, Condition::default(), "stopped"),
            (Presence::Running, unheard, "silent"),
            (Presence::Retired, unheard, "retired"),
        ] {
            assert_eq!(presence(known, found), shown);
        }
    }
}
