//! Functions on times. Calendar arithmetic itself is `ferrite_value::temporal`'s.

use super::{Function, TimeField, WindowEdge, time_format, zone};
use crate::checks::mismatch;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_value::temporal::{self, DisplayTimestamp, Fields, TimeUnit};
use ferrite_value::{Decimal, Value};

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>], arena: &'a Bump) -> UserResult<Value<'a>> {
    match (function, arguments) {
        (Function::Extract(field), [Value::Timestamp(timestamp)]) => Ok(extract(field, *timestamp)),
        (Function::Truncate(unit), [Value::Timestamp(timestamp)]) => {
            computed(*timestamp, temporal::truncate(*timestamp, unit)?)
        }
        (Function::Truncate(unit), [Value::Date(date)]) => {
            temporal::truncate(temporal::date_to_timestamp(*date), unit).and_then(date_of)
        }
        (Function::DateAdd(unit), [Value::Integer(count), Value::Date(date)]) => {
            temporal::date_add(temporal::date_to_timestamp(*date), unit, *count).and_then(date_of)
        }
        (Function::DateAdd(unit), [Value::Integer(count), Value::Timestamp(timestamp)]) => {
            computed(*timestamp, temporal::date_add(*timestamp, unit, *count)?)
        }
        (Function::DaysAfter, [Value::Date(date), Value::Integer(days)]) => {
            temporal::date_add(temporal::date_to_timestamp(*date), TimeUnit::Day, *days).and_then(date_of)
        }
        (Function::ValidTimestamp, [Value::Timestamp(timestamp)]) => {
            temporal::valid_timestamp(*timestamp).map(Value::Timestamp)
        }
        (Function::ToChar, [Value::Timestamp(timestamp), Value::Text(pattern)]) => {
            time_format::format(*timestamp, pattern, arena).map(Value::Text)
        }
        (Function::DateDifference(unit), [Value::Timestamp(from), Value::Timestamp(to)]) => {
            Ok(Value::Integer(temporal::date_difference(unit, *from, *to)))
        }
        (Function::SinceEpoch(unit), [Value::Timestamp(timestamp)]) => temporal::since_epoch(unit, *timestamp)
            .map(Value::Integer)
            .ok_or_else(|| UserError::not_supported(format!("SINCE_EPOCH({}, ...)", unit.name()))),
        (Function::ToTimestamp(unit), [Value::Integer(count)]) => {
            temporal::to_timestamp(unit, *count).and_then(temporal::valid_timestamp).map(Value::Timestamp)
        }
        (Function::FormatTimestamp, [Value::Null, _]) => Ok(Value::Null),
        (Function::FormatTimestamp, [_, Value::Null]) if earlier::values() => Ok(Value::Null),
        // No zone is UTC, as in the original.
        (Function::FormatTimestamp, [Value::Timestamp(timestamp), Value::Null]) => {
            Ok(Value::Text(bumpalo::format!(in arena, "{}", DisplayTimestamp(*timestamp)).into_bump_str()))
        }
        (Function::FormatTimestamp, [Value::Timestamp(timestamp), Value::Text(zone)]) => {
            let local = timestamp
                .checked_add(zone::offset_microseconds(zone, *timestamp)?)
                .ok_or_else(|| UserError::out_of_range("the local time leaves the TIMESTAMP range"))?;
            Ok(Value::Text(bumpalo::format!(in arena, "{}", DisplayTimestamp(local)).into_bump_str()))
        }
        (Function::IsValidTimestamp, [Value::Timestamp(timestamp)]) => {
            Ok(Value::Boolean(temporal::is_valid_timestamp(*timestamp)))
        }
        (Function::MinValidTimestamp, []) => Ok(Value::Timestamp(temporal::TIMESTAMP_VALID_MIN)),
        (Function::MaxValidTimestamp, []) => Ok(Value::Timestamp(temporal::TIMESTAMP_VALID_MAX)),
        (Function::TimeWindow(unit, edge), [Value::Integer(length), Value::Timestamp(timestamp)]) => {
            computed(*timestamp, window(unit, *length, *timestamp, edge)?)
        }
        (function, arguments) => Err(mismatch(&format!("{function:?}"), arguments)),
    }
}

/// A timestamp computed from another one. From what is valid, what is not is refused; a stored one
/// may be outside already.
fn computed(from: i64, timestamp: i64) -> UserResult<Value<'static>> {
    let checked = if temporal::is_valid_timestamp(from) { temporal::valid_timestamp(timestamp)? } else { timestamp };
    Ok(Value::Timestamp(checked))
}

/// The day of a midnight.
fn date_of(timestamp: i64) -> UserResult<Value<'static>> {
    temporal::date_from_timestamp(timestamp)
        .map(Value::Date)
        .ok_or_else(|| UserError::out_of_range("the result leaves the DATE range, years 0 to 9999"))
}

fn extract(field: TimeField, timestamp: i64) -> Value<'static> {
    let fields = Fields::from_timestamp(timestamp);
    Value::Integer(match field {
        TimeField::Year => fields.year as i64,
        TimeField::Quarter => fields.quarter() as i64,
        TimeField::Month => fields.month as i64,
        TimeField::DayOfMonth => fields.day as i64,
        TimeField::DayOfWeek => temporal::day_of_week_from_sunday(timestamp) as i64,
        TimeField::DayOfYear => temporal::day_of_year(timestamp) as i64,
        TimeField::Week => temporal::iso_week(timestamp) as i64,
        TimeField::Weekday => temporal::day_of_week_from_monday(timestamp) as i64,
        TimeField::Hour => fields.hour as i64,
        TimeField::Minute => fields.minute as i64,
        TimeField::DayOfWeekFromZero => temporal::day_of_week_from_sunday(timestamp) as i64 - 1,
        TimeField::IsoDayOfWeek => temporal::day_of_week_from_monday(timestamp) as i64 + 1,
        TimeField::Epoch => {
            let microseconds = Decimal::from_scaled(timestamp as i128 * 1_000_000);
            return Value::Decimal(microseconds.expect("64 bits are 19 digits"));
        }
        TimeField::Second => return Value::Decimal(fields.second_decimal()),
    })
}

/// The start of the window of `length` units that holds `timestamp`, or its end, where the next one
/// starts. Windows are counted from 1970, those of weeks from the Monday before.
fn window(unit: TimeUnit, length: i64, timestamp: i64, edge: WindowEdge) -> UserResult<i64> {
    if length <= 0 {
        return Err(UserError::out_of_range(format!("a time window of {length} {}S has no length", unit.name())));
    }
    let origin = temporal::truncate(0, unit)?;
    let number = temporal::units_crossed(unit, origin, timestamp).div_euclid(length);
    let edge_at = |number: i64| {
        let units = number.checked_mul(length).ok_or_else(|| {
            UserError::out_of_range(format!("a time window of {length} {}S leaves the TIMESTAMP range", unit.name()))
        })?;
        temporal::date_add(origin, unit, units)
    };
    match edge {
        WindowEdge::Start => edge_at(number),
        WindowEdge::End => {
            let end = edge_at(number.saturating_add(1))?;
            Ok(if earlier::values() { end - 1 } else { end })
        }
    }
}
