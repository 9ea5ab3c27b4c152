//! The program that deletes a batch of expired rows.

use ferrite_catalog::{IndexKind, Table, TimeToLive};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::{Access, Bound, Delete, Plan, Program, Routing, StatementText, Step, Touches};
use ferrite_value::{OwnedValue, SqlType};

/// Deletes at most a batch of the rows whose column is at most `cutoff`; by an ordered index that
/// begins with the column, where there is one. Answers how many.
pub fn expire_program(table: &Table, time: &TimeToLive, cutoff: i64) -> Program {
    let is_timestamp = table.columns[usize::from(time.column)].column_type.sql_type == SqlType::Timestamp;
    let cutoff = Expr::Constant(if is_timestamp { OwnedValue::Timestamp(cutoff) } else { OwnedValue::Integer(cutoff) });
    let column = Expr::column(0, time.column);
    let leads = |index: &&ferrite_catalog::Index| {
        index.kind == IndexKind::Ordered && index.predicate.is_none() && index.keys.first() == Some(&column)
    };
    let (access, filter) = match table.indexes.iter().find(leads) {
        Some(index) => {
            let upper = Some(Bound { value: cutoff, inclusive: true, open_if_null: false });
            let range = Access::Range { index: index.id, equal: Vec::new(), lower: None, upper, descending: false };
            (range, None)
        }
        None => {
            let operator = CompareOperator::LessOrEqual;
            let expired = Expr::Compare { operator, left: Box::new(column), right: Box::new(cutoff) };
            (Access::Scan, Some(expired))
        }
    };
    let plan = Plan::Delete(Delete {
        table: table.id,
        slot: 0,
        access,
        filter,
        order_by: Vec::new(),
        limit: Some(Expr::integer(i64::from(time.batch_size))),
        offset: None,
        joined: None,
        returning: None,
        migrate: false,
    });
    let text = format!("DELETE FROM {} (expired rows)", table.name);
    Program {
        name: format!("{}.expire", table.name),
        parameters: Vec::new(),
        registers: Vec::new(),
        slots: 1,
        subqueries: Vec::new(),
        common_tables: Vec::new(),
        body: vec![Step::Execute { statement: 0, plan, emit: true }],
        read_only: false,
        routing: if table.is_partitioned() { Routing::Directed } else { Routing::All },
        snapshot_plan: Default::default(),
        statements: vec![StatementText::new(text, Touches::Several)],
        external: None,
        variants: None,
    }
}
