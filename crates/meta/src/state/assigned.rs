//! Which group has which partitions, and on which nodes it is to be.
//!
//! Invariant: in a state with a cluster either its one group has no assignment, and so all
//! partitions, or groups are numbered from 0 without a gap, each has an assignment, and every
//! partition is in exactly one of them.

use super::{Refusal, State};
use crate::MEMBERS_MAX;
use crate::parts::{Assignment, Group, Kind, Node, Settings};
use ferrite_base::limits::PARTITIONS_MAX;
use ferrite_base::{GroupId, GroupMap, NodeId, PartitionId};
use std::collections::{BTreeMap, BTreeSet};

impl State {
    /// Which partitions share a group.
    pub fn group_map(&self) -> GroupMap {
        let partitions = self.settings().map_or(0, |settings| settings.partitions);
        let assigned = self.groups.iter().filter_map(|(id, group)| Some((*id, group.assignment.as_ref()?)));
        let of: BTreeMap<PartitionId, GroupId> =
            assigned.flat_map(|(id, own)| own.partitions.iter().map(move |partition| (*partition, id))).collect();
        if of.is_empty() {
            return GroupMap::single(partitions);
        }
        GroupMap::new(of.into_values().collect()).expect("groups are numbered without a gap")
    }

    /// The groups that the node keeps, or is to keep. A group without a place may be on any node
    /// with data.
    pub fn kept_by(&self, node: NodeId) -> Vec<GroupId> {
        let has_data = self.nodes.get(&node).is_some_and(|known| known.kind == Kind::Data);
        let keeps = |group: &Group| {
            let place = self.place_of(group);
            place.is_empty() || place.contains(&node) || group.configuration.has_node(node)
        };
        let kept = self.groups.iter().filter(|(_, group)| has_data && keeps(group));
        kept.map(|(id, _)| *id).collect()
    }

    /// The partitions of a group, in ascending order.
    pub fn partitions_of(&self, id: GroupId) -> Vec<PartitionId> {
        let Some(group) = self.groups.get(&id) else { return Vec::new() };
        match &group.assignment {
            Some(assignment) => assignment.partitions.clone(),
            None => (0..self.settings().map_or(0, |settings| settings.partitions)).map(PartitionId).collect(),
        }
    }

    /// The group that has the partition.
    pub fn group_of(&self, partition: PartitionId) -> Option<GroupId> {
        if self.settings().is_none_or(|settings| partition.0 >= settings.partitions) {
            return None;
        }
        let has = |group: &Group| match &group.assignment {
            Some(assignment) => assignment.partitions.binary_search(&partition).is_ok(),
            None => true,
        };
        self.groups.iter().find(|(_, group)| has(group)).map(|(id, _)| *id)
    }

    /// The nodes that are to keep the group, as its place names them; in the stead of one that is
    /// replaced, the node that came to its address. None are named where any may.
    pub fn place_of(&self, group: &Group) -> Vec<NodeId> {
        group.place().iter().map(|node| self.replaced_by(*node)).collect()
    }

    /// Whether a node that comes to its address keeps anything: with data, a node of a place is or
    /// was there, unless some group may be anywhere.
    pub fn has_place_for(&self, node: &Node) -> bool {
        let is_there = |id: &NodeId| self.nodes.get(id).is_some_and(|known| known.host() == node.host());
        let takes = |group: &Group| group.place().is_empty() || group.place().iter().any(is_there);
        node.kind == Kind::Witness || self.groups.values().any(takes)
    }

    /// The node that is to lead the group, likewise.
    pub fn lead_of(&self, group: &Group) -> Option<NodeId> {
        group.lead().map(|node| self.replaced_by(node))
    }

    /// The node itself, or the last one at its address.
    fn replaced_by(&self, id: NodeId) -> NodeId {
        let host = self.nodes.get(&id).and_then(Node::host);
        let later = self.latest().find(|(later, node)| **later > id && node.host() == host);
        later.map_or(id, |(later, _)| *later)
    }
}

/// Refuses what would break the invariant.
pub(super) fn check(
    settings: &Settings,
    nodes: &BTreeMap<NodeId, Node>,
    groups: &BTreeMap<GroupId, Group>,
) -> Result<(), Refusal> {
    let assigned: Vec<&Assignment> = groups.values().filter_map(|group| group.assignment.as_ref()).collect();
    if assigned.is_empty() && groups.len() == 1 {
        return Ok(());
    }
    if assigned.len() < groups.len() {
        return Err(Refusal::Invalid("several groups each have partitions and a place"));
    }
    if !groups.keys().copied().eq((0..groups.len() as u32).map(GroupId)) {
        return Err(Refusal::Invalid("groups are numbered from 0 without a gap"));
    }
    if settings.partitions as usize > PARTITIONS_MAX {
        return Err(Refusal::Invalid("a database has 1024 partitions at most"));
    }
    let mut partitions: Vec<PartitionId> = Vec::new();
    for Assignment { partitions: own, place } in assigned {
        let is_ascending = own.windows(2).all(|pair| pair[0] < pair[1]);
        if own.is_empty() || !is_ascending {
            return Err(Refusal::Invalid("a group has partitions, in ascending order"));
        }
        partitions.extend(own);
        let keeps = |node: &NodeId| nodes.get(node).is_some_and(|node| node.kind == Kind::Data);
        let different: BTreeSet<&NodeId> = place.iter().collect();
        // One member more while it moves.
        let fits = !place.is_empty() && place.len() < MEMBERS_MAX && different.len() == place.len();
        if !fits || !place.iter().all(keeps) {
            return Err(Refusal::Invalid("a group's place is on different nodes with data, 7 at most"));
        }
    }
    partitions.sort_unstable();
    if !partitions.into_iter().eq((0..settings.partitions).map(PartitionId)) {
        return Err(Refusal::Invalid("every partition is in one group"));
    }
    Ok(())
}
