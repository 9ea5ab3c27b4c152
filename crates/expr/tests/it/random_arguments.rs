//! Every function with arguments of every kind, at the ends of their ranges and beyond sense: a
//! call ends in an error or in a value of the type that resolving promised, never in a panic, a
//! number that means NULL, an infinity, or more bytes than a value may have.

use crate::common::Fixed;
use bumpalo::Bump;
use ferrite_base::limits::VALUE_BYTES_MAX;
use ferrite_expr::{Expr, Function};
use ferrite_value::geography::Polygon;
use ferrite_value::{Decimal, OwnedValue, Point, SqlType, Value, decimal, temporal};
use proptest::prelude::*;

const NAMES: &[&str] = &[
    "ABS",
    "CEILING",
    "FLOOR",
    "ROUND",
    "TRUNCATE",
    "SIGN",
    "MOD",
    "POWER",
    "SQRT",
    "CBRT",
    "EXP",
    "LN",
    "LOG10",
    "PI",
    "SIN",
    "COS",
    "TAN",
    "ASIN",
    "ACOS",
    "ATAN",
    "ATAN2",
    "COT",
    "SEC",
    "CSC",
    "DEGREES",
    "RADIANS",
    "BITAND",
    "BITOR",
    "BITXOR",
    "BITNOT",
    "BIT_SHIFT_LEFT",
    "BIT_SHIFT_RIGHT",
    "SUBSTRING",
    "TRIM",
    "LTRIM",
    "RTRIM",
    "UPPER",
    "LOWER",
    "CONCAT",
    "CHAR_LENGTH",
    "OCTET_LENGTH",
    "LEFT",
    "RIGHT",
    "REPLACE",
    "REPEAT",
    "POSITION",
    "REVERSE",
    "INITCAP",
    "LPAD",
    "RPAD",
    "SPLIT_PART",
    "STARTS_WITH",
    "ASCII",
    "REGEXP_POSITION",
    "REGEXP_LIKE",
    "OVERLAY",
    "SPACE",
    "STR",
    "CHAR",
    "BIN",
    "HEX",
    "FORMAT_CURRENCY",
    "NOW",
    "CURRENT_DATE",
    "FROM_UNIXTIME",
    "FORMAT_TIMESTAMP",
    "IS_VALID_TIMESTAMP",
    "MIN_VALID_TIMESTAMP",
    "MAX_VALID_TIMESTAMP",
    "INET_ATON",
    "INET_NTOA",
    "INET6_ATON",
    "INET6_NTOA",
    "FIELD",
    "SET_FIELD",
    "ARRAY_ELEMENT",
    "ARRAY_LENGTH",
    "POINTFROMTEXT",
    "POLYGONFROMTEXT",
    "VALIDPOLYGONFROMTEXT",
    "MAKEVALIDPOLYGON",
    "ISVALID",
    "ISINVALIDREASON",
    "CONTAINS",
    "DISTANCE",
    "DWITHIN",
    "AREA",
    "CENTROID",
    "LONGITUDE",
    "LATITUDE",
    "NUMPOINTS",
    "NUMINTERIORRINGS",
    "ASTEXT",
    "GREATEST",
    "LEAST",
    "SQL_ERROR",
    "YEAR",
    "QUARTER",
    "MONTH",
    "DAY",
    "DAYOFWEEK",
    "DAYOFYEAR",
    "WEEK",
    "WEEKDAY",
    "HOUR",
    "MINUTE",
    "SECOND",
];
const NAMES_WITH_UNIT: &[&str] = &[
    "EXTRACT",
    "TRUNCATE",
    "DATEADD",
    "DATEDIFF",
    "SINCE_EPOCH",
    "TO_TIMESTAMP",
    "TIME_WINDOW",
    "DATE_TRUNC",
    "DATE_PART",
];
const UNITS: &[&str] = &[
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
    "EPOCH",
    "DOW",
    "ISODOW",
    "DAY_OF_WEEK",
    "WEEKDAY",
];

fn integers() -> impl Strategy<Value = i64> {
    prop_oneof![
        prop::sample::select(vec![0, 1, -1, 2, 12, 13, -25, 63, 64, 1_048_576, 1_048_577, i64::MAX, -i64::MAX]),
        -300..300i64,
        (-i64::MAX)..i64::MAX,
    ]
}

fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, 5e-324, 1.69e308, -1.69e308, 1e26, 0.5]),
        -1000.0..1000.0,
        prop::num::f64::NORMAL.prop_filter("beyond it is NULL", |x| *x > -1.7e308),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "a",
            "ß",
            "1.5",
            "-7",
            "2024-02-29",
            "9999-12-31 23:59:59.999999",
            "+05:30",
            "127.0.0.1",
            "::1",
            "{\"a\":[1,{\"b\":null}]}",
            "[1, 2, 3]",
            "a[0].b",
            "a[-1]",
            "\\",
            "a.",
            "{\"a\":",
            "POINT (1 2)",
            "POLYGON ((0 0, 1 0, 1 1, 0 0))",
            "POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))",
            "(a+)+$",
            "[",
            "i",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,12}",
        "[{}\\[\\]\",:0-9a. \\\\u-]{0,16}",
    ]
}

fn polygons() -> impl Strategy<Value = Vec<u8>> {
    let degrees = (-180.0..=180.0f64, -90.0..=90.0f64);
    let ring = prop::collection::vec(degrees, 3..6);
    (prop::collection::vec(ring, 1..3), prop::option::of((0..9usize, floats()))).prop_map(|(rings, damage)| {
        let to_point = |(longitude, latitude)| Point { longitude, latitude };
        let rings = rings.into_iter().map(|ring| ring.into_iter().map(to_point).collect()).collect();
        let mut bytes = Polygon { rings }.encode();
        // Clients may send vertices that are not on the sphere.
        if let Some((coordinate, value)) = damage {
            bytes[12 + coordinate * 8..20 + coordinate * 8].copy_from_slice(&value.to_be_bytes());
        }
        bytes
    })
}

fn values() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        1 => Just(OwnedValue::Null),
        1 => any::<bool>().prop_map(OwnedValue::Boolean),
        4 => integers().prop_map(OwnedValue::Integer),
        3 => floats().prop_map(OwnedValue::Float),
        3 => prop_oneof![-decimal::MAX..=decimal::MAX, Just(decimal::MAX), -5000 * decimal::ONE..5000 * decimal::ONE]
            .prop_map(|scaled| OwnedValue::Decimal(Decimal::from_scaled(scaled).expect("within 38 digits"))),
        3 => prop_oneof![(-i64::MAX)..i64::MAX, -4_000_000_000_000_000..4_000_000_000_000_000i64]
            .prop_map(OwnedValue::Timestamp),
        2 => (0..=9999i32, 1..=12u8, 1..=28u8)
            .prop_map(|(year, month, day)| OwnedValue::Date(temporal::date_pack(year, month, day).expect("a day"))),
        6 => texts().prop_map(|text| OwnedValue::Text(text.into())),
        2 => prop::collection::vec(any::<u8>(), 0..18).prop_map(|bytes| OwnedValue::Bytes(bytes.into())),
        2 => (-180.0..=180.0f64, -90.0..=90.0f64)
            .prop_map(|(longitude, latitude)| OwnedValue::Point(Point { longitude, latitude })),
        2 => polygons().prop_map(|bytes| OwnedValue::Geography(bytes.into())),
    ]
}

fn type_of(value: &OwnedValue) -> Option<SqlType> {
    Some(match value {
        OwnedValue::Null => return None,
        OwnedValue::Boolean(_) => SqlType::Boolean,
        OwnedValue::Integer(_) => SqlType::Bigint,
        OwnedValue::Float(_) => SqlType::Float,
        OwnedValue::Decimal(_) => SqlType::Decimal,
        OwnedValue::Timestamp(_) => SqlType::Timestamp,
        OwnedValue::Date(_) => SqlType::Date,
        OwnedValue::Text(_) => SqlType::Varchar,
        OwnedValue::Bytes(_) => SqlType::Varbinary,
        OwnedValue::Point(_) => SqlType::Point,
        OwnedValue::Geography(_) => SqlType::Geography,
    })
}

fn check(resolved: ferrite_expr::Resolved, arguments: Vec<OwnedValue>) {
    let result_type = resolved.result_type;
    let casts = arguments.into_iter().zip(resolved.argument_types);
    let call = Expr::Call {
        function: resolved.function,
        arguments: casts.map(|(argument, sql_type)| Expr::Constant(argument).cast_to(sql_type)).collect(),
    };
    let arena = Bump::new();
    let context = Fixed { arena: &arena, columns: Vec::new(), parameters: Vec::new() };
    let Ok(value) = call.eval(&context) else { return };
    let fits = match (value, result_type) {
        (Value::Null, _) | (Value::Boolean(_), SqlType::Boolean) | (Value::Decimal(_), SqlType::Decimal) => true,
        (Value::Integer(x), ty) => ty.integer_range().is_some_and(|(least, most)| (least..=most).contains(&x)),
        (Value::Float(x), SqlType::Float) => x.is_finite() && x > -1.7e308,
        (Value::Text(x), SqlType::Varchar) => x.len() <= VALUE_BYTES_MAX,
        (Value::Bytes(x), SqlType::Varbinary) => x.len() <= VALUE_BYTES_MAX,
        (Value::Geography(x), SqlType::Geography) => Polygon::decode(x).is_ok(),
        (Value::Timestamp(x), SqlType::Timestamp) => x != i64::MIN,
        (Value::Date(x), SqlType::Date) => temporal::date_is_valid(x),
        (Value::Point(x), SqlType::Point) => ferrite_value::geography::point_is_valid(x),
        _ => false,
    };
    assert!(fits, "{call:?} is {value:?} and no {result_type}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_end_well(arguments in prop::collection::vec(values(), 0..5)) {
        let types: Vec<Option<SqlType>> = arguments.iter().map(type_of).collect();
        for name in NAMES {
            if let Ok(resolved) = Function::resolve(name, &types) {
                check(resolved, arguments.clone());
            }
        }
    }

    #[test]
    fn calls_with_units_end_well(
        unit in prop::sample::select(UNITS),
        count in integers(),
        times in prop::collection::vec(values(), 1..3),
    ) {
        let mut with_count = times.clone();
        with_count.insert(0, OwnedValue::Integer(count));
        for arguments in [times, with_count] {
            let types: Vec<Option<SqlType>> = arguments.iter().map(type_of).collect();
            for name in NAMES_WITH_UNIT {
                if let Ok(resolved) = Function::resolve_with_unit(name, unit, &types) {
                    check(resolved, arguments.clone());
                }
            }
        }
    }

    /// One function at a time gets arguments that it takes more often.
    #[test]
    fn typed_calls_end_well(name in prop::sample::select(NAMES), lists in prop::collection::vec(prop::collection::vec(values(), 4), 40)) {
        for list in lists {
            for count in 0..=4 {
                let types: Vec<Option<SqlType>> = list[..count].iter().map(type_of).collect();
                if let Ok(resolved) = Function::resolve(name, &types) {
                    check(resolved, list[..count].to_vec());
                }
            }
        }
    }
}
