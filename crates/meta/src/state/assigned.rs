//! Which group has which partitions, and on which nodes it is to be.
//!
//! Invariant: in a state with a cluster either its one group has no assignment, and so all
//! partitions, or each group has one, and every partition is in exactly one of them.

use super::{Refusal, State};
use crate::MEMBERS_MAX;
use crate::parts::{Assignment, Group, Kind, Node, Settings};
use ferrite_base::limits::PARTITIONS_MAX;
use ferrite_base::{GroupId, NodeId, PartitionId};
use std::collections::{BTreeMap, BTreeSet};

impl State {
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
