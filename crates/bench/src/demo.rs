//! `ferrite demo`: a server of its own on a temporary directory, or a cluster of some, Voter on it,
//! and a scoreboard.

mod nodes;

use crate::cluster::Cluster;
use crate::cluster_process::ClusterProcess;
use crate::error::{BenchError, BenchResult};
use crate::generator::Shape;
use crate::load::{LoadPlan, LoadResult, Progress, run_load};
use crate::measurement::{Latency, SecondSummary};
use crate::options::{DemoOptions, TargetOptions, VoteProcedure};
use crate::progress::with_progress;
use crate::random::seed_or_random;
use crate::report::{duration_text, grouped, ratio};
use crate::scoreboard::{Scoreboard, Scores, Wish};
use crate::session::{Environment, Session};
use crate::voter::{VoteCounts, compare, prepare};
use crate::voter_load::{Tally, VoterLoad};
use ferrite_value::OwnedValue;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const CONTESTANTS: u16 = 6;
const VOTES_MAX: i32 = 2;
/// Of a cluster.
const COPIES_BESIDE: u32 = 1;
/// How often the scoreboard is drawn and the votes are asked for.
const REFRESH: Duration = Duration::from_millis(250);
/// Of what has happened to the nodes, so much is shown.
const EVENTS_SHOWN: usize = 3;

/// Runs the demo to its end. Servers, their data and the screen are cleaned up whatever happens.
pub fn run_demo(environment: &Environment, options: &DemoOptions) -> BenchResult<()> {
    let target = TargetOptions { durability: options.durability.clone(), ..TargetOptions::default() };
    let (mut cluster, session) = match options.nodes {
        Some(count) => {
            ferrite_io::outln!("starting {count} servers on temporary directories ...");
            let target = TargetOptions { kfactor: COPIES_BESIDE, ..target };
            let mut cluster = ClusterProcess::start(&environment.executable, count as usize, &target)?;
            let session = Session::to_cluster(cluster.nodes().client_options())?;
            (Some(cluster), session)
        }
        None => {
            ferrite_io::outln!("starting a server on a temporary directory ...");
            (None, Session::open(environment, &target)?)
        }
    };
    prepare(&session, CONTESTANTS, false)?;
    let before = VoteCounts::read(&session)?;
    let result = run_with_display(environment, &session, options, cluster.as_mut().map(ClusterProcess::nodes))?;
    let votes = VoteCounts::read(&session)?;
    let contestants = contestants(&session)?;
    let summary = summary(&result, &contestants, votes.rows);
    session.close()?;
    let is_cluster = cluster.is_some();
    if let Some(cluster) = cluster {
        with_progress("stopping the cluster", || cluster.stop())?;
    }
    ferrite_io::outln!("{summary}");
    let findings = compare(&before, &votes, &Tally::of(&result.workloads));
    if !findings.is_empty() {
        return Err(BenchError::Wrong(findings));
    }
    ferrite_io::outln!("");
    ferrite_io::outln!("{}", farewell(is_cluster));
    Ok(())
}

fn farewell(is_cluster: bool) -> String {
    if is_cluster {
        return "That cluster and its data are gone. For one that stays, on one machine or on three: docs/cluster.md"
            .to_string();
    }
    // As the caller can type it: the program is rarely in the path yet.
    let program = std::env::args_os().next().unwrap_or_else(|| "ferrite".into());
    format!(
        "That server and its data are gone. For one that stays:  {} server --dir mydata --new\n\
         Clients connect to its port 21212: any VoltDB client, such as Python's voltdbclient or the JDBC driver\n\
         (jdbc:voltdb://localhost:21212), or the crate ferrite-client.",
        program.display()
    )
}

/// What is shown beside the load's own figures, by the threads that find it out.
struct Shown(Mutex<Showing>);

#[derive(Default)]
struct Showing {
    /// Name, number and votes, the leader first.
    contestants: Vec<(String, i64, u64)>,
    servers: String,
    /// What has happened, and how much of it has been shown in lines.
    events: Vec<String>,
    told: usize,
}

impl Shown {
    fn new(servers: String) -> Shown {
        Shown(Mutex::new(Showing { servers, ..Showing::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Showing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_event(&self, event: String) {
        self.lock().events.push(event);
    }

    fn describe(&self, servers: String) {
        self.lock().servers = servers;
    }

    /// The events that were not shown in lines.
    fn news(&self) -> Vec<String> {
        let mut showing = self.lock();
        let news = showing.events[showing.told..].to_vec();
        showing.told = showing.events.len();
        news
    }
}

/// The load, the questions for the votes and the display have threads of their own; this one lets
/// something happen to the nodes.
fn run_with_display(
    environment: &Environment,
    session: &Session,
    options: &DemoOptions,
    nodes: Option<&mut Cluster>,
) -> BenchResult<LoadResult<VoterLoad>> {
    let plan = LoadPlan {
        address: session.address().to_string(),
        connections: 1,
        threads: 1,
        shape: Shape {
            outstanding: options.outstanding as usize,
            rate: None,
            limiter: false,
            warmup: Duration::ZERO,
            duration: (!options.duration.is_zero()).then_some(options.duration),
        },
        stop: Arc::clone(&environment.stop),
    };
    let servers = match &nodes {
        Some(nodes) => nodes::described(nodes),
        None => session.process().map(|process| process.ready_line().to_string()).unwrap_or_default(),
    };
    let (sender, receiver) = channel();
    let (kill, kills) = channel();
    let kill = nodes.is_some().then_some(kill);
    let (end, ends) = channel::<()>();
    let shown = Shown::new(servers);
    // Without one of them the rest would run on for nobody.
    let or_stop = |result: BenchResult<()>| result.inspect_err(|_| environment.stop.store(true, Ordering::Relaxed));
    let seed = seed_or_random(None);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            let make = |_| VoterLoad::new(VoteProcedure::Psm, CONTESTANTS, VOTES_MAX, seed);
            // Moved in, so that the display sees the end when the load has ended, also by an error.
            let sender = sender;
            run_load(&plan, make, |progress| {
                if let Progress::Second(second, measurement) = progress {
                    let _ = sender.send(SecondSummary::new(second, measurement));
                }
            })
        });
        let shown = &shown;
        let or_stop = &or_stop;
        let asking = scope.spawn(move || or_stop(ask_for_votes(session, shown, &ends)));
        let display = Display { environment, session, options, shown, kill, started: Instant::now() };
        let displaying = scope.spawn(move || {
            // Moved in: when the display has ended, nobody is asked or killed any more.
            let display = display;
            let _end = end;
            let displayed = display.show(&receiver);
            // Without a display the load would run on for nobody.
            environment.stop.store(true, Ordering::Relaxed);
            displayed
        });
        // By this thread: a process ends with the thread that has started it.
        let lost = nodes.map_or(Ok(()), |nodes| or_stop(nodes::lose_leaders(nodes, session, options, &kills, shown)));
        let panicked = |what: &str| BenchError::Load(format!("the thread that {what} panicked"));
        let displayed = displaying.join().map_err(|_| panicked("shows"))?;
        let asked = asking.join().map_err(|_| panicked("asks for votes"))?;
        let result = load.join().map_err(|_| panicked("makes the load"))?;
        shown.news().iter().for_each(|event| ferrite_io::outln!("       {event}"));
        displayed.and(asked).and(lost).and(result)
    })
}

/// Until the other end of the channel is gone.
fn ask_for_votes(session: &Session, shown: &Shown, ends: &Receiver<()>) -> BenchResult<()> {
    loop {
        let found = contestants(session)?;
        shown.lock().contestants = found;
        if ends.recv_timeout(REFRESH) != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
}

struct Display<'d> {
    environment: &'d Environment,
    session: &'d Session,
    options: &'d DemoOptions,
    shown: &'d Shown,
    /// Kills the leader of a cluster. When it is gone, none is killed any more.
    kill: Option<Sender<()>>,
    started: Instant,
}

impl Display<'_> {
    fn hint(&self) -> String {
        format!("clients can connect to {} while this runs", self.session.address().replace(',', ", "))
    }

    fn show(&self, receiver: &Receiver<SecondSummary>) -> BenchResult<()> {
        if std::io::stdout().is_terminal() && !self.options.plain {
            self.scoreboard(receiver)
        } else {
            self.lines(receiver)
        }
    }

    /// One line a second.
    fn lines(&self, receiver: &Receiver<SecondSummary>) -> BenchResult<()> {
        ferrite_io::outln!("{}\n{}", self.shown.lock().servers, self.hint());
        while let Ok(second) = receiver.recv() {
            self.shown.news().iter().for_each(|event| ferrite_io::outln!("       {event}"));
            let contestants = self.shown.lock().contestants.clone();
            let total: u64 = contestants.iter().map(|(_, _, votes)| votes).sum();
            let leader = contestants.first().map(|(name, _, votes)| format!("{name} leads with {}", grouped(*votes)));
            ferrite_io::outln!(
                "{:>4} s {:>10} transactions/s   p50 {:>8}  p99 {:>8}   {} votes, {}",
                second.second + 1,
                grouped(second.transactions),
                duration_text(second.p50 as f64),
                duration_text(second.p99 as f64),
                grouped(total),
                leader.unwrap_or_default()
            );
        }
        Ok(())
    }

    /// The live board, until the load ends or the user wants no more.
    fn scoreboard(&self, receiver: &Receiver<SecondSummary>) -> BenchResult<()> {
        let duration = (!self.options.duration.is_zero()).then_some(self.options.duration);
        let keys = if self.kill.is_some() { "; k kills the leader" } else { "" };
        let mut scores = Scores { hint: self.hint(), keys: keys.to_string(), duration, ..Scores::default() };
        let mut board = Scoreboard::open()?;
        loop {
            loop {
                match receiver.recv_timeout(Duration::ZERO) {
                    Ok(second) => {
                        scores.transactions.push(second.transactions);
                        (scores.p50, scores.p99) = (second.p50, second.p99);
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
            scores.elapsed = self.started.elapsed();
            {
                let showing = self.shown.lock();
                (scores.contestants, scores.server) = (showing.contestants.clone(), showing.servers.clone());
                scores.events = showing.events[showing.events.len().saturating_sub(EVENTS_SHOWN)..].to_vec();
            }
            board.draw(&scores)?;
            match board.wish(REFRESH)? {
                Some(Wish::End) => self.environment.stop.store(true, Ordering::Relaxed),
                Some(Wish::Kill) => drop(self.kill.as_ref().map(|kill| kill.send(()))),
                None => {}
            }
        }
    }
}

/// Name, number and votes, the leader first. Contestants without votes are not among them.
fn contestants(session: &Session) -> BenchResult<Vec<(String, i64, u64)>> {
    let tables = session.read("Results", ())?;
    let rows = tables.first().map(|table| table.rows.as_slice()).unwrap_or_default();
    let contestants = rows.iter().filter_map(|row| match row.as_slice() {
        [OwnedValue::Text(name), OwnedValue::Integer(number), OwnedValue::Integer(votes)] => {
            Some((name.to_string(), *number, *votes as u64))
        }
        _ => None,
    });
    Ok(contestants.collect())
}

fn summary(result: &LoadResult<VoterLoad>, contestants: &[(String, i64, u64)], rows: i64) -> String {
    let Latency { average, p50, p99, max, .. } = result.total.latency();
    let per_second = ratio(result.total.succeeded as f64, result.measured.as_secs_f64());
    let tally = Tally::of(&result.workloads);
    let accepted = tally.accepted_total();
    let unknown = tally.unknown.iter().sum();
    let counted = match unknown {
        0 => "and as many rows counted in the table and its views".to_string(),
        unknown => format!(
            "and {} rows counted in the table and its views: of {} calls without an answer {} were executed",
            grouped(rows as u64),
            grouped(unknown),
            grouped((rows as u64).saturating_sub(accepted))
        ),
    };
    let mut text = format!(
        "{} transactions in {:.1} s: {} per second\nlatency average {}, p50 {}, p99 {}, max {}\n\
         {} votes accepted, {counted}\n",
        grouped(result.total.succeeded),
        result.measured.as_secs_f64(),
        grouped(per_second.round() as u64),
        duration_text(average),
        duration_text(p50 as f64),
        duration_text(p99 as f64),
        duration_text(max as f64),
        grouped(accepted),
    );
    for (place, (name, _, votes)) in contestants.iter().enumerate() {
        text.push_str(&format!("\n{:>3}. {name:<20} {:>14}", place + 1, grouped(*votes)));
    }
    text
}
