//! Sequencers and agents in a world of messages that are late or lost, leaders that end, and
//! streams whose last entries may be lost with them; from seeds, with rules that are checked at
//! every step and at rest.

#[path = "world/mod.rs"]
mod world;

use ferrite_base::planted_fault::{PlantedFault, with_planted};
use world::{Counts, World};

const SEEDS: u64 = 400;

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
    for seed in 1..=SEEDS {
        match run(seed) {
            Ok(counts) => all.add(&counts),
            Err(what) => panic!("seed {seed}: {what}"),
        }
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
    std::panic::set_hook(Box::new(|_| {}));
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
    let _ = std::panic::take_hook();
    assert!(found.iter().all(|(_, first)| first.is_some()), "{found:#?}");
}
