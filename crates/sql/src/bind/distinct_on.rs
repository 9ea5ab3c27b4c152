//! DISTINCT ON: of the rows that are equal in some expressions, the first by ORDER BY. The rows are
//! numbered by a window function in a derived table, of which those with the number 1 are taken.

use super::Binder;
use super::ordering::Tail;
use super::ordering::{OrderItem, is_null, ordinal};
use super::scope::fold_name;
use crate::parse::tokens::FerriteDialect;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::{Query, QueryBody, SortKey};
use sqlparser::ast;
use sqlparser::parser::Parser;

impl Binder<'_> {
    pub fn distinct_on(&mut self, select: &ast::Select, on: &[ast::Expr], tail: Tail<'_>) -> UserResult<Query> {
        let meant = |expr: &ast::Expr| meant(expr, &select.projection);
        let on = on.iter().map(meant).collect::<UserResult<Vec<_>>>()?;
        let order = tail.order_by.iter().map(|item| meant(item.expr)).collect::<UserResult<Vec<_>>>()?;
        // The same however it is written; what slips through is numbered as it says.
        let written = |expr: &ast::Expr| expr.to_string().to_uppercase();
        let named: Vec<String> = on.iter().map(written).collect();
        if order.iter().take(on.len()).any(|expr| !named.contains(&written(expr))) {
            return Err(UserError::compile("42P10", "ORDER BY must begin with the expressions of DISTINCT ON")
                .with_hint("order by them first, then by what decides which row is kept"));
        }
        let mut numbered = select.clone();
        numbered.distinct = None;
        numbered.top = None;
        let items = tail.order_by.iter().zip(&order);
        let order_by = items.map(|(item, expr)| item_of(item, expr.clone())).collect();
        numbered.projection.push(unnamed(row_number(on, order_by)?));
        numbered.projection.extend(order.into_iter().map(unnamed));
        let query = self.select(&numbered, Tail::default())?;
        let visible = query.columns.len() - tail.order_by.len() - 1;
        let (mut first, columns) = self.around(query, Vec::new())?;
        first.columns.truncate(visible);
        let mut output = columns[..visible].to_vec();
        let mut keys = Vec::with_capacity(tail.order_by.len());
        for (item, key) in tail.order_by.iter().zip(&columns[visible + 1..]) {
            let descending = item.descending;
            for key in item.nulls_apart.then(|| is_null(key.clone())).into_iter().chain([key.clone()]) {
                keys.push(SortKey { column: output.len() as u16, descending });
                output.push(key);
            }
        }
        if let QueryBody::Select(select) = &mut first.body {
            select.output = output;
            select.filter = Some(Expr::Compare {
                operator: CompareOperator::Equal,
                left: Box::new(columns[visible].clone()),
                right: Box::new(Expr::integer(1)),
            });
        }
        first.order_by = keys;
        first.limit = tail.limit;
        first.offset = tail.offset;
        Ok(first)
    }
}

/// What a number or an alias of the SELECT list stands for.
fn meant(expr: &ast::Expr, items: &[ast::SelectItem]) -> UserResult<ast::Expr> {
    if let Some(position) = ordinal(expr, items.len())? {
        return match &items[position] {
            ast::SelectItem::UnnamedExpr(item) | ast::SelectItem::ExprWithAlias { expr: item, .. } => Ok(item.clone()),
            _ => Err(UserError::not_supported("the number of a * with DISTINCT ON").with_hint("name the column")),
        };
    }
    let ast::Expr::Identifier(ident) = expr else { return Ok(expr.clone()) };
    let name = fold_name(ident);
    let aliased = items.iter().find_map(|item| match item {
        ast::SelectItem::ExprWithAlias { expr, alias } if fold_name(alias) == name => Some(expr),
        _ => None,
    });
    Ok(aliased.unwrap_or(expr).clone())
}

fn unnamed(expr: ast::Expr) -> ast::SelectItem {
    ast::SelectItem::UnnamedExpr(expr)
}

fn item_of(item: &OrderItem<'_>, expr: ast::Expr) -> ast::OrderByExpr {
    let sort = Some(if item.descending { ast::OrderBySort::Desc } else { ast::OrderBySort::Asc });
    let nulls_first = item.nulls_apart.then_some(item.descending);
    ast::OrderByExpr { expr, options: ast::OrderByOptions { sort, nulls_first }, with_fill: None }
}

fn row_number(partition_by: Vec<ast::Expr>, order_by: Vec<ast::OrderByExpr>) -> UserResult<ast::Expr> {
    let parsed =
        Parser::new(&FerriteDialect).try_with_sql("ROW_NUMBER() OVER ()").and_then(|mut parser| parser.parse_expr());
    let Ok(ast::Expr::Function(mut function)) = parsed else {
        return Err(UserError::internal("a window function was not understood"));
    };
    function.over = Some(ast::WindowType::WindowSpec(ast::WindowSpec {
        window_name: None,
        partition_by,
        order_by,
        window_frame: None,
    }));
    Ok(ast::Expr::Function(function))
}
