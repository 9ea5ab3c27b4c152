//! `ferrite admin remove-node`: removes a lost node from the cluster for good
//! (docs/decisions/0065-joining.md): asks the voters until they know.

use ferrite_base::NodeId;
use ferrite_meta::{Ask, Presence, State, may_remove};
use ferrite_replica::group::Member;
use std::time::Duration;

/// How long the voters are asked: longer than a lease lives on.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Between two questions.
const AGAIN: Duration = Duration::from_millis(200);

/// The call that removes a node, which hears the outcome.
pub struct RemoveNode {
    pub node: NodeId,
    pub told: Box<dyn FnOnce(Result<String, String>) + Send>,
}

/// What this node sees of the others when it is asked.
pub struct Seen {
    pub here: NodeId,
    /// The node that is to be removed is connected to this one.
    pub reached: bool,
    /// Why nothing can be decided, if that is so.
    pub no_majority: Option<String>,
}

struct UnderWay {
    asks: RemoveNode,
    lost: Member,
    until: u64,
    next: u64,
}

/// Of one node.
#[derive(Default)]
pub struct Removals(Vec<UnderWay>);

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Whether it may be begun; else why not.
fn check(state: &State, node: NodeId, seen: &Seen) -> Result<Member, String> {
    if state.settings().is_none() {
        return Err("this node does not know its cluster yet".to_owned());
    }
    if node == seen.here {
        return Err(format!("node {node} answers this: a node is removed when it is lost, through another one"));
    }
    let runs = |node: &ferrite_meta::Node| node.presence == Presence::Running;
    // The state's word on the others may be long outdated then.
    if let Some(missing) = state.nodes().get(&node).and(seen.no_majority.as_ref()) {
        return Err(format!(
            "node {node} is not removed: this node does not hear a majority of the cluster's voters, without which nothing is \
             decided ({missing}). Start those nodes, or ask a node that reaches them. If a majority of the voters is lost for \
             good, stop what is left and make a new cluster of it: ferrite admin recover --dir DATA --accept-loss \
             --leave-cluster"
        ));
    }
    if seen.reached && state.nodes().get(&node).is_some_and(runs) {
        return Err(format!("node {node} is running: stop it first"));
    }
    may_remove(state, node).map_err(|reason| reason.to_string())?;
    Ok(Member { node, incarnation: state.nodes()[&node].incarnation })
}

impl Removals {
    /// Whether anything is to be looked at soon.
    pub fn waits(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn begin(&mut self, asks: RemoveNode, state: &State, seen: Seen, now: u64) {
        match check(state, asks.node, &seen) {
            Ok(lost) => self.0.push(UnderWay { asks, lost, until: now + nanos(TIME_MAX), next: now }),
            Err(reason) => (asks.told)(Err(reason)),
        }
    }

    /// Looks at what the voters know, and asks again. `here`: this process.
    pub fn advance(&mut self, state: &State, here: Member, now: u64, ask: &mut dyn FnMut(Ask)) {
        for mut one in std::mem::take(&mut self.0) {
            let node = one.lost.node;
            let known = state.nodes().get(&one.lost.node);
            let outcome = match known.map(|known| (known.presence, known.incarnation)) {
                Some((Presence::Retired, _)) => Ok(format!(
                    "node {node} is removed. Its directory cannot be used again. With an empty directory, its machine can join as a new node"
                )),
                Some((_, incarnation)) if incarnation != one.lost.incarnation => {
                    Err(format!("node {node} was started again: it is not removed"))
                }
                _ if now >= one.until => Err(why_not(state, node)),
                _ => {
                    if now >= one.next {
                        one.next = now + nanos(AGAIN);
                        ask(Ask::Remove { from: here, lost: one.lost });
                    }
                    self.0.push(one);
                    continue;
                }
            };
            (one.asks.told)(outcome);
        }
    }
}

/// What the voters' leader has waited for in vain.
fn why_not(state: &State, node: NodeId) -> String {
    if let Err(reason) = may_remove(state, node) {
        return reason.to_string();
    }
    let runs = state.nodes().get(&node).is_some_and(|known| known.presence == Presence::Running);
    if state.voters().contains(&node) {
        format!(
            "node {node} is not removed: it still runs, as the voters hear, or a majority of the voters without it cannot be \
             reached"
        )
    } else if runs {
        format!(
            "node {node} is not removed: it still runs, as the voters hear, or a majority of them cannot be reached. If it \
             runs, stop it first"
        )
    } else {
        format!("node {node} is not removed: a majority of the cluster's voters cannot be reached")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn without_a_majority_that_is_the_reason() {
        let state = testing::founded((1..=4).map(testing::node).collect(), &[1, 2], &[1, 2, 3]);
        let check = |node, no_majority: Option<&str>| {
            let seen = Seen { here: NodeId(1), reached: false, no_majority: no_majority.map(str::to_owned) };
            check(&state, NodeId(node), &seen)
        };
        assert_eq!(check(4, None), Ok(Member::new(4, 1)));
        assert!(check(2, None).expect_err("a member").contains("node 2 is a member of group 0"));
        for node in 2..=4 {
            let said = check(node, Some("node 2 is not reached, node 3 is not reached")).expect_err("nobody decides");
            assert!(said.contains("does not hear a majority of the cluster's voters"), "{said}");
            assert!(said.contains("(node 2 is not reached, node 3 is not reached)"), "{said}");
        }
        let none = check(9, Some("node 2 is not reached")).expect_err("unknown");
        assert!(none.contains("there is no node 9"), "{none}");
    }
}
