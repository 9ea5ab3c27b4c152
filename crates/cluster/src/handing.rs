//! How far a hand-over is, and why it came to nothing.

use ferrite_base::NodeId;
use ferrite_group::CannotHandOver;
use std::fmt;

/// Why a node leads on that was to hand over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotHandedOver {
    Cannot(CannotHandOver),
    /// It is handing over already.
    UnderWay,
    /// What was taken takes its time.
    Busy,
    /// Nothing was decided.
    Undecided,
    /// It does not lead any more, and nobody is known to do so yet.
    Replaced,
}

impl fmt::Display for NotHandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotHandedOver::Cannot(reason) => reason.fmt(f),
            NotHandedOver::UnderWay => f.write_str("this node is handing over already"),
            NotHandedOver::Busy => f.write_str("calls are still running after a second: try again when they have ended"),
            NotHandedOver::Undecided => f.write_str(
                "there was no decision in time: a majority of the voters cannot be reached, or the other node is not up \
                 to date",
            ),
            NotHandedOver::Replaced => f.write_str("this node lost its leadership meanwhile"),
        }
    }
}

impl std::error::Error for NotHandedOver {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
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
    /// The node ends: nobody calls any more, nor asks what became of it.
    pub leaves: bool,
}
