//! Literals with many digits (`ferrite_differential::numbers`): fixed seeds, on our database alone.
//! With `FERRITE_DIFFERENTIAL_POSTGRES=1`, on PostgreSQL too (`./test postgres`).

use ferrite_differential::numbers::{Counts, scenario};
use ferrite_differential::postgres::Postgres;

/// Each some 250 statements, run in five ways or more.
const SEEDS: std::ops::Range<u64> = 0..40;
const SEEDS_WITH_POSTGRES: std::ops::Range<u64> = 100..120;

fn run(seeds: std::ops::Range<u64>, mut postgres: Option<Postgres>) -> Counts {
    let mut counts = Counts::default();
    let mut failed = 0;
    for seed in seeds {
        if let Err(story) = scenario(seed, postgres.as_mut(), &mut counts) {
            println!("seed {seed}: {story}");
            failed += 1;
        }
    }
    println!("{counts:?}");
    assert_eq!(failed, 0, "seeds failed; their stories stand above");
    assert!(counts.by_other_plans * 10 > counts.statements, "plans are shared: {counts:?}");
    assert!(counts.with_parameters * 10 > counts.statements, "parameters are given: {counts:?}");
    counts
}

#[test]
fn a_number_means_the_same_in_every_way() {
    run(SEEDS, None);
}

/// Left out where nobody asked for it: it starts a PostgreSQL of its own.
#[test]
fn a_number_means_what_it_does_in_postgresql() {
    if std::env::var_os("FERRITE_DIFFERENTIAL_POSTGRES").is_none() {
        return;
    }
    let postgres = Postgres::start().unwrap_or_else(|message| panic!("{message}"));
    let counts = run(SEEDS_WITH_POSTGRES, Some(postgres));
    assert!(counts.compared_with_theirs > 1_000, "{counts:?}");
}
