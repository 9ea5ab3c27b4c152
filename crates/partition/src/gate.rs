//! The answers' gate: holds each until all that it could have seen is committed. A partition and
//! the coordinator have one each.
//!
//! Two threads come to a gate: the owner, which brings answers, and the one that reports what is
//! committed and then releases the answers at once: the log's, or a connection's to another node.
//! Sending word to the owner instead would wake it for every batch, only to pass something on; so
//! the gate has a lock, taken twice per batch, hardly ever at the same time.
//!
//! In a cluster an answer without an entry of its own waits for a round, too: it shows that this
//! node still led when the answer was made (decision 0049).

use crate::answer::{AnswerBatch, MailboxHandle};
use ferrite_base::{NodeId, Sequence, planted};
use ferrite_group::NotCommitted;
use ferrite_log::LogFailed;
use ferrite_notice::Notice;
use ferrite_replica::{Configuration, HeldAnswers, Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// The only member of this local queue of answers: other nodes are the group's business.
const HERE: NodeId = NodeId(0);

/// Why the log failed, once it has: one for all parties of a node. A party that was not waiting
/// must hear of it too, or it would continue to execute what can no longer be acknowledged.
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
        Failure {
            first: OnceLock::new(),
            tell: |failure| ferrite_io::notify(Notice::LogFailed { reason: failure.to_string() }),
        }
    }
}

/// Asked when answers to reads are there: the round that has to be confirmed before they leave; 0:
/// none. None: this node does not lead any more.
pub(crate) type Rounds = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// Answers that wait.
struct Held {
    mailbox: MailboxHandle,
    answers: AnswerBatch,
    /// They have an entry: what was executed may be committed by another leader.
    appended: bool,
}

impl Held {
    /// Replaces what was executed, since it is not known to be so. Where nothing was changed the
    /// call may be made again.
    fn end(mut self, why: &NotCommitted) {
        self.answers.replace_all(&match why {
            NotCommitted::Deposed if !self.appended => why.unavailable(),
            _ => why.outcome_unknown(),
        });
        self.mailbox.deliver(self.answers);
    }
}

struct State {
    replica: HeldAnswers<Held>,
    /// None where no other node could lead.
    rounds: Option<Rounds>,
    /// It does not lead any more, and has to step back.
    deposed: bool,
    /// How often this node has ceased to lead.
    ended: u64,
}

pub struct Gate {
    state: Mutex<State>,
    failure: SharedFailure,
}

impl Gate {
    /// Begins with everything up to `start` committed.
    pub fn new(start: Sequence, failure: SharedFailure) -> Arc<Gate> {
        let replica = HeldAnswers::new(Configuration::single(HERE), start);
        Arc::new(Gate { state: Mutex::new(State { replica, rounds: None, deposed: false, ended: 0 }), failure })
    }

    /// Set once the log has failed: nothing more is to be executed.
    #[inline]
    pub fn failure(&self) -> Option<&LogFailed> {
        self.failure.get()
    }

    /// Everything up to `sequence` is about to be handed to the log. Called before that, since the
    /// log may be quick.
    pub fn appended(&self, sequence: Sequence) {
        self.lock().replica.appended(sequence);
    }

    /// A copy that becomes the leader: everything up to `sequence` was committed by others.
    /// `rounds`: of a group that may have other members.
    pub(crate) fn lead(&self, sequence: Sequence, rounds: Option<Rounds>) {
        let mut state = self.lock();
        assert_eq!(state.replica.held(), 0, "all callers were answered when the node stopped leading");
        let replica = HeldAnswers::new(Configuration::single(HERE), sequence);
        *state = State { replica, rounds, deposed: false, ended: state.ended };
    }

    /// The leader becomes a copy: of what is held, and of what comes until it leads again, the
    /// outcome is unknown. Everything up to the returned number is committed, and nothing after
    /// that is known to be.
    pub(crate) fn step_down(&self) -> Sequence {
        let mut state = self.lock();
        state.ended += 1;
        self.depose(&mut state);
        state.replica.commit()
    }

    fn depose(&self, state: &mut State) {
        state.deposed = true;
        state.replica.fail();
        self.release(state);
    }

    /// Nothing is to be executed any more. It may not have heard yet.
    pub(crate) fn is_deposed(&self) -> bool {
        self.lock().deposed
    }

    /// Everything up to there is committed.
    pub fn commit(&self) -> Sequence {
        self.lock().replica.commit()
    }

    /// Of a group with other members: they have answered this round. Called in the order in which
    /// the group has reported it.
    pub fn confirmed(&self, round: u64) {
        let mut state = self.lock();
        state.replica.confirmed(round);
        self.release(&mut state);
    }

    /// Everything that was appended is committed, and every answer has left.
    pub(crate) fn is_at_rest(&self) -> bool {
        let state = self.lock();
        state.replica.held() == 0 && state.replica.is_at_rest()
    }

    /// Keeps `answers` of what has changed nothing until everything appended so far is committed
    /// and, in a cluster, this node is known to have led when they were made; releases what is
    /// already free to go.
    pub fn hold(&self, mailbox: MailboxHandle, answers: AnswerBatch) {
        if planted!(ReadAtOnce) {
            return mailbox.deliver(checked(answers));
        }
        let state = self.lock();
        let held = Held { mailbox, answers: checked(answers), appended: false };
        if state.rounds.is_some() {
            let ended = state.ended;
            return self.hold_for_round(state, ended, held);
        }
        self.keep(state, 0, held);
    }

    /// The same for answers with an entry, which was appended since they were made: its commit
    /// shows that this node led.
    pub fn hold_appended(&self, mailbox: MailboxHandle, answers: AnswerBatch) {
        self.keep(self.lock(), 0, Held { mailbox, answers: checked(answers), appended: true });
    }

    /// Which of this node's times as a leader it is: for [`Gate::hold_of`].
    pub(crate) fn leadership(&self) -> u64 {
        self.lock().ended
    }

    /// Like [`Gate::hold`] for an answer that was made aside, from what the stores showed in that
    /// leadership.
    pub(crate) fn hold_of(&self, leadership: u64, mailbox: MailboxHandle, answers: AnswerBatch) {
        let state = self.lock();
        let held = Held { mailbox, answers: checked(answers), appended: false };
        if state.ended == leadership && state.rounds.is_none() {
            return self.keep(state, 0, held);
        }
        self.hold_for_round(state, leadership, held);
    }

    #[cold]
    fn hold_for_round(&self, state: MutexGuard<'_, State>, leadership: u64, held: Held) {
        let rounds = state.rounds.clone();
        // The source of rounds calls gates.
        drop(state);
        let round = rounds.and_then(|round| round());
        let mut state = self.lock();
        if state.ended != leadership {
            return held.end(&NotCommitted::Deposed);
        }
        let Some(round) = round else {
            // Another may lead, and have acknowledged what this node does not know: even where all
            // is committed that the answers saw, nothing shows that they are fresh.
            self.depose(&mut state);
            return held.end(&self.why_unknown());
        };
        self.keep(state, round, held);
    }

    fn keep(&self, mut state: MutexGuard<'_, State>, round: u64, held: Held) {
        state.replica.hold_behind(round, held);
        self.release(&mut state);
    }

    /// Everything up to `sequence` is committed. Called in order.
    pub(crate) fn committed(&self, sequence: Sequence) {
        let mut state = self.lock();
        state.replica.durable(HERE, sequence);
        self.release(&mut state);
    }

    /// Nothing more will be committed: for good where the log has failed, else until this node
    /// leads again.
    pub(crate) fn given_up(&self, reason: &NotCommitted) {
        if let NotCommitted::Log(failure) = reason {
            self.failure.set(failure.clone());
        }
        let mut state = self.lock();
        state.deposed |= matches!(reason, NotCommitted::Deposed);
        state.replica.fail();
        self.release(&mut state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a panic within the gate ends the process")
    }

    /// Why the outcome of what is held is not known.
    fn why_unknown(&self) -> NotCommitted {
        self.failure().cloned().map_or(NotCommitted::Deposed, NotCommitted::Log)
    }

    /// Sends every answer that is committed to its network thread's mailbox; when nothing more will
    /// be, tells the others that their outcome is unknown.
    fn release(&self, state: &mut State) {
        for (held, outcome) in state.replica.take_released() {
            match outcome {
                Release::Committed => held.mailbox.deliver(held.answers),
                Release::OutcomeUnknown => held.end(&self.why_unknown()),
            }
        }
    }
}

/// Ready to be held.
#[inline]
fn checked(mut answers: AnswerBatch) -> AnswerBatch {
    let end = answers.runs.last().map_or(0, |run| run.end as usize);
    assert_eq!(end, answers.bytes.len(), "every byte of a batch of answers belongs to a connection");
    answers.count();
    answers
}
