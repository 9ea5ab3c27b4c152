//! The conversion table of wire-protocol 4.5, CAST, sizes and text forms.

use bumpalo::Bump;
use ferrite_base::ErrorKind;
use ferrite_value::cast::cast;
use ferrite_value::convert::{check_fits, to_declared, to_declared_array, to_text};
use ferrite_value::geography::Polygon;
use ferrite_value::{ColumnType, Decimal, OwnedValue, Point, SqlType, Value};

fn fixed(ty: SqlType) -> ColumnType {
    ColumnType::unbounded(ty)
}

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap()
}

#[track_caller]
fn declared(value: Value<'_>, ty: SqlType, expected: OwnedValue) {
    let arena = Bump::new();
    match to_declared(value, &fixed(ty), &arena) {
        Ok(converted) => assert_eq!(converted.to_owned_value(), expected),
        Err(error) => panic!("{value:?} as {ty}: {error}"),
    }
}

#[track_caller]
fn refused(value: Value<'_>, ty: SqlType, message: &str) {
    let arena = Bump::new();
    let error = to_declared(value, &fixed(ty), &arena).expect_err("refused");
    assert_eq!(error.message(), message);
    assert_eq!(error.kind(), ErrorKind::Parameters);
}

#[test]
fn null_and_its_text_are_null_for_every_type() {
    for ty in SqlType::ALL {
        declared(Value::Null, ty, OwnedValue::Null);
        declared(Value::Text("\\N"), ty, OwnedValue::Null);
    }
}

#[test]
fn integers_are_declared() {
    use SqlType::*;
    for (ty, greatest) in [(Tinyint, 127i64), (Smallint, 32_767), (Integer, 2_147_483_647), (Bigint, i64::MAX)] {
        declared(Value::Integer(greatest), ty, OwnedValue::Integer(greatest));
        declared(Value::Integer(-greatest), ty, OwnedValue::Integer(-greatest));
        let null = -greatest - 1;
        refused(Value::Integer(null), ty, &format!("{null} might be interpreted as the {ty} null value"));
        refused(Value::Text(&null.to_string()), ty, &format!("{null} might be interpreted as the {ty} null value"));
        if ty != Bigint {
            refused(Value::Integer(greatest + 1), ty, &format!("{} is out of range for {ty}", greatest + 1));
        }
    }
    declared(Value::Decimal(decimal("12")), Integer, OwnedValue::Integer(12));
    refused(Value::Decimal(decimal("12.5")), Integer, "unable to convert DECIMAL 12.500000000000 to INTEGER");
    declared(Value::Text(" 1,234,567 "), Integer, OwnedValue::Integer(1_234_567));
    declared(Value::Text("+7"), Integer, OwnedValue::Integer(7));
    declared(Value::Text("X'ff'"), Integer, OwnedValue::Integer(255));
    declared(Value::Text("x'FFFFFFFFFFFFFFFE'"), Bigint, OwnedValue::Integer(-2));
    refused(Value::Text("X''"), Bigint, "unable to convert VARCHAR X'' to BIGINT");
    refused(Value::Text("X'00000000000000001'"), Bigint, "unable to convert VARCHAR X'00000000000000001' to BIGINT");
    refused(Value::Text("abc"), Bigint, "unable to convert VARCHAR abc to BIGINT");
    refused(Value::Text("1.5"), Bigint, "unable to convert VARCHAR 1.5 to BIGINT");
    refused(Value::Float(1.0), Bigint, "unable to convert FLOAT 1.0 to BIGINT");
    refused(Value::Timestamp(1), Bigint, "unable to convert TIMESTAMP 1970-01-01 00:00:00.000001 to BIGINT");
}

#[test]
fn floats_and_decimals_are_declared() {
    declared(Value::Integer(3), SqlType::Float, OwnedValue::Float(3.0));
    declared(Value::Decimal(decimal("0.1")), SqlType::Float, OwnedValue::Float(0.1));
    declared(Value::Text(" 1,000.5e1 "), SqlType::Float, OwnedValue::Float(10_005.0));
    refused(Value::Text("one"), SqlType::Float, "unable to convert VARCHAR one to FLOAT");
    refused(Value::Bytes(&[1]), SqlType::Float, "unable to convert VARBINARY 01 to FLOAT");
    declared(Value::Integer(i64::MAX), SqlType::Decimal, OwnedValue::Decimal(Decimal::from_i64(i64::MAX)));
    declared(Value::Float(0.1), SqlType::Decimal, OwnedValue::Decimal(decimal("0.1")));
    declared(Value::Text("1,000.0000000000005"), SqlType::Decimal, OwnedValue::Decimal(decimal("1000.000000000001")));
    refused(Value::Text("1e26"), SqlType::Decimal, "1e26 is out of range for DECIMAL");
    refused(Value::Float(1e26), SqlType::Decimal, "1.0E26 is out of range for DECIMAL");
    refused(Value::Text(""), SqlType::Decimal, "unable to convert VARCHAR  to DECIMAL");
}

#[test]
fn text_and_bytes_are_declared() {
    let text = |text: &str| OwnedValue::Text(text.into());
    declared(Value::Bytes("né".as_bytes()), SqlType::Varchar, text("né"));
    refused(Value::Bytes(&[0xff]), SqlType::Varchar, "unable to convert VARBINARY FF to VARCHAR");
    declared(Value::Integer(-5), SqlType::Varchar, text("-5"));
    declared(Value::Float(0.25), SqlType::Varchar, text("0.25"));
    declared(Value::Decimal(decimal("12.5")), SqlType::Varchar, text("12.500000000000"));
    declared(Value::Timestamp(0), SqlType::Varchar, text("1970-01-01 00:00:00.000000"));
    declared(Value::Boolean(true), SqlType::Varchar, text("true"));
    // What is not a value of its type has no text.
    let words = "NaN is not a FLOAT of SQL; use NULL for a value that is not a number";
    refused(Value::Float(f64::NAN), SqlType::Varchar, words);
    for value in [Value::Timestamp(i64::MAX), Value::Point(Point { longitude: 200.0, latitude: 100.0 })] {
        assert!(to_declared(value, &fixed(SqlType::Varchar), &Bump::new()).is_err(), "{value:?}");
    }
    assert!(to_declared(Value::Geography(&[0xff; 9]), &fixed(SqlType::Varchar), &Bump::new()).is_err());
    let bytes = |bytes: &[u8]| OwnedValue::Bytes(bytes.into());
    declared(Value::Text("00fF"), SqlType::Varbinary, bytes(&[0, 255]));
    declared(Value::Text("X'00ff'"), SqlType::Varbinary, bytes(&[0, 255]));
    declared(Value::Text(""), SqlType::Varbinary, bytes(&[]));
    refused(Value::Text("0"), SqlType::Varbinary, "unable to convert VARCHAR 0 to VARBINARY");
    refused(Value::Text("zz"), SqlType::Varbinary, "unable to convert VARCHAR zz to VARBINARY");
    refused(Value::Text("é"), SqlType::Varbinary, "unable to convert VARCHAR é to VARBINARY");
    let long = "x".repeat(300);
    let shown = format!("unable to convert VARCHAR {}... to BIGINT", "x".repeat(200));
    refused(Value::Text(&long), SqlType::Bigint, &shown);
}

#[test]
fn times_are_declared() {
    let ty = SqlType::Timestamp;
    declared(Value::Integer(5), ty, OwnedValue::Timestamp(5));
    declared(Value::Text(" 5 "), ty, OwnedValue::Timestamp(5));
    declared(Value::Text("-5"), ty, OwnedValue::Timestamp(-5));
    declared(Value::Text("'1970-01-02'"), ty, OwnedValue::Timestamp(86_400_000_000));
    declared(Value::Text("1970-01-01 00:00:01.5"), ty, OwnedValue::Timestamp(1_500_000));
    refused(Value::Text("yesterday"), ty, "unable to convert VARCHAR yesterday to TIMESTAMP");
    refused(Value::Float(1.0), ty, "unable to convert FLOAT 1.0 to TIMESTAMP");
    declared(Value::Text("2024-02-29"), SqlType::Date, OwnedValue::Date(0x07e8_021d));
    declared(Value::Date(0x07e8_021d), SqlType::Date, OwnedValue::Date(0x07e8_021d));
    let arena = Bump::new();
    assert!(to_declared(Value::Date(0x07e8_0f1d), &fixed(SqlType::Date), &arena).is_err());
    declared(Value::Integer(1), SqlType::Boolean, OwnedValue::Boolean(true));
    declared(Value::Text("FALSE"), SqlType::Boolean, OwnedValue::Boolean(false));
    refused(Value::Integer(2), SqlType::Boolean, "unable to convert BIGINT 2 to BOOLEAN");
}

#[test]
fn shapes_are_declared() {
    let point = Point { longitude: 2.5, latitude: 48.5 };
    declared(Value::Text("POINT(2.5 48.5)"), SqlType::Point, OwnedValue::Point(point));
    declared(Value::Point(point), SqlType::Point, OwnedValue::Point(point));
    let encoded = Polygon::parse("POLYGON((0 0, 1 0, 1 1, 0 0))").unwrap().encode();
    let polygon = OwnedValue::Geography(encoded.clone().into());
    declared(Value::Text("POLYGON((0 0, 1 0, 1 1, 0 0))"), SqlType::Geography, polygon.clone());
    declared(Value::Geography(&encoded), SqlType::Geography, polygon);
    let arena = Bump::new();
    assert!(to_declared(Value::Geography(&encoded[1..]), &fixed(SqlType::Geography), &arena).is_err());
    assert!(to_declared(Value::Text("POINT(1)"), &fixed(SqlType::Point), &arena).is_err());
    refused(Value::Integer(1), SqlType::Point, "unable to convert BIGINT 1 to GEOGRAPHY_POINT");
}

#[test]
fn arrays_convert_by_element() {
    let arena = Bump::new();
    let elements = [Value::Text("1"), Value::Integer(2), Value::Null];
    let converted = to_declared_array(Value::Array(&elements), &fixed(SqlType::Integer), &arena).unwrap();
    assert!(matches!(converted, Value::Array([Value::Integer(1), Value::Integer(2), Value::Null])));
    assert!(to_declared_array(Value::Integer(1), &fixed(SqlType::Integer), &arena).is_err());
    refused(Value::Array(&elements), SqlType::Integer, "array given where INTEGER is declared");
}

#[test]
fn sizes_are_checked_with_the_captured_words() {
    let varchar = ColumnType { sql_type: SqlType::Varchar, length: 40, in_bytes: false };
    let text = "0123456789012345678901234567890123456789X";
    assert!(check_fits(&Value::Text(&text[..40]), &varchar, "NAME").is_ok());
    assert!(check_fits(&Value::Text(&"é".repeat(40)), &varchar, "NAME").is_ok());
    assert_eq!(
        check_fits(&Value::Text(text), &varchar, "NAME").unwrap_err().message(),
        format!("The size 41 of the value '{text}' exceeds the size of the VARCHAR(40) column 'NAME'")
    );
    let in_bytes = ColumnType { in_bytes: true, length: 3, ..varchar };
    assert!(check_fits(&Value::Text("éa"), &in_bytes, "N").is_ok());
    assert_eq!(
        check_fits(&Value::Text("éé"), &in_bytes, "N").unwrap_err().message(),
        "The size 4 of the value 'éé' exceeds the size of the VARCHAR(3 BYTES) column 'N'"
    );
    let varbinary = ColumnType { sql_type: SqlType::Varbinary, length: 2, in_bytes: false };
    assert!(check_fits(&Value::Bytes(&[1, 2]), &varbinary, "B").is_ok());
    assert_eq!(
        check_fits(&Value::Bytes(&[1, 2, 3]), &varbinary, "B").unwrap_err().message(),
        "The size 3 of the value exceeds the size of the VARBINARY(2) column 'B'"
    );
}

#[test]
fn widths_are_checked_at_and_past_their_ends() {
    for ty in [SqlType::Tinyint, SqlType::Smallint, SqlType::Integer, SqlType::Bigint] {
        let (least, greatest) = ty.integer_range().unwrap();
        for fitting in [least, 0, greatest] {
            assert!(check_fits(&Value::Integer(fitting), &fixed(ty), "C").is_ok());
        }
        assert!(check_fits(&Value::Integer(least - 1), &fixed(ty), "C").is_err());
        if let Some(above) = greatest.checked_add(1) {
            assert!(check_fits(&Value::Integer(above), &fixed(ty), "C").is_err());
        }
        assert!(check_fits(&Value::Null, &fixed(ty), "C").is_ok());
    }
    let error = check_fits(&Value::Integer(300), &fixed(SqlType::Tinyint), "TINY").unwrap_err();
    assert_eq!(error.message(), "The value 300 is out of range for the TINYINT column 'TINY'");
    assert_eq!(error.code(), "22003");
}

#[track_caller]
fn cast_to(value: Value<'_>, ty: SqlType, expected: Result<OwnedValue, &str>) {
    let arena = Bump::new();
    let result = cast(value, &fixed(ty), &arena).map(|value| value.to_owned_value());
    assert_eq!(result.as_ref().map_err(|error| error.message()), expected.as_ref().map_err(|message| *message));
}

#[test]
fn casts_between_numbers() {
    use SqlType::*;
    let invalid = Err("data exception: invalid character value for cast");
    cast_to(Value::Float(2.9), Integer, Ok(OwnedValue::Integer(2)));
    cast_to(Value::Float(-2.9), Integer, Ok(OwnedValue::Integer(-2)));
    cast_to(Value::Float(128.0), Tinyint, Err("data exception: 128.0 is out of range for TINYINT"));
    cast_to(Value::Float(1e19), Bigint, Err("data exception: 1.0E19 is out of range for BIGINT"));
    cast_to(
        Value::Float(-(2f64.powi(63))),
        Bigint,
        Err("data exception: -9.223372036854776E18 is out of range for BIGINT"),
    );
    cast_to(Value::Float(f64::NAN), Bigint, Err("data exception: NaN is out of range for BIGINT"));
    cast_to(Value::Decimal(decimal("-7.999")), Bigint, Ok(OwnedValue::Integer(-7)));
    cast_to(Value::Integer(300), Tinyint, Err("data exception: 300 is out of range for TINYINT"));
    cast_to(Value::Integer(-128), Tinyint, Err("data exception: -128 is out of range for TINYINT"));
    cast_to(Value::Text("abc"), Integer, invalid.clone());
    cast_to(Value::Text(" 12 "), Integer, Ok(OwnedValue::Integer(12)));
    cast_to(Value::Text("12.7"), Integer, Ok(OwnedValue::Integer(12)));
    cast_to(Value::Text("1e3"), Integer, Ok(OwnedValue::Integer(1_000)));
    cast_to(Value::Text(""), Integer, invalid.clone());
    cast_to(Value::Text("x"), Float, invalid.clone());
    cast_to(Value::Text("x"), Decimal, invalid.clone());
    cast_to(Value::Float(f64::INFINITY), Decimal, Err("data exception: Infinity is out of range for DECIMAL"));
    cast_to(Value::Integer(2), Decimal, Ok(OwnedValue::Decimal(decimal("2"))));
    cast_to(Value::Integer(2), Float, Ok(OwnedValue::Float(2.0)));
    cast_to(Value::Timestamp(7), Bigint, Ok(OwnedValue::Integer(7)));
    cast_to(Value::Bytes(&[1]), Bigint, Err("a VARBINARY value cannot be cast to BIGINT"));
}

#[test]
fn casts_of_text_and_time() {
    use SqlType::*;
    let text = |text: &str| Ok(OwnedValue::Text(text.into()));
    cast_to(Value::Integer(5), Varchar, text("5"));
    cast_to(Value::Timestamp(0), Varchar, text("1970-01-01 00:00:00.000000"));
    cast_to(Value::Text("1970-01-01 00:00:01"), Timestamp, Ok(OwnedValue::Timestamp(1_000_000)));
    cast_to(Value::Text("5"), Timestamp, Err("data exception: invalid datetime format"));
    cast_to(Value::Integer(5), Timestamp, Ok(OwnedValue::Timestamp(5)));
    cast_to(Value::Timestamp(86_400_000_001), Date, Ok(OwnedValue::Date((1970 << 16) | 0x102)));
    cast_to(Value::Date((1970 << 16) | 0x102), Timestamp, Ok(OwnedValue::Timestamp(86_400_000_000)));
    cast_to(Value::Text("00ff"), Varbinary, Ok(OwnedValue::Bytes([0, 255].into())));
    cast_to(Value::Null, Varbinary, Ok(OwnedValue::Null));
    let arena = Bump::new();
    let short = ColumnType { sql_type: Varchar, length: 3, in_bytes: false };
    assert!(cast(Value::Text("ééé"), &short, &arena).is_ok());
    assert!(cast(Value::Text("éééé"), &short, &arena).is_err());
    assert!(cast(Value::Integer(1_234), &short, &arena).is_err());
    assert!(cast(Value::Text("éé"), &ColumnType { in_bytes: true, ..short }, &arena).is_err());
}

#[test]
fn doubles_have_java_text_forms() {
    let arena = Bump::new();
    for (value, expected) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.25, "0.25"),
        (100.0, "100.0"),
        (1e7, "1.0E7"),
        (9_999_999.0, "9999999.0"),
        (1.5e10, "1.5E10"),
        (1e-3, "0.001"),
        (1e-4, "1.0E-4"),
        (-1.25e300, "-1.25E300"),
        (0.1 + 0.2, "0.30000000000000004"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        assert_eq!(to_text(Value::Float(value), &arena), expected);
    }
    assert_eq!(to_text(Value::Bytes(&[0, 0xff, 0x1a]), &arena), "00FF1A");
    assert_eq!(to_text(Value::Point(Point { longitude: 2.5, latitude: 48.5 }), &arena), "POINT (2.5 48.5)");
}
