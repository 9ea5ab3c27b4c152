//! What became of calls of compound procedures, for `@Statistics`.

use ferrite_partition::counters::ProcedureCounters;
use ferrite_partition::execute::Outcome;
use ferrite_sql::foreign::QueuedCall;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Of one procedure, since the server started.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CompoundFigures {
    /// Every call is timed, from when it was taken to its answer.
    pub counters: ProcedureCounters,
    /// How often it has called which procedure.
    pub called: BTreeMap<String, u64>,
}

#[derive(Default)]
pub struct Figures(Mutex<BTreeMap<String, CompoundFigures>>);

impl Figures {
    fn of(&self, procedure: &str, change: impl FnOnce(&mut CompoundFigures)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(procedure) {
            all.insert(procedure.to_owned(), CompoundFigures::default());
        }
        change(all.get_mut(procedure).expect("it is there now"));
    }

    /// `sizes`: bytes of the parameters and of the answer.
    pub(super) fn ended(&self, procedure: &str, outcome: Outcome, elapsed: Duration, sizes: (usize, usize)) {
        self.of(procedure, |figures| figures.counters.timed(outcome, elapsed, sizes.0, sizes.1));
    }

    pub(super) fn called(&self, procedure: &str, calls: &[QueuedCall]) {
        self.of(procedure, |figures| {
            for call in calls {
                match figures.called.get_mut(&call.procedure) {
                    Some(count) => *count += 1,
                    None => drop(figures.called.insert(call.procedure.clone(), 1)),
                }
            }
        });
    }

    pub fn all(&self) -> BTreeMap<String, CompoundFigures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
