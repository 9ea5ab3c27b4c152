//! `ferrite bench torture --nodes N`: the same loads against a cluster of processes, of which one
//! or all are killed, stopped or paused, lose their directories, or do not reach each other, round
//! after round.
//!
//! | room | what is in it |
//! |---|---|
//! | [`harm`], [`split`] | what happens in a round, from a seed; to the network between nodes |
//! | [`through`] | one load's calls through all of it |
//! | [`round`] | loads run, the harm comes, the cluster heals, the checks |
//!
//! What is promised, and so checked: what was acknowledged is there, whoever leads; what was
//! refused is not; what is unknown is there or not, whole. No read shows anything older than what
//! was acknowledged before it began, also not by a leader that was paused or cut off for longer
//! than every time limit, and is asked all the time. After a check another copy leads, and has
//! exactly the same.

pub mod harm;
pub mod round;
pub mod split;
pub mod through;

use crate::options::{HarmKind, TortureOptions};
use crate::torture::drive::Load;
use crate::torture::lane::Cut;
use crate::torture::round::Counts;
use crate::torture::scan::GroupLayout;
use crate::torture::{DatabaseDirectory, Journal};
use crate::torture::{bank, lists, schema, snapshots, values, votes};
use ferrite_bench::cluster::{Cluster, ClusterCommand};
use ferrite_bench::error::{BenchError, BenchResult, Doing};
use ferrite_bench::network::Network;
use ferrite_bench::random::seed_or_random;
use ferrite_bench::report::grouped;
use ferrite_bench::results::keep;
use ferrite_bench::session::{Environment, Session};
use ferrite_client::{Client, ClientOptions};
use harm::Plan;
use round::Outcome;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use through::Pace;

/// Runs the rounds asked for. The error names what was found, and where the directories are kept
/// then.
pub fn run_cluster(environment: &Environment, options: &TortureOptions, nodes: u32) -> BenchResult<()> {
    let network = options.harms.contains(&HarmKind::Splits).then(|| Network::new(nodes as usize)).transpose()?;
    let place = DatabaseDirectory::new(options)?;
    let mut journal = Journal::new(options)?;
    let seed = seed_or_random(options.seed);
    journal.line(&format!(
        "torture: seed {seed}, {nodes} nodes, K = {}, {}, durability {}, {}",
        options.kfactor,
        match options.partitions_per_node {
            None => format!("{} partitions", options.partitions),
            Some(copies) => format!("{copies} partitions per node"),
        },
        options.durability,
        if options.power_loss { "kills are power losses" } else { "kills of processes" }
    ))?;
    let result = all_rounds(environment, options, nodes, network.map(Arc::new), seed, &place, &mut journal);
    match result {
        Ok(run) => {
            keep(options.json.as_deref(), "torture", &run.report(options, nodes, seed))?;
            journal.line(&run.summary())
        }
        Err(error) => {
            journal.line(&format!("stopped: {error}"))?;
            let kept = place.keep();
            journal.line(&format!("the directories and what the nodes said are kept in {}", kept.display()))?;
            Err(error)
        }
    }
}

/// What is kept of a run that found nothing wrong.
#[derive(Debug, Serialize)]
struct ClusterTortureReport {
    settings: Settings,
    rounds: u32,
    kills: u32,
    kills_of_all: u32,
    pauses: u32,
    splits: u32,
    wipes: u32,
    orderly_ends: u32,
    comparisons_of_copies: u32,
    acknowledged: u64,
    refused: u64,
    not_taken: u64,
    unknown: u64,
}

#[derive(Debug, Serialize)]
struct Settings {
    seed: u64,
    nodes: u32,
    kfactor: u32,
    partitions: u32,
    durability: String,
    power_loss: bool,
}

/// A run with its cluster and models.
struct Run {
    cluster: Cluster,
    kfactor: u32,
    loads: Vec<Box<dyn Load>>,
    epoch: Instant,
    rounds: u32,
    kills: u32,
    kills_of_all: u32,
    pauses: u32,
    splits: u32,
    wipes: u32,
    stops: u32,
    pace: Pace,
    comparisons: u32,
    total: Counts,
    not_taken: u64,
    longest_silence: Duration,
}

fn all_rounds(
    environment: &Environment,
    options: &TortureOptions,
    nodes: u32,
    network: Option<Arc<Network>>,
    seed: u64,
    place: &DatabaseDirectory,
    journal: &mut Journal,
) -> BenchResult<Run> {
    // So small that the leader takes snapshots by itself in most rounds, and cuts the log: a node
    // that comes back may find what it missed gone, and gets everything.
    let own = ["--snapshot-log", "8", "--snapshot-interval", "2"].map(Into::into);
    let cluster = Cluster::start(ClusterCommand {
        executable: environment.executable.clone(),
        root: place.path().to_path_buf(),
        nodes: nodes as usize,
        kfactor: options.kfactor,
        durability: Some(options.durability.clone()),
        partitions: options.partitions_per_node.is_none().then_some(options.partitions as usize),
        partitions_per_node: options.partitions_per_node,
        power_loss: options.power_loss.then_some(seed),
        network,
        options: own.into_iter().chain(options.server_options.iter().map(Into::into)).collect(),
    })?;
    let mut cluster = cluster;
    if cluster.has_several_groups() {
        cluster.await_groups()?;
    }
    let loads = loads(&cluster)?;
    let pace = Pace::new(&loads, options.rate);
    let mut run = Run {
        cluster,
        kfactor: options.kfactor,
        loads,
        epoch: Instant::now(),
        rounds: 0,
        kills: 0,
        kills_of_all: 0,
        pauses: 0,
        splits: 0,
        wipes: 0,
        stops: 0,
        pace,
        comparisons: 0,
        total: Counts::default(),
        not_taken: 0,
        longest_silence: Duration::ZERO,
    };
    while run.rounds < options.rounds
        && options.duration.is_none_or(|duration| run.epoch.elapsed() < duration)
        && !environment.stop.load(Ordering::Relaxed)
    {
        run.rounds += 1;
        run.round(&Plan::new(seed, run.rounds, &options.harms), journal)?;
    }
    run.let_each_lead(journal)?;
    run.loads.iter().filter_map(|load| load.summary()).try_for_each(|summary| journal.line(&summary))?;
    Ok(run)
}

/// With their tables and procedures. Where there are several groups: those whose statements several
/// groups can run.
fn loads(cluster: &Cluster) -> BenchResult<Vec<Box<dyn Load>>> {
    let session = Session::to_cluster(cluster.client_options())?;
    let mut loads: Vec<Box<dyn Load>> = Vec::new();
    if cluster.has_several_groups() {
        let layout = GroupLayout::SeveralGroups;
        loads.push(Box::new(values::Values::new(&session, layout)?));
        loads.push(Box::new(bank::Bank::new(&session, layout)?));
        loads.push(Box::new(lists::Lists::new(&session, layout)?));
        loads.push(Box::new(schema::Schema::new(&session, layout)?));
    } else {
        let layout = GroupLayout::OneGroup;
        loads.push(Box::new(votes::Votes::new(&session)?));
        loads.push(Box::new(values::Values::new(&session, layout)?));
        loads.push(Box::new(bank::Bank::new(&session, layout)?));
        loads.push(Box::new(schema::Schema::new(&session, layout)?));
    }
    loads.push(Box::new(snapshots::Snapshots::new(true)));
    session.close()?;
    Ok(loads)
}

impl Run {
    fn round(&mut self, plan: &Plan, journal: &mut Journal) -> BenchResult<()> {
        let mut cut = Cut::default();
        let outcome = round::run(&mut self.cluster, &mut self.loads, plan, self.pace, self.epoch, &mut cut);
        // What loads have found says more than what the cluster's end looked like.
        judge(&mut cut)?;
        let outcome = outcome?;
        let leader = round::check(&mut self.cluster, &mut self.loads, &mut cut)?;
        judge(&mut cut)?;
        let compared = if plan.compare && self.kfactor > 0 { Some(self.compare(leader)?) } else { None };
        self.count(plan, &outcome);
        let mut line = format!("{:4}  {}", self.rounds, outcome.line(plan));
        if let Some((leader, copy)) = compared {
            line.push_str(&format!("; node {} has the same as node {}", copy + 1, leader + 1));
        }
        journal.line(&line)
    }

    /// The leader stops in good order, and another copy, which leads then, is to have exactly what
    /// it had. Returns both.
    fn compare(&mut self, leader: usize) -> BenchResult<(usize, usize)> {
        let mut cut = Cut::default();
        self.cluster.stop(leader)?;
        self.cluster.await_keepers("another node leads", |keepers| keepers.leader != leader)?;
        let copy = round::check(&mut self.cluster, &mut self.loads, &mut cut)?;
        for finding in &mut cut.findings {
            finding.insert_str(0, &format!("node {} differs from node {}: ", copy + 1, leader + 1));
        }
        judge(&mut cut)?;
        self.cluster.start_again(leader)?;
        self.cluster.await_copies(0)?;
        if self.cluster.has_several_groups() {
            self.cluster.await_groups()?;
        }
        self.comparisons += 1;
        Ok((leader, copy))
    }

    /// Each node stops in good order, and the others, which lead its groups then, have what it had.
    fn stop_each(&mut self, journal: &mut Journal) -> BenchResult<()> {
        for place in 0..self.cluster.count() {
            let mut cut = Cut::default();
            self.cluster.stop(place)?;
            if self.kfactor > 0 {
                round::check(&mut self.cluster, &mut self.loads, &mut cut)?;
                judge(&mut cut)?;
                self.comparisons += 1;
            }
            self.cluster.start_again(place)?;
            self.cluster.await_groups()?;
            round::check(&mut self.cluster, &mut self.loads, &mut cut)?;
            judge(&mut cut)?;
        }
        journal.line("each node stopped, and the others had the same data")
    }

    /// A member is to lead that was none of those whom nodes chose when they stopped.
    fn transfer(&mut self, leader: usize, to: usize) -> BenchResult<()> {
        let address = self.cluster.clients()[leader].clone();
        let client = Client::connect(ClientOptions::new([address])).doing("connecting to the node that leads")?;
        let number = i64::from(self.cluster.number(to));
        client.call_blocking("@TransferLead", (number,)).doing("handing over")?;
        client.close();
        self.cluster.await_keepers("the node leads that was asked to", |keepers| keepers.leader == to).map(drop)
    }

    /// Until every node has led, and had what the others had.
    fn let_each_lead(&mut self, journal: &mut Journal) -> BenchResult<()> {
        if self.cluster.has_several_groups() || self.kfactor == 0 {
            return self.stop_each(journal);
        }
        let mut cut = Cut::default();
        let mut leader = round::check(&mut self.cluster, &mut self.loads, &mut cut)?;
        judge(&mut cut)?;
        let mut seen = BTreeSet::from([leader + 1]);
        for _ in 0..3 * self.cluster.count() {
            if seen.len() == self.cluster.count() {
                break;
            }
            leader = self.compare(leader)?.1;
            seen.insert(leader + 1);
        }
        for place in 0..self.cluster.count() {
            let keepers = self.cluster.await_copies(0)?;
            if seen.contains(&(place + 1)) || !keepers.members.contains(&place) {
                continue;
            }
            self.transfer(keepers.leader, place)?;
            let leader = round::check(&mut self.cluster, &mut self.loads, &mut cut)?;
            judge(&mut cut)?;
            seen.insert(leader + 1);
        }
        journal.line(&format!("led one after the other, with the same data: nodes {seen:?}"))
    }

    fn count(&mut self, plan: &Plan, outcome: &Outcome) {
        match plan.harm {
            harm::Harm::Kill => self.kills += 1,
            harm::Harm::KillAll => self.kills_of_all += 1,
            harm::Harm::Pause(_) => self.pauses += 1,
            harm::Harm::Split(..) => self.splits += 1,
            harm::Harm::Stop => self.stops += 1,
            harm::Harm::Wipe => self.wipes += 1,
        }
        self.total.acknowledged += outcome.counts.acknowledged;
        self.total.refused += outcome.counts.refused;
        self.total.unknown += outcome.counts.unknown;
        self.not_taken += outcome.not_taken;
        self.longest_silence = self.longest_silence.max(outcome.silence);
    }

    fn report(&self, options: &TortureOptions, nodes: u32, seed: u64) -> ClusterTortureReport {
        ClusterTortureReport {
            settings: Settings {
                seed,
                nodes,
                kfactor: options.kfactor,
                partitions: options.partitions,
                durability: options.durability.clone(),
                power_loss: options.power_loss,
            },
            rounds: self.rounds,
            kills: self.kills,
            kills_of_all: self.kills_of_all,
            pauses: self.pauses,
            splits: self.splits,
            wipes: self.wipes,
            orderly_ends: self.stops,
            comparisons_of_copies: self.comparisons,
            acknowledged: self.total.acknowledged,
            refused: self.total.refused,
            not_taken: self.not_taken,
            unknown: self.total.unknown,
        }
    }

    fn summary(&self) -> String {
        format!(
            "no difference after {} rounds ({} kills of a node, {} of all, {} pauses, {} splits, {} wipes, {} orderly ends), {} comparisons of \
             copies: {} calls acknowledged (none lost), {} refused, {} not taken, {} unknown; longest time without an \
             acknowledgement {:.1} s",
            self.rounds,
            self.kills,
            self.kills_of_all,
            self.pauses,
            self.splits,
            self.wipes,
            self.stops,
            self.comparisons,
            grouped(self.total.acknowledged),
            grouped(self.total.refused),
            grouped(self.not_taken),
            grouped(self.total.unknown),
            self.longest_silence.as_secs_f64(),
        )
    }
}

/// Nothing acknowledged may be lost, ever.
fn judge(cut: &mut Cut) -> BenchResult<()> {
    cut.judge(u64::MAX, Some(0));
    if cut.findings.is_empty() { Ok(()) } else { Err(BenchError::Wrong(std::mem::take(&mut cut.findings))) }
}
