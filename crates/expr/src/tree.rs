//! The expression tree.

use crate::function::Function;
use crate::list::List;
use crate::operator::{ArithmeticDomain, ArithmeticOperator, CompareOperator};
use crate::user::UserFunction;
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use std::sync::Arc;

/// A bound expression. Every variant evaluates to one value; NULL follows SQL's three-valued logic.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    Constant(OwnedValue),
    /// Parameter of the call, from 0.
    Parameter(u16),
    /// Variable of a procedure.
    Register(u16),
    /// Column of the row that is bound to a slot. Slots are numbered through a whole program,
    /// subqueries included, so a correlated reference looks like any other. In a view, index or
    /// check there is only slot 0 (and, for views with joins, the following ones).
    Column {
        slot: u16,
        column: u16,
    },
    Negate {
        domain: ArithmeticDomain,
        operand: Box<Expr>,
    },
    Arithmetic {
        operator: ArithmeticOperator,
        domain: ArithmeticDomain,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `||`
    Concatenate(Box<Expr>, Box<Expr>),
    Compare {
        operator: CompareOperator,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    And(Box<[Expr]>),
    Or(Box<[Expr]>),
    Not(Box<Expr>),
    IsNull {
        operand: Box<Expr>,
        negated: bool,
    },
    /// IS [NOT] DISTINCT FROM.
    IsDistinct {
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    /// LIKE with optional escape character; STARTS WITH is `prefix_only`.
    Like {
        operand: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<char>,
        prefix_only: bool,
        negated: bool,
    },
    InList {
        operand: Box<Expr>,
        list: List,
        negated: bool,
    },
    /// `operand IN ?` with an array parameter.
    InArray {
        operand: Box<Expr>,
        array: Box<Expr>,
        negated: bool,
    },
    /// Searched CASE; the simple form, DECODE, COALESCE and NULLIF are brought to it.
    Case {
        branches: Box<[(Expr, Expr)]>,
        otherwise: Box<Expr>,
    },
    Cast {
        operand: Box<Expr>,
        to: ColumnType,
    },
    Call {
        function: Function,
        arguments: Box<[Expr]>,
    },
    /// A function whose code is the user's.
    User {
        function: Arc<UserFunction>,
        arguments: Box<[Expr]>,
    },
    /// A subquery of the enclosing program: scalar and EXISTS have no operand; IN, ANY and ALL
    /// compare `operand`.
    Subquery {
        subquery: u16,
        operand: Option<Box<Expr>>,
    },
}

impl Expr {
    pub fn null() -> Expr {
        Expr::Constant(OwnedValue::Null)
    }

    pub fn integer(value: i64) -> Expr {
        Expr::Constant(OwnedValue::Integer(value))
    }

    pub fn column(slot: u16, column: u16) -> Expr {
        Expr::Column { slot, column }
    }

    pub fn cast_to(self, sql_type: SqlType) -> Expr {
        Expr::Cast { operand: Box::new(self), to: ColumnType::unbounded(sql_type) }
    }

    /// Calls `visit` for each direct operand.
    pub fn for_each_operand<'e>(&'e self, mut visit: impl FnMut(&'e Expr)) {
        match self {
            Expr::Constant(_) | Expr::Parameter(_) | Expr::Register(_) | Expr::Column { .. } => {}
            Expr::Negate { operand, .. }
            | Expr::Not(operand)
            | Expr::IsNull { operand, .. }
            | Expr::Cast { operand, .. } => visit(operand),
            Expr::Arithmetic { left, right, .. }
            | Expr::Concatenate(left, right)
            | Expr::Compare { left, right, .. }
            | Expr::IsDistinct { left, right, .. } => {
                visit(left);
                visit(right);
            }
            Expr::And(operands)
            | Expr::Or(operands)
            | Expr::Call { arguments: operands, .. }
            | Expr::User { arguments: operands, .. } => {
                operands.iter().for_each(visit);
            }
            Expr::Like { operand, pattern, .. } => {
                visit(operand);
                visit(pattern);
            }
            Expr::InList { operand, list, .. } => {
                visit(operand);
                list.iter().for_each(visit);
            }
            Expr::InArray { operand, array, .. } => {
                visit(operand);
                visit(array);
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Expr::Subquery { operand, .. } => operand.iter().for_each(|operand| visit(operand)),
        }
    }

    /// Calls `visit` for each direct operand, to change it.
    pub fn for_each_operand_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        match self {
            Expr::Constant(_) | Expr::Parameter(_) | Expr::Register(_) | Expr::Column { .. } => {}
            Expr::Negate { operand, .. }
            | Expr::Not(operand)
            | Expr::IsNull { operand, .. }
            | Expr::Cast { operand, .. } => {
                visit(operand);
            }
            Expr::Arithmetic { left, right, .. }
            | Expr::Concatenate(left, right)
            | Expr::Compare { left, right, .. }
            | Expr::IsDistinct { left, right, .. } => {
                visit(left);
                visit(right);
            }
            Expr::And(operands)
            | Expr::Or(operands)
            | Expr::Call { arguments: operands, .. }
            | Expr::User { arguments: operands, .. } => {
                operands.iter_mut().for_each(visit);
            }
            Expr::Like { operand, pattern, .. } => {
                visit(operand);
                visit(pattern);
            }
            Expr::InList { operand, list, .. } => {
                visit(operand);
                list.iter_mut().for_each(visit);
            }
            Expr::InArray { operand, array, .. } => {
                visit(operand);
                visit(array);
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches.iter_mut() {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Expr::Subquery { operand, .. } => {
                if let Some(operand) = operand {
                    visit(operand);
                }
            }
        }
    }

    /// Gives every column of `slot` the position that `position` says.
    pub fn move_columns(&mut self, slot: u16, position: &dyn Fn(u16) -> u16) {
        match self {
            Expr::Column { slot: of, column } if *of == slot => *column = position(*column),
            _ => self.for_each_operand_mut(&mut |operand| operand.move_columns(slot, position)),
        }
    }

    /// Whether this column is anywhere in the expression.
    pub fn uses_column(&self, wanted: u16, position: u16) -> bool {
        self.any(&mut |inner| matches!(inner, Expr::Column { slot, column } if *slot == wanted && *column == position))
    }

    /// Whether `test` holds for this expression or any inside it (subqueries' own plans excluded).
    pub fn any(&self, test: &mut impl FnMut(&Expr) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.for_each_operand(|operand| found = found || operand.any(test));
        found
    }
}
