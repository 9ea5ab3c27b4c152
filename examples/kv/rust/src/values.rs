//! Keys and values: what they look like, and whether one that came back is such a value.

use ferrite_example_support::Random;
use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};
use std::io::Read;
use std::ops::RangeInclusive;

/// Random bytes that values are cut from: making them anew for each call would cost more than the
/// call.
const MATERIAL_BYTES: usize = 4 * 1_048_576;

pub struct Values {
    key_bytes: usize,
    value_bytes: RangeInclusive<usize>,
    entropy: u16,
    compressed: bool,
    material: Vec<u8>,
}

impl Values {
    pub fn new(key_bytes: usize, value_bytes: RangeInclusive<usize>, entropy: u16, compressed: bool) -> Values {
        let mut random = Random::begin();
        let material = (0..MATERIAL_BYTES).map(|_| random.below(u64::from(entropy)) as u8).collect();
        Values { key_bytes, value_bytes, entropy, compressed, material }
    }

    /// `K` and the number, right-aligned with blanks.
    pub fn key(&self, number: u64) -> String {
        format!("K{number:>width$}", width = self.key_bytes - 1)
    }

    /// A value as it is stored, and its bytes before it was compressed.
    pub fn value(&self, random: &mut Random) -> (Vec<u8>, usize) {
        let (smallest, largest) = (*self.value_bytes.start(), *self.value_bytes.end());
        let length = smallest + random.below((largest - smallest + 1) as u64) as usize;
        let start = random.below((self.material.len() - length + 1) as u64) as usize;
        let plain = &self.material[start..start + length];
        if !self.compressed {
            return (plain.to_vec(), length);
        }
        let mut stored = Vec::with_capacity(length);
        GzEncoder::new(plain, Compression::default()).read_to_end(&mut stored).expect("memory can be read");
        (stored, length)
    }

    /// Bytes of a stored value before it was compressed; None if it is no value of this run.
    pub fn plain_length(&self, stored: &[u8]) -> Option<usize> {
        let mut unpacked = Vec::new();
        let plain = if self.compressed {
            GzDecoder::new(stored).read_to_end(&mut unpacked).ok()?;
            &unpacked
        } else {
            stored
        };
        let ours =
            self.value_bytes.contains(&plain.len()) && plain.first().is_none_or(|byte| u16::from(*byte) < self.entropy);
        ours.then_some(plain.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_wide_as_they_should_be() {
        assert_eq!(Values::new(32, 1..=1, 127, false).key(0), "K                              0");
        assert_eq!(Values::new(4, 1..=1, 127, false).key(123), "K123");
    }

    #[test]
    fn values_come_back_as_they_went() {
        let mut random = Random::begin();
        for compressed in [false, true] {
            let values = Values::new(8, 0..=100, 16, compressed);
            for _ in 0..100 {
                let (stored, length) = values.value(&mut random);
                assert_eq!(values.plain_length(&stored), Some(length));
            }
        }
        let values = Values::new(8, 10..=20, 16, false);
        assert_eq!([9, 21].map(|length| values.plain_length(&vec![0; length])), [None, None]);
        assert_eq!(values.plain_length(&[16; 10]), None);
    }
}
