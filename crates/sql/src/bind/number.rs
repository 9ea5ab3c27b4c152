//! Numbers as literals write them, and comparisons with one that has more digits than the other
//! side's type.

use super::digits::{Digits, decimal_of, float_of};
use super::types::Typed;
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_value::text::FLOAT_NULL_MAX;
use ferrite_value::{OwnedValue, SqlType};

/// A number's literal: INTEGER or BIGINT where it fits, DECIMAL where that holds it, FLOAT with an
/// exponent or with more digits.
pub(crate) fn number(digits: &str, negative: bool) -> UserResult<Typed> {
    let text = if negative { format!("-{digits}") } else { digits.to_owned() };
    let out_of_range = || UserError::compile("22003", format!("numeric value out of range: {text}"));
    if digits.contains(['e', 'E']) {
        let value: f64 = text.parse().map_err(|_| UserError::syntax(format!("malformed number {digits}")))?;
        // The doubles at the lower end mean NULL on the wire.
        if !value.is_finite() || value <= FLOAT_NULL_MAX {
            return Err(out_of_range());
        }
        return Ok(Typed::new(Expr::Constant(OwnedValue::Float(value)), SqlType::Float));
    }
    // The smallest integer means NULL on the wire; it is a DECIMAL.
    if !digits.contains('.')
        && let Ok(value) = text.parse::<i64>()
        && value != i64::MIN
    {
        let sql_type = if value.abs() <= i64::from(i32::MAX) { SqlType::Integer } else { SqlType::Bigint };
        return Ok(Typed::new(Expr::integer(value), sql_type));
    }
    match decimal_of(&text) {
        Some(value) => Ok(Typed::new(Expr::Constant(OwnedValue::Decimal(value)), SqlType::Decimal)),
        None if earlier::rounded_literals() => Err(out_of_range()),
        None => {
            let value = float_of(&text).ok_or_else(out_of_range)?;
            let expr = Expr::Constant(OwnedValue::Float(value));
            Ok(Typed { digits: Some(Digits::of(&text)), ..Typed::new(expr, SqlType::Float) })
        }
    }
}

/// The digits of a constant that is compared with a number of type `other`, where they are more
/// than that holds.
fn digits_beside(typed: &Typed, other: SqlType) -> Option<Digits> {
    if !other.is_integer() && other != SqlType::Decimal {
        return None;
    }
    match typed.constant() {
        Some(OwnedValue::Text(text)) => Digits::of_text(text),
        _ => typed.digits.clone(),
    }
}

/// A comparison of which one side is a number with more digits than the other side's type holds:
/// the comparison that holds for the same values.
pub(crate) fn exact_comparison(
    left: &Typed,
    operator: CompareOperator,
    right: &Typed,
) -> Option<(Typed, CompareOperator, Typed)> {
    let left_type = left.sql_type?;
    let right_type = right.sql_type?;
    let as_constant = |value: OwnedValue| {
        let sql_type = if matches!(value, OwnedValue::Decimal(_)) { SqlType::Decimal } else { SqlType::Float };
        Typed::new(Expr::Constant(value), sql_type)
    };
    if let Some(digits) = digits_beside(right, left_type) {
        let (operator, value) = digits.beside(operator, left_type);
        return Some((left.clone(), operator, as_constant(value)));
    }
    let digits = digits_beside(left, right_type)?;
    let (turned, value) = digits.beside(operator.turned(), right_type);
    Some((as_constant(value), turned.turned(), right.clone()))
}
