//! Some serial execution in the order of real time explains all that clients were told: a search
//! for cycles ([`ferrite_isolation`]).
//!
//! Every home is a list to which each operation that leaves a mark on it appends its number. So the
//! marks are the order of the appends, and a step that a read shows is the number of those that it
//! has seen. Earlier rules have shown that marks are of operations that may have taken place.

use crate::history::{History, Operation};
use crate::operation::{Action, Answer, RATES, Told};
use crate::state::State;
use ferrite_isolation::lists::{Orders, Versions};
use ferrite_isolation::{Operation as Access, Transaction, TransactionOutcome, check_versions};

pub fn check(history: &History, state: &State) -> Result<(), String> {
    let elements =
        |marks: &std::collections::BTreeMap<i64, usize>| marks.values().map(|number| *number as i64).collect();
    let orders: Orders = state.marks.iter().map(|(home, marks)| (*home, elements(marks))).collect();
    // Of each operation, in the order of their numbers.
    let mut transactions: Vec<Transaction> = history.operations.iter().map(transaction).collect();
    for (home, marks) in &state.marks {
        for number in marks.values() {
            transactions[*number].operations.push(Access::Append { key: *home, element: *number as i64 });
        }
    }
    let versions: Vec<Versions> =
        history.operations.iter().map(|operation| Versions { reads: steps(operation, state) }).collect();
    if check_versions(&transactions, &orders, &versions).is_ok() {
        return Ok(());
    }
    // Once more with the reads, for the text.
    for (transaction, of) in transactions.iter_mut().zip(&versions) {
        for (home, step) in &of.reads {
            let list = orders.get(home).map_or(Vec::new(), |order| order[..*step].to_vec());
            transaction.operations.push(Access::Read { key: *home, list });
        }
    }
    check_versions(&transactions, &orders, &versions).map(drop).map_err(|anomaly| anomaly.to_string())
}

fn transaction(operation: &Operation) -> Transaction {
    let outcome = match operation.told {
        Told::Done(_) => TransactionOutcome::Committed,
        Told::Failed(_) | Told::Refused(_) => TransactionOutcome::Aborted,
        Told::Nothing | Told::Unknown => TransactionOutcome::Unknown,
    };
    Transaction { began: operation.began, ended: operation.ended, outcome, operations: Vec::new() }
}

/// Homes, and the step of each that a read has shown.
fn steps(operation: &Operation, state: &State) -> Vec<(i64, usize)> {
    let Told::Done(answer) = &operation.told else { return Vec::new() };
    match answer {
        Answer::Looked(looked) => match operation.action {
            Action::Look { home, .. } => vec![(home, looked.step as usize)],
            _ => Vec::new(),
        },
        Answer::Both(both) => both.iter().map(|(home, step, _)| (*home, *step as usize)).collect(),
        Answer::Cut(cut) => {
            // A home that is not in it had no step yet.
            let of = |home: i64| cut.steps.get(&home).copied().unwrap_or_default();
            let step = |home: i64| if home == RATES { cut.rates } else { of(home) };
            state.marks.keys().map(|home| (*home, step(*home) as usize)).collect()
        }
        Answer::Steps(_) | Answer::Peeked(_) | Answer::Other => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What clients do, one after the other: each is sent and answered before the next.
    #[derive(Default)]
    struct Made {
        history: History,
        state: State,
    }

    impl Made {
        fn begin(&mut self, action: Action) -> usize {
            self.history.begin(action, 0)
        }

        fn write(&mut self, home: i64) {
            let number = self.begin(Action::Touch { home });
            self.mark(home, number);
            let step = self.state.marks[&home].len() as i64;
            self.history.note_answer(number, Told::Done(Answer::Steps(vec![(home, step)])));
        }

        fn mark(&mut self, home: i64, number: usize) {
            let marks = self.state.marks.entry(home).or_default();
            marks.insert(marks.len() as i64 + 1, number);
        }

        fn answer(&mut self, number: usize, steps: [(i64, i64); 2]) {
            let both = steps.map(|(home, step)| (home, step, 0));
            self.history.note_answer(number, Told::Done(Answer::Both(both)));
        }

        fn found(&self) -> String {
            check(&self.history, &self.state).err().unwrap_or_default()
        }
    }

    #[test]
    fn a_read_of_two_homes_shows_one_moment_though_no_write_concerns_both() {
        for (steps, expected) in [([0, 0], ""), ([1, 0], ""), ([1, 1], ""), ([0, 1], "GSingleRealTime")] {
            let mut made = Made::default();
            let read = made.begin(Action::Both { homes: [3, 4] });
            made.write(3);
            made.write(4);
            made.answer(read, [(3, steps[0]), (4, steps[1])]);
            let found = made.found();
            assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{steps:?}: {found}");
        }
    }

    #[test]
    fn two_reads_see_two_writes_in_one_order() {
        let mut made = Made::default();
        let reads = [(); 2].map(|()| made.begin(Action::Both { homes: [3, 4] }));
        let writes = [3, 4].map(|home| (home, made.begin(Action::Touch { home })));
        for (home, number) in writes {
            made.mark(home, number);
        }
        made.answer(reads[0], [(3, 1), (4, 0)]);
        assert_eq!(made.found(), "");
        made.answer(reads[1], [(3, 0), (4, 1)]);
        let found = made.found();
        assert!(found.starts_with("G2: ") && found.contains("3 = [2], 4 = []"), "{found}");
    }

    #[test]
    fn what_nobody_knows_counts_when_it_was_seen() {
        let mut made = Made::default();
        let write = made.begin(Action::Transfer { from: 3, to: 4, amount: 1 });
        made.history.note_answer(write, Told::Unknown);
        assert_eq!(made.found(), "");
        [3, 4].into_iter().for_each(|home| made.mark(home, write));
        let read = made.begin(Action::Both { homes: [3, 4] });
        made.answer(read, [(3, 1), (4, 0)]);
        assert!(made.found().starts_with("GSingle: "), "{}", made.found());
    }
}
