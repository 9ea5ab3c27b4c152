//! How large a statement may become.
//!
//! Owns the counts, and tells whoever watches the compiling how it goes on. What SQL writes once
//! may stand several times in a plan: the operand of BETWEEN, of CASE, of COALESCE, a row before
//! IN. One in another, that doubles at each level, so what is bound is counted, and a text of a few
//! hundred bytes cannot fill the memory.

use super::Binder;
use super::types::Typed;
use ferrite_base::limits::EXPRESSIONS_MAX;
use ferrite_base::{UserError, UserResult, watch};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::Query;
use ferrite_plan::walk::for_each_expr;

/// What stands in a plan once more is evaluated once more, for each row.
const AGAIN: usize = 8;
/// What binding and planning an expression is, in units of work: microseconds, and more where it is
/// compared with many others.
const BOUND: usize = 1_024;

impl Binder<'_> {
    /// Counts this many parts of expressions.
    pub fn grow(&mut self, parts: usize) -> UserResult<()> {
        self.expressions = self.expressions.saturating_add(parts);
        if self.expressions <= EXPRESSIONS_MAX {
            return watch::work(parts.saturating_mul(BOUND));
        }
        Err(UserError::limit(format!("the statement has more than {EXPRESSIONS_MAX} expressions when it is written out"))
            .with_detail("the operands of BETWEEN, CASE, COALESCE, DECODE and NULLIF and rows before IN stand in the plan several times")
            .with_hint("compute what is inside in a derived table, and name its column"))
    }

    /// A comparison of what stands in another one too.
    pub fn compare_again(&mut self, left: &Typed, operator: CompareOperator, right: &Typed) -> UserResult<Expr> {
        let left = self.again(left)?;
        let right = self.again(right)?;
        Ok(self.compare(left, operator, right)?.expr)
    }

    /// Parts of the expression, with those of the subqueries that it asks; 0 for one that has no
    /// operands.
    pub fn parts_inside(&self, expr: &Expr) -> usize {
        let mut parts = match expr {
            Expr::Subquery { subquery, .. } => self.subquery_parts.get(usize::from(*subquery)).copied().unwrap_or(1),
            _ => 0,
        };
        expr.for_each_operand(|operand| parts = parts.saturating_add(1 + self.parts_inside(operand)));
        if parts == 0 { 0 } else { parts.saturating_add(1) }
    }

    /// The next subquery is this one.
    pub fn note_subquery(&mut self, query: &Query) {
        let mut parts: usize = 1;
        for_each_expr(query, &mut |expr| parts = parts.saturating_add(1 + self.parts_inside(expr)));
        self.subquery_parts.push(parts);
    }

    /// What was bound, to stand in the plan once more.
    pub fn again(&mut self, typed: &Typed) -> UserResult<Typed> {
        self.grow(self.parts_inside(&typed.expr).saturating_mul(AGAIN))?;
        Ok(typed.clone())
    }
}

/// Refuses the one that is too many, of what stands in one clause.
pub(super) fn check_count(count: usize, most: usize, of_what: &str) -> UserResult<()> {
    if count <= most {
        return Ok(());
    }
    Err(UserError::limit(format!("more than {most} {of_what}")).with_hint("split the statement into several"))
}

#[cfg(test)]
mod tests {
    use crate::bind::Binder;
    use crate::planner::context::Reach;
    use ferrite_base::limits::EXPRESSIONS_MAX;
    use ferrite_catalog::Catalog;

    #[test]
    fn as_many_expressions_as_the_limit_and_not_one_more() {
        let catalog = Catalog::default();
        let mut binder = Binder::new(&catalog, Reach::Local);
        binder.grow(EXPRESSIONS_MAX).expect("so many are taken");
        let error = binder.grow(1).expect_err("one more is not");
        assert!(error.message().contains("more than 2000000 expressions when it is written out"), "{error}");
    }
}
