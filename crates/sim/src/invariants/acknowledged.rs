//! A write that was acknowledged is there, in the place that its answer named.

use crate::history::History;
use crate::operation::{Answer, Told};
use crate::state::State;

pub fn check(history: &History, state: &State) -> Result<(), String> {
    for (number, operation) in history.operations.iter().enumerate() {
        let Told::Done(Answer::Steps(steps)) = &operation.told else { continue };
        for (home, step) in steps {
            let found = state.marks.get(home).and_then(|marks| marks.get(step));
            if found != Some(&number) {
                return Err(format!(
                    "operation {number} {:?} was acknowledged as step {step} of home {home}, where {found:?} is",
                    operation.action
                ));
            }
        }
    }
    Ok(())
}
