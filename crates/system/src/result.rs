//! Answers of system procedures: tables built row by row, written to a response when they are
//! whole.
//!
//! They are small and rare, so rows own their values; results of SQL do not come through here.

use ferrite_base::UserResult;
use ferrite_value::{OwnedValue, SqlType, Value};
use ferrite_wire::response::{self, ResponseWriter};
use ferrite_wire::table::TableHeader;

/// What a system procedure answers: its tables, or the error that the caller gets.
pub type SystemResult = UserResult<Vec<SystemTable>>;

/// Name and type, in the order in which they stand on the wire.
pub type Columns = [(&'static str, SqlType)];

pub struct SystemTable {
    header: TableHeader,
    names: Vec<String>,
    rows: Vec<Vec<OwnedValue>>,
}

impl SystemTable {
    /// A table without rows. Requires at least one column.
    pub fn new(columns: &[(&str, SqlType)]) -> SystemTable {
        let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        SystemTable { header: TableHeader::new(columns.iter().copied()), names, rows: Vec::new() }
    }

    /// Appends a row: a cell for each column. See [`cells`] for rows of mixed types.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let row: Vec<OwnedValue> = cells.into_iter().map(|cell| cell.into().0).collect();
        assert_eq!(row.len(), self.header.types().len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// Name and type of each column.
    pub fn columns(&self) -> impl Iterator<Item = (&str, SqlType)> {
        self.names.iter().map(String::as_str).zip(self.header.types().iter().copied())
    }

    pub fn rows(&self) -> &[Vec<OwnedValue>] {
        &self.rows
    }

    /// Appends the table to a response. Fails when the response becomes too large.
    pub fn write(&self, response: &mut ResponseWriter<'_>) -> UserResult<()> {
        let mut table = response.table(&self.header);
        let mut values: Vec<Value<'_>> = Vec::with_capacity(self.header.types().len());
        for row in &self.rows {
            values.clear();
            values.extend(row.iter().map(OwnedValue::as_value));
            table.row(&values)?;
        }
        table.finish();
        Ok(())
    }
}

/// Appends a whole response: the tables, or the error.
pub fn write_response(out: &mut Vec<u8>, handle: i64, result: &SystemResult) {
    let tables = match result {
        Ok(tables) => tables,
        Err(error) => return response::write_error(out, handle, error),
    };
    let mut response = ResponseWriter::begin(out, handle);
    for table in tables {
        if let Err(error) = table.write(&mut response) {
            return response.fail(&error);
        }
    }
    response.finish();
}

/// One value of a row, made from what is at hand.
#[derive(Clone, Debug)]
pub struct Cell(OwnedValue);

impl Cell {
    pub const NULL: Cell = Cell(OwnedValue::Null);
}

impl From<OwnedValue> for Cell {
    fn from(value: OwnedValue) -> Cell {
        Cell(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Cell {
        Cell(OwnedValue::Integer(value))
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Cell {
        Cell(OwnedValue::Integer(i64::from(value)))
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Cell {
        Cell(OwnedValue::Text(value.into()))
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Cell {
        Cell(OwnedValue::Text(value.into()))
    }
}

impl From<&String> for Cell {
    fn from(value: &String) -> Cell {
        Cell(OwnedValue::Text(value.as_str().into()))
    }
}

/// VARBINARY.
impl From<Vec<u8>> for Cell {
    fn from(value: Vec<u8>) -> Cell {
        Cell(OwnedValue::Bytes(value.into()))
    }
}

/// None is NULL.
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::NULL, T::into)
    }
}

/// A row of values of different Rust types: `table.row(cells![1, "a", Cell::NULL])`.
#[macro_export]
macro_rules! cells {
    ($($value:expr),+ $(,)?) => { [$($crate::result::Cell::from($value)),+] };
}
pub use cells;

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::UserError;
    use ferrite_wire::{Response, Status};

    #[test]
    fn a_response_of_tables_and_one_of_an_error() {
        let mut table = SystemTable::new(&[("ID", SqlType::Integer), ("NAME", SqlType::Varchar)]);
        table.row(cells![7, "seven"]);
        table.row(cells![8i64, None::<String>]);
        table.row(vec![OwnedValue::Null, OwnedValue::Null]);
        let mut out = Vec::new();
        write_response(&mut out, 42, &Ok(vec![table, SystemTable::new(&[("X", SqlType::Varbinary)])]));
        let response = Response::parse(&out[4..]).unwrap();
        assert_eq!((response.handle, response.status_code), (42, Status::Success.code()));
        let tables = crate::testing::tables(&out);
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].rows[0], [OwnedValue::Integer(7), OwnedValue::Text("seven".into())]);
        assert_eq!(tables[0].rows[1], [OwnedValue::Integer(8), OwnedValue::Null]);
        assert_eq!(tables[0].rows[2], [OwnedValue::Null, OwnedValue::Null]);
        assert!(tables[1].rows.is_empty());

        out.clear();
        write_response(&mut out, 42, &Err(UserError::parameters("no")));
        let response = Response::parse(&out[4..]).unwrap();
        assert_eq!((response.handle, response.status_code), (42, Status::GracefulFailure.code()));
    }
}
