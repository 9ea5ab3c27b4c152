//! The cluster as a node knows it, for its operator (`ferrite admin status`).

use crate::equalizing::{UnequalGroups, unequal_groups};
use crate::figures::AllFigures;
use crate::health::{COUNTS, Healths};
use crate::links::Links;
use crate::node_status::{NodeStatus, StatusSnapshot};
use crate::orders::Order;
use crate::reachability::Reachability;
use crate::status_tables::{self, group, group_table, nodes, nodes_table, voters, voters_table, word};
use crate::tolerance::has_all_copies;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_meta::{Group, Kind, Node, Phase, Presence, State};
use ferrite_partition::waker::WakingSender;
use ferrite_replica::group::Member;
use ferrite_system::result::{SystemTable, cells};
use std::sync::Arc;
use std::time::Instant;

/// What calls about the cluster use of it.
pub struct Handle {
    pub orders: WakingSender<Order>,
    pub node_status: Arc<NodeStatus>,
    pub links: Links,
    pub healths: Arc<Healths>,
    pub figures: Arc<AllFigures>,
    /// When this process began to hear the others, and what it previously knew of the cluster.
    pub begun: Instant,
    pub before: Arc<State>,
}

impl Handle {
    /// The nodes, the group of the partitions, the voters; the nodes' figures, and the cluster.
    pub fn status(&self) -> Vec<SystemTable> {
        let mut seen = StatusSnapshot::clone(&self.node_status.seen());
        if seen.state.settings().is_none() {
            seen.state = Arc::clone(&self.before);
        }
        let reachability = Reachability::now(&seen.state, self.node_status.here(), &self.links, &self.healths);
        // A process that has just begun has not heard yet from those that are there.
        let heard = reachability.have_voters_said(&seen.state) || self.begun.elapsed() >= COUNTS;
        let in_step = self.in_step(&seen).filter(|_| heard && seen.registered);
        let there = |node, id| self.healths.of_group(node, id, Instant::now())?.phase;
        let group = group(&seen, in_step, &reachability, |id| self.node_status.applies(id), there);
        let figures = status_tables::figures(&seen.state, seen.leader(), &self.figures);
        let cluster = status_tables::cluster(&seen.state, has_all_copies(&seen, in_step, &reachability));
        vec![nodes(&seen, in_step, &reachability), group, voters(&seen.state, &reachability, heard), figures, cluster]
    }

    /// Groups whose copies of replicated tables may differ from those of others.
    pub fn unequal_groups(&self) -> UnequalGroups {
        unequal_groups(&self.node_status.seen().state)
    }

    /// The epoch with which the group's latest accepted loss began.
    pub fn loss_of(&self, group: GroupId) -> Option<Epoch> {
        self.node_status.seen().state.groups().get(&group)?.loss.map(|(epoch, _)| epoch)
    }

    /// The group's copies are equal, since the loss with which that epoch began.
    pub fn are_equal(&self, group: GroupId, loss: Epoch) {
        // The thread has ended only when the server stops.
        let _ = self.orders.send(Order::Equal { group, loss });
    }

    /// See [`has_all_copies`].
    pub fn has_all_copies(&self) -> bool {
        let seen = self.node_status.seen();
        let reachability = Reachability::now(&seen.state, self.node_status.here(), &self.links, &self.healths);
        has_all_copies(&seen, self.in_step(&seen).filter(|_| seen.registered), &reachability)
    }

    /// Whether all members of all groups have what is committed; None: this node does not know. The
    /// members know.
    fn in_step(&self, seen: &StatusSnapshot) -> Option<bool> {
        let mut of_each = seen.state.groups().iter().map(|(id, group)| self.is_in_step(seen, *id, group));
        if seen.state.groups().is_empty() {
            return Some(false);
        }
        of_each.try_fold(true, |all, of_one| Some(all & of_one?))
    }

    /// The same of one group.
    fn is_in_step(&self, seen: &StatusSnapshot, id: GroupId, group: &Group) -> Option<bool> {
        let configuration = &group.configuration;
        let members = configuration.members().iter().map(|member| member.node);
        let known =
            seen.standing(id).in_step || self.healths.know_in_step(members, id, configuration.epoch, Instant::now());
        let here = self.node_status.here();
        let is_here = |own: &Node| configuration.has(Member { node: here, incarnation: own.incarnation });
        let can_tell = group.phase != Phase::Active || seen.state.nodes().get(&here).is_some_and(is_here);
        (known || can_tell).then_some(known)
    }

    /// The nodes that could never lead.
    pub fn keeps_no_data(&self, node: NodeId) -> Option<String> {
        let state = &self.node_status.seen().state;
        let known = state.nodes().get(&node).filter(|known| known.presence != Presence::Retired);
        match known.map(|known| known.kind) {
            Some(Kind::Data) => None,
            Some(Kind::Witness) => Some(format!("node {node} is a witness, and keeps no data")),
            None => Some(format!("there is no node {node}: `ferrite admin status` shows those that there are")),
        }
    }
}

/// The same of a node that does not belong to a cluster yet. `known`: of the nodes that it asks,
/// each with its number where that is known; `waits_for`: in words.
pub fn before_there_is_a_cluster(known: &[Asked], kfactor: u32, waits_for: &str) -> Vec<SystemTable> {
    let mut nodes = nodes_table();
    let mut group = group_table();
    for asked in known {
        let kind = match asked.kind {
            Some(Kind::Data) => "data",
            Some(Kind::Witness) => "witness",
            None => "",
        };
        let presence = if asked.kind.is_some() { "starting" } else { "awaited" };
        nodes.row(cells![
            asked.number.map(i64::from),
            kind,
            presence,
            word(asked.kind.is_some()),
            "",
            "",
            asked.host.clone(),
            asked.clients.clone(),
            None::<i64>,
            ""
        ]);
    }
    let none = 0_i64;
    let unknown = None::<i64>;
    let no_phase = None::<&str>;
    group.row(cells![0_i64, none, none, none, i64::from(kfactor), unknown, unknown, waits_for.to_owned(), no_phase]);
    vec![nodes, group, voters_table()]
}

/// A node that is asked by one without a cluster.
#[derive(Default)]
pub struct Asked {
    pub number: Option<u32>,
    pub host: String,
    /// None: it has not answered.
    pub kind: Option<Kind>,
    /// Where clients reach it.
    pub clients: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;
    use crate::reachability::Condition;
    use crate::testing::{WELL, all_well_but, founded, four_nodes, node};
    use ferrite_base::Epoch;
    use ferrite_cluster::Lease;
    use ferrite_group::FIRST_GROUP;
    use ferrite_io::Clock;
    use ferrite_io::simulated::SimulatedClock;
    use ferrite_meta::Command;
    use ferrite_replica::group::GroupConfiguration;
    use ferrite_value::OwnedValue;
    use std::time::Duration;

    /// The view of a process that led and stood still: it has heard nothing of its successor.
    #[test]
    fn a_leader_without_a_lease_is_shown_as_one_that_waits_for_the_voters() {
        let (clock, all) = (SimulatedClock::default(), all_well_but(0, WELL));
        let lease = Lease::new(Arc::new(clock.clone()));
        lease.extend(clock.boottime_nanos() + 1);
        let lead = Some((NodeId(1), lease.clone()));
        let mut seen = StatusSnapshot { state: Arc::new(four_nodes()), lead, ..StatusSnapshot::default() };
        seen.standing_mut(FIRST_GROUP).serves = Some(Epoch(1));
        let shown = |seen: &StatusSnapshot| {
            let (nodes, group) = (nodes(seen, Some(true), &all), group(seen, Some(true), &all, |_| None, |_, _| None));
            [nodes.rows()[0][4].clone(), group.rows()[0][2].clone(), group.rows()[0][7].clone()]
        };
        let (number, text) = (OwnedValue::Integer, |text: &str| OwnedValue::Text(text.into()));
        assert_eq!(shown(&seen), [text("leader"), number(1), text("")]);
        clock.advance(Duration::from_nanos(1));
        let waits_for = "a word of the voters, whether node 1 leads on";
        assert_eq!(shown(&seen), [text("member"), number(0), text(waits_for)]);
        assert!(!has_all_copies(&seen, Some(true), &all), "CLUSTERSAFETY");
    }

    #[test]
    fn a_status_counts_a_just_added_member_as_a_copy_when_it_is_complete() {
        let mut state = founded((1..=3).map(node).collect(), &[1], &[1, 2, 3]);
        let members = vec![Member::new(1, 1), Member::new(2, 1)];
        let configuration = GroupConfiguration::new(Epoch(2), members[0], members, vec![NodeId(2)]);
        let (expected, parent) = (Epoch(1), ferrite_replica::group::Mark::ORIGIN);
        state.apply(&Command::Configure { group: FIRST_GROUP, expected, configuration, parent }).expect("it follows");
        let seen = StatusSnapshot { state: Arc::new(state), registered: true, ..StatusSnapshot::default() };
        let shown = |in_step, reachability: &Reachability| {
            let (nodes, group) =
                (nodes(&seen, in_step, reachability), group(&seen, in_step, reachability, |_| None, |_, _| None));
            [nodes.rows()[1][4].clone(), group.rows()[0][3].clone(), group.rows()[0][5].clone()]
        };
        let (number, text) = (OwnedValue::Integer, |text: &str| OwnedValue::Text(text.into()));
        let all = all_well_but(0, WELL);
        assert_eq!(shown(Some(false), &all), [text(""), number(1), number(0)]);
        assert_eq!(shown(None, &all), [text(""), number(1), OwnedValue::Null]);
        assert_eq!(shown(Some(true), &all), [text("member"), number(2), number(1)]);
        // Its machine lost power, and what it had acknowledged was not synced.
        let lacks = Condition { health: Some(Health { incomplete: true, ..Health::default() }), ..WELL };
        assert_eq!(shown(Some(true), &all_well_but(2, lacks)), [text("member"), number(2), number(0)]);
        assert!(!has_all_copies(&seen, Some(true), &all_well_but(2, lacks)));
    }
}
