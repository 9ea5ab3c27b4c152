//! Comparisons: both sides brought to one kind of value; of single values, of rows, with lists,
//! ranges and patterns.

use super::Binder;
use super::folding::Operands;
use super::literal::constant_as;
use super::number::exact_comparison;
use super::proposals::{Proposal, Types};
use super::types::{Typed, cast_constant, incompatible, widest};
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_expr::{CompareOperator, Expr, Function, like};
use ferrite_plan::Adoption;
use ferrite_value::{ColumnType, OwnedValue, SqlType};
use sqlparser::ast;

impl Binder<'_> {
    pub fn is_distinct(&mut self, left: &ast::Expr, right: &ast::Expr, negated: bool) -> UserResult<Typed> {
        let left = self.expression(left)?;
        let right = self.expression(right)?;
        let (left, right) = self.comparable(left, right)?;
        Ok(Typed::boolean(self.folding.fold(Expr::IsDistinct {
            left: Box::new(left),
            right: Box::new(right),
            negated,
        })?))
    }

    pub fn comparison(&mut self, left: &ast::Expr, operator: CompareOperator, right: &ast::Expr) -> UserResult<Typed> {
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
        let left = self.expression(left)?;
        let right = self.expression(right)?;
        self.compare(left, operator, right)
    }

    pub fn compare(&mut self, left: Typed, operator: CompareOperator, right: Typed) -> UserResult<Typed> {
        let (left, operator, right) = self.comparable_by(left, operator, right)?;
        Ok(Typed::boolean(self.folding.fold(Expr::Compare {
            operator,
            left: Box::new(left),
            right: Box::new(right),
        })?))
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
                let all = self.folding.fold(Expr::And(equal.into()))?;
                let negate = operator == CompareOperator::NotEqual;
                return Ok(Typed::boolean(if negate { self.folding.fold(Expr::Not(Box::new(all)))? } else { all }));
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

    /// [`Binder::comparable`], where the order counts as well: a number between two values of the
    /// other side is one of them beside another operator.
    pub fn comparable_by(
        &mut self,
        left: Typed,
        operator: CompareOperator,
        right: Typed,
    ) -> UserResult<(Expr, CompareOperator, Expr)> {
        let Some((left, operator, right)) = exact_comparison(&left, operator, &right) else {
            let (left, right) = self.comparable(left, right)?;
            return Ok((left, operator, right));
        };
        let left_type = left.decided_type();
        let right_type = right.decided_type();
        Ok((beside_number(left, right_type), operator, beside_number(right, left_type)))
    }

    /// Brings both sides to one kind of value, so that finding equal ones and index lookups need no
    /// conversion.
    pub fn comparable(&mut self, mut left: Typed, mut right: Typed) -> UserResult<(Expr, Expr)> {
        if let Some((left, _, right)) = exact_comparison(&left, CompareOperator::Equal, &right) {
            let left_type = left.decided_type();
            let right_type = right.decided_type();
            return Ok((beside_number(left, right_type), beside_number(right, left_type)));
        }
        match (left.sql_type, right.sql_type) {
            (Some(_), Some(_)) => {}
            (None, Some(_)) => self.propose(&mut left, compared_with(&right)),
            (Some(_), None) => self.propose(&mut right, compared_with(&left)),
            (None, None) => self.compared_undecided(&left.expr, &right.expr)?,
        }
        let (Some(left_type), Some(right_type)) = (left.sql_type, right.sql_type) else {
            return Ok((left.expr, right.expr));
        };
        if left_type.same_kind(right_type) {
            return Ok((left.expr, right.expr));
        }
        // An exact decimal is seldom a double: beside a FLOAT it is meant as the nearest one. So is
        // an integer that was given.
        let is_nearest = |typed: &Typed, sql_type: SqlType| {
            sql_type == SqlType::Decimal || sql_type.is_integer() && self.is_given(&typed.expr)
        };
        if left_type == SqlType::Float && is_nearest(&right, right_type) {
            return Ok((left.expr, self.folding.convert(right, SqlType::Float)?));
        }
        if is_nearest(&left, left_type) && right_type == SqlType::Float {
            return Ok((self.folding.convert(left, SqlType::Float)?, right.expr));
        }
        if left_type.is_numeric() && right_type.is_numeric() {
            if let Some(value) = left.constant().and_then(|value| exact_constant(value, right_type)) {
                return Ok((Expr::Constant(value), right.expr));
            }
            if let Some(value) = right.constant().and_then(|value| exact_constant(value, left_type)) {
                return Ok((left.expr, Expr::Constant(value)));
            }
            return Ok((beside_number(left, right_type), beside_number(right, left_type)));
        }
        if left.constant().is_some() && can_compare_as(left_type, right_type) {
            let (right, left) = beside_constant(right, constant_as(left, right_type)?);
            return Ok((left, right));
        }
        if right.constant().is_some() && can_compare_as(right_type, left_type) {
            let right = constant_as(right, left_type)?;
            return Ok(beside_constant(left, right));
        }
        match (left_type, right_type) {
            (SqlType::Timestamp, SqlType::Date) | (SqlType::Timestamp, SqlType::Varchar) => {
                Ok((left.expr, self.folding.convert(right, SqlType::Timestamp)?))
            }
            (SqlType::Date, SqlType::Timestamp) | (SqlType::Varchar, SqlType::Timestamp) => {
                Ok((self.folding.convert(left, SqlType::Timestamp)?, right.expr))
            }
            (SqlType::Date, SqlType::Varchar) => Ok((left.expr, self.folding.convert(right, SqlType::Date)?)),
            (SqlType::Varchar, SqlType::Date) => Ok((self.folding.convert(left, SqlType::Date)?, right.expr)),
            (SqlType::Timestamp, other) if other.is_integer() => {
                Ok((left.expr, self.folding.convert(right, SqlType::Timestamp)?))
            }
            (other, SqlType::Timestamp) if other.is_integer() => {
                Ok((self.folding.convert(left, SqlType::Timestamp)?, right.expr))
            }
            _ if self.is_on_trial() => Ok((left.expr, right.expr)),
            _ => Err(incompatible(left_type, right_type)),
        }
    }

    /// Whether an integer is of constants, parameters and variables only: it is the same for all
    /// rows, however it is computed, so it is a literal that might stand in its place. In what is
    /// kept with the rows only constants are, as ever.
    fn is_given(&self, integer: &Expr) -> bool {
        if earlier::rounded_literals() {
            return false;
        }
        if self.schema_object.is_some() {
            return matches!(integer, Expr::Constant(_));
        }
        !integer.any(&mut |inner| matches!(inner, Expr::Column { .. } | Expr::Subquery { .. }))
    }

    pub fn in_list(&mut self, operand: &ast::Expr, list: &[ast::Expr], negated: bool) -> UserResult<Typed> {
        if let Some(row) = row_of(operand) {
            let mut alternatives = Operands::new(false);
            for item in list {
                let Some(item) = row_of(item) else {
                    return Err(UserError::compile("42601", "rows of different width are compared"));
                };
                alternatives.add(self, |binder| Ok(binder.row_comparison(row, CompareOperator::Equal, item)?.expr))?;
            }
            let any = alternatives.combined(self)?;
            return Ok(Typed::boolean(if negated { self.folding.fold(Expr::Not(Box::new(any)))? } else { any }));
        }
        let operand = self.expression(operand)?;
        // One comparison per item settles the types.
        let mut pairs = Vec::with_capacity(list.len());
        let operand_parts = self.parts_inside(&operand.expr);
        // A constant among constants: what comes after it is not evaluated, and what fails there
        // goes.
        let mut is_found = false;
        for item in list {
            self.grow(operand_parts)?;
            let (item, fails) = self.evaluated_perhaps(is_found, |binder| binder.expression(item))?;
            if is_found && fails {
                continue;
            }
            let (left, right) = self.comparable(operand.clone(), item)?;
            is_found = is_found || are_equal_constants(&left, &right);
            pairs.push((left, right));
        }
        let expr = match one_operand(&operand, &pairs) {
            Some(left) if pairs.len() > 1 || negated => {
                let list = pairs.into_iter().map(|(_, right)| right).collect();
                Expr::InList { operand: Box::new(left), list, negated }
            }
            _ => {
                let mut equalities: Vec<Expr> = pairs.into_iter().map(|(left, right)| equality(left, right)).collect();
                let any = if equalities.len() == 1 { equalities.remove(0) } else { Expr::Or(equalities.into()) };
                if negated { Expr::Not(Box::new(any)) } else { any }
            }
        };
        Ok(Typed::boolean(self.folding.fold(expr)?))
    }

    /// `x IN ?` with an array.
    pub fn in_array(&mut self, operand: &ast::Expr, array: &ast::Expr, negated: bool) -> UserResult<Typed> {
        let operand = self.expression(operand)?;
        let typed = self.expression(array)?;
        let Expr::Parameter(index) = typed.expr else {
            return Err(UserError::syntax("IN without parentheses takes one parameter"));
        };
        self.settle_array_parameter(index, &operand);
        let operand_type = operand.decided_type();
        let element = self.parameter_type(index).map_or(operand_type, |known| known.sql_type);
        // Values of another type may be given; that they are numbers too is seen where they are.
        let operand = if element == operand_type || operand_type.is_integer() && element.is_integer() {
            operand
        } else {
            let element = Typed::new(Expr::column(0, 0), element);
            Typed::new(self.comparable(operand, element)?.0, operand_type)
        };
        let expr = Expr::InArray { operand: Box::new(operand.expr), array: Box::new(typed.expr), negated };
        Ok(Typed::boolean(expr))
    }

    pub fn between(
        &mut self,
        operand: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
    ) -> UserResult<Typed> {
        let operand = self.expression(operand)?;
        let mut both = Operands::new(true);
        both.add(self, |binder| {
            let low = binder.expression(low)?;
            let again = binder.again(&operand)?;
            Ok(binder.compare(again, CompareOperator::GreaterOrEqual, low)?.expr)
        })?;
        both.add(self, |binder| {
            let high = binder.expression(high)?;
            Ok(binder.compare(operand, CompareOperator::LessOrEqual, high)?.expr)
        })?;
        let both = both.combined(self)?;
        Ok(Typed::boolean(if negated { self.folding.fold(Expr::Not(Box::new(both)))? } else { both }))
    }

    pub fn like(
        &mut self,
        [operand, pattern]: [&ast::Expr; 2],
        escape: Option<&ast::Expr>,
        negated: bool,
        how: Likeness,
    ) -> UserResult<Typed> {
        let mut own_escape = None;
        let escape = match escape {
            None => None,
            Some(expr) => {
                let typed = self.expression(expr)?;
                match typed.constant() {
                    Some(OwnedValue::Text(text)) if text.chars().count() == 1 => text.chars().next(),
                    Some(_) => return Err(UserError::compile("22019", "ESCAPE takes one character")),
                    None => {
                        own_escape = Some(self.text_of_like(typed)?);
                        Some(like::ESCAPE)
                    }
                }
            }
        };
        if how == Likeness::AnyCase && escape.is_some_and(char::is_alphabetic) {
            return Err(UserError::compile("22019", "the ESCAPE character of ILIKE must not be a letter"));
        }
        let operand = self.side_of_like(operand, how)?;
        let mut pattern = self.side_of_like(pattern, how)?;
        if let Some(escape) = own_escape {
            let any_case = Expr::Constant(OwnedValue::Boolean(how == Likeness::AnyCase));
            let arguments = [*pattern, escape, any_case].into();
            *pattern = Expr::Call { function: Function::EscapedPattern, arguments };
        }
        let prefix_only = how == Likeness::Prefix;
        Ok(Typed::boolean(self.folding.fold(Expr::Like { operand, pattern, escape, prefix_only, negated })?))
    }

    fn side_of_like(&mut self, side: &ast::Expr, how: Likeness) -> UserResult<Box<Expr>> {
        let typed = self.expression(side)?;
        let text = self.text_of_like(typed)?;
        if how != Likeness::AnyCase || matches!(text, Expr::Constant(OwnedValue::Null)) {
            return Ok(Box::new(text));
        }
        self.folding.fold(Expr::Call { function: Function::Lower, arguments: [text].into() }).map(Box::new)
    }

    fn text_of_like(&mut self, mut typed: Typed) -> UserResult<Expr> {
        self.settle(&mut typed, ColumnType::unbounded(SqlType::Varchar));
        match typed.sql_type {
            None | Some(SqlType::Varchar) => Ok(typed.expr),
            Some(other) => Err(incompatible(other, SqlType::Varchar)),
        }
    }
}

/// LIKE, ILIKE and STARTS WITH.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    Pattern,
    AnyCase,
    Prefix,
}

pub(super) fn compare_operator(op: &ast::BinaryOperator) -> Option<CompareOperator> {
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
pub(super) fn row_of(expr: &ast::Expr) -> Option<&[ast::Expr]> {
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

/// A number as a value of `to`'s kind, if it is exactly one: then an index on the other side of a
/// comparison stays usable.
fn exact_constant(value: &OwnedValue, to: SqlType) -> Option<OwnedValue> {
    let kind = if to.is_integer() { SqlType::Bigint } else { to };
    let converted = cast_constant(value, &ColumnType::fixed(kind)).ok()?;
    let order = ferrite_value::compare::compare(&converted.as_value(), &value.as_value());
    (order == Some(std::cmp::Ordering::Equal)).then_some(converted)
}

/// One side of a comparison of numbers of different kinds. The comparison itself is exact; a cast
/// to the other's kind, or to its own, only says that no index key equals it bit for bit.
fn beside_number(typed: Typed, other: SqlType) -> Expr {
    let sql_type = typed.decided_type();
    if typed.constant().is_some() {
        return typed.expr;
    }
    // No index key is a parameter.
    let is_given = matches!(typed.expr, Expr::Parameter(_));
    match (sql_type, other) {
        (integer, SqlType::Decimal) if integer.is_integer() => typed.expr.cast_to(SqlType::Decimal),
        (integer, SqlType::Float) if integer.is_integer() => typed.expr.cast_to(SqlType::Bigint),
        (SqlType::Decimal, SqlType::Float) => typed.expr.cast_to(SqlType::Decimal),
        (SqlType::Float, _) if !is_given => typed.expr.cast_to(SqlType::Float),
        _ => typed.expr,
    }
}

/// What a comparison with `other` says about a parameter.
pub(super) fn compared_with(other: &Typed) -> Proposal {
    let other_type = other.decided_type();
    let proposal = Proposal::of(widest(other_type), Adoption::Compared);
    if other.constant().is_some() && other_type == SqlType::Varchar {
        // The text may say a value of another type.
        return proposal.adopted(Adoption::Carried).taking(Types::ALL).converting();
    }
    let is_constant = other.constant().is_some();
    let is_taken = |given| are_comparable(given, other_type) || is_constant && can_compare_as(other_type, given);
    proposal.taking(Types::that(is_taken))
}

/// Whether values of these types are compared without a CAST.
fn are_comparable(left: SqlType, right: SqlType) -> bool {
    use SqlType::{Date, Timestamp, Varchar};
    let one_way = |left: SqlType, right: SqlType| match (left, right) {
        (Timestamp, Date | Varchar) | (Date, Varchar) => true,
        (Timestamp, right) => right.is_integer(),
        _ => false,
    };
    left.same_kind(right) || left.is_numeric() && right.is_numeric() || one_way(left, right) || one_way(right, left)
}

/// A constant that stood for a value of the other side's type. A number that is no integer equals
/// none, and selects no partition by one.
fn beside_constant(other: Typed, constant: Expr) -> (Expr, Expr) {
    match (&constant, other.decided_type()) {
        (Expr::Constant(OwnedValue::Decimal(_)), to) if to.is_integer() => {
            (beside_number(other, SqlType::Decimal), constant)
        }
        _ => (other.expr, constant),
    }
}

/// Text constants may stand for values of other types.
fn can_compare_as(from: SqlType, to: SqlType) -> bool {
    match from {
        SqlType::Varchar => true,
        SqlType::Varbinary => to.is_integer(),
        _ => false,
    }
}

fn are_equal_constants(left: &Expr, right: &Expr) -> bool {
    let (Expr::Constant(left), Expr::Constant(right)) = (left, right) else { return false };
    CompareOperator::Equal.compare(&left.as_value(), &right.as_value()) == Some(true)
}

/// The operand of IN as it is compared with each element, if that is one: it is the same beside
/// whole numbers and others, where it only stands as another kind of number.
fn one_operand(operand: &Typed, pairs: &[(Expr, Expr)]) -> Option<Expr> {
    let is_another_kind = |left: &Expr| match (left, operand.sql_type) {
        (Expr::Cast { operand: inner, to }, Some(sql_type)) => **inner == operand.expr && to.has_all_of(sql_type),
        _ => false,
    };
    let (first, _) = pairs.first()?;
    if pairs.iter().all(|(left, _)| left == first) {
        return Some(first.clone());
    }
    let alike = pairs.iter().all(|(left, _)| *left == operand.expr || is_another_kind(left));
    let converted = pairs.iter().map(|(left, _)| left).find(|left| **left != operand.expr)?;
    alike.then(|| converted.clone())
}

fn equality(left: Expr, right: Expr) -> Expr {
    Expr::Compare { operator: CompareOperator::Equal, left: Box::new(left), right: Box::new(right) }
}
