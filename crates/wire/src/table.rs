//! Result tables as a server writes them (wire-protocol section 6): the header is prepared once per
//! statement, so that a result costs a copy of it and the cells.

use crate::scalar;
use crate::status::APPLICATION_STATUS_NOT_SET;
use crate::writer::Put;
use ferrite_base::limits::{ANSWER_ALWAYS_BYTES, ANSWER_SMALL_BYTES, MEMORY_ALWAYS_BYTES, RESULT_BYTES_MAX};
use ferrite_base::{UserError, UserResult, memory};
use ferrite_value::{SqlType, Value};

/// The status byte of result tables, unless a procedure sets one.
pub const STATUS_NOT_SET: i8 = APPLICATION_STATUS_NOT_SET;
/// The status byte of update counts, as the original server sends them. Some clients refuse any but
/// these two.
pub const STATUS_UPDATE_COUNT: i8 = 0;

/// Everything of a table that stands before its rows, as bytes, with its length and row count
/// still 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableHeader {
    types: Box<[SqlType]>,
    bytes: Box<[u8]>,
}

impl TableHeader {
    /// A header without a status.
    pub fn new<'n>(columns: impl IntoIterator<Item = (&'n str, SqlType)>) -> TableHeader {
        Self::with_status(STATUS_NOT_SET, columns)
    }

    pub fn with_status<'n>(status: i8, columns: impl IntoIterator<Item = (&'n str, SqlType)>) -> TableHeader {
        let (names, types): (Vec<&str>, Vec<SqlType>) = columns.into_iter().unzip();
        assert!(!types.is_empty(), "a table has at least one column");
        let column_count = i16::try_from(types.len()).expect("a statement has fewer columns than the count can say");
        let mut bytes = Vec::new();
        bytes.put_i32(0);
        bytes.put_i32(0);
        bytes.put_i8(status);
        bytes.put_i16(column_count);
        types.iter().for_each(|sql_type| bytes.put_i8(sql_type.code()));
        names.iter().for_each(|name| bytes.put_string(name));
        bytes.patch_length(4);
        bytes.put_i32(0);
        TableHeader { types: types.into(), bytes: bytes.into() }
    }

    #[inline]
    pub fn types(&self) -> &[SqlType] {
        &self.types
    }
}

/// Appends one table, row by row. [`TableWriter::finish`] makes it whole.
#[must_use = "a table is whole only when finished"]
#[derive(Debug)]
pub struct TableWriter<'o, 'h> {
    out: &'o mut Vec<u8>,
    header: &'h TableHeader,
    start: usize,
    rows: u32,
    /// What the result may have at most, for the error.
    bytes_max: usize,
    /// Where in `out` the result has become too long.
    end_max: usize,
    /// Where in `out` to look whether it may become longer.
    look_at: usize,
}

impl<'o, 'h> TableWriter<'o, 'h> {
    /// Begins a table at the end of `out`, with its `i32` length in front.
    #[inline]
    pub fn begin(out: &'o mut Vec<u8>, header: &'h TableHeader) -> TableWriter<'o, 'h> {
        let start = out.len();
        Self::begin_at(out, header, start, RESULT_BYTES_MAX)
    }

    /// In a result that begins at `result_start` and may have `bytes_max`.
    #[inline]
    pub(crate) fn begin_at(
        out: &'o mut Vec<u8>,
        header: &'h TableHeader,
        result_start: usize,
        bytes_max: usize,
    ) -> Self {
        let start = out.len();
        let end_max = result_start + bytes_max;
        out.extend_from_slice(&header.bytes);
        let look_at = end_max.min(start + ANSWER_ALWAYS_BYTES);
        TableWriter { out, header, start, rows: 0, bytes_max, end_max, look_at }
    }

    /// Appends a row: as many values as there are columns. After an error the table is of no use:
    /// the response is to be failed or rolled back to before it.
    #[inline]
    pub fn row(&mut self, values: &[Value<'_>]) -> UserResult<()> {
        let types = &self.header.types;
        assert_eq!(values.len(), types.len(), "a row has a value for each column");
        let at = self.out.len();
        self.out.put_i32(0);
        for (sql_type, value) in types.iter().zip(values) {
            scalar::write(self.out, *sql_type, value)?;
        }
        if self.out.len() > self.look_at {
            self.check_size()?;
        }
        self.out.patch_length(at);
        self.rows += 1;
        Ok(())
    }

    /// Whether the result may be so long, and the server has memory for it.
    #[cold]
    fn check_size(&mut self) -> UserResult<()> {
        if self.out.len() > self.end_max {
            return Err(result_too_large(self.bytes_max));
        }
        let bytes = self.out.len() - self.start;
        if bytes > MEMORY_ALWAYS_BYTES && !memory::has_room() {
            return Err(memory::refused("a result of that size"));
        }
        if !memory::takes_answer(bytes) {
            return Err(memory::refused_answer());
        }
        let later = [ANSWER_SMALL_BYTES, MEMORY_ALWAYS_BYTES].into_iter().find(|mark| bytes < *mark);
        self.look_at = self.end_max.min(later.map_or(self.out.len() + MEMORY_ALWAYS_BYTES, |mark| self.start + mark));
        Ok(())
    }

    #[inline]
    pub fn row_count(&self) -> u32 {
        self.rows
    }

    /// Lets go of the buffer between rows, for callers that cannot hold on to it.
    #[inline]
    pub fn suspend(self) -> OpenTable {
        let TableWriter { start, rows, bytes_max, end_max, look_at, .. } = self;
        OpenTable { start, rows, bytes_max, end_max, look_at }
    }

    /// Fills in length and row count.
    #[inline]
    pub fn finish(self) {
        let row_count_at = self.start + self.header.bytes.len() - 4;
        self.out.patch_i32(row_count_at, self.rows as i32);
        self.out.patch_length(self.start);
    }
}

/// A table that is being written, detached from its buffer.
#[derive(Clone, Copy, Debug)]
pub struct OpenTable {
    start: usize,
    rows: u32,
    bytes_max: usize,
    end_max: usize,
    look_at: usize,
}

impl OpenTable {
    /// Goes on writing. `out` and `header` must be those it was begun with.
    #[inline]
    pub fn resume<'o, 'h>(self, out: &'o mut Vec<u8>, header: &'h TableHeader) -> TableWriter<'o, 'h> {
        let OpenTable { start, rows, bytes_max, end_max, look_at } = self;
        TableWriter { out, header, start, rows, bytes_max, end_max, look_at }
    }
}

#[cold]
fn result_too_large(most: usize) -> UserError {
    UserError::limit(format!("the result is larger than {most} bytes (--limit result-bytes)"))
        .with_hint("add a LIMIT, or fetch the rows in several calls")
}

/// A one-column, one-row BIGINT table up to its value: table length, header length, status, one
/// column, BIGINT, the name, one row, row length 8.
macro_rules! single_bigint {
    ($name:ident, $name_bytes:literal, $status:expr) => {
        const $name: [u8; 4 + 4 + 1 + 2 + 1 + 4 + $name_bytes.len() + 4 + 4 + 8] = {
            const NAME: &[u8] = $name_bytes;
            const HEADER: usize = 1 + 2 + 1 + 4 + NAME.len();
            let mut pattern = [0u8; 4 + 4 + HEADER + 4 + 4 + 8];
            pattern[3] = (pattern.len() - 4) as u8;
            pattern[7] = HEADER as u8;
            pattern[8] = $status as u8;
            pattern[10] = 1;
            pattern[11] = SqlType::Bigint as u8;
            pattern[15] = NAME.len() as u8;
            let mut i = 0;
            while i < NAME.len() {
                pattern[16 + i] = NAME[i];
                i += 1;
            }
            pattern[16 + NAME.len() + 3] = 1;
            pattern[16 + NAME.len() + 7] = 8;
            pattern
        };
    };
}

single_bigint!(SCALAR, b"", STATUS_NOT_SET);
single_bigint!(MODIFIED_TUPLES, b"modified_tuples", STATUS_UPDATE_COUNT);
single_bigint!(STATUS, b"STATUS", STATUS_NOT_SET);

#[inline]
fn write_single<const N: usize>(out: &mut Vec<u8>, mut pattern: [u8; N], value: i64) {
    pattern[N - 8..].copy_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&pattern);
}

/// What a procedure returning a number returns: one row, one BIGINT column without a name.
#[inline]
pub fn write_scalar_table(out: &mut Vec<u8>, value: i64) {
    write_single(out, SCALAR, value);
}

/// What a statement that changes rows returns.
#[inline]
pub fn write_modified_tuples(out: &mut Vec<u8>, rows: i64) {
    write_single(out, MODIFIED_TUPLES, rows);
}

/// What DDL, `@Ping` and the like return: `STATUS`, normally 0.
#[inline]
pub fn write_status_table(out: &mut Vec<u8>, status: i64) {
    write_single(out, STATUS, status);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_patterns_are_what_the_writer_writes() {
        type Pattern = fn(&mut Vec<u8>, i64);
        let cases: [(Pattern, &str, i8); 3] = [
            (write_scalar_table, "", STATUS_NOT_SET),
            (write_modified_tuples, "modified_tuples", STATUS_UPDATE_COUNT),
            (write_status_table, "STATUS", STATUS_NOT_SET),
        ];
        for (pattern, name, status) in cases {
            let mut expected = Vec::new();
            let header = TableHeader::with_status(status, [(name, SqlType::Bigint)]);
            let mut table = TableWriter::begin(&mut expected, &header);
            table.row(&[Value::Integer(-7)]).unwrap();
            table.finish();
            let mut written = Vec::new();
            pattern(&mut written, -7);
            assert_eq!(written, expected, "{name}");
        }
    }

    #[test]
    fn a_result_at_the_limit_and_one_past_it() {
        let header = TableHeader::new([("X", SqlType::Varbinary)]);
        let header_bytes = header.bytes.len();
        let megabyte = vec![7u8; 1 << 20];
        for (past, fits) in [(0, true), (1, false)] {
            let mut out = Vec::with_capacity(RESULT_BYTES_MAX + 64);
            let mut table = TableWriter::begin(&mut out, &header);
            let mut left = RESULT_BYTES_MAX - header_bytes + past;
            while left > megabyte.len() + 8 {
                table.row(&[Value::Bytes(&megabyte[8..])]).unwrap();
                left -= megabyte.len();
            }
            let last = vec![7u8; left - 8];
            assert_eq!(table.row(&[Value::Bytes(&last)]).is_ok(), fits);
        }
    }
}
