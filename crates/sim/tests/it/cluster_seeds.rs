//! Seeds of clusters: the same one does the same, and none violates anything.
//!
//! `CLUSTER_SEEDS=500 cargo test -p ferrite-sim --test it cluster_seeds::` runs more, from
//! `CLUSTER_SEED` on; `CLUSTER_TRACE=1` shows every step.

use crate::kept;
use ferrite_sim::cluster::{
    Counts, Report, run, run_with_groups, run_with_losses, run_with_snapshots, run_with_stalls,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Unless it is said how many.
const SEEDS: u64 = 140;
const GROUP_SEEDS: u64 = 60;
const SNAPSHOT_SEEDS: u64 = 30;
const LOSS_SEEDS: u64 = 30;
const STALL_SEEDS: u64 = 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs seeds on two threads; what all have tried together, and what was violated.
fn run_all(name: &str, seeds: &[u64], run: fn(u64, bool) -> Report) -> (Counts, Vec<String>) {
    let show = std::env::var_os("CLUSTER_TRACE").is_some();
    let (next, totals) = (AtomicUsize::new(0), Mutex::new((Counts::default(), Vec::new())));
    std::thread::scope(|scope| {
        for _ in 0..if show { 1 } else { 2 } {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = run(*seed, show);
                    let mut totals = totals.lock().expect("nobody panics with the totals");
                    totals.0.add(&report.counts);
                    let seed = report.seed;
                    totals.1.extend(report.violation.map(|violation| format!("{name}={seed}: {violation}")));
                }
            });
        }
    });
    totals.into_inner().expect("nobody panics with the totals")
}

/// Runs the seeds that the environment asks for, by `NAME` and `NAMES`, or so many from 1 on, and
/// finds nothing. What the ordinary ones have tried together; None where others were asked for.
fn run_ordinary(name: &str, seeds: u64, run: fn(u64, bool) -> Report) -> Option<Counts> {
    let asked = number(&format!("{name}S"));
    let first = number(name).unwrap_or(1);
    let seeds: Vec<u64> = (first..first + asked.unwrap_or(seeds)).collect();
    let (counts, violations) = run_all(name, &seeds, run);
    println!("{counts:?}");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    asked.is_none().then_some(counts)
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(run(2, false), run(2, false));
    assert_ne!(run(1, false).trace, run(2, false).trace);
}

#[test]
fn clusters_keep_what_they_have_acknowledged() {
    if let Some(counts) = run_ordinary("CLUSTER_SEED", SEEDS, run) {
        // What nobody tries, nobody finds.
        assert!(counts.acknowledged > 5_000 && counts.unknown > 40 && counts.schema_changes > 100, "{counts:?}");
        assert!(counts.crashes > 50 && counts.power_losses > 15 && counts.splits > 20, "{counts:?}");
        assert!(counts.terms > 25 && counts.promotions > 40 && counts.deposed > 3, "{counts:?}");
        assert!(counts.from_log > 8 && counts.disk_faults > 5, "{counts:?}");
        assert!(counts.snapshots > 20 && counts.copied > 20 && counts.installed > 2, "{counts:?}");
        assert!(counts.hashed > 20 && counts.compared > 20, "{counts:?}");
        assert!(counts.stops > 60 && counts.handed_over > 60 && counts.left_alone > 1, "{counts:?}");
        assert!(counts.left > 6 && counts.behind > 4, "{counts:?}");
        assert!(counts.ahead > 2 && counts.came_back > 12, "{counts:?}");
        assert!(counts.lived > 14 && counts.clocks_set > 350 && counts.slow_copies > 14, "{counts:?}");
        assert!(counts.paused > 10 && counts.paused_beyond > 10 && counts.paused_calls > 100, "{counts:?}");
        assert!(counts.paused_reads > 100 && counts.resumed > 7 && counts.unable > 14, "{counts:?}");
        assert!(counts.accepted > 10 && counts.made_anew > 4 && counts.unusable > 30, "{counts:?}");
        assert!(counts.pauses > 50 && counts.long_pauses > 4, "{counts:?}");
    }
}

#[test]
fn seeds_that_once_failed() {
    for (name, dir, run) in [
        ("CLUSTER_SEED", "seeds/cluster", run as fn(u64, bool) -> Report),
        ("GROUP_SEED", "seeds/groups", run_with_groups),
        ("LOSS_SEED", "seeds/losses", run_with_losses),
    ] {
        let (_, violations) = run_all(name, &kept::seeds(dir), run);
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }
}

/// Clusters of several groups, of which each node leads some: `GROUP_SEEDS=500` runs more, from
/// `GROUP_SEED` on.
#[test]
fn clusters_of_several_groups_keep_what_they_have_acknowledged() {
    if let Some(counts) = run_ordinary("GROUP_SEED", GROUP_SEEDS, run_with_groups) {
        assert!(counts.acknowledged > 50_000 && counts.unknown > 500, "{counts:?}");
        assert!(counts.crashes > 400 && counts.power_losses > 100 && counts.splits > 50, "{counts:?}");
        assert!(counts.promotions > 800 && counts.deposed > 400 && counts.handed_over > 300, "{counts:?}");
        assert!(counts.stops > 100 && counts.slow_copies > 10 && counts.unable > 10, "{counts:?}");
        assert!(counts.over_groups > 1_000 && counts.lot_messages > 5_000 && counts.links_ended > 20, "{counts:?}");
    }
}

/// The same with snapshots of each group, and those that nodes are sent: `SNAPSHOT_SEEDS=500` runs
/// more, from `SNAPSHOT_SEED` on.
#[test]
fn clusters_of_several_groups_keep_it_in_snapshots_too() {
    if let Some(counts) = run_ordinary("SNAPSHOT_SEED", SNAPSHOT_SEEDS, run_with_snapshots) {
        assert!(counts.snapshots > 500 && counts.copied > 500 && counts.installed > 5, "{counts:?}");
    }
}

/// Several groups, one of which after another is continued without what its leader has:
/// `LOSS_SEEDS=500` runs more, from `LOSS_SEED` on.
#[test]
fn clusters_of_several_groups_keep_the_others_where_one_loses_something() {
    if let Some(counts) = run_ordinary("LOSS_SEED", LOSS_SEEDS, run_with_losses) {
        assert!(counts.lived > 10 && counts.made_anew > 5 && counts.over_groups > 300, "{counts:?}");
    }
}

/// Several groups, whose messages about lots may take seconds: `STALL_SEEDS=500` runs more, from
/// `STALL_SEED` on.
#[test]
fn clusters_of_several_groups_wait_for_late_messages_about_lots() {
    if let Some(counts) = run_ordinary("STALL_SEED", STALL_SEEDS, run_with_stalls) {
        assert!(counts.stalls > 50 && counts.over_groups > 200, "{counts:?}");
    }
}
