//! The answers' gate: holds each until all that it could have seen is committed. A partition and
//! the coordinator have one each.
//!
//! Two threads come to a gate: the owner, who brings answers, and the one that says what is
//! committed and then lets the answers go at once: the log's, or a connection's to another node.
//! Sending word to the owner instead would wake it for every batch, only to pass something on; so
//! the gate has a lock, taken twice per batch, hardly ever at the same time.

use crate::answer::{AnswerBatch, MailboxHandle};
use ferrite_base::{NodeId, Sequence};
use ferrite_group::NotCommitted;
use ferrite_log::LogFailed;
use ferrite_replica::{Configuration, Release, Replica};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// This node, as long as it is the only one.
const HERE: NodeId = NodeId(0);

/// Why the log failed, once it has: one for all parties of a node. A party that was not waiting
/// must hear of it too, or it would go on executing what can no longer be acknowledged.
pub type SharedFailure = Arc<Failure>;

pub struct Failure {
    first: OnceLock<LogFailed>,
    /// Tells the operator.
    tell: fn(&LogFailed),
}

impl Failure {
    pub fn new(tell: fn(&LogFailed)) -> SharedFailure {
        Arc::new(Failure { first: OnceLock::new(), tell })
    }

    #[inline]
    pub fn get(&self) -> Option<&LogFailed> {
        self.first.get()
    }

    /// The log has failed: nothing more is to be executed. The first failure is the one that
    /// counts, and the one to tell the operator of.
    pub fn set(&self, failure: LogFailed) {
        if self.first.set(failure.clone()).is_ok() {
            (self.tell)(&failure);
        }
    }
}

/// Tells the operator on the terminal.
impl Default for Failure {
    fn default() -> Self {
        Failure { first: OnceLock::new(), tell: |failure| ferrite_io::errln!("ferrite: {failure}") }
    }
}

type Held = Replica<(MailboxHandle, AnswerBatch)>;

pub struct Gate {
    replica: Mutex<Held>,
    failure: SharedFailure,
}

impl Gate {
    /// Begins with everything up to `start` committed.
    pub fn new(start: Sequence, failure: SharedFailure) -> Arc<Gate> {
        let replica = Mutex::new(Replica::new(Configuration::single(HERE), start));
        Arc::new(Gate { replica, failure })
    }

    /// Set once the log has failed: nothing more is to be executed.
    #[inline]
    pub fn failure(&self) -> Option<&LogFailed> {
        self.failure.get()
    }

    /// Everything up to `sequence` is about to be handed to the log. Said before it is, since the
    /// log may be quick.
    pub fn appended(&self, sequence: Sequence) {
        self.lock().appended(sequence);
    }

    /// A copy that becomes the leader: everything up to `sequence` was committed by others.
    pub(crate) fn go_on_behind(&self, sequence: Sequence) {
        let mut replica = self.lock();
        assert_eq!(replica.held(), 0, "all callers were answered when the node stopped leading");
        *replica = Replica::new(Configuration::single(HERE), sequence);
    }

    /// Everything that was appended is committed, and every answer has left.
    pub(crate) fn is_at_rest(&self) -> bool {
        let replica = self.lock();
        replica.held() == 0 && replica.is_at_rest()
    }

    /// Keeps `answers` until everything appended so far is committed; lets go of what already is.
    pub fn hold(&self, mailbox: MailboxHandle, mut answers: AnswerBatch) {
        let end = answers.runs.last().map_or(0, |run| run.end as usize);
        assert_eq!(end, answers.bytes.len(), "every byte of a batch of answers belongs to a connection");
        answers.count();
        let mut replica = self.lock();
        replica.hold_read((mailbox, answers));
        self.release(&mut replica);
    }

    /// Everything up to `sequence` is committed. Called in order.
    pub(crate) fn committed(&self, sequence: Sequence) {
        let mut replica = self.lock();
        replica.durable(HERE, sequence);
        self.release(&mut replica);
    }

    /// Nothing more will be committed: for good where the log has failed, else until this node
    /// leads again.
    pub(crate) fn given_up(&self, reason: &NotCommitted) {
        if let NotCommitted::Log(failure) = reason {
            self.failure.set(failure.clone());
        }
        let mut replica = self.lock();
        replica.fail();
        self.release(&mut replica);
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.replica.lock().expect("a panic within the gate ends the process")
    }

    /// Sends every answer that is committed to its network thread's mailbox; when nothing more will
    /// be, tells the others that their outcome is unknown.
    fn release(&self, replica: &mut Held) {
        for ((mailbox, mut answers), outcome) in replica.take_released() {
            if outcome == Release::OutcomeUnknown {
                let failure = self.failure().cloned().map_or(NotCommitted::Deposed, NotCommitted::Log);
                answers.replace_all(&failure.outcome_unknown());
            }
            mailbox.deliver(answers);
        }
    }
}
