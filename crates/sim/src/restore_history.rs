//! Two tables that are filled by restores only, and what is known of them.
//!
//! Nobody else writes rows there, so they hold all rows of the backup or none, at every moment and
//! after every crash.

use crate::operation::{Action, Answer, Item, Told, body_text};
use ferrite_io::simulated::SimulatedRandom;
use std::collections::BTreeMap;

/// Its rows fit.
pub const GOOD: &str = "good";
/// One of its rows breaks a constraint of the database that it is restored into.
pub const BAD: &str = "bad";

/// The rows of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    pub restored: BTreeMap<i64, Item>,
    pub codes: BTreeMap<i64, Option<String>>,
}

impl Rows {
    pub fn new(random: &mut SimulatedRandom) -> Rows {
        let mut rows = Rows::default();
        for _ in 0..1 + random.below(40) {
            let id = random.below(1_000) as i64;
            let value = (!random.percent(20)).then(|| random.below(8) as i64);
            let name = (!random.percent(20)).then(|| format!("name {}", random.below(50)));
            let body = match random.below(12) {
                0 => Some(body_text(id as usize, random.below(30_000) as usize)),
                1 => None,
                _ => Some(body_text(id as usize, random.below(200) as usize)),
            };
            rows.restored.insert(id, (value, name, body));
        }
        for code in 0..1 + random.below(6) as i64 {
            rows.codes.insert(code, (!random.percent(20)).then(|| format!("word {}", random.below(3))));
        }
        rows
    }

    pub fn is_empty(&self) -> bool {
        self.restored.is_empty() && self.codes.is_empty()
    }
}

/// What is known of the two tables.
#[derive(Clone, Debug)]
pub struct RestoreHistory {
    /// What a restore brings.
    pub rows: Rows,
    /// Full or empty, after each change that is known to have been made.
    pub full: Vec<bool>,
    /// A change whose outcome is not known.
    pub outstanding: Option<Change>,
}

#[derive(Clone, Debug)]
pub struct Change {
    /// Of the operation.
    pub number: usize,
    /// What it makes of the tables.
    pub full: bool,
    /// Somebody was shown that it took place.
    pub seen: bool,
}

impl Default for RestoreHistory {
    fn default() -> RestoreHistory {
        RestoreHistory { rows: Rows::default(), full: vec![false], outstanding: None }
    }
}

impl RestoreHistory {
    pub fn is_full(&self) -> bool {
        *self.full.last().expect("the first state is known")
    }

    /// Takes an operation's answer for what it says of the two tables.
    pub fn record(&mut self, number: usize, action: &Action, told: &Told) -> Result<(), String> {
        match (action, told) {
            (Action::Peek { since }, Told::Done(Answer::Peeked(counts))) => {
                return self.shown(*since, *counts).map_err(|what| format!("operation {number} saw {what}"));
            }
            (Action::Restore { .. }, Told::Done(_)) if self.is_full() => {
                return Err(format!("operation {number} restored into tables that had rows"));
            }
            (Action::Restore { backup: BAD }, Told::Done(_)) => {
                return Err(format!("operation {number} restored a row that breaks a constraint"));
            }
            _ => {}
        }
        let Some(change) = self.outstanding.take_if(|change| change.number == number && *told != Told::Unknown) else {
            return Ok(());
        };
        match told {
            Told::Done(_) => self.full.push(change.full),
            _ if change.seen => return Err(format!("operation {number} has failed, and somebody saw it done")),
            _ => {}
        }
        Ok(())
    }

    /// What a reader was shown that was sent when `since` changes were known: rows and rows of
    /// views, of both tables.
    fn shown(&mut self, since: usize, counts: [i64; 4]) -> Result<(), String> {
        let restored = self.rows.restored.len() as i64;
        let codes = self.rows.codes.len() as i64;
        let full = match counts {
            [0, 0, 0, 0] => false,
            all if all == [restored, restored, codes, codes] => true,
            _ => return Err(format!("{counts:?} rows, which is a part of a restore of {restored} and {codes}")),
        };
        if self.full[since - 1..].contains(&full) {
            return Ok(());
        }
        match &mut self.outstanding {
            Some(change) if change.full == full => {
                change.seen = true;
                Ok(())
            }
            _ => Err(format!("{counts:?} rows, though nobody had made it so")),
        }
    }
}
