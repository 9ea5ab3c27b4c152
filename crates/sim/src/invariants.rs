//! What must hold after every recovery, whatever happened before: each rule in a room of its own.

pub mod absent;
pub mod acknowledged;
pub mod atomic;
pub mod contents;
pub mod indexes;
pub mod reads;
pub mod replicas;
pub mod restores;
pub mod schema;
pub mod stable;
pub mod steps;

use crate::history::History;
use crate::state::State;

/// Which rule was broken, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

type Check = fn(&History, &State) -> Result<(), String>;

/// In the order in which a fault is understood best.
const ALL: &[(&str, Check)] = &[
    ("indexes and views equal a scan", indexes::check),
    ("copies of replicated tables are equal", replicas::check),
    ("the schema is one that was made", schema::check),
    ("steps have no gap", steps::check),
    ("what was acknowledged is there", acknowledged::check),
    ("what failed or was refused is not there", absent::check),
    ("what was recovered stays", stable::check),
    ("a transaction is there on all its homes or on none", atomic::check),
    ("rows are what the operations made", contents::check),
    ("what was read is durable, and was so", reads::check),
    ("a restore is there wholly or not at all", restores::check_whole),
    ("what was told of a restore is so", restores::check),
];

/// Checks all of them against what a recovery found.
pub fn check(history: &History, state: &State) -> Result<(), Violation> {
    if let Some((invariant, detail)) = &history.violation {
        return Err(Violation { invariant, detail: detail.clone() });
    }
    for (invariant, check) in ALL {
        check(history, state).map_err(|detail| Violation { invariant, detail })?;
    }
    Ok(())
}

/// Checks that what is there is right in itself, though something may be missing at the end.
pub fn check_whole(history: &History, state: &State) -> Result<(), Violation> {
    const RULES: [&str; 7] = [ALL[0].0, ALL[1].0, ALL[3].0, ALL[5].0, ALL[7].0, ALL[8].0, ALL[10].0];
    for (invariant, check) in ALL.iter().filter(|(name, _)| RULES.contains(name)) {
        check(history, state).map_err(|detail| Violation { invariant, detail })?;
    }
    Ok(())
}

/// Takes what a recovery found, after it was checked, as the truth from now on.
pub fn adopt(history: &mut History, state: &State) {
    history.recovered = state.marks.iter().map(|(home, marks)| (*home, marks.values().copied().collect())).collect();
    let present: std::collections::BTreeSet<usize> = history.recovered.values().flatten().copied().collect();
    for (number, operation) in history.operations.iter_mut().enumerate() {
        operation.absent = !present.contains(&number);
    }
    schema::adopt(history, state);
    restores::adopt(history, state);
    history.backups.clear();
}
