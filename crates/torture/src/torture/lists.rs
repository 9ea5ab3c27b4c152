//! Lists under torture: transactions append to up to four lists, read up to four, or both, wherever
//! the lists' partitions are. Whether all answers of a round are those of a strictly serializable
//! database is decided by a search for cycles in its history (`ferrite_isolation`).
//!
//! A list is appended to until it has some elements, then another one is used in its place; a
//! round begins with lists that nobody has used. When it has ended, every list is read once more,
//! so that what was acknowledged and is gone is found, too.

use crate::torture::drive::{Calls, Ended, Fate, Load};
use crate::torture::lane::Cut;
use crate::torture::scan::{self, GroupLayout};
use ferrite_bench::error::{BenchError, BenchResult};
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::{OwnedResponse, Prepared};
use ferrite_isolation::{Operation, Transaction, TransactionOutcome, check};
use ferrite_value::OwnedValue;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const DDL: &str = "
CREATE TABLE torture_list (id BIGINT NOT NULL, list VARCHAR(4000) NOT NULL, PRIMARY KEY (id));
PARTITION TABLE torture_list ON COLUMN id;
CREATE PROCEDURE torture_append_one PARTITION ON TABLE torture_list COLUMN id PARAMETER 1 AS
  UPDATE torture_list SET list = list || ? WHERE id = ?;
CREATE PROCEDURE torture_read_one PARTITION ON TABLE torture_list COLUMN id PARAMETER 0 AS
  SELECT list FROM torture_list WHERE id = ?;
";
const ALL: &str = "SELECT id, list FROM torture_list";

/// Lists that are used at the same time, and after how many appends another one is.
const USED: usize = 16;
const APPENDS_MAX: u32 = 40;
/// Unused lists that are there before a round, at least; they are made so many at once.
const UNUSED_MIN: i64 = 1_500;
const MADE_AT_ONCE: i64 = 100;
/// Of a hundred calls this many are of one list, by a procedure of its partition.
const ONE_PERCENT: u32 = 30;
const CALLS_MAX: u32 = 14_000;

/// What a procedure does, in this order: `R` reads a list, `A` appends to one.
const SHAPES: [&str; 10] = ["RR", "RRRR", "AA", "AAA", "AAAA", "RA", "RRA", "RAA", "AR", "RAR"];

pub struct Lists {
    layout: GroupLayout,
    append_one: Prepared,
    read_one: Prepared,
    shapes: Vec<(&'static str, Prepared)>,
    random: FastRandom,
    /// Those that are used, and how many appends each got.
    used: Vec<(i64, u32)>,
    /// Those that nobody has used.
    unused: Range<i64>,
    /// Of this round: the transactions by their tokens.
    history: Vec<Transaction>,
    /// What the last check has found in each list of its round.
    found: BTreeMap<i64, Vec<i64>>,
    checked: Checked,
    calls_left: u32,
    /// The first list of this round.
    first: i64,
}

/// Over all rounds.
#[derive(Default)]
struct Checked {
    histories: u64,
    transactions: u64,
    operations: u64,
}

impl Lists {
    pub fn new(session: &Session, layout: GroupLayout) -> BenchResult<Lists> {
        session.run_statements(DDL)?;
        for shape in SHAPES {
            session.run_statements(&procedure(shape))?;
        }
        let prepared = |name: &str| Prepared::new(name).expect("a short name");
        let mut lists = Lists {
            layout,
            append_one: prepared("torture_append_one"),
            read_one: prepared("torture_read_one"),
            shapes: SHAPES.iter().map(|shape| (*shape, prepared(&name(shape)))).collect(),
            random: FastRandom::new(0),
            used: Vec::new(),
            unused: 0..0,
            history: Vec::new(),
            found: BTreeMap::new(),
            checked: Checked::default(),
            calls_left: 0,
            first: 0,
        };
        lists.make(session)?;
        Ok(lists)
    }

    /// Makes empty lists, so that there are enough for a round.
    fn make(&mut self, session: &Session) -> BenchResult<()> {
        while self.unused.end - self.unused.start < UNUSED_MIN {
            let first = self.unused.end;
            let rows: Vec<String> = (first..first + MADE_AT_ONCE).map(|id| format!("({id}, '')")).collect();
            session.query(&format!("UPSERT INTO torture_list (id, list) VALUES {}", rows.join(", ")))?;
            self.unused.end += MADE_AT_ONCE;
        }
        Ok(())
    }

    fn unused_list(&mut self) -> Option<i64> {
        self.unused.next()
    }

    /// Different lists of those that are used. None: there are none left.
    fn keys(&mut self, count: usize) -> Option<Vec<i64>> {
        let mut places = BTreeSet::new();
        while places.len() < count {
            places.insert(self.random.below(self.used.len() as u32) as usize);
        }
        for place in &places {
            if self.used[*place].1 >= APPENDS_MAX {
                self.used[*place] = (self.unused_list()?, 0);
            }
        }
        let mut keys: Vec<i64> = places.iter().map(|place| self.used[*place].0).collect();
        for place in (1..keys.len()).rev() {
            keys.swap(place, self.random.below(place as u32 + 1) as usize);
        }
        Some(keys)
    }

    /// The operations of a shape; what is read is not known yet.
    fn operations(&mut self, shape: &str, keys: &[i64], number: usize) -> Vec<Operation> {
        let operation = |(kind, key): (char, &i64)| match kind {
            'R' => Operation::Read { key: *key, list: Vec::new() },
            _ => Operation::Append { key: *key, element: number as i64 },
        };
        let operations: Vec<Operation> = shape.chars().zip(keys).map(operation).collect();
        for (key, _) in operations.iter().filter_map(|operation| match operation {
            Operation::Append { key, element } => Some((*key, *element)),
            Operation::Read { .. } => None,
        }) {
            let used = self.used.iter_mut().find(|(used, _)| *used == key);
            used.expect("only used lists are appended to").1 += 1;
        }
        operations
    }

    /// Reads what a committed transaction was answered.
    fn committed(&mut self, number: usize, at: u64, response: &OwnedResponse) -> Result<(), String> {
        let transaction = &mut self.history[number];
        transaction.outcome = TransactionOutcome::Committed;
        transaction.ended = at;
        if response.tables.len() != transaction.operations.len() {
            return Err(format!("{} tables for {:?}", response.tables.len(), transaction.operations));
        }
        for (operation, table) in transaction.operations.iter_mut().zip(&response.tables) {
            match operation {
                Operation::Append { .. } if table.scalar() == Some(1) => {}
                Operation::Append { key, .. } => {
                    return Err(format!("an append to {key} was answered {:?}", table.rows));
                }
                Operation::Read { key, list } => *list = read_in(*key, &table.rows)?,
            }
        }
        Ok(())
    }
}

/// The list in an answer, which is one row of one column.
fn read_in(key: i64, rows: &[Vec<OwnedValue>]) -> Result<Vec<i64>, String> {
    match rows {
        [row] => match row.as_slice() {
            [OwnedValue::Text(text)] => elements(key, text),
            other => Err(format!("list {key} is {other:?}")),
        },
        rows => Err(format!("list {key} is there {} times", rows.len())),
    }
}

/// Of a list's text: each element follows a comma.
fn elements(key: i64, text: &str) -> Result<Vec<i64>, String> {
    let number = |part: &str| part.parse().map_err(|_| format!("list {key} has {part:?} in {text:?}"));
    text.split(',').skip(1).map(number).collect()
}

fn name(shape: &str) -> String {
    format!("torture_lists_{}", shape.to_lowercase())
}

/// The procedure of a shape. Parameters: of each statement in turn.
fn procedure(shape: &str) -> String {
    let statement = |kind: char| match kind {
        'R' => "  SELECT list FROM torture_list WHERE id = ?;\n",
        _ => "  UPDATE torture_list SET list = list || ? WHERE id = ?;\n",
    };
    let statements: String = shape.chars().map(statement).collect();
    format!("CREATE PROCEDURE {} AS BEGIN\n{statements}END;", name(shape))
}

impl Load for Lists {
    fn name(&self) -> &'static str {
        "lists"
    }

    fn outstanding_max(&self) -> usize {
        48
    }

    fn begin(&mut self, random: FastRandom) {
        self.random = random;
        self.calls_left = CALLS_MAX;
        self.history.clear();
        self.used.clear();
        self.found.clear();
        self.first = self.unused.start;
        while self.used.len() < USED {
            let unused = self.unused_list().expect("there are enough after a check");
            self.used.push((unused, 0));
        }
    }

    fn call(&mut self, calls: &mut Calls) -> bool {
        if self.calls_left == 0 {
            return false;
        }
        self.calls_left -= 1;
        let number = self.history.len();
        let one = self.random.below(100) < ONE_PERCENT;
        let (shape, procedure) = match one {
            true if self.random.below(2) == 0 => ("R", self.read_one.clone()),
            true => ("A", self.append_one.clone()),
            false => self.shapes[self.random.below(self.shapes.len() as u32) as usize].clone(),
        };
        let Some(keys) = self.keys(shape.len()) else { return false };
        let operations = self.operations(shape, &keys, number);
        let mut parameters = Vec::new();
        for operation in &operations {
            if let Operation::Append { element, .. } = operation {
                parameters.push(OwnedValue::Text(format!(",{element}").into()));
            }
            let (Operation::Append { key, .. } | Operation::Read { key, .. }) = operation;
            parameters.push(OwnedValue::Integer(*key));
        }
        let began = calls.call(&procedure, parameters, number as u64);
        self.history.push(Transaction { began, ended: 0, outcome: TransactionOutcome::Unknown, operations });
        true
    }

    fn ended(&mut self, ended: Ended, cut: &mut Cut) {
        let number = ended.token as usize;
        match ended.fate {
            Fate::Acknowledged(response) => {
                if let Err(what) = self.committed(number, ended.at, &response) {
                    cut.finding(format!("lists: {what}"));
                }
            }
            Fate::Refused(text) => {
                cut.finding(format!("lists: {:?} was refused: {text}", self.history[number].operations));
                self.history[number].outcome = TransactionOutcome::Aborted;
            }
            Fate::NotSent => self.history[number].outcome = TransactionOutcome::Aborted,
            Fate::Unknown => {}
        }
    }

    fn calls_of_a_round(&self) -> u32 {
        CALLS_MAX
    }

    fn check(&mut self, session: &Session, cut: &mut Cut) -> BenchResult<()> {
        let mut there = BTreeMap::new();
        for row in scan::rows(session, self.layout, ALL)? {
            let [OwnedValue::Integer(id), OwnedValue::Text(text)] = row.as_slice() else {
                return Err(BenchError::Server(format!("not a list: {row:?}")));
            };
            match elements(*id, text) {
                Ok(list) => {
                    if there.insert(*id, list).is_some() {
                        cut.finding(format!("lists: {id} is there twice"));
                    }
                }
                Err(what) => cut.finding(format!("lists: {what}")),
            }
        }
        for (id, list) in &self.found {
            if there.get(id) != Some(list) {
                cut.finding(format!("lists: {id} is {:?}, an earlier check has seen {list:?}", there.get(id)));
            }
        }
        if !self.history.is_empty() {
            self.check_history(&there, cut);
            session.query(&format!("DELETE FROM torture_list WHERE id < {}", self.first))?;
            cut.changed = true;
        }
        self.make(session)
    }

    fn summary(&self) -> Option<String> {
        let Checked { histories, transactions, operations } = self.checked;
        Some(format!(
            "{histories} histories of lists were strictly serializable: {transactions} transactions, {operations} operations"
        ))
    }
}

impl Lists {
    /// The round's transactions, and one read of every list that was used, behind all of them.
    fn check_history(&mut self, there: &BTreeMap<i64, Vec<i64>>, cut: &mut Cut) {
        let mut history = std::mem::take(&mut self.history);
        let used: BTreeSet<i64> = history.iter().flat_map(Transaction::appends).map(|(key, _)| key).collect();
        for key in used {
            let list = there.get(&key).cloned().unwrap_or_default();
            let operations = vec![Operation::Read { key, list: list.clone() }];
            let outcome = TransactionOutcome::Committed;
            history.push(Transaction { began: u64::MAX, ended: u64::MAX, outcome, operations });
            self.found.insert(key, list);
        }
        // What was read by those that are not committed is not known.
        for transaction in history.iter_mut().filter(|one| one.outcome != TransactionOutcome::Committed) {
            transaction.operations.retain(|operation| matches!(operation, Operation::Append { .. }));
        }
        match check(&history) {
            Ok(figures) => {
                self.checked.histories += 1;
                self.checked.transactions += figures.transactions;
                self.checked.operations += figures.operations;
            }
            Err(anomaly) => cut.finding(format!("lists: {anomaly}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        assert_eq!(elements(1, ""), Ok(vec![]));
        assert_eq!(elements(1, ",7,12"), Ok(vec![7, 12]));
        assert!(elements(1, ",7,x").is_err());
        assert_eq!(
            procedure("RA"),
            "CREATE PROCEDURE torture_lists_ra AS BEGIN\n  SELECT list FROM torture_list WHERE id = ?;\n  \
             UPDATE torture_list SET list = list || ? WHERE id = ?;\nEND;"
        );
    }
}
