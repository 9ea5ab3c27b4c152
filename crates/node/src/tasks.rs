//! The task thread: calls procedures on their schedules, as if a client did.
//!
//! Owns when each task is due and what became of its calls. A call goes the way of a client's from
//! the system thread on, so it is routed, logged and counted like any other. A task has one call
//! outstanding at most, on each partition where it runs on partitions. What is due while the server
//! is paused, or its disk full, is passed over. Reads the clock through the io seam only.

mod complaints;

use complaints::Complaints;
use ferrite_notice::Notice;
use ferrite_system::task_figures::{Figures, RunFigures};

use crate::message::{SystemJob, TaskNotice};
use crate::mode::Mode;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use ferrite_catalog::{OnError, RunOn, Schedule, Task};
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_member::forward::Forward;
use ferrite_partition::{AnswerBatch, Compiled, Mailbox, Reply};
use ferrite_value::Value;
use ferrite_wire::invocation::Extensions;
use ferrite_wire::{RequestWriter, Response, Status, frame};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at the calendar: the wall clock may be set meanwhile.
const CALENDAR_LOOK: Duration = Duration::from_secs(30);
/// A wall clock that was set back by this much was wrong earlier: the calendar goes by what it says
/// now. By less, and nothing is called twice, as cron has it.
const SET_BACK_MICROS: i64 = 3 * 3_600 * 1_000_000;

/// What the thread uses of its node.
pub struct Handles {
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub mode: Arc<Mode>,
    pub system: Sender<SystemJob>,
    pub figures: Arc<Figures>,
    pub clock: Arc<dyn Clock>,
    pub partition_count: usize,
    /// None: a node without others.
    pub forward: Option<Forward>,
}

impl Handles {
    /// Whether calls are made here: by one node of a cluster, the one that leads the first group.
    fn takes_calls(&self) -> bool {
        let leads = self.forward.as_ref().is_none_or(|forward| forward.leads(FIRST_GROUP, false));
        leads && self.mode.is_running() && !self.mode.is_disk_low()
    }
}

pub struct Tasks {
    node: Handles,
    inbox: Receiver<TaskNotice>,
    answers: Arc<Answers>,
    /// By numbers that are not given twice, so that a late answer finds its own run or none.
    runs: BTreeMap<u64, Run>,
    next_run: u64,
    complaints: Complaints,
    stopping: bool,
}

/// A task on one partition, or on all.
struct Run {
    task: Arc<Task>,
    partition: Option<u32>,
    due: Option<Due>,
    /// When the call in progress was sent.
    sent: Option<u64>,
    /// That call is one of the task as it was before it was changed.
    of_before: bool,
    figures: RunFigures,
}

#[derive(Clone, Copy)]
enum Due {
    /// Nanoseconds of the monotonic clock.
    Monotonic(u64),
    /// Microseconds since 1970; and when that was looked up.
    Wall(i64, i64),
}

/// Takes the answers of calls; the connection of each is its run.
struct Answers(Sender<TaskNotice>);

impl Mailbox for Answers {
    fn deliver(&self, answers: AnswerBatch) {
        let mut start = 0;
        for run in &answers.runs {
            let failure = failure(&answers.bytes[start..run.end as usize]);
            start = run.end as usize;
            // The thread has ended only when the server stops.
            let _ = self.0.send(TaskNotice::Answered { run: run.connection, failure });
        }
    }
}

fn failure(bytes: &[u8]) -> Option<String> {
    let unreadable = || Some("the answer cannot be read".to_owned());
    let Ok(Some((_, body))) = frame::split(bytes) else { return unreadable() };
    let Ok(response) = Response::parse(body) else { return unreadable() };
    if response.status_code == Status::Success.code() {
        return None;
    }
    Some(response.status_text.map_or_else(|| format!("status {}", response.status_code), str::to_owned))
}

impl Tasks {
    pub fn new(node: Handles, notices: (Sender<TaskNotice>, Receiver<TaskNotice>)) -> Tasks {
        let answers = Arc::new(Answers(notices.0));
        Tasks {
            node,
            inbox: notices.1,
            answers,
            runs: BTreeMap::new(),
            next_run: 0,
            complaints: Complaints::default(),
            stopping: false,
        }
    }

    pub fn run(mut self) {
        self.follow_catalog();
        while !self.stopping {
            self.start_due();
            self.complaints.due(self.node.clock.monotonic_nanos()).into_iter().for_each(ferrite_io::notify);
            let told = match self.nearest() {
                None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => self.inbox.recv_timeout(wait),
            };
            match told {
                Ok(TaskNotice::CatalogChanged) => self.follow_catalog(),
                Ok(TaskNotice::Answered { run, failure }) => self.answered(run, failure),
                Ok(TaskNotice::Stop) | Err(RecvTimeoutError::Disconnected) => self.stopping = true,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Starts runs for the tasks that exist; those of unchanged tasks continue.
    fn follow_catalog(&mut self) {
        let compiled = self.node.compiled.load_full();
        let tasks = &compiled.catalog.tasks;
        let same = |run: &Run| tasks.get(&run.task.name).is_some_and(|task| Arc::ptr_eq(task, &run.task));
        // A task that was changed waits for the call that it has outstanding: its next run takes
        // that over with its number.
        let mut outstanding = Vec::new();
        self.runs.retain(|number, run| {
            let keeps = same(run);
            if let (false, Some(sent)) = (keeps, run.sent) {
                outstanding.push((run.task.name.clone(), run.partition, *number, sent));
            }
            keeps
        });
        for task in tasks.values() {
            if self.runs.values().any(|run| run.task.name == task.name) {
                continue;
            }
            let partitions: Vec<Option<u32>> = match task.run_on {
                RunOn::Database | RunOn::Hosts => vec![None],
                RunOn::Partitions => (0..self.node.partition_count as u32).map(Some).collect(),
            };
            for partition in partitions {
                let figures = RunFigures::new(task, partition);
                let mut run =
                    Run { task: Arc::clone(task), partition, due: None, sent: None, of_before: false, figures };
                if task.enabled {
                    run.schedule(&*self.node.clock, None);
                }
                let before = outstanding.iter().find(|(name, on, ..)| *name == task.name && *on == partition);
                let number = match before {
                    Some((_, _, number, sent)) => {
                        (run.sent, run.of_before) = (Some(*sent), true);
                        *number
                    }
                    None => {
                        self.next_run += 1;
                        self.next_run - 1
                    }
                };
                self.runs.insert(number, run);
            }
        }
        self.publish();
    }

    fn publish(&self) {
        self.node.figures.set(self.runs.values().map(|run| run.figures.clone()).collect());
    }

    /// How long until something is due.
    fn nearest(&self) -> Option<Duration> {
        let now = self.node.clock.monotonic_nanos();
        let wall = self.node.clock.wall_micros();
        let wait = |due: &Due| match due {
            Due::Monotonic(at) => Duration::from_nanos(at.saturating_sub(now)),
            Due::Wall(at, _) => Duration::from_micros(u64::try_from(at - wall).unwrap_or(0)).min(CALENDAR_LOOK),
        };
        let runs = self.runs.values().filter(|run| run.sent.is_none()).filter_map(|run| run.due.as_ref().map(wait));
        runs.chain(self.complaints.nearest().map(|at| Duration::from_nanos(at.saturating_sub(now)))).min()
    }

    fn start_due(&mut self) {
        let now = self.node.clock.monotonic_nanos();
        let wall = self.node.clock.wall_micros();
        let takes_calls = self.node.takes_calls();
        let mut changed = false;
        for (number, run) in &mut self.runs {
            run.follow(&*self.node.clock);
            let late = match run.due {
                Some(Due::Monotonic(at)) => now.checked_sub(at),
                Some(Due::Wall(at, _)) => u64::try_from(wall - at).ok().map(|micros| micros * 1_000),
                None => None,
            };
            let Some(late) = late.filter(|_| run.sent.is_none()) else { continue };
            changed = true;
            run.figures.set_paused(!takes_calls);
            if !takes_calls {
                run.schedule(&*self.node.clock, Some(now));
                continue;
            }
            run.figures.waited(late);
            run.sent = Some(now);
            if matches!(run.task.schedule, Schedule::Delay(_)) {
                run.due = None;
            } else {
                run.schedule(&*self.node.clock, Some(now));
            }
            let answers: Arc<Answers> = Arc::clone(&self.answers);
            let reply = Reply { mailbox: answers, connection: *number, handle: 0, sent_micros: wall };
            match request(&run.task, run.partition) {
                // The system thread ends after this one.
                Some(body) => drop(self.node.system.send(SystemJob::Call { body, reply })),
                None => reply.refuse(&ferrite_base::UserError::parameters("the task's parameters cannot be encoded")),
            }
        }
        if changed {
            self.publish();
        }
    }

    fn answered(&mut self, number: u64, failure: Option<String>) {
        let now = self.node.clock.monotonic_nanos();
        // Of a task that was dropped meanwhile.
        let Some(run) = self.runs.get_mut(&number) else { return };
        let took = now - run.sent.take().unwrap_or(now);
        let of_before = std::mem::take(&mut run.of_before);
        // What became of a call of the task as it was says nothing of the task as it is.
        let failure = failure.filter(|_| !of_before);
        if !of_before {
            run.figures.answered(took, failure.is_some());
        }
        let task = &run.task;
        match (failure, task.on_error) {
            (None, _) | (Some(_), OnError::Ignore) => {}
            (Some(why), OnError::Log) => {
                self.complaints.failed(&task.name, &why, now).into_iter().for_each(ferrite_io::notify);
            }
            (Some(why), OnError::Stop) => {
                ferrite_io::notify(Notice::TaskStopped { task: task.name.to_string(), reason: why.clone() });
                run.due = None;
                run.figures.failed(why);
            }
        }
        let passed = match run.due {
            Some(Due::Monotonic(at)) => at <= now,
            Some(Due::Wall(at, _)) => at <= self.node.clock.wall_micros(),
            None => matches!(run.task.schedule, Schedule::Delay(_)),
        };
        if passed && task.enabled && !run.figures.has_failed() {
            run.schedule(&*self.node.clock, Some(now));
        }
        self.publish();
    }
}

impl Run {
    /// Looks at the calendar again where the wall clock was set back by hours.
    fn follow(&mut self, clock: &dyn Clock) {
        if matches!(self.due, Some(Due::Wall(_, asked)) if asked - clock.wall_micros() >= SET_BACK_MICROS) {
            self.schedule(clock, None);
        }
    }

    /// When it is due next. `began`: when the last call did.
    fn schedule(&mut self, clock: &dyn Clock, began: Option<u64>) {
        let asked = clock.monotonic_nanos();
        self.due = match &self.task.schedule {
            Schedule::Delay(interval) => Some(Due::Monotonic(asked.saturating_add(interval.nanos()))),
            Schedule::Every(interval) => {
                let step = interval.nanos();
                // From the time that was meant, so that lateness does not add up; what has passed
                // already is left out.
                let base = match (self.due, began) {
                    (Some(Due::Monotonic(meant)), Some(_)) => meant,
                    _ => asked,
                };
                let steps = asked.saturating_sub(base) / step + 1;
                Some(Due::Monotonic(base.saturating_add(step.saturating_mul(steps))))
            }
            Schedule::Cron(cron, _) => {
                let wall = clock.wall_micros();
                cron.next_after(wall).map(|at| Due::Wall(at, wall))
            }
        };
        self.figures.scheduled(clock.monotonic_nanos() - asked);
    }
}

/// A call as a client would write it, without its length.
fn request(task: &Task, partition: Option<u32>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let destination = partition.map(|partition| partition as i32);
    let extensions = Extensions { destination, ..Extensions::default() };
    let mut request = RequestWriter::begin_with(&mut out, &task.procedure, 0, &extensions);
    if partition.is_some() {
        // Calls to a partition have its key in front, which a directed procedure does not see.
        request.parameter(&Value::Null);
    }
    for value in &task.parameters {
        request.parameter(value);
    }
    request.finish().ok()?;
    frame::split(&out).ok().flatten().map(|(_, body)| body.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_catalog::cron::Cron;
    use ferrite_io::simulated::SimulatedClock;

    #[test]
    fn a_task_by_the_calendar_follows_a_clock_that_was_hours_ahead() {
        const MINUTE: i64 = 60_000_000;
        let text = "0 * * * * *";
        let task = Task {
            name: "t".to_owned(),
            schedule: Schedule::Cron(Cron::parse(text).expect("six fields"), text.to_owned()),
            procedure: "p".to_owned(),
            parameters: Vec::new(),
            on_error: OnError::Log,
            run_on: RunOn::Database,
            enabled: true,
        };
        let figures = RunFigures::new(&task, None);
        let mut run = Run { task: Arc::new(task), partition: None, due: None, sent: None, of_before: false, figures };
        let clock = SimulatedClock::default();
        let due_in = |run: &Run| match run.due {
            Some(Due::Wall(at, _)) => at - clock.wall_micros(),
            _ => panic!("it goes by the calendar"),
        };
        clock.jump(SET_BACK_MICROS);
        run.schedule(&clock, None);
        assert_eq!(due_in(&run), MINUTE);
        // By less, and what was called is not called again.
        clock.jump(-10 * MINUTE);
        run.follow(&clock);
        assert_eq!(due_in(&run), 11 * MINUTE);
        clock.jump(10 * MINUTE - SET_BACK_MICROS);
        run.follow(&clock);
        assert_eq!(due_in(&run), MINUTE);
    }
}
