//! The table of the nodes: what each is, whether it runs and is reached, which part it has.

use crate::health::Health;
use crate::node_status::StatusSnapshot;
use crate::reachability::{Condition, Reachability};
use crate::tolerance::complete;
use ferrite_group::FIRST_GROUP;
use ferrite_meta::{Kind, Presence};
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
    let leader = seen.leader();
    let mut table = nodes_table();
    let group = state.groups().get(&FIRST_GROUP);
    for (id, node) in state.nodes() {
        let kind = if node.kind == Kind::Data { "data" } else { "witness" };
        let role = match group {
            _ if leader == Some(*id) => "leader",
            Some(group) if complete(&group.configuration, in_step.unwrap_or(false)).any(|member| member == *id) => {
                "member"
            }
            _ => "",
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
    use crate::testing::WELL;

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
