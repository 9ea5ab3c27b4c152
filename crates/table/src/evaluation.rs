//! Expressions of views, indexes and checks, evaluated over rows. They have no parameters,
//! registers or subqueries.

use crate::row::SourceRow;
use bumpalo::Bump;
use ferrite_base::limits::DEFINITION_WORK_MAX;
use ferrite_base::{UserError, UserResult, watch};
use ferrite_expr::{Context, Expr};
use ferrite_value::Value;
use std::cell::Cell;

thread_local! {
    /// Work that evaluations of this thread were, since it was last asked.
    static WORK: Cell<usize> = const { Cell::new(0) };
}

/// The work of views, indexes and checks since this thread asked last, in units of about a byte
/// that is copied: what the rows that a statement changes cost beside its own expressions.
#[inline]
pub fn take_work() -> usize {
    WORK.replace(0)
}

#[inline]
fn note_work(units: usize) {
    WORK.set(WORK.get().saturating_add(units));
}

/// What a row is that is read because something else changes, in units of work.
const ROW_WORK: usize = 32;

/// Before a row is read because another one changes, or the schema. An error is of whoever watches
/// a change of the schema.
#[inline]
pub(crate) fn note_row() -> UserResult<()> {
    note_work(ROW_WORK);
    watch::work(ROW_WORK)
}

/// The rows bound to slots 0, 1, ...
///
/// What one of these evaluates is limited, by what it evaluates alone: a row that was taken once is
/// let go again, whatever else is.
pub(crate) struct Rows<'a, 'c> {
    slots: &'c [SourceRow<'a>],
    arena: &'a Bump,
    work: Cell<usize>,
}

impl<'a, 'c> Rows<'a, 'c> {
    #[inline]
    pub(crate) fn new(slots: &'c [SourceRow<'a>], arena: &'a Bump) -> Rows<'a, 'c> {
        Rows { slots, arena, work: Cell::new(0) }
    }
}

impl<'a> Context<'a> for Rows<'a, '_> {
    #[inline]
    fn column(&self, slot: u16, column: u16) -> Value<'a> {
        self.slots[slot as usize].column(column)
    }

    fn parameter(&self, _index: u16) -> Value<'a> {
        unreachable!("definitions have no parameters")
    }

    fn register(&self, _index: u16) -> Value<'a> {
        unreachable!("definitions have no variables")
    }

    fn arena(&self) -> &'a Bump {
        self.arena
    }

    /// What a view, index or check says of a row must not depend on when it is asked.
    fn transaction_time(&self) -> i64 {
        0
    }

    fn cost(&self, units: usize) -> UserResult<()> {
        let work = self.work.get().saturating_add(units);
        self.work.set(work);
        note_work(units);
        if work <= DEFINITION_WORK_MAX { watch::work(units) } else { Err(too_much_work()) }
    }

    fn subquery(&self, _subquery: u16, _operand: Value<'a>) -> UserResult<Value<'a>> {
        Err(UserError::not_supported("a subquery in a view, index or check"))
    }
}

#[cold]
fn too_much_work() -> UserError {
    UserError::limit(format!(
        "a view, index or CHECK is more work for one row than the {DEFINITION_WORK_MAX} that one expression may be"
    ))
    .with_hint("its functions make or read too much text; compute it before the row is stored")
}

/// A key or group expression, with the plain column told apart: almost all are.
#[derive(Clone, Debug)]
pub(crate) enum KeyPart {
    Column(u16),
    Expression(Expr),
}

impl KeyPart {
    pub(crate) fn new(expression: &Expr) -> KeyPart {
        match expression {
            Expr::Column { slot: 0, column } => KeyPart::Column(*column),
            other => KeyPart::Expression(other.clone()),
        }
    }

    #[inline]
    pub(crate) fn value<'a>(&'a self, slots: &[SourceRow<'a>], arena: &'a Bump) -> UserResult<Value<'a>> {
        match self {
            KeyPart::Column(column) => Ok(slots[0].column(*column)),
            KeyPart::Expression(expression) => expression.eval(&Rows::new(slots, arena)),
        }
    }

    pub(crate) fn column(&self) -> Option<u16> {
        match self {
            KeyPart::Column(column) => Some(*column),
            KeyPart::Expression(_) => None,
        }
    }
}

/// A set of columns of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnSet(Vec<u64>);

impl ColumnSet {
    pub(crate) fn add(&mut self, column: u16) {
        let word = column as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (column % 64);
    }

    #[inline]
    pub(crate) fn contains(&self, column: u16) -> bool {
        self.0.get(column as usize / 64).is_some_and(|word| word & (1 << (column % 64)) != 0)
    }

    #[inline]
    pub(crate) fn meets(&self, columns: &[u16]) -> bool {
        columns.iter().any(|column| self.contains(*column))
    }

    /// Adds the columns of `slot` that an expression reads.
    pub(crate) fn add_expression(&mut self, expression: &Expr, wanted: u16) {
        expression.any(&mut |part| {
            if let Expr::Column { slot, column } = part
                && *slot == wanted
            {
                self.add(*column);
            }
            false
        });
    }
}
