//! A call on its way through its program: the stores that it changes, its variables, what it has
//! used.
//!
//! `procedure` takes it through the steps, `write` makes its changes, `parts` does a query's parts
//! ahead.

use crate::call::{Call, Scratch};
use crate::evaluator::{Evaluator, Slots};
use crate::measure::Measures;
use crate::meter::{Meter, TICKS_PER_CHECK, WORK_PER_CHECK, check_call};
use crate::rows::Prepared;
use ferrite_base::UserResult;
use ferrite_table::Store;
use ferrite_value::Value;
use std::cell::Cell;

/// One call on its way through its program.
pub(crate) struct Run<'r, 'x> {
    pub(crate) stores: &'r mut [Store],
    pub(crate) call: &'x Call<'x>,
    /// The variables. What they hold is in the arena, the parameters or the program, never in a
    /// store.
    pub(crate) registers: &'r mut [Value<'x>],
    pub(crate) scratch: &'r mut Scratch,
    ticks: u32,
    arena_bytes_before: usize,
    work: Cell<usize>,
    pub(crate) measures: Measures,
    /// What RETURNING answers for the rows changed so far, in the arena.
    pub(crate) returned: Vec<&'x [Value<'x>]>,
    /// What is done already of the query that runs.
    pub(crate) prepared: Vec<Prepared<'x>>,
}

impl<'r, 'x> Run<'r, 'x> {
    pub(crate) fn new(
        stores: &'r mut [Store],
        call: &'x Call<'x>,
        registers: &'r mut [Value<'x>],
        scratch: &'r mut Scratch,
    ) -> Run<'r, 'x> {
        let arena_bytes_before = call.arena.allocated_bytes();
        Run {
            stores,
            call,
            registers,
            scratch,
            ticks: 0,
            arena_bytes_before,
            work: Cell::new(0),
            measures: Measures::default(),
            returned: Vec::new(),
            prepared: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn evaluator<'s>(&'s self, slots: &'s Slots<'s>) -> Evaluator<'s> {
        let meter = Meter::new(self.call, self.arena_bytes_before, &self.work);
        let mut evaluator = Evaluator::new(self.stores, self.call, self.registers, slots, &self.measures, meter);
        evaluator.prepared = &self.prepared;
        evaluator
    }

    /// Called per loop round and row changed.
    #[inline]
    pub(crate) fn tick(&mut self) -> UserResult<()> {
        self.ticks = self.ticks.wrapping_add(1);
        let work = self.work.get().saturating_add(ferrite_table::take_work());
        self.work.set(work);
        if self.ticks.is_multiple_of(TICKS_PER_CHECK) || work >= WORK_PER_CHECK {
            self.work.set(0);
            check_call(self.call, self.arena_bytes_before)
        } else {
            Ok(())
        }
    }
}
