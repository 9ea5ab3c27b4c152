//! DECIMAL(38,12): a signed 128-bit integer scaled by 10^12, every operation checked.

use std::cmp::Ordering;

/// Digits after the point.
pub const SCALE: u32 = 12;
/// 10^12.
pub const ONE: i128 = 1_000_000_000_000;
/// Largest magnitude of the scaled integer: 38 nines.
pub const MAX: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;

/// Kept as two 64-bit halves so that it needs only 8-byte alignment inside [`crate::Value`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    high: i64,
    low: u64,
}

impl Decimal {
    pub const ZERO: Decimal = Decimal { high: 0, low: 0 };

    /// From the scaled integer (`value * 10^12`). None when beyond 38 digits.
    #[inline]
    pub fn from_scaled(scaled: i128) -> Option<Decimal> {
        if !(-MAX..=MAX).contains(&scaled) {
            return None;
        }
        Some(Decimal { high: (scaled >> 64) as i64, low: scaled as u64 })
    }

    /// The scaled integer (`value * 10^12`).
    #[inline]
    pub fn scaled(self) -> i128 {
        ((self.high as i128) << 64) | self.low as i128
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        self.scaled().cmp(&other.scaled())
    }
}

impl std::fmt::Debug for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Decimal({}e-12)", self.scaled())
    }
}
