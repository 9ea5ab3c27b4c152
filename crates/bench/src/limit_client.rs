//! The yardstick's client: writes votes as bytes and counts the answers. No procedure, no
//! parameters, no handles to look up: what a client can do at most. Answers come in the order of
//! their calls, so latency is taken once for all calls of a write.

use crate::area_codes::area_codes;
use crate::error::{BenchError, BenchResult, Doing};
use crate::generator::CpuWindow;
use crate::limit_server::{ANSWER_BYTES, VoteCall};
use crate::load::{LoadPlan, LoadResult, Progress};
use crate::measurement::{Measurement, SecondSummary};
use crate::random::FastRandom;
use ferrite_wire::{HashScheme, LoginRequest, LoginResponse, Service, frame};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const RECEIVE_BYTES: usize = 256 * 1024;
/// A write begins at the latest when so much is there for it.
const SEND_BYTES: usize = 128 * 1024;
/// A server that is silent for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const PHONES_PER_AREA: u32 = 10_000_000;
/// More calls without an answer than this might fill the buffers of both directions, with both
/// sides waiting to write.
pub const OUTSTANDING_MAX: u32 = 4096;

/// What the server has said, by the numbers that `Vote` answers with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BareTally {
    pub accepted: u64,
    pub over_limit: u64,
    pub other: u64,
}

/// Votes for contestants 1 to `contestants`, over one connection, as fast as answers come. Seconds
/// and their sum are as those of [`crate::load::run_load`].
pub fn run(
    plan: &LoadPlan,
    contestants: u16,
    votes_max: i32,
    seed: u64,
    mut watch: impl FnMut(Progress<'_>),
) -> BenchResult<LoadResult<BareTally>> {
    let mut stream = connect(&plan.address)?;
    let areas: Vec<i64> = area_codes().iter().map(|area| i64::from(area.code) * i64::from(PHONES_PER_AREA)).collect();
    let mut random = FastRandom::new(seed);
    let mut input = vec![0; RECEIVE_BYTES];
    let mut filled = 0;
    let mut out = Vec::with_capacity(SEND_BYTES + 1024);
    let mut sent = 0u64;
    let mut got = 0u64;
    // How many had been sent after each write, and when that was.
    let mut writes: VecDeque<(u64, Instant)> = VecDeque::new();
    let mut seconds = Seconds::new(plan, &mut watch);
    let mut tally = BareTally::default();
    loop {
        let now = Instant::now();
        let over = seconds.roll(now, &mut watch);
        if over && got == sent {
            break;
        }
        while !over && sent - got < plan.shape.outstanding as u64 && out.len() < SEND_BYTES {
            let area = areas[random.below(areas.len() as u32) as usize];
            let phone = area + i64::from(random.below(PHONES_PER_AREA));
            let contestant = 1 + random.below(u32::from(contestants)) as i32;
            VoteCall { handle: sent.to_be_bytes(), phone, contestant, votes_max }.write(&mut out);
            sent += 1;
        }
        if !out.is_empty() {
            stream.write_all(&out).doing("writing votes")?;
            out.clear();
            writes.push_back((sent, now));
        }
        let bytes = stream.read(&mut input[filled..]).doing("reading answers")?;
        if bytes == 0 {
            return Err(BenchError::Server("the yardstick closed the connection".to_string()));
        }
        filled += bytes;
        let whole = filled - filled % ANSWER_BYTES;
        input[..whole].chunks_exact(ANSWER_BYTES).for_each(|answer| tally.count(answer));
        input.copy_within(whole..filled, 0);
        filled -= whole;
        let answered = (whole / ANSWER_BYTES) as u64;
        if !over {
            seconds.current.succeeded += answered;
            record_latencies(&mut seconds.current, &mut writes, got, got + answered);
        }
        got += answered;
    }
    let Seconds { total, summaries, measured, cpu, .. } = seconds;
    Ok(LoadResult {
        total,
        seconds: summaries,
        measured,
        client_cpu: cpu.used(),
        workloads: vec![tally],
        unanswered: 0,
        first_failure: None,
    })
}

fn connect(address: &str) -> BenchResult<TcpStream> {
    let mut stream = TcpStream::connect(address).doing(format_args!("connecting to {address}"))?;
    stream.set_nodelay(true).doing("setting up the connection")?;
    stream.set_read_timeout(Some(SILENCE_MAX)).doing("setting up the connection")?;
    stream.set_write_timeout(Some(SILENCE_MAX)).doing("setting up the connection")?;
    log_in(&mut stream)?;
    Ok(stream)
}

impl BareTally {
    /// One answer to a vote, whole.
    fn count(&mut self, answer: &[u8]) {
        match answer[ANSWER_BYTES - 8..] {
            [0, 0, 0, 0, 0, 0, 0, 0] => self.accepted += 1,
            [0, 0, 0, 0, 0, 0, 0, 2] => self.over_limit += 1,
            _ => self.other += 1,
        }
    }
}

/// Each call waited from its write to now.
fn record_latencies(measurement: &mut Measurement, writes: &mut VecDeque<(u64, Instant)>, mut from: u64, to: u64) {
    let now = Instant::now();
    while from < to {
        let Some(&(end, at)) = writes.front() else { return };
        let until = end.min(to);
        let microseconds = now.saturating_duration_since(at).as_micros() as u64;
        measurement.latencies.saturating_record_n(microseconds, until - from);
        if until == end {
            writes.pop_front();
        }
        from = until;
    }
}

fn log_in(stream: &mut TcpStream) -> BenchResult<()> {
    // The yardstick asks for no password.
    let digest = [0; 32];
    let request =
        LoginRequest { version: 1, scheme: HashScheme::Sha256, service: Service::Database, user: "", digest: &digest };
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    stream.write_all(&bytes).doing("logging in")?;
    bytes.clear();
    loop {
        let mut part = [0; 256];
        let read = stream.read(&mut part).doing("logging in")?;
        bytes.extend_from_slice(&part[..read]);
        let refused = || BenchError::Server("the yardstick refused the login".to_string());
        match frame::split(&bytes).map_err(|_| refused())? {
            Some((_, body)) => {
                return match LoginResponse::parse(body) {
                    Ok(LoginResponse::Accepted(_)) => Ok(()),
                    _ => Err(refused()),
                };
            }
            None if read == 0 => return Err(refused()),
            None => {}
        }
    }
}

/// The seconds of a run; those of the warm-up are negative.
struct Seconds<'p> {
    plan: &'p LoadPlan,
    current: Measurement,
    second: i64,
    second_end: Instant,
    load_end: Option<Instant>,
    began: Instant,
    over: bool,
    total: Measurement,
    summaries: Vec<SecondSummary>,
    measured: Duration,
    cpu: CpuWindow,
}

impl<'p> Seconds<'p> {
    fn new(plan: &'p LoadPlan, watch: &mut impl FnMut(Progress<'_>)) -> Seconds<'p> {
        let warmup = plan.shape.warmup.as_secs();
        let now = Instant::now();
        let mut seconds = Seconds {
            plan,
            current: Measurement::default(),
            second: -(warmup as i64),
            second_end: now + Duration::from_secs(1),
            load_end: plan.shape.duration.map(|duration| now + Duration::from_secs(warmup) + duration),
            began: now,
            over: false,
            total: Measurement::default(),
            summaries: Vec::new(),
            measured: Duration::ZERO,
            cpu: CpuWindow::default(),
        };
        if warmup == 0 {
            seconds.begin(now, watch);
        }
        seconds
    }

    fn begin(&mut self, now: Instant, watch: &mut impl FnMut(Progress<'_>)) {
        self.began = now;
        self.cpu.begin();
        watch(Progress::MeasurementBegins);
    }

    /// Ends seconds that have passed; whether the load is over.
    #[inline]
    fn roll(&mut self, now: Instant, watch: &mut impl FnMut(Progress<'_>)) -> bool {
        if self.over {
            return true;
        }
        while now >= self.second_end {
            watch(Progress::Second(self.second, &self.current));
            let finished = std::mem::take(&mut self.current);
            if self.second >= 0 {
                self.total.merge(&finished);
                self.summaries.push(SecondSummary::new(self.second, &finished));
            }
            self.second += 1;
            self.second_end += Duration::from_secs(1);
            if self.second == 0 {
                self.begin(now, watch);
            }
        }
        if self.plan.stop.load(Ordering::Relaxed) || self.load_end.is_some_and(|end| now >= end) {
            self.over = true;
            if self.second >= 0 {
                self.total.merge(&std::mem::take(&mut self.current));
                self.measured = now - self.began;
                self.cpu.end();
            }
            watch(Progress::MeasurementEnds);
        }
        self.over
    }
}
