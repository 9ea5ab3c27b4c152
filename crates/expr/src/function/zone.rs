//! Time zones: what the clocks of a region show at a moment.
//!
//! The rules of the regions are those of the IANA data that `jiff` carries inside it, so that two
//! servers of one version agree whatever their machines have installed.

use ferrite_base::{UserError, UserResult};
use ferrite_value::temporal::MICROSECONDS_PER_SECOND;
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use std::sync::LazyLock;

static REGIONS: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Longer than any name of a region.
const NAME_BYTES_MAX: usize = 64;

/// How far the zone's clocks are ahead of UTC at `timestamp`, in microseconds. A zone is `Z`, `UTC`
/// or `GMT`, an offset such as `+05:30`, or a name of the IANA data, in upper or lower case:
/// `America/New_York`. Of the abbreviations that data knows only those that mean one zone.
pub(super) fn offset_microseconds(zone: &str, timestamp: i64) -> UserResult<i64> {
    if ["Z", "UTC", "GMT"].iter().any(|name| zone.eq_ignore_ascii_case(name)) {
        return Ok(0);
    }
    if let Some(offset) = written_offset(zone) {
        return Ok(offset);
    }
    let region = if zone.len() <= NAME_BYTES_MAX { REGIONS.get(zone).ok() } else { None };
    let Some(region) = region else { return Err(unknown(zone)) };
    let moment = Timestamp::from_microsecond(timestamp)
        .map_err(|_| UserError::out_of_range("the timestamp is outside of what time zones have rules for"))?;
    Ok(i64::from(region.to_offset(moment).seconds()) * MICROSECONDS_PER_SECOND)
}

/// `+HH:MM`, `-HH:MM`, `+HH`
fn written_offset(offset: &str) -> Option<i64> {
    let (sign, rest) = match offset.as_bytes().first()? {
        b'+' => (1, &offset[1..]),
        b'-' => (-1, &offset[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let hours = hours.parse::<u8>().ok()?;
    let minutes = minutes.parse::<u8>().ok()?;
    let valid = hours <= 18 && minutes < 60;
    valid.then_some(sign * (i64::from(hours) * 60 + i64::from(minutes)) * 60 * MICROSECONDS_PER_SECOND)
}

#[cold]
fn unknown(zone: &str) -> UserError {
    let shown: String = zone.chars().take(NAME_BYTES_MAX).collect();
    let abbreviation = zone.len() <= 5 && zone.bytes().all(|byte| byte.is_ascii_alphabetic());
    UserError::data("22009", format!("'{shown}' is not a time zone")).with_hint(if abbreviation {
        "abbreviations mean different zones in different countries; write a region such as 'America/New_York', or an offset \
         such as '+05:30'"
    } else {
        "write a region such as 'America/New_York', or an offset such as '+05:30'"
    })
}
