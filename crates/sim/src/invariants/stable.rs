//! What one recovery found, the next finds too, in the same order: a crash during recovery or after
//! it takes nothing back.

use crate::history::History;
use crate::state::State;

pub fn check(history: &History, state: &State) -> Result<(), String> {
    for (home, before) in &history.recovered {
        let now: Vec<usize> = state.marks.get(home).map(|marks| marks.values().copied().collect()).unwrap_or_default();
        if !now.starts_with(before) {
            let at = now.iter().zip(before).take_while(|(now, before)| now == before).count();
            return Err(format!(
                "home {home} had {} steps and has {}; from step {} on they differ",
                before.len(),
                now.len(),
                at + 1
            ));
        }
    }
    Ok(())
}
