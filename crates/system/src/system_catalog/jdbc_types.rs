//! SQL types in the terms of JDBC: the numbers, precision, scale and radix that columns and
//! parameters are described with, and TYPEINFO, which lists all types.
//!
//! It knows types only, nothing of a schema.

use crate::result::{Cell, SystemTable, cells};
use ferrite_base::limits::VALUE_BYTES_MAX;
use ferrite_value::ColumnType;
use ferrite_value::SqlType::{self, Integer, Smallint, Tinyint, Varchar};

/// Digits behind the point of every DECIMAL.
const DECIMAL_SCALE: i32 = 12;

/// The numbers of `java.sql.Types`.
pub(super) fn java_type(sql_type: SqlType) -> i32 {
    match sql_type {
        SqlType::Tinyint => -6,
        SqlType::Smallint => 5,
        SqlType::Integer => 4,
        SqlType::Bigint => -5,
        SqlType::Float => 6,
        SqlType::Varchar => 12,
        SqlType::Timestamp => 93,
        SqlType::Date => 91,
        SqlType::Decimal => 3,
        SqlType::Boolean => 16,
        SqlType::Varbinary => -3,
        SqlType::Point | SqlType::Geography => 1111,
    }
}

/// Digits of a number, in units of [`radix`].
fn fixed_precision(sql_type: SqlType) -> Option<i32> {
    match sql_type {
        SqlType::Tinyint => Some(7),
        SqlType::Smallint => Some(15),
        SqlType::Integer => Some(31),
        SqlType::Bigint | SqlType::Timestamp => Some(63),
        SqlType::Float => Some(53),
        SqlType::Decimal => Some(38),
        _ => None,
    }
}

pub(super) fn radix(sql_type: SqlType) -> Option<i32> {
    match sql_type {
        SqlType::Decimal => Some(10),
        other => fixed_precision(other).map(|_| 2),
    }
}

/// The same of a column, which may declare it.
pub(super) fn precision(column_type: &ColumnType) -> Option<i32> {
    let declared = column_type.precision_and_scale().map(|(precision, _)| precision as i32);
    declared.or(fixed_precision(column_type.sql_type))
}

pub(super) fn scale(column_type: &ColumnType) -> Option<i32> {
    let declared = column_type.precision_and_scale().map(|(_, scale)| scale as i32);
    declared.or((column_type.sql_type == SqlType::Decimal).then_some(DECIMAL_SCALE))
}

/// The declared size, of the types for which JDBC wants it.
pub(super) fn octet_length(column_type: &ColumnType) -> Option<i32> {
    matches!(column_type.sql_type, SqlType::Varchar | SqlType::Varbinary).then_some(column_type.length as i32)
}

pub(super) fn type_info() -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("TYPE_NAME", Varchar),
        ("DATA_TYPE", Integer),
        ("PRECISION", Integer),
        ("LITERAL_PREFIX", Varchar),
        ("LITERAL_SUFFIX", Varchar),
        ("CREATE_PARAMS", Varchar),
        ("NULLABLE", Smallint),
        ("CASE_SENSITIVE", Tinyint),
        ("SEARCHABLE", Smallint),
        ("UNSIGNED_ATTRIBUTE", Tinyint),
        ("FIXED_PREC_SCALE", Tinyint),
        ("AUTO_INCREMENT", Tinyint),
        ("LOCAL_TYPE_NAME", Varchar),
        ("MINIMUM_SCALE", Smallint),
        ("MAXIMUM_SCALE", Smallint),
        ("SQL_DATA_TYPE", Integer),
        ("SQL_DATETIME_SUB", Integer),
        ("NUM_PREC_RADIX", Integer),
    ]);
    for sql_type in SqlType::ALL {
        let quote = matches!(sql_type, SqlType::Varchar | SqlType::Varbinary | SqlType::Timestamp | SqlType::Date)
            .then_some("'");
        let is_text = sql_type == SqlType::Varchar;
        let precision =
            if sql_type.is_variable_length() { Some(VALUE_BYTES_MAX as i32) } else { fixed_precision(sql_type) };
        let scale = match sql_type {
            SqlType::Decimal => Some(DECIMAL_SCALE),
            SqlType::Boolean => Some(0),
            integer if integer.is_integer() => Some(0),
            _ => None,
        };
        answer.row(cells![
            sql_type.name(),
            java_type(sql_type),
            precision,
            quote,
            quote,
            sql_type.is_variable_length().then_some("max_length"),
            1,
            i32::from(is_text),
            if is_text { 3 } else { 2 },
            sql_type.is_numeric().then_some(0),
            0,
            0,
            sql_type.name(),
            scale,
            scale,
            Cell::NULL,
            Cell::NULL,
            radix(sql_type)
        ]);
    }
    answer
}
