//! Text forms of values, both ways: what CAST to VARCHAR and conversion to a declared VARCHAR
//! produce, and the number and hex texts that conversions accept.

use crate::temporal::{DisplayDate, DisplayTimestamp};
use crate::{Decimal, Value, decimal, geography};
use bumpalo::Bump;
use std::borrow::Cow;
use std::fmt;

/// The text form; text itself is not copied. NULL gives `NULL`, which callers treat before.
pub fn to_text<'a>(value: Value<'a>, arena: &'a Bump) -> &'a str {
    match value {
        Value::Text(text) => text,
        _ => bumpalo::format!(in arena, "{}", DisplayValue(value)).into_bump_str(),
    }
}

/// The text form, owned: for messages and hashing.
pub fn to_text_string(value: &Value<'_>) -> String {
    DisplayValue(*value).to_string()
}

/// Displays any value in its text form: decimals with twelve decimals, varbinary as upper-case hex,
/// geography as WKT.
#[derive(Clone, Copy)]
pub struct DisplayValue<'a>(pub Value<'a>);

impl fmt::Display for DisplayValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("NULL"),
            Value::Boolean(x) => x.fmt(f),
            Value::Integer(x) => x.fmt(f),
            Value::Float(x) => DisplayFloat(x).fmt(f),
            Value::Decimal(x) => x.fmt(f),
            Value::Timestamp(x) => DisplayTimestamp(x).fmt(f),
            Value::Date(x) => DisplayDate(x).fmt(f),
            Value::Text(x) => f.write_str(x),
            Value::Bytes(x) | Value::Table(x) => DisplayHex(x).fmt(f),
            Value::Point(x) => x.fmt(f),
            Value::Geography(x) => match geography::Polygon::decode(x) {
                Ok(polygon) => polygon.fmt(f),
                Err(_) => DisplayHex(x).fmt(f),
            },
            Value::Array(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    DisplayValue(*value).fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Upper-case hex digits.
#[derive(Clone, Copy)]
pub struct DisplayHex<'a>(pub &'a [u8]);

impl fmt::Display for DisplayHex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

/// Shortest digits that read back alike, with at least one decimal; E notation below 10^-3 and from
/// 10^7 on, the form that Java clients print: `0.25`, `100.0`, `1.0E10`.
#[derive(Clone, Copy)]
pub struct DisplayFloat(pub f64);

impl fmt::Display for DisplayFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value.is_nan() {
            return f.write_str("NaN");
        }
        if value.is_infinite() {
            return f.write_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
        }
        if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
            // Debug keeps one decimal, and has no exponent in this range.
            return write!(f, "{value:?}");
        }
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').expect("E notation has an e");
        let decimals = if mantissa.contains('.') { "" } else { ".0" };
        write!(f, "{mantissa}{decimals}E{exponent}")
    }
}

/// As SQL casts a FLOAT to text: the shortest digits that read back alike, one of them before the
/// point, and always an exponent: `2.5E-1`, `1E2`, `0E0`.
#[derive(Clone, Copy)]
pub struct DisplayFloatCast(pub f64);

impl fmt::Display for DisplayFloatCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Zero has no sign here.
        if self.0 == 0.0 { f.write_str("0E0") } else { write!(f, "{:E}", self.0) }
    }
}

/// Doubles at or below this mean NULL on the wire (wire-protocol 4.2).
pub const FLOAT_NULL_MAX: f64 = -1.7e308;

/// Trimmed, thousands separators removed.
fn cleaned(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if text.contains(',') { Cow::Owned(text.replace(',', "")) } else { Cow::Borrowed(text) }
}

/// A decimal integer (trimmed, commas removed), or up to sixteen hex digits in `X'..'`, which are
/// the integer's bits.
pub fn parse_integer(text: &str) -> Option<i64> {
    // The plain form first: it is what key strings look like.
    if let Ok(integer) = text.parse() {
        return Some(integer);
    }
    let text = cleaned(text);
    if let Some(digits) = hex_literal(&text) {
        let fits = (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        return fits.then(|| u64::from_str_radix(digits, 16).expect("up to sixteen hex digits") as i64);
    }
    text.parse().ok()
}

/// A double in digits (trimmed, commas removed): no words for infinity and the like, and nothing
/// out of range, where the doubles that mean NULL are.
pub fn parse_float(text: &str) -> Option<f64> {
    let text = cleaned(text);
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value > FLOAT_NULL_MAX)
}

/// A decimal (trimmed, commas removed).
pub fn parse_decimal(text: &str) -> Result<Decimal, decimal::ParseDecimalError> {
    Decimal::parse(&cleaned(text))
}

/// The same with the decimals beyond the twelfth cut off, and what they were.
pub fn parse_decimal_truncated(text: &str) -> Result<(Decimal, decimal::Rest), decimal::ParseDecimalError> {
    Decimal::parse_truncated(&cleaned(text))
}

/// Bytes from pairs of hex digits, optionally written `X'..'`.
pub fn parse_hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = hex_pairs(text)?;
    Some(digits.iter().map(|pair| byte_from_hex(*pair)).collect())
}

/// [`parse_hex_bytes`] into an arena.
pub fn parse_hex_bytes_in<'a>(text: &str, arena: &'a Bump) -> Option<&'a [u8]> {
    let digits = hex_pairs(text)?;
    Some(arena.alloc_slice_fill_iter(digits.iter().map(|pair| byte_from_hex(*pair))))
}

/// What stands between the quotes of `X'..'`.
fn hex_literal(text: &str) -> Option<&str> {
    text.strip_prefix(['x', 'X'])?.strip_prefix('\'')?.strip_suffix('\'')
}

fn hex_pairs(text: &str) -> Option<&[[u8; 2]]> {
    let text = text.trim();
    let digits = hex_literal(text).unwrap_or(text).as_bytes();
    let (pairs, odd) = digits.as_chunks::<2>();
    (odd.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)).then_some(pairs)
}

fn byte_from_hex([high, low]: [u8; 2]) -> u8 {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("checked to be hex digits") as u8;
    digit(high) << 4 | digit(low)
}
