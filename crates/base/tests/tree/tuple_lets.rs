//! A statement does one thing: `let (a, b) = (x, y);` is two statements in one, which defeats
//! reading and diffs. What is left of them is counted by crate, and only shrinks.

use crate::production;
use std::collections::BTreeMap;

const LEFT: &[(&str, usize)] = &[
    ("bench", 1),
    ("client", 4),
    ("exec", 3),
    ("expr", 2),
    ("io", 1),
    ("log", 2),
    ("meta", 3),
    ("node", 4),
    ("partition", 3),
    ("peer", 1),
    ("replica", 6),
    ("sim", 4),
    ("snapshot", 2),
    ("sql", 10),
    ("table", 2),
    ("torture", 1),
    ("value", 1),
];

/// Whether a line begins a statement of several in one.
fn is_several(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("let (") else { return false };
    rest.split_once('=').is_some_and(|(pattern, value)| {
        pattern.contains(',') && !pattern.contains('|') && value.trim_start().starts_with('(')
    })
}

#[test]
fn statements_do_one_thing() {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for source in production::sources() {
        let count = source.code.lines().filter(|line| is_several(line)).count();
        *counted.entry(source.crate_name().to_owned()).or_default() += count;
    }
    counted.retain(|_, count| *count > 0);
    let listed: BTreeMap<String, usize> = LEFT.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(
        counted, listed,
        "left: what is there; right: the list. More of them: write two statements. Fewer: lower the list"
    );
}

#[test]
fn tuples_of_one_value_are_no_such_statements() {
    assert!(is_several("    let (a, mut b) = (1, 2);"));
    assert!(is_several("let (a, b): (u8, u8) = ("));
    assert!(!is_several("let (a, b) = pair();"));
    assert!(!is_several("let a = (1, 2);"));
}
