//! Text to statements. Knows the grammar, not the schema.

pub(crate) mod advice;
pub(crate) mod alter;
pub(crate) mod context;
pub(crate) mod cursor;
pub(crate) mod data_change;
pub(crate) mod ddl;
pub(crate) mod figures;
pub(crate) mod pieces;
pub(crate) mod procedure;
pub(crate) mod statement;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod tokens;
pub(crate) mod within;

use crate::errors;
use cursor::{Cursor, lexeme_text};
use ferrite_base::{UserError, UserResult, fault, limits, watch};
use ferrite_catalog::{Change, base64};
use sqlparser::tokenizer::{Location, Token};
use statement::{Body, Statement};
use tokens::Lexeme;

/// Words that schema changes begin with.
const DDL_WORDS: [&str; 10] =
    ["CREATE", "DROP", "ALTER", "PARTITION", "REPLICATE", "SWAP", "FILL", "DR", "LOAD", "REMOVE"];
/// What a schema statement with a jar begins with. As the first of a text it may be larger than
/// other statements.
const LOAD_CLASSES: &str = "LOAD CLASSES '";
/// What may stand before it.
const REMOVE_CLASSES: &str = "REMOVE CLASSES '";

/// What reading a word is, in units of work, for whoever watches.
const LEXEME: usize = 256;

/// Splits `text` at `;` and parses each statement. Empty statements are dropped.
pub fn parse_batch(text: &str) -> UserResult<Vec<Statement>> {
    fault::point(fault::Point::Compile);
    if let Some((load, rest)) = leading_jar(text) {
        let mut statements = vec![load?];
        statements.extend(parse_batch(rest)?);
        return Ok(statements);
    }
    if let Some((setting, rest)) = setting_before_jar(text) {
        let mut statements = parse_batch(setting)?;
        statements.extend(parse_batch(rest)?);
        return Ok(statements);
    }
    let lexemes = tokens::lex(text).map_err(|error| syntax_context(text.trim(), error))?;
    let ranges = split(&lexemes)?;
    let mut statements = Vec::with_capacity(ranges.len());
    for range in ranges {
        let part = &lexemes[range];
        watch::work(part.len().saturating_mul(LEXEME))?;
        let part_text = lexeme_text(text, part);
        let start = tokens::start(part);
        let body = parse_statement(text, part, &mut 0)
            .map_err(|error| syntax_context(part_text, context::somewhere(error, part_text, start)))?;
        statements.push(Statement { text: part_text.to_owned(), start, body });
    }
    Ok(statements)
}

/// What a history begins with may stand before a jar.
fn setting_before_jar(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("SET DECIMAL_SCALE ")?;
    let (setting, rest) = text.split_once(';')?;
    let rest = rest.trim_start();
    (rest.starts_with(LOAD_CLASSES) || rest.starts_with(REMOVE_CLASSES)).then_some((setting, rest))
}

/// At the beginning: a jar, which is too large to go through the lexer, or what is removed before
/// one comes; and the text behind it.
fn leading_jar(text: &str) -> Option<(UserResult<Statement>, &str)> {
    let (loads, quoted) = match text.strip_prefix(LOAD_CLASSES) {
        Some(quoted) => (true, quoted),
        None => (false, text.strip_prefix(REMOVE_CLASSES)?),
    };
    let (quoted, rest) = quoted.split_once('\'')?;
    let rest = rest.trim_start().strip_prefix(';').or(rest.trim().is_empty().then_some(""))?;
    let (name, ddl) = if loads {
        if quoted.len() > limits::CLASSES_BYTES_MAX * 2 {
            return Some((Err(UserError::limit("the jar is larger than all classes together may be")), rest));
        }
        match base64::decode(quoted) {
            Some(jar) => ("LOAD CLASSES", statement::Ddl::Change(Change::LoadClasses { jar: jar.into() })),
            None => return Some((Err(UserError::syntax("LOAD CLASSES takes a jar's bytes in base64")), rest)),
        }
    } else {
        let patterns = quoted.split(',').map(|pattern| pattern.trim().to_owned()).collect();
        ("REMOVE CLASSES", statement::Ddl::Change(Change::RemoveClasses { patterns }))
    };
    Some((
        Ok(Statement { text: name.to_owned(), start: Location::empty(), body: Body::Ddl(Box::new(ddl)) }),
        rest.trim_start(),
    ))
}

/// The statements of `text` with `?` in place of the literals at `parameterized` (number, span in
/// bytes, whether there is a sign), and for each `?` which of them it was. The `?` are numbered
/// through all statements. None when a span is not one literal.
#[allow(clippy::type_complexity, reason = "a name would say no more")]
pub(crate) fn parse_parameterized(
    text: &str,
    parameterized: impl Iterator<Item = (usize, (usize, usize), bool)>,
) -> Option<UserResult<(Vec<Statement>, Vec<Option<usize>>)>> {
    let mut lexemes = tokens::lex(text).ok()?;
    let mut sources = Vec::new();
    let mut kept = Vec::with_capacity(lexemes.len());
    let mut parameterized = parameterized.peekable();
    let mut rest = lexemes.drain(..).peekable();
    while let Some(mut lexeme) = rest.next() {
        if let Some((number, (start, end), negative)) =
            parameterized.next_if(|(_, (start, _), _)| *start == lexeme.start)
        {
            if negative {
                let digits = rest.next_if(|_| lexeme.token.token == Token::Minus)?;
                lexeme = Lexeme { start, ..digits };
            }
            if lexeme.end != end || !tokens::is_literal(&lexeme.token.token) {
                return None;
            }
            lexeme.token.token = Token::Placeholder("?".to_owned());
            sources.push(Some(number));
        } else if matches!(lexeme.token.token, Token::Placeholder(_)) {
            sources.push(None);
        }
        kept.push(lexeme);
    }
    if parameterized.next().is_some() {
        return None;
    }
    Some(parse_numbered(text, &kept).map(|statements| (statements, sources)))
}

fn parse_numbered(text: &str, lexemes: &[Lexeme]) -> UserResult<Vec<Statement>> {
    let mut placeholders = 0;
    split(lexemes)?
        .into_iter()
        .map(|range| {
            let part = &lexemes[range];
            let body = parse_statement(text, part, &mut placeholders)?;
            Ok(Statement { text: lexeme_text(text, part).to_owned(), start: tokens::start(part), body })
        })
        .collect()
}

fn split(lexemes: &[Lexeme]) -> UserResult<Vec<std::ops::Range<usize>>> {
    let ranges = tokens::split(lexemes);
    if ranges.len() > limits::STATEMENTS_CEILING {
        return Err(UserError::limit(format!("more than {} statements in one batch", limits::STATEMENTS_CEILING))
            .with_detail(format!("there are {}", ranges.len())));
    }
    Ok(ranges)
}

/// `placeholders` counts the `?` met so far.
fn parse_statement(text: &str, lexemes: &[Lexeme], placeholders: &mut u16) -> UserResult<Body> {
    let cursor = Cursor::new(text, lexemes);
    let sets_schema = cursor.is_word("SET") && ["DR", "DECIMAL_SCALE"].iter().any(|what| cursor.is_word_at(1, what));
    if sets_schema || DDL_WORDS.iter().any(|word| cursor.is_word(word)) {
        Ok(Body::Ddl(Box::new(ddl::parse(cursor)?)))
    } else {
        Ok(Body::Sql(Box::new(data_change::parse(cursor, placeholders)?)))
    }
}

/// Errors name the statement, as the original's do.
fn syntax_context(text: &str, error: UserError) -> UserError {
    if error.code() != "42601" {
        let is_ddl =
            DDL_WORDS.iter().any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)));
        return if is_ddl { error } else { context::compile_error(text, Location::empty(), error) };
    }
    let message =
        format!("SQL error while compiling query: {}", errors::about("SQL Syntax error in", "", text, error.message()));
    error.with_message(message)
}
