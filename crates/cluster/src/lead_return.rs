//! When a group's lead goes back to the node that its place names first.
//!
//! Promises that only what came about by a failure is undone: after a seal, or while that node was
//! not a member. An operator's hand-over, or that of a node with little room, is left as it is.

use crate::membership::{self, process};
use ferrite_base::NodeId;
use ferrite_meta::{Group, Phase, State};

/// Between two attempts of a leader.
const AGAIN_NANOS: u64 = 10_000_000_000;

/// Of one group, as its node sees it.
#[derive(Default)]
pub(crate) struct LeadReturn {
    is_due: bool,
    /// When it may be tried next.
    next: u64,
}

impl LeadReturn {
    /// To be called for each update of the metadata, whichever node leads.
    pub fn see(&mut self, kept: &Group, state: &State) {
        let Some(lead) = state.lead_of(kept) else { return };
        if kept.phase == Phase::Sealing {
            self.is_due = true;
        } else if kept.configuration.leader.node == lead {
            self.is_due = false;
        } else if !is_member(kept, state, lead) {
            self.is_due = true;
        }
    }

    /// The member that is to lead in the place of this node, which leads. Whether its copy is
    /// complete is for the group to say.
    pub fn to(&self, kept: &Group, state: &State, here: NodeId) -> Option<NodeId> {
        let lead = state.lead_of(kept).filter(|lead| *lead != here && self.is_due)?;
        let leads = membership::leads(kept, here);
        (leads && is_member(kept, state, lead)).then_some(lead)
    }

    /// Whether it may be tried now. It is not again at once.
    pub fn tries(&mut self, now: u64) -> bool {
        let may = now >= self.next;
        if may {
            self.next = now.saturating_add(AGAIN_NANOS);
        }
        may
    }
}

fn is_member(kept: &Group, state: &State, node: NodeId) -> bool {
    state.nodes().get(&node).is_some_and(|known| kept.configuration.has(process(node, known)))
}
