//! Fuzz targets: however the files of a database are changed, opening them neither panics nor
//! misleads. `histories --poison ROUNDS --seeds N` does the same for as long as one likes.

use ferrite_sim::poison::{Change, Opened, Sample};
use std::collections::BTreeMap;
use std::sync::Mutex;

fn poisoned(closed: bool) {
    let samples: Vec<Sample> = (1..=3).map(|seed| Sample::make(seed, closed)).collect();
    let seen: Mutex<BTreeMap<String, u64>> = Mutex::default();
    type Numbers = (u8, u8, u8, u32, u32);
    bolero::check!().with_iterations(150).with_type::<(u8, [Option<Numbers>; 4])>().for_each(|(sample, changes)| {
        let change = |&(kind, file, other, at, from): &Numbers| Change { kind, file, other, at, from };
        let changes: Vec<Change> = changes.iter().flatten().map(change).collect();
        let opened = samples[usize::from(*sample) % samples.len()].check(&changes);
        let opened = opened.unwrap_or_else(|violation| panic!("{violation}"));
        *seen.lock().unwrap().entry(format!("{opened:?}")).or_default() += 1;
    });
    // Changes that are all refused, or all passed over, try nothing.
    let seen = seen.lock().unwrap();
    assert!(
        seen.contains_key(&format!("{:?}", Opened::Refused)) && seen.contains_key(&format!("{:?}", Opened::Whole)),
        "{seen:?}"
    );
}

#[test]
fn changed_files_of_a_closed_database() {
    poisoned(true);
}

#[test]
fn changed_files_of_a_killed_database() {
    poisoned(false);
}
