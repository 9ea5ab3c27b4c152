//! Every row is what the operations that are there have made of it, one after the other, and there
//! is no other row.

use crate::history::History;
use crate::model::Home;
use crate::operation::RATES;
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};

pub fn check(history: &History, state: &State) -> Result<(), String> {
    let mut items = BTreeMap::new();
    let mut balances = BTreeMap::new();
    let mut scratch = BTreeSet::new();
    let mut touched = BTreeSet::new();
    let mut rates = BTreeMap::new();
    for (home, marks) in &state.marks {
        let mut model = Home::default();
        for number in marks.values() {
            model.step(*home, *number, &history.operations[*number])?;
        }
        if *home == RATES {
            rates = model.rates;
            continue;
        }
        items.extend(model.items.into_iter().map(|(id, item)| ((*home, id), item)));
        balances.insert(*home, model.balance.unwrap_or_default());
        scratch.extend(model.scratch.into_iter().map(|id| (*home, id)));
        touched.extend(model.touched.into_iter().map(|number| (*home, number)));
    }
    same("items", &state.items, &items)?;
    same("accounts", &state.balances, &balances)?;
    same("rates", &state.rates, &rates)?;
    if state.scratch != scratch {
        return Err(format!("scratch holds {:?}, should hold {scratch:?}", state.scratch));
    }
    // Sessions expire: those that are there were made, and those that are not there were old.
    if let Some(other) = state.sessions.difference(&touched).next() {
        return Err(format!("session {other:?} was never made"));
    }
    let cutoff = history.cutoff();
    for lost in touched.difference(&state.sessions) {
        let Some(cutoff) = cutoff else {
            return Err(format!("session {lost:?} is gone, and nothing has expired"));
        };
        let early = history.operations[lost.1].now_min.map_or(0, |time| time - cutoff);
        if early > 0 {
            return Err(format!("session {lost:?} is gone {early} us before its time"));
        }
    }
    Ok(())
}

fn same<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    table: &str,
    is: &BTreeMap<K, V>,
    should: &BTreeMap<K, V>,
) -> Result<(), String> {
    let keys: BTreeSet<&K> = is.keys().chain(should.keys()).collect();
    match keys.into_iter().find(|key| is.get(key) != should.get(key)) {
        Some(key) => {
            let short = |value: Option<&V>| format!("{value:?}").chars().take(120).collect::<String>();
            Err(format!("{table} {key:?} is {}, should be {}", short(is.get(key)), short(should.get(key))))
        }
        None => Ok(()),
    }
}
