//! CREATE TABLE and CREATE STREAM.

use super::cursor::Cursor;
use super::ddl::{using_hash, written, written_list};
use super::statement::{ColumnDefinition, ConstraintDefinition, ConstraintKind, CreateTable, Ddl, WrittenExpr};
use ferrite_base::{UserError, UserResult, limits};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

/// Clauses of the original that later issues bring.
const LATER_CLAUSES: [(&str, &str); 4] =
    [("EXPORT", "EXPORT TO"), ("MIGRATE", "MIGRATE TO"), ("USING", "USING TTL"), ("TTL", "USING TTL")];

pub(crate) fn create_table(cursor: &mut Cursor<'_>, stream: bool) -> UserResult<Ddl> {
    if cursor.accept_all(&["IF", "NOT", "EXISTS"]) {
        return Err(
            UserError::not_supported("CREATE TABLE IF NOT EXISTS").with_hint("use DROP TABLE IF EXISTS before it")
        );
    }
    let mut table = CreateTable {
        name: cursor.name("a table name")?,
        columns: Vec::new(),
        constraints: Vec::new(),
        checks: Vec::new(),
        foreign_keys: 0,
        stream,
        partition_column: None,
    };
    while cursor.peek() != Some(&Token::LParen) {
        if stream && cursor.accept_all(&["PARTITION", "ON", "COLUMN"]) {
            table.partition_column = Some(cursor.name("a column name")?);
            continue;
        }
        refuse_later_clause(cursor)?;
        return Err(cursor.unexpected("("));
    }
    cursor.expect_token(&Token::LParen)?;
    loop {
        // Published schemas have a comma before the closing parenthesis.
        if cursor.peek() == Some(&Token::RParen) && !table.columns.is_empty() {
            break;
        }
        if !table_constraint(cursor, &mut table)? {
            column(cursor, &mut table)?;
        }
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    refuse_later_clause(cursor)?;
    if table.columns.len() > limits::TABLE_COLUMNS_MAX {
        return Err(UserError::limit(format!(
            "table {} has {} columns, more than {}",
            table.name,
            table.columns.len(),
            limits::TABLE_COLUMNS_MAX
        )));
    }
    Ok(Ddl::CreateTable(table))
}

fn refuse_later_clause(cursor: &Cursor<'_>) -> UserResult<()> {
    for (word, clause) in LATER_CLAUSES {
        if cursor.is_word(word) {
            return Err(UserError::not_supported(clause));
        }
    }
    Ok(())
}

/// Whether a constraint (and not a column of such a name) stood here.
fn table_constraint(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> UserResult<bool> {
    let mut name = None;
    if cursor.is_word("CONSTRAINT") && matches!(cursor.peek_at(1), Some(Token::Word(_))) {
        // `CONSTRAINT name kind`, or a nameless `CONSTRAINT UNIQUE (...)`.
        cursor.advance();
        if !is_constraint_start(cursor) {
            name = Some(cursor.name("a constraint name")?);
        }
    }
    if cursor.is_word("PRIMARY") && cursor.is_word_at(1, "KEY") {
        cursor.accept_all(&["PRIMARY", "KEY"]);
        push_key_constraint(cursor, table, name, ConstraintKind::PrimaryKey)?;
    } else if cursor.is_word("UNIQUE") && is_constraint_start(cursor) {
        cursor.advance();
        push_key_constraint(cursor, table, name, ConstraintKind::Unique)?;
    } else if cursor.is_word("ASSUMEUNIQUE") && is_constraint_start(cursor) {
        cursor.advance();
        push_key_constraint(cursor, table, name, ConstraintKind::AssumeUnique)?;
    } else if cursor.is_word("CHECK") && cursor.peek_at(1) == Some(&Token::LParen) {
        cursor.advance();
        let check = check(cursor)?;
        table.checks.push((name, check));
    } else if cursor.is_word("FOREIGN") && cursor.is_word_at(1, "KEY") {
        cursor.accept_all(&["FOREIGN", "KEY"]);
        cursor.name_list("a column name")?;
        references(cursor)?;
        table.foreign_keys += 1;
    } else if cursor.is_word("LIMIT") && cursor.is_word_at(1, "PARTITION") {
        return Err(UserError::not_supported("LIMIT PARTITION ROWS"));
    } else if name.is_some() {
        return Err(cursor.unexpected("PRIMARY KEY, UNIQUE, ASSUMEUNIQUE, CHECK or FOREIGN KEY"));
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn is_constraint_start(cursor: &Cursor<'_>) -> bool {
    match cursor.peek() {
        Some(Token::Word(word)) if word.quote_style.is_none() => match word.value.to_uppercase().as_str() {
            "PRIMARY" => cursor.is_word_at(1, "KEY"),
            "FOREIGN" => cursor.is_word_at(1, "KEY"),
            "UNIQUE" | "ASSUMEUNIQUE" | "CHECK" => {
                cursor.peek_at(1) == Some(&Token::LParen) || cursor.is_word_at(1, "USING")
            }
            _ => false,
        },
        _ => false,
    }
}

fn push_key_constraint(
    cursor: &mut Cursor<'_>,
    table: &mut CreateTable,
    name: Option<String>,
    kind: ConstraintKind,
) -> UserResult<()> {
    let hash = using_hash(cursor)?;
    let keys = written_list(cursor)?;
    if keys.len() > limits::INDEX_KEYS_MAX {
        return Err(UserError::limit(format!("an index has more than {} keys", limits::INDEX_KEYS_MAX)));
    }
    table.constraints.push(ConstraintDefinition { name, kind, keys, hash });
    Ok(())
}

/// `(condition)` of a CHECK.
fn check(cursor: &mut Cursor<'_>) -> UserResult<WrittenExpr> {
    let condition = cursor.parenthesized()?;
    written(cursor, condition)
}

/// `REFERENCES t [(c, ...)] [ON DELETE|UPDATE action] [MATCH x]`: read over.
fn references(cursor: &mut Cursor<'_>) -> UserResult<()> {
    cursor.expect("REFERENCES")?;
    cursor.name("a table name")?;
    if cursor.peek() == Some(&Token::LParen) {
        cursor.name_list("a column name")?;
    }
    while cursor.accept("ON") {
        if !cursor.accept("DELETE") {
            cursor.expect("UPDATE")?;
        }
        let known = cursor.accept("CASCADE")
            || cursor.accept("RESTRICT")
            || cursor.accept_all(&["NO", "ACTION"])
            || cursor.accept_all(&["SET", "NULL"])
            || cursor.accept_all(&["SET", "DEFAULT"]);
        if !known {
            return Err(cursor.unexpected("CASCADE, RESTRICT, NO ACTION, SET NULL or SET DEFAULT"));
        }
    }
    Ok(())
}

fn column(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> UserResult<()> {
    let name = cursor.name("a column name")?;
    if table.columns.iter().any(|column| column.name == name) {
        return Err(UserError::ddl("42701", format!("object name already exists: {name}")));
    }
    let column_type = cursor.column_type()?;
    let mut column = ColumnDefinition { name, column_type, not_null: false, default: None };
    loop {
        if cursor.accept_all(&["NOT", "NULL"]) {
            column.not_null = true;
        } else if cursor.accept("NULL") {
            // The default.
        } else if cursor.accept("DEFAULT") {
            if column.default.is_some() {
                return Err(UserError::syntax(format!("column {} has two defaults", column.name)));
            }
            let value = cursor.take_until(|lexeme| {
                lexeme.token.token == Token::Comma
                    || ["NOT", "UNIQUE", "ASSUMEUNIQUE", "PRIMARY", "CONSTRAINT", "CHECK", "REFERENCES"]
                        .iter()
                        .any(|word| lexeme.is_word(word))
            });
            column.default = Some(written(cursor, value)?);
        } else {
            let name = if cursor.is_word("CONSTRAINT") {
                cursor.advance();
                Some(cursor.name("a constraint name")?)
            } else {
                None
            };
            let kind = if cursor.accept_all(&["PRIMARY", "KEY"]) {
                ConstraintKind::PrimaryKey
            } else if cursor.accept("UNIQUE") {
                ConstraintKind::Unique
            } else if cursor.accept("ASSUMEUNIQUE") {
                ConstraintKind::AssumeUnique
            } else if cursor.accept("CHECK") {
                let check = check(cursor)?;
                table.checks.push((name, check));
                continue;
            } else if cursor.is_word("REFERENCES") {
                references(cursor)?;
                table.foreign_keys += 1;
                continue;
            } else if name.is_some() {
                return Err(cursor.unexpected("PRIMARY KEY, UNIQUE, ASSUMEUNIQUE or CHECK"));
            } else {
                break;
            };
            let hash = using_hash(cursor)?;
            let key = ast::Expr::Identifier(ast::Ident::with_quote('"', column.name.clone()));
            let keys = vec![WrittenExpr { expr: key, text: column.name.clone() }];
            table.constraints.push(ConstraintDefinition { name, kind, keys, hash });
        }
    }
    table.columns.push(column);
    Ok(())
}
