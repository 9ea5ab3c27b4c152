//! Asking the threads for their figures, and what was answered the time before.

use crate::latency::Latencies;
use crate::mailbox::Mail;
use crate::shared::Shared;
use crate::traffic::NetworkReport;
use crossbeam_channel::{Receiver, unbounded};
use ferrite_partition::Event;
use ferrite_partition::coordinator::Job;
use ferrite_partition::counters::Report;
use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long to wait for a thread that is busy with a long transaction; then its last report stands in.
const PATIENCE: Duration = Duration::from_millis(500);

/// Figures, and the time that they are about.
pub struct Collected<R> {
    pub reports: R,
    pub elapsed: Duration,
}

/// What was answered before: for the interval flag, by selector, and in place of a report that does not come.
#[derive(Default)]
pub struct Baselines {
    last: HashMap<Option<u32>, Report>,
    partitions: HashMap<String, (Instant, Vec<Report>)>,
    network: HashMap<String, (Instant, NetworkReport)>,
}

/// The partitions' reports in order, the coordinator's behind them.
pub fn partitions(shared: &Shared, selector: &str, interval: bool) -> Collected<Vec<Report>> {
    let (to, answers) = unbounded();
    let mut asked = 0;
    for partition in &shared.partitions {
        // A partition that has ended has stopped with the server.
        asked += usize::from(partition.send(Event::Report(to.clone())).is_ok());
    }
    asked += usize::from(shared.coordinator.send(Job::Report(to)).is_ok());
    let mut baselines = shared.baselines.lock().unwrap_or_else(PoisonError::into_inner);
    for report in gather(&answers, asked) {
        baselines.last.insert(report.partition.map(|id| id.0), report);
    }
    let mut reports: Vec<Report> = baselines.last.values().cloned().collect();
    reports.sort_by_key(|report| (report.partition.is_none(), report.partition));
    if !interval {
        return Collected { reports, elapsed: shared.started.elapsed() };
    }
    let now = Instant::now();
    match baselines.partitions.insert(selector.to_owned(), (now, reports.clone())) {
        None => Collected { reports, elapsed: shared.started.elapsed() },
        Some((then, before)) => {
            let reports = reports.into_iter().map(|report| since(report, &before)).collect();
            Collected { reports, elapsed: now - then }
        }
    }
}

fn since(mut report: Report, before: &[Report]) -> Report {
    let Some(before) = before.iter().find(|before| before.partition == report.partition) else { return report };
    for (name, counters) in &mut report.procedures {
        if let Some(earlier) = before.procedures.get(name) {
            *counters = counters.since(earlier);
        }
    }
    report.procedures.retain(|_, counters| counters.invocations > 0);
    report.idle = report.idle.since(&before.idle);
    report.queue = report.queue.since(&before.queue);
    report
}

/// All network threads' figures as one.
pub fn network(shared: &Shared, selector: &str, interval: bool) -> Collected<NetworkReport> {
    let (to, answers) = unbounded();
    let threads = shared.network.get().map_or(&[][..], Vec::as_slice);
    threads.iter().for_each(|thread| thread.send(Mail::Report(to.clone())));
    drop(to);
    let mut all = NetworkReport::default();
    for report in gather(&answers, threads.len()) {
        all.connections.extend(report.connections);
        all.closed.bytes_read += report.closed.bytes_read;
        all.closed.messages_read += report.closed.messages_read;
        all.closed.bytes_written += report.closed.bytes_written;
        all.closed.messages_written += report.closed.messages_written;
        all.latencies.merge(&report.latencies);
        all.accepted += report.accepted;
        all.refused += report.refused;
    }
    all.connections.sort_by_key(|connection| connection.connection_id);
    if !interval {
        return Collected { reports: all, elapsed: shared.started.elapsed() };
    }
    let mut baselines = shared.baselines.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    match baselines.network.insert(selector.to_owned(), (now, all.clone())) {
        None => Collected { reports: all, elapsed: shared.started.elapsed() },
        Some((then, before)) => {
            for connection in &mut all.connections {
                let earlier =
                    before.connections.iter().find(|earlier| earlier.connection_id == connection.connection_id);
                if let Some(earlier) = earlier {
                    connection.traffic = connection.traffic.since(&earlier.traffic);
                }
            }
            all.latencies = difference(&all.latencies, &before.latencies);
            Collected { reports: all, elapsed: now - then }
        }
    }
}

/// A thread that did not answer in time makes the later figures the smaller ones: then there is nothing to subtract from.
fn difference(now: &Latencies, then: &Latencies) -> Latencies {
    if now.count() < then.count() { Latencies::default() } else { now.since(then) }
}

fn gather<R>(answers: &Receiver<R>, asked: usize) -> Vec<R> {
    let deadline = Instant::now() + PATIENCE;
    (0..asked).map_while(|_| answers.recv_deadline(deadline).ok()).collect()
}
