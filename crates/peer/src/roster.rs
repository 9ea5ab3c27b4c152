//! The known nodes and the start of each: which processes may connect.

use crate::handshake::{Hello, NO_CLUSTER, Refusal};
use ferrite_base::{Incarnation, NodeId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// This long after the last message of a node's start a later one takes its place. The leader hears
/// from all nodes more often; and if a process has ended, its connections show it at once.
const SILENT: Duration = Duration::from_secs(2);
/// The shortest time between two reports that something came.
pub const HEARD_EVERY: Duration = Duration::from_millis(250);

/// What is known of the cluster's nodes.
#[derive(Clone, Debug)]
pub struct Roster {
    here: Hello,
    /// For each node that may connect: the latest start that was heard of.
    nodes: BTreeMap<NodeId, Option<Started>>,
}

#[derive(Clone, Copy, Debug)]
struct Started {
    incarnation: Incarnation,
    start: u64,
    /// When something came on one of its connections. None: nothing has, or they are closed.
    heard: Option<Instant>,
    /// The same, whether or not they are closed.
    heard_last: Option<Instant>,
}

impl Roster {
    /// `here`: this node; its lane does not matter.
    pub fn new(here: Hello) -> Roster {
        Roster { here, nodes: BTreeMap::new() }
    }

    pub fn here(&self) -> &Hello {
        &self.here
    }

    /// This node now has another identity.
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

    /// That start of a node has connected, and has said nothing else yet: a later one may take its
    /// place at once.
    pub fn opened(&mut self, node: NodeId, incarnation: Incarnation, now: Instant) {
        if let Some(Some(known)) = self.nodes.get_mut(&node)
            && known.incarnation == incarnation
        {
            known.heard_last = Some(now);
        }
    }

    /// Something came from that start of a node.
    pub fn heard(&mut self, node: NodeId, incarnation: Incarnation, now: Instant) {
        if let Some(Some(known)) = self.nodes.get_mut(&node)
            && known.incarnation == incarnation
        {
            (known.heard, known.heard_last) = (Some(now), Some(now));
        }
    }

    /// When something came from the node's latest start, to a quarter of a second.
    pub fn heard_last(&self, node: NodeId) -> Option<Instant> {
        self.nodes.get(&node).copied().flatten()?.heard_last
    }

    /// Its connections are closed, as when the process has ended.
    pub fn closed(&mut self, node: NodeId, incarnation: Incarnation) {
        if let Some(Some(known)) = self.nodes.get_mut(&node)
            && known.incarnation == incarnation
        {
            known.heard = None;
        }
    }

    /// Whether the sender of this may be a node of the cluster; if so, the version to speak.
    pub fn judge(&self, hello: &Hello, now: Instant) -> Result<u16, Refusal> {
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
        let place = self.nodes.get(&hello.node).ok_or(Refusal::Unknown)?;
        if let Some(known) = place {
            if hello.incarnation < known.incarnation {
                return Err(Refusal::Incarnation);
            }
            if hello.incarnation == known.incarnation {
                return if hello.start == known.start { Ok(version) } else { Err(Refusal::Copied) };
            }
            // If the earlier one lives, this is not a restart of it.
            if known.heard.is_some_and(|heard| now.saturating_duration_since(heard) < SILENT) {
                return Err(Refusal::Runs);
            }
        }
        Ok(version)
    }

    /// The same for a process whose answer shows that it is there now: a later start becomes known.
    pub fn admit(&mut self, hello: &Hello, now: Instant) -> Result<u16, Refusal> {
        let version = self.judge(hello, now)?;
        let place = self.nodes.get_mut(&hello.node).expect("it was judged");
        if place.is_none_or(|known| known.incarnation < hello.incarnation) {
            *place =
                Some(Started { incarnation: hello.incarnation, start: hello.start, heard: None, heard_last: None });
        }
        Ok(version)
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
    fn a_later_start_takes_no_place_of_one_that_lives() {
        let begin = Instant::now();
        let mut roster = Roster::new(hello(1, 5, 50));
        roster.expect([NodeId(2)]);
        assert_eq!(roster.admit(&hello(2, 3, 30), begin), Ok(1));
        assert_eq!(roster.heard_last(NodeId(2)), None);
        roster.opened(NodeId(2), Incarnation(3), begin);
        assert_eq!(roster.heard_last(NodeId(2)), Some(begin));
        assert_eq!(roster.judge(&hello(2, 4, 40), begin), Ok(1), "it has only connected");
        roster.heard(NodeId(2), Incarnation(3), begin);
        assert_eq!(roster.admit(&hello(2, 4, 40), begin + SILENT - Duration::from_nanos(1)), Err(Refusal::Runs));
        assert_eq!(roster.admit(&hello(2, 3, 30), begin + SILENT), Ok(1), "the one that lives");
        assert_eq!(roster.admit(&hello(2, 4, 40), begin + SILENT), Ok(1), "it is silent");
        roster.heard(NodeId(2), Incarnation(3), begin + SILENT);
        roster.heard(NodeId(2), Incarnation(4), begin + SILENT);
        assert_eq!(roster.admit(&hello(2, 5, 50), begin + SILENT), Err(Refusal::Runs));
        roster.closed(NodeId(2), Incarnation(3));
        assert_eq!(roster.admit(&hello(2, 5, 50), begin + SILENT), Err(Refusal::Runs), "another was closed");
        roster.closed(NodeId(2), Incarnation(4));
        assert_eq!(roster.heard_last(NodeId(2)), Some(begin + SILENT), "that is so, closed or not");
        assert_eq!(roster.admit(&hello(2, 5, 50), begin + SILENT), Ok(1));
    }

    #[test]
    fn only_the_latest_start_of_a_node_of_the_cluster_is_admitted() {
        let mut roster = Roster::new(hello(1, 5, 50));
        let admit = |roster: &mut Roster, hello: &Hello| roster.admit(hello, Instant::now());
        assert_eq!(admit(&mut roster, &hello(2, 3, 30)), Err(Refusal::Unknown));
        roster.expect([NodeId(1), NodeId(2), NodeId(3)]);
        assert_eq!(roster.judge(&hello(2, 8, 80), Instant::now()), Ok(1), "who only says so is not remembered");
        assert_eq!(admit(&mut roster, &hello(2, 3, 30)), Ok(1));
        assert_eq!(admit(&mut roster, &hello(2, 3, 30)), Ok(1), "another lane of the same start");
        assert_eq!(admit(&mut roster, &hello(2, 3, 31)), Err(Refusal::Copied));
        assert_eq!(admit(&mut roster, &hello(2, 4, 40)), Ok(1));
        roster.expect([NodeId(2)]);
        assert_eq!(admit(&mut roster, &hello(2, 3, 30)), Err(Refusal::Incarnation));
        assert_eq!(admit(&mut roster, &hello(3, 1, 10)), Err(Refusal::Unknown));
        assert_eq!(admit(&mut roster, &hello(1, 6, 60)), Err(Refusal::Copied));
        assert_eq!(admit(&mut roster, &Hello { cluster: [2; 16], ..hello(2, 9, 9) }), Err(Refusal::Cluster));
        assert_eq!(admit(&mut roster, &Hello { versions: (2, 3), ..hello(2, 9, 9) }), Err(Refusal::Version));
    }

    #[test]
    fn a_node_of_no_cluster_admits_nobody_until_it_is_introduced() {
        let admit = |roster: &mut Roster, hello: &Hello| roster.admit(hello, Instant::now());
        let mut roster = Roster::new(Hello { cluster: NO_CLUSTER, ..hello(1, 5, 50) });
        roster.expect([NodeId(2)]);
        assert_eq!(admit(&mut roster, &Hello { cluster: NO_CLUSTER, ..hello(2, 3, 30) }), Err(Refusal::NoCluster));
        assert_eq!(admit(&mut roster, &hello(2, 3, 30)), Err(Refusal::NoCluster));
        roster.introduce(hello(1, 5, 50));
        assert_eq!(admit(&mut roster, &hello(2, 3, 30)), Ok(1));
    }
}
