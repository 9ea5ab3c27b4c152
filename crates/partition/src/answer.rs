//! Answers on their way out: response frames for several connections in one buffer.

use ferrite_base::UserError;
use ferrite_wire::response;
use std::sync::Arc;

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
}

/// Where answers go: a network thread. Called from partition threads, must not block.
pub trait Mailbox: Send + Sync {
    fn deliver(&self, answers: AnswerBatch);
}

pub type MailboxHandle = Arc<dyn Mailbox>;

impl AnswerBatch {
    /// Ends the answer that was just appended to `bytes`, extending the last run if it is the same connection's.
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

    /// Replaces every answer by `error`: what they say must not be told, because it will not be durable.
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
    }
}
