//! Expressions: names resolved, types settled, implicit conversions inserted, constants folded.

use super::literal::{cast_type, constant_as, constant_type, data_type, declared, hex_bytes, number};
use super::scope::fold_name;
use super::types::{
    Typed, arithmetic_domain, cast_constant, common_type, domain_type, fold, incompatible, same_kind, to_kind,
    valid_timestamp, widest,
};
use super::{Binder, place, suggest};
use crate::plan::{Query, SubqueryKind};
use crate::planner::semi;
use crate::variants::Adoption;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::{ArithmeticOperator, CompareOperator, Expr, Function};
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
                    .map_err(|error| suggest::at(error, qualifier.span)),
                _ => Err(UserError::not_found(expr)),
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
            A::Position { expr, r#in } => self.call("POSITION", &[expr, r#in]),
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
            other => {
                Err(UserError::not_supported(format!("the expression {}", crate::errors::excerpt(&other.to_string()))))
            }
        }
    }

    fn identifier(&mut self, ident: &ast::Ident) -> UserResult<Typed> {
        let name = fold_name(ident);
        match self.resolve(None, &name) {
            // NOW and the like stand without parentheses, and any column may have their name.
            Err(error)
                if error.code() == "42704"
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
                    error.with_hint(format!("double quotes are for names; a text stands in single quotes: '{name}'"));
                Err(suggest::at(error, ident.span))
            }
            result => result.map_err(|error| suggest::at(error, ident.span)),
        }
    }

    fn literal(&mut self, value: &ast::Value) -> UserResult<Typed> {
        match value {
            ast::Value::Number(digits, _) => number(digits, false),
            ast::Value::SingleQuotedString(text) => {
                Ok(Typed::new(Expr::Constant(OwnedValue::Text(text.as_str().into())), SqlType::Varchar))
            }
            ast::Value::HexStringLiteral(digits) => {
                let bytes = hex_bytes(digits)
                    .ok_or_else(|| UserError::syntax(format!("malformed hexadecimal literal X'{digits}'")))?;
                Ok(Typed::new(Expr::Constant(OwnedValue::Bytes(bytes.into())), SqlType::Varbinary))
            }
            ast::Value::Boolean(value) => Ok(Typed::boolean(Expr::Constant(OwnedValue::Boolean(*value)))),
            ast::Value::Null => Ok(Typed::null()),
            ast::Value::Placeholder(text) => self.placeholder(text),
            other => Err(UserError::not_supported(format!("the literal {other}"))),
        }
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
        let sql_type = self.parameter_type(index).map(|column_type| column_type.sql_type);
        Ok(Typed { expr: Expr::Parameter(index), sql_type })
    }

    /// Gives an untyped parameter the type that its context wants.
    pub fn settle(&mut self, typed: &mut Typed, column_type: ColumnType) {
        self.settle_as(typed, column_type, Adoption::Fixed);
    }

    /// [`Binder::settle`], with what is to become of values of other types.
    pub fn settle_as(&mut self, typed: &mut Typed, column_type: ColumnType, adoption: Adoption) {
        if typed.sql_type.is_none()
            && let Expr::Parameter(index) = typed.expr
        {
            self.settle_parameter(index, column_type, adoption);
            // It may stand here a second time.
            typed.sql_type = self.parameter_type(index).map(|known| known.sql_type);
        }
    }

    fn typed_string(&mut self, typed: &ast::TypedString) -> UserResult<Typed> {
        let column_type = declared(self.catalog, data_type(&typed.data_type)?)?;
        let ast::Value::SingleQuotedString(text) = &typed.value.value else {
            return Err(UserError::syntax(format!("malformed literal {}", typed.value)));
        };
        let value = cast_constant(&OwnedValue::Text(text.as_str().into()), &column_type)?;
        Ok(Typed::new(Expr::Constant(value), column_type.sql_type))
    }

    /// AND and OR chains are deep trees in sqlparser; walked along their left spine they become one flat node.
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
        let mut bound = Vec::with_capacity(operands.len());
        for operand in operands.into_iter().rev() {
            bound.push(self.condition(operand)?);
        }
        let and = *chain_operator == ast::BinaryOperator::And;
        let combined = if and { Expr::And(bound.into()) } else { Expr::Or(bound.into()) };
        Ok(Typed::boolean(fold(combined)?))
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

    fn binary(&mut self, left: &ast::Expr, op: &ast::BinaryOperator, right: &ast::Expr) -> UserResult<Typed> {
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
        let known = left.sql_type.or(right.sql_type).unwrap_or(SqlType::Bigint);
        self.settle_as(&mut left, widest(known), Adoption::Computed);
        self.settle_as(&mut right, widest(known), Adoption::Computed);
        let (left_type, right_type) = (left.sql_type.unwrap_or(known), right.sql_type.unwrap_or(known));
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
        let left = to_kind(left, result_type)?;
        let right = to_kind(right, result_type)?;
        let expr = fold(Expr::Arithmetic { operator, domain, left: Box::new(left), right: Box::new(right) })?;
        Ok(Typed { sql_type: Some(constant_type(&expr, small).unwrap_or(result_type)), expr })
    }

    fn concatenation(&mut self, left: &ast::Expr, right: &ast::Expr) -> UserResult<Typed> {
        let mut operands = Vec::with_capacity(2);
        for operand in [left, right] {
            let mut typed = self.expression(operand)?;
            self.settle(&mut typed, ColumnType::unbounded(SqlType::Varchar));
            if matches!(typed.sql_type, Some(SqlType::Varbinary)) {
                return Err(incompatible(SqlType::Varchar, SqlType::Varbinary));
            }
            operands.push(Box::new(to_kind(typed, SqlType::Varchar)?));
        }
        let right = operands.pop().unwrap_or_else(|| Box::new(Expr::null()));
        let left = operands.pop().unwrap_or_else(|| Box::new(Expr::null()));
        Ok(Typed::new(fold(Expr::Concatenate(left, right))?, SqlType::Varchar))
    }

    fn unary(&mut self, op: &ast::UnaryOperator, operand: &ast::Expr) -> UserResult<Typed> {
        match op {
            ast::UnaryOperator::Not => {
                let condition = self.condition(operand)?;
                Ok(Typed::boolean(fold(Expr::Not(Box::new(condition)))?))
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
                self.settle_as(&mut typed, ColumnType::fixed(SqlType::Bigint), Adoption::Computed);
                let sql_type = typed.sql_type.unwrap_or(SqlType::Bigint);
                let Some(domain) = arithmetic_domain(sql_type, sql_type) else {
                    return Err(UserError::compile(
                        "42804",
                        format!("incompatible data type in operation: - {sql_type}"),
                    ));
                };
                let expr = fold(Expr::Negate { domain, operand: Box::new(typed.expr) })?;
                let small = sql_type <= SqlType::Integer;
                // Integers have the same range on both sides of zero.
                let wide = if sql_type.is_integer() { sql_type } else { domain_type(domain) };
                let result = constant_type(&expr, small).unwrap_or(wide);
                Ok(Typed::new(expr, result))
            }
            ast::UnaryOperator::Plus => self.expression(operand),
            other => Err(UserError::not_supported(format!("the operator {other}"))),
        }
    }

    fn is_null(&mut self, operand: &ast::Expr, negated: bool) -> UserResult<Typed> {
        let operand = Box::new(self.expression(operand)?.expr);
        Ok(Typed::boolean(fold(Expr::IsNull { operand, negated })?))
    }

    fn is_boolean(&mut self, operand: &ast::Expr, value: bool, negated: bool) -> UserResult<Typed> {
        let left = Box::new(self.condition(operand)?);
        let right = Box::new(Expr::Constant(OwnedValue::Boolean(value)));
        // IS TRUE is IS NOT DISTINCT FROM TRUE.
        Ok(Typed::boolean(fold(Expr::IsDistinct { left, right, negated: !negated })?))
    }

    fn is_distinct(&mut self, left: &ast::Expr, right: &ast::Expr, negated: bool) -> UserResult<Typed> {
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        let (left, right) = self.comparable(left, right)?;
        Ok(Typed::boolean(fold(Expr::IsDistinct { left: Box::new(left), right: Box::new(right), negated })?))
    }

    fn comparison(&mut self, left: &ast::Expr, operator: CompareOperator, right: &ast::Expr) -> UserResult<Typed> {
        match (row_of(left), row_of(right)) {
            (Some(left), Some(right)) => return self.row_comparison(left, operator, right),
            (Some(row), None) => {
                if let Some(query) = query_of(right) {
                    return self.row_compared_with_query(row, operator, query);
                }
            }
            (None, Some(row)) => {
                if let Some(query) = query_of(left) {
                    return self.row_compared_with_query(row, turned(operator), query);
                }
            }
            (None, None) => {
                if let (Some(left), Some(right)) = (query_of(left), query_of(right)) {
                    return self.queries_compared(left, operator, right);
                }
            }
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        self.compare(left, operator, right)
    }

    pub fn compare(&mut self, left: Typed, operator: CompareOperator, right: Typed) -> UserResult<Typed> {
        let (left, right) = self.comparable(left, right)?;
        Ok(Typed::boolean(fold(Expr::Compare { operator, left: Box::new(left), right: Box::new(right) })?))
    }

    /// `(a, b) = (c, d)` and its ordering forms, in terms of the single comparisons.
    fn row_comparison(
        &mut self,
        left: &[ast::Expr],
        operator: CompareOperator,
        right: &[ast::Expr],
    ) -> UserResult<Typed> {
        if left.len() != right.len() || left.is_empty() {
            return Err(UserError::compile("42601", "rows of different width are compared"));
        }
        let mut pairs = Vec::with_capacity(left.len());
        for (left, right) in left.iter().zip(right) {
            pairs.push((self.expression(left)?, self.expression(right)?));
        }
        self.compare_pairs(pairs, operator)
    }

    pub fn compare_pairs(&mut self, pairs: Vec<(Typed, Typed)>, operator: CompareOperator) -> UserResult<Typed> {
        let strict = match operator {
            CompareOperator::Equal | CompareOperator::NotEqual => {
                let mut equal = Vec::with_capacity(pairs.len());
                for (left, right) in pairs {
                    equal.push(self.compare(left, CompareOperator::Equal, right)?.expr);
                }
                let all = fold(Expr::And(equal.into()))?;
                let negate = operator == CompareOperator::NotEqual;
                return Ok(Typed::boolean(if negate { fold(Expr::Not(Box::new(all)))? } else { all }));
            }
            CompareOperator::Less | CompareOperator::LessOrEqual => CompareOperator::Less,
            CompareOperator::Greater | CompareOperator::GreaterOrEqual => CompareOperator::Greater,
        };
        // (a, b) < (c, d) is a < c OR (a = c AND b < d), from the back to the front.
        let mut result: Option<Expr> = None;
        for (left, right) in pairs.into_iter().rev() {
            result = Some(match result {
                None => self.compare(left, operator, right)?.expr,
                Some(rest) => {
                    let decided = self.compare_again(&left, strict, &right)?;
                    let equal = self.compare(left, CompareOperator::Equal, right)?.expr;
                    Expr::Or(vec![decided, Expr::And(vec![equal, rest].into())].into())
                }
            });
        }
        Ok(Typed::boolean(result.unwrap_or_else(Expr::null)))
    }

    /// Brings both sides to one kind of value, so that comparing and index lookups need no conversion.
    pub fn comparable(&mut self, mut left: Typed, mut right: Typed) -> UserResult<(Expr, Expr)> {
        let known = left.sql_type.or(right.sql_type).unwrap_or(SqlType::Varchar);
        self.settle_as(&mut left, widest(known), Adoption::Compared);
        self.settle_as(&mut right, widest(known), Adoption::Compared);
        let (Some(left_type), Some(right_type)) = (left.sql_type, right.sql_type) else {
            return Ok((left.expr, right.expr));
        };
        if same_kind(left_type, right_type) {
            return Ok((left.expr, right.expr));
        }
        // An exact decimal is seldom a double: beside a FLOAT it is meant as the nearest one.
        if left_type == SqlType::Float && right_type == SqlType::Decimal {
            return Ok((left.expr, to_kind(right, SqlType::Float)?));
        }
        if left_type == SqlType::Decimal && right_type == SqlType::Float {
            return Ok((to_kind(left, SqlType::Float)?, right.expr));
        }
        if left_type.is_numeric() && right_type.is_numeric() {
            if let Some(value) = left.constant().and_then(|value| exact_constant(value, right_type)) {
                return Ok((Expr::Constant(value), right.expr));
            }
            if let Some(value) = right.constant().and_then(|value| exact_constant(value, left_type)) {
                return Ok((left.expr, Expr::Constant(value)));
            }
            return Ok((beside_number(left, right_type)?, beside_number(right, left_type)?));
        }
        if left.constant().is_some() && can_compare_as(left_type, right_type) {
            return Ok((constant_as(left, right_type)?, right.expr));
        }
        if right.constant().is_some() && can_compare_as(right_type, left_type) {
            return Ok((left.expr, constant_as(right, left_type)?));
        }
        match (left_type, right_type) {
            (SqlType::Timestamp, SqlType::Date) | (SqlType::Timestamp, SqlType::Varchar) => {
                Ok((left.expr, to_kind(right, SqlType::Timestamp)?))
            }
            (SqlType::Date, SqlType::Timestamp) | (SqlType::Varchar, SqlType::Timestamp) => {
                Ok((to_kind(left, SqlType::Timestamp)?, right.expr))
            }
            (SqlType::Date, SqlType::Varchar) => Ok((left.expr, to_kind(right, SqlType::Date)?)),
            (SqlType::Varchar, SqlType::Date) => Ok((to_kind(left, SqlType::Date)?, right.expr)),
            (SqlType::Timestamp, other) if other.is_integer() => Ok((left.expr, to_kind(right, SqlType::Timestamp)?)),
            (other, SqlType::Timestamp) if other.is_integer() => Ok((to_kind(left, SqlType::Timestamp)?, right.expr)),
            _ => Err(incompatible(left_type, right_type)),
        }
    }

    fn in_list(&mut self, operand: &ast::Expr, list: &[ast::Expr], negated: bool) -> UserResult<Typed> {
        if let Some(row) = row_of(operand) {
            let mut alternatives = Vec::with_capacity(list.len());
            for item in list {
                let Some(item) = row_of(item) else {
                    return Err(UserError::compile("42601", "rows of different width are compared"));
                };
                alternatives.push(self.row_comparison(row, CompareOperator::Equal, item)?.expr);
            }
            let any = fold(Expr::Or(alternatives.into()))?;
            return Ok(Typed::boolean(if negated { fold(Expr::Not(Box::new(any)))? } else { any }));
        }
        let operand = self.expression(operand)?;
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            items.push(self.expression(item)?);
        }
        // One comparison per item settles the types; equal kinds on all of them make one list.
        let mut bound = Vec::with_capacity(items.len());
        let mut first: Option<Expr> = None;
        let mut uniform = true;
        let mut pairs = Vec::with_capacity(items.len());
        let operand_parts = self.parts_inside(&operand.expr);
        for item in items {
            self.grow(operand_parts)?;
            let mut operand = operand.clone();
            if operand.sql_type.is_none()
                && let Expr::Parameter(index) = operand.expr
            {
                operand.sql_type = self.parameter_type(index).map(|column_type| column_type.sql_type);
            }
            let (left, right) = self.comparable(operand, item)?;
            uniform &= first.get_or_insert_with(|| left.clone()) == &left;
            bound.push(right.clone());
            pairs.push((left, right));
        }
        let expr = if uniform && let Some(operand) = first {
            if bound.len() == 1 && !negated {
                equality(operand, bound.pop().unwrap_or_else(Expr::null))
            } else {
                Expr::InList { operand: Box::new(operand), list: bound.into(), negated }
            }
        } else {
            let any = Expr::Or(pairs.into_iter().map(|(left, right)| equality(left, right)).collect());
            if negated { Expr::Not(Box::new(any)) } else { any }
        };
        Ok(Typed::boolean(fold(expr)?))
    }

    /// `x IN ?` with an array.
    fn in_array(&mut self, operand: &ast::Expr, array: &ast::Expr, negated: bool) -> UserResult<Typed> {
        let operand = self.expression(operand)?;
        let typed = self.expression(array)?;
        let Expr::Parameter(index) = typed.expr else {
            return Err(UserError::syntax("IN without parentheses takes one parameter"));
        };
        let operand_type = operand.decided_type();
        self.settle_array_parameter(index, widest(operand_type));
        let element = self.parameter_type(index).map_or(operand_type, |known| known.sql_type);
        // Values of another type may be given; that they are numbers too is seen where they are.
        let operand = if element == operand_type || operand_type.is_integer() && element.is_integer() {
            operand
        } else {
            let element = Typed::new(Expr::column(0, 0), element);
            Typed { expr: self.comparable(operand, element)?.0, sql_type: Some(operand_type) }
        };
        let expr = Expr::InArray { operand: Box::new(operand.expr), array: Box::new(typed.expr), negated };
        Ok(Typed::boolean(expr))
    }

    fn between(&mut self, operand: &ast::Expr, low: &ast::Expr, high: &ast::Expr, negated: bool) -> UserResult<Typed> {
        let operand = self.expression(operand)?;
        let (low, high) = (self.expression(low)?, self.expression(high)?);
        let again = self.again(&operand)?;
        let least = self.compare(again, CompareOperator::GreaterOrEqual, low)?.expr;
        let most = self.compare(operand, CompareOperator::LessOrEqual, high)?.expr;
        let both = fold(Expr::And(vec![least, most].into()))?;
        Ok(Typed::boolean(if negated { fold(Expr::Not(Box::new(both)))? } else { both }))
    }

    fn like(
        &mut self,
        [operand, pattern]: [&ast::Expr; 2],
        escape: Option<&ast::Expr>,
        negated: bool,
        how: Likeness,
    ) -> UserResult<Typed> {
        let escape = match escape {
            None => None,
            Some(expr) => match self.expression(expr)?.constant() {
                Some(OwnedValue::Text(text)) if text.chars().count() == 1 => text.chars().next(),
                _ => return Err(UserError::compile("22019", "ESCAPE takes one character")),
            },
        };
        if how == Likeness::AnyCase && escape.is_some_and(char::is_alphabetic) {
            return Err(UserError::compile("22019", "ILIKE takes no letter as ESCAPE character"));
        }
        let (operand, pattern) = (self.side_of_like(operand, how)?, self.side_of_like(pattern, how)?);
        let prefix_only = how == Likeness::Prefix;
        Ok(Typed::boolean(fold(Expr::Like { operand, pattern, escape, prefix_only, negated })?))
    }

    fn side_of_like(&mut self, side: &ast::Expr, how: Likeness) -> UserResult<Box<Expr>> {
        let mut typed = self.expression(side)?;
        self.settle(&mut typed, ColumnType::unbounded(SqlType::Varchar));
        match typed.sql_type {
            None => Ok(Box::new(typed.expr)),
            Some(SqlType::Varchar) if how == Likeness::AnyCase => {
                fold(Expr::Call { function: Function::Lower, arguments: [typed.expr].into() }).map(Box::new)
            }
            Some(SqlType::Varchar) => Ok(Box::new(typed.expr)),
            Some(other) => Err(incompatible(other, SqlType::Varchar)),
        }
    }

    fn any_all(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        all: bool,
    ) -> UserResult<Typed> {
        let operator = compare_operator(op)
            .ok_or_else(|| UserError::not_supported(format!("the operator {op} with ANY or ALL")))?;
        let query = match right {
            ast::Expr::Subquery(query) => query,
            ast::Expr::Nested(inner) => match inner.as_ref() {
                ast::Expr::Subquery(query) => query,
                _ => return Err(UserError::not_supported("ANY or ALL over anything but a query")),
            },
            // The array parameter of PostgreSQL's habit.
            ast::Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => {
                return match (operator, all) {
                    (CompareOperator::Equal, false) => self.in_array(left, right, false),
                    (CompareOperator::NotEqual, true) => self.in_array(left, right, true),
                    _ => Err(UserError::not_supported("an array with such an operator")
                        .with_hint("arrays go with = ANY (?), <> ALL (?), IN ? and NOT IN ?")),
                };
            }
            _ => return Err(UserError::not_supported("ANY or ALL over anything but a query")),
        };
        self.quantified(left, operator, query, all)
    }

    /// `left operator ANY|ALL (query)`
    fn quantified(
        &mut self,
        left: &ast::Expr,
        operator: CompareOperator,
        query: &ast::Query,
        all: bool,
    ) -> UserResult<Typed> {
        if let Some(row) = row_of(left) {
            return self.row_quantified(row, operator, query, all);
        }
        let operand = self.expression(left)?;
        let kind = if all { SubqueryKind::All(operator) } else { SubqueryKind::Any(operator) };
        let (mut bound, correlated) = self.subquery_body(query)?;
        let column = single_column(&bound)?;
        let inner = Typed::new(Expr::Column { slot: 0, column: 0 }, column);
        // Only the types matter here; a conversion of the query's side is done in its output.
        let (operand_expr, inner_expr) = self.comparable(operand, inner)?;
        if let Expr::Cast { to, .. } = inner_expr {
            super::query::cast_output(&mut bound, 0, to.sql_type)?;
        }
        let subquery = self.add_subquery(kind, bound, correlated)?;
        Ok(Typed::boolean(Expr::Subquery { subquery, operand: Some(Box::new(operand_expr)) }))
    }

    fn exists(&mut self, query: &ast::Query, negated: bool) -> UserResult<Typed> {
        let (bound, correlated) = self.subquery_body(query)?;
        let among = if correlated { semi::decorrelated(&bound, &self.subqueries) } else { None };
        let expr = match among {
            Some(semi::Decorrelated { query, operand }) => {
                let subquery = self.add_subquery(SubqueryKind::Among { unknown: false }, query, false)?;
                Expr::Subquery { subquery, operand: Some(Box::new(operand)) }
            }
            None => {
                let subquery = self.add_subquery(SubqueryKind::Exists, bound, correlated)?;
                Expr::Subquery { subquery, operand: None }
            }
        };
        Ok(Typed::boolean(if negated { Expr::Not(Box::new(expr)) } else { expr }))
    }

    fn scalar_subquery(&mut self, query: &ast::Query) -> UserResult<Typed> {
        let (bound, correlated) = self.subquery_body(query)?;
        self.scalar(bound, correlated)
    }

    pub fn scalar(&mut self, bound: Query, correlated: bool) -> UserResult<Typed> {
        let sql_type = single_column(&bound)?;
        let subquery = self.add_subquery(SubqueryKind::Scalar, bound, correlated)?;
        Ok(Typed::new(Expr::Subquery { subquery, operand: None }, sql_type))
    }

    fn cast(&mut self, operand: &ast::Expr, to: &ast::DataType) -> UserResult<Typed> {
        let to = cast_type(self.catalog, to)?;
        let mut typed = self.expression(operand)?;
        self.settle_as(&mut typed, to.without_declaration(), Adoption::Computed);
        if matches!(typed.expr, Expr::Parameter(_))
            && typed.sql_type == Some(to.sql_type)
            && !to.sql_type.is_variable_length()
            && to.precision_and_scale().is_none()
        {
            return Ok(typed);
        }
        if (typed.sql_type, to.sql_type) == (Some(SqlType::Date), SqlType::Timestamp) {
            return Ok(Typed::new(valid_timestamp(typed.expr)?, to.sql_type));
        }
        let expr = fold(Expr::Cast { operand: Box::new(typed.expr), to })?;
        Ok(Typed::new(expr, to.sql_type))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> UserResult<Typed> {
        let operand = operand.map(|operand| self.expression(operand)).transpose()?;
        let mut branches = Vec::with_capacity(conditions.len());
        for when in conditions {
            let condition = match &operand {
                None => self.condition(&when.condition)?,
                Some(operand) => {
                    let value = self.expression(&when.condition)?;
                    let operand = self.again(operand)?;
                    self.compare(operand, CompareOperator::Equal, value)?.expr
                }
            };
            branches.push((condition, self.expression(&when.result)?));
        }
        let otherwise = match otherwise {
            Some(otherwise) => self.expression(otherwise)?,
            None => Typed::null(),
        };
        self.searched_case(branches, otherwise)
    }

    /// A CASE whose results are brought to one type.
    pub fn searched_case(&mut self, branches: Vec<(Expr, Typed)>, otherwise: Typed) -> UserResult<Typed> {
        let mut sql_type = otherwise.sql_type;
        for (_, result) in &branches {
            sql_type = common_type(sql_type, result.sql_type)?;
        }
        let decided = sql_type.unwrap_or(SqlType::Varchar);
        let mut bound = Vec::with_capacity(branches.len());
        for (condition, mut result) in branches {
            self.settle_as(&mut result, widest(decided), Adoption::Computed);
            bound.push((condition, to_kind(result, decided)?));
        }
        let mut otherwise = otherwise;
        self.settle_as(&mut otherwise, widest(decided), Adoption::Computed);
        let otherwise = Box::new(to_kind(otherwise, decided)?);
        Ok(Typed { expr: Expr::Case { branches: bound.into(), otherwise }, sql_type })
    }
}

/// LIKE, ILIKE and STARTS WITH.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Pattern,
    AnyCase,
    Prefix,
}

pub(crate) fn single_column(query: &crate::plan::Query) -> UserResult<SqlType> {
    match query.columns.as_slice() {
        [column] => Ok(column.sql_type),
        columns => {
            Err(UserError::compile("42601", format!("the subquery must have one column, not {}", columns.len())))
        }
    }
}

fn compare_operator(op: &ast::BinaryOperator) -> Option<CompareOperator> {
    Some(match op {
        ast::BinaryOperator::Eq => CompareOperator::Equal,
        ast::BinaryOperator::NotEq => CompareOperator::NotEqual,
        ast::BinaryOperator::Lt => CompareOperator::Less,
        ast::BinaryOperator::LtEq => CompareOperator::LessOrEqual,
        ast::BinaryOperator::Gt => CompareOperator::Greater,
        ast::BinaryOperator::GtEq => CompareOperator::GreaterOrEqual,
        _ => return None,
    })
}

/// `(a, b, ...)`, whether or not in parentheses of its own.
fn row_of(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match expr {
        ast::Expr::Tuple(row) => Some(row),
        ast::Expr::Nested(inner) => row_of(inner),
        _ => None,
    }
}

fn query_of(expr: &ast::Expr) -> Option<&ast::Query> {
    match expr {
        ast::Expr::Subquery(query) => Some(query),
        ast::Expr::Nested(inner) => query_of(inner),
        _ => None,
    }
}

/// The operator for the sides the other way round.
fn turned(operator: CompareOperator) -> CompareOperator {
    match operator {
        CompareOperator::Less => CompareOperator::Greater,
        CompareOperator::LessOrEqual => CompareOperator::GreaterOrEqual,
        CompareOperator::Greater => CompareOperator::Less,
        CompareOperator::GreaterOrEqual => CompareOperator::LessOrEqual,
        other => other,
    }
}

/// A number as a value of `to`'s kind, if it is exactly one: then an index on the other side of a comparison stays usable.
fn exact_constant(value: &OwnedValue, to: SqlType) -> Option<OwnedValue> {
    let kind = if to.is_integer() { SqlType::Bigint } else { to };
    let converted = cast_constant(value, &ColumnType::fixed(kind)).ok()?;
    let order = ferrite_value::compare::compare(&converted.as_value(), &value.as_value());
    (order == Some(std::cmp::Ordering::Equal)).then_some(converted)
}

/// One side of a comparison of an integer with a number of another kind. The comparison itself is exact; a cast to the
/// other's kind, or to its own, only says that no index key equals it bit for bit.
fn beside_number(typed: Typed, other: SqlType) -> UserResult<Expr> {
    let sql_type = typed.decided_type();
    if typed.constant().is_some() {
        return Ok(typed.expr);
    }
    Ok(match (sql_type, other) {
        (integer, SqlType::Decimal) if integer.is_integer() => typed.expr.cast_to(SqlType::Decimal),
        (integer, SqlType::Float) if integer.is_integer() => typed.expr.cast_to(SqlType::Bigint),
        (SqlType::Float, _) => typed.expr.cast_to(SqlType::Float),
        _ => typed.expr,
    })
}

/// Text constants may stand for values of other types.
fn can_compare_as(from: SqlType, to: SqlType) -> bool {
    match from {
        SqlType::Varchar => true,
        SqlType::Varbinary => to.is_integer(),
        _ => false,
    }
}

fn equality(left: Expr, right: Expr) -> Expr {
    Expr::Compare { operator: CompareOperator::Equal, left: Box::new(left), right: Box::new(right) }
}
