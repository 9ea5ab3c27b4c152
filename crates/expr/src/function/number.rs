//! Functions on numbers and their bits.

use super::Function;
use crate::arithmetic::{self, is_float_value};
use crate::checks::mismatch;
use crate::operator::ArithmeticOperator;
use ferrite_base::{UserError, UserResult};
use ferrite_value::decimal::{self, Rest};
use ferrite_value::{Decimal, Value, text};

/// Places that ROUND and FORMAT_CURRENCY round to: decimals, or if negative digits before the
/// point.
const ROUNDING_POSITIONS: std::ops::RangeInclusive<i64> = -25..=12;

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>]) -> UserResult<Value<'a>> {
    use Function::*;
    match (function, arguments) {
        (Abs, [Value::Integer(x)]) => Ok(Value::Integer(x.saturating_abs())),
        (Abs, [Value::Float(x)]) => Ok(Value::Float(x.abs())),
        (Abs, [Value::Decimal(x)]) => Ok(Value::Decimal(x.abs())),
        (Ceiling | Floor, [Value::Integer(x)]) => Ok(Value::Integer(*x)),
        (Ceiling, [Value::Float(x)]) => Ok(Value::Float(x.ceil())),
        (Floor, [Value::Float(x)]) => Ok(Value::Float(x.floor())),
        (Ceiling, [Value::Decimal(x)]) => x.ceil().map(Value::Decimal).ok_or_else(|| too_large("CEILING")),
        (Floor, [Value::Decimal(x)]) => x.floor().map(Value::Decimal).ok_or_else(|| too_large("FLOOR")),
        (Round, [Value::Decimal(x), Value::Integer(position)]) => {
            round_half_even(*x, rounding_position(*position)?).map(Value::Decimal).ok_or_else(|| too_large("ROUND"))
        }
        (Round | TruncateNumber, [Value::Integer(x)]) => Ok(Value::Integer(*x)),
        (Round, [Value::Float(x)]) => Ok(Value::Float(x.round_ties_even())),
        (TruncateNumber, [Value::Float(x)]) => Ok(Value::Float(x.trunc())),
        (Round, [Value::Decimal(x)]) => round_half_even(*x, 0).map(Value::Decimal).ok_or_else(|| too_large("ROUND")),
        (TruncateNumber, [Value::Decimal(x)]) => Ok(Value::Decimal(x.trunc())),
        (TruncateNumber, [Value::Decimal(x), Value::Integer(position)]) => {
            Ok(Value::Decimal(truncate_at(*x, rounding_position(*position)?)))
        }
        (Sign, [Value::Integer(x)]) => Ok(Value::Integer(x.signum())),
        (Sign, [Value::Float(x)]) => Ok(Value::Integer((*x > 0.0) as i64 - (*x < 0.0) as i64)),
        (Sign, [Value::Decimal(x)]) => Ok(Value::Integer(x.scaled().signum() as i64)),
        (ExactInteger, [value]) => exact_integer(value).map(Value::Integer),
        (Modulo, [Value::Integer(x), Value::Integer(y)]) => {
            arithmetic::integer(ArithmeticOperator::Remainder, *x, *y).map(Value::Integer)
        }
        (Modulo, [Value::Decimal(x), Value::Decimal(y)]) => {
            arithmetic::decimal(ArithmeticOperator::Remainder, *x, *y).map(Value::Decimal)
        }
        (Pi, []) => Ok(Value::Float(std::f64::consts::PI)),
        (BitAnd | BitOr | BitXor | BitNot | BitShiftLeft | BitShiftRight, _) => bits(function, arguments),
        (_, [Value::Float(x)]) => on_double(function, *x).map(Value::Float),
        (ArcTangent2, [Value::Float(y), Value::Float(x)]) => Ok(Value::Float(y.atan2(*x))),
        (Power, [Value::Float(x), Value::Float(y)]) => finite("POWER", x.powf(*y)).map(Value::Float),
        (function, arguments) => Err(mismatch(&format!("{function:?}"), arguments)),
    }
}

fn on_double(function: Function, x: f64) -> UserResult<f64> {
    let (name, result) = match function {
        Function::SquareRoot => ("SQRT", x.sqrt()),
        Function::CubeRoot => ("CBRT", x.cbrt()),
        Function::ArcSine => ("ASIN", x.asin()),
        Function::ArcCosine => ("ACOS", x.acos()),
        Function::ArcTangent => ("ATAN", x.atan()),
        Function::Exponential => ("EXP", x.exp()),
        Function::NaturalLogarithm => ("LN", x.ln()),
        Function::Logarithm10 => ("LOG10", x.log10()),
        Function::Sine => ("SIN", x.sin()),
        Function::Cosine => ("COS", x.cos()),
        Function::Tangent => ("TAN", x.tan()),
        Function::Cotangent => ("COT", 1.0 / x.tan()),
        Function::Secant => ("SEC", 1.0 / x.cos()),
        Function::Cosecant => ("CSC", 1.0 / x.sin()),
        Function::Degrees => ("DEGREES", x.to_degrees()),
        Function::Radians => ("RADIANS", x.to_radians()),
        other => return Err(mismatch(&format!("{other:?}"), &[Value::Float(x)])),
    };
    finite(name, result)
}

fn finite(name: &str, result: f64) -> UserResult<f64> {
    if is_float_value(result) {
        return Ok(result);
    }
    Err(UserError::out_of_range(format!("{name} has no finite result for this argument")))
}

fn bits<'a>(function: Function, arguments: &[Value<'a>]) -> UserResult<Value<'a>> {
    let result = match (function, arguments) {
        (Function::BitAnd, [Value::Integer(x), Value::Integer(y)]) => x & y,
        (Function::BitOr, [Value::Integer(x), Value::Integer(y)]) => x | y,
        (Function::BitXor, [Value::Integer(x), Value::Integer(y)]) => x ^ y,
        (Function::BitNot, [Value::Integer(x)]) => !x,
        (Function::BitShiftLeft, [Value::Integer(x), Value::Integer(places)]) => {
            let places = shift_places(*places)?;
            x.checked_shl(places).unwrap_or(0)
        }
        // Zeros come in from the left.
        (Function::BitShiftRight, [Value::Integer(x), Value::Integer(places)]) => {
            let places = shift_places(*places)?;
            (*x as u64).checked_shr(places).unwrap_or(0) as i64
        }
        (function, arguments) => return Err(mismatch(&format!("{function:?}"), arguments)),
    };
    if result == i64::MIN {
        return Err(UserError::out_of_range("the result has only its sign bit set, which means NULL"));
    }
    Ok(Value::Integer(result))
}

fn shift_places(places: i64) -> UserResult<u32> {
    if places < 0 {
        return Err(UserError::out_of_range(format!("bits cannot be shifted by {places} places")));
    }
    Ok(u32::try_from(places).unwrap_or(u32::MAX))
}

pub(super) fn rounding_position(position: i64) -> UserResult<i32> {
    if !ROUNDING_POSITIONS.contains(&position) {
        return Err(UserError::out_of_range(format!(
            "the rounding position {position} is not between {} and {}",
            ROUNDING_POSITIONS.start(),
            ROUNDING_POSITIONS.end()
        )));
    }
    Ok(position as i32)
}

/// To `position` decimals, halves to the even neighbour. None when that is beyond 38 digits.
pub(super) fn round_half_even(value: Decimal, position: i32) -> Option<Decimal> {
    let dropped = decimal::SCALE as i32 - position;
    if dropped <= 0 {
        return Some(value);
    }
    // At most 10^37, as positions start at -25.
    let unit = 10i128.pow(dropped as u32);
    let scaled = value.scaled();
    let quotient = scaled / unit;
    let twice_remainder = (scaled % unit).unsigned_abs() * 2;
    let away = match twice_remainder.cmp(&(unit as u128)) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient % 2 != 0,
        std::cmp::Ordering::Greater => true,
    };
    let rounded = if away { quotient + scaled.signum() } else { quotient };
    Decimal::from_scaled(rounded.checked_mul(unit)?)
}

/// Toward zero at `position` decimals.
fn truncate_at(value: Decimal, position: i32) -> Decimal {
    let dropped = decimal::SCALE as i32 - position;
    if dropped <= 0 {
        return value;
    }
    let unit = 10i128.pow(dropped as u32);
    Decimal::from_scaled(value.scaled() / unit * unit).expect("not larger than the value")
}

/// The integer that a number is, or that a text says. Error where it has decimals that would be
/// lost.
fn exact_integer(value: &Value<'_>) -> UserResult<i64> {
    let integer = match value {
        Value::Integer(x) => Some(*x),
        Value::Decimal(x) => x.to_i64_exact(),
        // The bounds are exact as doubles.
        Value::Float(x) if x.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(x) => Some(*x as i64),
        Value::Float(_) => None,
        Value::Text(x) => match text::parse_integer(x) {
            Some(integer) => Some(integer),
            None => match text::parse_decimal_truncated(x) {
                Ok((x, Rest::Zero)) => x.to_i64_exact(),
                Ok(_) => None,
                Err(_) => {
                    return Err(UserError::data("22018", "data exception: invalid character value for cast"));
                }
            },
        },
        other => return Err(mismatch("an integer", &[*other])),
    };
    integer.filter(|integer| *integer != i64::MIN).ok_or_else(|| {
        let has_decimals = match value {
            Value::Float(x) => x.fract() != 0.0,
            Value::Decimal(x) => *x != x.trunc(),
            Value::Text(x) => {
                text::parse_decimal_truncated(x).is_ok_and(|(x, rest)| x != x.trunc() || rest != Rest::Zero)
            }
            _ => false,
        };
        if !has_decimals {
            return UserError::out_of_range(format!(
                "data exception: {} is out of range for BIGINT",
                text::to_text_string(value)
            ));
        }
        UserError::out_of_range(format!("{} cannot be stored as an integer without loss", text::to_text_string(value)))
            .with_hint("convert the value: CAST truncates it, ROUND rounds it")
    })
}

#[cold]
pub(super) fn too_large(name: &str) -> UserError {
    UserError::out_of_range(format!("the result of {name} will overflow Decimal storage"))
}
