//! `ferrite admin remove-node`: a node that is lost is taken out of the cluster for good
//! (docs/decisions/0065-joining.md): asks the voters until they know.

use ferrite_base::NodeId;
use ferrite_meta::{Ask, Presence, State, may_remove};
use ferrite_replica::group::Member;
use std::time::Duration;

/// For so long the voters are asked: longer than a lease lives on.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Between two questions.
const AGAIN: Duration = Duration::from_millis(200);

/// Whoever removes a node, and hears what came of it.
pub struct RemoveNode {
    pub node: NodeId,
    pub told: Box<dyn FnOnce(Result<String, String>) + Send>,
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

/// Whether it may be begun; else why not. `here`: this node; `reached`: whether that node is
/// connected to it.
fn check(state: &State, here: NodeId, node: NodeId, reached: bool) -> Result<Member, String> {
    if state.settings().is_none() {
        return Err("this node does not know its cluster yet".to_owned());
    }
    if node == here {
        return Err(format!("node {node} answers this: a node is removed when it is lost, through another one"));
    }
    let runs = |node: &ferrite_meta::Node| node.presence == Presence::Running;
    if reached && state.nodes().get(&node).is_some_and(runs) {
        return Err(format!("node {node} runs: stop it first"));
    }
    may_remove(state, node).map_err(|reason| reason.to_string())?;
    Ok(Member { node, incarnation: state.nodes()[&node].incarnation })
}

impl Removals {
    /// Whether anything is to be looked at soon.
    pub fn waits(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn begin(&mut self, asks: RemoveNode, state: &State, here: NodeId, reached: bool, now: u64) {
        match check(state, here, asks.node, reached) {
            Ok(lost) => self.0.push(UnderWay { asks, lost, until: now + nanos(TIME_MAX), next: now }),
            Err(reason) => (asks.told)(Err(reason)),
        }
    }

    /// Looks at what the voters know, and asks again. `here`: this process.
    pub fn look(&mut self, state: &State, here: Member, now: u64, ask: &mut dyn FnMut(Ask)) {
        for mut one in std::mem::take(&mut self.0) {
            let (node, known) = (one.lost.node, state.nodes().get(&one.lost.node));
            let outcome = match known.map(|known| (known.presence, known.incarnation)) {
                Some((Presence::Retired, _)) => Ok(format!(
                    "node {node} is removed. Its directory is of no use any more: with an empty one its machine may join anew"
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
