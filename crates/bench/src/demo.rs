//! `ferrite demo`: a server of its own on a temporary directory, Voter on it, and a scoreboard.

use crate::error::{BenchError, BenchResult};
use crate::generator::Shape;
use crate::load::{LoadPlan, LoadResult, Progress, run_load};
use crate::measurement::{Latency, SecondSummary};
use crate::options::{DemoOptions, TargetOptions, VoteProcedure};
use crate::random::seed_or_random;
use crate::report::{duration_text, grouped, ratio};
use crate::scoreboard::{Scoreboard, Scores};
use crate::session::{Environment, Session};
use crate::voter::{VoteCounts, prepare};
use crate::voter_load::{Tally, VoterLoad};
use ferrite_value::OwnedValue;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const CONTESTANTS: u16 = 6;
const VOTES_MAX: i32 = 2;
/// How often the scoreboard is drawn and the votes are asked for.
const REFRESH: Duration = Duration::from_millis(250);

/// Runs the demo to its end. The server, its data and the screen are cleaned up whatever happens.
pub fn run_demo(environment: &Environment, options: &DemoOptions) -> BenchResult<()> {
    println!("starting a server on a temporary directory ...");
    let target = TargetOptions { durability: options.durability.clone(), ..TargetOptions::default() };
    let session = Session::open(environment, &target)?;
    prepare(&session, CONTESTANTS, false)?;
    let result = run_with_display(environment, &session, options)?;
    let votes = VoteCounts::read(&session)?;
    let contestants = contestants(&session)?;
    let summary = summary(&result, &contestants, votes.rows);
    session.close()?;
    println!("{summary}");
    let accepted = Tally::of(&result.workloads).accepted_total();
    if votes.rows != accepted as i64 || votes.by_phone_view != votes.rows {
        let found = format!("{accepted} votes were accepted, {} are there", votes.rows);
        return Err(BenchError::Wrong(vec![found]));
    }
    println!();
    // As the caller can type it: the program is rarely in the path yet.
    let program = std::env::args_os().next().unwrap_or_else(|| "ferrite".into());
    println!("That server and its data are gone. For one that stays:  {} server --dir mydata", program.display());
    println!("Clients connect to its port 21212: any VoltDB client, such as Python's voltdbclient or the JDBC driver");
    println!("(jdbc:voltdb://localhost:21212), or the crate ferrite-client.");
    Ok(())
}

/// The load runs in a thread of its own; this one shows what comes of it.
fn run_with_display(
    environment: &Environment,
    session: &Session,
    options: &DemoOptions,
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
    let (sender, receiver) = channel();
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
        let display = Display { environment, session, options, started: Instant::now() };
        let shown = if std::io::stdout().is_terminal() && !options.plain {
            display.scoreboard(&receiver)
        } else {
            display.lines(&receiver)
        };
        // Without a display the load would run on for nobody.
        environment.stop.store(true, Ordering::Relaxed);
        let result = load.join().map_err(|_| BenchError::Load("the load thread panicked".to_string()))?;
        shown.and(result)
    })
}

struct Display<'d> {
    environment: &'d Environment,
    session: &'d Session,
    options: &'d DemoOptions,
    started: Instant,
}

impl Display<'_> {
    fn hint(&self) -> String {
        format!("clients can connect to {} while this runs", self.session.address())
    }

    fn server(&self) -> String {
        self.session.process().map(|process| process.ready_line().to_string()).unwrap_or_default()
    }

    /// One line a second.
    fn lines(&self, receiver: &Receiver<SecondSummary>) -> BenchResult<()> {
        println!("{}\n{}", self.server(), self.hint());
        while let Ok(second) = receiver.recv() {
            let contestants = contestants(self.session)?;
            let total: u64 = contestants.iter().map(|(_, _, votes)| votes).sum();
            let leader = contestants.first().map(|(name, _, votes)| format!("{name} leads with {}", grouped(*votes)));
            println!(
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
        let mut scores = Scores { server: self.server(), hint: self.hint(), duration, ..Scores::default() };
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
            scores.contestants = contestants(self.session)?;
            board.draw(&scores)?;
            if board.wants_to_end(REFRESH)? {
                self.environment.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Name, number and votes, the leader first. Contestants without votes are not among them.
fn contestants(session: &Session) -> BenchResult<Vec<(String, i64, u64)>> {
    let tables = session.call("Results", ())?;
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
    let mut text = format!(
        "{} transactions in {:.1} s: {} per second\nlatency average {}, p50 {}, p99 {}, max {}\n\
         {} votes accepted, and as many rows counted in the table and its views\n",
        grouped(result.total.succeeded),
        result.measured.as_secs_f64(),
        grouped(per_second.round() as u64),
        duration_text(average),
        duration_text(p50 as f64),
        duration_text(p99 as f64),
        duration_text(max as f64),
        grouped(rows as u64),
    );
    for (place, (name, _, votes)) in contestants.iter().enumerate() {
        text.push_str(&format!("\n{:>3}. {name:<20} {:>14}", place + 1, grouped(*votes)));
    }
    text
}
