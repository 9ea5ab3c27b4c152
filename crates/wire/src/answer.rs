//! Responses as clients read them (wire-protocol section 5).

use crate::response::{APPLICATION_TEXT_PRESENT, CODE_FIELD, EXCEPTION_PRESENT, HASHES_PRESENT, STATUS_TEXT_PRESENT};
use crate::{DecodeError, OwnedTable, Reader, Status, Table};

/// A response, borrowed from its frame. All lengths have been checked; tables are parsed as they
/// are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The handle of the request, or one of [`crate::handles`].
    pub handle: i64,
    /// See [`Response::status`].
    pub status_code: i8,
    pub status_text: Option<&'a str>,
    /// -128 when the procedure set none.
    pub application_status: i8,
    pub application_status_text: Option<&'a str>,
    pub round_trip_ms: i32,
    /// The SQLSTATE of a failure. None in successes, and from servers that send none.
    pub code: Option<&'a str>,
    table_count: usize,
    tables: &'a [u8],
}

impl<'a> Response<'a> {
    /// Parses a frame's body.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Response<'a>, DecodeError> {
        let mut reader = Reader::new(body);
        let version = reader.i8()?;
        if version != 0 {
            return Err(DecodeError::UnknownLayout(version));
        }
        let handle = reader.i64()?;
        let fields = reader.i8()? as u8;
        let status_code = reader.i8()?;
        let status_text = optional_text(&mut reader, fields & STATUS_TEXT_PRESENT != 0)?;
        let application_status = reader.i8()?;
        let application_status_text = optional_text(&mut reader, fields & APPLICATION_TEXT_PRESENT != 0)?;
        let round_trip_ms = reader.i32()?;
        if fields & (EXCEPTION_PRESENT | HASHES_PRESENT) != 0 {
            skip_internal_fields(&mut reader, fields)?;
        }
        let table_count = reader.short_count(4)?;
        let tables = reader.rest();
        for _ in 0..table_count {
            reader.bytes()?;
        }
        let tables = &tables[..tables.len() - reader.len()];
        let code = if reader.is_empty() { None } else { code_behind_tables(&mut reader)? };
        Ok(Response {
            handle,
            status_code,
            status_text,
            application_status,
            application_status_text,
            round_trip_ms,
            code,
            table_count,
            tables,
        })
    }

    #[inline]
    pub fn is_success(&self) -> bool {
        self.status_code == Status::Success.code()
    }

    /// `None` for codes that this protocol version does not know.
    pub fn status(&self) -> Option<Status> {
        Status::from_code(self.status_code)
    }

    #[inline]
    pub fn table_count(&self) -> usize {
        self.table_count
    }

    /// The tables, in order.
    #[inline]
    pub fn tables(&self) -> impl Iterator<Item = Result<Table<'a>, DecodeError>> + use<'a> {
        let mut reader = Reader::new(self.tables);
        (0..self.table_count).map(move |_| Table::parse(reader.bytes()?))
    }

    /// The number in the first table, if that is what it holds: one row whose first column is an
    /// integer.
    #[inline]
    pub fn scalar(&self) -> Option<i64> {
        self.tables().next()?.ok()?.scalar()
    }

    /// A copy of its own.
    pub fn to_owned_response(&self) -> Result<OwnedResponse, DecodeError> {
        Ok(OwnedResponse {
            handle: self.handle,
            status_code: self.status_code,
            status_text: self.status_text.map(str::to_string),
            application_status: self.application_status,
            application_status_text: self.application_status_text.map(str::to_string),
            code: self.code.map(str::to_string),
            tables: self.tables().map(|table| table?.to_owned_table()).collect::<Result<_, _>>()?,
        })
    }
}

#[inline]
fn optional_text<'a>(reader: &mut Reader<'a>, present: bool) -> Result<Option<&'a str>, DecodeError> {
    if present { reader.nullable_string() } else { Ok(None) }
}

/// Exceptions and statement hashes, which servers keep among themselves.
#[cold]
fn skip_internal_fields(reader: &mut Reader<'_>, fields: u8) -> Result<(), DecodeError> {
    if fields & EXCEPTION_PRESENT != 0 {
        reader.nullable_bytes()?;
    }
    if fields & HASHES_PRESENT != 0 {
        let hashes = reader.short_count(4)?;
        reader.raw_bytes(hashes * 4)?;
    }
    Ok(())
}

/// The fields behind the tables (docs/decisions/0036): `i8 id, i8 length, bytes`.
#[cold]
fn code_behind_tables<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a str>, DecodeError> {
    let mut code = None;
    while !reader.is_empty() {
        let id = reader.i8()?;
        let length = usize::try_from(reader.i8()?).map_err(|_| DecodeError::NegativeLength)?;
        let bytes = reader.raw_bytes(length)?;
        if id == CODE_FIELD {
            code = Some(std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8)?);
        }
    }
    Ok(code)
}

/// A response that owns everything.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnedResponse {
    pub handle: i64,
    pub status_code: i8,
    pub status_text: Option<String>,
    pub application_status: i8,
    pub application_status_text: Option<String>,
    /// See [`Response::code`].
    pub code: Option<String>,
    pub tables: Vec<OwnedTable>,
}

impl OwnedResponse {
    pub fn is_success(&self) -> bool {
        self.status_code == Status::Success.code()
    }

    pub fn status(&self) -> Option<Status> {
        Status::from_code(self.status_code)
    }

    /// The number in the first table, if that is what it holds.
    pub fn scalar(&self) -> Option<i64> {
        self.tables.first()?.scalar()
    }
}
