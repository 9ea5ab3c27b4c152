//! Tables as they are read (wire-protocol section 6): results by clients, VOLTTABLE parameters by
//! the server.

use crate::{DecodeError, Reader, scalar};
use ferrite_value::{OwnedValue, SqlType, Value};

type Result<T> = std::result::Result<T, DecodeError>;

/// A table, borrowed. The header has been checked; rows are checked as they are read.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    status: i8,
    /// One type code each, all known.
    types: &'a [u8],
    /// `string` each, all UTF-8.
    names: &'a [u8],
    row_count: usize,
    rows: &'a [u8],
}

impl<'a> Table<'a> {
    /// Parses a table's body, without its `i32` length: what [`Value::Table`] holds.
    pub fn parse(body: &'a [u8]) -> Result<Table<'a>> {
        let mut reader = Reader::new(body);
        let mut header = Reader::new(reader.bytes()?);
        let status = header.i8()?;
        let column_count = header.short_count(1)?;
        let types = header.raw_bytes(column_count)?;
        for code in types {
            SqlType::from_code(*code as i8).ok_or(DecodeError::UnknownType(*code as i8))?;
        }
        let names = header.rest();
        for _ in 0..column_count {
            header.string()?;
        }
        if !header.is_empty() {
            return Err(DecodeError::LengthMismatch);
        }
        let row_count = reader.count(4)?;
        Ok(Table { status, types, names, row_count, rows: reader.rest() })
    }

    #[inline]
    pub fn status(&self) -> i8 {
        self.status
    }

    #[inline]
    pub fn column_count(&self) -> usize {
        self.types.len()
    }

    #[inline]
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Names and types, in order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (&'a str, SqlType)> + use<'a> {
        let mut names = Reader::new(self.names);
        self.types.iter().map(move |code| {
            let name = names.string().expect("names were checked when the table was parsed");
            (name, SqlType::from_code(*code as i8).expect("types were checked when the table was parsed"))
        })
    }

    /// The first column of this name, without regard to case.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns().position(|(column, _)| column.eq_ignore_ascii_case(name))
    }

    /// The rows, in order. Ends after the first error. What stands behind the last row is nobody's:
    /// the published client makes empty tables with room for rows, and sends the room.
    #[inline]
    pub fn rows(&self) -> Rows<'a> {
        Rows { types: self.types, left: self.row_count, reader: Reader::new(self.rows), ended: false }
    }

    /// The number in a table of one row whose first column is an integer type: what Voter and
    /// update counts return.
    #[inline]
    pub fn scalar(&self) -> Option<i64> {
        let mut rows = self.rows();
        match (self.row_count, rows.next()?.ok()?.cells().next()?) {
            (1, Ok(Value::Integer(x))) => Some(x),
            _ => None,
        }
    }

    /// Reads every cell, so that whoever iterates afterwards meets no error.
    pub fn check(&self) -> Result<()> {
        for row in self.rows() {
            for cell in row?.cells() {
                cell?;
            }
        }
        Ok(())
    }

    /// A copy of its own.
    pub fn to_owned_table(&self) -> Result<OwnedTable> {
        let columns = self.columns().map(|(name, sql_type)| (name.to_string(), sql_type)).collect();
        let mut rows = Vec::with_capacity(self.row_count);
        for row in self.rows() {
            rows.push(row?.cells().map(|cell| Ok(cell?.to_owned_value())).collect::<Result<_>>()?);
        }
        Ok(OwnedTable { status: self.status, columns, rows })
    }
}

/// Iterator over a table's rows.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    types: &'a [u8],
    left: usize,
    reader: Reader<'a>,
    ended: bool,
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        match self.reader.bytes() {
            Ok(cells) => Some(Ok(Row { types: self.types, cells })),
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}

/// One row, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    types: &'a [u8],
    cells: &'a [u8],
}

impl<'a> Row<'a> {
    /// The cells, in order. Ends after the first error; bytes left over behind the last cell are an
    /// error too.
    #[inline]
    pub fn cells(&self) -> Cells<'a> {
        Cells { types: self.types, reader: Reader::new(self.cells), ended: false }
    }

    /// One cell; `None` when there is no such column.
    pub fn get(&self, column: usize) -> Result<Option<Value<'a>>> {
        let Some(code) = self.types.get(column) else {
            return Ok(None);
        };
        let mut reader = Reader::new(self.cells);
        for before in &self.types[..column] {
            scalar::skip(&mut reader, *before as i8)?;
        }
        scalar::read(&mut reader, *code as i8).map(Some)
    }
}

/// Iterator over a row's cells.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    types: &'a [u8],
    reader: Reader<'a>,
    ended: bool,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Result<Value<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let Some((code, rest)) = self.types.split_first() else {
            self.ended = true;
            return self.reader.expect_end().err().map(Err);
        };
        self.types = rest;
        let cell = scalar::read(&mut self.reader, *code as i8);
        self.ended = cell.is_err();
        Some(cell)
    }
}

/// A table that owns everything, for whoever keeps results.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnedTable {
    pub status: i8,
    pub columns: Vec<(String, SqlType)>,
    pub rows: Vec<Vec<OwnedValue>>,
}

impl OwnedTable {
    /// The first column of this name, without regard to case.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|(column, _)| column.eq_ignore_ascii_case(name))
    }

    /// The number in a table of one row whose first column is an integer type.
    pub fn scalar(&self) -> Option<i64> {
        match self.rows.as_slice() {
            [row] => match row.first() {
                Some(OwnedValue::Integer(x)) => Some(*x),
                _ => None,
            },
            _ => None,
        }
    }
}
