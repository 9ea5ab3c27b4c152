//! What is known of a program's statements beside their plans: the text, and where the rows are
//! that each by itself reads and changes.

use ferrite_expr::Expr;
use ferrite_value::SqlType;

#[derive(Clone, Debug)]
pub struct StatementText {
    pub text: String,
    /// Why this statement touches all partitions, in words for EXPLAIN; None when one is enough.
    pub multi_partition_reason: Option<String>,
    pub touches: Touches,
}

impl StatementText {
    pub fn new(text: String, touches: Touches) -> StatementText {
        StatementText { text, multi_partition_reason: None, touches }
    }
}

/// Where the rows are that a statement by itself reads and changes.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Touches {
    /// On every partition: it reads replicated tables, or none.
    Replicated,
    /// On the partition that owns this constant or parameter.
    OneKey { key: Expr, sql_type: SqlType },
    /// On several, for all that is known.
    #[default]
    Several,
}
