//! One SQL value, borrowed ([`Value`], what execution moves around) or owned ([`OwnedValue`], what
//! plans and catalogs keep).

use crate::{Decimal, SqlType};
use bumpalo::Bump;

/// A point on the earth, degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    pub longitude: f64,
    pub latitude: f64,
}

/// A value, 24 bytes, copied freely. Text and bytes are borrowed from a page, a message, a plan or
/// the transaction's arena. All integer widths are one variant: the width belongs to columns and
/// plans, not to values.
///
/// The kind has a word of its own, so that a value is copied as three words. With a kind of one
/// byte, compilers copy the seven bytes behind it in pieces, and who reads them as one word waits
/// until all are written.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Value<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Decimal(Decimal),
    /// Microseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// year * 65536 + month * 256 + day (wire-protocol 7.3); orders like the date.
    Date(i32),
    Text(&'a str),
    Bytes(&'a [u8]),
    Point(Point),
    /// Encoded polygon (wire-protocol 7.5).
    Geography(&'a [u8]),
    /// A parameter of array type, for `IN ?` and bulk procedures. Never stored in a row.
    Array(&'a [Value<'a>]),
    /// A parameter of type VOLTTABLE: the table's bytes as received, length prefix excluded. Never
    /// stored in a row.
    Table(&'a [u8]),
}

const _: () = assert!(size_of::<Value<'_>>() == 24 && size_of::<Result<Value<'_>, ferrite_base::UserError>>() == 24);

impl<'a> Value<'a> {
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The type that it is of by itself. None: NULL, and what is no single value.
    pub fn sql_type(&self) -> Option<SqlType> {
        Some(match self {
            Value::Null | Value::Array(_) | Value::Table(_) => return None,
            Value::Boolean(_) => SqlType::Boolean,
            Value::Integer(_) => SqlType::Bigint,
            Value::Float(_) => SqlType::Float,
            Value::Decimal(_) => SqlType::Decimal,
            Value::Timestamp(_) => SqlType::Timestamp,
            Value::Date(_) => SqlType::Date,
            Value::Text(_) => SqlType::Varchar,
            Value::Bytes(_) => SqlType::Varbinary,
            Value::Point(_) => SqlType::Point,
            Value::Geography(_) => SqlType::Geography,
        })
    }

    /// The same value with its text or bytes copied to `arena`.
    #[inline]
    pub fn copied_to<'b>(&self, arena: &'b Bump) -> Value<'b> {
        match *self {
            Value::Null => Value::Null,
            Value::Boolean(x) => Value::Boolean(x),
            Value::Integer(x) => Value::Integer(x),
            Value::Float(x) => Value::Float(x),
            Value::Decimal(x) => Value::Decimal(x),
            Value::Timestamp(x) => Value::Timestamp(x),
            Value::Date(x) => Value::Date(x),
            Value::Text(x) => Value::Text(arena.alloc_str(x)),
            Value::Bytes(x) => Value::Bytes(arena.alloc_slice_copy(x)),
            Value::Point(x) => Value::Point(x),
            Value::Geography(x) => Value::Geography(arena.alloc_slice_copy(x)),
            Value::Array(x) => Value::Array(arena.alloc_slice_fill_iter(x.iter().map(|v| v.copied_to(arena)))),
            Value::Table(x) => Value::Table(arena.alloc_slice_copy(x)),
        }
    }

    /// Bytes that are not in the value itself: of a text or the like.
    #[inline]
    pub fn bytes_apart(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) | Value::Geography(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// An owned copy. Arrays and tables are parameters only and have none.
    pub fn to_owned_value(&self) -> OwnedValue {
        match *self {
            Value::Null => OwnedValue::Null,
            Value::Boolean(x) => OwnedValue::Boolean(x),
            Value::Integer(x) => OwnedValue::Integer(x),
            Value::Float(x) => OwnedValue::Float(x),
            Value::Decimal(x) => OwnedValue::Decimal(x),
            Value::Timestamp(x) => OwnedValue::Timestamp(x),
            Value::Date(x) => OwnedValue::Date(x),
            Value::Text(x) => OwnedValue::Text(x.into()),
            Value::Bytes(x) => OwnedValue::Bytes(x.into()),
            Value::Point(x) => OwnedValue::Point(x),
            Value::Geography(x) => OwnedValue::Geography(x.into()),
            Value::Array(_) | Value::Table(_) => unreachable!("array and table parameters are never stored"),
        }
    }

    /// Word for messages: `BIGINT`, `VARCHAR`, ...
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Boolean(_) => "BOOLEAN",
            Value::Integer(_) => "BIGINT",
            Value::Float(_) => "FLOAT",
            Value::Decimal(_) => "DECIMAL",
            Value::Timestamp(_) => "TIMESTAMP",
            Value::Date(_) => "DATE",
            Value::Text(_) => "VARCHAR",
            Value::Bytes(_) => "VARBINARY",
            Value::Point(_) => "GEOGRAPHY_POINT",
            Value::Geography(_) => "GEOGRAPHY",
            Value::Array(_) => "array",
            Value::Table(_) => "table",
        }
    }
}

/// A value that owns its text or bytes.
#[derive(Clone, PartialEq, Debug)]
pub enum OwnedValue {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Decimal(Decimal),
    Timestamp(i64),
    Date(i32),
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Point(Point),
    Geography(Box<[u8]>),
}

impl OwnedValue {
    #[inline]
    pub fn as_value(&self) -> Value<'_> {
        match self {
            OwnedValue::Null => Value::Null,
            OwnedValue::Boolean(x) => Value::Boolean(*x),
            OwnedValue::Integer(x) => Value::Integer(*x),
            OwnedValue::Float(x) => Value::Float(*x),
            OwnedValue::Decimal(x) => Value::Decimal(*x),
            OwnedValue::Timestamp(x) => Value::Timestamp(*x),
            OwnedValue::Date(x) => Value::Date(*x),
            OwnedValue::Text(x) => Value::Text(x),
            OwnedValue::Bytes(x) => Value::Bytes(x),
            OwnedValue::Point(x) => Value::Point(*x),
            OwnedValue::Geography(x) => Value::Geography(x),
        }
    }
}
