//! The answers' gate: holds each until all that it could have seen is committed. A partition and the coordinator have one each.

use crate::answer::{AnswerBatch, MailboxHandle};
use crate::commit::CommitWatch;
use ferrite_base::{NodeId, Sequence, UserError};
use ferrite_log::LogFailed;
use ferrite_replica::{Configuration, Outcome, Replica};
use std::sync::Arc;

/// This node, as long as it is the only one.
const HERE: NodeId = NodeId(0);

pub struct Gate {
    replica: Replica<(MailboxHandle, AnswerBatch)>,
    watch: Arc<CommitWatch>,
}

impl Gate {
    /// Begins with everything up to `start` committed.
    pub fn new(watch: Arc<CommitWatch>, start: Sequence) -> Gate {
        Gate { replica: Replica::new(Configuration::single(HERE), start), watch }
    }

    pub fn watch(&self) -> &Arc<CommitWatch> {
        &self.watch
    }

    /// Set once the log has failed: nothing more is to be executed.
    pub fn failure(&self) -> Option<&LogFailed> {
        self.watch.failure()
    }

    /// Everything up to `sequence` was, or is about to be, handed to the log.
    pub fn appended(&mut self, sequence: Sequence) {
        self.replica.appended(sequence);
    }

    /// Keeps `answers` until everything appended so far is committed; lets go of what already is.
    pub fn hold(&mut self, mailbox: MailboxHandle, answers: AnswerBatch) {
        self.replica.hold_read((mailbox, answers));
        self.release();
    }

    /// Lets go of every answer that is committed; when the log has failed, tells the others that their outcome is unknown.
    pub fn release(&mut self) {
        let durable = self.watch.take();
        if durable > self.replica.commit_sequence() {
            self.replica.durable(HERE, durable);
        }
        let failure = self.watch.failure();
        if failure.is_some() {
            self.replica.fail();
        }
        for ((mailbox, mut answers), outcome) in self.replica.take_released() {
            if outcome == Outcome::OutcomeUnknown {
                let error: UserError = failure.expect("the outcome is unknown only after a failure").outcome_unknown();
                answers.replace_all(&error);
            }
            mailbox.deliver(answers);
        }
    }
}
