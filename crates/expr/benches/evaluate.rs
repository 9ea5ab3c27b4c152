//! Nanoseconds of the expressions that a Voter transaction evaluates, one line each. Run:
//! `cargo bench -p ferrite-expr`.

use bumpalo::Bump;
use ferrite_base::UserResult;
use ferrite_expr::{
    Aggregate, AggregateKind, AggregateState, ArithmeticDomain, ArithmeticOperator, CompareOperator, Context, Expr,
};
use ferrite_value::{SqlType, Value};
use std::hint::black_box;
use std::time::Instant;

struct Row<'a> {
    arena: &'a Bump,
    columns: [Value<'a>; 4],
    parameters: [Value<'a>; 4],
}

impl<'a> Context<'a> for Row<'a> {
    #[inline]
    fn column(&self, _: u16, column: u16) -> Value<'a> {
        self.columns[column as usize]
    }
    #[inline]
    fn parameter(&self, index: u16) -> Value<'a> {
        self.parameters[index as usize]
    }
    #[inline]
    fn register(&self, index: u16) -> Value<'a> {
        self.columns[index as usize]
    }
    fn arena(&self) -> &'a Bump {
        self.arena
    }
    fn transaction_time(&self) -> i64 {
        0
    }
    fn subquery(&self, _: u16, operand: Value<'a>) -> UserResult<Value<'a>> {
        Ok(operand)
    }
}

fn main() {
    let compare =
        |operator, left: Expr, right: Expr| Expr::Compare { operator, left: Box::new(left), right: Box::new(right) };
    let empty = Expr::IsNull { operand: Box::new(Expr::Register(3)), negated: false };
    let plus_one = Expr::Arithmetic {
        operator: ArithmeticOperator::Add,
        domain: ArithmeticDomain::Integer,
        left: Box::new(Expr::column(0, 0)),
        right: Box::new(Expr::integer(1)),
    };
    let key = compare(CompareOperator::Equal, Expr::column(0, 0), Expr::Parameter(0));
    let both =
        Expr::And(Box::new([key.clone(), compare(CompareOperator::Less, Expr::column(0, 1), Expr::integer(100))]));
    let text = compare(CompareOperator::Equal, Expr::column(0, 2), Expr::Parameter(2));
    let arena = Bump::new();
    let row = Row {
        arena: &arena,
        columns: [Value::Integer(5), Value::Integer(7), Value::Text("MA"), Value::Null],
        parameters: [Value::Integer(5), Value::Integer(7), Value::Text("MA"), Value::Null],
    };
    measure("eval column", || row_value(&Expr::column(0, 1), &row));
    measure("eval parameter", || row_value(&Expr::Parameter(1), &row));
    measure("eval column + 1", || row_value(&plus_one, &row));
    measure("is_true column = ?", || black_box(&key).is_true(black_box(&row)).is_ok_and(|holds| holds));
    measure("is_true column = ? AND column < 100", || {
        black_box(&both).is_true(black_box(&row)).is_ok_and(|holds| holds)
    });
    measure("is_true text = ?", || black_box(&text).is_true(black_box(&row)).is_ok_and(|holds| holds));
    measure("is_true register IS NULL", || black_box(&empty).is_true(black_box(&row)).is_ok_and(|holds| holds));
    let mut sum = AggregateState::new(&Aggregate {
        kind: AggregateKind::Sum,
        distinct: false,
        argument: None,
        argument_type: SqlType::Bigint,
        result_type: SqlType::Bigint,
        user: None,
    });
    measure("add to SUM", || black_box(&mut sum).add(black_box(Value::Integer(1))).is_ok());
}

fn row_value<'a>(expression: &'a Expr, row: &Row<'a>) -> bool {
    matches!(black_box(expression).eval(black_box(row)), Ok(Value::Integer(_)))
}

/// The best of several runs, as the machine has other work too.
fn measure(name: &str, mut body: impl FnMut() -> bool) {
    const ITERATIONS: u32 = 2_000_000;
    let best = (0..7)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ITERATIONS {
                assert!(black_box(body()));
            }
            start.elapsed()
        })
        .min()
        .expect("there are runs");
    println!("{name:<40} {:>6.2} ns", best.as_nanos() as f64 / ITERATIONS as f64);
}
