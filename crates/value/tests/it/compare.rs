//! Laws of the orders: total, exact across numeric kinds, hashing in agreement with grouping.

use ferrite_value::compare::{compare, equal_grouping, hash_into, order};
use ferrite_value::{Decimal, Point, Value};
use proptest::prelude::*;
use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::hash::{DefaultHasher, Hasher};

fn decimal(text: &str) -> Value<'static> {
    Value::Decimal(Decimal::parse(text).unwrap())
}

fn hash(value: &Value<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_into(value, &mut hasher);
    hasher.finish()
}

/// Numbers close to each other across kinds, where inexact comparison goes wrong.
fn any_number() -> impl Strategy<Value = Value<'static>> {
    let integers = vec![0, 1, -1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, i64::MAX, i64::MAX - 1, i64::MIN];
    let floats = vec![
        0.0,
        -0.0,
        0.1,
        -0.5,
        1.5,
        1e12,
        9_007_199_254_740_993.0,
        9.223_372_036_854_776e18,
        -9.3e18,
        1e26,
        1e30,
        -1e300,
        5e-324,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let decimals = ["0", "0.1", "-0.5", "9007199254740993", "9223372036854775807.000000000001", "-1e25", "1e-12"];
    prop_oneof![
        prop_oneof![prop::sample::select(integers), any::<i64>(), -3i64..3].prop_map(Value::Integer),
        prop_oneof![prop::sample::select(floats), any::<f64>(), -3.0..3.0].prop_map(Value::Float),
        prop::sample::select(decimals.to_vec()).prop_map(decimal),
        any::<i64>().prop_map(|x| Value::Decimal(Decimal::from_scaled(x as i128).unwrap())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_is_total(a in any_number(), b in any_number(), c in any_number()) {
        prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
        prop_assert_eq!(compare(&a, &b), Some(order(&a, &b)));
        prop_assert_eq!(equal_grouping(&a, &b), order(&a, &b) == Equal);
        if order(&a, &b).is_le() && order(&b, &c).is_le() {
            prop_assert!(order(&a, &c).is_le());
        }
        if std::mem::discriminant(&a) == std::mem::discriminant(&b) && equal_grouping(&a, &b) {
            prop_assert_eq!(hash(&a), hash(&b));
        }
    }
}

#[track_caller]
fn check(left: Value<'_>, right: Value<'_>, expected: Ordering) {
    assert_eq!(compare(&left, &right), Some(expected), "{left:?} {right:?}");
    assert_eq!(compare(&right, &left), Some(expected.reverse()));
}

#[test]
fn numbers_compare_exactly() {
    check(Value::Integer((1 << 53) + 1), Value::Float(9_007_199_254_740_992.0), Greater);
    check(Value::Integer(i64::MAX), Value::Float(9.223_372_036_854_776e18), Less);
    check(Value::Integer(i64::MIN), Value::Float(-9.223_372_036_854_776e18), Equal);
    check(Value::Integer(1), Value::Float(1.5), Less);
    check(Value::Integer(-1), Value::Float(-1.5), Greater);
    check(Value::Integer(-1), Value::Float(-0.5), Less);
    check(Value::Integer(0), Value::Float(-0.0), Equal);
    // The double nearest to 0.1 is a little above it.
    check(decimal("0.1"), Value::Float(0.1), Less);
    check(decimal("0.5"), Value::Float(0.5), Equal);
    check(decimal("-0.5"), Value::Float(-0.25), Less);
    check(decimal("0"), Value::Float(5e-324), Less);
    check(decimal("0"), Value::Float(-5e-324), Greater);
    check(decimal("2"), Value::Integer(2), Equal);
    check(decimal("2.000000000001"), Value::Integer(2), Greater);
    check(Value::Float(0.0), Value::Float(-0.0), Equal);
}

#[test]
fn null_is_lowest_and_nan_highest() {
    assert_eq!(compare(&Value::Null, &Value::Integer(1)), None);
    assert_eq!(compare(&Value::Text("a"), &Value::Null), None);
    assert_eq!(order(&Value::Null, &Value::Null), Equal);
    assert_eq!(order(&Value::Null, &Value::Integer(i64::MIN)), Less);
    assert_eq!(order(&Value::Text(""), &Value::Null), Greater);
    assert!(equal_grouping(&Value::Null, &Value::Null));
    let nan = Value::Float(f64::NAN);
    check(nan, nan, Equal);
    check(nan, Value::Float(f64::INFINITY), Greater);
    check(nan, Value::Integer(i64::MAX), Greater);
    check(nan, decimal("1e25"), Greater);
    assert_eq!(hash(&nan), hash(&Value::Float(-f64::NAN)));
    assert_eq!(hash(&Value::Float(0.0)), hash(&Value::Float(-0.0)));
}

#[test]
fn text_and_bytes_compare_by_bytes() {
    check(Value::Text("Z"), Value::Text("a"), Less);
    check(Value::Text("a"), Value::Text("ab"), Less);
    check(Value::Text("z"), Value::Text("é"), Less);
    check(Value::Bytes(&[0x80]), Value::Bytes(&[0x7f, 0xff]), Greater);
    check(Value::Boolean(false), Value::Boolean(true), Less);
    check(Value::Date((1970 << 16) | 0x102), Value::Timestamp(86_400_000_000), Equal);
    let point = |longitude, latitude| Value::Point(Point { longitude, latitude });
    check(point(1.0, 2.0), point(1.0, 3.0), Less);
    assert_ne!(hash(&Value::Text("a")), hash(&Value::Text("b")));
}
