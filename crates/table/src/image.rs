//! A table's rows as bytes for snapshots on disk, and back (docs/format/snapshot.md, "Rows file").
//!
//! Writing copies; reading trusts nothing. Knows neither blocks nor files.

use crate::layout::RowLayout;
use crate::long_values::{Handle, LongValues};
use crate::row::RowStore;
use crate::table::{InsertError, TableData};
use crate::tags::Unknown;
use crate::undo::UndoLog;
use bumpalo::Bump;
use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::limits::VALUE_BYTES_MAX;
use ferrite_base::{RowId, UserError};
use ferrite_catalog::{Table, TableKind};
use ferrite_value::{ColumnType, Value};
use std::fmt;

const RUN_HEAD_BYTES: usize = 8;

/// How a column is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredColumn {
    pub storage: u8,
    pub nullable: bool,
    /// In the row.
    pub bytes: u16,
}

/// What a snapshot says of a table before its rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    pub is_view: bool,
    pub row_bytes: u32,
    /// Page numbers given out, with rows or without.
    pub pages: u32,
    pub rows: u64,
    /// As stored: with the hidden columns of a view.
    pub columns: Vec<StoredColumn>,
    pub name: String,
}

/// Why rows could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImageError {
    /// The bytes end within a run.
    UnexpectedEnd,
    /// A run that does not follow the one before it, or does not fit where it says.
    Place { row: RowId },
    /// Bytes that are not a value of their column.
    Value { row: RowId, column: u16 },
    /// The catalog has no such table, or has it otherwise.
    Shape(String),
    /// The rows break a rule of the table.
    Refused(UserError),
}

impl From<ReadFault> for ImageError {
    /// Only bytes and numbers are read, of which any is one.
    fn from(_: ReadFault) -> ImageError {
        ImageError::UnexpectedEnd
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::UnexpectedEnd => f.write_str("it ends within a run of rows"),
            ImageError::Place { row } => write!(f, "the run that begins with row {row} does not fit there"),
            ImageError::Value { row, column } => write!(f, "column {column} of row {row} cannot hold what is there"),
            ImageError::Shape(text) => f.write_str(text),
            ImageError::Refused(error) => write!(f, "its rows break a rule: {error}"),
        }
    }
}

impl std::error::Error for ImageError {}

fn stored_columns(layout: &RowLayout) -> Vec<StoredColumn> {
    let column = |column: &crate::layout::ColumnLayout| StoredColumn {
        storage: column.storage as u8,
        nullable: column.nullable(),
        bytes: column.bytes(),
    };
    layout.columns.iter().map(column).collect()
}

impl TableData {
    /// What a snapshot says of the table before its rows; none of a stream, which has no rows.
    pub fn shape(&self) -> Option<Shape> {
        if self.is_stream() {
            return None;
        }
        Some(Shape {
            is_view: self.definition().kind == TableKind::View,
            row_bytes: self.layout().row_bytes as u32,
            pages: self.contents.rows.pages.page_count() as u32,
            rows: self.row_count(),
            columns: stored_columns(self.layout()),
            name: self.definition().name.clone(),
        })
    }

    /// Gives the rows from row id `next` on to `put`, as runs, and moves `next` behind them. Ends
    /// when `room` bytes are given, or one row if that has more. The number of rows; none when
    /// there are no more.
    pub fn write_runs(&self, next: &mut u64, mut room: usize, put: &mut impl FnMut(&[u8])) -> u32 {
        let RowStore { layout, pages, longs } = &self.contents.rows;
        let mut written = 0;
        while let Some((first, rows)) = pages.next_run(*next) {
            let row_bytes = layout.row_bytes;
            let there = rows.len() / row_bytes;
            let (count, bytes) = if layout.long_columns.is_empty() {
                let count = there.min(room.saturating_sub(RUN_HEAD_BYTES) / row_bytes);
                (count, RUN_HEAD_BYTES + count * row_bytes)
            } else {
                rows_that_fit(layout, longs, rows, room)
            };
            let (count, bytes) = if count == 0 && written == 0 { (1, room) } else { (count, bytes) };
            if count == 0 {
                break;
            }
            put(&first.0.to_le_bytes());
            put(&(count as u32).to_le_bytes());
            write_rows(layout, longs, &rows[..count * row_bytes], put);
            written += count as u32;
            *next = first.0 as u64 + count as u64;
            room = room.saturating_sub(bytes);
            if room == 0 {
                break;
            }
        }
        written
    }
}

/// As many of `rows` as have room in one run, and the run's bytes.
fn rows_that_fit(layout: &RowLayout, longs: &LongValues, rows: &[u8], room: usize) -> (usize, usize) {
    let mut count = 0;
    let mut bytes = RUN_HEAD_BYTES;
    for row in rows.chunks_exact(layout.row_bytes) {
        let long: usize =
            layout.long_columns.iter().map(|column| 4 + long_contents(layout, longs, row, *column).len()).sum();
        if bytes + row.len() + long > room {
            break;
        }
        count += 1;
        bytes += row.len() + long;
    }
    (count, bytes)
}

fn long_contents<'s>(layout: &RowLayout, longs: &'s LongValues, row: &'s [u8], column: u16) -> &'s [u8] {
    let column = &layout.columns[column as usize];
    match column.read(row, longs) {
        Value::Text(text) => text.as_bytes(),
        Value::Bytes(bytes) | Value::Geography(bytes) => bytes,
        _ => &[],
    }
}

fn write_rows(layout: &RowLayout, longs: &LongValues, rows: &[u8], put: &mut impl FnMut(&[u8])) {
    if layout.long_columns.is_empty() {
        return put(rows);
    }
    let mut copy = rows.to_vec();
    for row in copy.chunks_exact_mut(layout.row_bytes) {
        for column in &layout.long_columns {
            layout.columns[*column as usize].set_handle(row, Handle([0; 8]));
        }
    }
    put(&copy);
    for row in rows.chunks_exact(layout.row_bytes) {
        for column in &layout.long_columns {
            let contents = long_contents(layout, longs, row, *column);
            put(&(contents.len() as u32).to_le_bytes());
            put(contents);
        }
    }
}

/// A run taken off the bytes of a block of rows, but for its long values.
fn take_run<'b>(layout: &RowLayout, bytes: &mut Reader<'b, ImageError>) -> Result<(RowId, &'b [u8]), ImageError> {
    let first = RowId(bytes.u32()?);
    let count = bytes.u32()? as usize;
    if count == 0 || first.0.checked_add(count as u32 - 1).is_none() {
        return Err(ImageError::Place { row: first });
    }
    let rows = bytes.bytes(count.checked_mul(layout.row_bytes).ok_or(ImageError::UnexpectedEnd)?)?;
    for (number, row) in rows.chunks_exact(layout.row_bytes).enumerate() {
        if let Some(column) = layout.misfit(row) {
            return Err(ImageError::Value { row: RowId(first.0 + number as u32), column });
        }
    }
    Ok((first, rows))
}

/// A long value taken off the bytes behind a run.
fn take_long<'b>(
    layout: &RowLayout,
    bytes: &mut Reader<'b, ImageError>,
    row: &[u8],
    id: RowId,
    column: u16,
) -> Result<&'b [u8], ImageError> {
    let length = bytes.u32()? as usize;
    let contents = bytes.bytes(length)?;
    let place = &layout.columns[column as usize];
    let text = place.storage == crate::layout::Storage::LongText;
    if length > VALUE_BYTES_MAX
        || (length > 0 && place.is_null(row))
        || (text && std::str::from_utf8(contents).is_err())
    {
        return Err(ImageError::Value { row: id, column });
    }
    Ok(contents)
}

impl TableData {
    /// Is a table of this shape what is stored here?
    pub(crate) fn has_shape(&self, shape: &Shape) -> bool {
        self.shape().is_some_and(|own| {
            (own.is_view, own.row_bytes, own.columns) == (shape.is_view, shape.row_bytes, shape.columns.clone())
        })
    }

    /// Puts the rows of a block where they were. All are behind `next`, which is moved behind the
    /// last. The number of rows.
    pub(crate) fn load_runs(&mut self, next: &mut u64, bytes: &[u8]) -> Result<u64, ImageError> {
        let mut bytes = Reader::<ImageError>::new(bytes);
        let RowStore { layout, pages, longs } = &mut self.contents.rows;
        let mut loaded = 0;
        while !bytes.is_empty() {
            let (first, rows) = take_run(layout, &mut bytes)?;
            let count = (rows.len() / layout.row_bytes) as u64;
            if u64::from(first.0) < *next {
                return Err(ImageError::Place { row: first });
            }
            let place = pages.restore_run(first, rows).ok_or(ImageError::Place { row: first })?;
            for (number, row) in place.chunks_exact_mut(layout.row_bytes).enumerate() {
                for column in &layout.long_columns {
                    let id = RowId(first.0 + number as u32);
                    let contents = take_long(layout, &mut bytes, row, id, *column)?;
                    layout.columns[*column as usize].set_handle(row, longs.store(contents));
                }
            }
            *next = u64::from(first.0) + count;
            loaded += count;
        }
        Ok(loaded)
    }
}

impl TableData {
    /// As [`TableData::load_runs`], for rows without the last columns, which are zeros then. Wider
    /// rows stand elsewhere.
    pub(crate) fn load_earlier_runs(
        &mut self,
        reader: &RunReader,
        next: &mut u64,
        bytes: &[u8],
    ) -> Result<u64, ImageError> {
        let mut loaded = 0;
        let mut arena = Bump::new();
        let width = self.layout().columns.len();
        reader.read(bytes, |id, values| {
            if u64::from(id.0) < *next {
                return Err(ImageError::Place { row: id });
            }
            *next = u64::from(id.0) + 1;
            loaded += 1;
            arena.reset();
            let row = arena.alloc_slice_fill_copy(width, Value::Float(0.0));
            row[..values.len()].copy_from_slice(values);
            let inserted = self.insert_row(row, None, None, Unknown, &arena, &mut UndoLog::off());
            inserted.map(drop).map_err(InsertError::into_user).map_err(ImageError::Refused)
        })?;
        Ok(loaded)
    }
}

/// Reads the rows of a table out of a snapshot as values, for whoever puts them elsewhere: a
/// restore into another number of partitions, an export.
pub struct RunReader {
    layout: RowLayout,
}

impl RunReader {
    /// For a table or stream of this definition. Views are not read this way: their rows follow
    /// from others.
    pub fn new(definition: &Table) -> RunReader {
        assert!(definition.kind != TableKind::View, "rows of views have columns that the definition does not name");
        let columns: Vec<(ColumnType, bool)> =
            definition.columns.iter().map(|column| (column.column_type, column.nullable)).collect();
        RunReader { layout: RowLayout::new(&columns) }
    }

    /// For a view as earlier releases stored it, with these columns, if that is its shape.
    pub(crate) fn of_earlier_view(columns: &[(ColumnType, bool)], shape: &Shape) -> Option<RunReader> {
        let reader = RunReader { layout: RowLayout::new(columns) };
        let same =
            shape.row_bytes as usize == reader.layout.row_bytes && shape.columns == stored_columns(&reader.layout);
        (shape.is_view && same).then_some(reader)
    }

    /// Whether blocks of a table of this shape can be read so.
    pub fn reads(&self, shape: &Shape) -> bool {
        !shape.is_view
            && shape.row_bytes as usize == self.layout.row_bytes
            && shape.columns == stored_columns(&self.layout)
    }

    /// Gives each row of a block's payload to `visit`: its id, and a value per column.
    pub fn read<E: From<ImageError>>(
        &self,
        bytes: &[u8],
        mut visit: impl FnMut(RowId, &[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = Reader::<ImageError>::new(bytes);
        let layout = &self.layout;
        let mut values = Vec::with_capacity(layout.columns.len());
        let nothing = LongValues::new(&Default::default());
        while !bytes.is_empty() {
            let (first, rows) = take_run(layout, &mut bytes)?;
            for (number, row) in rows.chunks_exact(layout.row_bytes).enumerate() {
                let id = RowId(first.0 + number as u32);
                values.clear();
                for (column, place) in layout.columns.iter().enumerate() {
                    let value = if place.storage.is_long() {
                        let contents = take_long(layout, &mut bytes, row, id, column as u16)?;
                        if place.is_null(row) { Value::Null } else { place.storage.long_value(contents) }
                    } else {
                        place.read(row, &nothing)
                    };
                    values.push(value);
                }
                visit(id, &values)?;
            }
        }
        Ok(())
    }
}
