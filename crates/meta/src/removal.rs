//! Whether a node may be taken out of a cluster for good (`ferrite admin remove-node`).
//!
//! Promises that what is left could have been founded like that, and that no group counts on the
//! node. Whether its process still runs is for the voters' leader to say, by its leases.

use crate::controller::offers_vote;
use crate::founding::{Impossible, Layout};
use crate::parts::{Kind, Phase, Presence};
use crate::state::State;
use ferrite_base::{GroupId, NodeId};
use std::fmt;

/// Why it may not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CannotRemove {
    Unknown(NodeId),
    Removed(NodeId),
    /// A group's last configuration has it. `led`: its leader removes it from the members when it
    /// is gone.
    Member {
        node: NodeId,
        group: GroupId,
        led: bool,
    },
    /// It is the only one that has the group's data.
    LastCopy {
        node: NodeId,
        group: GroupId,
    },
    /// The group is to be on it, and on no other node in its stead.
    Place {
        node: NodeId,
        group: GroupId,
    },
    /// It votes, and no node could do so in its place.
    Vote(NodeId),
    /// The other nodes cannot be a cluster.
    Layout {
        node: NodeId,
        impossible: Impossible,
    },
}

impl fmt::Display for CannotRemove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotRemove::Unknown(node) => write!(f, "there is no node {node}: ferrite admin status lists them"),
            CannotRemove::Removed(node) => write!(f, "node {node} is no longer part of the cluster"),
            CannotRemove::Member { node, group, led: true } => write!(
                f,
                "node {node} is a member of group {group}. A member that is stopped or lost is removed within seconds: \
                 try again then"
            ),
            CannotRemove::Member { node, group, led: false } => write!(
                f,
                "group {group} has no leader, and node {node} may have what no other node has: start it, or accept the \
                 loss first (ferrite admin recover --accept-loss)"
            ),
            CannotRemove::LastCopy { node, group } => write!(
                f,
                "node {node} has the last complete copy of group {group}. If it is lost for good, go on with an older copy first \
                 (ferrite admin recover --accept-loss)"
            ),
            CannotRemove::Place { node, group } => write!(
                f,
                "group {group} is to have a copy on node {node}, and no other node has come in its place: start a node with \
                 an empty directory and the address of node {node} (--cluster or --cluster-as)"
            ),
            CannotRemove::Vote(node) => write!(
                f,
                "node {node} votes, and no other node that runs can vote in its place: start one first, or let another \
                 join (--join)"
            ),
            CannotRemove::Layout { node, impossible } => {
                write!(f, "without node {node} too little is left. Let another node join first (--join). {impossible}")
            }
        }
    }
}

impl std::error::Error for CannotRemove {}

/// The message to the operator of a node that is no longer part of its cluster; None: it is.
pub fn why_retired(state: &State, id: NodeId) -> Option<String> {
    let node = state.nodes().get(&id).filter(|node| node.presence == Presence::Retired)?;
    let later = state.latest().find(|(other, known)| **other > id && known.host() == node.host());
    let of_no_use = "its directory cannot be used again. With an empty directory, it can join as a new node";
    Some(match (later, node.host()) {
        (Some((other, _)), Some(host)) => {
            format!("node {id} was replaced by node {other}, which came to {host} without a directory: {of_no_use}")
        }
        _ => format!("node {id} was removed from the cluster (ferrite admin remove-node): {of_no_use}"),
    })
}

/// # Errors
/// The first reason why not.
pub fn may_remove(state: &State, id: NodeId) -> Result<(), CannotRemove> {
    let node = state.nodes().get(&id).ok_or(CannotRemove::Unknown(id))?;
    if node.presence == Presence::Retired {
        return Err(CannotRemove::Removed(id));
    }
    if let Some((group, known)) = state.groups().iter().find(|(_, known)| known.configuration.has_node(id)) {
        let alone = known.configuration.members().len() == 1;
        let led = known.phase == Phase::Active;
        return Err(match alone {
            true => CannotRemove::LastCopy { node: id, group: *group },
            false => CannotRemove::Member { node: id, group: *group, led },
        });
    }
    if let Some((group, _)) = state.groups().iter().find(|(_, known)| state.place_of(known).contains(&id)) {
        return Err(CannotRemove::Place { node: id, group: *group });
    }
    let left: Vec<(NodeId, Kind)> = state.latest().map(|(other, node)| (*other, node.kind)).collect();
    // If another node has its place, nothing changes.
    if left.iter().any(|(other, _)| *other == id) {
        let kinds: Vec<Kind> = left.iter().filter(|(other, _)| *other != id).map(|(_, kind)| *kind).collect();
        let kfactor = state.settings().map_or(0, |settings| settings.kfactor);
        let layout = Layout::new(&kinds, kfactor);
        layout.check().map_err(|impossible| CannotRemove::Layout { node: id, impossible })?;
        let replaced = || state.latest().any(|(other, node)| *other != id && offers_vote(state, *other, node));
        if state.voters().contains(&id) && state.voters().len() <= layout.voters() && !replaced() {
            return Err(CannotRemove::Vote(id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::parts::{Assignment, Node};
    use crate::testing::founded;
    use ferrite_base::{Epoch, Incarnation, PartitionId};

    /// This many nodes with data, all of which run, and offer their votes.
    fn state(nodes: u32, kfactor: u32) -> State {
        let mut state = founded(nodes, kfactor);
        for id in (1..=nodes).map(NodeId) {
            let vote = state.vote(id).or(Some(2));
            register(&mut state, id, vote);
        }
        state
    }

    fn register(state: &mut State, id: NodeId, vote: Option<u32>) {
        let known = &state.nodes()[&id];
        let (expected, next) = (known.incarnation, Incarnation(known.incarnation.0 + 1));
        let node = Node { incarnation: next, start: [9; 16], vote, presence: Presence::Running, ..known.clone() };
        state.apply(&Command::Register { id, expected, node }).unwrap();
    }

    /// The group's leader removes all others from the members.
    fn led_alone(state: &mut State) {
        let (id, group) = state.groups().first_key_value().unwrap();
        let (group_id, epoch) = (*id, group.configuration.epoch);
        let command = Command::Seal { group: group_id, expected: epoch, epoch: Epoch(epoch.0 + 1) };
        state.apply(&command).unwrap();
    }

    #[test]
    fn what_is_needed_stays() {
        let four = state(4, 1);
        assert_eq!(may_remove(&four, NodeId(9)), Err(CannotRemove::Unknown(NodeId(9))));
        let (group, known) = four.groups().first_key_value().unwrap();
        let members: Vec<NodeId> = known.configuration.members().iter().map(|member| member.node).collect();
        let reason = may_remove(&four, members[0]).unwrap_err();
        match members.len() {
            1 => assert_eq!(reason, CannotRemove::LastCopy { node: members[0], group: *group }),
            _ => assert_eq!(reason, CannotRemove::Member { node: members[0], group: *group, led: true }),
        }
        let mut sealing = four.clone();
        led_alone(&mut sealing);
        assert!(may_remove(&sealing, members[0]).is_err());
        assert_eq!(may_remove(&four, NodeId(4)), Ok(()));
        // Three nodes are the least with K = 1.
        let reason = may_remove(&state(3, 1), NodeId(3)).unwrap_err().to_string();
        assert!(reason.contains("without node 3 too little is left"), "{reason}");
    }

    /// K = 0: node 2 keeps nothing, and group 0 is to be on it.
    #[test]
    fn a_node_with_a_place_stays_until_another_has_come_to_its_address() {
        let mut command = Command::Found {
            settings: founded(3, 0).settings().unwrap().clone(),
            nodes: founded(3, 0).nodes().clone().into_iter().collect(),
            groups: founded(3, 0).groups().clone().into_iter().collect(),
            voters: founded(3, 0).voters().iter().copied().collect(),
        };
        if let Command::Found { groups, .. } = &mut command {
            let partitions = vec![PartitionId(0), PartitionId(1)];
            groups[0].1.assignment = Some(Assignment { partitions, place: vec![NodeId(2), NodeId(1)] });
        }
        let mut three = State::default();
        three.apply(&command).unwrap();
        let reason = may_remove(&three, NodeId(2)).unwrap_err();
        assert_eq!(reason, CannotRemove::Place { node: NodeId(2), group: GroupId(0) });
        let node = Node { presence: Presence::Stopped, vote: None, ..three.nodes()[&NodeId(2)].clone() };
        three.apply(&Command::Join { id: NodeId(4), key: [7; 16], node }).unwrap();
        assert_eq!(may_remove(&three, NodeId(2)), Ok(()));
        assert!(may_remove(&three, NodeId(4)).unwrap_err().to_string().contains("group 0 is to have a copy on node 4"));
    }

    #[test]
    fn a_vote_goes_to_another_node_before_its_node_goes() {
        let mut four = state(4, 1);
        let voters = four.voters().clone();
        let other = (1..=4).map(NodeId).find(|id| !voters.contains(id)).unwrap();
        let (_, group) = four.groups().first_key_value().unwrap();
        let lost = *voters.iter().find(|id| !group.configuration.has_node(**id)).unwrap();
        assert_eq!(may_remove(&four, lost), Ok(()));
        register(&mut four, other, None);
        assert_eq!(may_remove(&four, lost), Err(CannotRemove::Vote(lost)));
    }

    #[test]
    fn one_that_is_gone_hears_why() {
        let mut four = state(4, 1);
        let id = (1..=4).map(NodeId).rev().find(|id| !four.voters().contains(id)).unwrap();
        assert_eq!(why_retired(&four, id), None);
        let known = four.nodes()[&id].clone();
        let incarnation = known.incarnation;
        four.apply(&Command::Retire { node: id, incarnation }).unwrap();
        let reason = why_retired(&four, id).unwrap();
        assert!(reason.contains(&format!("node {id} was removed from the cluster")), "{reason}");
        assert_eq!(may_remove(&four, id), Err(CannotRemove::Removed(id)));
        let node = Node { presence: Presence::Stopped, vote: None, incarnation: Incarnation(1), ..known };
        four.apply(&Command::Join { id: NodeId(5), key: [7; 16], node }).unwrap();
        let reason = why_retired(&four, id).unwrap();
        assert!(reason.contains(&format!("node {id} was replaced by node 5")), "{reason}");
    }
}
