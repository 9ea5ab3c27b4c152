//! A transaction over several homes is there on all of them or on none.

use crate::history::History;
use crate::operation::{Action, Answer, Told};
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};

pub fn check(history: &History, state: &State) -> Result<(), String> {
    let mut found: BTreeMap<usize, BTreeSet<i64>> = BTreeMap::new();
    for (home, marks) in &state.marks {
        for number in marks.values() {
            found.entry(*number).or_default().insert(*home);
        }
    }
    for (number, homes) in &found {
        let operation = &history.operations[*number];
        let wanted: BTreeSet<i64> = match (&operation.action, &operation.told) {
            (Action::Clear { .. }, Told::Done(Answer::Steps(steps))) => steps.iter().map(|(home, _)| *home).collect(),
            // At least the homes that were known; others may have come before it.
            (Action::Clear { homes: known }, _) => known.iter().chain(homes).copied().collect(),
            (action, _) => action.homes().unwrap_or_default().into_iter().collect(),
        };
        if *homes != wanted && !operation.torn {
            return Err(format!("operation {number} {:?} is there on {homes:?}, not on {wanted:?}", operation.action));
        }
    }
    Ok(())
}
