//! A cursor over lexemes, for the productions that are our own.

use super::advice;
use super::tokens::{self, FerriteDialect, Lexeme, for_sqlparser, is_argument, token_is_word, too_deep, unexpected};
use crate::errors;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_value::{ColumnType, SqlType};
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token};

#[derive(Clone)]
pub(crate) struct Cursor<'l> {
    text: &'l str,
    lexemes: &'l [Lexeme],
    position: usize,
}

impl<'l> Cursor<'l> {
    pub fn new(text: &'l str, lexemes: &'l [Lexeme]) -> Self {
        Cursor { text, lexemes, position: 0 }
    }

    pub fn whole_text(&self) -> &'l str {
        self.text
    }

    pub fn at_end(&self) -> bool {
        self.position >= self.lexemes.len()
    }

    pub fn peek(&self) -> Option<&'l Token> {
        self.peek_at(0)
    }

    pub fn peek_at(&self, ahead: usize) -> Option<&'l Token> {
        self.lexemes.get(self.position + ahead).map(|lexeme| &lexeme.token.token)
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn advance(&mut self) -> Option<&'l Token> {
        let token = self.peek();
        self.position += usize::from(token.is_some());
        token
    }

    /// The text of the lexemes from position `from` up to here.
    pub fn text_since(&self, from: usize) -> &'l str {
        lexeme_text(self.text, &self.lexemes[from..self.position])
    }

    pub fn rest(&self) -> &'l [Lexeme] {
        &self.lexemes[self.position..]
    }

    pub fn rest_text(&self) -> &'l str {
        lexeme_text(self.text, self.rest())
    }

    pub fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    pub fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        self.peek_at(ahead).is_some_and(|token| token_is_word(token, word))
    }

    pub fn accept(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.position += usize::from(found);
        found
    }

    /// All of `words` in a row, or none taken.
    pub fn accept_all(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(ahead, word)| self.is_word_at(ahead, word));
        if found {
            self.position += words.len();
        }
        found
    }

    pub fn expect(&mut self, word: &str) -> UserResult<()> {
        if self.accept(word) { Ok(()) } else { Err(self.unexpected(word)) }
    }

    pub fn accept_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.position += usize::from(found);
        found
    }

    pub fn expect_token(&mut self, token: &Token) -> UserResult<()> {
        if self.accept_token(token) { Ok(()) } else { Err(self.unexpected(&token.to_string())) }
    }

    pub fn expect_end(&self) -> UserResult<()> {
        match self.peek() {
            None => Ok(()),
            Some(token) => Err(self.refused(unexpected(token))),
        }
    }

    /// The error with the place of what stands here.
    pub fn refused(&self, error: UserError) -> UserError {
        match self.lexemes.get(self.position) {
            Some(lexeme) => errors::at(error, lexeme.token.span.start),
            None => errors::at(error, tokens::end(self.lexemes)),
        }
    }

    /// What stands here is not what should.
    #[cold]
    pub fn unexpected(&self, wanted: &str) -> UserError {
        match self.peek() {
            Some(token) => {
                let error = UserError::syntax(format!("unexpected token: {token} required: {wanted}"));
                self.refused(advice::meant(error, token))
            }
            None => self.refused(UserError::syntax(format!("unexpected end of statement, required: {wanted}"))),
        }
    }

    /// A name, folded to upper case unless quoted.
    pub fn name(&mut self, what: &str) -> UserResult<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.position += 1;
                let name = match word.quote_style {
                    None => word.value.to_uppercase(),
                    Some(_) => word.value.clone(),
                };
                check_name(&name)?;
                Ok(name)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    pub fn number(&mut self, what: &str) -> UserResult<u64> {
        match self.peek() {
            Some(Token::Number(digits, _)) => {
                let number =
                    digits.parse().map_err(|_| UserError::syntax(format!("{digits} is not a valid {what}")))?;
                self.position += 1;
                Ok(number)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// `(name, name, ...)`
    pub fn name_list(&mut self, what: &str) -> UserResult<Vec<String>> {
        self.expect_token(&Token::LParen)?;
        let mut names = vec![self.name(what)?];
        while self.accept_token(&Token::Comma) {
            names.push(self.name(what)?);
        }
        self.expect_token(&Token::RParen)?;
        Ok(names)
    }

    /// Takes the lexemes up to the first for which `stop` holds outside parentheses and CASE ...
    /// END, or to the end.
    pub fn take_until(&mut self, stop: impl Fn(&Lexeme) -> bool) -> &'l [Lexeme] {
        let start = self.position;
        let mut parentheses = 0usize;
        let mut cases = 0usize;
        while let Some(lexeme) = self.lexemes.get(self.position) {
            if parentheses == 0 && cases == 0 && stop(lexeme) {
                break;
            }
            match &lexeme.token.token {
                // TIME_WINDOW(..., END): after a comma END closes nothing.
                _ if is_argument(self.lexemes, self.position) => {}
                Token::LParen => parentheses += 1,
                Token::RParen if parentheses == 0 => break,
                Token::RParen => parentheses -= 1,
                Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::CASE => cases += 1,
                Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::END => {
                    cases = cases.saturating_sub(1);
                }
                _ => {}
            }
            self.position += 1;
        }
        &self.lexemes[start..self.position]
    }

    /// `( ... )`: what is inside.
    pub fn parenthesized(&mut self) -> UserResult<&'l [Lexeme]> {
        self.expect_token(&Token::LParen)?;
        let inside = self.take_until(|_| false);
        self.expect_token(&Token::RParen)?;
        Ok(inside)
    }

    /// `(expression, ...)`, as their lexemes.
    pub fn parenthesized_list(&mut self) -> UserResult<Vec<&'l [Lexeme]>> {
        self.expect_token(&Token::LParen)?;
        let mut items = Vec::new();
        loop {
            let item = self.take_until(|lexeme| lexeme.token.token == Token::Comma);
            if item.is_empty() {
                return Err(self.unexpected("an expression"));
            }
            items.push(item);
            if !self.accept_token(&Token::Comma) {
                break;
            }
        }
        self.expect_token(&Token::RParen)?;
        Ok(items)
    }

    /// A declared type of a column, parameter or variable.
    pub fn column_type(&mut self) -> UserResult<ColumnType> {
        let name = match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_uppercase(),
            _ => return Err(self.unexpected("a type")),
        };
        self.position += 1;
        let Some(sql_type) = type_named(&name) else {
            self.position -= 1;
            return Err(self.refused(advice::unknown_type(&name)));
        };
        if name == "DOUBLE" {
            self.accept("PRECISION");
        }
        if name == "TIMESTAMP" {
            self.accept_all(&["WITHOUT", "TIME", "ZONE"]);
        }
        let mut length = None;
        let mut in_bytes = false;
        if self.accept_token(&Token::LParen) {
            length = Some(self.number(if sql_type == SqlType::Decimal { "precision" } else { "length" })?);
            if sql_type == SqlType::Varchar {
                in_bytes = self.accept("BYTES") || self.accept("OCTETS");
                if !in_bytes {
                    let _ = self.accept("CHARACTERS");
                }
            }
            if let (SqlType::Decimal, Some(precision)) = (sql_type, length) {
                let scale = if self.accept_token(&Token::Comma) { self.number("scale")? } else { 0 };
                self.expect_token(&Token::RParen)?;
                return Ok(ColumnType::decimal(precision, scale));
            }
            self.expect_token(&Token::RParen)?;
        }
        sized_type(sql_type, length, in_bytes)
    }

    /// An expression, parsed by sqlparser.
    pub fn expression(lexemes: &[Lexeme], placeholders: &mut u16) -> UserResult<ast::Expr> {
        parse_with(lexemes, placeholders, |parser| parser.parse_expr())
    }
}

pub(crate) fn lexeme_text<'t>(text: &'t str, lexemes: &[Lexeme]) -> &'t str {
    match (lexemes.first(), lexemes.last()) {
        (Some(first), Some(last)) => text.get(first.start..last.end).unwrap_or_default(),
        _ => "",
    }
}

/// Runs sqlparser over all of `lexemes`.
pub(crate) fn parse_with<T>(
    lexemes: &[Lexeme],
    placeholders: &mut u16,
    parse: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
) -> UserResult<T> {
    if lexemes.is_empty() {
        return Err(UserError::syntax("unexpected end of statement, required: an expression"));
    }
    let tokens = for_sqlparser(lexemes, placeholders)?;
    let mut parser =
        Parser::new(&FerriteDialect).with_recursion_limit(limits::NESTING_MAX).with_tokens_with_locations(tokens);
    // Those that name no token are about the end.
    let parsed = parse(&mut parser).map_err(|error| errors::at(parser_error(error), tokens::end(lexemes)))?;
    let next = parser.peek_token();
    match next.token {
        Token::EOF => Ok(parsed),
        token => Err(errors::at(leftover(&token, lexemes, next.span.start), next.span.start)),
    }
}

/// What stands behind all that makes sense. Often the word before it was meant to be a keyword, and
/// was taken for a name.
fn leftover(token: &Token, lexemes: &[Lexeme], place: Location) -> UserError {
    let written = errors::as_written(token);
    let error = UserError::syntax(format!("unexpected token: {written} required: the end of the statement"));
    let at = lexemes.iter().position(|lexeme| lexeme.token.span.start == place).unwrap_or(0);
    let by = |lexeme: Option<&Lexeme>| lexeme.is_some_and(|lexeme| lexeme.is_word("BY"));
    if ["GROUP", "ORDER"].iter().any(|word| token_is_word(token, word)) && !by(lexemes.get(at + 1)) {
        return error.with_hint(format!("{token} is followed by BY"));
    }
    let error = advice::meant(error, token);
    match at.checked_sub(1).map(|before| &lexemes[before].token.token) {
        Some(before) => advice::meant(error, before),
        None => error,
    }
}

pub(crate) fn parser_error(error: ParserError) -> UserError {
    match error {
        ParserError::RecursionLimitExceeded => too_deep(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => advice::grammar_error(&message),
    }
}

pub(crate) fn check_name(name: &str) -> UserResult<()> {
    if name.len() > limits::IDENTIFIER_BYTES_MAX {
        return Err(UserError::limit(format!(
            "a name of {} bytes is longer than {}",
            name.len(),
            limits::IDENTIFIER_BYTES_MAX
        )));
    }
    if name.is_empty() {
        return Err(UserError::syntax("a quoted name must not be empty"));
    }
    Ok(())
}

pub(crate) fn type_named(name: &str) -> Option<SqlType> {
    Some(match name {
        "TINYINT" => SqlType::Tinyint,
        "SMALLINT" => SqlType::Smallint,
        "INTEGER" | "INT" => SqlType::Integer,
        "BIGINT" => SqlType::Bigint,
        "FLOAT" | "DOUBLE" => SqlType::Float,
        "DECIMAL" | "NUMERIC" | "DEC" => SqlType::Decimal,
        "VARCHAR" => SqlType::Varchar,
        "VARBINARY" => SqlType::Varbinary,
        "TIMESTAMP" => SqlType::Timestamp,
        "DATE" => SqlType::Date,
        "BOOLEAN" => SqlType::Boolean,
        "GEOGRAPHY" => SqlType::Geography,
        "GEOGRAPHY_POINT" => SqlType::Point,
        _ => return None,
    })
}

/// A type with its declared size, checked against the limits.
pub(crate) fn sized_type(sql_type: SqlType, length: Option<u64>, in_bytes: bool) -> UserResult<ColumnType> {
    if !sql_type.is_variable_length() {
        return Ok(ColumnType::fixed(sql_type));
    }
    let default = match sql_type {
        SqlType::Geography => 32_768,
        _ => u64::from(limits::VARIABLE_LENGTH_DEFAULT),
    };
    let length = length.unwrap_or(default);
    // A length beyond what characters can have is meant in bytes, as in the original.
    let in_bytes = in_bytes || (sql_type == SqlType::Varchar && length > u64::from(limits::VARCHAR_CHARACTERS_MAX));
    if length == 0 || length > limits::VALUE_BYTES_MAX as u64 {
        return Err(UserError::ddl(
            "54000",
            format!("{sql_type} size must be from 1 to {} bytes, not {length}", limits::VALUE_BYTES_MAX),
        ));
    }
    Ok(ColumnType { sql_type, length: length as u32, in_bytes })
}
