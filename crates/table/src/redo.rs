//! Row changes as bytes (docs/format/pages.md, "Row changes in the redo log"): written by
//! transactions, read by recovery and copies. Reading trusts nothing.

use crate::layout::{RowLayout, Storage};
use crate::table::TableData;
use ferrite_base::{RowId, TableId, UserError};
use ferrite_value::{Decimal, Point, Value};
use std::fmt;

/// Stands for a change of a store that keeps no redo; never in a log.
pub(crate) const UNLOGGED: u8 = 0;
pub(crate) const INSERT: u8 = 1;
pub(crate) const UPDATE: u8 = 2;
pub(crate) const DELETE: u8 = 3;
pub(crate) const TRUNCATE: u8 = 4;
pub(crate) const MOVE: u8 = 5;
/// Of a view of a stream. Its rows are named by their groups: where they lie may differ from copy
/// to copy.
pub(crate) const UPDATE_GROUP: u8 = 6;
pub(crate) const DELETE_GROUP: u8 = 7;

/// Why a redo record was refused.
#[derive(Clone, PartialEq, Debug)]
pub enum RedoError {
    /// The bytes end within a change.
    UnexpectedEnd,
    UnknownKind(u8),
    UnknownTable(u32),
    /// Rows of views follow from their source; a record does not name them.
    NotABaseTable(TableId),
    UnknownColumn {
        table: TableId,
        column: u32,
    },
    /// A number of more than 32 bits.
    NumberTooLarge,
    /// The bytes are not a value of the column.
    InvalidValue {
        table: TableId,
        column: u16,
    },
    /// An insertion at a row id that is taken.
    RowTaken {
        table: TableId,
        row: RowId,
    },
    /// A row id beyond the page after the last.
    RowBeyond {
        table: TableId,
        row: RowId,
    },
    /// A change of a row of a view whose group is not there.
    GroupMissing(TableId),
    /// An update or deletion of a row that is not there.
    RowMissing {
        table: TableId,
        row: RowId,
    },
    /// The change breaks a rule of the table.
    Refused {
        table: TableId,
        error: UserError,
    },
}

impl RedoError {
    /// The table that the change is of, where it was understood so far.
    pub fn table(&self) -> Option<TableId> {
        match self {
            RedoError::NotABaseTable(table)
            | RedoError::UnknownColumn { table, .. }
            | RedoError::InvalidValue { table, .. }
            | RedoError::RowTaken { table, .. }
            | RedoError::RowBeyond { table, .. }
            | RedoError::GroupMissing(table)
            | RedoError::RowMissing { table, .. }
            | RedoError::Refused { table, .. } => Some(*table),
            RedoError::UnknownTable(number) => Some(TableId(*number)),
            RedoError::UnexpectedEnd | RedoError::UnknownKind(_) | RedoError::NumberTooLarge => None,
        }
    }

    pub(crate) fn refused(table: TableId) -> impl Fn(UserError) -> RedoError {
        move |error| RedoError::Refused { table, error }
    }
}

impl fmt::Display for RedoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedoError::UnexpectedEnd => write!(f, "the redo record ends within a change"),
            RedoError::UnknownKind(kind) => write!(f, "unknown kind of change {kind} in a redo record"),
            RedoError::UnknownTable(table) => write!(f, "a redo record names table {table}, which is not there"),
            RedoError::NotABaseTable(table) => write!(f, "a redo record changes view {table}"),
            RedoError::UnknownColumn { table, column } => {
                write!(f, "a redo record names column {column} of table {table}, which is not there")
            }
            RedoError::NumberTooLarge => write!(f, "a number in a redo record has more than 32 bits"),
            RedoError::InvalidValue { table, column } => {
                write!(f, "a redo record has a value that column {column} of table {table} cannot hold")
            }
            RedoError::RowTaken { table, row } => {
                write!(f, "a redo record inserts row {row} of table {table}, which is there already")
            }
            RedoError::RowBeyond { table, row } => {
                write!(f, "a redo record inserts row {row} of table {table}, which is beyond its pages")
            }
            RedoError::RowMissing { table, row } => {
                write!(f, "a redo record changes row {row} of table {table}, which is not there")
            }
            RedoError::GroupMissing(table) => {
                write!(f, "a redo record changes a group of view {table} that is not there")
            }
            RedoError::Refused { error, .. } => write!(f, "a redo record breaks a rule: {error}"),
        }
    }
}

impl std::error::Error for RedoError {}

#[inline]
fn write_varint(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[inline]
fn write_value(out: &mut Vec<u8>, storage: Storage, value: &Value<'_>) {
    match *value {
        Value::Integer(x) => match storage {
            Storage::Bigint => out.extend_from_slice(&x.to_le_bytes()),
            Storage::Integer => out.extend_from_slice(&(x as i32).to_le_bytes()),
            Storage::Smallint => out.extend_from_slice(&(x as i16).to_le_bytes()),
            _ => out.push(x as u8),
        },
        Value::Text(x) => write_bytes(out, x.as_bytes()),
        Value::Bytes(x) | Value::Geography(x) => write_bytes(out, x),
        Value::Boolean(x) => out.push(x as u8),
        Value::Float(x) => out.extend_from_slice(&x.to_le_bytes()),
        Value::Timestamp(x) => out.extend_from_slice(&x.to_le_bytes()),
        Value::Date(x) => out.extend_from_slice(&x.to_le_bytes()),
        Value::Decimal(x) => out.extend_from_slice(&x.scaled().to_le_bytes()),
        Value::Point(x) => {
            out.extend_from_slice(&x.longitude.to_le_bytes());
            out.extend_from_slice(&x.latitude.to_le_bytes());
        }
        Value::Null | Value::Array(_) | Value::Table(_) => unreachable!("only values that a column holds are written"),
    }
}

#[inline]
fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

#[inline]
fn write_head(out: &mut Vec<u8>, kind: u8, table: TableId, row: RowId) {
    out.push(kind);
    write_varint(out, table.0);
    write_varint(out, row.0);
}

#[inline]
pub(crate) fn write_insert(out: &mut Vec<u8>, table: TableId, row: RowId, layout: &RowLayout, values: &[Value<'_>]) {
    out.reserve(16 + layout.row_bytes);
    write_head(out, INSERT, table, row);
    if layout.nullable_count != 0 {
        let nulls = out.len();
        out.resize(nulls + layout.null_bytes(), 0);
        let nullable = layout.columns.iter().zip(values).filter(|(column, _)| column.nullable());
        for (bit, (_, value)) in nullable.enumerate() {
            out[nulls + bit / 8] |= (value.is_null() as u8) << (bit % 8);
        }
    }
    for (column, value) in layout.columns.iter().zip(values) {
        if !value.is_null() {
            write_value(out, column.storage, value);
        }
    }
}

impl TableData {
    /// Appends the values of a stored row: equal rows are equal bytes, wherever they lie.
    pub fn write_row(&self, row: RowId, out: &mut Vec<u8>) {
        let stored = self.row(row);
        let columns = 0..self.layout().columns.len() as u16;
        let values: Vec<Value<'_>> = columns.map(|column| stored.column(column)).collect();
        write_insert(out, self.definition().id, RowId(0), self.layout(), &values);
    }

    /// What [`TableData::write_row`] has written, of a table with the same columns.
    pub fn read_row<'b>(&self, bytes: &'b [u8]) -> Result<Vec<Value<'b>>, RedoError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte()?;
        if kind != INSERT {
            return Err(RedoError::UnknownKind(kind));
        }
        let table = TableId(reader.varint()?);
        if table != self.definition().id {
            return Err(RedoError::UnknownTable(table.0));
        }
        reader.varint()?;
        let mut values = vec![Value::Null; self.layout().columns.len()];
        reader.row(table, self.layout(), &mut values)?;
        if reader.is_empty() { Ok(values) } else { Err(RedoError::UnexpectedEnd) }
    }
}

/// `values` are those of `columns` after the change.
pub(crate) fn write_update<'v>(
    out: &mut Vec<u8>,
    table: TableId,
    row: RowId,
    layout: &RowLayout,
    columns: &[u16],
    value: impl Fn(u16) -> Value<'v>,
) {
    write_head(out, UPDATE, table, row);
    write_columns(out, layout, columns, value);
}

/// A change of a row of a view of a stream: the values of the columns that it is grouped by, and of
/// those that are set.
pub(crate) fn write_group<'v>(
    out: &mut Vec<u8>,
    table: TableId,
    layout: &RowLayout,
    groups: &[u16],
    set: Option<&[u16]>,
    value: impl Fn(u16) -> Value<'v>,
) {
    out.push(if set.is_some() { UPDATE_GROUP } else { DELETE_GROUP });
    write_varint(out, table.0);
    write_columns(out, layout, groups, &value);
    if let Some(columns) = set {
        write_columns(out, layout, columns, value);
    }
}

fn write_columns<'v>(out: &mut Vec<u8>, layout: &RowLayout, columns: &[u16], value: impl Fn(u16) -> Value<'v>) {
    write_varint(out, columns.len() as u32);
    for column in columns {
        let value = value(*column);
        write_varint(out, (*column as u32) << 1 | value.is_null() as u32);
        if !value.is_null() {
            write_value(out, layout.columns[*column as usize].storage, &value);
        }
    }
}

pub(crate) fn write_delete(out: &mut Vec<u8>, table: TableId, row: RowId) {
    write_head(out, DELETE, table, row);
}

pub(crate) fn write_truncate(out: &mut Vec<u8>, table: TableId) {
    out.push(TRUNCATE);
    write_varint(out, table.0);
}

pub(crate) fn write_move(out: &mut Vec<u8>, table: TableId, from: RowId, to: RowId) {
    write_head(out, MOVE, table, from);
    write_varint(out, to.0);
}

/// What is left to read.
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn rest(&self) -> &'b [u8] {
        self.bytes
    }

    #[inline]
    fn next_bytes(&mut self, count: usize) -> Result<&'b [u8], RedoError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(RedoError::UnexpectedEnd)?;
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], RedoError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(RedoError::UnexpectedEnd)?;
        self.bytes = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, RedoError> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u32, RedoError> {
        let mut number = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= ((byte & 0x7f) as u64) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).map_err(|_| RedoError::NumberTooLarge);
            }
        }
        Err(RedoError::NumberTooLarge)
    }

    /// A row as an insertion has it, appended to `values`.
    #[inline]
    pub(crate) fn row(
        &mut self,
        table: TableId,
        layout: &RowLayout,
        values: &mut [Value<'b>],
    ) -> Result<(), RedoError> {
        let nulls = self.next_bytes(layout.null_bytes())?;
        let mut bit = 0;
        for (position, (column, place)) in layout.columns.iter().zip(values).enumerate() {
            let mut is_null = false;
            if column.nullable() {
                is_null = nulls[bit / 8] & (1 << (bit % 8)) != 0;
                bit += 1;
            }
            match is_null {
                true => *place = Value::Null,
                false => self.value_into(place, table, position as u16, column.storage)?,
            }
        }
        Ok(())
    }

    /// Columns and their values, as an update has them.
    pub(crate) fn columns(&mut self, table: TableId, layout: &RowLayout) -> Result<Columns<'b>, RedoError> {
        let count = self.varint()? as usize;
        let mut read = Columns::new();
        for _ in 0..count {
            let head = self.varint()?;
            let column = head >> 1;
            let Some(place) = layout.columns.get(column as usize) else {
                return Err(RedoError::UnknownColumn { table, column });
            };
            if read.columns().contains(&(column as u16)) {
                return Err(RedoError::InvalidValue { table, column: column as u16 });
            }
            let value = match head & 1 {
                0 => self.value(table, column as u16, place.storage)?,
                _ => Value::Null,
            };
            read.push(column as u16, value);
        }
        Ok(read)
    }

    pub(crate) fn value(&mut self, table: TableId, column: u16, storage: Storage) -> Result<Value<'b>, RedoError> {
        let mut value = Value::Null;
        self.value_into(&mut value, table, column, storage)?;
        Ok(value)
    }

    /// Straight to its place: a value that goes through a result is copied in other pieces than it
    /// was written in, and waits for them.
    #[inline(always)]
    fn value_into(
        &mut self,
        place: &mut Value<'b>,
        table: TableId,
        column: u16,
        storage: Storage,
    ) -> Result<(), RedoError> {
        let invalid = RedoError::InvalidValue { table, column };
        *place = match storage {
            Storage::Bigint => Value::Integer(i64::from_le_bytes(self.array()?)),
            Storage::Integer => Value::Integer(i32::from_le_bytes(self.array()?) as i64),
            Storage::Smallint => Value::Integer(i16::from_le_bytes(self.array()?) as i64),
            Storage::Tinyint => Value::Integer(self.byte()? as i8 as i64),
            Storage::Float => Value::Float(f64::from_le_bytes(self.array()?)),
            Storage::Timestamp => Value::Timestamp(i64::from_le_bytes(self.array()?)),
            Storage::Date => Value::Date(i32::from_le_bytes(self.array()?)),
            Storage::Decimal => {
                Value::Decimal(Decimal::from_scaled(i128::from_le_bytes(self.array()?)).ok_or(invalid)?)
            }
            Storage::Boolean => match self.byte()? {
                0 => Value::Boolean(false),
                1 => Value::Boolean(true),
                _ => return Err(invalid),
            },
            Storage::Point => {
                let longitude = f64::from_le_bytes(self.array()?);
                Value::Point(Point { longitude, latitude: f64::from_le_bytes(self.array()?) })
            }
            Storage::InlineText | Storage::LongText => {
                Value::Text(std::str::from_utf8(self.sized_bytes()?).map_err(|_| invalid)?)
            }
            Storage::InlineBytes | Storage::LongBytes => Value::Bytes(self.sized_bytes()?),
            Storage::InlineGeography | Storage::LongGeography => Value::Geography(self.sized_bytes()?),
        };
        Ok(())
    }

    #[inline]
    fn sized_bytes(&mut self) -> Result<&'b [u8], RedoError> {
        let length = self.varint()? as usize;
        self.next_bytes(length)
    }
}

/// Columns of an update, each once, with their values. A few take no memory of their own: most
/// updates that a copy makes change one or two.
pub(crate) struct Columns<'b> {
    count: usize,
    few: ([u16; COLUMNS_FEW], [Value<'b>; COLUMNS_FEW]),
    /// All of them, where they are more.
    many: (Vec<u16>, Vec<Value<'b>>),
}

const COLUMNS_FEW: usize = 6;

impl<'b> Columns<'b> {
    fn new() -> Columns<'b> {
        Columns { count: 0, few: ([0; COLUMNS_FEW], [Value::Null; COLUMNS_FEW]), many: Default::default() }
    }

    fn push(&mut self, column: u16, value: Value<'b>) {
        if self.count < COLUMNS_FEW {
            (self.few.0[self.count], self.few.1[self.count]) = (column, value);
        } else {
            if self.count == COLUMNS_FEW {
                self.many = (self.few.0.to_vec(), self.few.1.to_vec());
            }
            self.many.0.push(column);
            self.many.1.push(value);
        }
        self.count += 1;
    }

    pub fn columns(&self) -> &[u16] {
        if self.count > COLUMNS_FEW { &self.many.0 } else { &self.few.0[..self.count] }
    }

    pub fn values(&self) -> &[Value<'b>] {
        if self.count > COLUMNS_FEW { &self.many.1 } else { &self.few.1[..self.count] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_columns_and_many_are_kept_in_order() {
        for count in [0, 1, COLUMNS_FEW, COLUMNS_FEW + 1, 20] {
            let mut read = Columns::new();
            let columns: Vec<u16> = (0..count as u16).rev().collect();
            columns.iter().for_each(|column| read.push(*column, Value::Integer(i64::from(*column) + 100)));
            assert_eq!(read.columns(), columns);
            let values: Vec<Value<'_>> =
                columns.iter().map(|column| Value::Integer(i64::from(*column) + 100)).collect();
            assert_eq!(format!("{:?}", read.values()), format!("{values:?}"));
        }
    }
}
