//! Row values compared with queries: `(a, b) IN (SELECT x, y ...)`, `(a, b) = (SELECT x, y ...)`
//! and their kin.
//!
//! IN a query that refers to nothing outside is a look-up among its rows. The others become scalar
//! subqueries over the query as a derived table, which is computed once where it refers to nothing
//! outside.

use super::Binder;
use super::types::Typed;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{Aggregate, AggregateKind, CompareOperator, Expr, Function};
use ferrite_plan::{Aggregation, Input, JoinKind, OutputColumn, Query, QueryBody, Select, Source, SubqueryKind};
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
        let (operands, query, correlated) = self.row_and_query(row, query)?;
        let compared = self.compared(operands, operator, query, correlated)?;
        let correlated = compared.correlated;
        let select = block(compared.source, None, compared.condition);
        self.boolean_subquery(select, correlated)
    }

    /// `(query) operator (query)`, of one column each or of several.
    pub fn queries_compared(
        &mut self,
        left: &ast::Query,
        operator: CompareOperator,
        right: &ast::Query,
    ) -> UserResult<Typed> {
        let (left, left_correlated) = self.subquery_body(left)?;
        let (right, right_correlated) = self.subquery_body(right)?;
        if left.columns.len() == 1 && right.columns.len() == 1 {
            let left = self.scalar(left, left_correlated)?;
            let right = self.scalar(right, right_correlated)?;
            return self.compare(left, operator, right);
        }
        if left.columns.len() != right.columns.len() {
            return Err(UserError::compile(
                "42601",
                format!("a query of {} columns is compared with one of {}", left.columns.len(), right.columns.len()),
            ));
        }
        let slot = self.plan.new_slot()?;
        self.note_columns_of(slot, &left);
        let row = left.columns.iter().enumerate();
        let operands =
            row.map(|(place, column)| self.read(Expr::column(slot, place as u16), column.sql_type)).collect();
        let mut compared = self.compared(operands, operator, right, right_correlated)?;
        let input = Input::Derived { query: Box::new(left), correlated: left_correlated };
        let first = Source { slot, input, join: JoinKind::Inner, on: None, filter: None };
        // No row on a side makes none here, and two make two: NULL and an error, as of a single
        // value.
        let condition = std::mem::replace(&mut compared.condition, Expr::null());
        let mut select = block(compared.source, None, condition);
        select.sources.insert(0, first);
        self.boolean_subquery(select, left_correlated || right_correlated)
    }

    /// `row operator ANY|ALL (query)`: TRUE is 2, NULL is 1, FALSE is 0, and the greatest (ANY) or
    /// least (ALL) decides.
    pub fn row_quantified(
        &mut self,
        row: &[ast::Expr],
        operator: CompareOperator,
        query: &ast::Query,
        all: bool,
    ) -> UserResult<Typed> {
        let (operands, query, correlated) = self.row_and_query(row, query)?;
        if !correlated && matches!((operator, all), (CompareOperator::Equal, false) | (CompareOperator::NotEqual, true))
        {
            return self.row_among(operands, query, all);
        }
        let Compared { source, condition, correlated } = self.compared(operands, operator, query, correlated)?;
        let unknown = Expr::IsNull { operand: Box::new(condition.clone()), negated: false };
        let rank = Expr::Case {
            branches: vec![(condition, Expr::integer(2)), (unknown, Expr::integer(1))].into(),
            otherwise: Box::new(Expr::integer(0)),
        };
        let slot = self.plan.new_slot()?;
        let aggregate = Aggregate {
            kind: if all { AggregateKind::Min } else { AggregateKind::Max },
            distinct: false,
            argument: Some(rank),
            argument_type: SqlType::Bigint,
            result_type: SqlType::Bigint,
            user: None,
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

    /// `row IN (query)`, or NOT IN.
    fn row_among(&mut self, operands: Vec<Typed>, mut query: Query, negated: bool) -> UserResult<Typed> {
        let mut values = Vec::with_capacity(operands.len());
        for (place, operand) in operands.into_iter().enumerate() {
            // Only the types matter here; a conversion of the query's side is done in its output.
            let (value, _, inner) = self.comparable_with_output(operand, CompareOperator::Equal, &query, place)?;
            if let Expr::Cast { to, .. } = inner {
                self.cast_output(&mut query, place, to.sql_type)?;
            }
            values.push(value);
        }
        let operand = match values.len() {
            1 => values.remove(0),
            _ => Expr::Call { function: Function::Together, arguments: values.into() },
        };
        let subquery = self.add_subquery(SubqueryKind::Among { unknown: true }, query, false)?;
        let among = Expr::Subquery { subquery, operand: Some(Box::new(operand)) };
        Ok(Typed::boolean(if negated { Expr::Not(Box::new(among)) } else { among }))
    }

    /// Both sides, and whether the query refers to rows outside.
    fn row_and_query(&mut self, row: &[ast::Expr], query: &ast::Query) -> UserResult<(Vec<Typed>, Query, bool)> {
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
        Ok((operands, query, query_correlated))
    }

    fn compared(
        &mut self,
        operands: Vec<Typed>,
        operator: CompareOperator,
        query: Query,
        query_correlated: bool,
    ) -> UserResult<Compared> {
        let slot = self.plan.new_slot()?;
        self.note_columns_of(slot, &query);
        let pairs = operands
            .into_iter()
            .enumerate()
            .map(|(place, operand)| {
                (operand, self.read(Expr::column(slot, place as u16), query.columns[place].sql_type))
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
