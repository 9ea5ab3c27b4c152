//! The keys of a unique index on one integer, in order. As long as they lie close together, as the
//! numbers of small tables do that every transaction looks into, rows are found by place too:
//! searching nodes costs a wrong guess of the processor in each.

use ferrite_base::RowId;
use std::collections::{BTreeMap, btree_map};

/// Keys further apart than this are found by searching only.
const SPAN_MAX: u64 = 2_048;
/// Places of a new table.
const PLACES_MIN: usize = 16;
/// No row: there never are this many.
const NONE: u32 = u32::MAX;

#[derive(Default)]
pub(crate) struct IntegerMap {
    tree: BTreeMap<u64, u32>,
    /// Rows by how far their key is from `first`, NONE where there is no such key. It has all keys,
    /// or no place at all.
    places: Vec<u32>,
    first: u64,
}

impl IntegerMap {
    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Bytes of memory, reckoned for the tree: its nodes are two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.len() * 12 * 3 / 2 + self.places.capacity() * size_of::<u32>()
    }

    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<RowId> {
        if self.places.is_empty() {
            return self.tree.get(&key).map(|row| RowId(*row));
        }
        let row = self.places.get(key.wrapping_sub(self.first) as usize)?;
        (*row != NONE).then_some(RowId(*row))
    }

    pub(crate) fn range(&self, least: u64, greatest: u64) -> btree_map::Range<'_, u64, u32> {
        self.tree.range(least..=greatest)
    }

    pub(crate) fn insert(&mut self, key: u64, row: RowId) {
        let before = self.tree.insert(key, row.0);
        assert!(before.is_none() && row.0 != NONE, "a key has one row in a unique index");
        if let Some(place) = self.places.get_mut(key.wrapping_sub(self.first) as usize) {
            *place = row.0;
        } else if !self.places.is_empty() || self.tree.len() == 1 {
            self.lay_out(key);
        }
    }

    /// Whether the row was there under this key.
    pub(crate) fn remove(&mut self, key: u64, row: RowId) -> bool {
        if let Some(place) = self.places.get_mut(key.wrapping_sub(self.first) as usize) {
            *place = NONE;
        }
        self.tree.remove(&key) == Some(row.0)
    }

    /// Makes places anew for the keys that there are, with as much room again on the side of `key`,
    /// which has none yet: so there is not more than one step for each key that comes, in the mean.
    #[cold]
    fn lay_out(&mut self, key: u64) {
        self.places = Vec::new();
        let (Some((least, _)), Some((greatest, _))) = (self.tree.first_key_value(), self.tree.last_key_value()) else {
            return;
        };
        let span = greatest - least;
        if span >= SPAN_MAX {
            return;
        }
        let places = ((span as usize + 1) * 2).next_power_of_two().max(PLACES_MIN);
        let upwards = key == *greatest;
        self.first = if upwards { *least } else { greatest.saturating_sub(places as u64 - 1) };
        self.places = vec![NONE; places];
        for (key, row) in &self.tree {
            self.places[(key - self.first) as usize] = *row;
        }
    }

    /// The tree built anew, in nodes that are full and lie together.
    pub(crate) fn rebuild(&mut self) {
        *self = std::mem::take(&mut self.tree).into_iter().collect();
    }
}

impl FromIterator<(u64, u32)> for IntegerMap {
    fn from_iter<I: IntoIterator<Item = (u64, u32)>>(entries: I) -> IntegerMap {
        let mut map = IntegerMap { tree: entries.into_iter().collect(), places: Vec::new(), first: 0 };
        if let Some((greatest, _)) = map.tree.last_key_value() {
            map.lay_out(*greatest);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashing::mix;

    fn check(map: &IntegerMap, model: &BTreeMap<u64, u32>, near: u64) {
        assert!(map.tree == *model);
        for key in (near.saturating_sub(40)..near.saturating_add(40)).chain(model.keys().copied()) {
            assert_eq!(map.get(key), model.get(&key).map(|row| RowId(*row)), "key {key}");
        }
    }

    #[test]
    fn finds_what_a_tree_finds() {
        const SEEDS: usize = if cfg!(miri) { 3 } else { 60 };
        const STEPS: u64 = if cfg!(miri) { 40 } else { 300 };
        for (seed, base) in [0u64, 1 << 63, u64::MAX - 5_000].into_iter().cycle().take(SEEDS).enumerate() {
            let (mut map, mut model) = (IntegerMap::default(), BTreeMap::new());
            let spread = [20, 300, 2_500, 5_000][seed % 4];
            for step in 0..STEPS {
                let random = mix((seed as u64) << 32 | step);
                let key = base + (random >> 8) % if random & 15 == 0 { 5_000 } else { spread };
                match model.remove(&key) {
                    Some(row) => assert!(map.remove(key, RowId(row))),
                    None if random & 16 == 0 => assert!(!map.remove(key, RowId(0))),
                    None => {
                        model.insert(key, step as u32);
                        map.insert(key, RowId(step as u32));
                    }
                }
                check(&map, &model, key);
            }
            map.rebuild();
            check(&map, &model, base);
        }
    }

    #[test]
    fn places_follow_keys_that_move_and_go_when_keys_lie_apart() {
        const END: u64 = if cfg!(miri) { 2_500 } else { 100_000 };
        const LAST: RowId = RowId(END as u32 - 1);
        let mut map = IntegerMap::default();
        for key in 0..END {
            map.insert(key, RowId(key as u32));
            if key >= 1_000 {
                assert!(map.remove(key - 1_000, RowId(key as u32 - 1_000)));
            }
            assert_eq!((map.get(key), map.get(key + 1)), (Some(RowId(key as u32)), None));
            assert!((PLACES_MIN..=2 * SPAN_MAX as usize).contains(&map.places.len()));
        }
        map.insert(200_000, RowId(7));
        assert!(map.places.is_empty());
        assert_eq!((map.get(END - 1), map.get(200_000), map.get(5)), (Some(LAST), Some(RowId(7)), None));
        assert!(map.remove(200_000, RowId(7)));
        map.rebuild();
        assert_eq!((map.places.len(), map.get(END - 1)), (2_048, Some(LAST)));
    }
}
