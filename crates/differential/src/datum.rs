//! Types and constants that both databases have, and how each writes them.
//!
//! Both are kept to what means the same: FLOATs are sums of few powers of two, so that sums are
//! exact in any order; text has letters that have no case beside the ASCII ones; the smallest
//! integers are left out, as they mean NULL in ours.

use crate::random::Random;
use ferrite_value::{OwnedValue, temporal, text};

/// Families of types. Integers of all widths are one: ours computes in 64 bits, and theirs is made
/// to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    Integer,
    Float,
    Decimal,
    Text,
    Bytes,
    Timestamp,
    Date,
    Boolean,
}

impl Type {
    pub const ALL: [Type; 8] = [
        Type::Integer,
        Type::Float,
        Type::Decimal,
        Type::Text,
        Type::Bytes,
        Type::Timestamp,
        Type::Date,
        Type::Boolean,
    ];

    pub fn ours(self) -> &'static str {
        match self {
            Type::Integer => "BIGINT",
            Type::Float => "FLOAT",
            Type::Decimal => "DECIMAL",
            Type::Text => "VARCHAR",
            Type::Bytes => "VARBINARY",
            Type::Timestamp => "TIMESTAMP",
            Type::Date => "DATE",
            Type::Boolean => "BOOLEAN",
        }
    }

    pub fn theirs(self) -> &'static str {
        match self {
            Type::Integer => "BIGINT",
            Type::Float => "FLOAT8",
            Type::Decimal => "NUMERIC(38,12)",
            Type::Text => "TEXT",
            Type::Bytes => "BYTEA",
            Type::Timestamp => "TIMESTAMP",
            Type::Date => "DATE",
            Type::Boolean => "BOOLEAN",
        }
    }

    pub fn is_number(self) -> bool {
        matches!(self, Type::Integer | Type::Float | Type::Decimal)
    }
}

/// Whose SQL is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    Ours,
    Theirs,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Datum {
    Null(Type),
    Integer(i64),
    /// In eighths.
    Float(i64),
    Decimal(String),
    Text(String),
    Bytes(Vec<u8>),
    Timestamp(String),
    Date(String),
    Boolean(bool),
}

const TEXTS: [&str; 20] = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "B",
    "Zebra",
    "a b",
    " x ",
    "%",
    "_",
    "it's",
    "雪",
    "€ 5",
    "ab雪",
    "aaa",
    "0",
    "42",
    "-7",
    "a text that is too long to be kept within its row, because it has more bytes than fit there: abc abc",
];
const DECIMALS: [&str; 12] =
    ["0", "1", "-1", "1.5", "-2.25", "0.000000000001", "123456.789", "3", "7", "0.1", "-0.333333333333", "10"];
const WILD_DECIMALS: [&str; 3] =
    ["99999999999999999999999999.999999999999", "-99999999999999999999999999.999999999999", "9223372036854775808"];
const TIMESTAMPS: [&str; 8] = [
    "2024-02-29 12:30:45.123456",
    "2024-02-29 00:00:00",
    "2023-12-31 23:59:59.999999",
    "1970-01-01 00:00:00",
    "1969-12-31 23:59:59.5",
    "2000-01-01 01:02:03",
    "2024-03-01 00:00:00.000001",
    "1601-01-01 00:00:00",
];
const DATES: [&str; 7] =
    ["2024-02-29", "2023-12-31", "1970-01-01", "1969-12-31", "2000-01-01", "2024-03-01", "1601-01-01"];
const WILD_INTEGERS: [i64; 10] = [
    i64::MAX,
    -i64::MAX,
    i64::MAX - 1,
    i32::MAX as i64,
    -(i32::MAX as i64),
    1 << 32,
    32_767,
    -32_767,
    1 << 53,
    (1 << 53) + 1,
];

impl Datum {
    pub fn type_of(&self) -> Type {
        match self {
            Datum::Null(ty) => *ty,
            Datum::Integer(_) => Type::Integer,
            Datum::Float(_) => Type::Float,
            Datum::Decimal(_) => Type::Decimal,
            Datum::Text(_) => Type::Text,
            Datum::Bytes(_) => Type::Bytes,
            Datum::Timestamp(_) => Type::Timestamp,
            Datum::Date(_) => Type::Date,
            Datum::Boolean(_) => Type::Boolean,
        }
    }

    /// A value that is not NULL, of few, so that values meet their like. `wild` ones lie at the
    /// ends of the types.
    pub fn random(random: &mut Random, ty: Type, wild: bool) -> Datum {
        match ty {
            Type::Integer if wild && random.chance(20) => Datum::Integer(*random.pick(&WILD_INTEGERS)),
            Type::Integer if random.chance(10) => Datum::Integer(random.between(-1000, 1000)),
            Type::Integer => Datum::Integer(random.between(-3, 9)),
            Type::Float => Datum::Float(random.between(-12, 40) * if random.chance(70) { 8 } else { 1 }),
            Type::Decimal if wild && random.chance(15) => Datum::Decimal((*random.pick(&WILD_DECIMALS)).to_owned()),
            Type::Decimal => Datum::Decimal((*random.pick(&DECIMALS)).to_owned()),
            Type::Text => Datum::Text((*random.pick(&TEXTS)).to_owned()),
            Type::Bytes => {
                let length = random.below(4);
                Datum::Bytes((0..length).map(|_| *random.pick(&[0, 1, 0x7f, 0xff, b'a'])).collect())
            }
            Type::Timestamp => Datum::Timestamp((*random.pick(&TIMESTAMPS)).to_owned()),
            Type::Date => Datum::Date((*random.pick(&DATES)).to_owned()),
            Type::Boolean => Datum::Boolean(random.chance(50)),
        }
    }

    /// What an answer shows.
    pub fn of_cell(cell: Option<&str>, ty: Type) -> Datum {
        let Some(text) = cell else { return Datum::Null(ty) };
        match ty {
            Type::Integer => Datum::Integer(text.parse().expect("an integer")),
            Type::Float => Datum::Float((text.parse::<f64>().expect("a number") * 8.0) as i64),
            Type::Decimal => Datum::Decimal(text.to_owned()),
            Type::Text => Datum::Text(text.to_owned()),
            Type::Bytes => {
                let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits");
                Datum::Bytes((0..text.len()).step_by(2).map(byte).collect())
            }
            Type::Timestamp => Datum::Timestamp(text.to_owned()),
            Type::Date => Datum::Date(text.to_owned()),
            Type::Boolean => Datum::Boolean(text == "true"),
        }
    }

    /// No column of this type has a larger number, unless its schema is wild.
    pub fn bound_of(ty: Type) -> f64 {
        match ty {
            Type::Integer => 1_000.0,
            Type::Float => 40.0,
            Type::Decimal => 123_456.789,
            _ => 0.0,
        }
    }

    /// How large it is as a number; 0 for what is none.
    pub fn bound(&self) -> f64 {
        match self {
            Datum::Integer(x) => (*x as f64).abs(),
            Datum::Float(x) => (*x as f64 / 8.0).abs(),
            Datum::Decimal(text) => text.parse::<f64>().expect("a number").abs(),
            _ => 0.0,
        }
    }

    /// As a client gives it who knows its type.
    pub fn own(&self) -> OwnedValue {
        match self {
            Datum::Null(_) => OwnedValue::Null,
            Datum::Integer(x) => OwnedValue::Integer(*x),
            Datum::Float(x) => OwnedValue::Float(*x as f64 / 8.0),
            Datum::Decimal(x) => OwnedValue::Decimal(text::parse_decimal(x).expect("a decimal")),
            Datum::Text(x) => OwnedValue::Text(x.as_str().into()),
            Datum::Bytes(x) => OwnedValue::Bytes(x.as_slice().into()),
            Datum::Timestamp(x) => OwnedValue::Timestamp(temporal::parse_timestamp(x).expect("a timestamp")),
            Datum::Date(x) => OwnedValue::Date(temporal::parse_date(x).expect("a date")),
            Datum::Boolean(x) => OwnedValue::Boolean(*x),
        }
    }

    /// As a client may give it beside a value of type `beside`: of its own type or of another in
    /// which it is the same value.
    pub fn given(&self, random: &mut Random, beside: Type) -> OwnedValue {
        let text = |text: &str| OwnedValue::Text(text.into());
        let decimal = |text: &str| OwnedValue::Decimal(text::parse_decimal(text).expect("a decimal"));
        let timestamp = |text: &str| OwnedValue::Timestamp(temporal::parse_timestamp(text).expect("a timestamp"));
        let choice = if random.chance(35) { 0 } else { random.below(4) };
        match (self, choice) {
            (Datum::Null(_), _) => OwnedValue::Null,
            // Doubles have every integer up to there.
            (Datum::Integer(x), 1) if x.unsigned_abs() <= 1 << 53 => OwnedValue::Float(*x as f64),
            (Datum::Integer(x), 2) => decimal(&x.to_string()),
            (Datum::Integer(x), 3) => text(&x.to_string()),
            (Datum::Integer(x), _) => OwnedValue::Integer(*x),
            (Datum::Float(x), 1) if x % 8 == 0 => OwnedValue::Integer(x / 8),
            (Datum::Float(x), 2) => decimal(&(*x as f64 / 8.0).to_string()),
            (Datum::Float(x), 3) => text(&format!("{:e}", *x as f64 / 8.0)),
            (Datum::Float(x), _) => OwnedValue::Float(*x as f64 / 8.0),
            // A double's exact value is taken, which has other digits from the sixteenth on.
            (Datum::Decimal(x), 1) if self.bound() < 1_000.0 => OwnedValue::Float(x.parse().expect("a number")),
            (Datum::Decimal(x), 3) => text(x),
            (Datum::Decimal(x), _) => decimal(x),
            (Datum::Text(x), 1) if x.parse::<i64>().is_ok() => OwnedValue::Integer(x.parse().expect("an integer")),
            (Datum::Text(x), _) => text(x),
            (Datum::Bytes(x), 1) => text(&x.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
            (Datum::Bytes(x), _) => OwnedValue::Bytes(x.as_slice().into()),
            (Datum::Timestamp(x), 1) => text(x),
            // No integer is a DATE.
            (Datum::Timestamp(x), 2) if beside == Type::Timestamp => match timestamp(x) {
                OwnedValue::Timestamp(at) => OwnedValue::Integer(at),
                other => other,
            },
            (Datum::Timestamp(x), _) => timestamp(x),
            (Datum::Date(x), 1) => text(x),
            (Datum::Date(x), 2) => timestamp(&format!("{x} 00:00:00")),
            (Datum::Date(x), _) => OwnedValue::Date(temporal::parse_date(x).expect("a date")),
            (Datum::Boolean(x), 1) => OwnedValue::Integer(i64::from(*x)),
            (Datum::Boolean(x), 2) => text(if *x { "true" } else { "FALSE" }),
            (Datum::Boolean(x), _) => OwnedValue::Boolean(*x),
        }
    }

    /// A number of which CAST to an integer makes this one.
    pub fn with_decimals(&self, random: &mut Random) -> Option<OwnedValue> {
        let Datum::Integer(x) = self else { return None };
        if x.unsigned_abs() >= 1 << 50 {
            return None;
        }
        let sign = if *x < 0 { "-" } else { "" };
        let text = format!("{sign}{}.{}", x.unsigned_abs(), random.pick(&["5", "25", "75"]));
        Some(match random.below(2) {
            0 => OwnedValue::Float(text.parse().expect("a number")),
            _ => OwnedValue::Decimal(text::parse_decimal(&text).expect("a decimal")),
        })
    }

    pub fn print(&self, dialect: Dialect, out: &mut String) {
        let theirs = dialect == Dialect::Theirs;
        let written = match self {
            Datum::Null(ty) => format!("CAST(NULL AS {})", if theirs { ty.theirs() } else { ty.ours() }),
            // An integer constant is 64 bits wide in ours.
            Datum::Integer(x) if theirs => format!("({x})::bigint"),
            Datum::Integer(x) if *x < 0 => format!("({x})"),
            Datum::Integer(x) => format!("{x}"),
            // `1e0` is exact in theirs.
            Datum::Float(x) if theirs => format!("({:e})::float8", *x as f64 / 8.0),
            Datum::Float(x) => format!("({:e})", *x as f64 / 8.0),
            Datum::Decimal(x) if theirs => format!("({x})::numeric"),
            // Without a point it would be an integer.
            Datum::Decimal(x) if !x.contains('.') => format!("({x}.0)"),
            Datum::Decimal(x) => format!("({x})"),
            Datum::Text(x) if theirs => format!("'{}'::text", x.replace('\'', "''")),
            Datum::Text(x) => format!("'{}'", x.replace('\'', "''")),
            Datum::Bytes(x) => {
                let hex: String = x.iter().map(|byte| format!("{byte:02x}")).collect();
                if theirs { format!("'\\x{hex}'::bytea") } else { format!("X'{hex}'") }
            }
            Datum::Timestamp(x) => format!("TIMESTAMP '{x}'"),
            Datum::Date(x) => format!("DATE '{x}'"),
            Datum::Boolean(true) => "TRUE".to_owned(),
            Datum::Boolean(false) => "FALSE".to_owned(),
        };
        out.push_str(&written);
    }
}
