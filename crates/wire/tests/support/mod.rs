//! Reads the golden vectors and compares decoded values with what the vectors say they are.
#![allow(dead_code, reason = "each test file uses its part")]

use ferrite_value::{SqlType, Value};
use ferrite_wire::Table;
use serde_json::Value as Json;

/// Captured from, or accepted by, the existing clients (wire-protocol section 15).
pub fn vectors(member: &str) -> Vec<Json> {
    read(include_str!("../data/vectors.json"), member)
}

/// Whole frames that a real server of the original exchanged.
pub fn captures() -> Vec<Json> {
    read(include_str!("../data/captures.json"), "raw")
}

fn read(text: &str, member: &str) -> Vec<Json> {
    let json: Json = serde_json::from_str(text).expect("the data file is JSON");
    json[member].as_array().unwrap_or_else(|| panic!("no member {member}")).clone()
}

pub fn text<'j>(json: &'j Json, member: &str) -> &'j str {
    json[member].as_str().unwrap_or_else(|| panic!("{member} of {json} is no string"))
}

pub fn hex(json: &Json, member: &str) -> Vec<u8> {
    from_hex(text(json, member))
}

pub fn from_hex(digits: &str) -> Vec<u8> {
    assert_eq!(digits.len() % 2, 0);
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hexadecimal")).collect()
}

/// The body of a frame that fills `frame` exactly.
pub fn body(frame: &[u8]) -> &[u8] {
    let (consumed, body) = ferrite_wire::frame::split(frame).expect("a good length").expect("a complete frame");
    assert_eq!(consumed, frame.len());
    body
}

/// 64-bit integers are strings in the vectors.
pub fn integer(json: &Json) -> i64 {
    match json {
        Json::String(digits) => digits.parse().expect("an integer"),
        number => number.as_i64().expect("an integer"),
    }
}

pub fn sql_type(name: &str) -> Option<SqlType> {
    let name = if name == "STRING" { "VARCHAR" } else { name };
    SqlType::ALL.into_iter().find(|sql_type| sql_type.name() == name)
}

/// Asserts that a decoded value is the one that the vector describes.
pub fn assert_value(actual: &Value<'_>, expected: &Json, context: &str) {
    let agrees = match (actual, expected) {
        (Value::Null, Json::Null) => true,
        (Value::Integer(x) | Value::Timestamp(x), Json::String(_) | Json::Number(_)) => *x == integer(expected),
        // The JSON reader may be off by the last bit; the exact bits are compared when values are
        // encoded back.
        (Value::Float(x), Json::Number(y)) => y.as_f64().is_some_and(|y| (x - y).abs() <= y.abs() * 2.0 * f64::EPSILON),
        (Value::Text(x), Json::String(y)) => x == y,
        (Value::Boolean(x), Json::Bool(y)) => x == y,
        (Value::Decimal(x), Json::String(y)) => x.scaled() == scaled(y),
        (Value::Date(x), Json::String(y)) => format!("{:04}-{:02}-{:02}", x >> 16, x >> 8 & 0xff, x & 0xff) == *y,
        (Value::Bytes(x) | Value::Geography(x), Json::Object(_)) => *x == hex(expected, "hex"),
        (Value::Point(x), Json::Object(_)) => {
            Some(x.longitude) == expected["lng"].as_f64() && Some(x.latitude) == expected["lat"].as_f64()
        }
        (Value::Array(x), Json::Array(y)) => {
            assert_eq!(x.len(), y.len(), "{context}");
            x.iter().zip(y).for_each(|(x, y)| assert_value(x, y, context));
            true
        }
        (Value::Table(x), Json::Object(_)) => {
            assert_table(&Table::parse(x).expect(context), expected, context);
            true
        }
        _ => false,
    };
    assert!(agrees, "{context}: decoded {actual:?}, expected {expected}");
}

fn scaled(decimal: &str) -> i128 {
    let (whole, fraction) = decimal.split_once('.').expect("twelve decimals");
    assert_eq!(fraction.len(), 12);
    format!("{whole}{fraction}").parse().expect("digits")
}

pub fn assert_table(actual: &Table<'_>, expected: &Json, context: &str) {
    actual.check().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(i64::from(actual.status()), integer(&expected["status"]), "{context}");
    let columns = expected["columns"].as_array().expect("columns");
    assert_eq!(actual.columns().len(), columns.len(), "{context}");
    for ((name, actual_type), column) in actual.columns().zip(columns) {
        assert_eq!(name, text(column, "name"), "{context}");
        assert_eq!(Some(actual_type), sql_type(text(column, "type")), "{context}");
    }
    let rows = expected["rows"].as_array().expect("rows");
    assert_eq!(actual.row_count(), rows.len(), "{context}");
    for (row, expected_row) in actual.rows().zip(rows) {
        let (row, expected_row) = (row.expect(context), expected_row.as_array().expect("a row"));
        assert_eq!(row.cells().count(), expected_row.len(), "{context}");
        for (i, (cell, expected_cell)) in row.cells().zip(expected_row).enumerate() {
            assert_value(&cell.expect(context), expected_cell, context);
            assert_value(&row.get(i).expect(context).expect(context), expected_cell, context);
        }
        assert!(row.get(expected_row.len()).expect(context).is_none());
    }
}
