//! The set of values that COUNT(DISTINCT x) and its like have met.

use super::sketch::hash;
use ferrite_value::{OwnedValue, Value, compare};
use hashbrown::HashTable;

/// Distinct values of one kind, equal as in GROUP BY.
#[derive(Clone, Debug, Default)]
pub struct DistinctValues(HashTable<OwnedValue>);

impl DistinctValues {
    /// Copies the value only if it is new.
    pub(super) fn insert(&mut self, value: Value<'_>) {
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
