//! Types while binding: which stand beside each other, and constants of them.

use super::digits::Digits;
use crate::errors::at_compile_time;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{ArithmeticDomain, Expr};
use ferrite_value::cast::cast;
use ferrite_value::{ColumnType, Decimal, OwnedValue, SqlType, Value};

/// A bound expression with its type; None while nothing says what type it has: NULL, or a `?` not
/// yet met by a context.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub expr: Expr,
    pub sql_type: Option<SqlType>,
    /// Of a number's literal that DECIMAL does not hold: all its digits.
    pub digits: Option<Digits>,
}

impl Typed {
    pub fn new(expr: Expr, sql_type: SqlType) -> Self {
        Typed::of(expr, Some(sql_type))
    }

    pub fn of(expr: Expr, sql_type: Option<SqlType>) -> Self {
        Typed { expr, sql_type, digits: None }
    }

    pub fn null() -> Self {
        Typed::of(Expr::null(), None)
    }

    pub fn boolean(expr: Expr) -> Self {
        Typed::new(expr, SqlType::Boolean)
    }

    pub fn constant(&self) -> Option<&OwnedValue> {
        match &self.expr {
            Expr::Constant(value) => Some(value),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self.constant(), Some(OwnedValue::Null))
    }

    /// The type, where an undecided one counts as text.
    pub fn decided_type(&self) -> SqlType {
        self.sql_type.unwrap_or(SqlType::Varchar)
    }
}

/// The widest type of a kind, for parameters that are compared or computed with.
pub(crate) fn widest(sql_type: SqlType) -> ColumnType {
    if sql_type.is_integer() { ColumnType::fixed(SqlType::Bigint) } else { ColumnType::unbounded(sql_type) }
}

/// In which domain numbers of these types compute.
pub(crate) fn arithmetic_domain(left: SqlType, right: SqlType) -> Option<ArithmeticDomain> {
    if !left.is_numeric() || !right.is_numeric() {
        None
    } else if left == SqlType::Float || right == SqlType::Float {
        Some(ArithmeticDomain::Float)
    } else if left == SqlType::Decimal || right == SqlType::Decimal {
        Some(ArithmeticDomain::Decimal)
    } else {
        Some(ArithmeticDomain::Integer)
    }
}

pub(crate) fn domain_type(domain: ArithmeticDomain) -> SqlType {
    match domain {
        ArithmeticDomain::Integer => SqlType::Bigint,
        ArithmeticDomain::Float => SqlType::Float,
        ArithmeticDomain::Decimal => SqlType::Decimal,
    }
}

/// One type that values of both can be brought to without an explicit CAST (CASE, COALESCE, UNION).
pub(crate) fn common_type(left: Option<SqlType>, right: Option<SqlType>) -> UserResult<Option<SqlType>> {
    let (Some(left), Some(right)) = (left, right) else { return Ok(left.or(right)) };
    if left == right {
        return Ok(Some(left));
    }
    if left.is_integer() && right.is_integer() {
        return Ok(Some(left.max(right)));
    }
    if let Some(domain) = arithmetic_domain(left, right) {
        return Ok(Some(domain_type(domain)));
    }
    match (left, right) {
        (SqlType::Timestamp, SqlType::Date) | (SqlType::Date, SqlType::Timestamp) => Ok(Some(SqlType::Timestamp)),
        _ => Err(incompatible(left, right)),
    }
}

#[cold]
pub(crate) fn incompatible(left: SqlType, right: SqlType) -> UserError {
    UserError::compile("42804", format!("incompatible data types in combination: {left} and {right}"))
        .with_hint("use CAST to say which type is meant")
}

/// Whether a value of `from` may be given where `to` is stored.
pub(crate) fn can_store(from: SqlType, to: SqlType) -> bool {
    if from.same_kind(to) || (from.is_numeric() && to.is_numeric()) {
        return true;
    }
    match (from, to) {
        (SqlType::Varchar, _) => true,
        (SqlType::Varbinary, SqlType::Geography) => true,
        (_, SqlType::Varchar) => !matches!(from, SqlType::Varbinary),
        (SqlType::Timestamp, SqlType::Date) | (SqlType::Date, SqlType::Timestamp) => true,
        (SqlType::Timestamp, _) if to.is_integer() => true,
        (_, SqlType::Timestamp) if from.is_integer() => true,
        _ => false,
    }
}

/// Evaluates a constant cast, with the error that a failing one has.
pub(crate) fn cast_constant(value: &OwnedValue, to: &ColumnType) -> UserResult<OwnedValue> {
    let arena = Bump::new();
    let value = value.as_value();
    cast(value, to, &arena).map(|value| owned(&value)).map_err(|error| {
        let error = at_compile_time(error);
        match value {
            Value::Text(text) if error.detail().is_none() => {
                error.with_detail(format!("'{}' is not a valid {}", crate::errors::excerpt(text), to.sql_type))
            }
            _ => error,
        }
    })
}

pub(crate) fn owned(value: &Value<'_>) -> OwnedValue {
    match value {
        Value::Array(_) | Value::Table(_) => OwnedValue::Null,
        scalar => scalar.to_owned_value(),
    }
}

/// The integer that an exact number is, if it is one; not the smallest, which means NULL on the
/// wire.
pub(crate) fn whole_number(value: &OwnedValue) -> Option<i64> {
    let whole = match value {
        OwnedValue::Integer(x) => Some(*x),
        OwnedValue::Decimal(x) => Decimal::to_i64_exact(*x),
        _ => None,
    };
    whole.filter(|whole| *whole != i64::MIN)
}
