//! The rule about a paused database (docs/decisions/0085-pausing-a-cluster.md). Between the answer
//! to a pause and the next resume no write of a client is executed, whichever node leads. Behind
//! the answer to a resume writes are taken.

use crate::history::Operation;
use crate::operation::{Action, Answer, Told};
use std::collections::BTreeMap;

/// What administrators were told.
#[derive(Default)]
pub struct Pauses {
    known: Known,
    /// The call that has no answer yet.
    asked: Option<usize>,
    /// Calls that were sent while it was known to be paused, from and up to a number.
    over: Vec<(usize, usize)>,
    /// Reads that were compared with others of the same pause.
    pub compared: u64,
}

enum Known {
    /// Something else was asked since it was known.
    No,
    Resumed,
    /// Calls with this number and later ones were sent behind the answer. By home, what reads have
    /// shown since.
    Paused {
        since: usize,
        steps: BTreeMap<i64, i64>,
    },
}

impl Default for Known {
    /// As a database begins.
    fn default() -> Known {
        Known::Resumed
    }
}

impl Pauses {
    pub fn is_paused(&self) -> bool {
        matches!(self.known, Known::Paused { .. })
    }

    pub fn is_resumed(&self) -> bool {
        matches!(self.known, Known::Resumed)
    }

    pub fn is_under_way(&self) -> bool {
        self.asked.is_some()
    }

    /// An administrator asks for it.
    pub fn asks(&mut self, number: usize, paused: bool) {
        self.asked = Some(number);
        match &self.known {
            Known::Paused { since, .. } if !paused => self.over.push((*since, number)),
            Known::Resumed if paused => {}
            _ => return,
        }
        self.known = Known::No;
    }

    /// A call has its answer; `next`: the number of the next call. What is wrong with it.
    pub fn heard(&mut self, number: usize, operation: &mut Operation, next: usize) -> Option<String> {
        if let Action::Pause { paused } = operation.action {
            self.asked = self.asked.filter(|asked| *asked != number);
            if let Told::Done(_) = operation.told {
                match paused {
                    true if self.is_paused() => {}
                    true => self.known = Known::Paused { since: next, steps: BTreeMap::new() },
                    false => self.known = Known::Resumed,
                }
            }
            return None;
        }
        if operation.action.is_write_of_a_client() {
            self.writes(number, operation)
        } else {
            self.reads(number, operation)
        }
    }

    fn writes(&self, number: usize, operation: &mut Operation) -> Option<String> {
        let now = matches!(self.known, Known::Paused { since, .. } if number >= since);
        let before = self.over.iter().any(|(since, until)| (*since..*until).contains(&number));
        if !now && !before {
            return None;
        }
        match operation.told {
            Told::Done(_) => Some(format!("operation {number} {:?} was executed in a pause", operation.action)),
            Told::Unknown => {
                // It must not be there: `absent` looks.
                operation.absent = true;
                None
            }
            _ => None,
        }
    }

    /// Each write that was executed shows in the steps of its homes.
    fn reads(&mut self, number: usize, operation: &Operation) -> Option<String> {
        let Known::Paused { since, steps } = &mut self.known else { return None };
        if number < *since {
            return None;
        }
        let shown: Vec<(i64, i64)> = match (&operation.action, &operation.told) {
            (Action::Look { home, .. }, Told::Done(Answer::Looked(looked))) => vec![(*home, looked.step)],
            (Action::Cut, Told::Done(Answer::Cut(cut))) => steps
                .keys()
                .chain(cut.steps.keys())
                .map(|home| (*home, cut.steps.get(home).copied().unwrap_or(0)))
                .collect(),
            _ => return None,
        };
        for (home, step) in shown {
            let known = *steps.entry(home).or_insert(step);
            if known != step {
                return Some(format!(
                    "operation {number} read step {step} of home {home}, and step {known} was read before"
                ));
            }
            self.compared += 1;
        }
        None
    }

    /// All calls have their answers.
    pub fn at_rest(&mut self) {
        self.over.clear();
    }
}
