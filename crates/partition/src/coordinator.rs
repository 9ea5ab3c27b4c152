//! Transactions over several partitions, and schema changes: one thread, one at a time.
//!
//! The coordinator borrows the partitions' stores, so that for the length of the transaction it owns all data and nothing
//! else can run: no locks, no deadlock, and any statement sees and changes everything. What was changed becomes one
//! record in the log, all partitions' parts in it, so that a crash keeps all of it or none. The record is handed to the log
//! before the stores go back, hence before any record of a transaction that saw its changes.

use crate::answer::AnswerBatch;
use crate::commit::{Completion, Parties};
use crate::compiled::Compiled;
use crate::event::{Event, ProgramCall, Reply};
use crate::execute::{Executor, Outcome};
use crate::gate::Gate;
use crate::record::{self, Part};
use crate::schema;
use crate::thread::FIRST_EPOCH;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use ferrite_base::{PartitionId, Sequence, UserResult};
use ferrite_io::Clock;
use ferrite_log::Appender;
use ferrite_table::Store;
use ferrite_wire::response;
use std::sync::Arc;
use std::time::Duration;

/// A store on its way between its partition and the coordinator.
pub struct Loan {
    pub partition: PartitionId,
    pub store: Store,
    /// Of the last transaction that changed the store.
    pub sequence: Sequence,
    pub compiled: Arc<Compiled>,
}

pub enum Job {
    Call(Box<ProgramCall>),
    /// DDL statements of one transaction.
    Schema {
        text: String,
        reply: Reply,
    },
    Stop,
}

/// The coordinator's way to one partition.
pub struct Borrower {
    pub inbox: Sender<Event>,
    pub gate: Arc<Gate>,
}

pub struct Coordinator {
    inbox: Receiver<Job>,
    partitions: Vec<Borrower>,
    compiled: Arc<Compiled>,
    /// Told of every new catalog version before anything is routed with it.
    publish: Box<dyn Fn(Arc<Compiled>) + Send>,
    /// Counts this coordinator's transactions; its place in the commit rule.
    ticket: Sequence,
    gate: Arc<Gate>,
    log: Appender<Completion>,
    clock: Arc<dyn Clock>,
    executor: Executor,
}

impl Coordinator {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        inbox: Receiver<Job>,
        partitions: Vec<Borrower>,
        compiled: Arc<Compiled>,
        publish: Box<dyn Fn(Arc<Compiled>) + Send>,
        gate: Arc<Gate>,
        log: Appender<Completion>,
        clock: Arc<dyn Clock>,
        query_time_max: Duration,
    ) -> Coordinator {
        Coordinator {
            inbox,
            partitions,
            compiled,
            publish,
            ticket: Sequence(0),
            gate,
            log,
            clock,
            executor: Executor::new(query_time_max),
        }
    }

    pub fn run(mut self) {
        while let Ok(job) = self.inbox.recv() {
            match job {
                Job::Call(call) => self.run_call(*call),
                Job::Schema { text, reply } => self.run_schema(&text, &reply),
                Job::Stop => break,
            }
        }
    }

    fn run_call(&mut self, mut call: ProgramCall) {
        if !Arc::ptr_eq(&call.compiled, &self.compiled)
            && let Some(retry) = call.retry.take()
        {
            retry(Arc::clone(&self.compiled));
            return;
        }
        if let Some(failure) = self.gate.failure() {
            return call.reply.refuse(&failure.unavailable());
        }
        let mut answers = AnswerBatch::default();
        let now = self.clock.wall_micros();
        let (mut stores, mut places) = self.borrow_all();
        let out = &mut answers.bytes;
        let outcome = self.executor.call_program(&mut stores, &call, now, out);
        self.commit(&mut stores, &mut places, outcome.unwrap_or(Outcome::RolledBack));
        self.give_back(stores, places);
        if let (None, Some(recompile)) = (outcome, call.recompile) {
            return recompile();
        }
        answers.finish_answer(call.reply.connection);
        self.gate.hold(call.reply.mailbox, answers);
    }

    /// Writes the transaction's record, or a barrier where nothing was changed: its answer may tell of others' changes.
    fn commit(&mut self, stores: &mut [Store], places: &mut [Place], outcome: Outcome) {
        self.ticket = Sequence(self.ticket.0 + 1);
        self.gate.appended(self.ticket);
        let mut waiting = vec![(Arc::clone(&self.gate), self.ticket)];
        let mut parts = Vec::new();
        let epoch = FIRST_EPOCH;
        for (store, (partition, sequence, _)) in stores.iter().zip(places.iter_mut()) {
            if !store.redo().is_empty() {
                assert!(outcome == Outcome::Committed, "a transaction that was rolled back leaves no redo");
                *sequence = Sequence(sequence.0 + 1);
                let gate = &self.partitions[partition.index()].gate;
                gate.appended(*sequence);
                waiting.push((Arc::clone(gate), *sequence));
                parts.push(Part { partition: *partition, epoch, sequence: *sequence, changes: store.redo() });
            }
        }
        let mut payload = Vec::new();
        if !parts.is_empty() {
            record::write_multi(&mut payload, self.ticket.0, &parts);
        }
        self.log.append(payload, Completion { parties: Parties::Several(waiting), buffers: None });
        for store in stores {
            store.discard_redo();
            store.commit();
        }
    }

    fn run_schema(&mut self, text: &str, reply: &Reply) {
        if let Some(failure) = self.gate.failure() {
            return reply.refuse(&failure.unavailable());
        }
        let mut answers = AnswerBatch::default();
        match self.change_schema(text) {
            Ok(warnings) => {
                let mut writer = response::ResponseWriter::begin(&mut answers.bytes, reply.handle);
                if !warnings.is_empty() {
                    writer.status_text(&warnings.join("\n"));
                }
                writer.status_table(0);
                writer.finish();
            }
            Err(error) => response::write_error(&mut answers.bytes, reply.handle, &error),
        }
        answers.finish_answer(reply.connection);
        self.gate.hold(Arc::clone(&reply.mailbox), answers);
    }

    /// The new schema is bound and compiled before any store is touched; then the stores follow, then the log, and then the
    /// world. The stores stay here until the change is durable: answers that a partition gives under the new schema wait for the
    /// partition's own records only, and must not tell of a schema that a crash takes back.
    fn change_schema(&mut self, text: &str) -> UserResult<Vec<String>> {
        let planned = schema::plan(&self.compiled.catalog, text)?;
        let compiled = Arc::new(Compiled::new(Arc::clone(&planned.catalog))?);
        let (mut stores, places) = self.borrow_all();
        let applied = schema::apply(&mut stores, &planned);
        if applied.is_ok() {
            self.ticket = Sequence(self.ticket.0 + 1);
            self.gate.appended(self.ticket);
            let mut payload = Vec::new();
            let version = compiled.catalog.version.0;
            record::write_schema(&mut payload, version, self.clock.wall_micros(), text);
            let (tell, told) = bounded(1);
            let parties = Parties::Waiting(Arc::clone(&self.gate), self.ticket, tell);
            self.log.append(payload, Completion { parties, buffers: None });
            told.recv().expect("the log completes every append");
            self.compiled = Arc::clone(&compiled);
            if self.gate.failure().is_none() {
                (self.publish)(compiled);
            }
        }
        self.give_back(stores, places);
        applied.map(|()| planned.warnings)
    }

    /// Waits until every partition has lent its store; in the order of the partitions.
    fn borrow_all(&self) -> (Vec<Store>, Vec<Place>) {
        let (to, loans) = unbounded();
        let mut backs = Vec::with_capacity(self.partitions.len());
        for partition in &self.partitions {
            let (back, returned) = unbounded();
            backs.push(back);
            partition
                .inbox
                .send(Event::Lend { to: to.clone(), back: returned })
                .expect("partitions outlive the coordinator");
        }
        let mut borrowed: Vec<Loan> =
            (0..self.partitions.len()).map(|_| loans.recv().expect("a partition lends its store when asked")).collect();
        borrowed.sort_by_key(|loan| loan.partition);
        borrowed.into_iter().zip(backs).map(|(loan, back)| (loan.store, (loan.partition, loan.sequence, back))).unzip()
    }

    fn give_back(&self, stores: Vec<Store>, places: Vec<Place>) {
        for (store, (partition, sequence, back)) in stores.into_iter().zip(places) {
            let loan = Loan { partition, store, sequence, compiled: Arc::clone(&self.compiled) };
            back.send(loan).unwrap_or_else(|_| panic!("partition {partition} waits for its store"));
        }
    }
}

/// Whose store it is, its last sequence number, and the way back.
type Place = (PartitionId, Sequence, Sender<Loan>);
