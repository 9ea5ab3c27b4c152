//! What must hold after every recovery, whatever happened before: each rule in a room of its own.

pub mod absent;
pub mod acknowledged;
pub mod atomic;
pub mod contents;
mod cycles;
pub mod indexes;
mod one_moment;
pub mod reads;
pub mod replicas;
pub mod restores;
pub mod schema;
pub mod stable;
pub mod steps;
mod two_homes;

use crate::history::History;
use crate::state::State;

/// Which rule was broken, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

type Check = fn(&History, &State) -> Result<(), String>;

struct Rule {
    name: &'static str,
    check: Check,
    /// Whether it holds too where something may be missing at the end.
    holds_for_a_beginning: bool,
}

const fn rule(name: &'static str, check: Check) -> Rule {
    Rule { name, check, holds_for_a_beginning: false }
}

const fn rule_for_a_beginning(name: &'static str, check: Check) -> Rule {
    Rule { name, check, holds_for_a_beginning: true }
}

/// In the order in which a fault is understood best.
const ALL: &[Rule] = &[
    rule_for_a_beginning("indexes and views equal a scan", indexes::check),
    rule_for_a_beginning("copies of replicated tables are equal", replicas::check),
    rule("the schema is one that was made", schema::check),
    rule_for_a_beginning("steps have no gap", steps::check),
    rule("what was acknowledged is there", acknowledged::check),
    rule_for_a_beginning("what failed or was refused is not there", absent::check),
    rule("what was recovered stays", stable::check),
    rule_for_a_beginning("a transaction is there on all its homes or on none", atomic::check),
    rule_for_a_beginning("rows are what the operations made", contents::check),
    rule("what was read is durable, and was so", reads::check),
    rule_for_a_beginning("a restore is there wholly or not at all", restores::check_whole),
    rule("what was told of a restore is so", restores::check),
];

fn check_rules(history: &History, state: &State, chosen: impl Fn(&Rule) -> bool) -> Result<(), Violation> {
    for rule in ALL.iter().filter(|rule| chosen(rule)) {
        (rule.check)(history, state).map_err(|detail| Violation { invariant: rule.name, detail })?;
    }
    Ok(())
}

/// Checks all of them against what a recovery found.
pub fn check(history: &History, state: &State) -> Result<(), Violation> {
    if let Some((invariant, detail)) = &history.violation {
        return Err(Violation { invariant, detail: detail.clone() });
    }
    check_rules(history, state, |_| true)
}

/// Checks that one order explains all that clients saw: what is left when [`check`] and all that
/// concerns single calls found nothing.
pub fn check_order(history: &History, state: &State) -> Result<(), Violation> {
    cycles::check(history, state)
        .map_err(|detail| Violation { invariant: "one order explains what clients saw", detail })
}

/// Checks that what is there is right in itself, though something may be missing at the end.
pub fn check_whole(history: &History, state: &State) -> Result<(), Violation> {
    check_rules(history, state, |rule| rule.holds_for_a_beginning)
}

/// Takes what a recovery found, after it was checked, as the truth from now on.
pub fn adopt(history: &mut History, state: &State) {
    history.recovered = state.marks.iter().map(|(home, marks)| (*home, marks.values().copied().collect())).collect();
    let present: std::collections::BTreeSet<usize> = history.recovered.values().flatten().copied().collect();
    for (number, operation) in history.operations.iter_mut().enumerate() {
        operation.absent = !present.contains(&number);
    }
    schema::adopt(history, state);
    restores::adopt(history, state);
    history.backups.clear();
    history.lost_unsaved = false;
}
