//! Queries: SELECT blocks, set operations, VALUES, with ORDER BY and LIMIT.

use super::Binder;
use super::scope::{Scope, fold_name, object_name};
use super::types::{Typed, common_type, same_kind};
use crate::plan::{
    Aggregation, Input, JoinKind, OutputColumn, Query, QueryBody, Select, SetOperator, SortKey, Source, Subquery,
    SubqueryKind,
};
use crate::planner::{self, Arranged};
use crate::walk::{conjunction, for_each_expr_mut, rewrite, split_conjunction};
use ferrite_base::{UserError, UserResult};
use ferrite_expr::Expr;
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use sqlparser::ast;

/// What stands around a query's body.
#[derive(Default)]
struct Tail<'a> {
    order_by: Vec<(&'a ast::Expr, bool)>,
    limit: Option<Expr>,
    offset: Option<Expr>,
}

/// Output columns of a SELECT while it is bound.
struct Output {
    name: String,
    typed: Typed,
}

impl Binder<'_> {
    pub fn query(&mut self, query: &ast::Query) -> UserResult<Query> {
        self.deeper(|binder| binder.query_inner(query))
    }

    /// A query inside another; says whether it refers to rows outside.
    pub fn subquery_body(&mut self, query: &ast::Query) -> UserResult<(Query, bool)> {
        self.in_frame(|binder| binder.query(query))
    }

    pub fn add_subquery(&mut self, kind: SubqueryKind, query: Query, correlated: bool) -> UserResult<u16> {
        let index = u16::try_from(self.subqueries.len()).map_err(|_| UserError::limit("too many subqueries"))?;
        self.subqueries.push(Subquery { kind, query, correlated });
        Ok(index)
    }

    fn query_inner(&mut self, query: &ast::Query) -> UserResult<Query> {
        if query.with.is_some() {
            return Err(UserError::not_supported("WITH"));
        }
        if !query.locks.is_empty() || query.for_clause.is_some() {
            return Err(UserError::not_supported("FOR UPDATE").with_hint("every transaction runs alone; leave it out"));
        }
        if query.settings.is_some() || query.format_clause.is_some() || !query.pipe_operators.is_empty() {
            return Err(UserError::not_supported("a clause after the query"));
        }
        let tail = self.tail(query)?;
        self.set_expr(&query.body, tail)
    }

    fn tail<'a>(&mut self, query: &'a ast::Query) -> UserResult<Tail<'a>> {
        let mut tail = Tail::default();
        if let Some(order_by) = &query.order_by {
            tail.order_by = order_items(order_by)?;
        }
        match &query.limit_clause {
            None => {}
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                tail.limit = limit.as_ref().map(|limit| self.row_count("LIMIT", limit)).transpose()?;
                tail.offset = offset.as_ref().map(|offset| self.row_count("OFFSET", &offset.value)).transpose()?;
            }
            Some(_) => return Err(UserError::not_supported("this form of LIMIT")),
        }
        if let Some(fetch) = &query.fetch {
            if fetch.with_ties || fetch.percent || tail.limit.is_some() {
                return Err(UserError::not_supported("this form of FETCH"));
            }
            tail.limit = match &fetch.quantity {
                Some(quantity) => Some(self.row_count("FETCH", quantity)?),
                None => Some(Expr::integer(1)),
            };
        }
        Ok(tail)
    }

    /// LIMIT, OFFSET, TOP: a constant, parameter or variable.
    pub fn row_count(&mut self, clause: &str, expr: &ast::Expr) -> UserResult<Expr> {
        let mut typed = self.expression(expr)?;
        self.settle(&mut typed, ColumnType::fixed(SqlType::Bigint));
        let integer = typed.sql_type.is_some_and(SqlType::is_integer);
        let negative = matches!(typed.constant(), Some(OwnedValue::Integer(count)) if *count < 0);
        if !integer || negative || typed.expr.any(&mut |inner| matches!(inner, Expr::Column { .. })) {
            return Err(UserError::compile("42601", format!("{clause} takes a number of rows or a parameter")));
        }
        Ok(typed.expr)
    }

    fn set_expr(&mut self, body: &ast::SetExpr, tail: Tail<'_>) -> UserResult<Query> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, tail),
            ast::SetExpr::Values(values) => self.values(values, tail),
            ast::SetExpr::Query(inner) => {
                let mut query = self.query(inner)?;
                let bare = query.order_by.is_empty() && query.limit.is_none() && query.offset.is_none();
                let no_tail = tail.order_by.is_empty() && tail.limit.is_none() && tail.offset.is_none();
                if !bare && !no_tail {
                    return Err(UserError::not_supported("ORDER BY or LIMIT both inside and after parentheses"));
                }
                if bare {
                    self.finish_by_columns(&mut query, tail)?;
                }
                Ok(query)
            }
            ast::SetExpr::SetOperation { .. } => self.set_operation(body, tail),
            _ => Err(UserError::not_supported("this kind of query")),
        }
    }

    /// UNION, INTERSECT, EXCEPT. Chains are deep trees on the left, so they are walked, not recursed.
    fn set_operation(&mut self, body: &ast::SetExpr, tail: Tail<'_>) -> UserResult<Query> {
        let mut operations = Vec::new();
        let mut current = body;
        while let ast::SetExpr::SetOperation { left, op, set_quantifier, right } = current {
            let operator = match op {
                ast::SetOperator::Union => SetOperator::Union,
                ast::SetOperator::Intersect => SetOperator::Intersect,
                ast::SetOperator::Except | ast::SetOperator::Minus => SetOperator::Except,
            };
            let all = match set_quantifier {
                ast::SetQuantifier::All => true,
                ast::SetQuantifier::Distinct | ast::SetQuantifier::None => false,
                _ => return Err(UserError::not_supported("BY NAME")),
            };
            operations.push((operator, all, right.as_ref()));
            current = left;
        }
        if operations.len() > ferrite_base::limits::NESTING_MAX {
            return Err(UserError::limit("too many set operations in one query"));
        }
        let mut query = self.set_expr(current, Tail::default())?;
        for (operator, all, right) in operations.into_iter().rev() {
            let mut right = self.deeper(|binder| binder.set_expr(right, Tail::default()))?;
            if query.columns.len() != right.columns.len() {
                return Err(UserError::compile(
                    "42601",
                    "both sides of a set operation must have the same number of columns",
                ));
            }
            let mut columns = query.columns.clone();
            for (position, column) in columns.iter_mut().enumerate() {
                let (from_left, from_right) = (column.sql_type, right.columns[position].sql_type);
                let left_null = output_is_null(&query, position);
                let right_null = output_is_null(&right, position);
                let common = common_type((!left_null).then_some(from_left), (!right_null).then_some(from_right))?;
                column.sql_type = common.unwrap_or(from_left);
                cast_output(&mut query, position, column.sql_type)?;
                cast_output(&mut right, position, column.sql_type)?;
            }
            query = Query {
                body: QueryBody::SetOperation { operator, all, left: Box::new(query), right: Box::new(right) },
                columns,
                order_by: Vec::new(),
                presorted: false,
                limit: None,
                offset: None,
            };
        }
        self.finish_by_columns(&mut query, tail)?;
        Ok(query)
    }

    /// ORDER BY over a body whose only names are its output columns.
    fn finish_by_columns(&mut self, query: &mut Query, tail: Tail<'_>) -> UserResult<()> {
        for (expr, descending) in tail.order_by {
            let column = match expr {
                ast::Expr::Identifier(ident) => {
                    let name = fold_name(ident);
                    query
                        .columns
                        .iter()
                        .position(|column| column.name == name)
                        .ok_or_else(|| UserError::not_found(name))?
                }
                other => match ordinal(other, query.columns.len())? {
                    Some(position) => position,
                    None => {
                        return Err(UserError::not_supported("ORDER BY an expression after a set operation")
                            .with_hint("order by a column's name or number"));
                    }
                },
            };
            query.order_by.push(SortKey { column: column as u16, descending });
        }
        query.limit = tail.limit.or(query.limit.take());
        query.offset = tail.offset.or(query.offset.take());
        Ok(())
    }

    fn values(&mut self, values: &ast::Values, tail: Tail<'_>) -> UserResult<Query> {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows = Vec::with_capacity(values.rows.len());
        let mut types: Vec<Option<SqlType>> = vec![None; width];
        for row in &values.rows {
            if row.content.len() != width || width == 0 {
                return Err(UserError::compile("42601", "rows of VALUES must have the same number of columns"));
            }
            let mut bound = Vec::with_capacity(width);
            for (position, expr) in row.content.iter().enumerate() {
                let typed = self.expression(expr)?;
                types[position] = common_type(types[position], typed.sql_type)?;
                bound.push(typed);
            }
            rows.push(bound);
        }
        let mut bound_rows = Vec::with_capacity(rows.len());
        for row in rows {
            let mut bound = Vec::with_capacity(width);
            for (mut typed, sql_type) in row.into_iter().zip(&types) {
                let sql_type = sql_type.unwrap_or(SqlType::Varchar);
                self.settle(&mut typed, ColumnType::unbounded(sql_type));
                bound.push(super::types::to_kind(typed, sql_type)?);
            }
            bound_rows.push(bound);
        }
        let columns = types
            .into_iter()
            .enumerate()
            .map(|(position, sql_type)| OutputColumn {
                name: format!("C{}", position + 1),
                sql_type: sql_type.unwrap_or(SqlType::Varchar),
            })
            .collect();
        let mut query = Query {
            body: QueryBody::Values(bound_rows),
            columns,
            order_by: Vec::new(),
            presorted: false,
            limit: None,
            offset: None,
        };
        self.finish_by_columns(&mut query, tail)?;
        Ok(query)
    }

    fn select(&mut self, select: &ast::Select, tail: Tail<'_>) -> UserResult<Query> {
        refuse_clauses(select)?;
        self.facts.open_block();
        self.push_scope(Scope::default());
        let result = self.select_in_scope(select, tail);
        self.pop_scope();
        self.facts.close_block();
        result
    }

    fn select_in_scope(&mut self, select: &ast::Select, mut tail: Tail<'_>) -> UserResult<Query> {
        let distinct = match &select.distinct {
            None | Some(ast::Distinct::All) => false,
            Some(ast::Distinct::Distinct) => true,
            Some(ast::Distinct::On(_)) => return Err(UserError::not_supported("DISTINCT ON")),
        };
        if let Some(top) = &select.top {
            let count = self.top(top)?;
            if tail.limit.replace(count).is_some() {
                return Err(UserError::syntax("a query has either TOP or LIMIT"));
            }
        }
        let mut conjuncts = Vec::new();
        let pending = self.bind_from(&select.from, &mut conjuncts)?;
        let local_slots: Vec<u16> = pending.iter().map(|source| source.slot).collect();
        if let Some(selection) = &select.selection {
            split_conjunction(self.condition(selection)?, &mut conjuncts);
        }
        let first_subquery = self.subqueries.len();
        let groups = self.group_by(select)?;
        let group_slot = if groups.is_empty() { None } else { Some(self.new_slot()?) };
        if let Some(scope) = self.scope() {
            scope.aggregates.allowed = true;
            scope.aggregates.slot = group_slot;
            scope.aggregates.group_count = groups.len() as u16;
        }
        let outputs = self.projection(&select.projection)?;
        if let Some(scope) = self.scope() {
            scope.aliases = outputs.iter().map(|output| (output.name.clone(), output.typed.clone())).collect();
        }
        let mut having = Vec::new();
        if let Some(condition) = &select.having {
            split_conjunction(self.condition(condition)?, &mut having);
        }
        let mut exprs: Vec<Expr> = outputs.iter().map(|output| output.typed.expr.clone()).collect();
        let order_by = self.order_by(&tail.order_by, &outputs, &mut exprs)?;
        if distinct && exprs.len() > outputs.len() {
            return Err(UserError::compile("42803", "with DISTINCT, ORDER BY takes only columns of the SELECT list"));
        }
        let aggregates = self.scope().map(|scope| std::mem::take(&mut scope.aggregates)).unwrap_or_default();
        let aggregated = aggregates.slot.is_some() || select.having.is_some();
        let aggregation = if aggregated {
            let slot = match aggregates.slot {
                Some(slot) => slot,
                None => self.new_slot()?,
            };
            let group_by: Vec<Expr> = groups;
            let grouping = Grouping { group_by: &group_by, slot, local_slots: &local_slots };
            exprs.iter_mut().chain(&mut having).try_for_each(|expr| grouping.apply(expr))?;
            for subquery in &mut self.subqueries[first_subquery..] {
                let mut result = Ok(());
                for_each_expr_mut(&mut subquery.query, &mut |expr| {
                    if result.is_ok() {
                        result = grouping.apply(expr);
                    }
                });
                result?;
            }
            Some(Aggregation { slot, group_by, aggregates: aggregates.found, having: conjunction(having) })
        } else {
            None
        };
        let wanted: Vec<(Expr, bool)> = if aggregated || distinct {
            Vec::new()
        } else {
            order_by.iter().map(|key| (exprs[usize::from(key.column)].clone(), key.descending)).collect()
        };
        let Arranged { mut sources, filter, presorted } = planner::arrange(self, pending, conjuncts, &wanted)?;
        if sources.is_empty() {
            let slot = self.new_slot()?;
            sources.push(Source { slot, input: Input::One, join: JoinKind::Inner, on: None, filter: None });
        }
        if let Some(aggregation) = &aggregation {
            self.facts.grouped(aggregation);
        }
        let columns = outputs
            .into_iter()
            .map(|output| OutputColumn { name: output.name, sql_type: output.typed.decided_type() })
            .collect();
        Ok(Query {
            body: QueryBody::Select(Box::new(Select { sources, filter, aggregation, distinct, output: exprs })),
            columns,
            presorted: presorted && !order_by.is_empty(),
            order_by,
            limit: tail.limit,
            offset: tail.offset,
        })
    }

    fn top(&mut self, top: &ast::Top) -> UserResult<Expr> {
        if top.percent || top.with_ties {
            return Err(UserError::not_supported("TOP PERCENT and WITH TIES"));
        }
        match &top.quantity {
            Some(ast::TopQuantity::Constant(count)) => Ok(Expr::integer(i64::try_from(*count).unwrap_or(i64::MAX))),
            Some(ast::TopQuantity::Expr(expr)) => self.row_count("TOP", expr),
            None => Err(UserError::syntax("TOP takes a number of rows or a parameter")),
        }
    }

    /// GROUP BY: expressions, or names and numbers of the SELECT list.
    fn group_by(&mut self, select: &ast::Select) -> UserResult<Vec<Expr>> {
        let exprs = match &select.group_by {
            ast::GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => exprs,
            _ => return Err(UserError::not_supported("GROUP BY ALL and modifiers of GROUP BY")),
        };
        let mut groups: Vec<Expr> = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let bound = match ordinal(expr, select.projection.len())? {
                Some(position) => match &select.projection[position] {
                    ast::SelectItem::UnnamedExpr(item) | ast::SelectItem::ExprWithAlias { expr: item, .. } => {
                        self.expression(item)?
                    }
                    _ => return Err(UserError::not_supported("GROUP BY the number of a *")),
                },
                None => match self.expression(expr) {
                    Err(error) if error.code() == "42704" => match aliased(expr, &select.projection) {
                        Some(item) => self.expression(item)?,
                        None => return Err(error),
                    },
                    result => result?,
                },
            };
            if !groups.contains(&bound.expr) {
                groups.push(bound.expr);
            }
        }
        Ok(groups)
    }

    fn projection(&mut self, items: &[ast::SelectItem]) -> UserResult<Vec<Output>> {
        let mut outputs: Vec<Output> = Vec::with_capacity(items.len());
        for item in items {
            match item {
                ast::SelectItem::UnnamedExpr(expr) => {
                    let name = implied_name(expr).unwrap_or_else(|| format!("C{}", outputs.len() + 1));
                    let typed = self.output_expression(expr)?;
                    outputs.push(Output { name, typed });
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    let typed = self.output_expression(expr)?;
                    outputs.push(Output { name: fold_name(alias), typed });
                }
                ast::SelectItem::Wildcard(_) => self.expand(None, &mut outputs)?,
                ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let name = object_name(name)?;
                    self.expand(Some(&name), &mut outputs)?;
                }
                _ => return Err(UserError::not_supported("this kind of item in SELECT")),
            }
        }
        if outputs.is_empty() {
            return Err(UserError::syntax("SELECT has no columns"));
        }
        if outputs.len() > ferrite_base::limits::TABLE_COLUMNS_MAX {
            return Err(UserError::limit(format!(
                "SELECT has more than {} columns",
                ferrite_base::limits::TABLE_COLUMNS_MAX
            )));
        }
        Ok(outputs)
    }

    fn output_expression(&mut self, expr: &ast::Expr) -> UserResult<Typed> {
        let mut typed = self.expression(expr)?;
        self.settle(&mut typed, ColumnType::unbounded(SqlType::Varchar));
        Ok(typed)
    }

    fn expand(&mut self, qualifier: Option<&str>, outputs: &mut Vec<Output>) -> UserResult<()> {
        let Some(scope) = self.scope() else { return Err(UserError::internal("* outside a query")) };
        let mut known = false;
        for source in &scope.sources {
            if qualifier.is_some_and(|qualifier| qualifier != source.name) {
                continue;
            }
            known = true;
            for (position, column) in source.columns.iter().enumerate() {
                if column.merged && qualifier.is_none() {
                    continue;
                }
                let typed = Typed::new(Expr::column(source.slot, position as u16), column.sql_type);
                outputs.push(Output { name: column.name.clone(), typed });
            }
        }
        match (known, qualifier) {
            (true, _) => Ok(()),
            (false, Some(qualifier)) => Err(UserError::not_found(qualifier)),
            (false, None) => Err(UserError::syntax("SELECT * needs FROM")),
        }
    }

    /// The sort keys; what they need beyond the SELECT list is added to `exprs` as hidden columns.
    fn order_by(
        &mut self,
        items: &[(&ast::Expr, bool)],
        outputs: &[Output],
        exprs: &mut Vec<Expr>,
    ) -> UserResult<Vec<SortKey>> {
        let mut keys: Vec<SortKey> = Vec::with_capacity(items.len());
        for (item, descending) in items {
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
            if !keys.iter().any(|key| usize::from(key.column) == position) {
                keys.push(SortKey { column: position as u16, descending: *descending });
            }
        }
        Ok(keys)
    }
}

/// Brings expressions over rows to expressions over their group's row.
struct Grouping<'g> {
    group_by: &'g [Expr],
    slot: u16,
    local_slots: &'g [u16],
}

impl Grouping<'_> {
    fn apply(&self, expr: &mut Expr) -> UserResult<()> {
        rewrite(expr, &mut |inner| {
            let position = self.group_by.iter().position(|key| key == inner)?;
            Some(Expr::column(self.slot, position as u16))
        });
        let ungrouped =
            expr.any(&mut |inner| matches!(inner, Expr::Column { slot, .. } if self.local_slots.contains(slot)));
        if ungrouped {
            return Err(UserError::compile(
                "42803",
                "expression not in aggregate or GROUP BY columns: a column of the SELECT list, HAVING or ORDER BY is \
                 neither grouped by nor inside an aggregate",
            )
            .with_hint("add it to GROUP BY or wrap it in MIN() or MAX()"));
        }
        Ok(())
    }
}

pub(crate) fn order_items(order_by: &ast::OrderBy) -> UserResult<Vec<(&ast::Expr, bool)>> {
    let ast::OrderByKind::Expressions(items) = &order_by.kind else {
        return Err(UserError::not_supported("ORDER BY ALL"));
    };
    items.iter().map(order_item).collect()
}

/// The expression and whether it is descending.
pub(crate) fn order_item(item: &ast::OrderByExpr) -> UserResult<(&ast::Expr, bool)> {
    let descending = match &item.options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(_) => return Err(UserError::not_supported("ORDER BY USING")),
    };
    // NULL sorts lowest: first ascending, last descending.
    if item.options.nulls_first.is_some_and(|first| first == descending) {
        return Err(UserError::not_supported("NULLS FIRST with DESC and NULLS LAST with ASC")
            .with_hint("NULL sorts lowest; order by a CASE expression to change that"));
    }
    Ok((&item.expr, descending))
}

/// The position that a number in ORDER BY or GROUP BY means.
fn ordinal(expr: &ast::Expr, count: usize) -> UserResult<Option<usize>> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let ast::Value::Number(digits, _) = &value.value else { return Ok(None) };
    match digits.parse::<usize>() {
        Ok(position) if (1..=count).contains(&position) => Ok(Some(position - 1)),
        _ => Err(UserError::compile("42601", format!("column number {digits} is not in the SELECT list"))),
    }
}

/// The item of the SELECT list that has this name as alias.
fn aliased<'a>(expr: &ast::Expr, items: &'a [ast::SelectItem]) -> Option<&'a ast::Expr> {
    let ast::Expr::Identifier(ident) = expr else { return None };
    let name = fold_name(ident);
    items.iter().find_map(|item| match item {
        ast::SelectItem::ExprWithAlias { expr, alias } if fold_name(alias) == name => Some(expr),
        _ => None,
    })
}

fn implied_name(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(ident) if !ident.value.eq_ignore_ascii_case("NOW") => Some(fold_name(ident)),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map(fold_name),
        ast::Expr::Nested(inner) => implied_name(inner),
        _ => None,
    }
}

fn refuse_clauses(select: &ast::Select) -> UserResult<()> {
    let refused = [
        (select.into.is_some(), "SELECT INTO here"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (
            !select.cluster_by.is_empty() || !select.distribute_by.is_empty() || !select.sort_by.is_empty(),
            "CLUSTER BY, DISTRIBUTE BY and SORT BY",
        ),
        (!select.named_window.is_empty(), "WINDOW"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "SELECT AS"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.select_modifiers.is_some(), "modifiers of SELECT"),
        (select.flavor != ast::SelectFlavor::Standard, "FROM before SELECT"),
    ];
    match refused.into_iter().find(|(present, _)| *present) {
        Some((_, clause)) => Err(UserError::not_supported(clause)),
        None => Ok(()),
    }
}

/// Whether an output column is the constant NULL, which takes any type.
fn output_is_null(query: &Query, position: usize) -> bool {
    match &query.body {
        QueryBody::Select(select) => matches!(select.output.get(position), Some(Expr::Constant(OwnedValue::Null))),
        _ => false,
    }
}

/// Converts an output column to `to`, where its values are of another kind; as storing does, not as CAST.
pub(crate) fn cast_output(query: &mut Query, position: usize, to: SqlType) -> UserResult<()> {
    let from = query.columns[position].sql_type;
    query.columns[position].sql_type = to;
    if same_kind(from, to) {
        return Ok(());
    }
    let convert = |expr: &mut Expr| -> UserResult<()> {
        let whole = std::mem::replace(expr, Expr::null());
        *expr = super::types::to_stored_kind(whole, from, to)?;
        Ok(())
    };
    match &mut query.body {
        QueryBody::Select(select) => convert(&mut select.output[position]),
        QueryBody::Values(rows) => rows.iter_mut().try_for_each(|row| convert(&mut row[position])),
        QueryBody::SetOperation { left, right, .. } => {
            cast_output(left, position, to)?;
            cast_output(right, position, to)
        }
    }
}
