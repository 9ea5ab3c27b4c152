//! `@Explain` and its relatives: plans and schemas as tables of text.

use crate::result::{SystemResult, SystemTable};
use crate::system_catalog::json_string;
use ferrite_base::{SqlLimits, UserError};
use ferrite_partition::Compiled;
use ferrite_sql::Statistics;
use ferrite_value::{OwnedValue, SqlType};

/// `@Explain`: a table for each statement.
pub fn explain(compiled: &Compiled, statistics: &dyn Statistics, limits: &SqlLimits, text: &str) -> SystemResult {
    let statements = ferrite_sql::parse_within(text, limits)?;
    if statements.iter().any(|statement| statement.is_ddl()) {
        return Err(UserError::syntax("schema changes have no plan to explain"));
    }
    let mut tables = Vec::new();
    for statement in &statements {
        let alone = std::slice::from_ref(statement);
        let program = ferrite_sql::compile_adhoc_with(&compiled.catalog, statistics, alone, statement.parameters())?;
        for (_, plan) in ferrite_sql::explain_with(&program, &compiled.catalog, statistics) {
            let mut table = SystemTable::new(&[("EXECUTION_PLAN", SqlType::Varchar)]);
            table.row(vec![OwnedValue::Text(plan.into())]);
            tables.push(table);
        }
    }
    Ok(tables)
}

/// `@ExplainProc`: a row for each statement of a procedure.
pub fn explain_procedure(compiled: &Compiled, name: &str) -> SystemResult {
    let program = compiled.program(compiled.require(name)?);
    let mut table = SystemTable::new(&[
        ("STATEMENT_NAME", SqlType::Varchar),
        ("SQL_STATEMENT", SqlType::Varchar),
        ("EXECUTION_PLAN", SqlType::Varchar),
    ]);
    // A class's statements are programs of their own.
    let of_class = program.external.as_ref().map_or(&[][..], |external| &external.statements);
    let programs = std::iter::once(program).chain(of_class);
    let plans = programs.flat_map(|program| ferrite_sql::explain(program, &compiled.catalog));
    for (index, (text, plan)) in plans.enumerate() {
        table.row(vec![
            OwnedValue::Text(format!("sql{index}").into()),
            OwnedValue::Text(text.into()),
            OwnedValue::Text(plan.into()),
        ]);
    }
    Ok(vec![table])
}

/// `@ExplainJSON`: a table for each statement, its plan as one JSON text.
pub fn explain_json(compiled: &Compiled, limits: &SqlLimits, text: &str) -> SystemResult {
    let mut tables = Vec::new();
    for statement in &ferrite_sql::parse_within(text, limits)? {
        if statement.is_ddl() {
            return Err(UserError::syntax("schema changes have no plan to explain"));
        }
        let alone = std::slice::from_ref(statement);
        let program = ferrite_sql::compile_adhoc(&compiled.catalog, alone, statement.parameters())?;
        let mut table = SystemTable::new(&[("JSON_PLAN", SqlType::Varchar)]);
        for (_, plan) in ferrite_sql::explain(&program, &compiled.catalog) {
            let lines: Vec<String> = plan.lines().map(json_string).collect();
            table.row([format!("{{\"PLAN\":[{}]}}", lines.join(","))]);
        }
        tables.push(table);
    }
    Ok(tables)
}

/// `@ExplainView`: how a materialized view is kept, or what another one runs.
pub fn explain_view(compiled: &Compiled, name: &str) -> SystemResult {
    let catalog = &compiled.catalog;
    let folded = name.to_uppercase();
    let found = catalog.tables.get(name).or_else(|| catalog.tables.get(&folded));
    let plain = || catalog.plain_views.get(name).or_else(|| catalog.plain_views.get(&folded));
    if let (None, Some(view)) = (found, plain()) {
        let mut answer = SystemTable::new(&[("TASK", SqlType::Varchar), ("EXECUTION_PLAN", SqlType::Varchar)]);
        answer.row(["", &format!("computed when it is read: {}", view.text)]);
        return Ok(vec![answer]);
    }
    let table = found.ok_or_else(|| UserError::unknown_table(name))?;
    let Some(view) = &table.view else {
        return Err(
            UserError::parameters(format!("{} is not a view", table.name)).with_hint("@Explain takes a SELECT over it")
        );
    };
    let source = catalog.table(view.source).map_or("its source", |source| source.name.as_str());
    let mut answer = SystemTable::new(&[("TASK", SqlType::Varchar), ("EXECUTION_PLAN", SqlType::Varchar)]);
    let plan = format!("kept up with each changed row of {source}; no query is run for it");
    answer.row(["", plan.as_str()]);
    Ok(vec![answer])
}

/// `@ExplainCatalog`: the schema as the statements that make it.
pub fn explain_catalog(compiled: &Compiled, parameters: usize) -> SystemResult {
    if parameters > 0 {
        return Err(ferrite_wire::failure::parameter_count("@ExplainCatalog", 0, parameters));
    }
    let mut answer = SystemTable::new(&[("CATALOG", SqlType::Varchar)]);
    answer.row([ferrite_catalog::schema_text_without_classes(&compiled.catalog)]);
    Ok(vec![answer])
}
