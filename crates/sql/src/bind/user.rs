//! Calls of user-defined functions: arguments brought to the types that the function's class
//! declares.

use super::Binder;
use super::proposals::{Proposal, Types};
use super::types::{Typed, can_store, widest};
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{Aggregate, AggregateKind, Expr, Function, UserFunction};
use ferrite_plan::Adoption;
use ferrite_value::{ColumnType, SqlType};
use sqlparser::ast;
use std::sync::Arc;

/// Functions of SQL that the original lacks, so that its users wrote their own by these names. A
/// user's goes before them.
const MAY_BE_HIDDEN: [&str; 19] = [
    "ACOS",
    "ASIN",
    "ATAN",
    "ATAN2",
    "BTRIM",
    "CBRT",
    "DATE_TRUNC",
    "GREATEST",
    "INITCAP",
    "LEAST",
    "LPAD",
    "REGEXP_LIKE",
    "REGEXP_REPLACE",
    "REVERSE",
    "RPAD",
    "SIGN",
    "SPLIT_PART",
    "STARTS_WITH",
    "TO_CHAR",
];

/// A function must not hide one that SQL has, but some. Answers a warning of those.
pub(crate) fn check_name(name: &str) -> UserResult<Option<String>> {
    if MAY_BE_HIDDEN.contains(&name) {
        return Ok(Some(format!(
            "function {name} hides SQL's function of that name: statements and procedures call yours, while indexes, \
             materialized views and constraints keep SQL's"
        )));
    }
    let known = super::suggest::is_function(name)
        || super::function::aggregate_named(name).is_some()
        || super::function::is_only_window(name)
        || super::texts::is_text_aggregate(name)
        || matches!(name, "MIGRATING" | "GROUPING");
    if known {
        return Err(UserError::ddl("42723", format!("SQL has a function named {name} already"))
            .with_hint("give yours another name"));
    }
    Ok(None)
}

impl Binder<'_> {
    pub fn user_function(
        &mut self,
        user: &Arc<UserFunction>,
        function: &ast::Function,
        arguments: &[Option<&ast::Expr>],
        distinct: bool,
    ) -> UserResult<Typed> {
        let name = &user.name;
        if let Some(object) = self.schema_object {
            return Err(UserError::ddl("0A000", format!("{object} must not use the user-defined function {name}"))
                .with_hint(
                    "its code may change, or answer otherwise the next time, and what is stored would not follow",
                ));
        }
        let kind = if user.is_aggregate() { "user-defined aggregate" } else { "user-defined function" };
        if distinct || function.over.is_some() || function.null_treatment.is_some() || !function.within_group.is_empty()
        {
            return Err(UserError::not_supported(format!(
                "DISTINCT, OVER, NULLS and WITHIN GROUP of the {kind} {name}"
            )));
        }
        if !user.is_aggregate() {
            if function.filter.is_some() {
                return Err(UserError::compile(
                    "42601",
                    format!("FILTER is not allowed in {name}, which is not an aggregate"),
                ));
            }
            let arguments = self.user_arguments(user, arguments)?;
            let expr = Expr::User { function: Arc::clone(user), arguments: arguments.into() };
            return Ok(Typed::new(expr, user.result));
        }
        self.gathered(name, |binder| {
            let filter = function.filter.as_deref().map(|filter| binder.condition(filter)).transpose()?;
            let perhaps = filter.is_some();
            let (arguments, _) = binder.evaluated_perhaps(perhaps, |binder| binder.user_arguments(user, arguments))?;
            let mut argument = Expr::Call { function: Function::Together, arguments: arguments.into() };
            if let Some(filter) = filter {
                argument = Expr::Case { branches: [(filter, argument)].into(), otherwise: Box::new(Expr::null()) };
            }
            Ok(Aggregate {
                kind: AggregateKind::User,
                distinct: false,
                argument: Some(argument),
                argument_type: user.parameters[0],
                result_type: user.result,
                user: Some(Arc::clone(user)),
            })
        })
    }

    fn user_arguments(&mut self, user: &UserFunction, arguments: &[Option<&ast::Expr>]) -> UserResult<Vec<Expr>> {
        let name = &user.name;
        let declared = &user.parameters;
        if arguments.len() != declared.len() {
            let words: Vec<&str> = declared.iter().map(|sql_type| sql_type.name()).collect();
            return Err(UserError::compile(
                "42883",
                format!("{name} takes {} arguments, not {}", declared.len(), arguments.len()),
            )
            .with_hint(format!("{name}({})", words.join(", "))));
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for (position, (argument, to)) in arguments.iter().zip(declared).enumerate() {
            let argument =
                argument.ok_or_else(|| UserError::compile("42601", format!("{name}(*) is not a function")))?;
            let mut typed = self.expression(argument)?;
            let is_taken = |from| can_store(from, *to) && (from != SqlType::Boolean || *to == SqlType::Boolean);
            self.propose(&mut typed, Proposal::of(widest(*to), Adoption::Fixed).taking(Types::that(is_taken)));
            bound.push(match typed.sql_type {
                None => typed.expr,
                Some(from) if from == *to => typed.expr,
                Some(from) if is_taken(from) => {
                    let expr = self.folding.convert_stored(typed.expr, from, *to)?;
                    // A wider integer may not fit.
                    if to.is_integer() && *to != SqlType::Bigint && from != *to {
                        self.folding.fold(Expr::Cast { operand: Box::new(expr), to: ColumnType::unbounded(*to) })?
                    } else {
                        expr
                    }
                }
                Some(from) => {
                    return Err(UserError::compile(
                        "42804",
                        format!("argument {} of {name} is {to}, and {from} is given", position + 1),
                    )
                    .with_hint("use CAST to say which value is meant"));
                }
            });
        }
        Ok(bound)
    }
}
