//! Sequencers and agents in a world of messages that are late or lost, leaders that end, and
//! streams whose last entries may be lost with them; from seeds, with rules that are checked at
//! every step and at rest.
//!
//! `MULTI_SEED=7` runs that one, `MULTI_SEEDS=5000` more.

#[path = "world/mod.rs"]
mod world;

use ferrite_base::planted_fault::{PlantedFault, with_planted};
use world::{Counts, World};

const SEEDS: u64 = 150;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn run(seed: u64) -> Result<Counts, String> {
    let result = std::panic::catch_unwind(|| World::new(seed).run());
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

#[test]
fn all_parties_come_to_the_same_outcome() {
    let mut all = Counts::default();
    let seeds = number("MULTI_SEED").map_or(1..=number("MULTI_SEEDS").unwrap_or(SEEDS), |seed| seed..=seed);
    for seed in seeds {
        match run(seed) {
            Ok(counts) => all.add(&counts),
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    if number("MULTI_SEED").is_some() {
        return;
    }
    // All of it has happened.
    let Counts { committed, aborted, reads, stale_reads, resolved, refused, replaced, sequencers, lost_tails, unknown } =
        all;
    let seldom = [
        committed / 50,
        aborted / 10,
        reads / 10,
        stale_reads,
        resolved,
        refused,
        replaced,
        sequencers,
        lost_tails,
        unknown,
    ];
    assert!(seldom.iter().all(|count| *count > 20), "{all:?}");
}

#[test]
fn planted_faults_are_found() {
    use PlantedFault::*;
    let faults = [
        VoteBeforeCommit,
        AnswerAfterOneVote,
        AbortAfterPrepare,
        RefusedWithoutRecord,
        ForgottenEarly,
        PreparedAfterRefusal,
        LeadsInDoubt,
        OldOrder,
    ];
    let mut found = Vec::new();
    for fault in faults {
        let first = (1..=60).find_map(|seed| with_planted(fault, || run(seed)).err().map(|what| (seed, what)));
        found.push((fault, first));
    }
    assert!(found.iter().all(|(_, first)| first.is_some()), "{found:#?}");
}
