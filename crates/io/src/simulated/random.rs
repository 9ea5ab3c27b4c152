//! Random numbers that a seed repeats (splitmix64: Steele, Lea, Flood, "Fast splittable
//! pseudorandom number generators").

use crate::random::Random;

#[derive(Clone, Debug)]
pub struct SimulatedRandom {
    state: u64,
}

impl SimulatedRandom {
    pub fn new(seed: u64) -> Self {
        SimulatedRandom { state: seed }
    }

    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// True this many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// One more source of numbers, independent of what is asked of this one afterwards.
    pub fn fork(&mut self) -> SimulatedRandom {
        SimulatedRandom::new(self.number())
    }
}

impl Random for SimulatedRandom {
    fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let number = self.number().to_le_bytes();
            piece.copy_from_slice(&number[..piece.len()]);
        }
    }
}
