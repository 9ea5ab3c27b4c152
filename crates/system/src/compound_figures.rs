//! What became of calls of procedures outside of transactions, for `@Statistics`.

use ferrite_partition::counters::CallOutcome;
use ferrite_partition::counters::ProcedureCounters;
use ferrite_plan::Program;
use ferrite_plan::external::QueuedCall;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Of one procedure, since the server started.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CompoundFigures {
    /// And not one with futures.
    pub compound: bool,
    /// Every call is timed, from when it was taken to its answer.
    pub counters: ProcedureCounters,
    /// How often it has called which procedure.
    pub called: BTreeMap<String, u64>,
}

#[derive(Default)]
pub struct Figures(Mutex<BTreeMap<String, CompoundFigures>>);

impl Figures {
    fn of(&self, program: &Program, change: impl FnOnce(&mut CompoundFigures)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(&program.name) {
            all.insert(program.name.clone(), CompoundFigures::default());
        }
        let figures = all.get_mut(&program.name).expect("it is there now");
        figures.compound = program.is_compound();
        change(figures);
    }

    /// `sizes`: bytes of the parameters and of the answer.
    pub fn ended(&self, program: &Program, outcome: CallOutcome, elapsed: Duration, sizes: (usize, usize)) {
        self.of(program, |figures| figures.counters.timed(outcome, elapsed, sizes.0, sizes.1));
    }

    pub fn called(&self, program: &Program, calls: &[QueuedCall]) {
        self.of(program, |figures| {
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
