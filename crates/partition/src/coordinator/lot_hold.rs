//! What a coordinator holds for lots while it leads its group.

use super::lending::{Borrowed, with_stores};
use super::schema_change::Checked;
use crate::commit::LotEvent;
use crate::compiled::Compiled;
use crate::event::Loan;
use crate::lots::LotLedger;
use crossbeam_channel::{Receiver, Sender};
use ferrite_base::{Epoch, PartitionId, Sequence, planted};
use ferrite_multi::{Agent, LotId, Record};
use ferrite_table::SchemaUndo;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// While this node leads the group.
pub(super) struct Leading {
    pub agent: Agent,
    pub epoch: Epoch,
    /// What the stream says as far as it is committed.
    pub committed: LotLedger,
    /// What was appended since, in its order.
    pub appended: VecDeque<Record<Vec<u8>>>,
    pub hold: Option<Hold>,
    /// The schema change of a lot that is held, until all that its stores show is committed.
    pub settling: Option<Box<SettlingChange>>,
    /// A schema change that counts, until the entry that says so is committed.
    pub adopting: Option<Hold>,
    pub unsettled: Option<UnsettledStores>,
    /// Lots that are to be held when stores are there again.
    pub waiting: VecDeque<(LotId, Vec<PartitionId>)>,
    /// A lot whose work has failed, and the result, until what it saw is committed.
    pub failed: Option<(LotId, Vec<u8>)>,
    pub events: (Sender<LotEvent>, Receiver<LotEvent>),
    /// When the agent is to look after what it does not know, in nanoseconds of the clock.
    pub tick_at: Option<u64>,
    pub in_doubt: Option<LongDoubt>,
}

/// The lot that has been in doubt for longest.
pub(super) struct LongDoubt {
    pub lot: LotId,
    pub since: u64,
    /// The operator knows of it.
    pub is_noted: bool,
}

/// What is held for a lot.
pub(super) struct Hold {
    pub lot: LotId,
    pub borrowed: Borrowed,
    /// Where the histories of the stores ended before, by their places.
    pub before: Vec<Option<Sequence>>,
    /// Records of what was changed.
    pub redo: Vec<u8>,
    /// Of the schema, by a lot of its own.
    pub change: Option<HeldChange>,
}

/// A change that all groups are to make, until all that the stores show is committed.
pub(super) struct SettlingChange {
    pub lot: LotId,
    pub checked: Checked,
    pub time_micros: i64,
    pub time_max: Duration,
    /// Nanoseconds that it has taken so far.
    pub taken: u64,
    pub is_first: bool,
}

/// A change that the stores of a hold have followed.
pub(super) struct HeldChange {
    pub compiled: Arc<Compiled>,
    pub time_micros: i64,
    /// As it is logged.
    pub text: String,
    pub undo: SchemaUndo,
}

/// All stores, in which a part that is in doubt may be missing.
pub(super) struct UnsettledStores {
    pub loans: Vec<Loan>,
    pub back: Vec<Sender<Loan>>,
}

impl Leading {
    /// Stores are not there until something is committed.
    pub fn awaits_stores(&self) -> bool {
        self.unsettled.is_some() || self.adopting.is_some()
    }
}

impl Hold {
    /// The stores are as they were before.
    pub fn step_back(&mut self) {
        self.redo.clear();
        self.take_change_back();
        let held = self.borrowed.iter_mut().zip(&self.before);
        for ((store, position), before) in held.filter_map(|(lent, before)| lent.as_mut().zip(*before)) {
            if position.sequence > before {
                store.step_back(before);
                if !planted!(AbortKeepsSequence) {
                    position.sequence = before;
                }
            }
        }
    }

    fn take_change_back(&mut self) {
        if let Some(HeldChange { undo, .. }) = self.change.take()
            && !planted!(ChangeKept)
        {
            with_stores(&mut self.borrowed, |stores| undo.take_back(stores));
        }
    }
}
