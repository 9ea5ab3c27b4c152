//! Arithmetic in the three number domains: every overflow is an error, and so is the smallest
//! 64-bit integer, which means NULL on the wire.

use crate::checks::mismatch;
use crate::operator::{ArithmeticDomain, ArithmeticOperator};
use ferrite_base::{UserError, UserResult};
use ferrite_value::text::FLOAT_NULL_MAX;
use ferrite_value::{Decimal, Value};

/// 64-bit integers. Division truncates toward zero, the remainder has the dividend's sign.
#[inline]
pub fn integer(operator: ArithmeticOperator, left: i64, right: i64) -> UserResult<i64> {
    let result = match operator {
        ArithmeticOperator::Add => left.checked_add(right),
        ArithmeticOperator::Subtract => left.checked_sub(right),
        ArithmeticOperator::Multiply => left.checked_mul(right),
        ArithmeticOperator::Divide if right != 0 => left.checked_div(right),
        ArithmeticOperator::Remainder if right != 0 => Some(left.wrapping_rem(right)),
        ArithmeticOperator::Divide | ArithmeticOperator::Remainder => return Err(UserError::division_of(left)),
    };
    match result {
        Some(result) if result != i64::MIN => Ok(result),
        _ => Err(overflow(operator, left, right, "BigInt")),
    }
}

pub fn float(operator: ArithmeticOperator, left: f64, right: f64) -> UserResult<f64> {
    let result = match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide | ArithmeticOperator::Remainder if right == 0.0 => {
            return Err(UserError::division_of(left));
        }
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Remainder => left % right,
    };
    if is_float_value(result) { Ok(result) } else { Err(overflow(operator, left, right, "Float")) }
}

/// Finite, and not one of the doubles that mean NULL.
#[inline]
pub(crate) fn is_float_value(value: f64) -> bool {
    value.is_finite() && value > FLOAT_NULL_MAX
}

pub fn decimal(operator: ArithmeticOperator, left: Decimal, right: Decimal) -> UserResult<Decimal> {
    let result = match operator {
        ArithmeticOperator::Add => left.checked_add(right),
        ArithmeticOperator::Subtract => left.checked_sub(right),
        ArithmeticOperator::Multiply => left.checked_mul(right),
        ArithmeticOperator::Divide | ArithmeticOperator::Remainder if right.is_zero() => {
            return Err(UserError::division_of(left));
        }
        ArithmeticOperator::Divide => left.checked_div(right),
        ArithmeticOperator::Remainder => left.checked_rem(right),
    };
    result.ok_or_else(|| overflow(operator, left, right, "Decimal"))
}

/// All that is not two integers in the integer domain. Numbers of a narrower kind than the domain
/// are widened, so that a cast the binder left out of a constant does no harm.
#[inline(never)]
pub(crate) fn other<'a>(
    operator: ArithmeticOperator,
    domain: ArithmeticDomain,
    left: Value<'a>,
    right: Value<'a>,
) -> UserResult<Value<'a>> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    let operands = || mismatch("arithmetic", &[left, right]);
    match domain {
        ArithmeticDomain::Integer => Err(operands()),
        ArithmeticDomain::Float => {
            let a = as_float(left).ok_or_else(operands)?;
            let b = as_float(right).ok_or_else(operands)?;
            float(operator, a, b).map(Value::Float)
        }
        ArithmeticDomain::Decimal => {
            let a = as_decimal(left).ok_or_else(operands)?;
            let b = as_decimal(right).ok_or_else(operands)?;
            decimal(operator, a, b).map(Value::Decimal)
        }
    }
}

pub(crate) fn negate(domain: ArithmeticDomain, operand: Value<'_>) -> UserResult<Value<'_>> {
    match (domain, operand) {
        (_, Value::Null) => Ok(Value::Null),
        (ArithmeticDomain::Integer, Value::Integer(x)) => {
            integer(ArithmeticOperator::Subtract, 0, x).map(Value::Integer)
        }
        (ArithmeticDomain::Float, Value::Float(x)) => float(ArithmeticOperator::Subtract, 0.0, x).map(Value::Float),
        (ArithmeticDomain::Decimal, Value::Decimal(x)) => Ok(Value::Decimal(x.neg())),
        (_, other) => Err(mismatch("-", &[other])),
    }
}

pub(crate) fn as_float(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Float(x) => Some(x),
        Value::Integer(x) => Some(x as f64),
        Value::Decimal(x) => Some(x.to_f64()),
        _ => None,
    }
}

pub(crate) fn as_decimal(value: Value<'_>) -> Option<Decimal> {
    match value {
        Value::Decimal(x) => Some(x),
        Value::Integer(x) => Some(Decimal::from_i64(x)),
        _ => None,
    }
}

#[cold]
#[inline(never)]
fn overflow<T: std::fmt::Display>(operator: ArithmeticOperator, left: T, right: T, storage: &str) -> UserError {
    let action = match operator {
        ArithmeticOperator::Add => format!("Adding {left} and {right}"),
        ArithmeticOperator::Subtract => format!("Subtracting {right} from {left}"),
        ArithmeticOperator::Multiply => format!("Multiplying {left} with {right}"),
        ArithmeticOperator::Divide => format!("Dividing {left} by {right}"),
        ArithmeticOperator::Remainder => format!("Taking {left} modulo {right}"),
    };
    UserError::out_of_range(format!("{action} will overflow {storage} storage"))
}
