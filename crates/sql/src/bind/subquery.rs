//! Subqueries in expressions: EXISTS, ANY and ALL, scalar ones.

use super::Binder;
use super::comparison::{compare_operator, compared_with, row_of};
use super::types::Typed;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::{Query, SubqueryKind};
use ferrite_value::SqlType;
use sqlparser::ast;

impl Binder<'_> {
    pub fn any_all(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        all: bool,
    ) -> UserResult<Typed> {
        let operator = compare_operator(op)
            .ok_or_else(|| UserError::not_supported(format!("the operator {op} with ANY or ALL")))?;
        let query = match right {
            ast::Expr::Subquery(query) => query,
            ast::Expr::Nested(inner) => match inner.as_ref() {
                ast::Expr::Subquery(query) => query,
                _ => return Err(UserError::not_supported("ANY or ALL over anything but a query")),
            },
            // The array parameter of PostgreSQL's habit.
            ast::Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => {
                return match (operator, all) {
                    (CompareOperator::Equal, false) => self.in_array(left, right, false),
                    (CompareOperator::NotEqual, true) => self.in_array(left, right, true),
                    _ => Err(UserError::not_supported("an array with such an operator")
                        .with_hint("arrays go with = ANY (?), <> ALL (?), IN ? and NOT IN ?")),
                };
            }
            _ => return Err(UserError::not_supported("ANY or ALL over anything but a query")),
        };
        self.quantified(left, operator, query, all)
    }

    /// `left operator ANY|ALL (query)`
    pub fn quantified(
        &mut self,
        left: &ast::Expr,
        operator: CompareOperator,
        query: &ast::Query,
        all: bool,
    ) -> UserResult<Typed> {
        if let Some(row) = row_of(left) {
            return self.row_quantified(row, operator, query, all);
        }
        let operand = self.expression(left)?;
        let (mut bound, correlated) = self.subquery_body(query)?;
        single_column(&bound)?;
        // Only the types matter here; a conversion of the query's side is done in its output.
        let (operand_expr, operator, inner_expr) = self.comparable_with_output(operand, operator, &bound, 0)?;
        let kind = if all { SubqueryKind::All(operator) } else { SubqueryKind::Any(operator) };
        if let Expr::Cast { to, .. } = inner_expr {
            self.cast_output(&mut bound, 0, to.sql_type)?;
        }
        let subquery = self.add_subquery(kind, bound, correlated)?;
        Ok(Typed::boolean(Expr::Subquery { subquery, operand: Some(Box::new(operand_expr)) }))
    }

    pub fn exists(&mut self, query: &ast::Query, negated: bool) -> UserResult<Typed> {
        // EXISTS (SELECT 1/0 FROM t) asks for rows, and evaluates none.
        self.list_is_unread = query.with.is_none()
            && matches!(query.body.as_ref(), ast::SetExpr::Select(select) if select.distinct.is_none());
        let (bound, correlated) = self.subquery_body(query)?;
        let subquery = self.add_subquery(SubqueryKind::Exists, bound, correlated)?;
        let expr = Expr::Subquery { subquery, operand: None };
        Ok(Typed::boolean(if negated { Expr::Not(Box::new(expr)) } else { expr }))
    }

    pub fn scalar_subquery(&mut self, query: &ast::Query) -> UserResult<Typed> {
        let (bound, correlated) = self.subquery_body(query)?;
        self.scalar(bound, correlated)
    }

    pub fn scalar(&mut self, bound: Query, correlated: bool) -> UserResult<Typed> {
        let sql_type = single_column(&bound)?;
        let subquery = self.add_subquery(SubqueryKind::Scalar, bound, correlated)?;
        Ok(self.read(Expr::Subquery { subquery, operand: None }, sql_type))
    }

    /// [`Binder::comparable`] with an output column of a query, which stands as a column of its
    /// own.
    pub fn comparable_with_output(
        &mut self,
        operand: Typed,
        operator: CompareOperator,
        query: &Query,
        position: usize,
    ) -> UserResult<(Expr, CompareOperator, Expr)> {
        let column = Expr::column(0, position as u16);
        match (operand.sql_type, self.output_type(query, position)) {
            (_, Some(sql_type)) => return self.comparable_by(operand, operator, Typed::new(column, sql_type)),
            (Some(_), None) => self.propose_output(query, position, compared_with(&operand)),
            (None, None) => self.compared_with_undecided(&operand.expr, query, position)?,
        }
        Ok((operand.expr, operator, column))
    }
}

fn single_column(query: &Query) -> UserResult<SqlType> {
    match query.columns.as_slice() {
        [column] => Ok(column.sql_type),
        columns => {
            Err(UserError::compile("42601", format!("the subquery must have one column, not {}", columns.len())))
        }
    }
}
