//! HyperLogLog, for APPROX_COUNT_DISTINCT: 4 KiB for any number of values, with a standard error of 1.04/sqrt(4096) = 1.6 %.
//!
//! Flajolet, Fusy, Gandouet, Meunier: "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm" (2007),
//! with 64-bit hashes, which need no correction for large counts.

use ferrite_value::{Value, compare};
use std::hash::Hasher;

const INDEX_BITS: u32 = 12;
/// One byte each.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;

#[derive(Clone, Debug)]
pub struct Sketch {
    /// For each register the longest run of leading zeros met, plus one.
    registers: Box<[u8; REGISTERS]>,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch { registers: Box::new([0; REGISTERS]) }
    }
}

impl Sketch {
    pub(super) fn insert(&mut self, value: Value<'_>) {
        let hash = hash(&value);
        let register = &mut self.registers[(hash >> (64 - INDEX_BITS)) as usize];
        // The set bit ends the run where the remaining bits are all zero.
        let rank = ((hash << INDEX_BITS) | (1 << (INDEX_BITS - 1))).leading_zeros() as u8 + 1;
        *register = (*register).max(rank);
    }

    pub(super) fn merge(&mut self, other: &Sketch) {
        for (register, more) in self.registers.iter_mut().zip(other.registers.iter()) {
            *register = (*register).max(*more);
        }
    }

    pub(super) fn estimate(&self) -> i64 {
        let registers = REGISTERS as f64;
        let alpha = 0.7213 / (1.0 + 1.079 / registers);
        let harmonic: f64 = self.registers.iter().map(|rank| 2f64.powi(-(*rank as i32))).sum();
        let raw = alpha * registers * registers / harmonic;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count();
        // Small counts are better told by the registers that are still empty.
        let estimate =
            if raw <= 2.5 * registers && empty > 0 { registers * (registers / empty as f64).ln() } else { raw };
        estimate.round() as i64
    }
}

/// The same for equal values of one kind, in every process: sketches of several nodes are merged.
pub(super) fn hash(value: &Value<'_>) -> u64 {
    let mut hasher = rapidhash::quality::RapidHasher::default();
    compare::hash_into(value, &mut hasher);
    hasher.finish()
}
