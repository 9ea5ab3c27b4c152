//! Hashes of keys. Fixed seeds, so that a run can be repeated; nothing that leaves the process
//! depends on them.

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

/// A hash being made of several words.
struct Mixer(u64);

impl Mixer {
    #[inline(always)]
    fn word(&mut self, word: u64) {
        self.0 = mix(self.0.rotate_left(29) ^ word);
    }

    /// Short texts are most of what is hashed here: up to 16 bytes are two loads that may overlap,
    /// and no loop.
    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        let length = bytes.len();
        let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as u64;
        let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        match length {
            0 => {}
            1..=3 => {
                self.word(bytes[0] as u64 | (bytes[length / 2] as u64) << 8 | (bytes[length - 1] as u64) << 16);
            }
            4..=8 => self.word(four(0) | four(length - 4) << 32),
            _ => {
                let mut at = 0;
                while at + 8 < length {
                    self.word(eight(at));
                    at += 8;
                }
                self.word(eight(length - 8));
            }
        }
        // The length tells apart what the overlaps do not, and one value's end from the next one's
        // start.
        self.word(length as u64);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }

    fn write_u64(&mut self, word: u64) {
        self.word(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.word(word as u64);
    }

    fn write_u128(&mut self, word: u128) {
        self.word(word as u64);
        self.word((word >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Hash of a key of several values: alike for keys that are equal value by value.
#[inline(always)]
pub(crate) fn hash_values<'v>(count: usize, value: impl Fn(usize) -> Value<'v>) -> u64 {
    let mut mixer = Mixer(FACTOR);
    for part in 0..count {
        match value(part) {
            Value::Integer(x) => mixer.word(x as u64),
            Value::Text(x) => mixer.bytes(x.as_bytes()),
            other => compare::hash_into(&other, &mut mixer),
        }
    }
    mixer.0
}
