//! Answers held back until what they saw is committed.

use std::collections::VecDeque;

use ferrite_base::Sequence;

/// What is known of the transaction when its answer leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// All that the answer saw or did is committed: it may leave as it is.
    Committed,
    /// Executed here, but it is unknown whether it will be there after a restart: the answer must
    /// say that instead.
    OutcomeUnknown,
}

/// First in, first out; sequences never fall from one answer to the next.
#[derive(Debug)]
pub(crate) struct Held<T> {
    answers: VecDeque<Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    sequence: Sequence,
    round: u64,
    answer: T,
}

impl<T> Held<T> {
    pub fn new() -> Self {
        Held { answers: VecDeque::new() }
    }

    pub fn len(&self) -> usize {
        self.answers.len()
    }

    pub fn push(&mut self, sequence: Sequence, round: u64, answer: T) {
        if let Some(Waiting { sequence: last, .. }) = self.answers.back() {
            assert!(*last <= sequence, "answers are held in the order of execution: {sequence} after {last}");
        }
        self.answers.push_back(Waiting { sequence, round, answer });
    }

    /// The first answer, if it waits for nothing beyond `commit` and the round `confirmed`.
    pub fn pop_committed(&mut self, commit: Sequence, confirmed: u64) -> Option<T> {
        match self.answers.front() {
            Some(first) if first.sequence <= commit && first.round <= confirmed => self.pop(),
            _ => None,
        }
    }

    pub fn pop(&mut self) -> Option<T> {
        self.answers.pop_front().map(|waiting| waiting.answer)
    }
}
