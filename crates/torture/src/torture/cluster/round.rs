//! One round: loads run, the harm comes at its moment, others take over, the node comes back, and
//! what the leader has is compared with what clients were told.

use crate::torture::cluster::harm::{Harm, Plan, SPLIT_MIN, Victim};
use crate::torture::cluster::through::{self, Pace};
use crate::torture::drive::{Control, Load, Trigger};
use crate::torture::lane::Cut;
use crate::torture::plan::Moment;
use crate::torture::round::Counts;
use ferrite_bench::cluster::{Cluster, LOOK_AFTER, Membership, PATIENCE};
use ferrite_bench::error::{BenchError, BenchResult};
use ferrite_bench::network::Network;
use ferrite_bench::process::Signal;
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::ClientOptions;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// A moment that does not come by itself is over after this.
const MOMENT_MAX: Duration = Duration::from_millis(4_000);
/// Acknowledged calls after the harm, before a round ends: the cluster has its stride again.
const CALLS_AFTER: u64 = 200;
/// For so long before the harm nothing is written, where the victim is only read from.
const LOOKS: Duration = Duration::from_millis(400);
/// The last moments of a pause or a split.
const AT_END: Duration = Duration::from_secs(3);

/// What came of a round.
#[derive(Debug)]
pub struct Outcome {
    pub victim: usize,
    pub was_leader: bool,
    pub leader_after: usize,
    /// From the harm until calls were acknowledged again that were made after it; the longest while
    /// it lasted, if it lasted.
    pub silence: Duration,
    /// Of a harm that lasts.
    pub during: Option<During>,
    pub counts: Counts,
    pub not_taken: u64,
    /// From the harm until K + 1 nodes kept the data and all ran.
    pub healed: Duration,
}

/// Calls acknowledged while a node was paused, or the network split.
#[derive(Clone, Copy, Debug)]
pub struct During {
    pub all: u64,
    /// In the last moments of it, when the others have done what they do.
    pub at_end: u64,
    /// The longest time in which there was none.
    pub silence: Duration,
}

impl Outcome {
    pub fn line(&self, plan: &Plan) -> String {
        let who = if self.was_leader { "the leader" } else { "another node" };
        let node = self.victim + 1;
        let mut line = match plan.harm {
            Harm::Kill => format!("node {node}, {who}, killed"),
            Harm::KillAll => "all nodes killed".to_string(),
            Harm::Stop => format!("node {node}, {who}, stopped"),
            Harm::Wipe => format!("node {node}, {who}, killed and wiped"),
            Harm::Pause(length) => format!("node {node}, {who}, paused for {:.1} s", length.as_secs_f64()),
            Harm::Split(split, length) => format!("node {node}, {who}, {split} for {:.1} s", length.as_secs_f64()),
        };
        line.push_str(&format!(
            " {plan}: {} acknowledged, {} refused, {} not taken, {} unknown",
            self.counts.acknowledged, self.counts.refused, self.not_taken, self.counts.unknown
        ));
        if let Some(during) = self.during {
            line.push_str(&format!(", {} acknowledged meanwhile, {} of them at its end", during.all, during.at_end));
        }
        if plan.killed_again.is_some() {
            line.push_str(", killed again while it came back");
        }
        line.push_str(&format!(
            "; silent for {:.2} s, node {} leads, healed after {:.1} s",
            self.silence.as_secs_f64(),
            self.leader_after + 1,
            self.healed.as_secs_f64()
        ));
        line
    }
}

/// Runs the loads through the harm that is planned, until the cluster has healed.
pub fn run(
    cluster: &mut Cluster,
    loads: &mut [Box<dyn Load>],
    plan: &Plan,
    pace: Pace,
    epoch: Instant,
    cut: &mut Cut,
) -> BenchResult<Outcome> {
    let before = cluster.await_copies(0)?;
    if cluster.has_several_groups() {
        cluster.await_groups()?;
    }
    let count = cluster.count();
    let victim = match plan.victim {
        Victim::Leader => before.leader,
        Victim::Other(turn) => (before.leader + 1 + turn as usize % (count - 1)) % count,
    };
    let mut control = Control::of_cluster(epoch, cluster.process(victim).id(), trigger(cluster, plan, victim, &before));
    control.only_read_from = plan.looks.then_some(victim);
    let control = Arc::new(control);
    let mut seeds = FastRandom::new(plan.seed);
    for load in loads.iter_mut() {
        load.begin(FastRandom::new(seeds.next_u64()));
    }
    let harm = HarmDone { victim, was_leader: victim == before.leader, before };
    let loaded = load_through(cluster, loads, plan, pace, &harm, &control, cut);
    let Passed { silence, during, harmed_at } = loaded?;
    if plan.harm == Harm::Wipe && !cluster.is_running(victim) {
        cluster.start_anew(victim)?;
    }
    cluster.start_all_again()?;
    let old = harm.was_leader && matches!(plan.harm, Harm::Kill | Harm::Wipe) && cluster.kfactor() > 0;
    let after = cluster.await_copies(if old { harm.before.epoch } else { 0 })?;
    if plan.harm == Harm::Wipe {
        cluster.await_votes()?;
    }
    if cluster.has_several_groups() {
        cluster.await_groups()?;
    }
    Ok(Outcome {
        victim,
        was_leader: harm.was_leader,
        leader_after: after.leader,
        silence,
        during,
        counts: Counts {
            acknowledged: control.acknowledged.load(Ordering::Relaxed),
            refused: control.refused.load(Ordering::Relaxed),
            unknown: control.unknown.load(Ordering::Relaxed),
        },
        not_taken: control.not_taken.load(Ordering::Relaxed),
        healed: harmed_at.elapsed(),
    })
}

/// What does the harm in the midst of the loads.
fn trigger(cluster: &Cluster, plan: &Plan, victim: usize, before: &Membership) -> Trigger {
    match plan.harm {
        Harm::Kill | Harm::KillAll | Harm::Wipe => Trigger::Signal(Signal::KILL),
        Harm::Pause(_) => Trigger::Signal(Signal::STOP),
        Harm::Stop => Trigger::Signal(Signal::TERM),
        Harm::Split(split, _) => {
            let (_, trouble) = split.trouble(victim, cluster.count(), &before.members);
            Trigger::Trouble(network_of(cluster), trouble)
        }
    }
}

struct HarmDone {
    victim: usize,
    was_leader: bool,
    before: Membership,
}

/// What came of the harm, once calls were acknowledged as before.
struct Passed {
    /// How long none was.
    silence: Duration,
    during: Option<During>,
    harmed_at: Instant,
}

/// Runs the loads, each on a thread of its own, while the harm comes and passes. What they found is
/// in `cut`.
fn load_through(
    cluster: &mut Cluster,
    loads: &mut [Box<dyn Load>],
    plan: &Plan,
    pace: Pace,
    harm: &HarmDone,
    control: &Arc<Control>,
    cut: &mut Cut,
) -> BenchResult<Passed> {
    let count = cluster.count();
    let options = ClientOptions { affinity: plan.affinity, ..cluster.client_options() };
    thread::scope(|scope| {
        let running: Vec<_> = loads
            .iter_mut()
            .map(|load| {
                let control = Arc::clone(control);
                let options = &options;
                scope.spawn(move || {
                    let mut cut = Cut::default();
                    let result = through::drive(load.as_mut(), options, pace, &control, &mut cut);
                    (result, cut)
                })
            })
            .collect();
        let healed = go_through(cluster, plan, harm, control);
        control.stop.store(true, Ordering::SeqCst);
        if healed.is_err() {
            // Calls that a paused node has, or one that is cut off, would be waited for.
            (0..count).filter(|place| cluster.is_running(*place)).for_each(|place| cluster.resume(place));
            // The error that there is says more than another one.
            let _ = cluster.network().map(|network| network.heal());
        }
        for thread in running {
            match thread.join() {
                Ok((Ok(()), of_load)) => of_load.findings.into_iter().for_each(|finding| cut.finding(finding)),
                Ok((Err(error), _)) => cut.finding(error.to_string()),
                Err(_) => cut.finding("a load's thread panicked".to_string()),
            }
        }
        healed
    })
}

/// The network of a cluster that is to be split.
fn network_of(cluster: &Cluster) -> Arc<Network> {
    Arc::clone(cluster.network().expect("splits are planned for a cluster with a network"))
}

/// The harm at its moment, and until calls are acknowledged as before.
fn go_through(cluster: &mut Cluster, plan: &Plan, harm: &HarmDone, control: &Control) -> BenchResult<Passed> {
    if plan.harm == Harm::Wipe {
        // What nobody else has is lost for good: all copies have what the epoch begins with.
        await_calls(cluster, control, Instant::now())?;
    }
    await_moment(cluster, plan, control)?;
    if plan.looks {
        // What is under way ends: whatever the victim has executed is committed then.
        control.only_reads.store(true, Ordering::Relaxed);
        thread::sleep(LOOKS);
    }
    control.kill();
    let harmed_at = Instant::now();
    control.only_reads.store(false, Ordering::Relaxed);
    let during = last_through(cluster, plan, harm, control)?;
    // What is acknowledged now may be answers of a leader that is no more.
    let deposes = plan.harm.deposes(harm.victim, cluster.count(), &harm.before.members);
    if cluster.kfactor() == 0 {
        // Nobody else has what a node has.
        cluster.start_all_again()?;
    } else if harm.was_leader && deposes {
        cluster.await_keepers("another node leads", |keepers| keepers.epoch > harm.before.epoch)?;
    }
    let again = await_calls(cluster, control, harmed_at)?;
    let silence = during.map_or(again, |during| during.silence);
    if plan.returns_under_load && plan.harm == Harm::Wipe {
        cluster.start_anew(harm.victim)?;
    }
    if plan.returns_under_load && matches!(plan.harm, Harm::Kill | Harm::Stop | Harm::Wipe) {
        if let Some(after) = plan.killed_again {
            cluster.launch_and_kill(harm.victim, after)?;
        }
        cluster.start_all_again()?;
        cluster.await_copies(0)?;
        await_calls(cluster, control, harmed_at)?;
    }
    Ok(Passed { silence, during, harmed_at })
}

/// The harm that has begun, to its end. Returns what was acknowledged while it lasted, if it lasts.
fn last_through(cluster: &mut Cluster, plan: &Plan, harm: &HarmDone, control: &Control) -> BenchResult<Option<During>> {
    match plan.harm {
        Harm::Kill => cluster.await_kill(harm.victim)?,
        Harm::Wipe => {
            cluster.await_kill(harm.victim)?;
            cluster.wipe(harm.victim)?;
        }
        Harm::KillAll => {
            cluster.await_kill(harm.victim)?;
            for place in 0..cluster.count() {
                if cluster.is_running(place) {
                    cluster.kill(place)?;
                }
            }
            cluster.start_all_again()?;
        }
        Harm::Stop => cluster.stop_told(harm.victim)?,
        Harm::Pause(length) => {
            let counted = watch(length, control);
            cluster.resume(harm.victim);
            return Ok(Some(counted));
        }
        Harm::Split(split, length) => {
            let network = network_of(cluster);
            let (side, trouble) = split.trouble(harm.victim, cluster.count(), &harm.before.members);
            // Who was to do it at its moment has told nobody whether that was possible.
            network.trouble(&trouble)?;
            let counted = watch(length, control);
            network.heal()?;
            // Clients that call all in turn have all their calls with the one that answers nobody,
            // in the end.
            let is_long = length >= SPLIT_MIN && plan.affinity;
            if is_long && split.is_served(&side, &harm.before.members) && counted.at_end == 0 {
                return Err(BenchError::Wrong(vec![format!(
                    "node {} was {split} for {:.1} s, and no call was acknowledged in the last {:.0} s of it",
                    harm.victim + 1,
                    length.as_secs_f64(),
                    AT_END.as_secs_f64()
                )]));
            }
            return Ok(Some(counted));
        }
    }
    Ok(None)
}

/// Watches for so long.
fn watch(length: Duration, control: &Control) -> During {
    let acknowledged = || control.acknowledged.load(Ordering::Relaxed);
    let before = acknowledged();
    let began = Instant::now();
    let mut last = before;
    let mut since = began;
    let mut silence = Duration::ZERO;
    let mut until = |end: Duration| {
        while began.elapsed() < end {
            thread::sleep(LOOK_AFTER);
            let now = Instant::now();
            let count = acknowledged();
            silence = silence.max(now - since);
            if count != last {
                (last, since) = (count, now);
            }
        }
        last
    };
    let at_end = until(length.saturating_sub(AT_END));
    let after = until(length);
    During { all: after - before, at_end: after - at_end, silence }
}

fn await_moment(cluster: &mut Cluster, plan: &Plan, control: &Control) -> BenchResult<()> {
    let began = Instant::now();
    let wait = |cluster: &mut Cluster, over: &dyn Fn() -> bool| -> BenchResult<()> {
        while !over() && began.elapsed() < MOMENT_MAX {
            thread::sleep(LOOK_AFTER / 10);
            if !control.was_killed() {
                cluster.check_alive()?;
            }
        }
        Ok(())
    };
    match plan.moment {
        Moment::Time(after) => wait(cluster, &|| began.elapsed() >= after)?,
        Moment::Success(after, nth) => {
            wait(cluster, &|| began.elapsed() >= after)?;
            control.kill_at_success(nth);
            wait(cluster, &|| control.was_killed())?;
        }
        Moment::SchemaChange(after, into) => {
            wait(cluster, &|| began.elapsed() >= after)?;
            let before = control.schema_changes_in_flight.load(Ordering::SeqCst);
            wait(cluster, &|| control.schema_changes_in_flight.load(Ordering::SeqCst) > before)?;
            let now = Instant::now();
            wait(cluster, &|| now.elapsed() >= into)?;
        }
        Moment::Snapshot(after, into) => {
            wait(cluster, &|| began.elapsed() >= after)?;
            wait(cluster, &|| control.snapshots_in_flight.load(Ordering::SeqCst) > 0)?;
            let now = Instant::now();
            wait(cluster, &|| now.elapsed() >= into)?;
        }
        Moment::Burst(_) | Moment::Stop(_) => unreachable!("not planned here"),
    }
    Ok(())
}

/// Waits for so many more acknowledged calls. Returns how long it took from the harm to the first
/// of them.
fn await_calls(cluster: &mut Cluster, control: &Control, harmed_at: Instant) -> BenchResult<Duration> {
    let acknowledged = || control.acknowledged.load(Ordering::Relaxed);
    let before = acknowledged();
    let give_up = Instant::now() + PATIENCE;
    let mut silence = None;
    while acknowledged() < before + CALLS_AFTER {
        if acknowledged() > before {
            silence.get_or_insert_with(|| harmed_at.elapsed());
        }
        cluster.check_alive()?;
        if Instant::now() >= give_up {
            let found = cluster.keepers();
            return Err(BenchError::Server(format!(
                "calls are not acknowledged again within {PATIENCE:?}; last heard of {found:?}"
            )));
        }
        thread::sleep(LOOK_AFTER);
    }
    Ok(silence.unwrap_or_else(|| harmed_at.elapsed()))
}

/// Compares all models with what the leader has. Returns which node that is.
pub fn check(cluster: &mut Cluster, loads: &mut [Box<dyn Load>], cut: &mut Cut) -> BenchResult<usize> {
    let session = Session::to_cluster(cluster.client_options())?;
    for load in loads {
        load.check(&session, cut).map_err(|error| BenchError::Server(format!("{}: {error}", load.name())))?;
    }
    session.close()?;
    Ok(cluster.await_keepers("a node leads", |_| true)?.leader)
}
