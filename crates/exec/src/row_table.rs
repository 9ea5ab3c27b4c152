//! A hash table of rows: groups, DISTINCT, set operations, IN (subquery). Rows keep the order in
//! which they came.

use ferrite_value::{Value, compare};
use hashbrown::HashTable;
use rapidhash::fast::RapidHasher;
use std::hash::Hasher;

/// Distinct rows of one width; NULLs are equal to each other.
pub(crate) struct RowTable<'s> {
    width: usize,
    values: Vec<Value<'s>>,
    count: usize,
    places: HashTable<(u64, u32)>,
}

impl<'s> RowTable<'s> {
    pub(crate) fn new(width: usize) -> RowTable<'s> {
        RowTable { width, values: Vec::new(), count: 0, places: HashTable::new() }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn row(&self, position: usize) -> &[Value<'s>] {
        &self.values[position * self.width..(position + 1) * self.width]
    }

    /// Bytes that one more row takes.
    pub(crate) fn row_bytes(&self) -> usize {
        self.width * size_of::<Value<'_>>() + 2 * size_of::<(u64, u32)>()
    }

    pub(crate) fn find(&self, row: &[Value<'_>]) -> Option<usize> {
        let hash = hash_row(row);
        self.places
            .find(hash, |(other, position)| *other == hash && same(self.row(*position as usize), row))
            .map(|(_, position)| *position as usize)
    }

    /// The row's position, and whether it is new.
    pub(crate) fn insert(&mut self, row: &[Value<'s>]) -> (usize, bool) {
        debug_assert_eq!(row.len(), self.width);
        let hash = hash_row(row);
        let RowTable { width, values, count, places } = self;
        let entry = places.entry(
            hash,
            |(other, position)| {
                let start = *position as usize * *width;
                *other == hash && same(&values[start..start + *width], row)
            },
            |(other, _)| *other,
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => (entry.get().1 as usize, false),
            hashbrown::hash_table::Entry::Vacant(entry) => {
                let position = *count;
                entry.insert((hash, position as u32));
                values.extend_from_slice(row);
                *count += 1;
                (position, true)
            }
        }
    }
}

fn hash_row(row: &[Value<'_>]) -> u64 {
    let mut hasher = RapidHasher::default();
    for value in row {
        compare::hash_into(value, &mut hasher);
    }
    hasher.finish()
}

fn same(left: &[Value<'_>], right: &[Value<'_>]) -> bool {
    left.iter().zip(right).all(|(left, right)| compare::equal_grouping(left, right))
}
