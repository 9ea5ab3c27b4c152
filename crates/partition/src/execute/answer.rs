//! The results of a call as the protocol's tables, written as they come, and the tables' headers,
//! which are kept as bytes from call to call.

use ferrite_base::{UserResult, fault};
use ferrite_exec::ResultSink;
use ferrite_plan::{OutputColumn, Program};
use ferrite_value::Value;
use ferrite_wire::{OpenTable, ResponseWriter, TableHeader};
use std::sync::Arc;

/// More result shapes than this share the cache by replacing it.
pub(super) const CACHED_HEADERS_MAX: usize = 256;

/// The tables' headers as bytes, by where a program keeps the columns. Valid while those programs
/// live: emptied when the catalog changes, and not used for ad hoc programs.
#[derive(Default)]
pub(super) struct HeaderCache {
    pub(super) entries: Vec<(*const OutputColumn, TableHeader)>,
    /// Programs that may be dropped elsewhere while `entries` has columns of theirs: variants, and
    /// statements that a procedure makes up. At most one for each addition since both were emptied.
    programs: Vec<Arc<Program>>,
    /// How many were ever added.
    pub(super) additions: u64,
}

// SAFETY: the pointers are compared, never followed.
unsafe impl Send for HeaderCache {}

impl HeaderCache {
    /// Position of the header for `columns`.
    #[inline]
    pub(super) fn position(&mut self, columns: &[OutputColumn]) -> usize {
        let key = columns.as_ptr();
        match self.entries.iter().position(|(known, _)| *known == key) {
            Some(position) => position,
            None => {
                if self.entries.len() == CACHED_HEADERS_MAX {
                    self.clear();
                }
                self.entries.push((key, header_of(columns)));
                self.additions += 1;
                self.entries.len() - 1
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.programs.clear();
    }

    /// The program has run, and there were `additions` before: its columns stay where they are.
    pub(super) fn keep(&mut self, program: Arc<Program>, additions: u64) {
        if self.additions != additions {
            self.programs.push(program);
        }
    }
}

#[cold]
fn header_of(columns: &[OutputColumn]) -> TableHeader {
    TableHeader::new(columns.iter().map(|column| (column.name.as_str(), column.sql_type)))
}

/// Writes results as the protocol's tables.
pub(super) struct WireSink<'o, 'c> {
    pub(super) writer: ResponseWriter<'o>,
    pub(super) headers: &'c mut HeaderCache,
    open: Option<(OpenTable, usize)>,
}

impl<'o, 'c> WireSink<'o, 'c> {
    #[inline(always)]
    pub(super) fn new(writer: ResponseWriter<'o>, headers: &'c mut HeaderCache) -> WireSink<'o, 'c> {
        WireSink { writer, headers, open: None }
    }
}

impl ResultSink for WireSink<'_, '_> {
    #[inline]
    fn begin_table(&mut self, columns: &[OutputColumn]) {
        let position = self.headers.position(columns);
        let table = self.writer.table(&self.headers.entries[position].1).suspend();
        self.open = Some((table, position));
    }

    #[inline]
    fn row(&mut self, values: &[Value<'_>]) -> UserResult<()> {
        fault::point(fault::Point::Answer);
        let (table, position) = self.open.take().expect("rows come after their table was begun");
        let mut table = self.writer.resume_table(table, &self.headers.entries[position].1);
        table.row(values)?;
        self.open = Some((table.suspend(), position));
        Ok(())
    }

    #[inline]
    fn end_table(&mut self) {
        let (table, position) = self.open.take().expect("a table is ended once");
        self.writer.resume_table(table, &self.headers.entries[position].1).finish();
    }

    fn modified(&mut self, rows: u64) {
        self.writer.modified_tuples(rows as i64);
    }

    #[inline]
    fn status(&mut self, value: Option<i64>) {
        // NULL is the smallest integer on the wire.
        self.writer.scalar_table(value.unwrap_or(i64::MIN));
    }
}
