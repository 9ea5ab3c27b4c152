//! What the planner is given: the sources of a bound FROM.

use ferrite_catalog::Table;
use ferrite_expr::Expr;
use ferrite_plan::{JoinKind, Query};
use std::sync::Arc;

/// A source that has no access path and no place in the join order yet.
#[derive(Debug)]
pub(crate) struct PendingSource {
    pub slot: u16,
    pub input: PendingInput,
    pub join: JoinKind,
    /// ON of an outer join, split at its ANDs.
    pub on: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) enum PendingInput {
    Table(Arc<Table>),
    /// A view of which every partition holds a part of each group: to be added up.
    PartialView {
        table: Arc<Table>,
        raw_slot: u16,
        group_slot: u16,
    },
    Derived {
        query: Box<Query>,
        correlated: bool,
    },
    /// A table of WITH that is computed once.
    Common {
        table: u16,
    },
    /// The rows of a recursion's last round.
    Working {
        slot: u16,
    },
}
