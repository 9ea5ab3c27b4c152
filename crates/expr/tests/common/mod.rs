//! Short words for building expressions, and a context of fixed rows and parameters.
#![allow(dead_code, reason = "each test file uses some of these")]

use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{ArithmeticDomain, ArithmeticOperator, CompareOperator, Context, Expr};
use ferrite_value::{Decimal, OwnedValue, SqlType, Value, convert};

pub const NULL: Expr = Expr::Constant(OwnedValue::Null);
/// 2026-11-20 22:58:04.694.
pub const TRANSACTION_TIME: i64 = 1_795_215_484_694_000;

pub fn int(value: i64) -> Expr {
    Expr::integer(value)
}

pub fn float(value: f64) -> Expr {
    Expr::Constant(OwnedValue::Float(value))
}

pub fn dec(text: &str) -> Expr {
    Expr::Constant(OwnedValue::Decimal(Decimal::parse(text).expect("a decimal")))
}

pub fn text(value: &str) -> Expr {
    Expr::Constant(OwnedValue::Text(value.into()))
}

pub fn bytes(value: &[u8]) -> Expr {
    Expr::Constant(OwnedValue::Bytes(value.into()))
}

pub fn boolean(value: bool) -> Expr {
    Expr::Constant(OwnedValue::Boolean(value))
}

pub fn time(value: &str) -> Expr {
    Expr::Constant(OwnedValue::Timestamp(ferrite_value::temporal::parse_timestamp(value).expect("a timestamp")))
}

pub fn column(column: u16) -> Expr {
    Expr::column(0, column)
}

pub fn arithmetic(operator: ArithmeticOperator, domain: ArithmeticDomain, left: Expr, right: Expr) -> Expr {
    Expr::Arithmetic { operator, domain, left: Box::new(left), right: Box::new(right) }
}

pub fn compare(operator: CompareOperator, left: Expr, right: Expr) -> Expr {
    Expr::Compare { operator, left: Box::new(left), right: Box::new(right) }
}

pub fn equal(left: Expr, right: Expr) -> Expr {
    compare(CompareOperator::Equal, left, right)
}

pub fn and(operands: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::And(operands.into_iter().collect())
}

pub fn or(operands: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::Or(operands.into_iter().collect())
}

/// An expression that is an error when it is evaluated.
pub fn failing() -> Expr {
    arithmetic(ArithmeticOperator::Divide, ArithmeticDomain::Integer, int(1), int(0))
}

pub struct Fixed<'a> {
    pub arena: &'a Bump,
    pub columns: Vec<Value<'a>>,
    pub parameters: Vec<Value<'a>>,
}

impl<'a> Context<'a> for Fixed<'a> {
    fn column(&self, slot: u16, column: u16) -> Value<'a> {
        assert_eq!(slot, 0);
        self.columns[column as usize]
    }
    fn parameter(&self, index: u16) -> Value<'a> {
        self.parameters[index as usize]
    }
    fn register(&self, index: u16) -> Value<'a> {
        Value::Integer(1_000 + index as i64)
    }
    fn arena(&self) -> &'a Bump {
        self.arena
    }
    fn transaction_time(&self) -> i64 {
        TRANSACTION_TIME
    }
    fn subquery(&self, subquery: u16, operand: Value<'a>) -> UserResult<Value<'a>> {
        match operand {
            Value::Null => Ok(Value::Integer(subquery as i64)),
            operand => Ok(operand),
        }
    }
}

/// The result as text with its kind in front, or the error's message behind `error: `.
pub fn shown(result: UserResult<Value<'_>>) -> String {
    match result {
        Ok(Value::Null) => "NULL".into(),
        Ok(value) => format!("{} {}", value.kind_name(), convert::to_text_string(&value)),
        Err(error) => format!("error: {}", UserError::message(&error)),
    }
}

/// The text of `expression` over the columns `7, NULL, 'abc'` and the parameters
/// `5, [1, NULL, 3], [1, 3]`.
pub fn evaluated(expression: &Expr) -> String {
    let arena = Bump::new();
    let context = Fixed {
        arena: &arena,
        columns: vec![Value::Integer(7), Value::Null, Value::Text("abc")],
        parameters: vec![
            Value::Integer(5),
            Value::Array(&[Value::Integer(1), Value::Null, Value::Integer(3)]),
            Value::Array(&[Value::Integer(1), Value::Integer(3)]),
        ],
    };
    let result = expression.eval(&context);
    // The two ways of evaluating a condition agree; only an error behind a deciding operand may be
    // met by one alone.
    if let (Ok(value), Ok(is_true)) = (&result, expression.is_true(&context)) {
        assert_eq!(is_true, matches!(value, Value::Boolean(true)), "{expression:?}");
    }
    shown(result)
}

/// Each expression must give the text beside it.
#[track_caller]
pub fn check(cases: Vec<(Expr, &str)>) {
    for (number, (expression, expected)) in cases.into_iter().enumerate() {
        let actual = evaluated(&expression);
        assert_eq!(actual, expected, "case {number}: {expression:?}");
    }
}

pub fn cast(operand: Expr, to: SqlType) -> Expr {
    operand.cast_to(to)
}
