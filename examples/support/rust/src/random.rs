//! Random numbers for load: fast, of no use for secrets.

use std::hash::{BuildHasher, RandomState};

/// The generator splitmix64, begun at random.
pub struct Random {
    state: u64,
}

impl Random {
    pub fn begin() -> Random {
        Random { state: RandomState::new().hash_one("load") }
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, not including, `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.next_u64() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_bound_and_chances_are_kept() {
        let mut random = Random::begin();
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert!((0..1000).all(|_| !random.chance(0.0) && random.chance(1.0)));
        let heads = (0..10_000).filter(|_| random.chance(0.5)).count();
        assert!((4_500..5_500).contains(&heads), "{heads}");
    }
}
