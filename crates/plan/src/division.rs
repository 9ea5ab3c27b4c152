//! What each group does of a program that several groups run together: every group runs the whole
//! program on the partitions that it has, and of each statement its share. The answers of all
//! groups, put together by the same rule, are those of one node.
//!
//! That works where no statement needs rows of another group to know what to do: a statement that
//! one key fixes, rows that are given, changes that look at one row at a time. And where no
//! statement needs the result of another: a list of statements, without variables and branches.

use crate::program::{Delete, Insert, InsertSource, Plan, Program, Step, Update};
use crate::statement_text::Touches;
use crate::walk::for_each_access_expr;
use ferrite_base::TableId;
use ferrite_expr::Expr;
use ferrite_value::SqlType;

/// Of one statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Share {
    /// The group that owns this value runs it, whole; the answer is its answer.
    Owner { key: Expr, sql_type: SqlType },
    /// One group runs it, whichever: it reads only what every partition has.
    Any,
    /// Each changes the rows that it owns; the numbers of rows are added, and rows that are
    /// returned follow one another.
    Rows,
    /// Each makes the same change of what every partition has; the answer is that of any.
    Same,
}

/// Why several groups cannot run a program together.
#[derive(Clone, PartialEq, Debug)]
pub struct Indivisible {
    /// Number of the statement; None: the program as a whole.
    pub statement: Option<u16>,
    /// As the end of a sentence about it.
    pub reason: String,
}

/// The share of each statement, in their order. `partitioned` says which tables are.
pub fn divide(program: &Program, partitioned: &dyn Fn(TableId) -> bool) -> Result<Vec<Share>, Indivisible> {
    let whole = |reason: &str| Indivisible { statement: None, reason: reason.to_owned() };
    if program.external.is_some() {
        return Err(whole("its body decides what to do by what it has read"));
    }
    let mut shares = Vec::with_capacity(program.body.len());
    for step in &program.body {
        let (statement, plan) = match step {
            Step::Execute { statement, plan, .. } => (*statement, plan),
            Step::Analyze { statement, .. } => {
                let reason = "it measures a plan on the partitions of one group".to_owned();
                return Err(Indivisible { statement: Some(*statement), reason });
            }
            _ => return Err(whole("its body decides what to do by what it has read")),
        };
        let touches = program.statements.get(usize::from(statement)).map(|text| text.touches.clone());
        shares.push(match touches.unwrap_or_default() {
            Touches::OneKey { key, sql_type } => Share::Owner { key, sql_type },
            Touches::Replicated => Share::Any,
            Touches::Several => {
                share(plan, partitioned).map_err(|reason| Indivisible { statement: Some(statement), reason })?
            }
        });
    }
    Ok(shares)
}

/// Of a statement that no key fixes.
fn share(plan: &Plan, partitioned: &dyn Fn(TableId) -> bool) -> Result<Share, String> {
    let of = |table: TableId| if partitioned(table) { Share::Rows } else { Share::Same };
    match plan {
        Plan::Query(_) => Err("it reads rows of several groups".to_owned()),
        Plan::Insert(insert) => by_itself(rows_of(insert)?).map(|()| of(insert.table)),
        Plan::Update(update) => by_itself(changes_of(update)?).map(|()| of(update.table)),
        Plan::Delete(delete) => by_itself(conditions_of(delete)?).map(|()| of(delete.table)),
        Plan::Truncate { table } => Ok(of(*table)),
    }
}

/// Whether each group computes the same from a row and the parameters.
fn by_itself(exprs: Vec<&Expr>) -> Result<(), String> {
    for expr in exprs {
        if expr.any(&mut |part| matches!(part, Expr::Subquery { .. })) {
            return Err("it has a subquery, which may need rows of other groups".to_owned());
        }
        if expr.any(&mut |part| matches!(part, Expr::User { .. })) {
            return Err("it calls a function of a user, which may answer each group something else".to_owned());
        }
    }
    Ok(())
}

fn rows_of(insert: &Insert) -> Result<Vec<&Expr>, String> {
    let InsertSource::Values { more } = &insert.source else {
        return Err(
            "it inserts the rows of a query, which may belong to other groups than those that have them".to_owned()
        );
    };
    let returned = insert.returning.iter().flat_map(|returning| &returning.output);
    Ok(insert.row.iter().chain(more.iter().flatten()).chain(returned).collect())
}

fn changes_of(update: &Update) -> Result<Vec<&Expr>, String> {
    if update.joined.is_some() {
        return Err("it joins the rows that it changes with others".to_owned());
    }
    let mut exprs: Vec<&Expr> = update.filter.iter().chain(update.assignments.iter().map(|(_, value)| value)).collect();
    exprs.extend(update.returning.iter().flat_map(|returning| &returning.output));
    if access_asks(&update.access) {
        return Err("it has a subquery, which may need rows of other groups".to_owned());
    }
    Ok(exprs)
}

fn conditions_of(delete: &Delete) -> Result<Vec<&Expr>, String> {
    if delete.joined.is_some() {
        return Err("it joins the rows that it deletes with others".to_owned());
    }
    if !delete.order_by.is_empty() || delete.limit.is_some() || delete.offset.is_some() {
        return Err("it deletes the first rows of an order, which goes over several groups".to_owned());
    }
    if access_asks(&delete.access) {
        return Err("it has a subquery, which may need rows of other groups".to_owned());
    }
    Ok(delete.filter.iter().chain(delete.returning.iter().flat_map(|returning| &returning.output)).collect())
}

fn access_asks(access: &crate::Access) -> bool {
    let mut asks = matches!(access, crate::Access::Lookups { list: crate::KeyList::Subquery(_), .. });
    for_each_access_expr(access, &mut |expr| asks |= expr.any(&mut |part| matches!(part, Expr::Subquery { .. })));
    asks
}
