//! A read that was answered showed a state that is part of the durable history: nothing in it was
//! lost later, and it was one moment's.

use crate::history::History;
use crate::invariants::{one_moment, two_homes};
use crate::model::Home;
use crate::operation::{Action, Answer, Cut, Looked, Told};
use crate::state::State;
use std::collections::BTreeMap;

pub fn check(history: &History, state: &State) -> Result<(), String> {
    let mut looks: BTreeMap<i64, Vec<(usize, i64, &Looked)>> = BTreeMap::new();
    let mut cuts: Vec<(usize, &Cut)> = Vec::new();
    let mut pairs = Vec::new();
    for (number, operation) in history.operations.iter().enumerate() {
        match (&operation.action, &operation.told) {
            (Action::Look { home, item }, Told::Done(Answer::Looked(looked))) => {
                looks.entry(*home).or_default().push((number, *item, looked));
            }
            (Action::Cut, Told::Done(Answer::Cut(cut))) => cuts.push((number, cut)),
            (Action::Both { .. }, Told::Done(Answer::Both(both))) => pairs.push((number, both)),
            _ => {}
        }
    }
    let mut balances: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let homes: std::collections::BTreeSet<i64> = looks.keys().chain(state.marks.keys()).copied().collect();
    for home in homes {
        let mut looks = looks.remove(&home).unwrap_or_default();
        looks.sort_by_key(|(_, _, looked)| looked.step);
        let mut model = Home::default();
        let mut looks = looks.into_iter().peekable();
        let mut step = 0;
        let empty = BTreeMap::new();
        let mut marks = state.marks.get(&home).unwrap_or(&empty).values();
        loop {
            while let Some((number, item, looked)) = looks.next_if(|(_, _, looked)| looked.step == step) {
                compare(&model, item, looked).map_err(|what| format!("operation {number} read home {home} {what}"))?;
            }
            let Some(number) = marks.next() else { break };
            model.step(home, *number, &history.operations[*number])?;
            step += 1;
            balances.entry(home).or_default().push(model.balance.unwrap_or_default());
        }
        if let Some((number, _, looked)) = looks.next() {
            return Err(format!(
                "operation {number} read home {home} at step {}, but only {step} are there",
                looked.step
            ));
        }
    }
    for (number, cut) in &cuts {
        check_cut(state, &balances, cut).map_err(|what| format!("operation {number} read {what}"))?;
    }
    for (number, both) in pairs {
        two_homes::check(history, state, &balances, both).map_err(|what| format!("operation {number} read {what}"))?;
    }
    one_moment::check(history, state, &cuts)
}

fn compare(model: &Home, item: i64, looked: &Looked) -> Result<(), String> {
    let known = looked.step > 0;
    let expected = Looked {
        step: looked.step,
        item: model.items.get(&item).cloned(),
        totals: model.totals(),
        balance: if known { model.balance } else { None },
    };
    if *looked == expected {
        return Ok(());
    }
    let short = |looked: &Looked| format!("{looked:?}").chars().take(300).collect::<String>();
    Err(format!("as {}, which was {}", short(looked), short(&expected)))
}

fn check_cut(state: &State, balances: &BTreeMap<i64, Vec<i64>>, cut: &Cut) -> Result<(), String> {
    for (home, step) in cut.all_steps() {
        let there = state.marks.get(&home).map_or(0, |marks| marks.len() as i64);
        if step > there {
            return Err(format!("home {home} at step {step}, but only {there} are there"));
        }
    }
    for (home, balance) in &cut.balances {
        let step = cut.steps.get(home).copied().unwrap_or_default();
        let expected = balances.get(home).and_then(|list| list.get((step - 1) as usize));
        if expected != Some(balance) {
            return Err(format!("balance {balance} of home {home} at step {step}, which was {expected:?}"));
        }
    }
    let mut by_value: BTreeMap<Option<i64>, i64> = BTreeMap::new();
    for value in cut.items.values() {
        *by_value.entry(*value).or_default() += 1;
    }
    if by_value != cut.by_value {
        return Err(format!("a view as {:?} over rows that make {by_value:?}", cut.by_value));
    }
    Ok(())
}
