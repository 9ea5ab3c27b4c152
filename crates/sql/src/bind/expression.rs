//! Expressions: names resolved, types settled, implicit conversions inserted, constants folded.

use super::comparison::Likeness;
use super::folding::{Branches, Operands};
use super::literal::{cast_type, data_type, declared, hex_bytes};
use super::number::number;
use super::proposals::{Proposal, Types};
use super::scope::fold_name;
use super::types::{Typed, cast_constant};
use super::{Binder, place};
use crate::errors::{as_written, excerpt};
use ferrite_base::limits::VALUE_BYTES_MAX;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::Adoption;
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use sqlparser::ast;

impl Binder<'_> {
    pub fn expression(&mut self, expr: &ast::Expr) -> UserResult<Typed> {
        self.grow(1)?;
        self.deeper(|binder| binder.expression_inner(expr)).map_err(|error| place::at(error, expr))
    }

    fn expression_inner(&mut self, expr: &ast::Expr) -> UserResult<Typed> {
        use ast::Expr as A;
        match expr {
            A::Identifier(ident) => self.identifier(ident),
            A::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => self
                    .resolve(Some(&fold_name(qualifier)), &fold_name(name))
                    .map_err(|error| place::at_span(error, qualifier.span)),
                _ => Err(UserError::unknown_column(expr)),
            },
            A::Nested(inner) => self.expression(inner),
            A::Value(value) => self.literal(&value.value),
            A::TypedString(typed) => self.typed_string(typed),
            A::BinaryOp { op: ast::BinaryOperator::And | ast::BinaryOperator::Or, .. } => self.logical_chain(expr),
            A::BinaryOp { left, op, right } => self.binary(left, op, right),
            A::UnaryOp { op, expr: operand } => self.unary(op, operand),
            A::IsNull(operand) => self.is_null(operand, false),
            A::IsNotNull(operand) => self.is_null(operand, true),
            A::IsTrue(operand) => self.is_boolean(operand, true, false),
            A::IsNotTrue(operand) => self.is_boolean(operand, true, true),
            A::IsFalse(operand) => self.is_boolean(operand, false, false),
            A::IsNotFalse(operand) => self.is_boolean(operand, false, true),
            A::IsUnknown(operand) => self.is_null(operand, false),
            A::IsNotUnknown(operand) => self.is_null(operand, true),
            A::IsDistinctFrom(left, right) => self.is_distinct(left, right, false),
            A::IsNotDistinctFrom(left, right) => self.is_distinct(left, right, true),
            A::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            A::InSubquery { expr, subquery, negated } => {
                let (operator, all) =
                    if *negated { (CompareOperator::NotEqual, true) } else { (CompareOperator::Equal, false) };
                self.quantified(expr, operator, subquery, all)
            }
            A::InUnnest { expr, array_expr, negated } => self.in_array(expr, array_expr, *negated),
            A::Between { expr, negated, low, high } => self.between(expr, low, high, *negated),
            A::Like { negated, expr, pattern, escape_char, any: false } => {
                self.like([expr, pattern], escape_char.as_deref(), *negated, Likeness::Pattern)
            }
            A::ILike { negated, expr, pattern, escape_char, any: false } => {
                self.like([expr, pattern], escape_char.as_deref(), *negated, Likeness::AnyCase)
            }
            // STARTS WITH comes so from the token layer.
            A::SimilarTo { negated, expr, pattern, escape_char: None } => {
                self.like([expr, pattern], None, *negated, Likeness::Prefix)
            }
            A::AnyOp { left, compare_op, right, .. } => self.any_all(left, compare_op, right, false),
            A::AllOp { left, compare_op, right } => self.any_all(left, compare_op, right, true),
            A::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, expr, data_type, format: None } => {
                self.cast(expr, data_type)
            }
            A::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            A::Exists { subquery, negated } => self.exists(subquery, *negated),
            A::Subquery(query) => self.scalar_subquery(query),
            A::Tuple(_) => Err(UserError::not_supported("a row value here")
                .with_hint("row values may be compared with each other and with queries, and stand before IN")),
            A::Function(function) => self.function(function),
            A::Extract { field, expr, .. } => self.extract(field, expr),
            A::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.call("CEILING", &[expr])
            }
            A::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.call("FLOOR", &[expr])
            }
            A::Position { expr, r#in } => self.call("POSITION", &[expr, without_unnest(r#in)]),
            A::Substring { expr, substring_from, substring_for, .. } => {
                let arguments: Vec<&ast::Expr> = std::iter::once(expr.as_ref())
                    .chain(substring_from.as_deref())
                    .chain(substring_for.as_deref())
                    .collect();
                self.call("SUBSTRING", &arguments)
            }
            A::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut arguments: Vec<&ast::Expr> = vec![expr, overlay_what, overlay_from];
                arguments.extend(overlay_for.as_deref());
                self.call("OVERLAY", &arguments)
            }
            A::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                self.trim(trim_where.as_ref(), trim_what.as_deref(), expr)
            }
            A::Interval(_) => Err(UserError::not_supported("an INTERVAL by itself")
                .with_hint("an interval is added to a time, or taken from it: NOW - INTERVAL '1' HOUR")),
            other => Err(UserError::not_supported(format!("the expression {}", excerpt(&as_written(other))))),
        }
    }

    fn identifier(&mut self, ident: &ast::Ident) -> UserResult<Typed> {
        let name = fold_name(ident);
        match self.resolve(None, &name) {
            // NOW and the like stand without parentheses, and any column may have their name.
            Err(error)
                if error.code() == "42703"
                    && ident.quote_style.is_none()
                    && matches!(
                        name.as_str(),
                        "NOW"
                            | "CURRENT_TIMESTAMP"
                            | "CURRENT_DATE"
                            | "MIGRATING"
                            | "PI"
                            | "MIN_VALID_TIMESTAMP"
                            | "MAX_VALID_TIMESTAMP"
                    ) =>
            {
                if name == "MIGRATING" {
                    self.migrating(&[])
                } else {
                    self.call(&name, &[])
                }
            }
            Err(error) if ident.quote_style.is_some() && error.hint().is_none() => {
                let error =
                    error.with_hint(format!("double quotes are for names; use single quotes for text: '{name}'"));
                Err(place::at_span(error, ident.span))
            }
            result => result.map_err(|error| place::at_span(error, ident.span)),
        }
    }

    fn literal(&mut self, value: &ast::Value) -> UserResult<Typed> {
        match value {
            ast::Value::Number(digits, _) => number(digits, false),
            ast::Value::SingleQuotedString(text) => {
                self.check_literal(text.len())?;
                Ok(Typed::new(Expr::Constant(OwnedValue::Text(text.as_str().into())), SqlType::Varchar))
            }
            ast::Value::HexStringLiteral(digits) => {
                let bytes = hex_bytes(digits)
                    .ok_or_else(|| UserError::syntax(format!("malformed hexadecimal literal X'{digits}'")))?;
                self.check_literal(bytes.len())?;
                Ok(Typed::new(Expr::Constant(OwnedValue::Bytes(bytes.into())), SqlType::Varbinary))
            }
            ast::Value::Boolean(value) => Ok(Typed::boolean(Expr::Constant(OwnedValue::Boolean(*value)))),
            ast::Value::Null => Ok(Typed::null()),
            ast::Value::Placeholder(text) => self.placeholder(text),
            other => Err(UserError::not_supported(format!("the literal {other}"))),
        }
    }

    /// A text of a statement may be longer than a value (`--limit statement-bytes`). What the
    /// schema has already stays.
    fn check_literal(&self, bytes: usize) -> UserResult<()> {
        if bytes <= VALUE_BYTES_MAX || self.schema_object.is_some() {
            return Ok(());
        }
        let error = UserError::limit(format!("limit of {VALUE_BYTES_MAX} bytes of a value exceeded"));
        Err(error.with_detail(format!("a literal has {bytes}")))
    }

    fn placeholder(&mut self, text: &str) -> UserResult<Typed> {
        if self.declared_parameters {
            return Err(UserError::compile("42601", "? is not allowed in a procedure with declared parameters")
                .with_hint("use the parameters by their names"));
        }
        let index: u16 = text.trim_start_matches('?').parse().map_err(|_| {
            UserError::not_supported(format!("parameter {text}"))
                .with_hint("write parameters as ?, or declare them in a procedure and use their names")
        })?;
        if usize::from(index) >= self.parameter_count() {
            return Err(UserError::syntax("parameters are not allowed here"));
        }
        Ok(self.parameter(index))
    }

    fn typed_string(&mut self, typed: &ast::TypedString) -> UserResult<Typed> {
        let column_type = declared(self.catalog, data_type(&typed.data_type)?)?;
        let ast::Value::SingleQuotedString(text) = &typed.value.value else {
            return Err(UserError::syntax(format!("malformed literal {}", as_written(&typed.value))));
        };
        let value = cast_constant(&OwnedValue::Text(text.as_str().into()), &column_type)?;
        Ok(Typed::new(Expr::Constant(value), column_type.sql_type))
    }

    /// AND and OR chains are deep trees in sqlparser; walked along their left spine they become one
    /// flat node.
    fn logical_chain(&mut self, expr: &ast::Expr) -> UserResult<Typed> {
        let ast::Expr::BinaryOp { op: chain_operator, .. } = expr else {
            return Err(UserError::internal("a logical chain starts with AND or OR"));
        };
        let mut operands = Vec::new();
        let mut current = expr;
        while let ast::Expr::BinaryOp { left, op, right } = current
            && op == chain_operator
        {
            operands.push(right.as_ref());
            current = left;
        }
        operands.push(current);
        let mut bound = Operands::new(*chain_operator == ast::BinaryOperator::And);
        for operand in operands.into_iter().rev() {
            bound.add(self, |binder| binder.condition(operand))?;
        }
        Ok(Typed::boolean(bound.combined(self)?))
    }

    /// A condition: of type BOOLEAN.
    pub fn condition(&mut self, expr: &ast::Expr) -> UserResult<Expr> {
        let mut typed = self.expression(expr)?;
        self.settle(&mut typed, ColumnType::fixed(SqlType::Boolean));
        match typed.sql_type {
            None | Some(SqlType::Boolean) => Ok(typed.expr),
            Some(other) => {
                let error =
                    UserError::compile("42804", format!("a condition is required, not a value of type {other}"));
                Err(place::at(error, expr).with_hint("compare the value with something"))
            }
        }
    }

    fn is_null(&mut self, operand: &ast::Expr, negated: bool) -> UserResult<Typed> {
        let operand = Box::new(self.expression(operand)?.expr);
        Ok(Typed::boolean(self.folding.fold(Expr::IsNull { operand, negated })?))
    }

    fn is_boolean(&mut self, operand: &ast::Expr, value: bool, negated: bool) -> UserResult<Typed> {
        let left = Box::new(self.condition(operand)?);
        let right = Box::new(Expr::Constant(OwnedValue::Boolean(value)));
        // IS TRUE is IS NOT DISTINCT FROM TRUE.
        Ok(Typed::boolean(self.folding.fold(Expr::IsDistinct { left, right, negated: !negated })?))
    }

    fn cast(&mut self, operand: &ast::Expr, to: &ast::DataType) -> UserResult<Typed> {
        let to = cast_type(self.catalog, to)?;
        let mut typed = self.expression(operand)?;
        let proposal = Proposal::of(to.without_declaration(), Adoption::Cast).taking(Types::ALL).converting();
        self.propose(&mut typed, proposal);
        if matches!(typed.expr, Expr::Parameter(_))
            && typed.sql_type == Some(to.sql_type)
            && !to.sql_type.is_variable_length()
            && to.precision_and_scale().is_none()
        {
            return Ok(typed);
        }
        if let Some(digits) = &typed.digits {
            return self.folding.cast_digits(digits, &to).map(|expr| Typed::new(expr, to.sql_type));
        }
        if (typed.sql_type, to.sql_type) == (Some(SqlType::Date), SqlType::Timestamp) {
            return Ok(Typed::new(self.folding.valid_timestamp(typed.expr)?, to.sql_type));
        }
        let expr = self.folding.fold(Expr::Cast { operand: Box::new(typed.expr), to })?;
        Ok(Typed::new(expr, to.sql_type))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> UserResult<Typed> {
        let operand = operand.map(|operand| self.expression(operand)).transpose()?;
        let mut branches = Branches::with_capacity(conditions.len());
        for when in conditions {
            let condition = |binder: &mut Self| -> UserResult<Expr> {
                let Some(operand) = &operand else { return binder.condition(&when.condition) };
                let value = binder.expression(&when.condition)?;
                let operand = binder.again(operand)?;
                Ok(binder.compare(operand, CompareOperator::Equal, value)?.expr)
            };
            branches.add(self, condition, |binder| binder.expression(&when.result))?;
        }
        let otherwise = match otherwise {
            Some(otherwise) => branches.otherwise(self, otherwise)?,
            None => Typed::null(),
        };
        self.searched_case(branches.bound, otherwise)
    }

    /// A CASE whose results are brought to one type.
    pub fn searched_case(&mut self, mut branches: Vec<(Expr, Typed)>, mut otherwise: Typed) -> UserResult<Typed> {
        let mut results: Vec<&mut Typed> = branches.iter_mut().map(|(_, result)| result).collect();
        results.insert(0, &mut otherwise);
        let sql_type = self.one_type(&mut results)?;
        let decided = sql_type.unwrap_or(SqlType::Varchar);
        let mut bound = Vec::with_capacity(branches.len());
        for (condition, result) in branches {
            bound.push((condition, self.result_of_case(result, decided)?));
        }
        let otherwise = Box::new(self.result_of_case(otherwise, decided)?);
        Ok(Typed::of(Expr::Case { branches: bound.into(), otherwise }, sql_type))
    }

    fn result_of_case(&mut self, result: Typed, sql_type: SqlType) -> UserResult<Expr> {
        Ok(self.evaluated_perhaps(true, |binder| binder.folding.convert_common(result, sql_type))?.0)
    }
}

/// What stands after the IN of POSITION: a parameter there reads like an array.
fn without_unnest(expr: &ast::Expr) -> &ast::Expr {
    let ast::Expr::Function(ast::Function { args: ast::FunctionArguments::List(list), name, .. }) = expr else {
        return expr;
    };
    match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] if name.to_string() == "UNNEST" => argument,
        _ => expr,
    }
}
