//! Buffers that have come back with answers, kept so that the next batches need no fresh memory:
//! that would have to be cleared and mapped first, at a price per call that shows.

use crate::batch::Batch;
use ferrite_partition::{AnswerBatch, Spent};

/// Buffers kept for reuse, and the largest that is kept.
const SPARES_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 1024 * 1024;

#[derive(Default)]
pub struct Spares {
    batches: Vec<Batch>,
    answers: Vec<Vec<u8>>,
}

impl Spares {
    #[inline]
    pub fn batch(&mut self) -> Batch {
        self.batches.pop().unwrap_or_default()
    }

    #[inline]
    pub fn answers(&mut self) -> Vec<u8> {
        self.answers.pop().unwrap_or_default()
    }

    /// Keeps the buffers of a batch that is done.
    pub fn keep_batch(&mut self, answers: AnswerBatch) {
        let AnswerBatch { bytes, spent: Spent { mut calls, bytes: mut parameters }, .. } = answers;
        self.keep_answers(bytes);
        if self.batches.len() < SPARES_MAX && (1..=SPARE_BYTES_MAX).contains(&parameters.capacity()) {
            calls.clear();
            parameters.clear();
            self.batches.push(Batch { calls, bytes: parameters, cached: Vec::new() });
        }
    }

    pub fn keep_answers(&mut self, mut bytes: Vec<u8>) {
        if self.answers.len() < SPARES_MAX && (1..=SPARE_BYTES_MAX).contains(&bytes.capacity()) {
            bytes.clear();
            self.answers.push(bytes);
        }
    }
}
