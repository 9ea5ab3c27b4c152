//! Operators that compute: arithmetic, signs, `||`, NOT.

use super::Binder;
use super::comparison::compare_operator;
use super::literal::{constant_as, constant_type};
use super::number::number;
use super::proposals::{Proposal, Types};
use super::types::{Typed, arithmetic_domain, domain_type, incompatible, widest};
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_expr::{ArithmeticOperator, Expr};
use ferrite_plan::Adoption;
use ferrite_value::{ColumnType, SqlType};
use sqlparser::ast;

impl Binder<'_> {
    pub fn binary(&mut self, left: &ast::Expr, op: &ast::BinaryOperator, right: &ast::Expr) -> UserResult<Typed> {
        use ast::BinaryOperator as B;
        if let Some(operator) = compare_operator(op) {
            return self.comparison(left, operator, right);
        }
        let arithmetic = match op {
            B::Plus => ArithmeticOperator::Add,
            B::Minus => ArithmeticOperator::Subtract,
            B::Multiply => ArithmeticOperator::Multiply,
            B::Divide => ArithmeticOperator::Divide,
            B::Modulo => ArithmeticOperator::Remainder,
            B::StringConcat => return self.concatenation(left, right),
            other => {
                let error = UserError::not_supported(format!("the operator {other}"));
                return Err(match other {
                    B::PGRegexMatch | B::PGRegexIMatch => error.with_hint("use REGEXP_LIKE(text, pattern)"),
                    B::PGRegexNotMatch | B::PGRegexNotIMatch => error.with_hint("use NOT REGEXP_LIKE(text, pattern)"),
                    B::BitwiseAnd => error.with_hint("use BITAND(x, y)"),
                    B::BitwiseOr => error.with_hint("use BITOR(x, y)"),
                    B::BitwiseXor | B::PGBitwiseXor => error.with_hint("use BITXOR(x, y) or POWER(x, y)"),
                    B::PGBitwiseShiftLeft => error.with_hint("use BIT_SHIFT_LEFT(x, bits)"),
                    B::PGBitwiseShiftRight => error.with_hint("use BIT_SHIFT_RIGHT(x, bits)"),
                    B::Arrow | B::LongArrow => error.with_hint("use FIELD(json, 'name') or ARRAY_ELEMENT(json, index)"),
                    _ => error,
                });
            }
        };
        if let Some(moved) = self.moved_by_interval(arithmetic, left, right)? {
            return Ok(moved);
        }
        let left = self.expression(left)?;
        let right = self.expression(right)?;
        match self.days(arithmetic, &left, &right)? {
            Some(days) => Ok(days),
            None => self.arithmetic(arithmetic, left, right),
        }
    }

    fn arithmetic(&mut self, operator: ArithmeticOperator, mut left: Typed, mut right: Typed) -> UserResult<Typed> {
        for side in [&mut left, &mut right] {
            // A hexadecimal literal is a number here.
            if side.sql_type == Some(SqlType::Varbinary) && side.constant().is_some() {
                let expr = constant_as(side.clone(), SqlType::Bigint)?;
                *side = Typed::new(expr, SqlType::Bigint);
            }
        }
        let met = left.sql_type.or(right.sql_type);
        let known = met.unwrap_or(SqlType::Bigint);
        let is_count = |other: Option<SqlType>| other.is_none_or(SqlType::is_integer);
        // Days are added to a DATE.
        let may_be_date = match operator {
            ArithmeticOperator::Add => [is_count(right.sql_type), is_count(left.sql_type)],
            ArithmeticOperator::Subtract => [is_count(right.sql_type), left.sql_type.is_none()],
            _ => [false; 2],
        };
        for (side, may_be_date) in [&mut left, &mut right].into_iter().zip(may_be_date) {
            let takes = Types::that(|given| given.is_numeric() || (given == SqlType::Date && may_be_date));
            self.propose(
                side,
                match met {
                    Some(_) => Proposal::of(widest(known), Adoption::Computed).taking(takes),
                    None => Proposal::of(widest(known), Adoption::Carried).taking(takes).assumed(),
                },
            );
        }
        let left_type = left.sql_type.unwrap_or(known);
        let right_type = right.sql_type.unwrap_or(known);
        let Some(domain) = arithmetic_domain(left_type, right_type) else {
            let error = UserError::compile(
                "42804",
                format!("incompatible data types in operation: {left_type} and {right_type}"),
            );
            let of_time = |sql_type| matches!(sql_type, SqlType::Timestamp | SqlType::Date);
            return Err(if of_time(left_type) || of_time(right_type) {
                error.with_hint(
                    "write t + INTERVAL '1' DAY, or DATEDIFF(SECOND, from, to) for what lies between two times",
                )
            } else {
                error.with_hint("CAST the operands to numbers")
            });
        };
        let result_type = domain_type(domain);
        let small = left_type <= SqlType::Integer && right_type <= SqlType::Integer;
        let left = self.folding.convert(left, result_type)?;
        let right = self.folding.convert(right, result_type)?;
        let expr =
            self.folding.fold(Expr::Arithmetic { operator, domain, left: Box::new(left), right: Box::new(right) })?;
        let sql_type = constant_type(&expr, small).unwrap_or(result_type);
        Ok(Typed::new(expr, sql_type))
    }

    fn concatenation(&mut self, left: &ast::Expr, right: &ast::Expr) -> UserResult<Typed> {
        let mut operands = Vec::with_capacity(2);
        for operand in [left, right] {
            let mut typed = self.expression(operand)?;
            self.propose(&mut typed, Proposal::text());
            if matches!(typed.sql_type, Some(SqlType::Varbinary)) {
                return Err(incompatible(SqlType::Varchar, SqlType::Varbinary));
            }
            operands.push(Box::new(self.folding.convert(typed, SqlType::Varchar)?));
        }
        let right = operands.pop().unwrap_or_else(|| Box::new(Expr::null()));
        let left = operands.pop().unwrap_or_else(|| Box::new(Expr::null()));
        Ok(Typed::new(self.folding.fold(Expr::Concatenate(left, right))?, SqlType::Varchar))
    }

    pub fn unary(&mut self, op: &ast::UnaryOperator, operand: &ast::Expr) -> UserResult<Typed> {
        match op {
            ast::UnaryOperator::Not => {
                let condition = self.condition(operand)?;
                Ok(Typed::boolean(self.folding.fold(Expr::Not(Box::new(condition)))?))
            }
            ast::UnaryOperator::Minus => {
                if let ast::Expr::Value(value) = operand
                    && let ast::Value::Number(digits, _) = &value.value
                {
                    return number(digits, true);
                }
                let mut typed = self.expression(operand)?;
                if typed.sql_type == Some(SqlType::Varbinary) && typed.constant().is_some() {
                    typed = Typed::new(constant_as(typed, SqlType::Bigint)?, SqlType::Bigint);
                }
                let bigint = ColumnType::fixed(SqlType::Bigint);
                self.propose(&mut typed, Proposal::of(bigint, Adoption::Carried).assumed());
                let sql_type = typed.sql_type.unwrap_or(SqlType::Bigint);
                let Some(domain) = arithmetic_domain(sql_type, sql_type) else {
                    return Err(UserError::compile(
                        "42804",
                        format!("incompatible data type in operation: - {sql_type}"),
                    ));
                };
                let expr = self.folding.fold(Expr::Negate { domain, operand: Box::new(typed.expr) })?;
                let small = sql_type <= SqlType::Integer;
                // Integers have the same range on both sides of zero.
                let narrow = sql_type.is_integer() && !earlier::values();
                let wide = if narrow { sql_type } else { domain_type(domain) };
                let result = constant_type(&expr, small).unwrap_or(wide);
                let digits = typed.digits.map(|digits| digits.negated());
                Ok(Typed { digits, ..Typed::new(expr, result) })
            }
            ast::UnaryOperator::Plus => self.expression(operand),
            other => Err(UserError::not_supported(format!("the operator {other}"))),
        }
    }
}
