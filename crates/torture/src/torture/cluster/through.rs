//! One load's calls to a cluster, through everything that happens to it: no node's end is the end.
//!
//! Calls are made at a pace, so that they last for the round. After one that no node took, single
//! calls ask from time to time whether there is a leader again. Calls that a paused node has are
//! waited for until it goes on, as their outcome is open until then; others are made meanwhile.
//!
//! Besides, each node has a client of its own, which knows no other: so a leader that stands still
//! or is cut off is asked all the time, and by whom nobody tells of another.

use crate::torture::drive::{CALL_SECONDS_MAX, Calls, Control, Ended, Fate, LOOK_AFTER, Load, WAITING_AT_NODE_MAX};
use crate::torture::lane::Cut;
use ferrite_bench::error::{BenchResult, Doing};
use ferrite_client::{Client, ClientOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// For so long a load's calls are to last.
const ROUND: Duration = Duration::from_secs(20);
/// A load with fewer calls in a round keeps its pace, whatever the rate.
const FEW_CALLS: u32 = 1_000;

/// How fast loads are.
#[derive(Clone, Copy, Debug)]
pub struct Pace(f64);

impl Pace {
    /// Such that all loads together make so many calls a second.
    pub fn new(loads: &[Box<dyn Load>], rate: Option<u32>) -> Pace {
        let calls: u32 = loads.iter().map(|load| load.calls_of_a_round()).filter(|calls| *calls >= FEW_CALLS).sum();
        Pace(rate.map_or(1.0, |rate| f64::from(rate) * ROUND.as_secs_f64() / f64::from(calls)))
    }

    fn calls_per_second(self, load: &dyn Load) -> f64 {
        let calls = load.calls_of_a_round();
        f64::from(calls) / ROUND.as_secs_f64() * if calls >= FEW_CALLS { self.0 } else { 1.0 }
    }
}

/// Runs a load until `control` says stop. All calls have ended then.
pub fn drive(
    load: &mut dyn Load,
    options: &ClientOptions,
    pace: Pace,
    control: &Arc<Control>,
    cut: &mut Cut,
) -> BenchResult<()> {
    let outstanding_max = load.outstanding_max();
    let options = ClientOptions {
        outstanding_max: 2 * outstanding_max + 1,
        call_timeout: Duration::from_secs(CALL_SECONDS_MAX),
        ..options.clone()
    };
    let to_node = |address: &String| {
        let outstanding_max = WAITING_AT_NODE_MAX + 1;
        Client::connect(ClientOptions { addresses: vec![address.clone()], outstanding_max, ..options.clone() })
    };
    let nodes = if load.asks_each_node() { options.addresses.iter().map(to_node).collect() } else { Ok(Vec::new()) };
    let mut options = options.clone();
    control.only_read_from.map(|node| options.addresses.remove(node));
    let (client, nodes) = match (Client::connect(options), nodes) {
        (Ok(client), Ok(nodes)) => (client, nodes),
        _ if control.was_killed() => return Ok(()),
        (Err(error), _) | (_, Err(error)) => return Err(error).doing("connecting to a cluster that is ready"),
    };
    let (ends, receiver) = channel();
    let mut calls = Calls::new(client, nodes, Arc::clone(control), ends);
    let pace = pace.calls_per_second(load);
    let mut allowance = 1.0;
    let mut counted_at = Instant::now();
    // Whether the last call that ended was not taken, and when one was made since.
    let mut in_vain = false;
    let mut tried_at = Instant::now();
    let mut more = true;
    while more || calls.all_outstanding() > 0 {
        more &= !control.stop.load(Ordering::Relaxed);
        let now = Instant::now();
        allowance = f64::min(allowance + pace * (now - counted_at).as_secs_f64(), pace.max(1.0));
        counted_at = now;
        let limit = if control.was_killed() && outstanding_max > 1 { 2 * outstanding_max } else { outstanding_max };
        while more && allowance >= 1.0 && calls.outstanding() < limit {
            let waits = control.only_reads.load(Ordering::Relaxed) && !load.asks_each_node();
            if waits || in_vain && tried_at.elapsed() < LOOK_AFTER {
                break;
            }
            tried_at = Instant::now();
            if !load.call(&mut calls) {
                break;
            }
            allowance -= 1.0;
        }
        let ended = match receiver.recv_timeout(LOOK_AFTER / 4) {
            Ok(ended) => ended,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => continue,
        };
        for ended in std::iter::once(ended).chain(std::iter::from_fn(|| receiver.try_recv().ok())) {
            if ended.node.is_none() {
                in_vain = matches!(ended.fate, Fate::NotSent);
            }
            end_call(load, ended, &mut calls, control, cut);
        }
    }
    calls.close();
    Ok(())
}

fn end_call(load: &mut dyn Load, ended: Ended, calls: &mut Calls, control: &Control, cut: &mut Cut) {
    calls.one_ended(&ended);
    let count = match &ended.fate {
        Fate::Acknowledged(_) => None,
        Fate::Refused(_) => Some(&control.refused),
        Fate::NotSent => Some(&control.not_taken),
        Fate::Unknown => Some(&control.unknown),
    };
    if let Some(count) = count {
        count.fetch_add(1, Ordering::Relaxed);
    }
    if ended.timed_out {
        let asked = ended.node.map_or_else(String::new, |node| format!(" to node {}", node + 1));
        let seconds = (ended.sent as f64 - control.killed_at() as f64) / 1e9;
        cut.finding(format!(
            "{}: call {}{asked}, sent {seconds:.3} s after the harm, had no answer within {CALL_SECONDS_MAX} s",
            load.name(),
            ended.token
        ));
    }
    load.ended(ended, cut);
}
