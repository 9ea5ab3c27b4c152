//! Calls that were compiled with another schema than their group has. A group that is behind
//! catches up within milliseconds, unless it cannot: so these calls are looked up again at
//! intervals, and refused in the end.

use crate::message::SystemJob;
use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError};
use ferrite_base::UserError;
use ferrite_base::limits::LOT_WAIT;
use ferrite_io::{Clock, SystemClock};
use ferrite_partition::Reply;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(1);

#[derive(Default)]
pub struct StaleCalls {
    waiting: VecDeque<(Vec<u8>, Reply)>,
    /// They are looked up again then.
    due: Option<Instant>,
    /// To be looked up now.
    ready: VecDeque<(Vec<u8>, Reply)>,
}

impl StaleCalls {
    /// Refuses a call that has waited for as long as one of several groups may.
    pub fn add(&mut self, body: Vec<u8>, reply: Reply) {
        let waited = SystemClock.wall_micros().saturating_sub(reply.sent_micros);
        if reply.sent_micros > 0 && waited > LOT_WAIT.as_micros() as i64 {
            let words = "its partition has another version of the schema than this node, as after an accepted loss";
            return reply.refuse(&UserError::not_started(words).with_hint("call again"));
        }
        self.waiting.push_back((body, reply));
        self.due.get_or_insert_with(|| Instant::now() + AGAIN);
    }

    /// The thread's next job.
    pub fn next(&mut self, inbox: &Receiver<SystemJob>) -> Result<SystemJob, RecvError> {
        loop {
            if let Some((body, reply)) = self.ready.pop_front() {
                return Ok(SystemJob::Call { body, reply });
            }
            let Some(due) = self.due else { return inbox.recv() };
            if Instant::now() < due {
                match inbox.recv_deadline(due) {
                    Ok(job) => return Ok(job),
                    Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
            self.due = None;
            std::mem::swap(&mut self.ready, &mut self.waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Sender, unbounded};
    use ferrite_partition::{AnswerBatch, Mailbox};
    use std::sync::Arc;

    struct Answered(Sender<String>);

    impl Mailbox for Answered {
        fn deliver(&self, answers: AnswerBatch) {
            let answer = answers.first().expect("it can be read");
            self.0.send(answer.status_text.unwrap_or_default().to_owned()).expect("it is awaited");
        }
    }

    #[test]
    fn calls_are_looked_up_again_and_refused_in_the_end() {
        let (answered, answers) = unbounded();
        let (jobs, inbox) = unbounded();
        let mut stale = StaleCalls::default();
        let reply = |sent_micros| {
            let mailbox = Arc::new(Answered(answered.clone()));
            Reply { mailbox, connection: 0, handle: 0, sent_micros }
        };
        let now = SystemClock.wall_micros();
        stale.add(vec![1], reply(now));
        stale.add(vec![2], reply(now));
        jobs.send(SystemJob::Stop).expect("there is an inbox");
        let mut order = Vec::new();
        while order.len() < 3 {
            match stale.next(&inbox).expect("there is more") {
                SystemJob::Stop => order.push(0),
                SystemJob::Call { body, .. } => order.push(body[0]),
                _ => panic!("nothing else was sent"),
            }
        }
        order.retain(|number| *number > 0);
        assert_eq!(order, [1, 2]);
        assert!(answers.is_empty());
        stale.add(vec![3], reply(now - LOT_WAIT.as_micros() as i64 - 1));
        let refused = answers.try_recv().expect("it has waited for too long");
        assert!(refused.contains("another version of the schema"), "{refused}");
        assert!(stale.due.is_none(), "it does not wait");
    }
}
