//! A partition that is a copy: its store follows the leader's entries; and how it becomes the
//! leader, or one of the leader's copies.

use super::Partition;
use crate::apply;
use crate::commit::Completion;
use crate::delivery::{CopyFault, Parcel, Piece};
use crate::event::Loan;
use crate::judge::ReplayError;
use crate::role::{self, Role, not_the_leader};
use crossbeam_channel::Sender;
use ferrite_base::{PartitionId, Sequence, UserError};
use ferrite_group::GroupAppender;
use ferrite_table::Store;

impl Partition {
    /// Begins as a copy.
    pub fn as_copy(mut self) -> Partition {
        self.become_copy();
        self
    }

    fn become_copy(&mut self) {
        self.role = Role::Copy;
        self.own_store().keep_rows(true);
    }

    fn own_store(&mut self) -> &mut Store {
        self.store.as_mut().expect("the store is here while the partition runs")
    }

    /// Why no call is executed at the moment.
    #[inline]
    pub(super) fn refusal(&self) -> Option<UserError> {
        match (self.role, self.gate.failure()) {
            (Role::Leader, None) if self.steps_back && self.gate.is_deposed() => Some(not_the_leader()),
            (Role::Leader, None) => None,
            (Role::Leader, Some(failure)) => Some(failure.unavailable()),
            (Role::Copy, _) => Some(not_the_leader()),
        }
    }

    /// Makes the changes of a parcel. After one that cannot be made none is, since their numbers do
    /// not continue here.
    pub(super) fn apply(&mut self, parcel: Parcel) {
        let outcome = parcel.pieces().try_for_each(|piece| {
            let entry = piece.entry;
            self.apply_piece(piece).map_err(|reason| CopyFault { entry, reason })
        });
        parcel.finish(self.id, outcome);
    }

    fn apply_piece(&mut self, piece: Piece<'_>) -> Result<(), ReplayError> {
        assert_eq!(self.role, Role::Copy, "a leader's changes are its own");
        let partition = self.id;
        let expected = Sequence(self.sequence.0 + 1);
        let Piece { first, count, changes, .. } = piece;
        if first != expected {
            return Err(ReplayError::Sequence { partition, expected, found: first });
        }
        let store = self.own_store();
        match count {
            Some(count) => apply::batch(store, partition, first, count, changes)?,
            None => apply::one(store, partition, first, changes)?,
        }
        self.sequence.0 += u64::from(count.unwrap_or(1));
        Ok(())
    }

    /// What another node has takes the place of what is here, which goes.
    pub(super) fn replace(&mut self, loan: Loan) {
        assert_eq!(self.role, Role::Copy, "a leader's store is its own");
        (self.store, self.sequence) = (None, Sequence(0));
        self.take_back(loan);
        self.own_store().keep_rows(true);
        self.publish_counts();
    }

    /// What was applied is committed, and this partition continues after it.
    pub(super) fn lead(&mut self, log: GroupAppender<Completion>, time: i64) {
        assert_eq!(self.role, Role::Copy, "a leader is not made one");
        self.role = Role::Leader;
        let rounds = role::rounds(&log);
        self.steps_back = rounds.is_some();
        self.gate.lead(self.sequence, rounds);
        self.log = log;
        let retains = self.steps_back;
        self.own_store().retain_undo(retains);
        self.own_store().keep_rows(false);
        self.executor.unique_ids_above(time);
    }

    /// Forgets the undo of what is committed meanwhile.
    #[cold]
    pub(super) fn settle(&mut self) {
        if let Some(store) = &mut self.store {
            store.committed(self.gate.commit());
        }
    }

    /// Whether undo is kept that [`Partition::settle`] would forget.
    pub(super) fn can_settle(&self) -> bool {
        let first = self.store.as_ref().and_then(Store::first_retained);
        first.is_some_and(|first| self.gate.commit() >= first)
    }

    pub(super) fn follow(&mut self, to: &Sender<(PartitionId, Sequence)>) {
        assert_eq!(self.role, Role::Leader, "a copy is not made one");
        assert!(self.steps_back || self.gate.is_at_rest(), "without others a leader steps down at rest");
        let commit = self.gate.step_down();
        if self.steps_back {
            let store = self.own_store();
            store.step_back(commit);
            store.committed(commit);
            store.retain_undo(false);
            self.sequence = commit;
            self.steps_back = false;
        }
        self.become_copy();
        // The caller may have given up waiting.
        let _ = to.send((self.id, self.sequence));
    }
}
