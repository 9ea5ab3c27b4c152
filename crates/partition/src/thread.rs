//! One partition's thread: takes events, runs calls, hands redo to the log, releases answers that
//! are committed.
//!
//! Invariant: an answer is held at the partition's last sequence number at the time it was made,
//! and leaves only when the commit rule says that everything up to there is committed. That covers
//! reads and errors as well as writes.

mod ad_hoc;
mod backoff;
mod copy;
mod lend;
mod rest;
mod seat;

use self::backoff::SeatBackoff;
use crate::answer::{ANSWER_BATCH_BYTES_MAX, AnswerBatch, MailboxHandle, Spent};
use crate::call_header::CallHeader;
use crate::commit::{Completion, Parties};
use crate::compiled::{Compiled, is_same_schema};
use crate::counters::{Counters, ThreadReport};
use crate::event::{CallBatch, Event, Loan};
use crate::execute::{Executor, Request};
use crate::gate::Gate;
use crate::long_read::LongReads;
use crate::predictor::PrefetchPredictor;
use crate::prefetch::{self, Ahead};
use crate::record::BatchWriter;
use crate::role::Role;
use crate::row_counts::RowCounts;
use crate::unlogged::Unlogged;
use crossbeam_channel::{Receiver, Sender, bounded};
use ferrite_base::{CallLimits, Epoch, ErrorKind, PartitionId, Sequence, UserError, limits, planted};
use ferrite_group::{EntryBuffer, GroupAppender};
use ferrite_io::Clock;
use ferrite_plan::Program;
use ferrite_table::Store;
use ferrite_wire::response;
pub use seat::{Ran, Seat};
use std::sync::Arc;
use std::time::Duration;

/// What records have in their field for an epoch. The epochs of a group's leaders are in its
/// entries, which came later.
pub const RECORD_EPOCH: Epoch = Epoch(1);
/// Redo buffers kept for reuse; more are in flight only when the log is far behind.
const BUFFERS_KEPT: usize = 16;
/// A buffer that one large transaction has blown up is not kept.
const BUFFER_BYTES_KEPT: usize = 4 * 1024 * 1024;
/// Batches of calls, lendings and the like between two tellings of how many rows there are.
const EVENTS_PER_COUNT: u32 = 64;
/// Rows that move between two looks for events, when rows move to make a table smaller: a tenth of
/// a millisecond or so.
const COMPACTION_STEP: usize = 256;
/// A usual answer: the frame of a procedure that returns a number.
const ANSWER_BYTES_GUESS: usize = 72;

pub struct Partition {
    id: PartitionId,
    role: Role,
    /// It leads a group that may have other members: undo is kept until it is committed.
    steps_back: bool,
    inbox: Receiver<Event>,
    /// None only while it is lent to the coordinator.
    store: Option<Store>,
    compiled: Arc<Compiled>,
    predictor: PrefetchPredictor,
    ahead: Ahead,
    /// Of the last transaction that changed something here.
    sequence: Sequence,
    gate: Arc<Gate>,
    log: GroupAppender<Completion>,
    /// With durability memory: the log gets nothing, and what changes is noted here.
    unlogged: Option<Arc<Unlogged>>,
    /// Redo buffers that come back from the log.
    buffers: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
    clock: Arc<dyn Clock>,
    executor: Executor,
    counters: Counters,
    counts: Arc<RowCounts>,
    long_reads: LongReads,
    /// Where the store comes back, between two steps of a partition that has lent it.
    lent_until: Option<Receiver<Loan>>,
    /// Since counts were published.
    events: u32,
    /// It rests until an event comes, however long that takes.
    sleeps: bool,
    /// By other threads while it rested, not yet taken from its idle time.
    worked_at_rest: Duration,
    /// Which batches are declined although it rests.
    seat_backoff: SeatBackoff,
}

/// What comes after an event.
enum Handled {
    Done,
    /// The store is away until it comes back here.
    Lent(Receiver<Loan>),
    Stop,
}

/// What a partition starts with, from recovery.
pub struct Start {
    pub id: PartitionId,
    pub store: Store,
    pub compiled: Arc<Compiled>,
    pub sequence: Sequence,
    /// What one call may take.
    pub limits: CallLimits,
    /// Where the partition says how many rows it has.
    pub counts: Arc<RowCounts>,
    pub long_reads: LongReads,
}

impl Partition {
    pub fn new(
        start: Start,
        inbox: Receiver<Event>,
        gate: Arc<Gate>,
        log: GroupAppender<Completion>,
        clock: Arc<dyn Clock>,
    ) -> Partition {
        assert_eq!(start.store.partition(), start.id, "a partition starts with its own store");
        assert!(start.store.is_committed(), "recovery leaves nothing open");
        let mut executor = start.long_reads.executor(start.limits).of_partition(start.id);
        executor.unique_ids_above(log.place().time);
        clock.wall_was(log.place().time);
        Partition {
            id: start.id,
            role: Role::Leader,
            steps_back: false,
            inbox,
            store: Some(start.store),
            predictor: PrefetchPredictor::new(&start.compiled),
            ahead: Ahead::default(),
            compiled: start.compiled,
            sequence: start.sequence,
            gate,
            log,
            unlogged: None,
            buffers: bounded(BUFFERS_KEPT),
            clock,
            executor,
            counts: start.counts,
            counters: Counters::default(),
            long_reads: start.long_reads,
            lent_until: None,
            events: 0,
            sleeps: false,
            worked_at_rest: Duration::ZERO,
            seat_backoff: SeatBackoff::default(),
        }
    }

    /// Durability memory: the log gets nothing.
    pub fn without_log(self, unlogged: Arc<Unlogged>) -> Partition {
        Partition { unlogged: Some(unlogged), ..self }
    }

    /// Runs until told to stop or until every sender is gone. Rests in `seat` while there is
    /// nothing to do.
    pub fn run(self, seat: &Seat) {
        let inbox = self.inbox.clone();
        let mut partition = Box::new(self);
        partition.publish_counts();
        loop {
            let event = match inbox.try_recv() {
                Ok(event) => event,
                Err(_) => match rest::idle(partition, seat, &inbox) {
                    Some((awake, event)) => {
                        partition = awake;
                        event
                    }
                    None => return,
                },
            };
            partition.begin_event();
            match partition.handle(event) {
                Handled::Done => {}
                // Stops while the coordinator works on the store.
                Handled::Lent(back) => match back.recv() {
                    Ok(loan) => partition.take_back(loan),
                    // The coordinator has ended with a part of a lot in doubt: nothing may run.
                    Err(_) => return,
                },
                Handled::Stop => return,
            }
            partition.end_event();
            if partition.is_due() {
                partition.events = 0;
                partition.publish_counts();
                // For a partition that is never idle.
                partition.compact(true);
            }
        }
    }

    fn begin_event(&mut self) {
        self.counters.queue.polls += 1;
        if self.steps_back {
            self.settle();
        }
    }

    fn end_event(&mut self) {
        self.executor.trim();
        self.events += 1;
    }

    /// Counts are to be published, which only its own thread takes time for.
    fn is_due(&self) -> bool {
        self.events >= EVENTS_PER_COUNT
    }

    /// `run` for a caller with many parties on one thread: does what is next, if it can be done
    /// now; whether it did anything.
    pub fn step(&mut self) -> bool {
        if let Some(back) = &self.lent_until {
            let Ok(loan) = back.try_recv() else { return false };
            self.lent_until = None;
            self.take_back(loan);
            return true;
        }
        if self.steps_back && self.can_settle() {
            self.settle();
            return true;
        }
        let Ok(event) = self.inbox.try_recv() else {
            let works = self.can_compact(false);
            self.compact(false);
            return works;
        };
        if let Handled::Lent(back) = self.handle(event) {
            self.lent_until = Some(back);
        }
        true
    }

    /// Whether [`Partition::step`] would do anything.
    pub fn can_step(&self) -> bool {
        match &self.lent_until {
            Some(back) => !back.is_empty(),
            None => !self.inbox.is_empty() || self.can_compact(false) || self.steps_back && self.can_settle(),
        }
    }

    fn can_compact(&self, places: bool) -> bool {
        self.store.as_ref().is_some_and(|store| store.has_compaction_work(places)) && self.gate.failure().is_none()
    }

    /// A little of the work that gives memory back after deletions, as a transaction of its own;
    /// whether there is more. `places` as with [`Store::compact`].
    fn compact(&mut self, places: bool) -> bool {
        if !self.can_compact(places) {
            return false;
        }
        let mut redo = self.buffer();
        let mut writer = BatchWriter::begin(redo.records(), self.id, RECORD_EPOCH, Sequence(self.sequence.0 + 1));
        let store = self.store.as_mut().expect("seen just now");
        let more = store.compact(COMPACTION_STEP, places);
        let sees_change = !store.redo().is_empty();
        assert!(!sees_change || self.role == Role::Leader, "a copy changes nothing that others see");
        self.end_transaction(&mut redo, &mut writer);
        self.append(redo, writer);
        more
    }

    /// The rows and indexes, while they are here.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// One event, to its end. The main path's are the batches of calls that network threads send.
    fn handle(&mut self, event: Event) -> Handled {
        match event {
            Event::Calls(batch) => self.run_calls(batch),
            Event::Program(call) => self.run_program(*call),
            Event::Lend { to, back } => {
                self.lend(&to);
                return Handled::Lent(back);
            }
            Event::Apply(parcel) => self.apply(parcel),
            Event::Replace(loan) => self.replace(*loan),
            Event::Lead { log, time } => self.lead(log, time),
            Event::Follow(to) => self.follow(&to),
            Event::Report(to) => {
                // The caller may have given up waiting.
                let _ = to.send(self.report());
            }
            // It is awake now, and looks for work when it is idle again.
            Event::Wake => {}
            Event::Stop => return Handled::Stop,
        }
        Handled::Done
    }

    fn publish_counts(&self) {
        if let Some(store) = &self.store {
            self.counts.publish(store);
        }
    }

    fn report(&self) -> ThreadReport {
        ThreadReport {
            partition: Some(self.id),
            procedures: self.counters.procedures(&self.compiled),
            idle: self.counters.idle,
            queue: self.counters.queue,
            queue_depth: self.inbox.len(),
            tables: self.store.as_ref().map(Store::memory).unwrap_or_default(),
            snapshots: self.store.as_ref().map_or(0, Store::snapshots),
            snapshot_bytes: self.store.as_ref().map_or(0, Store::snapshot_bytes),
        }
    }

    /// The main path: every call of the batch in turn, then one hand-over to the log for all of
    /// them. Their answers wait in the gate until the log has what they could have seen.
    fn run_calls(&mut self, mut batch: CallBatch) {
        let sent_micros = batch.sent_micros;
        let mut answers =
            AnswerBatch { bytes: std::mem::take(&mut batch.answers), sent_micros, ..AnswerBatch::default() };
        if let Some(error) = self.refusal() {
            for call in &batch.calls {
                response::write_error(&mut answers.bytes, call.handle, &error);
                answers.finish_answer(call.connection);
            }
            batch.mailbox.deliver(answers);
            return;
        }
        let same_schema = is_same_schema(&batch.compiled, &self.compiled);
        let now = self.clock.wall_micros();
        self.counters.queue.waited(now.saturating_sub(sent_micros).max(0) as u64);
        let now = self.log.transaction_time(now);
        let now = now - if planted!(TimeTooEarly) { 500_000 } else { 0 };
        let mut redo = self.buffer();
        let mut writer = BatchWriter::begin(redo.records(), self.id, RECORD_EPOCH, Sequence(self.sequence.0 + 1));
        answers.bytes.reserve(batch.calls.len() * ANSWER_BYTES_GUESS);
        for (number, call) in batch.calls.iter().enumerate() {
            if same_schema {
                self.prefetch_ahead(&batch, number);
            }
            match call.cached() {
                None => self.run_call(&batch, call, same_schema, now, &mut answers),
                Some(position) => self.run_cached(&batch, call, position, same_schema, now, &mut answers),
            }
            self.end_transaction(&mut redo, &mut writer);
            if answers.bytes.len() > ANSWER_BATCH_BYTES_MAX || redo.len() > limits::BATCH_CHANGES_BYTES_MAX {
                let appended = self.append(redo, writer);
                self.hold(Arc::clone(&batch.mailbox), std::mem::take(&mut answers), appended);
                answers.sent_micros = sent_micros;
                redo = self.buffer();
                writer = BatchWriter::begin(redo.records(), self.id, RECORD_EPOCH, Sequence(self.sequence.0 + 1));
            }
        }
        let appended = self.append(redo, writer);
        answers.spent = Spent { calls: batch.calls, bytes: batch.bytes };
        self.hold(batch.mailbox, answers, appended);
    }

    /// `appended`: after what the answers saw, by this node as the leader.
    #[inline]
    fn hold(&self, mailbox: MailboxHandle, answers: AnswerBatch, appended: bool) {
        match appended {
            true => self.gate.hold_appended(mailbox, answers),
            false => self.gate.hold(mailbox, answers),
        }
    }

    /// A call of a procedure: finds its program and counts it. [`Executor::call`] runs it and
    /// writes the answer.
    #[inline(always)]
    fn run_call(
        &mut self,
        batch: &CallBatch,
        call: &CallHeader,
        same_schema: bool,
        now: i64,
        answers: &mut AnswerBatch,
    ) {
        let program = if same_schema {
            Ok(self.compiled.program(call.procedure))
        } else {
            after_schema_change(&self.compiled, &batch.compiled, call)
        };
        match program {
            Ok(program) => {
                if let Err(error) = self.executor.begin(call.id(batch.sent_micros)) {
                    response::write_error(&mut answers.bytes, call.handle, &error);
                    return answers.finish_answer(call.connection);
                }
                let store = self.store.as_mut().expect("the store is here while the partition runs");
                let counted = if same_schema {
                    self.counters.begin(call.procedure)
                } else {
                    self.counters.begin_program(program, &self.compiled)
                };
                let watched = program.external.is_some() && same_schema;
                if watched {
                    self.executor.profile_external(self.predictor.lend(call.procedure));
                }
                let answer_start = answers.bytes.len();
                let request = Request {
                    program,
                    parameters: batch.parameters(call),
                    drop_first_parameter: call.drop_first_parameter,
                    handle: call.handle,
                    transaction_time: now,
                };
                let outcome = self.executor.call(std::slice::from_mut(store), &request, &mut answers.bytes);
                let answer_bytes = answers.bytes.len() - answer_start;
                self.counters.end(counted, Some(outcome), batch.parameters(call).len(), answer_bytes);
                if watched && let Some(profile) = self.executor.profile_external(None) {
                    self.predictor.take_back(call.procedure, profile);
                }
            }
            Err(error) => response::write_error(&mut answers.bytes, call.handle, &error),
        }
        answers.finish_answer(call.connection);
    }

    /// Asks for memory that calls after `number`, the next to run, will need. The first of a long
    /// batch come late: their own group asks for them.
    #[inline]
    fn prefetch_ahead(&mut self, batch: &CallBatch, number: usize) {
        let Some(store) = &self.store else { return };
        if batch.calls.len() <= prefetch::GROUP {
            return;
        }
        if number == 0 {
            self.ahead.begin();
        }
        match number % prefetch::GROUP {
            0 => {
                let first = if number == 0 { 0 } else { number + prefetch::GROUP };
                let calls = batch.calls[..batch.calls.len().min(number + 2 * prefetch::GROUP)].iter().skip(first);
                let plain = calls.zip(first..).filter(|(call, _)| !call.drop_first_parameter);
                if let Some(cached) = &batch.cached {
                    for position in plain.clone().filter_map(|(call, _)| call.cached()) {
                        self.predictor.read(&cached.calls[position].program, &self.compiled.catalog);
                    }
                }
                let look_ups = plain.flat_map(|(call, number)| {
                    let parameters = batch.parameters(call);
                    let asks = match (call.cached(), &batch.cached) {
                        (Some(position), Some(cached)) => self.predictor.asks_of(&cached.calls[position].program),
                        _ => self.predictor.asks(call.procedure),
                    };
                    asks.iter().map(move |prefetch| (prefetch, parameters, number))
                });
                self.ahead.prefetch_buckets(store, look_ups);
            }
            prefetch::ROWS_AFTER => self.ahead.prefetch_rows(store),
            prefetch::VALUES_AFTER => self.ahead.prefetch_values(store),
            prefetch::TURN_AFTER => self.ahead.turn(),
            _ => {}
        }
        self.ahead.prefetch_values_up_to(store, number + 1);
    }

    fn buffer(&self) -> EntryBuffer {
        EntryBuffer::new(self.buffers.1.try_recv().unwrap_or_default())
    }

    /// What a transaction has changed is final here, and goes into the batch's record. Without a
    /// log it goes nowhere: nothing is numbered, and answers wait for nothing.
    #[inline]
    fn end_transaction(&mut self, redo: &mut EntryBuffer, writer: &mut BatchWriter) {
        let store = self.store.as_mut().expect("the store is here while the partition runs");
        if !store.redo().is_empty() {
            match &self.unlogged {
                None => writer.transaction(redo.records(), |out| store.take_redo_into(out)),
                Some(unlogged) => {
                    store.discard_redo();
                    unlogged.note();
                }
            }
        }
        store.commit_at(writer.last());
    }

    /// Hands the batch's redo to the log; whether there is any. When it is committed the completion
    /// is called (`commit.rs`), and that calls the gate, which lets the answers go.
    fn append(&mut self, mut redo: EntryBuffer, writer: BatchWriter) -> bool {
        let first = writer.first();
        let count = writer.count();
        assert!(self.store.as_ref().is_some_and(Store::is_committed), "what the log is handed is committed here");
        assert_eq!(first.0, self.sequence.0 + 1, "a record goes on where the history ends");
        writer.finish(redo.records());
        // Of transactions that changed nothing, too: other members hear of it.
        if let Some(time) = self.executor.take_unique_ids_ahead() {
            self.log.raise_time(time);
        }
        if count == 0 {
            let _ = self.buffers.0.try_send(redo.into_bytes());
            return false;
        }
        self.sequence = Sequence(self.sequence.0 + u64::from(count));
        self.gate.appended(self.sequence);
        let keep = redo.capacity() <= BUFFER_BYTES_KEPT;
        let completion = Completion {
            parties: Parties::One(Arc::clone(&self.gate), self.sequence),
            buffers: keep.then(|| self.buffers.0.clone()),
        };
        self.log.append(redo, completion);
        true
    }
}

/// A call routed with an older catalog: it may run if the name still means a procedure that is
/// routed the same way.
#[cold]
fn after_schema_change<'c>(
    compiled: &'c Compiled,
    routed_with: &Compiled,
    call: &CallHeader,
) -> Result<&'c Arc<Program>, UserError> {
    let old: &Program = routed_with.program(call.procedure);
    let program = compiled.program(compiled.require(&old.name)?);
    // A program for all partitions is here because there is only one.
    if program.routing == old.routing {
        return Ok(program);
    }
    Err(UserError::new(
        ErrorKind::Unavailable,
        "40001",
        format!("procedure {} was changed while the call was on its way", old.name),
    )
    .with_hint("send the call again; it was not executed"))
}
