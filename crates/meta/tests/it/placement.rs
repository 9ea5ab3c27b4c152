//! Where groups are placed: even, apart, and so that a lost node's load does not fall on one other.

use ferrite_base::{NodeId, PartitionId};
use ferrite_meta::placement::{ClusterSize, GROUPS_LED_MAX, PlacedNode, Placement, place_groups};
use std::collections::{BTreeMap, BTreeSet};

fn nodes(racks: &[u32]) -> Vec<PlacedNode> {
    let named = (1..).zip(racks);
    named.map(|(node, rack)| PlacedNode { node: NodeId(node), rack: Some(format!("r{rack}")) }).collect()
}

fn without_racks(count: u32) -> Vec<PlacedNode> {
    (1..=count).map(|node| PlacedNode { node: NodeId(node), rack: None }).collect()
}

/// Nodes of each rack.
fn sizes(nodes: &[PlacedNode]) -> BTreeMap<String, usize> {
    let mut sizes = BTreeMap::new();
    for PlacedNode { node, rack } in nodes {
        *sizes.entry(rack.clone().unwrap_or_else(|| format!("node {node}"))).or_default() += 1;
    }
    sizes
}

/// What holds with and without racks.
fn assert_sound(nodes: &[PlacedNode], placement: &Placement) {
    let ClusterSize { kfactor, partitions_per_node, .. } = placement.size;
    let copies = kfactor as usize + 1;
    let placed: Vec<PartitionId> = placement.groups.iter().flat_map(|group| group.partitions.clone()).collect();
    let all: Vec<PartitionId> = (0..placement.partitions()).map(PartitionId).collect();
    assert_eq!(placed, all, "every partition is in one group");
    assert_eq!(all.len() * copies, nodes.len() * partitions_per_node as usize);
    for (number, group) in (0..).zip(&placement.groups) {
        assert_eq!(group.group.0, number);
        assert!(!group.partitions.is_empty());
        assert_eq!(group.place.iter().collect::<BTreeSet<_>>().len(), copies, "copies on different nodes");
    }
    let led: Vec<usize> = nodes.iter().map(|node| placement.partitions_led(node.node)).collect();
    assert!(led.iter().max().unwrap() - led.iter().min().unwrap() <= 1, "{led:?}");
    for (node, led) in nodes.iter().zip(&led) {
        assert_eq!(led + placement.partitions_copied(node.node), partitions_per_node as usize);
        let groups = placement.led(node.node).count();
        let most = GROUPS_LED_MAX.min(nodes.len() - 1).max(1).min(*led);
        assert!((usize::from(*led > 0)..=most).contains(&groups), "{groups} groups of {led} partitions");
        let sizes: Vec<usize> = placement.led(node.node).map(|group| group.partitions.len()).collect();
        // A last round of single partitions is besides.
        let least = sizes.iter().min().copied().unwrap_or(0);
        assert!(least <= 1 || sizes.iter().all(|size| size - least <= 1), "{sizes:?}");
    }
}

#[test]
fn without_racks_every_layout_is_even_and_a_lost_nodes_groups_go_to_as_many_others() {
    let mut layouts = 0;
    for count in 1..=24 {
        let nodes = without_racks(count);
        for kfactor in 0..=2 {
            for partitions_per_node in 1..=24 {
                let Ok(placement) = place_groups(&nodes, kfactor, partitions_per_node) else { continue };
                layouts += 1;
                assert_sound(&nodes, &placement);
                assert_eq!(placement.groups_sharing_racks, 0);
                for node in nodes.iter().filter(|_| kfactor > 0) {
                    let groups = placement.led(node.node).count();
                    let next = placement.next_leads(node.node).len();
                    assert_eq!(next, groups.min(nodes.len() - 1), "{}: node {}", placement.size, node.node);
                }
            }
        }
    }
    assert!(layouts > 1_000, "{layouts}");
}

#[test]
fn racks_keep_copies_apart_where_that_is_possible() {
    let mut apart = 0;
    let mut shared = 0;
    for count in [2, 3, 4, 5, 6, 7, 9, 10, 12, 15, 18, 24_u32] {
        for racks in 1..=count.min(6) {
            let dealt: Vec<u32> = (0..count).map(|node| node % racks).collect();
            let in_rows: Vec<u32> = (0..count).map(|node| node * racks / count).collect();
            // One rack has half of the nodes, the others share the rest.
            let uneven: Vec<u32> = (0..count).map(|node| if node < count / 2 { 0 } else { node % racks }).collect();
            for numbers in [dealt, in_rows, uneven] {
                let nodes = nodes(&numbers);
                for (kfactor, partitions_per_node) in [(1, 1), (1, 2), (1, 6), (1, 9), (2, 1), (2, 3), (2, 8)] {
                    let Ok(placement) = place_groups(&nodes, kfactor, partitions_per_node) else { continue };
                    assert_sound(&nodes, &placement);
                    let largest = sizes(&nodes).values().max().copied().unwrap();
                    let is_possible = largest * (kfactor as usize + 1) <= nodes.len();
                    assert_eq!(placement.groups_sharing_racks == 0, is_possible, "{}, {numbers:?}", placement.size);
                    apart += usize::from(is_possible);
                    shared += usize::from(!is_possible);
                    if !is_possible {
                        continue;
                    }
                    for node in &nodes {
                        // Where a rack has as many nodes as it may, all others are paired with it.
                        let groups = placement.led(node.node).count();
                        let next = placement.next_leads(node.node).len();
                        let others = nodes.iter().filter(|other| other.rack != node.rack).count();
                        let least =
                            if largest * racks as usize == nodes.len() { groups.min(others) } else { groups.min(2) };
                        assert!(next >= least, "{}, {numbers:?}: node {}, {next} nodes", placement.size, node.node);
                    }
                }
            }
        }
    }
    assert!(apart > 300 && shared > 100, "{apart} apart, {shared} not");
}

#[test]
fn an_operator_can_count_on_these() {
    let placed = |count, kfactor, partitions_per_node| {
        let placement = place_groups(&without_racks(count), kfactor, partitions_per_node).unwrap();
        let groups = placement.groups.iter().map(|group| {
            let place: Vec<u32> = group.place.iter().map(|node| node.0).collect();
            (group.partitions.len(), place)
        });
        groups.collect::<Vec<_>>()
    };
    assert_eq!(placed(1, 0, 6), [(6, vec![1])], "one node is one group");
    assert_eq!(placed(2, 1, 3), [(2, vec![1, 2]), (1, vec![2, 1])], "two nodes share all that they have");
    assert_eq!(placed(3, 1, 2), [(1, vec![1, 2]), (1, vec![2, 3]), (1, vec![3, 1])]);
    let three = [vec![1, 2], vec![1, 3], vec![2, 3], vec![2, 1], vec![3, 1], vec![3, 2]];
    assert_eq!(placed(3, 1, 4), three.clone().map(|place| (1, place)));
    assert_eq!(placed(3, 1, 12), three.map(|place| (3, place)));
    assert_eq!(placed(3, 2, 3), [(1, vec![1, 2, 3]), (1, vec![2, 3, 1]), (1, vec![3, 1, 2])]);
    assert_eq!(placed(2, 0, 3).len(), 2);
    // Groups of one lead on the same nodes are one, and count as one.
    let together = place_groups(&nodes(&[1, 1]), 1, 3).unwrap();
    assert_eq!((together.groups.len(), together.groups_sharing_racks), (2, 2));
}

#[test]
fn the_same_nodes_in_the_same_order_have_the_same_layout() {
    let nodes = nodes(&[1, 1, 1, 2, 2, 3, 3, 4]);
    let placement = place_groups(&nodes, 1, 6).unwrap();
    for _ in 0..4 {
        assert_eq!(place_groups(&nodes, 1, 6), Ok(placement.clone()));
    }
    // Ids need not be without gaps: a cluster has removed some.
    let shifted = nodes.iter().map(|node| PlacedNode { node: NodeId(node.node.0 * 3), ..node.clone() });
    let other = place_groups(&shifted.collect::<Vec<_>>(), 1, 6).unwrap();
    assert_eq!(other.groups[0].place[0].0, placement.groups[0].place[0].0 * 3);
}
