//! Tasks: what they may call, and when they may come and go.

use super::{Draft, already_exists, check, depended_on, invalid};
use crate::change::TaskAction;
use crate::task::{RunOn, Task};
use ferrite_base::limits::TASKS_MAX;
use ferrite_base::{UserError, UserResult};
use std::sync::Arc;

impl Draft {
    pub(super) fn create_task(&mut self, task: &Task) -> UserResult<()> {
        let name = &task.name;
        check::identifier(name)?;
        if self.catalog.tasks.contains_key(name) {
            return Err(already_exists(name));
        }
        if self.catalog.tasks.len() >= TASKS_MAX {
            return Err(UserError::limit(format!("limit of {TASKS_MAX} tasks reached")));
        }
        self.check_task(task)?;
        self.catalog.tasks.insert(name.clone(), Arc::new(task.clone()));
        Ok(())
    }

    pub(super) fn alter_task(&mut self, name: &str, action: TaskAction) -> UserResult<()> {
        let mut task = match self.catalog.tasks.get(name) {
            Some(task) => Task::clone(task),
            None => return Err(UserError::ddl_not_found(format!("task {name}"))),
        };
        match action {
            TaskAction::Enable => task.enabled = true,
            TaskAction::Disable => task.enabled = false,
            TaskAction::OnError(on_error) => task.on_error = on_error,
        }
        // Always another object, by which it is seen that what was stopped is to begin anew.
        self.catalog.tasks.insert(name.to_owned(), Arc::new(task));
        Ok(())
    }

    pub(super) fn drop_task(&mut self, name: &str, if_exists: bool) -> UserResult<()> {
        match self.catalog.tasks.remove(name) {
            None if !if_exists => Err(UserError::ddl_not_found(format!("task {name}"))),
            _ => Ok(()),
        }
    }

    /// After a change: what tasks call is there still.
    pub(super) fn check_tasks(&self) -> UserResult<()> {
        self.catalog.tasks.values().try_for_each(|task| {
            self.check_task(task).map_err(|error| {
                depended_on(format!("the task {} calls {}", task.name, task.procedure))
                    .with_detail(error.message().to_owned())
                    .with_hint("drop the task first")
            })
        })
    }

    fn check_task(&self, task: &Task) -> UserResult<()> {
        let name = &task.name;
        let procedure = self.catalog.procedure_named(&task.procedure);
        let directed = procedure.is_some_and(|procedure| procedure.directed);
        let is_default = || {
            let table = task.procedure.split_once('.').map(|(table, _)| table.to_uppercase());
            table.is_some_and(|table| self.catalog.table_named(&table).is_some())
        };
        if procedure.is_none() && !task.procedure.starts_with('@') && !is_default() {
            return Err(UserError::unknown_routine(format!("procedure {}", task.procedure)).in_ddl());
        }
        if task.run_on == RunOn::Partitions && !directed {
            return Err(invalid(format!("the procedure {} of task {name} is not DIRECTED", task.procedure))
                .with_hint("a task that runs on PARTITIONS calls a procedure made with CREATE DIRECTED PROCEDURE"));
        }
        if task.run_on != RunOn::Partitions && directed {
            return Err(invalid(format!("the procedure {} of task {name} is DIRECTED", task.procedure))
                .with_hint("say RUN ON PARTITIONS, so that it is called on each of them"));
        }
        Ok(())
    }
}
