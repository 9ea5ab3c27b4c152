//! Queries, INSERT, UPSERT, UPDATE, DELETE, TRUNCATE: sqlparser's grammar, with the clauses that it
//! lacks taken out of the tokens before.

use super::cursor::{Cursor, parse_with};
use super::statement::{Body, SqlKind, SqlStatement, Statement};
use super::tokens::{self, Lexeme, unexpected};
use ferrite_base::{UserError, UserResult};
use sqlparser::ast;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// Not inlined: procedures nest, and its frame is large.
#[inline(never)]
pub(crate) fn parse(mut cursor: Cursor<'_>, placeholders: &mut u16) -> UserResult<SqlStatement> {
    let before = *placeholders;
    let kind = if cursor.accept("TRUNCATE") {
        cursor.accept("TABLE");
        let table = cursor.name("a table name")?;
        cursor.expect_end()?;
        SqlKind::Truncate { table }
    } else if cursor.is_word("UPSERT") {
        let mut lexemes = cursor.rest().to_vec();
        lexemes[0].token.token = Token::make_word("INSERT", None);
        insert(&lexemes, placeholders, true)?
    } else if cursor.is_word("INSERT") {
        insert(cursor.rest(), placeholders, false)?
    } else if cursor.is_word("DELETE") {
        delete(cursor.rest(), placeholders, false)?
    } else if cursor.is_word("MIGRATE") {
        let mut lexemes = cursor.rest().to_vec();
        lexemes[0].token.token = Token::make_word("DELETE", None);
        delete(&lexemes, placeholders, true)?
    } else if cursor.is_word("UPDATE") {
        match parse_with(cursor.rest(), placeholders, |parser| parser.parse_statement())? {
            ast::Statement::Update(update) => SqlKind::Update(Box::new(update)),
            _ => return Err(cursor.unexpected("UPDATE")),
        }
    } else if cursor.accept("EXPLAIN") {
        let analyze = cursor.accept("ANALYZE");
        cursor.accept_all(&["PLAN", "FOR"]);
        if cursor.is_word("EXPLAIN") {
            return Err(cursor.unexpected("a statement to explain"));
        }
        let text = cursor.rest_text().to_owned();
        let start = tokens::start(cursor.rest());
        let explained = Body::Sql(Box::new(parse(cursor, placeholders)?));
        SqlKind::Explain { analyze, explained: Box::new(Statement { text, start, body: explained }) }
    } else if cursor.is_word("WITH") {
        with(cursor.rest(), placeholders)?
    } else if cursor.is_word("SELECT") || cursor.is_word("VALUES") || cursor.peek() == Some(&Token::LParen) {
        SqlKind::Query(parse_with(cursor.rest(), placeholders, |parser| parser.parse_query())?)
    } else {
        return Err(match cursor.peek() {
            Some(token @ Token::Word(word)) => super::advice::other_statement(&word.value.to_uppercase())
                .unwrap_or_else(|| cursor.refused(unexpected(token))),
            Some(token) => cursor.refused(unexpected(token)),
            None => UserError::syntax("no SQL statement"),
        });
    };
    Ok(SqlStatement { kind, placeholders: *placeholders - before })
}

fn with(lexemes: &[Lexeme], placeholders: &mut u16) -> UserResult<SqlKind> {
    let query = parse_with(lexemes, placeholders, |parser| parser.parse_query())?;
    match query.body.as_ref() {
        ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_) => {
            Err(UserError::not_supported("WITH before a data change")
                .with_hint("write INSERT INTO t WITH ... SELECT, or put the query into a subquery"))
        }
        _ => Ok(SqlKind::Query(query)),
    }
}

fn insert(lexemes: &[Lexeme], placeholders: &mut u16, upsert: bool) -> UserResult<SqlKind> {
    match parse_with(lexemes, placeholders, |parser| parser.parse_statement())? {
        ast::Statement::Insert(insert) => Ok(SqlKind::Insert { insert: Box::new(insert), upsert }),
        _ => Err(UserError::syntax("an INSERT statement is required")),
    }
}

/// Where the words stand outside of parentheses.
fn places_of(lexemes: &[Lexeme], words: &[&str]) -> Vec<usize> {
    let mut depth = 0usize;
    let mut places = Vec::new();
    for (position, lexeme) in lexemes.iter().enumerate() {
        match &lexeme.token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && words.iter().any(|word| lexeme.is_word(word)) => places.push(position),
            _ => {}
        }
    }
    places
}

/// DELETE ... ORDER BY ... LIMIT ... RETURNING: sqlparser knows RETURNING before ORDER BY only, so
/// behind it, it is parsed by itself.
fn delete(lexemes: &[Lexeme], placeholders: &mut u16, migrate: bool) -> UserResult<SqlKind> {
    const ROWS: [&str; 3] = ["ORDER", "LIMIT", "OFFSET"];
    let rows = places_of(lexemes, &ROWS);
    let returning = places_of(lexemes, &["RETURNING"]);
    let (Some(last_of_rows), Some(position)) = (rows.last(), returning.last().copied()) else {
        return delete_rows(lexemes, placeholders, migrate);
    };
    if position < *last_of_rows {
        return delete_rows(lexemes, placeholders, migrate);
    }
    let mut kind = delete_rows(&lexemes[..position], placeholders, migrate)?;
    let items = &lexemes[position + 1..];
    if items.is_empty() {
        return Err(UserError::syntax("unexpected end of statement, required: what RETURNING returns"));
    }
    let items = parse_with(items, placeholders, |parser| parser.parse_comma_separated(Parser::parse_select_item))?;
    if let SqlKind::Delete { delete, .. } = &mut kind {
        if delete.returning.is_some() {
            return Err(UserError::syntax("RETURNING stands twice"));
        }
        delete.returning = Some(items);
    }
    Ok(kind)
}

/// ... ORDER BY ... LIMIT/OFFSET in either order: sqlparser knows no OFFSET there, so it is cut
/// out.
fn delete_rows(lexemes: &[Lexeme], placeholders: &mut u16, migrate: bool) -> UserResult<SqlKind> {
    let Some(position) = places_of(lexemes, &["OFFSET"]).last().copied() else {
        return delete_without_offset(lexemes, None, placeholders, migrate);
    };
    let value = lexemes.get(position + 1..position + 2).unwrap_or_default();
    if !matches!(value.first().map(|lexeme| &lexeme.token.token), Some(Token::Number(..) | Token::Placeholder(_))) {
        return Err(UserError::syntax("OFFSET in DELETE must be a number or a parameter"));
    }
    let mut kept = lexemes[..position].to_vec();
    // A `?` after OFFSET counts in the order of the text: only what stands before it has been
    // numbered by then.
    let mut offset_placeholder =
        *placeholders + kept.iter().filter(|lexeme| matches!(lexeme.token.token, Token::Placeholder(_))).count() as u16;
    let is_parameter = matches!(value[0].token.token, Token::Placeholder(_));
    if is_parameter && lexemes.len() > position + 2 {
        return Err(UserError::not_supported("OFFSET ? before LIMIT in DELETE").with_hint("write LIMIT first"));
    }
    let offset = Cursor::expression(value, &mut offset_placeholder)?;
    kept.extend_from_slice(&lexemes[position + 2..]);
    let kind = delete_without_offset(&kept, Some(offset), placeholders, migrate)?;
    *placeholders += u16::from(is_parameter);
    Ok(kind)
}

fn delete_without_offset(
    lexemes: &[Lexeme],
    offset: Option<ast::Expr>,
    placeholders: &mut u16,
    migrate: bool,
) -> UserResult<SqlKind> {
    match parse_with(lexemes, placeholders, |parser| parser.parse_statement())? {
        ast::Statement::Delete(delete) => {
            Ok(SqlKind::Delete { delete: Box::new(delete), offset: offset.map(Box::new), migrate })
        }
        _ => Err(UserError::syntax("a DELETE statement is required")),
    }
}
