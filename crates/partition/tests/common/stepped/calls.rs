//! Calls of a database, and what they are answered.

use super::Database;
use crossbeam_channel::unbounded;
use ferrite_base::{ErrorKind, PartitionId, SqlLimits, UserError};
use ferrite_partition::event::Job;
use ferrite_partition::{Compiled, Event, ProgramCall, Reply, Retry, StoreSet};
use ferrite_plan::{Owners, Program};
use ferrite_value::Value;
use ferrite_wire::parameters::ParameterSet;
use ferrite_wire::{Response, frame};
use std::sync::Arc;

impl Database {
    fn reply(&self) -> Reply {
        let mailbox = self.mailbox();
        Reply { mailbox, connection: 1, handle: 1, sent_micros: 0 }
    }

    fn answer(&mut self) -> (i8, String) {
        loop {
            if let Ok(batch) = self.answers.try_recv()
                && !batch.bytes.is_empty()
            {
                let (_, body) = frame::split(&batch.bytes).expect("a whole frame").expect("one answer");
                let response = Response::parse(body).expect("well-formed");
                return (response.status_code, response.status_text.unwrap_or_default().to_owned());
            }
            assert!(self.step(), "a call is answered");
        }
    }

    /// Runs statements as one transaction, where its keys say; status and text.
    pub fn call(&mut self, text: &str) -> (i8, String) {
        let compiled = self.compiled();
        let statements = ferrite_sql::parse_batch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let program = ferrite_sql::compile_adhoc(&compiled.catalog, &statements, 0)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        self.call_program(Arc::new(program), compiled, 0)
    }

    /// Asks for the statements as one transaction and does not wait; the answer has the handle.
    /// None: they mean nothing in the schema as it is.
    pub fn submit(&mut self, handle: i64, text: &str) -> Option<()> {
        let compiled = self.compiled();
        let statements = ferrite_sql::parse_batch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let program = ferrite_sql::compile_adhoc(&compiled.catalog, &statements, 0).ok()?;
        let reply = Reply { handle, ..self.reply() };
        let refused = reply.clone();
        let retry =
            Box::new(move |_| refused.refuse(&UserError::new(ErrorKind::Unavailable, "40001", "another schema")));
        self.send_program(Arc::new(program), compiled, 0, reply, Some(retry));
        Some(())
    }

    /// The same of a change of the schema.
    pub fn submit_change(&mut self, handle: i64, text: &str) {
        let reply = Reply { handle, ..self.reply() };
        let job = Job::Schema { text: text.to_owned(), limits: SqlLimits::CEILING, time_max: None, reply };
        self.jobs.send(job).expect("it is there");
    }

    /// Answers that have left: handle, status, and the number in the first table.
    pub fn answered(&mut self) -> Vec<(i64, i8, Option<i64>)> {
        let mut all = Vec::new();
        for batch in self.answers.try_iter() {
            let mut rest = &batch.bytes[..];
            while let Some((size, body)) = frame::split(rest).expect("whole frames") {
                let response = Response::parse(body).expect("well-formed");
                all.push((response.handle, response.status_code, response.scalar()));
                rest = &rest[size..];
            }
        }
        all
    }

    /// Calls a procedure whose only parameter is its key.
    pub fn call_procedure(&mut self, name: &str, key: i64) -> (i8, String) {
        let compiled = self.compiled();
        let program = Arc::clone(compiled.program(compiled.find(name).expect("it was made")));
        self.call_program(program, compiled, key)
    }

    fn call_program(&mut self, program: Arc<Program>, compiled: Arc<Compiled>, key: i64) -> (i8, String) {
        let reply = self.reply();
        self.send_program(program, compiled, key, reply, None);
        self.answer()
    }

    fn send_program(
        &self,
        program: Arc<Program>,
        compiled: Arc<Compiled>,
        key: i64,
        reply: Reply,
        retry: Option<Retry>,
    ) {
        let mut parameters = vec![0, 0];
        if !program.parameters.is_empty() {
            parameters.clear();
            (key,).write_set(&mut parameters).expect("a number");
        }
        let owners = program.owners(|_| Ok(Value::Integer(key)), &self.ring).expect("a number routes");
        let (stores, one) = match owners {
            Owners::One(partition) => (StoreSet::All, Some(partition)),
            Owners::Any => (StoreSet::All, Some(PartitionId(0))),
            Owners::Several(list) => (StoreSet::Only(list.into()), None),
            _ => (StoreSet::All, None),
        };
        let call = ProgramCall {
            program,
            compiled,
            parameters,
            reply,
            stores,
            load: false,
            retry,
            recompile: None,
            turn: None,
            time_max: None,
        };
        match one {
            Some(partition) => self.send(partition, Event::Program(Box::new(call))),
            None => self.jobs.send(Job::Calls(vec![call])).expect("it is there"),
        }
    }

    /// A change that another group has made, as it was logged; the number that is answered.
    pub fn follow_schema(&mut self, version: u64, text: &str) -> i64 {
        let job = Job::FollowSchema { version, text: text.to_owned(), reply: self.reply() };
        self.jobs.send(job).expect("it is there");
        loop {
            if let [(_, 1, Some(number))] = self.answered()[..] {
                return number;
            }
            assert!(self.step(), "a call is answered");
        }
    }

    /// The logged text of the change that led to that version.
    pub fn made_change(&mut self, version: u64) -> Option<String> {
        let (to, change) = unbounded();
        self.jobs.send(Job::SchemaChange { version, to }).expect("it is there");
        while self.step() {}
        change.try_recv().expect("it is answered").map(|change| change.text.clone())
    }

    pub fn change_schema(&mut self, text: &str) -> (i8, String) {
        let (limits, reply) = (SqlLimits::CEILING, self.reply());
        let job = Job::Schema { text: text.to_owned(), limits, time_max: None, reply };
        self.jobs.send(job).expect("it is there");
        self.answer()
    }
}
