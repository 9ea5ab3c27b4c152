//! CREATE VIEW: a query of the forms that can be kept up row by row.

use crate::bind::Binder;
use crate::bind::from::table_of;
use crate::bind::scope::{Scope, fold_name};
use crate::bind::types::Typed;
use crate::planner::context::Reach;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, Change, Column, Table, TableKind, View, ViewOutput};
use ferrite_expr::{AggregateKind, Expr};
use ferrite_plan::Source;
use ferrite_plan::walk::{conjunction, for_each_slot, rewrite, split_conjunction};
use ferrite_value::ColumnType;
use sqlparser::ast;
use std::sync::Arc;

pub(crate) fn bind_view(
    catalog: &Catalog,
    name: &str,
    names: Option<&[String]>,
    query: &ast::Query,
    text: &str,
) -> UserResult<Change> {
    let refuse = |what: &str| Err(refused(name, what));
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return refuse("set operations or VALUES") };
    if query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
        return refuse("WITH, ORDER BY, LIMIT or OFFSET")
            .map_err(|error| error.with_hint("order its rows when it is read"));
    }
    if select.distinct.is_some() || select.top.is_some() || select.having.is_some() || select.into.is_some() {
        return refuse("DISTINCT, TOP, HAVING or INTO");
    }
    let mut binder = Binder::new(catalog, Reach::Local);
    binder.streams_allowed = true;
    binder.schema_object = Some("a materialized view");
    binder.push_scope(Scope::default());
    let mut conjuncts = Vec::new();
    let sources = binder.bind_from(&select.from, &mut conjuncts)?;
    let tables = source_tables(catalog, name, &sources)?;
    if let Some(selection) = &select.selection {
        split_conjunction(binder.condition(selection)?, &mut conjuncts);
    }
    let mut builder = ViewBuilder { name, tables, group_by: Vec::new(), group_columns: Vec::new() };
    builder.group_by(&mut binder, select)?;
    let (outputs, mut columns) = builder.outputs(&mut binder, select)?;
    name_columns(name, names, &mut columns)?;
    if !binder.plan.subqueries.is_empty() {
        return refuse("subqueries");
    }
    let aggregates = binder.scope().map(|scope| std::mem::take(&mut scope.aggregates.found)).unwrap_or_default();
    if aggregates.is_empty() {
        return Err(not_aggregated(name));
    }
    for position in 0..builder.group_by.len() {
        if !outputs.contains(&ViewOutput::Group(position as u16)) {
            return refuse("GROUP BY columns that are not in its SELECT list");
        }
    }
    let counts = aggregates.iter().any(|aggregate| aggregate.kind == AggregateKind::CountRows);
    if builder.tables.len() > 1 && !counts {
        return Err(UserError::ddl("0A000", format!("Materialized view \"{name}\" with a join must have COUNT(*).")));
    }
    let mut view = View {
        source: builder.tables[0].1.id,
        joins: Vec::new(),
        filter: None,
        group_by: builder.group_by,
        aggregates,
        outputs,
        text: text.to_owned(),
    };
    check_deterministic(name, &view, &conjuncts)?;
    place_conditions(&mut view, &builder.tables, conjuncts);
    renumber(&mut view, &builder.tables);
    Ok(Change::CreateView { name: name.to_owned(), columns, view })
}

fn refused(name: &str, what: &str) -> UserError {
    UserError::ddl("0A000", format!("Materialized view \"{name}\" must not have {what}."))
}

struct ViewBuilder<'n> {
    name: &'n str,
    /// Slot as bound and table; the first is the one that the view follows, the others are
    /// replicated.
    tables: Vec<(u16, Arc<Table>)>,
    group_by: Vec<Expr>,
    group_columns: Vec<Column>,
}

/// The view's tables, the partitioned one first: a change of its rows changes the view on the same
/// partition.
fn source_tables(catalog: &Catalog, name: &str, sources: &[Source]) -> UserResult<Vec<(u16, Arc<Table>)>> {
    let refuse = |what: &str| Err(UserError::ddl("0A000", format!("Materialized view \"{name}\" {what}.")));
    let mut tables = Vec::with_capacity(sources.len());
    for source in sources {
        if source.join != ferrite_plan::JoinKind::Inner {
            return refuse("must not have outer joins");
        }
        let Some(table) = table_of(catalog, source) else {
            return refuse("must not have derived tables, or views that are computed when read");
        };
        if table.kind == TableKind::View {
            return refuse("must not be a view of a view");
        }
        tables.push((source.slot, table.clone()));
    }
    if tables.is_empty() {
        return refuse("must have a table");
    }
    tables.sort_by_key(|(slot, table)| (!table.is_partitioned(), *slot));
    if tables.len() > 1 && tables.iter().any(|(_, table)| table.kind == TableKind::Stream) {
        return refuse("must not join a stream");
    }
    Ok(tables)
}

impl ViewBuilder<'_> {
    /// What the view shows, column by column.
    fn outputs(&mut self, binder: &mut Binder<'_>, select: &ast::Select) -> UserResult<(Vec<ViewOutput>, Vec<Column>)> {
        let mut outputs = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        for item in &select.projection {
            let (expr, alias) = match item {
                ast::SelectItem::UnnamedExpr(expr) => (expr, None),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(fold_name(alias))),
                _ => return Err(refused(self.name, "* in its SELECT list")),
            };
            let (output, mut column) = self.output(binder, expr)?;
            if let Some(alias) = alias {
                column.name = alias;
            } else if column.name.is_empty() {
                column.name = format!("C{}", columns.len() + 1);
            }
            outputs.push(output);
            columns.push(column);
        }
        Ok((outputs, columns))
    }

    fn group_by(&mut self, binder: &mut Binder<'_>, select: &ast::Select) -> UserResult<()> {
        let ast::GroupByExpr::Expressions(exprs, modifiers) = &select.group_by else {
            return Err(UserError::not_supported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(UserError::not_supported("modifiers of GROUP BY"));
        }
        for expr in exprs {
            let typed = match binder.expression(expr) {
                Err(error) if error.code() == "42703" => match alias_of(expr, &select.projection) {
                    Some(item) => binder.expression(item)?,
                    None => return Err(error),
                },
                result => result?,
            };
            if self.group_by.contains(&typed.expr) {
                continue;
            }
            self.group_columns.push(self.column_of(&typed));
            self.group_by.push(typed.expr);
        }
        if let Some(scope) = binder.scope() {
            scope.aggregates.allowed = true;
            scope.aggregates.group_count = 0;
        }
        Ok(())
    }

    /// The column that holds values of this expression, without a name unless it is a plain column.
    fn column_of(&self, typed: &Typed) -> Column {
        if let Expr::Column { slot, column } = typed.expr
            && let Some((_, table)) = self.tables.iter().find(|(found, _)| *found == slot)
            && let Some(source) = table.columns.get(usize::from(column))
        {
            return Column {
                name: source.name.clone(),
                column_type: source.column_type,
                nullable: source.nullable,
                default: None,
                default_text: None,
            };
        }
        Column {
            name: String::new(),
            column_type: ColumnType::unbounded(typed.decided_type()),
            nullable: true,
            default: None,
            default_text: None,
        }
    }

    fn output(&mut self, binder: &mut Binder<'_>, expr: &ast::Expr) -> UserResult<(ViewOutput, Column)> {
        let typed = binder.expression(expr)?;
        if let Some(position) = self.group_by.iter().position(|key| *key == typed.expr) {
            return Ok((ViewOutput::Group(position as u16), self.group_columns[position].clone()));
        }
        let Some(scope) = binder.scope() else { return Err(UserError::internal("a view without FROM")) };
        let position = match typed.expr {
            Expr::Column { slot, column } if scope.aggregates.slot == Some(slot) => column,
            _ => return Err(not_aggregated(self.name)),
        };
        let aggregate = &scope.aggregates.found[usize::from(position)];
        let suits = matches!(
            aggregate.kind,
            AggregateKind::CountRows
                | AggregateKind::Count
                | AggregateKind::Sum
                | AggregateKind::Min
                | AggregateKind::Max
        );
        if !suits || aggregate.distinct {
            return Err(not_aggregated(self.name));
        }
        let kind = aggregate.kind;
        let argument = aggregate.argument.clone();
        let mut column = match (kind, argument) {
            (AggregateKind::Min | AggregateKind::Max, Some(argument)) => {
                self.column_of(&Typed::of(argument, typed.sql_type))
            }
            _ => self.column_of(&typed),
        };
        column.name = String::new();
        column.nullable = !matches!(kind, AggregateKind::CountRows | AggregateKind::Count);
        Ok((ViewOutput::Aggregate(position), column))
    }
}

fn alias_of<'a>(expr: &ast::Expr, items: &'a [ast::SelectItem]) -> Option<&'a ast::Expr> {
    let ast::Expr::Identifier(ident) = expr else { return None };
    items.iter().find_map(|item| match item {
        ast::SelectItem::ExprWithAlias { expr, alias } if fold_name(alias) == fold_name(ident) => Some(expr),
        _ => None,
    })
}

fn not_aggregated(name: &str) -> UserError {
    UserError::ddl(
        "42803",
        format!("Materialized view \"{name}\" must have non-group by columns aggregated by sum, count, min or max."),
    )
    .with_hint("a view keeps groups up as rows change; instead of AVG keep SUM and COUNT, and divide when it is read")
}

fn name_columns(view: &str, names: Option<&[String]>, columns: &mut [Column]) -> UserResult<()> {
    if let Some(names) = names {
        if names.len() != columns.len() {
            return Err(UserError::ddl(
                "42601",
                format!("view {view} names {} columns, but its query has {}", names.len(), columns.len()),
            ));
        }
        for (column, name) in columns.iter_mut().zip(names) {
            column.name = name.clone();
        }
    }
    for (position, column) in columns.iter().enumerate() {
        if columns[..position].iter().any(|other| other.name == column.name) {
            return Err(UserError::ddl("42701", format!("object name already exists: {}", column.name)));
        }
    }
    Ok(())
}

fn check_deterministic(name: &str, view: &View, conjuncts: &[Expr]) -> UserResult<()> {
    let arguments = view.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref());
    let changing = view.group_by.iter().chain(conjuncts).chain(arguments).any(|expr| {
        expr.any(&mut |inner| matches!(inner, Expr::Call { function, .. } if !function.is_deterministic()))
    });
    if changing {
        return Err(UserError::ddl("0A000", format!("Materialized view \"{name}\" must not use NOW.")));
    }
    Ok(())
}

/// Each condition goes to the first table with which it can be decided; those on the source alone
/// are the filter.
fn place_conditions(view: &mut View, tables: &[(u16, Arc<Table>)], conjuncts: Vec<Expr>) {
    let mut per_table: Vec<Vec<Expr>> = tables.iter().map(|_| Vec::new()).collect();
    for conjunct in conjuncts {
        let mut last = 0;
        for_each_slot(&conjunct, &[], &mut |slot| {
            last = last.max(tables.iter().position(|(found, _)| *found == slot).unwrap_or(0));
        });
        per_table[last].push(conjunct);
    }
    let mut per_table = per_table.into_iter();
    view.filter = per_table.next().and_then(conjunction);
    view.joins = tables.iter().skip(1).zip(per_table).map(|((_, table), on)| (table.id, conjunction(on))).collect();
}

/// Slots as the table crate wants them: the source 0, the others in order.
fn renumber(view: &mut View, tables: &[(u16, Arc<Table>)]) {
    let mut move_all = |expr: &mut Expr| {
        rewrite(expr, &mut |inner| match inner {
            Expr::Column { slot, column } => {
                let position = tables.iter().position(|(found, _)| found == slot)?;
                Some(Expr::column(position as u16, *column))
            }
            _ => None,
        });
    };
    view.group_by.iter_mut().for_each(&mut move_all);
    view.filter.iter_mut().for_each(&mut move_all);
    view.joins.iter_mut().filter_map(|(_, on)| on.as_mut()).for_each(&mut move_all);
    view.aggregates.iter_mut().filter_map(|aggregate| aggregate.argument.as_mut()).for_each(&mut move_all);
}
