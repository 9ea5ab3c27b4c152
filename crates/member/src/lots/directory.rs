//! Which node leads which group, as the nodes say themselves on their connections for lots.
//!
//! Invariants: a group has one leader here, the one of the highest epoch that was ever heard of,
//! and none while that cannot be reached: what an earlier leader says is not believed again. Each
//! connection has a number, and what was decided by what came on one is not sent on another
//! ([`Leader`]). Where a leader is another than before in any of this, the group is lost first:
//! what was under way to it is.

use crate::lots::frame::Led;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_group::FIRST_GROUP;
use std::collections::BTreeMap;

/// The way to the agent of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leader {
    pub node: NodeId,
    /// Number of the connection; 0 here.
    pub link: u64,
    pub epoch: Epoch,
}

/// What is different now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaderChange {
    Lost(GroupId, Leader),
    Led(GroupId, Leader),
    Holds(GroupId, bool),
}

/// What a node says that it leads.
struct Announced {
    link: u64,
    leads: Vec<Led>,
}

pub struct LeaderDirectory {
    here: NodeId,
    /// Of the nodes that are connected, and of this one.
    said: BTreeMap<NodeId, Announced>,
    links: u64,
    /// By group, the highest epoch that any node ever said.
    highest: BTreeMap<GroupId, Epoch>,
    leaders: BTreeMap<GroupId, (Leader, bool)>,
}

impl LeaderDirectory {
    pub fn new(here: NodeId) -> LeaderDirectory {
        let said = BTreeMap::from([(here, Announced { link: 0, leads: Vec::new() })]);
        LeaderDirectory { here, said, links: 0, highest: BTreeMap::new(), leaders: BTreeMap::new() }
    }

    pub fn here(&self) -> NodeId {
        self.here
    }

    /// A node is connected, and has said nothing yet.
    pub fn opened(&mut self, node: NodeId) -> Vec<LeaderChange> {
        assert!(node != self.here, "a node has no connection to itself");
        self.links += 1;
        self.said.insert(node, Announced { link: self.links, leads: Vec::new() });
        self.settle()
    }

    pub fn closed(&mut self, node: NodeId) -> Vec<LeaderChange> {
        self.said.remove(&node);
        self.settle()
    }

    /// Whether the node's connection is open.
    pub fn is_open(&self, node: NodeId) -> bool {
        self.said.contains_key(&node)
    }

    /// Nodes that are connected.
    pub fn others(&self) -> impl Iterator<Item = NodeId> {
        self.said.keys().copied().filter(|node| *node != self.here)
    }

    /// All that the node leads.
    pub fn say(&mut self, node: NodeId, leads: Vec<Led>) -> Vec<LeaderChange> {
        let Some(said) = self.said.get_mut(&node) else { return Vec::new() };
        for led in &leads {
            let highest = self.highest.entry(led.group).or_default();
            *highest = (*highest).max(led.epoch);
        }
        said.leads = leads;
        self.settle()
    }

    /// What this node says of itself.
    pub fn own(&self) -> &[Led] {
        &self.said[&self.here].leads
    }

    /// Whether this node leads the group in that epoch, as it has said.
    pub fn is_led_here(&self, group: GroupId, epoch: Epoch) -> bool {
        self.own().iter().any(|led| led.group == group && led.epoch == epoch)
    }

    pub fn leader(&self, group: GroupId) -> Option<Leader> {
        self.leaders.get(&group).map(|(leader, _)| *leader)
    }

    /// The node that leads the first group.
    pub fn sequencer(&self) -> Option<Leader> {
        self.leader(FIRST_GROUP)
    }

    /// Finds the leaders anew, and what is different.
    fn settle(&mut self) -> Vec<LeaderChange> {
        let mut now = BTreeMap::new();
        for (node, said) in &self.said {
            for Led { group, epoch, holds } in &said.leads {
                if self.highest.get(group) == Some(epoch) {
                    now.insert(*group, (Leader { node: *node, link: said.link, epoch: *epoch }, *holds));
                }
            }
        }
        let before = std::mem::replace(&mut self.leaders, now);
        let mut changes = Vec::new();
        for (group, (leader, _)) in &before {
            if self.leader(*group) != Some(*leader) {
                changes.push(LeaderChange::Lost(*group, *leader));
            }
        }
        for (group, (leader, holds)) in &self.leaders {
            let known = before.get(group).filter(|(known, _)| known == leader);
            if known.is_none() {
                changes.push(LeaderChange::Led(*group, *leader));
            }
            if known.map_or(*holds, |(_, held)| held != holds) {
                changes.push(LeaderChange::Holds(*group, *holds));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(group: u32, epoch: u64) -> Led {
        Led { group: GroupId(group), epoch: Epoch(epoch), holds: false }
    }

    #[test]
    fn a_group_is_led_by_the_node_of_the_highest_epoch_and_by_none_that_was_replaced() {
        let mut directory = LeaderDirectory::new(NodeId(1));
        assert!(directory.opened(NodeId(2)).is_empty() && directory.opened(NodeId(3)).is_empty());
        let at = |node, link, epoch| Leader { node: NodeId(node), link, epoch: Epoch(epoch) };
        assert_eq!(directory.say(NodeId(2), vec![led(1, 5)]), [LeaderChange::Led(GroupId(1), at(2, 1, 5))]);
        assert!(directory.say(NodeId(3), vec![led(1, 4)]).is_empty(), "an earlier one");
        let replaced = [LeaderChange::Lost(GroupId(1), at(2, 1, 5)), LeaderChange::Led(GroupId(1), at(3, 2, 6))];
        assert_eq!(directory.say(NodeId(3), vec![led(1, 6)]), replaced);
        assert_eq!(directory.closed(NodeId(3)), [LeaderChange::Lost(GroupId(1), at(3, 2, 6))]);
        assert_eq!(directory.leader(GroupId(1)), None, "the other was replaced");
        assert!(directory.say(NodeId(2), vec![led(1, 5)]).is_empty());
    }

    #[test]
    fn a_new_connection_is_another_way_to_the_same_leader() {
        let mut directory = LeaderDirectory::new(NodeId(1));
        directory.opened(NodeId(2));
        directory.say(NodeId(2), vec![led(0, 5)]);
        let before = directory.sequencer().expect("it has said so");
        assert_eq!(directory.opened(NodeId(2)), [LeaderChange::Lost(FIRST_GROUP, before)]);
        directory.say(NodeId(2), vec![led(0, 5)]);
        let now = directory.sequencer().expect("it has said so again");
        assert!(before != now && before.epoch == now.epoch);
    }

    #[test]
    fn what_is_led_here_and_what_is_handed_over_is_known() {
        let mut directory = LeaderDirectory::new(NodeId(1));
        let here = Leader { node: NodeId(1), link: 0, epoch: Epoch(3) };
        assert_eq!(directory.say(NodeId(1), vec![led(2, 3)]), [LeaderChange::Led(GroupId(2), here)]);
        assert!(directory.is_led_here(GroupId(2), Epoch(3)) && !directory.is_led_here(GroupId(2), Epoch(4)));
        let holds = vec![Led { holds: true, ..led(2, 3) }];
        assert_eq!(directory.say(NodeId(1), holds), [LeaderChange::Holds(GroupId(2), true)]);
        let changes = directory.say(NodeId(1), vec![led(2, 4)]);
        assert_eq!(changes.len(), 2, "another lead is not handed over: {changes:?}");
        assert!(directory.say(NodeId(9), vec![led(2, 7)]).is_empty(), "it is not connected");
        assert_eq!(directory.leader(GroupId(2)).map(|leader| leader.epoch), Some(Epoch(4)));
    }
}
