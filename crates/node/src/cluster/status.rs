//! The cluster as a node knows it, for its operator (`ferrite admin status`).

use crate::cluster::links::Links;
use crate::cluster::loss;
use crate::cluster::node::Order;
use crate::cluster::standing::Standing;
use ferrite_base::NodeId;
use ferrite_group::FIRST_GROUP;
use ferrite_meta::{Kind, Phase, Presence, State, has_lost_its_vote};
use ferrite_partition::bell::Ringing;
use ferrite_peer::Lane;
use ferrite_replica::group::GroupConfiguration;
use ferrite_system::result::{SystemTable, cells};
use ferrite_value::SqlType;
use std::sync::Arc;

/// What calls about the cluster use of it.
pub struct Handle {
    pub orders: Ringing<Order>,
    pub standing: Arc<Standing>,
    pub links: Links,
}

impl Handle {
    /// The nodes, the group of the partitions, and who votes.
    pub fn status(&self) -> Vec<SystemTable> {
        let (seen, here) = (self.standing.seen(), self.standing.here());
        let reached = |node: NodeId| node == here || self.links.peers().waiting(node, Lane::Control).is_some();
        let group = group(&seen.state, seen.in_step, reached);
        vec![nodes(&seen.state, reached), group, voters(&seen.state, reached)]
    }
}

fn word(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// `lost`: it was given a vote, and its last process had another one, or none.
fn vote(state: &State, node: NodeId) -> &'static str {
    match state.voters().contains(&node) {
        true if has_lost_its_vote(state, node) => "lost",
        votes => word(votes),
    }
}

fn nodes(state: &State, reached: impl Fn(NodeId) -> bool) -> SystemTable {
    let mut table = SystemTable::new(&[
        ("NODE", SqlType::Integer),
        ("KIND", SqlType::Varchar),
        ("PRESENCE", SqlType::Varchar),
        ("REACHED", SqlType::Varchar),
        ("ROLE", SqlType::Varchar),
        ("VOTES", SqlType::Varchar),
        ("ADDRESS", SqlType::Varchar),
        ("CLIENTS", SqlType::Varchar),
    ]);
    let group = state.groups().get(&FIRST_GROUP);
    for (id, node) in state.nodes() {
        let kind = if node.kind == Kind::Data { "data" } else { "witness" };
        let presence = match node.presence {
            Presence::Running => "running",
            Presence::Stopped => "stopped",
            Presence::Retired => "retired",
        };
        let role = match group {
            Some(group) if group.phase == Phase::Active && group.configuration.leader.node == *id => "leader",
            Some(group) if group.configuration.has_node(*id) => "member",
            _ => "",
        };
        let address = |place: usize| node.addresses.get(place).cloned().unwrap_or_default();
        table.row(cells![
            i64::from(id.0),
            kind,
            presence,
            word(reached(*id)),
            role,
            vote(state, *id),
            address(0),
            address(1)
        ]);
    }
    table
}

/// `in_step`: all members have what is committed.
fn group(state: &State, in_step: bool, reached: impl Fn(NodeId) -> bool) -> SystemTable {
    let mut table = SystemTable::new(&[
        ("GROUP_ID", SqlType::Integer),
        ("EPOCH", SqlType::Bigint),
        ("LEADER", SqlType::Integer),
        ("MEMBERS", SqlType::Integer),
        ("KFACTOR", SqlType::Integer),
        ("LOSSES_WITH_DATA_KEPT", SqlType::Integer),
        ("LOSSES_WITH_SERVICE", SqlType::Integer),
        ("WAITS_FOR", SqlType::Varchar),
    ]);
    let kfactor = state.settings().map_or(0, |settings| settings.kfactor);
    for (id, group) in state.groups() {
        let active = group.phase == Phase::Active;
        let leader = if active { i64::from(group.configuration.leader.node.0) } else { 0 };
        let (data, service) = losses(state, active.then(|| keepers(&group.configuration, in_step)), &reached);
        table.row(cells![
            i64::from(id.0),
            group.configuration.epoch.0 as i64,
            leader,
            group.configuration.members().len() as i64,
            i64::from(kfactor),
            data as i64,
            service as i64,
            loss::waits_for(group).unwrap_or_default()
        ]);
    }
    table
}

fn voters(state: &State, reached: impl Fn(NodeId) -> bool) -> SystemTable {
    let mut table = SystemTable::new(&[
        ("VOTERS", SqlType::Integer),
        ("VOTERS_THERE", SqlType::Integer),
        ("MAJORITY", SqlType::Integer),
        ("LOSSES_WITH_DECISIONS", SqlType::Integer),
        ("MISSING", SqlType::Varchar),
    ]);
    let voters = state.voters();
    let missing = voters.iter().filter_map(|node| {
        if has_lost_its_vote(state, *node) {
            Some(format!("node {node} has lost its vote"))
        } else {
            (!reached(*node)).then(|| format!("node {node} is not reached"))
        }
    });
    let missing: Vec<String> = missing.collect();
    table.row(cells![
        voters.len() as i64,
        (voters.len() - missing.len()) as i64,
        majority(state) as i64,
        spare_voters(state, reached) as i64,
        missing.join(", ")
    ]);
    table
}

/// How many members could each lead alone.
fn keepers(configuration: &GroupConfiguration, in_step: bool) -> usize {
    configuration.members().len() - if in_step { 0 } else { configuration.added().len() }
}

fn majority(state: &State) -> usize {
    state.voters().len() / 2 + 1
}

/// How many voters more may be lost with a majority left of all.
fn spare_voters(state: &State, reached: impl Fn(NodeId) -> bool) -> usize {
    let counts = |voter: &&NodeId| reached(**voter) && !has_lost_its_vote(state, **voter);
    state.voters().iter().filter(counts).count().saturating_sub(majority(state))
}

/// How many nodes more may be lost, whichever these are, with what is committed kept, and with the
/// service going on. `members`: of a group that somebody leads, those that have everything.
fn losses(state: &State, members: Option<usize>, reached: impl Fn(NodeId) -> bool) -> (usize, usize) {
    let data = members.unwrap_or(1) - 1;
    (data, if members.is_some() { data.min(spare_voters(state, reached)) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{founded, node};
    use ferrite_base::{Epoch, Incarnation};
    use ferrite_meta::{Command, Node};
    use ferrite_replica::group::Member;

    fn state() -> State {
        let nodes = vec![node(1), node(2), Node { vote: None, ..node(3) }, Node { kind: Kind::Witness, ..node(4) }];
        founded(nodes, &[1, 2], &[1, 2, 4])
    }

    #[test]
    fn losses_that_it_stands_follow_from_members_and_voters() {
        let state = state();
        let with = |gone: &[u32]| losses(&state, Some(2), |node: NodeId| !gone.contains(&node.0));
        assert_eq!(with(&[]), (1, 1));
        assert_eq!(with(&[3]), (1, 1), "it does not vote");
        assert_eq!(with(&[4]), (1, 0));
        let mut lost = state.clone();
        let node =
            Node { incarnation: Incarnation(2), vote: None, start: [2; 16], ..state.nodes()[&NodeId(2)].clone() };
        let again = Command::Register { id: NodeId(2), expected: Incarnation(1), node };
        lost.apply(&again).expect("a later process");
        assert_eq!(losses(&lost, Some(2), |_| true), (1, 0), "a vote that is lost is not there");
        assert_eq!([1, 2, 3, 4].map(|id| vote(&lost, NodeId(id))), ["yes", "lost", "no", "yes"]);
        assert_eq!(losses(&state, Some(1), |_| true), (0, 0));
        let pair = vec![Member::new(1, 1), Member::new(2, 1)];
        let added = GroupConfiguration::new(Epoch(2), pair[0], pair, vec![NodeId(2)]);
        assert_eq!([true, false].map(|in_step| keepers(&added, in_step)), [2, 1]);
        assert_eq!(losses(&state, None, |_| true), (0, 0));
        let sealed = |state: &State| loss::waits_for(&state.groups()[&FIRST_GROUP]);
        assert_eq!(sealed(&state), None);
        let mut state = state;
        state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        assert_eq!(sealed(&state).as_deref(), Some("node 1 or node 2, members of its last configuration (epoch 1)"));
    }
}
