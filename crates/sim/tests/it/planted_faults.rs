//! Planted faults: for fifteen of them, a seed that finds the fault, by the rule that must find
//! it, and finds nothing without it. `histories --planted all --seeds 60` runs them all.

use ferrite_base::planted_fault::PlantedFault::{self, *};
use ferrite_sim::planted::{must_find, run_planted, run_seed};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The fault, a seed, and the rule that it violates.
const FOUND: [(PlantedFault, u64, &str); 15] = [
    (AnswerBeforeFsync, 1, "what was acknowledged is there"),
    (RotIsCut, 1, "a shortened log is never passed over in silence"),
    (ReadAtOnce, 10, "what was read is durable, and was so"),
    (BackupNamesNotDurable, 1, "a backup that has a manifest is whole, whenever the power goes"),
    (LeaseForEver, 10, "no read is older than what was acknowledged"),
    (EarlyAcknowledgement, 4, "a committed entry never changes"),
    (OwnFsyncOnly, 2, "no copy is made anew for nothing"),
    (UndrainedHandOver, 6, "a hand-over fails no call"),
    (CutBeforeRecord, 10, "a healthy disk can be opened"),
    (TimeOfEntries, 2, "time does not go back"),
    (TimeUnlimited, 12, "time does not go back"),
    (PauseOfLeader, 11, "no write is executed while the database is paused"),
    (VoteBeforeCommit, 5, "what was acknowledged is there"),
    (LeadsInDoubt, 3, "no copy is made anew for nothing"),
    (ReleasedSeparately, 50, "one order explains what clients saw"),
];

/// What each does, on two threads.
fn on_two_threads<T: Copy + Sync>(all: &[T], check: impl Fn(T) -> Option<String> + Sync) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    wrong.lock().expect("nobody panics with it").extend(check(*one));
                }
            });
        }
    });
    wrong.into_inner().expect("nobody panics with it")
}

#[test]
fn fifteen_faults_are_found_by_the_rules_that_must_find_them() {
    let wrong = on_two_threads(&FOUND, |(fault, seed, rule)| {
        assert!(must_find(fault).1.contains(&rule), "{fault:?}");
        match run_planted(fault, seed, false) {
            Some(violation) if violation.invariant == rule => None,
            Some(violation) => Some(format!("{fault:?}: seed {seed} finds {violation}, not that {rule}")),
            None => Some(format!("{fault:?}: seed {seed} does not find that {rule}")),
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn their_seeds_find_nothing_without_a_fault() {
    let seeds: BTreeSet<_> = FOUND.iter().map(|(fault, seed, _)| (must_find(*fault).0, *seed)).collect();
    let seeds: Vec<_> = seeds.into_iter().collect();
    let wrong = on_two_threads(&seeds, |(simulator, seed)| {
        run_seed(simulator, seed, false).map(|violation| format!("{simulator:?} seed {seed}: {violation}"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The cells of each row about a planted fault.
fn rows(page: &str) -> Vec<(PlantedFault, Vec<&str>)> {
    page.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
            let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
            Some((PlantedFault::from_name(name)?, cells))
        })
        .collect()
}

#[test]
fn the_page_and_the_code_agree() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let page = std::fs::read_to_string(page).expect("the page can be read");
    let rows = rows(&page);
    let in_page: Vec<PlantedFault> = rows.iter().map(|(fault, _)| *fault).collect();
    assert_eq!(in_page, PlantedFault::ALL, "docs/simulator.md has a row for each, in the order of the code");
    for (fault, cells) in rows {
        let (_, by) = must_find(fault);
        let [breaks, _, found, rules] = cells[..] else { panic!("{fault:?}: four columns") };
        assert_eq!(breaks, fault.breaks(), "{fault:?}");
        let is_found = found.starts_with("seed ") && !by.is_empty();
        assert!(is_found || found.starts_with("not in "), "{fault:?}: {found}");
        // Those that no seed can find are found by tests, which the page names.
        assert!(rules == by.join("; ") || by.is_empty() && rules.starts_with("none: "), "{fault:?}: {rules}");
    }
}
