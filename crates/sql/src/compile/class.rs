//! Procedures FROM CLASS: the class's statements become programs, its `run` method's parameters the
//! procedure's.

use super::procedure;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::{Catalog, Procedure, ProcedurePartitioning};
use ferrite_plan::external::{Broken, Description, ExternalRoutine, RoutineBody, Texts};
use ferrite_plan::{Program, Routing, SnapshotPlan, StatementText, Step, Touches};
use std::sync::Arc;

/// Compiles a procedure whose class says that it is so.
pub fn compile_class(catalog: &Catalog, procedure: &Procedure, description: &Description) -> UserResult<Program> {
    let class = procedure.class.as_deref().unwrap_or_default();
    if description.parameters.len() > limits::PARAMETERS_CEILING {
        return Err(UserError::limit(format!("{class}.run has more than {} parameters", limits::PARAMETERS_CEILING)));
    }
    if runs_outside(class, procedure, description)? {
        return Ok(compound(procedure, description));
    }
    let partitioning = match (&procedure.partitioning, &description.partition_info) {
        (Some(partitioning), _) => Some(partitioning.clone()),
        (None, Some(info)) if !procedure.directed => Some(
            partition_info(catalog, info)
                .map_err(|error| error.in_context(format_args!("annotation ProcInfo of class {class}")))?,
        ),
        _ => None,
    };
    let local = partitioning.is_some() || procedure.directed;
    let mut statements = Vec::with_capacity(description.statements.len());
    let mut texts = Vec::with_capacity(description.statements.len());
    for (field, text) in &description.statements {
        let program = statement(catalog, field, text, local)
            .map_err(|error| error.in_context(format_args!("field {field} of class {class}")))?;
        let of_class = StatementText::new(text.clone(), Touches::Several);
        let of_program = program.statements.first().cloned();
        texts.push(StatementText { text: text.clone(), ..of_program.unwrap_or(of_class) });
        statements.push(Arc::new(program));
    }
    let routing = match &partitioning {
        Some(partitioning) => procedure::route_by(catalog, procedure, partitioning, &description.parameters)?,
        None if procedure.directed => Routing::Directed,
        None if !description.texts
            && !statements.is_empty()
            && statements.iter().all(|program| program.routing == Routing::Any) =>
        {
            Routing::Any
        }
        None => Routing::All,
    };
    let made_up = match (description.texts, local) {
        (false, _) => Texts::None,
        (true, true) => Texts::OnePartition,
        (true, false) => Texts::All,
    };
    Ok(Program {
        // What it makes up may write.
        read_only: made_up == Texts::None && statements.iter().all(|program| program.read_only),
        parameters: description.parameters.clone(),
        statements: texts,
        external: Some(Arc::new(ExternalRoutine {
            body: description.body.clone(),
            statements,
            texts: made_up,
            broken: None,
        })),
        ..bare(procedure, routing)
    })
}

/// Whether the class runs outside of transactions, as the statement must say of it, too.
fn runs_outside(class: &str, procedure: &Procedure, description: &Description) -> UserResult<bool> {
    match (&description.body, procedure.compound) {
        (RoutineBody::Compound(_), true) => Ok(true),
        (RoutineBody::NonTransactional(_), false) => {
            let clause = match (&procedure.partitioning, procedure.directed) {
                (Some(_), _) => "PARTITION ON",
                (None, true) => "DIRECTED",
                (None, false) => return Ok(true),
            };
            Err(UserError::ddl(
                "42P13",
                format!("class {class} runs outside of transactions, on no partition: it cannot be {clause}"),
            )
            .with_hint(format!("say CREATE PROCEDURE FROM CLASS {class}")))
        }
        (RoutineBody::Transaction(_), false) => Ok(false),
        (RoutineBody::Compound(_), false) => {
            Err(UserError::ddl("42P13", format!("class {class} is a compound procedure"))
                .with_hint(format!("say CREATE COMPOUND PROCEDURE FROM CLASS {class}")))
        }
        (RoutineBody::Transaction(_) | RoutineBody::NonTransactional(_), true) => Err(UserError::ddl(
            "42P13",
            format!("class {class} is not a compound procedure: it does not extend org.voltdb.VoltCompoundProcedure"),
        )
        .with_hint(format!("say CREATE PROCEDURE FROM CLASS {class}"))),
    }
}

/// A procedure that answers every call with what is wrong with it.
pub fn broken_class(procedure: &Procedure, error: UserError) -> Program {
    let body = RoutineBody::Transaction(Arc::new(Broken));
    let external = ExternalRoutine { body, statements: Vec::new(), texts: Texts::None, broken: Some(error) };
    Program { external: Some(Arc::new(external)), ..bare(procedure, Routing::All) }
}

/// It changes nothing by itself: the calls that it makes are admitted one by one.
fn compound(procedure: &Procedure, description: &Description) -> Program {
    let body = description.body.clone();
    let external = ExternalRoutine { body, statements: Vec::new(), texts: Texts::None, broken: None };
    Program {
        parameters: description.parameters.clone(),
        external: Some(Arc::new(external)),
        ..bare(procedure, Routing::Compound)
    }
}

fn bare(procedure: &Procedure, routing: Routing) -> Program {
    Program {
        name: procedure.name.clone(),
        parameters: Vec::new(),
        registers: Vec::new(),
        slots: 0,
        subqueries: Vec::new(),
        common_tables: Vec::new(),
        body: Vec::new(),
        read_only: true,
        snapshot_plan: SnapshotPlan::None,
        routing,
        statements: Vec::new(),
        external: None,
        variants: None,
    }
}

/// A statement that a body has made up while it ran.
pub fn compile_text(catalog: &Catalog, text: &str, reach: Texts) -> UserResult<Program> {
    if reach == Texts::None {
        return Err(UserError::internal("a procedure whose classes run no SQL of their own making has done so"));
    }
    statement(catalog, "made up by a procedure", text, reach == Texts::OnePartition)
}

/// One SQLStmt.
fn statement(catalog: &Catalog, field: &str, text: &str, local: bool) -> UserResult<Program> {
    // On one partition it is bound as in a directed procedure: it sees that partition, wherever it
    // is.
    let as_procedure = Procedure {
        name: field.to_owned(),
        parameters: None,
        partitioning: None,
        directed: local,
        compound: false,
        body: text.to_owned(),
        class: None,
        allow_roles: Vec::new(),
    };
    let program = procedure::compile(catalog, &as_procedure)?;
    match program.body.as_slice() {
        [Step::Execute { .. }] => Ok(program),
        _ => Err(UserError::syntax("an SQLStmt is one SELECT, INSERT, UPSERT, UPDATE, DELETE or TRUNCATE")),
    }
}

/// `TABLE.COLUMN: n`
fn partition_info(catalog: &Catalog, info: &str) -> UserResult<ProcedurePartitioning> {
    let wrong =
        || UserError::ddl("42601", format!("partitionInfo = \"{info}\" is not of the form \"TABLE.COLUMN: n\""));
    let (column, parameter) = info.split_once(':').ok_or_else(wrong)?;
    let (table, column) = column.trim().split_once('.').ok_or_else(wrong)?;
    let parameter = parameter.trim().parse().map_err(|_| wrong())?;
    let not_found = |code, name: &str| UserError::ddl(code, format!("object not found: {name}"));
    let table = catalog.table_named(&table.to_uppercase()).ok_or_else(|| not_found("42P01", table))?;
    let position = table.column_named(&column.to_uppercase()).ok_or_else(|| not_found("42703", column))?;
    if table.partition_column != Some(position) {
        return Err(UserError::ddl("42601", format!("table {} is not partitioned on column {column}", table.name)));
    }
    Ok(ProcedurePartitioning { table: table.id, column: position, parameter })
}
