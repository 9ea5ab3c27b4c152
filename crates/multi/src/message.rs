//! What the parties tell one another. Links keep the order of what they carry; what was under way
//! on one that broke is lost, and nothing is sent twice.

use crate::lot::Outcome;
use crate::lot_id::LotId;
use crate::settled::Settled;
use ferrite_base::{Epoch, GroupId, PartitionId};

/// Hold these partitions and run this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begin {
    pub lot: LotId,
    /// In which the addressee leads the group.
    pub epoch: Epoch,
    pub partitions: Vec<PartitionId>,
    pub work: Vec<u8>,
    /// The participants, where the part is to be prepared as soon as it has run without an error.
    pub prepare: Option<Vec<GroupId>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToAgent {
    Begin(Begin),
    /// More to run in the same hold.
    Run {
        lot: LotId,
        work: Vec<u8>,
    },
    Prepare {
        lot: LotId,
        participants: Vec<GroupId>,
    },
    Decide {
        lot: LotId,
        outcome: Outcome,
    },
    /// A lot that is to change nothing has run everywhere: let go, and say when what it saw is
    /// committed.
    Release {
        lot: LotId,
    },
    /// There is another sequencer, of that epoch.
    NewOrder {
        epoch: Epoch,
    },
    /// How these ended may be forgotten.
    Settled(Settled),
    /// Whether there is a part of the lot, for that group's agent or, None, the sequencer.
    Resolve {
        lot: LotId,
        asks: Option<GroupId>,
    },
    /// The answer of that group.
    Verdict {
        lot: LotId,
        of: GroupId,
        verdict: Resolution,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToSequencer {
    /// What was run last has ended.
    Done {
        lot: LotId,
        ok: bool,
        result: Vec<u8>,
    },
    /// Yes: the part is committed in the group's stream. No: there is none, and never will be.
    Vote {
        lot: LotId,
        yes: bool,
    },
    /// The outcome is committed in the group's stream.
    Settled {
        lot: LotId,
    },
    /// What the lot read there is committed.
    Fresh {
        lot: LotId,
    },
    /// Answer to `NewOrder`, and again as soon as nothing is in doubt: the lots of earlier
    /// sequencers that are.
    Ordered {
        epoch: Epoch,
        in_doubt: Vec<LotId>,
    },
    Verdict {
        lot: LotId,
        verdict: Resolution,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// The part is committed in the stream, and nothing is decided here.
    Prepared,
    /// The stream has refused the lot, or it was aborted.
    Aborted,
    Committed,
}
