//! What a database must hold after given operations, worked out the plain way.

use crate::history::Operation;
use crate::operation::Item;
use crate::operation::{Action, body_text, name_text};
use std::collections::{BTreeMap, BTreeSet};

/// One home after some of its steps. For the home of the replicated tables only `rates` is used.
#[derive(Clone, Default)]
pub struct Home {
    pub items: BTreeMap<i64, Item>,
    pub balance: Option<i64>,
    pub scratch: BTreeSet<i64>,
    pub touched: BTreeSet<usize>,
    pub rates: BTreeMap<i64, i64>,
}

impl Home {
    /// Err where the database should have refused the operation.
    pub fn step(&mut self, home: i64, number: usize, operation: &Operation) -> Result<(), String> {
        let refused =
            |why: &str| Err(format!("operation {number} {:?} should have been refused: {why}", operation.action));
        if home >= 0 {
            self.balance.get_or_insert(1_000);
        }
        let balance = self.balance.get_or_insert(0);
        match operation.action {
            Action::Put { item, value, name, body, .. } => {
                let name = name.map(name_text);
                let taken = |(id, other): (&i64, &Item)| *id != item && other.1 == name;
                if name.is_some() && self.items.iter().any(taken) {
                    return refused("another item has the name");
                }
                self.items.insert(item, (value, name, Some(body_text(number, body))));
            }
            Action::Remove { item, .. } => drop(self.items.remove(&item)),
            Action::Bump { delta, .. } => {
                for item in self.items.values_mut() {
                    item.0 = item.0.map(|value| value + delta);
                }
                self.scratch.insert(number as i64);
            }
            Action::Touch { .. } => drop(self.touched.insert(number)),
            Action::Transfer { from, to, amount } => {
                if home == to {
                    *balance += amount;
                }
                if home == from {
                    *balance -= amount;
                }
                if *balance < 0 {
                    return refused("the account is overdrawn");
                }
            }
            Action::Clear { .. } => self.scratch.clear(),
            Action::Rate { item, value } => drop(self.rates.insert(item, value)),
            Action::Spoil { .. } | Action::Look { .. } | Action::Both { .. } | Action::Cut | Action::Expire => {
                return refused("it changes nothing, or fails");
            }
            Action::Schema { .. }
            | Action::Pause { .. }
            | Action::Load { .. }
            | Action::Restore { .. }
            | Action::Discard
            | Action::Peek { .. } => {
                return refused("it leaves no mark");
            }
        }
        Ok(())
    }

    /// Rows, sum, least and greatest value: what the view of a home shows.
    pub fn totals(&self) -> Option<crate::operation::Totals> {
        let values = || self.items.values().filter_map(|item| item.0);
        let sum = values().next().is_some().then(|| values().sum());
        (!self.items.is_empty()).then(|| (self.items.len() as i64, sum, values().min(), values().max()))
    }
}
