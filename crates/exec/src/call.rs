//! What a call is, where its results go, and what is kept from one to the next.

use bumpalo::Bump;
use ferrite_base::limits::TEMPORARY_BYTES_MAX;
use ferrite_base::{RowId, UserResult};
use ferrite_plan::{OutputColumn, Program};
use ferrite_value::Value;

/// One call of a program.
#[derive(Clone, Copy)]
pub struct Call<'x> {
    pub program: &'x Program,
    /// One per declared parameter, already converted to its type.
    pub parameters: &'x [Value<'x>],
    /// NOW: microseconds since 1970, the same for the whole transaction.
    pub transaction_time: i64,
    /// Memory for computed values. May be reset when the call is over and its results are written.
    pub arena: &'x Bump,
    /// Asked about every thousand rows and loop rounds, and every megabyte that expressions make or
    /// look at; true ends the program with an error. None: never interrupted.
    pub interrupted: Option<&'x dyn Fn() -> bool>,
    /// Nanoseconds since some moment, for EXPLAIN ANALYZE; asked by no other statement.
    pub clock: Option<&'x dyn Fn() -> u64>,
    /// Who does the parts of queries over several stores. None: they are not done in parts.
    pub workers: Option<&'x dyn WorkerPool>,
    /// What one statement may hold.
    pub temporary_bytes_max: usize,
}

impl<'x> Call<'x> {
    /// One that is not interrupted, measured or done in parts, with the usual memory.
    #[inline]
    pub fn new(program: &'x Program, parameters: &'x [Value<'x>], transaction_time: i64, arena: &'x Bump) -> Call<'x> {
        Call {
            program,
            parameters,
            transaction_time,
            arena,
            interrupted: None,
            clock: None,
            workers: None,
            temporary_bytes_max: TEMPORARY_BYTES_MAX,
        }
    }
}

/// Threads that do the parts of a query.
pub trait WorkerPool: Sync {
    /// Calls `work` once for each number below `count`, several at a time if it can, and returns
    /// when all are done.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync));

    /// Like [`Call::interrupted`], for whoever does a part.
    fn interrupted(&self) -> bool;

    /// Whether parts are worth it, for a partitioned table with `rows` in all stores, where all
    /// parts together read up to `beside` rows of replicated tables. It depends on nothing else:
    /// sums of FLOAT in parts may have other last digits.
    fn pays(&self, rows: u64, beside: u64) -> bool;
}

/// Takes the results of a program, in order. An error from [`ResultSink::row`] (result too large)
/// ends the program.
pub trait ResultSink {
    fn begin_table(&mut self, columns: &[OutputColumn]);
    /// One row of the table begun last; as many values as it has columns.
    fn row(&mut self, values: &[Value<'_>]) -> UserResult<()>;
    fn end_table(&mut self);
    /// The result of a data change: how many rows it changed.
    fn modified(&mut self, rows: u64);
    /// `RETURN number`; None for NULL.
    fn status(&mut self, value: Option<i64>);
}

/// What the executor keeps from call to call so that it need not allocate. One per partition
/// thread.
#[derive(Default)]
pub struct Scratch {
    /// Rows that an UPDATE or DELETE found: position of the store and row.
    pub(crate) targets: Vec<(u32, RowId)>,
}

/// Targets whose memory is kept for the next statement.
const TARGETS_KEPT_MAX: usize = 65_536;

impl Scratch {
    pub(crate) fn keep(&mut self, targets: Vec<(u32, RowId)>) {
        if targets.capacity() <= TARGETS_KEPT_MAX {
            self.targets = targets;
        }
    }
}
