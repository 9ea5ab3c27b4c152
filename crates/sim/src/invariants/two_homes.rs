//! A read of two homes shows one moment: each transfer between them on both, or on neither.

use crate::history::History;
use crate::operation::Action;
use crate::state::State;
use std::collections::BTreeMap;

/// `both`: home, step and balance. `balances`: of each home behind each of its steps.
pub fn check(
    history: &History,
    state: &State,
    balances: &BTreeMap<i64, Vec<i64>>,
    both: &[(i64, i64, i64); 2],
) -> Result<(), String> {
    let [one, other] = both;
    let steps = [(one.0, one.1), (other.0, other.1)];
    let mut shown: BTreeMap<usize, [bool; 2]> = BTreeMap::new();
    for (place, (home, step)) in steps.into_iter().enumerate() {
        let marks = state.marks.get(&home).ok_or_else(|| format!("home {home}, which is not there"))?;
        if step > marks.len() as i64 {
            return Err(format!("home {home} at step {step}, but only {} are there", marks.len()));
        }
        for (at, number) in marks {
            let is_between = |home: i64| home == one.0 || home == other.0;
            if let Action::Transfer { from, to, .. } = history.operations[*number].action
                && is_between(from)
                && is_between(to)
                && !history.operations[*number].torn
            {
                shown.entry(*number).or_default()[place] = *at <= step;
            }
        }
    }
    if let Some((number, _)) = shown.iter().find(|(_, [first, second])| first != second) {
        let action = &history.operations[*number].action;
        return Err(format!("only a part of operation {number} {action:?}: homes and steps {steps:?}"));
    }
    for (home, step, balance) in both {
        let expected = balances.get(home).and_then(|list| list.get((*step - 1) as usize));
        if expected != Some(balance) {
            return Err(format!("balance {balance} of home {home} at step {step}, which was {expected:?}"));
        }
    }
    Ok(())
}
