//! Rows on their way between the parts of a query, and what is kept of them until the statement's
//! end.
//!
//! Owns the types only: which file makes them and which one reads them back is no matter here, so
//! that these files need not know each other.

use crate::row_table::RowTable;
use ferrite_base::UserResult;
use ferrite_expr::Aggregate;
use ferrite_expr::aggregate::AggregateState;
use ferrite_plan::{Aggregation, Select};
use ferrite_table::RowRef;
use ferrite_value::Value;
use smallvec::SmallVec;
use std::cell::Cell;
use std::rc::Rc;

/// Whether whoever takes the rows wants more of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    More,
    Enough,
}

/// The row a source is at.
#[derive(Clone, Copy)]
pub(crate) enum RowSlot<'s> {
    Unbound,
    /// The null row of an outer join.
    Null,
    Stored(RowRef<'s>),
    Computed(&'s [Value<'s>]),
    /// A computed row that the next one overwrites.
    Reused(&'s [Cell<Value<'s>>]),
}

/// Rows of a derived table, held in the arena.
pub(crate) type Rows<'s> = &'s [&'s [Value<'s>]];

/// A source row's identity within its source.
pub(crate) type Identity = u64;

/// An output row on its way.
pub(crate) type OutputRow<'s> = SmallVec<[Value<'s>; 12]>;

/// Where a query's rows go.
pub(crate) type Emit<'e, 's> = &'e mut dyn FnMut(&[Value<'s>]) -> UserResult<Flow>;

/// The result of a subquery that does not depend on outer rows.
pub(crate) enum Cached<'s> {
    /// Scalar and EXISTS.
    Value(Value<'s>),
    /// ANY and ALL: the distinct values that are not NULL, and whether there was a NULL.
    Set { values: RowTable<'s>, null: bool },
    /// Among: it was asked once, and answered by reading the rows.
    Asked,
    /// Among: the distinct rows without a NULL; and those with one, where they leave the answer
    /// open.
    Rows { rows: RowTable<'s>, open: RowTable<'s> },
}

impl<'s> Cached<'s> {
    /// The values of an IN, none of them NULL.
    pub(crate) fn values(&self) -> &RowTable<'s> {
        match self {
            Cached::Set { values, .. } => values,
            Cached::Rows { rows, .. } => rows,
            Cached::Value(_) | Cached::Asked => unreachable!("they are not a list"),
        }
    }
}

/// No further row has the same keys.
pub(crate) const END: u32 = u32::MAX;

/// What is kept for one source between two questions.
pub(crate) enum Kept<'s> {
    /// It was asked once.
    Asked,
    Built(Rc<JoinTable<'s>>),
}

pub(crate) struct JoinTable<'s> {
    /// The distinct keys; none is NULL.
    pub(crate) keys: RowTable<'s>,
    /// For each of them the first and the last of its rows.
    pub(crate) chains: Vec<(u32, u32)>,
    pub(crate) rows: Vec<JoinRow<'s>>,
}

pub(crate) struct JoinRow<'s> {
    pub(crate) row: RowSlot<'s>,
    pub(crate) identity: Identity,
    /// The next row with the same keys, or [`END`].
    pub(crate) next: u32,
}

/// Groups, in the order of their first rows.
pub(crate) struct Groups<'s> {
    pub(crate) keys: RowTable<'s>,
    /// For each group this many.
    pub(crate) states: Vec<AggregateState>,
    pub(crate) states_each: usize,
}

impl Groups<'_> {
    pub(crate) fn new(width: usize, states_each: usize) -> Self {
        Groups { keys: RowTable::new(width), states: Vec::new(), states_each }
    }

    /// What one more group takes.
    pub(crate) fn bytes_each(&self, aggregation: &Aggregation) -> usize {
        let heap_bytes: usize = aggregation.aggregates.iter().map(Aggregate::heap_bytes).sum();
        self.keys.row_bytes() + self.states_each * size_of::<AggregateState>() + heap_bytes
    }
}

/// What a query found done when it began.
pub(crate) struct Prepared<'s> {
    /// The block.
    pub(crate) select: &'s Select,
    pub(crate) result: PartResult<'s>,
}

pub(crate) enum PartResult<'s> {
    Groups(Groups<'s>),
    /// Rows in order, one after the other, hidden columns included.
    Rows {
        width: usize,
        values: Vec<Value<'s>>,
    },
}
