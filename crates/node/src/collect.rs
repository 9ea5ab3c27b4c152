//! Asking the threads for their figures, and what was answered the time before.

use crate::backup::Backups;
use crate::compound::Compounds;
use crate::mailbox::{Mail, NetworkMailbox};
use crate::mode::Mode;
use crate::plan_cache::PlanCache;
use crate::routes::Routes;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::Settings;
use ferrite_base::limits::REPORTS_ASKED_MAX;
use ferrite_io::Disk;
use ferrite_log::LogStatistics;
use ferrite_member::Topology;
use ferrite_partition::coordinator::Job;
use ferrite_partition::counters::ThreadReport;
use ferrite_partition::long_read::LongReadLine;
use ferrite_partition::recovery::Summary;
use ferrite_partition::{Compiled, Event};
use ferrite_system::latency::Latencies;
use ferrite_system::lots::LotFigures;
use ferrite_system::processor::ProcessorUse;
use ferrite_system::saved::SnapshotStatus;
use ferrite_system::traffic::NetworkReport;
use ferrite_system::{Collect, Collected, Identity, Sources, expired, forwarding, task_figures};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for a thread that is busy with a long transaction, or has much to do first;
/// then its last report is used.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was answered before: for the interval flag, by selector, and in place of a report that does
/// not come.
#[derive(Default)]
pub struct Baselines {
    parties: Parties,
    /// What to report about the figures that were collected last.
    words: String,
    partitions: HashMap<String, (Instant, Vec<ThreadReport>)>,
    network: HashMap<String, (Instant, NetworkReport)>,
}

/// The partitions and the coordinator. Each answers its questions in their order, so that as many
/// answers as questions make its report that of now; one that comes late does for the next
/// question.
struct Parties {
    to: Sender<ThreadReport>,
    answers: Receiver<ThreadReport>,
    known: HashMap<Option<u32>, Party>,
}

#[derive(Default)]
struct Party {
    last: Option<(Instant, ThreadReport)>,
    /// Questions that it has not answered.
    asked: usize,
}

impl Default for Parties {
    fn default() -> Parties {
        let (to, answers) = unbounded();
        Parties { to, answers, known: HashMap::new() }
    }
}

impl Parties {
    /// `send` says whether the party is there: one that has ended has stopped with the server.
    fn ask(&mut self, party: Option<u32>, send: impl FnOnce(Sender<ThreadReport>) -> bool) {
        let known = self.known.entry(party).or_default();
        // A caller that asks a stuck thread every second fills no queue.
        if known.asked < REPORTS_ASKED_MAX && send(self.to.clone()) {
            known.asked += 1;
        }
    }

    fn wait(&mut self, deadline: Instant) {
        while self.known.values().any(|party| party.asked > 0) {
            let Ok(report) = self.answers.recv_deadline(deadline) else { break };
            let party = self.known.entry(report.partition.map(|id| id.0)).or_default();
            party.asked = party.asked.saturating_sub(1);
            party.last = Some((Instant::now(), report));
        }
    }

    /// In the partitions' order, followed by the coordinator's.
    fn reports(&self) -> Vec<ThreadReport> {
        let last = self.known.values().filter_map(|party| party.last.as_ref());
        let mut reports: Vec<ThreadReport> = last.map(|(_, report)| report.clone()).collect();
        reports.sort_by_key(|report| (report.partition.is_none(), report.partition));
        reports
    }

    /// The threads whose reports are not current.
    fn words(&self) -> String {
        let mut late: Vec<_> = self.known.iter().filter(|(_, party)| party.asked > 0).collect();
        late.sort_by_key(|(id, _)| (id.is_none(), **id));
        let words = late.into_iter().map(|(id, party)| {
            let who = id.map_or("the coordinator".to_owned(), |id| format!("partition {id}"));
            match &party.last {
                Some((at, _)) => format!("{who} is busy: its figures are {:.1} s old", at.elapsed().as_secs_f64()),
                None => format!("{who} is busy: it has given no figures yet"),
            }
        });
        words.collect::<Vec<_>>().join("; ")
    }
}

/// What the system tables show: each thread that counts, and what it has counted. Only for the
/// threads that answer these tables.
pub struct Collector {
    pub identity: Arc<Identity>,
    pub topology: Arc<Topology>,
    pub settings: Settings,
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub routes: Arc<Routes>,
    pub network: Arc<[Arc<NetworkMailbox>]>,
    pub mode: Arc<Mode>,
    pub started: Instant,
    pub processor: ProcessorUse,
    pub log: Arc<LogStatistics>,
    pub disk: Arc<dyn Disk>,
    pub recovery: Arc<Summary>,
    pub snapshots: Arc<SnapshotStatus>,
    pub backups: Arc<Backups>,
    pub expired: Arc<expired::Figures>,
    pub forwarding: Arc<forwarding::Figures>,
    pub lots: Arc<LotFigures>,
    pub tasks: Arc<task_figures::Figures>,
    pub compounds: Arc<Compounds>,
    pub long_reads: LongReadLine,
    pub plan_cache: Arc<PlanCache>,
    pub baselines: Mutex<Baselines>,
}

impl Collector {
    /// Asks for the figures that the threads begin with, so that something can replace those of a
    /// thread that is busy later. Does not wait.
    pub fn begin(&self) {
        self.ask(&mut self.lock());
    }

    /// What the system tables are made of.
    pub fn sources(&self) -> Sources<'_> {
        Sources {
            identity: &self.identity,
            hosts: self.topology.hosts(),
            settings: &self.settings,
            compiled: self.compiled.load_full(),
            ring: &self.routes.ring,
            partitions: self.routes.partition_count(),
            started: self.started,
            processor: &self.processor,
            running: self.mode.is_open(),
            safe: true,
            log: &self.log,
            disk: &*self.disk,
            recovery: &self.recovery,
            snapshot_status: &self.snapshots,
            backups: self.backups.attempts(),
            expired: &self.expired,
            forwarding: &self.forwarding,
            lots: &self.lots,
            tasks: &self.tasks,
            compounds: &self.compounds.figures,
            long_reads: self.long_reads.now(),
            plans: self.plan_cache.statistics(),
        }
    }

    /// The threads whose figures were old in the last collection. Empty: all were current.
    pub fn take_words(&self) -> String {
        std::mem::take(&mut self.lock().words)
    }

    fn lock(&self) -> MutexGuard<'_, Baselines> {
        self.baselines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, baselines: &mut Baselines) {
        for id in self.routes.kept_table().hosted() {
            baselines.parties.ask(Some(id.0), |to| self.routes.to_partition(id, Event::Report(to)).is_ok());
        }
        baselines.parties.ask(None, |to| self.routes.to_coordinator(Job::Report(to)).is_ok());
    }
}

impl Collect for Collector {
    fn partitions(&self, selector: &str, interval: bool) -> Collected<Vec<ThreadReport>> {
        let mut baselines = self.lock();
        self.ask(&mut baselines);
        baselines.parties.wait(Instant::now() + PATIENCE);
        baselines.words = baselines.parties.words();
        let reports = baselines.parties.reports();
        if !interval {
            return Collected { reports, elapsed: self.started.elapsed() };
        }
        let now = Instant::now();
        match baselines.partitions.insert(selector.to_owned(), (now, reports.clone())) {
            None => Collected { reports, elapsed: self.started.elapsed() },
            Some((then, before)) => {
                let reports = reports.into_iter().map(|report| since(report, &before)).collect();
                Collected { reports, elapsed: now - then }
            }
        }
    }

    fn network(&self, selector: &str, interval: bool) -> Collected<NetworkReport> {
        let (to, answers) = unbounded();
        let threads = &self.network;
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
            return Collected { reports: all, elapsed: self.started.elapsed() };
        }
        let mut baselines = self.lock();
        let now = Instant::now();
        match baselines.network.insert(selector.to_owned(), (now, all.clone())) {
            None => Collected { reports: all, elapsed: self.started.elapsed() },
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
}

fn since(mut report: ThreadReport, before: &[ThreadReport]) -> ThreadReport {
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

/// A thread that did not answer in time makes the later figures the smaller ones: then there is
/// nothing to subtract from.
fn difference(now: &Latencies, then: &Latencies) -> Latencies {
    if now.count() < then.count() { Latencies::default() } else { now.since(then) }
}

fn gather<R>(answers: &Receiver<R>, asked: usize) -> Vec<R> {
    let deadline = Instant::now() + PATIENCE;
    (0..asked).map_while(|_| answers.recv_deadline(deadline).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::PartitionId;

    fn report(partition: Option<u32>, depth: usize) -> ThreadReport {
        ThreadReport { partition: partition.map(PartitionId), queue_depth: depth, ..ThreadReport::default() }
    }

    fn depths(parties: &Parties) -> Vec<usize> {
        parties.reports().iter().map(|report| report.queue_depth).collect()
    }

    #[test]
    fn the_last_report_stands_in_for_whoever_is_busy_and_that_is_said() {
        let soon = || Instant::now() + Duration::from_millis(1);
        let (mut parties, mut busy) = (Parties::default(), Vec::new());
        let mut ask = |parties: &mut Parties, depth| {
            parties.ask(Some(0), |to| to.send(report(Some(0), depth)).is_ok());
            parties.ask(Some(1), |to| {
                busy.push(to);
                true
            });
            parties.ask(None, |to| to.send(report(None, depth + 1)).is_ok());
            parties.ask(Some(2), |_| false);
            parties.wait(soon());
            busy.len()
        };
        ask(&mut parties, 10);
        assert_eq!(
            (depths(&parties), &*parties.words()),
            (vec![10, 11], "partition 1 is busy: it has given no figures yet")
        );
        let waits = ask(&mut parties, 20);
        assert_eq!((depths(&parties), waits), (vec![20, 21], 2));
        // The answer to the first question is not that of now, but better than nothing.
        parties.to.send(report(Some(1), 1)).expect("it is there");
        parties.wait(soon());
        assert_eq!(depths(&parties), [20, 1, 21]);
        assert!(parties.words().starts_with("partition 1 is busy: its figures are 0."), "{}", parties.words());
        parties.to.send(report(Some(1), 2)).expect("it is there");
        parties.wait(soon());
        assert_eq!((depths(&parties), &*parties.words()), (vec![20, 2, 21], ""));
        for _ in 0..2 * REPORTS_ASKED_MAX {
            ask(&mut parties, 30);
        }
        assert_eq!(ask(&mut parties, 30), 2 + REPORTS_ASKED_MAX, "no more questions wait");
    }
}
