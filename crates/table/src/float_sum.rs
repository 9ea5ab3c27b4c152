//! Sums of FLOAT to which values are added and from which they are taken away again
//! (docs/decisions/0032).
//!
//! Owns the arithmetic: what rounding takes from a sum is kept beside it, so that it is there again
//! when larger values go.

/// A sum as a view has it.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct FloatSum {
    /// The double next to the sum: what readers see.
    pub(crate) sum: f64,
    /// What the sum is beside that.
    pub(crate) rest: f64,
    /// How far off both together may be.
    pub(crate) lost: f64,
}

impl FloatSum {
    /// With one more value; None where the sum is out of range.
    #[inline]
    pub(crate) fn with(self, value: f64) -> Option<FloatSum> {
        let (sum, error) = add(self.sum, value);
        if !sum.is_finite() {
            return None;
        }
        let (rest, lost) = add(self.rest, error);
        let (near, beside) = add(sum, rest);
        let lost = self.lost + lost.abs();
        // At the very end of the range what cannot be said beside the sum is let go.
        Some(match near.is_finite() && beside.is_finite() && lost.is_finite() {
            true => FloatSum { sum: near, rest: beside, lost },
            false => FloatSum { sum, rest: 0.0, lost: f64::MAX },
        })
    }

    /// Whether no more is lost than a double cannot say anyway.
    #[inline]
    pub(crate) fn is_near(&self) -> bool {
        self.lost <= self.sum.abs() * f64::EPSILON
    }
}

/// Adds without loss: the double next to the sum, and what that leaves out.
#[inline]
fn add(left: f64, right: f64) -> (f64, f64) {
    let sum = left + right;
    let from_right = sum - left;
    let from_left = sum - from_right;
    (sum, (left - from_left) + (right - from_right))
}

/// A sum without any loss: doubles that do not overlap, ascending.
#[derive(Default)]
pub(crate) struct ExactSum {
    parts: Vec<f64>,
}

impl ExactSum {
    pub(crate) fn add(&mut self, mut value: f64) {
        let mut kept = 0;
        for position in 0..self.parts.len() {
            let (sum, rest) = add(value, self.parts[position]);
            if rest != 0.0 {
                self.parts[kept] = rest;
                kept += 1;
            }
            value = sum;
        }
        self.parts.truncate(kept);
        self.parts.push(value);
    }

    /// None where the sum, or one on the way to it, is out of range.
    pub(crate) fn rounded(&self) -> Option<FloatSum> {
        self.parts.iter().rev().try_fold(FloatSum::default(), |sum, part| sum.with(*part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(values: &[f64]) -> FloatSum {
        values.iter().fold(FloatSum::default(), |sum, value| sum.with(*value).expect("in range"))
    }

    fn exact(values: &[f64]) -> FloatSum {
        let mut sum = ExactSum::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.rounded().expect("in range")
    }

    #[test]
    fn small_values_are_there_again_when_large_ones_go() {
        assert_eq!(sum_of(&[1e300, 1.0, -1e300]), FloatSum { sum: 1.0, rest: 0.0, lost: 0.0 });
        assert_eq!(sum_of(&[0.1, 1e15, 0.2, -1e15, -0.1, -0.2]), FloatSum::default());
        let lossy = sum_of(&[0.1, 1e17, 0.2, -1e17, -0.1, -0.2]);
        assert!(!lossy.is_near() && lossy.lost >= lossy.sum.abs(), "{lossy:?}");
        let lossy = sum_of(&[1e300, 1e150, 1.0, -1e300, -1e150]);
        assert!(!lossy.is_near() && lossy.lost >= 1.0, "{lossy:?}");
        assert_eq!(exact(&[1e300, 1e150, 1.0, -1e300, -1e150]).sum, 1.0);
    }

    #[test]
    fn the_end_of_the_range_is_an_error_and_nothing_else() {
        let most = sum_of(&[f64::MAX, 1e291, 1e291, 1e291]);
        assert_eq!(most.sum, f64::MAX);
        assert_eq!(most.with(f64::MAX), None);
        assert_eq!(most.with(f64::NAN), None);
        assert_eq!(most.with(-f64::MAX).map(|left| left.is_near()), Some(true));
        let full = most.with(9e291).expect("one double says no more");
        assert_eq!((full.sum, full.is_near()), (f64::MAX, false));
        let mut beyond = ExactSum::default();
        [f64::MAX, f64::MAX, -f64::MAX].iter().for_each(|value| beyond.add(*value));
        assert_eq!(beyond.rounded(), None);
    }

    /// Against integers, which are exact: values m * 2^e with e up to 60.
    #[test]
    fn random_values_come_and_go() {
        let mut state = 7u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 20
        };
        let (mut there, mut wanted, mut sum): (Vec<i128>, i128, FloatSum) = Default::default();
        for step in 0..20_000 {
            if there.is_empty() || random() % 2 == 0 {
                let value = (i128::from(random() % 2_000_001) - 1_000_000) << (random() % 61);
                there.push(value);
                wanted += value;
                sum = sum.with(value as f64).expect("in range");
            } else {
                let value = there.swap_remove(random() as usize % there.len());
                wanted -= value;
                sum = sum.with(-(value as f64)).expect("in range");
            }
            assert_eq!((sum.sum, sum.lost), (wanted as f64, 0.0), "step {step}");
            if step % 500 == 0 {
                let values: Vec<f64> = there.iter().map(|value| *value as f64).collect();
                assert_eq!(exact(&values), sum, "step {step}");
            }
        }
    }
}
