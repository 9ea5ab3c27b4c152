//! Times by the calendar: `second minute hour day-of-month month day-of-week`, each a list of
//! numbers, names, ranges and steps.
//!
//! In UTC, as all times of the database are. A moment must fit all six fields.

use ferrite_base::{UserError, UserResult};
use ferrite_value::temporal::{Fields, day_of_week_from_sunday};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Within this there is a next time or there is none: a 29th of February on a given day of the week
/// is at most forty years away.
const DAYS_AHEAD: i64 = 40 * 366 + 1;
const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Which values fit each field: bit n for n.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Sunday is 0.
    weekdays: u64,
}

impl Cron {
    pub fn parse(text: &str) -> UserResult<Cron> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [second, minute, hour, day, month, weekday] = fields[..] else {
            return Err(UserError::ddl("42601", format!("CRON takes six fields, not {}: {text}", fields.len()))
                .with_hint("second minute hour day-of-month month day-of-week, as in CRON 0 30 2 * * MON-FRI"));
        };
        let weekdays = field("day of the week", weekday, 0, 7, &WEEKDAYS, 0)?;
        let cron = Cron {
            seconds: field("second", second, 0, 59, &[], 0)?,
            minutes: field("minute", minute, 0, 59, &[], 0)?,
            hours: field("hour", hour, 0, 23, &[], 0)?,
            days: field("day of the month", day, 1, 31, &[], 0)?,
            months: field("month", month, 1, 12, &MONTHS, 1)?,
            // 7 is Sunday too.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
        };
        if cron.next_after(0).is_none() {
            return Err(UserError::ddl("42601", format!("CRON {text} never comes due")));
        }
        Ok(cron)
    }

    /// The first moment after `micros` (since 1970) that fits.
    pub fn next_after(&self, micros: i64) -> Option<i64> {
        let first = (micros.div_euclid(SECOND) + 1) * SECOND;
        let midnight = first.div_euclid(DAY) * DAY;
        for day in 0..DAYS_AHEAD {
            let begin = midnight + day * DAY;
            let date = Fields::from_timestamp(begin);
            let fits = self.months & 1 << date.month != 0
                && self.days & 1 << date.day != 0
                && self.weekdays & 1 << (day_of_week_from_sunday(begin) - 1) != 0;
            if !fits {
                continue;
            }
            let from = if day == 0 { first } else { begin };
            if let Some(time) = self.time_from((from - begin) / SECOND) {
                return Some(begin + time * SECOND);
            }
        }
        None
    }

    /// The first second of a day, from `from` on, whose time fits.
    fn time_from(&self, from: i64) -> Option<i64> {
        let hour = from / 3600;
        let minute = from / 60 % 60;
        let second = from % 60;
        let at = |hour: i64, minute: i64, second: i64| Some(hour * 3600 + minute * 60 + second);
        let first_minute = next(self.minutes, 0)?;
        let first_second = next(self.seconds, 0)?;
        if self.hours & 1 << hour != 0 {
            if self.minutes & 1 << minute != 0
                && let Some(second) = next(self.seconds, second)
            {
                return at(hour, minute, second);
            }
            if let Some(minute) = next(self.minutes, minute + 1) {
                return at(hour, minute, first_second);
            }
        }
        at(next(self.hours, hour + 1)?, first_minute, first_second)
    }
}

/// The least value from `from` on.
fn next(values: u64, from: i64) -> Option<i64> {
    let left = values.checked_shr(from as u32).unwrap_or(0);
    (left != 0).then(|| from + i64::from(left.trailing_zeros()))
}

fn field(what: &str, text: &str, least: u32, most: u32, names: &[&str], first_name: u32) -> UserResult<u64> {
    let wrong = |part: &str| {
        UserError::ddl("42601", format!("{part} is not a valid {what} in a CRON schedule"))
            .with_hint(format!("{least} to {most}, *, a-b, a,b or */n"))
    };
    let value = |word: &str| -> UserResult<u32> {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(word)).map(|at| at as u32 + first_name);
        let number = named.or_else(|| word.parse().ok());
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| wrong(word))
    };
    let mut values = 0u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0).ok_or_else(|| wrong(part))?))
            }
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (least, if what == "day of the week" { 6 } else { most }),
            Some((from, to)) => (value(from)?, value(to)?),
            // With a step alone: from there on.
            None => (value(range)?, if step.is_some() { most } else { value(range)? }),
        };
        if from > to {
            return Err(wrong(part));
        }
        (from..=to).step_by(step.unwrap_or(1) as usize).for_each(|value| values |= 1 << value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::temporal::parse_timestamp;

    fn next(cron: &str, after: &str) -> i64 {
        let after = parse_timestamp(after).unwrap();
        Cron::parse(cron).unwrap().next_after(after).unwrap()
    }

    #[test]
    fn next_times() {
        let cases = [
            ("* * * * * *", "2026-11-21 10:00:00.5", "2026-11-21 10:00:01"),
            ("* * * * * *", "2026-11-21 10:00:00", "2026-11-21 10:00:01"),
            ("0 * * * * *", "2026-11-21 10:00:00", "2026-11-21 10:01:00"),
            ("*/20 * * * * *", "2026-11-21 10:00:41", "2026-11-21 10:01:00"),
            ("5/20 * * * * ?", "2026-11-21 10:00:41", "2026-11-21 10:00:45"),
            ("0 30 2 * * *", "2026-11-21 02:30:00", "2026-11-22 02:30:00"),
            ("0 30 2 * * MON-FRI", "2026-11-21 00:00:00", "2026-11-23 02:30:00"),
            ("0 0 0 * * 7", "2026-11-21 00:00:00", "2026-11-22 00:00:00"),
            ("0 0 0 * * sun", "2026-11-22 00:00:00", "2026-11-29 00:00:00"),
            ("59 59 23 31 12 *", "2026-12-31 23:59:59", "2027-12-31 23:59:59"),
            ("0 0 0 29 feb *", "2097-01-01 00:00:00", "2104-02-29 00:00:00"),
            ("0 0 0 1 JAN,jul *", "2026-02-01 00:00:00", "2026-07-01 00:00:00"),
            ("0 15,45 9-17/4 * * *", "2026-11-21 09:45:00", "2026-11-21 13:15:00"),
            ("0 0 0 13 * FRI", "2026-11-21 00:00:00", "2027-08-13 00:00:00"),
            ("10 0 0 * * *", "1969-12-31 23:59:59", "1970-01-01 00:00:10"),
        ];
        for (cron, after, expected) in cases {
            assert_eq!(next(cron, after), parse_timestamp(expected).unwrap(), "{cron} after {after}");
        }
    }

    #[test]
    fn every_second_of_a_week_agrees_with_the_fields() {
        let cron = Cron::parse("0,30 */7 3-5,22 * * TUE,SAT").unwrap();
        let begin = parse_timestamp("2026-11-20 00:00:00").unwrap();
        let mut expected = Vec::new();
        for second in 1..7 * 86_400 {
            let at = begin + second * SECOND;
            let (s, m, h) = (second % 60, second / 60 % 60, second / 3600 % 24);
            let weekday = day_of_week_from_sunday(at);
            if (s == 0 || s == 30) && m % 7 == 0 && (matches!(h, 3..=5) || h == 22) && (weekday == 3 || weekday == 7) {
                expected.push(at);
            }
        }
        let mut found = Vec::new();
        let mut at = begin;
        while found.len() < expected.len() {
            at = cron.next_after(at).unwrap();
            found.push(at);
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for (text, words) in [
            ("* * * * *", "six fields, not 5"),
            ("60 * * * * *", "60 is not a valid second"),
            ("* * 24 * * *", "24 is not a valid hour"),
            ("* * * 0 * *", "0 is not a valid day of the month"),
            ("* * * * 13 *", "13 is not a valid month"),
            ("* * * * * 8", "8 is not a valid day of the week"),
            ("* * * L * *", "L is not a valid day"),
            ("5-3 * * * * *", "5-3 is not a valid second"),
            ("*/0 * * * * *", "*/0 is not a valid second"),
            (", * * * * *", "is not a valid second"),
            ("0,,5 * * * * *", "is not a valid second"),
            ("MON * * * * *", "MON is not a valid second"),
            ("0 0 1MON * * *", "1MON is not a valid hour"),
            ("0 0 0 30 FEB *", "never comes due"),
        ] {
            let error = Cron::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
