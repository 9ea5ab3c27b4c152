//! All partitions have the same rows of a replicated table, under the same row ids.

use crate::history::History;
use crate::state::State;

pub fn check(_: &History, state: &State) -> Result<(), String> {
    if state.unequal.is_empty() {
        Ok(())
    } else {
        Err(format!("{} differ between partitions", state.unequal.join(", ")))
    }
}
