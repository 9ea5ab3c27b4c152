//! Calendar arithmetic against jiff, and the text forms.

use ferrite_value::temporal::*;
use jiff::civil;
use proptest::prelude::*;

fn jiff_datetime(timestamp: i64) -> civil::DateTime {
    jiff::Timestamp::from_microsecond(timestamp).unwrap().to_zoned(jiff::tz::TimeZone::UTC).datetime()
}

fn jiff_micros(datetime: civil::DateTime) -> i64 {
    datetime.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_microsecond()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fields_agree(timestamp in TIMESTAMP_VALID_MIN..TIMESTAMP_VALID_MAX - MICROSECONDS_PER_DAY) {
        let expected = jiff_datetime(timestamp);
        let fields = Fields::from_timestamp(timestamp);
        prop_assert_eq!(fields.year, expected.year() as i32);
        prop_assert_eq!(fields.month, expected.month() as u8);
        prop_assert_eq!(fields.day, expected.day() as u8);
        prop_assert_eq!(fields.hour, expected.hour() as u8);
        prop_assert_eq!(fields.minute, expected.minute() as u8);
        prop_assert_eq!(fields.second, expected.second() as u8);
        prop_assert_eq!(fields.microsecond, expected.subsec_nanosecond() as u32 / 1_000);
        prop_assert_eq!(fields.to_timestamp(), Some(timestamp));
        prop_assert_eq!(day_of_year(timestamp), expected.day_of_year() as u16);
        prop_assert_eq!(day_of_week_from_monday(timestamp), expected.weekday().to_monday_zero_offset() as u8);
        prop_assert_eq!(day_of_week_from_sunday(timestamp), expected.weekday().to_sunday_one_offset() as u8);
        prop_assert_eq!(iso_week(timestamp), expected.date().iso_week_date().week() as u8);
        prop_assert_eq!(parse_timestamp(&DisplayTimestamp(timestamp).to_string()), Some(timestamp));
        let date = date_from_timestamp(timestamp).unwrap();
        prop_assert_eq!(parse_date(&DisplayDate(date).to_string()), Some(date));
        prop_assert_eq!(Some(date_to_timestamp(date)), truncate(timestamp, TimeUnit::Day).ok());
    }

    #[test]
    fn months_are_added_as_elsewhere(timestamp in TIMESTAMP_VALID_MIN..TIMESTAMP_VALID_MAX, months in -2000i64..2000) {
        let span = jiff::Span::new().months(months);
        // The last day of 9999 is beyond jiff's instants.
        if let Ok(expected) = jiff_datetime(timestamp.min(TIMESTAMP_VALID_MAX - 2 * MICROSECONDS_PER_DAY)).checked_add(span)
            && (1..=9998).contains(&expected.year())
        {
            let timestamp = timestamp.min(TIMESTAMP_VALID_MAX - 2 * MICROSECONDS_PER_DAY);
            prop_assert_eq!(date_add(timestamp, TimeUnit::Month, months).unwrap(), jiff_micros(expected));
        }
    }

    #[test]
    fn nothing_panics_at_any_distance(timestamp: i64, count: i64, other: i64) {
        use TimeUnit::*;
        for unit in [Year, Quarter, Month, Week, Day, Hour, Minute, Second, Millisecond, Microsecond] {
            let _ = date_add(timestamp, unit, count);
            let _ = to_timestamp(unit, count);
            let _ = date_difference(unit, timestamp, other);
            let _ = since_epoch(unit, timestamp);
            if let Ok(start) = truncate(timestamp, unit) {
                prop_assert!(start <= timestamp);
                prop_assert_eq!(truncate(start, unit).unwrap(), start);
            }
            prop_assert_eq!(TimeUnit::from_name(&unit.name().to_lowercase()), Some(unit));
        }
        let fields = Fields::from_timestamp(timestamp);
        prop_assert_eq!(fields.to_timestamp(), Some(timestamp));
    }

    #[test]
    fn parsers_never_panic(text in "[-+0-9: .'éTZ]{0,30}") {
        let _ = parse_timestamp(&text);
        let _ = parse_date(&text);
    }
}

#[test]
fn timestamps_are_read() {
    let expected = Some(1_767_323_045_678_901);
    assert_eq!(parse_timestamp("2026-01-02 03:04:05.678901"), expected);
    assert_eq!(parse_timestamp("'2026-01-02 03:04:05.678901'"), expected);
    assert_eq!(parse_timestamp(" \"2026-01-02 03:04:05.678901\" "), expected);
    assert_eq!(parse_timestamp("2026-01-02 03:04:05.5"), Some(1_767_323_045_500_000));
    assert_eq!(parse_timestamp("2026-01-02 03:04:05"), Some(1_767_323_045_000_000));
    assert_eq!(parse_timestamp("2026-01-02"), Some(1_767_312_000_000_000));
    assert_eq!(parse_timestamp("1969-12-31 23:59:59.999999"), Some(-1));
    for iso in [
        "2026-01-02T03:04:05Z",
        "2026-01-02t03:04:05.000z",
        "2026-01-02T03:04:05",
        "2026-01-02T05:04:05+02:00",
        "2026-01-02 05:04:05 +0200",
        "2026-01-01T22:04:05-05",
    ] {
        assert_eq!(parse_timestamp(iso), Some(1_767_323_045_000_000), "{iso}");
    }
    assert_eq!(parse_timestamp("2026-01-02T03:04Z"), Some(1_767_323_040_000_000));
    assert_eq!(parse_timestamp("2026-01-02T03:04"), Some(1_767_323_040_000_000));
    for bad in [
        "",
        "2026",
        "2026-1-2",
        "2026-13-01",
        "2026-02-29",
        "2026-00-10",
        "2026-01-02 ",
        "2026-01-02 03",
        "2026-01-02 03:04",
        "2026-01-02 24:00:00",
        "2026-01-02 03:60:00",
        "2026-01-02 03:04:60",
        "2026-01-02 03:04:05.",
        "2026-01-02 03:04:05.1234567",
        "2026-01-02T",
        "2026-01-02T03",
        "2026-01-02T03:04:05+1",
        "2026-01-02T03:04:05+19:00",
        "2026-01-02T03:04:05Zx",
        "2026-01-02Z",
        "2026-01-02 03:04:05x",
    ] {
        let expected = if bad == "2026-01-02 " { parse_timestamp("2026-01-02") } else { None };
        assert_eq!(parse_timestamp(bad), expected, "{bad}");
    }
}

#[test]
fn dates_pack_as_on_the_wire() {
    assert_eq!(date_pack(2024, 2, 29), Some(0x07e8_021d));
    assert_eq!(date_pack(2023, 2, 29), None);
    assert_eq!(date_pack(10_000, 1, 1), None);
    assert_eq!(date_unpack(0x07e8_021d), (2024, 2, 29));
    assert!(!date_is_valid(i32::MIN));
    assert_eq!(DisplayDate(0x07e8_021d).to_string(), "2024-02-29");
    assert_eq!(date_to_timestamp(0x07e8_021d), parse_timestamp("2024-02-29").unwrap());
}

#[test]
fn units_truncate_and_count() {
    let timestamp = parse_timestamp("2026-08-20 13:14:15.678901").unwrap();
    let truncated = |unit| DisplayTimestamp(truncate(timestamp, unit).unwrap()).to_string();
    assert_eq!(truncated(TimeUnit::Year), "2026-01-01 00:00:00.000000");
    assert_eq!(truncated(TimeUnit::Quarter), "2026-07-01 00:00:00.000000");
    assert_eq!(truncated(TimeUnit::Month), "2026-08-01 00:00:00.000000");
    assert_eq!(truncated(TimeUnit::Week), "2026-08-17 00:00:00.000000");
    assert_eq!(truncated(TimeUnit::Hour), "2026-08-20 13:00:00.000000");
    assert_eq!(truncated(TimeUnit::Millisecond), "2026-08-20 13:14:15.678000");
    assert_eq!(Fields::from_timestamp(timestamp).second_decimal().to_string(), "15.678901000000");
    assert_eq!(Fields::from_timestamp(timestamp).quarter(), 3);
    assert_eq!(since_epoch(TimeUnit::Second, -1), Some(-1));
    assert_eq!(since_epoch(TimeUnit::Month, 0), None);
    assert_eq!(to_timestamp(TimeUnit::Second, 1).unwrap(), 1_000_000);
    assert!(to_timestamp(TimeUnit::Year, 1).is_err());
    let leap = parse_timestamp("2024-02-29").unwrap();
    assert_eq!(DisplayTimestamp(date_add(leap, TimeUnit::Year, 1).unwrap()).to_string(), "2025-02-28 00:00:00.000000");
    assert_eq!(date_difference(TimeUnit::Month, parse_timestamp("2024-01-31").unwrap(), leap), 1);
    assert_eq!(date_difference(TimeUnit::Year, leap, parse_timestamp("2023-12-31").unwrap()), -1);
    assert_eq!(DisplayTimestamp(TIMESTAMP_VALID_MIN).to_string(), "1583-01-01 00:00:00.000000");
    assert_eq!(DisplayTimestamp(TIMESTAMP_VALID_MAX).to_string(), "9999-12-31 23:59:59.999999");
}
