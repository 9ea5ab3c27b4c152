//! How far a hand-over is, and why it came to nothing.

use ferrite_base::NodeId;
use ferrite_group::{Among, CannotHandOver};
use std::fmt;

/// Why a node leads on that was to hand over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotHandedOver {
    Cannot(CannotHandOver),
    /// It is handing over already.
    UnderWay,
    /// What was taken takes its time.
    Busy,
    /// What was taken is executed, and a member does not answer: it cannot be committed.
    Unanswered,
    /// Nothing was decided.
    Undecided,
    /// The one that would lead has that many entries to apply yet: calls would wait for them.
    Applying {
        node: NodeId,
        behind: u64,
    },
    /// Others run, and none of them had a complete copy in time.
    NoSuccessor,
    /// It does not lead any more, and nobody is known to do so yet.
    Replaced,
}

impl fmt::Display for NotHandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotHandedOver::Cannot(reason) => reason.fmt(f),
            NotHandedOver::UnderWay => f.write_str("this node is handing over already"),
            NotHandedOver::Busy => f.write_str("calls are still running after a second: try again when they have ended"),
            NotHandedOver::Unanswered => f.write_str(
                "calls cannot be committed, since a member of the group does not answer: it is left out within seconds, \
                 or this node is cut off and another leads",
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
                "no other node has had a complete copy in time: nobody leads until one has, or this node is there again",
            ),
            NotHandedOver::Replaced => f.write_str("this node lost its leadership meanwhile"),
        }
    }
}

impl std::error::Error for NotHandedOver {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nobody could lead in this node's place: somebody is waited for, and all goes on.
    Awaiting,
    Holding,
    Proposing,
}

/// A hand-over that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandingOver {
    pub to: Option<NodeId>,
    pub step: Step,
    /// Since when; None until the next tick.
    pub since: Option<u64>,
    /// How long somebody is waited for who could lead, and when last somebody was on the way to
    /// that.
    pub patience: u64,
    pub followed: Option<u64>,
    /// Since when the one that could lead has something to apply yet; and whether that is waited
    /// for as long as for anything else: the node ends.
    pub applying: Option<u64>,
    pub ends: bool,
    /// Which members may lead next, by what they can run.
    pub among: Among,
    /// The node ends: nobody calls any more, nor asks what became of it.
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
