//! Compound procedures: calls that run in stages outside of transactions, each stage calling procedures as a client would.
//!
//! Owns the calls that go on, how long they may, and what became of them. A call's stages run one after the other on threads of their own
//! ([`Worker`]), never on a partition's; between two stages a call holds no thread. The calls that a stage queues go the way of a client's
//! ([`crate::pass_on`]), with the rights of the caller.
//!
//! Promises:
//!
//! - Every call that was begun is answered exactly once: by its end, its error, its time limit, or the server's stop.
//! - **A stage runs only when all answers to the calls of the stage before were released**, which they are when what they tell of is durable.
//!   So whatever a compound answer tells of is durable when it leaves, without a gate of its own.
//! - A call keeps the classes and the program that it began with, whatever the schema becomes.
//!
//! Knows no language and no rows.

mod figures;

pub use figures::{CompoundFigures, Figures};

use crate::connection::{is_admin, of_compound};
use crate::pass_on;
use crate::shared::Shared;
use bumpalo::Bump;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use ferrite_base::{ErrorKind, Settings, UserError, UserResult, limits};
use ferrite_io::Clock;
use ferrite_partition::{AnswerBatch, Mailbox, Reply, execute};
use ferrite_sql::foreign::{Ended, ForeignBody, QueuedCall, Stage, Stages};
use ferrite_sql::plan::Program;
use ferrite_wire::invocation::write_call;
use ferrite_wire::response::{self, ResponseWriter};
use ferrite_wire::{EncodeError, ParameterSet, frame};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// What a worker is told.
pub enum Work {
    /// The first stage, with the parameter set as it came.
    Begin(Arc<Call>, Vec<u8>),
    /// All answers are there.
    GoOn(Arc<Call>),
    /// A call has ended between two stages. What it consists of is let go of by a thread that knows its language.
    LetGo(Box<dyn Stages>),
    Stop,
}

/// What the watch is told.
pub enum Notice {
    Look,
    Stop,
}

/// The workers' end, and the watch's.
pub struct Inboxes {
    pub work: Receiver<Work>,
    pub watch: Receiver<Notice>,
}

pub struct Compounds {
    work: Sender<Work>,
    watch: Sender<Notice>,
    clock: Arc<dyn Clock>,
    calls_max: usize,
    stage_calls_max: usize,
    seconds_max: u64,
    going: Mutex<Going>,
    pub figures: Figures,
}

#[derive(Default)]
struct Going {
    /// By number: those that began first come first, and end first when time is up.
    calls: BTreeMap<u64, Arc<Call>>,
    next: u64,
    /// Since the server stops: when the last must have ended.
    stop_at: Option<u64>,
    /// The watch waits for a first call.
    watch_sleeps: bool,
}

/// One call. It is the mailbox for the answers to the calls that it makes.
pub struct Call {
    me: Weak<Call>,
    number: u64,
    program: Arc<Program>,
    reply: Reply,
    parameter_bytes: usize,
    /// Nanoseconds of the monotonic clock.
    began: u64,
    clock: Arc<dyn Clock>,
    work: Sender<Work>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: bool,
    /// While answers are waited for.
    stages: Option<Box<dyn Stages>>,
    /// With the nanoseconds that each was waited for.
    answers: Vec<Option<(Vec<u8>, u64)>>,
    missing: usize,
    sent: u64,
}

impl Call {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mailbox for Call {
    /// Called with a gate's lock held, so it only notes the answers and passes the call on.
    fn deliver(&self, answers: AnswerBatch) {
        let now = self.clock.monotonic_nanos();
        let mut state = self.lock();
        if state.ended {
            return;
        }
        let waited = now.saturating_sub(state.sent);
        let mut rest = &answers.bytes[..];
        while let Ok(Some((length, body))) = frame::split(rest) {
            rest = &rest[length..];
            // Behind the version.
            let handle = body.get(1..9).and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes);
            let place = handle.and_then(|handle| usize::try_from(handle).ok());
            if let Some(place) = place.and_then(|place| state.answers.get_mut(place))
                && place.replace((body.to_vec(), waited)).is_none()
            {
                state.missing -= 1;
            }
        }
        if state.missing == 0
            && state.stages.is_some()
            && let Some(call) = self.me.upgrade()
        {
            // The workers have ended only when the server stops.
            let _ = self.work.send(Work::GoOn(call));
        }
    }
}

impl Compounds {
    pub fn new(settings: &Settings, clock: Arc<dyn Clock>) -> (Compounds, Inboxes) {
        let (work, works) = unbounded();
        let (watch, notices) = unbounded();
        let compounds = Compounds {
            work,
            watch,
            clock,
            calls_max: settings.compound_calls,
            stage_calls_max: settings.compound_stage_calls,
            seconds_max: settings.compound_seconds,
            going: Mutex::default(),
            figures: Figures::default(),
        };
        (compounds, Inboxes { work: works, watch: notices })
    }

    fn lock(&self) -> MutexGuard<'_, Going> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a call, or refuses it. Never blocks.
    pub fn begin(&self, program: &Arc<Program>, parameters: Vec<u8>, reply: Reply) {
        let began = self.clock.monotonic_nanos();
        let mut going = self.lock();
        let refusal = if going.stop_at.is_some() {
            Some(UserError::new(ErrorKind::Unavailable, "57P03", "Server is shutting down."))
        } else if going.calls.len() >= self.calls_max {
            let words =
                format!("there are {} calls of compound procedures already, and there may not be more", self.calls_max);
            Some(UserError::limit(words).with_hint("send fewer at a time, or set --limit compound-calls"))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            drop(going);
            return reply.refuse(&refusal);
        }
        let number = going.next;
        going.next += 1;
        let call = Arc::new_cyclic(|me| Call {
            me: me.clone(),
            number,
            program: Arc::clone(program),
            reply,
            parameter_bytes: parameters.len(),
            began,
            clock: Arc::clone(&self.clock),
            work: self.work.clone(),
            state: Mutex::default(),
        });
        going.calls.insert(number, Arc::clone(&call));
        let wake = std::mem::take(&mut going.watch_sleeps);
        drop(going);
        if wake {
            let _ = self.watch.send(Notice::Look);
        }
        let _ = self.work.send(Work::Begin(call, parameters));
    }

    /// Answers a call, unless that has happened.
    fn end(&self, call: &Call, outcome: UserResult<Ended>) {
        let mut state = call.lock();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        let stages = state.stages.take();
        state.answers.clear();
        drop(state);
        if let Some(stages) = stages {
            let _ = self.work.send(Work::LetGo(stages));
        }
        self.lock().calls.remove(&call.number);
        let mut answers = AnswerBatch::default();
        let outcome = write(&mut answers.bytes, call.reply.handle, outcome);
        answers.finish_answer(call.reply.connection);
        let elapsed = self.clock.monotonic_nanos().saturating_sub(call.began);
        let sizes = (call.parameter_bytes, answers.bytes.len());
        // Counted first: whoever has the answer finds it in the figures.
        self.figures.ended(&call.program.name, outcome, Duration::from_nanos(elapsed), sizes);
        call.reply.mailbox.deliver(answers);
    }

    /// Ends the calls whose time is up; how long until the next one's is. None: no call goes on.
    fn look(&self) -> Option<Duration> {
        let now = self.clock.monotonic_nanos();
        let time_max = Duration::from_secs(self.seconds_max).as_nanos() as u64;
        let mut late = Vec::new();
        let mut going = self.lock();
        let stop_at = going.stop_at.unwrap_or(u64::MAX);
        let mut wait = None;
        for call in going.calls.values() {
            let until = call.began.saturating_add(time_max).min(stop_at);
            if until > now {
                wait = Some(Duration::from_nanos(until - now));
                break;
            }
            late.push(Arc::clone(call));
        }
        going.watch_sleeps = wait.is_none();
        drop(going);
        for call in late {
            let name = &call.program.name;
            let error = if now >= stop_at {
                let words = format!("the server was stopped before the compound procedure {name} was through");
                UserError::new(ErrorKind::Unavailable, "57P03", words)
            } else {
                let words = format!("the compound procedure {name} took longer than {} s", self.seconds_max);
                UserError::new(ErrorKind::CompoundTimeout, "57014", words)
                    .with_hint("--limit compound-seconds sets how long one may take")
            };
            self.end(&call, Err(error.with_detail(STAYS.to_owned())));
        }
        wait
    }

    /// Takes no more calls; those that go on have some seconds to end.
    pub fn stop_soon(&self) {
        let until = Duration::from_secs(limits::COMPOUND_STOP_SECONDS_MAX).as_nanos() as u64;
        self.lock().stop_at = Some(self.clock.monotonic_nanos().saturating_add(until));
        let _ = self.watch.send(Notice::Look);
    }

    /// Ends the threads, once what they do is done.
    pub fn stop(&self, workers: usize) {
        let _ = self.watch.send(Notice::Stop);
        for _ in 0..workers {
            let _ = self.work.send(Work::Stop);
        }
    }

    /// The watch's thread: ends calls whose time is up.
    pub fn watch(&self, inbox: &Receiver<Notice>) {
        loop {
            let told = match self.look() {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => inbox.recv_timeout(wait),
            };
            match told {
                Ok(Notice::Look) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Notice::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// What whoever hears of an error must know.
const STAYS: &str = "it is no transaction: what it had called may have been carried out, and stays";

fn write(out: &mut Vec<u8>, handle: i64, outcome: UserResult<Ended>) -> execute::Outcome {
    let (ended, kind) = match outcome {
        Ok(ended) => (ended, execute::Outcome::Committed),
        Err(error) => {
            response::write_error(out, handle, &error);
            let wished = error.kind() == ErrorKind::CompoundAbort;
            return if wished { execute::Outcome::Aborted } else { execute::Outcome::RolledBack };
        }
    };
    let mut writer = ResponseWriter::begin(out, handle);
    if ended.status.is_some() || ended.text.is_some() {
        writer.application_status(ended.status.unwrap_or(ferrite_wire::status::APPLICATION_STATUS_NOT_SET));
    }
    if let Some(text) = &ended.text {
        writer.application_status_text(text);
    }
    let mut tables = &ended.tables[..];
    while let Some(length) = tables.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize) {
        let Some((table, rest)) = tables.split_at_checked(4 + length) else { break };
        if let Err(error) = writer.encoded_table(table) {
            writer.fail(&error.with_detail(STAYS.to_owned()));
            return execute::Outcome::RolledBack;
        }
        tables = rest;
    }
    writer.finish();
    kind
}

/// A thread that runs stages.
pub struct Worker {
    pub shared: Arc<Shared>,
    pub work: Receiver<Work>,
}

impl Worker {
    pub fn run(self) {
        while let Ok(work) = self.work.recv() {
            match work {
                Work::Begin(call, parameters) => match begin(&call.program, &parameters, self.stage_calls_max()) {
                    Ok(stages) => self.go_on(&call, stages, Vec::new()),
                    Err(error) => self.shared.compounds.end(&call, Err(error)),
                },
                Work::GoOn(call) => {
                    let mut state = call.lock();
                    let answers = std::mem::take(&mut state.answers).into_iter().flatten().collect();
                    let stages = state.stages.take();
                    drop(state);
                    // None: it has ended meanwhile.
                    if let Some(stages) = stages {
                        self.go_on(&call, stages, answers);
                    }
                }
                Work::LetGo(stages) => drop(stages),
                Work::Stop => return,
            }
        }
    }

    fn stage_calls_max(&self) -> usize {
        self.shared.compounds.stage_calls_max
    }

    /// Runs stages until one queues calls, or the call ends.
    fn go_on(&self, call: &Arc<Call>, mut stages: Box<dyn Stages>, mut answers: Vec<(Vec<u8>, u64)>) {
        let compounds = &self.shared.compounds;
        loop {
            if call.lock().ended {
                return;
            }
            let elapsed = Duration::from_nanos(call.clock.monotonic_nanos().saturating_sub(call.began));
            if self.shared.cancellations.stops(call.reply.call(), elapsed) {
                let error = UserError::data("57014", "Transaction Interrupted: the compound procedure was cancelled");
                return compounds.end(call, Err(error.with_detail(STAYS.to_owned())));
            }
            match stages.next(&answers) {
                Ok(Stage::Calls(calls)) if calls.is_empty() => answers.clear(),
                Ok(Stage::Calls(calls)) if calls.len() > self.stage_calls_max() => {
                    let (queued, most) = (calls.len(), self.stage_calls_max());
                    let words =
                        format!("a stage may queue {most} calls, and one of {} queued {queued}", call.program.name);
                    return compounds.end(call, Err(UserError::limit(words)));
                }
                Ok(Stage::Calls(calls)) => return self.send(call, stages, calls),
                Ok(Stage::End(ended)) => return compounds.end(call, Ok(ended)),
                Err(error) => return compounds.end(call, Err(error)),
            }
        }
    }

    /// Sends the calls of a stage. Their answers may come, and the next stage run elsewhere, while this goes on.
    fn send(&self, call: &Arc<Call>, stages: Box<dyn Stages>, calls: Vec<QueuedCall>) {
        {
            let mut state = call.lock();
            if state.ended {
                return;
            }
            state.stages = Some(stages);
            state.answers.clear();
            state.answers.resize_with(calls.len(), || None);
            state.missing = calls.len();
            state.sent = call.clock.monotonic_nanos();
        }
        self.shared.compounds.figures.called(&call.program.name, &calls);
        let sent_micros = call.clock.wall_micros();
        for (place, queued) in calls.into_iter().enumerate() {
            let mailbox: Arc<Call> = Arc::clone(call);
            let connection = of_compound(is_admin(call.reply.connection));
            let reply = Reply { mailbox, connection, handle: place as i64, sent_micros };
            let mut request = Vec::new();
            let outcome =
                match write_call(&mut request, &queued.procedure, place as i64, &AsEncoded(&queued.parameters)) {
                    Ok(()) => pass_on::frame(&self.shared, &request, &reply),
                    Err(error) => {
                        Err(UserError::parameters(format!("the call of {} cannot be sent: {error}", queued.procedure)))
                    }
                };
            if let Err(error) = outcome {
                reply.refuse(&error);
            }
        }
    }
}

/// The object of a call, made from its parameters.
fn begin(program: &Program, parameters: &[u8], calls_max: usize) -> UserResult<Box<dyn Stages>> {
    let arena = Bump::new();
    let parameters = execute::decode_parameters(program, parameters, false, &arena)?;
    match program.foreign.as_ref().map(|foreign| &foreign.body) {
        Some(ForeignBody::Compound(body)) => body.begin(parameters, calls_max),
        _ => Err(UserError::internal("a procedure that is not compound was begun as one")),
    }
}

/// A parameter set that was encoded elsewhere.
struct AsEncoded<'b>(&'b [u8]);

impl ParameterSet for AsEncoded<'_> {
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.0);
        Ok(())
    }
}
