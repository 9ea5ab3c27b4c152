//! The set of values that COUNT(DISTINCT x) and its like have met.

use super::sketch::hash;
use ferrite_value::{OwnedValue, Value, compare};
use hashbrown::HashTable;

/// Distinct values of one kind, equal as in GROUP BY.
#[derive(Clone, Debug, Default)]
pub struct DistinctValues(HashTable<OwnedValue>);

impl DistinctValues {
    /// Copies the value only if it is new. Of a row of values, one that has a NULL counts for
    /// nothing.
    pub(super) fn insert(&mut self, value: Value<'_>) {
        if let Value::Array(row) = value {
            if !row.iter().any(Value::is_null) {
                self.insert(Value::Bytes(&together(row)));
            }
            return;
        }
        let entry = self.0.entry(
            hash(&value),
            |present| compare::equal_grouping(&present.as_value(), &value),
            |present| hash(&present.as_value()),
        );
        entry.or_insert_with(|| value.to_owned_value());
    }

    pub(super) fn merge(&mut self, other: &DistinctValues) {
        other.iter().for_each(|value| self.insert(value.as_value()));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &OwnedValue> {
        self.0.iter()
    }
}

/// Bytes that are the same for rows that are equal as in GROUP BY. The values at a place are of one
/// kind.
fn together(row: &[Value<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 * row.len());
    let float = |bytes: &mut Vec<u8>, value: f64| bytes.extend_from_slice(&(value + 0.0).to_bits().to_le_bytes());
    for value in row {
        let mut apart = |part: &[u8]| {
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part);
        };
        match value {
            Value::Text(text) => apart(text.as_bytes()),
            Value::Bytes(part) | Value::Geography(part) => apart(part),
            Value::Integer(value) | Value::Timestamp(value) => bytes.extend_from_slice(&value.to_le_bytes()),
            Value::Float(value) => float(&mut bytes, *value),
            Value::Point(point) => {
                float(&mut bytes, point.longitude);
                float(&mut bytes, point.latitude);
            }
            other => apart(ferrite_value::convert::to_text_string(other).as_bytes()),
        }
    }
    bytes
}
