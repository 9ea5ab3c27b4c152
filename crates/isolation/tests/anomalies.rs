//! What the check finds: each anomaly by hand, and made-up histories against a plain search for a
//! serial execution.

use ferrite_isolation::{AnomalyKind, Operation, Transaction, TransactionOutcome, check};
use std::collections::BTreeMap;

fn append(key: i64, element: i64) -> Operation {
    Operation::Append { key, element }
}

fn read(key: i64, list: &[i64]) -> Operation {
    Operation::Read { key, list: list.to_vec() }
}

/// One that is committed, and overlaps all others that have no times of their own.
fn done(operations: &[Operation]) -> Transaction {
    at(0, 100, operations)
}

fn at(began: u64, ended: u64, operations: &[Operation]) -> Transaction {
    Transaction { began, ended, outcome: TransactionOutcome::Committed, operations: operations.to_vec() }
}

fn with(outcome: TransactionOutcome, transaction: Transaction) -> Transaction {
    Transaction { outcome, ..transaction }
}

fn found(history: &[Transaction]) -> Option<AnomalyKind> {
    check(history).err().map(|anomaly| anomaly.kind)
}

#[test]
fn serial_histories_are_none() {
    assert_eq!(found(&[]), None);
    let history = [
        at(0, 1, &[append(1, 1), append(2, 1)]),
        at(2, 3, &[read(1, &[1]), append(1, 2), read(1, &[1, 2]), read(2, &[1])]),
        at(4, 5, &[read(1, &[1, 2]), read(2, &[1]), read(3, &[])]),
    ];
    let figures = check(&history).expect("nothing is wrong");
    assert_eq!((figures.transactions, figures.operations), (3, 9));
    // What nobody knows the outcome of, and what nobody has seen, may have been executed or not.
    let unknown = with(TransactionOutcome::Unknown, at(0, 0, &[append(1, 9)]));
    assert_eq!(found(&[unknown.clone(), at(5, 6, &[read(1, &[])])]), None);
    assert_eq!(found(&[unknown, at(5, 6, &[read(1, &[])]), at(7, 8, &[read(1, &[9])])]), None);
}

#[test]
fn what_no_list_may_show_is_found() {
    let cases: [(AnomalyKind, Vec<Transaction>); 7] = [
        (AnomalyKind::UnknownElement, vec![done(&[read(1, &[7])])]),
        (AnomalyKind::Duplicate, vec![done(&[append(1, 7)]), done(&[read(1, &[7, 7])])]),
        (
            AnomalyKind::AbortedRead,
            vec![with(TransactionOutcome::Aborted, done(&[append(1, 7)])), done(&[read(1, &[7])])],
        ),
        (AnomalyKind::IntermediateRead, vec![done(&[append(1, 7), append(1, 8)]), done(&[read(1, &[7])])]),
        (AnomalyKind::Internal, vec![done(&[append(1, 7), read(1, &[])]), done(&[read(1, &[7])])]),
        (
            AnomalyKind::IncompatibleOrder,
            vec![done(&[append(1, 7)]), done(&[append(1, 8)]), done(&[read(1, &[7, 8])]), done(&[read(1, &[8, 7])])],
        ),
        (
            AnomalyKind::Torn,
            vec![done(&[append(1, 7), append(1, 8)]), done(&[append(1, 9)]), done(&[read(1, &[7, 9, 8])])],
        ),
    ];
    for (kind, history) in cases {
        assert_eq!(found(&history), Some(kind), "{history:?}");
    }
}

#[test]
fn circles_have_their_names() {
    // Two lists that were appended to in opposite orders.
    let both = [done(&[append(1, 1), append(2, 1)]), done(&[append(1, 2), append(2, 2)])];
    let opposite = [done(&[read(1, &[1, 2])]), done(&[read(2, &[2, 1])])];
    assert_eq!(found(&[&both[..], &opposite[..]].concat()), Some(AnomalyKind::G0));
    // Each has read what the other has appended.
    let history = [done(&[append(1, 1), read(2, &[1])]), done(&[append(2, 1), read(1, &[1])])];
    assert_eq!(found(&history), Some(AnomalyKind::G1c));
    // Half of a transaction was read.
    let torn = [done(&[append(1, 1), append(2, 1)]), done(&[read(1, &[1]), read(2, &[])])];
    assert_eq!(found(&torn), Some(AnomalyKind::GSingle));
    // Write skew.
    let skew = [
        done(&[read(1, &[]), append(2, 1)]),
        done(&[read(2, &[]), append(1, 1)]),
        done(&[read(1, &[1]), read(2, &[1])]),
    ];
    assert_eq!(found(&skew), Some(AnomalyKind::G2));
    // A long fork: two reads that see two appends in different orders.
    let fork = [
        done(&[append(1, 1)]),
        done(&[append(2, 1)]),
        done(&[read(1, &[1]), read(2, &[])]),
        done(&[read(1, &[]), read(2, &[1])]),
    ];
    assert_eq!(found(&fork), Some(AnomalyKind::G2));
}

#[test]
fn the_order_in_real_time_counts() {
    // A read that does not see what was acknowledged before it began.
    let stale = [at(0, 1, &[append(1, 1)]), at(2, 3, &[read(1, &[])]), at(4, 5, &[read(1, &[1])])];
    assert_eq!(found(&stale), Some(AnomalyKind::GSingleRealTime));
    // One that was acknowledged and that nobody ever sees again: lost.
    let lost = [at(0, 1, &[append(1, 1)]), at(2, 3, &[append(1, 2)]), at(4, 5, &[read(1, &[2])])];
    assert_eq!(found(&lost), Some(AnomalyKind::G0RealTime));
    // Acknowledged one after the other, and there the other way round.
    let turned = [at(0, 1, &[append(1, 1)]), at(2, 3, &[append(1, 2)]), at(4, 5, &[read(1, &[2, 1])])];
    assert_eq!(found(&turned), Some(AnomalyKind::G0RealTime));
    // Of what overlaps, either may be first.
    let beside = [at(0, 9, &[append(1, 1)]), at(2, 3, &[read(1, &[])]), at(4, 5, &[read(1, &[1])])];
    assert_eq!(found(&beside), None);
    let text = check(&stale).expect_err("it is stale").to_string();
    assert!(text.contains("transaction 1 (2, to 3): 1 = []"), "{text}");
}

/// A generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % count
    }
}

/// What a database does that executes one after the other, each within its time. `errors`: in a
/// hundred reads, those that miss the last element of what is there.
fn made_up(random: &mut Random, transactions: u64, keys: u64, errors: u64) -> Vec<Transaction> {
    let mut lists: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut history = Vec::new();
    for number in 0..transactions {
        let middle = 10 * number + 5;
        let outcome = match random.below(10) {
            0 => TransactionOutcome::Unknown,
            1 => TransactionOutcome::Aborted,
            _ => TransactionOutcome::Committed,
        };
        let is_executed =
            outcome == TransactionOutcome::Committed || outcome == TransactionOutcome::Unknown && random.below(2) == 0;
        let mut operations = Vec::new();
        for place in 0..1 + random.below(3) {
            let key = random.below(keys) as i64;
            if random.below(2) == 0 {
                let element = (10 * number + place) as i64;
                operations.push(append(key, element));
                if is_executed {
                    lists.entry(key).or_default().push(element);
                }
            } else if outcome == TransactionOutcome::Committed {
                let mut list = lists.get(&key).cloned().unwrap_or_default();
                if random.below(100) < errors {
                    list.pop();
                }
                operations.push(read(key, &list));
            }
        }
        let began = middle.saturating_sub(random.below(40));
        history.push(Transaction { began, ended: middle + random.below(40), outcome, operations });
    }
    history
}

/// Whether the transactions from some of which are `executed` can be executed in some order.
fn explains(history: &[Transaction], executed: &mut Vec<usize>, lists: &mut BTreeMap<i64, Vec<i64>>) -> bool {
    let committed = |number: &usize| history[*number].outcome == TransactionOutcome::Committed;
    let left: Vec<usize> = (0..history.len()).filter(|number| !executed.contains(number)).collect();
    if !left.iter().any(committed) {
        return true;
    }
    // One that had ended before another began is first.
    let first_end = left.iter().filter(|number| committed(number)).map(|number| history[*number].ended).min();
    for number in left {
        let transaction = &history[number];
        if transaction.outcome == TransactionOutcome::Aborted
            || first_end.is_some_and(|ended| transaction.began > ended)
        {
            continue;
        }
        let before = lists.clone();
        let fits = transaction.operations.iter().all(|operation| match operation {
            Operation::Append { key, element } => {
                lists.entry(*key).or_default().push(*element);
                true
            }
            Operation::Read { key, list } => lists.get(key).map_or(&[][..], Vec::as_slice) == &list[..],
        });
        executed.push(number);
        if fits && explains(history, executed, lists) {
            return true;
        }
        executed.pop();
        *lists = before;
    }
    false
}

#[test]
fn it_rejects_what_no_order_explains_and_nothing_else() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 1..1_500 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let history = made_up(&mut random, 6, 2, if seed % 2 == 0 { 25 } else { 0 });
        let expected = explains(&history, &mut Vec::new(), &mut BTreeMap::new());
        let found = check(&history);
        assert_eq!(found.is_ok(), expected, "seed {seed}: {found:?} {history:#?}");
        if expected { right += 1 } else { wrong += 1 }
    }
    assert!(right > 500 && wrong > 200, "{right} and {wrong}");
}

#[test]
fn long_histories_are_checked_fast_enough_to_be_checked() {
    let mut random = Random(77);
    let mut history = made_up(&mut random, 20_000, 1_000, 0);
    check(&history).expect("nothing is wrong");
    // One read among them is stale.
    let stale = history.iter_mut().rev().flat_map(|transaction| &mut transaction.operations).find_map(|operation| {
        match operation {
            Operation::Read { list, .. } if list.len() > 6 => list.pop(),
            _ => None,
        }
    });
    assert!(stale.is_some() && check(&history).is_err());
}
