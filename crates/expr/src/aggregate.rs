//! Aggregates: what they are. Their running state is in the same room so that views and queries cannot differ.

use crate::Expr;
use ferrite_value::SqlType;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum AggregateKind {
    /// COUNT(*)
    CountRows,
    /// COUNT(x)
    Count,
    Sum,
    Average,
    Min,
    Max,
    ApproximateCountDistinct,
}

/// One aggregate call.
#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    pub kind: AggregateKind,
    pub distinct: bool,
    /// None for COUNT(*).
    pub argument: Option<Expr>,
    /// Type of the argument (BIGINT for COUNT(*)): decides the domain of SUM and AVG.
    pub argument_type: SqlType,
    /// Type of the result: BIGINT for counts and integer SUM, the argument's for MIN, MAX and AVG, ...
    pub result_type: SqlType,
}
