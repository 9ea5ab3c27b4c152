//! Pseudo-random choices from a seed: the same seed makes the same choices on every machine, for
//! ever.

/// SplitMix64. Its whole state is one number, so that a part of a run can be given a generator of
/// its own.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A generator whose choices do not depend on how many this one makes later.
    pub fn fork(&mut self) -> Random {
        Random(self.next_u64())
    }

    /// From 0 to `end`, which is left out.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_u64() % end as u64) as usize
    }

    /// From `least` to `greatest`, both included.
    pub fn between(&mut self, least: i64, greatest: i64) -> i64 {
        least + (self.next_u64() % (greatest - least + 1) as u64) as i64
    }

    /// True this many times in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Some of the elements, in their order; at least `least`.
    pub fn some<T: Clone>(&mut self, from: &[T], least: usize) -> Vec<T> {
        let mut some: Vec<T> = from.iter().filter(|_| self.chance(50)).cloned().collect();
        while some.len() < least {
            some = from.iter().filter(|_| self.chance(70)).cloned().collect();
        }
        some
    }
}
