//! Calls in a query's text that stand for tables which its caller makes:
//! `statistics(PROCEDURE, 0)`.

use super::tokens::{Lexeme, lex};
use ferrite_base::UserResult;
use sqlparser::tokenizer::Token;
use std::ops::Range;

/// One `function(argument, ...)`.
#[derive(Debug, PartialEq)]
pub struct TableCall {
    /// Where it stands, in bytes.
    pub place: Range<usize>,
    /// Words, numbers and texts, without quotes. None: there is something else, or no end.
    pub arguments: Option<Vec<String>>,
}

/// `WITH [RECURSIVE]` that a query begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct With {
    pub place: Range<usize>,
    pub recursive: bool,
}

/// The calls of `function` (given in upper case) and the beginning, outside of texts, quoted names
/// and comments.
pub fn table_calls(query: &str, function: &str) -> UserResult<(Vec<TableCall>, Option<With>)> {
    let lexemes = lex(query)?;
    let with = lexemes.first().filter(|first| first.is_word("WITH")).map(|first| {
        let second = lexemes.get(1).filter(|second| second.is_word("RECURSIVE"));
        With { place: first.start..second.unwrap_or(first).end, recursive: second.is_some() }
    });
    let mut calls = Vec::new();
    let mut rest = &lexemes[..];
    while let [first, behind @ ..] = rest {
        rest = behind;
        if let [open, inside @ ..] = behind
            && first.is_word(function)
            && open.token.token == Token::LParen
        {
            let length = inside.iter().position(|lexeme| lexeme.token.token == Token::RParen);
            let (inside, end) = inside.split_at(length.unwrap_or(inside.len()));
            let place = first.start..end.first().map_or(query.len(), |close| close.end);
            calls.push(TableCall { place, arguments: length.and_then(|_| arguments(inside)) });
            rest = end;
        }
    }
    Ok((calls, with))
}

fn arguments(inside: &[Lexeme]) -> Option<Vec<String>> {
    let split = inside.split(|lexeme| lexeme.token.token == Token::Comma);
    let argument = |part: &[Lexeme]| match part {
        [only] => match &only.token.token {
            Token::Word(word) => Some(word.value.clone()),
            Token::Number(text, _) | Token::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    split.map(argument).collect()
}
