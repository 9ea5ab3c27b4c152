//! The SELECT list: its expressions, their names, and what `*` stands for.

use super::Binder;
use super::scope::{fold_name, object_name};
use super::types::Typed;
use ferrite_base::{UserError, UserResult, limits};
use sqlparser::ast;
use sqlparser::tokenizer::Location;

/// Output columns of a SELECT while it is bound.
pub(crate) struct Output {
    pub name: String,
    pub typed: Typed,
}

impl Binder<'_> {
    pub fn projection(&mut self, items: &[ast::SelectItem]) -> UserResult<Vec<Output>> {
        let mut outputs: Vec<Output> = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            match item {
                ast::SelectItem::UnnamedExpr(expr) => {
                    let name = implied_name(expr).unwrap_or_else(|| format!("C{}", outputs.len() + 1));
                    let typed = self.item(position, expr)?;
                    outputs.push(Output { name, typed });
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    let typed = self.item(position, expr)?;
                    outputs.push(Output { name: fold_name(alias), typed });
                }
                ast::SelectItem::Wildcard(options) => {
                    self.expand(None, &mut outputs)?;
                    let token = options.wildcard_token.0.span;
                    self.note_star(token.start, token.end, None);
                }
                ast::SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(written),
                    options,
                ) => {
                    let name = object_name(written)?;
                    self.expand(Some(&name), &mut outputs)?;
                    let start = super::place::of_name(written).unwrap_or(Location::empty());
                    self.note_star(start, options.wildcard_token.0.span.end, Some(&name));
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

    fn item(&mut self, position: usize, expr: &ast::Expr) -> UserResult<Typed> {
        let grouped = self.scope().and_then(|scope| scope.grouped_items.iter().find(|(item, _)| *item == position));
        match grouped {
            Some((_, typed)) => Ok(typed.clone()),
            None => self.expression(expr),
        }
    }

    fn expand(&mut self, qualifier: Option<&str>, outputs: &mut Vec<Output>) -> UserResult<()> {
        let Some(scope) = self.scope() else { return Err(UserError::internal("* outside a query")) };
        let Some(qualifier) = qualifier else {
            if scope.sources.is_empty() {
                return Err(UserError::syntax("SELECT * needs FROM"));
            }
            let column = |(source, position): &(usize, usize)| {
                let source = &scope.sources[*source];
                let column = &source.columns[*position];
                (column.name.clone(), source.unqualified(*position), column.sql_type)
            };
            let shown: Vec<_> = scope.star.iter().map(column).collect();
            outputs.extend(shown.into_iter().map(|(name, expr, sql_type)| {
                let typed = self.read(expr, sql_type);
                Output { name, typed }
            }));
            return Ok(());
        };
        let named = scope.sources.iter().filter(|source| source.name == qualifier);
        let columns = named.map(|source| {
            let columns = source.columns.iter().enumerate();
            columns.map(|(position, column)| (column.name.clone(), source.column(position), column.sql_type)).collect()
        });
        let shown: Vec<Vec<_>> = columns.collect();
        let known = !shown.is_empty();
        outputs.extend(shown.into_iter().flatten().map(|(name, expr, sql_type)| {
            let typed = self.read(expr, sql_type);
            Output { name, typed }
        }));
        if known { Ok(()) } else { Err(UserError::unknown_table(qualifier)) }
    }
}

/// Asked after each item: a `*` may stand for many columns, and often.
fn check_columns(outputs: &[Output]) -> UserResult<()> {
    if outputs.len() > limits::TABLE_COLUMNS_MAX {
        return Err(UserError::limit(format!("SELECT has more than {} columns", limits::TABLE_COLUMNS_MAX)));
    }
    Ok(())
}

pub(super) fn implied_name(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(ident) if !ident.value.eq_ignore_ascii_case("NOW") => Some(fold_name(ident)),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map(fold_name),
        ast::Expr::Nested(inner) => implied_name(inner),
        _ => None,
    }
}
