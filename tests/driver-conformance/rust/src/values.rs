//! Values between the suite's text and the client.

use ferrite_client::{OwnedTable, OwnedValue, Parameter};
use ferrite_value::geography::Polygon;
use ferrite_value::temporal::{date_pack, date_unpack};
use ferrite_value::{Decimal, Point, SqlType, Value};
use ferrite_wire::EncodeError;
use std::fmt::Write as _;

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text grows"); // Lower case, as the suite does.
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).expect("the suite writes hex"))
        .collect()
}

fn text(hex: &str) -> String {
    String::from_utf8(bytes(hex)).expect("the suite writes UTF-8")
}

/// What a field of the suite asks to be sent; Err is the answer when the client has no such
/// parameter.
pub fn parameter(field: &str) -> Result<Box<dyn Parameter>, String> {
    let parts: Vec<&str> = field.split('=').collect();
    Ok(match parts.as_slice() {
        ["NULL"] => Box::new(None::<i64>),
        ["ARRAY", kind, values] => {
            let element = |value| if value == "-" { OwnedValue::Null } else { element(kind, &text(value)) };
            Box::new(Array(values.split(',').filter(|value| !value.is_empty()).map(element).collect()))
        }
        [kind, value] => scalar(kind, &text(value))?,
        _ => panic!("no parameter {field}"),
    })
}

/// An array of values of one kind.
struct Array(Vec<OwnedValue>);

impl Parameter for Array {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let values: Vec<Value<'_>> = self.0.iter().map(OwnedValue::as_value).collect();
        Value::Array(&values).write(out)
    }
}

fn element(kind: &str, value: &str) -> OwnedValue {
    match kind {
        "BIGINT" => OwnedValue::Integer(value.parse().expect("the suite writes numbers")),
        "TIMESTAMP" => OwnedValue::Timestamp(value.parse().expect("the suite writes numbers")),
        "FLOAT" => OwnedValue::Float(value.parse().expect("the suite writes numbers")),
        "DECIMAL" => OwnedValue::Decimal(Decimal::parse(value).expect("the suite writes decimals")),
        "STRING" => OwnedValue::Text(value.into()),
        "VARBINARY" => OwnedValue::Bytes(bytes(value).into()),
        other => panic!("no array of {other}"),
    }
}

fn scalar(kind: &str, value: &str) -> Result<Box<dyn Parameter>, String> {
    let number = || value.parse::<i64>().map_err(|error| format!("error\t0\t{}", hex(error.to_string().as_bytes())));
    let out_of_range = |_| format!("error\t0\t{}", hex(b"out of range"));
    Ok(match kind {
        "TINYINT" => Box::new(i8::try_from(number()?).map_err(out_of_range)?),
        "SMALLINT" => Box::new(i16::try_from(number()?).map_err(out_of_range)?),
        "INTEGER" => Box::new(i32::try_from(number()?).map_err(out_of_range)?),
        "BIGINT" => Box::new(number()?),
        "FLOAT" => Box::new(value.parse::<f64>().expect("the suite writes numbers")),
        "STRING" => Box::new(value.to_string()),
        "DECIMAL" => Box::new(
            Decimal::parse(value).map_err(|error| format!("error\t0\t{}", hex(format!("{error:?}").as_bytes())))?,
        ),
        "TIMESTAMP" => Box::new(OwnedValue::Timestamp(number()?)),
        "DATE" => {
            let parts: Vec<i32> = value.split('-').map(|part| part.parse().expect("the suite writes dates")).collect();
            Box::new(OwnedValue::Date(
                date_pack(parts[0], parts[1] as u8, parts[2] as u8).expect("the suite writes dates"),
            ))
        }
        "BOOLEAN" => Box::new(value == "true"),
        "VARBINARY" => Box::new(bytes(value)),
        "GEOGRAPHY_POINT" => {
            let (longitude, latitude) = value.split_once(' ').expect("the suite writes points");
            let degrees = |text: &str| text.parse().expect("the suite writes points");
            Box::new(Point { longitude: degrees(longitude), latitude: degrees(latitude) })
        }
        other => panic!("no parameter of type {other}"),
    })
}

pub fn table(table: &OwnedTable) -> String {
    let columns: Vec<String> =
        table.columns.iter().map(|(name, kind)| format!("{}:{}", hex(name.as_bytes()), type_name(*kind))).collect();
    table.rows.iter().fold(columns.join(","), |text, row| {
        let cells: Vec<String> = row.iter().map(cell).collect();
        format!("{text}|{}", cells.join(","))
    })
}

/// The suite calls VARCHAR a string, as the protocol does.
fn type_name(kind: SqlType) -> &'static str {
    if kind == SqlType::Varchar { "STRING" } else { kind.name() }
}

fn cell(value: &OwnedValue) -> String {
    let text = match value {
        OwnedValue::Null => return "-".to_string(),
        OwnedValue::Boolean(value) => value.to_string(),
        OwnedValue::Integer(value) | OwnedValue::Timestamp(value) => value.to_string(),
        OwnedValue::Float(value) => format!("{value:?}"),
        OwnedValue::Decimal(value) => value.to_string(),
        OwnedValue::Date(value) => {
            let (year, month, day) = date_unpack(*value);
            format!("{year:04}-{month:02}-{day:02}")
        }
        OwnedValue::Text(value) => value.to_string(),
        OwnedValue::Bytes(value) => hex(value),
        OwnedValue::Point(point) => format!("{} {}", point.longitude, point.latitude),
        OwnedValue::Geography(bytes) => {
            let polygon = Polygon::decode(bytes).expect("the server sends polygons");
            let point = |point: &Point| format!("{} {}", point.longitude, point.latitude);
            let ring = |ring: &Vec<Point>| ring.iter().map(point).collect::<Vec<_>>().join(",");
            polygon.rings.iter().map(ring).collect::<Vec<_>>().join(";")
        }
    };
    hex(text.as_bytes())
}
