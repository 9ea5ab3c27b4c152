//! How far values lie from their mean: VARIANCE and STDDEV.
//!
//! Computed in doubles by Welford's recurrence, and merged by Chan, Golub and LeVeque's formula
//! ("Updating formulae and a pairwise algorithm for computing sample variances", 1979), neither of
//! which subtracts large sums from each other.

use super::AggregateKind;
use crate::{arithmetic, checks};
use ferrite_base::{UserError, UserResult};
use ferrite_value::Value;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    count: i64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Spread {
    pub(super) fn add(&mut self, value: Value<'_>) -> UserResult<()> {
        let value = arithmetic::as_float(value).ok_or_else(|| checks::mismatch("VARIANCE", &[value]))?;
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
        Ok(())
    }

    pub(super) fn merge(&mut self, other: &Spread) {
        if other.count == 0 {
            return;
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let distance = other.mean - self.mean;
        self.squares += other.squares + distance * distance * self.count as f64 * share;
        self.mean += distance * share;
        self.count = count;
    }

    /// NULL over no values, and of a sample of one.
    pub(super) fn result(&self, kind: AggregateKind) -> UserResult<Value<'static>> {
        let of_sample = matches!(kind, AggregateKind::VarianceSample | AggregateKind::DeviationSample);
        let divisor = self.count - i64::from(of_sample);
        if divisor <= 0 {
            return Ok(Value::Null);
        }
        let variance = self.squares / divisor as f64;
        let is_deviation = matches!(kind, AggregateKind::DeviationPopulation | AggregateKind::DeviationSample);
        let result = if is_deviation { variance.sqrt() } else { variance };
        if arithmetic::is_float_value(result) {
            return Ok(Value::Float(result));
        }
        Err(UserError::out_of_range(format!("{} has no finite result for these values", kind.name())))
    }
}
