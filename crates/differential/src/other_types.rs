//! Parameters whose neighbours have other types: a value of each type in every place where one may
//! stand, beside columns of each type.
//!
//! A statement is written once, with holes. Filled with literals and with parameters of the same
//! types it must have the same rows in columns of the same types, ad hoc and as a procedure; also
//! where every column has an index and the rows are on several partitions. A number beside the
//! partitioning column asks one partition.
//!
//! A statement that is refused with literals may answer with parameters, which are converted where
//! the statement would mean nothing. Two rules differ on purpose
//! (docs/decisions/0093-values-of-other-types.md): a text beside a number is the number that it
//! spells, and parameters that are compared with parameters only are refused.

use crate::answer::{Answer, EngineResult};
use crate::engine::{Engine, Way};
use crate::random::Random;
use ferrite_value::text::parse_hex_bytes;
use ferrite_value::{Decimal, OwnedValue, temporal};

const STATEMENTS: usize = 200;

/// A column of each type.
const COLUMNS: [&str; 7] = ["id", "n", "f", "d", "v", "ts", "dt"];
const TABLE: &str = "(id INTEGER NOT NULL, n INTEGER, f FLOAT, d DECIMAL, v VARCHAR(40), ts TIMESTAMP, dt DATE)";
const ROWS: [&str; 4] = [
    "(1, 5, 1.5E0, 5, 'abc', '2024-05-05 00:00:00', '2024-02-29')",
    "(2, 3, 3, 2.5, '5', '2024-05-05 12:00:00', '2024-05-05')",
    "(3, NULL, NULL, NULL, NULL, NULL, NULL)",
    // The nearest double of an integer that is given.
    "(4, 2, 9007199254740992E0, 1.005, '05', '2024-02-29 00:00:00', '2024-02-29')",
];

/// Asks one partition, whatever kind of number the value is.
const BY_KEY: &str = "SELECT COUNT(*) FROM m WHERE id = {}";

/// `{}` is a value, `{c}` a column.
const STATEMENTS_OF_ROWS: [&str; 45] = [
    BY_KEY,
    "SELECT id FROM m WHERE {c} = {}",
    "SELECT id FROM m WHERE {c} > {} AND {c} <= {}",
    "SELECT id FROM m WHERE {c} = {} OR {c} IN ({}, {})",
    "SELECT id FROM m WHERE {c} NOT IN ({}, {}, {})",
    "SELECT MIN({c}), MAX({c}) FROM m WHERE {c} < {}",
    "SELECT a.id FROM m AS a JOIN m AS b ON a.{c} = b.{c} WHERE b.id = {}",
    "SELECT id, {c} * {} FROM m",
    "SELECT id, {c} / {} FROM m WHERE id < 3",
    "SELECT id, {} - {c} FROM m",
    "SELECT id, {c} + {} FROM m",
    "SELECT id, COALESCE({c}, {}) FROM m",
    "SELECT id, COALESCE({c}, {}, {}) FROM m",
    "SELECT id, GREATEST({c}, {}) FROM m",
    "SELECT id, LEAST({}, {c}, {}) FROM m",
    "SELECT id, CASE WHEN id = 1 THEN {c} ELSE {} END FROM m",
    "SELECT id, CASE WHEN id = 1 THEN {} ELSE {} END FROM m WHERE {c} = {c}",
    "SELECT id, NULLIF({}, {c}) FROM m",
    "SELECT id, NULLIF({c}, {}) FROM m",
    "SELECT id, DECODE(id, 1, {c}, {}) FROM m",
    "SELECT id, CAST({} AS VARCHAR), CAST({} AS FLOAT), CAST({} AS DECIMAL), CAST({} AS BIGINT) FROM m",
    "SELECT id, CAST({} AS TIMESTAMP), CAST({} AS DATE) FROM m",
    "SELECT id, {} || {c}, CONCAT({c}, {}) FROM m",
    "SELECT id, ABS({}), MOD({}, 3) FROM m",
    "SELECT SUM({c} * {}), MIN({c} + {}) FROM m",
    "SELECT id, LAG({c}, 1, {}) OVER (ORDER BY id) FROM m",
    "SELECT STRING_AGG({}, ', ') FROM m WHERE {c} IS NOT NULL",
    "SELECT id, {c} FROM m UNION ALL SELECT 9, {} FROM m",
    "SELECT MAX({}) FROM m UNION SELECT {} FROM m",
    "SELECT z, {c} FROM (VALUES ({}), ({}), (9.5)) AS y (z), m",
    "SELECT x.c FROM (SELECT id, {} AS c FROM m) AS x, m WHERE x.id = m.id AND x.c = m.{c}",
    "SELECT COALESCE((SELECT MAX({}) FROM m), COALESCE({}, {})) FROM m WHERE {c} IS NOT NULL",
    "SELECT id FROM m WHERE {c} = {} OR {c} > {}",
    "SELECT id FROM m WHERE {c} IN ({}, {})",
    "SELECT id FROM m WHERE {} IN ({}, {c})",
    "SELECT id FROM m WHERE {c} BETWEEN {} AND {}",
    "SELECT id, CASE {} WHEN {} THEN 1 WHEN {c} THEN 2 END FROM m",
    "SELECT id FROM m WHERE ({}, id) IN (({}, 3), ({c}, 1))",
    "SELECT id FROM m WHERE {c} IS NOT DISTINCT FROM {}",
    "SELECT id FROM m WHERE {} IN ((SELECT MIN({}) FROM m), {c})",
    "SELECT id FROM m WHERE {c} >= ALL (SELECT {} FROM m)",
    "SELECT id FROM m WHERE {} + 0 = {c} OR {c} < ABS({})",
    "SELECT id FROM m WHERE COALESCE({}, 1) = {c} OR CASE WHEN 1 = 1 THEN {} END = {c}",
    "SELECT id FROM m WHERE {c} IN (CAST({} AS BIGINT), id + {})",
    "SELECT id FROM m WHERE (SELECT {} FROM m WHERE id = 1) = {c} OR {c} = -{}",
];

/// With casts only, which mean the same everywhere: what fails with literals must fail with
/// parameters.
const CASTS: [&str; 3] = [
    "SELECT id, CAST({} AS VARCHAR), CAST({} AS VARBINARY) FROM m",
    "SELECT id, CAST({} AS TIMESTAMP) FROM m",
    "SELECT id, CAST({} AS DATE), CAST({} AS BOOLEAN), CAST({} AS INTEGER) FROM m",
];

#[derive(Default, Debug)]
pub struct Counts {
    pub statements: u64,
    /// Those that mean something with literals.
    pub compared: u64,
    /// Refused with parameters, since nothing says their type.
    pub undecided: u64,
}

/// A value as a literal and as a parameter.
struct Given {
    literal: String,
    value: OwnedValue,
}

fn given(random: &mut Random) -> Given {
    let (literal, value) = match random.below(6) {
        0 => {
            let number = *random.pick(&[0.1, 1.5, 2.5, 3.0, 5.0, 1e16, 1e-20]);
            (format!("{number:E}"), OwnedValue::Float(number))
        }
        1 => {
            let text = *random.pick(&["0.5", "1.005", "2.5", "3.0", "5.0", "-9223372036854775808"]);
            (text.to_owned(), OwnedValue::Decimal(Decimal::parse(text).expect("a DECIMAL")))
        }
        2 => {
            let number = *random.pick(&[2, 3, 5, 9_007_199_254_740_993]);
            (number.to_string(), OwnedValue::Integer(number))
        }
        3 => {
            let text = *random.pick(&["5", "05", "2.5", "abc", "2024-05-05"]);
            (format!("'{text}'"), OwnedValue::Text(text.into()))
        }
        4 => {
            let text = *random.pick(&["2024-05-05 00:00:00", "2024-05-05 12:00:00"]);
            let at = temporal::parse_timestamp(text).expect("a TIMESTAMP");
            (format!("TIMESTAMP '{text}'"), OwnedValue::Timestamp(at))
        }
        _ => {
            let text = *random.pick(&["2024-02-29", "2024-05-05"]);
            let day = temporal::date_from_text(text).expect("a DATE");
            (format!("DATE '{text}'"), OwnedValue::Date(day))
        }
    };
    Given { literal, value }
}

/// All of a seed. Err says what differs.
pub fn scenario(seed: u64, counts: &mut Counts) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut plain = engine(1, false)?;
    let mut engine = engine(1 + 6 * (seed % 2) as u32, seed % 4 >= 2)?;
    for _ in 0..STATEMENTS {
        statement(&mut random, &mut plain, &mut engine, counts)?;
    }
    Ok(())
}

fn bytes(random: &mut Random) -> Given {
    let digits = *random.pick(&["", "6162", "FF"]);
    let value = parse_hex_bytes(digits).expect("pairs of digits");
    Given { literal: format!("X'{digits}'"), value: OwnedValue::Bytes(value.into()) }
}

/// With the table and its rows, perhaps partitioned and with an index on each column.
fn engine(partitions: u32, indexed: bool) -> Result<Engine, String> {
    let mut engine = Engine::new(partitions);
    let define = |engine: &mut Engine, text: &str| engine.define(text).map_err(|failure| failure.to_string());
    define(&mut engine, &format!("CREATE TABLE m {TABLE}"))?;
    if indexed {
        define(&mut engine, "PARTITION TABLE m ON COLUMN id")?;
        for column in COLUMNS {
            define(&mut engine, &format!("CREATE INDEX m_{column} ON m ({column})"))?;
        }
    }
    for row in ROWS {
        engine.run(&format!("INSERT INTO m VALUES {row}"), Way::AsRouted).map_err(|failure| failure.to_string())?;
    }
    Ok(engine)
}

fn statement(random: &mut Random, plain: &mut Engine, engine: &mut Engine, counts: &mut Counts) -> Result<(), String> {
    let column = *random.pick(&COLUMNS);
    let is_cast = random.chance(10);
    let written = if is_cast { *random.pick(&CASTS) } else { *random.pick(&STATEMENTS_OF_ROWS) };
    let by_key = written == BY_KEY;
    let written = written.replace("{c}", column);
    let parts: Vec<&str> = written.split("{}").collect();
    // Beside other values X'...' is a number, or is taken for a text.
    let value = |random: &mut Random| if is_cast && random.chance(30) { bytes(random) } else { given(random) };
    let values: Vec<Given> = parts[1..].iter().map(|_| value(random)).collect();
    let mut text = parts[0].to_owned();
    for (part, value) in parts[1..].iter().zip(&values) {
        text.push_str(&value.literal);
        text.push_str(part);
    }
    let with_parameters = parts.join("?");
    counts.statements += 1;
    let expected = plain.run(&text, Way::Plain);
    let values: Vec<OwnedValue> = values.into_iter().map(|given| given.value).collect();
    let answers = [
        engine.run(&text, Way::AsRouted),
        engine.run_given(&with_parameters, &values),
        engine.run_procedure(&with_parameters, &values),
    ];
    if by_key && values.iter().all(is_number) && engine.stores_of(&with_parameters, &values) != Some(1) {
        return Err(format!("{with_parameters} with {values:?}: it asks several partitions"));
    }
    if engine.refusal(&with_parameters, values.len()).is_some_and(|code| code == "42P18") {
        counts.undecided += 1;
        return Ok(());
    }
    for found in &answers {
        let mut problem = problem(&expected, found, is_cast);
        if problem.is_some() && !is_cast && spells_numbers(column, &values) {
            problem = None;
        }
        if let Some(problem) = problem {
            return Err(format!("{text}\n  as {with_parameters} with {values:?}: {problem}"));
        }
    }
    counts.compared += u64::from(expected.is_ok());
    Ok(())
}

/// A text beside a number means the number that it spells, as a parameter.
fn spells_numbers(column: &str, values: &[OwnedValue]) -> bool {
    let beside_numbers = matches!(column, "id" | "n" | "f" | "d") || values.iter().any(is_number);
    beside_numbers && values.iter().any(|value| matches!(value, OwnedValue::Text(_)))
}

fn is_number(value: &OwnedValue) -> bool {
    matches!(value, OwnedValue::Float(_) | OwnedValue::Decimal(_) | OwnedValue::Integer(_))
}

fn problem(expected: &EngineResult, found: &EngineResult, is_cast: bool) -> Option<String> {
    let shown = |answer: &Answer| format!("{:?} {answer}", answer.types);
    match (expected, found) {
        (_, Err(failure)) if failure.is_fault() => Some(failure.to_string()),
        (Ok(expected), Ok(found)) if found.has_types_of(expected) && found.same_rows(expected, false) => None,
        (Ok(expected), Ok(found)) => Some(format!("{}\n  not {}", shown(found), shown(expected))),
        (Ok(expected), Err(failure)) => Some(format!("{failure}\n  not {}", shown(expected))),
        (Err(failure), Ok(found)) if is_cast => Some(format!("{}\n  not {failure}", shown(found))),
        (Err(_), _) => None,
    }
}
