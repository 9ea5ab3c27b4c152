//! The server as its own client: schema changes, loads and statements from within, which queue up
//! with all others and are answered when they are durable.

use crate::mode::Mode;
use crate::routes::Routes;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_backup::{Server, drop_statements};
use ferrite_base::{ErrorKind, PartitionId, SqlLimits, UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_io::{Clock, SystemClock};
use ferrite_partition::coordinator::{BACKUP, Job, TakenSnapshot};
use ferrite_partition::{AnswerBatch, Compiled, Event, Mailbox, ProgramCall, Reply, StoreSet};
use ferrite_value::Value;
use ferrite_wire::{Response, Status, frame};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// Loads that are not answered yet, at most.
const LOADS_MAX: usize = 8;
/// How often it is checked whether the answering thread still exists.
const LOOK_AFTER: Duration = Duration::from_millis(200);

/// What such a client uses of its node.
#[derive(Clone)]
pub struct Handles {
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub routes: Arc<Routes>,
    pub mode: Arc<Mode>,
}

pub struct InternalClient {
    node: Handles,
    answers: Arc<Answers>,
    answered: Receiver<UserResult<()>>,
    /// Loads on their way.
    loads: Cell<usize>,
}

/// Takes the answers.
struct Answers(Sender<UserResult<()>>);

impl Mailbox for Answers {
    fn deliver(&self, answers: AnswerBatch) {
        // Answers to one connection may be in one run, one after another.
        let mut rest = &answers.bytes[..];
        while let Ok(Some((size, body))) = frame::split(rest) {
            // It is over only when nothing waits any more.
            let answer = Response::parse(body);
            let malformed = |_| UserError::internal("the server's answer to itself is malformed");
            let _ = self.0.send(answer.map_err(malformed).and_then(|answer| outcome(&answer)));
            rest = &rest[size..];
        }
    }
}

pub fn outcome(response: &Response<'_>) -> UserResult<()> {
    let text = response.status_text.unwrap_or("a step failed without a text").to_owned();
    let coded = |error: UserError| match response.code {
        Some(code) => error.with_code(code.to_owned()),
        None => error,
    };
    match response.status() {
        Some(Status::Success) => Ok(()),
        // The text says what to do.
        Some(Status::ResponseUnknown) => Err(coded(UserError::new(ErrorKind::OutcomeUnknown, "08007", text))),
        Some(Status::ServerUnavailable) => Err(coded(UserError::new(ErrorKind::Unavailable, "58030", text))),
        _ => Err(coded(UserError::parameters(text))),
    }
}

impl InternalClient {
    pub fn new(node: Handles) -> InternalClient {
        let (sender, answered) = unbounded();
        InternalClient { node, answers: Arc::new(Answers(sender)), answered, loads: Cell::new(0) }
    }

    fn reply(&self) -> Reply {
        let sent_micros = SystemClock.wall_micros();
        Reply { mailbox: self.answers.clone(), connection: 0, handle: 0, sent_micros }
    }

    fn answer_of_load(&self) -> UserResult<()> {
        self.loads.set(self.loads.get() - 1);
        self.next_answer()
    }

    fn next_answer(&self) -> UserResult<()> {
        loop {
            match self.answered.recv_timeout(LOOK_AFTER) {
                Ok(answer) => return answer,
                // The thread that was to answer has ended, and has dropped the way back.
                Err(_) if Arc::strong_count(&self.answers) == 1 => {
                    return self.answered.try_recv().unwrap_or_else(|_| Err(stopping()));
                }
                Err(_) => {}
            }
        }
    }

    fn send(&self, job: Job) -> UserResult<()> {
        self.node.routes.to_coordinator(job).map_err(|_| stopping())
    }
}

impl Server for InternalClient {
    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.node.compiled.load().catalog)
    }

    fn partitions(&self) -> usize {
        self.node.routes.partition_count()
    }

    fn partition_of(&self, value: &Value<'_>) -> UserResult<PartitionId> {
        crate::route::partition_of_value(value, &self.node.routes.ring)
    }

    fn change_schema(&self, text: &str) -> UserResult<()> {
        self.node.mode.admit(false, true)?;
        // A restore takes as long as its rows need.
        let limits = SqlLimits::CEILING;
        let time_max = None;
        self.send(Job::Schema { text: text.to_owned(), limits, time_max, reply: self.reply() })?;
        self.next_answer()
    }

    fn drop_tables(&self, prefix: &str) -> UserResult<()> {
        while self.loads.get() > 0 {
            let _ = self.answer_of_load();
        }
        let text = drop_statements(&self.catalog(), prefix);
        if text.is_empty() { Ok(()) } else { self.change_schema(&text) }
    }

    fn load(&self, table: &str, partition: Option<PartitionId>, rows: Vec<u8>) -> UserResult<()> {
        while self.loads.get() >= LOADS_MAX {
            self.answer_of_load()?;
        }
        self.node.mode.admit(false, true)?;
        let compiled = self.node.compiled.load_full();
        let insert = compiled.find(&format!("{table}.insert")).ok_or_else(|| UserError::unknown_table(table))?;
        let answers = Arc::clone(&self.answers);
        let call = ProgramCall {
            turn: None,
            time_max: None,
            program: Arc::clone(compiled.program(insert)),
            compiled,
            parameters: rows,
            stores: StoreSet::All,
            reply: self.reply(),
            retry: Some(Box::new(move |_| {
                let changed = UserError::parameters("the schema was changed meanwhile").with_hint("try again");
                let _ = answers.0.send(Err(changed));
            })),
            load: true,
            recompile: None,
        };
        match partition {
            Some(partition) => {
                let sent = self.node.routes.to_partition(partition, Event::Program(Box::new(call)));
                sent.map_err(|_| stopping())?;
            }
            None => self.send(Job::Calls(vec![call]))?,
        }
        self.loads.set(self.loads.get() + 1);
        Ok(())
    }

    fn wait_for_loads(&self) -> UserResult<()> {
        while self.loads.get() > 0 {
            self.answer_of_load()?;
        }
        Ok(())
    }

    fn take_snapshot(&self) -> UserResult<TakenSnapshot> {
        let (to, taken) = unbounded();
        // Not one of the database's own: those have numbers from 1 on.
        self.send(Job::Checkpoint { snapshot: BACKUP, to })?;
        taken.recv().map_err(|_| stopping())
    }
}

#[cold]
fn stopping() -> UserError {
    UserError::parameters("the server stops")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_wire::response::write_error;

    /// The caller of a restore must hear the difference between "it did not take place" and "it is
    /// not known".
    #[test]
    fn what_an_answer_means_is_kept() {
        let log_failed = |kind| UserError::new(kind, "58030", "the log has failed").with_hint("look");
        for kind in [ErrorKind::OutcomeUnknown, ErrorKind::Unavailable] {
            let mut frame = Vec::new();
            write_error(&mut frame, 0, &log_failed(kind));
            let (_, body) = frame::split(&frame).expect("well-formed").expect("whole");
            let heard = outcome(&Response::parse(body).expect("an answer")).expect_err("an error");
            assert_eq!((heard.kind(), heard.message()), (kind, "the log has failed\nhint: look"));
        }
        let mut frame = Vec::new();
        write_error(&mut frame, 0, &UserError::constraint("23514", "a row"));
        let (_, body) = frame::split(&frame).expect("well-formed").expect("whole");
        let heard = outcome(&Response::parse(body).expect("an answer")).expect_err("an error");
        assert_eq!(heard.kind(), ErrorKind::Parameters);
    }
}
