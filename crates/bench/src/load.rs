//! Runs generators in their threads and collects what they measure.

use crate::error::{BenchError, BenchResult, Doing};
use crate::generator::{FinishedSecond, Generator, InFlight, Shape, Workload};
use crate::measurement::{Measurement, SecondSummary};
use ferrite_client::event_loop::LoginInfo;
use ferrite_client::event_loop::Turn;
use ferrite_client::event_loop::{Driver, DriverOptions, Handler, Links, Response};
use ferrite_client::{ClientError, Credentials};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How much load, from where.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Of a server, or of a cluster's nodes, separated by commas: each call goes to the node that
    /// leads its partition then.
    pub address: String,
    /// To each of them.
    pub connections: usize,
    pub threads: usize,
    /// All threads together.
    pub shape: Shape,
    pub stop: Arc<AtomicBool>,
}

/// What happens during a load, told to whoever watches it.
pub enum Progress<'a> {
    /// The warm-up is over.
    MeasurementBegins,
    /// A second is complete in all threads. Warm-up seconds are negative.
    Second(i64, &'a Measurement),
    MeasurementEnds,
}

/// What came of a load.
pub struct LoadResult<W> {
    /// All measured seconds together.
    pub total: Measurement,
    pub seconds: Vec<SecondSummary>,
    pub measured: Duration,
    pub client_cpu: Duration,
    /// One for each thread, with what it counted, warm-up and end included.
    pub workloads: Vec<W>,
    pub unanswered: u64,
    pub first_failure: Option<String>,
}

/// Connects, runs the load to its end, and returns what was measured. `make` makes the workload of
/// each thread.
pub fn run_load<W: Workload>(
    plan: &LoadPlan,
    mut make: impl FnMut(usize) -> W,
    mut watch: impl FnMut(Progress<'_>),
) -> BenchResult<LoadResult<W>> {
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let mut drivers = Vec::new();
    for thread in 0..threads {
        // Connections and outstanding calls are divided as evenly as they go.
        let share = |whole: usize| (whole * (thread + 1) / threads - whole * thread / threads).max(1);
        let driver = connect::<InFlight<W::Note>>(&plan.address, share(plan.connections), plan.shape.rate.is_some())?;
        let rate = plan.shape.rate.map(|rate| rate / threads as f64);
        drivers.push((driver, Shape { outstanding: share(plan.shape.outstanding), rate, ..plan.shape }));
    }
    let to_leaders = plan.address.contains(',');
    let epoch = Instant::now();
    let (sender, receiver) = channel();
    let mut running = Vec::new();
    for (thread, (mut driver, shape)) in drivers.into_iter().enumerate() {
        let workload = make(thread);
        let stop = Arc::clone(&plan.stop);
        let sender = sender.clone();
        let run = move || {
            let mut generator = Generator::new(workload, shape, epoch, stop, sender);
            if to_leaders {
                generator = generator.to_leaders();
            }
            let result = driver.run(&mut generator);
            let unanswered = generator.unanswered();
            driver.close(&mut generator);
            (result, generator.workload, generator.cpu.used(), unanswered, generator.first_failure)
        };
        let builder = thread::Builder::new().name(format!("load-{thread}"));
        running.push(builder.spawn(run).doing("starting a load thread")?);
    }
    drop(sender);
    let (total, seconds, measured) = collect(&receiver, threads, plan.shape.warmup, epoch, &mut watch);
    watch(Progress::MeasurementEnds);

    let mut result = LoadResult {
        total,
        seconds,
        measured,
        client_cpu: Duration::ZERO,
        workloads: Vec::new(),
        unanswered: 0,
        first_failure: None,
    };
    for thread in running {
        let (end, workload, cpu, unanswered, first_failure) =
            thread.join().map_err(|_| BenchError::Load("a load thread panicked".to_string()))?;
        end.doing("running the load")?;
        result.workloads.push(workload);
        result.client_cpu += cpu;
        result.unanswered += unanswered as u64;
        result.first_failure = result.first_failure.or(first_failure);
    }
    Ok(result)
}

/// Merges the seconds of all threads, in order. Returns the sum, the seconds and the time measured.
fn collect(
    receiver: &Receiver<FinishedSecond>,
    threads: usize,
    warmup: Duration,
    epoch: Instant,
    watch: &mut impl FnMut(Progress<'_>),
) -> (Measurement, Vec<SecondSummary>, Duration) {
    let mut open: BTreeMap<i64, (Measurement, usize)> = BTreeMap::new();
    let mut total = Measurement::default();
    let mut seconds = Vec::new();
    let mut running = threads;
    if warmup.as_secs() == 0 {
        watch(Progress::MeasurementBegins);
    }
    let mut measured = Duration::ZERO;
    while let Ok(finished) = receiver.recv() {
        if finished.second >= 0 {
            total.merge(&finished.measurement);
        }
        if let Some(ended) = finished.ended {
            // Less than a whole second: part of the sum, but no second to compare with others.
            measured = measured.max(ended.saturating_duration_since(epoch + Duration::from_secs(warmup.as_secs())));
            running -= 1;
            if running == 0 {
                break;
            }
            continue;
        }
        let entry = open.entry(finished.second).or_default();
        entry.0.merge(&finished.measurement);
        entry.1 += 1;
        if entry.1 == threads {
            let (measurement, _) = open.remove(&finished.second).expect("the entry was just made");
            watch(Progress::Second(finished.second, &measurement));
            if finished.second >= 0 {
                seconds.push(SecondSummary::new(finished.second, &measurement));
            } else if finished.second == -1 {
                watch(Progress::MeasurementBegins);
            }
        }
    }
    (total, seconds, measured)
}

/// A driver whose connections are up: all of one server, those of a cluster whose nodes are there.
fn connect<C>(address: &str, connections: usize, precise_timer: bool) -> BenchResult<Driver<C>> {
    let addresses: Vec<String> = address.split(',').map(str::to_string).collect();
    let every = addresses.len() == 1;
    let options = DriverOptions {
        addresses,
        connections_per_address: connections,
        credentials: Credentials::default(),
        connection_timeout: Duration::from_secs(120),
        reconnect_pause: Duration::from_millis(100),
        reconnect_pause_max: Duration::from_secs(1),
        precise_timer,
    };
    let mut driver = Driver::new(options).doing("setting up connections")?;
    let failures = vec![None; driver.links().len()];
    let mut connecting = Connecting { failures, context: PhantomData };
    driver.run(&mut connecting).doing("connecting")?;
    let failure = connecting.failures.into_iter().flatten().next();
    match failure {
        Some(reason) if every || driver.links().up_count() == 0 => {
            Err(BenchError::Call { doing: "connecting".to_string(), reason })
        }
        _ => Ok(driver),
    }
}

/// Ends as soon as each connection is up or has failed once.
struct Connecting<C> {
    failures: Vec<Option<ClientError>>,
    context: PhantomData<C>,
}

impl<C> Handler for Connecting<C> {
    type Context = C;

    fn turn(&mut self, links: &mut Links<C>, _now: Instant) -> Turn {
        let is_settled = |link: usize| self.failures[link].is_some() || links.get(link).is_some();
        if (0..self.failures.len()).all(is_settled) { Turn::Stop } else { Turn::Wait(None) }
    }

    fn response(&mut self, _link: usize, _context: C, _response: &Response<'_>, _at: Instant) {}

    fn lost(&mut self, _link: usize, _context: C, _reason: &ClientError) {}

    fn connected(&mut self, _link: usize, _login: &LoginInfo) {}

    fn disconnected(&mut self, link: usize, reason: &ClientError) {
        self.failures[link] = Some(reason.clone());
    }
}
