//! Literals and type names: what the text of a constant or a type means. Numbers are in `number`.

use super::folding::Folding;
use super::types::{Typed, cast_constant, whole_number};
use crate::errors::at_compile_time;
use crate::parse::advice;
use crate::parse::cursor::{sized_type, type_named};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, DecimalScale};
use ferrite_expr::Expr;
use ferrite_value::{ColumnType, OwnedValue, SqlType, decimal};
use sqlparser::ast;

/// The type of a folded integer result: INTEGER when its operands were at most that and it fits.
pub(crate) fn constant_type(expr: &Expr, small: bool) -> Option<SqlType> {
    match expr {
        Expr::Constant(OwnedValue::Integer(value)) if small && value.abs() <= i64::from(i32::MAX) => {
            Some(SqlType::Integer)
        }
        // What fails, in a branch that may never be reached, has the type that it would have with
        // other numbers.
        Expr::Arithmetic { .. } if small && is_of_constants(expr) => Some(SqlType::Integer),
        _ => None,
    }
}

fn is_of_constants(expr: &Expr) -> bool {
    match expr {
        Expr::Constant(_) => true,
        Expr::Arithmetic { left, right, .. } => is_of_constants(left) && is_of_constants(right),
        Expr::Negate { operand, .. } => is_of_constants(operand),
        _ => false,
    }
}

pub(crate) fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

/// A constant as a value of `to`'s kind.
pub(crate) fn constant_as(typed: Typed, to: SqlType) -> UserResult<Expr> {
    let Some(value) = typed.constant() else { return Folding::default().convert(typed, to) };
    if let (OwnedValue::Bytes(bytes), true) = (value, to.is_integer()) {
        return integer_of_bytes(bytes).map(Expr::integer);
    }
    let kind = if to.is_integer() { SqlType::Bigint } else { to };
    if to.is_integer()
        && let OwnedValue::Text(_) = value
        && let Ok(decimal) = cast_constant(value, &ColumnType::fixed(SqlType::Decimal))
    {
        return Ok(match whole_number(&decimal) {
            Some(whole) => Expr::integer(whole),
            None => Expr::Constant(decimal),
        });
    }
    Ok(Expr::Constant(cast_constant(value, &ColumnType::unbounded(kind))?))
}

/// X'...' where an integer is wanted: big-endian, sign-extended from its eight bytes.
fn integer_of_bytes(bytes: &[u8]) -> UserResult<i64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return Err(at_compile_time(UserError::out_of_range(format!(
            "a BIGINT cannot be a hexadecimal literal of {} bytes",
            bytes.len()
        ))));
    }
    let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte)) as i64;
    if value == i64::MIN {
        return Err(at_compile_time(UserError::out_of_range("numeric value out of range")));
    }
    Ok(value)
}

pub(crate) fn cast_type(catalog: &Catalog, data_type_: &ast::DataType) -> UserResult<ColumnType> {
    let column_type = declared(catalog, data_type(data_type_)?)?;
    let sized = matches!(
        data_type_,
        ast::DataType::Varchar(Some(_)) | ast::DataType::Varbinary(Some(_)) | ast::DataType::Custom(_, _)
    ) || column_type.sql_type == SqlType::Decimal;
    Ok(if sized { column_type } else { ColumnType::unbounded(column_type.sql_type) })
}

/// A type as it is declared in this database, where DECIMAL(p, s) may be no more than DECIMAL.
pub(crate) fn declared(catalog: &Catalog, column_type: ColumnType) -> UserResult<ColumnType> {
    let Some((precision, scale)) = column_type.precision_and_scale() else { return Ok(column_type) };
    if catalog.decimals == DecimalScale::Ignored {
        return Ok(column_type.without_declaration());
    }
    if ColumnType::is_decimal_declaration(precision, scale) {
        return Ok(column_type);
    }
    Err(UserError::compile("42611", format!("there is no {column_type}")).with_hint(format!(
        "a DECIMAL(precision, scale) has 1 to {} digits, at most {} of them behind the point",
        decimal::PRECISION,
        decimal::SCALE
    )))
}

/// `(p)`, `(p, s)` or nothing behind DECIMAL.
fn decimal_type(info: &ast::ExactNumberInfo) -> UserResult<ColumnType> {
    match info {
        ast::ExactNumberInfo::None => Ok(ColumnType::fixed(SqlType::Decimal)),
        ast::ExactNumberInfo::Precision(precision) => Ok(ColumnType::decimal(*precision, 0)),
        ast::ExactNumberInfo::PrecisionAndScale(precision, scale) => match u64::try_from(*scale) {
            Ok(scale) => Ok(ColumnType::decimal(*precision, scale)),
            Err(_) => Err(UserError::syntax(format!("{scale} is not a valid scale"))),
        },
    }
}

/// A type as sqlparser has read it.
pub(crate) fn data_type(data_type: &ast::DataType) -> UserResult<ColumnType> {
    use ast::DataType as D;
    let fixed = |sql_type| Ok(ColumnType::fixed(sql_type));
    match data_type {
        D::TinyInt(None) => fixed(SqlType::Tinyint),
        D::SmallInt(None) => fixed(SqlType::Smallint),
        D::Int(None) | D::Integer(None) => fixed(SqlType::Integer),
        D::BigInt(None) => fixed(SqlType::Bigint),
        D::Float(_) | D::Double(_) | D::DoublePrecision | D::Real => fixed(SqlType::Float),
        D::Decimal(info) | D::Numeric(info) | D::Dec(info) => decimal_type(info),
        D::Timestamp(None, ast::TimezoneInfo::None) => fixed(SqlType::Timestamp),
        D::Date => fixed(SqlType::Date),
        D::Boolean | D::Bool => fixed(SqlType::Boolean),
        D::Varchar(length) => {
            let (length, in_bytes) = match length {
                None => (None, false),
                Some(ast::CharacterLength::Max) => (Some(ferrite_base::limits::VALUE_BYTES_MAX as u64), true),
                Some(ast::CharacterLength::IntegerLength { length, unit }) => {
                    (Some(*length), matches!(unit, Some(ast::CharLengthUnits::Octets)))
                }
            };
            sized_type(SqlType::Varchar, length, in_bytes)
        }
        D::Varbinary(length) => {
            let length = match length {
                Some(ast::BinaryLength::IntegerLength { length }) => Some(*length),
                _ => None,
            };
            sized_type(SqlType::Varbinary, length, false)
        }
        D::Custom(name, modifiers) => {
            let name = super::scope::object_name(name)?;
            let sql_type = type_named(&name).ok_or_else(|| advice::unknown_type(&name))?;
            let length = modifiers.first().and_then(|modifier| modifier.parse().ok());
            sized_type(sql_type, length, false)
        }
        other => Err(advice::unknown_type(&other.to_string().to_uppercase())),
    }
}
