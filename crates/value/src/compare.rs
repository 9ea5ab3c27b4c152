//! Order and equality of values: SQL comparison, the total order of ORDER BY and indexes, grouping
//! and hashing.
//!
//! Numbers compare exactly across INTEGER, FLOAT and DECIMAL; a DATE compares with a TIMESTAMP as
//! its midnight. NaN equals itself and is above all numbers; -0.0 equals 0.0. Other mixtures do not
//! pass the binder; here they order by kind, so that the total order stays one.

use crate::{Value, temporal};
use std::cmp::Ordering;
use std::hash::Hasher;

/// SQL comparison: None (unknown) when either side is NULL.
#[inline]
pub fn compare(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::Null, _) | (_, Value::Null) => None,
        _ => Some(order_values(left, right)),
    }
}

/// Total order: NULL lowest, NaN above all numbers, text and bytes by bytes.
#[inline]
pub fn order(left: &Value<'_>, right: &Value<'_>) -> Ordering {
    match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        _ => order_values(left, right),
    }
}

/// Same group, same DISTINCT value: NULLs are equal.
#[inline]
pub fn equal_grouping(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        _ => order_values(left, right).is_eq(),
    }
}

/// Feeds `state` so that values of one kind that are equal by [`equal_grouping`] hash alike. Values
/// of different kinds (INTEGER 1 and DECIMAL 1) need not: a hashed column has one kind.
#[inline]
pub fn hash_into(value: &Value<'_>, state: &mut impl Hasher) {
    match *value {
        Value::Null => state.write_u64(0x9e37_79b9_7f4a_7c15),
        Value::Boolean(x) => state.write_u64(x as u64),
        Value::Integer(x) | Value::Timestamp(x) => state.write_u64(x as u64),
        Value::Date(x) => state.write_u64(x as u64),
        Value::Float(x) => state.write_u64(canonical_bits(x)),
        Value::Decimal(x) => state.write_u128(x.scaled() as u128),
        // The length keeps ('a','bc') and ('ab','c') apart when several values are fed.
        Value::Text(x) => hash_bytes(x.as_bytes(), state),
        Value::Bytes(x) | Value::Geography(x) | Value::Table(x) => hash_bytes(x, state),
        Value::Point(x) => {
            state.write_u64(canonical_bits(x.longitude));
            state.write_u64(canonical_bits(x.latitude));
        }
        Value::Array(values) => {
            state.write_usize(values.len());
            values.iter().for_each(|element| hash_into(element, state));
        }
    }
}

#[inline]
fn hash_bytes(bytes: &[u8], state: &mut impl Hasher) {
    state.write(bytes);
    state.write_usize(bytes.len());
}

/// One bit pattern per equality class of doubles.
#[inline]
fn canonical_bits(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

fn order_values(left: &Value<'_>, right: &Value<'_>) -> Ordering {
    match (*left, *right) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(&b),
        (Value::Integer(a), Value::Integer(b)) => a.cmp(&b),
        (Value::Float(a), Value::Float(b)) => order_floats(a, b),
        (Value::Decimal(a), Value::Decimal(b)) => a.cmp(&b),
        (Value::Integer(a), Value::Decimal(b)) => crate::Decimal::from_i64(a).cmp(&b),
        (Value::Decimal(a), Value::Integer(b)) => a.cmp(&crate::Decimal::from_i64(b)),
        (Value::Integer(a), Value::Float(b)) => order_integer_float(a, b),
        (Value::Float(a), Value::Integer(b)) => order_integer_float(b, a).reverse(),
        (Value::Decimal(a), Value::Float(b)) => a.compare_f64(b).unwrap_or(Ordering::Less),
        (Value::Float(a), Value::Decimal(b)) => b.compare_f64(a).unwrap_or(Ordering::Less).reverse(),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
        (Value::Date(a), Value::Date(b)) => a.cmp(&b),
        (Value::Date(a), Value::Timestamp(b)) => temporal::date_to_timestamp(a).cmp(&b),
        (Value::Timestamp(a), Value::Date(b)) => a.cmp(&temporal::date_to_timestamp(b)),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b))
        | (Value::Geography(a), Value::Geography(b))
        | (Value::Table(a), Value::Table(b)) => a.cmp(b),
        (Value::Point(a), Value::Point(b)) => {
            order_floats(a.longitude, b.longitude).then_with(|| order_floats(a.latitude, b.latitude))
        }
        (Value::Array(a), Value::Array(b)) => {
            let differing = a.iter().zip(b).map(|(x, y)| order(x, y)).find(|ordering| ordering.is_ne());
            differing.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => kind_rank(left).cmp(&kind_rank(right)),
    }
}

#[inline]
fn order_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

fn order_integer_float(integer: i64, float: f64) -> Ordering {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() || float >= TWO_TO_63 {
        Ordering::Less
    } else if float < -TWO_TO_63 {
        Ordering::Greater
    } else {
        // Toward zero, exact in this range; the fraction decides between equal integer parts.
        let whole = float as i64;
        integer.cmp(&whole).then_with(|| 0.0.partial_cmp(&float.fract()).expect("a finite double's fraction"))
    }
}

/// Comparable kinds share a rank.
fn kind_rank(value: &Value<'_>) -> u8 {
    match value {
        Value::Null => 0,
        Value::Boolean(_) => 1,
        Value::Integer(_) | Value::Float(_) | Value::Decimal(_) => 2,
        Value::Timestamp(_) | Value::Date(_) => 3,
        Value::Text(_) => 4,
        Value::Bytes(_) => 5,
        Value::Point(_) => 6,
        Value::Geography(_) => 7,
        Value::Array(_) => 8,
        Value::Table(_) => 9,
    }
}
