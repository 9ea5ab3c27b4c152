//! The short run: fixed seeds, on our database alone. With `FERRITE_DIFFERENTIAL_POSTGRES=1`, on
//! PostgreSQL too (`./test postgres`).

use ferrite_differential::check::{Counts, keep_panics};
use ferrite_differential::postgres::Postgres;
use ferrite_differential::run::scenario;
use std::time::Duration;

/// Each some 120 queries, run in six ways or more.
const SEEDS: std::ops::Range<u64> = 1_000..1_040;
const SEEDS_WITH_POSTGRES: std::ops::Range<u64> = 2_000..2_040;
const SHRINK_TIME: Duration = Duration::from_secs(15);
/// So few of a thousand statements may be refused: more would mean that the generator asks for what
/// is not there.
const REFUSED_MAX: u64 = 20;
/// At most one of so many statements may compare parameters only.
const UNDECIDED_SHARE: u64 = 10;

fn run(seeds: impl Iterator<Item = u64>, mut postgres: Option<Postgres>) {
    keep_panics();
    let mut counts = Counts::default();
    let mut failed = 0;
    for seed in seeds {
        if let Some(report) = scenario(seed, postgres.as_mut(), &mut counts, SHRINK_TIME) {
            println!("{}", report.story());
            failed += 1;
        }
    }
    let refused: u64 = counts.refused.values().map(|(count, _)| count).sum();
    println!(
        "{} queries, {} runs, {} compared, {refused} refused; {} with parameters, {} of undecided types",
        counts.queries, counts.runs, counts.compared_with_theirs, counts.with_parameters, counts.undecided
    );
    let _ = std::panic::take_hook();
    assert_eq!(failed, 0, "seeds failed; their stories stand above");
    assert!(refused * 1_000 <= counts.queries * REFUSED_MAX, "{:#?}", counts.refused);
    assert!(counts.undecided * UNDECIDED_SHARE <= counts.with_parameters, "parameters have types");
    assert!(counts.queries > 1_000 && counts.runs > 5 * counts.queries, "the run does what it is made for");
}

#[test]
fn answers_depend_neither_on_partitions_nor_on_plans() {
    run(SEEDS, None);
}

/// Left out where nobody asked for it: it starts a PostgreSQL of its own.
#[test]
fn answers_are_those_of_postgresql() {
    if std::env::var_os("FERRITE_DIFFERENTIAL_POSTGRES").is_none() {
        return;
    }
    let postgres = Postgres::start().unwrap_or_else(|message| panic!("{message}"));
    run(SEEDS_WITH_POSTGRES, Some(postgres));
}
