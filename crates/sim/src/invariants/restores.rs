//! A restore took place wholly or not at all; as it was told, where anybody was told.

use crate::history::History;
use crate::state::State;

/// All rows of the backup are there, or none.
pub fn check_whole(history: &History, state: &State) -> Result<(), String> {
    let rows = &history.restored.rows;
    let is = &state.restored;
    if is == rows || (is.restored.is_empty() && is.codes.is_empty()) {
        return Ok(());
    }
    let alike = is.restored.iter().filter(|(id, row)| rows.restored.get(id) == Some(row)).count();
    Err(format!(
        "{} of {} rows ({alike} right), {} of {} codes",
        is.restored.len(),
        rows.restored.len(),
        is.codes.len(),
        rows.codes.len()
    ))
}

pub fn check(history: &History, state: &State) -> Result<(), String> {
    let known = &history.restored;
    let is = is_full(state);
    match &known.outstanding {
        Some(change) if change.seen && change.full != is => {
            Err(format!("somebody saw operation {} done; the tables are {}", change.number, words(is)))
        }
        Some(change) if change.full == is => Ok(()),
        _ if known.is_full() == is => Ok(()),
        _ => Err(format!("the tables were {}, and are {}", words(known.is_full()), words(is))),
    }
}

pub fn adopt(history: &mut History, state: &State) {
    history.restored.outstanding = None;
    history.restored.full.push(is_full(state));
}

fn is_full(state: &State) -> bool {
    !state.restored.restored.is_empty()
}

fn words(full: bool) -> &'static str {
    if full { "full" } else { "empty" }
}
