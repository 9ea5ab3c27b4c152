//! All rows of a table or view, for the checks of loads that have ended.

use ferrite_bench::error::{BenchError, BenchResult};
use ferrite_bench::session::Session;
use ferrite_value::OwnedValue;

/// How the partitions of a database are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupLayout {
    OneGroup,
    /// No query reads rows of several of them: each partition is asked by itself.
    SeveralGroups,
}

pub fn rows(session: &Session, layout: GroupLayout, sql: &str) -> BenchResult<Vec<Vec<OwnedValue>>> {
    match layout {
        GroupLayout::OneGroup => Ok(session.query(sql)?.rows),
        GroupLayout::SeveralGroups => {
            Ok(session.query_each_partition(sql)?.into_iter().flat_map(|table| table.rows).collect())
        }
    }
}

/// Rows of integers.
pub fn numbers(session: &Session, layout: GroupLayout, sql: &str) -> BenchResult<Vec<Vec<i64>>> {
    let number = |value: &OwnedValue| match value {
        OwnedValue::Integer(number) => Ok(*number),
        other => Err(BenchError::Server(format!("not a number: {other:?} from {sql}"))),
    };
    rows(session, layout, sql)?.iter().map(|row| row.iter().map(number).collect()).collect()
}
