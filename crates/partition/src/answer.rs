//! Answers on their way out: response frames for several connections in one buffer, counted while
//! they wait.

use crate::call_header::CallHeader;
use ferrite_base::{UserError, memory};
use ferrite_wire::{Response, Status, frame, response};
use std::sync::Arc;

/// Answers beyond this leave before the rest of their batch is run: large results do not wait for
/// each other, and where they end fits 32 bits.
pub(crate) const ANSWER_BATCH_BYTES_MAX: usize = 1024 * 1024;

/// While many answers wait, a batch leaves its thread with no more memory than this beyond what its
/// answers take, or twice that: their bytes are what is counted.
const SPARE_BYTES_MAX: usize = 256 * 1024;

/// Whether a batch has more memory than buffers that go round ever need.
#[inline]
fn wastes_always(taken: usize, capacity: usize) -> bool {
    capacity - taken >= 2 * ANSWER_BATCH_BYTES_MAX
}

/// Whether it has more than answers should that wait among many. Otherwise it keeps it: the next
/// batch needs it, and would fault in each page anew.
#[inline]
fn wastes_where_scarce(taken: usize, capacity: usize) -> bool {
    let spare = capacity - taken;
    spare > SPARE_BYTES_MAX && spare > taken
}

/// Consecutive answers of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The network thread's number for the connection.
    pub connection: u64,
    /// Where this run's bytes end in the batch; they begin where the previous run's end.
    pub end: u32,
    pub calls: u32,
}

/// Complete response frames, in the order of their calls, grouped into runs by connection.
#[derive(Default, Debug)]
pub struct AnswerBatch {
    pub bytes: Vec<u8>,
    pub runs: Vec<Run>,
    /// When the calls were handed to the partition, in microseconds since 1970; 0 where it is not
    /// needed.
    pub sent_micros: i64,
    /// The calls that these are the answers of: their buffers go back to be filled again.
    pub spent: Spent,
    /// What the process knows of `bytes`.
    pub(crate) counted: Counted,
}

/// Bytes of answers among those that the process counts, as long as this lives.
#[derive(Default, Debug)]
pub(crate) struct Counted(usize);

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0 > 0 {
            memory::answers_changed(-(self.0 as isize));
        }
    }
}

/// Buffers of a batch of calls, on their way back to the network thread.
#[derive(Default, Debug)]
pub struct Spent {
    pub calls: Vec<CallHeader>,
    pub bytes: Vec<u8>,
}

/// Where answers go: a network thread. Called from partition threads, must not block.
pub trait Mailbox: Send + Sync {
    fn deliver(&self, answers: AnswerBatch);
}

pub type MailboxHandle = Arc<dyn Mailbox>;

impl AnswerBatch {
    /// The first answer. None: there is none, or it cannot be read.
    pub fn first(&self) -> Option<Response<'_>> {
        let (_, body) = frame::split(&self.bytes).ok()??;
        Response::parse(body).ok()
    }

    /// Whether the first answer is one of success.
    pub fn is_success(&self) -> bool {
        self.first().is_some_and(|answer| answer.status_code == Status::Success.code())
    }

    /// Ends the answer that was just appended to `bytes`, extending the last run if it is the same
    /// connection's.
    #[inline]
    pub fn finish_answer(&mut self, connection: u64) {
        let end = self.bytes.len() as u32;
        match self.runs.last_mut() {
            Some(run) if run.connection == connection => {
                run.end = end;
                run.calls += 1;
            }
            _ => self.runs.push(Run { connection, end, calls: 1 }),
        }
    }

    /// From now on until they are dropped these are answers that were made and have not left.
    pub fn count(&mut self) {
        // The buffer of a large answer that was refused or taken back, or what one that doubled has
        // not used. Here, where it was made: freed by another thread it would stay with this one's
        // share of the allocator.
        let taken = self.bytes.len();
        let capacity = self.bytes.capacity();
        if wastes_always(taken, capacity) || (wastes_where_scarce(taken, capacity) && memory::answers_are_many()) {
            self.bytes.shrink_to_fit();
        }
        memory::answers_changed(self.bytes.len() as isize - self.counted.0 as isize);
        self.counted.0 = self.bytes.len();
        memory::answer_built();
    }

    /// Replaces every answer by `error`: clients must not see what they say, because it will not be
    /// durable.
    pub fn replace_all(&mut self, error: &UserError) {
        let old = std::mem::take(&mut self.bytes);
        let mut start = 0;
        let mut position = 0;
        for run in &mut self.runs {
            while position < run.end as usize {
                let length = u32::from_be_bytes(old[start..start + 4].try_into().expect("four bytes")) as usize;
                let handle = i64::from_be_bytes(old[start + 5..start + 13].try_into().expect("eight bytes"));
                response::write_error(&mut self.bytes, handle, error);
                start += 4 + length;
                position = start;
            }
            run.end = self.bytes.len() as u32;
        }
        assert_eq!(start, old.len(), "every answer was replaced");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::ErrorKind;
    use ferrite_wire::response::ResponseWriter;
    use ferrite_wire::{Response, Status, frame};

    /// The answers of a run as handle and status.
    fn answers(mut bytes: &[u8]) -> Vec<(i64, i8)> {
        let mut found = Vec::new();
        while let Some((length, body)) = frame::split(bytes).expect("whole frames") {
            let response = Response::parse(body).expect("well-formed");
            found.push((response.handle, response.status_code));
            bytes = &bytes[length..];
        }
        assert!(bytes.is_empty());
        found
    }

    fn runs(batch: &AnswerBatch) -> Vec<(u64, Vec<(i64, i8)>)> {
        let mut start = 0;
        let mut found = Vec::new();
        for run in &batch.runs {
            let of_run = answers(&batch.bytes[start..run.end as usize]);
            assert_eq!(of_run.len() as u32, run.calls);
            found.push((run.connection, of_run));
            start = run.end as usize;
        }
        assert_eq!(start, batch.bytes.len());
        found
    }

    /// Calls of connections 7, 7, 9, 7, with answers of different lengths.
    fn sample() -> AnswerBatch {
        let mut batch = AnswerBatch::default();
        for (handle, connection) in [(1i64, 7u64), (i64::MIN, 7), (3, 9), (4, 7)] {
            if handle == 3 {
                response::write_error(&mut batch.bytes, handle, &UserError::division_by_zero());
            } else {
                let mut writer = ResponseWriter::begin(&mut batch.bytes, handle);
                (0..handle.clamp(0, 5)).for_each(|value| writer.scalar_table(value));
                writer.finish();
            }
            batch.finish_answer(connection);
        }
        batch
    }

    #[test]
    fn consecutive_answers_of_a_connection_are_one_run() {
        let (done, failed) = (Status::Success.code(), Status::GracefulFailure.code());
        let expected = [(7, vec![(1, done), (i64::MIN, done)]), (9, vec![(3, failed)]), (7, vec![(4, done)])];
        assert_eq!(runs(&sample()), expected);
    }

    /// As one is left when a large answer was refused: a small error in a buffer that had grown.
    #[test]
    fn a_batch_leaves_without_the_room_that_it_does_not_use() {
        let mut batch = sample();
        let answers = runs(&batch);
        batch.bytes.reserve_exact(2 * ANSWER_BATCH_BYTES_MAX);
        batch.count();
        assert!(batch.bytes.capacity() <= batch.bytes.len() + SPARE_BYTES_MAX, "{}", batch.bytes.capacity());
        assert_eq!(runs(&batch), answers);
        // Of the size that goes round it keeps its room, unless answers fill the memory: then only
        // what is well used.
        let (most, half) = (ANSWER_BATCH_BYTES_MAX, ANSWER_BATCH_BYTES_MAX / 2);
        assert!(!wastes_always(0, most) && wastes_always(0, 2 * most));
        assert!(wastes_where_scarce(half - 1, most) && !wastes_where_scarce(half, most));
        assert!(!wastes_where_scarce(0, SPARE_BYTES_MAX) && wastes_where_scarce(0, SPARE_BYTES_MAX + 1));
    }

    #[test]
    fn replaced_answers_keep_their_handles_and_connections() {
        for message in ["", "short", &"a long message ".repeat(100)] {
            let mut batch = sample();
            batch.replace_all(&UserError::new(ErrorKind::OutcomeUnknown, "08007", message.to_owned()));
            let unknown = Status::ResponseUnknown.code();
            let expected =
                [(7, vec![(1, unknown), (i64::MIN, unknown)]), (9, vec![(3, unknown)]), (7, vec![(4, unknown)])];
            assert_eq!(runs(&batch), expected);
        }
        let mut empty = AnswerBatch::default();
        empty.replace_all(&UserError::division_by_zero());
        assert!(empty.bytes.is_empty() && empty.runs.is_empty());
    }
}
