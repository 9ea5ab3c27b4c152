//! CREATE TABLE and CREATE STREAM.

use super::cursor::Cursor;
use super::pieces::{using_hash, written, written_list};
use super::statement::{
    ColumnDefinition, ConstraintDefinition, ConstraintKind, CreateTable, Ddl, TimeToLiveClause, WrittenExpr,
};
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::{Export, TimeToLive, TimeUnit};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

pub(crate) fn create_table(cursor: &mut Cursor<'_>, stream: bool) -> UserResult<Ddl> {
    let if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
    let name = cursor.name("a table name")?;
    let mut table = CreateTable { name, stream, if_not_exists, ..CreateTable::default() };
    while cursor.peek() != Some(&Token::LParen) {
        if stream && cursor.accept_all(&["PARTITION", "ON", "COLUMN"]) {
            table.partition_column = Some(cursor.name("a column name")?);
            continue;
        }
        if table.export.is_none() && (cursor.is_word("EXPORT") || cursor.is_word("MIGRATE")) {
            table.export = Some(export_clause(cursor)?);
            continue;
        }
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
        check_counts(&table)?;
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    loop {
        if cursor.is_word("USING") && table.time_to_live.is_none() {
            table.time_to_live = Some(time_to_live(cursor)?);
        } else if table.export.is_none() && (cursor.is_word("EXPORT") || cursor.is_word("MIGRATE")) {
            table.export = Some(export_clause(cursor)?);
        } else {
            break;
        }
    }
    Ok(Ddl::CreateTable(table))
}

/// Asked after each column and constraint, as each is compared with those before.
fn check_counts(table: &CreateTable) -> UserResult<()> {
    let name = &table.name;
    let columns = table.columns.len();
    let most = limits::TABLE_COLUMNS_MAX;
    if columns > most {
        return Err(UserError::limit(format!("table {name} has {columns} columns, more than {most}")));
    }
    too_many_checks(name, table.checks.len())
}

pub(crate) fn too_many_checks(table: &str, checks: usize) -> UserResult<()> {
    if checks <= limits::TABLE_CHECKS_MAX {
        return Ok(());
    }
    Err(UserError::limit(format!("table {table} has more than {} CHECK conditions", limits::TABLE_CHECKS_MAX))
        .with_hint("join several with AND"))
}

/// `USING TTL n [unit] ON COLUMN c [BATCH_SIZE n] [MAX_FREQUENCY n]`
pub(crate) fn time_to_live(cursor: &mut Cursor<'_>) -> UserResult<TimeToLiveClause> {
    cursor.expect("USING")?;
    cursor.expect("TTL")?;
    let value = positive(cursor, "time to live")?;
    let units = [
        ("SECONDS", TimeUnit::Seconds),
        ("SECOND", TimeUnit::Seconds),
        ("MINUTES", TimeUnit::Minutes),
        ("MINUTE", TimeUnit::Minutes),
        ("HOURS", TimeUnit::Hours),
        ("HOUR", TimeUnit::Hours),
        ("DAYS", TimeUnit::Days),
        ("DAY", TimeUnit::Days),
    ];
    let unit = units.into_iter().find(|(word, _)| cursor.accept(word)).map_or(TimeUnit::Seconds, |(_, unit)| unit);
    cursor.expect("ON")?;
    cursor.expect("COLUMN")?;
    let mut clause = TimeToLiveClause {
        value,
        unit,
        column: cursor.name("a column name")?,
        batch_size: TimeToLive::BATCH_SIZE_DEFAULT,
        max_frequency: TimeToLive::MAX_FREQUENCY_DEFAULT,
    };
    loop {
        if cursor.accept("BATCH_SIZE") {
            clause.batch_size = positive(cursor, "batch size")?;
        } else if cursor.accept("MAX_FREQUENCY") {
            clause.max_frequency = positive(cursor, "frequency")?;
        } else {
            return Ok(clause);
        }
    }
}

fn positive(cursor: &mut Cursor<'_>, what: &str) -> UserResult<u32> {
    let number = cursor.number(what)?;
    u32::try_from(number)
        .ok()
        .filter(|number| (1..=i32::MAX as u32).contains(number))
        .ok_or_else(|| UserError::ddl("42601", format!("the {what} must be from 1 to {}, not {number}", i32::MAX)))
}

/// `EXPORT|MIGRATE TO TARGET|TOPIC x [ON trigger, ...] [WITH [KEY (c, ...)] [VALUE (c, ...)]]`
pub(crate) fn export_clause(cursor: &mut Cursor<'_>) -> UserResult<Export> {
    let migrate = cursor.accept("MIGRATE");
    if !migrate {
        cursor.expect("EXPORT")?;
    }
    cursor.expect("TO")?;
    let topic = cursor.accept("TOPIC");
    if !topic {
        cursor.expect("TARGET")?;
    }
    let to = cursor.name("the name of a target or topic")?;
    let mut export = Export { migrate, topic, to, triggers: Vec::new(), key: Vec::new(), value: Vec::new() };
    if !migrate && cursor.accept("ON") {
        loop {
            let words = ["INSERT", "UPDATE", "UPDATE_OLD", "UPDATE_NEW", "DELETE"];
            let Some(word) = words.into_iter().find(|word| cursor.accept(word)) else {
                return Err(cursor.unexpected("INSERT, UPDATE, UPDATE_OLD, UPDATE_NEW or DELETE"));
            };
            export.triggers.push(word.to_owned());
            if !cursor.accept_token(&Token::Comma) {
                break;
            }
        }
    }
    if topic && cursor.accept("WITH") {
        if cursor.accept("KEY") {
            export.key = cursor.name_list("a column name")?;
        }
        if cursor.accept("VALUE") {
            export.value = cursor.name_list("a column name")?;
        }
    }
    Ok(export)
}

/// Whether a constraint (and not a column of such a name) stood here.
pub(crate) fn table_constraint(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> UserResult<bool> {
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
        cursor.accept_all(&["LIMIT", "PARTITION"]);
        cursor.expect("ROWS")?;
        cursor.number("number of rows")?;
        if cursor.accept("EXECUTE") {
            cursor.parenthesized()?;
        }
        table.limits_rows = true;
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

pub(crate) fn column(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> UserResult<()> {
    let at_name = cursor.clone();
    let name = cursor.name("a column name")?;
    if table.columns.iter().any(|column| column.name == name) {
        return Err(at_name.refused(UserError::ddl("42701", format!("object name already exists: {name}"))));
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
                    || ["NOT", "UNIQUE", "ASSUMEUNIQUE", "PRIMARY", "CONSTRAINT", "CHECK", "REFERENCES", "BEFORE"]
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
