//! Aggregates: what they are, and their running state. Both are in one room so that views and
//! queries cannot differ.
//!
//! Integer and decimal sums are kept wider than their results and checked when they are read, so
//! that neither the order of rows nor a partial sum decides whether there is an overflow.

mod distinct;
mod percentile;
mod sketch;
mod spread;
mod texts;

use crate::user::{Gathered, UserFunction};
use crate::{Expr, arithmetic, checks};
use bumpalo::Bump;
use distinct::DistinctValues;
use ferrite_base::{UserError, UserResult};
use ferrite_value::{Decimal, OwnedValue, SqlType, Value, compare};
pub use percentile::{Percentile, PercentileOrder};
use sketch::Sketch;
pub use spread::Spread;
use std::cmp::Ordering;
use std::sync::Arc;
pub use texts::{TextOrder, Texts};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum AggregateKind {
    /// COUNT(*)
    CountRows,
    /// COUNT(x)
    Count,
    Sum,
    Average,
    Min,
    Max,
    ApproximateCountDistinct,
    /// BOOL_AND, EVERY.
    BoolAnd,
    BoolOr,
    /// VAR_POP
    VariancePopulation,
    /// VAR_SAMP, VARIANCE
    VarianceSample,
    /// STDDEV_POP
    DeviationPopulation,
    /// STDDEV_SAMP, STDDEV
    DeviationSample,
    /// STRING_AGG, LISTAGG. Its argument is [`crate::Function::Together`] of the text, the
    /// separator, and what it is ordered by.
    Texts(TextOrder),
    /// PERCENTILE_CONT, PERCENTILE_DISC. Its argument is [`crate::Function::Together`] of the
    /// fraction and the value.
    Percentile(PercentileOrder),
    /// A user's, which [`Aggregate::user`] is. Its argument is [`crate::Function::Together`] of the
    /// arguments.
    User,
}

impl AggregateKind {
    /// The word in SQL.
    pub fn name(self) -> &'static str {
        match self {
            AggregateKind::CountRows | AggregateKind::Count => "COUNT",
            AggregateKind::Sum => "SUM",
            AggregateKind::Average => "AVG",
            AggregateKind::Min => "MIN",
            AggregateKind::Max => "MAX",
            AggregateKind::ApproximateCountDistinct => "APPROX_COUNT_DISTINCT",
            AggregateKind::BoolAnd => "BOOL_AND",
            AggregateKind::BoolOr => "BOOL_OR",
            AggregateKind::VariancePopulation => "VAR_POP",
            AggregateKind::VarianceSample => "VAR_SAMP",
            AggregateKind::DeviationPopulation => "STDDEV_POP",
            AggregateKind::DeviationSample => "STDDEV_SAMP",
            AggregateKind::Texts(_) => "STRING_AGG",
            AggregateKind::Percentile(order) if order.continuous => "PERCENTILE_CONT",
            AggregateKind::Percentile(_) => "PERCENTILE_DISC",
            AggregateKind::User => "a user-defined aggregate",
        }
    }

    /// VARIANCE, STDDEV and their forms.
    fn is_spread(self) -> bool {
        matches!(
            self,
            AggregateKind::VariancePopulation
                | AggregateKind::VarianceSample
                | AggregateKind::DeviationPopulation
                | AggregateKind::DeviationSample
        )
    }
}

/// One aggregate call.
#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    pub kind: AggregateKind,
    pub distinct: bool,
    /// None for COUNT(*).
    pub argument: Option<Expr>,
    /// Type of the argument (BIGINT for COUNT(*)): decides the domain of SUM and AVG.
    pub argument_type: SqlType,
    /// Type of the result, by [`Aggregate::result_type_for`]: BIGINT for counts and for SUM and AVG
    /// of integers, else the argument's.
    pub result_type: SqlType,
    /// With [`AggregateKind::User`].
    pub user: Option<Arc<UserFunction>>,
}

impl Aggregate {
    /// Bytes that a group's state takes beside itself from the start on.
    pub fn heap_bytes(&self) -> usize {
        if self.kind == AggregateKind::ApproximateCountDistinct { sketch::REGISTERS } else { 0 }
    }

    /// The type of `kind` over an argument of this type. Error where the aggregate does not take
    /// it.
    pub fn result_type_for(kind: AggregateKind, argument_type: SqlType) -> UserResult<SqlType> {
        let integer = argument_type.is_integer();
        match kind {
            AggregateKind::CountRows | AggregateKind::Count | AggregateKind::ApproximateCountDistinct => {
                Ok(SqlType::Bigint)
            }
            AggregateKind::Sum | AggregateKind::Average if integer => Ok(SqlType::Bigint),
            AggregateKind::Sum | AggregateKind::Average if argument_type.is_numeric() => Ok(argument_type),
            AggregateKind::BoolAnd | AggregateKind::BoolOr if argument_type == SqlType::Boolean => Ok(argument_type),
            AggregateKind::Texts(_) if argument_type == SqlType::Varchar => Ok(argument_type),
            AggregateKind::Percentile(order) if order.continuous && argument_type.is_numeric() => Ok(SqlType::Float),
            AggregateKind::Percentile(order)
                if !order.continuous && !matches!(argument_type, SqlType::Point | SqlType::Geography) =>
            {
                Ok(argument_type)
            }
            kind if kind.is_spread() && argument_type.is_numeric() => Ok(SqlType::Float),
            AggregateKind::Min | AggregateKind::Max
                if !matches!(argument_type, SqlType::Point | SqlType::Geography) =>
            {
                Ok(argument_type)
            }
            _ => Err(UserError::compile("42804", format!("{} does not take {argument_type}", kind.name()))
                .with_hint("CAST the argument to a type that it takes")),
        }
    }
}

/// The running state of one aggregate over one group.
#[derive(Clone, Debug)]
pub enum AggregateState {
    CountRows(i64),
    Count(i64),
    Sum(Sum),
    Average(Sum),
    /// Null until there is a value.
    Min(OwnedValue),
    Max(OwnedValue),
    /// COUNT, SUM or AVG over distinct values: they are counted or summed when the result is asked
    /// for.
    Distinct {
        kind: AggregateKind,
        values: Box<DistinctValues>,
        domain: Sum,
    },
    ApproximateCountDistinct(Sketch),
    /// None until there is a value.
    BoolAnd(Option<bool>),
    BoolOr(Option<bool>),
    Spread {
        kind: AggregateKind,
        spread: Spread,
    },
    Texts(Box<Texts>),
    Percentile(Box<Percentile>),
    User(Box<Gathered>),
}

/// A running sum with the number of values in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sum {
    /// Every sum of 2^63 64-bit values fits.
    Integer {
        sum: i128,
        count: i64,
    },
    Float {
        sum: f64,
        count: i64,
    },
    /// The sum of scaled integers is `sum + carry * 2^128`.
    Decimal {
        sum: i128,
        carry: i64,
        count: i64,
    },
}

/// What [`AggregateState::remove`] could do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Removal {
    /// The state is as if the value had never been added.
    Done,
    /// The state must be built anew from the rows that are left: the extreme itself went, or values
    /// are not counted.
    Rebuild,
}

/// A query has one for each group and aggregate.
const _: () = assert!(size_of::<AggregateState>() <= 64);

impl AggregateState {
    pub fn new(aggregate: &Aggregate) -> AggregateState {
        let domain = Sum::new(aggregate.argument_type);
        match aggregate.kind {
            AggregateKind::CountRows => AggregateState::CountRows(0),
            AggregateKind::Min => AggregateState::Min(OwnedValue::Null),
            AggregateKind::Max => AggregateState::Max(OwnedValue::Null),
            AggregateKind::ApproximateCountDistinct => AggregateState::ApproximateCountDistinct(Sketch::default()),
            AggregateKind::BoolAnd => AggregateState::BoolAnd(None),
            AggregateKind::BoolOr => AggregateState::BoolOr(None),
            AggregateKind::Texts(order) => AggregateState::Texts(Box::new(Texts::new(order, aggregate.distinct))),
            AggregateKind::Percentile(order) => AggregateState::Percentile(Box::new(Percentile::new(order))),
            AggregateKind::User => {
                let function = aggregate.user.clone().expect("an aggregate of this kind has its function");
                AggregateState::User(Box::new(Gathered::new(function)))
            }
            kind if aggregate.distinct => AggregateState::Distinct { kind, values: Box::default(), domain },
            AggregateKind::Count => AggregateState::Count(0),
            AggregateKind::Sum => AggregateState::Sum(domain),
            AggregateKind::Average => AggregateState::Average(domain),
            kind => AggregateState::Spread { kind, spread: Spread::default() },
        }
    }

    /// Takes one row's argument; NULL changes nothing but COUNT(*), whose argument does not matter.
    #[inline]
    pub fn add(&mut self, value: Value<'_>) -> UserResult<()> {
        match (self, value) {
            (AggregateState::CountRows(count), _) => *count += 1,
            (_, Value::Null) => {}
            (AggregateState::Count(count), _) => *count += 1,
            (AggregateState::Sum(sum) | AggregateState::Average(sum), value) => sum.change(value, 1)?,
            (state, value) => state.add_other(value)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn add_other(&mut self, value: Value<'_>) -> UserResult<()> {
        match self {
            AggregateState::Min(least) => keep(least, value, Ordering::Less),
            AggregateState::Max(greatest) => keep(greatest, value, Ordering::Greater),
            AggregateState::Distinct { values, .. } => values.insert(value),
            AggregateState::ApproximateCountDistinct(sketch) => sketch.insert(value),
            AggregateState::BoolAnd(all) => *all = Some(all.unwrap_or(true) && truth(value)?),
            AggregateState::BoolOr(any) => *any = Some(any.unwrap_or(false) || truth(value)?),
            AggregateState::Spread { spread, .. } => spread.add(value)?,
            AggregateState::Texts(texts) => texts.add(value)?,
            AggregateState::Percentile(percentile) => percentile.add(value)?,
            AggregateState::User(rows) => rows.add(value),
            _ => unreachable!("add handles counts and sums"),
        }
        Ok(())
    }

    /// Takes back one row's argument that was added before.
    #[inline]
    pub fn remove(&mut self, value: Value<'_>) -> UserResult<Removal> {
        match (self, value) {
            (AggregateState::CountRows(count), _) => *count -= 1,
            (_, Value::Null) => {}
            (AggregateState::Count(count), _) => *count -= 1,
            (AggregateState::Sum(sum) | AggregateState::Average(sum), value) => sum.change(value, -1)?,
            (AggregateState::Min(extreme) | AggregateState::Max(extreme), value) => {
                if compare::order(&extreme.as_value(), &value).is_eq() {
                    return Ok(Removal::Rebuild);
                }
            }
            _ => return Ok(Removal::Rebuild),
        }
        Ok(Removal::Done)
    }

    /// Takes in the state of the same aggregate over other rows.
    pub fn merge(&mut self, other: &AggregateState) {
        match (self, other) {
            (AggregateState::CountRows(count), AggregateState::CountRows(more))
            | (AggregateState::Count(count), AggregateState::Count(more)) => *count += more,
            (AggregateState::Sum(sum), AggregateState::Sum(more))
            | (AggregateState::Average(sum), AggregateState::Average(more)) => sum.merge(more),
            (AggregateState::Min(least), AggregateState::Min(value)) => keep(least, value.as_value(), Ordering::Less),
            (AggregateState::Max(greatest), AggregateState::Max(value)) => {
                keep(greatest, value.as_value(), Ordering::Greater);
            }
            (AggregateState::Distinct { values, .. }, AggregateState::Distinct { values: more, .. }) => {
                values.merge(more);
            }
            (AggregateState::ApproximateCountDistinct(sketch), AggregateState::ApproximateCountDistinct(more)) => {
                sketch.merge(more);
            }
            (AggregateState::BoolAnd(all), AggregateState::BoolAnd(more)) => *all = both(*all, *more, |a, b| a && b),
            (AggregateState::BoolOr(any), AggregateState::BoolOr(more)) => *any = both(*any, *more, |a, b| a || b),
            (AggregateState::Spread { spread, .. }, AggregateState::Spread { spread: more, .. }) => spread.merge(more),
            (AggregateState::Texts(texts), AggregateState::Texts(more)) => texts.merge(more),
            (AggregateState::Percentile(percentile), AggregateState::Percentile(more)) => percentile.merge(more),
            (AggregateState::User(rows), AggregateState::User(more)) => rows.merge(more),
            _ => unreachable!("only states of one aggregate are merged"),
        }
    }

    /// The result so far. Text is copied to `arena`.
    pub fn finish<'b>(&self, arena: &'b Bump) -> UserResult<Value<'b>> {
        match self {
            AggregateState::CountRows(count) | AggregateState::Count(count) => Ok(Value::Integer(*count)),
            AggregateState::Sum(sum) => sum.total(),
            AggregateState::Average(sum) => sum.average(),
            AggregateState::Min(value) | AggregateState::Max(value) => Ok(value.as_value().copied_to(arena)),
            AggregateState::Distinct { kind, values, domain } => {
                if *kind == AggregateKind::Count {
                    return Ok(Value::Integer(values.len() as i64));
                }
                if kind.is_spread() {
                    let mut spread = Spread::default();
                    values.iter().try_for_each(|value| spread.add(value.as_value()))?;
                    return spread.result(*kind);
                }
                let mut sum = *domain;
                values.iter().try_for_each(|value| sum.change(value.as_value(), 1))?;
                if *kind == AggregateKind::Average { sum.average() } else { sum.total() }
            }
            AggregateState::ApproximateCountDistinct(sketch) => Ok(Value::Integer(sketch.estimate())),
            AggregateState::BoolAnd(result) | AggregateState::BoolOr(result) => {
                Ok(result.map_or(Value::Null, Value::Boolean))
            }
            AggregateState::Spread { kind, spread } => spread.result(*kind),
            AggregateState::Texts(texts) => texts.result(arena),
            AggregateState::Percentile(percentile) => percentile.result(arena),
            AggregateState::User(rows) => rows.result(arena),
        }
    }
}

fn truth(value: Value<'_>) -> UserResult<bool> {
    match value {
        Value::Boolean(value) => Ok(value),
        other => Err(checks::mismatch("BOOL_AND and BOOL_OR", &[other])),
    }
}

fn both(left: Option<bool>, right: Option<bool>, combine: fn(bool, bool) -> bool) -> Option<bool> {
    match (left, right) {
        (Some(left), Some(right)) => Some(combine(left, right)),
        (left, right) => left.or(right),
    }
}

/// Replaces `extreme` when it is NULL or `value` is on the `wanted` side of it. NULL replaces
/// nothing.
#[inline]
fn keep(extreme: &mut OwnedValue, value: Value<'_>, wanted: Ordering) {
    if value.is_null() {
        return;
    }
    if matches!(extreme, OwnedValue::Null) || compare::order(&value, &extreme.as_value()) == wanted {
        *extreme = value.to_owned_value();
    }
}

impl Sum {
    /// Zero in the domain that sums of this type are in.
    pub fn new(argument_type: SqlType) -> Sum {
        match argument_type {
            SqlType::Float => Sum::Float { sum: 0.0, count: 0 },
            SqlType::Decimal => Sum::Decimal { sum: 0, carry: 0, count: 0 },
            _ => Sum::Integer { sum: 0, count: 0 },
        }
    }

    /// Adds (`sign` 1) or takes away (`sign` -1) a value that is not NULL.
    #[inline]
    fn change(&mut self, value: Value<'_>, sign: i64) -> UserResult<()> {
        match (self, value) {
            (Sum::Integer { sum, count }, Value::Integer(x)) => {
                *sum += (x as i128) * sign as i128;
                *count += sign;
            }
            (Sum::Decimal { sum, carry, count }, Value::Decimal(x)) => {
                add_with_carry(sum, carry, x.scaled() * sign as i128);
                *count += sign;
            }
            (Sum::Float { sum, count }, Value::Float(x)) => {
                *count += sign;
                // Nothing is exactly nothing, whatever rounding left behind.
                *sum = if *count == 0 { 0.0 } else { *sum + x * sign as f64 };
            }
            (_, other) => return Err(checks::mismatch("SUM", &[other])),
        }
        Ok(())
    }

    fn merge(&mut self, other: &Sum) {
        match (self, other) {
            (Sum::Integer { sum, count }, Sum::Integer { sum: more, count: more_count }) => {
                *sum += more;
                *count += more_count;
            }
            (Sum::Float { sum, count }, Sum::Float { sum: more, count: more_count }) => {
                *sum += more;
                *count += more_count;
            }
            (Sum::Decimal { sum, carry, count }, Sum::Decimal { sum: more, carry: more_carry, count: more_count }) => {
                add_with_carry(sum, carry, *more);
                *carry += more_carry;
                *count += more_count;
            }
            _ => unreachable!("sums of one aggregate have one domain"),
        }
    }

    fn total(&self) -> UserResult<Value<'static>> {
        match *self {
            Sum::Integer { count: 0, .. } | Sum::Float { count: 0, .. } | Sum::Decimal { count: 0, .. } => {
                Ok(Value::Null)
            }
            Sum::Integer { sum, .. } => match i64::try_from(sum) {
                Ok(sum) if sum != i64::MIN => Ok(Value::Integer(sum)),
                _ => Err(overflow(sum, "BigInt")),
            },
            Sum::Float { sum, .. } if arithmetic::is_float_value(sum) => Ok(Value::Float(sum)),
            Sum::Float { sum, .. } => Err(overflow(sum, "Float")),
            Sum::Decimal { sum, carry, .. } => decimal_total(sum, carry).map(Value::Decimal),
        }
    }

    /// Integers cut off the fraction, as division does.
    fn average(&self) -> UserResult<Value<'static>> {
        match *self {
            Sum::Integer { count: 0, .. } | Sum::Float { count: 0, .. } | Sum::Decimal { count: 0, .. } => {
                Ok(Value::Null)
            }
            Sum::Integer { sum, count } => Ok(Value::Integer((sum / count as i128) as i64)),
            Sum::Float { sum, count } if arithmetic::is_float_value(sum) => Ok(Value::Float(sum / count as f64)),
            Sum::Float { sum, .. } => Err(overflow(sum, "Float")),
            Sum::Decimal { sum, carry, count } => {
                let quotient = decimal_total(sum, carry)?.scaled() / count as i128;
                Ok(Value::Decimal(Decimal::from_scaled(quotient).expect("not above the sum")))
            }
        }
    }
}

#[inline]
fn add_with_carry(sum: &mut i128, carry: &mut i64, addend: i128) {
    let (wrapped, overflowed) = sum.overflowing_add(addend);
    *sum = wrapped;
    if overflowed {
        *carry += if addend > 0 { 1 } else { -1 };
    }
}

fn decimal_total(sum: i128, carry: i64) -> UserResult<Decimal> {
    let total = if carry == 0 { Decimal::from_scaled(sum) } else { None };
    total.ok_or_else(|| UserError::out_of_range("the sum will overflow Decimal storage"))
}

#[cold]
fn overflow(sum: impl std::fmt::Display, storage: &str) -> UserError {
    UserError::out_of_range(format!("the sum {sum} will overflow {storage} storage"))
}
