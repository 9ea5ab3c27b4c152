//! Transactions over several partitions, and schema changes: one thread, one at a time.
//!
//! The coordinator borrows the partitions' stores, so that for the length of the transaction it
//! owns all data and nothing else can run: no locks, no deadlock, and any statement sees and
//! changes everything. What was changed becomes one record in the log, all partitions' parts in it,
//! so that a crash keeps all of it or none. The record is handed to the log before the stores go
//! back, hence before any record of a transaction that saw its changes.

mod checkpoint;
mod copy;
mod lending;
mod lot_change;
mod lot_cut;
mod lot_equalize;
mod lot_hold;
mod lot_work;
mod lots;
mod schema_change;

use crate::answer::AnswerBatch;
use crate::commit::Completion;
use crate::compiled::{Compiled, is_same_schema};
use crate::counters::{CallOutcome, Counters, ThreadReport};
pub use crate::event::{BACKUP, GroupCut, Job, TakenSnapshot, wait_until_committed};
use crate::event::{Event, Loan, ProgramCall, Reply, StoreSet};
use crate::execute::Executor;
use crate::gate::Gate;
use crate::long_read::{self, LongRead, LongReads};
use crate::lots::LotLinks;
use crate::record::{self, Part};
use crate::role::Role;
use crate::schema::SchemaHistory;
use crate::thread::RECORD_EPOCH;
use crate::unlogged::Unlogged;
use crossbeam_channel::{Receiver, RecvError, Sender, TryRecvError, unbounded};
use ferrite_base::{CallLimits, GroupPartitions, PartitionId, Sequence, limits, planted};
use ferrite_group::{EntryBuffer, GroupAppender};
use ferrite_io::Clock;
use ferrite_table::Store;
use ferrite_wire::response;
use lending::{Borrowed, Lending, Outlet, StorePosition};
use lot_work::LotTexts;
use lots::LotSide;
pub use schema_change::followed;
use schema_change::{Changing, Checked};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The coordinator's way to one partition.
pub struct Borrower {
    pub inbox: Sender<Event>,
    pub gate: Arc<Gate>,
    /// The way back for its store.
    back: (Sender<Loan>, Receiver<Loan>),
}

impl Borrower {
    pub fn new(inbox: Sender<Event>, gate: Arc<Gate>) -> Borrower {
        Borrower { inbox, gate, back: unbounded() }
    }
}

pub struct Coordinator {
    inbox: Receiver<Job>,
    role: Role,
    /// It leads a group that may have other members.
    steps_back: bool,
    /// Of its group.
    of: GroupPartitions,
    /// By their places in it.
    partitions: Vec<Borrower>,
    compiled: Arc<Compiled>,
    /// Receives every new catalog version before anything is routed with it.
    publish: Box<dyn Fn(Arc<Compiled>) + Send>,
    /// Counts this coordinator's transactions; its place in the commit rule.
    ticket: Sequence,
    gate: Arc<Gate>,
    log: GroupAppender<Completion>,
    clock: Arc<dyn Clock>,
    executor: Executor,
    /// Calls whose turn has not come.
    waiting: VecDeque<ProgramCall>,
    /// What came after them.
    next_job: Option<Job>,
    /// Where stores arrive.
    loans: (Sender<Loan>, Receiver<Loan>),
    /// What a running transaction has; empty between transactions.
    stores: Vec<Store>,
    positions: Vec<StorePosition>,
    counters: Counters,
    long_reads: LongReads,
    others: Option<Others>,
    history: SchemaHistory,
    /// With durability memory.
    unlogged: Option<WithoutLog>,
    /// A schema change that waits for a commit. Nothing else runs meanwhile.
    changing: Option<Changing>,
    /// Where an answer is written; empty between transactions.
    answer: Vec<u8>,
    /// Of a group that may take part in transactions over groups.
    lots: Option<LotSide>,
    lot_texts: LotTexts,
    /// A schema change that a lot may ask for next, and the name of its text.
    checked: Option<Box<(String, Checked)>>,
}

/// What takes the log's place with durability memory: where changes are noted, and how snapshots
/// are written.
pub struct WithoutLog {
    pub unlogged: Arc<Unlogged>,
    pub save: Save,
}

/// Has a snapshot written of all that was changed so far; tells when it is complete, or why there
/// is none.
pub type Save = Box<dyn Fn(SaveTold) + Send>;
pub type SaveTold = Box<dyn FnOnce(Result<(), &str>) + Send>;

/// Moves another party on.
type Others = Box<dyn FnMut() + Send>;

/// Waits for what another party sends.
fn receive<T>(others: &mut Option<Others>, from: &Receiver<T>) -> Result<T, RecvError> {
    let Some(others) = others else { return from.recv() };
    loop {
        match from.try_recv() {
            Ok(sent) => return Ok(sent),
            Err(TryRecvError::Empty) => others(),
            Err(TryRecvError::Disconnected) => return Err(RecvError),
        }
    }
}

impl Coordinator {
    #[allow(clippy::too_many_arguments, reason = "called once, when the node starts")]
    pub fn new(
        inbox: Receiver<Job>,
        of: GroupPartitions,
        partitions: Vec<Borrower>,
        compiled: Arc<Compiled>,
        publish: Box<dyn Fn(Arc<Compiled>) + Send>,
        gate: Arc<Gate>,
        log: GroupAppender<Completion>,
        clock: Arc<dyn Clock>,
        limits: CallLimits,
        long_reads: LongReads,
    ) -> Coordinator {
        let mut executor = long_reads.executor(limits);
        executor.unique_ids_above(log.place().time);
        clock.wall_was(log.place().time);
        Coordinator {
            inbox,
            role: Role::Leader,
            steps_back: false,
            of,
            partitions,
            compiled,
            publish,
            ticket: Sequence(0),
            gate,
            log,
            clock,
            executor,
            waiting: VecDeque::new(),
            next_job: None,
            loans: unbounded(),
            stores: Vec::new(),
            positions: Vec::new(),
            counters: Counters::default(),
            long_reads,
            others: None,
            history: SchemaHistory::default(),
            unlogged: None,
            changing: None,
            answer: Vec::new(),
            lots: None,
            lot_texts: LotTexts::default(),
            checked: None,
        }
    }

    /// Takes part in transactions over groups, over these links.
    pub fn with_lots(self, links: Arc<dyn LotLinks>) -> Coordinator {
        Coordinator { lots: Some(LotSide::new(links)), ..self }
    }

    /// The schema changes that led to the catalog it was made with.
    pub fn with_history(self, history: SchemaHistory) -> Coordinator {
        Coordinator { history, ..self }
    }

    /// Durability memory: the log gets no changes; `save` has snapshots written.
    pub fn without_log(self, without: WithoutLog) -> Coordinator {
        Coordinator { unlogged: Some(without), ..self }
    }

    pub fn run(mut self) {
        while let Some(job) = self.next() {
            let goes_on = self.handle(job);
            while let Some(changing) = self.changing.take() {
                self.go_on_changing(changing);
            }
            if !goes_on {
                break;
            }
            self.executor.trim();
        }
    }

    /// Says what moves another party on, for a caller with many parties on one thread: instead of
    /// sleeping, this one calls it whenever it waits for one of them.
    pub fn on_one_thread(&mut self, others: impl FnMut() + Send + 'static) {
        self.others = Some(Box::new(others));
    }

    /// `run` for such a caller: does what is next, if there is anything; whether there was.
    pub fn step(&mut self) -> bool {
        if let Some(changing) = self.changing.take() {
            if !changing.is_known() {
                self.changing = Some(changing);
                return false;
            }
            self.go_on_changing(changing);
            return true;
        }
        if self.lots.is_some() && self.step_lots() {
            return true;
        }
        let Some(job) = self.at_hand() else { return false };
        self.handle(job);
        true
    }

    /// Whether [`Coordinator::step`] would do anything.
    pub fn can_step(&self) -> bool {
        match &self.changing {
            Some(changing) => changing.is_known(),
            None => self.next_job.is_some() || !self.inbox.is_empty() || self.can_step_lots(),
        }
    }

    /// What has come and may be done now.
    fn at_hand(&mut self) -> Option<Job> {
        if let Some(side) = &mut self.lots
            && !side.is_busy()
            && self.next_job.is_none()
            && let Some(job) = side.deferred.pop_front()
        {
            return Some(job);
        }
        self.next_job.take().or_else(|| self.inbox.try_recv().ok())
    }

    /// False when this was the last.
    fn handle(&mut self, job: Job) -> bool {
        assert!(self.changing.is_none(), "nothing runs before a schema change is committed");
        self.counters.queue.polls += 1;
        if let Some(side) = &mut self.lots
            && side.is_busy()
            && !lots::concerns_lots(&job)
        {
            side.deferred.push_back(job);
            return true;
        }
        match job {
            Job::Calls(calls) => {
                self.waiting.extend(calls);
                while !self.waiting.is_empty() {
                    self.run_lending();
                }
            }
            Job::Schema { text, limits, time_max, reply } => self.run_schema(&text, &limits, time_max, reply),
            Job::SchemaChange { version, to } => {
                // The caller may have given up waiting.
                let _ = to.send(self.history.change(version));
            }
            Job::TellChange { version, reply } => self.tell_change(version, &reply),
            Job::FollowSchema { version, text, reply } => self.follow_schema(version, &text, reply),
            Job::Quiesce(reply) => self.quiesce(reply),
            Job::Report(to) => {
                // The caller may have given up waiting.
                let _ = to.send(self.report());
            }
            Job::Lead { log, time, compiled, history, lots, unsettled } => {
                let opened = log.opened();
                self.lead(log, time, compiled, history);
                self.lead_lots(opened, lots, unsettled);
            }
            Job::Follow { to, partitions } => self.follow(&to, &partitions),
            // A copy's stores and its log are at different places: its applier takes snapshots. The
            // caller hears that there is none.
            Job::Checkpoint { .. } if self.role == Role::Copy => {}
            Job::Checkpoint { snapshot, to } => {
                let taken = self.checkpoint(snapshot);
                // The caller may have given up waiting.
                let _ = to.send(taken);
            }
            Job::GiveCut { name, to } => self.give_cut(&name, &to),
            Job::Lot(message) => self.lot_message(message),
            Job::SequencerLost(epoch) => self.sequencer_lost(epoch),
            Job::Stop => return false,
        }
        true
    }

    /// What is next to do; when there is nothing yet, the time until there is counts as idle.
    fn next(&mut self) -> Option<Job> {
        if self.lots.is_some() {
            self.go_on_with_lots();
        }
        if let Some(job) = self.at_hand() {
            return Some(job);
        }
        let began = Instant::now();
        let job = if self.lots.is_some() { self.next_with_lots() } else { self.inbox.recv().ok() };
        self.counters.idle.add(began.elapsed());
        job
    }

    fn report(&self) -> ThreadReport {
        ThreadReport {
            partition: None,
            procedures: self.counters.procedures(&self.compiled),
            idle: self.counters.idle,
            queue: self.counters.queue,
            queue_depth: self.inbox.len(),
            tables: Vec::new(),
            snapshots: 0,
            snapshot_bytes: 0,
        }
    }

    /// A transaction that does nothing, on all partitions: it comes after all that was sent before,
    /// and its answer waits for the log.
    fn quiesce(&mut self, reply: Reply) {
        if let Some(error) = self.refusal() {
            return reply.refuse(&error);
        }
        let borrowed = self.borrow(&vec![true; self.partitions.len()]);
        let mut lending = self.lending(borrowed);
        self.ticket = Sequence(self.ticket.0 + 1);
        self.outlet().append(self.ticket, &mut lending, &mut []);
        self.give_back(lending.borrowed);
        let mut answers = AnswerBatch::default();
        let mut writer = response::ResponseWriter::begin(&mut answers.bytes, reply.handle);
        writer.status_table(0);
        writer.finish();
        answers.finish_answer(reply.connection);
        self.gate.hold(reply.mailbox, answers);
    }

    /// Takes calls that have come meanwhile, up to the first job of another kind.
    fn gather(&mut self) {
        while self.next_job.is_none() && self.waiting.len() < limits::LENDING_CALLS_MAX {
            match self.at_hand() {
                Some(Job::Calls(calls)) => self.waiting.extend(calls),
                Some(job) => self.next_job = Some(job),
                None => break,
            }
        }
    }

    /// Whether the call may run; else it is answered or sent away.
    fn admit(&self, call: &mut ProgramCall) -> bool {
        if !is_same_schema(&call.compiled, &self.compiled)
            && let Some(retry) = call.retry.take()
        {
            retry(Arc::clone(&self.compiled));
            return false;
        }
        if let Some(error) = self.refusal() {
            call.reply.refuse(&error);
            return false;
        }
        if self.long_reads.cancellations().covers(call.reply.call()) {
            call.reply.refuse(&self.long_reads.cancellations().error());
            return false;
        }
        true
    }

    /// Runs what waits, or as much of it as one lending serves: the stores of all partitions that
    /// these calls need are borrowed once, the calls run one after the other, each a transaction of
    /// its own, and their records go to the log together.
    fn run_lending(&mut self) {
        self.gather();
        let mut calls = Vec::with_capacity(self.waiting.len().min(limits::LENDING_CALLS_MAX));
        let mut wanted = vec![false; self.partitions.len()];
        while calls.len() < limits::LENDING_CALLS_MAX
            && let Some(mut call) = self.waiting.pop_front()
        {
            if self.admit(&mut call) {
                match &call.stores {
                    StoreSet::All => wanted.fill(true),
                    StoreSet::Only(list) => list.iter().for_each(|partition| wanted[self.place(*partition)] = true),
                }
                calls.push(call);
            }
        }
        if calls.is_empty() {
            return;
        }
        let borrowed = self.borrow(&wanted);
        let mut lending = self.lending(borrowed);
        let began = self.clock.monotonic_nanos();
        let mut calls = calls.into_iter();
        for call in calls.by_ref() {
            self.run_call(call, &mut lending);
            let spent = Duration::from_nanos(self.clock.monotonic_nanos().saturating_sub(began));
            if lending.is_large() || spent > limits::LENDING_TIME_MAX {
                break;
            }
        }
        let back = lending.borrowed.iter().map(Option::is_some);
        assert!(back.eq(wanted.iter().copied()), "a lending gives back all that it has borrowed");
        let appended = self.outlet().append(self.ticket, &mut lending, &mut []);
        self.give_back(std::mem::take(&mut lending.borrowed));
        self.outlet().release(&mut lending, appended);
        // The rest goes first next time, in its order.
        calls.rev().for_each(|call| self.waiting.push_front(call));
    }

    fn run_call(&mut self, call: ProgramCall, lending: &mut Lending) {
        let now = self.log.transaction_time(self.clock.wall_micros());
        let mut stores = std::mem::take(&mut self.stores);
        let mut positions = std::mem::take(&mut self.positions);
        lending.collect_stores(&call.stores, &mut stores, &mut positions);
        if let Some(program) = long_read::program(&call, &stores) {
            if let Some((call, turn)) = self.long_reads.admit(call) {
                let snapshots = long_read::snapshots(&program, &mut stores);
                let call = ProgramCall { program, ..call };
                let cancellations = self.long_reads.cancellations();
                lending.reads.push(LongRead::new(call, turn, snapshots, now, &self.gate, cancellations));
                self.record(&mut stores, &mut positions, None, &mut lending.payload);
            }
            lending.put_back(&mut stores, &mut positions);
            (self.stores, self.positions) = (stores, positions);
            return;
        }
        let mut answer = std::mem::take(&mut self.answer);
        let counted = self.counters.begin_program(&call.program, &self.compiled);
        let outlet = Outlet {
            partitions: &self.partitions,
            gate: &self.gate,
            log: &self.log,
            logs: self.unlogged.is_none(),
            long_reads: &self.long_reads,
        };
        let ticket = self.ticket;
        // Those before it in the lending need not wait for a call that takes its time.
        let mut slow = || {
            if lending.has_output() {
                let appended = outlet.append(ticket, lending, &mut positions);
                outlet.release(lending, appended);
            }
        };
        let outcome = self.executor.call_program(&mut stores, &call, now, Some(&mut slow), &mut answer);
        self.counters.end(counted, outcome, call.parameters.len(), answer.len());
        if outcome.is_some() {
            lending.answered(&call.reply, &mut answer);
        }
        answer.clear();
        self.answer = answer;
        self.record(&mut stores, &mut positions, outcome, &mut lending.payload);
        lending.put_back(&mut stores, &mut positions);
        (self.stores, self.positions) = (stores, positions);
        if let (None, Some(recompile)) = (outcome, call.recompile) {
            recompile();
        }
    }

    /// Writes the transaction's record, all partitions' parts in it, and makes its changes final.
    fn record(
        &mut self,
        stores: &mut [Store],
        positions: &mut [StorePosition],
        outcome: Option<CallOutcome>,
        payload: &mut EntryBuffer,
    ) {
        self.ticket = Sequence(self.ticket.0 + 1);
        let mut parts = Vec::new();
        assert_eq!(stores.len(), positions.len(), "each store has its position");
        if let Some(WithoutLog { unlogged, .. }) = &self.unlogged {
            for store in stores.iter_mut().filter(|store| !store.redo().is_empty()) {
                assert!(outcome == Some(CallOutcome::Committed), "a transaction that was rolled back leaves no redo");
                store.discard_redo();
                unlogged.note();
            }
        }
        for (store, position) in stores.iter().zip(positions.iter_mut()) {
            assert_eq!(store.partition(), position.partition, "stores and positions are in one order");
            if !store.redo().is_empty() {
                assert!(outcome == Some(CallOutcome::Committed), "a transaction that was rolled back leaves no redo");
                position.sequence = Sequence(position.sequence.0 + 1);
                position.changed = true;
                let partition = position.partition;
                let sequence = position.sequence;
                parts.push(Part { partition, epoch: RECORD_EPOCH, sequence, changes: store.redo() });
            }
        }
        if let Some(time) = self.executor.take_unique_ids_ahead() {
            self.log.raise_time(time);
        }
        if !parts.is_empty() {
            let parts = if planted!(PartLost) { &parts[..1] } else { &parts[..] };
            let parts = if planted!(TransactionLost) { &[] } else { parts };
            record::write_multi(payload.records(), self.ticket.0, parts);
        }
        for (store, position) in stores.iter_mut().zip(positions) {
            store.commit_at(position.sequence);
        }
    }

    fn outlet(&self) -> Outlet<'_> {
        Outlet {
            partitions: &self.partitions,
            gate: &self.gate,
            log: &self.log,
            logs: self.unlogged.is_none(),
            long_reads: &self.long_reads,
        }
    }

    /// Where the partition is among those of the group. Calls come with partitions of the group
    /// only.
    fn place(&self, partition: PartitionId) -> usize {
        self.of.place_of(partition).expect("a coordinator has the partitions of its group")
    }

    fn lending(&self, borrowed: Borrowed) -> Lending {
        let of = self.of.clone();
        Lending { of, borrowed, payload: EntryBuffer::default(), answers: Vec::new(), reads: Vec::new() }
    }

    /// Waits until the partitions that are wanted have lent their stores.
    fn borrow(&mut self, wanted: &[bool]) -> Borrowed {
        let mut borrowed: Borrowed = wanted.iter().map(|_| None).collect();
        let mut asked = 0;
        for (partition, _) in self.partitions.iter().zip(wanted).filter(|(_, wanted)| **wanted) {
            let event = Event::Lend { to: self.loans.0.clone(), back: partition.back.1.clone() };
            partition.inbox.send(event).expect("partitions outlive the coordinator");
            asked += 1;
        }
        for _ in 0..asked {
            let Loan { partition, store, sequence, .. } =
                receive(&mut self.others, &self.loans.1).expect("a partition lends its store when asked");
            assert!(store.partition() == partition && store.is_committed(), "a partition lends its own store, at rest");
            let place = self.place(partition);
            let slot = &mut borrowed[place];
            assert!(wanted[place] && slot.is_none(), "a store comes once, where it was asked for");
            *slot = Some((store, StorePosition { partition, place, sequence, changed: false }));
        }
        borrowed
    }

    fn give_back(&self, borrowed: Borrowed) {
        for (store, StorePosition { partition, place, sequence, .. }) in borrowed.into_iter().flatten() {
            assert!(store.is_committed(), "a store goes back between two transactions");
            let loan = Loan { partition, store, sequence, compiled: Arc::clone(&self.compiled) };
            let back = &self.partitions[place].back.0;
            back.send(loan).unwrap_or_else(|_| panic!("partition {partition} waits for its store"));
        }
    }
}
