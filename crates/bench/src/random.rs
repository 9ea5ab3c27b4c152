//! Random numbers for load: fast, repeatable from a seed, of no use for secrets.

/// The generator `xoshiro256++` of Blackman and Vigna.
#[derive(Clone, Debug)]
pub struct FastRandom {
    state: [u64; 4],
}

impl FastRandom {
    /// Any seed will do; it is spread with splitmix64.
    pub fn new(seed: u64) -> FastRandom {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        FastRandom { state }
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, by multiplication: the bias is below 2^-32 for the bounds used here.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The seed asked for, or another one each time.
pub fn seed_or_random(seed: Option<u64>) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library's hash keys are random numbers of the operating system.
    seed.unwrap_or_else(|| std::collections::hash_map::RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeatable_and_within_bounds() {
        let (mut a, mut b) = (FastRandom::new(7), FastRandom::new(7));
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            assert_eq!(a.next_u64(), b.next_u64());
            seen[a.below(10) as usize] += 1;
            b.next_u64();
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
