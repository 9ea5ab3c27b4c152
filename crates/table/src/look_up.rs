//! What a look-up or range in an index finds: bounds brought to the index's own form, and the
//! iterator over its rows.

use crate::evaluation::KeyPart;
use crate::hash_table::Candidates;
use crate::key_bytes::{KeyBuffer, KeyBytes, append_part, ordered_integer, successor};
use crate::layout::Storage;
use crate::row::RowStore;
use ferrite_base::RowId;
use ferrite_value::{Decimal, Value, compare, temporal};
use std::collections::{btree_map, btree_set};
use std::ops::Bound;

pub(crate) enum Inner<'s> {
    One(Option<RowId>),
    Hash { candidates: Candidates<'s>, rows: &'s RowStore, columns: &'s [u16], key: &'s [Value<'s>] },
    UniqueIntegers(btree_map::Range<'s, u64, u32>),
    Integers(btree_set::Range<'s, (u64, u32)>),
    UniqueBytes(btree_map::Range<'s, KeyBytes, u32>),
    Bytes(btree_set::Range<'s, (KeyBytes, u32)>),
}

/// Ids of the rows that an index found.
pub struct Rows<'s> {
    inner: Inner<'s>,
    descending: bool,
}

impl<'s> Rows<'s> {
    #[inline]
    pub(crate) fn new(inner: Inner<'s>, descending: bool) -> Rows<'s> {
        Rows { inner, descending }
    }

    pub(crate) fn empty() -> Rows<'s> {
        Rows { inner: Inner::One(None), descending: false }
    }
}

#[inline]
fn step<I: DoubleEndedIterator>(entries: &mut I, descending: bool) -> Option<I::Item> {
    if descending { entries.next_back() } else { entries.next() }
}

impl Iterator for Rows<'_> {
    type Item = RowId;

    #[inline]
    fn next(&mut self) -> Option<RowId> {
        let row = match &mut self.inner {
            Inner::One(row) => return row.take(),
            Inner::Hash { candidates, rows, columns, key } => {
                return candidates.find(|candidate| {
                    let bytes = rows.pages.row(*candidate);
                    let mut pairs = columns.iter().zip(key.iter());
                    pairs.all(|(column, value)| rows.layout.columns[*column as usize].equals(bytes, &rows.longs, value))
                });
            }
            Inner::UniqueIntegers(entries) => step(entries, self.descending)?.1,
            Inner::Integers(entries) => &step(entries, self.descending)?.1,
            Inner::UniqueBytes(entries) => step(entries, self.descending)?.1,
            Inner::Bytes(entries) => &step(entries, self.descending)?.1,
        };
        Some(RowId(*row))
    }
}

/// A part of an index's key.
pub(crate) struct Part {
    pub(crate) key: KeyPart,
    pub(crate) nullable: bool,
    /// None where an expression decides.
    pub(crate) kind: Option<Storage>,
}

#[inline(always)]
pub(crate) fn integer_of(value: &Value<'_>) -> Option<i64> {
    match *value {
        Value::Integer(x) | Value::Timestamp(x) => Some(x),
        Value::Date(x) => Some(x as i64),
        _ => None,
    }
}

/// The value in the kind of an indexed column. None: no value of the column equals it.
#[inline]
pub(crate) fn equal_in_kind<'v>(value: Value<'v>, kind: Option<Storage>) -> Option<Value<'v>> {
    match kind {
        Some(kind) if !kind.holds(&value) && !value.is_null() => convert_equal(value, kind),
        _ => Some(value),
    }
}

#[cold]
fn convert_equal<'v>(value: Value<'v>, kind: Storage) -> Option<Value<'v>> {
    let (below, exact) = at_or_below(value, kind)?;
    exact.then_some(below)
}

/// The greatest value of the column's kind that is not above `value`, and whether it equals it.
fn at_or_below<'v>(value: Value<'v>, kind: Storage) -> Option<(Value<'v>, bool)> {
    let is_integer = matches!(kind, Storage::Tinyint | Storage::Smallint | Storage::Integer | Storage::Bigint);
    let converted = match (value, kind) {
        (Value::Decimal(x), _) if is_integer => {
            let floor = x.floor().and_then(Decimal::to_i64_exact);
            Value::Integer(floor.unwrap_or(if x.is_negative() { i64::MIN } else { i64::MAX }))
        }
        (Value::Float(x), _) if is_integer => Value::Integer(if x.is_nan() { i64::MAX } else { x.floor() as i64 }),
        (Value::Integer(x), Storage::Decimal) => Value::Decimal(Decimal::from_i64(x)),
        (Value::Float(x), Storage::Decimal) => Value::Decimal(Decimal::from_f64(x)?),
        (Value::Integer(x), Storage::Float) => Value::Float(x as f64),
        (Value::Decimal(x), Storage::Float) => Value::Float(x.to_f64()),
        (Value::Date(x), Storage::Timestamp) => Value::Timestamp(temporal::date_to_timestamp(x)),
        (Value::Timestamp(x), Storage::Date) => match temporal::date_from_timestamp(x) {
            Some(date) => Value::Date(date),
            // Beyond the years that a DATE has.
            None => return Some((Value::Date(if x < 0 { i32::MIN } else { i32::MAX }), false)),
        },
        _ => return None,
    };
    Some((converted, compare::order(&converted, &value).is_eq()))
}

/// A bound in the kind of an indexed column.
fn bound_in_kind<'v>((value, inclusive): (Value<'v>, bool), part: &Part, is_lower: bool) -> Option<(Value<'v>, bool)> {
    match part.kind {
        Some(kind) if !kind.holds(&value) && !value.is_null() => {
            let (below, exact) = at_or_below(value, kind)?;
            // Between two values of the column: above the lower of them, or up to it.
            Some((below, if exact { inclusive } else { !is_lower }))
        }
        _ => Some((value, inclusive)),
    }
}

/// Least and greatest key of an index on one integer-like column. None: nothing is in between.
pub(crate) fn integer_range(
    part: &Part,
    equal: &[Value<'_>],
    lower: Option<(Value<'_>, bool)>,
    upper: Option<(Value<'_>, bool)>,
) -> Option<(u64, u64)> {
    if let [value] = equal {
        let key = ordered_integer(integer_of(&equal_in_kind(*value, part.kind)?)?);
        return Some((key, key));
    }
    let mut least = 0;
    if let Some(bound) = lower
        && !bound.0.is_null()
    {
        let (value, inclusive) = bound_in_kind(bound, part, true)?;
        let key = ordered_integer(integer_of(&value)?);
        least = if inclusive { key } else { key.checked_add(1)? };
    }
    let mut greatest = u64::MAX;
    if let Some(bound) = upper {
        let (value, inclusive) = bound_in_kind(bound, part, false)?;
        let key = ordered_integer(integer_of(&value)?);
        greatest = if inclusive { key } else { key.checked_sub(1)? };
    }
    (least <= greatest).then_some((least, greatest))
}

type BytesRange = (Bound<KeyBytes>, Bound<KeyBytes>);

/// The stretch of encoded keys. None: it is empty.
pub(crate) fn bytes_range(
    parts: &[Part],
    equal: &[Value<'_>],
    lower: Option<(Value<'_>, bool)>,
    upper: Option<(Value<'_>, bool)>,
) -> Option<BytesRange> {
    let mut prefix = KeyBuffer::new();
    for (part, value) in parts.iter().zip(equal) {
        append_part(&mut prefix, &equal_in_kind(*value, part.kind)?, part.nullable);
    }
    let length = prefix.length();
    let above = |prefix: &KeyBuffer| successor(prefix.as_slice()).map(|bytes| KeyBytes::new(&bytes));
    if lower.is_none() && upper.is_none() {
        let end = above(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
        return Some((Bound::Included(KeyBytes::new(prefix.as_slice())), end));
    }
    let part = parts.get(equal.len()).expect("a bound is on a part of the key");
    let start = match lower {
        Some(bound) if !bound.0.is_null() => {
            let (value, inclusive) = bound_in_kind(bound, part, true)?;
            append_part(&mut prefix, &value, part.nullable);
            if inclusive { KeyBytes::new(prefix.as_slice()) } else { above(&prefix)? }
        }
        _ => {
            if part.nullable {
                prefix.push(1);
            }
            KeyBytes::new(prefix.as_slice())
        }
    };
    prefix.truncate(length);
    let end = match upper {
        Some(bound) => {
            let (value, inclusive) = bound_in_kind(bound, part, false)?;
            append_part(&mut prefix, &value, part.nullable);
            if inclusive { above(&prefix) } else { Some(KeyBytes::new(prefix.as_slice())) }
        }
        None => above(&prefix),
    };
    match end {
        Some(end) if start >= end => None,
        Some(end) => Some((Bound::Included(start), Bound::Excluded(end))),
        None => Some((Bound::Included(start), Bound::Unbounded)),
    }
}
