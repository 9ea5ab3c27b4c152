//! Which tables a program touches: what it reads or changes, whichever way it takes.

use crate::long_read::{for_each_input, with_those_inside};
use crate::program::{Input, InsertSource, Plan, Program, Query, ReturnValue, Select, Step};
use ferrite_base::TableId;

/// Whether the program reads or changes a table that `is_meant`. Of a body in another language it
/// knows nothing: the statements of such a body are programs of their own.
pub fn touches(program: &Program, is_meant: &dyn Fn(TableId) -> bool) -> bool {
    let of_query = |query: &Query| reads(query, is_meant);
    of_steps(&program.body, is_meant)
        || program.common_tables.iter().any(of_query)
        || program.subqueries.iter().any(|subquery| of_query(&subquery.query))
}

fn of_steps(steps: &[Step], is_meant: &dyn Fn(TableId) -> bool) -> bool {
    steps.iter().any(|step| match step {
        Step::Execute { plan, .. } | Step::Analyze { plan, .. } => of_plan(plan, is_meant),
        Step::Fetch { query, .. } => reads(query, is_meant),
        Step::For { query, body, .. } => reads(query, is_meant) || of_steps(body, is_meant),
        Step::If { branches, otherwise } => {
            branches.iter().any(|(_, body)| of_steps(body, is_meant)) || of_steps(otherwise, is_meant)
        }
        Step::While { body, .. } | Step::Block { body, .. } => of_steps(body, is_meant),
        Step::Return(ReturnValue::Tables(queries)) => queries.iter().any(|(_, query)| reads(query, is_meant)),
        Step::Assign { .. }
        | Step::Leave { .. }
        | Step::Iterate { .. }
        | Step::Return(ReturnValue::Nothing | ReturnValue::Status(_))
        | Step::Signal { .. } => false,
    })
}

fn of_plan(plan: &Plan, is_meant: &dyn Fn(TableId) -> bool) -> bool {
    let of_joined = |joined: &Option<Box<Select>>| joined.as_ref().is_some_and(|select| sources_read(select, is_meant));
    match plan {
        Plan::Query(query) => reads(query, is_meant),
        Plan::Insert(insert) => {
            is_meant(insert.table) || matches!(&insert.source, InsertSource::Query(query) if reads(query, is_meant))
        }
        Plan::Update(update) => is_meant(update.table) || of_joined(&update.joined),
        Plan::Delete(delete) => is_meant(delete.table) || of_joined(&delete.joined),
        Plan::Truncate { table } => is_meant(*table),
    }
}

fn reads(query: &Query, is_meant: &dyn Fn(TableId) -> bool) -> bool {
    let mut found = false;
    for_each_input(query, &mut |input| found |= is_table(input, is_meant));
    found
}

fn sources_read(select: &Select, is_meant: &dyn Fn(TableId) -> bool) -> bool {
    let mut found = false;
    for source in &select.sources {
        with_those_inside(&source.input, &mut |input| found |= is_table(input, is_meant));
    }
    found
}

fn is_table(input: &Input, is_meant: &dyn Fn(TableId) -> bool) -> bool {
    matches!(input, Input::Table { table, .. } if is_meant(*table))
}
