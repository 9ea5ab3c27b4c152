//! What an evaluation costs, said before it is done, so that whoever evaluates can end it in time
//! and in its memory.
//!
//! A unit is about what a byte costs that is copied. What is small is not counted: rows are, by
//! whoever reads them.

use crate::context::Context;
use crate::function::Function;
use ferrite_base::{UserResult, limits};
use ferrite_value::Value;

/// Work below this is not told.
pub(crate) const TOLD_FROM: usize = 1_024;
/// A byte of result, which also takes memory.
const MADE: usize = 4;
/// A byte of text that is read and understood: numbers, JSON.
const PARSED: usize = 16;
/// A byte that a regular expression looks at.
const MATCHED: usize = 32;
/// A byte of a polygon: arithmetic with sines.
const MEASURED: usize = 8;
/// A step of LIKE.
pub(crate) const LIKE_STEP: usize = 2;
/// A CASE. What it asks about may be many others, each written once in the statement, so that it
/// counts by itself.
pub(crate) const CASE: usize = 32;
/// A value that is compared with another.
pub(crate) const COMPARED: usize = 8;

/// Tells the context of what the call is going to cost.
#[inline]
pub(crate) fn announce<'a, C: Context<'a> + ?Sized>(
    function: Function,
    arguments: &[Value<'_>],
    context: &C,
) -> UserResult<()> {
    let mut bytes = 0;
    for argument in arguments {
        bytes += argument.bytes_apart();
    }
    match function {
        Function::Repeat | Function::Space | Function::PadLeft | Function::PadRight | Function::Replace => {
            charge(made(function, arguments).saturating_mul(MADE).saturating_add(bytes), context)
        }
        _ if bytes < TOLD_FROM => Ok(()),
        _ => charge(bytes * weight(function), context),
    }
}

#[inline]
pub(crate) fn charge<'a, C: Context<'a> + ?Sized>(units: usize, context: &C) -> UserResult<()> {
    if units < TOLD_FROM { Ok(()) } else { context.cost(units) }
}

/// For a value that was copied or is to be parsed into another type.
#[inline]
pub(crate) fn parse<'a, C: Context<'a> + ?Sized>(value: &Value<'_>, context: &C) -> UserResult<()> {
    charge(value.bytes_apart() * PARSED, context)
}

/// Before two values are compared.
#[inline]
pub(crate) fn compare<'a, C: Context<'a> + ?Sized>(value: &Value<'_>, context: &C) -> UserResult<()> {
    charge(value.bytes_apart() / COMPARED, context)
}

/// Before values are put together.
#[inline]
pub(crate) fn join<'a, C: Context<'a> + ?Sized>(left: &Value<'_>, right: &Value<'_>, context: &C) -> UserResult<()> {
    charge((left.bytes_apart() + right.bytes_apart()) * MADE, context)
}

/// Bytes of a result that is longer than the arguments; none is longer than a value may be.
fn made(function: Function, arguments: &[Value<'_>]) -> usize {
    let count = |value: &Value<'_>| match value {
        Value::Integer(count) => usize::try_from(*count).unwrap_or(0),
        _ => 0,
    };
    let bytes = match (function, arguments) {
        (Function::Repeat, [text, times]) => text.bytes_apart().saturating_mul(count(times)),
        (Function::Space, [times]) => count(times),
        (Function::PadLeft | Function::PadRight, [_, length, ..]) => count(length),
        (Function::Replace, [text, wanted, replacement]) => (text.bytes_apart() / wanted.bytes_apart().max(1))
            .saturating_mul(replacement.bytes_apart())
            .saturating_add(text.bytes_apart()),
        _ => 0,
    };
    bytes.min(limits::VALUE_BYTES_MAX)
}

impl Function {
    /// Whether a call may take much longer than a copy of its arguments.
    pub fn is_costly(self) -> bool {
        use Function::*;
        weight(self) > MADE || matches!(self, Repeat | Space | PadLeft | PadRight | Replace)
    }
}

fn weight(function: Function) -> usize {
    use Function::*;
    match function {
        RegexpPosition | RegexpLike | RegexpReplace => MATCHED,
        Field | SetField | ArrayElement | ArrayLength => PARSED,
        PointFromText | PolygonFromText | ValidPolygonFromText | AsText => 2 * PARSED,
        IsValid | IsInvalidReason | MakeValidPolygon | Contains | Distance | DistanceWithin | Area | Centroid => {
            MEASURED
        }
        OctetLength | StartsWith | Ascii | Together => 0,
        _ => MADE,
    }
}
