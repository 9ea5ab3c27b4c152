//! Keys of ordered indexes as bytes whose order is that of the values.
//!
//! Each key part starts with a byte 0 (NULL) or 1, where it may be NULL. Fixed types are big-endian
//! with the sign turned; text and bytes have their zeros escaped (00 ff) and end with 00 00, so
//! that no encoded part is a prefix of another and "equal in the first parts" is "starts with these
//! bytes".

use ferrite_value::Value;

const INLINE_BYTES: usize = 30;

/// Bytes that stay in place while they are few.
#[derive(Clone)]
pub(crate) enum KeyBytes {
    Inline(u8, [u8; INLINE_BYTES]),
    Heap(Box<[u8]>),
}

const _: () = assert!(size_of::<KeyBytes>() == 32);

impl KeyBytes {
    pub(crate) fn new(bytes: &[u8]) -> KeyBytes {
        if bytes.len() <= INLINE_BYTES {
            let mut inline = [0; INLINE_BYTES];
            inline[..bytes.len()].copy_from_slice(bytes);
            KeyBytes::Inline(bytes.len() as u8, inline)
        } else {
            KeyBytes::Heap(bytes.into())
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            KeyBytes::Inline(length, bytes) => &bytes[..*length as usize],
            KeyBytes::Heap(bytes) => bytes,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            KeyBytes::Inline(..) => 0,
            KeyBytes::Heap(bytes) => bytes.len(),
        }
    }
}

/// So that a look-up needs no key of its own; the order is that of the bytes in both.
impl std::borrow::Borrow<[u8]> for KeyBytes {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for KeyBytes {
    fn eq(&self, other: &KeyBytes) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for KeyBytes {}

impl PartialOrd for KeyBytes {
    fn partial_cmp(&self, other: &KeyBytes) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyBytes {
    #[inline]
    fn cmp(&self, other: &KeyBytes) -> std::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

/// Where a key is put together: on the stack while it is short.
pub(crate) struct KeyBuffer {
    inline: [u8; 64],
    length: usize,
    /// Everything, once it outgrew `inline`.
    heap: Vec<u8>,
}

impl KeyBuffer {
    #[inline]
    pub(crate) fn new() -> KeyBuffer {
        KeyBuffer { inline: [0; 64], length: 0, heap: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    #[inline]
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if self.heap.is_empty() && end <= self.inline.len() {
            self.inline[self.length..end].copy_from_slice(bytes);
        } else {
            if self.heap.is_empty() {
                self.heap.extend_from_slice(&self.inline[..self.length]);
            }
            self.heap.extend_from_slice(bytes);
        }
        self.length = end;
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.heap.is_empty() { &self.inline[..self.length] } else { &self.heap }
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = length;
        self.heap.truncate(length);
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

/// An integer-like value in the order of u64.
#[inline]
pub(crate) fn ordered_integer(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

/// The smallest bytes above all that start with `prefix`. None: nothing is above.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut bytes = prefix[..=last].to_vec();
    bytes[last] += 1;
    Some(bytes)
}

/// Appends one key part.
pub(crate) fn append_part(out: &mut KeyBuffer, value: &Value<'_>, nullable: bool) {
    if nullable {
        out.push(!value.is_null() as u8);
    }
    match *value {
        Value::Null => debug_assert!(nullable, "NULL in a key part that cannot be NULL"),
        Value::Boolean(x) => out.push(x as u8),
        Value::Integer(x) | Value::Timestamp(x) => out.extend_from_slice(&ordered_integer(x).to_be_bytes()),
        Value::Date(x) => out.extend_from_slice(&(x as u32 ^ 1 << 31).to_be_bytes()),
        Value::Float(x) => append_float(out, x),
        Value::Decimal(x) => out.extend_from_slice(&(x.scaled() as u128 ^ 1 << 127).to_be_bytes()),
        Value::Text(x) => append_bytes(out, x.as_bytes()),
        Value::Bytes(x) | Value::Geography(x) => append_bytes(out, x),
        Value::Point(x) => {
            append_float(out, x.longitude);
            append_float(out, x.latitude);
        }
        Value::Array(_) | Value::Table(_) => panic!("array and table parameters are never keys"),
    }
}

fn append_float(out: &mut KeyBuffer, value: f64) {
    // One bit pattern per equality class: -0.0 is 0.0, and every NaN is the one above all numbers.
    let bits = if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits() & !(1 << 63)
    } else {
        value.to_bits()
    };
    let ordered = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
    out.extend_from_slice(&ordered.to_be_bytes());
}

fn append_bytes(out: &mut KeyBuffer, bytes: &[u8]) {
    let mut rest = bytes;
    while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
        out.extend_from_slice(&rest[..=zero]);
        out.push(0xff);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::{Decimal, Point, compare};

    #[test]
    fn bytes_order_like_values() {
        let groups: Vec<Vec<Value<'_>>> = vec![
            [i64::MIN + 1, -256, -1, 0, 1, 255, 256, i64::MAX].map(Value::Integer).to_vec(),
            [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.5, f64::INFINITY, f64::NAN, -f64::NAN]
                .map(Value::Float)
                .to_vec(),
            ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "ab", "b", "ü"].map(Value::Text).to_vec(),
            ["-10", "-0.5", "0", "0.000000000001", "3"].map(|x| Value::Decimal(Decimal::parse(x).unwrap())).to_vec(),
            [-5, 0, 7].map(Value::Date).to_vec(),
            [false, true].map(Value::Boolean).to_vec(),
            [(-1.0, 3.0), (1.0, -2.0), (1.0, 2.0)]
                .map(|(longitude, latitude)| Value::Point(Point { longitude, latitude }))
                .to_vec(),
        ];
        for mut group in groups {
            group.push(Value::Null);
            for left in &group {
                for right in &group {
                    let encode = |value| {
                        let mut out = KeyBuffer::new();
                        append_part(&mut out, value, true);
                        append_part(&mut out, &Value::Integer(0), false);
                        KeyBytes::new(out.as_slice())
                    };
                    assert_eq!(encode(left).cmp(&encode(right)), compare::order(left, right), "{left:?} {right:?}");
                }
            }
        }
        assert_eq!(successor(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(successor(&[0xff]), None);
    }
}
