//! Everything that clients asked for, and what they were told: the model's side of the truth.

use crate::operation::{Action, Told};
use crate::restore_history::{Change, RestoreHistory};
use crate::schema::Variant;
use ferrite_catalog::Catalog;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Operation {
    pub action: Action,
    pub told: Told,
    /// `NOW` of its transaction is not before this. None: nothing is promised.
    pub now_min: Option<i64>,
    /// A recovery has shown that it is not there. It must not come later.
    pub absent: bool,
    /// An accepted loss of one group has left a part of it, in other groups.
    pub torn: bool,
    /// The moments at which it was sent, and at which its client knew the outcome, in the order of
    /// the simulation: no two are the same. 0: not yet.
    pub began: u64,
    pub ended: u64,
}

/// The schema as far as it is known to be durable, and one change whose outcome is not known.
#[derive(Clone, Default)]
pub struct SchemaHistory {
    /// The highest version by which a call was routed: clients may know of it.
    pub seen: u64,
    pub catalog: Arc<Catalog>,
    pub variant: Variant,
    pub outstanding: Option<Outstanding>,
}

#[derive(Clone)]
pub struct Outstanding {
    pub variant: Variant,
    pub text: String,
    /// None until it was answered; whether it was done.
    pub told: Option<bool>,
}

/// A backup that was begun.
#[derive(Clone, Debug)]
pub struct BegunBackup {
    /// By home, the step that was acknowledged before it began.
    pub at_least: BTreeMap<i64, i64>,
    /// Its caller was told that it is whole.
    pub whole: bool,
}

#[derive(Default)]
pub struct History {
    pub operations: Vec<Operation>,
    pub schema: SchemaHistory,
    pub restored: RestoreHistory,
    /// Backups that were begun since the last recovery, by their nonces.
    pub backups: BTreeMap<String, BegunBackup>,
    /// By home, the operations found at the last recovery, in their order.
    pub recovered: BTreeMap<i64, Vec<usize>>,
    /// By operation, which rows it may delete as expired: those of this time and earlier ones.
    pub cutoffs: BTreeMap<usize, i64>,
    /// With durability memory: the acknowledged operations that a complete snapshot shows.
    pub saved: BTreeSet<usize>,
    /// The server ended without its last snapshot: backups may show what is lost.
    pub lost_unsaved: bool,
    /// Since the log failed; nothing may be acknowledged any more.
    pub failed: bool,
    /// What must not happen and did, noticed while it happened.
    pub violation: Option<(&'static str, String)>,
    /// The last of the moments that operations have.
    moment: u64,
}

impl History {
    /// A node without others shows its clock, in whole milliseconds: `now` as the call is sent.
    pub fn begin(&mut self, action: Action, now: i64) -> usize {
        let now_min = Some(now / 1_000 * 1_000);
        self.moment += 1;
        let began = self.moment;
        self.operations.push(Operation {
            action,
            told: Told::Nothing,
            now_min,
            absent: false,
            torn: false,
            began,
            ended: 0,
        });
        self.operations.len() - 1
    }

    /// What the client of an operation is told now. Returns what it had been told before.
    pub fn note_answer(&mut self, number: usize, told: Told) -> Told {
        self.moment += 1;
        let operation = &mut self.operations[number];
        operation.ended = self.moment;
        std::mem::replace(&mut operation.told, told)
    }

    /// Rows of this time and earlier ones may have expired.
    pub fn cutoff(&self) -> Option<i64> {
        let was_begun = |number: usize| !matches!(self.operations[number].told, Told::Failed(_) | Told::Refused(_));
        self.cutoffs.iter().filter(|(number, _)| was_begun(**number)).map(|(_, cutoff)| *cutoff).max()
    }

    pub fn violated(&mut self, invariant: &'static str, detail: String) {
        self.violation.get_or_insert((invariant, detail));
    }

    /// The operations that were acknowledged so far.
    pub fn acknowledged(&self) -> Vec<usize> {
        let done = |operation: &Operation| matches!(operation.told, Told::Done(_));
        (0..).zip(&self.operations).filter(|(_, operation)| done(operation)).map(|(number, _)| number).collect()
    }

    /// A server with durability memory has ended without its last snapshot. Nothing is known of
    /// what it acknowledged and no complete snapshot shows, nor of what was seen of that. Schema
    /// changes that were acknowledged stay.
    pub fn lose_unsaved(&mut self) {
        self.lost_unsaved = true;
        for (number, operation) in self.operations.iter_mut().enumerate() {
            if matches!(operation.told, Told::Done(_)) && !self.saved.contains(&number) {
                operation.told = Told::Unknown;
            }
        }
        self.schema.seen = self.schema.seen.min(self.schema.catalog.version.0);
        let full = !self.restored.is_full();
        self.restored.outstanding = Some(Change { number: usize::MAX, full, seen: false });
    }

    /// The server has ended: what it has not said it will not say.
    pub fn server_ended(&mut self) {
        for operation in &mut self.operations {
            if operation.told == Told::Nothing {
                operation.told = Told::Unknown;
            }
        }
        self.failed = false;
    }
}
