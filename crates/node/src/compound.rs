//! Procedures outside of transactions, compound ones and those with futures: calls that run in
//! stages, each stage calling procedures as a client would.
//!
//! Owns the calls in progress, their time limits, and their outcomes. A call's stages run one after
//! the other on threads of their own ([`Worker`]), never on a partition's; between two stages a
//! call holds no thread. The calls that a stage queues take the same way as a client's
//! ([`Worker::send_call`]), with the rights of the caller.
//!
//! Promises:
//!
//! - Every call that was begun is answered exactly once: by its end, its error, its time limit, or
//!   the server's stop.
//! - **A stage hears of an answer only when that was released**, which it is when what it tells
//!   of is durable. So whatever our own answer tells of is durable when it leaves, without a gate
//!   of its own. A stage of a compound call runs when all answers to the calls of the stage before
//!   were released.
//! - One stage of a call runs at a time. A call that rests misses no answer and no call of its
//!   waker, whenever they come.
//! - A call keeps the classes and the program that it began with, whatever the schema becomes.
//!
//! Knows no language and no rows.

mod worker;

pub use worker::Worker;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use ferrite_base::error::is_code;
use ferrite_base::{ErrorKind, Settings, UserError, UserResult, limits};
use ferrite_io::Clock;
use ferrite_partition::{AnswerBatch, Mailbox, Reply, counters};
use ferrite_plan::Program;
use ferrite_plan::external::{Answer, Ended, Stages};
use ferrite_system::compound_figures::Figures;
use ferrite_wire::response::{self, ResponseWriter};
use ferrite_wire::{Status, frame};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Wake;
use std::time::Duration;

/// The messages to a worker.
pub enum Work {
    /// The first stage, with the parameter set as it came.
    Begin(Arc<Call>, Vec<u8>),
    /// What its next stage waits for is there, unless another worker has been faster.
    GoOn(Arc<Call>),
    /// A call has ended between two stages. A thread that knows its language drops what it consists
    /// of.
    LetGo(Box<dyn Stages>),
    Stop,
}

/// The messages to the watch.
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
    /// What a call may be answered.
    result_bytes: usize,
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
    /// While no stage runs.
    stages: Option<Box<dyn Stages>>,
    /// Any answer will do, or its waker.
    rests: bool,
    rung: bool,
    /// Since the last stage.
    answers: Vec<Answer>,
    /// The calls that are not answered, and when they were sent.
    waited_for: BTreeMap<u64, u64>,
    next_call: u64,
}

impl State {
    /// The next stage can run.
    fn due(&self) -> bool {
        let all = self.waited_for.is_empty();
        self.stages.is_some() && if self.rests { self.rung || !self.answers.is_empty() } else { all }
    }
}

/// The waker of a call, which keeps it while it is in progress; it does not keep the call.
struct CallWaker(Weak<Call>);

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        if let Some(call) = self.0.upgrade() {
            let mut state = call.lock();
            state.rung = true;
            call.go_on_if_due(&state);
        }
    }
}

impl Call {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_on_if_due(&self, state: &State) {
        if state.due()
            && let Some(call) = self.me.upgrade()
        {
            // The workers have ended only when the server stops.
            let _ = self.work.send(Work::GoOn(call));
        }
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
        let mut rest = &answers.bytes[..];
        while let Ok(Some((length, body))) = frame::split(rest) {
            rest = &rest[length..];
            // After the version.
            let handle = body.get(1..9).and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes);
            let call = handle.and_then(|handle| u64::try_from(handle).ok());
            if let Some((call, sent)) = call.and_then(|call| state.waited_for.remove_entry(&call)) {
                state.answers.push(Answer { call, body: body.to_vec(), nanos: now.saturating_sub(sent) });
            }
        }
        self.go_on_if_due(&state);
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
            result_bytes: settings.result_bytes,
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
            let words = format!("limit of {} concurrent compound procedure calls reached", self.calls_max);
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
        state.waited_for.clear();
        drop(state);
        if let Some(stages) = stages {
            let _ = self.work.send(Work::LetGo(stages));
        }
        self.lock().calls.remove(&call.number);
        let mut answers = AnswerBatch::default();
        let outcome = write(&mut answers.bytes, call.reply.handle, self.result_bytes, outcome);
        answers.finish_answer(call.reply.connection);
        let elapsed = self.clock.monotonic_nanos().saturating_sub(call.began);
        let sizes = (call.parameter_bytes, answers.bytes.len());
        // Counted first: a client that has the answer finds it in the figures.
        self.figures.ended(&call.program, outcome, Duration::from_nanos(elapsed), sizes);
        call.reply.mailbox.deliver(answers);
    }

    /// Ends the calls whose time is up; returns how long until the next one's is. None: no call is
    /// in progress.
    fn end_overdue(&self) -> Option<Duration> {
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
            let name = named(&call.program);
            let error = if now >= stop_at {
                let words = format!("the server was stopped before {name} was through");
                UserError::new(ErrorKind::Unavailable, "57P03", words)
            } else {
                let words = format!("{name} took longer than {} s", self.seconds_max);
                UserError::new(ErrorKind::CompoundTimeout, "57014", words)
                    .with_hint("--limit compound-seconds sets how long one may take")
            };
            self.end(&call, Err(error.with_detail(STAYS.to_owned())));
        }
        wait
    }

    /// Takes no more calls; those in progress have some seconds to end.
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
            let told = match self.end_overdue() {
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

/// Words of a called procedure's failure that are passed on.
const ANSWERED_TEXT_BYTES_MAX: usize = 65_536;
/// What a client that gets an error must know.
const STAYS: &str = "it is not a transaction: its calls may have been carried out and are not rolled back";

fn named(program: &Program) -> String {
    format!("the {}procedure {}", if program.is_compound() { "compound " } else { "" }, program.name)
}

fn write(out: &mut Vec<u8>, handle: i64, bytes_max: usize, outcome: UserResult<Ended>) -> counters::CallOutcome {
    let ended = match outcome {
        Ok(ended) => ended,
        Err(error) => {
            response::write_error(out, handle, &error);
            let wished = error.kind() == ErrorKind::CompoundAbort;
            return if wished { counters::CallOutcome::Aborted } else { counters::CallOutcome::RolledBack };
        }
    };
    let mut kind = counters::CallOutcome::Committed;
    let mut failed = None;
    let mut writer = ResponseWriter::begin(out, handle).within(bytes_max);
    if let Some(answered) = ended.answered.as_ref().filter(|answered| answered.status != Status::Success.code()) {
        let status = Status::from_code(answered.status).unwrap_or(Status::UnexpectedFailure);
        kind = if status == Status::UserAbort {
            counters::CallOutcome::Aborted
        } else {
            counters::CallOutcome::RolledBack
        };
        let code = if is_code(&answered.code) { &answered.code } else { code_of(status) };
        failed = Some((status, code));
        let words = &answered.text;
        writer.status_text(&words[..words.floor_char_boundary(ANSWERED_TEXT_BYTES_MAX)]);
    }
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
            return counters::CallOutcome::RolledBack;
        }
        tables = rest;
    }
    match failed {
        Some((status, code)) => writer.finish_as(status, code),
        None => writer.finish(),
    }
    kind
}

/// The code of a failure that a procedure has made itself by returning a response of this status.
fn code_of(status: Status) -> &'static str {
    match status {
        Status::UserAbort | Status::CompoundUserAbort => "45000",
        Status::CompoundTimeout => "57014",
        Status::ServerUnavailable => "57P03",
        Status::ResponseUnknown => "08007",
        _ => "38000",
    }
}
