//! TIMESTAMP (microseconds since 1970-01-01 UTC) and DATE (packed year, month, day): calendar
//! arithmetic and text.
//!
//! Proleptic Gregorian calendar, UTC, no leap seconds. The civil-day formulas are the well-known
//! ones by Howard Hinnant ("chrono-compatible low-level date algorithms"), which hold for every i64
//! of microseconds.

use crate::Decimal;
use ferrite_base::{UserError, UserResult, earlier};
use std::fmt;

pub const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
pub const MICROSECONDS_PER_DAY: i64 = 86_400 * MICROSECONDS_PER_SECOND;
/// 1583-01-01 00:00:00, the first that `IS_VALID_TIMESTAMP` accepts.
pub const TIMESTAMP_VALID_MIN: i64 = days_from_civil(1583, 1, 1) * MICROSECONDS_PER_DAY;
/// 9999-12-31 23:59:59.999999, the last that `IS_VALID_TIMESTAMP` accepts.
pub const TIMESTAMP_VALID_MAX: i64 = days_from_civil(10_000, 1, 1) * MICROSECONDS_PER_DAY - 1;

#[inline]
pub fn is_valid_timestamp(timestamp: i64) -> bool {
    (TIMESTAMP_VALID_MIN..=TIMESTAMP_VALID_MAX).contains(&timestamp)
}

/// A timestamp that comes into being: within the years that clients can show and texts can say.
/// What is stored may be outside, from a time when that was not asked.
#[inline]
pub fn valid_timestamp(timestamp: i64) -> UserResult<i64> {
    if is_valid_timestamp(timestamp) || earlier::values() { Ok(timestamp) } else { Err(invalid_timestamp(timestamp)) }
}

#[cold]
#[inline(never)]
fn invalid_timestamp(timestamp: i64) -> UserError {
    // Beyond some years the calendar's formulas leave 64 bits.
    let shown = match timestamp {
        -1_000_000_000_000_000_000..=1_000_000_000_000_000_000 => DisplayTimestamp(timestamp).to_string(),
        _ => format!("{timestamp} microseconds"),
    };
    UserError::data("22008", format!("data exception: the timestamp {shown} is not between 1583-01-01 and 9999-12-31"))
}

/// A unit of DATEADD, TRUNCATE, SINCE_EPOCH and the like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TimeUnit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

impl TimeUnit {
    /// By its SQL word, any case.
    pub fn from_name(name: &str) -> Option<TimeUnit> {
        const NAMES: [(&str, TimeUnit); 12] = [
            ("YEAR", TimeUnit::Year),
            ("QUARTER", TimeUnit::Quarter),
            ("MONTH", TimeUnit::Month),
            ("WEEK", TimeUnit::Week),
            ("DAY", TimeUnit::Day),
            ("HOUR", TimeUnit::Hour),
            ("MINUTE", TimeUnit::Minute),
            ("SECOND", TimeUnit::Second),
            ("MILLISECOND", TimeUnit::Millisecond),
            ("MILLIS", TimeUnit::Millisecond),
            ("MICROSECOND", TimeUnit::Microsecond),
            ("MICROS", TimeUnit::Microsecond),
        ];
        NAMES.into_iter().find(|(word, _)| word.eq_ignore_ascii_case(name)).map(|(_, unit)| unit)
    }

    /// As [`TimeUnit::from_name`], and as intervals write it: `hours`.
    pub fn from_interval_name(name: &str) -> Option<TimeUnit> {
        Self::from_name(name).or_else(|| Self::from_name(name.strip_suffix(['s', 'S'])?))
    }

    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Year => "YEAR",
            TimeUnit::Quarter => "QUARTER",
            TimeUnit::Month => "MONTH",
            TimeUnit::Week => "WEEK",
            TimeUnit::Day => "DAY",
            TimeUnit::Hour => "HOUR",
            TimeUnit::Minute => "MINUTE",
            TimeUnit::Second => "SECOND",
            TimeUnit::Millisecond => "MILLISECOND",
            TimeUnit::Microsecond => "MICROSECOND",
        }
    }

    /// Length in microseconds; None where it varies (year, quarter, month).
    pub fn microseconds(self) -> Option<i64> {
        match self {
            TimeUnit::Year | TimeUnit::Quarter | TimeUnit::Month => None,
            TimeUnit::Week => Some(7 * MICROSECONDS_PER_DAY),
            TimeUnit::Day => Some(MICROSECONDS_PER_DAY),
            TimeUnit::Hour => Some(3_600 * MICROSECONDS_PER_SECOND),
            TimeUnit::Minute => Some(60 * MICROSECONDS_PER_SECOND),
            TimeUnit::Second => Some(MICROSECONDS_PER_SECOND),
            TimeUnit::Millisecond => Some(1_000),
            TimeUnit::Microsecond => Some(1),
        }
    }

    /// Length in months, for the units whose length varies.
    fn months(self) -> Option<i64> {
        match self {
            TimeUnit::Year => Some(12),
            TimeUnit::Quarter => Some(3),
            TimeUnit::Month => Some(1),
            _ => None,
        }
    }
}

/// A timestamp taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub microsecond: u32,
}

impl Fields {
    pub fn from_timestamp(timestamp: i64) -> Fields {
        let (year, month, day) = civil_from_days(timestamp.div_euclid(MICROSECONDS_PER_DAY));
        let in_day = timestamp.rem_euclid(MICROSECONDS_PER_DAY);
        let seconds = in_day / MICROSECONDS_PER_SECOND;
        Fields {
            year,
            month,
            day,
            hour: (seconds / 3_600) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            microsecond: (in_day % MICROSECONDS_PER_SECOND) as u32,
        }
    }

    /// None when a field is outside its range or the whole outside i64.
    pub fn to_timestamp(self) -> Option<i64> {
        let in_range = (1..=12).contains(&self.month)
            && (1..=days_in_month(self.year, self.month)).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60
            && (self.microsecond as i64) < MICROSECONDS_PER_SECOND;
        if !in_range {
            return None;
        }
        let seconds = (self.hour as i64 * 60 + self.minute as i64) * 60 + self.second as i64;
        days_from_civil(self.year, self.month, self.day)
            .checked_mul(MICROSECONDS_PER_DAY)?
            .checked_add(seconds * MICROSECONDS_PER_SECOND + self.microsecond as i64)
    }

    /// 1 to 4.
    pub fn quarter(&self) -> u8 {
        (self.month - 1) / 3 + 1
    }

    /// Seconds with their fraction.
    pub fn second_decimal(&self) -> Decimal {
        let microseconds = self.second as i128 * 1_000_000 + self.microsecond as i128;
        Decimal::from_scaled(microseconds * 1_000_000).expect("below sixty seconds")
    }
}

/// Days since 1970-01-01.
pub const fn days_from_civil(year: i32, month: u8, day: u8) -> i64 {
    // Years begin in March here, so that the leap day is the last of its year; an era is 400 years.
    let year = year as i64 - (month <= 2) as i64;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month as i64 + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// (year, month, day) of a number of days since 1970-01-01.
pub const fn civil_from_days(days: i64) -> (i32, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u8;
    ((year_of_era + era * 400 + (month <= 2) as i64) as i32, month, day)
}

/// 28 to 31; 0 for a month that is none.
pub fn days_in_month(year: i32, month: u8) -> u8 {
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap_year(year) => 29,
        2 => 28,
        _ => 0,
    }
}

pub fn is_leap_year(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Monday 0 to Sunday 6 (WEEKDAY).
pub fn day_of_week_from_monday(timestamp: i64) -> u8 {
    // 1970-01-01 was a Thursday.
    (timestamp.div_euclid(MICROSECONDS_PER_DAY) + 3).rem_euclid(7) as u8
}

/// Sunday 1 to Saturday 7 (DAYOFWEEK).
pub fn day_of_week_from_sunday(timestamp: i64) -> u8 {
    (day_of_week_from_monday(timestamp) + 1) % 7 + 1
}

/// 1 to 366.
pub fn day_of_year(timestamp: i64) -> u16 {
    let days = timestamp.div_euclid(MICROSECONDS_PER_DAY);
    let (year, _, _) = civil_from_days(days);
    (days - days_from_civil(year, 1, 1) + 1) as u16
}

/// ISO 8601 week, 1 to 53: the week that holds the year's first Thursday is the first.
pub fn iso_week(timestamp: i64) -> u8 {
    let days = timestamp.div_euclid(MICROSECONDS_PER_DAY);
    let thursday = days - day_of_week_from_monday(timestamp) as i64 + 3;
    let (year, _, _) = civil_from_days(thursday);
    ((thursday - days_from_civil(year, 1, 1)) / 7 + 1) as u8
}

/// DATEADD: months, quarters and years keep the day, or take the month's last where there is no
/// such day.
pub fn date_add(timestamp: i64, unit: TimeUnit, count: i64) -> UserResult<i64> {
    let sum = match unit.microseconds() {
        Some(length) => count.checked_mul(length).and_then(|span| timestamp.checked_add(span)),
        None => add_months(timestamp, count.checked_mul(unit.months().expect("a unit of months"))),
    };
    sum.filter(|sum| *sum != i64::MIN)
        .ok_or_else(|| UserError::out_of_range(format!("adding {count} {}S leaves the TIMESTAMP range", unit.name())))
}

fn add_months(timestamp: i64, months: Option<i64>) -> Option<i64> {
    let fields = Fields::from_timestamp(timestamp);
    let total = (fields.year as i64 * 12 + fields.month as i64 - 1).checked_add(months?)?;
    let year = i32::try_from(total.div_euclid(12)).ok()?;
    let month = total.rem_euclid(12) as u8 + 1;
    let day = fields.day.min(days_in_month(year, month));
    // A year outside what microseconds can hold is refused by the checked multiplication there.
    Fields { year, month, day, ..fields }.to_timestamp()
}

/// TRUNCATE: the start of the unit that holds `timestamp`; weeks start on Monday.
pub fn truncate(timestamp: i64, unit: TimeUnit) -> UserResult<i64> {
    let start = match unit {
        TimeUnit::Microsecond => Some(timestamp),
        TimeUnit::Millisecond | TimeUnit::Second | TimeUnit::Minute | TimeUnit::Hour | TimeUnit::Day => {
            timestamp.checked_sub(timestamp.rem_euclid(unit.microseconds().expect("a unit of fixed length")))
        }
        TimeUnit::Week => {
            let day = timestamp.div_euclid(MICROSECONDS_PER_DAY) - day_of_week_from_monday(timestamp) as i64;
            day.checked_mul(MICROSECONDS_PER_DAY)
        }
        TimeUnit::Year | TimeUnit::Quarter | TimeUnit::Month => {
            let fields = Fields::from_timestamp(timestamp);
            let month = match unit {
                TimeUnit::Year => 1,
                TimeUnit::Quarter => fields.quarter() * 3 - 2,
                _ => fields.month,
            };
            days_from_civil(fields.year, month, 1).checked_mul(MICROSECONDS_PER_DAY)
        }
    };
    start.ok_or_else(|| UserError::out_of_range("the truncated time leaves the TIMESTAMP range"))
}

/// SINCE_EPOCH: whole units since 1970, rounded down. None for units that vary in length.
pub fn since_epoch(unit: TimeUnit, timestamp: i64) -> Option<i64> {
    Some(timestamp.div_euclid(unit.microseconds()?))
}

/// TO_TIMESTAMP: `count` units after 1970. Error for units that vary in length and beyond the
/// range.
pub fn to_timestamp(unit: TimeUnit, count: i64) -> UserResult<i64> {
    let Some(length) = unit.microseconds() else {
        return Err(UserError::not_supported(format!("TO_TIMESTAMP({}, ...)", unit.name())));
    };
    count
        .checked_mul(length)
        .filter(|timestamp| *timestamp != i64::MIN)
        .ok_or_else(|| UserError::out_of_range(format!("{count} {}S leave the TIMESTAMP range", unit.name())))
}

/// DATEDIFF: unit boundaries crossed from `from` to `to`; of weeks the whole ones that the days
/// between them make.
pub fn date_difference(unit: TimeUnit, from: i64, to: i64) -> i64 {
    match unit {
        TimeUnit::Week if !earlier::values() => units_crossed(TimeUnit::Day, from, to) / 7,
        _ => units_crossed(unit, from, to),
    }
}

/// Unit boundaries crossed from `from` to `to`; weeks begin on Monday.
pub fn units_crossed(unit: TimeUnit, from: i64, to: i64) -> i64 {
    let position = |timestamp: i64| -> i64 {
        match unit.microseconds() {
            // Weeks are counted from a Monday, three days before the epoch.
            Some(length) if unit == TimeUnit::Week => {
                (timestamp as i128 + 3 * MICROSECONDS_PER_DAY as i128).div_euclid(length as i128) as i64
            }
            Some(length) => timestamp.div_euclid(length),
            None => {
                let fields = Fields::from_timestamp(timestamp);
                let months = fields.year as i64 * 12 + fields.month as i64 - 1;
                months.div_euclid(unit.months().expect("a unit of months"))
            }
        }
    };
    position(to).saturating_sub(position(from))
}

/// DATE from its parts; None if there is no such day. Years 0 to 9999.
pub fn date_pack(year: i32, month: u8, day: u8) -> Option<i32> {
    let real = (0..=9999).contains(&year) && (1..=days_in_month(year, month)).contains(&day);
    real.then_some((year << 16) | ((month as i32) << 8) | day as i32)
}

/// (year, month, day) of a DATE.
pub fn date_unpack(date: i32) -> (i32, u8, u8) {
    (date >> 16, (date >> 8) as u8, date as u8)
}

/// Is this packed number a real day? For values that came over the wire.
pub fn date_is_valid(date: i32) -> bool {
    let (year, month, day) = date_unpack(date);
    date_pack(year, month, day) == Some(date)
}

/// Midnight that begins the day.
pub fn date_to_timestamp(date: i32) -> i64 {
    let (year, month, day) = date_unpack(date);
    days_from_civil(year, month, day) * MICROSECONDS_PER_DAY
}

/// The day that holds the timestamp; None outside years 0 to 9999.
pub fn date_from_timestamp(timestamp: i64) -> Option<i32> {
    let (year, month, day) = civil_from_days(timestamp.div_euclid(MICROSECONDS_PER_DAY));
    date_pack(year, month, day)
}

/// `YYYY-MM-DD[ HH:MM[:SS[.f{1,6}]]][zone]`, spaces and quotes around it ignored. A `T` may stand
/// for the space, as in ISO 8601; the zone is `Z`, `+HH`, `+HHMM` or `+HH:MM`, and without one it
/// is UTC.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    let text = unquoted(text).as_bytes();
    let (year, month, day) = parse_civil(text.get(..10)?)?;
    let midnight = Fields { year, month, day, hour: 0, minute: 0, second: 0, microsecond: 0 };
    if text.len() == 10 {
        return midnight.to_timestamp();
    }
    let time = &text[10..];
    let [b' ' | b'T' | b't', h1, h2, b':', m1, m2, rest @ ..] = time else {
        return None;
    };
    let (time, zone) = match rest.iter().position(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-')) {
        Some(at) => (&rest[..at], Some(parse_zone(&rest[at..])?)),
        None => (rest, None),
    };
    let (s1, s2, fraction) = match time.trim_ascii_end() {
        [b':', s1, s2, fraction @ ..] => (s1, s2, fraction),
        // Seconds may be left out of what ISO 8601 writes.
        [] if text[10] != b' ' || zone.is_some() => (&b'0', &b'0', &[][..]),
        _ => return None,
    };
    let microsecond = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => {
            parse_digits(digits)? * 10u32.pow(6 - digits.len() as u32)
        }
        _ => return None,
    };
    let hour = parse_digits(&[*h1, *h2])? as u8;
    let minute = parse_digits(&[*m1, *m2])? as u8;
    let second = parse_digits(&[*s1, *s2])? as u8;
    Fields { hour, minute, second, microsecond, ..midnight }.to_timestamp()?.checked_sub(zone.unwrap_or(0))
}

/// `Z`, or hours and perhaps minutes east of Greenwich, in microseconds.
fn parse_zone(zone: &[u8]) -> Option<i64> {
    let (sign, digits) = match zone {
        [b'Z' | b'z'] => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [h1, h2] => ([*h1, *h2], [b'0'; 2]),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => ([*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let hours = parse_digits(&hours)?;
    let minutes = parse_digits(&minutes)?;
    (hours <= 18 && minutes < 60)
        .then(|| sign * (i64::from(hours) * 60 + i64::from(minutes)) * 60 * MICROSECONDS_PER_SECOND)
}

/// The date that a text says, with or without a time of day, which is dropped.
pub fn date_from_text(text: &str) -> Option<i32> {
    parse_date(text).or_else(|| date_from_timestamp(parse_timestamp(text)?))
}

/// `YYYY-MM-DD`, spaces and quotes around it ignored.
pub fn parse_date(text: &str) -> Option<i32> {
    let (year, month, day) = parse_civil(unquoted(text).as_bytes())?;
    date_pack(year, month, day)
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\'' || c == '"' || c.is_ascii_whitespace())
}

fn parse_civil(text: &[u8]) -> Option<(i32, u8, u8)> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else {
        return None;
    };
    let year = parse_digits(&[y1, y2, y3, y4])? as i32;
    Some((year, parse_digits(&[m1, m2])? as u8, parse_digits(&[d1, d2])? as u8))
}

/// Up to nine digits.
fn parse_digits(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |number, byte| byte.is_ascii_digit().then(|| number * 10 + (byte - b'0') as u32))
}

/// Displays `2026-01-02 03:04:05.678901`.
#[derive(Clone, Copy, Debug)]
pub struct DisplayTimestamp(pub i64);

impl fmt::Display for DisplayTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fields { year, month, day, hour, minute, second, microsecond } = Fields::from_timestamp(self.0);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{microsecond:06}")
    }
}

/// Displays `2026-01-02`.
#[derive(Clone, Copy, Debug)]
pub struct DisplayDate(pub i32);

impl fmt::Display for DisplayDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_unpack(self.0);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}
