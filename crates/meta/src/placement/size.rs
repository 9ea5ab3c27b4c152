//! How many nodes, copies and partitions go together.

use ferrite_base::limits::{CLUSTER_FOUNDERS_MAX, PARTITIONS_MAX};
use std::fmt;

/// The largest K: a group has one member more while one is exchanged for another.
pub const KFACTOR_MAX: u32 = crate::MEMBERS_MAX as u32 - 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterSize {
    /// Nodes that keep data.
    pub nodes: u32,
    /// Copies of a partition besides the first.
    pub kfactor: u32,
    /// Partitions that each node keeps, those that it leads and those that it copies.
    pub partitions_per_node: u32,
}

/// Why no layout has that size, and the nearest sizes that have one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplaceable {
    size: ClusterSize,
    why: String,
    nearest: Vec<ClusterSize>,
}

impl fmt::Display for ClusterSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count| if count == 1 { "" } else { "s" };
        let ClusterSize { nodes, kfactor, partitions_per_node } = *self;
        write!(f, "{nodes} node{} with data, K = {kfactor}, ", plural(nodes))?;
        write!(f, "{partitions_per_node} partition{} per node", plural(partitions_per_node))
    }
}

impl fmt::Display for Unplaceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. Possible are ", self.size, self.why)?;
        for (number, size) in self.nearest.iter().enumerate() {
            let between = match number {
                0 => "",
                _ if number + 1 == self.nearest.len() => "; or ",
                _ => "; ",
            };
            write!(f, "{between}{size}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Unplaceable {}

impl ClusterSize {
    fn copies(self) -> u32 {
        self.kfactor.saturating_add(1)
    }

    /// Partitions of the database.
    pub fn partitions(self) -> u32 {
        self.nodes.saturating_mul(self.partitions_per_node) / self.copies()
    }

    pub fn check(self) -> Result<(), Unplaceable> {
        match self.fault() {
            None => Ok(()),
            Some(why) => Err(Unplaceable { size: self, why, nearest: self.nearest() }),
        }
    }

    fn is_possible(self) -> bool {
        self.fault().is_none()
    }

    fn fault(self) -> Option<String> {
        let ClusterSize { nodes, kfactor, partitions_per_node } = self;
        if kfactor > KFACTOR_MAX {
            return Some(format!("a partition has {} copies at most", KFACTOR_MAX + 1));
        }
        if nodes <= kfactor {
            return Some("K + 1 copies of everything need K + 1 nodes with data".to_owned());
        }
        if nodes as usize > CLUSTER_FOUNDERS_MAX {
            return Some(format!("a cluster is founded with {CLUSTER_FOUNDERS_MAX} nodes at most"));
        }
        if partitions_per_node == 0 {
            return Some("each node keeps a partition".to_owned());
        }
        let kept = nodes.saturating_mul(partitions_per_node);
        if !kept.is_multiple_of(self.copies()) {
            let copies = self.copies();
            return Some(format!("{kept} copies are not a multiple of the {copies} that each partition has"));
        }
        let most = PARTITIONS_MAX;
        (self.partitions() as usize > most).then(|| format!("a database has {most} partitions at most"))
    }

    /// With one of the three changed; if that is not enough, with the others within their limits.
    fn nearest(self) -> Vec<ClusterSize> {
        let near = self.neighbours();
        if !near.is_empty() {
            return near;
        }
        let kfactor = self.kfactor.min(KFACTOR_MAX);
        let nodes = self.nodes.clamp(kfactor + 1, CLUSTER_FOUNDERS_MAX as u32);
        let partitions_per_node = self.partitions_per_node.clamp(1, PARTITIONS_MAX as u32);
        let within = ClusterSize { nodes, kfactor, partitions_per_node };
        if within.is_possible() { vec![within] } else { within.neighbours() }
    }

    /// The nearest possible sizes that differ in one of the three.
    fn neighbours(self) -> Vec<ClusterSize> {
        let per_node = move |partitions_per_node| ClusterSize { partitions_per_node, ..self };
        let of_nodes = move |nodes| ClusterSize { nodes, ..self };
        let nodes_max = CLUSTER_FOUNDERS_MAX as u32;
        let partitions_max = PARTITIONS_MAX as u32;
        let fewer_partitions = (1..self.partitions_per_node.min(partitions_max + 1)).rev().map(per_node);
        let more_partitions = (self.partitions_per_node.saturating_add(1)..=partitions_max).map(per_node);
        let fewer_nodes = (1..self.nodes.min(nodes_max + 1)).rev().map(of_nodes);
        let more_nodes = (self.nodes.saturating_add(1)..=nodes_max).map(of_nodes);
        let fewer_copies =
            (0..self.kfactor.min(KFACTOR_MAX + 1)).rev().map(move |kfactor| ClusterSize { kfactor, ..self });
        let first = |mut sizes: Box<dyn Iterator<Item = ClusterSize>>| sizes.find(|size| size.is_possible());
        let ways: [Box<dyn Iterator<Item = ClusterSize>>; 5] = [
            Box::new(fewer_partitions),
            Box::new(more_partitions),
            Box::new(fewer_nodes),
            Box::new(more_nodes),
            Box::new(fewer_copies),
        ];
        ways.into_iter().filter_map(first).collect()
    }
}

/// Partitions that a node keeps unless its operator gives a number: about 75 % of its cores, and
/// possible with that many nodes and copies. The rest is for the network, the log and the copies'
/// appliers.
pub fn default_partitions_per_node(cores: usize, nodes: u32, kfactor: u32) -> u32 {
    let wanted = u32::try_from(cores * 3 / 4).unwrap_or(u32::MAX).clamp(1, PARTITIONS_MAX as u32);
    let is_possible = |count: &u32| ClusterSize { nodes, kfactor, partitions_per_node: *count }.is_possible();
    let possible = (1..=PARTITIONS_MAX as u32).filter(is_possible);
    // Of two that are as near, the lower one.
    possible.min_by_key(|count| count.abs_diff(wanted)).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(nodes: u32, kfactor: u32, partitions_per_node: u32) -> ClusterSize {
        ClusterSize { nodes, kfactor, partitions_per_node }
    }

    #[test]
    fn what_does_not_divide_is_refused_with_the_nearest_that_does() {
        for (given, said) in [
            (
                size(3, 1, 3),
                "3 nodes with data, K = 1, 3 partitions per node: 9 copies are not a multiple of the 2 that each \
                 partition has. Possible are 3 nodes with data, K = 1, 2 partitions per node; 3 nodes with data, K = 1, \
                 4 partitions per node; 2 nodes with data, K = 1, 3 partitions per node; 4 nodes with data, K = 1, 3 \
                 partitions per node; or 3 nodes with data, K = 0, 3 partitions per node",
            ),
            (
                size(1, 1, 2),
                "1 node with data, K = 1, 2 partitions per node: K + 1 copies of everything need K + 1 nodes with data. \
                 Possible are 2 nodes with data, K = 1, 2 partitions per node; or 1 node with data, K = 0, 2 partitions \
                 per node",
            ),
            (
                size(48, 0, 22),
                "48 nodes with data, K = 0, 22 partitions per node: a database has 1024 partitions at most. Possible are \
                 48 nodes with data, K = 0, 21 partitions per node; or 46 nodes with data, K = 0, 22 partitions per node",
            ),
            (
                size(49, 9, 0),
                "49 nodes with data, K = 9, 0 partitions per node: a partition has 7 copies at most. Possible are 48 \
                 nodes with data, K = 6, 7 partitions per node; 42 nodes with data, K = 6, 1 partition per node; or 48 \
                 nodes with data, K = 5, 1 partition per node",
            ),
        ] {
            assert_eq!(given.check().map_err(|refused| refused.to_string()), Err(said.to_owned()));
        }
    }

    #[test]
    fn what_is_named_as_possible_is() {
        for nodes in [0, 1, 2, 3, 5, 7, 24, 47, 48, 49, 1_000, u32::MAX] {
            for kfactor in [0, 1, 2, 3, 6, 7, 8, u32::MAX] {
                for partitions_per_node in [0, 1, 2, 3, 6, 25, 1_023, 1_024, 1_025, u32::MAX] {
                    let given = size(nodes, kfactor, partitions_per_node);
                    let Err(refused) = given.check() else { continue };
                    assert!(!refused.nearest.is_empty(), "{refused}");
                    assert!(refused.nearest.iter().all(|nearest| nearest.is_possible()), "{refused}");
                }
            }
        }
    }

    #[test]
    fn three_quarters_of_the_cores_are_for_partitions() {
        let with =
            |nodes, kfactor| [1, 2, 4, 8, 16, 96].map(|cores| default_partitions_per_node(cores, nodes, kfactor));
        assert_eq!(with(4, 1), [1, 1, 3, 6, 12, 72]);
        assert_eq!(with(3, 1), [2, 2, 2, 6, 12, 72], "with three nodes pairs need an even number");
        assert_eq!(with(3, 2), [1, 1, 3, 6, 12, 72]);
        assert_eq!(with(48, 0), [1, 1, 3, 6, 12, 21], "a database has 1024 partitions at most");
    }
}
