//! ORDER BY: by positions and names of the SELECT list, and by expressions beyond it.

use super::Binder;
use super::projection::Output;
use super::scope::fold_name;
use super::size::check_count;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_expr::Expr;
use ferrite_plan::walk::rewrite;
use ferrite_plan::{Query, QueryBody, SortKey};
use sqlparser::ast;

/// What stands around a query's body.
#[derive(Default)]
pub(crate) struct Tail<'a> {
    pub order_by: Vec<OrderItem<'a>>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
}

impl Tail<'_> {
    pub fn is_empty(&self) -> bool {
        self.order_by.is_empty() && self.limit.is_none() && self.offset.is_none()
    }
}

/// One expression of ORDER BY.
#[derive(Clone, Copy)]
pub(crate) struct OrderItem<'a> {
    pub expr: &'a ast::Expr,
    pub descending: bool,
    /// NULLs stand at the other end than where the lowest value would: whether it is NULL is a key
    /// before.
    pub nulls_apart: bool,
}

impl Binder<'_> {
    /// The sort keys; what they need beyond the SELECT list is added to `exprs` as hidden columns.
    pub fn order_by(
        &mut self,
        items: &[OrderItem<'_>],
        outputs: &[Output],
        exprs: &mut Vec<Expr>,
    ) -> UserResult<Vec<SortKey>> {
        check_count(items.len(), limits::SORT_KEYS_MAX, "keys in ORDER BY")?;
        let mut keys: Vec<SortKey> = Vec::with_capacity(items.len());
        for OrderItem { expr: item, descending, nulls_apart } in items {
            let named = match item {
                ast::Expr::Identifier(ident) => {
                    let name = fold_name(ident);
                    outputs.iter().position(|output| output.name == name)
                }
                _ => None,
            };
            let position = match (named, ordinal(item, outputs.len())?) {
                (Some(position), _) | (None, Some(position)) => position,
                (None, None) => {
                    let typed = self.expression(item)?;
                    match exprs.iter().position(|expr| *expr == typed.expr) {
                        Some(position) => position,
                        None => {
                            exprs.push(typed.expr);
                            exprs.len() - 1
                        }
                    }
                }
            };
            if keys.iter().any(|key| usize::from(key.column) == position) {
                continue;
            }
            if *nulls_apart {
                exprs.push(is_null(exprs[position].clone()));
                keys.push(SortKey { column: (exprs.len() - 1) as u16, descending: *descending });
            }
            keys.push(SortKey { column: position as u16, descending: *descending });
        }
        Ok(keys)
    }

    /// ORDER BY and LIMIT over a body whose only names are its output columns.
    pub fn finish_by_columns(&mut self, mut query: Query, tail: Tail<'_>) -> UserResult<Query> {
        let by_column = |expr: &ast::Expr, query: &Query| match expr {
            ast::Expr::Identifier(ident) => {
                let name = fold_name(ident);
                Ok(query.columns.iter().position(|column| column.name == name))
            }
            other => ordinal(other, query.columns.len()),
        };
        let mut order_by = Vec::with_capacity(tail.order_by.len());
        for item in &tail.order_by {
            match by_column(item.expr, &query)?.filter(|_| !item.nulls_apart) {
                Some(column) => order_by.push(SortKey { column: column as u16, descending: item.descending }),
                None => return self.ordered_by_expressions(query, tail),
            }
        }
        query.order_by.append(&mut order_by);
        query.limit = tail.limit.or(query.limit.take());
        query.offset = tail.offset.or(query.offset.take());
        Ok(query)
    }

    fn ordered_by_expressions(&mut self, query: Query, tail: Tail<'_>) -> UserResult<Query> {
        let width = query.columns.len();
        let mut items = Vec::new();
        let mut order_by = Vec::with_capacity(tail.order_by.len());
        for item in &tail.order_by {
            let column = match ordinal(item.expr, width)? {
                Some(column) => column,
                None => {
                    items.push(item.expr);
                    width + items.len() - 1
                }
            };
            order_by.push((column, *item));
        }
        let (mut ordered, mut output) = self.around(query, items)?;
        let mut keys = Vec::with_capacity(order_by.len());
        for (column, item) in order_by {
            let descending = item.descending;
            if item.nulls_apart {
                output.push(is_null(output[column].clone()));
                keys.push(SortKey { column: (output.len() - 1) as u16, descending });
            }
            keys.push(SortKey { column: column as u16, descending });
        }
        let order_by = keys;
        if let QueryBody::Select(select) = &mut ordered.body {
            select.output = output;
        }
        ordered.order_by = order_by;
        ordered.limit = tail.limit;
        ordered.offset = tail.offset;
        Ok(ordered)
    }

    /// ORDER BY expressions over the columns that DISTINCT leaves.
    pub fn ordered_after_distinct(&mut self, query: Query, mut hidden: Vec<Expr>) -> UserResult<Query> {
        let QueryBody::Select(select) = &query.body else { return Err(UserError::internal("DISTINCT is of a SELECT")) };
        let shown = select.output.clone();
        let (mut ordered, columns) = self.around(query, Vec::new())?;
        let own = columns.first().map(column_slot);
        for expr in &mut hidden {
            rewrite(expr, &mut |inner| {
                shown.iter().position(|other| other == inner).map(|place| columns[place].clone())
            });
            let other = expr.any(&mut |inner| matches!(inner, Expr::Column { .. }) && Some(column_slot(inner)) != own);
            if other {
                return Err(UserError::compile(
                    "42803",
                    "with DISTINCT, ORDER BY takes only columns of the SELECT list",
                )
                .with_hint("add the expression to the SELECT list, or use GROUP BY"));
            }
        }
        if let QueryBody::Select(select) = &mut ordered.body {
            select.output.append(&mut hidden);
        }
        Ok(ordered)
    }
}

fn column_slot(expr: &Expr) -> Option<u16> {
    match expr {
        Expr::Column { slot, .. } => Some(*slot),
        _ => None,
    }
}

pub(crate) fn order_items(order_by: &ast::OrderBy) -> UserResult<Vec<OrderItem<'_>>> {
    let ast::OrderByKind::Expressions(items) = &order_by.kind else {
        return Err(UserError::not_supported("ORDER BY ALL"));
    };
    items.iter().map(order_item).collect()
}

/// What is ordered by, and how.
pub(crate) fn order_item(item: &ast::OrderByExpr) -> UserResult<OrderItem<'_>> {
    let descending = match &item.options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(_) => return Err(UserError::not_supported("ORDER BY USING")),
    };
    // NULL sorts lowest: first ascending, last descending.
    let nulls_apart = item.options.nulls_first.is_some_and(|first| first == descending);
    Ok(OrderItem { expr: &item.expr, descending, nulls_apart })
}

/// The key that comes before an expression whose NULLs stand apart.
pub(crate) fn is_null(expr: Expr) -> Expr {
    Expr::IsNull { operand: Box::new(expr), negated: false }
}

/// The position that a number in ORDER BY or GROUP BY means.
pub(crate) fn ordinal(expr: &ast::Expr, count: usize) -> UserResult<Option<usize>> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let ast::Value::Number(digits, _) = &value.value else { return Ok(None) };
    match digits.parse::<usize>() {
        Ok(position) if (1..=count).contains(&position) => Ok(Some(position - 1)),
        _ => {
            let error = UserError::compile("42601", format!("column number {digits} is not in the SELECT list"));
            Err(super::place::at(error, expr).with_detail(format!("it has {count}")))
        }
    }
}
