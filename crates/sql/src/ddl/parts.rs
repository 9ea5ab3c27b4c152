//! Parts of tables that CREATE TABLE, ALTER TABLE and CREATE INDEX share: columns and defaults,
//! keys and conditions over a row.

use crate::bind::Binder;
use crate::bind::change::stored_constant;
use crate::bind::literal::declared;
use crate::bind::scope::{Scope, ScopeColumn, ScopeSource};
use crate::bind::types::Typed;
use crate::parse::statement::{ColumnDefinition, ConstraintDefinition, ConstraintKind, CreateTable, WrittenExpr};
use crate::planner::context::Reach;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::change::NewIndex;
use ferrite_catalog::{Catalog, Check, Column, DecimalScale, IndexKind, IndexText};
use ferrite_expr::{Expr, Function};
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use sqlparser::ast;

/// The index of a PRIMARY KEY or UNIQUE constraint.
pub(super) fn key_of(
    catalog: &Catalog,
    table: &str,
    columns: &[Column],
    constraint: &ConstraintDefinition,
) -> UserResult<NewIndex> {
    let keys = index_keys(catalog, table, columns, &constraint.keys)?;
    let is_column = |key: &Expr| matches!(key, Expr::Column { .. });
    if constraint.kind == ConstraintKind::PrimaryKey && !keys.iter().all(is_column) {
        return Err(UserError::ddl("42P16", "a primary key takes columns, not expressions"));
    }
    Ok(NewIndex {
        name: None,
        text: index_text(&keys, &constraint.keys, None),
        keys,
        unique: true,
        assume_unique: constraint.kind == ConstraintKind::AssumeUnique,
        kind: if constraint.hash { IndexKind::Hash } else { IndexKind::Ordered },
        predicate: None,
        constraint: constraint.name.clone(),
    })
}

/// A CHECK; without a name it gets the first that none of `taken` is.
pub(super) fn check_of(
    catalog: &Catalog,
    table: &str,
    columns: &[Column],
    name: Option<&str>,
    written: &WrittenExpr,
    taken: &[String],
) -> UserResult<Check> {
    let condition = row_condition(catalog, table, columns, written)?;
    let made_up = || {
        let numbered = (taken.len() + 1..).map(|number| format!("{table}_CHECK_{number}"));
        numbered.into_iter().find(|name| !taken.contains(name)).expect("the numbers do not end")
    };
    Ok(Check { name: name.map_or_else(made_up, str::to_owned), condition, text: written.text.clone() })
}

/// What was read and does nothing.
pub(super) fn warn_of_parts(table: &str, parts: &CreateTable, warnings: &mut Vec<String>) {
    if parts.foreign_keys > 0 {
        warnings.push(format!("table {table}: FOREIGN KEY is not enforced"));
    }
    if parts.limits_rows {
        warnings.push(format!("table {table}: LIMIT PARTITION ROWS is not enforced"));
    }
}

pub(super) fn column(catalog: &Catalog, definition: &ColumnDefinition, table: &str) -> UserResult<Column> {
    let column_type =
        declared(catalog, definition.column_type).map_err(|error| error.about(definition.name.as_str()))?;
    let (default, default_text) =
        stored_default(catalog, &definition.name, &column_type, definition.default.as_ref(), table)?;
    Ok(Column { name: definition.name.clone(), column_type, nullable: !definition.not_null, default, default_text })
}

/// Of a column whose precision and scale this database does not keep.
pub(super) fn ignored_declaration(
    catalog: &Catalog,
    column: &str,
    column_type: &ColumnType,
    table: &str,
) -> Option<String> {
    let ignored = column_type.precision_and_scale().is_some() && catalog.decimals == DecimalScale::Ignored;
    ignored.then(|| {
        format!("table {table}: column {column} is DECIMAL: {column_type} does not round or check in this database")
    })
}

/// A default as the column keeps it, and as tools see it.
pub(super) fn stored_default(
    catalog: &Catalog,
    column: &str,
    column_type: &ColumnType,
    written: Option<&WrittenExpr>,
    table: &str,
) -> UserResult<(Option<Expr>, Option<String>)> {
    let default = match written {
        None => None,
        Some(written) => default_value(catalog, column, *column_type, written, table)?,
    };
    let text = default_text(default.as_ref());
    Ok((default, text))
}

pub(super) fn default_text(default: Option<&Expr>) -> Option<String> {
    default.map(|default| match default {
        Expr::Constant(value @ OwnedValue::Text(_)) => {
            format!("'{}'", ferrite_value::convert::to_text_string(&value.as_value()))
        }
        Expr::Constant(value) => ferrite_value::convert::to_text_string(&value.as_value()),
        Expr::Call { function: Function::CurrentDate, .. } => "CURRENT_DATE".to_owned(),
        _ => "CURRENT_TIMESTAMP".to_owned(),
    })
}

/// A constant of the column's type, or NOW. DEFAULT NULL is not a default.
fn default_value(
    catalog: &Catalog,
    column: &str,
    to: ColumnType,
    written: &WrittenExpr,
    table: &str,
) -> UserResult<Option<Expr>> {
    let mut binder = Binder::new(catalog, Reach::Local);
    let typed = binder.expression(&written.expr)?;
    match &typed.expr {
        Expr::Constant(OwnedValue::Null) => Ok(None),
        Expr::Constant(_) => {
            let stored = stored_constant(&typed, &to, column, table)?;
            let kept = ferrite_value::convert::as_kept(stored.as_value(), &to, column)
                .map_err(crate::errors::at_compile_time)?;
            Ok(Some(Expr::Constant(kept.to_owned_value())))
        }
        Expr::Call { function: Function::Now, .. } if to.sql_type == SqlType::Timestamp => Ok(Some(typed.expr)),
        Expr::Call { function: Function::CurrentDate, .. } if to.sql_type == SqlType::Date => Ok(Some(typed.expr)),
        _ => Err(UserError::ddl("42601", format!("the default of column {column} is neither a constant nor NOW"))),
    }
}

/// A scope with one row of a table at slot 0.
fn row_scope(catalog: &Catalog, name: &str, columns: &[Column]) -> Scope {
    let export = catalog.table_named(name).and_then(|table| table.export.as_ref());
    let migrates = export.is_some_and(|export| export.migrate);
    let columns =
        columns.iter().map(|column| ScopeColumn::new(column.name.clone(), column.column_type.sql_type)).collect();
    Scope {
        sources: vec![ScopeSource { name: name.to_owned(), slot: 0, first_column: 0, columns, migrates }],
        ..Scope::default()
    }
}

fn row_expression(catalog: &Catalog, table: &str, columns: &[Column], expr: &ast::Expr) -> UserResult<Typed> {
    let mut binder = Binder::new(catalog, Reach::Local);
    binder.schema_object = Some("an index or constraint");
    binder.push_scope(row_scope(catalog, table, columns));
    let typed = binder.expression(expr)?;
    let changing =
        typed.expr.any(&mut |inner| matches!(inner, Expr::Call { function, .. } if !function.is_deterministic()));
    if !binder.plan.subqueries.is_empty() || changing {
        return Err(UserError::ddl("0A000", "an index or constraint must not use subqueries or NOW"));
    }
    Ok(typed)
}

pub(super) fn row_condition(
    catalog: &Catalog,
    table: &str,
    columns: &[Column],
    written: &WrittenExpr,
) -> UserResult<Expr> {
    let typed = row_expression(catalog, table, columns, &written.expr)?;
    match typed.sql_type {
        None | Some(SqlType::Boolean) => Ok(typed.expr),
        Some(_) => Err(UserError::ddl("42804", format!("{} is not a condition", written.text))),
    }
}

pub(super) fn index_keys(
    catalog: &Catalog,
    table: &str,
    columns: &[Column],
    written: &[WrittenExpr],
) -> UserResult<Vec<Expr>> {
    if written.len() > limits::INDEX_KEYS_MAX {
        return Err(UserError::limit(format!("an index has more than {} keys", limits::INDEX_KEYS_MAX)));
    }
    let mut keys: Vec<Expr> = Vec::with_capacity(written.len());
    for key in written {
        let typed = row_expression(catalog, table, columns, &key.expr)?;
        match typed.decided_type() {
            SqlType::Boolean if !matches!(typed.expr, Expr::Column { .. }) => {
                return Err(UserError::ddl("42804", format!("{} is a condition, and no index key", key.text)));
            }
            _ => {}
        }
        if keys.contains(&typed.expr) {
            return Err(UserError::ddl("42701", format!("{} stands twice in an index", key.text)));
        }
        if matches!(typed.expr, Expr::Constant(_)) {
            return Err(UserError::ddl("42601", format!("{} is a constant, and no index key", key.text)));
        }
        keys.push(typed.expr);
    }
    Ok(keys)
}

/// Keys are known by their text where one of them is more than a column.
pub(super) fn index_text(keys: &[Expr], written: &[WrittenExpr], predicate: Option<&WrittenExpr>) -> IndexText {
    let plain = keys.iter().all(|key| matches!(key, Expr::Column { .. }));
    IndexText {
        keys: if plain { Vec::new() } else { written.iter().map(|key| key.text.clone()).collect() },
        predicate: predicate.map(|predicate| predicate.text.clone()),
    }
}
