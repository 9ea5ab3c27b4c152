//! What one lending of stores serves: the stores themselves, with where their histories end, the
//! transactions' records, and their answers until the log has the records.

use super::Borrower;
use crate::answer::{ANSWER_BATCH_BYTES_MAX, AnswerBatch, MailboxHandle};
use crate::commit::{Completion, Parties};
use crate::event::{Reply, StoreSet};
use crate::gate::Gate;
use crate::long_read::{LongRead, LongReads};
use ferrite_base::{GroupPartitions, PartitionId, Sequence, limits};
use ferrite_group::{EntryBuffer, GroupAppender, NotCommitted, Party};
use ferrite_table::Store;
use std::sync::Arc;

/// Answers beyond this are not copied to where others wait for the same mailbox.
const ANSWER_BYTES_COPIED_MAX: usize = 64 * 1024;

/// The partition of the store, and where its history ends.
pub(super) struct StorePosition {
    pub(super) partition: PartitionId,
    /// Of the partition in its group.
    pub(super) place: usize,
    pub(super) sequence: Sequence,
    /// Whether it has changed since the log was last informed.
    pub(super) changed: bool,
}

/// By the partition's place in its group; None for a store that is not here, or that the running
/// transaction has.
pub(super) type Borrowed = Vec<Option<(Store, StorePosition)>>;

/// What one lending of stores serves.
pub(super) struct Lending {
    /// The partitions whose stores can be borrowed.
    pub(super) of: GroupPartitions,
    pub(super) borrowed: Borrowed,
    /// The transactions' records.
    pub(super) payload: EntryBuffer,
    pub(super) answers: Vec<(MailboxHandle, AnswerBatch)>,
    /// They show changes of the lending, so they begin when the log has its records.
    pub(super) reads: Vec<LongRead>,
}

impl Lending {
    pub(super) fn collect_stores(
        &mut self,
        needed: &StoreSet,
        stores: &mut Vec<Store>,
        positions: &mut Vec<StorePosition>,
    ) {
        collect_stores(&self.of, &mut self.borrowed, needed, stores, positions);
    }

    pub(super) fn put_back(&mut self, stores: &mut Vec<Store>, positions: &mut Vec<StorePosition>) {
        put_back(&mut self.borrowed, stores, positions);
    }

    pub(super) fn has_output(&self) -> bool {
        !(self.answers.is_empty() && self.reads.is_empty() && self.payload.is_empty())
    }

    /// Adds an answer. A large one is sent as it is, since copying it would take long while
    /// partitions stop.
    pub(super) fn answered(&mut self, reply: &Reply, answer: &mut Vec<u8>) {
        if answer.len() > ANSWER_BYTES_COPIED_MAX {
            let bytes = std::mem::take(answer);
            let mut answers = AnswerBatch { bytes, sent_micros: reply.sent_micros, ..AnswerBatch::default() };
            answers.finish_answer(reply.connection);
            self.answers.push((Arc::clone(&reply.mailbox), answers));
            return;
        }
        let answers = self.answers_to(&reply.mailbox);
        if answers.sent_micros == 0 {
            answers.sent_micros = reply.sent_micros;
        }
        answers.bytes.extend_from_slice(answer);
        answers.finish_answer(reply.connection);
    }

    fn answers_to(&mut self, mailbox: &MailboxHandle) -> &mut AnswerBatch {
        let known = self.answers.iter().position(|(known, _)| Arc::ptr_eq(known, mailbox));
        let position = known.unwrap_or_else(|| {
            self.answers.push((Arc::clone(mailbox), AnswerBatch::default()));
            self.answers.len() - 1
        });
        &mut self.answers[position].1
    }

    /// Large results and large changes do not wait for each other.
    pub(super) fn is_large(&self) -> bool {
        let answers: usize = self.answers.iter().map(|(_, answers)| answers.bytes.len()).sum();
        answers > ANSWER_BATCH_BYTES_MAX || self.payload.len() > limits::BATCH_CHANGES_BYTES_MAX
    }
}

/// Moves the stores that a transaction needs to where it can have them in a row.
pub(super) fn collect_stores(
    of: &GroupPartitions,
    borrowed: &mut Borrowed,
    needed: &StoreSet,
    stores: &mut Vec<Store>,
    positions: &mut Vec<StorePosition>,
) {
    let mut one = |lent: &mut Option<(Store, StorePosition)>| {
        let (store, position) = lent.take().expect("what a call needs was borrowed");
        stores.push(store);
        positions.push(position);
    };
    match needed {
        StoreSet::All => borrowed.iter_mut().for_each(one),
        StoreSet::Only(list) => list.iter().for_each(|partition| {
            let place = of.place_of(*partition).expect("a call needs partitions of the group");
            one(&mut borrowed[place]);
        }),
    }
}

pub(super) fn put_back(borrowed: &mut Borrowed, stores: &mut Vec<Store>, positions: &mut Vec<StorePosition>) {
    for (store, position) in stores.drain(..).zip(positions.drain(..)) {
        let slot = &mut borrowed[position.place];
        assert!(slot.is_none(), "a store is put back where it was taken");
        *slot = Some((store, position));
    }
}

/// Has all stores that are there in a row, in the order of their places.
pub(super) fn with_stores<T>(borrowed: &mut Borrowed, act: impl FnOnce(&mut [Store]) -> T) -> T {
    let mut stores = Vec::with_capacity(borrowed.len());
    let mut positions = Vec::with_capacity(borrowed.len());
    for (store, position) in borrowed.iter_mut().filter_map(Option::take) {
        stores.push(store);
        positions.push(position);
    }
    let result = act(&mut stores);
    put_back(borrowed, &mut stores, &mut positions);
    result
}

/// What a lending's results go out through.
pub(super) struct Outlet<'c> {
    pub(super) partitions: &'c [Borrower],
    pub(super) gate: &'c Arc<Gate>,
    pub(super) log: &'c GroupAppender<Completion>,
    /// Not with durability memory.
    pub(super) logs: bool,
    pub(super) long_reads: &'c LongReads,
}

impl Outlet<'_> {
    /// Hands the lending's records to the log; a barrier where nothing was changed, as its answers
    /// may reveal others' changes. `running`: the positions of a transaction in progress, whose own
    /// changes come later. `ticket` is that of the last one that has ended. Returns whether there
    /// is an entry.
    pub(super) fn append(&self, ticket: Sequence, lending: &mut Lending, running: &mut [StorePosition]) -> bool {
        self.gate.appended(ticket);
        let mut waiting = vec![(Arc::clone(self.gate), ticket)];
        let borrowed = lending.borrowed.iter_mut().flatten().map(|(_, position)| position);
        for position in borrowed.chain(running) {
            if std::mem::take(&mut position.changed) {
                let gate = &self.partitions[position.place].gate;
                gate.appended(position.sequence);
                waiting.push((Arc::clone(gate), position.sequence));
            }
        }
        let payload = std::mem::take(&mut lending.payload);
        assert!(waiting.len() == 1 || !payload.is_empty(), "what was changed is in the records");
        let appended = !payload.is_empty();
        let completion = Completion { parties: Parties::Several(waiting), buffers: None };
        if self.logs {
            self.log.append(payload, completion);
        } else {
            assert!(!appended, "nothing is logged");
            let failure = self.gate.failure().cloned();
            completion.complete(Vec::new(), failure.map_or(Ok(()), |failure| Err(NotCommitted::Log(failure))));
        }
        appended
    }

    /// The answers to what was appended leave as soon as it is committed.
    pub(super) fn release(&self, lending: &mut Lending, appended: bool) {
        for (mailbox, answers) in lending.answers.drain(..) {
            match appended {
                true => self.gate.hold_appended(mailbox, answers),
                false => self.gate.hold(mailbox, answers),
            }
        }
        lending.reads.drain(..).for_each(|read| self.long_reads.start(read));
    }
}
