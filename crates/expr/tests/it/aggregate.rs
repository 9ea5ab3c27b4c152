//! Aggregate states: results, limits, and the laws that views (remove) and partial results (merge)
//! rely on.

use bumpalo::Bump;
use ferrite_expr::{Aggregate, AggregateKind, AggregateState, Removal};
use ferrite_value::{Decimal, OwnedValue, SqlType, Value, convert};
use proptest::prelude::*;

fn aggregate(kind: AggregateKind, distinct: bool, argument_type: SqlType) -> Aggregate {
    let result_type = Aggregate::result_type_for(kind, argument_type).expect("the aggregate takes this type");
    Aggregate { kind, distinct, argument: None, argument_type, result_type, user: None }
}

fn result(state: &AggregateState) -> String {
    let arena = Bump::new();
    match state.finish(&arena) {
        Ok(value) => convert::to_text_string(&value),
        Err(error) => format!("error: {}", error.message()),
    }
}

fn over(aggregate: &Aggregate, values: &[OwnedValue]) -> AggregateState {
    let mut state = AggregateState::new(aggregate);
    values.iter().for_each(|value| state.add(value.as_value()).expect("values of the argument's type"));
    state
}

fn integers(values: &[i64]) -> Vec<OwnedValue> {
    values.iter().map(|value| OwnedValue::Integer(*value)).collect()
}

#[track_caller]
fn check(kind: AggregateKind, distinct: bool, argument_type: SqlType, values: &[OwnedValue], expected: &str) {
    assert_eq!(result(&over(&aggregate(kind, distinct, argument_type), values)), expected, "{kind:?} of {values:?}");
}

#[test]
fn results() {
    use AggregateKind::*;
    use SqlType::{Bigint, Float, Integer, Varchar};
    let null = OwnedValue::Null;
    let some = [OwnedValue::Integer(3), null.clone(), OwnedValue::Integer(30)];
    check(CountRows, false, Bigint, &some, "3");
    check(Count, false, Integer, &some, "2");
    check(Sum, false, Integer, &some, "33");
    check(Average, false, Integer, &some, "16");
    check(Min, false, Integer, &some, "3");
    check(Max, false, Integer, &some, "30");
    check(ApproximateCountDistinct, false, Integer, &some, "2");
    check(Average, false, Integer, &integers(&[-3, -4]), "-3");

    let repeated = integers(&[5, 5, 7]);
    check(Count, true, Integer, &repeated, "2");
    check(Sum, true, Integer, &repeated, "12");
    check(Average, true, Integer, &repeated, "6");
    check(Max, true, Integer, &repeated, "7");

    for kind in [Sum, Average, Min, Max] {
        check(kind, false, Integer, &[], "NULL");
        check(kind, false, Integer, std::slice::from_ref(&null), "NULL");
    }
    check(Sum, true, Integer, &[], "NULL");
    check(CountRows, false, Bigint, &[], "0");
    check(Count, false, Integer, &[null], "0");

    let decimal = |text: &str| OwnedValue::Decimal(Decimal::parse(text).expect("a decimal"));
    let decimals = [decimal("12.5"), decimal("0"), decimal("0")];
    check(Sum, false, SqlType::Decimal, &decimals, "12.500000000000");
    check(Average, false, SqlType::Decimal, &decimals, "4.166666666666");
    let floats = [OwnedValue::Float(0.5), OwnedValue::Float(0.25)];
    check(Sum, false, Float, &floats, "0.75");
    check(Average, false, Float, &floats, "0.375");
    let texts = ["b", "a", "ab"].map(|text| OwnedValue::Text(text.into()));
    check(Min, false, Varchar, &texts, "a");
    check(Max, false, Varchar, &texts, "b");
    check(Count, true, Varchar, &texts, "3");
}

#[test]
fn only_the_whole_sum_overflows() {
    use AggregateKind::{Average, Sum};
    let large = integers(&[i64::MAX, i64::MAX, -i64::MAX]);
    check(Sum, false, SqlType::Bigint, &large, "9223372036854775807");
    check(Sum, false, SqlType::Bigint, &large[..2], "error: the sum 18446744073709551614 will overflow BigInt storage");
    check(Average, false, SqlType::Bigint, &large[..2], "9223372036854775807");
    // The smallest integer means NULL to clients and is no result.
    let smallest = integers(&[-i64::MAX, -1]);
    check(Sum, false, SqlType::Bigint, &smallest, "error: the sum -9223372036854775808 will overflow BigInt storage");

    let nines = OwnedValue::Decimal(Decimal::parse("99999999999999999999999999.999999999999").expect("a decimal"));
    let minus = OwnedValue::Decimal(Decimal::parse("-99999999999999999999999999.999999999999").expect("a decimal"));
    let decimals = [nines.clone(), nines.clone(), nines.clone(), minus.clone(), minus.clone()];
    check(Sum, false, SqlType::Decimal, &decimals, "99999999999999999999999999.999999999999");
    check(Sum, false, SqlType::Decimal, &decimals[..3], "error: the sum will overflow Decimal storage");
    let floats = [OwnedValue::Float(1e308), OwnedValue::Float(1e308)];
    check(Sum, false, SqlType::Float, &floats, "error: the sum inf will overflow Float storage");
}

#[test]
fn types() {
    use AggregateKind::*;
    use SqlType::*;
    let cases = [
        (CountRows, Bigint, Some(Bigint)),
        (Count, Geography, Some(Bigint)),
        (Sum, Tinyint, Some(Bigint)),
        (Sum, Float, Some(Float)),
        (Sum, Decimal, Some(Decimal)),
        (Average, Integer, Some(Bigint)),
        (Average, Decimal, Some(Decimal)),
        (Min, Varchar, Some(Varchar)),
        (Max, Tinyint, Some(Tinyint)),
        (Max, Timestamp, Some(Timestamp)),
        (ApproximateCountDistinct, Varchar, Some(Bigint)),
        (Sum, Varchar, None),
        (Average, Timestamp, None),
        (Min, Geography, None),
    ];
    for (kind, argument_type, expected) in cases {
        assert_eq!(Aggregate::result_type_for(kind, argument_type).ok(), expected, "{kind:?}({argument_type})");
    }
}

#[test]
fn the_approximate_count_is_within_its_error() {
    for count in [100, 240, 900, 1_024, 1_025, 5_000, 200_000] {
        let mut state =
            AggregateState::new(&aggregate(AggregateKind::ApproximateCountDistinct, false, SqlType::Bigint));
        for value in 0..count {
            state.add(Value::Integer(value * 31)).unwrap();
            state.add(Value::Integer(value * 31)).unwrap();
        }
        let estimate: f64 = result(&state).parse().unwrap();
        let error = (estimate / count as f64 - 1.0).abs();
        let allowed = if count <= 1_024 { 0.0 } else { 0.05 };
        assert!(error <= allowed, "{count} values are estimated as {estimate}");
    }
}

/// Aggregates over BIGINT, FLOAT (whole numbers, which sum exactly), DECIMAL and VARCHAR.
fn any_aggregate() -> impl Strategy<Value = Aggregate> {
    use AggregateKind::*;
    let kinds = prop::sample::select(vec![CountRows, Count, Sum, Average, Min, Max, ApproximateCountDistinct]);
    let types = prop::sample::select(vec![SqlType::Bigint, SqlType::Float, SqlType::Decimal, SqlType::Varchar]);
    (kinds, any::<bool>(), types).prop_filter_map(
        "types that the aggregate takes",
        |(kind, distinct, argument_type)| {
            Aggregate::result_type_for(kind, argument_type).ok()?;
            Some(aggregate(kind, distinct, argument_type))
        },
    )
}

fn value_of(sql_type: SqlType, seed: Option<i64>) -> OwnedValue {
    let Some(seed) = seed else { return OwnedValue::Null };
    match sql_type {
        SqlType::Float => OwnedValue::Float((seed % 1_000_000) as f64),
        SqlType::Decimal => OwnedValue::Decimal(Decimal::from_i64(seed)),
        SqlType::Varchar => OwnedValue::Text(format!("{}", seed % 10).into()),
        _ => OwnedValue::Integer(seed),
    }
}

fn seeds() -> impl Strategy<Value = Vec<Option<i64>>> {
    let small_or_extreme = prop_oneof![4 => -20i64..20, 1 => prop::sample::select(vec![i64::MAX, -i64::MAX])];
    prop::collection::vec(prop::option::weighted(0.8, small_or_extreme), 0..12)
}

proptest! {
    /// What is removed again was never there, or the state says that it cannot tell.
    #[test]
    fn removing_undoes_adding(aggregate in any_aggregate(), kept in seeds(), removed in seeds()) {
        let kept: Vec<_> = kept.into_iter().map(|seed| value_of(aggregate.argument_type, seed)).collect();
        let removed: Vec<_> = removed.into_iter().map(|seed| value_of(aggregate.argument_type, seed)).collect();
        let mut state = over(&aggregate, &kept);
        let mut exact = true;
        for value in &removed {
            state.add(value.as_value()).unwrap();
        }
        for value in &removed {
            exact &= state.remove(value.as_value()).unwrap() == Removal::Done;
        }
        let invertible = matches!(
            aggregate.kind,
            AggregateKind::CountRows | AggregateKind::Count | AggregateKind::Sum | AggregateKind::Average
        );
        prop_assert!(exact || aggregate.distinct || !invertible);
        if exact {
            prop_assert_eq!(result(&state), result(&over(&aggregate, &kept)));
        }
    }

    /// Partial results may be made of any split of the rows and merged in any order.
    #[test]
    fn merging_is_adding(aggregate in any_aggregate(), first in seeds(), second in seeds()) {
        let first: Vec<_> = first.into_iter().map(|seed| value_of(aggregate.argument_type, seed)).collect();
        let second: Vec<_> = second.into_iter().map(|seed| value_of(aggregate.argument_type, seed)).collect();
        let whole = over(&aggregate, &[first.clone(), second.clone()].concat());
        let mut forward = over(&aggregate, &first);
        forward.merge(&over(&aggregate, &second));
        let mut backward = over(&aggregate, &second);
        backward.merge(&over(&aggregate, &first));
        prop_assert_eq!(result(&forward), result(&whole));
        prop_assert_eq!(result(&backward), result(&whole));
    }
}
