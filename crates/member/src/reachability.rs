//! What this node hears of the others, and what it has heard of their condition: which are reached,
//! which of the votes are there, what a node has no room for.
//!
//! It knows nothing of groups: what follows for their copies is in `tolerance.rs`.

use crate::giving_way::Room;
use crate::health::{Health, Healths};
use crate::links::Links;
use ferrite_base::NodeId;
use ferrite_meta::{Node, State, has_lost_its_vote};
use ferrite_peer::Lane;
use ferrite_replica::group::{Member, Timing};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A node's condition, as this one knows it.
#[derive(Clone, Copy, Default)]
pub struct Condition {
    /// Since something last came from it. None: nothing has.
    pub silent: Option<Duration>,
    /// It is connected, and is not silent for longer than a leader waits.
    pub reached: bool,
    /// What it reported of itself lately.
    pub health: Option<Health>,
    /// Its log cannot be written, as the known process reported last.
    pub failed: bool,
}

/// All nodes.
pub struct Reachability(pub(super) BTreeMap<NodeId, Condition>);

impl Reachability {
    /// `here`: this node.
    pub fn now(state: &State, here: NodeId, links: &Links, healths: &Healths) -> Reachability {
        let of = |(node, known): (&NodeId, &Node)| {
            let process = Member { node: *node, incarnation: known.incarnation };
            (*node, condition(process, here, links, healths))
        };
        Reachability(state.nodes().iter().map(of).collect())
    }

    /// Of a node that is not known: nothing has come from it.
    pub fn of(&self, node: NodeId) -> Condition {
        self.0.get(&node).copied().unwrap_or_default()
    }

    pub fn is_reached(&self, node: NodeId) -> bool {
        self.of(node).reached
    }

    /// Whether the node has reported that its copy may lack what it has acknowledged.
    pub fn may_lack(&self, node: NodeId) -> bool {
        self.of(node).health.is_some_and(|health| health.incomplete)
    }

    /// Why a voter's vote is not there.
    pub fn missing(&self, state: &State, voter: NodeId) -> Option<String> {
        let found = self.of(voter);
        if has_lost_its_vote(state, voter) {
            Some(format!("node {voter} has lost its vote"))
        } else if !found.reached {
            Some(match found.silent {
                Some(silent) => {
                    format!("node {voter} is not reached (nothing came from it for {} s)", silent.as_secs())
                }
                None => format!("node {voter} is not reached (nothing came from it since this node started)"),
            })
        } else {
            match found.health {
                Some(health) if health.votes => None,
                Some(_) => Some(format!(
                    "node {voter} cannot vote at the moment: its events say why, or it has not heard yet that it votes"
                )),
                // Each says it every second.
                None => Some(format!("node {voter} has not said yet whether it can vote")),
            }
        }
    }

    /// `lost`: it was given a vote, and its last process had another one, or none; `missing`: the
    /// vote is not there at the moment; `unknown`: it has not reported yet whether it is.
    pub fn vote(&self, state: &State, node: NodeId) -> &'static str {
        let found = self.of(node);
        match state.voters().contains(&node) {
            false => "no",
            true if has_lost_its_vote(state, node) => "lost",
            true if found.reached && found.health.is_none() => "unknown",
            true if self.missing(state, node).is_some() => "missing",
            true => "yes",
        }
    }

    /// Why nothing can be decided, as far as this node hears; None: a majority of the voters is
    /// there.
    pub fn no_majority(&self, state: &State) -> Option<String> {
        let missing = self.all_missing(state);
        (state.voters().len() - missing.len() < majority(state)).then(|| missing.join(", "))
    }

    pub fn all_missing(&self, state: &State) -> Vec<String> {
        state.voters().iter().filter_map(|voter| self.missing(state, *voter)).collect()
    }

    /// All voters have reported whether they can vote, or cannot.
    pub fn have_voters_said(&self, state: &State) -> bool {
        state.voters().iter().all(|voter| self.of(*voter).health.is_some())
    }

    /// What a node has no room for, or soon will have none for, and what it therefore cannot do.
    pub fn lacks(&self, node: NodeId) -> String {
        let Some(health) = self.of(node).health else { return String::new() };
        let disk = match health.room {
            Room::Enough => None,
            Room::Little => Some("disk: little left"),
            Room::None => Some("disk: below its reserve"),
        };
        let memory = health.lacks_memory.then_some("memory: none left");
        let log = health.log_failed.then_some("log: cannot be written, start the node again when the disk can");
        let java = health.lacks_java.then_some("java: procedures cannot run, see the node's events");
        log.into_iter().chain(disk).chain(memory).chain(java).collect::<Vec<_>>().join(", ")
    }
}

fn condition(process: Member, here: NodeId, links: &Links, healths: &Healths) -> Condition {
    let node = process.node;
    let peers = links.peers();
    let now = Instant::now();
    let health = healths.of(node, now);
    let failed = healths.has_failed(process);
    if node == here {
        return Condition { silent: Some(Duration::ZERO), reached: true, health, failed };
    }
    let silent = peers.heard(node).map(|heard| now.saturating_duration_since(heard));
    // A machine without power closes no connection.
    let speaks = silent.is_some_and(|silent| silent < Duration::from_nanos(Timing::DEFAULT.failure));
    Condition { silent, reached: speaks && peers.waiting(node, Lane::Control).is_some(), health, failed }
}

/// Of a cluster's voters.
pub fn majority(state: &State) -> usize {
    state.voters().len() / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{WELL, all_well_but, four_nodes};
    use crate::tolerance::{losses, spare_voters};

    /// A node whose full disk takes nothing more runs, is reached, and its vote is gone.
    #[test]
    fn a_vote_that_cannot_be_given_is_not_there() {
        let state = four_nodes();
        let silent = Condition { silent: Some(Duration::from_secs(14)), reached: false, ..WELL };
        let without_vote = Condition { health: Some(Health::default()), ..WELL };
        for (found, shown, why) in [
            (
                without_vote,
                "missing",
                "node 4 cannot vote at the moment: its events say why, or it has not heard yet that it votes",
            ),
            (Condition { health: None, ..WELL }, "unknown", "node 4 has not said yet whether it can vote"),
            (silent, "missing", "node 4 is not reached (nothing came from it for 14 s)"),
            (Condition::default(), "missing", "node 4 is not reached (nothing came from it since this node started)"),
        ] {
            let reachability = all_well_but(4, found);
            assert_eq!(reachability.missing(&state, NodeId(4)).as_deref(), Some(why));
            assert_eq!(reachability.vote(&state, NodeId(4)), shown);
            assert_eq!(
                (spare_voters(&state, &reachability), losses(&state, Some(2), &reachability)),
                (0, (1, 0)),
                "{why}"
            );
        }
        let all = all_well_but(4, WELL);
        assert_eq!((all.missing(&state, NodeId(4)), all.no_majority(&state)), (None, None));
        assert_eq!(all_well_but(4, silent).no_majority(&state), None, "two of three are there");
        let alone = Reachability((1..=4).map(|id| (NodeId(id), if id == 1 { WELL } else { silent })).collect());
        let why = alone.no_majority(&state).expect("one of three");
        assert!(why.starts_with("node 2 is not reached (nothing came from it for 14 s), node 4"), "{why}");
    }
}
