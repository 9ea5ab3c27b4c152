//! `ferrite bench failover`: for how long a cluster acknowledges nothing when its leader is killed,
//! and when it is stopped in good order.
//!
//! Each round ends with the cluster as it began: all nodes run, K + 1 keep the data, writes are
//! acknowledged. At the end all rows are compared with what was said of them.

use crate::cluster::{Cluster, ClusterCommand};
use crate::error::{BenchError, BenchResult, Doing};
use crate::options::FailoverOptions;
use crate::report::grouped;
use crate::results::keep;
use crate::session::Environment;
use crate::writes::{Ends, Writes};
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Acknowledged writes before each round: the cluster is in its stride.
const WRITES_BEFORE: u64 = 50;

/// How a leader is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Kill,
    Stop,
}

/// One round.
#[derive(Clone, Debug, Serialize)]
struct Round {
    name: String,
    leader: usize,
    successor: usize,
    /// Kill: until the acknowledgement of the first write that was sent after it. Stop: the longest
    /// time between two acknowledgements.
    interruption_milliseconds: f64,
    refused: u64,
    unknown: u64,
    /// From the signal until K + 1 nodes kept the data again.
    copies_again_milliseconds: f64,
}

/// What is kept of a run.
#[derive(Serialize)]
struct FailoverReport {
    settings: Settings,
    kill_p50_milliseconds: Option<f64>,
    kill_max_milliseconds: Option<f64>,
    stop_p50_milliseconds: Option<f64>,
    stop_max_milliseconds: Option<f64>,
    stop_refused: u64,
    stop_unknown: u64,
    writes: Ends,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
struct Settings {
    nodes: u32,
    kfactor: u32,
    durability: String,
    writes_per_second: f64,
}

/// Kills the leader so many times, then stops it so many times.
pub fn run_failover(environment: &Environment, options: &FailoverOptions) -> BenchResult<()> {
    let directory = tempfile::Builder::new().prefix("ferrite-failover-").tempdir();
    let directory = directory.doing("making a temporary directory")?;
    let mut cluster = Cluster::start(ClusterCommand {
        executable: environment.executable.clone(),
        root: directory.path().to_path_buf(),
        nodes: options.nodes as usize,
        kfactor: options.kfactor,
        durability: Some(options.durability.clone()),
        partitions: options.partitions,
        partitions_per_node: options.partitions_per_node,
        power_loss: None,
        network: None,
        options: options.server_options.iter().map(Into::into).collect(),
    })?;
    ferrite_io::outln!(
        "{} nodes on this machine, K = {}, durability {}: {} writes a second through one client of the Rust driver",
        options.nodes,
        options.kfactor,
        options.durability,
        options.rate
    );
    let rounds = measure(environment, options, &mut cluster);
    match rounds {
        Ok((rounds, writes)) => {
            cluster.stop_all()?;
            report(options, rounds, writes)
        }
        Err(error) => {
            drop(cluster);
            Err(BenchError::Server(format!(
                "{error}\n(directories and messages are kept in {})",
                directory.keep().display()
            )))
        }
    }
}

fn measure(
    environment: &Environment,
    options: &FailoverOptions,
    cluster: &mut Cluster,
) -> BenchResult<(Vec<Round>, Ends)> {
    let every = Duration::from_secs_f64(1.0 / options.rate);
    let writes = Writes::begin(cluster.client_options(), every)?;
    let mut rounds = Vec::new();
    for end in [End::Kill, End::Stop] {
        ferrite_io::outln!("{}", explanation(end));
        for number in 1..=options.rounds {
            if environment.stop.load(Ordering::Relaxed) {
                break;
            }
            let round = round(cluster, &writes, end, number)?;
            ferrite_io::outln!("{}", line(end, number, &round));
            rounds.push(round);
        }
    }
    Ok((rounds, writes.finish()?))
}

fn explanation(end: End) -> &'static str {
    match end {
        End::Kill => {
            "SIGKILL of the leader; measured: from the signal until each partition has acknowledged a write sent after it"
        }
        End::Stop => {
            "SIGTERM of the leader; measured: the longest time between two acknowledgements of a partition, from the signal \
             until its process has ended and another leader acknowledges"
        }
    }
}

fn round(cluster: &mut Cluster, writes: &Writes, end: End, number: u32) -> BenchResult<Round> {
    writes.await_more(WRITES_BEFORE)?;
    let before = cluster.await_copies(0)?;
    // Of several groups each node leads some: the one that leads the first also orders what
    // concerns several.
    let leader = before.leader;
    let ends = writes.ends();
    let began = writes.watch();
    let interruption = match end {
        End::Kill => {
            cluster.kill(leader)?;
            // Only now is it certain that it acknowledges nothing more.
            writes.first_sent_after(Instant::now())? - began
        }
        End::Stop => {
            cluster.stop(leader)?;
            writes.first_sent_after(Instant::now())?;
            writes.longest_gap()
        }
    };
    let after = cluster.await_keepers("another node leads", |keepers| keepers.leader != leader)?;
    // Calls under way when the leader ended have been answered by now, or their connections broke.
    writes.await_more(WRITES_BEFORE)?;
    let ended = writes.ends().since(ends);
    cluster.start_again(leader)?;
    cluster.await_copies(before.epoch)?;
    cluster.await_groups()?;
    let name = if end == End::Kill { "kill" } else { "stop" };
    Ok(Round {
        name: format!("{name} {number}"),
        leader: leader + 1,
        successor: after.leader + 1,
        interruption_milliseconds: interruption.as_secs_f64() * 1e3,
        refused: ended.refused,
        unknown: ended.unknown,
        copies_again_milliseconds: began.elapsed().as_secs_f64() * 1e3,
    })
}

fn line(end: End, number: u32, round: &Round) -> String {
    let how = if end == End::Kill { "killed" } else { "stopped" };
    format!(
        "{number:4}  node {} {how}, node {} follows: {:.0} ms; {} writes refused, {} unknown; all as before after {:.1} s",
        round.leader,
        round.successor,
        round.interruption_milliseconds,
        round.refused,
        round.unknown,
        round.copies_again_milliseconds / 1e3,
    )
}

/// Of the rounds of one kind: how many, the median and the longest.
fn summary(rounds: &[Round], kind: &str) -> (Vec<f64>, Option<f64>, Option<f64>) {
    let of_kind = rounds.iter().filter(|round| round.name.starts_with(kind));
    let mut times: Vec<f64> = of_kind.map(|round| round.interruption_milliseconds).collect();
    times.sort_unstable_by(f64::total_cmp);
    // Of an even number the upper one: rather too long than too short.
    let p50 = times.get(times.len() / 2).copied();
    let longest = times.last().copied();
    (times, p50, longest)
}

fn report(options: &FailoverOptions, rounds: Vec<Round>, writes: Ends) -> BenchResult<()> {
    let (kills, kill_p50, kill_max) = summary(&rounds, "kill");
    let (stops, stop_p50, stop_max) = summary(&rounds, "stop");
    let of_stops = || rounds.iter().filter(|round| round.name.starts_with("stop"));
    let stop_refused = of_stops().map(|round| round.refused).sum();
    let stop_unknown = of_stops().map(|round| round.unknown).sum();
    if let (Some(p50), Some(longest)) = (kill_p50, kill_max) {
        ferrite_io::outln!(
            "kill of the leader, {} times: next acknowledged write p50 {p50:.0} ms, longest {longest:.0} ms",
            kills.len()
        );
    }
    if let (Some(p50), Some(longest)) = (stop_p50, stop_max) {
        ferrite_io::outln!(
            "stop of the leader, {} times: pause p50 {p50:.0} ms, longest {longest:.0} ms; {stop_refused} writes refused, \
             {stop_unknown} unknown",
            stops.len()
        );
    }
    ferrite_io::outln!(
        "{} acknowledged writes are all there, none of {} refused ones is; {} had an unknown outcome",
        grouped(writes.acknowledged),
        grouped(writes.refused),
        grouped(writes.unknown)
    );
    let settings = Settings {
        nodes: options.nodes,
        kfactor: options.kfactor,
        durability: options.durability.clone(),
        writes_per_second: options.rate,
    };
    let report = FailoverReport {
        settings,
        kill_p50_milliseconds: kill_p50,
        kill_max_milliseconds: kill_max,
        stop_p50_milliseconds: stop_p50,
        stop_max_milliseconds: stop_max,
        stop_refused,
        stop_unknown,
        writes,
        rounds,
    };
    keep(options.json.as_deref(), "failover", &report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_longest_are_of_one_kind() {
        let round = |name: &str, interruption_milliseconds| Round {
            name: name.to_string(),
            leader: 1,
            successor: 2,
            interruption_milliseconds,
            refused: 0,
            unknown: 0,
            copies_again_milliseconds: 0.0,
        };
        let rounds = [round("kill 1", 9.0), round("kill 2", 5.0), round("kill 3", 7.0), round("stop 1", 99.0)];
        assert_eq!(summary(&rounds, "kill"), (vec![5.0, 7.0, 9.0], Some(7.0), Some(9.0)));
        assert_eq!(summary(&[], "kill"), (vec![], None, None));
    }
}
