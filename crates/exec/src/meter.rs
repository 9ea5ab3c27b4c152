//! What a statement uses: rows and work against the interruption hook, bytes against the temporary
//! memory limit.

use crate::call::Call;
use ferrite_base::{UserError, UserResult, limits, memory};
use std::cell::Cell;

/// Rows and loop rounds between two questions to the interruption hook.
pub(crate) const TICKS_PER_CHECK: u32 = 1_024;
/// Units of work (about a byte that is copied) between two questions to the interruption hook: some
/// hundred microseconds.
pub(crate) const WORK_PER_CHECK: usize = 1_048_576;
/// Bytes that a program may compute before conditions stop leaving theirs in the transaction's
/// arena.
const THRIFT_BYTES: usize = 1_048_576;

/// Counts for one statement, or one store's part of one.
pub(crate) struct Meter<'s> {
    call: &'s Call<'s>,
    ticks: Cell<u32>,
    /// Work told since the last check, that of the program's other statements included.
    work: &'s Cell<usize>,
    temporary_bytes: Cell<usize>,
    /// At how many of them to look whether there may be more.
    temporary_look: Cell<usize>,
    /// What the arena held when the program began.
    arena_bytes_before: usize,
    /// Set when the statement computes much.
    thrifty: Cell<bool>,
    /// Of how many stores this is one's part; 1 where it is none.
    parts: usize,
}

impl<'s> Meter<'s> {
    #[inline]
    pub(crate) fn new(call: &'s Call<'s>, arena_bytes_before: usize, work: &'s Cell<usize>) -> Meter<'s> {
        Meter {
            call,
            ticks: Cell::new(0),
            work,
            temporary_bytes: Cell::new(0),
            temporary_look: Cell::new(limits::MEMORY_ALWAYS_BYTES),
            arena_bytes_before,
            thrifty: Cell::new(false),
            parts: 1,
        }
    }

    /// For one store of `parts`: it may hold its share of what the statement may.
    pub(crate) fn of_part(call: &'s Call<'s>, work: &'s Cell<usize>, parts: usize) -> Meter<'s> {
        Meter { parts, ..Meter::new(call, call.arena.allocated_bytes(), work) }
    }

    pub(crate) fn is_part(&self) -> bool {
        self.parts > 1
    }

    /// The statement computes much: what is computed for one row should not stay.
    #[inline]
    pub(crate) fn is_thrifty(&self) -> bool {
        self.thrifty.get()
    }

    /// Rows met so far, more or less.
    pub(crate) fn rows_met(&self) -> usize {
        self.ticks.get() as usize
    }

    /// Called per row met and per loop round.
    #[inline]
    pub(crate) fn tick(&self) -> UserResult<()> {
        let ticks = self.ticks.get() + 1;
        self.ticks.set(ticks);
        if ticks.is_multiple_of(TICKS_PER_CHECK) { self.check(0) } else { Ok(()) }
    }

    /// Counts work that is not a row's usual: `units` of about a byte that is copied.
    #[inline]
    pub(crate) fn count_work(&self, units: usize) -> UserResult<()> {
        self.count_work_beside(units, 0)
    }

    /// `passing`: bytes computed outside the transaction's arena.
    #[inline]
    pub(crate) fn count_work_beside(&self, units: usize, passing: usize) -> UserResult<()> {
        let work = self.work.get().saturating_add(units);
        self.work.set(work);
        if work < WORK_PER_CHECK { Ok(()) } else { self.check(passing) }
    }

    #[cold]
    #[inline(never)]
    fn check(&self, passing: usize) -> UserResult<()> {
        self.work.set(0);
        let computed = self.call.arena.allocated_bytes().saturating_sub(self.arena_bytes_before);
        self.thrifty.set(computed > THRIFT_BYTES);
        check_interrupted(self.call)?;
        check_temporary(self.call, computed.saturating_add(passing))
    }

    /// Accounts for memory that the statement holds until its end.
    #[inline]
    pub(crate) fn charge(&self, bytes: usize) -> UserResult<()> {
        let total = self.temporary_bytes.get() + bytes;
        self.temporary_bytes.set(total);
        if total > self.temporary_look.get() { self.check_memory(total) } else { Ok(()) }
    }

    /// Whether the statement may hold this much, and the server has memory for it.
    #[cold]
    fn check_memory(&self, total: usize) -> UserResult<()> {
        check_temporary(self.call, total.saturating_mul(self.parts))?;
        self.temporary_look.set((total + limits::MEMORY_ALWAYS_BYTES).min(self.call.temporary_bytes_max));
        Ok(())
    }

    /// The memory went back before the statement's end.
    #[inline]
    pub(crate) fn release(&self, bytes: usize) {
        self.temporary_bytes.set(self.temporary_bytes.get().saturating_sub(bytes));
    }
}

/// Has the caller asked to stop, or has the program computed more than it may hold?
#[cold]
#[inline(never)]
pub(crate) fn check_call(call: &Call<'_>, arena_bytes_before: usize) -> UserResult<()> {
    check_interrupted(call)?;
    check_temporary(call, call.arena.allocated_bytes().saturating_sub(arena_bytes_before))
}

fn check_interrupted(call: &Call<'_>) -> UserResult<()> {
    if call.interrupted.is_some_and(|interrupted| interrupted()) { Err(interrupted()) } else { Ok(()) }
}

#[cold]
pub(crate) fn interrupted() -> UserError {
    UserError::data("57014", "Transaction Interrupted").with_hint(
        "it ran longer than it may; narrow the query, add an index, or start the server with a longer --query-timeout",
    )
}

fn check_temporary(call: &Call<'_>, bytes: usize) -> UserResult<()> {
    if bytes > call.temporary_bytes_max {
        return Err(too_much_memory(call.temporary_bytes_max));
    }
    if bytes > limits::MEMORY_ALWAYS_BYTES && !memory::has_room() {
        return Err(memory::refused("the statement's temporary results"));
    }
    Ok(())
}

#[cold]
fn too_much_memory(most: usize) -> UserError {
    UserError::limit("the statement needs more temporary memory than it may use")
        .with_detail(format!(
            "the limit is {most} bytes for sorting, grouping, joins, derived tables and the texts that a call computes \
             (--limit temporary-bytes)"
        ))
        .with_hint("narrow the query with WHERE or LIMIT, or spread the work over several calls")
}
