//! The load generator from end to end, against the yardstick's server in a thread.

use ferrite_bench::generator::Shape;
use ferrite_bench::load::{LoadPlan, LoadResult, Progress, run_load};
use ferrite_bench::options::VoteProcedure;
use ferrite_bench::voter_load::{Tally, VoterLoad};
use ferrite_bench::{limit_client, limit_server};
use ferrite_client::{Client, ClientOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const CONTESTANTS: u16 = 6;

/// The yardstick's server, in a thread that ends with the test. Returns its address.
fn limit_server() -> String {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let ready = move |address: std::net::SocketAddr| sender.send(address.to_string()).unwrap();
        limit_server::serve("127.0.0.1:0".parse().unwrap(), i32::from(CONTESTANTS), 0, ready)
    });
    receiver.recv().unwrap()
}

fn plan(address: &str, duration: Option<Duration>) -> LoadPlan {
    LoadPlan {
        address: address.to_string(),
        connections: 3,
        threads: 2,
        shape: Shape { outstanding: 50, rate: None, limiter: false, warmup: Duration::ZERO, duration },
        stop: Arc::new(AtomicBool::new(false)),
    }
}

fn votes(thread: usize) -> VoterLoad {
    VoterLoad::new(VoteProcedure::Psm, CONTESTANTS, 2, thread as u64)
}

/// All votes that were accepted are there, and every call was answered.
fn check(address: &str, result: &LoadResult<VoterLoad>) -> Tally {
    let tally = Tally::of(&result.workloads);
    let client = Client::connect(ClientOptions::new([address])).unwrap();
    let count = client.call_blocking("Count", ()).unwrap().scalar();
    assert_eq!(count, Some(tally.accepted_total() as i64));
    assert_eq!((tally.failed, result.unanswered, result.total.lost), (0, 0, 0));
    assert_eq!(result.first_failure, None);
    assert!(tally.accepted_total() > 0 && tally.accepted_total() + tally.invalid_contestant >= result.total.succeeded);
    tally
}

#[test]
fn closed_loop_in_two_threads() {
    let address = limit_server();
    let mut progress = Vec::new();
    let result = run_load(&plan(&address, Some(Duration::from_millis(2_200))), votes, |step| {
        progress.push(match step {
            Progress::MeasurementBegins => "begin".to_string(),
            Progress::Second(second, _) => second.to_string(),
            Progress::MeasurementEnds => "end".to_string(),
        });
    })
    .unwrap();
    assert_eq!(progress, ["begin", "0", "1", "end"]);
    assert_eq!(result.seconds.len(), 2);
    assert!(result.measured >= Duration::from_millis(2_200));
    let in_seconds: u64 = result.seconds.iter().map(|second| second.transactions).sum();
    assert!(result.total.succeeded >= in_seconds && in_seconds > 0);
    assert_eq!(result.total.latencies.len(), result.total.succeeded);
    assert!(result.client_cpu > Duration::ZERO);
    check(&address, &result);
}

#[test]
fn the_bare_client_counts_what_the_yardstick_counts() {
    let address = limit_server();
    let mut plan = plan(&address, Some(Duration::from_millis(1_300)));
    let mut progress = Vec::new();
    let result = limit_client::run(&plan, CONTESTANTS, 2, 1, |step| {
        progress.push(match step {
            Progress::MeasurementBegins => "begin".to_string(),
            Progress::Second(second, _) => second.to_string(),
            Progress::MeasurementEnds => "end".to_string(),
        });
    })
    .unwrap();
    assert_eq!(progress, ["begin", "0", "end"]);
    assert!(result.measured >= Duration::from_millis(1_300) && result.client_cpu > Duration::ZERO);
    assert_eq!(result.total.latencies.len(), result.total.succeeded);
    // What is answered after the end counts as voted, but not as measured.
    let limit_client::BareTally { accepted, over_limit, other } = result.workloads[0];
    assert!(accepted > 0 && accepted + over_limit >= result.total.succeeded);
    let client = Client::connect(ClientOptions::new([address.as_str()])).unwrap();
    assert_eq!((client.call_blocking("Count", ()).unwrap().scalar(), other), (Some(accepted as i64), 0));

    // With a warm-up, and told to stop before its time.
    (plan.shape.warmup, plan.shape.duration) = (Duration::from_secs(1), None);
    let stop = Arc::clone(&plan.stop);
    let result = limit_client::run(&plan, CONTESTANTS, 2, 2, |step| {
        if matches!(step, Progress::Second(-1, _)) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(result.is_ok());
}

#[test]
fn open_loop_keeps_its_schedule() {
    let address = limit_server();
    let mut plan = plan(&address, Some(Duration::from_secs(1)));
    plan.shape.rate = Some(2_000.0);
    plan.shape.outstanding = 100_000;
    let result = run_load(&plan, votes, |_| ()).unwrap();
    check(&address, &result);
    // All calls of the schedule are made, late or not; those still in flight at the end are not
    // measured.
    let made: u64 =
        result.workloads.iter().map(|load| load.tally.accepted_total() + load.tally.invalid_contestant).sum();
    assert!((1_900..=2_100).contains(&made), "{made}");
}

#[test]
fn a_limiter_leaves_out_what_finds_no_room() {
    let address = limit_server();
    let mut plan = plan(&address, Some(Duration::from_secs(1)));
    // Far more than one call at a time can be.
    (plan.shape.rate, plan.shape.limiter) = (Some(100_000_000.0), true);
    (plan.shape.outstanding, plan.connections, plan.threads) = (1, 1, 1);
    let result = run_load(&plan, votes, |_| ()).unwrap();
    check(&address, &result);
    // From the send, a call alone takes its own time; from a schedule it would be most of the
    // second.
    assert!(result.total.latency().p50 < 300_000, "{:?}", result.total.latency());
    let slow = LoadPlan { shape: Shape { rate: Some(1_000.0), outstanding: 100, ..plan.shape }, ..plan };
    let result = run_load(&slow, votes, |_| ()).unwrap();
    assert!((900..=1_100).contains(&result.total.succeeded), "{}", result.total.succeeded);
}

#[test]
fn stops_when_told_to() {
    let address = limit_server();
    let plan = plan(&address, None);
    let stop = Arc::clone(&plan.stop);
    let result = run_load(&plan, votes, |step| {
        if matches!(step, Progress::Second(0, _)) {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    check(&address, &result);
}

#[test]
fn a_server_that_is_not_there() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = run_load(&plan(&address, Some(Duration::from_secs(1))), votes, |_| ()).err().unwrap();
    assert!(error.to_string().contains(&address), "{error}");
}

#[test]
fn statements_that_the_server_does_not_know_are_failures() {
    let address = limit_server();
    let make = |thread: usize| VoterLoad::new(VoteProcedure::Statements, CONTESTANTS, 2, thread as u64);
    let result = run_load(&plan(&address, Some(Duration::from_millis(100))), make, |_| ()).unwrap();
    let tally = Tally::of(&result.workloads);
    assert_eq!((tally.accepted_total(), result.total.succeeded), (0, 0));
    assert!(tally.failed > 0 && result.total.failed > 0);
    assert!(result.first_failure.unwrap().contains("VoteStatements"));
}
