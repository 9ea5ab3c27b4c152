//! From a name and argument types to a function: which casts the arguments need and what the
//! result's type is.
//!
//! The names are the ones SQL texts use. COALESCE, NULLIF and DECODE are not here: the binder
//! brings them to CASE.

use super::{Function, TimeField, TrimSide, WindowEdge};
use ferrite_base::{UserError, UserResult};
use ferrite_value::SqlType;
use ferrite_value::temporal::{self, TimeUnit};

/// A function chosen for a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    pub function: Function,
    /// The type each argument must have: the one it has, or one that it has to be cast to.
    pub argument_types: Vec<SqlType>,
    pub result_type: SqlType,
}

/// What a parameter takes. An argument without a type (`?` or NULL) gets the type in the comment.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    /// Integers of any width; BIGINT. Of VARBINARY the binder lets constants pass, which it reads
    /// as numbers.
    Integer,
    /// Any number, left as it is; BIGINT.
    Number,
    /// Any number, left as it is unless it is an integer; FLOAT.
    Float,
    /// Any number, made DECIMAL.
    Decimal,
    /// VARCHAR.
    Text,
    /// VARCHAR or VARBINARY; VARCHAR.
    TextOrBytes,
    /// VARBINARY.
    Bytes,
    /// TIMESTAMP; DATE and text are cast.
    Timestamp,
    /// DATE only.
    Date,
    /// Anything that has a text form, made VARCHAR.
    AnyAsText,
    /// GEOGRAPHY_POINT; text is cast.
    Point,
    /// GEOGRAPHY; text is cast.
    Polygon,
    /// GEOGRAPHY_POINT or GEOGRAPHY; GEOGRAPHY_POINT.
    Shape,
}

/// Result type of a call.
enum Gives {
    Type(SqlType),
    /// The type of the first argument, after casts.
    First,
}

use Gives::{First, Type};
use Takes::*;

impl Function {
    /// The function `name` (upper case) for these arguments; None is the type of `?` and of NULL.
    /// Error when there is no such function (yet), or when it does not take such arguments.
    pub fn resolve(name: &str, argument_types: &[Option<SqlType>]) -> UserResult<Resolved> {
        use Function as F;
        use SqlType as S;
        // Function, parameters, how many of them may be left out, result.
        let (function, parameters, optional, result): (Function, &[Takes], usize, Gives) = match name {
            "ABS" => (F::Abs, &[Number], 0, First),
            "CEILING" | "CEIL" => (F::Ceiling, &[Number], 0, First),
            "FLOOR" => (F::Floor, &[Number], 0, First),
            "ROUND" if argument_types.len() == 1 => (F::Round, &[Number], 0, First),
            "ROUND" => (F::Round, &[Decimal, Integer], 0, Type(S::Decimal)),
            "TRUNCATE" | "TRUNC" if argument_types.len() == 1 => (F::TruncateNumber, &[Number], 0, First),
            "TRUNCATE" | "TRUNC" => (F::TruncateNumber, &[Decimal, Integer], 0, Type(S::Decimal)),
            "SIGN" => (F::Sign, &[Number], 0, Type(S::Integer)),
            "MOD" => return modulo(argument_types),
            "POWER" | "POW" => (F::Power, &[Float, Float], 0, Type(S::Float)),
            "SQRT" => (F::SquareRoot, &[Float], 0, Type(S::Float)),
            "CBRT" => (F::CubeRoot, &[Float], 0, Type(S::Float)),
            "EXP" => (F::Exponential, &[Float], 0, Type(S::Float)),
            "LN" | "LOG" => (F::NaturalLogarithm, &[Float], 0, Type(S::Float)),
            "LOG10" => (F::Logarithm10, &[Float], 0, Type(S::Float)),
            "PI" => (F::Pi, &[], 0, Type(S::Float)),
            "SIN" => (F::Sine, &[Float], 0, Type(S::Float)),
            "COS" => (F::Cosine, &[Float], 0, Type(S::Float)),
            "TAN" => (F::Tangent, &[Float], 0, Type(S::Float)),
            "ASIN" => (F::ArcSine, &[Float], 0, Type(S::Float)),
            "ACOS" => (F::ArcCosine, &[Float], 0, Type(S::Float)),
            "ATAN" => (F::ArcTangent, &[Float], 0, Type(S::Float)),
            "ATAN2" => (F::ArcTangent2, &[Float, Float], 0, Type(S::Float)),
            "COT" => (F::Cotangent, &[Float], 0, Type(S::Float)),
            "SEC" => (F::Secant, &[Float], 0, Type(S::Float)),
            "CSC" => (F::Cosecant, &[Float], 0, Type(S::Float)),
            "DEGREES" => (F::Degrees, &[Float], 0, Type(S::Float)),
            "RADIANS" => (F::Radians, &[Float], 0, Type(S::Float)),
            "BITAND" => (F::BitAnd, &[Integer, Integer], 0, Type(S::Bigint)),
            "BITOR" => (F::BitOr, &[Integer, Integer], 0, Type(S::Bigint)),
            "BITXOR" => (F::BitXor, &[Integer, Integer], 0, Type(S::Bigint)),
            "BITNOT" => (F::BitNot, &[Integer], 0, Type(S::Bigint)),
            "BIT_SHIFT_LEFT" => (F::BitShiftLeft, &[Integer, Integer], 0, Type(S::Bigint)),
            "BIT_SHIFT_RIGHT" => (F::BitShiftRight, &[Integer, Integer], 0, Type(S::Bigint)),

            "SUBSTRING" | "SUBSTR" => (F::Substring, &[TextOrBytes, Integer, Integer], 1, First),
            "TRIM" | "BTRIM" => (F::Trim(TrimSide::Both), &[Text, Text], 1, Type(S::Varchar)),
            "LTRIM" => (F::Trim(TrimSide::Leading), &[Text, Text], 1, Type(S::Varchar)),
            "RTRIM" => (F::Trim(TrimSide::Trailing), &[Text, Text], 1, Type(S::Varchar)),
            "UPPER" | "UCASE" => (F::Upper, &[Text], 0, Type(S::Varchar)),
            "LOWER" | "LCASE" => (F::Lower, &[Text], 0, Type(S::Varchar)),
            "CONCAT" => return concat(argument_types),
            "CHAR_LENGTH" | "CHARACTER_LENGTH" | "LENGTH" => (F::CharLength, &[Text], 0, Type(S::Bigint)),
            "OCTET_LENGTH" => (F::OctetLength, &[TextOrBytes], 0, Type(S::Bigint)),
            "LEFT" => (F::Left, &[Text, Integer], 0, Type(S::Varchar)),
            "RIGHT" => (F::Right, &[Text, Integer], 0, Type(S::Varchar)),
            "REPLACE" => (F::Replace, &[Text, Text, Text], 1, Type(S::Varchar)),
            "REPEAT" => (F::Repeat, &[Text, Integer], 0, Type(S::Varchar)),
            "POSITION" => (F::Position, &[Text, Text], 0, Type(S::Bigint)),
            "REVERSE" => (F::Reverse, &[Text], 0, Type(S::Varchar)),
            "INITCAP" => (F::InitialCapitals, &[Text], 0, Type(S::Varchar)),
            "LPAD" => (F::PadLeft, &[Text, Integer, Text], 1, Type(S::Varchar)),
            "RPAD" => (F::PadRight, &[Text, Integer, Text], 1, Type(S::Varchar)),
            "SPLIT_PART" => (F::SplitPart, &[Text, Text, Integer], 0, Type(S::Varchar)),
            "STARTS_WITH" => (F::StartsWith, &[Text, Text], 0, Type(S::Boolean)),
            "ASCII" => (F::Ascii, &[Text], 0, Type(S::Integer)),
            "REGEXP_POSITION" => (F::RegexpPosition, &[Text, Text, Text], 1, Type(S::Bigint)),
            "REGEXP_REPLACE" => (F::RegexpReplace, &[Text, Text, Text, Text], 1, Type(S::Varchar)),
            "REGEXP_LIKE" => (F::RegexpLike, &[Text, Text, Text], 1, Type(S::Boolean)),
            "OVERLAY" => (F::Overlay, &[Text, Text, Integer, Integer], 1, Type(S::Varchar)),
            "SPACE" => (F::Space, &[Integer], 0, Type(S::Varchar)),
            "STR" if argument_types.first().is_some_and(|of| of.is_some_and(is_exact)) => {
                (F::Str, &[Decimal, Integer, Integer], 2, Type(S::Varchar))
            }
            "STR" => (F::Str, &[Float, Integer, Integer], 2, Type(S::Varchar)),
            "CHAR" | "CHR" => (F::Char, &[Integer], 0, Type(S::Varchar)),
            "BIN" => (F::Bin, &[Integer], 0, Type(S::Varchar)),
            "HEX" => (F::Hex, &[Integer], 0, Type(S::Varchar)),
            "FORMAT_CURRENCY" => (F::FormatCurrency, &[Decimal, Integer], 0, Type(S::Varchar)),

            "NOW" | "CURRENT_TIMESTAMP" => (F::Now, &[], 0, Type(S::Timestamp)),
            "CURRENT_DATE" => (F::CurrentDate, &[], 0, Type(S::Date)),
            "FROM_UNIXTIME" => (F::ToTimestamp(TimeUnit::Second), &[Integer], 0, Type(S::Timestamp)),
            "FORMAT_TIMESTAMP" => (F::FormatTimestamp, &[Timestamp, Text], 0, Type(S::Varchar)),
            "TO_CHAR" if matches!(argument_types, [Some(of), _] if of.is_numeric()) => {
                return Err(wrong_type(name, 0, argument_types[0]).with_hint(
                    "TO_CHAR writes times; for numbers there are CAST(x AS VARCHAR), STR and FORMAT_CURRENCY",
                ));
            }
            "TO_CHAR" => (F::ToChar, &[Timestamp, Text], 0, Type(S::Varchar)),
            "IS_VALID_TIMESTAMP" => (F::IsValidTimestamp, &[Timestamp], 0, Type(S::Boolean)),
            "MIN_VALID_TIMESTAMP" => (F::MinValidTimestamp, &[], 0, Type(S::Timestamp)),
            "MAX_VALID_TIMESTAMP" => (F::MaxValidTimestamp, &[], 0, Type(S::Timestamp)),

            "INET_ATON" => (F::InetAton, &[Text], 0, Type(S::Bigint)),
            "INET_NTOA" => (F::InetNtoa, &[Integer], 0, Type(S::Varchar)),
            "INET6_ATON" => (F::Inet6Aton, &[Text], 0, Type(S::Varbinary)),
            "INET6_NTOA" => (F::Inet6Ntoa, &[Bytes], 0, Type(S::Varchar)),

            "FIELD" => (F::Field, &[Text, Text], 0, Type(S::Varchar)),
            "SET_FIELD" => (F::SetField, &[Text, Text, Text], 0, Type(S::Varchar)),
            "ARRAY_ELEMENT" => (F::ArrayElement, &[Text, Integer], 0, Type(S::Varchar)),
            "ARRAY_LENGTH" => (F::ArrayLength, &[Text], 0, Type(S::Integer)),

            "POINTFROMTEXT" => (F::PointFromText, &[Text], 0, Type(S::Point)),
            "POLYGONFROMTEXT" => (F::PolygonFromText, &[Text], 0, Type(S::Geography)),
            "VALIDPOLYGONFROMTEXT" => (F::ValidPolygonFromText, &[Text], 0, Type(S::Geography)),
            "MAKEVALIDPOLYGON" => (F::MakeValidPolygon, &[Polygon], 0, Type(S::Geography)),
            "ISVALID" => (F::IsValid, &[Polygon], 0, Type(S::Boolean)),
            "ISINVALIDREASON" => (F::IsInvalidReason, &[Polygon], 0, Type(S::Varchar)),
            "CONTAINS" => (F::Contains, &[Polygon, Point], 0, Type(S::Boolean)),
            "DISTANCE" => (F::Distance, one_a_point(name, argument_types)?, 0, Type(S::Float)),
            "DWITHIN" => (F::DistanceWithin, one_a_point(name, argument_types)?, 0, Type(S::Boolean)),
            "AREA" => (F::Area, &[Polygon], 0, Type(S::Float)),
            "CENTROID" => (F::Centroid, &[Polygon], 0, Type(S::Point)),
            "LONGITUDE" => (F::Longitude, &[Point], 0, Type(S::Float)),
            "LATITUDE" => (F::Latitude, &[Point], 0, Type(S::Float)),
            "NUMPOINTS" => (F::NumberOfPoints, &[Polygon], 0, Type(S::Integer)),
            "NUMINTERIORRINGS" | "NUMINTERIORRING" => (F::NumberOfInteriorRings, &[Polygon], 0, Type(S::Integer)),
            "ASTEXT" => (F::AsText, &[Shape], 0, Type(S::Varchar)),

            "GREATEST" => return of_one_type(name, F::Greatest, argument_types),
            "LEAST" => return of_one_type(name, F::Least, argument_types),
            "SQL_ERROR" if matches!(argument_types, [Some(of)] if of.is_integer()) => {
                (F::SqlError, &[Integer], 0, Type(S::Bigint))
            }
            "SQL_ERROR" if argument_types.len() == 1 => (F::SqlError, &[Text], 0, Type(S::Bigint)),
            "SQL_ERROR" => (F::SqlError, &[AnyAsText, Text], 0, Type(S::Bigint)),

            _ => match field_of_function(name) {
                Some(field) => (F::Extract(field), &[Timestamp], 0, Type(field_type(field))),
                None => return Err(UserError::not_supported(format!("the function {name}")).with_code("42883")),
            },
        };
        settle(name, function, parameters, optional, result, argument_types)
    }

    /// The functions with a unit or field in front, which is a word and no expression:
    /// EXTRACT(field FROM timestamp), TRUNCATE(unit, timestamp), DATEADD(unit, count, timestamp),
    /// DATEDIFF(unit, from, to), SINCE_EPOCH(unit, timestamp), TO_TIMESTAMP(unit, count),
    /// TIME_WINDOW(unit, length, timestamp). `argument_types` excludes the unit.
    pub fn resolve_with_unit(name: &str, unit: &str, argument_types: &[Option<SqlType>]) -> UserResult<Resolved> {
        if matches!(name, "EXTRACT" | "DATE_PART") {
            let field = field_of_extract(unit)
                .ok_or_else(|| {
                    UserError::syntax(format!("{name} does not know the field {unit}")).with_hint(
                        "fields are YEAR, QUARTER, MONTH, WEEK, DAY, DAY_OF_WEEK, DAY_OF_YEAR, WEEKDAY, HOUR, MINUTE, SECOND, EPOCH",
                    )
                })?;
            return settle(name, Function::Extract(field), &[Timestamp], 0, Type(field_type(field)), argument_types);
        }
        let unit_named = TimeUnit::from_name(unit)
            .ok_or_else(|| {
                UserError::syntax(format!("{name} does not know the unit {unit}")).with_hint(format!(
                    "the unit comes first, {name}(DAY, ...): YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND \
                     or MICROSECOND"
                ))
            })?;
        let whole_days = unit_named.microseconds().is_none_or(|length| length >= temporal::MICROSECONDS_PER_DAY);
        let (function, parameters, result): (Function, &[Takes], SqlType) = match name {
            // Of a DATE, whole days stay a DATE.
            "TRUNCATE" | "DATE_TRUNC" if whole_days && argument_types == [Some(SqlType::Date)] => {
                (Function::Truncate(unit_named), &[Date], SqlType::Date)
            }
            "TRUNCATE" | "DATE_TRUNC" => (Function::Truncate(unit_named), &[Timestamp], SqlType::Timestamp),
            "DATEADD" if whole_days && argument_types.get(1) == Some(&Some(SqlType::Date)) => {
                (Function::DateAdd(unit_named), &[Integer, Date], SqlType::Date)
            }
            "DATEADD" => (Function::DateAdd(unit_named), &[Integer, Timestamp], SqlType::Timestamp),
            "DATEDIFF" => (Function::DateDifference(unit_named), &[Timestamp, Timestamp], SqlType::Bigint),
            "SINCE_EPOCH" | "TO_TIMESTAMP" if unit_named.microseconds().is_none() => {
                return Err(UserError::syntax(format!("{name} does not take the unit {unit}"))
                    .with_hint("use SECOND, MILLISECOND or MICROSECOND"));
            }
            "SINCE_EPOCH" => (Function::SinceEpoch(unit_named), &[Timestamp], SqlType::Bigint),
            "TO_TIMESTAMP" => (Function::ToTimestamp(unit_named), &[Integer], SqlType::Timestamp),
            "TIME_WINDOW" => {
                let function = Function::TimeWindow(unit_named, WindowEdge::Start);
                (function, &[Integer, Timestamp], SqlType::Timestamp)
            }
            _ => return Err(UserError::not_supported(format!("the function {name}")).with_code("42883")),
        };
        settle(name, function, parameters, 0, Type(result), argument_types)
    }

    /// TIME_WINDOW's last word: START or END.
    pub fn with_window_edge(self, word: &str) -> UserResult<Function> {
        match (self, word) {
            (Function::TimeWindow(unit, _), "START") => Ok(Function::TimeWindow(unit, WindowEdge::Start)),
            (Function::TimeWindow(unit, _), "END") => Ok(Function::TimeWindow(unit, WindowEdge::End)),
            _ => Err(UserError::syntax(format!("TIME_WINDOW takes START or END, not {word}"))),
        }
    }

    /// Whether the first argument of `name` is a unit or field: then
    /// [`Function::resolve_with_unit`] is the one to ask.
    pub fn takes_unit(name: &str) -> bool {
        const NAMES: [&str; 9] = [
            "EXTRACT",
            "TRUNCATE",
            "DATEADD",
            "DATEDIFF",
            "SINCE_EPOCH",
            "TO_TIMESTAMP",
            "TIME_WINDOW",
            "DATE_TRUNC",
            "DATE_PART",
        ];
        NAMES.contains(&name)
    }
}

fn field_of_function(name: &str) -> Option<TimeField> {
    Some(match name {
        "YEAR" => TimeField::Year,
        "QUARTER" => TimeField::Quarter,
        "MONTH" => TimeField::Month,
        "DAY" | "DAYOFMONTH" => TimeField::DayOfMonth,
        "DAYOFWEEK" => TimeField::DayOfWeek,
        "DAYOFYEAR" => TimeField::DayOfYear,
        "WEEK" | "WEEKOFYEAR" => TimeField::Week,
        "WEEKDAY" => TimeField::Weekday,
        "HOUR" => TimeField::Hour,
        "MINUTE" => TimeField::Minute,
        "SECOND" => TimeField::Second,
        _ => return None,
    })
}

/// As [`field_of_function`], and with the longer names that only EXTRACT has.
fn field_of_extract(name: &str) -> Option<TimeField> {
    let name = name.to_ascii_uppercase().replace("_OF_", "OF");
    Some(match name.as_str() {
        "EPOCH" => TimeField::Epoch,
        "DOW" => TimeField::DayOfWeekFromZero,
        "ISODOW" => TimeField::IsoDayOfWeek,
        "DOY" => TimeField::DayOfYear,
        _ => return field_of_function(&name),
    })
}

fn field_type(field: TimeField) -> SqlType {
    if matches!(field, TimeField::Second | TimeField::Epoch) { SqlType::Decimal } else { SqlType::Integer }
}

fn settle(
    name: &str,
    function: Function,
    parameters: &[Takes],
    optional: usize,
    result: Gives,
    given: &[Option<SqlType>],
) -> UserResult<Resolved> {
    // A unit of time is counted in messages, and is not among the arguments.
    let units = usize::from(Function::takes_unit(name) && !matches!(function, Function::TruncateNumber));
    let least = parameters.len() - optional;
    if !(least..=parameters.len()).contains(&given.len()) {
        let most = parameters.len() + units;
        let count = if optional == 0 { most.to_string() } else { format!("{} to {most}", least + units) };
        return Err(wrong_count(name, &count, given.len() + units));
    }
    let mut argument_types = Vec::with_capacity(given.len());
    for (position, (takes, given)) in parameters.iter().zip(given).enumerate() {
        let settled = match given {
            None => Some(takes.default_type()),
            Some(given) => takes.settle(*given),
        };
        argument_types.push(settled.ok_or_else(|| wrong_type(name, position + units, *given))?);
    }
    let result_type = match result {
        Type(result_type) => result_type,
        First => argument_types[0],
    };
    Ok(Resolved { function, argument_types, result_type })
}

impl Takes {
    /// The type that an argument of type `given` has to have.
    fn settle(self, given: SqlType) -> Option<SqlType> {
        let numeric = given.is_numeric();
        match self {
            Integer if given.is_integer() => Some(given),
            Integer if given == SqlType::Varbinary => Some(SqlType::Bigint),
            Number if numeric => Some(given),
            Float if numeric => Some(SqlType::Float),
            Decimal if numeric => Some(SqlType::Decimal),
            Text | TextOrBytes if given == SqlType::Varchar => Some(given),
            Bytes | TextOrBytes if given == SqlType::Varbinary => Some(given),
            Timestamp if matches!(given, SqlType::Timestamp | SqlType::Date | SqlType::Varchar) => {
                Some(SqlType::Timestamp)
            }
            AnyAsText if given != SqlType::Varbinary => Some(SqlType::Varchar),
            Date if given == SqlType::Date => Some(given),
            Point if matches!(given, SqlType::Point | SqlType::Varchar) => Some(SqlType::Point),
            Polygon if matches!(given, SqlType::Geography | SqlType::Varchar) => Some(SqlType::Geography),
            Shape if matches!(given, SqlType::Point | SqlType::Geography) => Some(given),
            _ => None,
        }
    }

    fn default_type(self) -> SqlType {
        match self {
            Integer | Number => SqlType::Bigint,
            Float => SqlType::Float,
            Decimal => SqlType::Decimal,
            Text | TextOrBytes | AnyAsText => SqlType::Varchar,
            Bytes => SqlType::Varbinary,
            Timestamp => SqlType::Timestamp,
            Date => SqlType::Date,
            Point | Shape => SqlType::Point,
            Polygon => SqlType::Geography,
        }
    }
}

/// In integers of the wider type, or in decimals when one of both is a decimal.
fn modulo(given: &[Option<SqlType>]) -> UserResult<Resolved> {
    let [left, right] = given else { return Err(wrong_count("MOD", "2", given.len())) };
    let known = left.or(*right).unwrap_or(SqlType::Bigint);
    let left = left.unwrap_or(known);
    let right = right.unwrap_or(known);
    let result_type = match (left, right) {
        (left, right) if left.is_integer() && right.is_integer() => left.max(right),
        (left, right) if is_exact(left) && is_exact(right) => SqlType::Decimal,
        (left, _) => return Err(wrong_type("MOD", is_exact(left) as usize, given[is_exact(left) as usize])),
    };
    Ok(Resolved { function: Function::Modulo, argument_types: vec![result_type; 2], result_type })
}

fn is_exact(sql_type: SqlType) -> bool {
    sql_type.is_integer() || sql_type == SqlType::Decimal
}

fn concat(given: &[Option<SqlType>]) -> UserResult<Resolved> {
    if given.len() < 2 {
        return Err(wrong_count("CONCAT", "2 or more", given.len()));
    }
    let parameters = vec![AnyAsText; given.len()];
    settle("CONCAT", Function::Concat, &parameters, 0, Type(SqlType::Varchar), given)
}

/// Arguments of DISTANCE and DWITHIN: their first two have to be known, and one of them has to be a
/// point.
fn one_a_point(name: &str, given: &[Option<SqlType>]) -> UserResult<&'static [Takes]> {
    let wanted = if name == "DISTANCE" { 2 } else { 3 };
    if given.len() != wanted {
        return Err(wrong_count(name, &wanted.to_string(), given.len()));
    }
    let shapes = match (given[0], given[1]) {
        (None, None) => {
            return Err(UserError::compile("42P18", format!("the types of {name}'s arguments are not known"))
                .with_hint("CAST the parameters to GEOGRAPHY_POINT or GEOGRAPHY"));
        }
        (Some(SqlType::Geography), Some(SqlType::Geography)) => {
            return Err(UserError::not_supported(format!("{name} between two polygons"))
                .with_hint("one of the two must be a point, such as the CENTROID of one polygon"));
        }
        (Some(SqlType::Geography), _) => [Polygon, Point],
        (_, Some(SqlType::Geography)) => [Point, Polygon],
        _ => [Point, Point],
    };
    Ok(match (shapes, wanted) {
        ([Polygon, _], 2) => &[Polygon, Point],
        ([_, Polygon], 2) => &[Point, Polygon],
        (_, 2) => &[Point, Point],
        ([Polygon, _], _) => &[Polygon, Point, Float],
        ([_, Polygon], _) => &[Point, Polygon, Float],
        _ => &[Point, Point, Float],
    })
}

/// All arguments brought to the widest of their types, which must be of one family.
fn of_one_type(name: &str, function: Function, given: &[Option<SqlType>]) -> UserResult<Resolved> {
    if given.is_empty() {
        return Err(wrong_count(name, "one or more", 0));
    }
    let mut common: Option<SqlType> = None;
    for (position, given) in given.iter().enumerate() {
        let Some(next) = *given else { continue };
        common = Some(match common {
            None => next,
            Some(common) if common == next => common,
            Some(common) if common.is_numeric() && next.is_numeric() => wider(common, next),
            // Dates become the midnights that begin them; text stands for a time.
            Some(common) if is_time(common) && is_time(next) => SqlType::Timestamp,
            Some(common) if is_time(common) && next == SqlType::Varchar => common,
            Some(SqlType::Varchar) if is_time(next) => next,
            Some(_) => return Err(wrong_type(name, position, Some(next))),
        });
    }
    let common = common.unwrap_or(SqlType::Varchar);
    if matches!(common, SqlType::Point | SqlType::Geography) {
        return Err(wrong_type(name, 0, Some(common)));
    }
    Ok(Resolved { function, argument_types: vec![common; given.len()], result_type: common })
}

fn is_time(sql_type: SqlType) -> bool {
    matches!(sql_type, SqlType::Timestamp | SqlType::Date)
}

/// Of two number types.
fn wider(left: SqlType, right: SqlType) -> SqlType {
    match (left, right) {
        (SqlType::Float, _) | (_, SqlType::Float) => SqlType::Float,
        (SqlType::Decimal, _) | (_, SqlType::Decimal) => SqlType::Decimal,
        (left, right) => left.max(right),
    }
}

#[cold]
fn wrong_count(name: &str, wanted: &str, given: usize) -> UserError {
    let arguments = if wanted == "1" { "argument" } else { "arguments" };
    UserError::compile("42883", format!("{name} takes {wanted} {arguments}, not {given}"))
}

#[cold]
fn wrong_type(name: &str, position: usize, given: Option<SqlType>) -> UserError {
    let given = given.map_or("NULL", SqlType::name);
    UserError::compile("42804", format!("{name} does not take {given} as argument {}", position + 1))
        .with_hint("CAST the argument to the type that the function takes")
}
