//! Bodies of procedures: plain statements, or SQL/PSM.

use super::cursor::{Cursor, lexeme_text, parse_with};
use super::data_change;
use super::statement::{SqlKind, SqlStatement};
use super::tokens::{self, Lexeme, too_deep};
use ferrite_base::{UserError, UserResult, limits};
use ferrite_value::ColumnType;
use sqlparser::ast;
use sqlparser::tokenizer::{Location, Token};

/// A parsed body.
#[derive(Debug)]
pub(crate) struct ProcedureBody {
    pub steps: Vec<Node>,
    /// Number of `?` in all statements.
    pub placeholders: u16,
}

/// A statement of a procedure with its text.
#[derive(Debug)]
pub(crate) struct Written<T> {
    pub value: T,
    pub text: String,
    /// Where it begins in the body.
    pub start: Location,
}

#[derive(Debug)]
pub(crate) enum Node {
    Sql(Written<SqlStatement>),
    Declare { names: Vec<String>, column_type: ColumnType, default: Option<ast::Expr> },
    Set { name: String, value: ast::Expr },
    If { branches: Vec<(ast::Expr, Vec<Node>)>, otherwise: Vec<Node> },
    While { label: Option<String>, condition: Option<ast::Expr>, body: Vec<Node> },
    For { label: Option<String>, row: String, query: Written<Box<ast::Query>>, body: Vec<Node> },
    Block { label: Option<String>, body: Vec<Node> },
    Leave(String),
    Iterate(String),
    Return(Return),
    Signal { state: String, message: Option<ast::Expr> },
}

#[derive(Debug)]
pub(crate) enum Return {
    Nothing,
    Value(Box<ast::Expr>),
    /// `RETURN TABLE (SELECT ...), ...`
    Tables(Vec<Written<Box<ast::Query>>>),
}

/// How much there is in a procedure's body.
pub struct BodyMeasure {
    /// Those within others, and blocks, count.
    pub statements: usize,
    pub placeholders: usize,
}

/// Parses a body to count what is in it.
pub fn measure_body(text: &str) -> UserResult<BodyMeasure> {
    let (body, statements) = parse_counted(text)?;
    Ok(BodyMeasure { statements, placeholders: usize::from(body.placeholders) })
}

/// Parses the text after AS: one statement, or BEGIN ... END.
pub(crate) fn parse_body(text: &str) -> UserResult<ProcedureBody> {
    Ok(parse_counted(text)?.0)
}

fn parse_counted(text: &str) -> UserResult<(ProcedureBody, usize)> {
    let lexemes = tokens::lex(text)?;
    let mut parser = BodyParser { text, placeholders: 0, statements: 0 };
    let mut cursor = Cursor::new(text, &lexemes);
    let steps = if cursor.is_word("BEGIN") {
        cursor.advance();
        let steps = parser.statements(&mut cursor, 0, &["END"])?;
        cursor.expect("END")?;
        cursor.accept_token(&Token::SemiColon);
        steps
    } else {
        let steps = vec![parser.statement(&mut cursor, 0)?];
        cursor.accept_token(&Token::SemiColon);
        steps
    };
    cursor.expect_end()?;
    Ok((ProcedureBody { steps, placeholders: parser.placeholders }, parser.statements))
}

struct BodyParser<'t> {
    text: &'t str,
    placeholders: u16,
    statements: usize,
}

impl<'t> BodyParser<'t> {
    /// Statements, each with its `;`, until one of the words `ends` starts.
    fn statements(&mut self, cursor: &mut Cursor<'_>, depth: usize, ends: &[&str]) -> UserResult<Vec<Node>> {
        if depth > limits::NESTING_MAX {
            return Err(too_deep());
        }
        let mut nodes = Vec::new();
        loop {
            while cursor.accept_token(&Token::SemiColon) {}
            if cursor.at_end() || ends.iter().any(|end| cursor.is_word(end)) {
                return Ok(nodes);
            }
            nodes.push(self.statement(cursor, depth)?);
            if !cursor.at_end() && !cursor.accept_token(&Token::SemiColon) {
                return Err(cursor.unexpected(";"));
            }
        }
    }

    fn statement(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> UserResult<Node> {
        self.statements += 1;
        if self.statements > limits::STATEMENTS_CEILING {
            return Err(UserError::limit(format!(
                "more than {} statements in a procedure",
                limits::STATEMENTS_CEILING
            )));
        }
        let label = self.label(cursor)?;
        if cursor.accept("WHILE") {
            return self.while_loop(cursor, depth, label);
        }
        if cursor.accept("LOOP") {
            let body = self.statements(cursor, depth + 1, &["END"])?;
            self.end(cursor, Some("LOOP"), &label)?;
            return Ok(Node::While { label, condition: None, body });
        }
        if cursor.accept("FOR") {
            return self.for_loop(cursor, depth, label);
        }
        if cursor.accept("BEGIN") {
            let body = self.statements(cursor, depth + 1, &["END"])?;
            self.end(cursor, None, &label)?;
            return Ok(Node::Block { label, body });
        }
        if label.is_some() {
            return Err(cursor.unexpected("WHILE, FOR, LOOP or BEGIN after a label"));
        }
        if cursor.accept("IF") {
            return self.conditional(cursor, depth);
        }
        self.simple_statement(cursor)
    }

    #[inline(never)]
    fn while_loop(&mut self, cursor: &mut Cursor<'_>, depth: usize, label: Option<String>) -> UserResult<Node> {
        let condition = cursor.take_until(|lexeme| lexeme.is_word("DO"));
        let condition = self.expression(condition)?;
        cursor.expect("DO")?;
        let body = self.statements(cursor, depth + 1, &["END"])?;
        self.end(cursor, Some("WHILE"), &label)?;
        Ok(Node::While { label, condition: Some(condition), body })
    }

    /// A statement without statements inside.
    #[inline(never)]
    fn simple_statement(&mut self, cursor: &mut Cursor<'_>) -> UserResult<Node> {
        if cursor.accept("DECLARE") {
            return self.declare(cursor);
        }
        if cursor.accept("SET") {
            let name = cursor.name("a variable")?;
            cursor.expect_token(&Token::Eq)?;
            let value = cursor.take_until(is_semicolon);
            return Ok(Node::Set { name, value: self.expression(value)? });
        }
        if cursor.accept("LEAVE") {
            return Ok(Node::Leave(cursor.name("a label")?));
        }
        if cursor.accept("ITERATE") {
            return Ok(Node::Iterate(cursor.name("a label")?));
        }
        if cursor.accept("RETURN") {
            return Ok(Node::Return(self.return_value(cursor)?));
        }
        if cursor.accept("SIGNAL") {
            return self.signal(cursor);
        }
        for word in ["REPEAT", "CALL", "EXEC", "RESIGNAL", "GET", "OPEN", "FETCH", "CLOSE"] {
            if cursor.is_word(word) {
                return Err(UserError::not_supported(format!("{word} in a procedure")));
            }
        }
        let written = cursor.take_until(is_semicolon);
        if written.is_empty() {
            return Err(cursor.unexpected("a statement"));
        }
        let text = lexeme_text(self.text, written);
        let value = data_change::parse(Cursor::new(self.text, written), &mut self.placeholders)?;
        Ok(Node::Sql(Written { value, text: text.to_owned(), start: tokens::start(written) }))
    }

    fn label(&mut self, cursor: &mut Cursor<'_>) -> UserResult<Option<String>> {
        if matches!(cursor.peek(), Some(Token::Word(_))) && cursor.peek_at(1) == Some(&Token::Colon) {
            let label = cursor.name("a label")?;
            cursor.advance();
            return Ok(Some(label));
        }
        Ok(None)
    }

    /// `END [word] [label]`
    fn end(&mut self, cursor: &mut Cursor<'_>, word: Option<&str>, label: &Option<String>) -> UserResult<()> {
        cursor.expect("END")?;
        if let Some(word) = word {
            cursor.expect(word)?;
        }
        if matches!(cursor.peek(), Some(Token::Word(_))) {
            let name = cursor.name("a label")?;
            if label.as_ref() != Some(&name) {
                return Err(UserError::syntax(format!("END {name} does not match the label of its beginning")));
            }
        }
        Ok(())
    }

    fn expression(&mut self, lexemes: &[Lexeme]) -> UserResult<ast::Expr> {
        Cursor::expression(lexemes, &mut self.placeholders)
    }

    fn query(&mut self, lexemes: &[Lexeme]) -> UserResult<Written<Box<ast::Query>>> {
        let value = parse_with(lexemes, &mut self.placeholders, |parser| parser.parse_query())?;
        Ok(Written { value, text: lexeme_text(self.text, lexemes).to_owned(), start: tokens::start(lexemes) })
    }

    fn declare(&mut self, cursor: &mut Cursor<'_>) -> UserResult<Node> {
        let mut names = vec![cursor.name("a variable name")?];
        while cursor.accept_token(&Token::Comma) {
            names.push(cursor.name("a variable name")?);
        }
        for word in ["CURSOR", "CONDITION", "CONTINUE", "EXIT", "HANDLER"] {
            if cursor.is_word(word) {
                return Err(UserError::not_supported(format!("DECLARE {word}")));
            }
        }
        let column_type = cursor.column_type()?;
        let default = if cursor.accept("DEFAULT") {
            let value = cursor.take_until(is_semicolon);
            Some(self.expression(value)?)
        } else {
            None
        };
        Ok(Node::Declare { names, column_type, default })
    }

    #[inline(never)]
    fn conditional(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> UserResult<Node> {
        let mut branches = Vec::new();
        loop {
            let condition = cursor.take_until(|lexeme| lexeme.is_word("THEN"));
            let condition = self.expression(condition)?;
            cursor.expect("THEN")?;
            branches.push((condition, self.statements(cursor, depth + 1, &["ELSEIF", "ELSE", "END"])?));
            if !cursor.accept("ELSEIF") {
                break;
            }
        }
        let otherwise = if cursor.accept("ELSE") { self.statements(cursor, depth + 1, &["END"])? } else { Vec::new() };
        cursor.expect("END")?;
        cursor.expect("IF")?;
        Ok(Node::If { branches, otherwise })
    }

    /// `FOR row AS SELECT ... DO ... END FOR`
    #[inline(never)]
    fn for_loop(&mut self, cursor: &mut Cursor<'_>, depth: usize, label: Option<String>) -> UserResult<Node> {
        let row = cursor.name("a name for the row")?;
        cursor.expect("AS")?;
        let query = cursor.take_until(|lexeme| lexeme.is_word("DO") || is_semicolon(lexeme));
        let query = self.query(query)?;
        cursor.expect("DO")?;
        let body = self.statements(cursor, depth + 1, &["END"])?;
        self.end(cursor, Some("FOR"), &label)?;
        Ok(Node::For { label, row, query, body })
    }

    fn return_value(&mut self, cursor: &mut Cursor<'_>) -> UserResult<Return> {
        let is_table = |cursor: &Cursor<'_>| cursor.is_word("TABLE") && cursor.peek_at(1) == Some(&Token::LParen);
        if is_table(cursor) {
            let mut tables = Vec::new();
            loop {
                if !is_table(cursor) {
                    return Err(cursor.unexpected("TABLE (SELECT ...)"));
                }
                cursor.advance();
                let query = cursor.parenthesized()?;
                tables.push(self.query(query)?);
                if !cursor.accept_token(&Token::Comma) {
                    return Ok(Return::Tables(tables));
                }
            }
        }
        let value = cursor.take_until(is_semicolon);
        if value.is_empty() { Ok(Return::Nothing) } else { Ok(Return::Value(Box::new(self.expression(value)?))) }
    }

    /// `SIGNAL SQLSTATE 'xxxxx' [SET MESSAGE_TEXT = expression]`
    fn signal(&mut self, cursor: &mut Cursor<'_>) -> UserResult<Node> {
        cursor.expect("SQLSTATE")?;
        cursor.accept("VALUE");
        let state = match cursor.advance() {
            Some(Token::SingleQuotedString(state)) => state.clone(),
            _ => return Err(cursor.unexpected("a state in quotes")),
        };
        if state.len() != 5 || !state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
            return Err(UserError::syntax(format!("SQLSTATE '{state}' is not five digits or upper-case letters")));
        }
        let message = if cursor.accept("SET") {
            cursor.expect("MESSAGE_TEXT")?;
            cursor.expect_token(&Token::Eq)?;
            let value = cursor.take_until(is_semicolon);
            Some(self.expression(value)?)
        } else {
            None
        };
        Ok(Node::Signal { state, message })
    }
}

fn is_semicolon(lexeme: &Lexeme) -> bool {
    lexeme.token.token == Token::SemiColon
}

impl SqlStatement {
    /// The variables of SELECT ... INTO, when it is one.
    pub fn targets(&self) -> Option<&[ast::Expr]> {
        let SqlKind::Query(query) = &self.kind else { return None };
        match query.body.as_ref() {
            ast::SetExpr::Select(select) => select.into.as_ref().map(|into| into.targets.as_slice()),
            _ => None,
        }
    }
}
