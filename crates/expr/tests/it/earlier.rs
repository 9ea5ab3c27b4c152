//! Expressions of old databases keep the values that they had (docs/decisions/0024).

use bumpalo::Bump;
use ferrite_base::{UserResult, earlier as base};
use ferrite_expr::function::WindowEdge;
use ferrite_expr::{Context, Expr, Function, earlier};
use ferrite_value::temporal::{self, TimeUnit};
use ferrite_value::{OwnedValue, SqlType, Value, text};

struct Row<'a>(&'a [Value<'a>], &'a Bump);

impl<'a> Context<'a> for Row<'a> {
    fn column(&self, _slot: u16, column: u16) -> Value<'a> {
        self.0[usize::from(column)]
    }
    fn parameter(&self, _index: u16) -> Value<'a> {
        unreachable!("there is none")
    }
    fn register(&self, _index: u16) -> Value<'a> {
        unreachable!("there is none")
    }
    fn arena(&self) -> &'a Bump {
        self.1
    }
    fn transaction_time(&self) -> i64 {
        0
    }
    fn subquery(&self, _subquery: u16, _operand: Value<'a>) -> UserResult<Value<'a>> {
        unreachable!("there is none")
    }
}

fn call(function: Function, arguments: impl Into<Box<[Expr]>>) -> Expr {
    Expr::Call { function, arguments: arguments.into() }
}

fn value(expression: &Expr, row: &[Value<'_>]) -> Result<OwnedValue, String> {
    let arena = Bump::new();
    let value = expression.eval(&Row(row, &arena)).map(|value| value.to_owned_value());
    value.map_err(|error| error.code().to_owned())
}

/// The expression, of a column of that type with that value; its value today, and as an old
/// database has it.
#[track_caller]
fn check(expression: Expr, of: (SqlType, Value<'_>), today: Result<Value<'_>, &str>, kept: Value<'_>) {
    let row = [of.1];
    let today = today.map(|value| value.to_owned_value()).map_err(str::to_owned);
    assert_eq!(value(&expression, &row), today, "{expression:?}");
    let of_old = earlier::kept(expression, &|_, _| Some(of.0));
    assert_eq!(value(&of_old, &row), Ok(kept.to_owned_value()), "{of_old:?}");
    assert!(!base::values(), "only for the length of it");
    let twice = earlier::kept(of_old.clone(), &|_, _| Some(of.0));
    assert_eq!(twice, of_old);
}

#[test]
fn what_has_other_values_today() {
    let time = |text: &str| temporal::parse_timestamp(text).expect("a time");
    let (first, last) = (temporal::TIMESTAMP_VALID_MIN, temporal::TIMESTAMP_VALID_MAX);
    let column = || Expr::column(0, 0);
    let hour = time("2020-01-01 11:00:00");
    let within = (SqlType::Timestamp, Value::Timestamp(hour - 5));
    let end = call(Function::TimeWindow(TimeUnit::Hour, WindowEdge::End), [Expr::integer(1), column()]);
    check(end, within, Ok(Value::Timestamp(hour)), Value::Timestamp(hour - 1));
    let saturday = (SqlType::Timestamp, Value::Timestamp(time("2024-01-06")));
    let monday = Expr::Constant(OwnedValue::Timestamp(time("2024-01-08")));
    let weeks = call(Function::DateDifference(TimeUnit::Week), [column(), monday]);
    check(weeks, saturday, Ok(Value::Integer(0)), Value::Integer(1));
    let float = (SqlType::Float, Value::Float(0.25));
    check(column().cast_to(SqlType::Varchar), float, Ok(Value::Text("2.5E-1")), Value::Text("0.25"));
    let decimal = (SqlType::Decimal, Value::Decimal(text::parse_decimal("123456.64565").expect("a decimal")));
    let short = call(Function::Str, [column(), Expr::integer(12), Expr::integer(4)]);
    check(short, decimal, Ok(Value::Text("123456.6456")), Value::Text("123456.6457"));
    let no_zone = (SqlType::Varchar, Value::Null);
    let of_time = Expr::Constant(OwnedValue::Timestamp(0));
    let formatted = call(Function::FormatTimestamp, [of_time, column()]);
    check(formatted, no_zone, Ok(Value::Text("1970-01-01 00:00:00.000000")), Value::Null);

    let day = temporal::MICROSECONDS_PER_DAY;
    let next = call(Function::DateAdd(TimeUnit::Day), [Expr::integer(1), column()]);
    check(next, (SqlType::Timestamp, Value::Timestamp(last)), Err("22008"), Value::Timestamp(last + day));
    let week = call(Function::Truncate(TimeUnit::Week), [column()]);
    let monday_before = temporal::truncate(first, TimeUnit::Week).expect("a time");
    check(week, (SqlType::Timestamp, Value::Timestamp(first)), Err("22008"), Value::Timestamp(monday_before));
    let beyond = (SqlType::Bigint, Value::Integer(last + 1));
    check(column().cast_to(SqlType::Timestamp), beyond, Err("22008"), Value::Timestamp(last + 1));
    let of_integer = call(Function::ToTimestamp(TimeUnit::Microsecond), [column()]);
    check(of_integer, beyond, Err("22008"), Value::Timestamp(last + 1));
    let written = (SqlType::Varchar, Value::Text("1582-12-31"));
    check(column().cast_to(SqlType::Timestamp), written, Err("22008"), Value::Timestamp(first - day));
}

#[test]
fn what_has_the_same_values_stays_as_it_is() {
    let column = || Expr::column(0, 0);
    let integer = &|_, _| Some(SqlType::Integer);
    for same in [
        column(),
        column().cast_to(SqlType::Varchar),
        call(Function::Truncate(TimeUnit::Hour), [column()]),
        call(Function::DateDifference(TimeUnit::Day), [column(), column()]),
    ] {
        assert_eq!(earlier::kept(same.clone(), integer), same);
    }
    // Each conjunct by itself: keys of joins are looked for among them.
    let differs = || call(Function::Str, [column()]);
    let Expr::And(conjuncts) = earlier::kept(Expr::And([column(), differs()].into()), integer) else {
        panic!("an AND")
    };
    assert_eq!(*conjuncts, [column(), call(Function::Earlier, [differs()])]);
}
