//! What names a lot, how it ends, and what streams say of it.

use ferrite_base::{Epoch, GroupId};
use std::fmt;

/// Of a lot: never given twice. The epoch is that of the first group, in which its leader was the
/// sequencer; numbers begin with 1 in each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LotId {
    pub epoch: Epoch,
    pub number: u64,
}

impl LotId {
    /// Below all lots of that sequencer, and above all of earlier ones.
    pub fn before_the_first(epoch: Epoch) -> LotId {
        LotId { epoch, number: 0 }
    }
}

impl fmt::Display for LotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch.0, self.number)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Committed,
    Aborted,
}

/// What a group's stream says of a lot. `below`: lots up to it are settled everywhere, so that
/// nobody will ask for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record<R> {
    /// The group's part of the lot, which counts if all participants have theirs.
    Prepared { lot: LotId, below: LotId, participants: Vec<GroupId>, redo: R },
    Decided { lot: LotId, below: LotId, outcome: Outcome },
    /// The group has no part of the lot, and never will: the lot is aborted.
    Refused { lot: LotId, below: LotId },
    /// Only that lots are settled.
    Settled { below: LotId },
}

impl<R> Record<R> {
    pub fn below(&self) -> LotId {
        match self {
            Record::Prepared { below, .. }
            | Record::Decided { below, .. }
            | Record::Refused { below, .. }
            | Record::Settled { below } => *below,
        }
    }

    pub fn lot(&self) -> Option<LotId> {
        match self {
            Record::Prepared { lot, .. } | Record::Decided { lot, .. } | Record::Refused { lot, .. } => Some(*lot),
            Record::Settled { .. } => None,
        }
    }

    /// The same with another form of what was changed.
    pub fn map<S>(self, redo: impl FnOnce(R) -> S) -> Record<S> {
        match self {
            Record::Prepared { lot, below, participants, redo: of } => {
                Record::Prepared { lot, below, participants, redo: redo(of) }
            }
            Record::Decided { lot, below, outcome } => Record::Decided { lot, below, outcome },
            Record::Refused { lot, below } => Record::Refused { lot, below },
            Record::Settled { below } => Record::Settled { below },
        }
    }
}
