//! The digits of a number that no DECIMAL holds: more than twelve decimals, or more than 26 digits
//! before the point.
//!
//! Owns what such a number is where it meets another type: it equals no integer and no DECIMAL,
//! lies between two of them in their order, is an error in an integer column, and is rounded once
//! in a DECIMAL one. Beside a FLOAT it is the nearest double.

use crate::errors::at_compile_time;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_expr::CompareOperator;
use ferrite_value::cast::cast;
use ferrite_value::decimal::{ParseDecimalError, Rest, SCALE};
use ferrite_value::text::{parse_decimal_truncated, parse_float};
use ferrite_value::{ColumnType, Decimal, OwnedValue, SqlType};
use std::cmp::Ordering;
use std::rc::Rc;

/// A double that no DECIMAL and no integer equals.
const NO_DECIMAL: f64 = 1e300;

/// A number that no DECIMAL holds, with its sign.
#[derive(Clone, Debug)]
pub(crate) struct Digits(Rc<str>);

/// The DECIMAL that a literal with a point, or beyond BIGINT, is. None: it has more digits.
pub(crate) fn decimal_of(text: &str) -> Option<Decimal> {
    if earlier::rounded_literals() {
        return Decimal::parse(text).ok();
    }
    match Decimal::parse_truncated(text) {
        Ok((value, Rest::Zero)) => Some(value),
        _ => None,
    }
}

/// The FLOAT nearest to a literal without an exponent. None beyond the doubles.
pub(crate) fn float_of(text: &str) -> Option<f64> {
    // Zero has no sign.
    parse_float(text).map(|value| value + 0.0)
}

/// How a number lies to DECIMALs.
enum Place {
    /// Between this one and the next above it.
    Above(Decimal),
    /// Beyond all of them.
    Beyond,
}

impl Digits {
    /// Of a literal that no DECIMAL is.
    pub fn of(literal: &str) -> Digits {
        Digits(literal.into())
    }

    /// Of a text that stands where a number is needed, if no DECIMAL is that number.
    pub fn of_text(text: &str) -> Option<Digits> {
        if earlier::rounded_literals() || parse_float(text).is_none() {
            return None;
        }
        match parse_decimal_truncated(text) {
            Ok((_, Rest::Zero)) | Err(ParseDecimalError::Malformed) => None,
            Ok(_) | Err(ParseDecimalError::OutOfRange) => Some(Digits(text.trim().replace(',', "").into())),
        }
    }

    pub fn negated(&self) -> Digits {
        match self.0.strip_prefix('-') {
            Some(digits) => Digits(digits.into()),
            None => Digits(format!("-{}", self.0).into()),
        }
    }

    fn is_negative(&self) -> bool {
        self.0.starts_with('-')
    }

    pub fn float(&self) -> OwnedValue {
        OwnedValue::Float(float_of(&self.0).unwrap_or(NO_DECIMAL))
    }

    fn place(&self) -> Place {
        let Ok((truncated, _)) = Decimal::parse_truncated(&self.0) else { return Place::Beyond };
        let below = if self.is_negative() { truncated.just_below() } else { Some(truncated) };
        below.map_or(Place::Beyond, Place::Above)
    }

    /// What `x operator number` is for an `x` of another numeric type: another operator and
    /// constant that hold for the same values.
    pub fn beside(&self, operator: CompareOperator, other: SqlType) -> (CompareOperator, OwnedValue) {
        use CompareOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let Place::Above(below) = self.place() else { return (operator, self.float()) };
        if other.is_integer() {
            // Cut off, it lies on the side of zero.
            let truncated =
                if self.is_negative() { Decimal::parse_truncated(&self.0).map(|(x, _)| x) } else { Ok(below) };
            let between = truncated.unwrap_or(below).beside_integers(self.is_negative());
            return (operator, OwnedValue::Decimal(between));
        }
        match operator {
            Less | LessOrEqual => (LessOrEqual, OwnedValue::Decimal(below)),
            Greater | GreaterOrEqual => (Greater, OwnedValue::Decimal(below)),
            Equal | NotEqual => (operator, self.no_decimal()),
        }
    }

    /// The FLOAT nearest to the number that no DECIMAL equals.
    fn no_decimal(&self) -> OwnedValue {
        let nearest = float_of(&self.0).unwrap_or(NO_DECIMAL);
        let is_decimal = |value: f64| {
            Decimal::from_f64(value).is_some_and(|decimal| decimal.compare_f64(value) == Some(Ordering::Equal))
        };
        let beside = [nearest, nearest.next_up(), nearest.next_down(), NO_DECIMAL];
        OwnedValue::Float(beside.into_iter().find(|value| !is_decimal(*value)).unwrap_or(NO_DECIMAL))
    }

    /// The number as CAST has it.
    pub fn cast(&self, to: &ColumnType) -> UserResult<OwnedValue> {
        let truncated = Decimal::parse_truncated(&self.0).map(|(truncated, _)| truncated);
        let number = match truncated {
            // Rounded once, from all digits.
            Ok(truncated) if is_short(to) || to.sql_type.is_integer() => OwnedValue::Decimal(truncated),
            _ if matches!(to.sql_type, SqlType::Decimal | SqlType::Varchar) => OwnedValue::Text((&*self.0).into()),
            _ => self.float(),
        };
        cast(number.as_value(), to, &Bump::new()).map(|value| value.to_owned_value())
    }

    /// The number as a column of type `to` is given it, which rounds it to its declared scale.
    pub fn stored(&self, to: &ColumnType) -> UserResult<OwnedValue> {
        if to.sql_type.is_integer() {
            return Err(self.not_an_integer());
        }
        match Decimal::parse_truncated(&self.0) {
            Ok((truncated, _)) if is_short(to) => Ok(OwnedValue::Decimal(truncated)),
            _ => self.cast(&ColumnType::unbounded(to.sql_type)).map_err(at_compile_time),
        }
    }

    /// Why it cannot be stored in an integer column.
    fn not_an_integer(&self) -> UserError {
        let error = match Decimal::parse_truncated(&self.0).is_ok_and(|(x, _)| x.to_i64_truncated().is_some()) {
            true => UserError::out_of_range(format!("{} cannot be stored as an integer without loss", self.0))
                .with_hint("convert the value: CAST truncates it, ROUND rounds it"),
            false => UserError::out_of_range(format!("data exception: {} is out of range for BIGINT", self.0)),
        };
        at_compile_time(error)
    }
}

/// DECIMAL(p, s) with fewer than twelve decimals: what lies beyond those does not count in
/// rounding.
fn is_short(to: &ColumnType) -> bool {
    to.precision_and_scale().is_some_and(|(_, scale)| scale < SCALE)
}
