//! Whether the procedures of tasks take the parameters that the tasks give them.
//!
//! Applied to schema changes that a client makes, not to replay or a restore: what an older server
//! has accepted still opens, and comes back from its backups. A task that already did not fit does
//! not prevent other changes either.

use crate::compiled::Compiled;
use crate::execute::check_parameters;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Task;
use ferrite_value::Value;

/// Refuses a schema by which a task's calls would fail for their parameters, if they did not
/// before.
pub fn check(before: &Compiled, after: &Compiled) -> UserResult<()> {
    for task in after.catalog.tasks.values() {
        let Err(error) = fits(task, after) else { continue };
        let known = before.catalog.tasks.get(&task.name);
        if known.is_none_or(|known| fits(known, before).is_ok()) {
            let hint = match known {
                None => "the values after WITH are the procedure's parameters, in their order",
                Some(_) => "drop the task first, and make it anew with parameters that the procedure takes",
            };
            let reason = error.message().strip_prefix("VOLTDB ERROR: ").unwrap_or(error.message());
            return Err(UserError::ddl("42P16", format!("task {}: {reason}", task.name)).with_hint(hint));
        }
    }
    Ok(())
}

/// Each task whose calls would fail for their parameters, and why.
pub fn misfits(compiled: &Compiled) -> Vec<(String, UserError)> {
    let tasks = compiled.catalog.tasks.values();
    tasks.filter_map(|task| Some((task.name.clone(), fits(task, compiled).err()?))).collect()
}

/// System procedures look at their parameters themselves, when they are called; so does a class
/// that could not be loaded.
fn fits(task: &Task, compiled: &Compiled) -> UserResult<()> {
    let Some(id) = compiled.find(&task.procedure) else { return Ok(()) };
    let program = compiled.program(id);
    if program.external.as_ref().is_some_and(|external| external.broken.is_some()) {
        return Ok(());
    }
    let values: Vec<Value<'_>> = task.parameters.iter().map(|value| value.as_value()).collect();
    check_parameters(program, &compiled.catalog, &values)
}
