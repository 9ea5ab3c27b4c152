//! Schema statements but CREATE TABLE: the productions of our own grammar.

use super::cursor::{Cursor, parse_with};
use super::pieces::{procedure_name, using_hash, written, written_list};
use super::statement::{CreateProcedure, CreateView, Ddl, IndexDefinition, PartitionClause, WrittenExpr};
use super::tokens::{self, Lexeme};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Change, DecimalScale, TableKind, base64};
use sqlparser::ast;
use sqlparser::tokenizer::{Location, Token};

pub(crate) fn parse(mut cursor: Cursor<'_>) -> UserResult<Ddl> {
    let ddl = if cursor.accept("CREATE") {
        create(&mut cursor)?
    } else if cursor.accept("DROP") {
        drop_object(&mut cursor)?
    } else if cursor.accept("PARTITION") {
        partition(&mut cursor)?
    } else if cursor.accept("REPLICATE") {
        cursor.expect("TABLE")?;
        Ddl::Change(Change::ReplicateTable { table: cursor.name("a table name")? })
    } else if cursor.accept_all(&["LOAD", "CLASSES"]) {
        let jar = base64::decode(&quoted(&mut cursor)?);
        let jar = jar.ok_or_else(|| UserError::syntax("LOAD CLASSES takes a jar's bytes in base64"))?;
        Ddl::Change(Change::LoadClasses { jar: jar.into() })
    } else if cursor.accept_all(&["REMOVE", "CLASSES"]) {
        let patterns = quoted(&mut cursor)?;
        Ddl::Change(Change::RemoveClasses {
            patterns: patterns.split(',').map(|pattern| pattern.trim().to_owned()).collect(),
        })
    } else if cursor.accept("SWAP") {
        // What the procedure @SwapTables sends.
        cursor.expect("TABLE")?;
        let one = cursor.name("a table name")?;
        cursor.expect("WITH")?;
        Ddl::Change(Change::SwapTables { one, other: cursor.name("a table name")? })
    } else if cursor.accept("FILL") {
        // What a restore ends with.
        cursor.expect("TABLE")?;
        let table = cursor.name("a table name")?;
        cursor.expect("FROM")?;
        Ddl::Change(Change::FillTable { table, from: cursor.name("a table name")? })
    } else if cursor.accept("ALTER") {
        super::alter::alter(&mut cursor)?
    } else if cursor.accept_all(&["SET", "DECIMAL_SCALE"]) {
        let _ = cursor.accept_token(&Token::Eq);
        let word = cursor.name("DECLARED or IGNORED")?;
        let decimals = DecimalScale::from_name(&word)
            .ok_or_else(|| UserError::syntax(format!("DECIMAL_SCALE is DECLARED or IGNORED, not {word}")))?;
        Ddl::Change(Change::SetDecimalScale(decimals))
    } else if cursor.accept("SET") {
        // Whole databases are replicated, says `SET DR = ACTIVE`.
        cursor.expect("DR")?;
        cursor.expect_token(&Token::Eq)?;
        cursor.name("ACTIVE")?;
        Ddl::Replication { table: None }
    } else {
        cursor.expect("DR")?;
        cursor.expect("TABLE")?;
        let table = if cursor.accept_token(&Token::Mul) { None } else { Some(cursor.name("a table name")?) };
        cursor.accept("DISABLE");
        Ddl::Replication { table }
    };
    cursor.expect_end()?;
    Ok(ddl)
}

fn quoted(cursor: &mut Cursor<'_>) -> UserResult<String> {
    match cursor.advance() {
        Some(Token::SingleQuotedString(text)) => Ok(text.clone()),
        _ => Err(cursor.unexpected("a text in quotes")),
    }
}

fn create(cursor: &mut Cursor<'_>) -> UserResult<Ddl> {
    if cursor.accept("TABLE") {
        return super::table::create_table(cursor, false);
    }
    if cursor.accept("STREAM") {
        return super::table::create_table(cursor, true);
    }
    let materialized = cursor.is_word_at(1, "VIEW") && cursor.accept("MATERIALIZED");
    if cursor.accept("VIEW") {
        return create_view(cursor, materialized);
    }
    if cursor.accept("ROLE") {
        return create_role(cursor);
    }
    let or_replace = cursor.is_word_at(2, "PROCEDURE") || cursor.is_word_at(3, "PROCEDURE");
    let or_replace = or_replace && cursor.accept_all(&["OR", "REPLACE"]);
    if cursor.accept("PROCEDURE") {
        return create_procedure(cursor, Kind::Plain, or_replace);
    }
    if cursor.accept_all(&["DIRECTED", "PROCEDURE"]) {
        return create_procedure(cursor, Kind::Directed, or_replace);
    }
    if cursor.accept_all(&["COMPOUND", "PROCEDURE"]) {
        return create_procedure(cursor, Kind::Compound, or_replace);
    }
    let assume_unique = cursor.accept("ASSUMEUNIQUE");
    let unique = !assume_unique && cursor.accept("UNIQUE");
    if cursor.accept("INDEX") {
        return create_index(cursor, unique, assume_unique, false);
    }
    if cursor.accept_all(&["MIGRATING", "INDEX"]) {
        return create_index(cursor, false, false, true);
    }
    if cursor.accept("FUNCTION") {
        return create_function(cursor, false);
    }
    if cursor.accept_all(&["AGGREGATE", "FUNCTION"]) {
        return create_function(cursor, true);
    }
    if cursor.accept("TASK") {
        return super::task::create_task(cursor);
    }
    if cursor.is_word("TOPIC") {
        return Err(no_topics(cursor));
    }
    for clause in ["COMPOUND", "MIGRATING", "TEMPORARY", "SCHEMA", "DATABASE", "USER", "OR"] {
        if cursor.is_word(clause) {
            return Err(cursor.refused(UserError::not_supported(format!("CREATE {clause}"))));
        }
    }
    Err(cursor.unexpected("TABLE, VIEW, INDEX, PROCEDURE, FUNCTION, TASK, STREAM or ROLE"))
}

/// `f FROM METHOD pkg.Class.method`, or of an aggregate `f FROM CLASS pkg.Class`.
fn create_function(cursor: &mut Cursor<'_>, aggregate: bool) -> UserResult<Ddl> {
    let name = cursor.name("a function name")?;
    cursor.expect("FROM")?;
    if aggregate {
        cursor.expect("CLASS")?;
        return Ok(Ddl::Change(Change::CreateFunction { name, class: class_name(cursor)?, method: None }));
    }
    if cursor.is_word("CLASS") {
        return Err(cursor.unexpected("METHOD (or CREATE AGGREGATE FUNCTION ... FROM CLASS)"));
    }
    cursor.expect("METHOD")?;
    let path = class_name(cursor)?;
    let (class, method) = path
        .rsplit_once('.')
        .ok_or_else(|| UserError::syntax("FROM METHOD takes a class and its method: pkg.Class.method"))?;
    Ok(Ddl::Change(Change::CreateFunction { name, class: class.to_owned(), method: Some(method.to_owned()) }))
}

fn drop_function(cursor: &mut Cursor<'_>) -> UserResult<Ddl> {
    let aggregate = cursor.accept("AGGREGATE").then_some(true);
    cursor.expect("FUNCTION")?;
    let before = cursor.accept_all(&["IF", "EXISTS"]);
    let name = cursor.name("a function name")?;
    let if_exists = before | cursor.accept_all(&["IF", "EXISTS"]);
    Ok(Ddl::Change(Change::DropFunction { name, aggregate, if_exists }))
}

fn create_view(cursor: &mut Cursor<'_>, materialized: bool) -> UserResult<Ddl> {
    let if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
    let name = cursor.name("a view name")?;
    let exported = cursor.is_word("MIGRATE") || cursor.is_word("EXPORT");
    let export = if exported { Some(super::table::export_clause(cursor)?) } else { None };
    let columns = if cursor.peek() == Some(&Token::LParen) { Some(cursor.name_list("a column name")?) } else { None };
    let expires = |cursor: &Cursor<'_>| cursor.is_word("USING") && cursor.is_word_at(1, "TTL");
    let mut time_to_live = None;
    if expires(cursor) {
        time_to_live = Some(super::table::time_to_live(cursor)?);
    }
    cursor.expect("AS")?;
    let start = cursor.position();
    let mut behind = cursor.rest().windows(2).filter(|pair| pair[0].is_word("USING") && pair[1].is_word("TTL"));
    let clause = behind.next().map(|pair| std::ptr::from_ref(&pair[0]));
    let query = cursor.take_until(|lexeme| clause == Some(std::ptr::from_ref(lexeme)));
    let text = cursor.text_since(start).to_owned();
    if time_to_live.is_none() && expires(cursor) {
        time_to_live = Some(super::table::time_to_live(cursor)?);
    }
    let mut placeholders = 0;
    let parsed = parse_with(query, &mut placeholders, |parser| parser.parse_query())?;
    if placeholders > 0 {
        return Err(UserError::ddl("42601", "a view must not have parameters"));
    }
    Ok(Ddl::CreateView(CreateView {
        name,
        columns,
        query: parsed,
        text,
        export,
        time_to_live,
        materialized,
        if_not_exists,
    }))
}

fn create_role(cursor: &mut Cursor<'_>) -> UserResult<Ddl> {
    let name = cursor.name("a role name")?;
    let mut permissions = Vec::new();
    if cursor.accept("WITH") {
        loop {
            permissions.push(cursor.name("a permission")?.to_lowercase());
            if !cursor.accept_token(&Token::Comma) {
                break;
            }
        }
    }
    Ok(Ddl::Change(Change::CreateRole { name, permissions }))
}

/// `migrating`: CREATE MIGRATING INDEX, which is one of the rows that are not on their way.
fn create_index(cursor: &mut Cursor<'_>, unique: bool, assume_unique: bool, migrating: bool) -> UserResult<Ddl> {
    let if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
    let name = cursor.name("an index name")?;
    cursor.expect("ON")?;
    let table = cursor.name("a table name")?;
    let hash = using_hash(cursor)?;
    let keys = written_list(cursor)?;
    let predicate = if cursor.accept("WHERE") {
        let condition = cursor.take_until(|_| false);
        Some(written(cursor, condition)?)
    } else {
        None
    };
    let predicate = if migrating { Some(not_migrating(predicate)) } else { predicate };
    let index = Box::new(IndexDefinition { name, unique, assume_unique, hash, keys, predicate });
    Ok(Ddl::CreateIndex { table, index, if_not_exists })
}

/// `NOT MIGRATING`, and what else is asked for.
fn not_migrating(predicate: Option<WrittenExpr>) -> WrittenExpr {
    let migrating = Box::new(ast::Expr::Identifier(ast::Ident::new("MIGRATING")));
    let expr = ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: migrating };
    match predicate {
        None => WrittenExpr { expr, text: "NOT MIGRATING".to_owned() },
        Some(other) => {
            let right = Box::new(ast::Expr::Nested(Box::new(other.expr)));
            let expr = ast::Expr::BinaryOp { left: Box::new(expr), op: ast::BinaryOperator::And, right };
            WrittenExpr { expr, text: format!("NOT MIGRATING AND ({})", other.text) }
        }
    }
}

/// The word before PROCEDURE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Directed,
    Compound,
}

fn create_procedure(cursor: &mut Cursor<'_>, kind: Kind, or_replace: bool) -> UserResult<Ddl> {
    let from_class = cursor.is_word("FROM") && cursor.is_word_at(1, "CLASS");
    let clause = from_class || ["PARTITION", "ALLOW", "DIRECTED", "COMPOUND"].iter().any(|word| cursor.is_word(word));
    let name =
        if matches!(cursor.peek(), Some(Token::Word(_))) && !clause { procedure_name(cursor)? } else { String::new() };
    let mut procedure = CreateProcedure {
        or_replace,
        name,
        parameters: None,
        partitioning: None,
        second_partitioning: None,
        directed: kind == Kind::Directed,
        compound: kind == Kind::Compound,
        allow_roles: Vec::new(),
        body: String::new(),
        body_start: Location::empty(),
        class: None,
    };
    if cursor.accept_token(&Token::LParen) {
        procedure.parameters = Some(declared_parameters(cursor)?);
    }
    procedure_clauses(cursor, &mut procedure)?;
    if cursor.accept_all(&["FROM", "CLASS"]) {
        return procedure_from_class(cursor, procedure);
    }
    if procedure.compound && (cursor.is_word("AS") || procedure.parameters.is_some()) {
        return Err(UserError::not_supported("CREATE COMPOUND PROCEDURE ... AS")
            .with_hint("a compound procedure is a Java class: CREATE COMPOUND PROCEDURE FROM CLASS package.Class"));
    }
    if procedure.name.is_empty() {
        return Err(cursor.unexpected("a procedure name"));
    }
    if procedure.compound {
        return Err(cursor.unexpected("FROM CLASS"));
    }
    cursor.expect("AS")?;
    let body: &[Lexeme] = cursor.rest();
    if body.is_empty() {
        return Err(cursor.unexpected("a statement or BEGIN"));
    }
    procedure.body = cursor.rest_text().to_owned();
    procedure.body_start = tokens::start(body);
    while cursor.advance().is_some() {}
    Ok(Ddl::CreateProcedure(procedure))
}

/// Where it runs, and who may call it.
fn procedure_clauses(cursor: &mut Cursor<'_>, procedure: &mut CreateProcedure) -> UserResult<()> {
    loop {
        if cursor.accept("PARTITION") {
            cursor.expect("ON")?;
            if procedure.partitioning.is_some() {
                return Err(UserError::syntax("the procedure has more than one PARTITION ON clause"));
            }
            procedure.partitioning = Some(partition_clause(cursor)?);
            if cursor.accept_all(&["AND", "ON"]) {
                procedure.second_partitioning = Some(partition_clause(cursor)?);
            }
        } else if cursor.accept("ALLOW") {
            loop {
                procedure.allow_roles.push(cursor.name("a role name")?);
                if !cursor.accept_token(&Token::Comma) {
                    break;
                }
            }
        } else if cursor.accept("DIRECTED") {
            procedure.directed = true;
        } else if cursor.accept("COMPOUND") {
            procedure.compound = true;
        } else {
            break;
        }
    }
    if procedure.directed && procedure.partitioning.is_some() {
        return Err(UserError::ddl("42601", "a DIRECTED procedure cannot be partitioned on a table"));
    }
    if procedure.compound && procedure.partitioning.is_some() {
        return Err(UserError::ddl("42601", "a COMPOUND procedure cannot be partitioned on a table")
            .with_hint("it runs on no partition; the procedures that it calls may be partitioned"));
    }
    if procedure.compound && procedure.directed {
        return Err(UserError::ddl("42601", "a procedure cannot be both DIRECTED and COMPOUND"));
    }
    Ok(())
}

/// The rest of a procedure that is a class's run method.
fn procedure_from_class(cursor: &mut Cursor<'_>, mut procedure: CreateProcedure) -> UserResult<Ddl> {
    if procedure.parameters.is_some() {
        return Err(UserError::syntax("the parameters of a procedure FROM CLASS are those of the class's run method"));
    }
    let class = class_name(cursor)?;
    if procedure.name.is_empty() {
        // Only the part behind the last dot; and of a nested class that behind the last dollar
        // sign.
        procedure.name = class.rsplit(['.', '$']).next().unwrap_or(&class).to_owned();
    }
    procedure.class = Some(class);
    Ok(Ddl::CreateProcedure(procedure))
}

/// `pkg.Class`, as written: Java tells upper from lower case.
fn class_name(cursor: &mut Cursor<'_>) -> UserResult<String> {
    let mut name = String::new();
    loop {
        match cursor.advance() {
            Some(Token::Word(word)) => name.push_str(&word.value),
            _ => return Err(cursor.unexpected("a class name")),
        }
        if !cursor.accept_token(&Token::Period) {
            return Ok(name);
        }
        name.push('.');
    }
}

fn declared_parameters(cursor: &mut Cursor<'_>) -> UserResult<Vec<(String, ferrite_value::ColumnType)>> {
    let mut parameters: Vec<(String, ferrite_value::ColumnType)> = Vec::new();
    if cursor.accept_token(&Token::RParen) {
        return Ok(parameters);
    }
    loop {
        if cursor.is_word("IN") && !matches!(cursor.peek_at(1), Some(Token::Comma | Token::RParen)) {
            cursor.accept("IN");
        }
        let name = cursor.name("a parameter name")?;
        let column_type = cursor.column_type()?;
        if parameters.iter().any(|(other, _)| *other == name) {
            return Err(UserError::ddl("42710", format!("parameter {name} is declared twice")));
        }
        parameters.push((name, column_type));
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    Ok(parameters)
}

/// `TABLE t COLUMN c [PARAMETER n]`
fn partition_clause(cursor: &mut Cursor<'_>) -> UserResult<PartitionClause> {
    cursor.expect("TABLE")?;
    let table = cursor.name("a table name")?;
    cursor.expect("COLUMN")?;
    let column = cursor.name("a column name")?;
    let parameter = if cursor.accept("PARAMETER") { cursor.number("parameter number")? } else { 0 };
    let parameter = u16::try_from(parameter)
        .map_err(|_| UserError::ddl("42601", format!("PARAMETER {parameter} is out of range")))?;
    Ok(PartitionClause { table, column, parameter })
}

fn partition(cursor: &mut Cursor<'_>) -> UserResult<Ddl> {
    if cursor.accept("TABLE") {
        let table = cursor.name("a table name")?;
        cursor.expect("ON")?;
        cursor.expect("COLUMN")?;
        return Ok(Ddl::Change(Change::PartitionTable { table, column: cursor.name("a column name")? }));
    }
    cursor.expect("PROCEDURE")?;
    let name = procedure_name(cursor)?;
    cursor.expect("ON")?;
    Ok(Ddl::PartitionProcedure { name, partitioning: partition_clause(cursor)? })
}

fn no_topics(cursor: &Cursor<'_>) -> UserError {
    let hint = "leave it out: nothing is published or consumed here; its stream and its procedure may stay";
    cursor.refused(UserError::not_supported("TOPIC").with_hint(hint))
}

fn drop_object(cursor: &mut Cursor<'_>) -> UserResult<Ddl> {
    let object = match cursor.peek() {
        Some(Token::Word(word)) => word.value.to_uppercase(),
        _ => return Err(cursor.unexpected("TABLE, VIEW, INDEX, PROCEDURE, FUNCTION, TASK, STREAM or ROLE")),
    };
    if cursor.is_word("FUNCTION") || cursor.is_word("AGGREGATE") {
        return drop_function(cursor);
    }
    if cursor.accept("TASK") {
        let before = cursor.accept_all(&["IF", "EXISTS"]);
        let name = cursor.name("a task name")?;
        let if_exists = before | cursor.accept_all(&["IF", "EXISTS"]);
        return Ok(Ddl::Change(Change::DropTask { name, if_exists }));
    }
    if object == "TOPIC" {
        return Err(no_topics(cursor));
    }
    if !["TABLE", "VIEW", "STREAM", "INDEX", "PROCEDURE", "ROLE"].contains(&object.as_str()) {
        return Err(cursor.unexpected("TABLE, VIEW, INDEX, PROCEDURE, FUNCTION, TASK, STREAM or ROLE"));
    }
    cursor.advance();
    let mut if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    let name = if object == "PROCEDURE" { procedure_name(cursor)? } else { cursor.name("a name")? };
    let mut cascade = false;
    loop {
        if cursor.accept_all(&["IF", "EXISTS"]) {
            if_exists = true;
        } else if cursor.accept("CASCADE") {
            cascade = true;
        } else {
            break;
        }
    }
    Ok(Ddl::Change(match object.as_str() {
        "TABLE" => Change::DropTable { name, if_exists, cascade, kind: TableKind::Table },
        "VIEW" => Change::DropTable { name, if_exists, cascade, kind: TableKind::View },
        "STREAM" => Change::DropTable { name, if_exists, cascade, kind: TableKind::Stream },
        "INDEX" => Change::DropIndex { name, if_exists },
        "PROCEDURE" => Change::DropProcedure { name, if_exists },
        _ => Change::DropRole { name, if_exists },
    }))
}
