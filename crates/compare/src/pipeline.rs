//! Load on another database over its own protocol: one thread, some connections, on each as many
//! calls without an answer as wanted. The counterpart of [`ferrite_bench::generator`], so that no
//! system is measured through a slower client than ours.
//!
//! Knows sockets and time; a [`Dialect`] knows bytes.

use ferrite_bench::error::{BenchError, BenchResult, Doing};
use ferrite_bench::generator::LoadOutcome;
use ferrite_bench::measurement::{Measurement, SecondSummary};
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const READ_BYTES: usize = 256 * 1024;
/// How long calls may take that are outstanding when the load ends.
const DRAIN_SECONDS_MAX: u64 = 60;
/// So long the loop sleeps at most, to see the end of a second in which nothing comes.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Calls and answers of one system as bytes.
pub trait Dialect {
    /// What is to be known about a call when its answer comes.
    type Note: Copy;

    /// A connection on which calls can be sent: logged in, statements prepared. Blocking.
    fn open(&self) -> BenchResult<TcpStream>;

    /// The next call.
    fn call(&mut self, out: &mut Vec<u8>) -> Self::Note;

    /// Bytes of the first answer in `bytes`. None while it is not whole.
    fn length(&self, bytes: &[u8]) -> BenchResult<Option<usize>>;

    /// What the answer means.
    fn completed(&mut self, note: Self::Note, answer: &[u8]) -> LoadOutcome;
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub connections: usize,
    /// All connections together.
    pub outstanding: usize,
    pub warmup: Duration,
    pub duration: Duration,
}

/// What came of it. All calls have been answered.
pub struct Driven {
    pub total: Measurement,
    pub seconds: Vec<SecondSummary>,
    pub measured: Duration,
    pub client_cpu: Duration,
}

/// The moments at which a load asks others to note something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    MeasurementBegins,
    MeasurementEnds,
}

struct Link<N> {
    stream: mio::net::TcpStream,
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    /// When each call was sent, and its note.
    pending: VecDeque<(Instant, N)>,
}

pub fn drive<D: Dialect>(
    dialect: &mut D,
    plan: Plan,
    stop: &AtomicBool,
    mut watch: impl FnMut(Moment),
) -> BenchResult<Driven> {
    let mut poll = Poll::new().doing("making an event loop")?;
    let mut links = Vec::new();
    for number in 0..plan.connections {
        let stream = dialect.open()?;
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).doing("setting up a connection")?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(number), interest).doing("watching a connection")?;
        links.push(Link { stream, out: Vec::new(), written: 0, input: Vec::new(), pending: VecDeque::new() });
    }
    let per_link = (plan.outstanding / plan.connections.max(1)).max(1);
    let mut clock = Clock::new(plan);
    let mut events = Events::with_capacity(256);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let now = Instant::now();
        clock.advance(now, &mut watch);
        let sending = now < clock.end && !stop.load(Ordering::Relaxed);
        if !sending {
            clock.finish(now, &mut watch);
            if links.iter().all(|link| link.pending.is_empty()) {
                return Ok(clock.driven());
            }
            if now > clock.end + Duration::from_secs(DRAIN_SECONDS_MAX) {
                return Err(BenchError::Load(format!("calls were not answered within {DRAIN_SECONDS_MAX} s")));
            }
        }
        for link in &mut links {
            while sending && link.pending.len() < per_link {
                let note = dialect.call(&mut link.out);
                link.pending.push_back((now, note));
            }
            flush(link)?;
        }
        match poll.poll(&mut events, Some(SLEEP_MAX)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error).doing("waiting for answers"),
            _ => {}
        }
        for event in &events {
            let link = &mut links[event.token().0];
            if event.is_readable() {
                read(dialect, link, &mut buffer, &mut clock.current)?;
            }
        }
    }
}

fn flush<N>(link: &mut Link<N>) -> BenchResult<()> {
    while link.written < link.out.len() {
        match link.stream.write(&link.out[link.written..]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)).doing("sending calls"),
            Ok(bytes) => link.written += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).doing("sending calls"),
        }
    }
    link.out.clear();
    link.written = 0;
    Ok(())
}

/// Everything that has come.
fn read<D: Dialect>(
    dialect: &mut D,
    link: &mut Link<D::Note>,
    buffer: &mut [u8],
    current: &mut Measurement,
) -> BenchResult<()> {
    loop {
        match link.stream.read(buffer) {
            Ok(0) => return Err(BenchError::Load("the database closed a connection".to_string())),
            Ok(bytes) => link.input.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).doing("reading answers"),
        }
        let now = Instant::now();
        let mut taken = 0;
        while let Some(length) = dialect.length(&link.input[taken..])? {
            let Some((sent, note)) = link.pending.pop_front() else {
                return Err(BenchError::Load("an answer came that nobody had asked for".to_string()));
            };
            let outcome = dialect.completed(note, &link.input[taken..taken + length]);
            taken += length;
            record(current, now.saturating_duration_since(sent), outcome);
        }
        link.input.drain(..taken);
    }
}

/// Counts one answer.
pub fn record(current: &mut Measurement, latency: Duration, outcome: LoadOutcome) {
    current.record_latency(latency.as_nanos() as u64);
    match outcome {
        LoadOutcome::Succeeded { payload_bytes } => {
            current.succeeded += 1;
            current.payload_bytes += payload_bytes;
        }
        LoadOutcome::Aborted => current.aborted += 1,
        LoadOutcome::Failed => current.failed += 1,
    }
}

/// Which second it is, and what was measured so far.
pub struct Clock {
    pub current: Measurement,
    total: Measurement,
    seconds: Vec<SecondSummary>,
    begin: Instant,
    pub end: Instant,
    second_end: Instant,
    second: i64,
    warm: bool,
    ended: Option<(Duration, Duration)>,
    cpu_before: Duration,
}

impl Clock {
    pub fn new(plan: Plan) -> Clock {
        let begin = Instant::now() + plan.warmup;
        Clock {
            current: Measurement::default(),
            total: Measurement::default(),
            seconds: Vec::new(),
            begin,
            end: begin + plan.duration,
            second_end: begin + Duration::from_secs(1),
            second: 0,
            warm: false,
            ended: None,
            cpu_before: Duration::ZERO,
        }
    }

    pub fn advance(&mut self, now: Instant, watch: &mut impl FnMut(Moment)) {
        if !self.warm && now >= self.begin {
            self.warm = true;
            self.current = Measurement::default();
            self.cpu_before = thread_cpu();
            watch(Moment::MeasurementBegins);
        }
        while self.ended.is_none() && now >= self.second_end && self.second_end <= self.end {
            let measurement = std::mem::take(&mut self.current);
            self.seconds.push(SecondSummary::new(self.second, &measurement));
            self.total.merge(&measurement);
            self.second += 1;
            self.second_end += Duration::from_secs(1);
        }
    }

    /// The measurement is over; only the first call counts.
    pub fn finish(&mut self, now: Instant, watch: &mut impl FnMut(Moment)) {
        if self.ended.is_some() {
            return;
        }
        if self.warm {
            self.total.merge(&std::mem::take(&mut self.current));
        }
        self.ended = Some((now.saturating_duration_since(self.begin), thread_cpu().saturating_sub(self.cpu_before)));
        watch(Moment::MeasurementEnds);
    }

    pub fn driven(self) -> Driven {
        let (measured, client_cpu) = self.ended.unwrap_or_default();
        Driven { total: self.total, seconds: self.seconds, measured, client_cpu }
    }
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers are the calls themselves: a byte that tells the length, and this many bytes.
    struct Echo {
        address: std::net::SocketAddr,
        called: u8,
        wrong: u64,
    }

    impl Dialect for Echo {
        type Note = u8;

        fn open(&self) -> BenchResult<TcpStream> {
            TcpStream::connect(self.address).doing("connecting")
        }

        fn call(&mut self, out: &mut Vec<u8>) -> u8 {
            self.called = self.called.wrapping_add(1);
            out.push(self.called);
            out.extend(std::iter::repeat_n(self.called, usize::from(self.called)));
            self.called
        }

        fn length(&self, bytes: &[u8]) -> BenchResult<Option<usize>> {
            let length = bytes.first().map(|length| 1 + usize::from(*length));
            Ok(length.filter(|length| *length <= bytes.len()))
        }

        fn completed(&mut self, note: u8, answer: &[u8]) -> LoadOutcome {
            self.wrong += u64::from(answer.len() != 1 + usize::from(note) || answer.iter().any(|byte| *byte != note));
            LoadOutcome::Succeeded { payload_bytes: 0 }
        }
    }

    #[test]
    fn every_call_has_its_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut copy = stream.try_clone().unwrap();
                    let _ = io::copy(&mut stream, &mut copy);
                });
            }
        });
        let mut echo = Echo { address, called: 0, wrong: 0 };
        let plan = Plan {
            connections: 3,
            outstanding: 100,
            warmup: Duration::from_millis(100),
            duration: Duration::from_millis(1_100),
        };
        let mut moments = Vec::new();
        let driven = drive(&mut echo, plan, &AtomicBool::new(false), |moment| moments.push(moment)).unwrap();
        assert_eq!(moments, [Moment::MeasurementBegins, Moment::MeasurementEnds]);
        assert_eq!((echo.wrong, driven.seconds.len()), (0, 1));
        assert!(driven.total.succeeded > 0 && driven.total.latencies.len() == driven.total.succeeded);
        assert!(driven.total.succeeded >= driven.seconds[0].transactions && driven.measured >= plan.duration);
    }
}
