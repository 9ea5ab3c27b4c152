//! The loop that makes calls for as long as it should, at no more than the rate allowed, and prints
//! a line now and then.

use crate::figures::{End, Figures};
use crate::random::Random;
use crate::settings::{Mode, Settings};
use ferrite_client::{Client, ClientError, OwnedResponse, ParameterSet, Prepared};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub type CallResult = Result<OwnedResponse, ClientError>;

/// Makes a call with these parameters, and keeps the note until it ends.
pub type MakeCall<'c, Note> = dyn FnMut(&Prepared, &dyn ParameterSet, Note) + 'c;

/// An application under load.
pub trait Application: Send + Sync + 'static {
    /// What is kept of a call until it ends.
    type Note: Send + 'static;

    /// Chooses the next call and hands it to `call`, once.
    fn next(&self, random: &mut Random, call: &mut MakeCall<'_, Self::Note>);

    /// Counts what became of a call, and says what that was.
    fn ended(&self, note: Self::Note, result: &CallResult) -> End;
}

/// The end of a call that gave no answer to look at.
pub fn failure(error: &ClientError) -> End {
    match error {
        error if error.is_outcome_unknown() => End::Unknown,
        ClientError::Failed(_) => End::Aborted,
        _ => End::Failed,
    }
}

/// Lets callers go on one after the other, at even distances. What was not used is not saved up.
struct Pace {
    between: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    fn new(calls_per_second: u64) -> Pace {
        Pace { between: Duration::from_nanos(1_000_000_000 / calls_per_second), next: Mutex::new(Instant::now()) }
    }

    fn wait(&self) {
        if self.between.is_zero() {
            return;
        }
        let mine = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = (*next).max(Instant::now());
            *next = mine + self.between;
            mine
        };
        while let Some(left) = mine.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            thread::sleep(left);
        }
    }
}

/// Runs the warm-up and the measured time, prints the lines and the report, and returns when every
/// call has ended.
pub fn run<A: Application>(
    application: &Arc<A>,
    client: &Client,
    settings: &Settings,
    (warmup, duration): (u64, u64),
    threads: usize,
) -> std::io::Result<()> {
    let figures = Arc::new(Figures::new());
    let pace = Pace::new(settings.ratelimit);
    let measured_from = Instant::now() + Duration::from_secs(warmup);
    let until = measured_from + Duration::from_secs(duration);
    let (over, ended) = channel::<()>();
    let (shown, latencies) = (Arc::clone(&figures), settings.latencyreport);
    let interval = Duration::from_secs(settings.displayinterval);
    thread::scope(|scope| -> std::io::Result<()> {
        let reporter = scope.spawn(move || {
            let wait = |time: Duration| ended.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
            if warmup > 0 && wait(measured_from.saturating_duration_since(Instant::now())) {
                return;
            }
            shown.begin();
            while !wait(interval) {
                println!("{}", shown.span(latencies));
            }
        });
        match settings.mode {
            Mode::Async => call_without_waiting(application, client, &figures, &pace, until),
            Mode::Sync => {
                let callers: Vec<_> = (0..threads)
                    .map(|_| scope.spawn(|| call_and_wait(application, client, &figures, &pace, until)))
                    .collect();
                callers.into_iter().for_each(|caller| caller.join().expect("a caller does not panic"));
            }
        }
        client.drain();
        drop(over);
        reporter.join().expect("the reporter does not panic");
        print!("{}", figures.report(settings.latencyreport, settings.statsfile.as_deref())?);
        Ok(())
    })
}

fn call_without_waiting<A: Application>(
    application: &Arc<A>,
    client: &Client,
    figures: &Arc<Figures>,
    pace: &Pace,
    until: Instant,
) {
    let mut random = Random::begin();
    while Instant::now() < until {
        pace.wait();
        application.next(&mut random, &mut |procedure, parameters, note| {
            let began = Instant::now();
            let (application, figures) = (Arc::clone(application), Arc::clone(figures));
            let told = client.call_with_callback(procedure, parameters, move |result| {
                let end = application.ended(note, &result);
                figures.count(end, began.elapsed());
            });
            told.expect("the client waits for room and is open");
        });
    }
}

fn call_and_wait<A: Application>(
    application: &Arc<A>,
    client: &Client,
    figures: &Arc<Figures>,
    pace: &Pace,
    until: Instant,
) {
    let mut random = Random::begin();
    while Instant::now() < until {
        pace.wait();
        application.next(&mut random, &mut |procedure, parameters, note| {
            let began = Instant::now();
            let result = client.call_prepared(procedure, parameters).wait();
            figures.count(application.ended(note, &result), began.elapsed());
        });
    }
}
