//! Evaluation of an expression against a [`Context`].
//!
//! [`Expr::eval`] and [`Expr::is_true`] handle leaves and integer work themselves, as every
//! transaction does dozens of those; the rest is out of line. Results borrow from the expression,
//! the context's rows or its arena.

use crate::arithmetic;
use crate::checks::{check_length, mismatch};
use crate::context::Context;
use crate::cost;
use crate::function::Function;
use crate::like;
use crate::operator::{ArithmeticDomain, CompareOperator};
use crate::sorted_array::ARRAY_SORTED_FROM;
use crate::tree::Expr;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult, earlier};
use ferrite_value::cast::cast;
use ferrite_value::{OwnedValue, Value, compare};

impl Expr {
    /// The value for the rows, parameters and registers that `context` holds now.
    #[inline]
    pub fn eval<'a, C: Context<'a> + ?Sized>(&'a self, context: &C) -> UserResult<Value<'a>> {
        match self {
            Expr::Constant(OwnedValue::Integer(value)) => Ok(Value::Integer(*value)),
            Expr::Parameter(index) => Ok(context.parameter(*index)),
            Expr::Register(index) => Ok(context.register(*index)),
            Expr::Column { slot, column } => Ok(context.column(*slot, *column)),
            _ => self.eval_operation(context),
        }
    }

    /// Whether a condition holds: neither false nor unknown.
    #[inline]
    pub fn is_true<'a, C: Context<'a> + ?Sized>(&'a self, context: &C) -> UserResult<bool> {
        match self {
            Expr::Compare { operator, left, right } => {
                let left = left.eval(context)?;
                let right = right.eval(context)?;
                match (left, right) {
                    (Value::Integer(a), Value::Integer(b)) => Ok(operator.holds(a, b)),
                    _ => {
                        cost::compare(&left, context)?;
                        Ok(operator.compare_other(&left, &right) == Some(true))
                    }
                }
            }
            _ => self.is_true_other(context),
        }
    }

    #[inline(never)]
    fn is_true_other<'a, C: Context<'a> + ?Sized>(&'a self, context: &C) -> UserResult<bool> {
        match self {
            Expr::And(operands) => {
                for operand in operands {
                    if !operand.is_true(context)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expr::Or(operands) => {
                cost::charge(operands.len() * cost::COMPARED, context)?;
                for operand in operands {
                    if operand.is_true(context)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::IsNull { operand, negated } => Ok(operand.eval(context)?.is_null() != *negated),
            _ => Ok(matches!(self.eval(context)?, Value::Boolean(true))),
        }
    }

    #[inline(never)]
    fn eval_operation<'a, C: Context<'a> + ?Sized>(&'a self, context: &C) -> UserResult<Value<'a>> {
        match self {
            Expr::Arithmetic { operator, domain, left, right } => {
                let left = left.eval(context)?;
                let right = right.eval(context)?;
                match (domain, left, right) {
                    (ArithmeticDomain::Integer, Value::Integer(a), Value::Integer(b)) => {
                        arithmetic::integer(*operator, a, b).map(Value::Integer)
                    }
                    _ => arithmetic::other(*operator, *domain, left, right),
                }
            }
            Expr::Compare { operator, left, right } => {
                let left = left.eval(context)?;
                let right = right.eval(context)?;
                cost::compare(&left, context)?;
                Ok(truth(operator.compare(&left, &right)))
            }
            Expr::IsNull { operand, negated } => Ok(Value::Boolean(operand.eval(context)?.is_null() != *negated)),
            _ => self.eval_compound(context),
        }
    }

    /// Apart from [`Expr::eval_operation`], whose frame stays small that way.
    #[inline(never)]
    fn eval_compound<'a, C: Context<'a> + ?Sized>(&'a self, context: &C) -> UserResult<Value<'a>> {
        match self {
            Expr::Constant(value) => Ok(value.as_value()),
            Expr::Case { branches, otherwise } => {
                context.cost(cost::CASE + branches.len())?;
                for (condition, result) in branches {
                    if condition.is_true(context)? {
                        return result.eval(context);
                    }
                }
                otherwise.eval(context)
            }
            Expr::And(operands) => logical(operands, context, false),
            Expr::Or(operands) => logical(operands, context, true),
            Expr::Not(operand) => match operand.eval(context)? {
                Value::Null => Ok(Value::Null),
                Value::Boolean(value) => Ok(Value::Boolean(!value)),
                other => Err(not_a_truth_value(other)),
            },
            Expr::Cast { operand, to } => {
                let value = operand.eval(context)?;
                cost::parse(&value, context)?;
                cast(value, to, context.arena())
            }
            Expr::Call { function: Function::Earlier, arguments } => {
                earlier::with(|| call(Function::Earlier, arguments, context))
            }
            Expr::Call { function, arguments } => call(*function, arguments, context),
            _ => self.eval_rare(context),
        }
    }

    #[inline(never)]
    fn eval_rare<'a, C: Context<'a> + ?Sized>(&'a self, context: &C) -> UserResult<Value<'a>> {
        match self {
            Expr::Negate { domain, operand } => arithmetic::negate(*domain, operand.eval(context)?),
            Expr::Concatenate(left, right) => {
                let left = left.eval(context)?;
                let right = right.eval(context)?;
                cost::join(&left, &right, context)?;
                concatenate(left, right, context.arena())
            }
            Expr::IsDistinct { left, right, negated } => {
                let left = left.eval(context)?;
                let equal = compare::equal_grouping(&left, &right.eval(context)?);
                Ok(Value::Boolean(equal == *negated))
            }
            Expr::Like { operand, pattern, escape, prefix_only, negated } => {
                let operand = operand.eval(context)?;
                match (operand, pattern.eval(context)?) {
                    (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
                    (Value::Text(text), Value::Text(pattern)) => {
                        let matches = if *prefix_only {
                            text.starts_with(pattern)
                        } else {
                            like::matches(text, pattern, *escape, |steps| context.cost(steps * cost::LIKE_STEP))?
                        };
                        Ok(Value::Boolean(matches != *negated))
                    }
                    (operand, pattern) => Err(mismatch("LIKE", &[operand, pattern])),
                }
            }
            Expr::InList { operand, list, negated } => {
                let operand = operand.eval(context)?;
                let mut membership = Membership::new(operand);
                match list.order() {
                    None => membership.look_at_each(list.iter(), context)?,
                    Some(order) => {
                        membership.unknown = operand.is_null() || order.null;
                        membership.found = !operand.is_null() && list.has_constant(order, &operand);
                        let others = order.others.iter().map(|position| &list[*position as usize]);
                        membership.look_at_each(others, context)?;
                    }
                }
                Ok(membership.result(*negated))
            }
            Expr::InArray { operand, array, negated } => {
                let operand = operand.eval(context)?;
                match array.eval(context)? {
                    Value::Array(elements) => {
                        let mut membership = Membership::new(operand);
                        let sorted = match **array {
                            Expr::Parameter(parameter) if elements.len() >= ARRAY_SORTED_FROM => {
                                context.sorted_array(parameter)?
                            }
                            _ => None,
                        };
                        if let Some(sorted) = sorted {
                            membership.unknown = operand.is_null() || sorted.null;
                            membership.found = !operand.is_null() && sorted.has(&operand);
                            return Ok(membership.result(*negated));
                        }
                        cost::charge(elements.len() * cost::COMPARED, context)?;
                        for element in elements {
                            if membership.is_decided() {
                                break;
                            }
                            membership.look_at(*element);
                        }
                        Ok(membership.result(*negated))
                    }
                    Value::Null => Ok(Value::Null),
                    // The generic parameter also takes one value where an array is expected.
                    single => {
                        let mut membership = Membership::new(operand);
                        membership.look_at(single);
                        Ok(membership.result(*negated))
                    }
                }
            }
            Expr::User { function, arguments } => {
                let mut values = bumpalo::collections::Vec::with_capacity_in(arguments.len(), context.arena());
                for argument in arguments {
                    values.push(argument.eval(context)?);
                }
                function.call(&values, context.arena())
            }
            Expr::Subquery { subquery, operand } => {
                let operand = match operand {
                    Some(operand) => operand.eval(context)?,
                    None => Value::Null,
                };
                context.subquery(*subquery, operand)
            }
            _ => unreachable!("the callers handle the other variants"),
        }
    }
}

#[inline]
fn truth(value: Option<bool>) -> Value<'static> {
    match value {
        Some(value) => Value::Boolean(value),
        None => Value::Null,
    }
}

/// AND (`absorbing` false) or OR (`absorbing` true): ends at the first absorbing operand; else
/// unknown if any is.
fn logical<'a, C: Context<'a> + ?Sized>(operands: &'a [Expr], context: &C, absorbing: bool) -> UserResult<Value<'a>> {
    cost::charge(operands.len() * cost::COMPARED, context)?;
    let mut unknown = false;
    for operand in operands {
        match operand.eval(context)? {
            Value::Boolean(value) if value == absorbing => return Ok(Value::Boolean(absorbing)),
            Value::Boolean(_) => {}
            Value::Null => unknown = true,
            other => return Err(not_a_truth_value(other)),
        }
    }
    Ok(if unknown { Value::Null } else { Value::Boolean(!absorbing) })
}

/// Arguments stay on the stack for the common small calls.
fn call<'a, C: Context<'a> + ?Sized>(
    function: crate::Function,
    arguments: &'a [Expr],
    context: &C,
) -> UserResult<Value<'a>> {
    const INLINE: usize = 4;
    let arena = context.arena();
    if arguments.len() <= INLINE {
        let mut values = [Value::Null; INLINE];
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = argument.eval(context)?;
        }
        cost::announce(function, &values[..arguments.len()], context)?;
        return function.call(&values[..arguments.len()], context.transaction_time(), arena);
    }
    let mut values = bumpalo::collections::Vec::with_capacity_in(arguments.len(), arena);
    for argument in arguments {
        values.push(argument.eval(context)?);
    }
    cost::announce(function, &values, context)?;
    function.call(&values, context.transaction_time(), arena)
}

/// IN, three-valued: found, or unknown if a comparison was, or not found.
struct Membership<'a> {
    operand: Value<'a>,
    found: bool,
    unknown: bool,
}

impl<'a> Membership<'a> {
    fn new(operand: Value<'a>) -> Self {
        Membership { operand, found: false, unknown: false }
    }

    fn is_decided(&self) -> bool {
        self.found
    }

    fn look_at_each<C: Context<'a> + ?Sized>(
        &mut self,
        elements: impl ExactSizeIterator<Item = &'a Expr>,
        context: &C,
    ) -> UserResult<()> {
        cost::charge(elements.len() * cost::COMPARED, context)?;
        for element in elements {
            if self.is_decided() {
                break;
            }
            self.look_at(element.eval(context)?);
        }
        Ok(())
    }

    fn look_at(&mut self, element: Value<'a>) {
        match CompareOperator::Equal.compare(&self.operand, &element) {
            Some(true) => self.found = true,
            Some(false) => {}
            None => self.unknown = true,
        }
    }

    fn result(self, negated: bool) -> Value<'a> {
        match (self.found, self.unknown) {
            (true, _) => Value::Boolean(!negated),
            (false, true) => Value::Null,
            (false, false) => Value::Boolean(negated),
        }
    }
}

/// `||` on two texts or two byte strings.
pub(crate) fn concatenate<'a>(left: Value<'a>, right: Value<'a>, arena: &'a Bump) -> UserResult<Value<'a>> {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Text(a), Value::Text(b)) => {
            check_length(a.len() + b.len())?;
            let mut text = bumpalo::collections::String::with_capacity_in(a.len() + b.len(), arena);
            text.push_str(a);
            text.push_str(b);
            Ok(Value::Text(text.into_bump_str()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            check_length(a.len() + b.len())?;
            let mut bytes = bumpalo::collections::Vec::with_capacity_in(a.len() + b.len(), arena);
            bytes.extend_from_slice(a);
            bytes.extend_from_slice(b);
            Ok(Value::Bytes(bytes.into_bump_slice()))
        }
        (left, right) => Err(mismatch("||", &[left, right])),
    }
}

#[cold]
#[inline(never)]
fn not_a_truth_value(value: Value<'_>) -> UserError {
    UserError::compile("42804", format!("a condition is expected, not a {}", value.kind_name()))
}
