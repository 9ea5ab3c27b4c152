//! TASK, TASK_SCHEDULER and TASK_PROCEDURE: a row for each task, or for each partition that it runs
//! on. Times are nanoseconds.

use super::layouts::{TASK, TASK_PROCEDURE, TASK_SCHEDULER};
use super::{BASE, base, count, empty};
use crate::result::{Cell, SystemTable, cells};
use crate::sources::Sources;
use crate::task_figures::{Measured, RunFigures};

pub fn table(sources: &Sources<'_>, scheduler: bool, procedure: bool) -> SystemTable {
    let mut parts = vec![BASE, TASK];
    if scheduler {
        parts.push(TASK_SCHEDULER);
    }
    if procedure {
        parts.push(TASK_PROCEDURE);
    }
    let mut table = empty(&parts);
    for run in sources.tasks.all() {
        let mut row: Vec<Cell> = base(sources).into();
        row.extend(cells![run.partition, run.task.clone(), run.state(), run.scope]);
        if scheduler {
            row.extend(of_scheduler(&run));
        }
        if procedure {
            row.push(count(run.executing.count).into());
            row.extend(times(&run.executing));
            row.extend(times(&run.waiting));
            row.push(count(run.failures).into());
        }
        table.row(row);
    }
    table
}

fn of_scheduler(run: &RunFigures) -> Vec<Cell> {
    let mut row = vec![count(run.scheduling.count).into()];
    row.extend(times(&run.scheduling));
    // It is asked at once.
    row.extend(times(&Measured::default()));
    row.push(run.failure.clone().into());
    row
}

fn times(measured: &Measured) -> [Cell; 4] {
    cells![count(measured.total), count(measured.least()), count(measured.most), count(measured.average())]
}
