//! Decimal arithmetic against schoolbook arithmetic on digit strings, and its text, wire and float
//! forms.

use ferrite_value::Decimal;
use ferrite_value::decimal::{MAX, ONE, ParseDecimalError};
use proptest::prelude::*;
use std::cmp::Ordering;

/// Non-negative integers of any size as decimal digits, least significant first, no leading zeros.
/// As slow and as plain as possible: it is the judge.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Big(Vec<u8>);

impl Big {
    fn new(mut value: u128) -> Big {
        let mut digits = Vec::new();
        while value > 0 {
            digits.push((value % 10) as u8);
            value /= 10;
        }
        Big(digits)
    }

    fn trimmed(mut self) -> Big {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn times(&self, other: &Big) -> Big {
        let mut sums = vec![0u32; self.0.len() + other.0.len() + 1];
        for (i, a) in self.0.iter().enumerate() {
            for (j, b) in other.0.iter().enumerate() {
                sums[i + j] += *a as u32 * *b as u32;
            }
        }
        for index in 1..sums.len() {
            sums[index] += sums[index - 1] / 10;
            sums[index - 1] %= 10;
        }
        Big(sums.into_iter().map(|digit| digit as u8).collect()).trimmed()
    }

    fn at_least(&self, other: &Big) -> bool {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev())).is_ge()
    }

    fn minus(&self, other: &Big) -> Big {
        let mut digits = Vec::new();
        let mut borrow = 0;
        for (index, digit) in self.0.iter().enumerate() {
            let difference = *digit as i8 - borrow - other.0.get(index).copied().unwrap_or(0) as i8;
            borrow = (difference < 0) as i8;
            digits.push(difference.rem_euclid(10) as u8);
        }
        assert_eq!(borrow, 0);
        Big(digits).trimmed()
    }

    /// Quotient and remainder.
    fn divided_by(&self, divisor: &Big) -> (Big, Big) {
        let mut quotient = Vec::new();
        let mut remainder = Big(Vec::new());
        for digit in self.0.iter().rev() {
            remainder.0.insert(0, *digit);
            remainder = remainder.trimmed();
            let mut count = 0;
            while remainder.at_least(divisor) {
                remainder = remainder.minus(divisor);
                count += 1;
            }
            quotient.insert(0, count);
        }
        (Big(quotient).trimmed(), remainder)
    }

    /// None when beyond the largest decimal.
    fn to_magnitude(&self) -> Option<i128> {
        if self.0.len() > 38 {
            return None;
        }
        Some(self.0.iter().rev().fold(0, |sum, digit| sum * 10 + *digit as i128))
    }
}

fn signed(magnitude: Option<i128>, negative: bool) -> Option<Decimal> {
    magnitude.and_then(|magnitude| Decimal::from_scaled(if negative { -magnitude } else { magnitude }))
}

/// All magnitudes alike, not just the largest.
fn any_decimal() -> impl Strategy<Value = Decimal> {
    let edge = prop::sample::select(vec![0, 1, -1, ONE, -ONE, ONE / 2, MAX, -MAX, MAX - 1, 5 * ONE / 10 - 1]);
    let spread = (any::<i128>(), 0u32..127).prop_map(|(bits, shift)| (bits >> shift) % (MAX + 1));
    prop_oneof![1 => edge, 9 => spread].prop_map(|scaled| Decimal::from_scaled(scaled).unwrap())
}

fn magnitude(decimal: Decimal) -> Big {
    Big::new(decimal.scaled().unsigned_abs())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn product_is_rounded_half_up(a in any_decimal(), b in any_decimal()) {
        let one = Big::new(ONE as u128);
        let (quotient, remainder) = magnitude(a).times(&magnitude(b)).divided_by(&one);
        let up = remainder.at_least(&Big::new(ONE as u128 / 2)) as i128;
        let expected = signed(quotient.to_magnitude().map(|m| m + up), a.is_negative() != b.is_negative());
        prop_assert_eq!(a.checked_mul(b), expected);
    }

    #[test]
    fn sums_come_back(a in any_decimal(), b in any_decimal()) {
        // In halves, whose sum is far from 128 bits.
        let half_sum = a.scaled() / 4 + b.scaled() / 4;
        match a.checked_add(b) {
            Some(sum) => {
                prop_assert_eq!(sum.checked_sub(b), Some(a));
                prop_assert!((sum.scaled() / 4 - half_sum).abs() <= 1);
            }
            None => prop_assert!(half_sum.abs() >= MAX / 4 - 1),
        }
        prop_assert_eq!(a.checked_sub(b), a.checked_add(b.neg()));
    }

    #[test]
    fn quotient_is_truncated(a in any_decimal(), b in any_decimal()) {
        prop_assume!(!b.is_zero());
        let (quotient, _) = magnitude(a).times(&Big::new(ONE as u128)).divided_by(&magnitude(b));
        prop_assert_eq!(a.checked_div(b), signed(quotient.to_magnitude(), a.is_negative() != b.is_negative()));
    }

    #[test]
    fn remainder_has_the_dividends_sign(a in any_decimal(), b in any_decimal()) {
        prop_assume!(!b.is_zero());
        let (_, remainder) = magnitude(a).divided_by(&magnitude(b));
        prop_assert_eq!(a.checked_rem(b), signed(remainder.to_magnitude(), a.is_negative()));
    }

    #[test]
    fn text_and_integer_round_trip(a in any_decimal()) {
        prop_assert_eq!(Decimal::parse(&a.to_string()), Ok(a));
        prop_assert_eq!(Decimal::parse(&a.shortest().to_string()), Ok(a));
        prop_assert_eq!(Decimal::from_scaled(a.scaled()), Some(a));
    }

    #[test]
    fn double_is_the_nearest(a in any_decimal()) {
        prop_assert_eq!(a.to_f64(), a.to_string().parse::<f64>().unwrap());
    }

    #[test]
    fn from_double_is_its_twelve_decimals(bits in any::<u64>(), scale in -40i32..40) {
        let value = (bits as f64 / u64::MAX as f64 - 0.5) * 10f64.powi(scale);
        // Exact expansion, then the decimal parser's own rounding.
        let exact = Decimal::parse(&format!("{value:.400}")).ok();
        prop_assert_eq!(Decimal::from_f64(value), exact);
    }

    #[test]
    fn comparison_with_doubles_is_exact(a in any_decimal(), bits in any::<u64>()) {
        for value in [f64::from_bits(bits), a.to_f64(), a.to_f64().next_up(), a.to_f64().next_down()] {
            let expected = if value.is_nan() {
                None
            } else if value.abs() >= 1e30 {
                0.0.partial_cmp(&value)
            } else {
                // The exact expansion cut to 38+12 digits, compared as digits; any rest beyond
                // lifts the double's magnitude.
                Some(exact_comparison(a, value))
            };
            prop_assert_eq!(a.compare_f64(value), expected, "{} {}", a, value);
        }
    }

    #[test]
    fn floor_ceil_and_round_agree(a in any_decimal(), digits in -30i32..14) {
        if let (Some(floor), Some(ceil)) = (a.floor(), a.ceil()) {
            prop_assert!(floor <= a && a <= ceil);
            let distance = if a.scaled() % ONE == 0 { 0 } else { ONE };
            prop_assert_eq!(ceil.scaled() - floor.scaled(), distance);
        }
        let unit = Big::new(10u128.pow((12 - digits).max(0) as u32 % 39));
        if digits < 12 && digits > -26 {
            let (quotient, remainder) = magnitude(a).divided_by(&unit);
            let up = remainder.times(&Big::new(2)).at_least(&unit);
            let quotient = quotient.to_magnitude().unwrap() + up as i128;
            let rounded = Big::new(quotient as u128).times(&unit);
            prop_assert_eq!(a.round(digits), signed(rounded.to_magnitude(), a.is_negative()));
        }
    }

    #[test]
    fn parser_never_panics(text in "[-+0-9.eE]{0,60}") {
        let _ = Decimal::parse(&text);
    }
}

fn exact_comparison(decimal: Decimal, double: f64) -> Ordering {
    let sign = |negative: bool, ordering: Ordering| if negative { ordering.reverse() } else { ordering };
    if decimal.is_negative() != double.is_sign_negative() && !(decimal.is_zero() && double == 0.0) {
        return if decimal.is_zero() {
            0.0.partial_cmp(&double).unwrap()
        } else {
            sign(decimal.is_negative(), Ordering::Greater)
        };
    }
    let pad = |text: String| format!("{text:0>1200}");
    let left = pad(format!("{}{}", decimal.abs(), "0".repeat(1_100 - 12)));
    let right = pad(format!("{:.1100}", double.abs()));
    sign(double.is_sign_negative(), left.cmp(&right))
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(Decimal::parse(text).map(|decimal| decimal.to_string()).as_deref(), Ok(expected), "{text}");
}

#[test]
fn texts_are_read_exactly() {
    check("0", "0.000000000000");
    check("-0", "0.000000000000");
    check("12.5", "12.500000000000");
    check("+12.", "12.000000000000");
    check(".5", "0.500000000000");
    check("-.000000000001", "-0.000000000001");
    check("0.0000000000005", "0.000000000001");
    check("0.00000000000049999999", "0.000000000000");
    check("-0.0000000000005", "-0.000000000001");
    check("1.5e3", "1500.000000000000");
    check("1.5E+3", "1500.000000000000");
    check("15e-13", "0.000000000002");
    check("1e-999999999999999999999", "0.000000000000");
    check("0e999999999999999999999", "0.000000000000");
    check("99999999999999999999999999.999999999999", "99999999999999999999999999.999999999999");
    check("00000000000000000000000000000000000000000000000000001", "1.000000000000");
    for bad in ["", "-", "+", ".", "e5", "1e", "1e+", "1.2.3", "1 2", " 1", "--1", "1x", "0x10", "NaN", "é"] {
        assert_eq!(Decimal::parse(bad), Err(ParseDecimalError::Malformed), "{bad}");
    }
    for big in [
        "100000000000000000000000000",
        "99999999999999999999999999.9999999999995",
        "1e26",
        "1e400",
        "1e99999999999999999999",
        "999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    ] {
        assert_eq!(Decimal::parse(big), Err(ParseDecimalError::OutOfRange), "{big}");
    }
    assert_eq!(Decimal::parse(&format!("{}x", "9".repeat(50))), Err(ParseDecimalError::Malformed));
}

#[test]
fn shortest_has_no_trailing_zeros() {
    let shortest = |text| Decimal::parse(text).unwrap().shortest().to_string();
    assert_eq!(shortest("12.50"), "12.5");
    assert_eq!(shortest("1200"), "1200");
    assert_eq!(shortest("0"), "0");
    assert_eq!(shortest("-0.000001"), "-0.000001");
}

#[test]
fn division_and_range_as_captured() {
    let decimal = |text| Decimal::parse(text).unwrap();
    assert_eq!(decimal("12.5").checked_div(decimal("3")).unwrap().to_string(), "4.166666666666");
    assert_eq!(decimal("-12.5").checked_div(decimal("3")).unwrap().to_string(), "-4.166666666666");
    assert_eq!(decimal("12.5").checked_mul(decimal("12.5")).unwrap().to_string(), "156.250000000000");
    assert_eq!(decimal("1").checked_div(Decimal::ZERO), None);
    assert_eq!(decimal("1").checked_rem(Decimal::ZERO), None);
    let max = Decimal::from_scaled(MAX).unwrap();
    let least = Decimal::from_scaled(1).unwrap();
    assert_eq!(max.checked_add(least), None);
    assert_eq!(max.neg().checked_sub(least), None);
    assert_eq!(max.checked_add(max), None);
    assert_eq!(max.checked_mul(max), None);
    assert_eq!(max.checked_div(least), None);
    assert_eq!(max.checked_div(max).unwrap().to_string(), "1.000000000000");
    assert_eq!(max.ceil(), None);
    assert_eq!(max.neg().floor(), None);
    assert_eq!(max.round(0), None);
    assert_eq!(max.neg().abs(), max);
}

#[test]
fn wire_bytes_of_the_protocol_page() {
    let wire = |text| format!("{:032x}", Decimal::parse(text).unwrap().scaled());
    assert_eq!(wire("1"), "0000000000000000000000e8d4a51000");
    assert_eq!(wire("123.456"), "00000000000000000000704857068000");
    assert_eq!(wire("-1.5"), "fffffffffffffffffffffea2c1086800");
    assert_eq!(wire("-0.000000000001"), "ffffffffffffffffffffffffffffffff");
    assert_eq!(Decimal::from_scaled(i128::MIN), None, "the wire's null");
    assert_eq!(Decimal::from_scaled(MAX + 1), None);
}

#[test]
fn integers_come_and_go() {
    for integer in [0, 1, -1, i64::MAX, i64::MIN] {
        let decimal = Decimal::from_i64(integer);
        assert_eq!(decimal.to_i64_exact(), Some(integer));
        assert_eq!(decimal.to_i64_truncated(), Some(integer));
    }
    let decimal = Decimal::parse("-2.9").unwrap();
    assert_eq!(decimal.to_i64_exact(), None);
    assert_eq!(decimal.to_i64_truncated(), Some(-2));
    assert_eq!(decimal.trunc().to_string(), "-2.000000000000");
    assert_eq!(Decimal::parse("9223372036854775808").unwrap().to_i64_truncated(), None);
}
