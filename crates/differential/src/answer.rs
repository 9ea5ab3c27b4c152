//! What a statement answers, in a form in which answers of different databases are equal if they
//! mean the same.

use ferrite_value::SqlType;
use std::fmt;

/// A value as text; None is NULL.
pub type Cell = Option<String>;

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub types: Vec<SqlType>,
    pub rows: Vec<Vec<Cell>>,
    /// Rows that a data change changed.
    pub modified: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

pub type EngineResult = Result<Answer, Failure>;

impl Failure {
    /// The code of a panic.
    pub const PANIC: &str = "panic";

    /// Ours is wrong, whatever else is.
    pub fn is_fault(&self) -> bool {
        self.code == Failure::PANIC || self.code == "XX000"
    }

    /// The statement itself is refused, whatever the data.
    pub fn is_refusal(&self) -> bool {
        self.code.starts_with("42") || self.code.starts_with("0A")
    }

    /// The message without the statement that it quotes.
    pub fn reason(&self) -> String {
        let message = self.message.lines().next().unwrap_or_default();
        let tail = message.rfind("\" - ").or_else(|| message.rfind("\" Expected"));
        let text = tail.map_or(message, |at| message[at + 2..].trim_start_matches("- "));
        text.split(" at Line").next().unwrap_or(text).to_owned()
    }

    /// An error that a value causes: which rows are met, and so whether it occurs, may be open.
    pub fn is_of_data(&self) -> bool {
        self.code.starts_with("22")
    }

    /// It took too long, or too much memory, or is beyond another limit with a name.
    pub fn is_of_limits(&self) -> bool {
        self.code.starts_with("57") || self.code.starts_with("53") || self.code.starts_with("54")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", self.code, self.message)
    }
}

impl Answer {
    /// Columns whose values are of other types than those of `other`; all integers are of one. What
    /// has only NULLs may have any type.
    pub fn has_types_of(&self, other: &Answer) -> bool {
        let is_null = |column: usize| self.rows.iter().all(|row| row[column].is_none());
        let same = |(column, (left, right)): (usize, (&SqlType, &SqlType))| {
            left == right || left.is_integer() && right.is_integer() || is_null(column)
        };
        self.types.len() == other.types.len() && self.types.iter().zip(&other.types).enumerate().all(same)
    }

    /// Equal as bags, or in their order too.
    pub fn same_rows(&self, other: &Answer, ordered: bool) -> bool {
        if self.rows.len() != other.rows.len() {
            return false;
        }
        if ordered {
            return rows_match(&self.rows, &other.rows);
        }
        rows_match(&self.sorted(), &other.sorted())
    }

    pub fn sorted(&self) -> Vec<Vec<Cell>> {
        let mut rows = self.rows.clone();
        rows.sort();
        rows
    }
}

fn rows_match(left: &[Vec<Cell>], right: &[Vec<Cell>]) -> bool {
    left == right
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        if let Some(modified) = self.modified {
            return write!(f, "{modified} rows changed");
        }
        write!(f, "{} rows", self.rows.len())?;
        for row in self.rows.iter().take(SHOWN) {
            let cells: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect();
            write!(f, "\n    {}", cells.join(" | "))?;
        }
        if self.rows.len() > SHOWN {
            write!(f, "\n    ...")?;
        }
        Ok(())
    }
}

/// FLOAT with 12 digits: sums of values that both databases compute exactly are exact, the rest
/// differs in the last ones.
pub fn canonical_float(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.11e}");
    let (digits, exponent) = text.split_once('e').expect("an exponent");
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}e{exponent}")
}

pub fn canonical_decimal(text: &str) -> String {
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    if matches!(text, "-0" | "") { "0".to_owned() } else { text.to_owned() }
}

/// A value of theirs, as text, as one of our type.
pub fn canonical_theirs(text: &str, sql_type: SqlType) -> String {
    match sql_type {
        SqlType::Float => text.parse().map_or_else(|_| text.to_owned(), canonical_float),
        SqlType::Decimal => canonical_decimal(text),
        SqlType::Timestamp => {
            let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
            format!("{seconds}.{fraction:0<6}")
        }
        SqlType::Varbinary => text.strip_prefix("\\x").unwrap_or(text).to_owned(),
        SqlType::Boolean => match text {
            "t" => "true".to_owned(),
            "f" => "false".to_owned(),
            other => other.to_owned(),
        },
        _ => text.to_owned(),
    }
}
