//! Row values compared with queries: `(a, b) IN (SELECT x, y ...)`, `(a, b) = (SELECT x, y ...)` and their kin.
//!
//! They become scalar subqueries over the query as a derived table, which is computed once where it refers to nothing outside.

use super::Binder;
use super::types::Typed;
use crate::plan::{Aggregation, Input, JoinKind, OutputColumn, Query, QueryBody, Select, Source, SubqueryKind};
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{Aggregate, AggregateKind, CompareOperator, Expr};
use ferrite_value::{OwnedValue, SqlType};
use sqlparser::ast;

/// A query as a source, and the comparison of the row with it.
struct Compared {
    source: Source,
    condition: Expr,
    correlated: bool,
}

impl Binder<'_> {
    /// `row operator (query)`: NULL without a row, an error with two.
    pub fn row_compared_with_query(
        &mut self,
        row: &[ast::Expr],
        operator: CompareOperator,
        query: &ast::Query,
    ) -> UserResult<Typed> {
        let compared = self.compared(row, operator, query)?;
        let correlated = compared.correlated;
        let select = block(compared.source, None, compared.condition);
        self.boolean_subquery(select, correlated)
    }

    /// `row operator ANY|ALL (query)`: TRUE is 2, NULL is 1, FALSE is 0, and the greatest (ANY) or least (ALL) decides.
    pub fn row_quantified(
        &mut self,
        row: &[ast::Expr],
        operator: CompareOperator,
        query: &ast::Query,
        all: bool,
    ) -> UserResult<Typed> {
        let Compared { source, condition, correlated } = self.compared(row, operator, query)?;
        let unknown = Expr::IsNull { operand: Box::new(condition.clone()), negated: false };
        let rank = Expr::Case {
            branches: vec![(condition, Expr::integer(2)), (unknown, Expr::integer(1))].into(),
            otherwise: Box::new(Expr::integer(0)),
        };
        let slot = self.new_slot()?;
        let aggregate = Aggregate {
            kind: if all { AggregateKind::Min } else { AggregateKind::Max },
            distinct: false,
            argument: Some(rank),
            argument_type: SqlType::Bigint,
            result_type: SqlType::Bigint,
        };
        let aggregation =
            Aggregation { slot, group_by: Vec::new(), sets: Vec::new(), aggregates: vec![aggregate], having: None };
        let is = |rank: i64| Expr::Compare {
            operator: CompareOperator::Equal,
            left: Box::new(Expr::column(slot, 0)),
            right: Box::new(Expr::integer(rank)),
        };
        let boolean = |value: bool| Expr::Constant(OwnedValue::Boolean(value));
        // Without any row ANY is false and ALL is true.
        let output = Expr::Case {
            branches: vec![(is(if all { 0 } else { 2 }), boolean(!all)), (is(1), Expr::null())].into(),
            otherwise: Box::new(boolean(all)),
        };
        self.boolean_subquery(block(source, Some(aggregation), output), correlated)
    }

    fn compared(&mut self, row: &[ast::Expr], operator: CompareOperator, query: &ast::Query) -> UserResult<Compared> {
        let mut operands = Vec::with_capacity(row.len());
        for expr in row {
            operands.push(self.expression(expr)?);
        }
        let (query, query_correlated) = self.subquery_body(query)?;
        if query.columns.len() != row.len() {
            return Err(UserError::compile(
                "42601",
                format!("a row of {} values is compared with a query of {} columns", row.len(), query.columns.len()),
            ));
        }
        let slot = self.new_slot()?;
        let pairs = operands
            .into_iter()
            .enumerate()
            .map(|(place, operand)| {
                (operand, Typed::new(Expr::column(slot, place as u16), query.columns[place].sql_type))
            })
            .collect();
        let condition = self.compare_pairs(pairs, operator)?.expr;
        let outside = condition.any(&mut |inner| match inner {
            Expr::Column { slot: found, .. } => *found != slot,
            Expr::Subquery { .. } => true,
            _ => false,
        });
        let input = Input::Derived { query: Box::new(query), correlated: query_correlated };
        let source = Source { slot, input, join: JoinKind::Inner, on: None, filter: None };
        Ok(Compared { source, condition, correlated: query_correlated || outside })
    }

    fn boolean_subquery(&mut self, select: Select, correlated: bool) -> UserResult<Typed> {
        let columns = vec![OutputColumn { name: "C1".to_owned(), sql_type: SqlType::Boolean }];
        let query = Query::of(QueryBody::Select(Box::new(select)), columns);
        let subquery = self.add_subquery(SubqueryKind::Scalar, query, correlated)?;
        Ok(Typed::boolean(Expr::Subquery { subquery, operand: None }))
    }
}

fn block(source: Source, aggregation: Option<Aggregation>, output: Expr) -> Select {
    Select { sources: vec![source], filter: None, aggregation, windowing: None, distinct: false, output: vec![output] }
}
