//! FROM: tables, views, derived tables and joins become sources for the planner.

use super::scope::{ScopeColumn, ScopeSource, fold_name, object_name};
use super::types::Typed;
use super::{Binder, Reach};
use crate::plan::{JoinKind, Query};
use crate::walk::split_conjunction;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::Table;
use ferrite_expr::{CompareOperator, Expr};
use ferrite_value::SqlType;
use sqlparser::ast;
use std::sync::Arc;

/// A source that has no access path and no place in the join order yet.
#[derive(Debug)]
pub(crate) struct PendingSource {
    pub slot: u16,
    pub input: PendingInput,
    pub join: JoinKind,
    /// ON of an outer join, split at its ANDs.
    pub on: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) enum PendingInput {
    Table(Arc<Table>),
    /// A view of which every partition holds a part of each group: to be added up.
    PartialView {
        table: Arc<Table>,
        raw_slot: u16,
        group_slot: u16,
    },
    Derived {
        query: Box<Query>,
        correlated: bool,
    },
}

impl Binder<'_> {
    /// Binds FROM into the innermost scope. Conditions of inner joins go to `conjuncts`.
    pub fn bind_from(
        &mut self,
        from: &[ast::TableWithJoins],
        conjuncts: &mut Vec<Expr>,
    ) -> UserResult<Vec<PendingSource>> {
        let mut pending = Vec::new();
        for item in from {
            self.table_with_joins(item, &mut pending, conjuncts)?;
        }
        if pending.len() > limits::JOIN_TABLES_MAX {
            return Err(UserError::limit(format!("more than {} tables are joined", limits::JOIN_TABLES_MAX)));
        }
        if pending.len() > 2 && pending.iter().any(|source| source.join == JoinKind::Full) {
            return Err(UserError::not_supported("FULL JOIN of more than two tables"));
        }
        Ok(pending)
    }

    fn table_with_joins(
        &mut self,
        item: &ast::TableWithJoins,
        pending: &mut Vec<PendingSource>,
        conjuncts: &mut Vec<Expr>,
    ) -> UserResult<()> {
        let first = pending.len();
        self.factor(&item.relation, pending, conjuncts)?;
        for join in &item.joins {
            use ast::JoinOperator as J;
            let (kind, constraint) = match &join.join_operator {
                J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => (Joined::Inner, constraint),
                J::Left(constraint) | J::LeftOuter(constraint) => (Joined::Left, constraint),
                J::Right(constraint) | J::RightOuter(constraint) => (Joined::Right, constraint),
                J::FullOuter(constraint) => (Joined::Full, constraint),
                _ => return Err(UserError::not_supported("this kind of join")),
            };
            let left_sources = self.scope().map_or(0, |scope| scope.sources.len());
            let joined = pending.len();
            self.factor(&join.relation, pending, conjuncts)?;
            let mut on = Vec::new();
            self.constraint(constraint, left_sources, kind, &mut on)?;
            if matches!(kind, Joined::Inner) {
                conjuncts.append(&mut on);
                continue;
            }
            if pending.len() != joined + 1 {
                return Err(UserError::not_supported("an outer join with a join in parentheses"));
            }
            match kind {
                Joined::Right => {
                    if joined != first + 1 || pending[first].join != JoinKind::Inner {
                        return Err(UserError::not_supported("RIGHT JOIN after another join")
                            .with_hint("write it as LEFT JOIN, with the tables in the other order"));
                    }
                    // A RIGHT JOIN B is B LEFT JOIN A; SELECT * goes by the scope, which keeps the written order.
                    pending.swap(first, joined);
                    pending[joined].join = JoinKind::Left;
                    pending[joined].on = on;
                }
                Joined::Full => {
                    pending[joined].join = JoinKind::Full;
                    pending[joined].on = on;
                }
                _ => {
                    pending[joined].join = JoinKind::Left;
                    pending[joined].on = on;
                }
            }
        }
        Ok(())
    }

    fn constraint(
        &mut self,
        constraint: &ast::JoinConstraint,
        left_sources: usize,
        kind: Joined,
        on: &mut Vec<Expr>,
    ) -> UserResult<()> {
        match constraint {
            ast::JoinConstraint::None => {
                if !matches!(kind, Joined::Inner) {
                    return Err(UserError::syntax("an outer join needs ON or USING"));
                }
            }
            ast::JoinConstraint::On(condition) => split_conjunction(self.condition(condition)?, on),
            ast::JoinConstraint::Natural => return Err(UserError::not_supported("NATURAL JOIN")),
            ast::JoinConstraint::Using(_) if matches!(kind, Joined::Full) => {
                return Err(UserError::not_supported("FULL JOIN ... USING").with_hint("write ON"));
            }
            ast::JoinConstraint::Using(columns) => {
                for column in columns {
                    let name = object_name(column)?;
                    on.push(self.using_column(&name, left_sources, kind)?);
                }
            }
        }
        Ok(())
    }

    /// Equality of the column on both sides; the side that may be NULL is no longer reached without a qualifier.
    fn using_column(&mut self, name: &str, left_sources: usize, kind: Joined) -> UserResult<Expr> {
        let scope = self.scope().ok_or_else(|| UserError::internal("a join outside FROM"))?;
        let mut found: [Option<(usize, usize)>; 2] = [None, None];
        for (position, source) in scope.sources.iter().enumerate() {
            let side = usize::from(position >= left_sources);
            for (column, definition) in source.columns.iter().enumerate() {
                if definition.name == name && !definition.merged && found[side].replace((position, column)).is_some() {
                    return Err(UserError::compile("42702", format!("column reference {name} is ambiguous")));
                }
            }
        }
        let [Some(left), Some(right)] = found else { return Err(UserError::not_found(name)) };
        let hidden = if matches!(kind, Joined::Right) { left } else { right };
        let typed = |source: &ScopeSource, column: usize| {
            Typed::new(Expr::column(source.slot, column as u16), source.columns[column].sql_type)
        };
        let left = typed(&scope.sources[left.0], left.1);
        let right = typed(&scope.sources[right.0], right.1);
        scope.sources[hidden.0].columns[hidden.1].merged = true;
        Ok(self.compare(left, CompareOperator::Equal, right)?.expr)
    }

    fn factor(
        &mut self,
        factor: &ast::TableFactor,
        pending: &mut Vec<PendingSource>,
        conjuncts: &mut Vec<Expr>,
    ) -> UserResult<()> {
        match factor {
            ast::TableFactor::Table { name, alias, args: None, .. } => {
                let table = self.table_named(&object_name(name)?)?;
                pending.push(self.table_source(table, alias.as_ref())?);
                Ok(())
            }
            ast::TableFactor::Derived { lateral: false, subquery, alias, .. } => {
                // What stands beside it in FROM is not in its reach.
                let scope = self.pop_scope();
                let bound = self.subquery_body(subquery);
                self.push_scope(scope);
                let (query, correlated) = bound?;
                let slot = self.new_slot()?;
                let columns = query.columns.iter().map(|column| (column.name.clone(), column.sql_type)).collect();
                self.enter_source(String::new(), slot, columns, alias.as_ref())?;
                self.facts.derived_columns(slot, &query);
                pending.push(PendingSource {
                    slot,
                    input: PendingInput::Derived { query: Box::new(query), correlated },
                    join: JoinKind::Inner,
                    on: Vec::new(),
                });
                Ok(())
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.table_with_joins(table_with_joins, pending, conjuncts)
            }
            _ => Err(UserError::not_supported("this kind of table in FROM")),
        }
    }

    pub fn table_named(&self, name: &str) -> UserResult<Arc<Table>> {
        self.catalog.table_named(name).cloned().ok_or_else(|| UserError::not_found(name))
    }

    fn table_source(&mut self, table: Arc<Table>, alias: Option<&ast::TableAlias>) -> UserResult<PendingSource> {
        if table.kind == ferrite_catalog::TableKind::Stream && !self.streams_allowed {
            return Err(UserError::compile("42809", format!("stream {} cannot be queried", table.name))
                .with_hint("a stream keeps no rows; create a view of it"));
        }
        let slot = self.new_slot()?;
        let columns = table.columns.iter().map(|column| (column.name.clone(), column.column_type.sql_type)).collect();
        self.enter_source(table.name.clone(), slot, columns, alias)?;
        let input = if table.partitioned_without_column && self.reach == Reach::All {
            let raw_slot = self.new_slot()?;
            let group_slot = self.new_slot()?;
            PendingInput::PartialView { table, raw_slot, group_slot }
        } else {
            PendingInput::Table(table)
        };
        Ok(PendingSource { slot, input, join: JoinKind::Inner, on: Vec::new() })
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
            columns.into_iter().map(|(name, sql_type)| ScopeColumn { name, sql_type, merged: false }).collect();
        let mut name = name;
        if let Some(alias) = alias {
            name = fold_name(&alias.name);
            if !alias.columns.is_empty() {
                if alias.columns.len() != columns.len() {
                    return Err(UserError::compile(
                        "42601",
                        format!("{name} has {} columns, not {}", columns.len(), alias.columns.len()),
                    ));
                }
                for (column, alias) in columns.iter_mut().zip(&alias.columns) {
                    column.name = fold_name(&alias.name);
                }
            }
        }
        let scope = self.scope().ok_or_else(|| UserError::internal("a table outside FROM"))?;
        if !name.is_empty() && scope.sources.iter().any(|source| source.name == name) {
            return Err(UserError::compile("42712", format!("table name {name} stands twice in FROM"))
                .with_hint("give one of them an alias"));
        }
        scope.sources.push(ScopeSource { name, slot, columns });
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Joined {
    Inner,
    Left,
    Right,
    Full,
}
