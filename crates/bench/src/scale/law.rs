//! The Universal Scalability Law (Gunther): throughput of N workers is
//! `lambda N / (1 + sigma (N - 1) + kappa N (N - 1))`. `lambda` is one worker's throughput, `sigma`
//! the part of the work that they wait in line for, `kappa` what each pays for agreeing with each
//! other.

/// Parameters, and how well they describe what was measured.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Law {
    pub lambda: f64,
    pub sigma: f64,
    pub kappa: f64,
    /// Part of the variance of throughput that the law explains; None when all throughputs are
    /// equal.
    pub explained: Option<f64>,
    /// The largest part by which a measured throughput lies off the law.
    pub largest_error: f64,
}

impl Law {
    pub fn throughput(&self, workers: f64) -> f64 {
        self.lambda * workers / (1.0 + self.sigma * (workers - 1.0) + self.kappa * workers * (workers - 1.0))
    }

    /// The number of workers beyond which throughput falls. None when it does not.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }

    /// Fits the law to pairs of workers and throughput by least squares of the relative errors.
    /// With two different numbers of workers only `sigma` can be known, with fewer nothing: then
    /// None.
    ///
    /// `N / throughput` is linear in `1 / lambda`, `sigma / lambda` and `kappa / lambda`. Neither
    /// of the latter is negative in the law: the best fit is the best among those with none, one or
    /// both of them left out whose others come out right.
    pub fn fit(points: &[(f64, f64)]) -> Option<Law> {
        let points: Vec<(f64, f64)> =
            points.iter().copied().filter(|(workers, rate)| *workers >= 1.0 && *rate > 0.0).collect();
        let mut numbers: Vec<f64> = points.iter().map(|(workers, _)| *workers).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        let choices: &[&[usize]] = match numbers.len() {
            0 | 1 => return None,
            2 => &[&[0, 1], &[0]],
            _ => &[&[0, 1, 2], &[0, 1], &[0, 2], &[0]],
        };
        let fits = choices.iter().filter_map(|terms| {
            let coefficients = least_squares(&points, terms)?;
            if coefficients[0] <= 0.0 || coefficients[1] < 0.0 || coefficients[2] < 0.0 {
                return None;
            }
            let law = Law {
                lambda: 1.0 / coefficients[0],
                sigma: coefficients[1] / coefficients[0],
                kappa: coefficients[2] / coefficients[0],
                explained: None,
                largest_error: 0.0,
            };
            let squares: f64 =
                points.iter().map(|&(workers, rate)| (law.throughput(workers) / rate - 1.0).powi(2)).sum();
            Some((squares, law))
        });
        let (_, law) = fits.min_by(|(left, _), (right, _)| left.total_cmp(right))?;
        Some(law.judged(&points))
    }

    fn judged(mut self, points: &[(f64, f64)]) -> Law {
        let mean = points.iter().map(|(_, rate)| rate).sum::<f64>() / points.len() as f64;
        let total: f64 = points.iter().map(|(_, rate)| (rate - mean).powi(2)).sum();
        let left: f64 = points.iter().map(|&(workers, rate)| (rate - self.throughput(workers)).powi(2)).sum();
        self.explained = (total > 0.0).then(|| 1.0 - left / total);
        let errors = points.iter().map(|&(workers, rate)| (self.throughput(workers) / rate - 1.0).abs());
        self.largest_error = errors.fold(0.0, f64::max);
        self
    }
}

/// Coefficients of 1, N - 1 and N (N - 1) that describe N / throughput best, those not among
/// `terms` being 0.
fn least_squares(points: &[(f64, f64)], terms: &[usize]) -> Option<[f64; 3]> {
    let count = terms.len();
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for &(workers, rate) in points {
        let basis = [1.0, workers - 1.0, workers * (workers - 1.0)];
        // An error of N / throughput, by its own size, is the relative error of the throughput.
        let weight = (rate / workers).powi(2);
        for (row, &term) in terms.iter().enumerate() {
            for (column, &other) in terms.iter().enumerate() {
                matrix[row][column] += weight * basis[term] * basis[other];
            }
            matrix[row][count] += weight * basis[term] * workers / rate;
        }
    }
    let solution = solve(matrix)?;
    let mut coefficients = [0.0; 3];
    terms.iter().zip(solution).for_each(|(&term, value)| coefficients[term] = value);
    Some(coefficients)
}

/// Gauss, with the largest pivot. None when the equations do not determine the answer.
fn solve(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = matrix.len();
    for step in 0..count {
        let pivot = (step..count).max_by(|a, b| matrix[*a][step].abs().total_cmp(&matrix[*b][step].abs()))?;
        matrix.swap(step, pivot);
        if matrix[step][step].abs() < 1e-12 {
            return None;
        }
        let (above, below) = matrix.split_at_mut(step + 1);
        let pivot = &above[step];
        for row in below {
            let factor = row[step] / pivot[step];
            row.iter_mut().zip(pivot).skip(step).for_each(|(value, above)| *value -= factor * above);
        }
    }
    let mut solution = vec![0.0; count];
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|column| matrix[row][column] * solution[column]).sum();
        solution[row] = (matrix[row][count] - known) / matrix[row][row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(lambda: f64, sigma: f64, kappa: f64) -> Law {
        Law { lambda, sigma, kappa, explained: None, largest_error: 0.0 }
    }

    fn points(law: Law, numbers: &[f64]) -> Vec<(f64, f64)> {
        numbers.iter().map(|workers| (*workers, law.throughput(*workers))).collect()
    }

    #[test]
    fn known_parameters_are_found_again() {
        for (lambda, sigma, kappa) in [
            (1_000.0, 0.0, 0.0),
            (650_000.0, 0.05, 0.0),
            (995.6, 0.02671, 0.000769),
            (10.0, 0.0, 0.01),
            (1.0, 1.0, 0.0),
        ] {
            let found = Law::fit(&points(law(lambda, sigma, kappa), &[1.0, 2.0, 3.0, 4.0, 8.0, 16.0])).unwrap();
            assert!((found.lambda / lambda - 1.0).abs() < 1e-6, "{found:?}");
            assert!((found.sigma - sigma).abs() < 1e-6 && (found.kappa - kappa).abs() < 1e-6, "{found:?}");
            assert!(found.largest_error < 1e-6);
        }
    }

    #[test]
    fn noise_moves_them_a_little() {
        let exact = points(law(1_000.0, 0.03, 0.001), &[1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0]);
        let noisy: Vec<(f64, f64)> = exact
            .iter()
            .enumerate()
            .map(|(place, (n, x))| (*n, x * if place % 2 == 0 { 1.01 } else { 0.99 }))
            .collect();
        let found = Law::fit(&noisy).unwrap();
        assert!((found.lambda / 1_000.0 - 1.0).abs() < 0.03 && (found.sigma - 0.03).abs() < 0.01, "{found:?}");
        assert!((found.kappa - 0.001).abs() < 0.0004 && found.explained.unwrap() > 0.99, "{found:?}");
        let peak = found.peak().unwrap();
        assert!((25.0..40.0).contains(&peak), "{peak}");
    }

    #[test]
    fn better_than_linear_is_not_explained_by_negative_costs() {
        let found = Law::fit(&[(1.0, 100.0), (2.0, 250.0), (3.0, 400.0)]).unwrap();
        assert_eq!((found.sigma, found.kappa), (0.0, 0.0));
        assert!(found.largest_error > 0.05 && found.peak().is_none());
    }

    #[test]
    fn few_points_say_little() {
        assert_eq!(Law::fit(&[]), None);
        assert_eq!(Law::fit(&[(1.0, 100.0), (1.0, 101.0)]), None);
        assert_eq!(Law::fit(&[(1.0, 0.0), (2.0, 100.0)]), None);
        let found = Law::fit(&[(1.0, 100.0), (2.0, 160.0)]).unwrap();
        assert_eq!(found.kappa, 0.0);
        assert!((found.sigma - 0.25).abs() < 1e-9 && found.largest_error < 1e-9);
    }
}
