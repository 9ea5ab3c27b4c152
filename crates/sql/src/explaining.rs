//! EXPLAIN and EXPLAIN ANALYZE as statements: programs that answer a plan, a row for each line.
//!
//! EXPLAIN is a list of constants. EXPLAIN ANALYZE is the explained program, routed as it is, whose
//! sources count and time what they deliver; only such programs have measured sources, so that no
//! other pays for them.

use crate::explain::explain_lines;
use crate::parse::statement::Statement;
use crate::planner::estimate::Statistics;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_expr::Expr;
use ferrite_plan::{
    Input, InsertSource, OutputColumn, Plan, Program, Query, QueryBody, Routing, StatementText, Step, Touches,
};
use ferrite_value::{OwnedValue, SqlType};

/// What a batch that is one EXPLAIN explains, and whether with ANALYZE; None where there is none in
/// it.
pub(crate) fn explained(statements: &[Statement]) -> UserResult<Option<(&Statement, bool)>> {
    match statements {
        [statement] => Ok(statement.explained()),
        _ if statements.iter().any(|statement| statement.explained().is_some()) => {
            Err(UserError::compile("0A000", "EXPLAIN stands alone, not in a batch")
                .with_hint("send it in a call of its own"))
        }
        _ => Ok(None),
    }
}

/// The program of the EXPLAIN `statement`, of the program that it explains.
pub(crate) fn explaining(
    program: Program,
    analyze: bool,
    catalog: &Catalog,
    statistics: &dyn Statistics,
    statement: &Statement,
) -> Program {
    match analyze {
        true => analyzing(program, catalog, statistics, statement),
        false => telling(program, catalog, statistics, statement),
    }
}

fn columns() -> Vec<OutputColumn> {
    vec![OutputColumn { name: "EXECUTION_PLAN".to_owned(), sql_type: SqlType::Varchar }]
}

fn text_of(statement: &Statement) -> Vec<StatementText> {
    vec![StatementText::new(statement.text().to_owned(), Touches::Several)]
}

fn telling(program: Program, catalog: &Catalog, statistics: &dyn Statistics, statement: &Statement) -> Program {
    let lines = explain_lines(&program, catalog, statistics);
    let rows = lines.into_iter().map(|line| vec![Expr::Constant(OwnedValue::Text(line.text.into()))]).collect();
    let query = Query::of(QueryBody::Values(rows), columns());
    Program {
        registers: Vec::new(),
        slots: 0,
        subqueries: Vec::new(),
        common_tables: Vec::new(),
        body: vec![Step::Execute { statement: 0, plan: Plan::Query(query), emit: true }],
        read_only: true,
        routing: Routing::Any,
        statements: text_of(statement),
        variants: None,
        ..program
    }
}

fn analyzing(mut program: Program, catalog: &Catalog, statistics: &dyn Statistics, statement: &Statement) -> Program {
    let lines = explain_lines(&program, catalog, statistics);
    program.subqueries.iter_mut().for_each(|subquery| measure(&mut subquery.query));
    program.common_tables.iter_mut().for_each(measure);
    let measured = |mut plan: Plan| {
        match &mut plan {
            Plan::Query(query) => measure(query),
            Plan::Insert(insert) => {
                if let InsertSource::Query(query) = &mut insert.source {
                    measure(query);
                }
            }
            Plan::Update(_) | Plan::Delete(_) | Plan::Truncate { .. } => {}
        }
        plan
    };
    let steps = std::mem::take(&mut program.body).into_iter();
    program.body = steps
        .map(|step| match step {
            Step::Execute { statement, plan, .. } => {
                Step::Analyze { statement, plan: measured(plan), columns: columns(), lines: lines.clone() }
            }
            step => step,
        })
        .collect();
    program.statements = text_of(statement);
    program.variants = None;
    program
}

fn measure(query: &mut Query) {
    match &mut query.body {
        QueryBody::Select(select) => {
            for source in &mut select.sources {
                measure_inside(&mut source.input);
                let streams = matches!(
                    &source.input,
                    Input::Derived { query, .. } if matches!(query.body, QueryBody::Recursive { .. } | QueryBody::Series { .. })
                );
                // A recursion or a series may be ended by a LIMIT outside only where its rows are
                // taken one by one.
                if !streams {
                    let input = std::mem::replace(&mut source.input, Input::One);
                    source.input = Input::Measured(Box::new(input));
                }
            }
        }
        QueryBody::SetOperation { left, right, .. } => {
            measure(left);
            measure(right);
        }
        QueryBody::Recursive { first, step, .. } => {
            measure(first);
            measure(step);
        }
        QueryBody::Values(_) | QueryBody::Series { .. } => {}
    }
}

fn measure_inside(input: &mut Input) {
    match input {
        Input::Derived { query, .. } => measure(query),
        Input::Hashed(hashed) => measure_inside(&mut hashed.input),
        _ => {}
    }
}
