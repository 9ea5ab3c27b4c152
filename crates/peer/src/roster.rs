//! Which nodes are known, and which start of each: who may connect.

use crate::handshake::{Hello, NO_CLUSTER, Refusal};
use ferrite_base::{Incarnation, NodeId};
use std::collections::BTreeMap;

/// What is known of the cluster's nodes.
#[derive(Clone, Debug)]
pub struct Roster {
    here: Hello,
    /// Of each node that may connect: the latest start that was heard of.
    nodes: BTreeMap<NodeId, Option<(Incarnation, u64)>>,
}

impl Roster {
    /// `here`: this node; its lane does not matter.
    pub fn new(here: Hello) -> Roster {
        Roster { here, nodes: BTreeMap::new() }
    }

    pub fn here(&self) -> &Hello {
        &self.here
    }

    /// This node is another from here on.
    pub fn introduce(&mut self, here: Hello) {
        self.here = here;
        self.nodes.remove(&here.node);
    }

    /// The nodes that are expected; what is known of those that stay is kept.
    pub fn expect(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        let before = std::mem::take(&mut self.nodes);
        let known = |node: NodeId| (node, before.get(&node).copied().flatten());
        self.nodes = nodes.into_iter().filter(|node| *node != self.here.node).map(known).collect();
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    /// Whether whoever says this is a node of the cluster; if so, the version that is spoken.
    pub fn admit(&mut self, hello: &Hello) -> Result<u16, Refusal> {
        let version = self.here.common_version(hello).ok_or(Refusal::Version)?;
        if self.here.cluster == NO_CLUSTER {
            return Err(Refusal::NoCluster);
        }
        if hello.cluster != self.here.cluster {
            return Err(Refusal::Cluster);
        }
        if hello.node == self.here.node {
            return Err(Refusal::Copied);
        }
        let known = self.nodes.get_mut(&hello.node).ok_or(Refusal::Unknown)?;
        match known {
            Some((incarnation, _)) if hello.incarnation < *incarnation => Err(Refusal::Incarnation),
            Some((incarnation, start)) if hello.incarnation == *incarnation && hello.start != *start => {
                Err(Refusal::Copied)
            }
            _ => {
                *known = Some((hello.incarnation, hello.start));
                Ok(version)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Lane;

    fn hello(node: u32, incarnation: u64, start: u64) -> Hello {
        Hello {
            versions: (1, 1),
            lane: Lane::Control,
            cluster: [1; 16],
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
            start,
        }
    }

    #[test]
    fn only_the_latest_start_of_a_node_of_the_cluster_is_admitted() {
        let mut roster = Roster::new(hello(1, 5, 50));
        assert_eq!(roster.admit(&hello(2, 3, 30)), Err(Refusal::Unknown));
        roster.expect([NodeId(1), NodeId(2), NodeId(3)]);
        assert_eq!(roster.admit(&hello(2, 3, 30)), Ok(1));
        assert_eq!(roster.admit(&hello(2, 3, 30)), Ok(1), "another lane of the same start");
        assert_eq!(roster.admit(&hello(2, 3, 31)), Err(Refusal::Copied));
        assert_eq!(roster.admit(&hello(2, 4, 40)), Ok(1));
        roster.expect([NodeId(2)]);
        assert_eq!(roster.admit(&hello(2, 3, 30)), Err(Refusal::Incarnation));
        assert_eq!(roster.admit(&hello(3, 1, 10)), Err(Refusal::Unknown));
        assert_eq!(roster.admit(&hello(1, 6, 60)), Err(Refusal::Copied));
        assert_eq!(roster.admit(&Hello { cluster: [2; 16], ..hello(2, 9, 9) }), Err(Refusal::Cluster));
        assert_eq!(roster.admit(&Hello { versions: (2, 3), ..hello(2, 9, 9) }), Err(Refusal::Version));
    }

    #[test]
    fn a_node_of_no_cluster_admits_nobody_until_it_is_introduced() {
        let mut roster = Roster::new(Hello { cluster: NO_CLUSTER, ..hello(1, 5, 50) });
        roster.expect([NodeId(2)]);
        assert_eq!(roster.admit(&Hello { cluster: NO_CLUSTER, ..hello(2, 3, 30) }), Err(Refusal::NoCluster));
        assert_eq!(roster.admit(&hello(2, 3, 30)), Err(Refusal::NoCluster));
        roster.introduce(hello(1, 5, 50));
        assert_eq!(roster.admit(&hello(2, 3, 30)), Ok(1));
    }
}
