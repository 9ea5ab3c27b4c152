//! EXPLAIN ANALYZE: what each source of a statement delivered, how often it was asked and how long it took.

use crate::access::Flow;
use crate::frame::Frame;
use crate::join::Identity;
use ferrite_base::UserResult;
use ferrite_sql::plan::Input;
use std::cell::RefCell;

/// Of one source.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measure {
    pub(crate) loops: u64,
    pub(crate) rows: u64,
    /// Without what was done with the rows.
    pub(crate) nanoseconds: u64,
}

/// By slot; empty where nothing is measured.
pub(crate) type Measures = RefCell<Vec<Measure>>;

impl<'s> Frame<'s> {
    #[inline(never)]
    pub(crate) fn each_measured_row(
        &self,
        slot: u16,
        input: &'s Input,
        visit: &mut dyn FnMut(Identity) -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let (mut rows, mut elsewhere) = (0, 0);
        let start = self.nanoseconds();
        let flow = self.each_input_row(slot, input, &mut |identity| {
            rows += 1;
            let before = self.nanoseconds();
            let flow = visit(identity);
            elsewhere += self.nanoseconds() - before;
            flow
        });
        let took = self.nanoseconds() - start;
        if let Some(measure) = self.measures.borrow_mut().get_mut(usize::from(slot)) {
            measure.loops += 1;
            measure.rows += rows;
            measure.nanoseconds += took.saturating_sub(elsewhere);
        }
        flow
    }
}
