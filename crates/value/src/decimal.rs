//! DECIMAL(38,12): a signed 128-bit integer scaled by 10^12, every operation checked.
//!
//! Multiplication, parsing, rounding and conversion from FLOAT round half up (away from zero);
//! division truncates toward zero, as the server that we stand in for does (12.5/3 =
//! 4.166666666666). Overflow is `None`: the caller knows the words for it.

use std::cmp::Ordering;
use std::fmt;

/// Digits in all.
pub const PRECISION: u32 = 38;
/// Digits after the point.
pub const SCALE: u32 = 12;
/// 10^12.
pub const ONE: i128 = 1_000_000_000_000;
/// Largest magnitude of the scaled integer: 38 nines.
pub const MAX: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;

const ONE_UNSIGNED: u128 = ONE as u128;

/// Kept as two 64-bit halves so that it needs only 8-byte alignment inside [`crate::Value`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    high: i64,
    low: u64,
}

/// Why a text is not a DECIMAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseDecimalError {
    Malformed,
    /// More than 26 digits before the point.
    OutOfRange,
}

/// What a number has behind its twelfth decimal, in units of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    Zero,
    BelowHalf,
    HalfOrMore,
}

impl Decimal {
    pub const ZERO: Decimal = Decimal { high: 0, low: 0 };

    /// From the scaled integer (`value * 10^12`). None when beyond 38 digits.
    #[inline]
    pub fn from_scaled(scaled: i128) -> Option<Decimal> {
        if !(-MAX..=MAX).contains(&scaled) {
            return None;
        }
        Some(Self::from_scaled_in_range(scaled))
    }

    #[inline]
    fn from_scaled_in_range(scaled: i128) -> Decimal {
        debug_assert!((-MAX..=MAX).contains(&scaled));
        Decimal { high: (scaled >> 64) as i64, low: scaled as u64 }
    }

    /// The scaled integer (`value * 10^12`).
    #[inline]
    pub fn scaled(self) -> i128 {
        ((self.high as i128) << 64) | self.low as i128
    }

    #[inline]
    pub fn is_zero(self) -> bool {
        self == Decimal::ZERO
    }

    #[inline]
    pub fn is_negative(self) -> bool {
        self.high < 0
    }

    // Arithmetic.

    #[inline]
    pub fn checked_add(self, other: Decimal) -> Option<Decimal> {
        Self::from_scaled(self.scaled().checked_add(other.scaled())?)
    }

    #[inline]
    pub fn checked_sub(self, other: Decimal) -> Option<Decimal> {
        Self::from_scaled(self.scaled().checked_sub(other.scaled())?)
    }

    /// Product, rounded half up at the twelfth decimal.
    pub fn checked_mul(self, other: Decimal) -> Option<Decimal> {
        let negative = self.is_negative() != other.is_negative();
        let left = self.scaled().unsigned_abs();
        let right = other.scaled().unsigned_abs();
        let (quotient, remainder) = match left.checked_mul(right) {
            Some(product) => (product / ONE_UNSIGNED, (product % ONE_UNSIGNED) as u64),
            None => wide::divide_by_one(wide::multiply(left, right))?,
        };
        let rounded = quotient.checked_add((remainder >= ONE as u64 / 2) as u128)?;
        Self::from_magnitude(rounded, negative)
    }

    /// Quotient, truncated toward zero. None when `other` is zero (which the caller tells apart
    /// first) or on overflow.
    pub fn checked_div(self, other: Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        let negative = self.is_negative() != other.is_negative();
        let left = self.scaled().unsigned_abs();
        let right = other.scaled().unsigned_abs();
        let quotient = match left.checked_mul(ONE_UNSIGNED) {
            Some(product) => product / right,
            None => wide::divide(wide::multiply(left, ONE_UNSIGNED), right)?,
        };
        Self::from_magnitude(quotient, negative)
    }

    /// Remainder with the sign of the dividend. None when `other` is zero.
    pub fn checked_rem(self, other: Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        Some(Self::from_scaled_in_range(self.scaled() % other.scaled()))
    }

    /// Cannot overflow: the range is symmetric.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "a method like its siblings, which can overflow")]
    pub fn neg(self) -> Decimal {
        Self::from_scaled_in_range(-self.scaled())
    }

    /// Cannot overflow: the range is symmetric.
    #[inline]
    pub fn abs(self) -> Decimal {
        if self.is_negative() { self.neg() } else { self }
    }

    /// The greatest whole number not above. None when that is beyond 38 digits.
    pub fn floor(self) -> Option<Decimal> {
        Self::from_scaled(self.scaled().div_euclid(ONE) * ONE)
    }

    /// The least whole number not below. None when that is beyond 38 digits.
    pub fn ceil(self) -> Option<Decimal> {
        Self::from_scaled(-((-self.scaled()).div_euclid(ONE) * ONE))
    }

    /// Toward zero to a whole number.
    pub fn trunc(self) -> Decimal {
        Self::from_scaled_in_range(self.scaled() / ONE * ONE)
    }

    /// Half up (away from zero) to `digits` decimals; negative `digits` round before the point.
    pub fn round(self, digits: i32) -> Option<Decimal> {
        if digits >= SCALE as i32 {
            return Some(self);
        }
        let dropped = (SCALE as i64 - digits as i64) as u32;
        if dropped > 38 {
            return Some(Decimal::ZERO);
        }
        let unit = 10u128.pow(dropped);
        let magnitude = self.scaled().unsigned_abs();
        let up = magnitude % unit >= unit / 2;
        Self::from_magnitude((magnitude / unit + up as u128).checked_mul(unit)?, self.is_negative())
    }

    // Conversions.

    #[inline]
    pub fn from_i64(value: i64) -> Decimal {
        Self::from_scaled_in_range(value as i128 * ONE)
    }

    /// The integer, if there are no decimals and it fits.
    #[inline]
    pub fn to_i64_exact(self) -> Option<i64> {
        let scaled = self.scaled();
        if scaled % ONE != 0 {
            return None;
        }
        i64::try_from(scaled / ONE).ok()
    }

    /// The integer part (toward zero), if it fits.
    #[inline]
    pub fn to_i64_truncated(self) -> Option<i64> {
        i64::try_from(self.scaled() / ONE).ok()
    }

    /// The exact binary value rounded half up to twelve decimals. None when not finite or beyond 38
    /// digits.
    pub fn from_f64(value: f64) -> Option<Decimal> {
        if value.abs() >= 1e26 || value.is_nan() {
            return None;
        }
        let (mantissa, exponent) = decompose(value);
        // Below 2^53 * 2^40, so neither this nor, as the value is below 2^87, the shift left
        // overflows.
        let product = mantissa as u128 * ONE_UNSIGNED;
        let magnitude = match exponent {
            0.. => product << exponent,
            -126..=-1 => (product + (1 << (-exponent - 1))) >> -exponent,
            _ => 0,
        };
        Self::from_magnitude(magnitude, value.is_sign_negative())
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        let scaled = self.scaled();
        if scaled.unsigned_abs() < 1 << 53 {
            // Both operands are exact, so the quotient is rounded once.
            return scaled as f64 / ONE as f64;
        }
        let mut text = DigitBuffer::new();
        text.fill(self).parse().expect("a decimal's text is a number")
    }

    /// Exact comparison with a double; None for NaN.
    pub fn compare_f64(self, other: f64) -> Option<Ordering> {
        if other.is_nan() {
            return None;
        }
        if other.abs() >= 1e27 {
            return Some(if other > 0.0 { Ordering::Less } else { Ordering::Greater });
        }
        let (mantissa, exponent) = decompose(other);
        let product = mantissa as i128 * ONE * if other.is_sign_negative() { -1 } else { 1 };
        if exponent >= 0 {
            // Below 2^90 * 10^12 it may overflow 127 bits only where the double is beyond every
            // decimal.
            return Some(match product.checked_mul(1i128 << exponent) {
                Some(scaled) => self.scaled().cmp(&scaled),
                None if product > 0 => Ordering::Less,
                None => Ordering::Greater,
            });
        }
        let shift = (-exponent).min(126);
        let floor = product >> shift;
        let has_fraction = product & ((1i128 << shift) - 1) != 0;
        Some(self.scaled().cmp(&floor).then(if has_fraction { Ordering::Less } else { Ordering::Equal }))
    }

    /// `[+-]digits[.digits][e[+-]digits]`, all digits taken exactly, decimals beyond the twelfth
    /// rounded half up.
    pub fn parse(text: &str) -> Result<Decimal, ParseDecimalError> {
        let (truncated, rest) = Self::parse_truncated(text)?;
        if rest != Rest::HalfOrMore {
            return Ok(truncated);
        }
        // Zero has no sign; the text has.
        let up = if text.starts_with('-') { -1 } else { 1 };
        Self::from_scaled(truncated.scaled() + up).ok_or(ParseDecimalError::OutOfRange)
    }

    /// The same with the decimals beyond the twelfth cut off, and what they were.
    pub fn parse_truncated(text: &str) -> Result<(Decimal, Rest), ParseDecimalError> {
        let malformed = ParseDecimalError::Malformed;
        let (negative, unsigned) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            all => (false, all),
        };
        let (mantissa, exponent) = match unsigned.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..]).ok_or(malformed)?),
            None => (unsigned, 0),
        };
        let point = mantissa.iter().position(|byte| *byte == b'.');
        let whole_digits = point.unwrap_or(mantissa.len());
        if mantissa.len() == point.is_some() as usize {
            return Err(malformed);
        }

        // `power`: the power of ten that the next digit counts in the scaled integer.
        let mut power = whole_digits as i64 - 1 + exponent + SCALE as i64;
        let mut magnitude = 0u128;
        let mut rest = Rest::Zero;
        for (index, byte) in mantissa.iter().enumerate() {
            if Some(index) == point {
                continue;
            }
            if !byte.is_ascii_digit() {
                return Err(malformed);
            }
            let digit = byte - b'0';
            if power >= 0 {
                // Held at a value out of range once it is there, as the remaining digits still have
                // to be looked at.
                magnitude = if magnitude > MAX as u128 / 10 { u128::MAX / 2 } else { magnitude * 10 + digit as u128 };
            } else if power == -1 && digit >= 5 {
                rest = Rest::HalfOrMore;
            } else if digit > 0 && rest == Rest::Zero {
                rest = Rest::BelowHalf;
            }
            power -= 1;
        }
        let missing_zeros = power + 1;
        if missing_zeros > 0 && magnitude != 0 {
            let factor = u32::try_from(missing_zeros).ok().and_then(|zeros| 10u128.checked_pow(zeros));
            magnitude = factor.and_then(|factor| magnitude.checked_mul(factor)).ok_or(ParseDecimalError::OutOfRange)?;
        }
        Ok((Self::from_magnitude(magnitude, negative).ok_or(ParseDecimalError::OutOfRange)?, rest))
    }

    /// A number between this one and the next away from zero, in the direction of the sign, as one
    /// that is no integer: it compares with every integer as that number does.
    pub fn beside_integers(self, negative: bool) -> Decimal {
        if self.scaled() % ONE != 0 {
            return self;
        }
        // Beyond the largest whole number there is room.
        Self::from_scaled_in_range(self.scaled() + if negative { -1 } else { 1 })
    }

    /// The DECIMAL just below. None below the least.
    pub fn just_below(self) -> Option<Decimal> {
        Self::from_scaled(self.scaled() - 1)
    }

    /// Displays without trailing zeros: `12.5`, `12`.
    pub fn shortest(self) -> Shortest {
        Shortest(self)
    }

    #[inline]
    fn from_magnitude(magnitude: u128, negative: bool) -> Option<Decimal> {
        if magnitude > MAX as u128 {
            return None;
        }
        let scaled = magnitude as i128;
        Some(Self::from_scaled_in_range(if negative { -scaled } else { scaled }))
    }
}

/// Mantissa and exponent: `|value| = mantissa * 2^exponent`. For finite values.
fn decompose(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let biased = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) }
}

/// Exponent digits with sign, held within a range that cannot overflow later sums.
fn parse_exponent(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0i64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        exponent = (exponent * 10 + (byte - b'0') as i64).min(1_000_000_000_000);
    }
    Some(if negative { -exponent } else { exponent })
}

/// Room for the longest text: sign, 26 digits, point, 12 digits.
struct DigitBuffer {
    bytes: [u8; 40],
}

impl DigitBuffer {
    fn new() -> DigitBuffer {
        DigitBuffer { bytes: [b'0'; 40] }
    }

    /// Writes all twelve decimals, right-aligned.
    fn fill(&mut self, decimal: Decimal) -> &str {
        let magnitude = decimal.scaled().unsigned_abs();
        let mut at = self.bytes.len();
        let mut put = |byte: u8| {
            at -= 1;
            self.bytes[at] = byte;
        };
        let mut fraction = (magnitude % ONE_UNSIGNED) as u64;
        for _ in 0..SCALE {
            put(b'0' + (fraction % 10) as u8);
            fraction /= 10;
        }
        put(b'.');
        let mut whole = magnitude / ONE_UNSIGNED;
        loop {
            put(b'0' + (whole % 10) as u8);
            whole /= 10;
            if whole == 0 {
                break;
            }
        }
        if decimal.is_negative() {
            put(b'-');
        }
        std::str::from_utf8(&self.bytes[at..]).expect("digits are ASCII")
    }
}

/// See [`Decimal::shortest`].
#[derive(Clone, Copy)]
pub struct Shortest(Decimal);

impl fmt::Display for Shortest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = DigitBuffer::new();
        f.pad(buffer.fill(self.0).trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Always twelve decimals: `12.500000000000`.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = DigitBuffer::new();
        f.pad(buffer.fill(*self))
    }
}

impl PartialOrd for Decimal {
    #[inline]
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    #[inline]
    fn cmp(&self, other: &Decimal) -> Ordering {
        self.scaled().cmp(&other.scaled())
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal({self})")
    }
}

/// 256-bit intermediates, for operands whose product leaves 128 bits.
mod wide {
    use super::ONE;

    /// High and low halves.
    pub(super) type Wide = (u128, u128);

    pub(super) fn multiply(left: u128, right: u128) -> Wide {
        const HALF: u128 = u64::MAX as u128;
        let a = left >> 64;
        let b = left & HALF;
        let c = right >> 64;
        let d = right & HALF;
        let low = b * d;
        let (middle, middle_carry) = (a * d).overflowing_add(b * c);
        let (low, low_carry) = low.overflowing_add(middle << 64);
        let high = a * c + (middle >> 64) + ((middle_carry as u128) << 64) + low_carry as u128;
        (high, low)
    }

    /// Quotient and remainder by 10^12. None when the quotient leaves 128 bits.
    pub(super) fn divide_by_one((high, low): Wide) -> Option<(u128, u64)> {
        let divisor = ONE as u128;
        if high >= divisor {
            return None;
        }
        // Schoolbook in 64-bit digits: the running remainder is below 2^40, so each step fits 128
        // bits.
        let first = (high << 64) | (low >> 64);
        let second = ((first % divisor) << 64) | (low & u64::MAX as u128);
        let quotient = (first / divisor).checked_mul(1 << 64)? + second / divisor;
        Some((quotient, (second % divisor) as u64))
    }

    /// Quotient. None when it leaves 128 bits. Bit by bit: it runs only for magnitudes above 10^14.
    pub(super) fn divide((high, low): Wide, divisor: u128) -> Option<u128> {
        if high >= divisor {
            return None;
        }
        let mut remainder = high;
        let mut quotient = 0u128;
        for bit in (0..128).rev() {
            let carry = remainder >> 127;
            remainder = (remainder << 1) | ((low >> bit) & 1);
            quotient <<= 1;
            if carry == 1 || remainder >= divisor {
                remainder = remainder.wrapping_sub(divisor);
                quotient |= 1;
            }
        }
        Some(quotient)
    }
}
