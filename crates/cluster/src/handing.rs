//! How far a hand-over has come, and why it failed.

use ferrite_base::NodeId;
use ferrite_group::{Among, CannotHandOver};
use std::fmt;

/// Why a node that was to hand over still leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotHandedOver {
    Cannot(CannotHandOver),
    /// It is already handing over.
    UnderWay,
    /// Calls that were taken did not finish in time.
    Busy,
    /// Calls that were taken are executed, but cannot be committed: a member does not answer.
    Unanswered,
    /// Nothing was decided.
    Undecided,
    /// The node that would lead still has this many entries to apply: calls would wait for them.
    Applying {
        node: NodeId,
        behind: u64,
    },
    /// Others run, and none of them had a complete copy in time.
    NoSuccessor,
    /// It no longer leads, and no new leader is known yet.
    Replaced,
}

impl fmt::Display for NotHandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotHandedOver::Cannot(reason) => reason.fmt(f),
            NotHandedOver::UnderWay => f.write_str("this node is handing over already"),
            NotHandedOver::Busy => f.write_str("calls are still running after a second: try again when they have ended"),
            NotHandedOver::Unanswered => f.write_str(
                "calls cannot be committed, since a member of the group does not answer: it is removed from the members \
                 within seconds, or this node is cut off and another leads",
            ),
            NotHandedOver::Undecided => f.write_str(
                "there was no decision in time: a majority of the voters cannot be reached, or the other node is not up \
                 to date",
            ),
            NotHandedOver::Applying { node, behind } => write!(
                f,
                "node {node} is still applying what this node has executed (entries to go: {behind}): calls would wait until \
                 it has"
            ),
            NotHandedOver::NoSuccessor => f.write_str(
                "no other node had a complete copy in time: no node leads until one has, or until this node is back",
            ),
            NotHandedOver::Replaced => f.write_str("this node lost its leadership meanwhile"),
        }
    }
}

impl std::error::Error for NotHandedOver {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// No node could lead in this node's place: it waits for one, and all calls continue.
    Awaiting,
    Holding,
    Proposing,
}

/// A hand-over in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandingOver {
    pub to: Option<NodeId>,
    pub step: Step,
    /// Since when; None until the next tick.
    pub since: Option<u64>,
    /// How long to wait for a node that could lead, and when one was last on the way to that.
    pub patience: u64,
    pub followed: Option<u64>,
    /// Since when the node that could lead has had something to apply; and whether to wait for that
    /// as long as for anything else, because this node ends.
    pub applying: Option<u64>,
    pub ends: bool,
    /// Which members may lead next, by what they can run.
    pub among: Among,
    /// The node ends: no client calls any more, or asks for the outcome.
    pub leaves: bool,
}

impl HandingOver {
    pub fn begin(to: Option<NodeId>, patience: u64, ends: bool, leaves: bool) -> HandingOver {
        let step = Step::Awaiting;
        let since = None;
        let followed = None;
        let applying = None;
        HandingOver { to, step, since, patience, followed, applying, ends, among: Among::Able, leaves }
    }
}
