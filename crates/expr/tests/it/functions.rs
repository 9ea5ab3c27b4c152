//! The functions: what they compute, and how names and argument types lead to them.

use crate::common::*;
use ferrite_expr::{Expr, Function};
use ferrite_value::SqlType::{self, *};

/// Calls a function by name on constants, with the casts that resolving asks for.
fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let types: Vec<Option<SqlType>> = arguments.iter().map(type_of).collect();
    let resolved = Function::resolve(name, &types).expect("the function takes these arguments");
    settled(resolved, arguments)
}

fn call_with_unit(name: &str, unit: &str, arguments: Vec<Expr>) -> Expr {
    assert!(Function::takes_unit(name));
    let types: Vec<Option<SqlType>> = arguments.iter().map(type_of).collect();
    let resolved = Function::resolve_with_unit(name, unit, &types).expect("the function takes these arguments");
    settled(resolved, arguments)
}

fn settled(resolved: ferrite_expr::Resolved, arguments: Vec<Expr>) -> Expr {
    let casts = arguments.into_iter().zip(resolved.argument_types);
    let arguments = casts.map(|(argument, sql_type)| argument.cast_to(sql_type)).collect();
    Expr::Call { function: resolved.function, arguments }
}

fn type_of(constant: &Expr) -> Option<SqlType> {
    use ferrite_value::OwnedValue;
    let Expr::Constant(value) = constant else { panic!("only constants are used here") };
    match value {
        OwnedValue::Integer(_) => Some(Bigint),
        OwnedValue::Float(_) => Some(Float),
        OwnedValue::Decimal(_) => Some(Decimal),
        OwnedValue::Text(_) => Some(Varchar),
        OwnedValue::Bytes(_) => Some(Varbinary),
        OwnedValue::Timestamp(_) => Some(Timestamp),
        _ => None,
    }
}

#[test]
fn numbers() {
    check(vec![
        (call("ABS", vec![int(-3)]), "BIGINT 3"),
        (call("ABS", vec![dec("-3.5")]), "DECIMAL 3.500000000000"),
        (call("ABS", vec![float(-0.5)]), "FLOAT 0.5"),
        (call("ABS", vec![NULL]), "NULL"),
        (call("CEILING", vec![dec("1.2")]), "DECIMAL 2.000000000000"),
        (call("CEILING", vec![int(1)]), "BIGINT 1"),
        (call("FLOOR", vec![float(-1.2)]), "FLOAT -2.0"),
        (call("FLOOR", vec![dec("-1.2")]), "DECIMAL -2.000000000000"),
        (call("ROUND", vec![dec("0.123456789"), int(4)]), "DECIMAL 0.123500000000"),
        (call("ROUND", vec![dec("123456789.123"), int(-2)]), "DECIMAL 123456800.000000000000"),
        (call("ROUND", vec![dec("22.225"), int(2)]), "DECIMAL 22.220000000000"),
        (call("ROUND", vec![dec("33.335"), int(2)]), "DECIMAL 33.340000000000"),
        (call("ROUND", vec![dec("-33.335"), int(2)]), "DECIMAL -33.340000000000"),
        (call("ROUND", vec![float(2.5), int(0)]), "DECIMAL 2.000000000000"),
        (call("ROUND", vec![dec("5"), int(-25)]), "DECIMAL 0.000000000000"),
        (call("ROUND", vec![dec("5"), int(13)]), "error: the rounding position 13 is not between -25 and 12"),
        (
            call("ROUND", vec![dec("99999999999999999999999999"), int(-25)]),
            "error: the result of ROUND will overflow Decimal storage",
        ),
        (call("MOD", vec![int(-7), int(3)]), "BIGINT -1"),
        (call("MOD", vec![dec("7.5"), int(2)]), "DECIMAL 1.500000000000"),
        (call("MOD", vec![int(7), int(0)]), "error: division by zero"),
        (call("POWER", vec![int(2), int(10)]), "FLOAT 1024.0"),
        (call("POWER", vec![int(-2), dec("0.5")]), "error: POWER has no finite result for this argument"),
        (call("SQRT", vec![int(16)]), "FLOAT 4.0"),
        (call("SQRT", vec![int(-1)]), "error: SQRT has no finite result for this argument"),
        (call("EXP", vec![int(0)]), "FLOAT 1.0"),
        (call("LN", vec![int(1)]), "FLOAT 0.0"),
        (call("LN", vec![int(0)]), "error: LN has no finite result for this argument"),
        (call("LOG10", vec![int(1000)]), "FLOAT 3.0"),
        (call("PI", vec![]), "FLOAT 3.141592653589793"),
        (call("COS", vec![int(0)]), "FLOAT 1.0"),
        (call("SEC", vec![int(0)]), "FLOAT 1.0"),
        (call("DEGREES", vec![float(std::f64::consts::PI)]), "FLOAT 180.0"),
    ]);
}

#[test]
fn bits() {
    check(vec![
        (call("BITAND", vec![int(12), int(10)]), "BIGINT 8"),
        (call("BITOR", vec![int(7), int(13)]), "BIGINT 15"),
        (call("BITXOR", vec![int(12), int(10)]), "BIGINT 6"),
        (call("BITNOT", vec![int(0)]), "BIGINT -1"),
        (call("BIT_SHIFT_LEFT", vec![int(112), int(3)]), "BIGINT 896"),
        (call("BIT_SHIFT_LEFT", vec![int(1), int(64)]), "BIGINT 0"),
        (call("BIT_SHIFT_RIGHT", vec![int(-1), int(63)]), "BIGINT 1"),
        (
            call("BIT_SHIFT_LEFT", vec![int(1), int(63)]),
            "error: the result has only its sign bit set, which means NULL",
        ),
        (call("BIT_SHIFT_LEFT", vec![int(1), int(-1)]), "error: bits cannot be shifted by -1 places"),
        (call("BIN", vec![int(5)]), "VARCHAR 101"),
        (call("HEX", vec![int(896)]), "VARCHAR 380"),
        (call("HEX", vec![int(-1)]), "VARCHAR FFFFFFFFFFFFFFFF"),
    ]);
}

#[test]
fn parts_of_text() {
    check(vec![
        (call("SUBSTRING", vec![text("größer"), int(3)]), "VARCHAR ößer"),
        (call("SUBSTRING", vec![text("größer"), int(3), int(2)]), "VARCHAR öß"),
        (call("SUBSTRING", vec![text("abc"), int(0), int(2)]), "VARCHAR a"),
        (call("SUBSTRING", vec![text("abc"), int(-1), int(3)]), "VARCHAR a"),
        (call("SUBSTRING", vec![text("abc"), int(9)]), "VARCHAR "),
        (call("SUBSTRING", vec![text("abc"), int(2), int(i64::MAX)]), "VARCHAR bc"),
        (call("SUBSTRING", vec![text("abc"), int(-i64::MAX), int(2)]), "VARCHAR "),
        (
            call("SUBSTRING", vec![text("abc"), int(2), int(-1)]),
            "error: data exception: substring error: the length is negative",
        ),
        (call("SUBSTRING", vec![bytes(&[1, 2, 3]), int(2), int(1)]), "VARBINARY 02"),
        (call("LEFT", vec![text("日本語"), int(2)]), "VARCHAR 日本"),
        (call("LEFT", vec![text("ab"), int(5)]), "VARCHAR ab"),
        (call("RIGHT", vec![text("日本語"), int(2)]), "VARCHAR 本語"),
        (call("RIGHT", vec![text("ab"), int(0)]), "VARCHAR "),
        (call("LEFT", vec![text("ab"), int(-1)]), "VARCHAR a"),
        (call("TRIM", vec![text("  a b ")]), "VARCHAR a b"),
        (call("TRIM", vec![text("xxaxx"), text("x")]), "VARCHAR a"),
        (call("LTRIM", vec![text("  a ")]), "VARCHAR a "),
        (call("RTRIM", vec![text("  a ")]), "VARCHAR   a"),
        (call("TRIM", vec![text("yxayb"), text("xy")]), "VARCHAR ayb"),
        (call("CHAR_LENGTH", vec![text("größe")]), "BIGINT 5"),
        (call("OCTET_LENGTH", vec![text("größe")]), "BIGINT 7"),
        (call("POSITION", vec![text("ß"), text("größe")]), "BIGINT 4"),
        (call("POSITION", vec![text("x"), text("größe")]), "BIGINT 0"),
        (call("POSITION", vec![text(""), text("größe")]), "BIGINT 1"),
    ]);
}

#[test]
fn built_text() {
    check(vec![
        (call("UPPER", vec![text("größe")]), "VARCHAR GRÖSSE"),
        (call("LOWER", vec![text("ÄB")]), "VARCHAR äb"),
        (call("CONCAT", vec![text("a"), int(1), text("b"), dec("0.5"), float(2.0)]), "VARCHAR a1b0.5000000000002E0"),
        (call("CONCAT", vec![text("a"), NULL]), "NULL"),
        (call("REPLACE", vec![text("aXbX"), text("X"), text("--")]), "VARCHAR a--b--"),
        (call("REPLACE", vec![text("aXbX"), text("X")]), "VARCHAR ab"),
        (call("REPLACE", vec![text("ab"), text(""), text("-")]), "VARCHAR ab"),
        (call("REPEAT", vec![text("ab"), int(3)]), "VARCHAR ababab"),
        (call("REPEAT", vec![text("ab"), int(0)]), "VARCHAR "),
        (call("REPEAT", vec![text(""), int(i64::MAX)]), "VARCHAR "),
        (call("SPACE", vec![int(2)]), "VARCHAR   "),
        (call("OVERLAY", vec![text("abcdef"), text("XY"), int(3)]), "VARCHAR abXYef"),
        (call("OVERLAY", vec![text("abcdef"), text("XY"), int(3), int(0)]), "VARCHAR abXYcdef"),
        (call("OVERLAY", vec![text("ab"), text("XY"), int(9)]), "VARCHAR abXY"),
        (call("CHAR", vec![int(65)]), "VARCHAR A"),
        (call("CHAR", vec![int(0xd800)]), "error: 55296 is not a character code"),
        (call("STR", vec![float(123.456), int(6), int(2)]), "VARCHAR 123.46"),
        (call("STR", vec![float(123.456)]), "VARCHAR 123"),
        (call("STR", vec![float(123.456), int(2)]), "VARCHAR **"),
        (call("STR", vec![float(123.456), int(4), int(2)]), "VARCHAR 123"),
        (call("FORMAT_CURRENCY", vec![dec("123456789.123"), int(2)]), "VARCHAR 123,456,789.12"),
        (call("FORMAT_CURRENCY", vec![dec("123456789.123"), int(-6)]), "VARCHAR 123,000,000"),
        (call("FORMAT_CURRENCY", vec![dec("-1234.5"), int(0)]), "VARCHAR -1,234"),
        (call("FORMAT_CURRENCY", vec![dec(".123456789"), int(4)]), "VARCHAR 0.1235"),
    ]);
    let long = evaluated(&call("REPEAT", vec![text("ab"), int(i64::MAX)]));
    assert!(long.starts_with("error: the result of"), "{long}");
}

#[test]
fn times() {
    let at = || time("2026-11-20 22:58:04.694001");
    check(vec![
        (call("NOW", vec![]), "TIMESTAMP 2026-11-20 22:58:04.694000"),
        (call("YEAR", vec![at()]), "BIGINT 2026"),
        (call("QUARTER", vec![at()]), "BIGINT 4"),
        (call("MONTH", vec![at()]), "BIGINT 11"),
        (call("DAY", vec![at()]), "BIGINT 20"),
        (call("DAYOFWEEK", vec![at()]), "BIGINT 6"),
        (call("WEEKDAY", vec![at()]), "BIGINT 4"),
        (call("DAYOFYEAR", vec![at()]), "BIGINT 324"),
        (call("WEEK", vec![at()]), "BIGINT 47"),
        (call("HOUR", vec![at()]), "BIGINT 22"),
        (call("MINUTE", vec![at()]), "BIGINT 58"),
        (call("SECOND", vec![at()]), "DECIMAL 4.694001000000"),
        (call("YEAR", vec![text("2020-02-03")]), "BIGINT 2020"),
        (call_with_unit("EXTRACT", "day_of_week", vec![at()]), "BIGINT 6"),
        (call_with_unit("EXTRACT", "WEEK_OF_YEAR", vec![at()]), "BIGINT 47"),
        (call_with_unit("TRUNCATE", "Minute", vec![at()]), "TIMESTAMP 2026-11-20 22:58:00.000000"),
        (call_with_unit("TRUNCATE", "QUARTER", vec![at()]), "TIMESTAMP 2026-10-01 00:00:00.000000"),
        (call_with_unit("DATEADD", "MONTH", vec![int(3), at()]), "TIMESTAMP 2027-02-20 22:58:04.694001"),
        (call_with_unit("DATEADD", "SECOND", vec![int(-5), at()]), "TIMESTAMP 2026-11-20 22:57:59.694001"),
        (call_with_unit("DATEADD", "SECOND", vec![NULL, at()]), "NULL"),
        (call_with_unit("DATEDIFF", "DAY", vec![time("2026-11-01"), at()]), "BIGINT 19"),
        (call_with_unit("SINCE_EPOCH", "SECOND", vec![at()]), "BIGINT 1795215484"),
        (call_with_unit("SINCE_EPOCH", "MILLIS", vec![at()]), "BIGINT 1795215484694"),
        (call_with_unit("TO_TIMESTAMP", "SECOND", vec![int(1_795_215_484)]), "TIMESTAMP 2026-11-20 22:58:04.000000"),
        (call("FROM_UNIXTIME", vec![int(0)]), "TIMESTAMP 1970-01-01 00:00:00.000000"),
        (call("FORMAT_TIMESTAMP", vec![at(), text("+05:30")]), "VARCHAR 2026-11-21 04:28:04.694001"),
        (call("FORMAT_TIMESTAMP", vec![at(), text("Mars")]), "error: 'Mars' is not a time zone"),
        (call("FORMAT_TIMESTAMP", vec![at(), text("America/New_York")]), "VARCHAR 2026-11-20 17:58:04.694001"),
        (
            call("FORMAT_TIMESTAMP", vec![time("2026-07-01"), text("america/new_york")]),
            "VARCHAR 2026-06-30 20:00:00.000000",
        ),
        (
            call("FORMAT_TIMESTAMP", vec![time("1890-01-01"), text("Europe/Berlin")]),
            "VARCHAR 1890-01-01 00:53:28.000000",
        ),
        (call("FORMAT_TIMESTAMP", vec![at(), text("CET")]), "VARCHAR 2026-11-20 23:58:04.694001"),
        (call("FORMAT_TIMESTAMP", vec![at(), text("PST")]), "error: 'PST' is not a time zone"),
        (call("FORMAT_TIMESTAMP", vec![at(), text("+19:00")]), "error: '+19:00' is not a time zone"),
        (call("IS_VALID_TIMESTAMP", vec![at()]), "BOOLEAN true"),
        (call("MIN_VALID_TIMESTAMP", vec![]), "TIMESTAMP 1583-01-01 00:00:00.000000"),
        (call("MAX_VALID_TIMESTAMP", vec![]), "TIMESTAMP 9999-12-31 23:59:59.999999"),
        (call_with_unit("TIME_WINDOW", "MINUTE", vec![int(30), at()]), "TIMESTAMP 2026-11-20 22:30:00.000000"),
        (call_with_unit("TIME_WINDOW", "WEEK", vec![int(1), at()]), "TIMESTAMP 2026-11-16 00:00:00.000000"),
        (call_with_unit("TIME_WINDOW", "MONTH", vec![int(5), at()]), "TIMESTAMP 2026-09-01 00:00:00.000000"),
        (
            call_with_unit("TIME_WINDOW", "MINUTE", vec![int(0), at()]),
            "error: a time window of 0 MINUTES has no length",
        ),
    ]);
}

#[test]
fn the_end_of_a_time_window_is_where_the_next_one_starts() {
    use ferrite_expr::function::WindowEdge;
    use ferrite_value::temporal::TimeUnit;
    let function = Function::TimeWindow(TimeUnit::Hour, WindowEdge::End);
    let arguments = Box::new([int(2), time("2026-11-20 22:58:04")]);
    check(vec![(Expr::Call { function, arguments }, "TIMESTAMP 2026-11-21 00:00:00.000000")]);
}

#[test]
fn addresses() {
    check(vec![
        (call("INET_ATON", vec![text("10.1.2.3")]), "BIGINT 167838211"),
        (call("INET_NTOA", vec![int(167_838_211)]), "VARCHAR 10.1.2.3"),
        (call("INET_NTOA", vec![int(-1)]), "error: '-1' is not an IPv4 address"),
        (call("INET_ATON", vec![text("10.1.2")]), "error: '10.1.2' is not an IPv4 address"),
        (call("INET6_ATON", vec![text("::1")]), "VARBINARY 00000000000000000000000000000001"),
        (call("INET6_NTOA", vec![call_bytes()]), "VARCHAR 2001:db8::1"),
    ]);
}

fn call_bytes() -> Expr {
    bytes(&[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
}

#[test]
fn resolving_settles_types() {
    let resolve = |name: &str, types: &[Option<SqlType>]| match Function::resolve(name, types) {
        Ok(resolved) => format!("{:?} {:?} -> {}", resolved.function, resolved.argument_types, resolved.result_type),
        Err(error) => error.message().to_owned(),
    };
    let cases: &[(&str, &[Option<SqlType>], &str)] = &[
        ("ABS", &[Some(Tinyint)], "Abs [Tinyint] -> TINYINT"),
        ("ABS", &[None], "Abs [Bigint] -> BIGINT"),
        ("MOD", &[Some(Integer), Some(Integer)], "Modulo [Integer, Integer] -> INTEGER"),
        ("MOD", &[Some(Integer), Some(Bigint)], "Modulo [Bigint, Bigint] -> BIGINT"),
        ("MOD", &[Some(Integer), None], "Modulo [Integer, Integer] -> INTEGER"),
        ("MOD", &[Some(Decimal), Some(Integer)], "Modulo [Decimal, Decimal] -> DECIMAL"),
        ("MOD", &[Some(Decimal), Some(Float)], "MOD does not take FLOAT as argument 2"),
        ("SQRT", &[Some(Integer)], "SquareRoot [Float] -> FLOAT"),
        ("SUBSTRING", &[Some(Varbinary), None], "Substring [Varbinary, Bigint] -> VARBINARY"),
        ("SUBSTRING", &[Some(Varchar)], "SUBSTRING takes 2 to 3 arguments, not 1"),
        ("UPPER", &[Some(Integer)], "UPPER does not take INTEGER as argument 1"),
        ("CONCAT", &[Some(Integer), None], "Concat [Varchar, Varchar] -> VARCHAR"),
        ("SECOND", &[Some(Date)], "Extract(Second) [Timestamp] -> DECIMAL"),
        ("YEAR", &[Some(Float)], "YEAR does not take FLOAT as argument 1"),
        ("NOSUCH", &[], "the function NOSUCH is not supported"),
    ];
    for (name, types, expected) in cases {
        assert_eq!(resolve(name, types), *expected, "{name}{types:?}");
    }
    let refused = |name, unit| Function::resolve_with_unit(name, unit, &[None]).unwrap_err().message().to_owned();
    assert_eq!(refused("EXTRACT", "FORTNIGHT"), "EXTRACT does not know the field FORTNIGHT");
    assert_eq!(refused("TRUNCATE", "FORTNIGHT"), "TRUNCATE does not know the unit FORTNIGHT");
    assert_eq!(refused("SINCE_EPOCH", "MONTH"), "SINCE_EPOCH does not take the unit MONTH");
}

#[test]
fn only_now_differs_between_transactions() {
    assert!(!Function::Now.is_deterministic());
    assert!(Function::Abs.is_deterministic());
}
