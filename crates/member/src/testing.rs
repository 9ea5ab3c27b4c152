//! States of the metadata, and conditions of nodes, for tests.

use crate::giving_way::Room;
use crate::health::Health;
use crate::reachability::{Condition, Reachability};
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, PartitionId};
use ferrite_group::FIRST_GROUP;
use ferrite_meta::{Assignment, Command, Group, Kind, Node, Phase, Presence, Settings, State};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use std::time::Duration;

/// One with data that runs and has a vote to give.
pub fn node(id: u32) -> Node {
    Node {
        incarnation: Incarnation(1),
        start: [1; 16],
        kind: Kind::Data,
        presence: Presence::Running,
        vote: Some(0),
        release: "test".to_owned(),
        addresses: vec![format!("host{id}:3021")],
        rack: None,
    }
}

/// A cluster of these nodes, from 1 on, K = 1; the first of the members leads in epoch 1.
pub fn founded(nodes: Vec<Node>, members: &[u32], voters: &[u32]) -> State {
    of_groups(nodes, &[members], voters)
}

/// The same with several groups of one partition, from the first on; the first of each one's
/// members leads it.
pub fn of_groups(nodes: Vec<Node>, groups: &[&[u32]], voters: &[u32]) -> State {
    let group = |(partition, members): (u32, &&[u32])| {
        let place = members.iter().copied().map(NodeId).collect();
        let members: Vec<Member> = members.iter().map(|id| Member::new(*id, 1)).collect();
        let configuration = GroupConfiguration::new(Epoch(1), members[0], members, Vec::new());
        let own = Assignment { partitions: vec![PartitionId(partition)], place };
        let assignment = (groups.len() > 1).then_some(own);
        let (parent, burnt, phase) = (Mark::ORIGIN, Epoch(1), Phase::Active);
        Group { configuration, parent, burnt, phase, accepted: None, loss: None, unequal: false, assignment }
    };
    let partitions = groups.len() as u32;
    let mut state = State::default();
    let command = Command::Found {
        settings: Settings { cluster: [1; 16], revision: 1, kfactor: 1, partitions, paused: false },
        nodes: (1..).map(NodeId).zip(nodes).collect(),
        groups: (FIRST_GROUP.0..).map(GroupId).zip((0..).zip(groups).map(group)).collect(),
        voters: voters.iter().copied().map(NodeId).collect(),
    };
    state.apply(&command).expect("it holds together");
    state
}

/// Two nodes with copies and votes, one without a vote, and a witness.
pub fn four_nodes() -> State {
    let nodes = vec![node(1), node(2), Node { vote: None, ..node(3) }, Node { kind: Kind::Witness, ..node(4) }];
    founded(nodes, &[1, 2], &[1, 2, 4])
}

/// Of a node that is reached and can do everything.
pub const WELL: Condition = Condition {
    silent: Some(Duration::ZERO),
    reached: true,
    health: Some(Health {
        lacks_memory: false,
        lacks_java: false,
        room: Room::Enough,
        votes: true,
        incomplete: false,
        starting: false,
        log_failed: false,
        ends: false,
        durability: None,
        in_step: None,
        phase: None,
    }),
    failed: false,
};

/// Of nodes 1 to 4, one is so.
pub fn all_well_but(node: u32, found: Condition) -> Reachability {
    let of = |id| (NodeId(id), if id == node { found } else { WELL });
    Reachability((1..=4).map(of).collect())
}
