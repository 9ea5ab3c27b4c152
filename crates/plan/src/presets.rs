//! What a given value makes of a parameter that took its type from its neighbour: which type the
//! parameter has for this value.
//!
//! The answer depends on the type of the value, so that the columns of a result keep their types
//! from call to call. It depends on the value itself in two places only. In a comparison, which is
//! BOOLEAN in any case, a value that the neighbour's type holds takes that type, so that indexes
//! serve. A text in place of a number or a shape is what it spells: 5 or 0.5, a point or a polygon.

use bumpalo::Bump;
use ferrite_value::decimal::Rest;
use ferrite_value::{Decimal, SqlType, Value, convert, temporal, text};

/// How a `?` came by its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Adoption {
    /// It cannot have another.
    #[default]
    Fixed,
    /// It is stored in an integer column, which takes whole numbers of any type.
    Stored,
    /// It counts rows or units, which whole numbers of any type do.
    Counted,
    /// Nothing in the statement says its type: the value's type decides.
    Undecided,
    /// Its type was met elsewhere, after COALESCE or a subquery had carried it there, or it is only
    /// compared with what has that type and is itself the result: the value's type decides, as a
    /// literal's would.
    Carried,
    /// It is computed with, beside a value of the type: the value's type decides, unless what is
    /// computed has the neighbour's type all the same.
    Computed,
    /// It is the operand of a CAST, which means for a value what it means for a literal.
    Cast,
    /// It is one of several results that become texts if one of them is a text: the value's type
    /// decides.
    Result,
    /// It is compared: a value that is of the type keeps it, so that indexes serve; others are
    /// compared as they are.
    Compared,
}

/// A parameter: the type that its neighbour gave it, and how.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    pub sql_type: SqlType,
    pub is_array: bool,
    pub adoption: Adoption,
}

impl Declared {
    /// The integer that is wanted in place of a value of another type that is one; of a text that
    /// is none, a DECIMAL that compares with integers as it does.
    pub fn whole<'a>(self, value: Value<'a>, arena: &'a Bump) -> Option<Value<'a>> {
        let is_whole = matches!(self.adoption, Adoption::Stored | Adoption::Counted);
        let is_wanted = is_whole || matches!(self.adoption, Adoption::Compared | Adoption::Cast);
        if !is_wanted || !self.sql_type.is_integer() {
            return None;
        }
        let of_one = |value: Value<'a>| match value {
            Value::Float(number) => convert::whole_float(number).map(Value::Integer),
            // As a literal in its place is stored.
            Value::Timestamp(at) if self.adoption == Adoption::Stored => Some(Value::Integer(at)),
            Value::Text(written) if is_whole && text::parse_integer(written).is_none() => {
                match text::parse_decimal_truncated(written) {
                    Ok((number, Rest::Zero)) => number.to_i64_exact().map(Value::Integer),
                    _ => None,
                }
            }
            // A text with more digits than DECIMAL holds equals no integer, however it is rounded.
            Value::Text(written) if self.adoption == Adoption::Compared && text::parse_integer(written).is_none() => {
                match text::parse_decimal_truncated(written) {
                    Ok((_, Rest::Zero)) | Err(_) => None,
                    Ok((number, _)) => Some(Value::Decimal(number.beside_integers(written.trim().starts_with('-')))),
                }
            }
            // CAST cuts its decimals off, however many they are.
            Value::Text(written) if self.adoption == Adoption::Cast && !is_of(written, self.sql_type) => {
                text::parse_decimal_truncated(written).ok().map(|(number, _)| Value::Decimal(number))
            }
            _ => None,
        };
        match value {
            Value::Array(elements) if self.is_array && elements.iter().any(|element| of_one(*element).is_some()) => {
                let whole = elements.iter().map(|element| of_one(*element).unwrap_or(*element));
                Some(Value::Array(arena.alloc_slice_fill_iter(whole)))
            }
            value => of_one(value),
        }
    }

    /// The type that a value is given, where the declared one would not do.
    pub fn preset(self, value: Value<'_>) -> Option<SqlType> {
        match value {
            Value::Array(elements) if self.is_array => {
                let types = elements.iter().filter_map(|element| preset_of_one(*element, self.adoption, self.sql_type));
                // Among FLOAT and DECIMAL, all are compared as FLOAT.
                types.reduce(|one, other| if one == other { one } else { SqlType::Float })
            }
            value if !self.is_array => preset_of_one(value, self.adoption, self.sql_type),
            _ => None,
        }
    }

    /// The integer that a number equals which is compared with integers and is none of the declared
    /// type: perhaps none. None as a whole for all that is not such a number.
    pub fn equal_integer(self, value: Value<'_>) -> Option<Option<i64>> {
        let preset = self.preset(value).filter(|preset| self.is_number_beside_integers(*preset))?;
        let number = match (value, preset) {
            (Value::Text(written), SqlType::Decimal) => {
                text::parse_decimal_truncated(written).map(|(number, _)| Value::Decimal(number)).ok()?
            }
            (Value::Text(written), _) => Value::Float(text::parse_float(written)?),
            (value, _) => value,
        };
        convert::equal_integer(&number)
    }

    /// Whether a parameter that is given this type is compared with integers as the number that it
    /// is.
    pub fn is_number_beside_integers(self, preset: SqlType) -> bool {
        self.adoption == Adoption::Compared
            && self.sql_type.is_integer()
            && !self.is_array
            && matches!(preset, SqlType::Decimal | SqlType::Float)
    }

    /// The type that a value without a preset keeps in a variant. None: what its parameter meets
    /// there decides, as it does without values of other types.
    pub fn kept(self, value: Value<'_>) -> Option<SqlType> {
        let given = value.sql_type()?;
        match self.adoption {
            _ if self.is_array => None,
            Adoption::Fixed | Adoption::Stored | Adoption::Counted => None,
            Adoption::Carried | Adoption::Undecided | Adoption::Result => Some(self.sql_type),
            // It may say a number, a date or a time.
            Adoption::Computed | Adoption::Cast | Adoption::Compared
                if given == SqlType::Varchar && self.sql_type != given =>
            {
                None
            }
            Adoption::Computed | Adoption::Cast => Some(given),
            // An index serves it so.
            Adoption::Compared
                if matches!(given, SqlType::Float | SqlType::Decimal) && self.sql_type != SqlType::Float =>
            {
                Some(self.sql_type)
            }
            Adoption::Compared if self.sql_type == SqlType::Varchar => Some(self.sql_type),
            Adoption::Compared => Some(given),
        }
    }
}

fn preset_of_one(value: Value<'_>, adoption: Adoption, declared: SqlType) -> Option<SqlType> {
    match (value, adoption) {
        (_, Adoption::Fixed | Adoption::Stored | Adoption::Counted) => None,
        (value, Adoption::Undecided) => value.sql_type().filter(|given| *given != declared),
        (value, Adoption::Result) => value.sql_type().filter(|given| !given.same_kind(declared)),
        (value, Adoption::Cast) => value.sql_type().filter(|_| !is_cast(value, declared)),
        (Value::Text(written), _) if declared.is_numeric() => preset_of_number(written, adoption, declared),
        (Value::Text(written), Adoption::Carried) if declared == SqlType::Point && is_polygon(written) => {
            Some(SqlType::Geography)
        }
        (value, Adoption::Carried) => value.sql_type().filter(|given| !given.same_kind(declared)),
        (value, Adoption::Computed) => value.sql_type().filter(|_| !absorbs(declared, value)),
        (value, Adoption::Compared) => value.sql_type().filter(|_| !holds(declared, value)),
    }
}

/// The type of a text in place of a number: that of the number, if the declared one does not hold
/// it.
fn preset_of_number(written: &str, adoption: Adoption, declared: SqlType) -> Option<SqlType> {
    if written == "\\N" || declared.is_integer() && is_integer(written) {
        return None;
    }
    if declared != SqlType::Float && is_decimal(written) {
        return Some(SqlType::Decimal).filter(|_| declared != SqlType::Decimal);
    }
    if text::parse_float(written).is_some() {
        return Some(SqlType::Float).filter(|_| declared != SqlType::Float);
    }
    // It is no number. Where the type was carried to it, it is a text beside others.
    (adoption == Adoption::Carried).then_some(SqlType::Varchar)
}

/// Whether what is computed of a value and one of the declared type is the same as of the value
/// converted to that type; or means nothing otherwise.
fn absorbs(declared: SqlType, value: Value<'_>) -> bool {
    match value {
        Value::Float(_) => !(declared.is_integer() || matches!(declared, SqlType::Decimal | SqlType::Varchar)),
        Value::Decimal(_) => !declared.is_integer(),
        Value::Timestamp(_) => !(declared.is_numeric() || declared == SqlType::Date),
        Value::Date(_) => !declared.is_integer(),
        _ => true,
    }
}

/// Whether the conversion of a parameter is the CAST of its value; or CAST does not take it.
fn is_cast(value: Value<'_>, to: SqlType) -> bool {
    match value {
        Value::Text(written) => match to {
            SqlType::Float => text::parse_float(written).is_some(),
            SqlType::Decimal => is_decimal(written),
            SqlType::Timestamp => temporal::parse_timestamp(written).is_some_and(temporal::is_valid_timestamp),
            SqlType::Date => temporal::date_from_text(written).is_some(),
            SqlType::Boolean => false,
            to => !to.is_integer() || is_of(written, to),
        },
        Value::Integer(integer) => match to {
            SqlType::Boolean => (0..=1).contains(&integer),
            SqlType::Timestamp => temporal::valid_timestamp(integer).is_ok(),
            to => to.integer_range().is_none_or(|(least, greatest)| (least..=greatest).contains(&integer)),
        },
        // A text that these bytes may be is for parameters that are declared as one.
        Value::Bytes(_) => to != SqlType::Varchar,
        value => absorbs(to, value),
    }
}

/// Whether a value is one of the declared type, for a comparison; or cannot be compared otherwise.
fn holds(declared: SqlType, value: Value<'_>) -> bool {
    match value {
        // What is an integer was made one.
        Value::Float(_) if declared.is_integer() => false,
        // A number that DECIMAL does not hold, too large or with more digits, is a FLOAT, as a
        // literal is.
        Value::Float(number) if declared == SqlType::Decimal => {
            Decimal::from_f64(number).is_some_and(|decimal| decimal.to_f64() == number)
        }
        Value::Decimal(number) if declared.is_integer() => {
            number.to_i64_exact().is_some_and(|integer| integer != i64::MIN)
        }
        Value::Timestamp(at) if declared == SqlType::Date => at.rem_euclid(temporal::MICROSECONDS_PER_DAY) == 0,
        // A text column beside it is read as a time, as beside a literal.
        Value::Timestamp(_) | Value::Date(_) => !declared.is_integer() && declared != SqlType::Varchar,
        _ => true,
    }
}

/// Whether a text is that of a polygon, not of a point.
fn is_polygon(written: &str) -> bool {
    const NAME: &[u8] = b"POLYGON";
    written.trim_start().as_bytes().get(..NAME.len()).is_some_and(|word| word.eq_ignore_ascii_case(NAME))
}

/// Whether a text is a value of an integer type.
fn is_of(written: &str, sql_type: SqlType) -> bool {
    let (least, greatest) = sql_type.integer_range().unwrap_or((i64::MIN, i64::MAX));
    is_integer(written) && text::parse_integer(written).is_some_and(|integer| (least..=greatest).contains(&integer))
}

/// Whether a text is an integer of SQL. The smallest of 64 bits means NULL on the wire: it is a
/// DECIMAL.
fn is_integer(written: &str) -> bool {
    text::parse_integer(written).is_some_and(|integer| integer != i64::MIN)
}

/// Whether a text is a number that DECIMAL holds with all its digits.
fn is_decimal(written: &str) -> bool {
    matches!(text::parse_decimal_truncated(written), Ok((_, Rest::Zero)))
}
