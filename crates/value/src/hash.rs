//! The partition hash (wire-protocol 11.1): MurmurHash3, x64, 128 bits, seed 0, of which the upper
//! half of the first word is the *token*. Clients compute the same, so every bit of it is fixed.

use crate::convert::{shown, whole_float};
use crate::decimal::Rest;
use crate::text::{parse_decimal_truncated, parse_hex_bytes, parse_integer, to_text_string};
use crate::{SqlType, Value};
use ferrite_base::{UserError, UserResult};

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Token of an integer key, whatever its width.
#[inline]
pub fn partition_token_i64(value: i64) -> i32 {
    // The general hash for one eight-byte tail, in which h2 starts as the length alone.
    finish(mix_k1(value as u64), 0, 8)
}

/// Token of a text or binary key.
pub fn partition_token_bytes(bytes: &[u8]) -> i32 {
    let mut h1 = 0u64;
    let mut h2 = 0u64;
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        h1 ^= mix_k1(little_endian(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_k2(little_endian(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let tail = blocks.remainder();
    if tail.len() > 8 {
        h2 ^= mix_k2(little_endian(&tail[8..]));
    }
    if !tail.is_empty() {
        h1 ^= mix_k1(little_endian(&tail[..tail.len().min(8)]));
    }
    finish(h1, h2, bytes.len() as u64)
}

/// Token of a partitioning parameter for a column of type `column`, converted as clients do. None
/// for NULL, which is not hashed and belongs to partition 0.
#[inline]
pub fn partition_token(value: &Value<'_>, column: SqlType) -> UserResult<Option<i32>> {
    match value {
        Value::Integer(x) if column.is_integer() => Ok(Some(partition_token_i64(*x))),
        Value::Text(x) if column == SqlType::Varchar && *x != "\\N" => Ok(Some(partition_token_bytes(x.as_bytes()))),
        _ => partition_token_converted(value, column),
    }
}

fn partition_token_converted(value: &Value<'_>, column: SqlType) -> UserResult<Option<i32>> {
    let token = match (*value, column) {
        (Value::Null | Value::Text("\\N"), _) => return Ok(None),
        (Value::Integer(x), _) if column.is_integer() => partition_token_i64(x),
        (Value::Text(x), _) if column.is_integer() => match parse_integer(x).or_else(|| whole_decimal(x)) {
            Some(integer) => partition_token_i64(integer),
            None => return Err(unusable_text(x, "long")),
        },
        (Value::Bytes(x), _) if column.is_integer() => match integer_from_little_endian(x) {
            Some(integer) => partition_token_i64(integer),
            None => return Err(unusable(value, column)),
        },
        (Value::Decimal(x), _) if column.is_integer() => match x.to_i64_exact() {
            Some(integer) => partition_token_i64(integer),
            None => return Err(not_an_integer(value, x.trunc() == x, column)),
        },
        (Value::Text(x), SqlType::Varchar) => partition_token_bytes(x.as_bytes()),
        (Value::Bytes(x), SqlType::Varchar | SqlType::Varbinary) => partition_token_bytes(x),
        (Value::Text(x), SqlType::Varbinary) => match parse_hex_bytes(x) {
            Some(bytes) => partition_token_bytes(&bytes),
            None => return Err(unusable_text(x, "byte array")),
        },
        (Value::Float(x), _) if column.is_integer() => match whole_float(x) {
            Some(integer) => partition_token_i64(integer),
            None => return Err(not_an_integer(value, x.trunc() == x, column)),
        },
        (Value::Boolean(x), _) if column.is_integer() => partition_token_i64(x as i64),
        (Value::Timestamp(x), _) if column.is_integer() => partition_token_i64(x),
        (Value::Array(_) | Value::Table(_), _) => return Err(unusable(value, column)),
        // Clients hash these as integers and miss; the row is stored under its text, so the text
        // decides here.
        (_, SqlType::Varchar) => partition_token_bytes(to_text_string(value).as_bytes()),
        _ => return Err(unusable(value, column)),
    };
    Ok(Some(token))
}

#[cold]
fn unusable_text(text: &str, target: &str) -> UserError {
    UserError::parameters(format!("unable to convert string {text} to {target} target parameter")).with_code("07006")
}

#[cold]
fn unusable(value: &Value<'_>, column: SqlType) -> UserError {
    UserError::parameters(format!("a {} value cannot select a partition by a {column} column", value.kind_name()))
}

#[cold]
fn not_an_integer(value: &Value<'_>, is_whole: bool, column: SqlType) -> UserError {
    let reason = if is_whole { "out of range for" } else { "not a whole number, as needed for" };
    UserError::parameters(format!("{} is {reason} the {column} partitioning column", shown(value)))
}

/// A text with decimals that are zeros, or with an exponent, which is an integer.
fn whole_decimal(text: &str) -> Option<i64> {
    match parse_decimal_truncated(text) {
        Ok((number, Rest::Zero)) => number.to_i64_exact(),
        _ => None,
    }
}

/// A byte array given for an integer key: its little-endian integer, sign-extended.
fn integer_from_little_endian(bytes: &[u8]) -> Option<i64> {
    Some(match *bytes {
        [a] => a as i8 as i64,
        [a, b] => i16::from_le_bytes([a, b]) as i64,
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]) as i64,
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    })
}

/// Up to eight bytes, zero-extended.
#[inline]
fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0u8; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[inline]
fn mix_k1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

#[inline]
fn mix_k2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

#[inline]
fn finish(h1: u64, h2: u64, length: u64) -> i32 {
    let h1 = h1 ^ length;
    let h2 = h2 ^ length;
    let h1 = h1.wrapping_add(h2);
    let h2 = h2.wrapping_add(h1);
    (avalanche(h1).wrapping_add(avalanche(h2)) >> 32) as i32
}

#[inline]
fn avalanche(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}
