//! The cluster that follows from the declarations of all its places.

use super::declaration::{Declaration, Partitions};
use super::layout::{Impossible, Layout};
use crate::placement::{PlacedNode, Unplaceable, place_groups};
use crate::{Assignment, Command, Group, Kind, Node, Phase, Presence, Refusal, Settings, State};
use ferrite_base::{Epoch, GroupId, NodeId, Position};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use std::fmt;

/// Why declarations do not make a cluster. All nodes come to the same result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unfounded {
    Layout(Impossible),
    /// Several nodes have a database.
    Databases(Vec<String>),
    /// Two nodes were told how many partitions there are.
    Partitions {
        nodes: [String; 2],
        counts: [u32; 2],
    },
    /// That number of partitions per node.
    Size(Unplaceable),
    /// The partitions of a database that exists are one group, and it cannot be given others.
    DatabaseOfOneGroup(String),
    /// A node was told how many partitions there are, and how many each node keeps.
    PartitionsTwice(String),
    /// A declaration that no node can have made.
    Refused(Refusal),
}

impl fmt::Display for Unfounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfounded::Layout(impossible) => impossible.fmt(f),
            Unfounded::Databases(nodes) => write!(
                f,
                "{} have a database each, and a cluster begins with one at most: start the others with empty directories",
                nodes.join(" and ")
            ),
            Unfounded::Partitions { nodes: [one, other], counts: [first, second] } => write!(
                f,
                "{one} has {first} partitions and {other} was to have {second}: give --partitions only once, or equally"
            ),
            Unfounded::Size(unplaceable) => unplaceable.fmt(f),
            Unfounded::DatabaseOfOneGroup(node) => write!(
                f,
                "{node} has a database, whose partitions are one group: start without --partitions-per-node, or dump the \
                 database and load it into a new cluster"
            ),
            Unfounded::PartitionsTwice(node) => write!(
                f,
                "{node} was started with --partitions and --partitions-per-node: give one of them, since the nodes and \
                 --partitions-per-node decide how many partitions there are"
            ),
            Unfounded::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for Unfounded {}

/// The cluster of these declarations, one for each place in order, of one plan.
pub fn found(declarations: &[Declaration]) -> Result<State, Unfounded> {
    let plan = &declarations.first().expect("a cluster has a node").plan;
    assert!(
        declarations
            .iter()
            .zip(1..)
            .all(|(declaration, place)| declaration.place == place && declaration.plan == *plan),
        "there is a declaration of one plan for each place"
    );
    let kinds: Vec<Kind> = declarations.iter().map(|declaration| declaration.kind).collect();
    let layout = Layout::new(&kinds, plan.kfactor);
    layout.check().map_err(Unfounded::Layout)?;
    let with_data: Vec<&Declaration> = declarations.iter().filter(|one| one.database.is_some()).collect();
    if with_data.len() > 1 {
        let names = with_data.iter().map(|declaration| name(declaration)).collect();
        return Err(Unfounded::Databases(names));
    }
    let first_data = declarations.iter().find(|declaration| declaration.kind == Kind::Data);
    let leader = with_data.first().copied().or(first_data).expect("the layout has a node with data");
    let (partitions, groups) = match plan.partitions_per_node {
        None => (partitions(declarations)?, vec![(GroupId(0), group(leader, None))]),
        Some(partitions_per_node) => several_groups(declarations, partitions_per_node)?,
    };
    let settings =
        Settings { cluster: cluster_id(declarations), revision: 1, kfactor: plan.kfactor, partitions, paused: false };
    // Witnesses have nothing else to do.
    let mut order: Vec<&Declaration> = declarations.iter().collect();
    order.sort_by_key(|declaration| (declaration.kind == Kind::Data, declaration.place));
    let voters: Vec<NodeId> = order.iter().take(layout.voters()).map(|one| NodeId(one.place)).collect();
    let command = Command::Found {
        settings,
        nodes: declarations.iter().map(|one| (NodeId(one.place), node(one, &voters))).collect(),
        groups,
        voters: voters.clone(),
    };
    let mut state = State::default();
    state.apply(&command).map_err(Unfounded::Refused)?;
    Ok(state)
}

/// Led by that node, alone.
fn group(leader: &Declaration, assignment: Option<Assignment>) -> Group {
    // A stream continues where the database alone has left it; an empty one begins where that of an
    // earlier release's database would.
    let nothing = Mark { epoch: Epoch(1), position: Position(0), chain: 0 };
    let parent = leader.database.map_or(nothing, |database| database.end);
    let epoch = Epoch(parent.epoch.0 + 1);
    let first = Member { node: NodeId(leader.place), incarnation: leader.incarnation };
    let configuration = GroupConfiguration::alone(epoch, first);
    Group {
        configuration,
        parent,
        burnt: epoch,
        phase: Phase::Active,
        accepted: None,
        loss: None,
        unequal: false,
        assignment,
    }
}

/// How many partitions there are, and the groups that have them, each led by the first node of its
/// place.
fn several_groups(
    declarations: &[Declaration],
    partitions_per_node: u32,
) -> Result<(u32, Vec<(GroupId, Group)>), Unfounded> {
    if let Some(has_database) = declarations.iter().find(|one| one.database.is_some()) {
        return Err(Unfounded::DatabaseOfOneGroup(name(has_database)));
    }
    if let Some(said) = declarations.iter().find(|one| matches!(one.partitions, Partitions::Said(_))) {
        return Err(Unfounded::PartitionsTwice(name(said)));
    }
    let with_data = declarations.iter().filter(|declaration| declaration.kind == Kind::Data);
    let nodes: Vec<PlacedNode> =
        with_data.map(|one| PlacedNode { node: NodeId(one.place), rack: one.rack.clone() }).collect();
    let kfactor = declarations[0].plan.kfactor;
    let placement = place_groups(&nodes, kfactor, partitions_per_node).map_err(Unfounded::Size)?;
    let partitions = placement.partitions();
    let groups = placement.groups.into_iter().map(|placed| {
        let lead = &declarations[placed.lead().0 as usize - 1];
        let assignment = Assignment { partitions: placed.partitions, place: placed.place };
        (placed.group, group(lead, Some(assignment)))
    });
    Ok((partitions, groups.collect()))
}

/// The id of the cluster of these declarations: all random bits together.
pub fn cluster_id(declarations: &[Declaration]) -> [u8; 16] {
    declarations.iter().fold([0; 16], |id, one| std::array::from_fn(|at| id[at] ^ one.key[at]))
}

/// As an operator knows it.
pub(super) fn name(declaration: &Declaration) -> String {
    format!("node {} ({})", declaration.place, declaration.plan.hosts[declaration.place as usize - 1])
}

fn node(declaration: &Declaration, voters: &[NodeId]) -> Node {
    Node {
        incarnation: declaration.incarnation,
        start: declaration.key,
        kind: declaration.kind,
        presence: Presence::Running,
        // The first vote of each.
        vote: voters.contains(&NodeId(declaration.place)).then_some(0),
        release: declaration.release.clone(),
        addresses: declaration.addresses.clone(),
        rack: declaration.rack.clone(),
    }
}

fn partitions(declarations: &[Declaration]) -> Result<u32, Unfounded> {
    // A database has as many as it has.
    let mut said: Vec<(&Declaration, u32)> = Vec::new();
    let mut suggested = u32::MAX;
    for declaration in declarations.iter().filter(|declaration| declaration.kind == Kind::Data) {
        match declaration.partitions {
            Partitions::Said(count) => said.push((declaration, count)),
            Partitions::Suggested(count) => suggested = suggested.min(count),
        }
    }
    let Some((first, count)) = said.iter().find(|(one, _)| one.database.is_some()).or(said.first()).copied() else {
        return Ok(suggested);
    };
    match said.iter().find(|(_, other)| *other != count) {
        None => Ok(count),
        Some((other, differing)) => {
            Err(Unfounded::Partitions { nodes: [name(first), name(other)], counts: [count, *differing] })
        }
    }
}
