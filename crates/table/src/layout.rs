//! Where a row keeps its columns, and how values are written to and read from it
//! (docs/format/pages.md, "Row").

use crate::long_values::{Handle, LongValues};
use ferrite_base::limits::INLINE_BYTES_MAX;
use ferrite_value::{ColumnType, Decimal, Point, SqlType, Value, compare};

/// How one column is stored. The numbers stand in snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Storage {
    Tinyint = 1,
    Smallint = 2,
    Integer = 3,
    Bigint = 4,
    Float = 5,
    Timestamp = 6,
    Date = 7,
    Decimal = 8,
    Boolean = 9,
    Point = 10,
    InlineText = 11,
    InlineBytes = 12,
    InlineGeography = 13,
    LongText = 14,
    LongBytes = 15,
    LongGeography = 16,
}

impl Storage {
    pub(crate) fn of(column_type: &ColumnType) -> Storage {
        let inline = column_type.bytes_max() <= INLINE_BYTES_MAX;
        match column_type.sql_type {
            SqlType::Tinyint => Storage::Tinyint,
            SqlType::Smallint => Storage::Smallint,
            SqlType::Integer => Storage::Integer,
            SqlType::Bigint => Storage::Bigint,
            SqlType::Float => Storage::Float,
            SqlType::Timestamp => Storage::Timestamp,
            SqlType::Date => Storage::Date,
            SqlType::Decimal => Storage::Decimal,
            SqlType::Boolean => Storage::Boolean,
            SqlType::Point => Storage::Point,
            SqlType::Varchar if inline => Storage::InlineText,
            SqlType::Varchar => Storage::LongText,
            SqlType::Varbinary if inline => Storage::InlineBytes,
            SqlType::Varbinary => Storage::LongBytes,
            SqlType::Geography if inline => Storage::InlineGeography,
            SqlType::Geography => Storage::LongGeography,
        }
    }

    pub(crate) fn is_long(self) -> bool {
        matches!(self, Storage::LongText | Storage::LongBytes | Storage::LongGeography)
    }

    /// The value of a long column whose contents, checked to be UTF-8 where it is text, are these.
    pub(crate) fn long_value(self, contents: &[u8]) -> Value<'_> {
        match self {
            Storage::LongText => Value::Text(std::str::from_utf8(contents).expect("checked by whoever read it")),
            Storage::LongBytes => Value::Bytes(contents),
            _ => Value::Geography(contents),
        }
    }

    /// Is `value`, not NULL, of the kind that this storage holds?
    #[inline]
    pub(crate) fn holds(self, value: &Value<'_>) -> bool {
        match self {
            Storage::Tinyint | Storage::Smallint | Storage::Integer | Storage::Bigint => {
                matches!(value, Value::Integer(_))
            }
            Storage::Float => matches!(value, Value::Float(_)),
            Storage::Timestamp => matches!(value, Value::Timestamp(_)),
            Storage::Date => matches!(value, Value::Date(_)),
            Storage::Decimal => matches!(value, Value::Decimal(_)),
            Storage::Boolean => matches!(value, Value::Boolean(_)),
            Storage::Point => matches!(value, Value::Point(_)),
            Storage::InlineText | Storage::LongText => matches!(value, Value::Text(_)),
            Storage::InlineBytes | Storage::LongBytes => matches!(value, Value::Bytes(_)),
            Storage::InlineGeography | Storage::LongGeography => matches!(value, Value::Geography(_)),
        }
    }

    /// Whether an integer may stand in such a column, if it holds integers: the least of each width
    /// stands for NULL elsewhere.
    #[inline(always)]
    pub(crate) fn fits_integer(self, integer: i64) -> bool {
        match self {
            Storage::Bigint => integer != i64::MIN,
            Storage::Integer => integer == i64::from(integer as i32) && integer != i64::from(i32::MIN),
            Storage::Smallint => integer == i64::from(integer as i16) && integer != i64::from(i16::MIN),
            Storage::Tinyint => integer == i64::from(integer as i8) && integer != i64::from(i8::MIN),
            _ => false,
        }
    }
}

/// Whether values of the type stand apart from their rows.
pub fn stands_apart(column_type: &ColumnType) -> bool {
    Storage::of(column_type).is_long()
}

const NOT_NULLABLE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnLayout {
    offset: u32,
    /// Bytes of the column in the row.
    bytes: u16,
    null_bit: u16,
    pub(crate) storage: Storage,
}

#[inline(always)]
fn fixed<const N: usize>(row: &[u8], offset: usize) -> [u8; N] {
    row[offset..offset + N].try_into().expect("the slice is N long")
}

impl ColumnLayout {
    #[inline]
    pub(crate) fn nullable(&self) -> bool {
        self.null_bit != NOT_NULLABLE
    }

    #[inline]
    pub(crate) fn is_null(&self, row: &[u8]) -> bool {
        self.null_bit != NOT_NULLABLE && row[(self.null_bit >> 3) as usize] & (1 << (self.null_bit & 7)) != 0
    }

    #[inline]
    pub(crate) fn read<'s>(&self, row: &'s [u8], longs: &'s LongValues) -> Value<'s> {
        if self.is_null(row) {
            return Value::Null;
        }
        let offset = self.offset as usize;
        match self.storage {
            Storage::Bigint => Value::Integer(i64::from_le_bytes(fixed(row, offset))),
            Storage::Integer => Value::Integer(i32::from_le_bytes(fixed(row, offset)) as i64),
            Storage::Smallint => Value::Integer(i16::from_le_bytes(fixed(row, offset)) as i64),
            Storage::Tinyint => Value::Integer(row[offset] as i8 as i64),
            Storage::Float => Value::Float(f64::from_le_bytes(fixed(row, offset))),
            Storage::Timestamp => Value::Timestamp(i64::from_le_bytes(fixed(row, offset))),
            Storage::Date => Value::Date(i32::from_le_bytes(fixed(row, offset))),
            Storage::Decimal => {
                let scaled = i128::from_le_bytes(fixed(row, offset));
                Value::Decimal(Decimal::from_scaled(scaled).expect("only decimals are stored"))
            }
            Storage::Boolean => Value::Boolean(row[offset] != 0),
            Storage::Point => Value::Point(Point {
                longitude: f64::from_le_bytes(fixed(row, offset)),
                latitude: f64::from_le_bytes(fixed(row, offset + 8)),
            }),
            Storage::InlineText => {
                // SAFETY: text columns are written from Value::Text only, and slots without a row
                // are zeros.
                Value::Text(unsafe { std::str::from_utf8_unchecked(self.inline_contents(row, offset)) })
            }
            Storage::InlineBytes => Value::Bytes(self.inline_contents(row, offset)),
            Storage::InlineGeography => Value::Geography(self.inline_contents(row, offset)),
            Storage::LongText => {
                // SAFETY: as above; a handle in a row lives as long as the row.
                Value::Text(unsafe { std::str::from_utf8_unchecked(longs.contents(self.handle_bytes(row))) })
            }
            Storage::LongBytes => Value::Bytes(longs.contents(self.handle_bytes(row))),
            Storage::LongGeography => Value::Geography(longs.contents(self.handle_bytes(row))),
        }
    }

    /// Is the column's value equal to `value`, as keys are (NULLs are equal)?
    #[inline]
    pub(crate) fn equals(&self, row: &[u8], longs: &LongValues, value: &Value<'_>) -> bool {
        if !self.nullable() {
            let offset = self.offset as usize;
            match (self.storage, value) {
                (Storage::Bigint, Value::Integer(x)) => return i64::from_le_bytes(fixed(row, offset)) == *x,
                (Storage::Integer, Value::Integer(x)) => return i32::from_le_bytes(fixed(row, offset)) as i64 == *x,
                (Storage::InlineText, Value::Text(x)) => return self.inline_contents(row, offset) == x.as_bytes(),
                _ => {}
            }
        }
        compare::equal_grouping(&self.read(row, longs), value)
    }

    #[inline(always)]
    fn inline_contents<'s>(&self, row: &'s [u8], offset: usize) -> &'s [u8] {
        &row[offset + 1..offset + 1 + row[offset] as usize]
    }

    #[inline(always)]
    fn handle_bytes<'s>(&self, row: &'s [u8]) -> &'s [u8; 8] {
        let offset = self.offset as usize;
        row[offset..offset + 8].try_into().expect("the slice is 8 long")
    }

    /// Bytes that the column takes in a row.
    pub(crate) fn bytes(&self) -> u16 {
        self.bytes
    }

    /// The bytes that stand in the row are a value of the column, as far as reading it relies on
    /// that.
    #[inline]
    fn is_sound(&self, row: &[u8]) -> bool {
        let offset = self.offset as usize;
        match self.storage {
            Storage::Boolean => row[offset] <= 1,
            Storage::Decimal => Decimal::from_scaled(i128::from_le_bytes(fixed(row, offset))).is_some(),
            Storage::InlineText | Storage::InlineBytes | Storage::InlineGeography => {
                (row[offset] as usize) < self.bytes as usize
                    && (self.storage != Storage::InlineText
                        || std::str::from_utf8(self.inline_contents(row, offset)).is_ok())
            }
            _ => true,
        }
    }

    /// Writes the handle of a long column.
    pub(crate) fn set_handle(&self, row: &mut [u8], handle: Handle) {
        let offset = self.offset as usize;
        row[offset..offset + 8].copy_from_slice(&handle.0);
    }

    /// The handle of a long column; that of an empty value where the column is NULL.
    pub(crate) fn handle(&self, row: &[u8]) -> Handle {
        Handle(*self.handle_bytes(row))
    }

    /// The integer of a not nullable integer column, for counts.
    #[inline]
    pub(crate) fn read_bigint(&self, row: &[u8]) -> i64 {
        debug_assert!(self.storage == Storage::Bigint && !self.nullable());
        i64::from_le_bytes(fixed(row, self.offset as usize))
    }

    #[inline]
    pub(crate) fn write_bigint(&self, row: &mut [u8], value: i64) {
        debug_assert!(self.storage == Storage::Bigint && !self.nullable());
        let offset = self.offset as usize;
        row[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Replaces the handle of a long column.
    pub(crate) fn write_handle(&self, row: &mut [u8], handle: Handle) {
        let offset = self.offset as usize;
        row[offset..offset + 8].copy_from_slice(&handle.0);
    }

    /// Writes a value that was checked to fit. Overwrites a long value's handle without freeing it.
    #[inline]
    pub(crate) fn write(&self, row: &mut [u8], value: &Value<'_>, longs: &mut LongValues) {
        let offset = self.offset as usize;
        if self.null_bit != NOT_NULLABLE {
            let byte = (self.null_bit >> 3) as usize;
            let bit = 1 << (self.null_bit & 7);
            if value.is_null() {
                row[byte] |= bit;
                row[offset..offset + self.bytes as usize].fill(0);
                return;
            }
            row[byte] &= !bit;
        }
        match (self.storage, *value) {
            (Storage::Bigint, Value::Integer(x)) => row[offset..offset + 8].copy_from_slice(&x.to_le_bytes()),
            (Storage::Integer, Value::Integer(x)) => row[offset..offset + 4].copy_from_slice(&(x as i32).to_le_bytes()),
            (Storage::Smallint, Value::Integer(x)) => {
                row[offset..offset + 2].copy_from_slice(&(x as i16).to_le_bytes());
            }
            (Storage::Tinyint, Value::Integer(x)) => row[offset] = x as i8 as u8,
            (Storage::Float, Value::Float(x)) => row[offset..offset + 8].copy_from_slice(&x.to_le_bytes()),
            (Storage::Timestamp, Value::Timestamp(x)) => row[offset..offset + 8].copy_from_slice(&x.to_le_bytes()),
            (Storage::Date, Value::Date(x)) => row[offset..offset + 4].copy_from_slice(&x.to_le_bytes()),
            (Storage::Decimal, Value::Decimal(x)) => {
                row[offset..offset + 16].copy_from_slice(&x.scaled().to_le_bytes());
            }
            (Storage::Boolean, Value::Boolean(x)) => row[offset] = x as u8,
            (Storage::Point, Value::Point(x)) => {
                row[offset..offset + 8].copy_from_slice(&x.longitude.to_le_bytes());
                row[offset + 8..offset + 16].copy_from_slice(&x.latitude.to_le_bytes());
            }
            (Storage::InlineText, Value::Text(x)) => self.write_inline(row, x.as_bytes()),
            (Storage::InlineBytes, Value::Bytes(x)) | (Storage::InlineGeography, Value::Geography(x)) => {
                self.write_inline(row, x);
            }
            (Storage::LongText, Value::Text(x)) => self.write_long(row, x.as_bytes(), longs),
            (Storage::LongBytes, Value::Bytes(x)) | (Storage::LongGeography, Value::Geography(x)) => {
                self.write_long(row, x, longs);
            }
            (storage, value) => panic!("a {} value for a {storage:?} column: not checked", value.kind_name()),
        }
    }

    #[inline]
    fn write_inline(&self, row: &mut [u8], contents: &[u8]) {
        let place = &mut row[self.offset as usize..self.offset as usize + self.bytes as usize];
        place[0] = contents.len() as u8;
        place[1..1 + contents.len()].copy_from_slice(contents);
        place[1 + contents.len()..].fill(0);
    }

    fn write_long(&self, row: &mut [u8], contents: &[u8], longs: &mut LongValues) {
        self.set_handle(row, longs.store(contents));
    }
}

/// The layout of one table's rows.
#[derive(Clone, Debug)]
pub(crate) struct RowLayout {
    pub(crate) columns: Box<[ColumnLayout]>,
    pub(crate) row_bytes: usize,
    /// Columns that are handles.
    pub(crate) long_columns: Box<[u16]>,
    /// Whether there are DECIMALs with precision and scale, whose values are rounded before they
    /// are stored.
    pub(crate) rounds: bool,
    pub(crate) nullable_count: usize,
}

impl RowLayout {
    /// `columns`: type and whether NULL may be stored.
    pub(crate) fn new(columns: &[(ColumnType, bool)]) -> RowLayout {
        let nullable_count = columns.iter().filter(|column| column.1).count();
        let mut offset = nullable_count.div_ceil(8);
        let mut null_bit = 0;
        let mut layouts = Vec::with_capacity(columns.len());
        for (column_type, nullable) in columns {
            let storage = Storage::of(column_type);
            let bytes = match storage {
                Storage::InlineText | Storage::InlineBytes | Storage::InlineGeography => 1 + column_type.bytes_max(),
                _ if storage.is_long() => 8,
                _ => column_type.bytes_max(),
            };
            let bit = if *nullable { null_bit } else { NOT_NULLABLE };
            null_bit += u16::from(*nullable);
            layouts.push(ColumnLayout { offset: offset as u32, bytes: bytes as u16, null_bit: bit, storage });
            offset += bytes;
        }
        let long_columns = (0..layouts.len() as u16).filter(|column| layouts[*column as usize].storage.is_long());
        RowLayout {
            long_columns: long_columns.collect(),
            rounds: columns.iter().any(|(column_type, _)| column_type.precision_and_scale().is_some()),
            columns: layouts.into(),
            // A table needs not have a row of no bytes handled everywhere.
            row_bytes: offset.max(1),
            nullable_count,
        }
    }

    /// Do two rows have the same bytes in these columns? Long values are told apart by their
    /// handles.
    pub(crate) fn same_columns(&self, columns: &[u16], left: &[u8], right: &[u8]) -> bool {
        columns.iter().all(|column| {
            let column = &self.columns[*column as usize];
            let range = column.offset as usize..column.offset as usize + column.bytes as usize;
            column.is_null(left) == column.is_null(right) && left[range.clone()] == right[range]
        })
    }

    /// A column, in this order of columns, whose bytes in `row` are not a value of it. Handles are
    /// not looked at.
    pub(crate) fn misfit(&self, row: &[u8]) -> Option<u16> {
        let misfits = |column: &ColumnLayout| !column.is_null(row) && !column.is_sound(row);
        self.columns.iter().position(misfits).map(|position| position as u16)
    }

    pub(crate) fn null_bytes(&self) -> usize {
        self.nullable_count.div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_takes_21_bytes() {
        let layout = RowLayout::new(&[
            (ColumnType::fixed(SqlType::Bigint), false),
            (ColumnType { sql_type: SqlType::Varchar, length: 2, in_bytes: false }, false),
            (ColumnType::fixed(SqlType::Integer), false),
        ]);
        assert_eq!(layout.row_bytes, 8 + 1 + 8 + 4);
    }

    #[test]
    fn what_is_written_is_read() {
        let text = "Zürich, a text longer than sixty-three bytes, so that it goes to a page of its own";
        let point = Point { longitude: 8.5, latitude: 47.4 };
        let decimal = Decimal::parse("-12.5").unwrap();
        let values: [(SqlType, u32, Value<'_>); 14] = [
            (SqlType::Tinyint, 0, Value::Integer(-127)),
            (SqlType::Smallint, 0, Value::Integer(-300)),
            (SqlType::Integer, 0, Value::Integer(-70_000)),
            (SqlType::Bigint, 0, Value::Integer(-5_000_000_000)),
            (SqlType::Float, 0, Value::Float(0.1)),
            (SqlType::Timestamp, 0, Value::Timestamp(77)),
            (SqlType::Date, 0, Value::Date(2026 * 65536 + 257)),
            (SqlType::Decimal, 0, Value::Decimal(decimal)),
            (SqlType::Boolean, 0, Value::Boolean(true)),
            (SqlType::Point, 0, Value::Point(point)),
            (SqlType::Varchar, 10, Value::Text("ünf")),
            (SqlType::Varbinary, 63, Value::Bytes(&[1, 2])),
            (SqlType::Varchar, 100, Value::Text(text)),
            (SqlType::Varbinary, 100, Value::Bytes(&[7])),
        ];
        for nullable in [false, true] {
            let columns: Vec<_> = values
                .iter()
                .map(|(sql_type, length, _)| {
                    (ColumnType { sql_type: *sql_type, length: *length, in_bytes: false }, nullable)
                })
                .collect();
            let layout = RowLayout::new(&columns);
            let mut longs = LongValues::new(&Default::default());
            let mut row = vec![0; layout.row_bytes];
            for (column, (_, _, value)) in layout.columns.iter().zip(&values) {
                column.write(&mut row, value, &mut longs);
            }
            for (column, (_, _, value)) in layout.columns.iter().zip(&values) {
                assert_eq!(format!("{:?}", column.read(&row, &longs)), format!("{value:?}"));
            }
            if nullable {
                for column in &layout.columns {
                    column.write(&mut row, &Value::Null, &mut longs);
                    assert!(column.read(&row, &longs).is_null());
                }
            }
        }
    }
}
