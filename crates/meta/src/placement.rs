//! Which nodes keep and lead which partitions where the groups of a cluster spread over its nodes:
//! a function of the nodes, their racks, K, and the number of partitions that a node keeps.
//!
//! Promises that
//!
//! - every partition is in one group, and a group's copies are on K + 1 nodes;
//! - every node keeps the same number of partitions, and the numbers of partitions that two nodes
//!   lead differ by one at most;
//! - the groups that a node leads have different next nodes, as far as the racks allow, so that the
//!   load of a lost node does not fall on one other;
//! - no two copies of a group are in one rack, unless a rack has more than one in K + 1 of the
//!   nodes: then copies cannot be both even and apart.
//!
//! Two calls with equal arguments give equal results, on every machine: founders compute the layout
//! each for itself.

mod draft;
mod size;

pub use size::{ClusterSize, KFACTOR_MAX, Unplaceable, default_partitions_per_node};

use draft::Draft;
use ferrite_base::{GroupId, NodeId, PartitionId};
use std::collections::{BTreeMap, BTreeSet};

/// A node leads this many groups at most: a lost node's load then falls on as many others, and each
/// group costs memory and messages.
pub const GROUPS_LED_MAX: usize = 4;

const _: () = assert!(GROUPS_LED_MAX * ferrite_base::limits::CLUSTER_FOUNDERS_MAX <= crate::GROUPS_MAX);

/// A node that is to keep data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedNode {
    pub node: NodeId,
    /// What fails together with other nodes of the same name. None: the node alone.
    pub rack: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedGroup {
    pub group: GroupId,
    /// In ascending order.
    pub partitions: Vec<PartitionId>,
    /// The nodes that are to keep it: the one that is to lead it, then the one that is next.
    pub place: Vec<NodeId>,
}

impl PlacedGroup {
    pub fn lead(&self) -> NodeId {
        self.place[0]
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    pub size: ClusterSize,
    /// By group.
    pub groups: Vec<PlacedGroup>,
    /// Groups with two copies in one rack.
    pub groups_sharing_racks: usize,
}

/// The layout for these nodes, in this order.
///
/// # Errors
/// The nodes cannot keep equal numbers of partitions, or too many or too few are asked for.
///
/// # Panics
/// If a node is named twice.
pub fn place_groups(nodes: &[PlacedNode], kfactor: u32, partitions_per_node: u32) -> Result<Placement, Unplaceable> {
    let size = ClusterSize { nodes: nodes.len() as u32, kfactor, partitions_per_node };
    size.check()?;
    let named: BTreeSet<NodeId> = nodes.iter().map(|node| node.node).collect();
    assert_eq!(named.len(), nodes.len(), "a node is named once");
    let racks = racks(nodes);
    let groups = Draft::new(&racks, kfactor as usize + 1, partitions_per_node as usize).into_groups();
    let shares_rack = |place: &[usize]| {
        let different: BTreeSet<usize> = place.iter().map(|at| racks[*at]).collect();
        different.len() < place.len()
    };
    let groups_sharing_racks = groups.iter().filter(|(_, place)| shares_rack(place)).count();
    let mut next = 0;
    let groups = (0..).zip(groups).map(|(group, (partitions, place))| {
        let first = next;
        next += partitions;
        PlacedGroup {
            group: GroupId(group),
            partitions: (first..next).map(PartitionId).collect(),
            place: place.into_iter().map(|at| nodes[at].node).collect(),
        }
    });
    let placement = Placement { size, groups: groups.collect(), groups_sharing_racks };
    placement.assert_even(nodes);
    Ok(placement)
}

/// A number for each node's rack, which nodes without one share with no other.
fn racks(nodes: &[PlacedNode]) -> Vec<usize> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut numbers = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        numbers.push(match &node.rack {
            Some(rack) => *known.entry(rack).or_insert(at),
            None => at,
        });
    }
    numbers
}

impl Placement {
    pub fn partitions(&self) -> u32 {
        self.size.partitions()
    }

    /// How many partitions the node leads.
    pub fn partitions_led(&self, node: NodeId) -> usize {
        self.led(node).map(|group| group.partitions.len()).sum()
    }

    /// How many partitions the node keeps that others lead.
    pub fn partitions_copied(&self, node: NodeId) -> usize {
        let copied = self.groups.iter().filter(|group| group.place[1..].contains(&node));
        copied.map(|group| group.partitions.len()).sum()
    }

    /// The groups that the node leads.
    pub fn led(&self, node: NodeId) -> impl Iterator<Item = &PlacedGroup> {
        self.groups.iter().filter(move |group| group.lead() == node)
    }

    /// The nodes that lead next what this node leads.
    pub fn next_leads(&self, node: NodeId) -> BTreeSet<NodeId> {
        self.led(node).filter_map(|group| group.place.get(1).copied()).collect()
    }

    /// Before the result is given away.
    fn assert_even(&self, nodes: &[PlacedNode]) {
        let placed: usize = self.groups.iter().map(|group| group.partitions.len()).sum();
        assert_eq!(placed, self.partitions() as usize, "every partition is in one group");
        for group in &self.groups {
            let different: BTreeSet<&NodeId> = group.place.iter().collect();
            assert_eq!(different.len(), self.size.kfactor as usize + 1, "copies are on different nodes");
        }
        let led: Vec<usize> = nodes.iter().map(|node| self.partitions_led(node.node)).collect();
        for (node, led) in nodes.iter().zip(&led) {
            let kept = led + self.partitions_copied(node.node);
            assert_eq!(kept, self.size.partitions_per_node as usize, "every node keeps as many partitions");
        }
        let most = led.iter().max().expect("there is a node");
        let least = led.iter().min().expect("there is a node");
        assert!(most - least <= 1, "leads are even");
    }
}
