//! STRING_AGG and LISTAGG: `STRING_AGG(x, ', ' ORDER BY y)`,
//! `LISTAGG(x, ', ') WITHIN GROUP (ORDER BY y)`.

use super::Binder;
use super::ordering::{OrderItem, is_null, order_item};
use super::proposals::Proposal;
use super::types::Typed;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::aggregate::TextOrder;
use ferrite_expr::{Aggregate, AggregateKind, Expr, Function};
use ferrite_value::SqlType;
use sqlparser::ast;

pub(crate) fn is_text_aggregate(name: &str) -> bool {
    matches!(name, "STRING_AGG" | "LISTAGG")
}

impl Binder<'_> {
    pub fn text_aggregate(&mut self, name: &str, function: &ast::Function) -> UserResult<Typed> {
        if function.over.is_some() {
            return Err(UserError::not_supported(format!("{name} as a window function"))
                .with_hint("use GROUP BY, or a correlated subquery in the SELECT list"));
        }
        let ast::FunctionArguments::List(list) = &function.args else { return Err(shape(name)) };
        let mut order: &[ast::OrderByExpr] = &function.within_group;
        for clause in &list.clauses {
            match clause {
                ast::FunctionArgumentClause::OrderBy(items) if order.is_empty() => order = items,
                ast::FunctionArgumentClause::OnOverflow(_) => {
                    return Err(UserError::not_supported(format!("ON OVERFLOW in {name}"))
                        .with_hint("leave it out: a result that is too long is an error"));
                }
                _ => return Err(shape(name)),
            }
        }
        let mut arguments = Vec::with_capacity(2);
        for argument in &list.args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument else { return Err(shape(name)) };
            arguments.push(expr);
        }
        let (text, separator) = match arguments.as_slice() {
            [text] if name == "LISTAGG" => (*text, None),
            [text, separator] => (*text, Some(*separator)),
            _ => return Err(shape(name)),
        };
        let distinct = matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
        let filter = function.filter.as_deref();
        self.gathered(name, |binder| binder.texts(name, text, separator, order, distinct, filter))
    }

    fn texts(
        &mut self,
        name: &str,
        text: &ast::Expr,
        separator: Option<&ast::Expr>,
        order: &[ast::OrderByExpr],
        distinct: bool,
        filter: Option<&ast::Expr>,
    ) -> UserResult<Aggregate> {
        let filter = filter.map(|filter| self.condition(filter)).transpose()?;
        let (text, _) = self.evaluated_perhaps(filter.is_some(), |binder| binder.text(name, text))?;
        let separator = match separator {
            Some(separator) => self.text(name, separator)?,
            None => Expr::null(),
        };
        let mut text_order = TextOrder::default();
        let mut together = vec![text, separator];
        for item in order {
            let OrderItem { expr, descending, nulls_apart } = order_item(item)?;
            let key = self.expression(expr)?.expr;
            for key in nulls_apart.then(|| is_null(key.clone())).into_iter().chain([key]) {
                if usize::from(text_order.keys) == TextOrder::KEYS_MAX {
                    return Err(UserError::limit(format!(
                        "{name} is ordered by more than {} keys",
                        TextOrder::KEYS_MAX
                    )));
                }
                text_order.descending |= u8::from(descending) << text_order.keys;
                text_order.keys += 1;
                together.push(key);
            }
        }
        if distinct && !(order.is_empty() || together.len() == 3 && together[2] == together[0]) {
            return Err(UserError::compile(
                "42P10",
                format!("with DISTINCT, {name} can only be ordered by its argument"),
            )
            .with_hint("take the distinct rows in a derived table first"));
        }
        let mut argument = Expr::Call { function: Function::Together, arguments: together.into() };
        if let Some(filter) = filter {
            argument = Expr::Case { branches: [(filter, argument)].into(), otherwise: Box::new(Expr::null()) };
        }
        let kind = AggregateKind::Texts(text_order);
        let sql_type = SqlType::Varchar;
        Ok(Aggregate {
            kind,
            distinct,
            argument: Some(argument),
            argument_type: sql_type,
            result_type: sql_type,
            user: None,
        })
    }

    /// A value as text; of what has no text form, an error.
    fn text(&mut self, name: &str, expr: &ast::Expr) -> UserResult<Expr> {
        let mut typed = self.expression(expr)?;
        self.propose(&mut typed, Proposal::text());
        match typed.sql_type {
            Some(SqlType::Varbinary) => {
                Err(UserError::compile("42804", format!("{name} does not take {}", SqlType::Varbinary)))
            }
            _ => self.folding.convert(typed, SqlType::Varchar),
        }
    }
}

fn shape(name: &str) -> UserError {
    UserError::compile("42883", format!("{name} takes a value and a separator"))
        .with_hint(format!("{name}(x, ', ' ORDER BY y)"))
}
