//! PERCENTILE_CONT and PERCENTILE_DISC: `PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)`.

use super::Binder;
use super::ordering::{OrderItem, order_item};
use super::proposals::{Proposal, Types};
use super::types::Typed;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::aggregate::PercentileOrder;
use ferrite_expr::{Aggregate, AggregateKind, Expr, Function};
use ferrite_plan::Adoption;
use ferrite_value::{ColumnType, SqlType};
use sqlparser::ast;

pub(crate) fn is_percentile(name: &str) -> bool {
    matches!(name, "PERCENTILE_CONT" | "PERCENTILE_DISC")
}

impl Binder<'_> {
    pub fn percentile(&mut self, name: &str, function: &ast::Function) -> UserResult<Typed> {
        if function.over.is_some() {
            return Err(UserError::not_supported(format!("{name} as a window function"))
                .with_hint("use GROUP BY, or a correlated subquery in the SELECT list"));
        }
        let ast::FunctionArguments::List(list) = &function.args else { return Err(shape(name)) };
        let plain = list.clauses.is_empty() && list.duplicate_treatment.is_none();
        let ([ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(fraction))], [item], true) =
            (list.args.as_slice(), function.within_group.as_slice(), plain)
        else {
            return Err(shape(name));
        };
        let filter = function.filter.as_deref();
        self.gathered(name, |binder| binder.percentile_of(name, fraction, item, filter))
    }

    fn percentile_of(
        &mut self,
        name: &str,
        fraction: &ast::Expr,
        item: &ast::OrderByExpr,
        filter: Option<&ast::Expr>,
    ) -> UserResult<Aggregate> {
        let filter = filter.map(|filter| self.condition(filter)).transpose()?;
        let mut fraction = self.expression(fraction)?;
        self.settle(&mut fraction, ColumnType::fixed(SqlType::Float));
        if fraction.sql_type.is_some_and(|sql_type| !sql_type.is_numeric()) {
            return Err(shape(name));
        }
        if fraction.expr.any(&mut |inner| matches!(inner, Expr::Column { .. } | Expr::Subquery { .. })) {
            return Err(UserError::compile("42803", format!("the fraction of {name} is one for all rows"))
                .with_hint("write a constant or a parameter"));
        }
        let fraction = self.folding.convert(fraction, SqlType::Float)?;
        // NULLs count for nothing, wherever they would stand.
        let OrderItem { expr, descending, .. } = order_item(item)?;
        let continuous = name == "PERCENTILE_CONT";
        let (mut value, _) = self.evaluated_perhaps(filter.is_some(), |binder| binder.expression(expr))?;
        if continuous {
            self.propose(&mut value, Proposal::of(ColumnType::fixed(SqlType::Float), Adoption::Carried));
        }
        let argument_type = value.sql_type.unwrap_or(SqlType::Float);
        let kind = AggregateKind::Percentile(PercentileOrder { continuous, descending });
        self.numbers_if_undecided(&value.expr, Types::of_aggregate(kind));
        let result_type = Aggregate::result_type_for(kind, argument_type)?;
        let mut argument = Expr::Call { function: Function::Together, arguments: [fraction, value.expr].into() };
        if let Some(filter) = filter {
            argument = Expr::Case { branches: [(filter, argument)].into(), otherwise: Box::new(Expr::null()) };
        }
        Ok(Aggregate { kind, distinct: false, argument: Some(argument), argument_type, result_type, user: None })
    }
}

fn shape(name: &str) -> UserError {
    UserError::compile("42883", format!("{name} takes a fraction, and the values in WITHIN GROUP"))
        .with_hint(format!("{name}(0.5) WITHIN GROUP (ORDER BY x)"))
}
