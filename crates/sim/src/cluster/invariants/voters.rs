//! What the metadata's voters have applied is one history: the same state after as many commands.

use super::noted;
use crate::cluster::ledger::Book;
use ferrite_base::NodeId;
use ferrite_meta::State;
use std::sync::Arc;

const NAME: &str = "voters agree on what they have applied";

pub fn note(book: &mut Book, voter: NodeId, index: u64, state: &State) {
    if book.last_noted.insert(voter, index) == Some(index) {
        return;
    }
    let hash = state.hash();
    let known = *book.states.entry(index).or_insert(hash);
    if known != hash {
        noted(&mut book.violation, NAME, format!("voter {voter} has another state after command {index}"));
    }
    for (id, group) in state.groups() {
        let configuration = &group.configuration;
        let of = book.groups.entry(*id).or_default();
        let known = of.configurations.entry(configuration.epoch).or_insert_with(|| configuration.clone());
        if known != configuration {
            noted(&mut book.violation, NAME, format!("voter {voter} has {configuration:?}, and {known:?} was known"));
        }
    }
    if index > book.known.0 {
        book.known = (index, Arc::new(state.clone()));
    }
}
