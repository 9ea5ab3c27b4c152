//! Operators, functions and aggregates that mean the same in both databases, and how each writes
//! them. **This is the one place where differences in meaning are evened out**, each with its
//! reason:
//!
//! - *Integers* compute in 64 bits in ours, whatever the column; in theirs columns and constants
//!   are BIGINT (see `datum`, `schema`). SUM of them is BIGINT, where theirs is NUMERIC, and AVG an
//!   integer, cut off.
//! - *DECIMAL* has 12 decimals: products are rounded half up to them, quotients cut off. Theirs
//!   choose their scale by the operands, so `ROUND(x * y, 12)` and whole-number division of the
//!   scaled dividend stand for them.
//! - *Division by zero and values out of range* are errors in both, but which row is met first, and
//!   whether a condition guards another, is open in SQL. Functions with such errors are marked and
//!   make the whole statement *hazardous*: an error of one side alone is then no finding. Most
//!   statements have none.
//! - *LENGTHS* and positions are INTEGER in theirs, which takes no BIGINT for them: hence the
//!   casts.
//! - *SIGN, EXTRACT, FLOOR* and their like answer FLOAT or NUMERIC in theirs, the argument's type
//!   or an integer in ours.
//! - *UNIQUE* takes NULL once in ours; theirs is told so with NULLS NOT DISTINCT (see `schema`).
//!   NULL sorts lowest in ours; theirs is told so with NULLS FIRST and LAST (see `print`). Texts
//!   compare by bytes: the cluster has the locale C.
//! - What is left out because it means something else: ROUND (halves to even), CONCAT (NULL makes
//!   NULL), casts of FLOAT to text, comparison of DECIMAL with FLOAT (ours is exact, theirs rounds
//!   the DECIMAL first), UPPER of letters beyond ASCII (needs a locale).

use crate::datum::Type;

/// A type in a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Of(Type),
    /// Any type, the same for all of a call.
    Any,
    /// Another one, the same for all of a call.
    Other,
    /// Two values, of any types: [`PAIR`].
    Pair,
}

/// How large a number the result may be, by the arguments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Growth {
    /// At most as large as the largest.
    Widest,
    Sum,
    Product,
    At(f64),
}

#[derive(Debug)]
pub struct Function {
    pub arguments: &'static [Kind],
    pub result: Kind,
    /// `{0}` is the first argument.
    pub ours: &'static str,
    pub theirs: &'static str,
    pub growth: Growth,
    /// It has errors that depend on values.
    pub hazardous: bool,
    /// The last digits may differ.
    pub inexact: bool,
}

const fn same(arguments: &'static [Kind], result: Kind, text: &'static str, growth: Growth) -> Function {
    other(arguments, result, text, text, growth)
}

const fn other(
    arguments: &'static [Kind],
    result: Kind,
    ours: &'static str,
    theirs: &'static str,
    growth: Growth,
) -> Function {
    Function { arguments, result, ours, theirs, growth, hazardous: false, inexact: false }
}

const fn hazardous(function: Function) -> Function {
    Function { hazardous: true, ..function }
}

const fn inexact(function: Function) -> Function {
    Function { inexact: true, ..function }
}

const INTEGER: Kind = Kind::Of(Type::Integer);
const FLOAT: Kind = Kind::Of(Type::Float);
const DECIMAL: Kind = Kind::Of(Type::Decimal);
const TEXT: Kind = Kind::Of(Type::Text);
const BYTES: Kind = Kind::Of(Type::Bytes);
const TIMESTAMP: Kind = Kind::Of(Type::Timestamp);
const DATE: Kind = Kind::Of(Type::Date);
const BOOLEAN: Kind = Kind::Of(Type::Boolean);
const ANY: Kind = Kind::Any;
const OTHER: Kind = Kind::Other;
const NONE: Growth = Growth::At(0.0);
use Growth::{At, Product, Sum, Widest};

/// Conditions: the operators of a WHERE clause.
pub static CONDITIONS: &[Function] = &[
    same(&[ANY, ANY], BOOLEAN, "({0} = {1})", NONE),
    same(&[ANY, ANY], BOOLEAN, "({0} = {1})", NONE),
    same(&[ANY, ANY], BOOLEAN, "({0} <> {1})", NONE),
    same(&[ANY, ANY], BOOLEAN, "({0} < {1})", NONE),
    same(&[ANY, ANY], BOOLEAN, "({0} <= {1})", NONE),
    same(&[ANY, ANY], BOOLEAN, "({0} > {1})", NONE),
    same(&[ANY, ANY], BOOLEAN, "({0} >= {1})", NONE),
    same(&[BOOLEAN, BOOLEAN], BOOLEAN, "({0} AND {1})", NONE),
    same(&[BOOLEAN, BOOLEAN], BOOLEAN, "({0} AND {1})", NONE),
    same(&[BOOLEAN, BOOLEAN], BOOLEAN, "({0} OR {1})", NONE),
    same(&[BOOLEAN], BOOLEAN, "(NOT {0})", NONE),
    same(&[ANY], BOOLEAN, "({0} IS NULL)", NONE),
    same(&[ANY], BOOLEAN, "({0} IS NOT NULL)", NONE),
    same(&[ANY, ANY], BOOLEAN, "({0} IS DISTINCT FROM {1})", NONE),
    same(&[ANY, ANY], BOOLEAN, "({0} IS NOT DISTINCT FROM {1})", NONE),
    same(&[ANY, ANY, ANY], BOOLEAN, "({0} BETWEEN {1} AND {2})", NONE),
    same(&[ANY, ANY, ANY], BOOLEAN, "({0} NOT BETWEEN {1} AND {2})", NONE),
    same(&[ANY, ANY, ANY], BOOLEAN, "({0} IN ({1}, {2}))", NONE),
    same(&[ANY, ANY, ANY, ANY], BOOLEAN, "({0} NOT IN ({1}, {2}, {3}))", NONE),
    same(&[ANY, OTHER, ANY, OTHER], BOOLEAN, "(({0}, {1}) = ({2}, {3}))", NONE),
    same(&[ANY, OTHER, ANY, OTHER], BOOLEAN, "(({0}, {1}) <> ({2}, {3}))", NONE),
    same(&[ANY, OTHER, ANY, OTHER], BOOLEAN, "(({0}, {1}) < ({2}, {3}))", NONE),
    same(&[ANY, OTHER, ANY, OTHER], BOOLEAN, "(({0}, {1}) >= ({2}, {3}))", NONE),
    same(&[ANY, OTHER, ANY, OTHER, ANY, OTHER], BOOLEAN, "(({0}, {1}) IN (({2}, {3}), ({4}, {5})))", NONE),
    same(&[TEXT, TEXT], BOOLEAN, "({0} LIKE {1})", NONE),
    same(&[TEXT], BOOLEAN, "({0} LIKE 'a%')", NONE),
    same(&[TEXT], BOOLEAN, "({0} LIKE '%b%')", NONE),
    same(&[TEXT], BOOLEAN, "({0} NOT LIKE '_b%')", NONE),
    same(&[TEXT], BOOLEAN, "({0} LIKE 'a!_%' ESCAPE '!')", NONE),
    other(&[TEXT, TEXT], BOOLEAN, "STARTS_WITH({0}, {1})", "starts_with({0}, {1})", NONE),
    same(&[BOOLEAN, BOOLEAN, BOOLEAN], BOOLEAN, "(CASE WHEN {0} THEN {1} ELSE {2} END)", NONE),
    same(&[INTEGER, DECIMAL], BOOLEAN, "({0} < {1})", NONE),
    same(&[INTEGER, DECIMAL], BOOLEAN, "({0} = {1})", NONE),
    same(&[DATE, TIMESTAMP], BOOLEAN, "({0} <= {1})", NONE),
    same(&[BOOLEAN, BOOLEAN], BOOLEAN, "COALESCE({0}, {1})", NONE),
    // Constants that fail, where they are not evaluated. Theirs computes those of an IN list
    // beforehand.
    same(&[BOOLEAN], BOOLEAN, "({0} OR (1 = 0 AND 1 / 0 = 1))", NONE),
    same(&[BOOLEAN], BOOLEAN, "((1 = 1 OR 1 / 0 = 1) AND {0})", NONE),
    same(&[BOOLEAN], BOOLEAN, "({0} AND 5 NOT BETWEEN 10 AND 1 / 0)", NONE),
    other(&[BOOLEAN], BOOLEAN, "({0} AND 1 IN (1, 1 / 0))", "{0}", NONE),
];

impl Function {
    /// It compares all its arguments with each other: one of a known type tells what the others
    /// are.
    pub fn compares(&self) -> bool {
        const COMPARISONS: [&str; 12] = [
            "({0} = {1})",
            "({0} <> {1})",
            "({0} < {1})",
            "({0} <= {1})",
            "({0} > {1})",
            "({0} >= {1})",
            "({0} IS DISTINCT FROM {1})",
            "({0} IS NOT DISTINCT FROM {1})",
            "({0} BETWEEN {1} AND {2})",
            "({0} NOT BETWEEN {1} AND {2})",
            "({0} IN ({1}, {2}))",
            "({0} NOT IN ({1}, {2}, {3}))",
        ];
        COMPARISONS.contains(&self.ours)
    }
}

/// The condition that ours writes so.
pub fn condition(ours: &str) -> &'static Function {
    CONDITIONS.iter().find(|function| function.ours == ours).expect("a condition of the table")
}

/// Two values that one aggregate takes. Ours leaves out those with a NULL among them, theirs only
/// what is NULL as a whole.
pub static PAIR: Function = other(
    &[ANY, OTHER],
    INTEGER,
    "{0}, {1}",
    "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN ROW({0}, {1}) END)",
    NONE,
);

/// Functions that answer other types, and those of any type.
pub static FUNCTIONS: &[Function] = &[
    same(&[BOOLEAN, ANY, ANY], ANY, "(CASE WHEN {0} THEN {1} ELSE {2} END)", Widest),
    same(&[BOOLEAN, ANY], ANY, "(CASE WHEN {0} THEN {1} END)", Widest),
    same(&[OTHER, OTHER, ANY, ANY], ANY, "(CASE {0} WHEN {1} THEN {2} ELSE {3} END)", Widest),
    same(&[BOOLEAN, ANY, BOOLEAN, ANY, ANY], ANY, "(CASE WHEN {0} THEN {1} WHEN {2} THEN {3} ELSE {4} END)", Widest),
    // Branches that are never reached. Theirs computes what is constant in them, unless a constant
    // leads past them.
    same(&[ANY], ANY, "(CASE WHEN 4 / 2 = 2 THEN {0} WHEN 1 / 0 = 1 THEN {0} END)", Widest),
    same(&[INTEGER], INTEGER, "(CASE WHEN 1 = 0 THEN 1 / 0 ELSE {0} END)", Widest),
    other(
        &[INTEGER],
        INTEGER,
        "(CASE WHEN {0} IS NULL THEN {0} WHEN {0} IS NOT NULL THEN {0} ELSE 1 / 0 END)",
        "{0}",
        Widest,
    ),
    other(&[INTEGER], INTEGER, "COALESCE({0}, 0, 1 / 0)", "COALESCE({0}, 0)", Widest),
    other(&[INTEGER], INTEGER, "DECODE(1, 2, 1 / 0, {0})", "{0}", Widest),
    hazardous(same(&[INTEGER], INTEGER, "(CASE WHEN {0} = 3 THEN 1 / 0 ELSE {0} END)", Widest)),
    same(&[ANY, ANY], ANY, "COALESCE({0}, {1})", Widest),
    other(
        &[OTHER, OTHER, ANY, ANY],
        ANY,
        "DECODE({0}, {1}, {2}, {3})",
        "(CASE WHEN {0} IS NOT DISTINCT FROM {1} THEN {2} ELSE {3} END)",
        Widest,
    ),
    same(&[ANY, ANY, ANY], ANY, "COALESCE({0}, {1}, {2})", Widest),
    same(&[ANY, ANY], ANY, "NULLIF({0}, {1})", Widest),
    // Numbers.
    same(&[INTEGER, INTEGER], INTEGER, "({0} + {1})", Sum),
    same(&[INTEGER, INTEGER], INTEGER, "({0} - {1})", Sum),
    same(&[INTEGER, INTEGER], INTEGER, "({0} * {1})", Product),
    same(&[INTEGER], INTEGER, "(- {0})", Widest),
    same(&[INTEGER, INTEGER], INTEGER, "({0} / NULLIF({1}, 0))", Widest),
    same(&[INTEGER, INTEGER], INTEGER, "MOD({0}, NULLIF({1}, 0))", Widest),
    same(&[INTEGER], INTEGER, "({0} % 7)", At(7.0)),
    same(&[INTEGER], INTEGER, "ABS({0})", Widest),
    other(&[INTEGER], INTEGER, "SIGN({0})", "SIGN({0})::bigint", At(1.0)),
    same(&[INTEGER, INTEGER], INTEGER, "GREATEST({0}, {1})", Widest),
    same(&[INTEGER, INTEGER, INTEGER], INTEGER, "LEAST({0}, {1}, {2})", Widest),
    other(&[INTEGER, INTEGER], INTEGER, "BITAND(ABS({0}), ABS({1}))", "(ABS({0}) & ABS({1}))", Sum),
    other(&[INTEGER, INTEGER], INTEGER, "BITOR(ABS({0}), ABS({1}))", "(ABS({0}) | ABS({1}))", Sum),
    other(&[INTEGER, INTEGER], INTEGER, "BITXOR(ABS({0}), ABS({1}))", "(ABS({0}) # ABS({1}))", Sum),
    hazardous(same(&[INTEGER, INTEGER], INTEGER, "({0} / {1})", Widest)),
    hazardous(same(&[TEXT], INTEGER, "CAST({0} AS BIGINT)", At(100.0))),
    hazardous(same(&[INTEGER], INTEGER, "CAST({0} AS SMALLINT)", Widest)),
    same(&[DECIMAL, DECIMAL], DECIMAL, "({0} + {1})", Sum),
    same(&[DECIMAL, DECIMAL], DECIMAL, "({0} - {1})", Sum),
    other(&[DECIMAL, DECIMAL], DECIMAL, "({0} * {1})", "ROUND({0} * {1}, 12)", Product),
    other(&[DECIMAL, INTEGER], DECIMAL, "({0} * {1})", "ROUND({0} * {1}, 12)", Product),
    same(&[INTEGER, DECIMAL], DECIMAL, "({0} + {1})", Sum),
    other(
        &[DECIMAL, INTEGER],
        DECIMAL,
        "({0} / NULLIF({1}, 0))",
        "(DIV({0} * 1000000000000, NULLIF({1}, 0)) * 0.000000000001)",
        Widest,
    ),
    same(&[DECIMAL], DECIMAL, "(- {0})", Widest),
    same(&[DECIMAL], DECIMAL, "ABS({0})", Widest),
    same(&[DECIMAL], DECIMAL, "FLOOR({0})", Sum),
    same(&[DECIMAL], DECIMAL, "CEILING({0})", Sum),
    other(&[DECIMAL], DECIMAL, "TRUNCATE({0}, 2)", "TRUNC({0}, 2)", Widest),
    same(&[DECIMAL, DECIMAL], DECIMAL, "GREATEST({0}, {1})", Widest),
    hazardous(same(&[DECIMAL], DECIMAL, "CAST({0} AS NUMERIC(7,2))", Widest)),
    hazardous(same(&[DECIMAL], DECIMAL, "CAST({0} AS DECIMAL(30,1))", Sum)),
    hazardous(same(&[INTEGER], DECIMAL, "CAST({0} AS DECIMAL(3))", Widest)),
    other(&[INTEGER], DECIMAL, "CAST({0} AS DECIMAL)", "CAST({0} AS NUMERIC(38,12))", Widest),
    // Theirs rounds, ours cuts off.
    other(&[DECIMAL], INTEGER, "CAST({0} AS BIGINT)", "CAST(TRUNC({0}) AS BIGINT)", Widest),
    same(&[FLOAT, FLOAT], FLOAT, "({0} + {1})", Sum),
    same(&[FLOAT, FLOAT], FLOAT, "({0} - {1})", Sum),
    other(&[FLOAT], FLOAT, "({0} * 2e0)", "({0} * 2e0::float8)", Sum),
    same(&[FLOAT], FLOAT, "(- {0})", Widest),
    same(&[FLOAT], FLOAT, "ABS({0})", Widest),
    same(&[FLOAT], FLOAT, "FLOOR({0})", Sum),
    same(&[FLOAT], FLOAT, "CEILING({0})", Sum),
    same(&[FLOAT, FLOAT], FLOAT, "LEAST({0}, {1})", Widest),
    other(&[INTEGER], FLOAT, "CAST({0} AS FLOAT)", "CAST({0} AS FLOAT8)", Widest),
    // Text.
    same(&[TEXT, TEXT], TEXT, "({0} || {1})", NONE),
    same(&[TEXT], TEXT, "UPPER({0})", NONE),
    same(&[TEXT], TEXT, "LOWER({0})", NONE),
    same(&[TEXT], TEXT, "SUBSTRING({0}, 2, 3)", NONE),
    same(&[TEXT], TEXT, "SUBSTRING({0} FROM 2)", NONE),
    same(&[TEXT, INTEGER], TEXT, "SUBSTRING({0}, CAST(MOD({1}, 10) AS INTEGER), 3)", NONE),
    same(&[TEXT], TEXT, "LEFT({0}, 2)", NONE),
    same(&[TEXT], TEXT, "RIGHT({0}, 2)", NONE),
    same(&[TEXT], TEXT, "TRIM({0})", NONE),
    same(&[TEXT], TEXT, "TRIM(LEADING 'a' FROM {0})", NONE),
    same(&[TEXT], TEXT, "TRIM(BOTH 'ab ' FROM {0})", NONE),
    same(&[TEXT, TEXT], TEXT, "LTRIM({0}, {1})", NONE),
    same(&[TEXT], TEXT, "LEFT({0}, -1)", NONE),
    same(&[TEXT], TEXT, "RIGHT({0}, -2)", NONE),
    same(&[TEXT], TEXT, "REGEXP_REPLACE({0}, '([ab]+)', '<\\1>')", NONE),
    same(&[TEXT], TEXT, "REGEXP_REPLACE({0}, 'B| ', '\\&-', 'gi')", NONE),
    same(&[TEXT], TEXT, "LTRIM({0})", NONE),
    same(&[TEXT], TEXT, "RTRIM({0}, 'b')", NONE),
    same(&[TEXT], TEXT, "LPAD({0}, 4, 'xy')", NONE),
    same(&[TEXT], TEXT, "RPAD({0}, 3)", NONE),
    same(&[TEXT, TEXT], TEXT, "REPLACE({0}, 'a', {1})", NONE),
    same(&[TEXT], TEXT, "REVERSE({0})", NONE),
    same(&[TEXT], TEXT, "REPEAT({0}, 2)", NONE),
    same(&[TEXT], TEXT, "OVERLAY({0} PLACING 'X' FROM 2 FOR 1)", NONE),
    same(&[TEXT], TEXT, "SPLIT_PART({0}, ' ', 2)", NONE),
    same(&[TEXT, TEXT], TEXT, "GREATEST({0}, {1})", NONE),
    same(&[INTEGER], TEXT, "CAST({0} AS VARCHAR)", NONE),
    same(&[DATE], TEXT, "CAST({0} AS VARCHAR)", NONE),
    other(&[TEXT], INTEGER, "CHAR_LENGTH({0})", "CHAR_LENGTH({0})::bigint", At(10_000.0)),
    other(&[TEXT], INTEGER, "OCTET_LENGTH({0})", "OCTET_LENGTH({0})::bigint", At(40_000.0)),
    other(&[BYTES], INTEGER, "OCTET_LENGTH({0})", "OCTET_LENGTH({0})::bigint", At(1_000.0)),
    other(&[TEXT, TEXT], INTEGER, "POSITION({0} IN {1})", "POSITION({0} IN {1})::bigint", At(10_000.0)),
    other(&[TEXT], INTEGER, "ASCII(NULLIF({0}, ''))", "ASCII(NULLIF({0}, ''))::bigint", At(2e6)),
    // Time.
    other(&[TIMESTAMP], INTEGER, "EXTRACT(YEAR FROM {0})", "EXTRACT(YEAR FROM {0})::bigint", At(10_000.0)),
    other(&[TIMESTAMP], INTEGER, "EXTRACT(MONTH FROM {0})", "EXTRACT(MONTH FROM {0})::bigint", At(12.0)),
    other(&[TIMESTAMP], INTEGER, "EXTRACT(HOUR FROM {0})", "EXTRACT(HOUR FROM {0})::bigint", At(24.0)),
    other(&[DATE], INTEGER, "EXTRACT(DAY FROM {0})", "EXTRACT(DAY FROM {0})::bigint", At(31.0)),
    other(&[DATE], INTEGER, "EXTRACT(DOY FROM {0})", "EXTRACT(DOY FROM {0})::bigint", At(366.0)),
    other(&[DATE], INTEGER, "EXTRACT(WEEK FROM {0})", "EXTRACT(WEEK FROM {0})::bigint", At(53.0)),
    other(&[TIMESTAMP], INTEGER, "EXTRACT(ISODOW FROM {0})", "EXTRACT(ISODOW FROM {0})::bigint", At(7.0)),
    other(&[TIMESTAMP], INTEGER, "EXTRACT(QUARTER FROM {0})", "EXTRACT(QUARTER FROM {0})::bigint", At(4.0)),
    other(&[TIMESTAMP], TIMESTAMP, "TRUNCATE(HOUR, {0})", "DATE_TRUNC('hour', {0})", NONE),
    same(&[TIMESTAMP], TIMESTAMP, "DATE_TRUNC('month', {0})", NONE),
    other(&[TIMESTAMP], TIMESTAMP, "DATEADD(DAY, 3, {0})", "({0} + INTERVAL '3 days')", NONE),
    other(&[TIMESTAMP], TIMESTAMP, "DATEADD(MONTH, -1, {0})", "({0} - INTERVAL '1 month')", NONE),
    same(&[TIMESTAMP], TIMESTAMP, "({0} + INTERVAL '36' HOUR)", NONE),
    same(&[TIMESTAMP], TIMESTAMP, "({0} - INTERVAL '1' YEAR)", NONE),
    same(&[TIMESTAMP], TIMESTAMP, "({0} + INTERVAL '2 days 30 minutes')", NONE),
    other(
        &[TIMESTAMP, INTEGER],
        TIMESTAMP,
        "({0} + INTERVAL {1} MICROSECOND)",
        // In two parts: theirs multiplies as double.
        "({0} + {1} / 1000000000 * INTERVAL '1000 seconds' + {1} % 1000000000 * INTERVAL '1 microsecond')",
        NONE,
    ),
    hazardous(other(&[DATE, INTEGER], TIMESTAMP, "({0} + INTERVAL {1} HOUR)", "({0} + {1} * INTERVAL '1 hour')", NONE)),
    same(&[DATE], DATE, "({0} - 7)", NONE),
    other(&[DATE, DATE], INTEGER, "({0} - {1})", "({0} - {1})::bigint", At(4e6)),
    same(&[TIMESTAMP], TEXT, "TO_CHAR({0}, 'YYYY-MM-DD HH24:MI:SS.US Dy FMMonth Q DDD IYYY-IW-ID HH12 AM')", NONE),
    same(&[TIMESTAMP, TIMESTAMP], TIMESTAMP, "LEAST({0}, {1})", NONE),
    other(&[DATE], DATE, "DATEADD(DAY, 30, {0})", "({0} + 30)", NONE),
    other(&[TIMESTAMP, TIMESTAMP], INTEGER, "DATEDIFF(DAY, {0}, {1})", "({1}::date - {0}::date)::bigint", At(3e6)),
    same(&[TIMESTAMP], DATE, "CAST({0} AS DATE)", NONE),
    same(&[DATE], TIMESTAMP, "CAST({0} AS TIMESTAMP)", NONE),
    same(&[TEXT], DATE, "CAST(REPLACE('2024-01-0x', 'x', CASE WHEN {0} = 'a' THEN '1' ELSE '2' END) AS DATE)", NONE),
    other(&[BOOLEAN], INTEGER, "CAST({0} AS INTEGER)", "({0})::int::bigint", At(1.0)),
];

/// Functions whose last digits may differ: only as output columns that nothing is compared with.
pub static INEXACT: &[Function] = &[
    inexact(same(&[FLOAT], FLOAT, "SQRT(ABS({0}))", Widest)),
    inexact(same(&[FLOAT], FLOAT, "LN(ABS({0}) + 1)", Widest)),
    inexact(other(&[FLOAT, FLOAT], FLOAT, "({0} / NULLIF({1}, 0e0))", "({0} / NULLIF({1}, 0))", Widest)),
    inexact(other(&[INTEGER], FLOAT, "POWER({0}, 2)", "POWER({0}::float8, 2)", Product)),
    inexact(same(&[FLOAT], FLOAT, "SIN({0})", Widest)),
    inexact(same(&[FLOAT], FLOAT, "CBRT({0})", Widest)),
];

/// Aggregates and window functions. In the texts `{d}` is DISTINCT, `{0}` the argument, `{s}`
/// FILTER and OVER.
#[derive(Debug)]
pub struct Aggregate {
    pub argument: Option<Kind>,
    pub result: Kind,
    pub ours: &'static str,
    pub theirs: &'static str,
    pub place: AggregateUse,
    pub growth: Growth,
    pub inexact: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateUse {
    /// Over a group or a window.
    Aggregate,
    /// Over a group only.
    Group,
    /// Over a window; the result does not depend on the order of rows that are equal in its ORDER
    /// BY.
    Ranking,
    /// Over a window whose ORDER BY leaves nothing open.
    Positional,
}

const fn aggregate(argument: Kind, result: Kind, text: &'static str, growth: Growth) -> Aggregate {
    aggregate_as(argument, result, text, text, growth)
}

const fn aggregate_as(
    argument: Kind,
    result: Kind,
    ours: &'static str,
    theirs: &'static str,
    growth: Growth,
) -> Aggregate {
    Aggregate { argument: Some(argument), result, ours, theirs, place: AggregateUse::Aggregate, growth, inexact: false }
}

const fn group(argument: Kind, result: Kind, text: &'static str) -> Aggregate {
    Aggregate { place: AggregateUse::Group, ..aggregate(argument, result, text, Widest) }
}

const fn ranking(text: &'static str) -> Aggregate {
    Aggregate {
        argument: None,
        result: INTEGER,
        ours: text,
        theirs: text,
        place: AggregateUse::Ranking,
        growth: At(1e6),
        inexact: false,
    }
}

const fn positional(text: &'static str) -> Aggregate {
    Aggregate {
        argument: Some(ANY),
        result: ANY,
        ours: text,
        theirs: text,
        place: AggregateUse::Positional,
        growth: Widest,
        inexact: false,
    }
}

const fn spread(text: &'static str) -> Aggregate {
    Aggregate { inexact: true, ..aggregate(FLOAT, FLOAT, text, At(1e9)) }
}

/// SUM and COUNT meet some thousand rows at most.
const ROWS: f64 = 1e4;

pub static AGGREGATES: &[Aggregate] = &[
    Aggregate { argument: None, ..aggregate(INTEGER, INTEGER, "COUNT(*){s}", At(ROWS)) },
    aggregate(ANY, INTEGER, "COUNT({d}{0}){s}", At(ROWS)),
    aggregate_as(INTEGER, INTEGER, "SUM({d}{0}){s}", "CAST(SUM({d}{0}){s} AS BIGINT)", Product),
    aggregate_as(
        INTEGER,
        INTEGER,
        "AVG({d}{0}){s}",
        "CAST(DIV(SUM({d}{0}){s}, NULLIF(COUNT({d}{0}){s}, 0)) AS BIGINT)",
        Widest,
    ),
    aggregate_as(DECIMAL, DECIMAL, "SUM({d}{0}){s}", "CAST(SUM({d}{0}){s} AS NUMERIC(38,12))", Product),
    aggregate_as(
        DECIMAL,
        DECIMAL,
        "AVG({d}{0}){s}",
        "(DIV(SUM({d}{0}){s} * 1000000000000, NULLIF(COUNT({d}{0}){s}, 0)) * 0.000000000001)",
        Widest,
    ),
    aggregate(FLOAT, FLOAT, "SUM({d}{0}){s}", Product),
    aggregate(INTEGER, INTEGER, "MIN({d}{0}){s}", Widest),
    aggregate(INTEGER, INTEGER, "MAX({d}{0}){s}", Widest),
    aggregate(FLOAT, FLOAT, "MAX({d}{0}){s}", Widest),
    aggregate(DECIMAL, DECIMAL, "MIN({0}){s}", Widest),
    aggregate(TEXT, TEXT, "MIN({0}){s}", NONE),
    aggregate(TEXT, TEXT, "MAX({0}){s}", NONE),
    aggregate(TIMESTAMP, TIMESTAMP, "MIN({0}){s}", NONE),
    aggregate(DATE, DATE, "MAX({0}){s}", NONE),
    Aggregate { argument: Some(BOOLEAN), ..aggregate(BOOLEAN, BOOLEAN, "BOOL_AND({0}){s}", NONE) },
    Aggregate { argument: Some(BOOLEAN), ..aggregate(BOOLEAN, BOOLEAN, "BOOL_OR({0}){s}", NONE) },
    Aggregate { place: AggregateUse::Group, ..aggregate(Kind::Pair, INTEGER, "COUNT(DISTINCT {0}){s}", At(ROWS)) },
    // Up to 1 024 values are counted exactly, and there are never this many.
    Aggregate {
        place: AggregateUse::Group,
        ..aggregate_as(ANY, INTEGER, "APPROX_COUNT_DISTINCT({0}){s}", "COUNT(DISTINCT {0}){s}", At(ROWS))
    },
    // Quarters between eighths are exact.
    group(FLOAT, FLOAT, "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {0}){s}"),
    group(FLOAT, FLOAT, "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {0} DESC){s}"),
    group(INTEGER, FLOAT, "PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY {0}){s}"),
    group(FLOAT, FLOAT, "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {0}){s}"),
    group(INTEGER, INTEGER, "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY {0} DESC){s}"),
    group(DECIMAL, DECIMAL, "PERCENTILE_DISC(1) WITHIN GROUP (ORDER BY {0}){s}"),
    group(TEXT, TEXT, "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {0}){s}"),
    group(TIMESTAMP, TIMESTAMP, "PERCENTILE_DISC(0) WITHIN GROUP (ORDER BY {0} DESC){s}"),
    ranking("RANK(){s}"),
    ranking("DENSE_RANK(){s}"),
    Aggregate { place: AggregateUse::Positional, ..ranking("ROW_NUMBER(){s}") },
    Aggregate { place: AggregateUse::Positional, ..ranking("NTILE(3){s}") },
    positional("LAG({0}){s}"),
    positional("LEAD({0}, 2){s}"),
    positional("FIRST_VALUE({0}){s}"),
    positional("LAST_VALUE({0}){s}"),
    positional("NTH_VALUE({0}, 2){s}"),
];

/// Only as output columns that nothing is compared with.
pub static INEXACT_AGGREGATES: &[Aggregate] = &[
    spread("AVG({0}){s}"),
    spread("STDDEV_SAMP({0}){s}"),
    spread("VAR_POP({0}){s}"),
    Aggregate { result: FLOAT, inexact: true, ..ranking("PERCENT_RANK(){s}") },
    Aggregate { result: FLOAT, inexact: true, ..ranking("CUME_DIST(){s}") },
];
