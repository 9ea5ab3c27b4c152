//! What lists say by themselves: the order of the appends to each, and what no list may show.
//!
//! A list only grows, so every list that was read is the beginning of the longest one. After this
//! room, a read is a number: how many elements it has seen.

use crate::anomaly::{Anomaly, AnomalyKind};
use crate::history::{Element, ListKey, Operation, Transaction, TransactionOutcome};
use std::collections::{BTreeMap, HashMap};

/// By key, the appends that were seen, in their order.
pub type Orders = BTreeMap<ListKey, Vec<Element>>;

/// Of one transaction.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Versions {
    /// How many elements it saw of a list, without its own.
    pub reads: Vec<(ListKey, usize)>,
}

/// The orders, and what each transaction saw.
///
/// # Errors
/// If a list shows what none may.
pub fn orders(history: &[Transaction]) -> Result<(Orders, Vec<Versions>), Anomaly> {
    let mut longest: BTreeMap<ListKey, (usize, &[Element])> = BTreeMap::new();
    for (number, key, list) in reads(history) {
        let known = longest.entry(key).or_insert((number, list));
        if list.len() > known.1.len() {
            *known = (number, list);
        }
    }
    for (number, key, list) in reads(history) {
        let (other, all) = longest[&key];
        if !all.starts_with(list) {
            let text = format!(
                "list {key} was read as {} by transaction {number}, and as {} by transaction {other}",
                shortened(list),
                shortened(all)
            );
            return Err(Anomaly { kind: AnomalyKind::IncompatibleOrder, text });
        }
    }
    let writers = writers(history);
    for (key, (number, list)) in &longest {
        may_be_shown(history, &writers, *key, *number, list)?;
    }
    let versions = history.iter().enumerate().map(|(number, transaction)| versions(number, transaction));
    let versions = versions.collect::<Result<Vec<Versions>, Anomaly>>()?;
    for (number, of) in versions.iter().enumerate() {
        for (key, length) in &of.reads {
            is_at_an_end(history, &writers, number, *key, &longest[key].1[..*length])?;
        }
    }
    let orders = longest.into_iter().map(|(key, (_, list))| (key, list.to_vec())).collect();
    Ok((orders, versions))
}

fn reads(history: &[Transaction]) -> impl Iterator<Item = (usize, ListKey, &[Element])> {
    let committed = |(_, transaction): &(usize, &Transaction)| transaction.outcome == TransactionOutcome::Committed;
    history.iter().enumerate().filter(committed).flat_map(|(number, transaction)| {
        transaction.operations.iter().filter_map(move |operation| match operation {
            Operation::Read { key, list } => Some((number, *key, &list[..])),
            Operation::Append { .. } => None,
        })
    })
}

type Writers = HashMap<(ListKey, Element), usize>;

/// Which transaction has appended what.
fn writers(history: &[Transaction]) -> Writers {
    let mut writers = Writers::new();
    for (number, transaction) in history.iter().enumerate() {
        for append in transaction.appends() {
            let other = writers.insert(append, number);
            assert!(other.is_none(), "transactions {other:?} and {number} append the same element: {append:?}");
        }
    }
    writers
}

/// A list shows appends that took place, each once, and those of a transaction beside each other.
fn may_be_shown(
    history: &[Transaction],
    writers: &Writers,
    key: ListKey,
    number: usize,
    list: &[Element],
) -> Result<(), Anomaly> {
    let wrong = |kind, what: String| {
        let text = format!("list {key} was read by transaction {number} as {}: {what}", shortened(list));
        Err(Anomaly { kind, text })
    };
    let mut seen = HashMap::new();
    let mut last: Option<usize> = None;
    for (place, element) in list.iter().enumerate() {
        let Some(writer) = writers.get(&(key, *element)).copied() else {
            return wrong(AnomalyKind::UnknownElement, format!("nobody has appended {element}"));
        };
        if let Some(before) = seen.insert(*element, place) {
            return wrong(AnomalyKind::Duplicate, format!("{element} is there at places {before} and {place}"));
        }
        if history[writer].outcome == TransactionOutcome::Aborted {
            return wrong(
                AnomalyKind::AbortedRead,
                format!("transaction {writer}, which appended {element}, was not executed"),
            );
        }
        if last != Some(writer) {
            let own = appends_to(&history[writer], key);
            if list.len() - place >= own.len() && !list[place..].starts_with(&own) {
                return wrong(
                    AnomalyKind::Torn,
                    format!("the appends {own:?} of transaction {writer} are not together"),
                );
            }
        }
        last = Some(writer);
    }
    Ok(())
}

fn appends_to(transaction: &Transaction, key: ListKey) -> Vec<Element> {
    transaction.appends().filter(|(to, _)| *to == key).map(|(_, element)| element).collect()
}

/// What another transaction appends to a list is seen whole or not at all.
fn is_at_an_end(
    history: &[Transaction],
    writers: &Writers,
    number: usize,
    key: ListKey,
    list: &[Element],
) -> Result<(), Anomaly> {
    let Some(last) = list.last() else { return Ok(()) };
    let writer = writers[&(key, *last)];
    let own = appends_to(&history[writer], key);
    if writer == number || own.last() == Some(last) {
        return Ok(());
    }
    let text =
        format!("transaction {number} read {} of the appends {own:?} of transaction {writer} to list {key}", last);
    Err(Anomaly { kind: AnomalyKind::IntermediateRead, text })
}

/// What a transaction saw, without its own appends, which its later reads must show.
fn versions(number: usize, transaction: &Transaction) -> Result<Versions, Anomaly> {
    let mut versions = Versions::default();
    if transaction.outcome != TransactionOutcome::Committed {
        return Ok(versions);
    }
    // By key, what its own operations have made of the list: how long it was, own appends since.
    let mut own: HashMap<ListKey, (Option<usize>, Vec<Element>)> = HashMap::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Append { key, element } => own.entry(*key).or_default().1.push(*element),
            Operation::Read { key, list } => {
                let (before, appended) = own.entry(*key).or_default();
                let others = list.len().checked_sub(appended.len()).filter(|others| list[*others..] == appended[..]);
                let others = others.filter(|others| before.is_none_or(|before| before == *others));
                let Some(others) = others else {
                    let text = format!(
                        "transaction {number} read list {key} as {}, after it had appended {appended:?} to {before:?} elements",
                        shortened(list)
                    );
                    return Err(Anomaly { kind: AnomalyKind::Internal, text });
                };
                *before = Some(others);
                versions.reads.push((*key, others));
            }
        }
    }
    Ok(versions)
}

/// The end of a list says the most.
pub(crate) fn shortened(list: &[Element]) -> String {
    const SHOWN_MAX: usize = 12;
    match list.len().checked_sub(SHOWN_MAX) {
        None | Some(0) => format!("{list:?}"),
        Some(more) => format!("({more} more) {:?}", &list[more..]),
    }
}
