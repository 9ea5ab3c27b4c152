//! Folding: what is constant in a statement is computed while it is compiled.
//!
//! Owns what becomes of a constant that fails, as 1/0 does. Where it is certainly evaluated, the
//! statement is refused. Where it stands in a branch that may never be reached, it is left to the
//! run, and fails if it is reached after all. A text that is not a value of the type beside it is
//! refused wherever it stands: it is misspelled, not computed.

use super::Binder;
use super::digits::Digits;
use super::types::{Typed, owned};
use crate::errors::at_compile_time;
use bumpalo::Bump;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_expr::{Context, Expr, Function};
use ferrite_value::{ColumnType, OwnedValue, SqlType, Value};
use sqlparser::ast;
use std::cell::Cell;

/// Work that one operation on constants may be while a statement is compiled; a text may have tens
/// of thousands of them.
const FOLDED_WORK_MAX: usize = 16_384;

/// Folds constants, and converts to types that SQL asks for by itself.
#[derive(Default)]
pub(crate) struct Folding {
    /// What is bound now may never be evaluated.
    perhaps: bool,
    /// Constants so far that fail and were left to the run.
    failing: usize,
    /// However much work it is, the result is needed now.
    entirely: bool,
}

impl Folding {
    /// For a constant that is stored: its work is linear in the text that says it.
    pub fn entire() -> Folding {
        Folding { entirely: true, ..Folding::default() }
    }

    /// Evaluates an operation on constants now, unless it is much work. Its operands have been
    /// folded before.
    pub fn fold(&mut self, expr: Expr) -> UserResult<Expr> {
        let foldable = match &expr {
            Expr::Constant(_) | Expr::Parameter(_) | Expr::Register(_) | Expr::Column { .. } => return Ok(expr),
            Expr::Subquery { .. } | Expr::InArray { .. } | Expr::User { .. } => return Ok(expr),
            // A condition of one branch may guard the others against errors; the whole is left to
            // run time.
            Expr::Case { .. } => return Ok(expr),
            Expr::Call { function, .. } => function.is_deterministic(),
            _ => true,
        };
        let mut constant = foldable;
        expr.for_each_operand(|operand| constant &= matches!(operand, Expr::Constant(_)));
        if !constant {
            return Ok(expr);
        }
        let arena = Bump::new();
        let work_max = if self.entirely { usize::MAX } else { FOLDED_WORK_MAX };
        let constants = Constants { arena: &arena, work: Cell::new(0), work_max };
        let value = match expr.eval(&constants) {
            Ok(value) => Some(owned(&value)),
            Err(_) if constants.is_too_much() => None,
            Err(error) => {
                self.left_to_the_run(error)?;
                None
            }
        };
        Ok(value.map_or(expr, Expr::Constant))
    }

    /// A constant fails: whether that is left to the run.
    fn left_to_the_run(&mut self, error: UserError) -> UserResult<()> {
        if self.perhaps && error.kind() == ErrorKind::Sql {
            self.failing += 1;
            return Ok(());
        }
        Err(at_compile_time(error))
    }

    /// A number as CAST to `to` has it.
    pub fn cast_digits(&mut self, digits: &Digits, to: &ColumnType) -> UserResult<Expr> {
        match digits.cast(to) {
            Ok(value) => Ok(Expr::Constant(value)),
            Err(error) => {
                self.left_to_the_run(error)?;
                Ok(Expr::Cast { operand: Box::new(Expr::Constant(digits.float())), to: *to })
            }
        }
    }

    /// `expr` as a value of `to`'s kind, a cast only where it is of another.
    pub fn convert(&mut self, typed: Typed, to: SqlType) -> UserResult<Expr> {
        match typed.sql_type {
            None => Ok(typed.expr),
            Some(from) if from.same_kind(to) => Ok(typed.expr),
            Some(_) if let Some(digits) = &typed.digits => self.cast_digits(digits, &ColumnType::unbounded(to)),
            Some(_) => self.fold(typed.expr.cast_to(if to.is_integer() { SqlType::Bigint } else { to })),
        }
    }

    /// [`Folding::convert`] for values that become one column or result: a DATE beside TIMESTAMPs
    /// must be one of theirs.
    pub fn convert_common(&mut self, typed: Typed, to: SqlType) -> UserResult<Expr> {
        if (typed.sql_type, to) == (Some(SqlType::Date), SqlType::Timestamp) {
            return self.valid_timestamp(typed.expr);
        }
        self.convert(typed, to)
    }

    /// A value of type `from` as a column or variable of type `to` takes it: numbers and texts with
    /// decimals are not integers, where CAST would cut the decimals off.
    pub fn convert_stored(&mut self, expr: Expr, from: SqlType, to: SqlType) -> UserResult<Expr> {
        if from.same_kind(to) {
            return Ok(expr);
        }
        if to.is_integer() && matches!(from, SqlType::Float | SqlType::Decimal | SqlType::Varchar) {
            return self.fold(Expr::Call { function: Function::ExactInteger, arguments: Box::new([expr]) });
        }
        if (from, to) == (SqlType::Date, SqlType::Timestamp) {
            return self.valid_timestamp(expr);
        }
        self.fold(expr.cast_to(if to.is_integer() { SqlType::Bigint } else { to }))
    }

    /// A DATE as a TIMESTAMP that may be stored.
    pub fn valid_timestamp(&mut self, date: Expr) -> UserResult<Expr> {
        let midnight = self.fold(date.cast_to(SqlType::Timestamp))?;
        self.fold(Expr::Call { function: Function::ValidTimestamp, arguments: Box::new([midnight]) })
    }
}

impl Binder<'_> {
    /// Binds what is evaluated or not, if `perhaps`, and as all around it if not. Says too whether
    /// a constant in it fails that was left to the run.
    pub fn evaluated_perhaps<T>(
        &mut self,
        perhaps: bool,
        bind: impl FnOnce(&mut Self) -> UserResult<T>,
    ) -> UserResult<(T, bool)> {
        let Folding { perhaps: before, failing, .. } = self.folding;
        self.folding.perhaps |= perhaps;
        let bound = bind(self);
        self.folding.perhaps = before;
        Ok((bound?, self.folding.failing > failing))
    }
}

/// What a condition that does not depend on anything answers: whether it holds. None for one that
/// does depend.
pub(crate) fn decided(condition: &Expr) -> Option<bool> {
    match condition {
        Expr::Constant(OwnedValue::Boolean(value)) => Some(*value),
        Expr::Constant(OwnedValue::Null) => Some(false),
        _ => None,
    }
}

/// The operands of AND (`and`) or OR, one after the other, up to where a constant has decided them:
/// what comes after it is not evaluated. It is bound all the same, and what fails in it goes.
pub(crate) struct Operands {
    and: bool,
    exprs: Vec<Expr>,
    are_decided: bool,
}

impl Operands {
    pub fn new(and: bool) -> Operands {
        Operands { and, exprs: Vec::new(), are_decided: false }
    }

    /// Binds the next one.
    pub fn add<'c>(
        &mut self,
        binder: &mut Binder<'c>,
        bind: impl FnOnce(&mut Binder<'c>) -> UserResult<Expr>,
    ) -> UserResult<()> {
        let (expr, fails) = binder.evaluated_perhaps(self.are_decided, bind)?;
        if self.are_decided && fails {
            return Ok(());
        }
        self.are_decided |= matches!(&expr, Expr::Constant(OwnedValue::Boolean(value)) if *value != self.and);
        self.exprs.push(expr);
        Ok(())
    }

    pub fn combined(self, binder: &mut Binder<'_>) -> UserResult<Expr> {
        let exprs = self.exprs.into();
        binder.folding.fold(if self.and { Expr::And(exprs) } else { Expr::Or(exprs) })
    }
}

/// The branches of a CASE, one after the other.
pub(crate) struct Branches {
    pub bound: Vec<(Expr, Typed)>,
    /// One of the conditions so far may hold.
    perhaps: bool,
}

impl Branches {
    pub fn with_capacity(branches: usize) -> Branches {
        Branches { bound: Vec::with_capacity(branches), perhaps: false }
    }

    /// Binds the next condition, and then the result that it has.
    pub fn add<'c>(
        &mut self,
        binder: &mut Binder<'c>,
        condition: impl FnOnce(&mut Binder<'c>) -> UserResult<Expr>,
        result: impl FnOnce(&mut Binder<'c>) -> UserResult<Typed>,
    ) -> UserResult<()> {
        let (condition, _) = binder.evaluated_perhaps(self.perhaps, condition)?;
        let holds = decided(&condition);
        let (result, _) = binder.evaluated_perhaps(self.perhaps || holds != Some(true), result)?;
        self.perhaps |= holds != Some(false);
        self.bound.push((condition, result));
        Ok(())
    }

    /// Binds what is the result where no condition holds.
    pub fn otherwise(&self, binder: &mut Binder<'_>, expr: &ast::Expr) -> UserResult<Typed> {
        Ok(binder.evaluated_perhaps(self.perhaps, |binder| binder.expression(expr))?.0)
    }
}

/// A context without rows, parameters or time, for what is computed while a statement is compiled.
struct Constants<'a> {
    arena: &'a Bump,
    work: Cell<usize>,
    work_max: usize,
}

impl Constants<'_> {
    /// It is left to the run, which is interrupted in time.
    fn is_too_much(&self) -> bool {
        self.work.get() > self.work_max
    }
}

impl<'a> Context<'a> for Constants<'a> {
    fn column(&self, _slot: u16, _column: u16) -> Value<'a> {
        Value::Null
    }

    fn parameter(&self, _index: u16) -> Value<'a> {
        Value::Null
    }

    fn register(&self, _index: u16) -> Value<'a> {
        Value::Null
    }

    fn arena(&self) -> &'a Bump {
        self.arena
    }

    fn transaction_time(&self) -> i64 {
        0
    }

    fn cost(&self, units: usize) -> UserResult<()> {
        self.work.set(self.work.get().saturating_add(units));
        if self.is_too_much() { Err(UserError::internal("too much work for a constant")) } else { Ok(()) }
    }

    fn subquery(&self, _subquery: u16, _operand: Value<'a>) -> UserResult<Value<'a>> {
        Err(UserError::internal("a subquery is not a constant"))
    }
}
