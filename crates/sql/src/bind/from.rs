//! FROM: tables, views, derived tables and joins become sources.
//!
//! The planner takes a flat list of sources: inner and left outer joins in any number, or two
//! sources with a full join. What does not fit (a full join with more around it, an outer join with
//! a join on its right side) is bound as a derived table of its own; the names in reach then lead
//! to its columns.

use super::Binder;
use super::scope::{ScopeColumn, ScopeSource, fold_name, object_name};
use super::types::Typed;
use crate::errors::as_written;
use crate::parse::tokens::FerriteDialect;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::{Catalog, Table};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::walk::{conjunction, for_each_expr, for_each_slot, split_conjunction};
use ferrite_plan::{Access, Input, JoinKind, OutputColumn, Query, QueryBody, Select, Source};
use ferrite_value::SqlType;
use sqlparser::ast;
use sqlparser::parser::Parser;
use std::ops::Range;
use std::sync::Arc;

/// Joined sources, on their way to be joined with more.
struct Chain {
    sources: Vec<Source>,
    /// Conditions of its inner joins.
    conjuncts: Vec<Expr>,
    /// What `*` shows, in order: source and column in the scope.
    star: Vec<(usize, usize)>,
    /// Its sources in the scope.
    scope: Range<usize>,
    /// Slots from here on are its own.
    first_slot: u16,
}

impl Chain {
    /// One source without a condition of its own.
    fn is_single(&self) -> bool {
        self.sources.len() == 1 && self.conjuncts.is_empty()
    }

    fn is_full(&self) -> bool {
        self.sources.iter().any(|source| source.join == JoinKind::Full)
    }
}

/// A join under one name: `(a JOIN b ON ...) AS j` is `(SELECT * FROM a JOIN b ON ...) AS j`.
fn derived_join(join: &ast::TableWithJoins, alias: &Option<ast::TableAlias>) -> UserResult<ast::TableFactor> {
    let parsed =
        Parser::new(&FerriteDialect).try_with_sql("SELECT * FROM t").and_then(|mut parser| parser.parse_query());
    let Ok(mut query) = parsed else { return Err(UserError::internal("a query was not understood")) };
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![join.clone()];
        // Its own stands in no text of the user's.
        select.projection = vec![ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
    }
    Ok(ast::TableFactor::Derived { lateral: false, subquery: query, alias: alias.clone(), sample: None })
}

impl Binder<'_> {
    /// Binds FROM into the innermost scope. Conditions of inner joins go to `conjuncts`.
    pub fn bind_from(&mut self, from: &[ast::TableWithJoins], conjuncts: &mut Vec<Expr>) -> UserResult<Vec<Source>> {
        let mut pending = Vec::new();
        let mut star = Vec::new();
        for item in from {
            let mut chain = self.chain(item)?;
            if chain.is_full() && from.len() > 1 {
                chain = self.wrapped(chain)?;
            }
            pending.append(&mut chain.sources);
            conjuncts.append(&mut chain.conjuncts);
            star.append(&mut chain.star);
        }
        if pending.len() > limits::JOIN_TABLES_MAX {
            return Err(UserError::limit(format!("more than {} tables are joined", limits::JOIN_TABLES_MAX)));
        }
        if let Some(scope) = self.scope() {
            scope.star = star;
        }
        Ok(pending)
    }

    fn chain(&mut self, item: &ast::TableWithJoins) -> UserResult<Chain> {
        self.deeper(|binder| {
            let mut chain = binder.factor(&item.relation)?;
            for join in &item.joins {
                chain = binder.join(chain, join)?;
            }
            Ok(chain)
        })
    }

    fn join(&mut self, mut left: Chain, join: &ast::Join) -> UserResult<Chain> {
        use ast::JoinOperator as J;
        let (kind, constraint) = match &join.join_operator {
            J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => (Joined::Inner, constraint),
            J::Left(constraint) | J::LeftOuter(constraint) => (Joined::Left, constraint),
            J::Right(constraint) | J::RightOuter(constraint) => (Joined::Right, constraint),
            J::FullOuter(constraint) => (Joined::Full, constraint),
            J::CrossApply | J::OuterApply => {
                return Err(UserError::not_supported("APPLY")
                    .with_hint("write CROSS JOIN LATERAL (...) or LEFT JOIN LATERAL (...) AS x ON TRUE"));
            }
            _ => return Err(UserError::not_supported("this kind of join")),
        };
        if left.scope.len() >= limits::JOIN_TABLES_MAX {
            return Err(UserError::limit(format!("more than {} tables are joined", limits::JOIN_TABLES_MAX)));
        }
        if left.is_full() {
            // Before what stands on the right can refer to it.
            left = self.wrapped(left)?;
        }
        let mut right = self.factor(&join.relation)?;
        if one_left(kind) && self.reads(&right, &left) {
            return Err(UserError::compile("42P10", "LATERAL cannot refer to the other side of a RIGHT or FULL join")
                .with_hint("use an INNER or LEFT join"));
        }
        let one_right = matches!(kind, Joined::Left | Joined::Full);
        if one_left(kind) && !left.is_single() {
            left = self.wrapped(left)?;
        }
        if right.is_full() || (one_right && !right.is_single()) {
            right = self.wrapped(right)?;
        }
        let mut on = Vec::new();
        let star = self.constraint(constraint, &left, &right, kind, &mut on)?;
        let mut conjuncts = left.conjuncts;
        conjuncts.append(&mut right.conjuncts);
        let mut sources = left.sources;
        match kind {
            Joined::Inner => {
                conjuncts.append(&mut on);
                sources.append(&mut right.sources);
            }
            Joined::Left | Joined::Full => {
                for mut source in right.sources {
                    source.join = if kind == Joined::Left { JoinKind::Left } else { JoinKind::Full };
                    source.on = conjunction(std::mem::take(&mut on));
                    sources.push(source);
                }
            }
            Joined::Right => {
                // A RIGHT JOIN B is B LEFT JOIN A; SELECT * goes by the scope, which keeps the
                // written order.
                for source in &mut sources {
                    source.join = JoinKind::Left;
                    source.on = conjunction(std::mem::take(&mut on));
                }
                right.sources.append(&mut sources);
                sources = right.sources;
            }
        }
        Ok(Chain { sources, conjuncts, star, scope: left.scope.start..right.scope.end, first_slot: left.first_slot })
    }

    /// Whether what stands in the chain is computed from rows of the other: LATERAL.
    fn reads(&self, chain: &Chain, other: &Chain) -> bool {
        let of_other = other.first_slot..chain.first_slot;
        let mut reads = false;
        for source in &chain.sources {
            if let Input::Derived { query, correlated: true } = &source.input {
                for_each_expr(query, &mut |expr| {
                    for_each_slot(expr, &self.plan.subqueries, &mut |slot| reads |= of_other.contains(&slot));
                });
            }
        }
        reads
    }

    /// Binds ON, USING or NATURAL; answers what `*` shows of both sides.
    fn constraint(
        &mut self,
        constraint: &ast::JoinConstraint,
        left: &Chain,
        right: &Chain,
        kind: Joined,
        on: &mut Vec<Expr>,
    ) -> UserResult<Vec<(usize, usize)>> {
        let names = match constraint {
            ast::JoinConstraint::None => {
                if kind != Joined::Inner {
                    return Err(UserError::syntax("an outer join needs ON or USING"));
                }
                Vec::new()
            }
            ast::JoinConstraint::On(condition) => {
                split_conjunction(self.condition(condition)?, on);
                Vec::new()
            }
            ast::JoinConstraint::Natural => self.names_on_both(left, right),
            ast::JoinConstraint::Using(columns) => columns.iter().map(object_name).collect::<UserResult<_>>()?,
        };
        let mut star = Vec::with_capacity(left.star.len() + right.star.len());
        let mut merged = Vec::with_capacity(2 * names.len());
        for name in names {
            let (shown, hidden) = self.using_column(&name, left, right, kind, on)?;
            star.push(shown);
            merged.extend([shown, hidden]);
        }
        star.extend(left.star.iter().chain(&right.star).filter(|place| !merged.contains(place)));
        Ok(star)
    }

    /// Names of columns that both sides show, in the left side's order.
    fn names_on_both(&mut self, left: &Chain, right: &Chain) -> Vec<String> {
        let Some(scope) = self.scope() else { return Vec::new() };
        let name = |place: &(usize, usize)| scope.sources[place.0].columns[place.1].name.clone();
        let on_right: Vec<String> = right.star.iter().map(name).collect();
        let names: Vec<String> = left.star.iter().map(name).filter(|name| on_right.contains(name)).collect();
        names.iter().for_each(|name| self.views.name_means(|| format!("natural {name}")));
        names
    }

    /// Equality of the column on both sides, which become one: the side that may be NULL is no
    /// longer reached without a qualifier, and where both may be, the name means the first that is
    /// not. Answers the places shown and hidden.
    fn using_column(
        &mut self,
        name: &str,
        left: &Chain,
        right: &Chain,
        kind: Joined,
        on: &mut Vec<Expr>,
    ) -> UserResult<((usize, usize), (usize, usize))> {
        let scope = self.scope().ok_or_else(|| UserError::internal("a join outside FROM"))?;
        let mut places = Vec::with_capacity(2);
        let mut sides = Vec::with_capacity(2);
        for chain in [left, right] {
            let mut found =
                chain.star.iter().copied().filter(|place| scope.sources[place.0].columns[place.1].name == name);
            let Some(place) = found.next() else {
                return Err(
                    UserError::unknown_column(name).with_hint("USING takes columns that both sides of the join have")
                );
            };
            if found.next().is_some() {
                return Err(UserError::compile("42702", format!("column reference {name} is ambiguous")));
            }
            places.push(place);
            let source = &scope.sources[place.0];
            sides.push((source.unqualified(place.1), source.columns[place.1].sql_type));
        }
        let sides: Vec<Typed> = sides.into_iter().map(|(expr, sql_type)| self.read(expr, sql_type)).collect();
        let left_side = sides[0].clone();
        let right_side = sides[1].clone();
        let (shown, hidden) = if kind == Joined::Right { (places[1], places[0]) } else { (places[0], places[1]) };
        if kind == Joined::Full {
            let present = Expr::IsNull { operand: Box::new(left_side.expr.clone()), negated: true };
            let either = self.searched_case(vec![(present, left_side.clone())], right_side.clone())?;
            if let Some(scope) = self.scope() {
                let column = &mut scope.sources[shown.0].columns[shown.1];
                column.merged_with = Some(either.expr);
                column.sql_type = either.sql_type.unwrap_or(column.sql_type);
            }
        }
        if let Some(scope) = self.scope() {
            scope.sources[hidden.0].columns[hidden.1].hidden = true;
        }
        on.push(self.compare(left_side, CompareOperator::Equal, right_side)?.expr);
        Ok((shown, hidden))
    }

    fn factor(&mut self, factor: &ast::TableFactor) -> UserResult<Chain> {
        let first_slot = self.plan.slots();
        match factor {
            ast::TableFactor::Table { sample: Some(_), .. } => Err(UserError::not_supported("TABLESAMPLE")),
            ast::TableFactor::Table { with_hints, version, with_ordinality, partitions, index_hints, .. }
                if !with_hints.is_empty()
                    || version.is_some()
                    || *with_ordinality
                    || !partitions.is_empty()
                    || !index_hints.is_empty() =>
            {
                Err(UserError::not_supported(format!("what stands beside the table's name in {}", as_written(factor))))
            }
            ast::TableFactor::Table { name, alias, args: None, .. } => {
                let folded = object_name(name)?;
                let source = match self.common_table_named(&folded) {
                    Some(position) => self.common_source(position, &folded, alias.as_ref())?,
                    None if self.catalog.plain_views.contains_key(&folded) => {
                        self.plain_view_source(&folded, alias.as_ref())?
                    }
                    None => {
                        let table = self.table_at(&folded, super::place::of_name(name))?;
                        self.table_source(table, alias.as_ref())?
                    }
                };
                Ok(self.chain_of(source, first_slot))
            }
            ast::TableFactor::Derived { lateral: true, subquery, alias, .. } => {
                let (query, correlated) = self.subquery_body(subquery)?;
                let source = self.derived_source(query, correlated, String::new(), alias.as_ref())?;
                Ok(self.chain_of(source, first_slot))
            }
            ast::TableFactor::Derived { lateral: false, subquery, alias, .. } => {
                // What stands beside it in FROM is not in its reach.
                let scope = self.pop_scope();
                let bound = self.subquery_body(subquery);
                self.push_scope(scope);
                let (query, correlated) = bound?;
                let source = self.derived_source(query, correlated, String::new(), alias.as_ref())?;
                Ok(self.chain_of(source, first_slot))
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                let mut chain = self.chain(table_with_joins)?;
                chain.first_slot = first_slot;
                Ok(chain)
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias } => {
                let derived = derived_join(table_with_joins, alias)?;
                self.factor(&derived)
            }
            ast::TableFactor::Table { name, args: Some(arguments), alias, .. } => {
                let source = self.table_function(name, &arguments.args, alias.as_ref())?;
                Ok(self.chain_of(source, first_slot))
            }
            ast::TableFactor::Function { name, args, alias, .. } => {
                let source = self.table_function(name, args, alias.as_ref())?;
                Ok(self.chain_of(source, first_slot))
            }
            _ => Err(UserError::not_supported("this kind of table in FROM")),
        }
    }

    /// A chain of the one source that has just come into the scope.
    fn chain_of(&mut self, source: Source, first_slot: u16) -> Chain {
        let place = self.scope().map_or(0, |scope| scope.sources.len() - 1);
        let columns = self.scope().map_or(0, |scope| scope.sources[place].columns.len());
        Chain {
            sources: vec![source],
            conjuncts: Vec::new(),
            star: (0..columns).map(|column| (place, column)).collect(),
            scope: place..place + 1,
            first_slot,
        }
    }

    /// A query as a source, its columns in reach.
    pub fn derived_source(
        &mut self,
        query: Query,
        correlated: bool,
        name: String,
        alias: Option<&ast::TableAlias>,
    ) -> UserResult<Source> {
        let slot = self.plan.new_slot()?;
        let columns = query.columns.iter().map(|column| (column.name.clone(), column.sql_type)).collect();
        self.note_columns_of(slot, &query);
        self.enter_source(name, slot, columns, alias)?;
        let input = Input::Derived { query: Box::new(query), correlated };
        Ok(bound_source(slot, input))
    }

    /// The joined sources as one derived table. The names keep their places in the scope and lead
    /// to its columns.
    fn wrapped(&mut self, chain: Chain) -> UserResult<Chain> {
        let Chain { sources, conjuncts, star, scope: range, first_slot } = chain;
        let filter = conjunction(conjuncts);
        let scope = self.scope().ok_or_else(|| UserError::internal("a join outside FROM"))?;
        let mut output = Vec::new();
        let mut columns = Vec::new();
        for source in &scope.sources[range.clone()] {
            for (position, column) in source.columns.iter().enumerate() {
                output.push(source.column(position));
                columns.push(OutputColumn { name: column.name.clone(), sql_type: column.sql_type });
            }
        }
        // What a name means after USING is computed here, so that it does not grow with each join.
        let mut merged = Vec::new();
        for source in &scope.sources[range.clone()] {
            for column in &source.columns {
                if let Some(expr) = &column.merged_with {
                    merged.push(output.len() as u16);
                    output.push(expr.clone());
                    columns.push(OutputColumn { name: column.name.clone(), sql_type: column.sql_type });
                }
            }
        }
        let select = Select { sources, filter, aggregation: None, windowing: None, distinct: false, output };
        let query = Query::of(QueryBody::Select(Box::new(select)), columns);
        let mut correlated = false;
        for_each_expr(&query, &mut |expr| {
            for_each_slot(expr, &self.plan.subqueries, &mut |slot| correlated |= slot < first_slot);
        });
        let slot = self.plan.new_slot()?;
        self.note_columns_of(slot, &query);
        if let Some(scope) = self.scope() {
            let mut next = 0;
            let mut merged = merged.into_iter();
            for source in &mut scope.sources[range.clone()] {
                source.slot = slot;
                source.first_column = next;
                next += source.columns.len() as u16;
                for column in source.columns.iter_mut().filter(|column| column.merged_with.is_some()) {
                    column.merged_with = merged.next().map(|place| Expr::column(slot, place));
                }
            }
        }
        let input = Input::Derived { query: Box::new(query), correlated };
        let source = bound_source(slot, input);
        Ok(Chain { sources: vec![source], conjuncts: Vec::new(), star, scope: range, first_slot })
    }

    pub fn table_named(&self, name: &str) -> UserResult<Arc<Table>> {
        self.table_at(name, None)
    }

    fn table_source(&mut self, table: Arc<Table>, alias: Option<&ast::TableAlias>) -> UserResult<Source> {
        if table.kind == ferrite_catalog::TableKind::Stream && !self.streams_allowed {
            return Err(UserError::compile("42809", format!("stream {} cannot be queried", table.name))
                .with_hint("a stream keeps no rows; create a view of it"));
        }
        let slot = self.plan.new_slot()?;
        self.views.reads(&table.name);
        let columns = table.columns.iter().map(|column| (column.name.clone(), column.column_type.sql_type)).collect();
        self.enter_source(table.name.clone(), slot, columns, alias)?;
        self.note_migration(&table);
        let input = Input::Table { table: table.id, access: Access::Scan };
        Ok(bound_source(slot, input))
    }

    /// The source that came into the scope last is of this table.
    pub fn note_migration(&mut self, table: &Table) {
        if let Some(source) = self.scope().and_then(|scope| scope.sources.last_mut()) {
            source.migrates = table.export.as_ref().is_some_and(|export| export.migrate);
        }
    }

    /// Brings a source's columns into reach.
    pub fn enter_source(
        &mut self,
        name: String,
        slot: u16,
        columns: Vec<(String, SqlType)>,
        alias: Option<&ast::TableAlias>,
    ) -> UserResult<()> {
        let mut columns: Vec<ScopeColumn> =
            columns.into_iter().map(|(name, sql_type)| ScopeColumn::new(name, sql_type)).collect();
        let mut name = name;
        if let Some(alias) = alias {
            name = fold_name(&alias.name);
            // As in PostgreSQL, fewer names than columns leave the last ones as they are.
            if alias.columns.len() > columns.len() {
                return Err(UserError::compile(
                    "42601",
                    format!("{name} has {} columns, not {}", columns.len(), alias.columns.len()),
                ));
            }
            for (column, alias) in columns.iter_mut().zip(&alias.columns) {
                column.name = fold_name(&alias.name);
            }
        }
        let scope = self.scope().ok_or_else(|| UserError::internal("a table outside FROM"))?;
        if !name.is_empty() && scope.sources.iter().any(|source| source.name == name) {
            return Err(UserError::compile("42712", format!("table name {name} stands twice in FROM"))
                .with_hint("give one of them an alias"));
        }
        scope.sources.push(ScopeSource { name, slot, first_column: 0, columns, migrates: false });
        Ok(())
    }
}

/// A source that nothing is known of yet but what it is.
pub(super) fn bound_source(slot: u16, input: Input) -> Source {
    Source { slot, input, join: JoinKind::Inner, on: None, filter: None }
}

/// The table that a bound source reads, if it is one.
pub(crate) fn table_of<'c>(catalog: &'c Catalog, source: &Source) -> Option<&'c Arc<Table>> {
    match &source.input {
        Input::Table { table, .. } => catalog.table(*table),
        _ => None,
    }
}

/// Whether such a join takes one source on its left.
fn one_left(kind: Joined) -> bool {
    matches!(kind, Joined::Right | Joined::Full)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    Inner,
    Left,
    Right,
    Full,
}
