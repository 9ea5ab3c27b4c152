//! `t + INTERVAL '1' HOUR`, and days of DATEs: `d + 1`, `d - e`. All of it is DATEADD and DATEDIFF
//! in other words.

use super::Binder;
use super::proposals::{Proposal, Types};
use super::types::Typed;
use crate::errors::as_written;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::function::Resolved;
use ferrite_expr::{ArithmeticDomain, ArithmeticOperator, Expr, Function};
use ferrite_plan::Adoption;
use ferrite_value::temporal::TimeUnit;
use ferrite_value::{ColumnType, SqlType};
use sqlparser::ast;

impl Binder<'_> {
    /// A time and an interval. None where neither side is an interval.
    pub fn moved_by_interval(
        &mut self,
        operator: ArithmeticOperator,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> UserResult<Option<Typed>> {
        let (time, interval) = match (interval_of(left), operator, interval_of(right)) {
            (None, _, None) => return Ok(None),
            (None, ArithmeticOperator::Add | ArithmeticOperator::Subtract, Some(interval)) => (left, interval),
            (Some(interval), ArithmeticOperator::Add, None) => (right, interval),
            _ => {
                return Err(UserError::compile("42804", "an INTERVAL is added to a time, or subtracted from it")
                    .with_hint(
                        "of several intervals each is added by itself: t + INTERVAL '1' DAY + INTERVAL '2' HOUR",
                    ));
            }
        };
        let mut moved = self.expression(time)?;
        for (count, unit) in self.parts_of(interval)? {
            let count = if operator == ArithmeticOperator::Subtract { self.negated(count)? } else { count };
            let given = moved.sql_type.map_or("NULL", SqlType::name);
            let resolve = |types: &[Option<SqlType>]| {
                Function::resolve_with_unit("DATEADD", unit.name(), types).map_err(|_| {
                    UserError::compile("42804", format!("an INTERVAL cannot be added to {given}"))
                        .with_hint("it is added to a TIMESTAMP, a DATE, or a text that says one")
                })
            };
            moved = self.call_of(resolve, vec![count, moved])?;
        }
        Ok(Some(moved))
    }

    /// The counts of an interval with their units: `INTERVAL '90' MINUTE`, `INTERVAL x DAY`,
    /// `INTERVAL '1 hour 30 minutes'`.
    fn parts_of(&mut self, interval: &ast::Interval) -> UserResult<Vec<(Typed, TimeUnit)>> {
        let malformed = || {
            UserError::syntax(format!("malformed interval: {}", as_written(interval))).with_hint(
                "write INTERVAL '5' MINUTE, with a whole number and a unit from MICROSECOND to YEAR, INTERVAL (n + 1) DAY, or INTERVAL '1 hour 30 minutes'",
            )
        };
        let whole = |digits: &str| digits.trim().parse::<i64>().ok().filter(|count| *count != i64::MIN);
        let typed = |count: i64| Typed::new(Expr::integer(count), SqlType::Bigint);
        let text = match interval.value.as_ref() {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => Some(text),
                _ => None,
            },
            _ => None,
        };
        let (None, None) = (&interval.last_field, &interval.leading_precision) else { return Err(malformed()) };
        let unit = match &interval.leading_field {
            Some(field) => Some(TimeUnit::from_interval_name(&field.to_string()).ok_or_else(malformed)?),
            None => None,
        };
        match (text, unit) {
            (Some(text), Some(unit)) => Ok(vec![(typed(whole(text).ok_or_else(malformed)?), unit)]),
            (Some(text), None) => {
                let words: Vec<&str> = text.split_ascii_whitespace().collect();
                let (pairs, rest) = words.as_chunks::<2>();
                if !rest.is_empty() || pairs.is_empty() {
                    return Err(malformed());
                }
                let pair =
                    |[count, unit]: &[&str; 2]| Some((typed(whole(count)?), TimeUnit::from_interval_name(unit)?));
                pairs.iter().map(pair).collect::<Option<_>>().ok_or_else(malformed)
            }
            (None, Some(unit)) => {
                let mut count = self.expression(&interval.value)?;
                self.propose(&mut count, Proposal::count());
                match count.sql_type {
                    Some(given) if !given.is_integer() => Err(malformed()),
                    _ => Ok(vec![(count, unit)]),
                }
            }
            (None, None) => Err(malformed()),
        }
    }

    /// `d + 1`, `d - 1` and `d - e` of DATEs. None where there is no DATE, or no such sum.
    pub fn days(&mut self, operator: ArithmeticOperator, left: &Typed, right: &Typed) -> UserResult<Option<Typed>> {
        let date = |typed: &Typed| typed.sql_type == Some(SqlType::Date);
        let integer = |typed: &Typed| typed.sql_type.is_none_or(SqlType::is_integer);
        let moved = match operator {
            ArithmeticOperator::Add if date(left) && integer(right) => (left.clone(), right.clone()),
            ArithmeticOperator::Add if integer(left) && date(right) => (right.clone(), left.clone()),
            ArithmeticOperator::Subtract if date(left) && right.sql_type.is_some_and(SqlType::is_integer) => {
                (left.clone(), self.negated(right.clone())?)
            }
            ArithmeticOperator::Subtract
                if (date(left) || date(right))
                    && [left, right].iter().all(|side| date(side) || side.sql_type.is_none()) =>
            {
                // A parameter is a DATE too.
                let resolved = Resolved {
                    function: Function::DateDifference(TimeUnit::Day),
                    argument_types: vec![SqlType::Timestamp; 2],
                    result_type: SqlType::Bigint,
                };
                let mut sides = [right.clone(), left.clone()];
                // Or a number of days.
                let takes = Types::that(|given| given == SqlType::Date || given.is_integer());
                let date = Proposal::of(ColumnType::fixed(SqlType::Date), Adoption::Carried).taking(takes);
                sides.iter_mut().for_each(|side| self.propose(side, date));
                return self.resolved_call(resolved, sides.into()).map(Some);
            }
            _ => return Ok(None),
        };
        let resolved = Resolved {
            function: Function::DaysAfter,
            argument_types: vec![SqlType::Date, SqlType::Bigint],
            result_type: SqlType::Date,
        };
        self.resolved_call(resolved, vec![moved.0, moved.1]).map(Some)
    }

    fn negated(&mut self, count: Typed) -> UserResult<Typed> {
        let negated = Expr::Negate { domain: ArithmeticDomain::Integer, operand: Box::new(count.expr) };
        Ok(Typed::new(self.folding.fold(negated)?, SqlType::Bigint))
    }
}

fn interval_of(expr: &ast::Expr) -> Option<&ast::Interval> {
    match expr {
        ast::Expr::Interval(interval) => Some(interval),
        ast::Expr::Nested(inner) => interval_of(inner),
        _ => None,
    }
}
