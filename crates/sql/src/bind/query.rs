//! Queries: SELECT blocks, set operations and VALUES, with LIMIT and what else stands around them.

use super::Binder;
use super::aggregation::Above;
use super::folding::Folding;
use super::from::table_of;
use super::ordering::{Tail, order_items};
use super::proposals::{Proposal, Types};
use super::scope::Scope;
use super::size::check_count;
use super::types::{Typed, common_type, widest};
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::{Table, TableKind};
use ferrite_expr::Expr;
use ferrite_plan::walk::{conjunction, split_conjunction};
use ferrite_plan::{
    Adoption, Input, OutputColumn, Query, QueryBody, Select, SetOperator, Source, Subquery, SubqueryKind, Windowing,
};
use ferrite_value::{OwnedValue, SqlType};
use sqlparser::ast;
use std::sync::Arc;

impl Binder<'_> {
    pub fn query(&mut self, query: &ast::Query) -> UserResult<Query> {
        self.deeper(|binder| binder.query_inner(query))
    }

    /// A query inside another; says whether it refers to rows outside.
    pub fn subquery_body(&mut self, query: &ast::Query) -> UserResult<(Query, bool)> {
        self.in_frame(|binder| binder.query(query))
    }

    pub fn add_subquery(&mut self, kind: SubqueryKind, query: Query, correlated: bool) -> UserResult<u16> {
        check_count(self.plan.subqueries.len() + 1, limits::SUBQUERIES_MAX, "subqueries in expressions")?;
        let index = self.plan.subqueries.len() as u16;
        self.note_subquery(&query);
        self.plan.subqueries.push(Subquery { kind, query, correlated });
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
        self.propose(&mut typed, Proposal::count());
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

    /// UNION, INTERSECT, EXCEPT. Chains are deep trees on the left, so they are walked, not
    /// recursed.
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
        if operations.len() > limits::SET_OPERATIONS_MAX {
            return Err(UserError::limit(format!(
                "more than {} set operations in one query",
                limits::SET_OPERATIONS_MAX
            ))
            .with_hint("put some of them into derived tables: SELECT * FROM (... UNION ...) AS t UNION ..."));
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
            let common = self.common_output([&left, &right], position)?;
            column.sql_type = common.unwrap_or_else(|| said_of_null([&left, &right], position));
            for side in [&mut left, &mut right] {
                if self.output_type(side, position).is_some() {
                    self.cast_output(side, position, column.sql_type)?;
                } else {
                    // NULLs need no conversion, and parameters will have the type.
                    side.columns[position].sql_type = column.sql_type;
                }
            }
        }
        let left = Box::new(left);
        let right = Box::new(right);
        Ok(Query::of(QueryBody::SetOperation { operator, all, left, right }, columns))
    }

    /// The type that a column of these queries has in common, which parameters among them take.
    /// None where nothing says it.
    pub fn common_output(&mut self, queries: [&Query; 2], position: usize) -> UserResult<Option<SqlType>> {
        let [left, right] = queries.map(|query| self.output_type(query, position));
        let Some(common) = common_type(left, right)? else {
            self.outputs_are_alike(queries, position);
            let said = said_of_null(queries, position);
            if said != SqlType::Varchar {
                let proposal = Proposal::of(widest(said), Adoption::Carried).taking(Types::ALL).converting();
                queries.iter().for_each(|query| self.propose_output(query, position, proposal));
            }
            return Ok(None);
        };
        let proposal = Proposal::common_with(common, Adoption::Carried);
        queries.iter().for_each(|query| self.propose_output(query, position, proposal));
        // A parameter is as wide as its kind.
        let is_open = queries.iter().any(|query| self.is_open_output(query, position));
        Ok(Some(if is_open { widest(common).sql_type } else { common }))
    }

    /// The query as a derived table, so that what comes after it works on its columns.
    fn as_derived(&mut self, query: Query) -> UserResult<Query> {
        Ok(self.around(query, Vec::new())?.0)
    }

    /// A SELECT of all columns of `query`, then of the `items`, which may refer to these columns;
    /// and the types of all.
    pub fn around(&mut self, query: Query, items: Vec<&ast::Expr>) -> UserResult<(Query, Vec<Expr>)> {
        let columns = query.columns.clone();
        self.push_scope(Scope::default());
        let bound = self.around_in_scope(query, items);
        self.pop_scope();
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
        // Whether it refers to rows outside is known to its frame only: it is computed where it
        // stands, once.
        let mut source = self.derived_source(query, false, String::new(), None)?;
        let mut output: Vec<Expr> = (0..visible).map(|column| Expr::column(source.slot, column as u16)).collect();
        for item in items {
            output.push(self.expression(item)?.expr);
        }
        if let Input::Derived { correlated, .. } = &mut source.input {
            *correlated = true;
        }
        Ok((source, output))
    }

    /// Converts an output column to `to`, where its values are of another kind; as storing does,
    /// not as CAST.
    pub fn cast_output(&mut self, query: &mut Query, position: usize, to: SqlType) -> UserResult<()> {
        cast_output_by(&mut self.folding, query, position, to)
    }

    fn values(&mut self, values: &ast::Values, tail: Tail<'_>) -> UserResult<Query> {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width || width == 0 {
                return Err(UserError::compile("42601", "rows of VALUES must have the same number of columns"));
            }
            let mut bound = Vec::with_capacity(width);
            for expr in &row.content {
                bound.push(self.expression(expr)?);
            }
            rows.push(bound);
        }
        let mut types = Vec::with_capacity(width);
        for position in 0..width {
            types.push(self.one_type(&mut rows.iter_mut().map(|row| &mut row[position]).collect::<Vec<_>>())?);
        }
        let mut bound_rows = Vec::with_capacity(rows.len());
        for row in rows {
            let mut bound = Vec::with_capacity(width);
            for (typed, sql_type) in row.into_iter().zip(&types) {
                let sql_type = sql_type.unwrap_or(SqlType::Varchar);
                bound.push(self.folding.convert_common(typed, sql_type)?);
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
        self.push_scope(Scope::default());
        let result = self.select_in_scope(select, tail);
        self.pop_scope();
        result
    }

    fn select_in_scope(&mut self, select: &ast::Select, tail: Tail<'_>) -> UserResult<Query> {
        let distinct = matches!(select.distinct, Some(ast::Distinct::Distinct));
        let unread = std::mem::take(&mut self.list_is_unread);
        let mut conjuncts = Vec::new();
        let sources = self.bind_from(&select.from, &mut conjuncts)?;
        let local_slots: Vec<u16> = sources.iter().map(|source| source.slot).collect();
        let tables: Vec<(u16, Arc<Table>)> = sources
            .iter()
            .filter_map(|source| Some((source.slot, Arc::clone(table_of(self.catalog, source)?))))
            .filter(|(_, table)| table.kind == TableKind::Table)
            .collect();
        self.name_windows(&select.named_window)?;
        if let Some(selection) = &select.selection {
            split_conjunction(self.condition(selection)?, &mut conjuncts);
        }
        let groups = self.group_by(select)?;
        let first_subquery = self.plan.subqueries.len();
        let group_slot = if groups.grouped { Some(self.plan.new_slot()?) } else { None };
        if let Some(scope) = self.scope() {
            scope.aggregates.allowed = true;
            scope.aggregates.slot = group_slot;
            scope.aggregates.group_count = groups.keys.len() as u16 + u16::from(!groups.sets.is_empty());
            scope.aggregates.groups = groups.clone();
            scope.windows.allowed = true;
        }
        let (mut outputs, fails) = self.evaluated_perhaps(unread, |binder| binder.projection(&select.projection))?;
        if unread && fails {
            outputs.iter_mut().for_each(|output| output.typed = Typed::null());
        }
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
            let above = Above { exprs: &mut exprs, having, windows: &mut windows, first_subquery };
            Some(self.aggregation(groups, aggregates, above, &tables, &local_slots)?)
        } else {
            None
        };
        let windowing = window_slot.map(|slot| {
            let kept = aggregation.as_ref().map_or(local_slots, |aggregation| vec![aggregation.slot]);
            Box::new(Windowing { slot, kept, windows })
        });
        let columns: Vec<OutputColumn> = outputs
            .into_iter()
            .map(|output| OutputColumn { name: output.name, sql_type: output.typed.decided_type() })
            .collect();
        let hidden = if distinct { exprs.split_off(columns.len()) } else { Vec::new() };
        let filter = conjunction(conjuncts);
        let select = Select { sources, filter, aggregation, windowing, distinct, output: exprs };
        let mut query = Query::of(QueryBody::Select(Box::new(select)), columns);
        if !hidden.is_empty() {
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
}

/// The type that a NULL in one of these queries has, as in SELECT CAST(NULL AS FLOAT), or VARCHAR
/// where none has one. It counts only where nothing else says a type.
fn said_of_null(queries: [&Query; 2], position: usize) -> SqlType {
    let types = queries.map(|query| query.columns[position].sql_type);
    types.into_iter().find(|sql_type| *sql_type != SqlType::Varchar).unwrap_or(SqlType::Varchar)
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

fn cast_output_by(folding: &mut Folding, query: &mut Query, position: usize, to: SqlType) -> UserResult<()> {
    let from = query.columns[position].sql_type;
    query.columns[position].sql_type = to;
    if from.same_kind(to) {
        return Ok(());
    }
    let mut convert = |expr: &mut Expr| -> UserResult<()> {
        let whole = std::mem::replace(expr, Expr::null());
        *expr = folding.convert_stored(whole, from, to)?;
        Ok(())
    };
    match &mut query.body {
        QueryBody::Select(select) => convert(&mut select.output[position]),
        QueryBody::Values(rows) => rows.iter_mut().try_for_each(|row| convert(&mut row[position])),
        QueryBody::Series { .. } => Err(UserError::internal("a series is always read by another query")),
        QueryBody::SetOperation { left, right, .. } => {
            cast_output_by(folding, left, position, to)?;
            cast_output_by(folding, right, position, to)
        }
        QueryBody::Recursive { .. } => Err(UserError::internal("a recursion is always read by another query")),
    }
}
