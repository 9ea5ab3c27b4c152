//! Long reads: queries that run on snapshots of the stores, on threads of their own, while
//! transactions continue.
//!
//! The owner of the stores (a partition of its own, the coordinator of all) decides, takes the
//! snapshots, and is free again. The answer is right and comes in time because of three things. The
//! snapshots are taken between transactions, of all stores at once, after the call arrived: so it
//! sees all that was acknowledged before it was sent, and nothing in part. Everything that they
//! show was previously handed to the log, and the taker's gate knows of it. And the answer passes
//! through that gate like any other.

use crate::answer::AnswerBatch;
use crate::cancel::{Cancellations, GroupCancellations};
use crate::event::{Event, Job, ProgramCall, Turn};
use crate::execute::Executor;
use crate::gate::Gate;
use crate::worker_pool::Helpers;
use bumpalo::Bump;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{CallLimits, GroupId};
use ferrite_plan::Program;
use ferrite_table::Store;
use ferrite_value::Value;
use ferrite_wire::Parameters;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// A query on its way to a thread for long reads.
pub struct LongRead {
    /// Its program uses no index.
    call: ProgramCall,
    /// Snapshots of the tables that it reads.
    stores: Vec<Store>,
    transaction_time: i64,
    gate: Arc<Gate>,
    leadership: u64,
    cancellations: GroupCancellations,
    /// The next may begin when this one ends.
    turn: Turn,
}

/// The inbox from which a call was taken, and to which it comes again when its turn has come.
#[derive(Clone)]
pub enum Home {
    Partition(Sender<Event>),
    Coordinator(Sender<Job>),
}

impl Home {
    /// Gives the call back where no thread reads the inbox any more.
    fn send(&self, call: ProgramCall) -> Result<(), Box<ProgramCall>> {
        let call = Box::new(call);
        match self {
            Home::Partition(inbox) => inbox.send(Event::Program(call)).map_err(|unsent| match unsent.0 {
                Event::Program(call) => call,
                _ => unreachable!("what is not sent comes back"),
            }),
            Home::Coordinator(inbox) => inbox.send(Job::Calls(vec![*call])).map_err(|unsent| match unsent.0 {
                Job::Calls(mut calls) => Box::new(calls.pop().expect("what is not sent comes back")),
                _ => unreachable!("what is not sent comes back"),
            }),
        }
    }
}

/// The reads that may begin: as many as there are threads. The others wait without a snapshot,
/// which would cost memory for as long as it lives.
struct Line {
    state: Mutex<LineState>,
    cancellations: Arc<Cancellations>,
}

struct LineState {
    threads: usize,
    /// Threads for which no read has a turn.
    free: usize,
    waiting: VecDeque<(ProgramCall, Home)>,
    /// Turns that were given, since the start.
    begun: u64,
    /// The most that waited at a time, since the start.
    waiting_max: usize,
}

/// What the line for the threads looks like now, and what came of it since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineFigures {
    pub threads: usize,
    pub running: usize,
    pub waiting: usize,
    pub waiting_max: usize,
    pub begun: u64,
}

/// The line as others see it.
#[derive(Clone)]
pub struct LongReadLine(Arc<Line>);

impl LongReadLine {
    /// Calls were cancelled: those that wait here need not wait for their turn to hear of it.
    pub fn drop_cancelled(&self) {
        let mut dropped = Vec::new();
        let mut state = self.0.lock();
        let waiting = std::mem::take(&mut state.waiting);
        for (call, home) in waiting {
            if self.0.cancellations.covers(call.reply.call()) {
                dropped.push(call);
            } else {
                state.waiting.push_back((call, home));
            }
        }
        drop(state);
        dropped.iter().for_each(|call| call.reply.refuse(&self.0.cancellations.error()));
    }

    pub fn now(&self) -> LineFigures {
        let state = self.0.lock();
        LineFigures {
            threads: state.threads,
            running: state.threads - state.free,
            waiting: state.waiting.len(),
            waiting_max: state.waiting_max,
            begun: state.begun,
        }
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().expect("no panic while holding the line")
    }
}

/// One of the threads for long reads, as a [`Turn`] has it. Dropped, it goes to the next in line.
struct ThreadSlot(Arc<Line>);

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        loop {
            let next = {
                let mut state = self.0.lock();
                let next = state.waiting.pop_front();
                state.free += usize::from(next.is_none());
                assert!(state.free <= state.threads, "a turn ends once");
                state.begun += u64::from(next.is_some());
                next
            };
            let Some((mut call, home)) = next else { return };
            call.turn = Some(Turn::new(ThreadSlot(Arc::clone(&self.0))));
            match home.send(call) {
                Ok(()) => return,
                // The server stops, and this call's client is gone. Its turn is this one's still.
                Err(mut call) => std::mem::forget(call.turn.take()),
            }
        }
    }
}

/// The way to the threads for long reads.
#[derive(Clone)]
pub struct LongReads {
    queue: Sender<LongRead>,
    line: Arc<Line>,
    home: Home,
    cancellations: GroupCancellations,
}

/// The program to run on snapshots in place of the call's, if that will take long on these stores.
#[inline]
pub(crate) fn program(call: &ProgramCall, stores: &[Store]) -> Option<Arc<Program>> {
    if call.program.may_take_long() { long_program(call, stores) } else { None }
}

fn long_program(call: &ProgramCall, stores: &[Store]) -> Option<Arc<Program>> {
    let rows = |table| {
        let of = |store: &Store| store.table(table).row_count();
        if stores[0].table(table).definition().is_partitioned() { stores.iter().map(of).sum() } else { of(&stores[0]) }
    };
    let has_prefix = |parameter: u16| {
        let arena = Bump::new();
        let given = Parameters::parse(&call.parameters).and_then(|given| given.decode(&arena));
        let pattern = given.ok().and_then(|values| values.get(usize::from(parameter)).copied());
        matches!(pattern, Some(Value::Text(pattern)) if !pattern.is_empty() && !pattern.starts_with(['%', '_']))
    };
    ferrite_plan::as_long_read(&call.program, &rows, &has_prefix)
}

/// Snapshots of what `program` reads.
pub(crate) fn snapshots(program: &Program, stores: &mut [Store]) -> Vec<Store> {
    let tables = ferrite_plan::tables_read(program);
    stores.iter_mut().map(|store| store.snapshot(|table| tables.contains(&table))).collect()
}

impl LongReads {
    /// For this many threads, which get their work from the receiver: it ends when every sender is
    /// gone.
    pub fn new(threads: usize, home: Home) -> (LongReads, Receiver<LongRead>) {
        let (queue, reads) = unbounded();
        let state =
            Mutex::new(LineState { threads, free: threads, waiting: VecDeque::new(), begun: 0, waiting_max: 0 });
        let cancellations = GroupCancellations::default();
        let line = Arc::new(Line { state, cancellations: Arc::clone(cancellations.all()) });
        (LongReads { queue, line, home, cancellations }, reads)
    }

    pub fn line(&self) -> LongReadLine {
        LongReadLine(Arc::clone(&self.line))
    }

    /// For a thread that executes calls that take no more than this.
    pub fn executor(&self, limits: impl Into<CallLimits>) -> Executor {
        let mut executor = Executor::new(limits);
        executor.watch(&self.cancellations);
        executor
    }

    /// The list that all executing threads look at: one for the node. As the parties of this one's
    /// group look at it.
    pub fn cancellations(&self) -> &GroupCancellations {
        &self.cancellations
    }

    /// The same for the parties of a group.
    #[must_use]
    pub fn of_group(&self, group: GroupId) -> LongReads {
        LongReads { cancellations: self.line.cancellations.of_group(group), ..self.clone() }
    }

    /// The same for another taker of snapshots.
    pub fn at(&self, home: Home) -> LongReads {
        LongReads { home, ..self.clone() }
    }

    /// The call and its turn; or none, and the call will come to the inbox again when its turn has
    /// come.
    pub(crate) fn admit(&self, mut call: ProgramCall) -> Option<(ProgramCall, Turn)> {
        if let Some(turn) = call.turn.take() {
            return Some((call, turn));
        }
        let mut state = self.line.lock();
        if state.free == 0 {
            state.waiting.push_back((call, self.home.clone()));
            state.waiting_max = state.waiting_max.max(state.waiting.len());
            return None;
        }
        state.free -= 1;
        state.begun += 1;
        Some((call, Turn::new(ThreadSlot(Arc::clone(&self.line)))))
    }

    pub(crate) fn start(&self, read: LongRead) {
        self.queue.send(read).unwrap_or_else(|_| panic!("the threads for long reads outlive the partitions"));
    }
}

impl LongRead {
    /// To be run on `stores` and answered through `gate`, which must know, when it begins, of all
    /// that they show.
    pub(crate) fn new(
        call: ProgramCall,
        turn: Turn,
        stores: Vec<Store>,
        transaction_time: i64,
        gate: &Arc<Gate>,
        cancellations: &GroupCancellations,
    ) -> LongRead {
        let leadership = gate.leadership();
        let gate = Arc::clone(gate);
        let cancellations = cancellations.as_of_now();
        LongRead { call, stores, transaction_time, gate, leadership, cancellations, turn }
    }
}

/// A thread for long reads: one after the other, each within `limits`, with those of the helpers
/// that are free.
pub fn serve(reads: &Receiver<LongRead>, limits: CallLimits, helpers: Arc<Helpers>) {
    let mut executor = Executor::new(limits).with_helpers(helpers);
    while let Ok(read) = reads.recv() {
        read.answer(&mut executor);
    }
}

impl LongRead {
    /// Runs it and hands its answer to the gate.
    pub fn answer(self, executor: &mut Executor) {
        let LongRead { call, mut stores, transaction_time, gate, leadership, cancellations, turn } = self;
        let mut answers = AnswerBatch { sent_micros: call.reply.sent_micros, ..AnswerBatch::default() };
        executor.watch(&cancellations);
        let outcome = executor.call_program(&mut stores, &call, transaction_time, None, &mut answers.bytes);
        // The next one's snapshots come after these are gone.
        drop(stores);
        drop(turn);
        executor.trim();
        match call.recompile {
            Some(recompile) if outcome.is_none() => recompile(),
            _ => {
                answers.finish_answer(call.reply.connection);
                gate.hold_of(leadership, call.reply.mailbox, answers);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Mailbox;
    use crate::compiled::Compiled;
    use crate::event::{Reply, StoreSet};

    struct Nobody;

    impl Mailbox for Nobody {
        fn deliver(&self, _: AnswerBatch) {}
    }

    fn call(handle: i64) -> ProgramCall {
        let compiled = Arc::new(Compiled::new(Arc::default(), &Default::default()).expect("an empty schema compiles"));
        let statements = ferrite_sql::parse_batch("SELECT 1").expect("it parses");
        let program = Arc::new(ferrite_sql::compile_adhoc(&compiled.catalog, &statements, 0).expect("it compiles"));
        let reply = Reply { mailbox: Arc::new(Nobody), connection: 1, handle, sent_micros: 0 };
        ProgramCall {
            load: false,
            program,
            compiled,
            parameters: Vec::new(),
            reply,
            stores: StoreSet::All,
            retry: None,
            recompile: None,
            turn: None,
            time_max: None,
        }
    }

    #[test]
    fn as_many_run_as_there_are_threads_and_the_others_in_their_order() {
        let (inbox, came) = unbounded();
        let (long_reads, _reads) = LongReads::new(2, Home::Coordinator(inbox));
        let next = || match came.try_recv() {
            Ok(Job::Calls(mut calls)) => calls.pop(),
            _ => None,
        };
        let mut running: Vec<Turn> = Vec::new();
        running.extend((0..2).map(|handle| long_reads.admit(call(handle)).expect("a thread is free").1));
        assert!((2..5).all(|handle| long_reads.admit(call(handle)).is_none()));
        assert!(came.is_empty());
        for handle in 2..5 {
            running.remove(0);
            let again = next().expect("the next comes when one has ended");
            assert_eq!((again.reply.handle, came.len()), (handle, 0));
            running.push(long_reads.admit(again).expect("it has a turn").1);
        }
        // One that is dropped on its way, as when the schema has changed, leaves its turn to the
        // next.
        assert!((5..7).all(|handle| long_reads.admit(call(handle)).is_none()));
        running.remove(0);
        drop(next().expect("the next"));
        let last = next().expect("the one after");
        assert_eq!((last.reply.handle, long_reads.line.lock().free), (6, 0));
        // No thread is left to take those that wait: the turns come back all the same.
        assert!((7..9).all(|handle| long_reads.admit(call(handle)).is_none()));
        drop(came);
        drop((last, running));
        let state = long_reads.line.lock();
        assert_eq!((state.free, state.waiting.len()), (2, 0));
    }
}
