//! Responses as a server writes them (wire-protocol section 5): appended in place to the batch's
//! output, and taken back to where they began when the call fails.

use crate::status::APPLICATION_STATUS_NOT_SET;
use crate::table::{self, OpenTable, TableHeader, TableWriter};
use crate::writer::Put;
use crate::{Status, failure};
use ferrite_base::limits::{ANSWER_ALWAYS_BYTES, FRAME_BYTES_MAX, RESULT_BYTES_MAX};
use ferrite_base::{UserError, UserResult, memory};

pub(crate) const STATUS_TEXT_PRESENT: u8 = 0x20;
pub(crate) const APPLICATION_TEXT_PRESENT: u8 = 0x80;
pub(crate) const EXCEPTION_PRESENT: u8 = 0x40;
pub(crate) const HASHES_PRESENT: u8 = 0x10;

/// A field behind the tables: the error's code. Such fields are `i8 id, i8 length, bytes`; readers
/// skip ids that they do not know. Only failures have them (docs/decisions/0036).
pub(crate) const CODE_FIELD: i8 = 1;

/// A response without texts and tables: length, version, handle, present-fields, status,
/// application status, round trip, number of tables.
const EMPTY_RESPONSE: [u8; 22] = {
    let mut pattern = [0u8; 22];
    pattern[14] = Status::Success as u8;
    pattern[15] = APPLICATION_STATUS_NOT_SET as u8;
    pattern
};

// Offsets from the start of the frame; those behind the status shift with the status text.
const HANDLE_AT: usize = 5;
const FIELDS_AT: usize = 13;
const STATUS_AT: usize = 14;
const APPLICATION_STATUS_AT: usize = 15;
const TABLES_AT: usize = 20;

/// One response being written. It is a success without texts and tables until told otherwise.
/// Either [`ResponseWriter::finish`] or [`ResponseWriter::fail`] makes the frame whole; dropped
/// without, it leaves no byte.
#[must_use = "a response is whole only when finished or failed"]
#[derive(Debug)]
pub struct ResponseWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    handle: i64,
    /// What it may have at most.
    bytes_max: usize,
    /// Bytes that the status text has put before the application status, its length field included.
    status_text_bytes: usize,
    /// The same for the application status text, which stands before the tables.
    application_text_bytes: usize,
    tables: u32,
    whole: bool,
}

/// A place to come back to within a response.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    length: usize,
    tables: u32,
    text_bytes: usize,
}

impl<'o> ResponseWriter<'o> {
    /// Begins a response at the end of `out`.
    #[inline]
    pub fn begin(out: &'o mut Vec<u8>, handle: i64) -> ResponseWriter<'o> {
        let start = out.len();
        let mut pattern = EMPTY_RESPONSE;
        pattern[HANDLE_AT..HANDLE_AT + 8].copy_from_slice(&handle.to_be_bytes());
        out.extend_from_slice(&pattern);
        ResponseWriter {
            out,
            start,
            handle,
            bytes_max: RESULT_BYTES_MAX,
            status_text_bytes: 0,
            application_text_bytes: 0,
            tables: 0,
            whole: false,
        }
    }

    /// With at most this many bytes; without this, [`RESULT_BYTES_MAX`].
    #[inline]
    pub fn within(mut self, bytes_max: usize) -> ResponseWriter<'o> {
        self.bytes_max = bytes_max;
        self
    }

    /// What it may have at most.
    #[inline]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Begins the next table. It counts from now on.
    #[inline]
    pub fn table<'t, 'h>(&'t mut self, header: &'h TableHeader) -> TableWriter<'t, 'h> {
        self.tables += 1;
        TableWriter::begin_at(self.out, header, self.start, self.bytes_max)
    }

    /// Goes on with a table that was suspended.
    #[inline]
    pub fn resume_table<'t, 'h>(&'t mut self, table: OpenTable, header: &'h TableHeader) -> TableWriter<'t, 'h> {
        table.resume(self.out, header)
    }

    /// A table of one row and one nameless BIGINT column: a procedure's returned number.
    #[inline]
    pub fn scalar_table(&mut self, value: i64) {
        self.tables += 1;
        table::write_scalar_table(self.out, value);
    }

    /// The result of a statement that changed this many rows.
    #[inline]
    pub fn modified_tuples(&mut self, rows: i64) {
        self.tables += 1;
        table::write_modified_tuples(self.out, rows);
    }

    /// The result of DDL, `@Ping` and the like.
    #[inline]
    pub fn status_table(&mut self, status: i64) {
        self.tables += 1;
        table::write_status_table(self.out, status);
    }

    /// A finished table, its `i32` length in front, made elsewhere with [`TableWriter`]. Refused
    /// when the response becomes too large.
    pub fn encoded_table(&mut self, table: &[u8]) -> UserResult<()> {
        if self.out.len() - self.start + table.len() > self.bytes_max {
            return Err(too_large(self.bytes_max));
        }
        if table.len() > ANSWER_ALWAYS_BYTES && !memory::takes_answer(table.len()) {
            return Err(memory::refused_answer());
        }
        self.granted_table(table);
        Ok(())
    }

    /// The same where there is room for it, as the caller knows.
    pub fn granted_table(&mut self, table: &[u8]) {
        self.tables += 1;
        self.out.extend_from_slice(table);
    }

    /// Tables begun so far.
    #[inline]
    pub fn table_count(&self) -> usize {
        self.tables as usize
    }

    /// For [`ResponseWriter::rollback`].
    #[inline]
    pub fn mark(&self) -> Mark {
        let text_bytes = self.status_text_bytes + self.application_text_bytes;
        Mark { length: self.out.len() - self.start, tables: self.tables, text_bytes }
    }

    /// Takes back the tables written since `mark`. Texts must not have been set in between.
    #[inline]
    pub fn rollback(&mut self, mark: Mark) {
        assert_eq!(mark.text_bytes, self.status_text_bytes + self.application_text_bytes, "texts move what is marked");
        self.out.truncate(self.start + mark.length);
        self.tables = mark.tables;
    }

    /// Anything but success; tables stay.
    #[inline]
    pub fn status(&mut self, status: Status) {
        self.out[self.start + STATUS_AT] = status.code() as u8;
    }

    /// A text for the status; normally left out on success.
    pub fn status_text(&mut self, text: &str) {
        let at = self.start + STATUS_AT + 1;
        self.status_text_bytes = self.replace_text(at, self.status_text_bytes, text, STATUS_TEXT_PRESENT);
    }

    /// The procedure's own status.
    #[inline]
    pub fn application_status(&mut self, status: i8) {
        let at = self.start + APPLICATION_STATUS_AT + self.status_text_bytes;
        self.out[at] = status as u8;
    }

    /// The procedure's own text for it.
    pub fn application_status_text(&mut self, text: &str) {
        let at = self.start + APPLICATION_STATUS_AT + self.status_text_bytes + 1;
        self.application_text_bytes =
            self.replace_text(at, self.application_text_bytes, text, APPLICATION_TEXT_PRESENT);
    }

    /// Milliseconds the call took within the cluster; 0 until set.
    pub fn round_trip_ms(&mut self, milliseconds: i32) {
        let texts = self.status_text_bytes + self.application_text_bytes;
        self.out.patch_i32(self.start + APPLICATION_STATUS_AT + 1 + texts, milliseconds);
    }

    /// Puts a text where it belongs, which moves everything behind it. Returns its size there.
    #[cold]
    fn replace_text(&mut self, at: usize, old_bytes: usize, text: &str, present: u8) -> usize {
        let length = (text.len() as u32).to_be_bytes();
        self.out.splice(at..at + old_bytes, length.into_iter().chain(text.bytes()));
        self.out[self.start + FIELDS_AT] |= present;
        4 + text.len()
    }

    /// Completes the frame. When it is larger than a frame may be, the response becomes a failure
    /// that says so.
    #[inline]
    pub fn finish(mut self) {
        let too_many = i16::try_from(self.tables).is_err();
        if too_many || self.out.len() - self.start - 4 > FRAME_BYTES_MAX {
            let most = self.bytes_max;
            return self.fail(&too_large(most));
        }
        let tables_at = self.start + TABLES_AT + self.status_text_bytes + self.application_text_bytes;
        self.out.patch_i16(tables_at, self.tables as i16);
        self.out.patch_length(self.start);
        self.whole = true;
        debug_assert!(crate::Response::parse(&self.out[self.start + 4..]).is_ok());
    }

    /// Completes the frame of a call that ended as it wanted to, but not in success: texts and
    /// tables stay.
    #[cold]
    pub fn finish_as(mut self, status: Status, code: &str) {
        self.status(status);
        let start = self.start;
        let fits = self.out.len() - start + FIELD_BYTES_MAX <= FRAME_BYTES_MAX && i16::try_from(self.tables).is_ok();
        if !fits {
            let most = self.bytes_max;
            return self.fail(&too_large(most));
        }
        let tables_at = start + TABLES_AT + self.status_text_bytes + self.application_text_bytes;
        self.out.patch_i16(tables_at, self.tables as i16);
        put_code(self.out, code);
        self.out.patch_length(start);
        self.whole = true;
        debug_assert!(crate::Response::parse(&self.out[start + 4..]).is_ok());
    }

    /// Takes everything back and answers with the error instead. An application status already set
    /// stays.
    #[cold]
    pub fn fail(mut self, error: &UserError) {
        let application_status = self.out[self.start + APPLICATION_STATUS_AT + self.status_text_bytes];
        self.out.truncate(self.start);
        write_error(self.out, self.handle, error);
        let length = u32::from_be_bytes(self.out[self.start + 15..self.start + 19].try_into().expect("four bytes"));
        self.out[self.start + 19 + length as usize] = application_status;
        self.whole = true;
    }
}

impl Drop for ResponseWriter<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.whole {
            self.out.truncate(self.start);
        }
    }
}

#[cold]
fn too_large(most: usize) -> UserError {
    UserError::limit(format!(
        "the result is larger than {most} bytes (--limit result-bytes) or has more than 32767 tables"
    ))
    .with_hint("add a LIMIT, or fetch the rows in several calls")
}

/// Texts longer than this are cut: they may quote a statement, but must not fill frames.
const TEXT_BYTES_MAX: usize = 65_536;

/// A field behind the tables takes at most this.
const FIELD_BYTES_MAX: usize = 2 + i8::MAX as usize;

fn put_code(out: &mut Vec<u8>, code: &str) {
    debug_assert!(ferrite_base::error::is_code(code), "{code} is a SQLSTATE");
    let code = &code.as_bytes()[..code.len().min(i8::MAX as usize)];
    out.put_i8(CODE_FIELD);
    out.put_i8(code.len() as i8);
    out.extend_from_slice(code);
}

/// Appends a whole response that says how a call failed, without tables.
#[cold]
pub fn write_failure(out: &mut Vec<u8>, handle: i64, status: Status, code: &str, text: &str) {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    let start = out.len();
    out.put_i32(0);
    out.put_i8(0);
    out.put_i64(handle);
    out.put_i8(STATUS_TEXT_PRESENT as i8);
    out.put_i8(status.code());
    out.put_string(text);
    out.put_i8(APPLICATION_STATUS_NOT_SET);
    out.put_i32(0);
    out.put_i16(0);
    put_code(out, code);
    out.patch_length(start);
}

/// Appends a whole response for a user error.
#[cold]
pub fn write_error(out: &mut Vec<u8>, handle: i64, error: &UserError) {
    write_failure(out, handle, failure::status(error.kind()), error.code(), &failure::text(error));
}

/// Appends a whole success response with one number: the answer of Voter's `Vote`.
#[inline]
pub fn write_scalar(out: &mut Vec<u8>, handle: i64, value: i64) {
    let mut response = ResponseWriter::begin(out, handle);
    response.scalar_table(value);
    response.finish();
}

/// Appends the whole answer to `@Ping` (wire-protocol section 8).
pub fn write_pong(out: &mut Vec<u8>, handle: i64) {
    let mut response = ResponseWriter::begin(out, handle);
    response.status_text("SUCCESS");
    response.status_table(0);
    response.finish();
}
