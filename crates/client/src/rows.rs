//! Rows of a result, read by name or position as Rust types.

use ferrite_value::{Decimal, OwnedValue, Point};
use ferrite_wire::{OwnedResponse, OwnedTable};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The rows of one result table.
///
/// ```no_run
/// # use ferrite_client::{Client, ClientError, ClientOptions};
/// # fn main() -> Result<(), ClientError> {
/// # let client = Client::connect(ClientOptions::new(["localhost"]))?;
/// for row in &client.query("SELECT name, balance FROM accounts WHERE id = ?", (7,)).wait()? {
///     let name: String = row.get("name")?;
///     let balance: Option<i64> = row.get("balance")?;
///     println!("{name}: {balance:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Rows {
    table: OwnedTable,
}

impl Rows {
    /// The first table of a response; without columns and rows if it has none.
    pub fn first_of(response: OwnedResponse) -> Rows {
        let table = response.tables.into_iter().next();
        Rows { table: table.unwrap_or(OwnedTable { status: 0, columns: Vec::new(), rows: Vec::new() }) }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.table.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.rows.is_empty()
    }

    /// The names of the columns, in order. The server has unquoted names in upper case.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &str> {
        self.table.columns.iter().map(|(name, _)| name.as_str())
    }

    /// The row at a position from 0 on.
    pub fn get(&self, position: usize) -> Option<Row<'_>> {
        self.table.rows.get(position).map(|values| Row { table: &self.table, values })
    }

    /// The first row.
    pub fn first(&self) -> Option<Row<'_>> {
        self.get(0)
    }

    /// All rows, in order.
    pub fn iter(&self) -> RowIter<'_> {
        RowIter { table: &self.table, values: self.table.rows.iter() }
    }

    /// The table as it came.
    pub fn into_table(self) -> OwnedTable {
        self.table
    }
}

impl From<OwnedTable> for Rows {
    fn from(table: OwnedTable) -> Rows {
        Rows { table }
    }
}

impl<'r> IntoIterator for &'r Rows {
    type Item = Row<'r>;
    type IntoIter = RowIter<'r>;

    fn into_iter(self) -> RowIter<'r> {
        self.iter()
    }
}

/// The rows of [`Rows::iter`].
#[derive(Clone, Debug)]
pub struct RowIter<'r> {
    table: &'r OwnedTable,
    values: std::slice::Iter<'r, Vec<OwnedValue>>,
}

impl<'r> Iterator for RowIter<'r> {
    type Item = Row<'r>;

    fn next(&mut self) -> Option<Row<'r>> {
        self.values.next().map(|values| Row { table: self.table, values })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.values.size_hint()
    }
}

impl ExactSizeIterator for RowIter<'_> {}

/// One row of a result.
#[derive(Clone, Copy, Debug)]
pub struct Row<'r> {
    table: &'r OwnedTable,
    values: &'r [OwnedValue],
}

impl<'r> Row<'r> {
    /// The value of a column, given by its name or by its position from 0 on. Names are compared
    /// without regard to case unless there is one in exactly that case.
    ///
    /// # Errors
    /// If there is no such column, if its type cannot be read as `T`, or if it is NULL and `T` is
    /// not an [`Option`]. The error names the column and both types.
    ///
    /// ```
    /// # use ferrite_client::{OwnedTable, OwnedValue, Rows};
    /// # use ferrite_client::SqlType;
    /// # let id = ("ID".to_owned(), SqlType::Bigint);
    /// # let name = ("NAME".to_owned(), SqlType::Varchar);
    /// # let columns = vec![id, name];
    /// # let rows = vec![vec![OwnedValue::Integer(7), OwnedValue::Null]];
    /// # let rows = Rows::from(OwnedTable { status: 0, columns, rows });
    /// let row = rows.first().expect("a row");
    /// assert_eq!(row.get::<i64>("id"), Ok(7));
    /// assert_eq!(row.get::<Option<&str>>(1), Ok(None));
    /// assert_eq!(
    ///     row.get::<bool>("id").unwrap_err().to_string(),
    ///     "column ID is of type BIGINT and cannot be read as bool"
    /// );
    /// ```
    pub fn get<T: FromValue<'r>>(&self, column: impl ColumnIndex) -> Result<T, ColumnError> {
        let position = column.position(self.table).ok_or_else(|| ColumnError {
            kind: Kind::Unknown { columns: self.table.columns.iter().map(|(name, _)| name.clone()).collect() },
            column: column.to_string(),
        })?;
        let value = self.values.get(position).unwrap_or(&OwnedValue::Null);
        T::from_value(value).ok_or_else(|| self.misfit(position, value, T::NAME))
    }

    /// The values, in the order of the columns.
    pub fn values(&self) -> &'r [OwnedValue] {
        self.values
    }

    #[cold]
    fn misfit(&self, position: usize, value: &OwnedValue, wanted: &'static str) -> ColumnError {
        let (column, sql_type) = match self.table.columns.get(position) {
            Some((name, sql_type)) => (name.clone(), sql_type.to_string()),
            None => (position.to_string(), "unknown".to_owned()),
        };
        let kind = match value {
            OwnedValue::Null => Kind::Null { wanted },
            OwnedValue::Integer(value) if wanted.starts_with('i') => Kind::Range { value: *value, wanted },
            _ => Kind::Type { is: sql_type, wanted },
        };
        ColumnError { column, kind }
    }
}

/// How a column is named: by `&str` or by position.
pub trait ColumnIndex: fmt::Display + private::Sealed {
    #[doc(hidden)]
    fn position(&self, table: &OwnedTable) -> Option<usize>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for &str {}
    impl Sealed for usize {}
}

impl ColumnIndex for usize {
    fn position(&self, table: &OwnedTable) -> Option<usize> {
        (*self < table.columns.len()).then_some(*self)
    }
}

impl ColumnIndex for &str {
    fn position(&self, table: &OwnedTable) -> Option<usize> {
        let named = |same: fn(&str, &str) -> bool| table.columns.iter().position(|(name, _)| same(name, self));
        named(|name, wanted| name == wanted).or_else(|| named(|name, wanted| name.eq_ignore_ascii_case(wanted)))
    }
}

/// A Rust type that a column can be read as.
///
/// | SQL | Rust |
/// |---|---|
/// | TINYINT, SMALLINT, INTEGER, BIGINT | [`i64`], [`i32`], [`i16`], [`i8`], if the value is in range |
/// | FLOAT | [`f64`] |
/// | DECIMAL | [`Decimal`] |
/// | VARCHAR | [`String`], `&str` |
/// | VARBINARY | `Vec<u8>`, `&[u8]` |
/// | TIMESTAMP | [`SystemTime`] |
/// | BOOLEAN | [`bool`] |
/// | GEOGRAPHY_POINT | [`Point`] |
/// | any | [`OwnedValue`], `&OwnedValue` |
/// | any that may be NULL | [`Option`] of these |
pub trait FromValue<'r>: Sized {
    /// The type in messages.
    const NAME: &'static str;

    /// None if the value cannot be read so.
    fn from_value(value: &'r OwnedValue) -> Option<Self>;
}

macro_rules! from_value {
    ($($rust:ty, $name:literal: $pattern:pat => $result:expr;)*) => {
        $(impl<'r> FromValue<'r> for $rust {
            const NAME: &'static str = $name;

            fn from_value(value: &'r OwnedValue) -> Option<Self> {
                match value {
                    $pattern => $result,
                    _ => None,
                }
            }
        })*
    };
}

from_value! {
    i64, "i64": OwnedValue::Integer(number) => Some(*number);
    i32, "i32": OwnedValue::Integer(number) => i32::try_from(*number).ok();
    i16, "i16": OwnedValue::Integer(number) => i16::try_from(*number).ok();
    i8, "i8": OwnedValue::Integer(number) => i8::try_from(*number).ok();
    f64, "f64": OwnedValue::Float(number) => Some(*number);
    bool, "bool": OwnedValue::Boolean(truth) => Some(*truth);
    Decimal, "Decimal": OwnedValue::Decimal(number) => Some(*number);
    Point, "Point": OwnedValue::Point(point) => Some(*point);
    String, "String": OwnedValue::Text(text) => Some(text.to_string());
    &'r str, "&str": OwnedValue::Text(text) => Some(text);
    Vec<u8>, "Vec<u8>": OwnedValue::Bytes(bytes) => Some(bytes.to_vec());
    &'r [u8], "&[u8]": OwnedValue::Bytes(bytes) => Some(bytes);
    SystemTime, "SystemTime": OwnedValue::Timestamp(micros) => time_of(*micros);
}

impl<'r> FromValue<'r> for OwnedValue {
    const NAME: &'static str = "OwnedValue";

    fn from_value(value: &'r OwnedValue) -> Option<Self> {
        Some(value.clone())
    }
}

impl<'r> FromValue<'r> for &'r OwnedValue {
    const NAME: &'static str = "&OwnedValue";

    fn from_value(value: &'r OwnedValue) -> Option<Self> {
        Some(value)
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    const NAME: &'static str = T::NAME;

    fn from_value(value: &'r OwnedValue) -> Option<Self> {
        if matches!(value, OwnedValue::Null) { Some(None) } else { T::from_value(value).map(Some) }
    }
}

fn time_of(micros: i64) -> Option<SystemTime> {
    let distance = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

/// A column that could not be read as asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnError {
    column: String,
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Unknown { columns: Vec<String> },
    Null { wanted: &'static str },
    Range { value: i64, wanted: &'static str },
    Type { is: String, wanted: &'static str },
}

impl ColumnError {
    /// The column: its name, or what was asked for if there is none.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The SQLSTATE: `42703` for an unknown column, `22003` for a number out of range, else
    /// `42804`.
    pub fn code(&self) -> &'static str {
        match self.kind {
            Kind::Unknown { .. } => "42703",
            Kind::Range { .. } => "22003",
            Kind::Null { .. } | Kind::Type { .. } => "42804",
        }
    }
}

impl fmt::Display for ColumnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = &self.column;
        match &self.kind {
            Kind::Unknown { columns } if columns.is_empty() => {
                write!(f, "no column {column}: the result has no columns")
            }
            Kind::Unknown { columns } => write!(f, "no column {column}; there are {}", columns.join(", ")),
            Kind::Null { wanted } => write!(f, "column {column} is NULL; read it as Option<{wanted}>"),
            Kind::Range { value, wanted } => write!(f, "column {column}: {value} is out of range for {wanted}"),
            Kind::Type { is, wanted } => write!(f, "column {column} is of type {is} and cannot be read as {wanted}"),
        }
    }
}

impl std::error::Error for ColumnError {}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::SqlType;

    fn rows() -> Rows {
        let columns = [
            ("ID", SqlType::Bigint),
            ("Name", SqlType::Varchar),
            ("NAME", SqlType::Varchar),
            ("AT", SqlType::Timestamp),
            ("PRICE", SqlType::Float),
        ];
        let rows = vec![
            vec![
                OwnedValue::Integer(300),
                OwnedValue::Text("mixed".into()),
                OwnedValue::Text("upper".into()),
                OwnedValue::Timestamp(-1_500_000),
                OwnedValue::Float(2.5),
            ],
            vec![OwnedValue::Null; 5],
        ];
        let columns = columns.into_iter().map(|(name, sql_type)| (name.to_owned(), sql_type)).collect();
        Rows::from(OwnedTable { status: 0, columns, rows })
    }

    #[test]
    fn columns_are_read_by_name_and_position() {
        let rows = rows();
        assert_eq!((rows.len(), rows.iter().len(), rows.is_empty()), (2, 2, false));
        assert_eq!(rows.columns().collect::<Vec<_>>(), ["ID", "Name", "NAME", "AT", "PRICE"]);
        let row = rows.first().unwrap();
        assert_eq!((row.get(0), row.get::<i32>("Id"), row.get("ID")), (Ok(300i64), Ok(300), Ok(300i16)));
        // The exact case first, else the first in any case.
        let texts = (row.get::<&str>("Name"), row.get::<String>("NAME"), row.get::<&str>("name"));
        assert_eq!(texts, (Ok("mixed"), Ok("upper".to_owned()), Ok("mixed")));
        assert_eq!(row.get("at"), Ok(UNIX_EPOCH - Duration::from_micros(1_500_000)));
        assert_eq!((row.get::<f64>("price"), row.get::<Option<f64>>("price")), (Ok(2.5), Ok(Some(2.5))));
        assert_eq!(row.get::<OwnedValue>("id"), Ok(OwnedValue::Integer(300)));
        let nulls = rows.get(1).unwrap();
        assert_eq!((nulls.get::<Option<i64>>(0), nulls.get::<Option<String>>(1)), (Ok(None), Ok(None)));
        assert!(rows.get(2).is_none());
    }

    #[test]
    fn errors_name_the_column_and_the_types() {
        let rows = rows();
        let (row, nulls) = (rows.first().unwrap(), rows.get(1).unwrap());
        let cases = [
            (row.get::<i8>("id").unwrap_err(), "22003", "column ID: 300 is out of range for i8"),
            (row.get::<i64>("name").unwrap_err(), "42804", "column Name is of type VARCHAR and cannot be read as i64"),
            (nulls.get::<i64>(0).unwrap_err(), "42804", "column ID is NULL; read it as Option<i64>"),
            (row.get::<i64>("nosuch").unwrap_err(), "42703", "no column nosuch; there are ID, Name, NAME, AT, PRICE"),
            (row.get::<i64>(5).unwrap_err(), "42703", "no column 5; there are ID, Name, NAME, AT, PRICE"),
            (row.get::<bool>("id").unwrap_err(), "42804", "column ID is of type BIGINT and cannot be read as bool"),
        ];
        for (error, code, text) in cases {
            assert_eq!((error.code(), error.to_string().as_str()), (code, text));
        }
    }
}
