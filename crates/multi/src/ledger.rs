//! What a group's stream says of lots, up to some place: state of the group, which replay makes
//! again, and which snapshots and transfers have with them.
//!
//! Two rules make outcomes final. A lot that the stream refuses is never prepared in it, and one
//! that it has prepared is never refused. An outcome is forgotten only when the lot is settled
//! everywhere.

use crate::lot::{Outcome, Record};
use crate::lot_id::LotId;
use crate::settled::Settled;
use ferrite_base::{Epoch, GroupId, planted};
use std::collections::BTreeMap;
use std::fmt;

/// A part that waits for the lot's outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InDoubt<R> {
    pub participants: Vec<GroupId>,
    pub redo: R,
}

/// The stream contradicts itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LedgerError(pub &'static str);

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for LedgerError {}

/// What has become of a part that was in doubt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Applied<R> {
    /// The record changes no rows.
    Nothing,
    /// The part counts from here on: its changes are to be made.
    Committed(InDoubt<R>),
    Aborted(InDoubt<R>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ledger<R> {
    order: Epoch,
    settled: Settled,
    in_doubt: BTreeMap<LotId, InDoubt<R>>,
    outcomes: BTreeMap<LotId, Outcome>,
}

impl<R> Default for Ledger<R> {
    fn default() -> Self {
        Ledger { order: Epoch(0), settled: Settled::default(), in_doubt: BTreeMap::new(), outcomes: BTreeMap::new() }
    }
}

impl<R> Ledger<R> {
    /// As it was written down somewhere.
    ///
    /// # Errors
    /// No stream leads there.
    pub fn restore(
        order: Epoch,
        settled: Settled,
        in_doubt: BTreeMap<LotId, InDoubt<R>>,
        outcomes: BTreeMap<LotId, Outcome>,
    ) -> Result<Ledger<R>, LedgerError> {
        let lots = || in_doubt.keys().chain(outcomes.keys());
        if lots().any(|lot| settled.covers(*lot)) || in_doubt.keys().any(|lot| outcomes.contains_key(lot)) {
            return Err(LedgerError("a lot is in doubt and settled"));
        }
        Ok(Ledger { order, settled, in_doubt, outcomes })
    }

    /// The sequencer whose lots are prepared.
    pub fn order(&self) -> Epoch {
        self.order
    }

    /// How these ended is forgotten.
    pub fn settled(&self) -> &Settled {
        &self.settled
    }

    pub fn in_doubt(&self) -> &BTreeMap<LotId, InDoubt<R>> {
        &self.in_doubt
    }

    pub fn outcomes(&self) -> &BTreeMap<LotId, Outcome> {
        &self.outcomes
    }

    /// Whether the stream says anything of the lot that is still remembered.
    pub fn knows(&self, lot: LotId) -> bool {
        self.in_doubt.contains_key(&lot) || self.outcomes.contains_key(&lot)
    }

    /// The stream's next record.
    pub fn apply(&mut self, record: Record<R>) -> Result<Applied<R>, LedgerError> {
        let settled = record.settled().clone();
        if record.lot().is_some_and(|lot| self.settled.covers(lot) || settled.covers(lot)) {
            return Err(LedgerError("a record names a lot that was settled before"));
        }
        let applied = match record {
            Record::Prepared { lot, participants, redo, .. } => {
                if self.knows(lot) {
                    return Err(LedgerError("a lot is prepared that was prepared or refused before"));
                }
                if lot.epoch != self.order && !planted!(OldOrder) {
                    return Err(LedgerError("a lot is prepared whose sequencer the group does not obey"));
                }
                self.in_doubt.insert(lot, InDoubt { participants, redo });
                Applied::Nothing
            }
            Record::Decided { lot, outcome, .. } => {
                let part = self.in_doubt.remove(&lot).ok_or(LedgerError("a lot is decided that was not prepared"))?;
                self.outcomes.insert(lot, outcome);
                match outcome {
                    Outcome::Committed => Applied::Committed(part),
                    Outcome::Aborted => Applied::Aborted(part),
                }
            }
            Record::Refused { lot, .. } => {
                if self.knows(lot) {
                    return Err(LedgerError("a lot is refused that was prepared or refused before"));
                }
                self.outcomes.insert(lot, Outcome::Aborted);
                Applied::Nothing
            }
            Record::Ordered { epoch, .. } => {
                if epoch <= self.order {
                    return Err(LedgerError("an earlier sequencer follows a later one"));
                }
                self.order = epoch;
                Applied::Nothing
            }
            Record::Settled { .. } => Applied::Nothing,
        };
        self.settle(&settled)?;
        Ok(applied)
    }

    fn settle(&mut self, settled: &Settled) -> Result<(), LedgerError> {
        if !self.settled.merge(settled) {
            return Ok(());
        }
        let settled = &self.settled;
        if self.in_doubt.keys().any(|lot| settled.covers(*lot)) {
            return Err(LedgerError("a lot counts as settled whose outcome the stream does not have"));
        }
        self.outcomes.retain(|lot, _| !settled.covers(*lot));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lot(number: u64) -> LotId {
        LotId { epoch: Epoch(3), number }
    }

    /// Of a group that obeys the sequencer of epoch 3.
    fn ordered() -> Ledger<u8> {
        let mut ledger = Ledger::default();
        ledger.apply(Record::Ordered { epoch: Epoch(3), settled: Settled::default() }).expect("it is the first");
        ledger
    }

    fn up_to(number: u64) -> Settled {
        Settled { numbers: BTreeMap::from([(Epoch(3), number)]), ..Settled::default() }
    }

    fn prepared(number: u64, below: u64) -> Record<u8> {
        let participants = vec![GroupId(0), GroupId(2)];
        Record::Prepared { lot: lot(number), settled: up_to(below), participants, redo: number as u8 }
    }

    fn decided(number: u64, below: u64, outcome: Outcome) -> Record<u8> {
        Record::Decided { lot: lot(number), settled: up_to(below), outcome }
    }

    #[test]
    fn a_part_waits_for_its_outcome_and_the_outcome_for_all_parties() {
        let mut ledger = ordered();
        assert_eq!(ledger.apply(prepared(1, 0)), Ok(Applied::Nothing));
        assert_eq!(ledger.in_doubt()[&lot(1)].redo, 1);
        let Ok(Applied::Committed(part)) = ledger.apply(decided(1, 0, Outcome::Committed)) else { panic!() };
        assert_eq!((part.redo, ledger.outcomes()[&lot(1)]), (1, Outcome::Committed));
        assert_eq!(ledger.apply(Record::Settled { settled: up_to(1) }), Ok(Applied::Nothing));
        assert!(!ledger.knows(lot(1)) && ledger.settled().covers(lot(1)));
    }

    #[test]
    fn what_is_refused_is_never_prepared_and_the_reverse() {
        let mut ledger = ordered();
        ledger.apply(Record::Refused { lot: lot(1), settled: up_to(0) }).expect("nothing is known of it");
        assert!(ledger.apply(prepared(1, 0)).is_err());
        ledger.apply(prepared(2, 0)).expect("another lot");
        assert!(ledger.apply(Record::Refused { lot: lot(2), settled: up_to(0) }).is_err());
        assert!(ledger.apply(decided(3, 0, Outcome::Aborted)).is_err(), "it was not prepared");
        assert!(ledger.apply(prepared(4, 2)).is_err(), "2 is in doubt, and not settled");
    }

    #[test]
    fn what_was_settled_does_not_come_again() {
        let mut ledger = ordered();
        ledger.apply(Record::Settled { settled: up_to(5) }).expect("nothing is in doubt");
        assert!(ledger.apply(prepared(5, 0)).is_err());
        assert!(ledger.apply(Record::Refused { lot: lot(4), settled: up_to(0) }).is_err());
        ledger.apply(prepared(6, 3)).expect("an older word of what is settled takes nothing back");
        assert!(ledger.settled().covers(lot(5)));
    }

    #[test]
    fn lots_of_a_sequencer_that_was_replaced_are_not_prepared() {
        let mut ledger = ordered();
        ledger.apply(prepared(1, 0)).expect("it is of the sequencer that the group obeys");
        ledger.apply(Record::Ordered { epoch: Epoch(4), settled: up_to(0) }).expect("it is a later one");
        assert!(ledger.apply(prepared(2, 0)).is_err());
        assert!(ledger.apply(Record::Ordered { epoch: Epoch(4), settled: up_to(0) }).is_err());
        ledger.apply(decided(1, 0, Outcome::Committed)).expect("what was prepared before may still be committed");
    }

    #[test]
    fn only_what_a_stream_can_say_is_restored() {
        let part = || BTreeMap::from([(lot(2), InDoubt { participants: vec![], redo: 0u8 })]);
        let outcomes = |number| BTreeMap::from([(lot(number), Outcome::Aborted)]);
        assert!(Ledger::restore(Epoch(3), up_to(0), part(), outcomes(2)).is_err());
        assert!(Ledger::restore(Epoch(3), up_to(2), part(), BTreeMap::new()).is_err());
        assert!(Ledger::restore(Epoch(3), up_to(1), part(), outcomes(1)).is_err());
        let restored = Ledger::restore(Epoch(3), up_to(1), part(), outcomes(3)).expect("it holds together");
        assert!(restored.knows(lot(2)) && restored.knows(lot(3)));
    }
}
