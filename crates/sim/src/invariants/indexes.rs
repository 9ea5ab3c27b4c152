//! Every index has an entry for each row and no other, unique ones no two alike; every view is what
//! filling it afresh would give.

use crate::history::History;
use crate::state::State;

pub fn check(_: &History, state: &State) -> Result<(), String> {
    if state.faults.is_empty() { Ok(()) } else { Err(state.faults.join("; ")) }
}
