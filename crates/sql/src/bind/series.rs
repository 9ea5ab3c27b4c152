//! GENERATE_SERIES(start, stop [, step]) in FROM.

use super::Binder;
use super::proposals::{Proposal, Types};
use super::scope::fold_name;
use super::types::{Typed, widest};
use super::window::interval_distance;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::Expr;
use ferrite_plan::{Adoption, OutputColumn, Query, QueryBody, Source};
use ferrite_value::SqlType;
use sqlparser::ast;

impl Binder<'_> {
    /// A function that makes a table. It may refer to what stands before it in FROM.
    pub fn table_function(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
    ) -> UserResult<Source> {
        let folded = super::scope::object_name(name)?;
        if folded != "GENERATE_SERIES" {
            return Err(UserError::not_supported(format!("{folded}(...) in FROM"))
                .with_hint("the only function that makes a table is GENERATE_SERIES(start, stop [, step])"));
        }
        let mut given = Vec::with_capacity(3);
        for argument in arguments {
            match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => given.push(expr),
                _ => return Err(shape()),
            }
        }
        let (mut query, correlated) = self.in_frame(|binder| binder.series(&given))?;
        // As in PostgreSQL, an alias of the table is the name of its one column too.
        query.columns[0].name = alias.map_or_else(|| folded.clone(), |alias| fold_name(&alias.name));
        self.derived_source(query, correlated, folded, alias)
    }

    fn series(&mut self, arguments: &[&ast::Expr]) -> UserResult<Query> {
        let (start, stop, step) = match arguments {
            [start, stop] => (*start, *stop, None),
            [start, stop, step] => (*start, *stop, Some(*step)),
            _ => return Err(shape()),
        };
        let start = self.expression(start)?;
        let stop = self.expression(stop)?;
        let interval = matches!(step, Some(ast::Expr::Interval(_)));
        let of_time = interval || [&start, &stop].iter().any(|side| side.sql_type == Some(SqlType::Timestamp));
        let sql_type = if of_time { SqlType::Timestamp } else { SqlType::Bigint };
        let step = match step {
            None if of_time => {
                return Err(UserError::compile("42883", "GENERATE_SERIES of timestamps needs a step")
                    .with_hint("GENERATE_SERIES(start, stop, INTERVAL '1' HOUR)"));
            }
            None => Expr::integer(1),
            Some(ast::Expr::Interval(interval)) => {
                Expr::integer(interval_distance(interval, SqlType::Timestamp, "the step of GENERATE_SERIES")?)
            }
            Some(step) => {
                let step = self.expression(step)?;
                self.end_of_series(step, SqlType::Bigint)?
            }
        };
        let start = self.end_of_series(start, sql_type)?;
        let stop = self.end_of_series(stop, sql_type)?;
        let columns = vec![OutputColumn { name: String::new(), sql_type }];
        Ok(Query::of(QueryBody::Series { start, stop, step }, columns))
    }

    fn end_of_series(&mut self, mut typed: Typed, sql_type: SqlType) -> UserResult<Expr> {
        let is_taken = |given: SqlType| match sql_type {
            SqlType::Timestamp => matches!(given, SqlType::Timestamp | SqlType::Date),
            _ => given.is_integer(),
        };
        self.propose(&mut typed, Proposal::of(widest(sql_type), Adoption::Fixed).taking(Types::that(is_taken)));
        let fits = match typed.decided_type() {
            given if given.is_integer() => sql_type == SqlType::Bigint || typed.is_null(),
            SqlType::Timestamp | SqlType::Date => sql_type == SqlType::Timestamp,
            SqlType::Varchar => typed.constant().is_some(),
            _ => typed.is_null(),
        };
        if !fits {
            return Err(UserError::compile(
                "42883",
                format!("GENERATE_SERIES takes whole numbers or timestamps, not {}", typed.decided_type()),
            ));
        }
        self.folding.convert_common(typed, sql_type)
    }
}

fn shape() -> UserError {
    UserError::compile("42883", "GENERATE_SERIES takes start, stop and, if it is not 1, a step")
}
