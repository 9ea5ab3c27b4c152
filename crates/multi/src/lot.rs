//! How a lot ends, and what streams say of it.

use crate::lot_id::LotId;
use crate::settled::Settled;
use ferrite_base::{Epoch, GroupId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Committed,
    Aborted,
}

/// What a group's stream says of a lot. `settled`: how these lots ended nobody will ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record<R> {
    /// The group's part of the lot, which counts if all participants have theirs.
    Prepared {
        lot: LotId,
        settled: Settled,
        participants: Vec<GroupId>,
        redo: R,
    },
    Decided {
        lot: LotId,
        settled: Settled,
        outcome: Outcome,
    },
    /// The group has no part of the lot, and never will: the lot is aborted.
    Refused {
        lot: LotId,
        settled: Settled,
    },
    /// The group obeys the sequencer of that epoch: no lot of an earlier one is prepared in the
    /// stream from here on, whoever leads.
    Ordered {
        epoch: Epoch,
        settled: Settled,
    },
    /// Only that lots are settled.
    Settled {
        settled: Settled,
    },
}

impl<R> Record<R> {
    pub fn settled(&self) -> &Settled {
        match self {
            Record::Prepared { settled, .. }
            | Record::Decided { settled, .. }
            | Record::Refused { settled, .. }
            | Record::Ordered { settled, .. }
            | Record::Settled { settled } => settled,
        }
    }

    pub fn lot(&self) -> Option<LotId> {
        match self {
            Record::Prepared { lot, .. } | Record::Decided { lot, .. } | Record::Refused { lot, .. } => Some(*lot),
            Record::Ordered { .. } | Record::Settled { .. } => None,
        }
    }

    /// The same with another form of what was changed.
    pub fn map<S>(self, redo: impl FnOnce(R) -> S) -> Record<S> {
        match self {
            Record::Prepared { lot, settled, participants, redo: of } => {
                Record::Prepared { lot, settled, participants, redo: redo(of) }
            }
            Record::Decided { lot, settled, outcome } => Record::Decided { lot, settled, outcome },
            Record::Refused { lot, settled } => Record::Refused { lot, settled },
            Record::Ordered { epoch, settled } => Record::Ordered { epoch, settled },
            Record::Settled { settled } => Record::Settled { settled },
        }
    }
}
