//! Where names and expressions stand in the text, for the errors about them.
//!
//! For an expression it walks down the left edge in a loop: chains of operators are deep trees, and
//! sqlparser's own spans visit all of an expression.

use crate::errors;
use ferrite_base::UserError;
use sqlparser::ast::{self, Expr};
use sqlparser::tokenizer::{Location, Span};

/// Where an object's name stands.
pub(crate) fn of_name(name: &ast::ObjectName) -> Option<Location> {
    match name.0.first() {
        Some(ast::ObjectNamePart::Identifier(ident)) => Some(ident.span.start),
        _ => None,
    }
}

/// The error with its place in the text, unless it has a detail already.
pub(crate) fn at_span(error: UserError, span: Span) -> UserError {
    located(error, Some(span.start))
}

/// The error with the place of the name that it is about.
pub(crate) fn at_name(error: UserError, name: &ast::ObjectName) -> UserError {
    let last = match name.0.last() {
        Some(ast::ObjectNamePart::Identifier(ident)) => Some(ident.span.start),
        _ => None,
    };
    located(error, last)
}

/// The error with the place, if there is one.
pub(super) fn located(error: UserError, place: Option<Location>) -> UserError {
    match place {
        Some(place) => errors::at(error, place),
        None => error,
    }
}

/// The error with the place where the expression begins, unless a part of it has placed it already.
pub(crate) fn at(error: UserError, expr: &Expr) -> UserError {
    match start(expr) {
        Some(start) if error.place().is_none() => errors::at(error, start),
        _ => error,
    }
}

/// None where the syntax tree does not say.
fn start(expr: &Expr) -> Option<Location> {
    let mut expr = expr;
    loop {
        expr = match expr {
            Expr::Identifier(ident) => return Some(ident.span.start),
            Expr::CompoundIdentifier(parts) => return parts.first().map(|part| part.span.start),
            Expr::Value(value) => return Some(value.span.start),
            Expr::TypedString(typed) => return Some(typed.value.span.start),
            Expr::Function(function) => return of_name(&function.name),
            Expr::Case { case_token, .. } => return Some(case_token.0.span.start),
            Expr::Subquery(query) | Expr::Exists { subquery: query, .. } => return query_start(query),
            Expr::Tuple(parts) => parts.first()?,
            Expr::BinaryOp { left, .. }
            | Expr::AnyOp { left, .. }
            | Expr::AllOp { left, .. }
            | Expr::IsDistinctFrom(left, _)
            | Expr::IsNotDistinctFrom(left, _) => left,
            Expr::Nested(inner)
            | Expr::UnaryOp { expr: inner, .. }
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner)
            | Expr::InList { expr: inner, .. }
            | Expr::InSubquery { expr: inner, .. }
            | Expr::InUnnest { expr: inner, .. }
            | Expr::Between { expr: inner, .. }
            | Expr::Like { expr: inner, .. }
            | Expr::ILike { expr: inner, .. }
            | Expr::SimilarTo { expr: inner, .. }
            | Expr::Cast { expr: inner, .. }
            | Expr::Extract { expr: inner, .. }
            | Expr::Ceil { expr: inner, .. }
            | Expr::Floor { expr: inner, .. }
            | Expr::Position { expr: inner, .. }
            | Expr::Substring { expr: inner, .. }
            | Expr::Overlay { expr: inner, .. }
            | Expr::Trim { expr: inner, .. } => inner,
            _ => return None,
        }
    }
}

fn query_start(query: &ast::Query) -> Option<Location> {
    match query.body.as_ref() {
        ast::SetExpr::Select(select) => Some(select.select_token.0.span.start),
        _ => None,
    }
}
