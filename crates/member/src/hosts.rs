//! The cluster's nodes, as their clients see them.

use crate::node_status::StatusSnapshot;
use ferrite_base::{GroupId, NodeId};
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
        partitions: Vec::new(),
        kfactor: state.settings().map_or(0, |settings| settings.kfactor),
    })
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
