//! Whether a series of samples grows: by rank, so that single outliers and saw teeth count for
//! little.

/// What a series does over its length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trend {
    pub median: f64,
    /// From the first sample to the last, by the median of all slopes (Theil and Sen).
    pub growth: f64,
    /// How many standard deviations the number of rising pairs lies above that of a series without
    /// trend (Mann and Kendall).
    pub significance: f64,
}

impl Trend {
    /// None for fewer than three samples.
    pub fn of(samples: &[f64]) -> Option<Trend> {
        let count = samples.len();
        if count < 3 {
            return None;
        }
        let mut slopes = Vec::with_capacity(count * (count - 1) / 2);
        let mut rising = 0i64;
        for (later, value) in samples.iter().enumerate() {
            for (earlier, before) in samples[..later].iter().enumerate() {
                slopes.push((value - before) / (later - earlier) as f64);
                rising += i64::from(value > before) - i64::from(value < before);
            }
        }
        let n = count as f64;
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Equal values tell nothing, and take their part of the variance away.
        let ties: f64 = sorted
            .chunk_by(|left, right| left == right)
            .map(|equal| equal.len() as f64)
            .map(|equal| equal * (equal - 1.0) * (2.0 * equal + 5.0))
            .sum();
        let variance = (n * (n - 1.0) * (2.0 * n + 5.0) - ties) / 18.0;
        let significance = if variance > 0.0 { rising as f64 / variance.sqrt() } else { 0.0 };
        Some(Trend { median: median(&mut sorted), growth: median(&mut slopes) * (n - 1.0), significance })
    }

    /// Growth in parts of the median.
    pub fn relative_growth(&self) -> f64 {
        if self.median > 0.0 { self.growth / self.median } else { 0.0 }
    }
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_bench::random::FastRandom;

    fn noise(count: usize, slope: f64) -> Vec<f64> {
        let mut random = FastRandom::new(5);
        (0..count).map(|at| 100.0 + f64::from(random.below(1_000)) / 100.0 + slope * at as f64).collect()
    }

    #[test]
    fn noise_has_no_trend_and_growth_has() {
        let flat = Trend::of(&noise(200, 0.0)).unwrap();
        assert!(flat.significance.abs() < 3.0 && flat.relative_growth().abs() < 0.03, "{flat:?}");
        let growing = Trend::of(&noise(200, 0.1)).unwrap();
        assert!(growing.significance > 10.0, "{growing:?}");
        assert!((growing.growth - 20.0).abs() < 3.0, "{growing:?}");
    }

    #[test]
    fn saw_teeth_and_steps_back_are_flat() {
        let teeth: Vec<f64> = (0..300).map(|at| 10.0 + f64::from(at % 12)).collect();
        assert!(Trend::of(&teeth).unwrap().significance < 3.0);
        let constant = Trend::of(&[5.0; 50]).unwrap();
        assert_eq!((constant.significance, constant.growth), (0.0, 0.0));
        assert_eq!(Trend::of(&[1.0, 2.0]), None);
    }
}
