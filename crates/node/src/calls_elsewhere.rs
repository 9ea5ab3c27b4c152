//! Calls that no client's connection has made, on their way to another node and back: those of
//! compound procedures.
//!
//! The thread that forwards knows a call by the number of its connection and its handle, and a few
//! mailboxes. Such calls have neither connections nor mailboxes of that kind. So each gets a handle
//! of this node, and one mailbox gives the answers to those who wait for them. Promises one answer
//! to each caller, under the handle that it knows.

use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_wire::frame;
use ferrite_wire::invocation::Invocation;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a response frame has its handle: behind its length and a version.
const HANDLE_AT: usize = 5;
const HANDLE_BYTES: usize = 8;

#[derive(Default)]
pub struct CallsElsewhere(Mutex<Passed>);

#[derive(Default)]
struct Passed {
    handles: i64,
    /// By the handles of this node.
    replies: HashMap<i64, Reply>,
}

impl CallsElsewhere {
    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle under which a call goes, and the frame's body with it. `body` has been parsed.
    pub fn begin(&self, body: &[u8], reply: &Reply) -> (i64, Vec<u8>) {
        let mut passed = self.lock();
        passed.handles += 1;
        let handle = passed.handles;
        passed.replies.insert(handle, reply.clone());
        let procedure = Invocation::parse(body).expect("it was parsed before").procedure;
        // It follows the procedure's name, whatever the layout.
        let at = procedure.as_ptr() as usize - body.as_ptr() as usize + procedure.len();
        let mut with_handle = body.to_vec();
        with_handle[at..at + HANDLE_BYTES].copy_from_slice(&handle.to_be_bytes());
        (handle, with_handle)
    }
}

/// Gives a caller an answer that has another handle.
pub fn answer_as(reply: &Reply, frame: &[u8]) {
    let mut own = AnswerBatch::default();
    own.sent_micros = reply.sent_micros;
    own.bytes.extend_from_slice(frame);
    own.bytes[HANDLE_AT..HANDLE_AT + HANDLE_BYTES].copy_from_slice(&reply.handle.to_be_bytes());
    own.finish_answer(reply.connection);
    reply.mailbox.deliver(own);
}

impl Mailbox for CallsElsewhere {
    fn deliver(&self, answers: AnswerBatch) {
        let mut rest = &answers.bytes[..];
        while let Ok(Some((length, _))) = frame::split(rest) {
            let handle = rest[HANDLE_AT..HANDLE_AT + HANDLE_BYTES].try_into().expect("eight bytes");
            let handle = i64::from_be_bytes(handle);
            let reply = self.lock().replies.remove(&handle);
            if let Some(reply) = reply {
                answer_as(&reply, &rest[..length]);
            }
            rest = &rest[length..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_wire::Response;
    use ferrite_wire::response::ResponseWriter;
    use ferrite_wire::{Extensions, RequestWriter};
    use std::sync::Arc;

    #[derive(Default)]
    struct Caller(Mutex<Vec<(u64, i64)>>);

    impl Mailbox for Caller {
        fn deliver(&self, answers: AnswerBatch) {
            let (_, body) = frame::split(&answers.bytes).unwrap().expect("one answer");
            self.0.lock().unwrap().push((answers.runs[0].connection, Response::parse(body).unwrap().handle));
        }
    }

    #[test]
    fn two_calls_of_one_handle_get_each_their_own_answer() {
        let (all, callers) = (CallsElsewhere::default(), [Arc::<Caller>::default(), Arc::<Caller>::default()]);
        let begin = |caller: &Arc<Caller>, extensions: Extensions| {
            let mut request = Vec::new();
            let mut call = RequestWriter::begin_with(&mut request, "P", 9, &extensions);
            call.parameter(&7_i64);
            call.finish().expect("a small call");
            let reply = Reply { mailbox: Arc::<Caller>::clone(caller), connection: 3, handle: 9, sent_micros: 1 };
            let (handle, body) = all.begin(&request[4..], &reply);
            let parsed = Invocation::parse(&body).expect("it reads back");
            assert_eq!((parsed.handle, parsed.procedure, parsed.parameters.count()), (handle, "P", 1));
            assert_eq!(parsed.extensions, extensions);
            handle
        };
        let first = begin(&callers[0], Extensions::default());
        let second = begin(&callers[1], Extensions { batch_timeout_ms: Some(5), ..Extensions::default() });
        let mut answers = AnswerBatch::default();
        for handle in [second, first, 77] {
            ResponseWriter::begin(&mut answers.bytes, handle).finish();
            answers.finish_answer(3);
        }
        all.deliver(answers);
        for caller in callers {
            assert_eq!(*caller.0.lock().unwrap(), [(3, 9)]);
        }
        assert!(all.lock().replies.is_empty());
    }
}
