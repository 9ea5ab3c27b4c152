//! What PERCENTILE_CONT and PERCENTILE_DISC have gathered: all values of their ORDER BY.

use crate::checks::mismatch;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_value::{OwnedValue, Value, compare};

/// Which of the two, and which way it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PercentileOrder {
    /// Between two values, a number between them; otherwise the first value that is far enough.
    pub continuous: bool,
    pub descending: bool,
}

/// The values of one group.
#[derive(Clone, Debug)]
pub struct Percentile {
    order: PercentileOrder,
    /// From 0 to 1; None, as of the last row, where it is NULL.
    fraction: Option<f64>,
    values: Vec<OwnedValue>,
}

impl Percentile {
    pub(super) fn new(order: PercentileOrder) -> Percentile {
        Percentile { order, fraction: None, values: Vec::new() }
    }

    /// Takes the fraction and a value; a NULL value counts for nothing.
    pub(super) fn add(&mut self, value: Value<'_>) -> UserResult<()> {
        let Value::Array([fraction, value]) = value else { return Err(mismatch("PERCENTILE_CONT", &[value])) };
        self.fraction = match fraction {
            Value::Null => None,
            Value::Float(fraction) if (0.0..=1.0).contains(fraction) => Some(*fraction),
            other => {
                let text = ferrite_value::convert::to_text_string(other);
                return Err(UserError::data("22003", format!("the fraction of a percentile is {text}"))
                    .with_hint("it is a number from 0 to 1, as in PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)"));
            }
        };
        if !value.is_null() {
            self.values.push(value.to_owned_value());
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, other: &Percentile) {
        self.fraction = self.fraction.or(other.fraction);
        self.values.extend_from_slice(&other.values);
    }

    /// How many values are held.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// NULL when there is no value.
    pub(super) fn result<'b>(&self, arena: &'b Bump) -> UserResult<Value<'b>> {
        let (Some(fraction), false) = (self.fraction, self.values.is_empty()) else { return Ok(Value::Null) };
        let mut values: Vec<Value<'_>> = self.values.iter().map(OwnedValue::as_value).collect();
        values.sort_by(|one, other| {
            let order = compare::order(one, other);
            if self.order.descending { order.reverse() } else { order }
        });
        let last = values.len() - 1;
        if !self.order.continuous {
            let rank = (fraction * values.len() as f64).ceil() as usize;
            return Ok(values[rank.saturating_sub(1).min(last)].copied_to(arena));
        }
        let place = fraction * last as f64;
        let below = (place.floor() as usize).min(last);
        let low = number(values[below])?;
        let high = number(values[(below + 1).min(last)])?;
        let beyond = place - below as f64;
        Ok(Value::Float(if beyond == 0.0 { low } else { low + (high - low) * beyond }))
    }
}

fn number(value: Value<'_>) -> UserResult<f64> {
    match value {
        Value::Integer(value) => Ok(value as f64),
        Value::Float(value) => Ok(value),
        Value::Decimal(value) => Ok(value.to_f64()),
        other => Err(mismatch("PERCENTILE_CONT", &[other])),
    }
}
