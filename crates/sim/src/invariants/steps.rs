//! The marks of a home are numbered from 1 to what its counter says, each for another operation,
//! one that was sent to it.

use crate::history::History;
use crate::state::State;
use std::collections::BTreeSet;

pub fn check(history: &History, state: &State) -> Result<(), String> {
    let marked: BTreeSet<i64> = state.marks.keys().copied().collect();
    let counted: BTreeSet<i64> = state.heads.iter().filter(|(_, head)| **head > 0).map(|(home, _)| *home).collect();
    if marked != counted {
        return Err(format!("homes with marks are {marked:?}, with steps {counted:?}"));
    }
    for (home, marks) in &state.marks {
        let head = state.heads[home];
        if !marks.keys().copied().eq(1..=head) {
            return Err(format!("home {home} has {head} steps, and marks for {:?}", marks.keys()));
        }
        let mut seen = BTreeSet::new();
        for (step, number) in marks {
            let fits = history.operations.get(*number).is_some_and(|operation| match operation.action.homes() {
                Some(homes) => homes.contains(home),
                None => *home >= 0,
            });
            if !fits || !seen.insert(number) {
                return Err(format!("step {step} of home {home} is of operation {number}, which cannot be"));
            }
        }
    }
    Ok(())
}
