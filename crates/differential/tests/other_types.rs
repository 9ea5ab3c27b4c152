//! Parameters beside values of other types (`ferrite_differential::other_types`): fixed seeds.

use ferrite_differential::other_types::{Counts, scenario};

/// Each 200 statements, run in three ways.
const SEEDS: std::ops::Range<u64> = 0..30;

#[test]
fn a_parameter_means_what_a_literal_of_its_type_does() {
    let mut counts = Counts::default();
    let mut failed = 0;
    for seed in SEEDS {
        if let Err(story) = scenario(seed, &mut counts) {
            println!("seed {seed}: {story}");
            failed += 1;
        }
    }
    println!("{counts:?}");
    assert_eq!(failed, 0, "seeds failed; their stories stand above");
    assert!(counts.compared * 4 > counts.statements, "literals mean something: {counts:?}");
    assert!(counts.undecided * 20 < counts.statements, "types are found: {counts:?}");
}
