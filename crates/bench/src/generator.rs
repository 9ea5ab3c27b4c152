//! The load generator: one thread with its connections, in closed loop (this many calls
//! outstanding) or open loop (a schedule).
//!
//! Per call it costs one encoding, one decoding, one histogram entry and what the load itself does:
//! no allocation, no clock (one reading per turn and per read), no hand-over to another thread.
//! Once a second a finished [`Measurement`] is handed to the collector. In open loop latency counts
//! from the moment the schedule names, so that a stall of the server, or of this generator, shows
//! in every call that it delayed.

use crate::calls::{Calls, Leaders};
pub use crate::calls::{InFlight, Intended};
use crate::measurement::Measurement;
use ferrite_client::event_loop::Turn;
use ferrite_client::event_loop::{Handler, Links, Response};
use ferrite_client::{ClientError, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How long calls may take that are outstanding when the load ends.
const DRAIN_SECONDS_MAX: u64 = 60;
/// What a schedule makes due within this time goes together, and the latency of each still counts
/// from when it was due. A wake-up and a write cost about 20 microseconds, on both sides, which the
/// server may need: calls sent one by one as answers come in are answered one by one, and at high
/// rates neither side gets out of that again.
const TICK_NANOSECONDS_MIN: u64 = 200_000;

/// What an answer meant to the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadOutcome {
    Succeeded { payload_bytes: u64 },
    Aborted,
    Failed,
}

/// What is called, and what is made of the answers.
pub trait Workload: Send + 'static {
    /// What the load wants back with each answer.
    type Note: Copy + Send;

    /// Makes one call with `calls.call(procedure, parameters, call.with(note))`.
    fn call(&mut self, calls: &mut Calls<'_, Self::Note>, call: Intended);

    fn completed(&mut self, note: Self::Note, response: &Response<'_>) -> LoadOutcome;

    /// Nobody knows whether this call was executed: the connection broke meanwhile, the server's or
    /// that of a node that had passed it on.
    fn lost(&mut self, note: Self::Note);
}

/// Classifies a failure: what the server rolled back in good order, or trouble.
pub fn failure_outcome(response: &Response<'_>) -> LoadOutcome {
    match response.status() {
        Some(Status::UserAbort | Status::GracefulFailure) => LoadOutcome::Aborted,
        _ => LoadOutcome::Failed,
    }
}

/// The shape of the load of one generator.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Calls without an answer, all connections of this generator together.
    pub outstanding: usize,
    /// Calls per second by schedule; None: as fast as answers come.
    pub rate: Option<f64>,
    /// With a rate: a closed loop with a limiter, as clients have it that were written for
    /// benchmarks. Latency counts from the send, and calls that found no room in their moment are
    /// never made.
    pub limiter: bool,
    pub warmup: Duration,
    /// None: until told to stop.
    pub duration: Option<Duration>,
}

/// A finished second of one generator. Warm-up seconds are negative.
pub struct FinishedSecond {
    pub second: i64,
    pub measurement: Measurement,
    /// Nothing follows from this generator, whose load ended at this moment.
    pub ended: Option<Instant>,
}

pub struct Generator<W: Workload> {
    pub workload: W,
    shape: Shape,
    /// Of several nodes that lead.
    leaders: Option<Leaders>,
    epoch: Instant,
    stop: Arc<AtomicBool>,
    seconds: Sender<FinishedSecond>,
    current: Measurement,
    second: i64,
    /// Ends of the current second and of the load.
    second_end: Instant,
    load_end: Option<Instant>,
    outstanding: usize,
    /// Calls made so far, or left out by a limiter: the place in the schedule.
    made: u64,
    /// When a schedule is looked at again, in nanoseconds since the epoch.
    next_tick: u64,
    last_link: usize,
    /// The last reading of the clock, and what it is in nanoseconds since the epoch.
    last_at: (Instant, u64),
    /// The first failure, in words.
    pub first_failure: Option<String>,
    pub cpu: CpuWindow,
}

/// CPU time of this thread over the measured seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuWindow {
    begin: Option<Duration>,
    end: Option<Duration>,
}

impl CpuWindow {
    /// Now, by the thread that asks.
    pub fn begin(&mut self) {
        self.begin = Some(thread_cpu());
    }

    pub fn end(&mut self) {
        self.end = Some(thread_cpu());
    }

    pub fn used(&self) -> Duration {
        match (self.begin, self.end) {
            (Some(begin), Some(end)) => end.saturating_sub(begin),
            _ => Duration::ZERO,
        }
    }
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl<W: Workload> Generator<W> {
    pub fn new(
        workload: W,
        shape: Shape,
        epoch: Instant,
        stop: Arc<AtomicBool>,
        seconds: Sender<FinishedSecond>,
    ) -> Generator<W> {
        let warmup_seconds = shape.warmup.as_secs() as i64;
        let mut generator = Generator {
            workload,
            leaders: None,
            shape,
            epoch,
            stop,
            seconds,
            current: Measurement::default(),
            second: -warmup_seconds,
            second_end: epoch + Duration::from_secs(1),
            load_end: shape.duration.map(|duration| epoch + Duration::from_secs(warmup_seconds as u64) + duration),
            outstanding: 0,
            made: 0,
            next_tick: 0,
            last_link: 0,
            last_at: (epoch, 0),
            first_failure: None,
            cpu: CpuWindow::default(),
        };
        if warmup_seconds == 0 {
            generator.cpu.begin();
        }
        generator
    }

    /// Each call goes to the node that leads its partition, as drivers send it.
    pub fn to_leaders(mut self) -> Generator<W> {
        self.leaders = Some(Leaders::default());
        self
    }

    #[inline]
    fn since_epoch(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// Hands over every second that has ended, also those in which nothing happened.
    #[cold]
    fn roll_seconds(&mut self, now: Instant) {
        while now >= self.second_end {
            let measurement = std::mem::take(&mut self.current);
            self.hand_over(measurement, None);
            self.second += 1;
            self.second_end += Duration::from_secs(1);
            if self.second == 0 {
                self.cpu.begin();
            }
        }
    }

    fn hand_over(&mut self, measurement: Measurement, ended: Option<Instant>) {
        // The collector goes first only when it failed itself, and then nobody wants this.
        let _ = self.seconds.send(FinishedSecond { second: self.second, measurement, ended });
    }

    /// No more calls; ends when all are answered.
    #[cold]
    fn finish(&mut self, now: Instant, load_end: Instant) -> Turn {
        if self.cpu.end.is_none() {
            self.roll_seconds(now.min(load_end));
            self.cpu.end();
            let measurement = std::mem::take(&mut self.current);
            self.hand_over(measurement, Some(now));
        }
        let give_up = load_end + Duration::from_secs(DRAIN_SECONDS_MAX);
        if self.outstanding == 0 || now >= give_up {
            return Turn::Stop;
        }
        Turn::Wait(Some(give_up))
    }

    /// Calls that no answer came for, for whatever reason.
    pub fn unanswered(&self) -> usize {
        self.outstanding
    }

    /// A call may have been executed or not.
    #[cold]
    fn no_answer(&mut self, note: W::Note, reason: impl FnOnce() -> String) {
        self.outstanding -= 1;
        self.current.lost += 1;
        self.workload.lost(note);
        self.first_failure.get_or_insert_with(reason);
    }

    /// As many calls as there is room for.
    #[inline]
    fn fill(&mut self, links: &mut Links<InFlight<W::Note>>, now: Instant) {
        let intended = Intended(self.since_epoch(now));
        if let Some(leaders) = &mut self.leaders {
            while self.outstanding < self.shape.outstanding && links.up_count() > 0 {
                self.workload.call(&mut Calls::to_leaders(leaders, links), intended);
                self.outstanding += 1;
                self.made += 1;
            }
            return;
        }
        let per_link = self.shape.outstanding.div_ceil(links.up_count().max(1));
        for link in 0..links.len() {
            let Some(connection) = links.get(link) else {
                continue;
            };
            while connection.outstanding() < per_link && self.outstanding < self.shape.outstanding {
                self.workload.call(&mut Calls::to(connection), intended);
                self.outstanding += 1;
                self.made += 1;
            }
        }
    }

    /// The calls that the schedule has reached, as far as there is room. Returns when to look
    /// again. A limiter's schedule moves on where there is no room.
    #[inline]
    fn follow_schedule(&mut self, links: &mut Links<InFlight<W::Note>>, now: Instant, rate: f64) -> Option<Instant> {
        let interval = 1e9 / rate;
        let sent = self.since_epoch(now);
        if sent < self.next_tick {
            return Some(self.epoch + Duration::from_nanos(self.next_tick));
        }
        self.next_tick = sent + TICK_NANOSECONDS_MIN;
        let due = (sent as f64 / interval) as u64;
        while self.made <= due {
            if self.outstanding >= self.shape.outstanding {
                if self.shape.limiter {
                    self.made = due + 1;
                }
                return None;
            }
            let (link, connection) = links.next_up(self.last_link)?;
            self.last_link = link;
            let scheduled = (self.made as f64 * interval) as u64;
            let intended = if self.shape.limiter { sent } else { scheduled };
            match &mut self.leaders {
                Some(leaders) => self.workload.call(&mut Calls::to_leaders(leaders, links), Intended(intended)),
                None => self.workload.call(&mut Calls::to(connection), Intended(intended)),
            }
            self.outstanding += 1;
            self.made += 1;
        }
        let next = (self.made as f64 * interval) as u64;
        Some(self.epoch + Duration::from_nanos(next.max(self.next_tick)))
    }
}

impl<W: Workload> Handler for Generator<W> {
    type Context = InFlight<W::Note>;

    fn turn(&mut self, links: &mut Links<InFlight<W::Note>>, now: Instant) -> Turn {
        if self.stop.load(Ordering::Relaxed) && self.load_end.is_none_or(|end| now < end) {
            self.load_end = Some(now);
        }
        if let Some(load_end) = self.load_end
            && now >= load_end
        {
            return self.finish(now, load_end);
        }
        if now >= self.second_end {
            self.roll_seconds(now);
        }
        if let Some(leaders) = &mut self.leaders {
            leaders.turn(links);
        }
        let next_call = match self.shape.rate {
            None => {
                self.fill(links, now);
                None
            }
            Some(rate) => self.follow_schedule(links, now, rate),
        };
        let second_end = self.load_end.map_or(self.second_end, |end| end.min(self.second_end));
        Turn::Wait(Some(next_call.map_or(second_end, |next| next.min(second_end))))
    }

    #[inline]
    fn response(&mut self, _link: usize, call: InFlight<W::Note>, response: &Response<'_>, at: Instant) {
        if at != self.last_at.0 {
            self.last_at = (at, self.since_epoch(at));
        }
        if response.status_code == Status::ResponseUnknown.code() {
            // The node that was called passed it on, and has no answer either.
            let text = response.status_text.unwrap_or("the outcome of a call is unknown");
            return self.no_answer(call.note, || text.to_string());
        }
        self.outstanding -= 1;
        self.current.record_latency(self.last_at.1.saturating_sub(call.intended));
        match self.workload.completed(call.note, response) {
            LoadOutcome::Succeeded { payload_bytes } => {
                self.current.succeeded += 1;
                self.current.payload_bytes += payload_bytes;
            }
            failure => {
                self.current.aborted += u64::from(failure == LoadOutcome::Aborted);
                self.current.failed += u64::from(failure == LoadOutcome::Failed);
                if self.first_failure.is_none() {
                    let text = response.status_text.unwrap_or("the call failed without a text");
                    self.first_failure = Some(format!("{text} (status {})", response.status_code));
                }
            }
        }
    }

    fn lost(&mut self, _link: usize, call: InFlight<W::Note>, reason: &ClientError) {
        self.no_answer(call.note, || reason.to_string());
    }

    fn pushed(&mut self, _link: usize, response: &Response<'_>) {
        if let Some(leaders) = &mut self.leaders {
            leaders.pushed(response);
        }
    }

    fn disconnected(&mut self, link: usize, reason: &ClientError) {
        if let Some(leaders) = &mut self.leaders {
            leaders.disconnected(link);
        }
        // Closed by this side when the load had ended.
        if matches!(reason, ClientError::Closed) {
            return;
        }
        self.first_failure.get_or_insert_with(|| reason.to_string());
    }
}
