//! Groups of nodes on a network that loses, repeats and reorders, with crashes, against the
//! invariants of docs/replication.md.
//!
//! The metadata is one object here that decides at once and tells late: its own consensus is
//! another test's business. It never waits for leases, so whatever holds here holds without clocks.

use crate::world::{Fault, World, WorldCounts};

const FOUND_WITHIN: u64 = 300;
/// All members of a configuration have what is committed. So whoever is chosen by answers that are
/// too old has it all the same, and it takes a rare history until that is seen.
const STALE_ANSWERS_FOUND_WITHIN: u64 = 1_500;

/// `GROUP_SEEDS` many from `GROUP_SEED` on, for longer runs.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let first = number("GROUP_SEED", 1);
    first..first + number("GROUP_SEEDS", default)
}

#[test]
fn nothing_acknowledged_is_lost_and_no_read_is_stale() {
    let mut total = WorldCounts::default();
    for seed in seeds(450) {
        let outcome = World::new(seed, Fault::None).run().unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        total.add(&outcome);
    }
    println!("{total:?}");
    // The generator goes where it should.
    assert!(total.writes > 10_000 && total.reads > 3_000 && total.leaders > 2_000, "{total:?}");
    assert!(total.crashes > 3_000 && total.joins > 1_000 && total.dropped > 100 && total.late_reads > 200, "{total:?}");
    assert!(total.handed_over > 150 && total.lagged > 200 && total.chosen > 50, "{total:?}");
}

/// Each fault that is built in on purpose breaks an invariant soon.
#[test]
fn planted_faults_are_found() {
    let faults = [
        Fault::AddedAreLikeMembers,
        Fault::AcknowledgedBeforeDurable,
        Fault::ReadsDoNotWait,
        Fault::AnyAnswerSuffices,
        Fault::SealedWithoutPromise,
        Fault::DurableIsApplied,
        Fault::SealedWithoutApplied,
    ];
    for fault in faults {
        let rare = fault == Fault::SealedWithoutPromise;
        let within = if rare { STALE_ANSWERS_FOUND_WITHIN } else { FOUND_WITHIN };
        let broken = (1..=within).find_map(|seed| World::new(seed, fault).run().err().map(|rule| (seed, rule)));
        println!("{fault:?}: {broken:?}");
        assert!(broken.is_some(), "{fault:?} is not found in {within} seeds");
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    let run = |seed| World::new(seed, Fault::None).run().map(|outcome| (outcome.steps_hash, outcome.writes));
    for seed in 1..5 {
        assert_eq!(run(seed), run(seed));
    }
}
