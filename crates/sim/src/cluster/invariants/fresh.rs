//! 15. A read is at least as new as every write that was acknowledged before it began.

use crate::cluster::callers::Steps;
use crate::history::History;
use crate::operation::{Action, Answer, RATES, Told};
use std::collections::BTreeMap;

pub fn check(history: &History, known: &BTreeMap<usize, Steps>) -> Result<(), String> {
    for (number, steps) in known {
        let operation = &history.operations[*number];
        let seen: Steps = match (&operation.action, &operation.told) {
            (Action::Look { home, .. }, Told::Done(Answer::Looked(looked))) => Steps::from([(*home, looked.step)]),
            (Action::Both { .. }, Told::Done(Answer::Both(both))) => {
                both.iter().map(|(home, step, _)| (*home, *step)).collect()
            }
            (Action::Cut, Told::Done(Answer::Cut(cut))) => {
                let all = steps.keys().map(|home| (*home, cut.steps.get(home).copied().unwrap_or_default()));
                all.chain([(RATES, cut.rates)]).collect()
            }
            _ => continue,
        };
        for (home, step) in seen {
            let expected = steps.get(&home).copied().unwrap_or_default();
            if step < expected {
                return Err(format!(
                    "operation {number} saw step {step} of home {home}, when step {expected} had been acknowledged"
                ));
            }
        }
    }
    Ok(())
}
