//! Ad hoc batches: statements without a procedure around them, one program.

use super::origin::OfStatements;
use crate::bind::Binder;
use crate::explaining;
use crate::parse::context::compile_error;
use crate::parse::statement::{Body, Statement};
use crate::planner::context::Reach;
use crate::planner::estimate::{NoStatistics, Statistics};
use crate::planner::routing::{Reaches, several_keys};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_expr::Expr;
use ferrite_plan::Variants;
use ferrite_plan::snapshot_plan;
use ferrite_plan::{Program, Routing, SnapshotPlan, StatementText, Step};
use ferrite_value::SqlType;

/// Compiles queries and data changes to one program that answers a table for each.
/// `given_parameters` is how many values the caller sends along; they belong to the `?` of a single
/// statement.
pub fn compile_adhoc(catalog: &Catalog, statements: &[Statement], given_parameters: usize) -> UserResult<Program> {
    compile_adhoc_with(catalog, &NoStatistics, statements, given_parameters)
}

/// [`compile_adhoc`], with what is known of the data.
pub fn compile_adhoc_with(
    catalog: &Catalog,
    statistics: &dyn Statistics,
    statements: &[Statement],
    given_parameters: usize,
) -> UserResult<Program> {
    if statements.is_empty() {
        return Err(UserError::compile("42601", "Failed to plan, no SQL statement provided."));
    }
    if statements.iter().any(Statement::is_ddl) {
        return Err(UserError::compile("0A000", "DDL mixed with DML and queries is unsupported."));
    }
    let wanted: usize = statements.iter().map(Statement::parameters).sum();
    if statements.len() > 1 && (wanted > 0 || given_parameters > 0) {
        return Err(UserError::compile("42601", "Multi-statement ad hoc requests with parameters are not supported.")
            .with_hint("send one statement with its parameters, or make a procedure of them"));
    }
    if wanted != given_parameters {
        return Err(UserError::parameters(format!(
            "Incorrect number of parameters passed: expected {wanted}, passed {given_parameters}"
        ))
        .with_code("07001"));
    }
    compile_counted(catalog, statistics, statements, wanted)
}

/// Compiles statements whose `?` are numbered from 0 to `parameters` through all of them.
pub(crate) fn compile_counted(
    catalog: &Catalog,
    statistics: &dyn Statistics,
    statements: &[Statement],
    parameters: usize,
) -> UserResult<Program> {
    if let Some((explained, analyze)) = explaining::explained(statements)? {
        let program = compile_counted(catalog, statistics, std::slice::from_ref(explained), parameters)?;
        return Ok(explaining::explaining(program, analyze, catalog, statistics, &statements[0]));
    }
    // Whether one partition is enough shows only when all is bound; and for all of them some things
    // are bound otherwise.
    let with_reach = |catalog: &Catalog| {
        let free = vec![None; parameters];
        let program = compile(catalog, statistics, statements, &free, Reach::Local)?;
        let one = !matches!(program.routing, Routing::All | Routing::Several { .. });
        if !one { compile(catalog, statistics, statements, &free, Reach::All) } else { Ok(program) }
    };
    let mut program = with_reach(catalog)?;
    let snapshot_plan = snapshot_plan(&program, catalog, with_reach);
    program.set_snapshot_plan(snapshot_plan);
    Ok(program)
}

/// Compiles statements for a reach that is known, with parameters of the types that `presets` name.
pub(crate) fn compile_with(
    catalog: &Catalog,
    statements: &[Statement],
    presets: &[Option<SqlType>],
    reach: Reach,
) -> UserResult<Program> {
    compile(catalog, &NoStatistics, statements, presets, reach)
}

/// What all of the above come to: each statement is bound ([`Binder::statement`]) and planned
/// (`PlanContext::plan_statement`), which also notes what it needs of the partitions; from that
/// follows where the program runs.
fn compile(
    catalog: &Catalog,
    statistics: &dyn Statistics,
    statements: &[Statement],
    presets: &[Option<SqlType>],
    reach: Reach,
) -> UserResult<Program> {
    let mut binder = Binder::new(catalog, reach);
    binder.plan.statistics = statistics;
    binder.add_placeholders(presets);
    let mut body = Vec::with_capacity(statements.len());
    let mut texts = Vec::with_capacity(statements.len());
    let mut read_only = true;
    let mut reaches: Option<Reaches> = None;
    for (number, statement) in statements.iter().enumerate() {
        let Body::Sql(sql) = &statement.body else {
            return Err(UserError::internal("schema statements were sorted out before"));
        };
        let planned = |binder: &mut Binder<'_>| {
            let mut plan = binder.statement(&sql.kind)?;
            binder.plan.plan_statement(&mut plan)?;
            Ok(plan)
        };
        let plan = planned(&mut binder).map_err(|error| compile_error(&statement.text, statement.start, error))?;
        read_only &= !binder.plan.facts.writes;
        let reached = binder.plan.facts.finish();
        let mut text = StatementText::new(statement.text.clone(), reached.touches());
        text.multi_partition_reason = match &reached {
            Reaches::All(reason) | Reaches::Several { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        reaches = Some(match reaches {
            None => reached,
            Some(before) => together(before, reached),
        });
        let number = u16::try_from(number).map_err(|_| UserError::limit("too many statements in one batch"))?;
        body.push(Step::Execute { statement: number, plan, emit: true });
        texts.push(text);
    }
    let routing = match reaches {
        None | Some(Reaches::Any) => Routing::Any,
        Some(Reaches::All(_)) => Routing::All,
        Some(Reaches::Several { keys, .. }) => Routing::Several { keys },
        Some(Reaches::Key { keys, sql_type }) => route(&keys, sql_type),
    };
    if let Some(reason) = blame(&routing, &texts) {
        for text in &mut texts {
            text.multi_partition_reason.get_or_insert_with(|| reason.clone());
        }
    }
    let origin = || OfStatements(statements.into(), reach);
    Ok(Program {
        name: "@AdHoc".to_owned(),
        parameters: binder.finished_parameters(),
        registers: std::mem::take(&mut binder.registers),
        slots: binder.plan.slots(),
        subqueries: std::mem::take(&mut binder.plan.subqueries),
        common_tables: std::mem::take(&mut binder.plan.common_tables),
        body,
        read_only,
        snapshot_plan: SnapshotPlan::None,
        routing,
        statements: texts,
        external: None,
        variants: Variants::of(binder.adoptions(), origin),
    })
}

/// Why statements that could run on one partition run on all: the batch is one transaction.
fn blame(routing: &Routing, texts: &[StatementText]) -> Option<String> {
    (matches!(routing, Routing::All | Routing::Several { .. }) && texts.len() > 1)
        .then(|| "another statement of the batch needs other partitions".to_owned())
}

fn together(left: Reaches, right: Reaches) -> Reaches {
    match (left, right) {
        (Reaches::Any, other) | (other, Reaches::Any) => other,
        (Reaches::All(reason), _) | (_, Reaches::All(reason)) => Reaches::All(reason),
        (Reaches::Key { keys, sql_type }, Reaches::Key { keys: others, sql_type: other_type }) => {
            let shared: Vec<Expr> = keys.iter().filter(|key| others.contains(key)).cloned().collect();
            if shared.is_empty() {
                let keys = keys.into_iter().take(1).map(|key| (key, sql_type));
                let others = others.into_iter().take(1).map(|key| (key, other_type));
                several_keys(keys.chain(others).collect(), SEVERAL.to_owned())
            } else {
                Reaches::Key { keys: shared, sql_type }
            }
        }
        (Reaches::Several { mut keys, reason }, other) | (other, Reaches::Several { mut keys, reason }) => {
            match other {
                Reaches::Several { keys: others, .. } => keys.extend(others),
                Reaches::Key { keys: others, sql_type } => {
                    keys.extend(others.into_iter().take(1).map(|key| (key, sql_type)));
                }
                Reaches::Any | Reaches::All(_) => {}
            }
            several_keys(keys, reason)
        }
    }
}

const SEVERAL: &str = "the statements of the batch fix the partitioning column to several values";

/// A constant is known now, so it goes before a parameter.
fn route(keys: &[Expr], sql_type: SqlType) -> Routing {
    match keys.iter().find(|key| matches!(key, Expr::Constant(_))).or(keys.first()) {
        Some(Expr::Parameter(index)) => Routing::Parameter { index: *index, sql_type },
        Some(value) => Routing::Constant { value: value.clone(), sql_type },
        None => Routing::All,
    }
}
