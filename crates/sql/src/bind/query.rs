//! Queries: SELECT blocks, set operations, VALUES, with ORDER BY and LIMIT.

use super::Binder;
use super::from::PendingInput;
use super::grouping::{Grouping, Groups, gather_dependents, keyed_slots};
use super::scope::{Scope, fold_name, object_name};
use super::size::check_count;
use super::types::{Typed, common_type, same_kind};
use crate::plan::{
    Aggregation, Input, JoinKind, OutputColumn, Query, QueryBody, Select, SetOperator, SortKey, Source, Subquery,
    SubqueryKind, Windowing,
};
use crate::planner::{self, Arranged};
use crate::variants::Adoption;
use crate::walk::{conjunction, for_each_expr_mut, rewrite, split_conjunction};
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::{Table, TableKind};
use ferrite_expr::Expr;
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use sqlparser::ast;
use std::sync::Arc;

/// What stands around a query's body.
#[derive(Default)]
pub(crate) struct Tail<'a> {
    pub order_by: Vec<OrderItem<'a>>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
}

impl Tail<'_> {
    fn is_empty(&self) -> bool {
        self.order_by.is_empty() && self.limit.is_none() && self.offset.is_none()
    }
}

/// One expression of ORDER BY.
#[derive(Clone, Copy)]
pub(crate) struct OrderItem<'a> {
    pub expr: &'a ast::Expr,
    pub descending: bool,
    /// NULLs stand at the other end than where the lowest value would: whether it is NULL is a key before.
    pub nulls_apart: bool,
}

/// Asked after each item: a `*` may stand for many columns, and often.
fn check_columns(outputs: &[Output]) -> UserResult<()> {
    if outputs.len() > limits::TABLE_COLUMNS_MAX {
        return Err(UserError::limit(format!("SELECT has more than {} columns", limits::TABLE_COLUMNS_MAX)));
    }
    Ok(())
}

/// Output columns of a SELECT while it is bound.
pub(crate) struct Output {
    pub name: String,
    pub typed: Typed,
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
        check_count(self.subqueries.len() + 1, limits::SUBQUERIES_MAX, "subqueries in expressions")?;
        let index = self.subqueries.len() as u16;
        self.note_subquery(&query);
        self.subqueries.push(Subquery { kind, query, correlated });
        Ok(index)
    }

    fn query_inner(&mut self, query: &ast::Query) -> UserResult<Query> {
        if !query.locks.is_empty() || query.for_clause.is_some() {
            return Err(UserError::not_supported("FOR UPDATE").with_hint("every transaction runs alone; leave it out"));
        }
        if query.settings.is_some() || query.format_clause.is_some() || !query.pipe_operators.is_empty() {
            return Err(UserError::not_supported("a clause after the query"));
        }
        let names = self.common_names.len();
        let result = self.query_with(query);
        self.common_names.truncate(names);
        result
    }

    fn query_with(&mut self, query: &ast::Query) -> UserResult<Query> {
        if let Some(with) = &query.with {
            self.with_clause(with, query)?;
        }
        let tail = self.tail(query)?;
        self.set_expr(&query.body, tail)
    }

    pub fn tail<'a>(&mut self, query: &'a ast::Query) -> UserResult<Tail<'a>> {
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
            Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => {
                tail.limit = Some(self.row_count("LIMIT", limit)?);
                tail.offset = Some(self.row_count("OFFSET", offset)?);
            }
            Some(_) => return Err(UserError::not_supported("LIMIT BY")),
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
            let error = UserError::compile("42601", format!("{clause} takes a number of rows or a parameter"));
            return Err(super::place::at(error, expr));
        }
        Ok(typed.expr)
    }

    pub fn set_expr(&mut self, body: &ast::SetExpr, tail: Tail<'_>) -> UserResult<Query> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, tail),
            ast::SetExpr::Values(values) => self.values(values, tail),
            ast::SetExpr::Query(inner) => {
                let query = self.query(inner)?;
                let bare = query.order_by.is_empty() && query.limit.is_none() && query.offset.is_none();
                if tail.is_empty() {
                    return Ok(query);
                }
                let query = if bare { query } else { self.as_derived(query)? };
                self.finish_by_columns(query, tail)
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
            let right = self.deeper(|binder| binder.set_expr(right, Tail::default()))?;
            query = self.combined(operator, all, query, right)?;
        }
        self.finish_by_columns(query, tail)
    }

    /// Both queries as one, their columns brought to common types.
    pub fn combined(
        &mut self,
        operator: SetOperator,
        all: bool,
        mut left: Query,
        mut right: Query,
    ) -> UserResult<Query> {
        if left.columns.len() != right.columns.len() {
            return Err(UserError::compile(
                "42601",
                "both sides of a set operation must have the same number of columns",
            )
            .with_detail(format!(
                "the first has {}, the second {}",
                left.columns.len(),
                right.columns.len()
            )));
        }
        let mut columns = left.columns.clone();
        for (position, column) in columns.iter_mut().enumerate() {
            let (from_left, from_right) = (column.sql_type, right.columns[position].sql_type);
            let left_null = output_is_null(&left, position);
            let right_null = output_is_null(&right, position);
            let common = common_type((!left_null).then_some(from_left), (!right_null).then_some(from_right))?;
            column.sql_type = common.unwrap_or(from_left);
            cast_output(&mut left, position, column.sql_type)?;
            cast_output(&mut right, position, column.sql_type)?;
        }
        let (left, right) = (Box::new(left), Box::new(right));
        Ok(Query::of(QueryBody::SetOperation { operator, all, left, right }, columns))
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

    /// The query as a derived table, so that what comes after it works on its columns.
    fn as_derived(&mut self, query: Query) -> UserResult<Query> {
        Ok(self.around(query, Vec::new())?.0)
    }

    /// A SELECT of all columns of `query`, then of the `items`, which may refer to these columns; and the types of all.
    pub fn around(&mut self, query: Query, items: Vec<&ast::Expr>) -> UserResult<(Query, Vec<Expr>)> {
        let columns = query.columns.clone();
        self.facts.open_block();
        self.push_scope(Scope::default());
        let bound = self.around_in_scope(query, items);
        self.pop_scope();
        self.facts.close_block();
        let (source, output) = bound?;
        let select = Select {
            sources: vec![source],
            filter: None,
            aggregation: None,
            windowing: None,
            distinct: false,
            output: output.clone(),
        };
        Ok((Query::of(QueryBody::Select(Box::new(select)), columns), output))
    }

    fn around_in_scope(&mut self, query: Query, items: Vec<&ast::Expr>) -> UserResult<(Source, Vec<Expr>)> {
        let visible = query.columns.len();
        // Whether it refers to rows outside is known to its frame only: it is computed where it stands, once.
        let pending = self.derived_source(query, false, String::new(), None)?;
        let mut output: Vec<Expr> = (0..visible).map(|column| Expr::column(pending.slot, column as u16)).collect();
        for item in items {
            output.push(self.output_expression(item)?.expr);
        }
        let PendingInput::Derived { query, .. } = pending.input else {
            return Err(UserError::internal("a derived table is one"));
        };
        let input = Input::Derived { query, correlated: true };
        let source = Source { slot: pending.slot, input, join: JoinKind::Inner, on: None, filter: None };
        Ok((source, output))
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
                self.settle_as(&mut typed, ColumnType::unbounded(sql_type), Adoption::Computed);
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
        self.finish_by_columns(Query::of(QueryBody::Values(bound_rows), columns), tail)
    }

    pub fn select(&mut self, select: &ast::Select, mut tail: Tail<'_>) -> UserResult<Query> {
        refuse_clauses(select)?;
        if let Some(top) = &select.top {
            let count = self.top(top)?;
            if tail.limit.replace(count).is_some() {
                return Err(UserError::syntax("a query has either TOP or LIMIT"));
            }
        }
        if let Some(ast::Distinct::On(on)) = &select.distinct {
            return self.distinct_on(select, on, tail);
        }
        self.facts.open_block();
        self.push_scope(Scope::default());
        let result = self.select_in_scope(select, tail);
        self.pop_scope();
        self.facts.close_block();
        result
    }

    fn select_in_scope(&mut self, select: &ast::Select, tail: Tail<'_>) -> UserResult<Query> {
        let distinct = match &select.distinct {
            None | Some(ast::Distinct::All) => false,
            Some(ast::Distinct::Distinct) => true,
            Some(ast::Distinct::On(_)) => false,
        };
        let mut conjuncts = Vec::new();
        let pending = self.bind_from(&select.from, &mut conjuncts)?;
        let local_slots: Vec<u16> = pending.iter().map(|source| source.slot).collect();
        let tables: Vec<(u16, Arc<Table>)> = pending
            .iter()
            .filter_map(|source| match &source.input {
                PendingInput::Table(table) if table.kind == TableKind::Table => Some((source.slot, Arc::clone(table))),
                _ => None,
            })
            .collect();
        self.name_windows(&select.named_window)?;
        if let Some(selection) = &select.selection {
            split_conjunction(self.condition(selection)?, &mut conjuncts);
        }
        let groups = self.group_by(select)?;
        let first_subquery = self.subqueries.len();
        let group_slot = if groups.grouped { Some(self.new_slot()?) } else { None };
        if let Some(scope) = self.scope() {
            scope.aggregates.allowed = true;
            scope.aggregates.slot = group_slot;
            scope.aggregates.group_count = groups.keys.len() as u16 + u16::from(!groups.sets.is_empty());
            scope.aggregates.groups = groups.clone();
            scope.windows.allowed = true;
        }
        let outputs = self.projection(&select.projection)?;
        if let Some(scope) = self.scope() {
            scope.aliases = outputs.iter().map(|output| (output.name.clone(), output.typed.clone())).collect();
        }
        let mut having = Vec::new();
        if let Some(condition) = &select.having {
            split_conjunction(self.having(condition, &groups.keys)?, &mut having);
        }
        let mut exprs: Vec<Expr> = outputs.iter().map(|output| output.typed.expr.clone()).collect();
        let order_by = self.order_by(&tail.order_by, &outputs, &mut exprs)?;
        let mut windows = self.scope().map(|scope| std::mem::take(&mut scope.windows.windows)).unwrap_or_default();
        let window_slot = self.scope().and_then(|scope| scope.windows.slot);
        let aggregates = self.scope().map(|scope| std::mem::take(&mut scope.aggregates)).unwrap_or_default();
        let aggregated = aggregates.slot.is_some() || select.having.is_some();
        let aggregation = if aggregated {
            let slot = match aggregates.slot {
                Some(slot) => slot,
                None => self.new_slot()?,
            };
            let names = self.scope().map(|scope| scope.sources.clone()).unwrap_or_default();
            let keyed = keyed_slots(&groups, &tables, self.catalog);
            let Groups { keys: mut group_by, sets, .. } = groups;
            let named = group_by.len();
            let subqueries = &mut self.subqueries;
            let mut each = |visit: &mut dyn FnMut(&mut Expr) -> UserResult<()>| -> UserResult<()> {
                exprs.iter_mut().chain(&mut having).try_for_each(&mut *visit)?;
                for window in &mut windows {
                    let order_by = window.order_by.iter_mut().map(|(expr, _)| expr);
                    let arguments = window.functions.iter_mut().flat_map(|function| &mut function.arguments);
                    window.partition_by.iter_mut().chain(order_by).chain(arguments).try_for_each(&mut *visit)?;
                }
                for (place, subquery) in subqueries.iter_mut().enumerate().skip(first_subquery) {
                    // Those inside an aggregate's argument see the rows before they are grouped.
                    if aggregates.inside.iter().any(|range| range.contains(&place)) {
                        continue;
                    }
                    let mut result = Ok(());
                    for_each_expr_mut(&mut subquery.query, &mut |expr| {
                        if result.is_ok() {
                            result = visit(expr);
                        }
                    });
                    result?;
                }
                Ok(())
            };
            if !keyed.is_empty() {
                each(&mut |expr| gather_dependents(expr, &keyed, &mut group_by))?;
            }
            let grouping = Grouping {
                group_by: &group_by,
                dependent: (group_by.len() - named) as u16,
                aggregates: aggregates.group_count,
                slot,
                local_slots: &local_slots,
                names: &names,
            };
            each(&mut |expr| grouping.apply(expr))?;
            Some(Aggregation { slot, group_by, sets, aggregates: aggregates.found, having: conjunction(having) })
        } else {
            None
        };
        let wanted: Vec<(Expr, bool)> = if aggregated || distinct || !windows.is_empty() {
            Vec::new()
        } else {
            order_by.iter().map(|key| (exprs[usize::from(key.column)].clone(), key.descending)).collect()
        };
        let Arranged { mut sources, filter, presorted } = planner::arrange(self, pending, conjuncts, &wanted)?;
        if sources.is_empty() {
            let slot = self.new_slot()?;
            sources.push(Source { slot, input: Input::One, join: JoinKind::Inner, on: None, filter: None });
        }
        let (mut aggregation, mut filter) = (aggregation, filter);
        if let Some(groups) = &aggregation {
            planner::extremes::shortcut_extremes(self.catalog, &mut sources, &filter, groups);
            self.facts.grouped(groups);
            if windows.is_empty()
                && let Some((tables, having)) =
                    planner::extremes::separate_extremes(self, &sources, &filter, groups, &mut exprs)?
            {
                sources = tables;
                filter = having;
                aggregation = None;
            }
        }
        let windowing = window_slot.map(|slot| {
            let kept = match &aggregation {
                Some(aggregation) => vec![aggregation.slot],
                None => local_slots,
            };
            Box::new(Windowing { slot, kept, windows })
        });
        let columns: Vec<OutputColumn> = outputs
            .into_iter()
            .map(|output| OutputColumn { name: output.name, sql_type: output.typed.decided_type() })
            .collect();
        let hidden = if distinct { exprs.split_off(columns.len()) } else { Vec::new() };
        let select = Select { sources, filter, aggregation, windowing, distinct, output: exprs };
        let mut query = Query::of(QueryBody::Select(Box::new(select)), columns);
        if hidden.is_empty() {
            query.presorted = presorted && !order_by.is_empty();
        } else {
            query = self.ordered_after_distinct(query, hidden)?;
        }
        query.order_by = order_by;
        query.limit = tail.limit;
        query.offset = tail.offset;
        Ok(query)
    }

    fn having(&mut self, condition: &ast::Expr, groups: &[Expr]) -> UserResult<Expr> {
        if let Some(scope) = self.scope() {
            scope.having_groups = Some(groups.to_vec());
            scope.windows.allowed = false;
        }
        let condition = self.condition(condition)?;
        if let Some(scope) = self.scope() {
            scope.having_groups = None;
            scope.windows.allowed = true;
            let windows = scope.windows.slot;
            if windows.is_some()
                && condition.any(&mut |inner| matches!(inner, Expr::Column { slot, .. } if Some(*slot) == windows))
            {
                return Err(UserError::compile("42P20", "window functions are not allowed in HAVING")
                    .with_hint("select from a derived table, with the condition in WHERE"));
            }
        }
        Ok(condition)
    }

    /// ORDER BY expressions over the columns that DISTINCT leaves.
    fn ordered_after_distinct(&mut self, query: Query, mut hidden: Vec<Expr>) -> UserResult<Query> {
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

    pub fn projection(&mut self, items: &[ast::SelectItem]) -> UserResult<Vec<Output>> {
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
            check_columns(&outputs)?;
        }
        if outputs.is_empty() {
            return Err(UserError::syntax("SELECT has no columns"));
        }
        Ok(outputs)
    }

    pub fn output_expression(&mut self, expr: &ast::Expr) -> UserResult<Typed> {
        let mut typed = self.expression(expr)?;
        self.settle(&mut typed, ColumnType::unbounded(SqlType::Varchar));
        Ok(typed)
    }

    fn expand(&mut self, qualifier: Option<&str>, outputs: &mut Vec<Output>) -> UserResult<()> {
        let Some(scope) = self.scope() else { return Err(UserError::internal("* outside a query")) };
        let Some(qualifier) = qualifier else {
            if scope.sources.is_empty() {
                return Err(UserError::syntax("SELECT * needs FROM"));
            }
            for (source, position) in &scope.star {
                let source = &scope.sources[*source];
                let column = &source.columns[*position];
                let typed = Typed::new(source.unqualified(*position), column.sql_type);
                outputs.push(Output { name: column.name.clone(), typed });
            }
            return Ok(());
        };
        let mut known = false;
        for source in scope.sources.iter().filter(|source| source.name == qualifier) {
            known = true;
            for (position, column) in source.columns.iter().enumerate() {
                let typed = Typed::new(source.column(position), column.sql_type);
                outputs.push(Output { name: column.name.clone(), typed });
            }
        }
        if known { Ok(()) } else { Err(UserError::not_found(qualifier)) }
    }

    /// The sort keys; what they need beyond the SELECT list is added to `exprs` as hidden columns.
    fn order_by(
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
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "SELECT AS"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.select_modifiers.is_some(), "modifiers of SELECT"),
        (select.flavor != ast::SelectFlavor::Standard, "FROM before SELECT"),
    ];
    match refused.into_iter().find(|(present, _)| *present) {
        Some((_, clause)) => {
            let error = UserError::not_supported(clause);
            Err(match clause {
                "SELECT INTO here" => {
                    error.with_hint("INSERT INTO t SELECT ... stores the rows; INTO is for variables of a procedure")
                }
                "QUALIFY" => error.with_hint("put the query into a derived table, and the condition into WHERE"),
                _ => error,
            })
        }
        None => Ok(()),
    }
}

/// Whether an output column is the constant NULL, which takes any type.
pub(crate) fn output_is_null(query: &Query, position: usize) -> bool {
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
        QueryBody::Series { .. } => Err(UserError::internal("a series is always read by another query")),
        QueryBody::SetOperation { left, right, .. } => {
            cast_output(left, position, to)?;
            cast_output(right, position, to)
        }
        QueryBody::Recursive { .. } => Err(UserError::internal("a recursion is always read by another query")),
    }
}
