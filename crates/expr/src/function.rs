//! The scalar functions by id. [`resolve`] knows their names and argument types, for the binder;
//! here is the list itself and the way from an id to the code.
//!
//! Unless said otherwise a function is NULL when one of its arguments is.

mod geography;
mod json;
mod network;
mod number;
mod pattern;
mod resolve;
mod text;
mod time;
mod time_format;
mod zone;

pub use resolve::Resolved;

use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_value::temporal::{self, TimeUnit};
use ferrite_value::{Value, compare};
use std::cmp::Ordering;

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
    /// Seconds since 1970, with their decimals.
    Epoch,
    /// Sunday is 0.
    DayOfWeekFromZero,
    /// Monday is 1.
    IsoDayOfWeek,
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
    /// (number [, places]): halves to the even neighbour. With places in DECIMAL.
    Round,
    /// (number [, places]): toward zero. With places in DECIMAL.
    TruncateNumber,
    Sign,
    /// FLOAT, DECIMAL or VARCHAR to an integer, if it is one: what storing in an integer column
    /// does.
    ExactInteger,
    /// (integers) or (DECIMALs).
    Modulo,
    Power,
    SquareRoot,
    CubeRoot,
    Exponential,
    NaturalLogarithm,
    Logarithm10,
    Pi,
    Sine,
    Cosine,
    Tangent,
    ArcSine,
    ArcCosine,
    ArcTangent,
    /// (y, x).
    ArcTangent2,
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
    /// (text [, characters]).
    Trim(TrimSide),
    Upper,
    Lower,
    /// Any number of texts.
    Concat,
    Reverse,
    /// Each word's first letter in upper case, the others in lower case.
    InitialCapitals,
    /// (text, length [, filling]).
    PadLeft,
    PadRight,
    /// (text, delimiter, number of the part).
    SplitPart,
    StartsWith,
    /// Text to the code point of its first character.
    Ascii,
    /// (text, pattern [, flags]).
    RegexpPosition,
    RegexpLike,
    /// (text, pattern, replacement [, flags]).
    RegexpReplace,
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
    /// (FLOAT or DECIMAL [, length [, decimals]]).
    Str,
    /// Code point to text.
    Char,
    Bin,
    Hex,
    /// (DECIMAL, rounding position).
    FormatCurrency,

    // Any type.
    /// Any number of arguments of one type; NULLs are passed over.
    Greatest,
    Least,
    /// (text) or (code, text): ends the statement with that error.
    SqlError,

    // Time.
    Now,
    CurrentDate,
    Extract(TimeField),
    Truncate(TimeUnit),
    /// (count, timestamp).
    DateAdd(TimeUnit),
    /// (from, to).
    DateDifference(TimeUnit),
    SinceEpoch(TimeUnit),
    ToTimestamp(TimeUnit),
    /// (timestamp, time zone: a region, or an offset such as `+05:30`; NULL is UTC).
    FormatTimestamp,
    /// (timestamp, pattern).
    ToChar,
    /// (DATE, days): DATE + 1.
    DaysAfter,
    /// (timestamp): what becomes of a DATE that is stored as a TIMESTAMP; an error outside the
    /// valid ones.
    ValidTimestamp,
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

    // JSON in VARCHAR.
    /// (json, path).
    Field,
    /// (json, path, new value as JSON).
    SetField,
    /// (json, index from 0).
    ArrayElement,
    ArrayLength,

    // Points and polygons on the earth.
    PointFromText,
    PolygonFromText,
    ValidPolygonFromText,
    MakeValidPolygon,
    IsValid,
    IsInvalidReason,
    /// (polygon, point).
    Contains,
    /// (point, point), or a point and a polygon.
    Distance,
    /// As [`Function::Distance`], and the most that it may be.
    DistanceWithin,
    Area,
    Centroid,
    Longitude,
    Latitude,
    NumberOfPoints,
    NumberOfInteriorRings,
    AsText,

    // What has no value of its own.
    /// (any column of the row): is the row on its way out to a target of MIGRATE. No row ever is:
    /// nothing takes rows out yet.
    Migrating,
    /// Any number of values, NULLs too, as one: what an aggregate over several arguments takes from
    /// a row.
    Together,
    /// (value): its argument with the values of [`ferrite_base::earlier`]. Stands around what an
    /// old database has defined.
    Earlier,
    /// The least text above all that begin with the argument; NULL where there is none. For bounds
    /// of index scans.
    TextAfter,
    /// (pattern), (pattern, escape): the literal text that all begin with which are LIKE it; NULL
    /// where there is none that an index can use. For bounds of index scans.
    LiteralPrefix,
    /// (pattern, escape), and whether any letter is its other case, too: the pattern of LIKE with
    /// [`crate::like::ESCAPE`] in the place of its escape character, which must not be a letter
    /// then.
    EscapedPattern,
}

impl Function {
    /// The function's value. `transaction_time` is what NOW answers.
    pub(crate) fn call<'a>(
        self,
        arguments: &[Value<'a>],
        transaction_time: i64,
        arena: &'a Bump,
    ) -> UserResult<Value<'a>> {
        use Function::*;
        if arguments.iter().any(Value::is_null)
            && !matches!(self, Greatest | Least | Migrating | Together | FormatTimestamp)
        {
            return Ok(Value::Null);
        }
        match self {
            Now => Ok(Value::Timestamp(transaction_time)),
            CurrentDate => Ok(temporal::date_from_timestamp(transaction_time).map_or(Value::Null, Value::Date)),
            Greatest => Ok(extreme(arguments, Ordering::Greater)),
            Least => Ok(extreme(arguments, Ordering::Less)),
            SqlError => Err(sql_error(arguments)),
            Migrating => Ok(Value::Boolean(false)),
            Earlier => Ok(arguments.first().copied().unwrap_or(Value::Null)),
            TextAfter => Ok(match arguments {
                [Value::Text(prefix)] => {
                    crate::like::text_after(prefix).map_or(Value::Null, |after| Value::Text(arena.alloc_str(&after)))
                }
                _ => return Err(crate::checks::mismatch("TextAfter", arguments)),
            }),
            LiteralPrefix => {
                let (pattern, escape) = match arguments {
                    [Value::Text(pattern)] => (*pattern, None),
                    [Value::Text(pattern), Value::Text(escape)] => (*pattern, escape.chars().next()),
                    _ => return Err(crate::checks::mismatch("LiteralPrefix", arguments)),
                };
                let prefix = crate::like::literal_prefix(pattern, escape);
                Ok(prefix.map_or(Value::Null, |(prefix, _)| Value::Text(prefix)))
            }
            EscapedPattern => match arguments {
                [Value::Text(pattern), Value::Text(escape), Value::Boolean(any_case)] => {
                    let escaped = crate::like::with_own_escape(pattern, escape, *any_case)?;
                    Ok(Value::Text(arena.alloc_str(&escaped)))
                }
                _ => Err(crate::checks::mismatch("ESCAPE", arguments)),
            },
            Together => Ok(Value::Array(arena.alloc_slice_copy(arguments))),
            Extract(_) | Truncate(_) | DateAdd(_) | DateDifference(_) | SinceEpoch(_) | ToTimestamp(_)
            | FormatTimestamp | ToChar | DaysAfter | ValidTimestamp | IsValidTimestamp | MinValidTimestamp
            | MaxValidTimestamp | TimeWindow(..) => time::call(self, arguments, arena),
            Abs | Ceiling | Floor | Round | TruncateNumber | Sign | ExactInteger | Modulo | Power | SquareRoot
            | CubeRoot | Exponential | NaturalLogarithm | Logarithm10 | Pi | Sine | Cosine | Tangent | ArcSine
            | ArcCosine | ArcTangent | ArcTangent2 | Cotangent | Secant | Cosecant | Degrees | Radians | BitAnd
            | BitOr | BitXor | BitNot | BitShiftLeft | BitShiftRight => number::call(self, arguments),
            Substring | Trim(_) | Upper | Lower | Concat | CharLength | OctetLength | Left | Right | Replace
            | Repeat | Position | Overlay | Space | Str | Char | Bin | Hex | FormatCurrency | Reverse
            | InitialCapitals | PadLeft | PadRight | SplitPart | StartsWith | Ascii => {
                text::call(self, arguments, arena)
            }
            RegexpPosition | RegexpLike => pattern::call(self, arguments),
            RegexpReplace => pattern::replace(arguments, arena),
            InetAton | InetNtoa | Inet6Aton | Inet6Ntoa => network::call(self, arguments, arena),
            Field | SetField | ArrayElement | ArrayLength => json::call(self, arguments, arena),
            PointFromText
            | PolygonFromText
            | ValidPolygonFromText
            | MakeValidPolygon
            | IsValid
            | IsInvalidReason
            | Contains
            | Distance
            | DistanceWithin
            | Area
            | Centroid
            | Longitude
            | Latitude
            | NumberOfPoints
            | NumberOfInteriorRings
            | AsText => geography::call(self, arguments, arena),
        }
    }

    /// Whether equal arguments give equal results in every transaction, so that the planner may
    /// compute a call on constants ahead, and an index or a view may hold it.
    pub fn is_deterministic(self) -> bool {
        !matches!(self, Function::Now | Function::CurrentDate | Function::SqlError)
    }
}

/// The argument that is `wanted` of all others, NULLs left out.
fn extreme<'a>(arguments: &[Value<'a>], wanted: Ordering) -> Value<'a> {
    arguments.iter().fold(Value::Null, |best, argument| match (best, argument) {
        (_, Value::Null) => best,
        (Value::Null, _) => *argument,
        _ if compare::order(argument, &best) == wanted => *argument,
        _ => best,
    })
}

#[cold]
fn sql_error(arguments: &[Value<'_>]) -> UserError {
    match arguments {
        [Value::Text(text)] => UserError::data("P0001", format!("SQL ERROR: {text}")),
        [Value::Integer(code)] => UserError::data("P0001", format!("SQL ERROR {code}")),
        [Value::Text(code), Value::Text(text)] => UserError::data("P0001", format!("SQL ERROR {code}: {text}")),
        _ => crate::checks::mismatch("SQL_ERROR", arguments),
    }
}
