//! Literals with many digits: random numbers of 13 to 30 digits, in every place where a number may
//! stand, compared between the ways in which they reach a statement.
//!
//! A statement is written once, with holes. Filled with literals it must answer the same compiled
//! as it is written, by a plan made for the same statement with other literals (as the plan cache
//! does), with its literals as parameters where a parameter can carry them, with its literals as
//! texts, on another number of partitions and without indexes, and in PostgreSQL.

use crate::answer::{Answer, Cell, EngineResult};
use crate::engine::{Engine, Way};
use crate::postgres::Postgres;
use crate::random::Random;
use ferrite_value::{OwnedValue, SqlType};

/// What is done with a seed.
const ROWS: usize = 30;
const STATEMENTS: usize = 120;
const CHANGES: usize = 20;

const COLUMNS: &str = "(id INTEGER NOT NULL PRIMARY KEY, x FLOAT, d DECIMAL, s DECIMAL(9,3), n BIGINT)";
const OPERATORS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];
/// Values that literals lie close to.
const NEAR: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "0.1",
    "0.5",
    "1.5",
    "0.000000000001",
    "5000000",
    "123456.789",
    "2147483647",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999999",
    "99999999999999999999999999.999999999999",
];

/// What was done.
#[derive(Default, Debug)]
pub struct Counts {
    pub statements: u64,
    /// Answered by a plan that was made for other literals.
    pub by_other_plans: u64,
    pub with_parameters: u64,
    pub compared_with_theirs: u64,
}

/// A statement with holes, `{}`, and the column that its literals stand beside.
struct Written {
    text: String,
    beside: Beside,
    /// Only what both databases mean alike.
    theirs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    Float,
    Decimal,
    Integer,
    /// Computed with a FLOAT.
    Computed,
}

/// A number: digits, perhaps a point, digits.
fn number(random: &mut Random) -> String {
    let sign = if random.chance(30) { "-" } else { "" };
    let digits = |random: &mut Random, count: usize| -> String {
        (0..count).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
    };
    let text = match random.below(10) {
        // Just above or below a value that rows have.
        0..=4 => {
            let near = *random.pick(&NEAR);
            let (whole, decimals) = near.split_once('.').unwrap_or((near, ""));
            let zeros = "0".repeat((12 + random.below(10)).saturating_sub(decimals.len()));
            match random.below(4) {
                0 => near.to_owned(),
                // Zeros say nothing.
                1 => format!("{whole}.{decimals}{zeros}0"),
                _ if random.chance(50) || decimals.len() == 12 => {
                    let end = random.between(1, 9);
                    format!("{whole}.{decimals}{zeros}{end}")
                }
                _ => just_below(whole, decimals, zeros.len()),
            }
        }
        5 | 6 => {
            let decimals = 13 + random.below(10);
            format!("{}.{}", random.below(3), digits(random, decimals))
        }
        7 => {
            let whole = 1 + random.below(25);
            let decimals = 1 + random.below(20);
            format!("1{}.{}", digits(random, whole), digits(random, decimals))
        }
        8 => {
            let whole = 12 + random.below(18);
            format!("1{}", digits(random, whole))
        }
        _ => format!("{}", random.below(5)),
    };
    format!("{sign}{text}")
}

/// `1.5` with four nines: `1.49999`.
fn just_below(whole: &str, decimals: &str, nines: usize) -> String {
    let mut digits: Vec<u8> = format!("{whole}{decimals}").into_bytes();
    if digits.iter().all(|digit| *digit == b'0') {
        return format!("0.{}1", "0".repeat(nines));
    }
    for digit in digits.iter_mut().rev() {
        if *digit != b'0' {
            *digit -= 1;
            break;
        }
        *digit = b'9';
    }
    let digits = String::from_utf8(digits).expect("digits");
    format!("{}.{}{}", &digits[..whole.len()], &digits[whole.len()..], "9".repeat(nines.max(1)))
}

/// Whether DECIMAL holds the number.
fn is_decimal(literal: &str) -> bool {
    let unsigned = literal.trim_start_matches('-');
    let (whole, decimals) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    whole.len() <= 26 && decimals.trim_end_matches('0').len() <= 12
}

fn condition(random: &mut Random) -> Written {
    let (column, beside) =
        *random.pick(&[("x", Beside::Float), ("d", Beside::Decimal), ("s", Beside::Decimal), ("n", Beside::Integer)]);
    let operator = *random.pick(&OPERATORS);
    let condition = match random.below(14) {
        0..=3 => format!("{column} {operator} {{}}"),
        4 => format!("{{}} {operator} {column}"),
        5 => format!("NOT ({column} {operator} {{}})"),
        6 => format!("{column} IN ({{}}, {{}}, {{}})"),
        7 => format!("{column} NOT IN ({{}}, {{}})"),
        8 => format!("{column} BETWEEN {{}} AND {{}}"),
        9 => format!("{{}} BETWEEN {column} AND {column} + 1"),
        10 => format!("{column} IS NOT DISTINCT FROM {{}}"),
        11 => format!("CASE {column} WHEN {{}} THEN 1 WHEN {{}} THEN 2 ELSE 3 END < 3"),
        12 => format!("({column}, id) {operator} ({{}}, {{}})"),
        _ => {
            let word = *random.pick(&["ANY", "ALL"]);
            format!("{{}} {operator} {word} (SELECT {column} FROM m AS i WHERE i.id < o.id)")
        }
    };
    // A sum of DECIMALs may be too large, which whose rows are read first decides.
    let beside = if condition.contains("+ 1") || condition.contains("id) ") { Beside::Computed } else { beside };
    Written { text: format!("SELECT id FROM m AS o WHERE {condition} ORDER BY id"), beside, theirs: true }
}

fn computation(random: &mut Random) -> Written {
    let operator = *random.pick(&["+", "-", "*"]);
    let column = "x";
    let (text, theirs) = match random.below(6) {
        0 => (format!("{column} {operator} {{}}"), true),
        1 => (format!("{{}} {operator} {column}"), true),
        2 => (format!("CASE WHEN id < 5 THEN {column} ELSE {{}} END"), true),
        3 => (format!("COALESCE({column}, {{}})"), true),
        // Ours is the greatest of what is not NULL, as theirs.
        4 => (format!("GREATEST({column}, {{}})"), true),
        _ => ("CAST({} AS FLOAT)".to_owned(), true),
    };
    let text = format!("SELECT id, CAST({text} AS VARCHAR) FROM m ORDER BY id");
    Written { text, beside: Beside::Computed, theirs }
}

fn rounding(random: &mut Random) -> Written {
    let to = *random.pick(&["DECIMAL", "DECIMAL(38,12)", "DECIMAL(9,3)", "DECIMAL(26,0)"]);
    let theirs = to != "DECIMAL";
    Written { text: format!("SELECT id, CAST({{}} AS {to}) FROM m WHERE id = 1"), beside: Beside::Decimal, theirs }
}

fn fill(text: &str, literals: &[String]) -> String {
    let mut literals = literals.iter();
    let parts: Vec<&str> = text.split("{}").collect();
    let mut out = parts[0].to_owned();
    for part in &parts[1..] {
        out.push_str(literals.next().expect("a literal for each hole"));
        out.push_str(part);
    }
    out
}

struct Run<'r> {
    random: Random,
    ours: [Engine; 2],
    theirs: Option<&'r mut Postgres>,
    counts: &'r mut Counts,
    rows: usize,
}

/// All of a seed. Err says what differs.
pub fn scenario(seed: u64, theirs: Option<&mut Postgres>, counts: &mut Counts) -> Result<(), String> {
    let ours = [Engine::new(1), Engine::new(7)];
    let mut run = Run { random: Random::new(seed), ours, theirs, counts, rows: 0 };
    run.schema()?;
    for _ in 0..ROWS {
        run.insertion()?;
    }
    for number in 0..CHANGES {
        run.default(number)?;
        run.update()?;
    }
    for _ in 0..STATEMENTS {
        let written = match run.random.below(8) {
            0 | 1 => computation(&mut run.random),
            2 => rounding(&mut run.random),
            _ => condition(&mut run.random),
        };
        run.query(&written)?;
    }
    Ok(())
}

fn shown(result: &EngineResult) -> String {
    match result {
        Ok(answer) => answer.to_string(),
        Err(failure) => failure.to_string(),
    }
}

/// A value of ours and one of theirs. Numbers are canonical texts, equal in every digit; a FLOAT as
/// VARCHAR, which shows all its bits, is written in two ways and is the same double.
fn same_cell(ours: &Cell, theirs: &Cell, sql_type: Option<&SqlType>) -> bool {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if sql_type == Some(&SqlType::Varchar) => {
            ours == theirs || matches!((ours.parse::<f64>(), theirs.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
        }
        (ours, theirs) => ours == theirs,
    }
}

fn same_rows(ours: &Answer, theirs: &Answer) -> bool {
    let same_row = |(left, right): (&Vec<Cell>, &Vec<Cell>)| {
        let mut cells = left.iter().zip(right).enumerate();
        left.len() == right.len() && cells.all(|(place, (left, right))| same_cell(left, right, ours.types.get(place)))
    };
    ours.rows.len() == theirs.rows.len() && ours.rows.iter().zip(&theirs.rows).all(same_row)
}

fn same(left: &EngineResult, right: &EngineResult, rows: impl Fn(&Answer, &Answer) -> bool) -> bool {
    match (left, right) {
        (Ok(left), Ok(right)) => left.modified == right.modified && rows(left, right),
        (Err(left), Err(right)) => !left.is_fault() && !right.is_fault(),
        _ => false,
    }
}

impl Run<'_> {
    fn schema(&mut self) -> Result<(), String> {
        let indexes = "CREATE INDEX by_x ON m (x); CREATE INDEX by_d ON m (d); CREATE INDEX by_n ON m (n)";
        let texts = [
            format!("CREATE TABLE m {COLUMNS}; {indexes}"),
            format!("CREATE TABLE m {COLUMNS}; PARTITION TABLE m ON COLUMN id"),
        ];
        for (engine, text) in self.ours.iter_mut().zip(texts) {
            engine.define(&text).map_err(|failure| failure.to_string())?;
        }
        if let Some(theirs) = &mut self.theirs {
            theirs.start_over();
            let columns = COLUMNS.replace("d DECIMAL,", "d DECIMAL(38,12),");
            theirs.run(&format!("CREATE TABLE m {columns}"), &[]).map_err(|failure| failure.to_string())?;
        }
        Ok(())
    }

    fn literals(&mut self, written: &str) -> Vec<String> {
        (1..written.split("{}").count()).map(|_| number(&mut self.random)).collect()
    }

    /// The statement as written on all engines, which must agree; in PostgreSQL if `theirs`.
    fn everywhere(&mut self, text: &str, theirs: bool) -> Result<EngineResult, String> {
        let first = self.ours[0].run(text, Way::Plain);
        let second = self.ours[1].run(text, Way::AsRouted);
        differ(text, "on 1 and on 7 partitions", &first, &second)?;
        if let (true, Some(database)) = (theirs, &mut self.theirs) {
            let types = first.as_ref().map(|answer| answer.types.clone()).unwrap_or_default();
            let answer = database.run(&text.replace("DECIMAL,", "DECIMAL(38,12),"), &types);
            differ_from_theirs(text, &first, &answer)?;
            self.counts.compared_with_theirs += 1;
        }
        self.counts.statements += 1;
        Ok(first)
    }

    fn insertion(&mut self) -> Result<(), String> {
        self.rows += 1;
        let id = self.rows;
        let x = number(&mut self.random);
        let d = number(&mut self.random);
        let s = number(&mut self.random);
        let n = number(&mut self.random);
        let whole = n.split_once('.').is_none_or(|(_, decimals)| decimals.trim_end_matches('0').is_empty())
            && !n.starts_with("-9223372036854775808");
        // Theirs rounds what it stores in an integer column, where ours refuses it; and the least
        // integer, which is none of ours.
        let stored = self.everywhere(&format!("INSERT INTO m VALUES ({id}, {x}, {d}, {s}, {n})"), whole)?;
        if !whole && stored.is_ok() {
            return Err(format!("{n} is stored in an integer column"));
        }
        if stored.is_err() {
            // A row all the same, with what surely fits.
            let near = *self.random.pick(&NEAR[..13]);
            let whole = near.split('.').next().unwrap_or(near);
            let short = *self.random.pick(&NEAR[..8]);
            self.everywhere(&format!("INSERT INTO m VALUES ({id}, {x}, {near}, {short}, {whole})"), true)?
                .map_err(|failure| failure.to_string())?;
        }
        self.contents("m", id)
    }

    /// What a row has, to the last bit.
    fn contents(&mut self, table: &str, id: usize) -> Result<(), String> {
        self.everywhere(&format!("SELECT CAST(x AS VARCHAR), d, s, n FROM {table} WHERE id = {id}"), true).map(drop)
    }

    fn default(&mut self, number_of: usize) -> Result<(), String> {
        let x = number(&mut self.random);
        let d = number(&mut self.random);
        let s = number(&mut self.random);
        let table = format!("of_default_{number_of}");
        let text = format!(
            "CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, x FLOAT DEFAULT {x}, d DECIMAL(38,12) DEFAULT {d}, \
             s DECIMAL(9,3) DEFAULT {s}, n BIGINT)"
        );
        let made = self.ours.each_mut().map(|engine| engine.define(&text).is_ok());
        if made[0] != made[1] {
            return Err(format!("{text}: {made:?}"));
        }
        if let Some(theirs) = &mut self.theirs {
            theirs.run(&text, &[]).map_err(|failure| failure.to_string())?;
        }
        let insert = format!("INSERT INTO {table} (id) VALUES (1)");
        if made[0] {
            self.everywhere(&insert, true)?.map_err(|failure| failure.to_string())?;
            return self.contents(&table, 1);
        }
        // Ours refuses a default that does not fit; theirs refuses the row.
        let taken = self.theirs.as_mut().is_some_and(|theirs| theirs.run(&insert, &[]).is_ok());
        if taken { Err(format!("refused by ours only: {text}")) } else { Ok(()) }
    }

    fn update(&mut self) -> Result<(), String> {
        let column = *self.random.pick(&["x", "d", "s"]);
        let id = 1 + self.random.below(self.rows);
        let mut value = number(&mut self.random);
        let other = number(&mut self.random);
        // One that does not fit is an error in theirs also where no row is changed.
        while value.parse::<f64>().expect("a number").abs() >= if column == "s" { 9e5 } else { 9e25 } {
            value = number(&mut self.random);
        }
        let beside = *self.random.pick(&["x", "d", "n"]);
        self.everywhere(&format!("UPDATE m SET {column} = {value} WHERE id = {id} AND {beside} < {other}"), true)?.ok();
        self.contents("m", id)
    }

    fn query(&mut self, written: &Written) -> Result<(), String> {
        let literals = self.literals(&written.text);
        let text = fill(&written.text, &literals);
        let answer = self.everywhere(&text, written.theirs)?;
        for way in [Way::OnSnapshot, Way::Parameterized] {
            differ(&text, "in another way", &answer, &self.ours[0].run(&text, way))?;
        }
        let first = fill(&written.text, &self.literals(&written.text));
        if let Some(cached) = self.ours[0].run_by_template(&first, &text) {
            differ(&text, &format!("by the plan of {first}"), &answer, &cached)?;
            self.counts.by_other_plans += 1;
        }
        if written.text.contains("WHERE") && written.beside != Beside::Computed && written.text.contains("ORDER BY") {
            let quoted: Vec<String> = literals.iter().map(|literal| format!("'{literal}'")).collect();
            let text = fill(&written.text, &quoted);
            differ(&text, "with texts in place of numbers", &answer, &self.ours[0].run(&text, Way::Plain))?;
        }
        self.with_parameters(written, &literals, &answer)
    }

    /// As doubles beside a FLOAT, as texts beside an integer.
    fn with_parameters(&mut self, written: &Written, literals: &[String], answer: &EngineResult) -> Result<(), String> {
        let text = written.text.replace("{}", "?");
        let values: Vec<OwnedValue> = match written.beside {
            Beside::Float => {
                literals.iter().map(|literal| OwnedValue::Float(literal.parse().expect("a number"))).collect()
            }
            // What stands alone has no neighbour to take its type from.
            Beside::Integer if !text.contains("? BETWEEN") => {
                literals.iter().map(|literal| OwnedValue::Text(literal.as_str().into())).collect()
            }
            Beside::Decimal if literals.iter().all(|literal| is_decimal(literal)) && !text.contains("CAST") => {
                literals.iter().map(|literal| OwnedValue::Text(literal.as_str().into())).collect()
            }
            _ => return Ok(()),
        };
        let given = self.ours[0].run_given(&text, &values);
        differ(&text, &format!("with the parameters {literals:?}"), answer, &given)?;
        self.counts.with_parameters += 1;
        Ok(())
    }
}

/// Two answers of ours, equal in every digit.
fn differ(text: &str, how: &str, one: &EngineResult, other: &EngineResult) -> Result<(), String> {
    checked(same(one, other, |one, other| one.rows == other.rows), text, how, one, other)
}

fn differ_from_theirs(text: &str, ours: &EngineResult, theirs: &EngineResult) -> Result<(), String> {
    checked(same(ours, theirs, same_rows), text, "ours and theirs", ours, theirs)
}

fn checked(is_same: bool, text: &str, how: &str, one: &EngineResult, other: &EngineResult) -> Result<(), String> {
    match is_same {
        true => Ok(()),
        false => Err(format!("{text}\n  {how}\n  {}\n  {}", shown(one), shown(other))),
    }
}
