//! TO_CHAR: a timestamp by a pattern, as PostgreSQL and Oracle read it.

use bumpalo::Bump;
use bumpalo::collections::String as ArenaString;
use ferrite_base::{UserError, UserResult};
use ferrite_value::temporal::{self, Fields};
use std::fmt::Write;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// To which names of months and days are filled up, unless FM says no.
const NAME_WIDTH: usize = 9;
/// Longer patterns are not patterns.
const PATTERN_BYTES_MAX: usize = 1_000;

/// What stands for a part of the time. Of those with the same beginning the longest first.
const FIELDS: [(&str, Field); 24] = [
    ("YYYY", Field::Number(4, |time| i64::from(time.fields.year))),
    ("IYYY", Field::Number(4, |time| time.iso_year())),
    ("HH24", Field::Number(2, |time| i64::from(time.fields.hour))),
    ("HH12", Field::Number(2, |time| time.hour_of_half())),
    ("SSSS", Field::Number(0, |time| time.second_of_day())),
    ("MONTH", Field::Name(NAME_WIDTH, |time| time.month())),
    ("DDD", Field::Number(3, |time| i64::from(temporal::day_of_year(time.timestamp)))),
    ("DAY", Field::Name(NAME_WIDTH, |time| time.day())),
    ("MON", Field::Name(0, |time| &time.month()[..3])),
    ("YY", Field::Number(2, |time| i64::from(time.fields.year % 100))),
    ("MM", Field::Number(2, |time| i64::from(time.fields.month))),
    ("MI", Field::Number(2, |time| i64::from(time.fields.minute))),
    ("MS", Field::Number(3, |time| i64::from(time.fields.microsecond / 1_000))),
    ("DD", Field::Number(2, |time| i64::from(time.fields.day))),
    ("DY", Field::Name(0, |time| &time.day()[..3])),
    ("HH", Field::Number(2, |time| time.hour_of_half())),
    ("SS", Field::Number(2, |time| i64::from(time.fields.second))),
    ("US", Field::Number(6, |time| i64::from(time.fields.microsecond))),
    ("AM", Field::Name(0, |time| time.half())),
    ("PM", Field::Name(0, |time| time.half())),
    ("IW", Field::Number(2, |time| i64::from(temporal::iso_week(time.timestamp)))),
    ("ID", Field::Number(1, |time| i64::from(temporal::day_of_week_from_monday(time.timestamp)) + 1)),
    ("D", Field::Number(1, |time| i64::from(temporal::day_of_week_from_sunday(time.timestamp)))),
    ("Q", Field::Number(1, |time| i64::from(time.fields.quarter()))),
];

#[derive(Clone, Copy)]
enum Field {
    /// With zeros in front, to this width.
    Number(usize, fn(&Time) -> i64),
    /// In the case of the pattern's letters, with blanks behind, to this width.
    Name(usize, fn(&Time) -> &'static str),
}

struct Time {
    timestamp: i64,
    fields: Fields,
}

impl Time {
    fn month(&self) -> &'static str {
        MONTHS[usize::from(self.fields.month - 1)]
    }

    fn day(&self) -> &'static str {
        DAYS[usize::from(temporal::day_of_week_from_monday(self.timestamp))]
    }

    fn half(&self) -> &'static str {
        if self.fields.hour < 12 { "Am" } else { "Pm" }
    }

    fn hour_of_half(&self) -> i64 {
        i64::from((self.fields.hour + 11) % 12 + 1)
    }

    fn second_of_day(&self) -> i64 {
        (i64::from(self.fields.hour) * 60 + i64::from(self.fields.minute)) * 60 + i64::from(self.fields.second)
    }

    /// The year that the ISO week is of: that of its Thursday.
    fn iso_year(&self) -> i64 {
        let to_thursday = 3 - i64::from(temporal::day_of_week_from_monday(self.timestamp));
        let thursday = self.timestamp.saturating_add(to_thursday * temporal::MICROSECONDS_PER_DAY);
        i64::from(Fields::from_timestamp(thursday).year)
    }
}

/// The pattern with its fields filled in. Texts in double quotes and what is not a letter stand for
/// themselves; other letters are an error.
pub(super) fn format<'a>(timestamp: i64, pattern: &str, arena: &'a Bump) -> UserResult<&'a str> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(UserError::limit(format!("a pattern of TO_CHAR is longer than {PATTERN_BYTES_MAX} bytes")));
    }
    let time = Time { timestamp, fields: Fields::from_timestamp(timestamp) };
    let mut out = ArenaString::with_capacity_in(pattern.len() * 2, arena);
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            out.push_str(text);
            rest = after;
            continue;
        }
        let filled = starts_with(rest, "FM").is_none();
        let at = starts_with(rest, "FM").unwrap_or(rest);
        match FIELDS
            .iter()
            .find_map(|(word, field)| starts_with(at, word).map(|after| (*field, &at[..word.len()], after)))
        {
            Some((field, written, after)) => {
                append(&mut out, field, written, filled, &time);
                rest = after;
            }
            None if first.is_alphabetic() => return Err(unknown(rest)),
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Ok(out.into_bump_str())
}

/// What follows the word, in any case.
fn starts_with<'p>(pattern: &'p str, word: &str) -> Option<&'p str> {
    let (start, rest) = pattern.split_at_checked(word.len())?;
    start.eq_ignore_ascii_case(word).then_some(rest)
}

fn append(out: &mut ArenaString<'_>, field: Field, written: &str, filled: bool, time: &Time) {
    let result = match field {
        Field::Number(width, value) => write!(out, "{:0width$}", value(time), width = if filled { width } else { 0 }),
        Field::Name(width, name) => {
            let width = if filled { width } else { 0 };
            let second = written[1..].chars().next();
            if written.starts_with(|first: char| first.is_ascii_lowercase()) {
                write!(out, "{:width$}", name(time).to_lowercase())
            } else if second.is_some_and(|second| second.is_ascii_lowercase()) {
                write!(out, "{:width$}", name(time))
            } else {
                write!(out, "{:width$}", name(time).to_uppercase())
            }
        }
    };
    result.expect("writing to memory succeeds");
}

#[cold]
fn unknown(rest: &str) -> UserError {
    let word: String = rest.chars().take_while(|character| character.is_alphanumeric()).take(20).collect();
    UserError::data("22007", format!("unknown field '{word}' in a TO_CHAR pattern")).with_hint(
        "fields are YYYY YY MM MON MONTH DD DDD D DY DAY HH24 HH12 MI SS MS US AM Q IYYY IW ID; put other letters into double quotes",
    )
}
