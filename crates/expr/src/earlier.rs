//! Definitions of an old database, whose expressions keep the values that they had
//! (docs/decisions/0024).
//!
//! Owns: which expressions have other values today. Promises that what is kept has, for every row,
//! the value it had when the row was stored.

use crate::function::{Function, WindowEdge};
use crate::tree::Expr;
use ferrite_value::SqlType;
use ferrite_value::temporal::TimeUnit;

/// The expression as it was defined in an old database. `type_of` knows the columns. Conjuncts are
/// kept one by one, for those who look for a key among them.
pub fn kept(expression: Expr, type_of: &dyn Fn(u16, u16) -> Option<SqlType>) -> Expr {
    match expression {
        Expr::And(conjuncts) => Expr::And(conjuncts.into_iter().map(|conjunct| kept(conjunct, type_of)).collect()),
        Expr::Call { function: Function::Earlier, .. } => expression,
        _ if expression.any(&mut |part| differs(part, type_of)) => {
            Expr::Call { function: Function::Earlier, arguments: Box::new([expression]) }
        }
        _ => expression,
    }
}

/// Whether the operation has another value today, or is refused one that it had, for some operands.
fn differs(part: &Expr, type_of: &dyn Fn(u16, u16) -> Option<SqlType>) -> bool {
    match part {
        Expr::Call { function, .. } => matches!(
            function,
            Function::TimeWindow(_, WindowEdge::Start | WindowEdge::End)
                | Function::DateDifference(TimeUnit::Week)
                | Function::Truncate(TimeUnit::Week)
                | Function::DateAdd(_)
                | Function::ToTimestamp(_)
                | Function::ValidTimestamp
                | Function::FormatTimestamp
                | Function::Str
        ),
        Expr::Cast { operand, to } => {
            let from = match **operand {
                Expr::Column { slot, column } => type_of(slot, column),
                _ => None,
            };
            match to.sql_type {
                SqlType::Varchar => from.is_none_or(|from| from == SqlType::Float),
                SqlType::Timestamp => !matches!(from, Some(SqlType::Timestamp | SqlType::Date)),
                _ => false,
            }
        }
        _ => false,
    }
}
