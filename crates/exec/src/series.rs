//! GENERATE_SERIES: rows that are computed one from the other.

use crate::rows::{Emit, Flow};
use ferrite_base::{UserError, UserResult, limits};
use ferrite_value::Value;

/// Emits `start` and what is `step` further each, up to `stop`; no row where one of them is NULL.
pub(crate) fn run<'s>(start: Value<'s>, stop: Value<'s>, step: Value<'s>, emit: Emit<'_, 's>) -> UserResult<Flow> {
    let of_time = matches!(start, Value::Timestamp(_));
    let (start, stop, step) = match (start, stop, step) {
        (Value::Null, ..) | (_, Value::Null, _) | (.., Value::Null) => return Ok(Flow::More),
        (Value::Integer(start), Value::Integer(stop), Value::Integer(step))
        | (Value::Timestamp(start), Value::Timestamp(stop), Value::Integer(step)) => (start, stop, step),
        _ => return Err(UserError::internal("a series of other values than numbers and times")),
    };
    if step == 0 {
        return Err(UserError::data("22023", "the step of GENERATE_SERIES must not be 0"));
    }
    let distance = if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
    if distance < 0 {
        return Ok(Flow::More);
    }
    let rows = distance / i128::from(step).abs() + 1;
    if rows > i128::from(limits::SERIES_ROWS_MAX) {
        return Err(UserError::limit(format!("GENERATE_SERIES makes {rows} rows"))
            .with_detail(format!("the limit is {}", limits::SERIES_ROWS_MAX))
            .with_hint("take a larger step, or a nearer end"));
    }
    let mut value = start;
    for row in 1..=rows {
        let shown = if of_time { Value::Timestamp(value) } else { Value::Integer(value) };
        if emit(&[shown])? == Flow::Enough {
            return Ok(Flow::Enough);
        }
        if row < rows {
            value += step;
        }
    }
    Ok(Flow::More)
}
