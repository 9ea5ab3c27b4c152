//! The coordinator of a node whose partitions are copies: it runs nothing, and borrows nothing.

use super::Coordinator;
use crate::commit::Completion;
use crate::compiled::Compiled;
use crate::event::{CommittedState, Event};
use crate::role::{self, Role, not_the_leader};
use crate::schema::SchemaHistory;
use crossbeam_channel::Sender;
use ferrite_base::{PartitionId, Sequence, UserError};
use ferrite_group::GroupAppender;
use std::sync::Arc;

impl Coordinator {
    /// Begins as a copy's.
    pub fn as_copy(mut self) -> Coordinator {
        self.role = Role::Copy;
        self
    }

    /// Why nothing is executed at the moment.
    pub(super) fn refusal(&self) -> Option<UserError> {
        match (self.role, self.gate.failure()) {
            (Role::Leader, None) if self.steps_back && self.gate.is_deposed() => Some(not_the_leader()),
            (Role::Leader, None) => None,
            (Role::Leader, Some(failure)) => Some(failure.unavailable()),
            (Role::Copy, _) => Some(not_the_leader()),
        }
    }

    pub(super) fn lead(
        &mut self,
        log: GroupAppender<Completion>,
        time: i64,
        compiled: Arc<Compiled>,
        history: SchemaHistory,
    ) {
        assert_eq!(self.role, Role::Copy, "a leader is not made one");
        self.role = Role::Leader;
        let rounds = role::rounds(&log);
        self.steps_back = rounds.is_some();
        self.gate.lead(self.ticket, rounds);
        self.log = log;
        self.executor.unique_ids_above(time);
        self.counters.catalog_changes(&self.compiled);
        self.executor.catalog_changed();
        self.lot_texts.clear();
        self.checked = None;
        (self.compiled, self.history) = (compiled, history);
    }

    /// The partitions become copies after all that was asked of them, and nothing is asked of them
    /// any more. A schema change that was in progress was taken back before this came.
    pub(super) fn follow(&mut self, to: &Sender<CommittedState>, partitions: &Sender<(PartitionId, Sequence)>) {
        assert_eq!(self.role, Role::Leader, "a copy is not made one");
        assert!(self.steps_back || self.gate.is_at_rest(), "without others a leader steps down at rest");
        self.role = Role::Copy;
        self.steps_back = false;
        self.gate.step_down();
        // The caller may have given up waiting.
        let _ = to.send(CommittedState {
            compiled: Arc::clone(&self.compiled),
            history: self.history.clone(),
            lots: self.end_lots(),
        });
        for partition in &self.partitions {
            partition.inbox.send(Event::Follow(partitions.clone())).expect("partitions outlive the coordinator");
        }
    }
}
