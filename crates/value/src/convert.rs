//! Conversion of parameters to the types that a procedure or statement declares (wire-protocol
//! 4.5), and the check that a value fits its column.
//!
//! Errors here say what is wrong with the value; the caller adds the procedure's name and the
//! parameter's number.

use crate::{ColumnType, Decimal, Point, SqlType, Value, decimal::ParseDecimalError, geography, temporal, text};
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};

pub use crate::text::{to_text, to_text_string};

/// A string parameter that means NULL, whatever type is declared.
const NULL_TEXT: &str = "\\N";
/// Characters of a refused value that a message shows.
const MESSAGE_VALUE_CHARACTERS_MAX: usize = 200;

/// The value as the declared type, a DECIMAL rounded to its scale. Sizes of variable-length types
/// are checked by [`check_fits`], when the value is stored.
#[inline]
pub fn to_declared<'a>(value: Value<'a>, ty: &ColumnType, arena: &'a Bump) -> UserResult<Value<'a>> {
    let matches = match (&value, ty.sql_type) {
        (Value::Null, _) => true,
        (Value::Integer(x), SqlType::Bigint) => *x != i64::MIN,
        (Value::Integer(x), SqlType::Integer) => *x == *x as i32 as i64 && *x != i32::MIN as i64,
        (Value::Integer(x), SqlType::Smallint) => *x == *x as i16 as i64 && *x != i16::MIN as i64,
        (Value::Integer(x), SqlType::Tinyint) => *x == *x as i8 as i64 && *x != i8::MIN as i64,
        (Value::Text(x), SqlType::Varchar) => *x != NULL_TEXT,
        (Value::Decimal(_), SqlType::Decimal) => ty.length == 0,
        (Value::Float(x), SqlType::Float) => x.is_finite(),
        (Value::Boolean(_), SqlType::Boolean) | (Value::Bytes(_), SqlType::Varbinary) => true,
        (Value::Timestamp(x), SqlType::Timestamp) => temporal::is_valid_timestamp(*x),
        _ => false,
    };
    if matches { Ok(value) } else { convert(value, ty, arena) }
}

/// An array parameter whose elements are declared as `element`. A scalar for an array is an error;
/// so is, in [`to_declared`], an array for a scalar.
pub fn to_declared_array<'a>(value: Value<'a>, element: &ColumnType, arena: &'a Bump) -> UserResult<Value<'a>> {
    let Value::Array(values) = value else {
        return Err(UserError::parameters(format!("{} given where an array is declared", value.kind_name())));
    };
    let mut converted = bumpalo::collections::Vec::with_capacity_in(values.len(), arena);
    for value in values {
        converted.push(to_declared(*value, element, arena)?);
    }
    Ok(Value::Array(converted.into_bump_slice()))
}

#[inline(never)]
fn convert<'a>(value: Value<'a>, declared: &ColumnType, arena: &'a Bump) -> UserResult<Value<'a>> {
    let ty = declared.sql_type;
    if matches!(value, Value::Null | Value::Text(NULL_TEXT)) {
        return Ok(Value::Null);
    }
    if matches!(value, Value::Array(_) | Value::Table(_)) {
        return Err(UserError::parameters(format!("{} given where {ty} is declared", value.kind_name())));
    }
    let converted = match ty {
        SqlType::Tinyint | SqlType::Smallint | SqlType::Integer | SqlType::Bigint => {
            return convert_to_integer(value, ty);
        }
        SqlType::Float => match value {
            Value::Integer(x) => Some(Value::Float(x as f64)),
            Value::Decimal(x) => Some(Value::Float(x.to_f64())),
            Value::Text(x) => text::parse_float(x).map(Value::Float),
            Value::Float(x) if x.is_finite() => Some(value),
            Value::Float(_) => return Err(not_finite(&value)),
            _ => None,
        },
        SqlType::Decimal => return convert_to_decimal(value, declared),
        SqlType::Varchar => match value {
            Value::Bytes(x) => std::str::from_utf8(x).ok().map(Value::Text),
            _ => {
                use SqlType::{Date, Float, Geography, Point, Timestamp};
                // What is not a value of its own type has no text.
                let own = value.sql_type().filter(|own| matches!(own, Float | Timestamp | Date | Point | Geography));
                let value = own.map_or(Ok(value), |own| to_declared(value, &ColumnType::unbounded(own), arena))?;
                Some(Value::Text(text::to_text(value, arena)))
            }
        },
        SqlType::Varbinary => match value {
            Value::Bytes(_) => Some(value),
            Value::Text(x) => text::parse_hex_bytes_in(x, arena).map(Value::Bytes),
            _ => None,
        },
        SqlType::Timestamp => {
            let timestamp = match value {
                Value::Timestamp(x) | Value::Integer(x) => Some(x),
                Value::Date(x) => Some(temporal::date_to_timestamp(x)),
                Value::Text(x) => timestamp_from_text(x),
                _ => None,
            };
            let Some(timestamp) = timestamp.filter(|timestamp| *timestamp != i64::MIN) else {
                return Err(cannot_convert(&value, ty));
            };
            let valid = temporal::valid_timestamp(timestamp).map(Value::Timestamp);
            return valid.map_err(|error| UserError::parameters(error.message().to_owned()));
        }
        SqlType::Date => match value {
            Value::Date(x) => temporal::date_is_valid(x).then_some(value),
            Value::Timestamp(x) => temporal::date_from_timestamp(x).map(Value::Date),
            Value::Text(x) => temporal::date_from_text(x).map(Value::Date),
            _ => None,
        },
        SqlType::Boolean => match value {
            Value::Boolean(_) => Some(value),
            Value::Integer(x) => (x == 0 || x == 1).then_some(Value::Boolean(x == 1)),
            Value::Text(x) => boolean_from_text(x).map(Value::Boolean),
            _ => None,
        },
        SqlType::Point => match value {
            Value::Point(x) => geography::point_is_valid(x).then_some(value),
            Value::Text(x) => return geography::parse_point(x).map(Value::Point),
            _ => None,
        },
        SqlType::Geography => match value {
            Value::Geography(x) => return geography::decode_vertices(x).map(|_| value),
            Value::Text(x) => return polygon_from_text(x, arena),
            _ => None,
        },
    };
    converted.ok_or_else(|| cannot_convert(&value, ty))
}

fn convert_to_integer<'a>(value: Value<'a>, ty: SqlType) -> UserResult<Value<'a>> {
    let integer = match value {
        Value::Integer(x) => Some(x),
        Value::Decimal(x) => x.to_i64_exact(),
        Value::Text(x) => text::parse_integer(x),
        Value::Boolean(x) => Some(x as i64),
        _ => None,
    };
    let integer = integer.ok_or_else(|| cannot_convert(&value, ty))?;
    let (least, greatest) = ty.integer_range().expect("an integer type");
    if (least..=greatest).contains(&integer) {
        Ok(Value::Integer(integer))
    } else if integer == least.wrapping_sub(1) {
        Err(UserError::parameters(format!("{integer} might be interpreted as the {ty} null value")))
    } else {
        Err(UserError::parameters(format!("{integer} is out of range for {ty}")))
    }
}

fn convert_to_decimal<'a>(value: Value<'a>, to: &ColumnType) -> UserResult<Value<'a>> {
    let decimal = match value {
        Value::Decimal(x) => Ok(x),
        Value::Integer(x) => Ok(Decimal::from_i64(x)),
        Value::Float(x) => Decimal::from_f64(x).ok_or(ParseDecimalError::OutOfRange),
        Value::Text(x) => text::parse_decimal(x),
        _ => Err(ParseDecimalError::Malformed),
    };
    let rounded = decimal.and_then(|decimal| to.rounded(decimal).ok_or(ParseDecimalError::OutOfRange));
    rounded.map(Value::Decimal).map_err(|error| match error {
        ParseDecimalError::Malformed => cannot_convert(&value, SqlType::Decimal),
        ParseDecimalError::OutOfRange => UserError::parameters(format!("{} is out of range for {to}", shown(&value))),
    })
}

/// The integer that a FLOAT is, if it is one.
pub fn whole_float(value: f64) -> Option<i64> {
    (value.trunc() == value && value.abs() < 9.2e18).then_some(value as i64)
}

/// The integer of 64 bits that a FLOAT or DECIMAL equals, if there is one. None as a whole for
/// other values.
pub fn equal_integer(value: &Value<'_>) -> Option<Option<i64>> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    match *value {
        Value::Float(number) => {
            let is_one = number.trunc() == number && (-TWO_TO_63..TWO_TO_63).contains(&number);
            Some(is_one.then_some(number as i64))
        }
        Value::Decimal(number) => Some(number.to_i64_exact()),
        _ => None,
    }
}

/// Texts and computations have no such values either; they could not be written down and read
/// again.
#[cold]
fn not_finite(value: &Value<'_>) -> UserError {
    UserError::parameters(format!("{} is not a FLOAT of SQL; use NULL for a value that is not a number", shown(value)))
}

/// An integer of microseconds, or a date with or without time.
fn timestamp_from_text(text: &str) -> Option<i64> {
    match text.trim().parse() {
        Ok(i64::MIN) => None,
        Ok(microseconds) => Some(microseconds),
        Err(_) => temporal::parse_timestamp(text),
    }
}

pub(crate) fn boolean_from_text(text: &str) -> Option<bool> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("true") || text == "1" {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") || text == "0" {
        Some(false)
    } else {
        None
    }
}

pub(crate) fn polygon_from_text<'a>(text: &str, arena: &'a Bump) -> UserResult<Value<'a>> {
    let polygon = geography::Polygon::parse(text)?;
    Ok(Value::Geography(arena.alloc_slice_copy(&polygon.encode())))
}

#[cold]
fn cannot_convert(value: &Value<'_>, ty: SqlType) -> UserError {
    UserError::parameters(format!("unable to convert {} {} to {ty}", value.kind_name(), shown(value)))
        .with_code("07006")
}

/// The value for a message, cut where it is long.
pub(crate) fn shown(value: &Value<'_>) -> String {
    shortened(text::to_text_string(value))
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_VALUE_CHARACTERS_MAX) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// May a value of the column's kind be stored in it: integers within the width, text and bytes
/// within the length? NULL fits every column; NOT NULL is the table's affair.
#[inline]
pub fn check_fits(value: &Value<'_>, ty: &ColumnType, column_name: &str) -> UserResult<()> {
    let fits = match (value, ty.sql_type) {
        (Value::Integer(x), SqlType::Bigint) => *x != i64::MIN,
        (Value::Integer(x), SqlType::Integer) => *x == *x as i32 as i64 && *x != i32::MIN as i64,
        (Value::Integer(x), SqlType::Smallint) => *x == *x as i16 as i64 && *x != i16::MIN as i64,
        (Value::Integer(x), SqlType::Tinyint) => *x == *x as i8 as i64 && *x != i8::MIN as i64,
        // Bytes are at least as many as characters, so most texts need no counting.
        (Value::Text(x), SqlType::Varchar) => {
            x.len() <= ty.length as usize || (!ty.in_bytes && x.chars().count() <= ty.length as usize)
        }
        (Value::Bytes(x), SqlType::Varbinary) | (Value::Geography(x), SqlType::Geography) => {
            x.len() <= ty.length as usize
        }
        (Value::Decimal(x), SqlType::Decimal) => ty.length == 0 || ty.rounded(*x) == Some(*x),
        (Value::Timestamp(x), SqlType::Timestamp) => *x != i64::MIN,
        (Value::Point(x), SqlType::Point) => *x != Point { longitude: 360.0, latitude: 360.0 },
        _ => true,
    };
    if fits { Ok(()) } else { Err(does_not_fit(value, ty, column_name)) }
}

/// The value as a column or variable of the declared type keeps it: a DECIMAL with precision and
/// scale is rounded. Error as of [`check_fits`].
#[inline]
pub fn as_kept<'a>(value: Value<'a>, ty: &ColumnType, column_name: &str) -> UserResult<Value<'a>> {
    if let Value::Decimal(decimal) = value
        && ty.length != 0
    {
        let rounded = ty.rounded(decimal).map(Value::Decimal);
        return rounded.ok_or_else(|| does_not_fit(&value, ty, column_name));
    }
    check_fits(&value, ty, column_name).map(|()| value)
}

#[cold]
#[inline(never)]
fn does_not_fit(value: &Value<'_>, ty: &ColumnType, column_name: &str) -> UserError {
    match value {
        Value::Text(x) => {
            let size = if ty.in_bytes { x.len() } else { x.chars().count() };
            UserError::data(
                "22001",
                format!(
                    "The size {size} of the value '{}' exceeds the size of the {ty} column '{column_name}'",
                    shown(value)
                ),
            )
        }
        Value::Bytes(x) | Value::Geography(x) => UserError::data(
            "22001",
            format!("The size {} of the value exceeds the size of the {ty} column '{column_name}'", x.len()),
        ),
        _ => UserError::out_of_range(format!(
            "The value {} is out of range for the {ty} column '{column_name}'",
            shown(value)
        )),
    }
}
