//! Nothing is there of an operation that failed or was refused, nor of one that an earlier recovery
//! has shown to be lost.

use crate::history::History;
use crate::operation::Told;
use crate::state::State;

pub fn check(history: &History, state: &State) -> Result<(), String> {
    for (home, marks) in &state.marks {
        for (step, number) in marks {
            let operation = &history.operations[*number];
            let why = match &operation.told {
                Told::Failed(text) => format!("failed with {text:?}"),
                Told::Refused(text) => format!("was refused with {text:?}"),
                _ if operation.absent => "was not there at an earlier recovery".to_owned(),
                _ => continue,
            };
            return Err(format!("operation {number} {:?} {why}, and is step {step} of home {home}", operation.action));
        }
    }
    Ok(())
}
