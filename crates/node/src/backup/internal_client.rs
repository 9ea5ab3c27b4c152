//! The server as its own client: schema changes, loads and statements from within, which queue up
//! with all others and are answered when they are durable.

use super::answers::outcome;
use super::partition_loads::OF_PARTITION;
use crate::connection::of_compound;
use crate::groups_change::{ChangeQueue, ChangeRequest};
use crate::load::program_call;
use crate::mode::Mode;
use crate::routes::Routes;
use crate::submit::Submit;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_backup::{STAGING, Server, drop_statements, is_staging};
use ferrite_base::{ErrorKind, GroupId, PartitionId, SqlLimits, UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_group::FIRST_GROUP;
use ferrite_io::{Clock, Random, SystemClock, SystemRandom};
use ferrite_partition::coordinator::{BACKUP, Job, TakenSnapshot};
use ferrite_partition::{AnswerBatch, Compiled, Event, Mailbox, Reply};
use ferrite_value::Value;
use ferrite_wire::{RequestWriter, Response, frame};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Loads that are not answered yet, at most.
const LOADS_MAX: usize = 8;
/// How often it is checked whether the answering thread still exists.
const LOOK_AFTER: Duration = Duration::from_millis(200);
/// For how long staging tables are dropped again where a group has no leader.
const DROPS_MAX: Duration = Duration::from_secs(30);
/// Between two of them.
const DROP_AGAIN: Duration = Duration::from_millis(250);

/// What such a client uses of its node.
#[derive(Clone)]
pub struct Handles {
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub routes: Arc<Routes>,
    pub mode: Arc<Mode>,
}

pub struct InternalClient {
    node: Handles,
    /// None: all partitions are in one group, which this node leads.
    groups: Option<OfGroups>,
    answers: Arc<Answers>,
    answered: Receiver<UserResult<()>>,
    /// Loads on their way.
    loads: Cell<usize>,
}

/// The way to several groups, which several nodes lead.
struct OfGroups {
    submit: Arc<Submit>,
    changes: Arc<ChangeQueue>,
    staging: String,
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

impl InternalClient {
    pub fn new(node: Handles) -> InternalClient {
        let (sender, answered) = unbounded();
        InternalClient { node, groups: None, answers: Arc::new(Answers(sender)), answered, loads: Cell::new(0) }
    }

    /// The same where there are several groups, for one restore.
    pub fn of_groups(node: Handles, submit: Arc<Submit>, changes: Arc<ChangeQueue>) -> InternalClient {
        let mut number = [0; 8];
        SystemRandom.fill(&mut number);
        let staging = format!("{STAGING}{:016X}_", u64::from_be_bytes(number));
        InternalClient { groups: Some(OfGroups { submit, changes, staging }), ..InternalClient::new(node) }
    }

    /// A restore's error, with what the restore has left. Only the node that leads the first group
    /// knows: the schema of another one may be an older one.
    pub fn with_leftovers(&self, error: UserError) -> UserError {
        if self.groups.as_ref().is_some_and(|groups| !groups.submit.leads_first(true)) {
            return error;
        }
        let catalog = self.catalog();
        let left: Vec<&str> = catalog.tables.keys().map(String::as_str).filter(|name| is_staging(name)).collect();
        if left.is_empty() {
            return error;
        }
        let words = format!("staging tables are left ({}): the next restore drops them", left.join(", "));
        let detail = error.detail().map_or_else(|| words.clone(), |detail| format!("{detail}; {words}"));
        error.with_detail(detail)
    }

    fn reply(&self) -> Reply {
        let sent_micros = SystemClock.wall_micros();
        let connection = if self.groups.is_some() { of_compound(true) } else { 0 };
        Reply { mailbox: self.answers.clone(), connection, handle: 0, sent_micros }
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

impl InternalClient {
    /// Until they are gone: a group may have lost its leader, and this node may no longer lead the
    /// first one.
    fn drop_in_groups(&self, groups: &OfGroups, prefix: &str) -> UserResult<()> {
        let until = Instant::now() + DROPS_MAX;
        loop {
            let text = drop_statements(&self.catalog(), prefix);
            if text.is_empty() {
                return Ok(());
            }
            let dropped = match groups.submit.leads_first(true) {
                true => self.change_schema(&text),
                false => groups.by_the_leader(&text, &self.reply()).and_then(|()| self.next_answer()),
            };
            match dropped {
                Err(error) if error.kind() != ErrorKind::Parameters && Instant::now() < until => {
                    std::thread::sleep(DROP_AGAIN);
                }
                outcome => return outcome,
            }
        }
    }
}

impl OfGroups {
    /// One answer comes.
    fn change_schema(&self, text: &str, reply: Reply) {
        let compiled = Arc::clone(&self.submit.compiled);
        self.changes.submit(ChangeRequest {
            calls: self.submit.groups_calls.clone(),
            version: Box::new(move || compiled.load().catalog.version),
            text: text.to_owned(),
            limits: SqlLimits::CEILING,
            // A restore takes as long as its rows need.
            time_max: Duration::MAX,
            reply,
        });
    }

    /// The same by whichever node leads the first group, as for a client.
    fn by_the_leader(&self, text: &str, reply: &Reply) -> UserResult<()> {
        let mut bytes = Vec::new();
        let mut call = RequestWriter::begin(&mut bytes, "@AdHoc", 0);
        call.parameter(text);
        call.finish().map_err(|error| UserError::internal(error.to_string()))?;
        self.submit.pass_on(FIRST_GROUP, &bytes[frame::LENGTH_BYTES..], true, reply)
    }

    /// One answer comes, unless this is an error.
    fn load(&self, table: &str, partition: Option<PartitionId>, rows: Vec<u8>, reply: Reply) -> UserResult<()> {
        if let Some(partition) = partition {
            let routes = self.submit.routes.table();
            let group: GroupId = routes.id_of(routes.group_of(partition));
            let parameters = [Value::Integer(partition.0.into()), Value::Text(table), Value::Table(&rows)];
            self.submit.call_leader(OF_PARTITION, group, &parameters, reply.mailbox, reply.sent_micros);
            return Ok(());
        }
        let compiled = self.submit.compiled.load_full();
        let insert = compiled.find(&format!("{table}.insert")).ok_or_else(|| UserError::unknown_table(table))?;
        let changed = reply.clone();
        let again = Box::new(move || changed.refuse(&schema_changed()));
        self.submit.groups_calls.load(compiled.program(insert), &compiled, &rows, None, reply, again);
        Ok(())
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
        if let Some(groups) = &self.groups {
            groups.change_schema(text, self.reply());
            return self.next_answer();
        }
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
        match &self.groups {
            _ if text.is_empty() => Ok(()),
            Some(groups) => self.drop_in_groups(groups, prefix),
            None => self.change_schema(&text),
        }
    }

    fn load(&self, table: &str, partition: Option<PartitionId>, rows: Vec<u8>) -> UserResult<()> {
        while self.loads.get() >= LOADS_MAX {
            self.answer_of_load()?;
        }
        self.node.mode.admit(false, true)?;
        if let Some(groups) = &self.groups {
            groups.load(table, partition, rows, self.reply())?;
            self.loads.set(self.loads.get() + 1);
            return Ok(());
        }
        let compiled = self.node.compiled.load_full();
        let insert = compiled.find(&format!("{table}.insert")).ok_or_else(|| UserError::unknown_table(table))?;
        let answers = Arc::clone(&self.answers);
        let program = Arc::clone(compiled.program(insert));
        let retry = Box::new(move |_| drop(answers.0.send(Err(schema_changed()))));
        let call = program_call(program, compiled, rows, None, self.reply(), retry);
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

    fn staging(&self) -> &str {
        self.groups.as_ref().map_or(STAGING, |groups| &groups.staging)
    }

    fn take_snapshot(&self) -> UserResult<TakenSnapshot> {
        let (to, taken) = unbounded();
        // Not one of the database's own: those have numbers from 1 on.
        self.send(Job::Checkpoint { snapshot: BACKUP, to })?;
        taken.recv().map_err(|_| stopping())
    }
}

#[cold]
fn schema_changed() -> UserError {
    UserError::parameters("the schema was changed meanwhile").with_hint("try again")
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
