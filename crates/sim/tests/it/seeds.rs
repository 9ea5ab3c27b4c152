//! Seeds: the same one does the same, hundreds of them violate nothing, and those that once did are
//! run for ever.

use crate::kept;
use ferrite_sim::{Counts, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs seeds on two threads; what all have tried together, and what was violated.
fn run_all(seeds: &[u64]) -> (Counts, Vec<String>) {
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

#[test]
fn three_hundred_seeds_violate_nothing() {
    let (counts, violations) = run_all(&(1..=300).collect::<Vec<_>>());
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    // What nobody tries, nobody finds.
    assert!(counts.power_losses > 200 && counts.crashes_in_recovery > 100 && counts.failures > 50, "{counts:?}");
    assert!(counts.rot_refused > 200 && counts.unknown > 1_000 && counts.schema_changes > 1_000, "{counts:?}");
    assert!(counts.missed > 200, "{counts:?}");
    assert!(counts.shortened > 500 && counts.shortened_refused > 250 && counts.swept_away > 15, "{counts:?}");
    assert!(counts.snapshots > 300, "{counts:?}");
    assert!(counts.restored > 200 && counts.restores_failed > 100, "{counts:?}");
    assert!(counts.restores_unknown > 10, "{counts:?}");
    assert!(counts.faults_undone > 300 && counts.faults_final > 20, "{counts:?}");
    assert!(counts.restores_cut_short > 100 && counts.backups_restored > 100, "{counts:?}");
}

#[test]
fn seeds_that_once_failed() {
    let (_, violations) = run_all(&kept::seeds("seeds"));
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
