//! The cluster's nodes, as their clients see them.

use crate::node_status::StatusSnapshot;
use ferrite_base::{GroupId, NodeId, PartitionId};
use ferrite_meta::{Group, Kind, Presence, State};
use ferrite_system::hosts::{GroupHosts, Host, Hosts};

/// As clients number it.
pub fn host_id(node: NodeId) -> i32 {
    i32::try_from(node.0).unwrap_or(i32::MAX)
}

/// What the metadata says, as this node knows it. Whether this node may say that it leads is
/// checked when a client asks ([`crate::topology::Topology::hosts`]).
pub fn hosts(seen: &StatusSnapshot) -> Option<Hosts> {
    let state = &seen.state;
    let of_group = |(id, group): (&GroupId, &Group)| {
        let mut keep: Vec<i32> = group.configuration.members().iter().map(|member| host_id(member.node)).collect();
        keep.sort_unstable();
        let leader = seen.chosen_for(*id).map(|leader| host_id(leader.node));
        GroupHosts { keep, leader, epoch: group.configuration.epoch.0 }
    };
    let groups: Vec<GroupHosts> = state.groups().iter().map(of_group).collect();
    if groups.is_empty() {
        return None;
    }
    let of_data = |kind: Kind, presence: Presence| kind == Kind::Data && presence != Presence::Retired;
    let nodes = state.nodes().iter().filter(|(_, node)| of_data(node.kind, node.presence));
    let host = |(id, node): (&NodeId, &ferrite_meta::Node)| Host {
        id: host_id(*id),
        clients: node.addresses.get(1).cloned(),
        administrators: node.addresses.get(2).cloned(),
    };
    Some(Hosts {
        hosts: nodes.map(host).collect(),
        groups,
        partitions: places_of_partitions(state),
        kfactor: state.settings().map_or(0, |settings| settings.kfactor),
    })
}

/// By partition: the place of its group. Empty where one group has all.
fn places_of_partitions(state: &State) -> Vec<usize> {
    let partitions = state.settings().map_or(0, |settings| settings.partitions);
    if state.groups().values().all(|group| group.assignment.is_none()) {
        return Vec::new();
    }
    let place_of = |partition| {
        let has_it = |group: &Group| {
            group.assignment.as_ref().is_some_and(|assignment| assignment.partitions.contains(&PartitionId(partition)))
        };
        state.groups().values().position(has_it).unwrap_or(0)
    };
    (0..partitions).map(place_of).collect()
}

/// The name under which clients know the cluster: drivers compare it, and take nodes with another
/// name for another cluster. It is drawn as the cluster's id is, in the form of a time and an
/// address.
pub fn cluster_name(state: &State) -> Option<(i64, [u8; 4])> {
    /// Milliseconds of 69 years, so that it can be shown as a time.
    const MASK: u64 = (1 << 41) - 1;
    let cluster = state.settings()?.cluster;
    let (time, rest) = cluster.split_at(8);
    let time = u64::from_le_bytes(time.try_into().expect("eight bytes")) & MASK;
    Some((time as i64, rest[..4].try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::sync::Arc;

    #[test]
    fn each_partition_is_where_its_group_is() {
        let shown = |groups: &[&[u32]]| {
            let state = testing::of_groups((1..=3).map(testing::node).collect(), groups, &[1, 2, 3]);
            hosts(&StatusSnapshot { state: Arc::new(state), ..StatusSnapshot::default() }).expect("it has groups")
        };
        let several = shown(&[&[2, 1], &[3, 2], &[1, 3]]);
        let of = |partition: usize| {
            let group = several.of_partition(partition).expect("it is assigned");
            (group.keep.clone(), group.leader)
        };
        assert_eq!([of(0), of(1), of(2)], [(vec![1, 2], Some(2)), (vec![2, 3], Some(3)), (vec![1, 3], Some(1))]);
        assert_eq!(several.of_all().and_then(|group| group.leader), Some(2), "the first group's leader");
        let one = shown(&[&[2, 1]]);
        assert!(one.partitions.is_empty() && one.of_partition(7).is_some(), "one group has all");
    }
}
