//! ALTER: the actions on tables and streams, and new names for other objects.

use super::cursor::Cursor;
use super::pieces::{procedure_name, written};
use super::statement::{AlterAction, CreateTable, Ddl};
use super::table::{column, export_clause, table_constraint, time_to_live};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Change, TableAction, TableKind};
use sqlparser::tokenizer::Token;

pub(crate) fn alter(cursor: &mut Cursor<'_>) -> UserResult<Ddl> {
    for (word, stream) in [("TABLE", false), ("STREAM", true)] {
        if cursor.accept(word) {
            return alter_table(cursor, stream);
        }
    }
    for word in ["VIEW", "INDEX", "PROCEDURE"] {
        if cursor.accept(word) {
            return Ok(Ddl::Change(rename(cursor, word)?));
        }
    }
    if cursor.accept("TASK") {
        return super::task::alter_task(cursor);
    }
    for word in ["ROLE", "FUNCTION", "DATABASE", "SCHEMA", "SEQUENCE", "TYPE", "USER"] {
        if cursor.is_word(word) {
            return Err(UserError::not_supported(format!("ALTER {word}")));
        }
    }
    Err(cursor.unexpected("TABLE, STREAM, VIEW, INDEX, PROCEDURE or TASK"))
}

/// What follows the name of the kind of object.
fn rename(cursor: &mut Cursor<'_>, kind: &str) -> UserResult<Change> {
    let named = |cursor: &mut Cursor<'_>| match kind {
        "PROCEDURE" => procedure_name(cursor),
        _ => cursor.name("a name"),
    };
    let name = named(cursor)?;
    cursor.expect("RENAME")?;
    cursor.expect("TO")?;
    let to = named(cursor)?;
    Ok(match kind {
        "VIEW" => Change::RenameTable { table: name, to, kind: TableKind::View },
        "INDEX" => Change::RenameIndex { name, to },
        _ => Change::RenameProcedure { name, to },
    })
}

fn alter_table(cursor: &mut Cursor<'_>, stream: bool) -> UserResult<Ddl> {
    let if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    cursor.accept("ONLY");
    let table = cursor.name("a table name")?;
    let mut actions = Vec::new();
    loop {
        action(cursor, &table, stream, &mut actions)?;
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    Ok(Ddl::AlterTable { table, stream, if_exists, actions })
}

fn action(cursor: &mut Cursor<'_>, table: &str, stream: bool, actions: &mut Vec<AlterAction>) -> UserResult<()> {
    if cursor.is_word("ALTER") && !is_clause(cursor, 1) {
        cursor.advance();
        cursor.accept("COLUMN");
        return alter_column(cursor, actions);
    }
    actions.push(other_action(cursor, table, stream)?);
    Ok(())
}

/// Whether USING TTL, or an export clause, stands here and not a column of such a name.
fn is_clause(cursor: &Cursor<'_>, ahead: usize) -> bool {
    cursor.is_word_at(ahead, "USING") && cursor.is_word_at(ahead + 1, "TTL")
        || (cursor.is_word_at(ahead, "EXPORT") || cursor.is_word_at(ahead, "MIGRATE"))
            && cursor.is_word_at(ahead + 1, "TO")
}

fn other_action(cursor: &mut Cursor<'_>, table: &str, stream: bool) -> UserResult<AlterAction> {
    if cursor.accept("ADD") {
        add(cursor, table, stream)
    } else if cursor.accept("DROP") {
        drop(cursor)
    } else if cursor.accept("ALTER") {
        if cursor.is_word("USING") && cursor.is_word_at(1, "TTL") {
            return Ok(AlterAction::SetTimeToLive(Some(time_to_live(cursor)?)));
        }
        Ok(AlterAction::Action(TableAction::SetExport(Some(export_clause(cursor)?))))
    } else if cursor.is_word("USING") {
        Ok(AlterAction::SetTimeToLive(Some(time_to_live(cursor)?)))
    } else if cursor.is_word("EXPORT") || cursor.is_word("MIGRATE") {
        Ok(AlterAction::Action(TableAction::SetExport(Some(export_clause(cursor)?))))
    } else if cursor.accept("RENAME") {
        if cursor.accept("TO") {
            return Ok(AlterAction::RenameTable { to: cursor.name("a table name")? });
        }
        if cursor.is_word("CONSTRAINT") {
            return Err(UserError::not_supported("RENAME CONSTRAINT"));
        }
        cursor.accept("COLUMN");
        let column = cursor.name("a column name")?;
        cursor.expect("TO")?;
        Ok(AlterAction::Action(TableAction::RenameColumn { column, to: cursor.name("a column name")? }))
    } else {
        Err(cursor.unexpected("ADD, DROP, ALTER, RENAME or USING TTL"))
    }
}

fn add(cursor: &mut Cursor<'_>, table: &str, stream: bool) -> UserResult<AlterAction> {
    if cursor.is_word("USING") && cursor.is_word_at(1, "TTL") {
        return Ok(AlterAction::SetTimeToLive(Some(time_to_live(cursor)?)));
    }
    if (cursor.is_word("EXPORT") || cursor.is_word("MIGRATE")) && cursor.is_word_at(1, "TO") {
        return Ok(AlterAction::Action(TableAction::SetExport(Some(export_clause(cursor)?))));
    }
    let mut parts = Box::new(CreateTable { name: table.to_owned(), stream, ..CreateTable::default() });
    let mut before = None;
    let mut if_not_exists = false;
    if cursor.accept("COLUMN") || !table_constraint(cursor, &mut parts)? {
        if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
        column(cursor, &mut parts)?;
        if cursor.accept("BEFORE") {
            before = Some(cursor.name("a column name")?);
        }
    }
    Ok(AlterAction::Add { parts, before, if_not_exists })
}

fn drop(cursor: &mut Cursor<'_>) -> UserResult<AlterAction> {
    if cursor.accept("CONSTRAINT") {
        let if_exists = cursor.accept_all(&["IF", "EXISTS"]);
        let name = cursor.name("a constraint name")?;
        let _ = cursor.accept("CASCADE") || cursor.accept("RESTRICT");
        return Ok(AlterAction::Action(TableAction::DropConstraint { name, if_exists }));
    }
    if cursor.accept_all(&["PRIMARY", "KEY"]) {
        return Ok(AlterAction::Action(TableAction::DropPrimaryKey));
    }
    if cursor.accept_all(&["LIMIT", "PARTITION", "ROWS"]) {
        return Ok(AlterAction::Nothing);
    }
    let ends_here = |cursor: &Cursor<'_>| matches!(cursor.peek_at(1), None | Some(Token::Comma));
    if cursor.accept_all(&["USING", "TTL"]) || (cursor.is_word("TTL") && ends_here(cursor) && cursor.accept("TTL")) {
        return Ok(AlterAction::SetTimeToLive(None));
    }
    for word in ["EXPORT", "MIGRATE"] {
        if cursor.is_word(word) && (ends_here(cursor) || cursor.is_word_at(1, "TO")) {
            if ends_here(cursor) {
                cursor.advance();
            } else {
                export_clause(cursor)?;
            }
            return Ok(AlterAction::Action(TableAction::SetExport(None)));
        }
    }
    cursor.accept("COLUMN");
    let mut if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    let name = cursor.name("a column name")?;
    let mut cascade = false;
    loop {
        if cursor.accept_all(&["IF", "EXISTS"]) {
            if_exists = true;
        } else if cursor.accept("CASCADE") {
            cascade = true;
        } else if !cursor.accept("RESTRICT") {
            return Ok(AlterAction::Action(TableAction::DropColumn { name, if_exists, cascade }));
        }
    }
}

fn alter_column(cursor: &mut Cursor<'_>, actions: &mut Vec<AlterAction>) -> UserResult<()> {
    let column = cursor.name("a column name")?;
    if cursor.accept_all(&["SET", "DEFAULT"]) {
        let default = Some(Box::new(default(cursor)?));
        actions.push(AlterAction::SetDefault { column, default });
        return Ok(());
    }
    if cursor.accept_all(&["DROP", "DEFAULT"]) {
        actions.push(AlterAction::SetDefault { column, default: None });
        return Ok(());
    }
    if cursor.accept_all(&["SET", "NOT", "NULL"]) {
        actions.push(AlterAction::Action(TableAction::SetNullable { column, nullable: false }));
        return Ok(());
    }
    if cursor.accept_all(&["SET", "NULL"]) || cursor.accept_all(&["DROP", "NOT", "NULL"]) {
        actions.push(AlterAction::Action(TableAction::SetNullable { column, nullable: true }));
        return Ok(());
    }
    if !cursor.accept_all(&["SET", "DATA", "TYPE"]) {
        cursor.accept("TYPE");
    }
    let to = cursor.column_type()?;
    if cursor.is_word("USING") {
        return Err(UserError::not_supported("ALTER COLUMN ... TYPE ... USING")
            .with_hint("add a column, UPDATE it, and drop the old one"));
    }
    actions.push(AlterAction::SetType { column: column.clone(), to });
    // The original's form: the column is declared anew. What the declaration leaves out stays as it
    // was.
    loop {
        let column = column.clone();
        if cursor.accept("DEFAULT") {
            let default = Some(Box::new(default(cursor)?));
            actions.push(AlterAction::SetDefault { column, default });
        } else if cursor.accept_all(&["NOT", "NULL"]) {
            actions.push(AlterAction::Action(TableAction::SetNullable { column, nullable: false }));
        } else if cursor.accept("NULL") {
            actions.push(AlterAction::Action(TableAction::SetNullable { column, nullable: true }));
        } else {
            return Ok(());
        }
    }
}

/// The value behind SET DEFAULT.
fn default(cursor: &mut Cursor<'_>) -> UserResult<super::statement::WrittenExpr> {
    let value = cursor.take_until(|lexeme| lexeme.token.token == Token::Comma || lexeme.is_word("NOT"));
    written(cursor, value)
}
