//! The sources of a block on their way to an order and access paths.

use super::context::{PlanContext, Reach};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Table;
use ferrite_expr::Expr;
use ferrite_plan::walk::split_conjunction;
use ferrite_plan::{Input, JoinKind, Query, Source};
use std::sync::Arc;

/// A source that has no access path and no place in the join order yet.
#[derive(Debug)]
pub(super) struct PendingSource {
    pub slot: u16,
    pub input: PendingInput,
    pub join: JoinKind,
    /// ON of an outer join, split at its ANDs.
    pub on: Vec<Expr>,
}

#[derive(Debug)]
pub(super) enum PendingInput {
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

impl PendingSource {
    /// A source as it was bound, what stands inside it planned.
    pub fn of(context: &mut PlanContext<'_>, source: Source) -> UserResult<PendingSource> {
        let Source { slot, input, join, on: condition, .. } = source;
        let input = match input {
            Input::Table { table, .. } => {
                let table = context.catalog.table(table).cloned();
                let table = table.ok_or_else(|| UserError::internal("a bound table is in the catalog"))?;
                if table.partitioned_without_column && context.reach == Reach::All {
                    let raw_slot = context.new_slot()?;
                    let group_slot = context.new_slot()?;
                    PendingInput::PartialView { table, raw_slot, group_slot }
                } else {
                    PendingInput::Table(table)
                }
            }
            Input::Derived { query, correlated } => PendingInput::Derived { query, correlated },
            Input::Common { table } => PendingInput::Common { table },
            Input::Working { slot } => PendingInput::Working { slot },
            Input::One | Input::Hashed(_) | Input::Measured(_) => {
                return Err(UserError::internal("a bound source was planned before"));
            }
        };
        let mut on = Vec::new();
        if let Some(condition) = condition {
            split_conjunction(condition, &mut on);
        }
        Ok(PendingSource { slot, input, join, on })
    }
}
