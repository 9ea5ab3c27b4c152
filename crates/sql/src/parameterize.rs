//! Literals out of an SQL text: what is left is the text's shape, the same for all texts that
//! differ in values only.
//!
//! One pass over the bytes, quick enough for a network thread. It knows where literals begin and
//! end, and nothing of grammar. A text that holds anything it is not sure of is not parameterized
//! at all, and whatever it takes for a literal is compared with the real tokens before a plan is
//! made for the shape (see `template`).
//!
//! In the shape a literal leaves one byte that says its kind, because kinds are typed differently.
//! The number after LIMIT and its like stays as it is: plans depend on it.

use crate::bind::digits::{decimal_of, float_of};
use bumpalo::Bump;
use ferrite_base::limits;
use ferrite_value::cast::cast;
use ferrite_value::decimal::Rest;
use ferrite_value::text::{FLOAT_NULL_MAX, parse_decimal_truncated};
use ferrite_value::{ColumnType, Decimal, SqlType, Value};

/// What type a literal has by itself. The discriminants stand in shapes; texts that contain such
/// bytes are not parameterized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LiteralKind {
    Integer = 1,
    Bigint,
    Decimal,
    Float,
    Text,
    Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Literal {
    pub kind: LiteralKind,
    /// The digits, or what stands between the quotes.
    start: u32,
    end: u32,
    /// Where the literal begins in the text, its sign included.
    from: u32,
    /// A minus sign before a number belongs to it.
    negative: bool,
    /// A quote within stands twice.
    doubled: bool,
}

/// Takes texts apart, one after the other, into memory that it keeps.
#[derive(Default)]
pub struct Parameterizer {
    shape: Vec<u8>,
    literals: Vec<Literal>,
}

/// Words after which a literal stays in the shape: their values make other plans, or are part of a
/// longer literal.
const KEEPING: [&str; 11] =
    ["LIMIT", "OFFSET", "TOP", "FETCH", "FIRST", "INTERVAL", "TIMESTAMP", "DATE", "TIME", "ESCAPE", "AS"];
/// Words after which a minus sign belongs to the number behind it. None of them can be the name of
/// a column.
const BEFORE_SIGN: [&str; 10] = ["BETWEEN", "AND", "OR", "WHEN", "THEN", "ELSE", "VALUES", "SELECT", "WHERE", "NOT"];

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_name_part(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

impl Parameterizer {
    /// The text without its literals, after [`Parameterizer::parameterize`].
    pub fn shape(&self) -> &[u8] {
        &self.shape
    }

    /// In the order of the text.
    pub fn literals(&self) -> &[Literal] {
        &self.literals
    }

    /// Takes `text` apart. None for a text that is too long, too full of literals, or not
    /// understood.
    pub fn parameterize(&mut self, text: &str) -> Option<()> {
        self.shape.clear();
        self.literals.clear();
        if text.len() > limits::PLAN_CACHE_TEXT_BYTES_MAX {
            return None;
        }
        let bytes = text.as_bytes();
        // The last word, while nothing but blanks has come since.
        let mut word: Option<(usize, usize)> = None;
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            match bytes[at] {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    self.shape.push(bytes[at]);
                    at += 1;
                    continue;
                }
                b'\'' => {
                    self.quoted(bytes, at, at + 1, word, LiteralKind::Text)?;
                    at = self.end_of_quotes(bytes, at)?;
                }
                b'x' | b'X' if bytes.get(at + 1) == Some(&b'\'') => {
                    self.quoted(bytes, at, at + 2, word, LiteralKind::Bytes)?;
                    at = self.end_of_quotes(bytes, at + 1)?;
                }
                byte if is_name_start(byte) => {
                    at += bytes[at..].iter().take_while(|byte| is_name_part(**byte)).count();
                    // N'...', E'...' and their like are other literals.
                    if bytes.get(at) == Some(&b'\'') {
                        return None;
                    }
                    self.shape.extend_from_slice(&bytes[start..at]);
                    word = Some((start, at));
                    continue;
                }
                b'0'..=b'9' => at = self.number(text, at, word)?,
                b'"' => {
                    at += 1 + bytes[at + 1..].iter().position(|byte| *byte == b'"')? + 1;
                    self.shape.extend_from_slice(&bytes[start..at]);
                }
                b'-' if bytes.get(at + 1) == Some(&b'-') => at = self.comment_line(bytes, at),
                b'/' if bytes.get(at + 1) == Some(&b'/') => at = self.comment_line(bytes, at),
                b'/' if bytes.get(at + 1) == Some(&b'*') => {
                    let length = text[at + 2..].find("*/")?;
                    if text[at + 2..at + 2 + length].contains("/*") {
                        return None;
                    }
                    at += length + 4;
                    self.shape.extend_from_slice(&bytes[start..at]);
                }
                b':' if bytes.get(at + 1) == Some(&b':') => {
                    at += 2;
                    self.shape.extend_from_slice(b"::");
                }
                b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => return None,
                b'-' => {
                    // The word before a sign decides whether the sign belongs to the number behind
                    // it.
                    self.shape.push(b'-');
                    at += 1;
                    continue;
                }
                byte @ (b'(' | b')' | b',' | b';' | b'=' | b'<' | b'>' | b'!' | b'+' | b'*' | b'/' | b'%' | b'|'
                | b'?' | b'.') => {
                    self.shape.push(byte);
                    at += 1;
                }
                _ => return None,
            }
            word = None;
        }
        Some(())
    }

    fn comment_line(&mut self, bytes: &[u8], at: usize) -> usize {
        let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
        self.shape.extend_from_slice(&bytes[at..end]);
        end
    }

    /// Position after the closing quote of what opens at `open`.
    fn end_of_quotes(&self, bytes: &[u8], open: usize) -> Option<usize> {
        let mut at = open + 1;
        loop {
            at += bytes.get(at..)?.iter().position(|byte| *byte == b'\'')?;
            if bytes.get(at + 1) != Some(&b'\'') {
                return Some(at + 1);
            }
            at += 2;
        }
    }

    fn quoted(
        &mut self,
        bytes: &[u8],
        from: usize,
        start: usize,
        word: Option<(usize, usize)>,
        kind: LiteralKind,
    ) -> Option<()> {
        let after = self.end_of_quotes(bytes, start - 1)?;
        if keeps(bytes, word) {
            self.shape.extend_from_slice(&bytes[from..after]);
            return Some(());
        }
        let end = after - 1;
        let doubled = bytes[start..end].contains(&b'\'');
        let start = start as u32;
        let end = end as u32;
        let from = from as u32;
        self.push(Literal { kind, start, end, from, negative: false, doubled })
    }

    /// A number in its plain forms: digits, with a fraction, with an exponent.
    fn number(&mut self, text: &str, start: usize, word: Option<(usize, usize)>) -> Option<usize> {
        let bytes = text.as_bytes();
        let digits_from = |at: usize| bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = start + digits_from(start);
        let mut kind = LiteralKind::Integer;
        if bytes.get(end) == Some(&b'.') {
            let fraction = digits_from(end + 1);
            if fraction == 0 {
                return None;
            }
            kind = LiteralKind::Decimal;
            end += 1 + fraction;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits_from((end + 1 + sign).min(bytes.len()));
            if exponent == 0 {
                return None;
            }
            kind = LiteralKind::Float;
            end += 1 + sign + exponent;
        }
        if bytes.get(end).is_some_and(|byte| is_name_part(*byte) || matches!(byte, b'.' | b'\'' | b'"')) {
            return None;
        }
        let sign = self.sign_before(bytes, word);
        if sign.is_none() && keeps(bytes, word) {
            self.shape.extend_from_slice(&bytes[start..end]);
            return Some(end);
        }
        if kind == LiteralKind::Integer {
            // Typed as the binder does: by whether it fits.
            kind = match text[start..end].parse::<i64>() {
                Ok(value) if value <= i64::from(i32::MAX) => LiteralKind::Integer,
                Ok(_) => LiteralKind::Bigint,
                Err(_) => LiteralKind::Decimal,
            };
        }
        let mut from = start;
        if let Some(place) = sign {
            self.shape.truncate(place);
            from -= bytes[..start].iter().rev().position(|byte| *byte == b'-')? + 1;
        }
        let start = start as u32;
        let end_ = end as u32;
        let from = from as u32;
        self.push(Literal { kind, start, end: end_, from, negative: sign.is_some(), doubled: false })?;
        Some(end)
    }

    /// Where in the shape the minus sign stands that belongs to the number that begins now.
    fn sign_before(&self, bytes: &[u8], word: Option<(usize, usize)>) -> Option<usize> {
        let last = self.shape.iter().rposition(|byte| !byte.is_ascii_whitespace())?;
        if self.shape[last] != b'-' {
            return None;
        }
        let before = self.shape[..last].iter().rposition(|byte| !byte.is_ascii_whitespace())?;
        let operator = matches!(self.shape[before], b'(' | b',' | b'=' | b'<' | b'>');
        let after_word = word.is_some_and(|(start, end)| is_one_of(&bytes[start..end], &BEFORE_SIGN));
        (operator || after_word).then_some(last)
    }

    fn push(&mut self, literal: Literal) -> Option<()> {
        self.shape.push(literal.kind as u8);
        self.literals.push(literal);
        (self.literals.len() <= limits::PLAN_CACHE_LITERALS_MAX).then_some(())
    }
}

fn keeps(bytes: &[u8], word: Option<(usize, usize)>) -> bool {
    word.is_some_and(|(start, end)| is_one_of(&bytes[start..end], &KEEPING))
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

impl Literal {
    /// The bytes of the text that the literal takes, its sign and quotes included.
    pub(crate) fn span(&self) -> (usize, usize) {
        let quote = usize::from(matches!(self.kind, LiteralKind::Text | LiteralKind::Bytes));
        (self.from as usize, self.end as usize + quote)
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    /// The literal as it is written, its sign and quotes included.
    pub fn written<'t>(&self, text: &'t str) -> &'t str {
        let (start, end) = self.span();
        &text[start..end]
    }

    /// The literal in `text` as a parameter of type `to`. None where it is another value there, or
    /// none: such a text is compiled as it is written.
    pub fn as_parameter<'t>(&self, text: &'t str, to: SqlType, arena: &'t Bump) -> Option<Value<'t>> {
        match self.value(text, arena) {
            Some(value) => as_parameter(value, to, arena),
            // More digits than DECIMAL holds.
            None if self.kind == LiteralKind::Decimal && to == SqlType::Float => {
                let value = float_of(&text[self.start as usize..self.end as usize])?;
                let value = if self.negative { 0.0 - value } else { value };
                (value > FLOAT_NULL_MAX).then_some(Value::Float(value))
            }
            None => None,
        }
    }

    /// What the literal in `text` means by itself. None where it means nothing, or what no
    /// parameter can carry.
    fn value<'t>(&self, text: &'t str, arena: &'t Bump) -> Option<Value<'t>> {
        let written = &text[self.start as usize..self.end as usize];
        match self.kind {
            LiteralKind::Integer | LiteralKind::Bigint => {
                let value: i64 = written.parse().ok()?;
                Some(Value::Integer(if self.negative { -value } else { value }))
            }
            LiteralKind::Decimal => {
                let value = decimal_of(written)?;
                Some(Value::Decimal(if self.negative { value.neg() } else { value }))
            }
            LiteralKind::Float => {
                let value: f64 = written.parse().ok()?;
                // Beyond it lies the number that means NULL on the wire.
                (value < 1.7e308).then_some(Value::Float(if self.negative { -value } else { value }))
            }
            LiteralKind::Text if self.doubled => Some(Value::Text(arena.alloc_str(&written.replace("''", "'")))),
            // As a parameter it would be NULL.
            LiteralKind::Text => (written != "\\N").then_some(Value::Text(written)),
            LiteralKind::Bytes => {
                let bytes = crate::bind::literal::hex_bytes(written)?;
                Some(Value::Bytes(arena.alloc_slice_copy(&bytes)))
            }
        }
    }
}

/// A literal's value as one of the type that its parameter has, exactly as the binder converts
/// constants. None where that is not a conversion that depends on the types alone: such a text is
/// compiled as it is written.
fn as_parameter<'a>(value: Value<'a>, to: SqlType, arena: &'a Bump) -> Option<Value<'a>> {
    match (value, to) {
        (Value::Integer(x), to) if to.is_integer() => {
            let (least, greatest) = to.integer_range()?;
            (least..=greatest).contains(&x).then_some(value)
        }
        (Value::Integer(x), SqlType::Decimal) => Some(Value::Decimal(Decimal::from_i64(x))),
        (Value::Integer(x), SqlType::Float) => Some(Value::Float(x as f64)),
        (Value::Decimal(x), to) if to.is_integer() => {
            let whole = x.to_i64_exact()?;
            as_parameter(Value::Integer(whole), to, arena)
        }
        (Value::Decimal(_), SqlType::Decimal)
        | (Value::Float(_), SqlType::Float)
        | (Value::Text(_), SqlType::Varchar)
        | (Value::Bytes(_), SqlType::Varbinary) => Some(value),
        (Value::Text(x), to) if to.is_integer() => {
            let digits = x.strip_prefix('-').unwrap_or(x);
            let plain = !digits.is_empty() && digits.len() <= 18 && digits.bytes().all(|byte| byte.is_ascii_digit());
            as_parameter(Value::Integer(x.parse().ok().filter(|_| plain)?), to, arena)
        }
        // A text with more digits than DECIMAL holds is compared as what it is.
        (Value::Text(x), SqlType::Decimal) if !matches!(parse_decimal_truncated(x), Ok((_, Rest::Zero))) => None,
        (Value::Decimal(_), SqlType::Float)
        | (Value::Integer(_), SqlType::Timestamp)
        | (Value::Text(_), SqlType::Decimal | SqlType::Float | SqlType::Timestamp | SqlType::Date) => {
            cast(value, &ColumnType::fixed(to), arena).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shape with kinds in braces, and the literals as written.
    fn parameterized(text: &str) -> Option<(String, Vec<String>)> {
        let mut parameterizer = Parameterizer::default();
        parameterizer.parameterize(text)?;
        let names = ["", "{i}", "{b}", "{d}", "{f}", "{t}", "{x}"];
        let mut shape = String::new();
        for byte in parameterizer.shape() {
            match names.get(usize::from(*byte)) {
                Some(name) => shape.push_str(name),
                None => shape.push(char::from(*byte)),
            }
        }
        Some((shape, parameterizer.literals().iter().map(|literal| literal.written(text).to_owned()).collect()))
    }

    #[track_caller]
    fn check(text: &str, shape: &str, literals: &[&str]) {
        let (found, written) = parameterized(text).expect("the text is understood");
        assert_eq!(
            (found.as_str(), written.iter().map(String::as_str).collect::<Vec<_>>()),
            (shape, literals.to_vec())
        );
    }

    #[test]
    fn literals_leave_their_kind() {
        check(
            "SELECT a1 FROM t2 WHERE b=5 AND c = 'x''y'",
            "SELECT a1 FROM t2 WHERE b={i} AND c = {t}",
            &["5", "'x''y'"],
        );
        check("VALUES (2147483647, 2147483648)", "VALUES ({i}, {b})", &["2147483647", "2147483648"]);
        check("x = 99999999999999999999", "x = {d}", &["99999999999999999999"]);
        check("x=1.50 or y=2e3 or z=X'0aFF'", "x={d} or y={f} or z={x}", &["1.50", "2e3", "X'0aFF'"]);
        check("x=''", "x={t}", &["''"]);
        check("x = ? and y = 3", "x = ? and y = {i}", &["3"]);
        check("NULL, TRUE", "NULL, TRUE", &[]);
    }

    #[test]
    fn a_sign_belongs_to_its_number_where_nothing_stands_before_it() {
        check("x = -5", "x = {i}", &["-5"]);
        check("(- 5, -1.5)", "({i}, {d})", &["- 5", "-1.5"]);
        check("x BETWEEN -2 AND -1", "x BETWEEN {i} AND {i}", &["-2", "-1"]);
        check("x -5", "x -{i}", &["5"]);
        check("f(1) - 5", "f({i}) - {i}", &["1", "5"]);
        check("LIMIT -5", "LIMIT -5", &[]);
    }

    #[test]
    fn some_literals_stay() {
        check("LIMIT 10 OFFSET 20", "LIMIT 10 OFFSET 20", &[]);
        check("TIMESTAMP '2020-01-01'", "TIMESTAMP '2020-01-01'", &[]);
        check("\"a 5\" /* 5 */ -- '5\n5 // 5", "\"a 5\" /* 5 */ -- '5\n{i} // 5", &["5"]);
    }

    #[test]
    fn texts_that_are_not_understood_are_left_alone() {
        for text in [
            "'open",
            "\"open",
            "x = .5",
            "x = 5.",
            "x = 5e",
            "0x1F",
            "5a",
            "N'text'",
            "$1",
            ":name",
            "[1]",
            "/* /* */ */",
            "\u{1}",
            "1.2.3",
            "x = '\u{1}",
            "@x",
        ] {
            assert_eq!(parameterized(text), None, "{text}");
        }
    }

    #[test]
    fn limits_of_texts_and_literals() {
        let of_length = |length: usize| "a".repeat(length);
        assert!(parameterized(&of_length(limits::PLAN_CACHE_TEXT_BYTES_MAX)).is_some());
        assert!(parameterized(&of_length(limits::PLAN_CACHE_TEXT_BYTES_MAX + 1)).is_none());
        let of_literals = |count: usize| "1,".repeat(count);
        assert!(parameterized(&of_literals(limits::PLAN_CACHE_LITERALS_MAX)).is_some());
        assert!(parameterized(&of_literals(limits::PLAN_CACHE_LITERALS_MAX + 1)).is_none());
    }

    #[test]
    fn values_and_their_conversions() {
        let arena = Bump::new();
        let value = |text: &'static str, to: SqlType| {
            let mut parameterizer = Parameterizer::default();
            parameterizer.parameterize(text).unwrap();
            parameterizer.literals()[0].as_parameter(text, to, &arena).map(|value| format!("{value:?}"))
        };
        let same = |value: Value<'_>| Some(format!("{value:?}"));
        assert_eq!(value("(-5)", SqlType::Bigint), same(Value::Integer(-5)));
        assert_eq!(value("127", SqlType::Tinyint), same(Value::Integer(127)));
        assert_eq!(value("128", SqlType::Tinyint), None);
        assert_eq!(value("5.0", SqlType::Bigint), same(Value::Integer(5)));
        assert_eq!(value("5.5", SqlType::Bigint), None);
        assert_eq!(value("5", SqlType::Decimal), same(Value::Decimal(Decimal::from_i64(5))));
        assert_eq!(value("9007199254740993", SqlType::Float), same(Value::Float(9_007_199_254_740_992.0)));
        assert_eq!(value("0.1234567890123456", SqlType::Float), same(Value::Float(0.123_456_789_012_345_6)));
        assert_eq!(value("(-0.00000000000000)", SqlType::Float), same(Value::Float(0.0)));
        assert_eq!(value("0.1234567890123456", SqlType::Decimal), None);
        assert_eq!(value("'0.1234567890123456'", SqlType::Decimal), None);
        assert_eq!(
            value("0.500000000000000000", SqlType::Decimal),
            same(Value::Decimal(Decimal::parse("0.5").unwrap()))
        );
        assert_eq!(value("1.00000000000000", SqlType::Bigint), same(Value::Integer(1)));
        assert_eq!(value("0.9999999999999", SqlType::Bigint), None);
        assert_eq!(value("(-9223372036854775808)", SqlType::Bigint), None);
        assert_eq!(
            value("(-9223372036854775808)", SqlType::Decimal),
            same(Value::Decimal(Decimal::parse("-9223372036854775808").unwrap()))
        );
        assert_eq!(value("'it''s'", SqlType::Varchar), same(Value::Text("it's")));
        assert_eq!(value("'\\N'", SqlType::Varchar), None);
        assert_eq!(value("'12'", SqlType::Integer), same(Value::Integer(12)));
        assert_eq!(value("'1.5'", SqlType::Integer), None);
        assert_eq!(value("'soon'", SqlType::Timestamp), None);
        assert_eq!(value("'1970-01-01 00:00:01'", SqlType::Timestamp), same(Value::Timestamp(1_000_000)));
        assert_eq!(value("1.79e308", SqlType::Float), None);
    }
}
