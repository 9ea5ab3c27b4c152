//! One value by its type code: the layouts and in-band nulls of wire-protocol 4.1 and 4.2, which
//! parameters and table cells share.

use crate::writer::Put;
use crate::{DecodeError, Reader};
use ferrite_base::UserError;
use ferrite_value::{Decimal, Point, SqlType, Value};

/// Type codes that are not SQL types.
pub const CODE_NULL: i8 = 1;
pub const CODE_TABLE: i8 = 21;
pub const CODE_ARRAY: i8 = -99;

const TINYINT: i8 = SqlType::Tinyint as i8;
const SMALLINT: i8 = SqlType::Smallint as i8;
pub(crate) const INTEGER: i8 = SqlType::Integer as i8;
pub(crate) const BIGINT: i8 = SqlType::Bigint as i8;
const FLOAT: i8 = SqlType::Float as i8;
const VARCHAR: i8 = SqlType::Varchar as i8;
const TIMESTAMP: i8 = SqlType::Timestamp as i8;
const DATE: i8 = SqlType::Date as i8;
const DECIMAL: i8 = SqlType::Decimal as i8;
const BOOLEAN: i8 = SqlType::Boolean as i8;
const VARBINARY: i8 = SqlType::Varbinary as i8;
const POINT: i8 = SqlType::Point as i8;
const GEOGRAPHY: i8 = SqlType::Geography as i8;

/// Every double at or below this is null when read.
pub const NULL_FLOAT: f64 = -1.7E308;
const NULL_BOOLEAN: i8 = i8::MAX;
const NULL_DECIMAL: i128 = i128::MIN;
/// Both coordinates of the null point.
const NULL_COORDINATE: f64 = 360.0;

/// Reads one value of a scalar type or a table; not NULL (code 1) and not an array.
#[inline]
pub fn read<'a>(reader: &mut Reader<'a>, code: i8) -> Result<Value<'a>, DecodeError> {
    Ok(match code {
        TINYINT => integer(reader.i8()?.into(), i8::MIN.into()),
        SMALLINT => integer(reader.i16()?.into(), i16::MIN.into()),
        INTEGER => integer(reader.i32()?.into(), i32::MIN.into()),
        BIGINT => integer(reader.i64()?, i64::MIN),
        FLOAT => {
            let x = reader.f64()?;
            if x <= NULL_FLOAT { Value::Null } else { Value::Float(x) }
        }
        VARCHAR => reader.nullable_string()?.map_or(Value::Null, Value::Text),
        TIMESTAMP => match reader.i64()? {
            i64::MIN => Value::Null,
            microseconds => Value::Timestamp(microseconds),
        },
        DATE => match reader.i32()? {
            i32::MIN => Value::Null,
            date if is_calendar_date(date) => Value::Date(date),
            _ => return Err(DecodeError::BadValue),
        },
        DECIMAL => match reader.i128()? {
            NULL_DECIMAL => Value::Null,
            scaled => Value::Decimal(Decimal::from_scaled(scaled).ok_or(DecodeError::BadValue)?),
        },
        BOOLEAN => match reader.i8()? {
            0 => Value::Boolean(false),
            1 => Value::Boolean(true),
            NULL_BOOLEAN => Value::Null,
            _ => return Err(DecodeError::BadValue),
        },
        VARBINARY => reader.nullable_bytes()?.map_or(Value::Null, Value::Bytes),
        POINT => match (reader.f64()?, reader.f64()?) {
            (NULL_COORDINATE, NULL_COORDINATE) => Value::Null,
            (longitude, latitude) => Value::Point(Point { longitude, latitude }),
        },
        GEOGRAPHY => reader.nullable_bytes()?.map_or(Value::Null, Value::Geography),
        CODE_TABLE => Value::Table(reader.bytes()?),
        _ => return Err(DecodeError::UnknownType(code)),
    })
}

#[inline]
pub(crate) fn integer<'a>(x: i64, null: i64) -> Value<'a> {
    if x == null { Value::Null } else { Value::Integer(x) }
}

/// Steps over one value without looking into it.
#[inline]
pub fn skip(reader: &mut Reader<'_>, code: i8) -> Result<(), DecodeError> {
    match bytes_min(code)? {
        (size, true) => reader.raw_bytes(size)?,
        (_, false) => reader.nullable_bytes()?.unwrap_or_default(),
    };
    Ok(())
}

/// The fewest bytes a value of this type takes, and whether it always takes that many.
#[inline]
pub(crate) fn bytes_min(code: i8) -> Result<(usize, bool), DecodeError> {
    Ok(match code {
        TINYINT | BOOLEAN => (1, true),
        SMALLINT => (2, true),
        INTEGER | DATE => (4, true),
        BIGINT | FLOAT | TIMESTAMP => (8, true),
        DECIMAL | POINT => (16, true),
        VARCHAR | VARBINARY | GEOGRAPHY | CODE_TABLE => (4, false),
        _ => return Err(DecodeError::UnknownType(code)),
    })
}

/// The layout of wire-protocol 7.3, years of four digits.
fn is_calendar_date(date: i32) -> bool {
    let year = date >> 16;
    let month = (date >> 8) & 0xff;
    let day = date & 0xff;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (0..=9999).contains(&year) && (1..=days).contains(&day)
}

/// Writes the null of a type.
pub fn write_null(out: &mut Vec<u8>, sql_type: SqlType) {
    match sql_type {
        SqlType::Tinyint => out.put_i8(i8::MIN),
        SqlType::Smallint => out.put_i16(i16::MIN),
        SqlType::Integer | SqlType::Date => out.put_i32(i32::MIN),
        SqlType::Bigint | SqlType::Timestamp => out.put_i64(i64::MIN),
        SqlType::Float => out.put_f64(NULL_FLOAT),
        SqlType::Decimal => out.put_i128(NULL_DECIMAL),
        SqlType::Boolean => out.put_i8(NULL_BOOLEAN),
        SqlType::Varchar | SqlType::Varbinary | SqlType::Geography => out.put_i32(-1),
        SqlType::Point => {
            out.put_f64(NULL_COORDINATE);
            out.put_f64(NULL_COORDINATE);
        }
    }
}

/// Writes a value as a cell of a column of this type. The planner has seen to it that types agree
/// and integers fit; where one does not, that is a fault of ours and says so instead of sending a
/// wrong number. A TINYINT column takes booleans, because not every client knows BOOLEAN.
#[inline]
pub fn write(out: &mut Vec<u8>, sql_type: SqlType, value: &Value<'_>) -> Result<(), UserError> {
    match (sql_type, *value) {
        (SqlType::Bigint, Value::Integer(x)) if x != i64::MIN => out.put_i64(x),
        (SqlType::Varchar, Value::Text(x)) => out.put_string(x),
        (SqlType::Integer, Value::Integer(x)) if x > i32::MIN.into() && x <= i32::MAX.into() => out.put_i32(x as i32),
        (SqlType::Smallint, Value::Integer(x)) if x > i16::MIN.into() && x <= i16::MAX.into() => out.put_i16(x as i16),
        (SqlType::Tinyint, Value::Integer(x)) if x > i8::MIN.into() && x <= i8::MAX.into() => out.put_i8(x as i8),
        (_, Value::Null) => write_null(out, sql_type),
        (SqlType::Float, Value::Float(x)) => out.put_f64(x),
        (SqlType::Timestamp, Value::Timestamp(x)) if x != i64::MIN => out.put_i64(x),
        (SqlType::Decimal, Value::Decimal(x)) => out.put_i128(x.scaled()),
        (SqlType::Varbinary, Value::Bytes(x)) => out.put_bytes(x),
        (SqlType::Point, Value::Point(x)) => {
            out.put_f64(x.longitude);
            out.put_f64(x.latitude);
        }
        (SqlType::Geography, Value::Geography(x)) => out.put_bytes(x),
        (SqlType::Date, Value::Date(x)) => out.put_i32(x),
        (SqlType::Boolean | SqlType::Tinyint, Value::Boolean(x)) => out.put_i8(x.into()),
        _ => return Err(misfit(sql_type, value)),
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn misfit(sql_type: SqlType, value: &Value<'_>) -> UserError {
    UserError::internal(format!("a {} value does not fit a {sql_type} column of the result", value.kind_name()))
}

/// The type code and value of a scalar as a client sends it: integers as BIGINT. `None` for arrays.
pub(crate) fn natural_type(value: &Value<'_>) -> Option<i8> {
    Some(match value {
        Value::Null => CODE_NULL,
        Value::Boolean(_) => BOOLEAN,
        Value::Integer(_) => BIGINT,
        Value::Float(_) => FLOAT,
        Value::Decimal(_) => DECIMAL,
        Value::Timestamp(_) => TIMESTAMP,
        Value::Date(_) => DATE,
        Value::Text(_) => VARCHAR,
        Value::Bytes(_) => VARBINARY,
        Value::Point(_) => POINT,
        Value::Geography(_) => GEOGRAPHY,
        Value::Table(_) => CODE_TABLE,
        Value::Array(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_fit_their_column_or_are_refused() {
        let cases = [
            (SqlType::Tinyint, 127, -127),
            (SqlType::Smallint, 32_767, -32_767),
            (SqlType::Integer, i32::MAX.into(), -i64::from(i32::MAX)),
            (SqlType::Bigint, i64::MAX, -i64::MAX),
        ];
        for (sql_type, largest, smallest) in cases {
            for x in [largest, smallest, 0, -1] {
                let mut out = Vec::new();
                write(&mut out, sql_type, &Value::Integer(x)).unwrap();
                let read_back = read(&mut Reader::new(&out), sql_type.code()).unwrap();
                assert!(matches!(read_back, Value::Integer(y) if y == x), "{sql_type} {x}");
            }
            let one_past = [largest.wrapping_add(1), smallest.wrapping_sub(1)];
            for x in one_past {
                let mut out = Vec::new();
                assert!(write(&mut out, sql_type, &Value::Integer(x)).is_err(), "{sql_type} {x}");
                assert!(out.is_empty());
            }
        }
        assert!(write(&mut Vec::new(), SqlType::Varchar, &Value::Integer(1)).is_err());
    }

    #[test]
    fn nulls_of_every_type_come_back() {
        for sql_type in SqlType::ALL {
            let mut out = Vec::new();
            write(&mut out, sql_type, &Value::Null).unwrap();
            let mut reader = Reader::new(&out);
            assert!(read(&mut reader, sql_type.code()).unwrap().is_null(), "{sql_type}");
            assert!(reader.is_empty());
            let mut reader = Reader::new(&out);
            skip(&mut reader, sql_type.code()).unwrap();
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn both_null_doubles_and_everything_below() {
        for bits in [0xffee_42d1_3077_3b76_u64, 0xffef_ffff_ffff_ffff, f64::NEG_INFINITY.to_bits()] {
            assert!(read(&mut Reader::new(&bits.to_be_bytes()), FLOAT).unwrap().is_null());
        }
        let just_above = 0xffee_42d1_3077_3b75_u64.to_be_bytes();
        assert!(matches!(read(&mut Reader::new(&just_above), FLOAT), Ok(Value::Float(_))));
        let mut out = Vec::new();
        write_null(&mut out, SqlType::Float);
        assert_eq!(out, 0xffee_42d1_3077_3b76_u64.to_be_bytes());
    }

    #[test]
    fn dates_stand_in_the_calendar() {
        let date = |y: i32, m: i32, d: i32| is_calendar_date(y << 16 | m << 8 | d);
        assert!(date(2024, 2, 29) && date(2000, 2, 29) && date(1999, 12, 31));
        assert!(!date(2023, 2, 29) && !date(1900, 2, 29) && !date(2024, 13, 1) && !date(2024, 1, 0) && !date(-1, 1, 1));
    }
}
