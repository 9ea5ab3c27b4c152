//! A history's dependencies, and the name of what a cycle shows.

use crate::anomaly::{Anomaly, AnomalyKind};
use crate::graph::{CycleStep, Edge, Graph};
use crate::history::{Element, ListKey, Operation, Transaction, TransactionOutcome};
use crate::lists::{Orders, Versions, orders, shortened};
use std::collections::{BTreeMap, HashMap};

/// Of a history that was checked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CheckedHistory {
    /// Those that took place.
    pub transactions: u64,
    pub operations: u64,
    pub edges: u64,
}

/// Checks a history of lists.
///
/// # Errors
/// If no serial execution in the order of real time explains it.
///
/// # Panics
/// If two transactions append the same element to a list.
pub fn check(history: &[Transaction]) -> Result<CheckedHistory, Anomaly> {
    let (orders, versions) = orders(history)?;
    check_versions(history, &orders, &versions)
}

/// Checks a history of which the order of the appends to each list is known, and how many of them
/// each transaction has seen. Reads in `history` itself are not looked at.
///
/// # Errors
/// If no serial execution in the order of real time explains it.
pub fn check_versions(
    history: &[Transaction],
    orders: &Orders,
    versions: &[Versions],
) -> Result<CheckedHistory, Anomaly> {
    assert_eq!(history.len(), versions.len(), "each transaction has seen something, or nothing");
    let places = places(orders);
    let took_place = |number: &usize| took_place(&history[*number], &places);
    let mut graph = Graph::new(history.len());
    let unseen = add_appends(&mut graph, history, orders, &places);
    for number in (0..history.len()).filter(took_place) {
        for (key, length) in &versions[number].reads {
            let order = orders.get(key).map_or(&[][..], Vec::as_slice);
            let writer = |place: usize| order.get(place).map(|element| unseen.writers[&(*key, *element)]);
            if let Some(before) = length.checked_sub(1).and_then(writer) {
                graph.depends(before, number, Edge::Wr);
            }
            match writer(*length) {
                Some(next) => graph.depends(number, next, Edge::Rw),
                None => {
                    let later = unseen.of.get(key).into_iter().flatten();
                    later.for_each(|later| graph.depends(number, *later, Edge::Rw));
                }
            }
        }
    }
    let times: Vec<(usize, u64, Option<u64>)> = (0..history.len())
        .filter(took_place)
        .map(|number| {
            let transaction = &history[number];
            let ended = (transaction.outcome == TransactionOutcome::Committed).then_some(transaction.ended);
            (number, transaction.began, ended)
        })
        .collect();
    let operations = times.iter().map(|(number, ..)| history[*number].operations.len() as u64).sum();
    graph.real_time(&times);
    match cycle(&graph) {
        None => Ok(CheckedHistory { transactions: times.len() as u64, operations, edges: graph.edges() as u64 }),
        Some(steps) => Err(Anomaly { kind: kind(&steps), text: described(&steps, history) }),
    }
}

/// By key and element, the place in the list.
fn places(orders: &Orders) -> HashMap<(ListKey, Element), usize> {
    let of_key = |(key, order): (&ListKey, &Vec<Element>)| -> Vec<((ListKey, Element), usize)> {
        order.iter().enumerate().map(|(place, element)| ((*key, *element), place)).collect()
    };
    orders.iter().flat_map(of_key).collect()
}

/// One whose outcome nobody knows took place if anything of it was seen.
fn took_place(transaction: &Transaction, places: &HashMap<(ListKey, Element), usize>) -> bool {
    match transaction.outcome {
        TransactionOutcome::Committed => true,
        TransactionOutcome::Aborted => false,
        TransactionOutcome::Unknown => transaction.appends().any(|append| places.contains_key(&append)),
    }
}

/// Appends that took place.
struct Appends {
    writers: HashMap<(ListKey, Element), usize>,
    /// By key, the transactions whose append no read has seen: they come behind all that were seen.
    of: BTreeMap<ListKey, Vec<usize>>,
}

fn add_appends(
    graph: &mut Graph,
    history: &[Transaction],
    orders: &Orders,
    places: &HashMap<(ListKey, Element), usize>,
) -> Appends {
    let mut appends = Appends { writers: HashMap::new(), of: BTreeMap::new() };
    for (number, transaction) in history.iter().enumerate() {
        if !took_place(transaction, places) {
            continue;
        }
        for (key, element) in transaction.appends() {
            appends.writers.insert((key, element), number);
            if !places.contains_key(&(key, element)) {
                appends.of.entry(key).or_default().push(number);
            }
        }
    }
    for (key, order) in orders {
        let writer = |element: &Element| appends.writers[&(*key, *element)];
        order.windows(2).for_each(|two| graph.depends(writer(&two[0]), writer(&two[1]), Edge::Ww));
        if let Some(last) = order.last() {
            let unseen = appends.of.get(key).into_iter().flatten();
            unseen.for_each(|later| graph.depends(writer(last), *later, Edge::Ww));
        }
    }
    appends
}

/// The worst cycle that there is: the fewer kinds of dependencies it needs, the worse.
fn cycle(graph: &Graph) -> Option<Vec<CycleStep>> {
    let all = [Edge::Ww, Edge::Wr, Edge::Rw, Edge::Time];
    let some = graph.cycle(&all)?;
    let fewer: [&[Edge]; 4] =
        [&[Edge::Ww], &[Edge::Ww, Edge::Wr], &[Edge::Ww, Edge::Wr, Edge::Rw], &[Edge::Ww, Edge::Wr, Edge::Time]];
    Some(fewer.iter().find_map(|allowed| graph.cycle(allowed)).unwrap_or(some))
}

fn kind(steps: &[CycleStep]) -> AnomalyKind {
    let count = |edge: Edge| steps.iter().filter(|step| step.edge == edge).count();
    match (count(Edge::Rw), count(Edge::Wr), count(Edge::Time) > 0) {
        (0, 0, false) => AnomalyKind::G0,
        (0, _, false) => AnomalyKind::G1c,
        (1, _, false) => AnomalyKind::GSingle,
        (_, _, false) => AnomalyKind::G2,
        (0, 0, true) => AnomalyKind::G0RealTime,
        (0, _, true) => AnomalyKind::G1cRealTime,
        (1, _, true) => AnomalyKind::GSingleRealTime,
        (_, _, true) => AnomalyKind::G2RealTime,
    }
}

fn described(steps: &[CycleStep], history: &[Transaction]) -> String {
    let mut text = String::new();
    for (place, step) in steps.iter().enumerate() {
        let next = steps[(place + 1) % steps.len()].from;
        let why = match step.edge {
            Edge::Ww => "its append is before one of",
            Edge::Wr => "what it appended was read by",
            Edge::Rw => "it had not seen an append of",
            Edge::Time => "it had ended before the beginning of",
        };
        text.push_str(&format!("{}; {why} transaction {next}. ", one(step.from, &history[step.from])));
    }
    text.trim_end().to_owned()
}

fn one(number: usize, transaction: &Transaction) -> String {
    let operation = |operation: &Operation| match operation {
        Operation::Append { key, element } => format!("{key} += {element}"),
        Operation::Read { key, list } => format!("{key} = {}", shortened(list)),
    };
    let operations: Vec<String> = transaction.operations.iter().map(operation).collect();
    let ended = match transaction.outcome {
        TransactionOutcome::Committed => format!("to {}", transaction.ended),
        TransactionOutcome::Aborted => "not executed".to_owned(),
        TransactionOutcome::Unknown => "outcome unknown".to_owned(),
    };
    format!("transaction {number} ({}, {ended}): {}", transaction.began, operations.join(", "))
}
