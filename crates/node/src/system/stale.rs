//! Calls that were compiled with another schema than their group has, while this node uses no
//! other. One of the two catches up within milliseconds, unless it cannot: so these calls are
//! looked up again at intervals, and refused in the end where the group is behind.

use crate::message::{SystemJob, Versions};
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
    /// The last job was one of these: then it is the inbox's turn.
    yields: bool,
}

impl StaleCalls {
    /// Refuses a call of a group that is behind when it has waited for longer than a call of
    /// several groups may.
    pub fn add(&mut self, body: Vec<u8>, reply: Reply, versions: Versions) {
        let waited = SystemClock.wall_micros().saturating_sub(reply.sent_micros);
        if versions.is_group_behind() && reply.sent_micros > 0 && waited > LOT_WAIT.as_micros() as i64 {
            let words = "the group of its partition lacks a schema change that this node has";
            return reply.refuse(&UserError::not_started(words).with_hint("call again"));
        }
        self.waiting.push_back((body, reply));
        self.due.get_or_insert_with(|| Instant::now() + AGAIN);
    }

    /// The thread's next job.
    pub fn next(&mut self, inbox: &Receiver<SystemJob>) -> Result<SystemJob, RecvError> {
        loop {
            if !self.ready.is_empty() {
                if std::mem::replace(&mut self.yields, false)
                    && let Ok(job) = inbox.try_recv()
                {
                    return Ok(job);
                }
                let (body, reply) = self.ready.pop_front().expect("there is one");
                self.yields = true;
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
    use ferrite_base::CatalogVersion;
    use ferrite_partition::{AnswerBatch, Mailbox};
    use std::sync::Arc;

    const BEHIND: Versions = Versions { used: CatalogVersion(7), of_group: CatalogVersion(6) };
    const AHEAD: Versions = Versions { used: CatalogVersion(7), of_group: CatalogVersion(8) };

    struct Answered(Sender<String>);

    impl Mailbox for Answered {
        fn deliver(&self, answers: AnswerBatch) {
            let answer = answers.first().expect("it can be read");
            self.0.send(answer.status_text.unwrap_or_default().to_owned()).expect("it is awaited");
        }
    }

    fn reply(answered: &Sender<String>, sent_micros: i64) -> Reply {
        Reply { mailbox: Arc::new(Answered(answered.clone())), connection: 0, handle: 0, sent_micros }
    }

    /// 0: what was in the inbox.
    fn next(stale: &mut StaleCalls, inbox: &Receiver<SystemJob>) -> u8 {
        match stale.next(inbox).expect("there is more") {
            SystemJob::Stop => 0,
            SystemJob::Call { body, .. } => body[0],
            _ => panic!("nothing else was sent"),
        }
    }

    #[test]
    fn calls_are_looked_up_again_by_turns_with_what_comes() {
        let (answered, answers) = unbounded();
        let (jobs, inbox) = unbounded();
        let mut stale = StaleCalls::default();
        let now = SystemClock.wall_micros();
        (1..=3).for_each(|number| stale.add(vec![number], reply(&answered, now), BEHIND));
        assert_eq!(next(&mut stale, &inbox), 1);
        (0..2).for_each(|_| jobs.send(SystemJob::Stop).expect("there is an inbox"));
        let order: Vec<u8> = (0..4).map(|_| next(&mut stale, &inbox)).collect();
        assert_eq!(order, [0, 2, 0, 3]);
        assert!(answers.is_empty() && stale.due.is_none());
    }

    #[test]
    fn a_call_of_a_group_that_is_behind_is_refused_in_the_end() {
        let (answered, answers) = unbounded();
        let mut stale = StaleCalls::default();
        let long_ago = SystemClock.wall_micros() - LOT_WAIT.as_micros() as i64 - 1;
        // This one has waited for a long schema change.
        stale.add(vec![1], reply(&answered, long_ago), AHEAD);
        assert!(answers.is_empty() && stale.due.is_some());
        stale.add(vec![2], reply(&answered, long_ago), BEHIND);
        let refused = answers.try_recv().expect("it has waited for too long");
        assert!(refused.contains("lacks a schema change"), "{refused}");
        assert_eq!(stale.waiting.len(), 1);
    }
}
