//! Texts of clients: what is larger than may be is refused, as far as it shows before binding.

use super::parse_batch;
use super::statement::Statement;
use ferrite_base::{SqlLimits, UserError, UserResult};

/// [`parse_batch`] of a text within these limits. Sizes within schema statements show when they are
/// bound.
pub fn parse_within(text: &str, limits: &SqlLimits) -> UserResult<Vec<Statement>> {
    if text.len() > limits.statement_bytes {
        return Err(UserError::limit(format!(
            "the SQL text has {} bytes, the most is {}",
            text.len(),
            limits.statement_bytes
        ))
        .with_detail("the limit is --limit statement-bytes")
        .with_hint("send it in several calls"));
    }
    let statements = parse_batch(text)?;
    if statements.len() > limits.statements {
        return Err(UserError::limit(format!("more than {} statements in one batch", limits.statements))
            .with_detail(format!("there are {} (--limit statements)", statements.len()))
            .with_hint("send them in several calls"));
    }
    if let Some(statement) = statements.iter().find(|statement| statement.parameters() > limits.parameters) {
        return Err(UserError::limit(format!("more than {} parameters", limits.parameters))
            .with_detail(format!("the statement has {} (--limit parameters)", statement.parameters())));
    }
    Ok(statements)
}
