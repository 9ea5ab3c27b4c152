//! The keys of a unique ordered index as bytes, in order. Where they are plain columns, rows are
//! found by hash too: searching a tree of long keys waits for memory at every node and for most of
//! the keys that it compares, a hash table once.
//!
//! Invariant: where there is a hash table it has each row of the tree once, under the tag of its
//! key.

use crate::hash_table::{HashTable, NO_TAG};
use crate::key_bytes::KeyBytes;
use ferrite_base::RowId;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

/// Rows of which the places of the next are asked for while an index is filled.
const FILLED_TOGETHER: usize = 16;

pub(crate) struct BytesMap {
    tree: BTreeMap<KeyBytes, u32>,
    by_hash: Option<HashTable>,
}

impl BytesMap {
    /// `hashed`: keys come with their tags; otherwise with [`NO_TAG`].
    pub(crate) fn new(hashed: bool) -> BytesMap {
        BytesMap { tree: BTreeMap::new(), by_hash: hashed.then(HashTable::new) }
    }

    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Bytes of memory, reckoned for the tree: its nodes are two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        let keys = self.tree.keys().map(KeyBytes::heap_bytes).sum::<usize>();
        self.tree.len() * 36 * 3 / 2 + keys + self.by_hash.as_ref().map_or(0, HashTable::bytes)
    }

    #[inline]
    pub(crate) fn by_hash(&self) -> Option<&HashTable> {
        self.by_hash.as_ref()
    }

    pub(crate) fn by_hash_mut(&mut self) -> Option<&mut HashTable> {
        self.by_hash.as_mut()
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<RowId> {
        self.tree.get(key).map(|row| RowId(*row))
    }

    pub(crate) fn range(&self, range: (Bound<KeyBytes>, Bound<KeyBytes>)) -> btree_map::Range<'_, KeyBytes, u32> {
        self.tree.range(range)
    }

    pub(crate) fn insert(&mut self, key: KeyBytes, tag: u32, row: RowId) {
        let before = self.tree.insert(key, row.0);
        assert!(before.is_none(), "a row has one entry in an index");
        if let Some(table) = &mut self.by_hash {
            assert!(tag != NO_TAG, "a key that is found by hash has a tag");
            table.insert(tag, row);
        }
    }

    /// Whether the row was there under this key.
    pub(crate) fn remove(&mut self, key: &KeyBytes, tag: u32, row: RowId) -> bool {
        let hashed = self.by_hash.as_mut().is_none_or(|table| table.remove(tag, row));
        self.tree.remove(key) == Some(row.0) && hashed
    }

    /// Whether the row is there under this key, wherever it is looked for.
    pub(crate) fn contains(&self, key: &KeyBytes, tag: u32, row: RowId) -> bool {
        let hashed = |table: &HashTable| table.find(tag, |other| other == row).is_some();
        self.tree.get(key) == Some(&row.0) && self.by_hash.as_ref().is_none_or(hashed)
    }

    /// Whether both have the same number of entries.
    pub(crate) fn is_in_step(&self) -> bool {
        self.by_hash.as_ref().is_none_or(|table| table.len() == self.tree.len())
    }

    /// Fills an empty map with sorted keys; `tags`: of their rows, in any order.
    pub(crate) fn fill(&mut self, keys: Vec<(KeyBytes, u32)>, tags: &[(u32, u32)]) {
        if let Some(table) = &mut self.by_hash {
            assert_eq!(keys.len(), tags.len(), "each key has a tag");
            for some in tags.chunks(FILLED_TOGETHER) {
                some.iter().for_each(|(tag, _)| table.prefetch(*tag));
                some.iter().for_each(|(tag, row)| table.insert(*tag, RowId(*row)));
            }
        }
        self.tree = keys.into_iter().collect();
    }

    /// The tree built anew, in nodes that are full and lie together.
    pub(crate) fn rebuild(&mut self) {
        self.tree = std::mem::take(&mut self.tree).into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_table::tag_of;
    use crate::hashing::mix;

    /// Few tags, so that keys share them.
    fn entry(number: u64) -> (KeyBytes, u32) {
        (KeyBytes::new(format!("{number:>40}").as_bytes()), tag_of(mix(number % 50)))
    }

    fn check(map: &BytesMap, model: &BTreeMap<u64, u32>) {
        assert!(map.is_in_step());
        assert_eq!(map.len(), model.len());
        let table = map.by_hash().expect("it is hashed");
        for number in 0..200 {
            let ((key, tag), row) = (entry(number), model.get(&number).map(|row| RowId(*row)));
            assert_eq!(map.get(key.as_slice()), row);
            assert_eq!(table.find(tag, |found| Some(found) == row), row);
            assert_eq!(map.contains(&key, tag, row.unwrap_or(RowId(0))), row.is_some());
        }
    }

    #[test]
    fn order_and_hash_have_the_same_rows() {
        const STEPS: u64 = if cfg!(miri) { 200 } else { 2_000 };
        let (mut map, mut model) = (BytesMap::new(true), BTreeMap::new());
        for step in 0..STEPS {
            let number = mix(step) % 200;
            let (key, tag) = entry(number);
            match model.remove(&number) {
                Some(row) => assert!(map.remove(&key, tag, RowId(row))),
                None => {
                    model.insert(number, step as u32 + 1);
                    map.insert(key, tag, RowId(step as u32 + 1));
                }
            }
            if step % 50 == 0 {
                check(&map, &model);
            }
        }
        map.rebuild();
        check(&map, &model);
        let mut filled = BytesMap::new(true);
        let keys = model.iter().map(|(number, row)| (entry(*number).0, *row)).collect();
        let tags: Vec<(u32, u32)> = model.iter().rev().map(|(number, row)| (entry(*number).1, *row)).collect();
        filled.fill(keys, &tags);
        check(&filled, &model);
    }
}
