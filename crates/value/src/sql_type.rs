//! SQL types, with the type codes that the client protocol gives them (wire-protocol 4.1).

use crate::{Decimal, decimal};
use std::fmt;

/// In `length` of a DECIMAL: it was declared with precision and scale, which take fifteen bits
/// each.
const DECLARED: u32 = 1 << 31;
const DECLARED_DIGITS_BITS: u32 = 15;
const DECLARED_DIGITS_MAX: u64 = (1 << DECLARED_DIGITS_BITS) - 1;

/// A scalar type. The discriminants are the protocol's type codes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(i8)]
pub enum SqlType {
    Tinyint = 3,
    Smallint = 4,
    Integer = 5,
    Bigint = 6,
    Float = 8,
    Varchar = 9,
    Timestamp = 11,
    Date = 12,
    Decimal = 22,
    Boolean = 23,
    Varbinary = 25,
    Point = 26,
    Geography = 27,
}

impl SqlType {
    pub const ALL: [SqlType; 13] = [
        SqlType::Tinyint,
        SqlType::Smallint,
        SqlType::Integer,
        SqlType::Bigint,
        SqlType::Float,
        SqlType::Varchar,
        SqlType::Timestamp,
        SqlType::Date,
        SqlType::Decimal,
        SqlType::Boolean,
        SqlType::Varbinary,
        SqlType::Point,
        SqlType::Geography,
    ];

    /// Types whose values are of one variant of `Value`: no conversion between them.
    #[inline]
    pub fn same_kind(self, other: SqlType) -> bool {
        self == other || (self.is_integer() && other.is_integer())
    }

    /// The type with this protocol code.
    pub fn from_code(code: i8) -> Option<SqlType> {
        Self::ALL.into_iter().find(|ty| *ty as i8 == code)
    }

    pub fn code(self) -> i8 {
        self as i8
    }

    /// TINYINT to BIGINT.
    pub fn is_integer(self) -> bool {
        matches!(self, SqlType::Tinyint | SqlType::Smallint | SqlType::Integer | SqlType::Bigint)
    }

    /// Integer, FLOAT or DECIMAL.
    pub fn is_numeric(self) -> bool {
        self.is_integer() || matches!(self, SqlType::Float | SqlType::Decimal)
    }

    /// Types whose values have no fixed size.
    pub fn is_variable_length(self) -> bool {
        matches!(self, SqlType::Varchar | SqlType::Varbinary | SqlType::Geography)
    }

    /// Smallest and largest storable value of an integer type. The smallest of each width means
    /// NULL on the wire and is refused as a value.
    pub fn integer_range(self) -> Option<(i64, i64)> {
        match self {
            SqlType::Tinyint => Some((-127, 127)),
            SqlType::Smallint => Some((-32_767, 32_767)),
            SqlType::Integer => Some((-2_147_483_647, 2_147_483_647)),
            SqlType::Bigint => Some((-i64::MAX, i64::MAX)),
            _ => None,
        }
    }

    /// Upper-case SQL name, as in messages and `@SystemCatalog`.
    pub fn name(self) -> &'static str {
        match self {
            SqlType::Tinyint => "TINYINT",
            SqlType::Smallint => "SMALLINT",
            SqlType::Integer => "INTEGER",
            SqlType::Bigint => "BIGINT",
            SqlType::Float => "FLOAT",
            SqlType::Varchar => "VARCHAR",
            SqlType::Timestamp => "TIMESTAMP",
            SqlType::Date => "DATE",
            SqlType::Decimal => "DECIMAL",
            SqlType::Boolean => "BOOLEAN",
            SqlType::Varbinary => "VARBINARY",
            SqlType::Point => "GEOGRAPHY_POINT",
            SqlType::Geography => "GEOGRAPHY",
        }
    }

    /// May stand in PARTITION TABLE ... ON COLUMN (wire-protocol 11.1).
    pub fn can_partition(self) -> bool {
        self.is_integer() || matches!(self, SqlType::Varchar | SqlType::Varbinary)
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A column's or variable's declared type: the scalar type and, where the size varies, the declared
/// size.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ColumnType {
    pub sql_type: SqlType,
    /// VARCHAR: characters, or bytes if `in_bytes`; VARBINARY and GEOGRAPHY: bytes; DECIMAL: its
    /// declaration, see [`ColumnType::precision_and_scale`]; others: 0.
    pub length: u32,
    /// VARCHAR(n BYTES).
    pub in_bytes: bool,
}

impl ColumnType {
    /// A type of fixed size.
    pub const fn fixed(sql_type: SqlType) -> ColumnType {
        ColumnType { sql_type, length: 0, in_bytes: false }
    }

    /// DECIMAL(precision, scale) as written: whether it can be is for
    /// [`ColumnType::is_decimal_declaration`] to say.
    pub fn decimal(precision: u64, scale: u64) -> ColumnType {
        let digits = |number: u64| number.min(DECLARED_DIGITS_MAX) as u32;
        let length = DECLARED | digits(precision) << DECLARED_DIGITS_BITS | digits(scale);
        ColumnType { sql_type: SqlType::Decimal, length, in_bytes: false }
    }

    /// Of DECIMAL(precision, scale). None of DECIMAL, which has all the digits there are, and of
    /// other types.
    #[inline]
    pub fn precision_and_scale(&self) -> Option<(u32, u32)> {
        let mask = DECLARED_DIGITS_MAX as u32;
        (self.sql_type == SqlType::Decimal && self.length & DECLARED != 0)
            .then_some((self.length >> DECLARED_DIGITS_BITS & mask, self.length & mask))
    }

    /// Whether each value of the other type, cast to this one, compares with all values as it did.
    pub fn has_all_of(&self, other: SqlType) -> bool {
        match self.sql_type {
            SqlType::Bigint => other.is_integer(),
            SqlType::Decimal => other.is_integer() && self.precision_and_scale().is_none(),
            SqlType::Timestamp => other == SqlType::Date,
            _ => false,
        }
    }

    /// Whether there are DECIMALs with such a precision and scale.
    pub fn is_decimal_declaration(precision: u32, scale: u32) -> bool {
        (1..=decimal::PRECISION).contains(&precision) && scale <= decimal::SCALE && scale <= precision
    }

    /// A DECIMAL as this type has it: rounded to its scale, halves away from zero. None where it
    /// has more digits before the point than its precision leaves room for.
    pub fn rounded(&self, value: Decimal) -> Option<Decimal> {
        let Some((precision, scale)) = self.precision_and_scale() else { return Some(value) };
        let rounded = value.round(scale as i32)?;
        // Digits before the point are at most 26, so that the power is below 10^38.
        let whole_digits = precision.saturating_sub(scale).min(decimal::PRECISION - decimal::SCALE);
        (rounded.scaled().unsigned_abs() < 10u128.pow(whole_digits + decimal::SCALE)).then_some(rounded)
    }

    /// The same without precision and scale.
    pub fn without_declaration(self) -> ColumnType {
        if self.sql_type == SqlType::Decimal { ColumnType::fixed(SqlType::Decimal) } else { self }
    }

    /// A type without a declared size: as large as a value may be.
    pub fn unbounded(sql_type: SqlType) -> ColumnType {
        match sql_type {
            SqlType::Varchar => {
                ColumnType { sql_type, length: ferrite_base::limits::VALUE_BYTES_MAX as u32, in_bytes: true }
            }
            SqlType::Varbinary | SqlType::Geography => {
                ColumnType { sql_type, length: ferrite_base::limits::VALUE_BYTES_MAX as u32, in_bytes: false }
            }
            other => ColumnType::fixed(other),
        }
    }

    /// The most bytes a value of this type can take (variable-length types), or its size in a row
    /// (fixed types).
    pub fn bytes_max(&self) -> usize {
        match self.sql_type {
            SqlType::Tinyint | SqlType::Boolean => 1,
            SqlType::Smallint => 2,
            SqlType::Integer | SqlType::Date => 4,
            SqlType::Bigint | SqlType::Float | SqlType::Timestamp => 8,
            SqlType::Decimal | SqlType::Point => 16,
            SqlType::Varchar if !self.in_bytes => (self.length as usize * 4).min(ferrite_base::limits::VALUE_BYTES_MAX),
            SqlType::Varchar | SqlType::Varbinary | SqlType::Geography => self.length as usize,
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sql_type {
            SqlType::Varchar if self.in_bytes => write!(f, "VARCHAR({} BYTES)", self.length),
            SqlType::Varchar | SqlType::Varbinary | SqlType::Geography => {
                write!(f, "{}({})", self.sql_type, self.length)
            }
            SqlType::Decimal => match self.precision_and_scale() {
                Some((precision, scale)) => write!(f, "DECIMAL({precision},{scale})"),
                None => f.write_str("DECIMAL"),
            },
            other => other.fmt(f),
        }
    }
}
