//! Hashes of keys. Fixed seeds, so that a run can be repeated; nothing that leaves the process depends on them.

use ferrite_value::{Value, compare};
use std::hash::Hasher;

const SEED: u64 = 0x2d35_8dcc_aa6c_78a5;
const FACTOR: u64 = 0x8bb8_4b93_962e_acc9;

/// A multiplication whose halves are folded: all bits of the result depend on all bits of the word.
#[inline(always)]
pub(crate) fn mix(word: u64) -> u64 {
    let product = (word ^ SEED) as u128 * FACTOR as u128;
    (product >> 64) as u64 ^ product as u64
}

/// Hash of a key of one integer-like column.
#[inline(always)]
pub(crate) fn hash_integer(key: i64) -> u64 {
    mix(key as u64)
}

struct Mixer(u64);

impl Hasher for Mixer {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        let tail = words.remainder();
        if !tail.is_empty() {
            let mut word = [0; 8];
            word[..tail.len()].copy_from_slice(tail);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0.rotate_left(29) ^ word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Hash of a key of several values: alike for keys that are equal value by value.
#[inline]
pub(crate) fn hash_values<'v>(values: impl Iterator<Item = Value<'v>>) -> u64 {
    let mut mixer = Mixer(FACTOR);
    values.for_each(|value| match value {
        Value::Integer(x) => mixer.write_u64(x as u64),
        other => compare::hash_into(&other, &mut mixer),
    });
    mixer.finish()
}
