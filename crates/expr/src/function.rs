//! The scalar functions by id. [`resolve`] knows their names and argument types, for the binder; here is the list itself and
//! the way from an id to the code.
//!
//! Unless said otherwise a function is NULL when one of its arguments is.

mod network;
mod number;
mod resolve;
mod text;
mod time;

pub use resolve::Resolved;

use bumpalo::Bump;
use ferrite_base::UserResult;
use ferrite_value::Value;
use ferrite_value::temporal::TimeUnit;

/// What EXTRACT and the functions named after a field take from a timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TimeField {
    Year,
    Quarter,
    Month,
    DayOfMonth,
    /// Sunday is 1.
    DayOfWeek,
    DayOfYear,
    /// ISO 8601 week.
    Week,
    /// Monday is 0.
    Weekday,
    Hour,
    Minute,
    /// With its decimals.
    Second,
}

/// Which ends TRIM works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TrimSide {
    Both,
    Leading,
    Trailing,
}

/// What TIME_WINDOW answers for a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum WindowEdge {
    Start,
    End,
}

/// A scalar function whose argument types the binder has already settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Function {
    // Numbers. Those over several types look at the argument's kind.
    Abs,
    Ceiling,
    Floor,
    /// (DECIMAL, INTEGER): banker's rounding.
    Round,
    /// (integers) or (DECIMALs).
    Modulo,
    Power,
    SquareRoot,
    Exponential,
    NaturalLogarithm,
    Logarithm10,
    Pi,
    Sine,
    Cosine,
    Tangent,
    Cotangent,
    Secant,
    Cosecant,
    Degrees,
    Radians,
    BitAnd,
    BitOr,
    BitXor,
    BitNot,
    BitShiftLeft,
    BitShiftRight,

    // Text; positions and lengths count characters from 1.
    /// (VARCHAR or VARBINARY, start [, length]).
    Substring,
    /// (text [, character]).
    Trim(TrimSide),
    Upper,
    Lower,
    /// Any number of texts.
    Concat,
    CharLength,
    OctetLength,
    Left,
    Right,
    Replace,
    Repeat,
    /// (wanted, text): POSITION(wanted IN text).
    Position,
    /// (text, replacement, start [, length]).
    Overlay,
    Space,
    /// (FLOAT [, length [, decimals]]).
    Str,
    /// Code point to text.
    Char,
    Bin,
    Hex,
    /// (DECIMAL, rounding position).
    FormatCurrency,

    // Time.
    Now,
    Extract(TimeField),
    Truncate(TimeUnit),
    /// (count, timestamp).
    DateAdd(TimeUnit),
    /// (from, to).
    DateDifference(TimeUnit),
    SinceEpoch(TimeUnit),
    ToTimestamp(TimeUnit),
    /// (timestamp, offset such as `+05:30`).
    FormatTimestamp,
    IsValidTimestamp,
    MinValidTimestamp,
    MaxValidTimestamp,
    /// (count of units, timestamp).
    TimeWindow(TimeUnit, WindowEdge),

    // Internet addresses.
    InetAton,
    InetNtoa,
    Inet6Aton,
    Inet6Ntoa,
}

impl Function {
    /// The function's value. `transaction_time` is what NOW answers.
    pub(crate) fn call<'a>(
        self,
        arguments: &[Value<'a>],
        transaction_time: i64,
        arena: &'a Bump,
    ) -> UserResult<Value<'a>> {
        if arguments.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        use Function::*;
        match self {
            Now => Ok(Value::Timestamp(transaction_time)),
            Extract(_) | Truncate(_) | DateAdd(_) | DateDifference(_) | SinceEpoch(_) | ToTimestamp(_)
            | FormatTimestamp | IsValidTimestamp | MinValidTimestamp | MaxValidTimestamp | TimeWindow(..) => {
                time::call(self, arguments, arena)
            }
            Abs | Ceiling | Floor | Round | Modulo | Power | SquareRoot | Exponential | NaturalLogarithm
            | Logarithm10 | Pi | Sine | Cosine | Tangent | Cotangent | Secant | Cosecant | Degrees | Radians
            | BitAnd | BitOr | BitXor | BitNot | BitShiftLeft | BitShiftRight => number::call(self, arguments),
            Substring | Trim(_) | Upper | Lower | Concat | CharLength | OctetLength | Left | Right | Replace
            | Repeat | Position | Overlay | Space | Str | Char | Bin | Hex | FormatCurrency => {
                text::call(self, arguments, arena)
            }
            InetAton | InetNtoa | Inet6Aton | Inet6Ntoa => network::call(self, arguments, arena),
        }
    }

    /// Whether equal arguments give equal results in every transaction, so that the planner may compute a call on constants
    /// ahead, and an index or a view may hold it.
    pub fn is_deterministic(self) -> bool {
        self != Function::Now
    }
}
