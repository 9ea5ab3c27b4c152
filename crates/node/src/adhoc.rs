//! Ad hoc SQL: text to a program, or to the coordinator when it is DDL.

use ferrite_base::{SqlLimits, UserError, UserResult};
use ferrite_partition::Compiled;
use ferrite_plan::Program;
use ferrite_sql::{Statement, Statistics};
use std::sync::Arc;

pub enum Compilation {
    /// All of it is DDL: one schema change. `classes`: it loads or removes some.
    Schema {
        classes: bool,
    },
    Program(Arc<Program>),
}

pub fn compile(
    compiled: &Compiled,
    statistics: &dyn Statistics,
    limits: &SqlLimits,
    text: &str,
    parameters: usize,
) -> UserResult<Compilation> {
    let statements = ferrite_sql::parse_within(text, limits)?;
    if statements.is_empty() {
        return Err(UserError::syntax("Failed to plan, no SQL statement provided."));
    }
    let ddl = statements.iter().filter(|statement| statement.is_ddl()).count();
    if ddl == 0 {
        let program = ferrite_sql::compile_adhoc_with(&compiled.catalog, statistics, &statements, parameters)?;
        return Ok(Compilation::Program(Arc::new(program)));
    }
    if ddl < statements.len() {
        return Err(UserError::syntax("DDL mixed with DML and queries is unsupported.")
            .with_hint("send the schema changes in a call of their own"));
    }
    if parameters > 0 {
        return Err(UserError::parameters("schema changes take no parameters"));
    }
    Ok(Compilation::Schema { classes: statements.iter().any(Statement::changes_classes) })
}
