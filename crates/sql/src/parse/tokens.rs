//! Text to lexemes: tokens with their place in the text, comments gone, `?` numbered, statements
//! split at `;`.
//!
//! The tokens are sqlparser's. What its grammar lacks is rewritten here to something that it has
//! and that the dialect does not use otherwise; each such rewriting says so. Hostile text is
//! stopped here: its size, its nesting, and the length of operator chains (which become deep trees)
//! are bounded before any recursive code sees it.

use ferrite_base::{UserError, UserResult, limits};
use sqlparser::dialect::{Dialect, GenericDialect};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::any::TypeId;
use std::borrow::Cow;

/// Our dialect for sqlparser: its generic one (the only one that takes `?` everywhere), with fewer
/// aliases.
#[derive(Debug)]
pub(crate) struct FerriteDialect;

impl Dialect for FerriteDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        character == '"'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_limit_comma(&self) -> bool {
        true
    }

    fn is_identifier_start(&self, character: char) -> bool {
        character.is_alphabetic() || character == '_'
    }

    fn is_identifier_part(&self, character: char) -> bool {
        character.is_alphanumeric() || character == '_' || character == '$'
    }

    /// EXTRACT's fields are for the binder to know.
    fn allow_extract_custom(&self) -> bool {
        true
    }
}

/// A token and the bytes of the text it came from.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub token: TokenWithSpan,
    pub start: usize,
    pub end: usize,
}

impl Lexeme {
    /// Whether this is the unquoted word `word` (given in upper case).
    pub fn is_word(&self, word: &str) -> bool {
        token_is_word(&self.token.token, word)
    }
}

pub(crate) fn token_is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Numbers and strings, of the forms that `parameterize` knows.
pub(crate) fn is_literal(token: &Token) -> bool {
    matches!(token, Token::Number(_, false) | Token::SingleQuotedString(_) | Token::HexStringLiteral(_))
}

/// Splits `text` to lexemes, without blanks and comments.
pub(crate) fn lex(text: &str) -> UserResult<Vec<Lexeme>> {
    if text.len() > limits::STATEMENT_BYTES_CEILING {
        return Err(UserError::limit(format!(
            "SQL text of {} bytes is longer than {}",
            text.len(),
            limits::STATEMENT_BYTES_CEILING
        )));
    }
    let blanked = blank_slash_comments(text);
    let tokens = Tokenizer::new(&FerriteDialect, &blanked)
        .tokenize_with_location()
        .map_err(|error| crate::errors::at(UserError::syntax(error.message), error.location))?;
    let mut places = Places::new(&blanked);
    let mut lexemes = Vec::with_capacity(tokens.len());
    for token in tokens {
        if matches!(token.token, Token::Whitespace(_) | Token::EOF) {
            continue;
        }
        let start = places.byte_at(token.span.start.line, token.span.start.column);
        let end = places.byte_at(token.span.end.line, token.span.end.column);
        lexemes.push(Lexeme { token, start, end });
    }
    check_shape(&lexemes)?;
    Ok(lexemes)
}

/// `//` starts a comment, which sqlparser takes for an operator: overwritten with blanks, so that
/// places stay.
fn blank_slash_comments(text: &str) -> Cow<'_, str> {
    if !text.contains("//") {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut position = 0;
    while position < bytes.len() {
        match bytes[position] {
            quote @ (b'\'' | b'"') => {
                position += 1;
                while position < bytes.len() && bytes[position] != quote {
                    position += 1;
                }
                position += 1;
            }
            b'-' if bytes.get(position + 1) == Some(&b'-') => {
                while position < bytes.len() && bytes[position] != b'\n' {
                    position += 1;
                }
            }
            b'/' if bytes.get(position + 1) == Some(&b'*') => {
                position += 2;
                while position < bytes.len() && !bytes[position..].starts_with(b"*/") {
                    position += 1;
                }
                position += 2;
            }
            b'/' if bytes.get(position + 1) == Some(&b'/') => {
                while position < bytes.len() && bytes[position] != b'\n' {
                    out[position] = b' ';
                    position += 1;
                }
            }
            _ => position += 1,
        }
    }
    // Whole comments were overwritten, so no character was cut.
    Cow::Owned(String::from_utf8(out).unwrap_or_else(|_| text.to_owned()))
}

/// From sqlparser's line and column (in characters) to bytes. Asked in ascending order, so one pass
/// over the text.
struct Places<'t> {
    characters: std::str::CharIndices<'t>,
    line: u64,
    column: u64,
    byte: usize,
}

impl<'t> Places<'t> {
    fn new(text: &'t str) -> Self {
        Places { characters: text.char_indices(), line: 1, column: 1, byte: 0 }
    }

    fn byte_at(&mut self, line: u64, column: u64) -> usize {
        while (self.line, self.column) < (line, column) {
            let Some((start, character)) = self.characters.next() else { break };
            self.byte = start + character.len_utf8();
            if character == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.byte
    }
}

/// Where the first of them stands.
pub(crate) fn start(lexemes: &[Lexeme]) -> Location {
    lexemes.first().map_or(Location::empty(), |lexeme| lexeme.token.span.start)
}

/// Where the last of them ends.
pub(crate) fn end(lexemes: &[Lexeme]) -> Location {
    lexemes.last().map_or(Location::empty(), |lexeme| lexeme.token.span.end)
}

/// Refuses nesting and operator chains that would make later recursion deep.
fn check_shape(lexemes: &[Lexeme]) -> UserResult<()> {
    let mut chains: Vec<usize> = vec![0];
    for lexeme in lexemes {
        match &lexeme.token.token {
            Token::LParen => {
                if chains.len() > limits::NESTING_MAX {
                    return Err(too_deep());
                }
                chains.push(0);
            }
            Token::RParen if chains.len() > 1 => {
                chains.pop();
            }
            Token::Comma | Token::SemiColon => *chains.last_mut().expect("one chain at least") = 0,
            token if is_operator(token) => {
                let chain = chains.last_mut().expect("one chain at least");
                *chain += 1;
                if *chain > limits::OPERATORS_MAX {
                    return Err(UserError::limit(format!(
                        "more than {} operators in one expression",
                        limits::OPERATORS_MAX
                    ))
                    .with_hint("use IN (...) for long lists of alternatives"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn too_deep() -> UserError {
    UserError::limit(format!("the statement is nested deeper than {} levels", limits::NESTING_MAX)).with_hint(
        "each operator of a chain such as a + b + c nests what stands before it: put parentheses around parts of a long one",
    )
}

/// Operators and the words that chain like them.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::BETWEEN
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::CASE
                | Keyword::AT
                | Keyword::COLLATE
                | Keyword::DIV
                | Keyword::XOR
                | Keyword::NOTNULL
                | Keyword::OVERLAPS
                | Keyword::REGEXP
                | Keyword::RLIKE
                | Keyword::SIMILAR
                | Keyword::MATCH
                | Keyword::MEMBER
                | Keyword::OPERATOR
                | Keyword::INTERVAL
                | Keyword::PRIOR
        ),
        Token::LParen
        | Token::RParen
        | Token::Comma
        | Token::SemiColon
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_)
        | Token::Period => false,
        _ => true,
    }
}

/// The ranges of the statements between `;`. Inside CREATE PROCEDURE ... BEGIN ... END a `;` does
/// not end one.
pub(crate) fn split(lexemes: &[Lexeme]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut depth = 0usize;
    let mut procedure = false;
    for (position, lexeme) in lexemes.iter().enumerate() {
        if position == start {
            procedure = is_create_procedure(&lexemes[start..]);
            depth = 0;
        }
        match &lexeme.token.token {
            Token::SemiColon if depth == 0 => {
                if position > start {
                    ranges.push(start..position);
                }
                start = position + 1;
            }
            Token::Word(word) if procedure && word.quote_style.is_none() => match word.keyword {
                Keyword::BEGIN => depth += 1,
                // `END CASE` closes what CASE opened.
                Keyword::CASE if position == 0 || !lexemes[position - 1].is_word("END") => depth += 1,
                Keyword::END if is_argument(lexemes, position) => {}
                Keyword::END => {
                    let closes_other = lexemes.get(position + 1).is_some_and(|next| {
                        ["IF", "WHILE", "FOR", "LOOP", "REPEAT"].iter().any(|word| next.is_word(word))
                    });
                    if !closes_other {
                        depth = depth.saturating_sub(1);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    if start < lexemes.len() {
        ranges.push(start..lexemes.len());
    }
    ranges
}

/// Whether END stands where an argument does, as in TIME_WINDOW(..., END): it closes nothing there.
pub(crate) fn is_argument(lexemes: &[Lexeme], position: usize) -> bool {
    let follows_comma = position > 0 && lexemes[position - 1].token.token == Token::Comma;
    follows_comma && lexemes[position].is_word("END")
}

fn is_create_procedure(lexemes: &[Lexeme]) -> bool {
    let replaces = |at: usize, word: &str| lexemes.get(at).is_some_and(|lexeme| lexeme.is_word(word));
    let lexemes = if replaces(1, "OR") && replaces(2, "REPLACE") { &lexemes[2..] } else { lexemes };
    let second = lexemes.get(1);
    let is = |lexeme: Option<&Lexeme>, word: &str| lexeme.is_some_and(|lexeme| lexeme.is_word(word));
    (is(lexemes.first(), "CREATE") || is(lexemes.first(), "REPLACE"))
        && (is(second, "PROCEDURE")
            || ((is(second, "DIRECTED") || is(second, "COMPOUND")) && is(lexemes.get(2), "PROCEDURE")))
}

/// Tokens as sqlparser's grammar wants them, from those of one statement or expression.
/// `placeholders` counts the `?` met so far; each gets its number, since the order of binding is
/// not the order of the text.
pub(crate) fn for_sqlparser(lexemes: &[Lexeme], placeholders: &mut u16) -> UserResult<Vec<TokenWithSpan>> {
    let mut tokens: Vec<TokenWithSpan> = Vec::with_capacity(lexemes.len() + 1);
    let mut position = 0;
    let at = |position: usize| lexemes.get(position).map(|lexeme| &lexeme.token.token);
    // Where a derived table that was opened here ends.
    let mut ends: Vec<usize> = Vec::new();
    // Commas that go as FROM, the innermost last.
    let mut from_commas: Vec<usize> = Vec::new();
    while let Some(lexeme) = lexemes.get(position) {
        let span = lexeme.token.span;
        let mut push = |token: Token| tokens.push(TokenWithSpan { token, span });
        match &lexeme.token.token {
            Token::Placeholder(text) => {
                let number =
                    next_placeholder(text, placeholders).map_err(|error| crate::errors::at(error, span.start))?;
                // `IN ?` (an array) has no counterpart: it goes as IN UNNEST(?), `TOP ?` as TOP
                // (?).
                let before = position.checked_sub(1).and_then(|position| lexemes.get(position));
                let array = before.is_some_and(|before| before.is_word("IN"));
                let top = before.is_some_and(|before| before.is_word("TOP"));
                if array {
                    push(Token::make_word("UNNEST", None));
                }
                if array || top {
                    push(Token::LParen);
                }
                push(Token::Placeholder(number));
                if array || top {
                    push(Token::RParen);
                }
            }
            // STARTS WITH goes as SIMILAR TO, which is not an operator of ours.
            Token::Word(_)
                if lexeme.is_word("STARTS") && at(position + 1).is_some_and(|next| token_is_word(next, "WITH")) =>
            {
                push(Token::make_word("SIMILAR", None));
                push(Token::make_word("TO", None));
                position += 1;
            }
            Token::Word(_) if lexeme.is_word("SIMILAR") || lexeme.is_word("UNNEST") => {
                return Err(crate::errors::at(unexpected(&lexeme.token.token), span.start));
            }
            // TRIM(BOTH FROM x): what is trimmed are blanks, and the grammar wants to be told.
            Token::Word(_)
                if ["LEADING", "TRAILING", "BOTH"].iter().any(|word| lexeme.is_word(word))
                    && at(position + 1).is_some_and(|next| token_is_word(next, "FROM"))
                    && position > 1
                    && at(position - 1) == Some(&Token::LParen)
                    && lexemes[position - 2].is_word("TRIM") =>
            {
                push(lexeme.token.token.clone());
                push(Token::SingleQuotedString(" ".to_owned()));
            }
            // TRIM(LEADING, 'x', s) goes as TRIM(LEADING 'x' FROM s).
            Token::Word(_)
                if ["LEADING", "TRAILING", "BOTH"].iter().any(|word| lexeme.is_word(word))
                    && at(position + 1) == Some(&Token::Comma)
                    && position > 1
                    && at(position - 1) == Some(&Token::LParen)
                    && lexemes[position - 2].is_word("TRIM") =>
            {
                push(lexeme.token.token.clone());
                position += 1;
                from_commas.extend(next_comma(lexemes, position + 1));
            }
            Token::Comma if from_commas.last() == Some(&position) => {
                from_commas.pop();
                push(Token::make_word("FROM", None));
            }
            // VARCHAR(n BYTES) goes as VARCHAR(n OCTETS).
            Token::Word(_)
                if lexeme.is_word("BYTES")
                    && position > 0
                    && matches!(at(position - 1), Some(Token::Number(..)))
                    && at(position + 1) == Some(&Token::RParen) =>
            {
                push(Token::make_word("OCTETS", None));
            }
            // `INTERVAL t.n MONTH`: a qualified name goes in parentheses, as any other expression.
            Token::Word(_) if lexeme.is_word("INTERVAL") => {
                tokens.push(lexeme.token.clone());
                let name = qualified_name(&lexemes[position + 1..]);
                if !name.is_empty() {
                    tokens.push(TokenWithSpan { token: Token::LParen, span });
                    tokens.extend(name.iter().map(|part| part.token.clone()));
                    tokens.push(TokenWithSpan { token: Token::RParen, span });
                }
                position += name.len();
            }
            // `IN ((SELECT ...), y)`: the first of several values is taken for the query of the IN.
            // A sign before it changes nothing.
            Token::LParen if begins_list_with_query(lexemes, position) => {
                push(Token::LParen);
                push(Token::Plus);
            }
            // `ANY ((SELECT ...) UNION ...)` goes as ANY (SELECT * FROM (...)).
            Token::LParen => {
                push(Token::LParen);
                if let Some(end) = set_operation_after_any(lexemes, position) {
                    push(Token::make_word("SELECT", None));
                    push(Token::Mul);
                    push(Token::make_word("FROM", None));
                    push(Token::LParen);
                    ends.push(end);
                }
            }
            Token::RParen if ends.last() == Some(&position) => {
                ends.pop();
                push(Token::RParen);
                push(Token::RParen);
            }
            token => push(token.clone()),
        }
        position += 1;
    }
    Ok(tokens)
}

/// The name of several parts that the lexemes begin with; empty where there is none.
fn qualified_name(lexemes: &[Lexeme]) -> &[Lexeme] {
    let is_part = |at: usize| lexemes.get(at).is_some_and(|lexeme| matches!(lexeme.token.token, Token::Word(_)));
    let mut end = 1;
    while is_part(end - 1) && lexemes.get(end).is_some_and(|next| next.token.token == Token::Period) && is_part(end + 1)
    {
        end += 2;
    }
    if end > 1 { &lexemes[..end] } else { &[] }
}

/// Whether the parenthesis at `open` begins the list of an IN whose first value is a query in
/// parentheses.
fn begins_list_with_query(lexemes: &[Lexeme], open: usize) -> bool {
    let after_in = open.checked_sub(1).is_some_and(|before| lexemes[before].is_word("IN"));
    after_in
        && is_query_in_parentheses(lexemes, open + 1)
        && closing(lexemes, open + 1)
            .and_then(|close| lexemes.get(close + 1))
            .is_some_and(|next| next.token.token == Token::Comma)
}

/// Where the parenthesis at `open` ends, if it stands after ANY, SOME or ALL and holds a set
/// operation that begins with a query in parentheses.
fn set_operation_after_any(lexemes: &[Lexeme], open: usize) -> Option<usize> {
    let word = |at: Option<usize>, words: &[&str]| {
        at.and_then(|at| lexemes.get(at)).is_some_and(|lexeme| words.iter().any(|word| lexeme.is_word(word)))
    };
    let quantified = word(open.checked_sub(1), &["ANY", "SOME", "ALL"])
        && !word(open.checked_sub(2), &["UNION", "INTERSECT", "EXCEPT", "MINUS", "SELECT"]);
    if !quantified || !is_query_in_parentheses(lexemes, open + 1) {
        return None;
    }
    let first = closing(lexemes, open + 1)?;
    if word(Some(first + 1), &["UNION", "INTERSECT", "EXCEPT", "MINUS"]) { closing(lexemes, open) } else { None }
}

/// Whether a parenthesis stands at `open`, and in it, perhaps in further ones, a query: not a row
/// whose first value is one.
fn is_query_in_parentheses(lexemes: &[Lexeme], mut open: usize) -> bool {
    let is = |at: usize, token: &Token| lexemes.get(at).is_some_and(|lexeme| lexeme.token.token == *token);
    while is(open, &Token::LParen) && is(open + 1, &Token::LParen) {
        if closing(lexemes, open + 1).is_none_or(|close| is(close + 1, &Token::Comma)) {
            return false;
        }
        open += 1;
    }
    let begins_query = |first: &Lexeme| ["SELECT", "WITH", "VALUES"].iter().any(|word| first.is_word(word));
    is(open, &Token::LParen) && lexemes.get(open + 1).is_some_and(begins_query)
}

/// The comma that ends the argument which begins at `start`.
fn next_comma(lexemes: &[Lexeme], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (position, lexeme) in lexemes.iter().enumerate().skip(start) {
        match lexeme.token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            Token::Comma if depth == 0 => return Some(position),
            _ => {}
        }
    }
    None
}

/// Where the parenthesis at `open` is closed.
fn closing(lexemes: &[Lexeme], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (position, lexeme) in lexemes.iter().enumerate().skip(open) {
        match lexeme.token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(position);
        }
    }
    None
}

fn next_placeholder(text: &str, placeholders: &mut u16) -> UserResult<String> {
    if text != "?" {
        return Err(UserError::not_supported(format!("parameter {text}")).with_hint("write parameters as ?"));
    }
    if usize::from(*placeholders) >= limits::PARAMETERS_CEILING {
        return Err(UserError::limit(format!("more than {} parameters", limits::PARAMETERS_CEILING)));
    }
    let number = format!("?{placeholders}");
    *placeholders += 1;
    Ok(number)
}

pub(crate) fn unexpected(token: &Token) -> UserError {
    super::advice::meant(UserError::syntax(format!("unexpected token: {token}")), token)
}
