//! Pieces that several schema statements have: expressions as they are written, names of
//! procedures, kinds of indexes.

use super::cursor::{Cursor, lexeme_text};
use super::statement::WrittenExpr;
use super::tokens::Lexeme;
use ferrite_base::{UserError, UserResult, earlier};
use sqlparser::tokenizer::Token;

/// `USING HASH | BTREE | TREE`; without it an index is ordered.
pub(crate) fn using_hash(cursor: &mut Cursor<'_>) -> UserResult<bool> {
    if !cursor.accept("USING") {
        return Ok(false);
    }
    if cursor.accept("HASH") {
        return Ok(true);
    }
    if cursor.accept("BTREE") || cursor.accept("TREE") || cursor.accept("ORDERED") {
        return Ok(false);
    }
    Err(cursor.unexpected("HASH or BTREE"))
}

/// A parsed expression from its lexemes. No parameters: it is part of the schema.
pub(crate) fn written(cursor: &Cursor<'_>, lexemes: &[Lexeme]) -> UserResult<WrittenExpr> {
    let mut placeholders = 0;
    let expr = Cursor::expression(lexemes, &mut placeholders)?;
    if placeholders > 0 {
        return Err(UserError::ddl("42601", "a schema definition must not have parameters"));
    }
    Ok(WrittenExpr { expr, text: cursor.text_of(lexemes).to_owned() })
}

/// `(expression, ...)`
pub(crate) fn written_list(cursor: &mut Cursor<'_>) -> UserResult<Vec<WrittenExpr>> {
    let items = cursor.parenthesized_list()?;
    // ASC and DESC change nothing: an index is read both ways.
    let without_direction = |item: &'_ [Lexeme]| match item.last() {
        Some(last) if item.len() > 1 && (last.is_word("ASC") || last.is_word("DESC")) => item.len() - 1,
        _ => item.len(),
    };
    items.into_iter().map(|item| written(cursor, &item[..without_direction(item)])).collect()
}

/// A procedure keeps its name as written; lookups ignore case.
pub(crate) fn procedure_name(cursor: &mut Cursor<'_>) -> UserResult<String> {
    let mut name = String::new();
    loop {
        match cursor.advance() {
            Some(Token::Word(word)) => {
                super::cursor::check_name(&word.value)?;
                name.push_str(&word.value);
            }
            _ => return Err(cursor.unexpected("a procedure name")),
        }
        if !cursor.accept_token(&Token::Period) {
            return Ok(name);
        }
        name.push('.');
        if earlier::values() {
            // What stood behind the dot was in lower case, however it was written.
            name.push_str(&cursor.name("a procedure name")?.to_lowercase());
            return Ok(name);
        }
    }
}

impl<'l> Cursor<'l> {
    /// The text that these lexemes of it were made from.
    pub fn text_of(&self, lexemes: &[Lexeme]) -> &'l str {
        lexeme_text(self.whole_text(), lexemes)
    }
}
