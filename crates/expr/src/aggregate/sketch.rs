//! HyperLogLog, for APPROX_COUNT_DISTINCT: 4 KiB for any number of values, with a standard error of
//! 1.04/sqrt(4096) = 1.6 %. The first 1024 distinct values are told apart by their hashes in the
//! same room, so that small counts are exact but for collisions.
//!
//! Flajolet, Fusy, Gandouet, Meunier: "HyperLogLog: the analysis of a near-optimal cardinality
//! estimation algorithm" (2007), with 64-bit hashes, which need no correction for large counts.

use ferrite_value::{Value, compare};
use std::hash::Hasher;

const INDEX_BITS: u32 = 12;
/// One byte each.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;

/// As many hashes as the registers have room for.
const HASHES_MAX: usize = REGISTERS / size_of::<u32>();

#[derive(Clone, Debug)]
pub struct Sketch(Contents);

#[derive(Clone, Debug)]
enum Contents {
    /// The first halves of the hashes met, in order.
    Hashes(Vec<u32>),
    /// For each register the longest run of leading zeros met, plus one.
    Registers(Box<[u8; REGISTERS]>),
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch(Contents::Hashes(Vec::new()))
    }
}

impl Sketch {
    pub(super) fn insert(&mut self, value: Value<'_>) {
        self.insert_hash(hash(&value));
    }

    fn insert_hash(&mut self, hash: u64) {
        match &mut self.0 {
            Contents::Registers(registers) => note(registers, hash),
            Contents::Hashes(hashes) => {
                let half = (hash >> 32) as u32;
                let Err(place) = hashes.binary_search(&half) else { return };
                if hashes.len() < HASHES_MAX {
                    return hashes.insert(place, half);
                }
                note(self.registers(), hash);
            }
        }
    }

    /// From here on the registers.
    fn registers(&mut self) -> &mut [u8; REGISTERS] {
        if let Contents::Hashes(hashes) = &self.0 {
            let mut registers = Box::new([0; REGISTERS]);
            // What is lost with the other halves are runs of more than twenty zeros: of one value
            // in a million.
            hashes.iter().for_each(|half| note(&mut registers, u64::from(*half) << 32 | u64::from(u32::MAX)));
            self.0 = Contents::Registers(registers);
        }
        match &mut self.0 {
            Contents::Registers(registers) => registers,
            Contents::Hashes(_) => unreachable!("replaced above"),
        }
    }

    pub(super) fn merge(&mut self, other: &Sketch) {
        match &other.0 {
            Contents::Hashes(hashes) => {
                hashes.iter().for_each(|half| self.insert_hash(u64::from(*half) << 32 | u64::from(u32::MAX)));
            }
            Contents::Registers(others) => {
                for (register, more) in self.registers().iter_mut().zip(others.iter()) {
                    *register = (*register).max(*more);
                }
            }
        }
    }

    pub(super) fn estimate(&self) -> i64 {
        let ranks = match &self.0 {
            Contents::Hashes(hashes) => return hashes.len() as i64,
            Contents::Registers(registers) => registers,
        };
        let registers = REGISTERS as f64;
        let alpha = 0.7213 / (1.0 + 1.079 / registers);
        let harmonic: f64 = ranks.iter().map(|rank| 2f64.powi(-(*rank as i32))).sum();
        let raw = alpha * registers * registers / harmonic;
        let empty = ranks.iter().filter(|rank| **rank == 0).count();
        // Small counts are better told by the registers that are still empty.
        let estimate =
            if raw <= 2.5 * registers && empty > 0 { registers * (registers / empty as f64).ln() } else { raw };
        estimate.round() as i64
    }
}

fn note(registers: &mut [u8; REGISTERS], hash: u64) {
    let register = &mut registers[(hash >> (64 - INDEX_BITS)) as usize];
    // The set bit ends the run where the remaining bits are all zero.
    let rank = ((hash << INDEX_BITS) | (1 << (INDEX_BITS - 1))).leading_zeros() as u8 + 1;
    *register = (*register).max(rank);
}

/// The same for equal values of one kind, in every process: sketches of several nodes are merged.
pub(super) fn hash(value: &Value<'_>) -> u64 {
    let mut hasher = rapidhash::quality::RapidHasher::default();
    compare::hash_into(value, &mut hasher);
    hasher.finish()
}
