//! SQL CAST, and the conversions that assignment and arithmetic need between SQL types.
//!
//! Unlike the conversion of parameters, this takes FLOAT and DECIMAL to integers by cutting off the
//! decimals, and answers with SQL data exceptions.

use crate::convert::{boolean_from_text, polygon_from_text, shown};
use crate::{ColumnType, Decimal, SqlType, Value, decimal::ParseDecimalError, geography, temporal, text};
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult, earlier};

/// CAST(value AS to). NULL stays NULL; text and bytes longer than the target's length are an error.
#[inline]
pub fn cast<'a>(value: Value<'a>, to: &ColumnType, arena: &'a Bump) -> UserResult<Value<'a>> {
    match (&value, to.sql_type) {
        (Value::Null, _) | (Value::Float(_), SqlType::Float) | (Value::Timestamp(_), SqlType::Timestamp) => Ok(value),
        (Value::Decimal(_), SqlType::Decimal) if to.length == 0 => Ok(value),
        (Value::Integer(x), SqlType::Bigint) if *x != i64::MIN => Ok(value),
        (Value::Integer(x), SqlType::Decimal) if to.length == 0 => Ok(Value::Decimal(Decimal::from_i64(*x))),
        (Value::Integer(x), SqlType::Float) => Ok(Value::Float(*x as f64)),
        _ => cast_between(value, to, arena),
    }
}

#[inline(never)]
fn cast_between<'a>(value: Value<'a>, to: &ColumnType, arena: &'a Bump) -> UserResult<Value<'a>> {
    let ty = to.sql_type;
    match ty {
        SqlType::Tinyint | SqlType::Smallint | SqlType::Integer | SqlType::Bigint => {
            let integer = integer_of(&value, to)?;
            let (least, greatest) = ty.integer_range().expect("an integer type");
            match integer {
                Some(integer) if (least..=greatest).contains(&integer) => Ok(Value::Integer(integer)),
                _ => Err(out_of_range(&value, to)),
            }
        }
        SqlType::Float => match value {
            Value::Integer(x) | Value::Timestamp(x) => Ok(Value::Float(x as f64)),
            Value::Float(_) => Ok(value),
            Value::Decimal(x) => Ok(Value::Float(x.to_f64())),
            Value::Text(x) => text::parse_float(x).map(Value::Float).ok_or_else(invalid_text),
            _ => Err(no_cast(&value, ty)),
        },
        SqlType::Decimal => {
            let decimal = match value {
                Value::Integer(x) | Value::Timestamp(x) => Decimal::from_i64(x),
                Value::Float(x) => Decimal::from_f64(x).ok_or_else(|| out_of_range(&value, to))?,
                Value::Decimal(x) => x,
                Value::Text(x) => decimal_of_text(x, &value, to)?,
                _ => return Err(no_cast(&value, ty)),
            };
            to.rounded(decimal).map(Value::Decimal).ok_or_else(|| out_of_range(&value, to))
        }
        SqlType::Varchar => {
            let text = match value {
                Value::Bytes(_) | Value::Array(_) | Value::Table(_) => return Err(no_cast(&value, ty)),
                Value::Float(x) if !earlier::values() => {
                    bumpalo::format!(in arena, "{}", text::DisplayFloatCast(x)).into_bump_str()
                }
                _ => text::to_text(value, arena),
            };
            let length =
                if to.in_bytes || text.len() <= to.length as usize { text.len() } else { text.chars().count() };
            check_length(length, to)?;
            Ok(Value::Text(text))
        }
        SqlType::Varbinary => {
            let bytes = match value {
                Value::Bytes(x) => x,
                Value::Text(x) => text::parse_hex_bytes_in(x, arena).ok_or_else(invalid_text)?,
                _ => return Err(no_cast(&value, ty)),
            };
            check_length(bytes.len(), to)?;
            Ok(Value::Bytes(bytes))
        }
        SqlType::Timestamp => match value {
            Value::Timestamp(_) => Ok(value),
            Value::Integer(x) => temporal::valid_timestamp(x).map(Value::Timestamp),
            // Comparisons and calendar functions take a DATE so, whatever its year; storing it as a
            // TIMESTAMP is stricter.
            Value::Date(x) => Ok(Value::Timestamp(temporal::date_to_timestamp(x))),
            Value::Text(x) => {
                temporal::valid_timestamp(temporal::parse_timestamp(x).ok_or_else(invalid_time)?).map(Value::Timestamp)
            }
            _ => Err(no_cast(&value, ty)),
        },
        SqlType::Date => match value {
            Value::Date(_) => Ok(value),
            Value::Timestamp(x) => {
                temporal::date_from_timestamp(x).map(Value::Date).ok_or_else(|| out_of_range(&value, to))
            }
            Value::Text(x) => temporal::date_from_text(x).map(Value::Date).ok_or_else(invalid_time),
            _ => Err(no_cast(&value, ty)),
        },
        SqlType::Boolean => match value {
            Value::Boolean(_) => Ok(value),
            Value::Integer(x) => Ok(Value::Boolean(x != 0)),
            Value::Text(x) => boolean_from_text(x).map(Value::Boolean).ok_or_else(invalid_text),
            _ => Err(no_cast(&value, ty)),
        },
        SqlType::Point => match value {
            Value::Point(_) => Ok(value),
            Value::Text(x) => geography::parse_point(x).map(Value::Point),
            _ => Err(no_cast(&value, ty)),
        },
        SqlType::Geography => match value {
            Value::Geography(_) => Ok(value),
            Value::Text(x) => polygon_from_text(x, arena),
            _ => Err(no_cast(&value, ty)),
        },
    }
}

/// The integer part. None when it is beyond 64 bits.
fn integer_of(value: &Value<'_>, to: &ColumnType) -> UserResult<Option<i64>> {
    Ok(match *value {
        Value::Integer(x) | Value::Timestamp(x) => Some(x),
        Value::Boolean(x) => Some(x as i64),
        // The bounds are exact as doubles; NaN is within none.
        Value::Float(x) => (-(2f64.powi(63))..2f64.powi(63)).contains(&x).then_some(x as i64),
        Value::Decimal(x) => x.to_i64_truncated(),
        Value::Text(x) => match text::parse_integer(x) {
            Some(integer) => Some(integer),
            None => decimal_of_text(x, value, to)?.to_i64_truncated(),
        },
        _ => return Err(no_cast(value, to.sql_type)),
    })
}

fn decimal_of_text(text: &str, value: &Value<'_>, to: &ColumnType) -> UserResult<Decimal> {
    text::parse_decimal(text).map_err(|error| match error {
        ParseDecimalError::Malformed => invalid_text(),
        ParseDecimalError::OutOfRange => out_of_range(value, to),
    })
}

fn check_length(length: usize, to: &ColumnType) -> UserResult<()> {
    if length <= to.length as usize {
        return Ok(());
    }
    Err(UserError::data("22001", format!("data exception: a value of size {length} does not fit {to}")))
}

#[cold]
fn invalid_text() -> UserError {
    UserError::data("22018", "data exception: invalid character value for cast")
}

#[cold]
fn invalid_time() -> UserError {
    UserError::data("22007", "data exception: invalid datetime format").with_hint(
        "write YYYY-MM-DD, optionally followed by HH:MM:SS, up to six decimals, and Z or an offset such as +01:00",
    )
}

#[cold]
fn out_of_range(value: &Value<'_>, to: &ColumnType) -> UserError {
    UserError::out_of_range(format!("data exception: {} is out of range for {to}", shown(value)))
}

#[cold]
fn no_cast(value: &Value<'_>, ty: SqlType) -> UserError {
    UserError::data("42846", format!("a {} value cannot be cast to {ty}", value.kind_name()))
}
