//! The cluster that follows from the declarations of all its places.

use super::declaration::{Declaration, Partitions};
use super::layout::{Impossible, Layout};
use crate::{Command, Group, Kind, Node, Phase, Presence, Refusal, Settings, State};
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
    let settings = Settings {
        cluster: cluster_id(declarations),
        revision: 1,
        kfactor: plan.kfactor,
        partitions: partitions(declarations)?,
        paused: false,
    };
    // A stream continues where the database alone has left it; an empty one begins where that of an
    // earlier release's database would.
    let nothing = Mark { epoch: Epoch(1), position: Position(0), chain: 0 };
    let parent = leader.database.map_or(nothing, |database| database.end);
    let epoch = Epoch(parent.epoch.0 + 1);
    let first = Member { node: NodeId(leader.place), incarnation: leader.incarnation };
    let configuration = GroupConfiguration::alone(epoch, first);
    let group = Group { configuration, parent, burnt: epoch, phase: Phase::Active, accepted: None, loss: None };
    // Witnesses have nothing else to do.
    let mut order: Vec<&Declaration> = declarations.iter().collect();
    order.sort_by_key(|declaration| (declaration.kind == Kind::Data, declaration.place));
    let voters: Vec<NodeId> = order.iter().take(layout.voters()).map(|one| NodeId(one.place)).collect();
    let command = Command::Found {
        settings,
        nodes: declarations.iter().map(|one| (NodeId(one.place), node(one, &voters))).collect(),
        groups: vec![(GroupId(0), group)],
        voters: voters.clone(),
    };
    let mut state = State::default();
    state.apply(&command).map_err(Unfounded::Refused)?;
    Ok(state)
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
