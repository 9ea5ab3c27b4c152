//! Seeds: the same one does the same, a hundred violate nothing, and those that once did are run
//! for ever.

use crate::kept;
use ferrite_sim::{Counts, SeedReport, run, run_switching};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs seeds on two threads; what all have tried together, and what was violated.
fn run_all(seeds: &[u64]) -> (Counts, Vec<String>) {
    run_all_by(seeds, run)
}

fn run_all_by(seeds: &[u64], run: fn(u64, bool) -> SeedReport) -> (Counts, Vec<String>) {
    let (next, totals) = (AtomicU64::new(0), Mutex::new((Counts::default(), Vec::new())));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let report = run(*seed, false);
                    let mut totals = totals.lock().expect("nobody panics with the totals");
                    totals.0.add(&report.counts);
                    totals.1.extend(report.violation.map(|violation| format!("seed {seed}: {violation}")));
                }
            });
        }
    });
    totals.into_inner().expect("nobody panics with the totals")
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1..=8 {
        assert_eq!(run(seed, false), run(seed, false));
    }
    assert_ne!(run(1, false).trace, run(2, false).trace);
}

/// So many seeds, or as many as an environment variable says.
fn count(name: &str, count: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(count)
}

/// `DATABASE_SEEDS=2000` runs more.
#[test]
fn seeds_violate_nothing() {
    let (counts, violations) = run_all(&(1..=count("DATABASE_SEEDS", 120)).collect::<Vec<_>>());
    println!("{counts:?}");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    // What nobody tries, nobody finds.
    assert!(counts.power_losses > 80 && counts.crashes_in_recovery > 40 && counts.failures > 20, "{counts:?}");
    assert!(counts.rot_refused > 80 && counts.unknown > 400 && counts.schema_changes > 400, "{counts:?}");
    assert!(counts.missed > 80, "{counts:?}");
    assert!(counts.shortened > 200 && counts.shortened_refused > 100 && counts.swept_away > 4, "{counts:?}");
    assert!(counts.snapshots > 120, "{counts:?}");
    assert!(counts.restored > 80 && counts.restores_failed > 40, "{counts:?}");
    assert!(counts.restores_unknown > 3, "{counts:?}");
    assert!(counts.faults_undone > 120 && counts.faults_final > 6, "{counts:?}");
    assert!(counts.restores_cut_short > 40 && counts.backups_restored > 40, "{counts:?}");
}

/// A database is run with durability memory and with the others by turns, and is killed at any
/// operation of the disk: what these acknowledged stays, and so does what a complete snapshot
/// shows.
/// `SWITCHING_SEEDS=600` runs more, `SWITCHING_SEED=17` one, and shows what happens.
#[test]
fn seeds_that_switch_to_memory_and_back_violate_nothing() {
    if let Some(seed) = std::env::var("SWITCHING_SEED").ok().and_then(|text| text.parse().ok()) {
        let report = run_switching(seed, true);
        return assert_eq!(report.violation, None, "{:?}", report.counts);
    }
    let (counts, violations) = run_all_by(&(1..=count("SWITCHING_SEEDS", 30)).collect::<Vec<_>>(), run_switching);
    println!("{counts:?}");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    assert!(counts.ended_unsaved > 30 && counts.power_losses > 30, "{counts:?}");
    assert!(counts.snapshots > 150 && counts.crashes_in_recovery > 15, "{counts:?}");
    assert!(counts.rot_refused > 30 && counts.schema_changes > 100, "{counts:?}");
    assert!(counts.to_memory > 20 && counts.from_memory > 20 && counts.ended_saving > 5, "{counts:?}");
    assert!(counts.manifests_removed > 50 && counts.manifests_missed > 25, "{counts:?}");
    assert_eq!(run_switching(1, false), run_switching(1, false));
}

#[test]
fn seeds_that_once_failed() {
    let (_, violations) = run_all(&kept::seeds("seeds"));
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    let (_, violations) = run_all_by(&kept::seeds("seeds/switching"), run_switching);
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
