//! The arguments of `exec`: literals between blanks or commas.

use crate::lexer::{self, Kind, Token};
use ferrite_value::decimal::Rest;
use ferrite_value::{OwnedValue, temporal, text};

/// A procedure's name and its arguments. The error says which argument cannot be read.
pub fn parse(statement: &str) -> Result<(String, Vec<OwnedValue>), String> {
    let tokens: Vec<Token> = lexer::tokens(statement).collect();
    // Behind `exec`: a name runs up to the first blank, since it may have an `@` and dots.
    let mut at = 1;
    while tokens.get(at).is_some_and(Token::is_filler) {
        at += 1;
    }
    let begin = at;
    while tokens.get(at).is_some_and(|token| !token.is_filler() && token.text(statement) != ",") {
        at += 1;
    }
    if begin == at {
        return Err("exec needs the name of a procedure".to_owned());
    }
    let name = statement[tokens[begin].start..tokens[at - 1].end].to_owned();
    let mut values = Vec::new();
    while at < tokens.len() {
        let token = tokens[at];
        if token.is_filler() || token.text(statement) == "," {
            at += 1;
            continue;
        }
        let (value, used) = argument(statement, &tokens[at..])?;
        values.push(value);
        at += used;
    }
    Ok((name, values))
}

/// One argument and the tokens that it takes.
fn argument(statement: &str, tokens: &[Token]) -> Result<(OwnedValue, usize), String> {
    let token = tokens[0];
    let own = token.text(statement);
    if !token.closed {
        return Err(format!("{own} has no closing quote"));
    }
    let string_at = |index: usize| tokens.get(index).filter(|next| next.kind == Kind::Text && next.closed);
    match token.kind {
        Kind::Text => Ok((OwnedValue::Text(unquoted(own).into()), 1)),
        Kind::Word if own.eq_ignore_ascii_case("x") && string_at(1).is_some() => {
            let digits = unquoted(tokens[1].text(statement));
            match text::parse_hex_bytes(&digits) {
                Some(bytes) => Ok((OwnedValue::Bytes(bytes.into()), 2)),
                None => Err(format!("x'{digits}' is not an even number of hex digits")),
            }
        }
        Kind::Word if own.eq_ignore_ascii_case("timestamp") && string_at(2).is_some() && tokens[1].is_filler() => {
            let written = unquoted(tokens[2].text(statement));
            match temporal::parse_timestamp(&written) {
                Some(timestamp) => Ok((OwnedValue::Timestamp(timestamp), 3)),
                None => Err(format!("'{written}' is not a timestamp: 'YYYY-MM-DD hh:mm:ss.ffffff'")),
            }
        }
        Kind::Word if own.eq_ignore_ascii_case("null") => Ok((OwnedValue::Null, 1)),
        _ => {
            // Numbers with their sign, and words without quotes: everything up to the next blank or
            // comma.
            let used = tokens
                .iter()
                .position(|other| other.is_filler() || other.text(statement) == "," || other.kind == Kind::Text)
                .unwrap_or(tokens.len())
                .max(1);
            let written = &statement[token.start..tokens[used - 1].end];
            Ok((word(written), used))
        }
    }
}

/// A number as a literal of SQL is one: an integer, a DECIMAL with a point, a FLOAT with an
/// exponent. All else goes as text, also a number with more digits than its type holds, which the
/// server converts to what is declared.
fn word(written: &str) -> OwnedValue {
    if let Ok(integer) = written.parse::<i64>()
        && integer != i64::MIN
    {
        return OwnedValue::Integer(integer);
    }
    let number = if written.contains(['e', 'E']) {
        text::parse_float(written).map(OwnedValue::Float)
    } else if written.contains('.') {
        match text::parse_decimal_truncated(written) {
            Ok((decimal, Rest::Zero)) => Some(OwnedValue::Decimal(decimal)),
            _ => None,
        }
    } else {
        None
    };
    number.unwrap_or_else(|| OwnedValue::Text(written.into()))
}

fn unquoted(literal: &str) -> String {
    literal[1..literal.len() - 1].replace("''", "'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::Decimal;

    #[test]
    fn arguments_are_literals_or_words() {
        let text = |text: &str| OwnedValue::Text(text.into());
        let decimal = |text: &str| OwnedValue::Decimal(Decimal::parse(text).unwrap());
        let cases = [
            (
                "exec Vote 5551234567, 1 -2",
                "Vote",
                vec![OwnedValue::Integer(5_551_234_567), 1.into_value(), (-2).into_value()],
            ),
            ("exec @Statistics table 0", "@Statistics", vec![text("table"), 0.into_value()]),
            (
                "EXEC T.insert 'it''s', NULL, x'CAfe'",
                "T.insert",
                vec![text("it's"), OwnedValue::Null, OwnedValue::Bytes([0xca, 0xfe].into())],
            ),
            (
                "exec p -1.50,1e3,'',TIMESTAMP '1970-01-01 00:00:01'",
                "p",
                vec![decimal("-1.5"), OwnedValue::Float(1e3), text(""), OwnedValue::Timestamp(1_000_000)],
            ),
            // All digits of a number reach the server.
            (
                "exec p 0.9952398693354088 0.00000000000001 1.500000000000000 12345678901234567890.5 -2.5e-3 5E0",
                "p",
                vec![
                    text("0.9952398693354088"),
                    text("0.00000000000001"),
                    decimal("1.5"),
                    decimal("12345678901234567890.5"),
                    OwnedValue::Float(-2.5e-3),
                    OwnedValue::Float(5.0),
                ],
            ),
            // What only looks like a number is a word.
            (
                "exec p 12e4567 1e 1.2.3 e5 -9223372036854775808 1-2.5",
                "p",
                ["12e4567", "1e", "1.2.3", "e5", "-9223372036854775808", "1-2.5"].map(text).to_vec(),
            ),
            ("exec p", "p", vec![]),
        ];
        for (statement, name, values) in cases {
            assert_eq!(parse(statement), Ok((name.to_owned(), values)), "{statement}");
        }
    }

    trait IntoValue {
        fn into_value(self) -> OwnedValue;
    }

    impl IntoValue for i64 {
        fn into_value(self) -> OwnedValue {
            OwnedValue::Integer(self)
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (statement, words) in [
            ("exec", "needs the name"),
            ("exec p 'open", "no closing quote"),
            ("exec p x'ABC'", "hex digits"),
            ("exec p timestamp 'yesterday'", "not a timestamp"),
        ] {
            assert!(parse(statement).unwrap_err().contains(words), "{statement}");
        }
    }
}
