//! Parameter sets (wire-protocol section 4): decoded lazily by the server, written by clients.

use crate::scalar::{self, CODE_ARRAY, CODE_NULL};
use crate::writer::Put;
use crate::{DecodeError, EncodeError, Reader};
use bumpalo::Bump;
use ferrite_value::{Decimal, OwnedValue, Point, SqlType, Value};

const CODE_TINYINT: i8 = SqlType::Tinyint as i8;

/// A parameter set as received: the count is known to be possible, the values are looked at only
/// when asked for.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    pub const EMPTY: Parameters<'static> = Parameters { count: 0, bytes: &[] };

    /// Takes the count from the front of `bytes`; the values are everything behind it.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Parameters<'a>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let count = reader.short_count(1)?;
        Ok(Parameters { count, bytes: reader.rest() })
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The encoded values, without the count.
    #[inline]
    pub fn value_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Appends the set as it came, count first, for [`Parameters::parse`] to read elsewhere.
    #[inline]
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        out.put_i16(self.count as i16);
        out.extend_from_slice(self.bytes);
    }

    /// All values, in order. Arrays go to `arena`; text and bytes stay borrowed. Bytes left over
    /// are an error.
    #[inline]
    pub fn decode<'b>(&self, arena: &'b Bump) -> Result<&'b [Value<'b>], DecodeError>
    where
        'a: 'b,
    {
        let mut reader = Reader::new(self.bytes);
        let values = arena.alloc_slice_try_fill_with(self.count, |_| read_parameter(&mut reader, arena))?;
        reader.expect_end()?;
        Ok(values)
    }

    /// One parameter, stepping over those before it: what routing needs. `None` when there are not
    /// this many. An array is an error: nothing is partitioned by one.
    #[inline]
    pub fn nth(&self, index: usize) -> Result<Option<Value<'a>>, DecodeError> {
        if index >= self.count {
            return Ok(None);
        }
        let mut reader = Reader::new(self.bytes);
        for _ in 0..index {
            skip_parameter(&mut reader)?;
        }
        match reader.i8()? {
            CODE_NULL => Ok(Some(Value::Null)),
            CODE_ARRAY => Err(DecodeError::ArrayNotAllowed),
            code => scalar::read(&mut reader, code).map(Some),
        }
    }

    /// The parameters one by one as they came, type codes included.
    pub fn encoded(&self) -> impl Iterator<Item = Result<&'a [u8], DecodeError>> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map(move |_| {
            let before = reader.rest();
            skip_parameter(&mut reader)?;
            Ok(&before[..before.len() - reader.len()])
        })
    }

    /// The set without its first parameter, which directed procedures carry only for routing
    /// (wire-protocol 3.4).
    pub fn without_first(&self) -> Result<Parameters<'a>, DecodeError> {
        let count = self.count.checked_sub(1).ok_or(DecodeError::Truncated)?;
        let mut reader = Reader::new(self.bytes);
        skip_parameter(&mut reader)?;
        Ok(Parameters { count, bytes: reader.rest() })
    }
}

#[inline]
fn read_parameter<'b>(reader: &mut Reader<'b>, arena: &'b Bump) -> Result<Value<'b>, DecodeError> {
    match reader.i8()? {
        // Most parameters of most calls; the general case is too large to be part of every loop.
        scalar::BIGINT => reader.i64().map(|x| scalar::integer(x, i64::MIN)),
        scalar::INTEGER => reader.i32().map(|x| scalar::integer(x.into(), i32::MIN.into())),
        CODE_NULL => Ok(Value::Null),
        CODE_ARRAY => read_array(reader, arena),
        code => scalar::read(reader, code),
    }
}

/// An array after its type code (wire-protocol 4.3).
#[cold]
fn read_array<'b>(reader: &mut Reader<'b>, arena: &'b Bump) -> Result<Value<'b>, DecodeError> {
    let (code, count) = array_header(reader)?;
    let elements = arena.alloc_slice_try_fill_with(count, |_| scalar::read(reader, code))?;
    Ok(Value::Array(elements))
}

fn skip_parameter(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    match reader.i8()? {
        CODE_NULL => Ok(()),
        CODE_ARRAY => {
            let (code, count) = array_header(reader)?;
            (0..count).try_for_each(|_| scalar::skip(reader, code))
        }
        code => scalar::skip(reader, code),
    }
}

/// Element type and count. The count is refused when this many elements cannot be there, so that no
/// allocation follows a peer's word.
fn array_header(reader: &mut Reader<'_>) -> Result<(i8, usize), DecodeError> {
    let code = reader.i8()?;
    let (bytes_each, _) = scalar::bytes_min(code)?;
    if reader.is_empty() {
        // The older Python client ends an empty array after the element type.
        return Ok((code, 0));
    }
    let count = if code == CODE_TINYINT { reader.count(bytes_each)? } else { reader.short_count(bytes_each)? };
    Ok((code, count))
}

// Writing, for clients.

/// Appends one parameter, type code included. Integers go as BIGINT, booleans as BOOLEAN, an array
/// by the type of its elements (empty: INTEGER).
pub fn write_value(out: &mut Vec<u8>, value: &Value<'_>) -> Result<(), EncodeError> {
    match (scalar::natural_type(value), value) {
        (Some(CODE_NULL), _) => out.put_i8(CODE_NULL),
        (Some(code), _) => {
            out.put_i8(code);
            write_payload(out, value);
        }
        (None, Value::Array(elements)) => return write_array(out, elements),
        (None, _) => unreachable!("only arrays have no type code of their own"),
    }
    Ok(())
}

/// The value without its type code. The integer that means null is written as it stands: the server
/// will read null.
fn write_payload(out: &mut Vec<u8>, value: &Value<'_>) {
    match *value {
        Value::Integer(x) | Value::Timestamp(x) => out.put_i64(x),
        Value::Boolean(x) => out.put_i8(x.into()),
        Value::Float(x) => out.put_f64(x),
        Value::Decimal(x) => out.put_i128(x.scaled()),
        Value::Date(x) => out.put_i32(x),
        Value::Text(x) => out.put_string(x),
        Value::Bytes(x) | Value::Geography(x) | Value::Table(x) => out.put_bytes(x),
        Value::Point(x) => {
            out.put_f64(x.longitude);
            out.put_f64(x.latitude);
        }
        Value::Null | Value::Array(_) => unreachable!("nulls and arrays have no payload of their own"),
    }
}

fn write_array(out: &mut Vec<u8>, elements: &[Value<'_>]) -> Result<(), EncodeError> {
    let count = i16::try_from(elements.len()).map_err(|_| EncodeError::TooMany)?;
    let element_code = match elements.iter().find(|element| !element.is_null()) {
        Some(element) => scalar::natural_type(element).ok_or(EncodeError::MixedArray)?,
        None if elements.is_empty() => SqlType::Integer.code(),
        None => return Err(EncodeError::MixedArray),
    };
    let null_type = SqlType::from_code(element_code);
    let fits = |element: &Value<'_>| match scalar::natural_type(element) {
        Some(CODE_NULL) => null_type.is_some(),
        code => code == Some(element_code),
    };
    if !elements.iter().all(fits) {
        return Err(EncodeError::MixedArray);
    }
    out.put_i8(CODE_ARRAY);
    out.put_i8(element_code);
    out.put_i16(count);
    for element in elements {
        match null_type {
            Some(sql_type) if element.is_null() => scalar::write_null(out, sql_type),
            _ => write_payload(out, element),
        }
    }
    Ok(())
}

/// Something a client can pass to a procedure. Rust integers keep their width; `Option` adds the
/// untyped null.
pub trait Parameter {
    /// Appends type code and value.
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError>;
}

macro_rules! fixed_size_parameter {
    ($($rust:ty, $sql:ident, $put:ident;)*) => {
        $(impl Parameter for $rust {
            #[inline]
            fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
                out.put_i8(SqlType::$sql as i8);
                out.$put(*self);
                Ok(())
            }
        })*
    };
}

fixed_size_parameter! {
    i8, Tinyint, put_i8;
    i16, Smallint, put_i16;
    i32, Integer, put_i32;
    i64, Bigint, put_i64;
    f64, Float, put_f64;
}

/// Goes as TINYINT 0 or 1, which every server knows.
impl Parameter for bool {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        i8::from(*self).write(out)
    }
}

impl Parameter for str {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.put_i8(SqlType::Varchar as i8);
        out.put_string(self);
        Ok(())
    }
}

impl Parameter for String {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.as_str().write(out)
    }
}

impl Parameter for [u8] {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.put_i8(SqlType::Varbinary as i8);
        out.put_bytes(self);
        Ok(())
    }
}

impl Parameter for Vec<u8> {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.as_slice().write(out)
    }
}

impl Parameter for Decimal {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        write_value(out, &Value::Decimal(*self))
    }
}

impl Parameter for Point {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        write_value(out, &Value::Point(*self))
    }
}

impl Parameter for Value<'_> {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        write_value(out, self)
    }
}

impl Parameter for OwnedValue {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        write_value(out, &self.as_value())
    }
}

impl<T: Parameter> Parameter for Option<T> {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Some(value) => value.write(out),
            None => {
                out.put_i8(CODE_NULL);
                Ok(())
            }
        }
    }
}

impl<T: Parameter + ?Sized> Parameter for &T {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        (**self).write(out)
    }
}

/// All parameters of a call: a tuple, a slice or a vector.
pub trait ParameterSet {
    /// Appends the count and the values.
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError>;
}

impl<T: Parameter> ParameterSet for [T] {
    #[inline]
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.put_i16(i16::try_from(self.len()).map_err(|_| EncodeError::TooMany)?);
        self.iter().try_for_each(|parameter| parameter.write(out))
    }
}

impl<T: Parameter, const N: usize> ParameterSet for [T; N] {
    #[inline]
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.as_slice().write_set(out)
    }
}

impl<T: Parameter> ParameterSet for Vec<T> {
    #[inline]
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.as_slice().write_set(out)
    }
}

impl<T: ParameterSet + ?Sized> ParameterSet for &T {
    #[inline]
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        (**self).write_set(out)
    }
}

/// A set received is passed on as it came.
impl ParameterSet for Parameters<'_> {
    #[inline]
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.copy_to(out);
        Ok(())
    }
}

impl ParameterSet for () {
    #[inline]
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.put_i16(0);
        Ok(())
    }
}

macro_rules! tuple_parameter_set {
    ($count:literal: $($name:ident . $index:tt),*) => {
        impl<$($name: Parameter),*> ParameterSet for ($($name,)*) {
            #[inline]
            fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
                out.put_i16($count);
                $(self.$index.write(out)?;)*
                Ok(())
            }
        }
    };
}

tuple_parameter_set!(1: A.0);
tuple_parameter_set!(2: A.0, B.1);
tuple_parameter_set!(3: A.0, B.1, C.2);
tuple_parameter_set!(4: A.0, B.1, C.2, D.3);
tuple_parameter_set!(5: A.0, B.1, C.2, D.3, E.4);
tuple_parameter_set!(6: A.0, B.1, C.2, D.3, E.4, F.5);
tuple_parameter_set!(7: A.0, B.1, C.2, D.3, E.4, F.5, G.6);
tuple_parameter_set!(8: A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7);
