//! Every value survives the way through its text and back, by CAST and as a parameter.

use bumpalo::Bump;
use ferrite_value::cast::cast;
use ferrite_value::convert::{to_declared, to_text};
use ferrite_value::geography::{Polygon, PolygonView, parse_point};
use ferrite_value::sphere::{self, Ring};
use ferrite_value::{ColumnType, Decimal, Point, SqlType, Value, decimal, temporal};
use proptest::prelude::*;

/// As text and back in both ways; the results must equal the value.
fn check(value: Value<'_>, sql_type: SqlType) {
    let arena = Bump::new();
    let written = Value::Text(to_text(value, &arena));
    let column_type = ColumnType::unbounded(sql_type);
    let by_cast = cast(written, &column_type, &arena).expect("its own text");
    let as_parameter = to_declared(written, &column_type, &arena).expect("its own text");
    assert_eq!(by_cast.to_owned_value(), value.to_owned_value());
    assert_eq!(as_parameter.to_owned_value(), value.to_owned_value());
    // And what is of the type already stays as it is.
    assert_eq!(cast(value, &column_type, &arena).expect("its own type").to_owned_value(), value.to_owned_value());
}

fn points() -> impl Strategy<Value = Point> {
    (-180.0..=180.0f64, -90.0..=90.0f64).prop_map(|(longitude, latitude)| Point { longitude, latitude })
}

fn angle(left: Point, right: Point) -> f64 {
    use ferrite_value::geography::vertex_from_point;
    sphere::angle(vertex_from_point(left), vertex_from_point(right))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn integers(value in -i64::MAX..=i64::MAX) {
        check(Value::Integer(value), SqlType::Bigint);
        check(Value::Integer(value >> 40), SqlType::Integer);
        check(Value::Integer(value >> 56), SqlType::Smallint);
    }

    #[test]
    fn floats(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        if value.is_finite() && value > -1.7e308 {
            check(Value::Float(value), SqlType::Float);
        }
    }

    #[test]
    fn decimals(scaled in -decimal::MAX..=decimal::MAX, shift in 0..120u32) {
        check(Value::Decimal(Decimal::from_scaled(scaled >> shift).expect("smaller")), SqlType::Decimal);
    }

    #[test]
    fn times(timestamp in temporal::TIMESTAMP_VALID_MIN..=temporal::TIMESTAMP_VALID_MAX) {
        check(Value::Timestamp(timestamp), SqlType::Timestamp);
        let date = temporal::date_from_timestamp(timestamp).expect("a year of four digits");
        check(Value::Date(date), SqlType::Date);
        let midnight = temporal::date_to_timestamp(date);
        prop_assert_eq!(temporal::truncate(timestamp, temporal::TimeUnit::Day).expect("in range"), midnight);
        prop_assert_eq!(temporal::date_from_timestamp(midnight), Some(date));
    }

    #[test]
    fn booleans_and_bytes(value in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        check(Value::Boolean(value), SqlType::Boolean);
        let arena = Bump::new();
        let hexadecimal = ferrite_value::text::DisplayHex(&bytes).to_string();
        let read = cast(Value::Text(&hexadecimal), &ColumnType::unbounded(SqlType::Varbinary), &arena).expect("hex digits");
        prop_assert_eq!(read.to_owned_value(), Value::Bytes(&bytes).to_owned_value());
    }

    /// Coordinates have twelve decimals in text: a ten-thousandth of a millimeter on the ground.
    #[test]
    fn points_and_polygons(rings in prop::collection::vec(prop::collection::vec(points(), 3..8), 1..4)) {
        let point = rings[0][0];
        prop_assert!(angle(parse_point(&point.to_string()).expect("its own text"), point) < 1e-13);
        let polygon = Polygon { rings };
        let encoded = polygon.encode();
        let decoded = Polygon::decode(&encoded).expect("its own bytes");
        for (before, after) in polygon.rings.iter().flatten().zip(decoded.rings.iter().flatten()) {
            prop_assert!(angle(*before, *after) < 1e-14);
        }
        let view = PolygonView::new(&encoded).expect("its own bytes");
        prop_assert_eq!(view.rings().map(Ring::len).sum::<usize>(), polygon.rings.iter().map(Vec::len).sum::<usize>());
        let written = decoded.to_string();
        let read = Polygon::parse(&written).expect("its own text");
        for (before, after) in polygon.rings.iter().flatten().zip(read.rings.iter().flatten()) {
            prop_assert!(angle(*before, *after) < 1e-13);
        }
    }
}
