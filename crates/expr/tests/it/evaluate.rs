//! Expressions and what they evaluate to.

use crate::common::*;
use bumpalo::Bump;
use ferrite_base::UserResult;
use ferrite_expr::ArithmeticDomain::{Decimal, Float, Integer};
use ferrite_expr::ArithmeticOperator::{Add, Divide, Multiply, Remainder, Subtract};
use ferrite_expr::CompareOperator::*;
use ferrite_expr::{ArithmeticDomain, Context, Expr, SortedArray};
use ferrite_value::{ColumnType, OwnedValue, SqlType, Value};

const MAX: i64 = i64::MAX;

#[test]
fn leaves() {
    check(vec![
        (int(3), "BIGINT 3"),
        (column(0), "BIGINT 7"),
        (column(1), "NULL"),
        (column(2), "VARCHAR abc"),
        (Expr::Parameter(0), "BIGINT 5"),
        (Expr::Register(4), "BIGINT 1004"),
        (Expr::Subquery { subquery: 9, operand: None }, "BIGINT 9"),
        (Expr::Subquery { subquery: 9, operand: Some(Box::new(int(2))) }, "BIGINT 2"),
    ]);
}

#[test]
fn integer_arithmetic_is_checked() {
    check(vec![
        (arithmetic(Add, Integer, int(2), column(0)), "BIGINT 9"),
        (arithmetic(Subtract, Integer, int(2), int(7)), "BIGINT -5"),
        (arithmetic(Multiply, Integer, int(-2), int(7)), "BIGINT -14"),
        (arithmetic(Divide, Integer, int(-7), int(2)), "BIGINT -3"),
        (arithmetic(Remainder, Integer, int(-7), int(3)), "BIGINT -1"),
        (arithmetic(Remainder, Integer, int(-MAX), int(-1)), "BIGINT 0"),
        (arithmetic(Add, Integer, int(2), NULL), "NULL"),
        (arithmetic(Divide, Integer, NULL, int(0)), "NULL"),
        (
            arithmetic(Add, Integer, int(MAX), int(1)),
            "error: Adding 9223372036854775807 and 1 will overflow BigInt storage",
        ),
        (
            arithmetic(Subtract, Integer, int(-MAX), int(1)),
            "error: Subtracting 1 from -9223372036854775807 will overflow BigInt storage",
        ),
        (
            arithmetic(Multiply, Integer, int(MAX), int(2)),
            "error: Multiplying 9223372036854775807 with 2 will overflow BigInt storage",
        ),
        (arithmetic(Divide, Integer, int(1), int(0)), "error: division by zero"),
        (arithmetic(Remainder, Integer, int(1), int(0)), "error: division by zero"),
        (arithmetic(Add, Integer, int(1), text("x")), "error: arithmetic does not take BIGINT, VARCHAR"),
    ]);
}

#[test]
fn decimal_and_float_arithmetic() {
    let nines = "99999999999999999999999999.999999999999";
    check(vec![
        (arithmetic(Divide, Decimal, dec("7.0"), int(2)), "DECIMAL 3.500000000000"),
        (arithmetic(Divide, Decimal, dec("12.5"), dec("3")), "DECIMAL 4.166666666666"),
        (arithmetic(Multiply, Decimal, dec("12.5"), dec("12.5")), "DECIMAL 156.250000000000"),
        (arithmetic(Divide, Decimal, dec("1"), dec("0")), "error: division by zero"),
        (
            arithmetic(Add, Decimal, dec(nines), dec("1")),
            "error: Adding 99999999999999999999999999.999999999999 and 1.000000000000 will overflow Decimal storage",
        ),
        (arithmetic(Add, Float, float(0.5), int(1)), "FLOAT 1.5"),
        (arithmetic(Add, Float, float(0.5), dec("0.25")), "FLOAT 0.75"),
        (arithmetic(Divide, Float, float(1.0), float(0.0)), "error: division by zero"),
        (arithmetic(Remainder, Float, float(7.5), float(2.0)), "FLOAT 1.5"),
        (arithmetic(Subtract, Float, NULL, float(1.0)), "NULL"),
    ]);
    let overflow = evaluated(&arithmetic(Multiply, Float, float(1e308), float(10.0)));
    assert!(overflow.ends_with("will overflow Float storage"), "{overflow}");
    // Finite, but one of the doubles that mean NULL to clients.
    let null = evaluated(&arithmetic(Multiply, Float, float(-1.75e308), float(1.0)));
    assert!(null.ends_with("will overflow Float storage"), "{null}");
}

#[test]
fn negation() {
    let negate = |domain: ArithmeticDomain, operand: Expr| Expr::Negate { domain, operand: Box::new(operand) };
    check(vec![
        (negate(Integer, int(-MAX)), "BIGINT 9223372036854775807"),
        (negate(Integer, NULL), "NULL"),
        (negate(Decimal, dec("1.5")), "DECIMAL -1.500000000000"),
        (negate(Float, float(-2.5)), "FLOAT 2.5"),
        (negate(Float, text("x")), "error: - does not take VARCHAR"),
    ]);
}

#[test]
fn comparisons() {
    check(vec![
        (compare(Equal, int(1), int(1)), "BOOLEAN true"),
        (compare(NotEqual, int(1), int(1)), "BOOLEAN false"),
        (compare(Less, int(1), int(2)), "BOOLEAN true"),
        (compare(LessOrEqual, int(2), int(2)), "BOOLEAN true"),
        (compare(Greater, int(1), int(2)), "BOOLEAN false"),
        (compare(GreaterOrEqual, int(1), int(2)), "BOOLEAN false"),
        (compare(Equal, NULL, NULL), "NULL"),
        (compare(NotEqual, int(1), column(1)), "NULL"),
        (compare(Equal, text("abc"), column(2)), "BOOLEAN true"),
        (compare(NotEqual, text("abd"), column(2)), "BOOLEAN true"),
        (compare(Less, text("ab"), column(2)), "BOOLEAN true"),
        (compare(Greater, text("b"), column(2)), "BOOLEAN true"),
        (compare(Equal, int(1), dec("1.0")), "BOOLEAN true"),
        (compare(Less, int(MAX), float(9.3e18)), "BOOLEAN true"),
        (compare(Less, time("2026-01-01"), time("2026-01-01 00:00:00.000001")), "BOOLEAN true"),
    ]);
}

#[test]
fn three_valued_logic_ends_at_the_deciding_operand() {
    let not = |operand: Expr| Expr::Not(Box::new(operand));
    let (yes, no) = (|| boolean(true), || boolean(false));
    check(vec![
        (and([yes(), yes()]), "BOOLEAN true"),
        (and([yes(), no()]), "BOOLEAN false"),
        (and([yes(), NULL]), "NULL"),
        (and([NULL, no()]), "BOOLEAN false"),
        (and([no(), failing()]), "BOOLEAN false"),
        (and([NULL, equal(failing(), int(1))]), "error: division by zero"),
        (or([no(), no()]), "BOOLEAN false"),
        (or([no(), yes()]), "BOOLEAN true"),
        (or([no(), NULL]), "NULL"),
        (or([NULL, yes()]), "BOOLEAN true"),
        (or([yes(), failing()]), "BOOLEAN true"),
        (and([]), "BOOLEAN true"),
        (or([]), "BOOLEAN false"),
        (not(yes()), "BOOLEAN false"),
        (not(NULL), "NULL"),
        (not(int(1)), "error: a condition is expected, not a BIGINT"),
        (and([int(1)]), "error: a condition is expected, not a BIGINT"),
    ]);
}

#[test]
fn null_tests_and_distinct() {
    let is_null = |operand: Expr, negated| Expr::IsNull { operand: Box::new(operand), negated };
    let distinct =
        |left: Expr, right: Expr, negated| Expr::IsDistinct { left: Box::new(left), right: Box::new(right), negated };
    check(vec![
        (is_null(NULL, false), "BOOLEAN true"),
        (is_null(int(1), false), "BOOLEAN false"),
        (is_null(int(1), true), "BOOLEAN true"),
        (distinct(NULL, NULL, false), "BOOLEAN false"),
        (distinct(NULL, int(1), false), "BOOLEAN true"),
        (distinct(int(1), int(1), true), "BOOLEAN true"),
        (distinct(int(1), dec("1"), false), "BOOLEAN false"),
    ]);
}

#[test]
fn membership_is_three_valued() {
    let within = |operand: Expr, list: Vec<Expr>, negated| Expr::InList {
        operand: Box::new(operand),
        list: list.into(),
        negated,
    };
    let within_array = |operand: Expr, parameter, negated| Expr::InArray {
        operand: Box::new(operand),
        array: Box::new(Expr::Parameter(parameter)),
        negated,
    };
    check(vec![
        (within(int(2), vec![int(1), int(2)], false), "BOOLEAN true"),
        (within(int(2), vec![int(1), int(2)], true), "BOOLEAN false"),
        (within(int(3), vec![int(1), int(2)], false), "BOOLEAN false"),
        (within(int(3), vec![int(1), NULL], false), "NULL"),
        (within(int(3), vec![int(1), NULL], true), "NULL"),
        (within(int(1), vec![int(1), failing()], false), "BOOLEAN true"),
        (within(NULL, vec![int(1)], false), "NULL"),
        (within(NULL, vec![], false), "BOOLEAN false"),
        (within_array(int(3), 1, false), "BOOLEAN true"),
        (within_array(int(2), 1, false), "NULL"),
        (within_array(int(2), 2, false), "BOOLEAN false"),
        (within_array(int(2), 2, true), "BOOLEAN true"),
        (within_array(int(5), 0, false), "BOOLEAN true"),
    ]);
}

/// An array in order, for all who ask; or never.
struct WithArray<'a> {
    arena: &'a Bump,
    parameters: [Value<'a>; 2],
    sorted: bool,
}

impl<'a> Context<'a> for WithArray<'a> {
    fn column(&self, _: u16, _: u16) -> Value<'a> {
        unreachable!("there are no rows")
    }
    fn parameter(&self, index: u16) -> Value<'a> {
        self.parameters[index as usize]
    }
    fn register(&self, _: u16) -> Value<'a> {
        unreachable!("there are no variables")
    }
    fn arena(&self) -> &'a Bump {
        self.arena
    }
    fn transaction_time(&self) -> i64 {
        0
    }
    fn sorted_array(&self, parameter: u16) -> UserResult<Option<SortedArray<'a>>> {
        match self.parameters[parameter as usize] {
            Value::Array(elements) if self.sorted => Ok(Some(SortedArray::new(elements, self.arena))),
            _ => Ok(None),
        }
    }
    fn subquery(&self, _: u16, _: Value<'a>) -> UserResult<Value<'a>> {
        unreachable!("there are no subqueries")
    }
}

#[test]
fn an_array_in_order_answers_as_one_that_is_looked_through() {
    let decimal = |text| Value::Decimal(ferrite_value::Decimal::parse(text).expect("a decimal"));
    let numbers = [
        Value::Integer(0),
        Value::Integer(-3),
        Value::Integer(MAX),
        Value::Integer(2),
        Value::Float(0.0),
        Value::Float(-0.0),
        Value::Float(2.5),
        Value::Float(f64::NAN),
        Value::Float(f64::INFINITY),
        Value::Float(9_223_372_036_854_775_807.0),
        decimal("2.5"),
        decimal("2"),
        decimal("-0.000000000001"),
    ];
    let others = [
        Value::Text(""),
        Value::Text("a"),
        Value::Text("ab"),
        Value::Text("\u{e9}"),
        Value::Timestamp(0),
        Value::Timestamp(86_400_000_000),
        Value::Date(1),
        Value::Date(0),
        Value::Bytes(b"a"),
        Value::Boolean(true),
    ];
    let all: Vec<Value<'_>> = numbers.iter().chain(&others).copied().chain([Value::Null]).collect();
    let expression =
        |negated| Expr::InArray { operand: Box::new(Expr::Parameter(0)), array: Box::new(Expr::Parameter(1)), negated };
    let (within, without) = (expression(false), expression(true));
    // Arrays of every length around the one from which on they are put in order, of every part of
    // the values, in many orders.
    let mut seed = 7_usize;
    for length in 0..40 {
        for _ in 0..50 {
            let arena = Bump::new();
            let mut next = |below: usize| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) % below
            };
            let (first, kinds) = (next(all.len()), 1 + next(all.len()));
            let elements: Vec<Value<'_>> = (0..length).map(|_| all[(first + next(kinds)) % all.len()]).collect();
            for operand in &all {
                let answers = [false, true].map(|sorted| {
                    let context = WithArray { arena: &arena, parameters: [*operand, Value::Array(&elements)], sorted };
                    [&within, &without].map(|expression| format!("{:?}", expression.eval(&context)))
                });
                assert_eq!(answers[0], answers[1], "{operand:?} in {elements:?}");
            }
        }
    }
}

#[test]
fn like_and_starts_with() {
    let like = |operand: &str, pattern: &str, escape, expected| {
        let like = Expr::Like {
            operand: Box::new(text(operand)),
            pattern: Box::new(text(pattern)),
            escape,
            prefix_only: false,
            negated: false,
        };
        (like, if expected { "BOOLEAN true" } else { "BOOLEAN false" })
    };
    check(vec![
        like("abc", "abc", None, true),
        like("abc", "ab", None, false),
        like("abc", "a%", None, true),
        like("abc", "%c", None, true),
        like("abc", "%b%", None, true),
        like("abc", "%d%", None, false),
        like("abc", "a_c", None, true),
        like("abc", "___", None, true),
        like("abc", "____", None, false),
        like("", "%", None, true),
        like("", "_", None, false),
        like("", "", None, true),
        like("aXbXc", "a%X%c", None, true),
        like("mississippi", "m%iss%ip_i", None, true),
        like("mississippi", "m%iss%ip_", None, false),
        like("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "%a%a%a%a%a%a%a%a%b", None, false),
        like("größe", "gr__e", None, true),
        like("größe", "gr_e", None, false),
        like("日本語", "_本_", None, true),
        like("50%", "50\\%", Some('\\'), true),
        like("500", "50\\%", Some('\\'), false),
        like("a_b", "a!_b", Some('!'), true),
        like("a!b", "a!!b", Some('!'), true),
        like("ABC", "abc", None, false),
    ]);
    let any = |operand: Expr, pattern: Expr, escape, prefix_only, negated| Expr::Like {
        operand: Box::new(operand),
        pattern: Box::new(pattern),
        escape,
        prefix_only,
        negated,
    };
    check(vec![
        (any(text("abc"), text("a%"), None, false, true), "BOOLEAN false"),
        (any(NULL, text("a%"), None, false, true), "NULL"),
        (any(text("abc"), NULL, None, true, false), "NULL"),
        (any(text("100%x"), text("100%"), None, true, false), "BOOLEAN true"),
        (any(text("100"), text("100%"), None, true, false), "BOOLEAN false"),
        (any(text("z"), text("a\\"), Some('\\'), false, false), "error: the LIKE pattern ends in its escape character"),
        (any(int(1), text("a"), None, false, false), "error: LIKE does not take BIGINT, VARCHAR"),
    ]);
}

/// LIKE by its definition, without escapes.
fn like_model(text: &[char], pattern: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('%', rest)) => (0..=text.len()).any(|skipped| like_model(&text[skipped..], rest)),
        Some((wanted, rest)) => {
            text.split_first().is_some_and(|(first, after)| ['_', *first].contains(wanted) && like_model(after, rest))
        }
    }
}

proptest::proptest! {
    #[test]
    fn like_agrees_with_its_definition(text in "[abé]{0,8}", pattern in "[abé_%]{0,8}") {
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        let expected = like_model(&characters(&text), &characters(&pattern));
        proptest::prop_assert_eq!(ferrite_expr::like::matches(&text, &pattern, None, |_| Ok(())).unwrap(), expected);
        // Escaping every character leaves no wildcard.
        let escaped: String = pattern.chars().flat_map(|character| ['!', character]).collect();
        proptest::prop_assert_eq!(ferrite_expr::like::matches(&text, &escaped, Some('!'), |_| Ok(())).unwrap(), text == pattern);
    }
}

#[test]
fn literal_prefixes_for_index_scans() {
    use ferrite_expr::like::literal_prefix;
    let cases = [
        ("abc%", None, Some(("abc", true))),
        ("abc%d", None, Some(("abc", false))),
        ("abc", None, Some(("abc", false))),
        ("a_", None, Some(("a", false))),
        ("%a", None, None),
        ("", None, None),
        ("a!%b", Some('!'), None),
    ];
    for (pattern, escape, expected) in cases {
        assert_eq!(literal_prefix(pattern, escape), expected, "{pattern}");
    }
}

#[test]
fn case_takes_the_first_branch_that_holds() {
    let case = |branches: Vec<(Expr, Expr)>, otherwise: Expr| Expr::Case {
        branches: branches.into(),
        otherwise: Box::new(otherwise),
    };
    check(vec![
        (case(vec![(boolean(false), failing()), (boolean(true), int(2))], failing()), "BIGINT 2"),
        (case(vec![(NULL, int(1))], int(3)), "BIGINT 3"),
        (case(vec![(failing(), int(1))], int(3)), "error: division by zero"),
    ]);
}

#[test]
fn concatenation_and_casts() {
    let concatenate = |left: Expr, right: Expr| Expr::Concatenate(Box::new(left), Box::new(right));
    let short = ColumnType { sql_type: SqlType::Varchar, length: 2, in_bytes: false };
    let cast_short = Expr::Cast { operand: Box::new(column(2)), to: short };
    check(vec![
        (concatenate(column(2), text("d")), "VARCHAR abcd"),
        (concatenate(column(2), NULL), "NULL"),
        (concatenate(bytes(&[1]), bytes(&[255])), "VARBINARY 01FF"),
        (concatenate(int(1), text("d")), "error: || does not take BIGINT, VARCHAR"),
        (cast(text("12"), SqlType::Integer), "BIGINT 12"),
        (cast(dec("2.9"), SqlType::Bigint), "BIGINT 2"),
        (cast(NULL, SqlType::Bigint), "NULL"),
        (cast(text("abc"), SqlType::Integer), "error: data exception: invalid character value for cast"),
        (cast_short, "error: data exception: a value of size 3 does not fit VARCHAR(2)"),
    ]);
    let half = "x".repeat(600_000);
    let long = evaluated(&concatenate(text(&half), text(&half)));
    assert_eq!(long, "error: the result of 1200000 bytes exceeds the 1048576 bytes that a value may have");
}

/// A list that is searched by halves answers as one whose elements are compared one after the
/// other: as ORs of equalities.
#[test]
fn long_lists_answer_as_their_elements_one_by_one() {
    use proptest::prelude::*;
    let numbers = prop_oneof![
        (-20..20i64).prop_map(int),
        (-20..20i64).prop_map(|n| float(n as f64 / 2.0)),
        (-20..20i64).prop_map(|n| dec(&format!("{}.{}", n / 2, (n % 2).abs() * 5))),
        Just(int(i64::MAX)),
        Just(int(i64::MIN)),
        Just(float(9_223_372_036_854_775_807.0)),
        Just(dec("9223372036854775807")),
        Just(dec("0.000000000001")),
        Just(float(0.000_000_000_001)),
        Just(float(-0.0)),
        Just(float(f64::NAN)),
        Just(float(f64::INFINITY)),
        Just(Expr::Parameter(0)),
        Just(arithmetic(Add, Integer, Expr::Parameter(0), int(3))),
    ];
    let integers = prop_oneof![8 => (-50..50i64).prop_map(int), 1 => Just(column(0)), 1 => Just(NULL)];
    let texts =
        prop_oneof![8 => "[a-c\u{e9}]{0,2}".prop_map(|value| text(&value)), 1 => Just(NULL), 1 => Just(column(2))];
    let others = prop_oneof![
        (0..30u8).prop_map(|n| bytes(&[n / 10, n % 10][..usize::from(n % 3)])),
        any::<bool>().prop_map(boolean),
        (0..30i64).prop_map(|n| Expr::Constant(OwnedValue::Timestamp(n * 43_200_000_000))),
        (0..15i32).prop_map(|n| Expr::Constant(OwnedValue::Date(n))),
        Just(NULL),
    ];
    let lists = |elements: BoxedStrategy<Expr>| (elements.clone(), prop::collection::vec(elements, 0..60));
    let cases =
        prop_oneof![lists(numbers.boxed()), lists(integers.boxed()), lists(texts.boxed()), lists(others.boxed())];
    proptest!(|((operand, list) in cases, negated in any::<bool>())| {
        let within = Expr::InList { operand: Box::new(operand.clone()), list: list.clone().into(), negated };
        let any = or(list.into_iter().map(|element| equal(operand.clone(), element)));
        let expected = evaluated(&if negated { Expr::Not(Box::new(any)) } else { any });
        prop_assert_eq!(&evaluated(&within), &expected);
        // The order is kept; a copy makes its own.
        prop_assert_eq!(&evaluated(&within), &expected);
        prop_assert_eq!(&evaluated(&within.clone()), &expected);
    });
}

#[test]
fn a_list_that_is_changed_is_sorted_out_anew() {
    let mut within =
        Expr::InList { operand: Box::new(int(7)), list: (0..40).map(|n| int(2 * n)).collect(), negated: false };
    assert_eq!(evaluated(&within), "BOOLEAN false");
    let Expr::InList { list, .. } = &mut within else { unreachable!("it is a list") };
    list[39] = int(7);
    assert_eq!(evaluated(&within), "BOOLEAN true");
    within.for_each_operand_mut(&mut |operand| *operand = NULL);
    assert_eq!(evaluated(&within), "NULL");
}

#[test]
fn what_decides_ends_a_long_list() {
    let list = |wanted: i64| Expr::InList {
        operand: Box::new(int(wanted)),
        list: (0..40).map(int).chain([failing(), NULL]).collect(),
        negated: true,
    };
    check(vec![(list(39), "BOOLEAN false"), (list(40), "error: division by zero")]);
}
